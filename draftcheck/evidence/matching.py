"""Whether a published name means the model that is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from draftcheck.models import bases, names
from draftcheck.values.facts import ModelFacts

Match = Literal["id", "name", "base model"]
"""The same id; a name of the same stem; the model that the one asked for says it is packed from."""
SNAPSHOT = r"models--([\w.-]+?)--([\w.-]+?)[/\\]snapshots[/\\][0-9a-f]{40}[/\\]?"
"""A model in the Hub's cache: the name of its last folder is a commit."""


class ModelNames(NamedTuple):
    """What a model is called: an id, a file or a folder; and what it is another packing of."""

    own: str
    packed_from: Sequence[str] = ()

    @classmethod
    def of(cls, facts: ModelFacts) -> ModelNames:
        return cls(plain(facts.called), bases.packed(facts.bases))

    @property
    def stems(self) -> list[str]:
        """What every row that matches has somewhere in it, in small letters."""
        found = dict.fromkeys(_stem(name) for name in (self.own, *self.packed_from))
        return [stem for stem in found if len(stem) >= names.SHORTEST]

    def match(self, row: str) -> Match | None:
        """How a published id means this model."""
        repo = row.partition("@")[0]  # some rows name a revision
        if self.own.lower() == repo.lower():
            return "id"
        stem = _stem(repo)
        if len(stem) < names.SHORTEST:
            return None
        if _stem(self.own) == stem:
            return "name"
        return "base model" if stem in map(_stem, self.packed_from) else None


def plain(ref: str) -> str:
    """A repo without revision and quantisation; of the Hub's cache the repo, not the folder."""
    if "models--" in ref and (snapshot := re.search(SNAPSHOT, ref)) is not None:
        return f"{snapshot[1]}/{snapshot[2]}"
    on_disk = "\\" in ref or ref.startswith(("/", "."))
    return ref if on_disk else ref.partition("@")[0].partition(":")[0]


def _stem(name: str) -> str:
    return names.short(name).lower()
