"""Weight files of a folder: which there are, and what the headers of the safe ones list.

A file that the bytes prove broken becomes a fault; one that could not be read is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from draftcheck.errors import ReadError
from draftcheck.models.readers.weights import safetensors_header, shards
from draftcheck.models.readers.weights.safetensors_header import UnsoundSafetensors
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import Fault, Tensor, WeightFacts, WeightFile

PICKLES = re.compile(r"(pytorch_model.*\.bin|.*\.(pt|pth|ckpt|pkl))", re.DOTALL)
MAX_TENSORS = 1 << 20
FRAME, ROW = 160, 84
"""Bytes of a header around its rows, and of a row besides the tensor's name; rather too many."""
HEADER = 40 * 1024
"""Bytes of a header of which nothing is known: 97 of 100 models have less than 100 kB."""
EMBEDDINGS = (
    "model.embed_tokens.weight",
    "model.language_model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "embed_tokens.weight",
    "transformer.wte.weight",
    "wte.weight",
    "model.decoder.embed_tokens.weight",
    "gpt_neox.embed_in.weight",
    "transformer.word_embeddings.weight",
    "model.tok_embeddings.weight",
    "backbone.embeddings.weight",
    "backbone.embedding.weight",
)


def read(source: ModelSource) -> WeightFacts:
    """Headers of every shard; pickles are named, never opened."""
    names = sorted(source.files())
    choice = shards.choose(source, names)
    files = [_file(source, name) for name in names if _format(name) is not None]
    if not choice.names:
        pickles = [file.name for file in files if file.format == "pickle"]
        faults = choice.faults + tuple(shards.pickle_faults(source, pickles))
        looked_at = bool(faults or pickles)
        return WeightFacts(
            files=tuple(files),
            problems=_unsafe(files),
            faults=faults if looked_at else None,
            origin={"files": "listing"},
        )
    found = _Found()
    source.expect(_guesses(choice))
    for name in choice.names:
        found.add(source, name)
    faults = choice.faults + tuple(found.faults)
    if not found.unread and not any(fault.kind == "span" for fault in faults):
        faults += tuple(shards.against_index(choice, found.tensors, found.twice))
    tensors = found.tensors if found.tensors or not found.unread else None
    partial = ("missing-shard", "span")
    whole = not found.unread and not any(fault.kind in partial for fault in faults)
    files = [WeightFile(f.name, f.size, f.format, found.counts.get(f.name)) for f in files]
    return WeightFacts(
        files=tuple(files),
        tensors=tensors,
        nbytes=sum(t.nbytes or 0 for t in found.tensors.values()) if whole else None,
        embedding_rows=embedding_rows(found.tensors),
        faults=faults,
        origin={
            "*": "safetensors headers",
            "embedding_rows": _embedding(found.tensors) or "",
            **({"format": found.format} if found.format else {}),
        },
    )


class _Found:
    """The tensors of the shards so far, and the shards that could not be parsed."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}
        self.twice: dict[str, tuple[str, ...]] = {}
        self.faults: list[Fault] = []
        self.unread: list[str] = []
        self.format = ""

    def add(self, source: ModelSource, name: str) -> None:
        try:
            header = safetensors_header.read(source, name)
            source.vouch(name)
            tensors: Mapping[str, Tensor] = header.tensors
            self.format = self.format or header.metadata.get("format", "")[:20]
        except UnsoundSafetensors as error:
            self.faults.append(Fault(error.kind, name, error.says, error.tensor))
            if error.tensors is None:
                self.unread.append(name)
                return
            tensors = error.tensors
        self.counts[name] = len(tensors)
        if not self.tensors.keys().isdisjoint(tensors):
            self._doubled(name, tensors)
        self.tensors.update(tensors)
        if len(self.tensors) > MAX_TENSORS:
            raise ReadError(f"{source.label}/{name}: more than {MAX_TENSORS:,} tensors up to here")

    def _doubled(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        for tensor in self.tensors.keys() & tensors.keys():
            old, new = self.tensors[tensor], tensors[tensor]
            self.twice[tensor] = (*self.twice.get(tensor, (old.file,)), name)
            same = (old.dtype, old.shape) == (new.dtype, new.shape)
            says = f"tensor {tensor[:120]!r} is in {old.file} too"
            if not same:
                says += f", as {_kind(old)} there and {_kind(new)} here"
            if sum(fault.file == name for fault in self.faults) < 20:
                self.faults.append(Fault("twice" if same else "two-kinds", name, says, tensor))


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype} [{', '.join(map(str, tensor.shape[:8]))}]"


def embedding_rows(tensors: dict[str, Tensor]) -> int | None:
    name = _embedding(tensors)
    shape = tensors[name].shape if name else ()
    return shape[0] if len(shape) == 2 else None


def _embedding(tensors: dict[str, Tensor]) -> str | None:
    return next((name for name in EMBEDDINGS if name in tensors), None)


def listed(source: ModelSource, names: tuple[str, ...]) -> WeightFacts:
    """What the listing alone says."""
    forms = {name: "gguf" if name.endswith(".gguf") else _format(name) for name in sorted(names)}
    sizes = source.files()
    files = tuple(WeightFile(n, sizes[n], form) for n, form in forms.items() if form and n in sizes)
    return WeightFacts(files=files, origin={"files": "listing"})


def _guesses(choice: shards.ShardChoice) -> dict[str, int]:
    """With each shard, how many bytes its header will have, about."""
    if choice.index is None:
        return dict.fromkeys(choice.names, HEADER)
    sizes = dict.fromkeys(choice.names, FRAME)
    for tensor, file in choice.index.items():
        if file in sizes:
            sizes[file] += len(tensor) + ROW
    return sizes


def _format(name: str) -> str | None:
    if name.endswith(".safetensors"):
        return "safetensors"
    if PICKLES.fullmatch(name):
        return "pickle"
    if name.endswith((".h5", ".msgpack", ".onnx")):
        return "other"
    return None


def _file(source: ModelSource, name: str) -> WeightFile:
    return WeightFile(name, source.files()[name], _format(name) or "other")


def _unsafe(files: list[WeightFile]) -> tuple[str, ...]:
    pickles = [file.name for file in files if file.format == "pickle"]
    if not pickles:
        return ()
    return (f"only pickled weights ({', '.join(pickles[:3])}), which are never opened",)
