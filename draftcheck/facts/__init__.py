"""Bytes -> facts: what the files of one model say, without opinion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from draftcheck.errors import ReadError, UsageError
from draftcheck.facts import (
    config,
    conversion,
    gguf,
    heads,
    parameters,
    saved,
    tokenizer,
    weights,
)
from draftcheck.refs import ModelRef
from draftcheck.sources.folder import FolderSource
from draftcheck.types import ModelFacts


def read(ref: ModelRef) -> ModelFacts:
    """Read everything that a static verdict needs."""
    if ref.kind == "facts":
        return saved.load(ref.path, ref.text)
    if ref.kind == "gguf":
        return _read_gguf(ref.path, ref.text, named=True)
    return _read_folder(ref.path, ref.text)


def read_all(*refs: ModelRef) -> tuple[ModelFacts, ...]:
    """Read several models; the same path is read once."""
    done: dict[str, ModelFacts] = {}
    found = []
    for ref in refs:
        key = f"{ref.kind}:{ref.path}"
        if key not in done:
            done[key] = read(ref)
        found.append(done[key])
    return tuple(found)


def _read_gguf(path: Path, text: str, *, named: bool) -> ModelFacts:
    source = FolderSource(path.parent, only=gguf.parts(path.name), named=named)
    return gguf.read(source, path.name, text)


def _read_folder(path: Path, text: str) -> ModelFacts:
    source = FolderSource(path)
    if not source.files():
        raise ReadError(f"{text}: an empty folder")
    ggufs = sorted(name for name in source.files() if name.endswith(".gguf"))
    if ggufs and "config.json" not in source.files():
        return _read_only_gguf(path, text, ggufs)
    facts, raw = config.read(source)
    facts = heads.layer_config(facts, raw, f"{text}/config.json")
    files = tokenizer.read(source)
    weight = weights.read(source)
    weight = replace(weight, parameters=parameters.count(weight.tensors, facts.quantization))
    notes = list(weight.problems)
    if files.facts.tokens is None:
        notes.append(f"{text}: no tokenizer file")
    if facts.model_type is None and not raw:
        notes.append(f"{text}: no config.json")
    if files.facts.tokens is None and not raw and weight.tensors is None:
        raise ReadError(
            f"{text}: no model here (no config.json, tokenizer, safetensors or GGUF file)"
        )
    role = heads.role(facts, raw, weight.tensors)
    return ModelFacts(
        ref=text,
        kind="folder",
        role=role,
        verifier=heads.verifier(raw),
        tokenizer=files.facts,
        config=facts,
        weights=weight,
        conversion=conversion.predict(files, facts, raw),
        head=heads.read(role, facts, raw, weight.tensors, source),
        notes=tuple(notes),
        origin={"*": str(path)},
    )


def _read_only_gguf(path: Path, text: str, names: list[str]) -> ModelFacts:
    """A folder that holds nothing but one GGUF model means that model."""
    firsts = [name for name in names if gguf.SPLIT.fullmatch(name) is None]
    firsts += [name for name in names if "-00001-of-" in name]
    if not firsts:
        raise ReadError(f"{text}: {names[0]} is here, but not the first part of that split GGUF")
    if len(firsts) != 1:
        raise UsageError(
            f"{text}: {len(firsts)} GGUF models in this folder",
            hint=f"Name one: {', '.join(firsts[:8])}",
        )
    return _read_gguf(path / firsts[0], text, named=False)
