"""rules/tables/parameters.toml: which parameters a model class asks for, from its config alone.

Data in, names and shapes out; what a checkpoint stores is not looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from draftcheck.models.readers.jsonfile import integer, text
from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text

Shape = tuple[int, ...] | None
"""None: a parameter whose shape the table does not tell."""
LARGEST = 2**31
MOST = 4096
"""Layers, and experts of a layer."""
MOST_EXPERTS = 100_000
"""Of all layers together."""
BODY = ("model.", "", "model.language_model.", "language_model.model.", "language_model.",
        "model.text_model.", "text_model.", "llm.model.", "thinker.model.",
        "model.language_model.model.")  # fmt: skip
ROOT = "embed_tokens.weight vocab hidden\nnorm.weight hidden"
HEAD = "lm_head.weight vocab hidden"


class Beside(RuleRow, frozen=True):
    """Patterns of names that lie beside the parameters, and of names that mean another layout."""

    ends: Names
    starts: Names


class QuantisedModule(RuleRow, frozen=True):
    """How some methods store a quantised module."""

    methods: Names
    leaf: Text
    needs: Names = ()
    dtypes: Names = ()
    one_of: Names = ()


class Excluded(RuleRow, frozen=True):
    """Where quantisers write down what they left alone."""

    keys: Names
    each: Names
    files: Names


class GgufTensors(RuleRow, frozen=True):
    """Tensors that a GGUF cannot do without: words with | between alternatives."""

    once: Mapping[str, str]
    layer: Mapping[str, str]


class ParameterFamily(RuleRow, frozen=True):
    """Model classes that ask for the same parameters; the file's head explains the fields."""

    types: Names
    classes: Names
    layer: tuple[str | Names, ...]
    root: str = ROOT
    head: str = HEAD
    stack: str = "layers"
    prefixes: Names = BODY
    sizes: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}
    always: Names = ()
    absent: Mapping[str, int | bool | str] = {}
    when: Mapping[str, int | bool | str] = {}
    decline: Names = ()
    sparse: Literal["all", "step", "after"] | None = None


class ParameterFile(RuleRow, frozen=True):
    """rules/tables/parameters.toml."""

    source: Text
    sizes: Mapping[str, str]
    beside: Beside
    quantised: tuple[QuantisedModule, ...]
    excluded: Excluded
    gguf: GgufTensors
    part: Mapping[str, Text]
    family: tuple[ParameterFamily, ...]

    def __post_init__(self) -> None:
        for row in self.family:
            for entry in row.layer:
                for name in (entry,) if isinstance(entry, str) else entry:
                    if "\n" not in name and name not in self.part:
                        raise ValueError(f"[[family]] {row.types[0]}: there is no part {name!r}")


@dataclass(frozen=True, slots=True)
class ParameterPattern:
    """One kind of parameter: its name is before + number of the expert + after, or before alone."""

    before: str
    after: str | None
    shape: Shape


@dataclass(frozen=True, slots=True)
class ExpectedParameters:
    """What one config asks for."""

    type: str
    classes: tuple[str, ...]
    prefixes: tuple[str, ...]
    stack: str
    root: tuple[ParameterPattern, ...]
    head: tuple[ParameterPattern, ...]
    tied: bool
    layers: int
    experts: int
    groups: tuple[tuple[tuple[ParameterPattern, ...], ...], ...]
    """For dense layers: groups of alternatives, each a list of lines."""
    sparse_groups: tuple[tuple[tuple[ParameterPattern, ...], ...], ...]
    sparse: frozenset[int]
    vocab: int
    hidden: int

    def of_layer(self, number: int) -> tuple[tuple[tuple[ParameterPattern, ...], ...], ...]:
        return self.sparse_groups if number in self.sparse else self.groups


@cache
def _families() -> dict[str, ParameterFamily]:
    return {kind: row for row in table().family for kind in row.types}


def table() -> ParameterFile:
    return files.read("tables/parameters", ParameterFile)


def model(part: Mapping[str, Any], whole: Mapping[str, Any]) -> ExpectedParameters | None:
    """What the class of this config asks for; None where the table does not tell."""
    kind = text(part.get("model_type")) or text(whole.get("model_type")) or ""
    row = _families().get(kind)
    if row is None or not _covers(row, part):
        return None
    sizes = _sizes(row, part)
    if sizes is None:
        return None
    flags = {name: bool(_value(row, part, key)) for name, key in row.flags.items()}
    flags |= dict.fromkeys(row.always, True)
    tie = "tie_word_embeddings"
    ties = [place[tie] for place in (part, whole) if isinstance(place.get(tie), bool)]
    sparse = _sparse(row.sparse, part, sizes)
    if sparse is None:
        return None
    try:
        return ExpectedParameters(
            type=kind,
            classes=row.classes,
            prefixes=row.prefixes,
            stack=row.stack,
            root=_lines(row.root, sizes, flags),
            head=_lines(row.head, sizes, flags),
            tied=bool(ties[0] if ties else row.absent.get(tie, False)),
            layers=sizes["layers"],
            experts=sizes.get("experts", 0),
            groups=_groups(row, sizes, flags),
            sparse_groups=_groups(row, sizes, {**flags, "sparse": True}) if sparse else (),
            sparse=sparse,
            vocab=sizes["vocab"],
            hidden=sizes["hidden"],
        )
    except KeyError:  # a size that this config does not state
        return None


def _value(row: ParameterFamily, part: Mapping[str, Any], key: str) -> Any:
    """A config value; an absent or null one as the class fills it in."""
    found = part.get(key)
    return row.absent.get(key) if found is None else found


def _covers(row: ParameterFamily, part: Mapping[str, Any]) -> bool:
    for key, wanted in row.when.items():
        if _value(row, part, key) != wanted:
            return False
    for key in row.decline:
        outer, _, inner = key.partition(".")
        found = part.get(outer)
        if inner:
            found = found.get(inner) if isinstance(found, dict) else None
        if found:
            return False
    return True


def _sizes(row: ParameterFamily, part: Mapping[str, Any]) -> dict[str, int] | None:
    sizes: dict[str, int] = {}
    later: dict[str, str] = {}
    for name, keys in {**table().sizes, **row.sizes}.items():
        values = [_value(row, part, key) for key in keys.split()]
        value = next((value for value in values if value is not None), None)
        if isinstance(value, str) and value == row.absent.get(keys.split()[0]):
            later[name] = value
        elif value is not None:
            number = integer(value)
            if number is None or number >= LARGEST:
                return None
            sizes[name] = number
        elif name == "kv_heads" and "num_key_value_heads" in part:
            later[name] = "heads"  # an explicit null
    try:
        for name, words in later.items():
            sizes[name] = size_of(words, sizes)
    except KeyError:
        return None
    if "head_dim" not in sizes and sizes.get("heads"):
        sizes["head_dim"] = sizes.get("hidden", 0) // sizes["heads"]
    plain = all(sizes.get(name, 0) > 0 for name in ("vocab", "hidden", "layers"))
    small = sizes.get("layers", 0) <= MOST and sizes.get("experts", 0) <= MOST
    small = small and sizes.get("layers", 0) * sizes.get("experts", 0) <= MOST_EXPERTS
    return sizes if plain and small else None


def _sparse(
    rule: str | None, part: Mapping[str, Any], sizes: Mapping[str, int]
) -> frozenset[int] | None:
    """Numbers of the layers that have experts; None where the config cannot be followed."""
    layers = range(sizes["layers"])
    if rule is None:
        return frozenset()
    if rule == "all":
        return frozenset(layers)
    if rule == "after":
        return frozenset(layers[sizes.get("first_dense", 0) :])
    step = part.get("decoder_sparse_step", 1)
    dense = part.get("mlp_only_layers") or []
    if not integer(step) or not isinstance(dense, list) or not sizes.get("experts"):
        return None
    plain = {number for number in dense if type(number) is int}
    return frozenset(n for n in layers if n not in plain and (n + 1) % step == 0)


def _groups(
    row: ParameterFamily, sizes: Mapping[str, int], flags: Mapping[str, bool]
) -> tuple[tuple[tuple[ParameterPattern, ...], ...], ...]:
    groups = []
    for entry in row.layer:
        names = (entry,) if isinstance(entry, str) else entry
        choices = [name if "\n" in name else table().part[name] for name in names]
        lines = tuple(_lines(choice, sizes, flags) for choice in choices)
        if any(lines):
            groups.append(lines)
    return tuple(groups)


def _lines(
    words: str, sizes: Mapping[str, int], flags: Mapping[str, bool]
) -> tuple[ParameterPattern, ...]:
    found = []
    for row in words.strip().splitlines():
        name, *rest = row.split()
        if not all(condition_holds(word[1:], sizes, flags) for word in rest if word[0] == "?"):
            continue
        sides = [word for word in rest if word[0] != "?"]
        shape = tuple(size_of(side, sizes) for side in sides) if sides else None
        before, mark, after = name.partition("{e}")
        found.append(ParameterPattern(before, after if mark else None, shape))
    return tuple(found)


def condition_holds(word: str, sizes: Mapping[str, int], flags: Mapping[str, bool]) -> bool:
    """flag, !flag, size!=size: what stands behind the ? of a line."""
    if "!=" in word:
        one, _, other = word.partition("!=")
        return sizes[one] != sizes[other]
    if word.startswith("!"):
        return not flags.get(word[1:], False)
    return flags.get(word, False)


def size_of(words: str, sizes: Mapping[str, int]) -> int:
    """heads*head_dim+2*kv_heads: sums of products of sizes and numbers, nothing else."""
    total = 0
    for term in words.split("+"):
        product = 1
        for factor in term.split("*"):
            product *= int(factor) if factor.isdigit() else sizes[factor]
        total += product
    return total


@cache
def beside() -> re.Pattern[str]:
    """Ends of names that no class asks for or misses."""
    return re.compile(f"(?:{'|'.join(table().beside.ends)})$")


@cache
def elsewhere() -> re.Pattern[str]:
    """Starts of names that mean another way to store the model."""
    return re.compile("|".join(table().beside.starts))
