"""Weight files of a folder: which there are, what the headers of the safe ones list, and where an
index contradicts the folder.

A file that the bytes prove broken becomes a fault; one that could not be read is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from draftcheck.errors import PointerError, ReadError
from draftcheck.models.readers import jsonfile
from draftcheck.models.readers.weights import safetensors_header
from draftcheck.models.readers.weights.safetensors_header import UnsoundSafetensors
from draftcheck.models.readers.weights.soundness import more
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import Fault, Tensor, WeightFacts, WeightFile

PICKLES = re.compile(r"(pytorch_model.*\.bin|.*\.(pt|pth|ckpt|pkl))", re.DOTALL)
MAX_TENSORS = 1 << 20
FRAME, ROW = 160, 84
"""Bytes of a header around its rows, and of a row besides the tensor's name; rather too many."""
HEADER = 40 * 1024
"""Bytes of a header of which nothing is known: 97 of 100 models have less than 100 kB."""
EMBEDDINGS = (
    "model.embed_tokens.weight", "model.language_model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight", "embed_tokens.weight", "transformer.wte.weight",
    "wte.weight", "model.decoder.embed_tokens.weight", "gpt_neox.embed_in.weight",
    "transformer.word_embeddings.weight", "model.tok_embeddings.weight",
    "backbone.embeddings.weight", "backbone.embedding.weight",
)  # fmt: skip
WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
VARIANT_INDEX = re.compile(r"model\.[\w-]+\.safetensors\.index\.json|model\.safetensors\..+\.json")
NUMBERED = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.safetensors", re.DOTALL)
VARIANT = re.compile(r"model\.(?P<variant>[\w-]+)\.safetensors")
PICKLE_INDEX = "pytorch_model.bin.index.json"
PICKLE, PICKLE_SHARD = "pytorch_model.bin", re.compile(r"pytorch_model-\d{5}-of-\d{5}\.bin")
NOT_THE_MODEL = re.compile(
    r"(adapter_|adapters\.|consolidated|optimizer|scheduler|training_|random_states|mmproj|"
    r"mtp[-_.]|lora|embeddings?\.|classifier|value_head).*",
    re.DOTALL,
)
"""What lies beside a model in many folders, or makes one up only where nothing else does."""
UNFINISHED = (".incomplete", ".part", ".crdownload", ".tmp")
POINTER_SIZES = range(110, 160)
MAX_INDEX = 32 * 1024 * 1024
MAX_SHARDS = 2000


def read(source: ModelSource) -> WeightFacts:
    """Headers of every shard; pickles are named, never opened."""
    names = sorted(source.files())
    choice = choose(source, names)
    sizes = source.files()
    files = [WeightFile(n, sizes[n], form) for n in names if (form := _format(n)) is not None]
    if not choice.names:
        pickles = [file.name for file in files if file.format == "pickle"]
        faults = choice.faults + tuple(pickle_faults(source, pickles))
        looked_at = bool(faults or pickles)
        unsafe = f"only pickled weights ({', '.join(pickles[:3])}), which are never opened"
        return WeightFacts(
            files=tuple(files),
            problems=(unsafe,) if pickles else (),
            faults=faults if looked_at else None,
            origin={"files": "listing"},
        )
    found = _Found()
    # With each shard, how many bytes its header will have, about.
    guesses = dict.fromkeys(choice.names, HEADER if choice.index is None else FRAME)
    for tensor, file in (choice.index or {}).items():
        if file in guesses:
            guesses[file] += len(tensor) + ROW
    source.expect(guesses)
    for name in choice.names:
        found.add(source, name)
    faults = choice.faults + tuple(found.faults)
    if any(fault.kind == "no-index" for fault in choice.faults):
        faults += tuple(unindexed_pickles(source))
    if not found.unread and not any(fault.kind == "span" for fault in faults):
        faults += tuple(against_index(choice, found.tensors, found.twice))
    tensors = found.tensors if found.tensors or not found.unread else None
    partial = ("missing-shard", "span")
    whole = not found.unread and not any(fault.kind in partial for fault in faults)
    files = [WeightFile(f.name, f.size, f.format, found.counts.get(f.name)) for f in files]
    embedding = next((name for name in EMBEDDINGS if name in found.tensors), "")
    table = found.tensors[embedding].shape if embedding else ()
    return WeightFacts(
        files=tuple(files),
        tensors=tensors,
        nbytes=sum(t.nbytes or 0 for t in found.tensors.values()) if whole else None,
        embedding_rows=table[0] if len(table) == 2 else None,
        faults=faults,
        origin={
            "*": "safetensors headers",
            "embedding_rows": embedding,
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
            tensors: Mapping[str, Tensor]
            tensors, metadata = safetensors_header.read(source, name)
            source.vouch(name)
            self.format = self.format or metadata.get("format", "")[:20]
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


def listed(source: ModelSource, names: tuple[str, ...]) -> WeightFacts:
    forms = {name: "gguf" if name.endswith(".gguf") else _format(name) for name in sorted(names)}
    sizes = source.files()
    files = tuple(WeightFile(n, sizes[n], form) for n, form in forms.items() if form and n in sizes)
    return WeightFacts(files=files, origin={"files": "listing"})


def _format(name: str) -> str | None:
    if name.endswith(".safetensors"):
        return "safetensors"
    if PICKLES.fullmatch(name):
        return "pickle"
    if name.endswith((".h5", ".msgpack", ".onnx")):
        return "other"
    return None


@dataclass(frozen=True, slots=True)
class ShardChoice:
    """The files of the model that are there, and what the choice itself found out."""

    names: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    index: Mapping[str, str] | None = None
    """Tensor -> file, where an index was believed."""
    index_file: str = INDEX
    total: int | None = None
    """metadata.total_size of the index."""


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """The index's table and total, or what makes it useless."""

    files: Mapping[str, str] = field(default_factory=dict)
    total: int | None = None
    metadata: bool = True
    fault: str = ""


def choose(source: ModelSource, names: Sequence[str]) -> ShardChoice:
    """The shards of the index when there is one, else the model's safetensors files."""
    others = [name for name in names if VARIANT_INDEX.fullmatch(name)]
    if INDEX in names:
        index_file = INDEX
    elif len(others) == 1 and WHOLE not in names:
        index_file = others[0]
    else:
        return _without_index(names)
    index = _index(source, index_file)
    mapping = index.files
    missing = sorted(set(mapping.values()) - set(names))
    if (index.fault or missing) and WHOLE in names:
        says = index.fault or f"names {missing[0][:120]!r}, which is not in the folder"
        words = f"{says}; {WHOLE} is there, and some engines read it without asking the index"
        return ShardChoice((WHOLE,), (Fault("stale-index", index_file, words),))
    if index.fault:
        return ShardChoice((), (Fault("index", index_file, index.fault),))
    none = len(missing) == len(set(mapping.values())) and all(map(NUMBERED.fullmatch, missing))
    if none and (other := _unnamed(names, index_file)):
        return other
    faults = [_missing(name, mapping, names, index_file) for name in missing]
    faults += _left_over(mapping, names, index_file)
    if not index.metadata and WHOLE not in names:
        faults.append(Fault("index-metadata", index_file, "has no object called metadata"))
    present = sorted(set(mapping.values()) - set(missing))
    return ShardChoice(tuple(present), tuple(faults), mapping, index_file, index.total)


def against_index(
    choice: ShardChoice, tensors: Mapping[str, Tensor], where: Mapping[str, tuple[str, ...]]
) -> list[Fault]:
    """Tensors that the index puts elsewhere, or that only one of the two knows.

    where: for tensors that stand in several files, all of them.
    """
    if choice.index is None:
        return []
    faults, gone = [], {fault.file for fault in choice.faults if fault.kind == "missing-shard"}
    wrong, absent = [], []
    for name, file in choice.index.items():
        tensor = tensors.get(name)
        if tensor is None:
            if file not in gone:
                absent.append((name, file))
        elif tensor.file != file and file not in where.get(name, ()):
            wrong.append((name, file, tensor.file))
    if wrong:
        name, file, real = wrong[0]
        says = f"tensor {name[:120]!r} is in {real}, the index says {file}{more(wrong)}"
        faults.append(Fault("wrong-shard", choice.index_file, says, name))
    for name, file in absent[:20]:
        says = f"the index promises tensor {name[:120]!r} in {file}; no file has it{more(absent)}"
        faults.append(Fault("not-stored", choice.index_file, says, name))
    unlisted = sorted(tensors.keys() - choice.index.keys())
    if unlisted:
        says = f"tensor {unlisted[0][:120]!r} is stored, but not in the index{more(unlisted)}"
        faults.append(Fault("unlisted", choice.index_file, says, unlisted[0]))
    stored = sum(tensor.nbytes or 0 for tensor in tensors.values())
    if choice.total is not None and choice.total != stored and not gone:
        says = f"metadata.total_size is {choice.total:,}, the tensors take {stored:,} bytes"
        faults.append(Fault("total-size", choice.index_file, says))
    return faults


def pickle_faults(source: ModelSource, pickles: Sequence[str]) -> list[Fault]:
    """The same for a model of pickles, by names and sizes alone: they are never opened."""
    faults = []
    for name in pickles:
        size = source.files()[name]
        if size in POINTER_SIZES:
            says = f"{size} bytes: the size of a git-lfs pointer, not of weights"
            faults.append(Fault("pointer", name, says))
    faults += unindexed_pickles(source)
    index = _index(source, PICKLE_INDEX, ".bin")
    lost = sorted(set(index.files.values()) - set(source.files()))
    names = tuple(source.files())
    return faults + [_missing(name, index.files, names, PICKLE_INDEX) for name in lost]


def unindexed_pickles(source: ModelSource) -> list[Fault]:
    names = sorted(source.files())
    shards = [name for name in names if PICKLE_SHARD.fullmatch(name)]
    if not shards or PICKLE in names or PICKLE_INDEX in names:
        return []
    return [Fault("no-index", shards[0], f"one of {len(shards)} shards, and there is no index")]


def _index(source: ModelSource, name: str, suffix: str = ".safetensors") -> ShardIndex:
    if name not in source.files():
        return ShardIndex(fault="is not there")
    where = f"{source.label}/{name}"
    try:
        data = source.read(name, MAX_INDEX)
    except PointerError:
        return ShardIndex(fault="a git-lfs pointer, not the index")
    try:
        root = jsonfile.shallow_object(jsonfile.parse(data, where), where)
    except ReadError as error:
        return ShardIndex(fault=error.message.removeprefix(f"{where}: "))
    mapping = root.get("weight_map")
    if not isinstance(mapping, dict):
        return ShardIndex(fault="has no weight_map")
    if not all(type(file) is str for file in mapping.values()):
        mapping = {name: str(file) for name, file in mapping.items()}
    wanted = set(mapping.values())
    if len(wanted) > MAX_SHARDS:
        raise ReadError(f"{where}: names {len(wanted):,} shards")
    for file in sorted(wanted):
        # A name from the index is only ever looked up in the listing, never joined to a path.
        if file in source.files() and not file.endswith(suffix):
            return ShardIndex(fault=f"names {file[:120]!r}, which is no {suffix[1:]} file")
    if not mapping:
        return ShardIndex(fault="its weight_map is empty")
    metadata = root.get("metadata")
    if not isinstance(metadata, dict):
        return ShardIndex(mapping, metadata=False)
    # Some write a float, some a text; only a plain number is believed.
    return ShardIndex(mapping, jsonfile.integer(metadata.get("total_size")))


def _missing(name: str, mapping: Mapping[str, str], names: Sequence[str], index: str) -> Fault:
    lost = [tensor for tensor, file in mapping.items() if file == name]
    says = f"{index} names {name[:120]!r}, which is not in the folder"
    if half := next((n for n in names if n.startswith(name) and n.endswith(UNFINISHED)), None):
        says += f" (only {half}, a download that did not finish)"
    first = f", {lost[0][:80]!r} first" if lost else ""
    return Fault("missing-shard", name, f"{says}: {len(lost):,} tensors are missing{first}")


def _left_over(mapping: Mapping[str, str], names: Sequence[str], index: str) -> list[Fault]:
    """Numbered files of the same stem that the index does not name."""
    used = set(mapping.values())
    stems = {match["stem"] for name in used if (match := NUMBERED.fullmatch(name))}
    extra = [
        name
        for name in names
        if name not in used and (match := NUMBERED.fullmatch(name)) and match["stem"] in stems
    ]
    if not extra:
        return []
    return [Fault("extra-shard", extra[0], f"is here, but {index} does not name it{more(extra)}")]


def _unnamed(names: Sequence[str], index_file: str) -> ShardChoice | None:
    """The files that are here, where the index is that of another checkpoint: converters to EXL2
    copy it. A download that did not finish is none."""
    if any(name.endswith(UNFINISHED) for name in names):
        return None
    found = _without_index(names)
    if not found.names or all(NOT_THE_MODEL.fullmatch(name) for name in found.names):
        return None
    says = f"names none of the weight files that are here, {found.names[0]} first"
    lost = tuple(fault for fault in found.faults if fault.kind == "missing-shard")
    return ShardChoice(found.names, (Fault("other-index", index_file, says), *lost))


def _without_index(names: Sequence[str]) -> ShardChoice:
    if WHOLE in names:
        return ShardChoice((WHOLE,))
    plain = [name for name in names if name.endswith(".safetensors") and "/" not in name]
    mine = [name for name in plain if not NOT_THE_MODEL.fullmatch(name)]
    half = [name for name in names if name.startswith("model") and name.endswith(UNFINISHED)]
    if not mine:
        if half:
            says = "a download that did not finish; no other weights are here"
            return ShardChoice((), (Fault("missing-shard", half[0], says),))
        adapters = [name for name in plain if name.startswith("adapter")]
        return ShardChoice(tuple(name for name in plain if name not in adapters)[:MAX_SHARDS])
    variants = [name for name in mine if VARIANT.fullmatch(name)]
    if len(variants) == len(mine):
        return ShardChoice((variants[0],))
    numbered = [match for name in mine if (match := NUMBERED.fullmatch(name))]
    if numbered:
        stem, count = min((m["stem"], m["count"]) for m in numbered)
        return _numbered([m for m in numbered if (m["stem"], m["count"]) == (stem, count)], half)
    return ShardChoice(tuple(mine[:MAX_SHARDS]))


def _numbered(parts: Sequence[re.Match[str]], half: Sequence[str]) -> ShardChoice:
    """Shards that count themselves: the numbers must be complete."""
    stem, count = parts[0]["stem"], int(parts[0]["count"])
    there = {int(part["part"]) for part in parts}
    first = 0 if 0 in there else 1
    lost = [n for n in range(first, first + min(count, MAX_SHARDS)) if n not in there]
    files = tuple(sorted(part.string for part in parts))[:MAX_SHARDS]
    if not lost:
        says = f"one of {len(files)} shards, and there is no index"
        return ShardChoice(files, (Fault("no-index", files[0], says),))
    name = f"{stem}-{lost[0]:05d}-of-{count:05d}.safetensors"
    unfinished = next((file for file in half if file.startswith(name)), None)
    words = f" (only {unfinished}, a download that did not finish)" if unfinished else ""
    says = f"shard {lost[0]} of {count} is not in the folder{words}{more(lost)}"
    return ShardChoice(files, (Fault("missing-shard", name, says),))
