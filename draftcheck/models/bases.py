"""What a model says it was made from: tags of the Hub, a card's header, keys of a GGUF file.

Whoever publishes it says so: a statement, not a proof.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from draftcheck.models import names

QUANTISED = "quantized"
"""The Hub's word for another packing of the same model; others: finetune, adapter, merge."""
RELATIONS = ("adapter", "finetune", "merge", QUANTISED)
REPO = r"(?a:[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95})"
"""A text: few models get so far that it is compiled."""
MOST = 8
CARD = "README.md"
LONGEST_HEADER = 64 << 10
TAG = "base_model:"
FENCE = rb"(?sm)\A---[ \t]*\r?\n(.*?)^---[ \t]*$"
SAYS_HOW = b"base_model_relation"


def from_tags(tags: Any) -> dict[str, str]:
    """Of `base_model:quantized:org/name`: the repo -> its relation; nothing where none is said."""
    found: dict[str, str] = {}
    for tag in tags if isinstance(tags, list | tuple) else ():
        if not isinstance(tag, str) or not tag.startswith(TAG):
            continue
        relation, _, repo = tag.removeprefix(TAG).rpartition(":")
        if re.fullmatch(REPO, repo) and (relation in RELATIONS or repo not in found):
            found[repo] = relation if relation in RELATIONS else ""
    return dict(list(found.items())[:MOST])


def from_card(data: bytes) -> dict[str, str]:
    """Of README.md; a card that does not say how tells nothing that a name does not."""
    header = re.match(FENCE, data) if SAYS_HOW in data else None
    if header is None:
        return {}
    import yaml  # few cards get so far

    try:
        said = yaml.safe_load(header[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    named, relation = said.get("base_model"), said.get("base_model_relation")
    return from_tags([f"{TAG}{relation}:{repo}" for repo in _listed(named)])


def from_keys(keys: Mapping[str, tuple[str, Any]]) -> dict[str, str]:
    """Of general.base_model.N.repo_url; a packing of it where the file has the base's name.

    Converters copy the card of what they convert, and that names what the model was tuned from.
    """
    found: dict[str, str] = {}
    own = _plain(text(keys, "general.name"))
    for number in range(MOST):
        url = text(keys, f"general.base_model.{number}.repo_url")
        repo = "/".join(url.rstrip("/").split("/")[-2:])
        if re.fullmatch(REPO, repo):
            found[repo] = QUANTISED if own and own == _plain(names.short(repo)) else ""
    return found


def packed(bases: Mapping[str, str]) -> tuple[str, ...]:
    """Those of which it is another packing."""
    return tuple(repo for repo, relation in bases.items() if relation == QUANTISED)


def _listed(value: Any) -> Iterable[str]:
    rows = value if isinstance(value, list) else [value]
    return [row for row in rows[:MOST] if isinstance(row, str)]


def text(keys: Mapping[str, tuple[str, Any]], name: str) -> str:
    """A text of a GGUF file; nothing where there is none."""
    _, value = keys.get(name, ("", ""))
    found = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return found[:400] if isinstance(found, str) else ""


def _plain(name: str) -> str:
    """Qwen3 8B and qwen3-8b alike."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")
