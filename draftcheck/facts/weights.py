"""Weight files of a folder: which there are, and what the headers of the safe ones list."""

from __future__ import annotations

import re

from draftcheck.errors import ReadError
from draftcheck.facts import safetensors_header
from draftcheck.facts.jsonfile import read_object
from draftcheck.sources import Source
from draftcheck.types import Tensor, WeightFacts, WeightFile

INDEX = "model.safetensors.index.json"
PICKLES = re.compile(r"(pytorch_model.*\.bin|.*\.(pt|pth|ckpt|pkl))", re.DOTALL)
MAX_INDEX = 32 * 1024 * 1024
MAX_SHARDS = 2000
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


def read(source: Source) -> WeightFacts:
    """Headers of every shard; pickles are named, never opened."""
    names = sorted(source.files())
    shards = _shards(source, names)
    files = [_file(source, name) for name in names if _format(name) is not None]
    if not shards:
        return WeightFacts(files=tuple(files), problems=_unsafe(files), origin={"files": "listing"})
    tensors: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    source.expect({name: guess for name, guess in shards.items() if guess})
    for name in shards:
        found = safetensors_header.read(source, name)
        source.vouch(name)
        counts[name] = len(found)
        tensors.update(found)
        if len(tensors) > MAX_TENSORS:
            raise ReadError(f"{source.label}/{name}: more than {MAX_TENSORS:,} tensors up to here")
    files = [WeightFile(file.name, file.size, file.format, counts.get(file.name)) for file in files]
    return WeightFacts(
        files=tuple(files),
        tensors=tensors,
        nbytes=sum(tensor.nbytes or 0 for tensor in tensors.values()),
        embedding_rows=embedding_rows(tensors),
        origin={"*": "safetensors headers", "embedding_rows": _embedding(tensors) or ""},
    )


def embedding_rows(tensors: dict[str, Tensor]) -> int | None:
    name = _embedding(tensors)
    shape = tensors[name].shape if name else ()
    return shape[0] if len(shape) == 2 else None


def _embedding(tensors: dict[str, Tensor]) -> str | None:
    return next((name for name in EMBEDDINGS if name in tensors), None)


def listed(source: Source, names: tuple[str, ...]) -> WeightFacts:
    """What the listing alone says."""
    forms = {name: "gguf" if name.endswith(".gguf") else _format(name) for name in sorted(names)}
    sizes = source.files()
    files = tuple(WeightFile(n, sizes[n], form) for n, form in forms.items() if form and n in sizes)
    return WeightFacts(files=files, origin={"files": "listing"})


def _shards(source: Source, names: list[str]) -> dict[str, int]:
    """The shards of the index when there is one, else the model's safetensors files.

    With each, how many bytes its header will have, about.
    """
    index = read_object(source, INDEX, MAX_INDEX)
    if index is None:
        plain = [name for name in names if name.endswith(".safetensors")]
        plain = ["model.safetensors"] if "model.safetensors" in plain else plain[:MAX_SHARDS]
        return dict.fromkeys(plain, HEADER)
    where = f"{source.label}/{INDEX}"
    mapping = index.get("weight_map")
    if not isinstance(mapping, dict):
        raise ReadError(f"{where}: has no weight_map")
    wanted: dict[str, int] = {}
    for tensor, file in mapping.items():
        name = str(file)
        wanted[name] = wanted.get(name, FRAME) + len(tensor) + ROW
    if len(wanted) > MAX_SHARDS:
        raise ReadError(f"{where}: names {len(wanted):,} shards")
    for name in sorted(wanted):
        # A name from the index is only ever looked up in the listing, never joined to a path.
        if name not in source.files():
            raise ReadError(f"{where}: names {name[:120]!r}, which is not in the folder")
        if not name.endswith(".safetensors"):
            raise ReadError(f"{where}: names {name[:120]!r}, which is no safetensors file")
    return dict(sorted(wanted.items()))


def _format(name: str) -> str | None:
    if name.endswith(".safetensors"):
        return "safetensors"
    if PICKLES.fullmatch(name):
        return "pickle"
    if name.endswith((".h5", ".msgpack", ".onnx")):
        return "other"
    return None


def _file(source: Source, name: str) -> WeightFile:
    return WeightFile(name, source.files()[name], _format(name) or "other")


def _unsafe(files: list[WeightFile]) -> tuple[str, ...]:
    pickles = [file.name for file in files if file.format == "pickle"]
    if not pickles:
        return ()
    return (f"only pickled weights ({', '.join(pickles[:3])}), which are never opened",)
