"""One build of llama.cpp as the loader's steps see it, and the ways in which a step can stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftcheck.rulebook.tables import (
    KnownNames,
    LlamaArchitectures,
    LlamaConversion,
    LlamaVocabulary,
    NamesByBuild,
)
from draftcheck.values.verdicts import EngineSetup


class LoadFailure(Exception):
    """llama.cpp does not get through loading this file."""

    def __init__(self, code: str, saw: str) -> None:
        super().__init__(saw)
        self.code = code
        self.saw = saw


class NotTold(Exception):
    """The files do not tell what this build would do; the text says which fact is missing."""


Keys = Mapping[str, tuple[str, Any]]


class Build:
    """The tables, the build they are read for, and the failures that it knows."""

    def __init__(self, setup: EngineSetup) -> None:
        self.vocabulary: LlamaVocabulary = setup.tables["llamacpp-vocabulary"]
        self.architectures: LlamaArchitectures = setup.tables["llamacpp-architectures"]
        self.conversion: LlamaConversion = setup.tables["llamacpp-conversion"]
        self.order, self.at = setup.order, setup.order(setup.version)
        self.checked, self.failures = setup.checked, setup.failures

    def has(self, since: str | None, until: str | None = None) -> bool:
        """Whether this build lies in the window."""
        if since is not None and self.at < self.order(since):
            return False
        return until is None or self.at < self.order(until)

    def fail(self, code: str, saw: str) -> None:
        """Stop here, if this build has that failure; older or newer ones may go on."""
        if code in self.failures:
            raise LoadFailure(code, saw)

    def knows(self, name: str, table: KnownNames, what: str) -> bool:
        """Whether a name listed by first builds is known; in doubt between two sources read."""
        for since, names in table.since.items():
            if name in names:
                return self.has(since)
        for absent, names in table.absent.items():
            if name in names and self.at > self.order(absent):
                if self.has(self.checked):
                    return True
                raise NotTold(f"whether this build knows the {what} {name!r}")
        return False

    def before(self, name: str, table: NamesByBuild) -> bool:
        """Whether the name is listed with a first build, and this build is older."""
        return any(name in names and not self.has(since) for since, names in table.items())

    def value(self, keys: Keys, name: str, kind: str) -> Any:
        """A key's value, None when absent; each key may have exactly one type."""
        if name not in keys:
            return None
        stored, value = keys[name]
        if stored != kind:
            self.fail("key-type", f"{name} is stored as {stored}, expected {kind}")
            return None
        return value

    def string(self, keys: Keys, name: str) -> str | None:
        """A string key as the engine sees it: up to the first NUL."""
        raw = self.value(keys, name, "string")
        if raw is None:
            return None
        return bytes(raw).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
