"""One build of llama.cpp as the loader's steps see it, and the ways in which a step can stop.

What is no GGUF file yet goes through its converter first: the architecture, and a head's keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from draftcheck.rulebook.tables import (
    KnownNames,
    LlamaArchitectures,
    LlamaConversion,
    LlamaVocabulary,
    NamesByBuild,
)
from draftcheck.values.facts import ConfigFacts, HeadFacts, ModelFacts
from draftcheck.values.verdicts import EngineSetup

EAGLE3_LAYERS = "eagle_aux_hidden_state_layer_ids"
DSPARK_LAYERS = "aux_hidden_state_layer_ids"
BLOCK_SIZE = 16
"""Written for a DFlash head that states none."""


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
        for window, names in table.since.items():
            since, _, until = window.partition(" ")
            if name in names and self.has(since, until or None):
                return True
        for absent, names in table.absent.items():
            if name in names and self.at > self.order(absent):
                if self.has(self.checked):
                    return True
                raise NotTold(f"whether this build knows the {what} {name!r}")
        return False

    def before(self, name: str, table: NamesByBuild) -> bool:
        """Whether the name is listed with a first build, and this build is older."""
        return any(name in names and not self.has(since) for since, names in table.items())

    def reads(self, key: str) -> bool:
        """Whether this build looks at a key at all."""
        since, _, until = self.vocabulary.keys.windows.get(key, "").partition(" ")
        return self.has(since or None, until or None)

    def value(self, keys: Keys, name: str, kind: str) -> Any:
        """A key's value, None when absent; each key may have exactly one type."""
        if name not in keys or not self.reads(name):
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


def converted_class(facts: ModelFacts, build: Build) -> str | None:
    """The class of config.json that the converter goes by; None where it names none."""
    names, inner = facts.config.architectures, facts.config.text_architectures
    if not names:
        return None
    table, root = build.conversion.classes, names[0]
    if not inner or root in table.root_first or not build.has(table.text_since):
        return root
    listed = any(root in classes for classes in build.conversion.architectures.values())
    since = table.through_text.get(root)
    known = not build.before(root, table.since) if listed else since and build.has(since)
    if not known:
        raise NotTold(f"whether this build's converter takes the text part of class {root!r}")
    return inner[0]


def converted_architecture(facts: ModelFacts, build: Build) -> str | None:
    """The general.architecture that would be written; None where config.json names no class."""
    config, table = facts.config, build.conversion
    if config.architectures and facts.role in table.heads:
        return _head_architecture(facts, config.architectures[0], build)
    called = converted_class(facts, build)
    if called is None:
        return None
    later = {name for names in table.classes.since.values() for name in names}
    later.update(name for names in table.classes.absent.values() for name in names)
    if called in later and not build.knows(called, table.classes, "class"):
        build.fail("not-convertible", f"this build's converter does not know the class {called!r}")
    former = table.formerly.get(called)
    if former is not None and not build.has(former.until):
        return former.name
    for name, classes in table.architectures.items():
        if called in classes:
            return _by_config(name, config, build)
    build.fail("not-convertible", f"the converter does not know the class {called!r}")
    return None


def _by_config(name: str, config: ConfigFacts, build: Build) -> str:
    """The same class writes another architecture for some configs."""
    table = build.conversion
    alone = table.attention_alone.get(name)
    if alone is not None and config.recurrent is None:
        raise NotTold(f"whether this {name} has attention layers alone")
    if alone is not None and config.recurrent is False:
        if not build.has(alone.since):
            raise NotTold(
                f"what this build's converter makes of {name} with attention layers alone"
            )
        return alone.experts if config.experts_used else alone.dense
    if name in table.with_experts and config.experts:
        return table.with_experts[name]
    kind = config.model_type or ""
    return table.text_types.get(f"{name} {kind}", name)


def _head_architecture(facts: ModelFacts, name: str, build: Build) -> str:
    since = build.conversion.heads[facts.role or ""].get(name)
    if since is None:
        build.fail("not-convertible", f"the converter does not know the class {name!r}")
    elif not build.has(since):
        if any(name in names for names in build.conversion.classes.absent.values()):
            build.knows(name, build.conversion.classes, "class")  # stops where nobody knows
        build.fail("not-convertible", f"the converter knows the class {name!r} from {since} on")
    head = facts.head
    if facts.role == "eagle3":
        named = head is None or head.draft_vocab is not None or head.draft_vocab_named
        if head is not None and head.declared is not None and not named:
            build.fail("not-convertible", "no draft_vocab_size: taken for a plain Llama")
        if head is not None and (head.layers or 1) != 1:
            build.fail("not-convertible", f"{head.layers} layers: taken for a plain Llama")
        return "eagle3"
    if facts.role == "dflash" and head is not None and head.form == "speculators":
        build.fail(
            "not-convertible", f"class {name!r} in the speculators format: its layers unseen"
        )
    return "gemma4-assistant" if facts.role == "mtp" else "dflash"


def converted_head(
    facts: HeadFacts, role: str | None, target: ConfigFacts, build: Build
) -> HeadFacts:
    """The head's facts as they stand in the file that this build's converter writes."""
    layers = facts.aux_layers
    if role == "eagle3":
        if layers is None or not reads_layers(facts, build):
            count = target.layers
            layers = None if count is None else (2, count // 2, count - 3)
    elif layers is not None and facts.aux_key != DSPARK_LAYERS:
        # Counted as the inputs of layers: one more than the layer whose output is meant.
        layers = tuple(number + 1 for number in layers)
    changed = replace(facts, aux_layers=layers, aux_count=None if layers is None else len(layers))
    if role == "eagle3":
        changed = replace(changed, target_hidden=facts.target_hidden or target.hidden)
    elif changed.block_size is None:
        changed = replace(changed, block_size=BLOCK_SIZE)
    if facts.declared is None:
        return changed
    fields = ("aux_layers", "target_hidden", "block_size")
    written = {name for name in fields if getattr(changed, name) is not None}
    return replace(changed, declared=tuple(sorted({*facts.declared, *written})))


def reads_layers(facts: HeadFacts, build: Build) -> bool:
    """Whether the converter looks where an EAGLE-3 head lists its layers."""
    if not build.has(build.conversion.eagle3_layers):
        return False
    return facts.aux_place == "root" and facts.aux_key in (EAGLE3_LAYERS, None)
