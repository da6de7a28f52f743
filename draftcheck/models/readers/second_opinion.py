"""The headers of local weight files by the libraries that own the formats, held against ours.

draftcheck reads the headers of safetensors and GGUF files itself (hostile input, and a hundred
times faster). With --deep each local file is also opened by safetensors or gguf: they list names,
types and shapes, and no tensor data. Where they see something else, a note says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from draftcheck.models import limited
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import ModelFacts, Tensor

SECONDS = 120
MOST_FILES = 512
SAFETENSORS = """
from safetensors import safe_open
try:
    with safe_open(sys.argv[3], framework="np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}
        found = {name: [part.get_dtype(), part.get_shape()] for name, part in slices.items()}
    print(json.dumps({"tensors": found}))
except Exception as error:
    print(json.dumps({"refused": f"{type(error).__name__}: {error}"}))
"""
GGUF = """
from gguf import GGUFReader
try:
    file = GGUFReader(sys.argv[3])
    shapes = {t.name: [int(side) for side in reversed(t.shape)] for t in file.tensors}
    found = {t.name: [t.tensor_type.name, shapes[t.name]] for t in file.tensors}
    print(json.dumps({"tensors": found, "keys": list(file.fields)}))
except Exception as error:
    print(json.dumps({"refused": f"{type(error).__name__}: {error}"}))
"""
LIBRARIES = {".safetensors": ("safetensors", SAFETENSORS), ".gguf": ("gguf", GGUF)}
Listed = Mapping[str, tuple[str, tuple[int, ...]]]
"""Tensor name -> type and shape."""


def notes(facts: ModelFacts, source: ModelSource) -> Iterator[str]:
    """A note for each file that its library sees otherwise."""
    missing = set()
    by_file: dict[str, dict[str, Tensor]] = {}
    for name, tensor in (facts.weights.tensors or {}).items():
        by_file.setdefault(tensor.file, {})[name] = tensor
    for file in sorted(by_file)[:MOST_FILES]:
        path = source.path(file)
        library, code = LIBRARIES.get(Path(file).suffix, ("", ""))
        if path is None or not library:
            continue
        if find_spec(library) is None:
            missing.add(library)
            continue
        size = source.files().get(file, 0)
        answer = limited.run(code, path, seconds=SECONDS, memory=limited.MEMORY + 2 * size)
        ours = {name: (t.dtype, t.shape) for name, t in by_file[file].items()}
        if difference := _difference(answer, ours, facts, library):
            yield f"{source.called(file)}: {difference}"
    for library in sorted(missing):
        yield f"no second opinion: {library} is not installed (pip install 'draftcheck-llm[deep]')"


def _difference(answer: Any, ours: Listed, facts: ModelFacts, library: str) -> str | None:
    """What the library sees otherwise, in one line."""
    if not isinstance(answer, dict):
        return f"no second opinion: {library} did not come to an end"
    if "refused" in answer:
        return f"{library} refuses it: {' '.join(str(answer['refused']).split())[:200]}"
    theirs = {name: (kind, tuple(shape)) for name, (kind, shape) in answer["tensors"].items()}
    for name in sorted(ours.keys() ^ theirs.keys()):
        who = "draftcheck" if name in ours else library
        return f"only {who} sees tensor {name[:120]!r}"
    for name, (kind, shape) in ours.items():
        if theirs[name] != (kind, shape):
            other, sides = theirs[name]
            return (
                f"tensor {name[:120]!r} is {kind} {list(shape)},"
                f" for {library} it is {other} {list(sides)}"
            )
    keys = {key for key in answer.get("keys", ()) if not key.startswith("GGUF.")}
    if facts.gguf and facts.gguf.splits == 1 and (odd := sorted(keys ^ facts.gguf.keys.keys())):
        who = "draftcheck" if odd[0] in facts.gguf.keys else library
        return f"only {who} sees key {odd[0][:120]!r}"
    return None
