"""A GGUF file, split ones included -> ModelFacts."""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

from draftcheck.errors import ReadError, UsageError
from draftcheck.models import bases
from draftcheck.models.readers import heads
from draftcheck.models.readers.gguf import header as gguf_header
from draftcheck.models.readers.gguf.header import TOKENS, GgufHeader, TensorInfo
from draftcheck.models.readers.weights import families
from draftcheck.models.sources.source import ModelSource
from draftcheck.rulebook import tables
from draftcheck.values.facts import (
    NO_TOKEN,
    ConfigFacts,
    Fault,
    GgufArray,
    GgufFacts,
    ModelFacts,
    Tensor,
    TokenizerFacts,
    WeightFacts,
    WeightFile,
)

SPLIT = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf")
FIRST_READ = 64 * 1024
LATER_READ = 16 * 1024
"""The later parts of a split file have tensors only."""
MAX_HEADER = 128 * 1024 * 1024
UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 2, 3, 4, 5, 6
PADDING = re.compile(rb"\[PAD\d+\]")
KINDS = {
    "llama": "spm-bpe", "gpt2": "byte-bpe", "gemma4": "spm-bpe", "bert": "wordpiece",
    "t5": "unigram", "rwkv": "rwkv", "plamo2": "plamo2", "none": "none", "no_vocab": "none",
}  # fmt: skip
LONGEST_NAME = 64
MOST_LAYERS = 512


def parts(name: str) -> tuple[str, ...]:
    """File names of all parts of a split GGUF; the name itself when it is whole."""
    match = SPLIT.fullmatch(name)
    if match is None:
        return (name,)
    count = int(match["count"])
    if int(match["part"]) != 1:
        first = f"{match['stem']}-00001-of-{match['count']}.gguf"
        raise UsageError(f"{name}: not the first part of a split GGUF", hint=f"Name {first}.")
    if not 1 <= count <= 1000:
        raise ReadError(f"{name}: a split into {count} parts")
    return tuple(f"{match['stem']}-{n:05d}-of-{match['count']}.gguf" for n in range(1, count + 1))


def read(source: ModelSource, name: str, ref: str) -> ModelFacts:
    """Read the headers of all parts; the first one holds the keys."""
    names = parts(name)
    missing = [part for part in names if part not in source.files()]
    if names[0] in missing:
        raise ReadError(f"{ref}: part {missing[0]} of the split GGUF is not there")
    told, names = names, tuple(part for part in names if part not in missing)
    first_reads = {part: LATER_READ if number else FIRST_READ for number, part in enumerate(names)}
    source.expect(first_reads)
    first = _header(source, names[0], FIRST_READ)
    if _split_count(first) <= 1:  # its name alone makes no part of a file
        told, names, missing = names[:1], names[:1], []
    headers = [first, *(_header(source, part, LATER_READ) for part in names[1:])]
    keys = first.keys
    kind, listed = keys.get(TOKENS, ("", None))
    tokens = listed if kind == "array[string]" else None
    tensors, short = _tensors(source, names, headers)
    kept = {key: value for key, value in keys.items() if key != TOKENS}
    if TOKENS in keys:
        many = isinstance(listed, list | array)
        kept[TOKENS] = kind, GgufArray(kind[6:-1], len(listed)) if many else listed
    facts = GgufFacts(
        version=first.version,
        keys=kept,
        data_short_by=short,
        splits=len(told),
        duplicate_key=first.duplicate_key,
        tensor_fault=next(filter(None, map(_tensor_fault, headers)), None),
        offset_fault=next(filter(None, map(_offset_fault, headers)), None),
        unaligned=any(h.tensors and (h.data_start + h.tensors[0].offset) % 32 for h in headers),
        split_fault=f"part {missing[0]} of {len(told)} is not there"
        if missing
        else _split_fault(names, headers),
        part_fault=None if missing else _part_fault(names, headers),
    )
    config = _config(keys, len(tokens) if tokens is not None else None, tensors)
    role = _role(config.model_type, tensors)
    whole = role == heads.FULL and not missing
    nextn = _number(keys, f"{config.model_type}.nextn_predict_layers") or 0
    lost = f"{short:,} bytes of tensor data are missing at the end" if short > 0 else None
    wrong = (lost, facts.tensor_fault, facts.offset_fault, facts.split_fault)
    faults = tuple(Fault("gguf", name, says) for says in wrong if says)  # whatever reads the file
    rows = tensors.get("token_embd.weight")
    if whole and not faults:
        faults = _missing(config, nextn, tensors, name)
    return ModelFacts(
        ref=ref,
        kind="gguf",
        role=role,
        tokenizer=_tokenizer(keys, tokens, name),
        config=config,
        weights=WeightFacts(
            files=tuple(
                WeightFile(part, source.files()[part], "gguf", len(header.tensors))
                for part, header in zip(names, headers, strict=True)
            ),
            tensors=tensors,
            parameters=sum(math.prod(tensor.shape) for tensor in tensors.values()) or None,
            nbytes=sum(tensor.nbytes or 0 for tensor in tensors.values()) or None,
            embedding_rows=rows.shape[0] if rows and len(rows.shape) == 2 else None,
            faults=faults,
            origin={"*": "tensor table", "embedding_rows": "token_embd.weight"},
        ),
        gguf=facts,
        bases=bases.from_keys(keys),
        head=heads.from_gguf(role, config, keys, tensors),
        origin={"*": name},
    )


def _header(source: ModelSource, name: str, first_read: int) -> GgufHeader:
    where = source.called(name)
    size = source.files()[name]
    need = min(first_read, size)
    while True:
        data = source.head(name, need)
        try:
            header = gguf_header.parse(data)
            source.vouch(name)
            return header
        except gguf_header.TruncatedGguf as error:
            if error.need > size or len(data) < need or len(data) >= size:
                raise ReadError(f"{where}: cut off: {error}; the file has {size:,}") from None
            if max(error.need, len(data) + 1) > MAX_HEADER:
                raise ReadError(f"{where}: header of more than {MAX_HEADER:,} bytes") from None
            need = min(gguf_header.guess(error, len(data)), size, MAX_HEADER)
        except gguf_header.BadGguf as error:
            raise ReadError(f"{where}: {error}") from None


def _text(keys: Mapping[str, tuple[str, Any]], name: str) -> str | None:
    kind, value = keys.get(name, ("", None))
    return value.decode("utf-8", "replace") if kind == "string" else None


def _number(keys: Mapping[str, tuple[str, Any]], name: str) -> int | None:
    kind, value = keys.get(name, ("", None))
    if kind.startswith(("uint", "int")):
        return int(value) if value >= 0 else None
    if kind.startswith("array[") and not isinstance(value, GgufArray) and len(value):
        numbers = [entry for entry in value if isinstance(entry, int) and entry >= 0]
        return max(numbers, default=None)  # per-layer values: the widest layer
    return None


def _tokenizer(
    keys: Mapping[str, tuple[str, Any]], tokens: list[bytes | None] | None, file: str
) -> TokenizerFacts:
    types = keys.get("tokenizer.ggml.token_type", ("", None))
    by_type: dict[int, set[int]] = {}
    for i, kind in enumerate(types[1][: len(tokens or ())] if types[0] == "array[int32]" else ()):
        if kind != 1:
            by_type.setdefault(kind, set()).add(i)
    unused = by_type.get(UNUSED, ())
    padding = frozenset(
        i for i in unused if tokens is not None and PADDING.fullmatch(tokens[i] or b"")
    )
    length = None if tokens is None else len(tokens)
    while length and length - 1 in padding:
        length -= 1
    template = keys.get("tokenizer.chat_template", ("", b""))
    merges = keys.get("tokenizer.ggml.merges", ("", None))[1]
    return TokenizerFacts(
        kind=KINDS.get(_text(keys, "tokenizer.ggml.model") or ""),
        pre=_text(keys, "tokenizer.ggml.pre"),
        tokens=tokens,
        padding=padding,
        added=frozenset(by_type.get(USER_DEFINED, ())),
        special=frozenset(by_type.get(CONTROL, ())).union(by_type.get(UNKNOWN, ())),
        byte_tokens=frozenset(by_type.get(BYTE, ())),
        base_size=None,
        length=length,
        bos_id=_stored(keys, "bos_token_id"),
        eos_id=_stored(keys, "eos_token_id"),
        pad_id=_stored(keys, "padding_token_id"),
        unk_id=_stored(keys, "unknown_token_id"),
        add_bos=_stored(keys, "add_bos_token", "bool"),
        add_eos=_stored(keys, "add_eos_token", "bool"),
        chat_template=hashlib.sha256(template[1]).hexdigest() if template[0] == "string" else None,
        thinking_switch=b"enable_thinking" in template[1] if template[0] == "string" else None,
        merges=merges.sha256 if isinstance(merges, GgufArray) else None,
        origin={"*": file},
    )


def _stored(keys: Mapping[str, tuple[str, Any]], name: str, wanted: str = "uint32") -> Any:
    kind, value = keys.get(f"tokenizer.ggml.{name}", ("", None))
    return value if kind == wanted else None


def _config(
    keys: Mapping[str, tuple[str, Any]], n_tokens: int | None, tensors: Mapping[str, Tensor]
) -> ConfigFacts:
    arch = _text(keys, "general.architecture")

    def number(name: str) -> int | None:
        return _number(keys, f"{arch}.{name}")

    heads_ = number("attention.head_count")
    hidden = number("embedding_length")
    scaling = _text(keys, f"{arch}.rope.scaling.type")
    eos = _stored(keys, "eos_token_id")
    totals: Counter[str] = Counter()  # elements of each type: the main one holds most
    for tensor in tensors.values():
        totals[tensor.dtype] += math.prod(tensor.shape)
    return ConfigFacts(
        model_type=arch,
        vocab_size=n_tokens,
        layers=number("block_count"),
        hidden=hidden,
        heads=heads_,
        kv_heads=number("attention.head_count_kv") or heads_,
        head_dim=number("attention.key_length")
        or (hidden // heads_ if hidden and heads_ else None),
        feed_forward=number("feed_forward_length"),
        context=number("context_length"),
        rope_scaling={"type": scaling} if scaling and scaling != "none" else None,
        scaled_context=number("context_length"),
        sliding_window=number("attention.sliding_window"),
        experts=number("expert_count"),
        experts_used=number("expert_used_count"),
        tied=("output.weight" not in tensors) if tensors else None,
        dtype=max(totals, key=totals.__getitem__, default=None),
        bos_token_id=_stored(keys, "bos_token_id"),
        eos_token_ids=None if eos is None or eos == NO_TOKEN else (eos,),
        pad_token_id=_stored(keys, "padding_token_id"),
        positions="learned" if "position_embd.weight" in tensors else "rope" if tensors else None,
        origin={"*": f"{arch}.* keys"},
    )


def _role(arch: str | None, tensors: Mapping[str, Tensor]) -> str | None:
    kinds = tables.llama_architectures().kinds
    if arch == "dflash" and "markov_w1.weight" in tensors:
        return "dspark"
    if arch in kinds.heads:
        return "mtp" if arch == "gemma4-assistant" else arch
    if arch in kinds.no_memory:
        return "encoder"
    if any(map(heads.NEXTN.match, tensors)) and not any(n.startswith("blk.0.") for n in tensors):
        return "mtp"  # only prediction layers, without the model that they belong to
    return heads.FULL if arch else None


def _tensor(info: TensorInfo, file: str) -> Tensor:
    name, block, size = gguf_header.TENSOR_TYPES.get(info.type, (f"type {info.type}", 0, 0))
    count = math.prod(info.dims)
    nbytes = count // block * size if block and count % block == 0 else None
    return Tensor(name, tuple(reversed(info.dims)), file, nbytes)


def _tensors(
    source: ModelSource, names: tuple[str, ...], headers: list[GgufHeader]
) -> tuple[dict[str, Tensor], int]:
    """All tensors, and how many bytes the files lack for them."""
    found: dict[str, Tensor] = {}
    short = 0
    for name, header in zip(names, headers, strict=True):
        size = source.files()[name]
        for info in header.tensors:
            tensor = _tensor(info, name)
            found[info.name] = tensor
            end = header.data_start + info.offset + (tensor.nbytes or 0)
            short = max(short, end - size)
    return found, short


def _split_count(header: GgufHeader) -> int:
    count = header.keys.get("split.count", ("", 0))[1]
    return count if isinstance(count, int) else 0


def _split_fault(names: tuple[str, ...], headers: list[GgufHeader]) -> str | None:
    """The first contradiction between the parts' names and what they say of themselves."""
    count = _split_count(headers[0])
    if count <= 1:
        return None
    own = headers[0].keys.get("split.no", ("", None))
    if own[1] is None:
        return "split.count without split.no"
    if own[1] != 0:
        return f"{names[0]} says that it is part {own[1] + 1}"
    if count != len(names):
        return f"{names[0]} says that there are {count} parts"
    total = headers[0].keys.get("split.tensors.count", ("", None))[1]
    found = sum(len(header.tensors) for header in headers)
    return None if total == found else f"{total} tensors promised, {found} found"


def _part_fault(names: tuple[str, ...], headers: list[GgufHeader]) -> str | None:
    """The first later part whose own number is not its place."""
    for number, header in enumerate(headers[1:], 1):
        said = header.keys.get("split.no", ("", None))[1]
        if said != number:
            return f"{names[number]} says split.no {said}, not {number}"
    return None


def _tensor_fault(header: GgufHeader) -> str | None:
    """The first thing in the table that ggml's reader refuses, in its order."""
    seen: set[str] = set()
    for info in header.tensors:
        name, block, _ = gguf_header.TENSOR_TYPES.get(info.type, ("", 0, 0))
        if len(info.name.encode("utf-8", "surrogateescape")) >= LONGEST_NAME:
            return f"tensor name {info.name[:80]!r} is too long"
        if info.name in seen:
            return f"tensor {info.name!r} stands twice"
        if math.prod(info.dims) >= 2**63 or any(side >= 2**63 for side in info.dims):
            return f"tensor {info.name!r} has the impossible shape {info.dims}"
        if not block:
            return f"tensor {info.name!r} has unknown type {info.type}"
        if info.dims and info.dims[0] % block:
            return f"tensor {info.name!r}: rows of {info.dims[0]} in {name} blocks of {block}"
        seen.add(info.name)
    return None


def _offset_fault(header: GgufHeader) -> str | None:
    """Tensors must follow each other without gaps, each padded to the alignment."""
    expected = 0
    for info in header.tensors:
        if info.offset != expected:
            return f"tensor {info.name!r} lies at offset {info.offset:,}, not {expected:,}"
        nbytes = _tensor(info, "").nbytes or 0
        expected += (nbytes + header.alignment - 1) // header.alignment * header.alignment
    return None


def _missing(
    config: ConfigFacts, nextn: int, tensors: Mapping[str, Tensor], file: str
) -> tuple[Fault, ...]:
    """At most one fault: the first tensor that the architecture cannot do without and lacks."""
    table = families.table().gguf
    arch = config.model_type or ""
    words = table.layer.get(arch)
    if words is None or not tensors or config.layers is None:
        return ()
    once = f"{table.once['every']} {table.once.get(arch, '')}".split()
    lacking = [name for name in once if f"{name}.weight" not in tensors]
    wanted = [entry.split("|") for entry in words.split()]
    # The last blocks of some files predict further tokens; they have tensors of their own.
    for layer in range(min(config.layers - min(nextn, config.layers), MOST_LAYERS)):
        base = f"blk.{layer}."
        for names in wanted:
            if not any(f"{base}{name}.weight" in tensors for name in names):
                lacking.append(base + names[0])
    if not lacking:
        return ()
    more = f" (and {len(lacking) - 1:,} more)" if len(lacking) > 1 else ""
    says = f"tensor {lacking[0]}.weight of architecture {arch} is missing{more}"
    return (Fault("gguf-tensor", file, says, f"{lacking[0]}.weight"),)
