"""Operations that change a GGUF vocabulary, and how a pair of files is made with them.

A mutation is a tuple of operations, each `(name, argument, ...)`. A base is a small vocabulary
made here or a real one from the folder DRAFTCHECK_REALDATA; "a|b" gives the two sides
different bases.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import mutate_bases
from mutate_bases import pre
from mutate_gguf import (
    MERGES,
    SCORES,
    TOKENS,
    TYPES,
    Model,
    array,
    string,
    strings,
    value,
    write_model,
)

Operation = tuple
Mutation = tuple[Operation, ...]
NONE: Mutation = ()


class Case(NamedTuple):
    """One pair: a name, where both sides start, and what is done to each."""

    name: str
    base: str
    target: Mutation
    draft: Mutation


OPERATIONS: dict[str, Callable] = {}


def operation(function: Callable) -> Callable:
    """Make a function usable in a mutation under its own name."""
    OPERATIONS[function.__name__] = function
    return function


@operation
def put(model: Model, name: str, kind: str, content: object) -> None:
    """Set a key; a name without a dot is a tokenizer key."""
    model.kv[name if "." in name else pre(name)] = value(kind, content)


@operation
def drop(model: Model, name: str) -> None:
    """Remove a key."""
    model.kv[name if "." in name else pre(name)] = b""


@operation
def grow(model: Model, count: int) -> None:
    """Add tokens at the end, or remove some if the count is negative."""
    size = len(model.tokens)
    extra = [f"<|added_{size + i}|>".encode() for i in range(count)]
    model.tokens = (model.tokens + extra)[: size + count]
    if model.types is not None:
        model.types = (model.types + [1] * len(extra))[: size + count]
    if model.scores is not None:
        model.scores = (model.scores + [0.0] * len(extra))[: size + count]
    model.blob = None


@operation
def shrink(model: Model, size: int) -> None:
    """Keep the first tokens only."""
    grow(model, size - len(model.tokens))


@operation
def text(model: Model, token: int, content: bytes) -> None:
    """Change the text of a token; a negative id counts from the end."""
    model.set_text(token, content)


@operation
def same(model: Model, token: int, other: int) -> None:
    """Give one token the text of another."""
    model.set_text(token, model.tokens[other])


@operation
def swap(model: Model, one: int, two: int) -> None:
    """Exchange two texts."""
    first, second = model.tokens[one], model.tokens[two]
    model.set_text(one, second)
    model.set_text(two, first)


@operation
def kind_of(model: Model, token: int, kind: int) -> None:
    """Set the type of one token."""
    if model.types is None:
        model.types = [1] * len(model.tokens)
    model.types[token] = kind


@operation
def numbers(model: Model, which: str, kind: str, change: int) -> None:
    """Write token types or scores as this kind of array, that many entries longer or shorter."""
    key, found = (TYPES, model.types) if which == "types" else (SCORES, model.scores)
    entries = list(found or [1] * len(model.tokens))
    entries = (entries + [1] * max(change, 0))[: len(entries) + change]
    if kind == "[str]":
        model.kv[key] = value(kind, [b"1"] * len(entries))
    elif kind in ("[f32]", "[f64]"):
        model.kv[key] = value(kind, [float(entry) for entry in entries])
    elif kind.startswith("["):
        model.kv[key] = value(kind, [max(int(entry), -100) % 100 for entry in entries])
    else:
        model.kv[key] = value(kind, 1)


@operation
def without(model: Model, which: str) -> None:
    """Remove token types, scores, tokens or merges."""
    model.kv[{"types": TYPES, "scores": SCORES, "tokens": TOKENS, "merges": MERGES}[which]] = b""


@operation
def merges(model: Model, *entries: bytes) -> None:
    """Replace the merges."""
    model.kv[MERGES] = array("str", len(entries), strings(entries))


@operation
def body(model: Model, name: str, content: object) -> None:
    """Change a property of the weights."""
    setattr(model.body, name, content)


@operation
def no_tensor(model: Model, name: str) -> None:
    """Leave a tensor out."""
    model.body.drop.add(name)


@operation
def tensor(model: Model, name: str, *shape: int) -> None:
    """Add a tensor."""
    model.body.extra.append((name, shape))


@operation
def no_tensors(model: Model) -> None:
    """Write the metadata only."""
    model.body.drop |= {name for name, _, _ in model.body.tensors(0)}


@operation
def broken(model: Model, name: str, content: object) -> None:
    """Damage the file as such."""
    setattr(model.damage, name, content)


@operation
def raw_key(model: Model, key: bytes, content: bytes) -> None:
    """Add a key and value as bytes, whatever they are."""
    model.damage.raw.append(string(key) + content)


@operation
def split(model: Model, mode: str) -> None:
    """Write two shards."""
    model.split = mode


def build(base: str, mutation: Mutation) -> Model:
    """The mutated model."""
    model = mutate_bases.load(base).copy()
    for name, *arguments in mutation:
        OPERATIONS[name](model, *arguments)
    return model


def bases(case: Case) -> tuple[str, str]:
    """The base of the target and of the draft."""
    target, _, draft = case.base.partition("|")
    return target, draft or target


def available(case: Case) -> bool:
    """Whether the vocabularies of this case are here."""
    return all(mutate_bases.available(base) for base in bases(case))


def write(case: Case, folder: Path) -> tuple[Path, Path]:
    """Write the two files of a case and give their paths."""
    target_base, draft_base = bases(case)
    target = write_model(build(target_base, case.target), folder, "target")
    draft = write_model(build(draft_base, case.draft), folder, "draft")
    return target, draft
