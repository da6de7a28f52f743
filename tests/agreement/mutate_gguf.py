"""A small GGUF reader and writer for tests: fast, and able to write broken files on purpose."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

KINDS = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64")
CODES = ("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")
PACK = dict(zip(KINDS, CODES, strict=True))
F32, F16, I64 = 0, 1, 27
TENSOR_SIZE = {F32: 4, F16: 2, I64: 8}
HEADER = 24

TOKENS = "tokenizer.ggml.tokens"
TYPES = "tokenizer.ggml.token_type"
SCORES = "tokenizer.ggml.scores"
MERGES = "tokenizer.ggml.merges"

Value = int | float | bool | str | bytes | list


def string(text: str | bytes) -> bytes:
    """A GGUF string: its length, then its bytes."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def strings(texts: Iterable[bytes]) -> bytes:
    """Many GGUF strings in a row."""
    pack = struct.Struct("<Q").pack
    return b"".join([part for text in texts for part in (pack(len(text)), text)])


def scalar(kind: str, value: Value) -> bytes:
    """One value without its type."""
    if kind == "str":
        return string(value)
    return struct.pack("<" + PACK[kind], value)


def value(kind: str, content: Value) -> bytes:
    """A typed value; the kind "[x]" means an array of x."""
    if not kind.startswith("["):
        return struct.pack("<I", KINDS.index(kind)) + scalar(kind, content)
    inner = kind[1:-1]
    if inner == "str":
        body = strings([text if isinstance(text, bytes) else text.encode() for text in content])
    else:
        body = struct.pack(f"<{len(content)}{PACK[inner]}", *content)
    return array(inner, len(content), body)


def array(inner: str, count: int, body: bytes) -> bytes:
    """A typed array from already encoded elements."""
    return struct.pack("<IIQ", KINDS.index("arr"), KINDS.index(inner), count) + body


@dataclass
class Body:
    """The weights that go with a vocabulary: a llama model of a few small layers."""

    arch: str = "llama"
    n_embd: int = 32
    n_layer: int = 1
    n_ctx: int = 512
    rows: int | None = None
    output_rows: int | None = None
    drop: set[str] = field(default_factory=set)
    extra: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def keys(self) -> dict[str, bytes]:
        """Metadata of the model itself."""
        head = self.n_embd // 2
        numbers = {
            "context_length": self.n_ctx,
            "embedding_length": self.n_embd,
            "block_count": self.n_layer,
            "feed_forward_length": self.n_embd,
            "attention.head_count": 2,
            "attention.head_count_kv": 2,
            "rope.dimension_count": head,
        }
        found = {"general.architecture": value("str", self.arch)}
        found |= {f"{self.arch}.{name}": value("u32", n) for name, n in numbers.items()}
        found[f"{self.arch}.attention.layer_norm_rms_epsilon"] = value("f32", 1e-5)
        return found

    def tensors(self, n_tokens: int) -> list[tuple[str, tuple[int, ...], int]]:
        """Name, shape and type of every tensor."""
        n = self.n_embd
        rows = n_tokens if self.rows is None else self.rows
        found = [("token_embd.weight", (n, rows), F16), ("output_norm.weight", (n,), F32)]
        if self.output_rows is not None:
            found.append(("output.weight", (n, self.output_rows), F16))
        for layer in range(self.n_layer):
            for name in ("attn_norm", "ffn_norm"):
                found.append((f"blk.{layer}.{name}.weight", (n,), F32))
            for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up"):
                found.append((f"blk.{layer}.{name}.weight", (n, n), F32))
            found.append((f"blk.{layer}.ffn_down.weight", (n, n), F32))
        found += [(name, shape, F32) for name, shape in self.extra]
        return [tensor for tensor in found if tensor[0] not in self.drop]


@dataclass
class Damage:
    """What is wrong with the file as such."""

    magic: bytes = b"GGUF"
    version: int = 3
    count: int = 0
    raw: list[bytes] = field(default_factory=list)
    alignment: int = 32
    shift: int = 0
    cut: float | int | None = None
    tail: int = 0
    type_id: int | None = None
    dims: int | None = None


@dataclass
class Model:
    """A vocabulary, a body, and the damage to write them with."""

    kv: dict[str, bytes]
    tokens: list[bytes]
    types: list[int] | None
    scores: list[float] | None
    blob: bytes | None = None
    body: Body = field(default_factory=Body)
    damage: Damage = field(default_factory=Damage)
    split: str | None = None

    def copy(self) -> Model:
        """A copy whose lists can be changed."""
        types = None if self.types is None else list(self.types)
        scores = None if self.scores is None else list(self.scores)
        return Model(dict(self.kv), list(self.tokens), types, scores, self.blob)

    def set_text(self, token: int, text: bytes) -> None:
        """Change the text of one token."""
        self.tokens[token] = text
        self.blob = None

    def encoded_tokens(self) -> bytes:
        """The token list as a GGUF array."""
        if self.blob is None:
            self.blob = array("str", len(self.tokens), strings(self.tokens))
        return self.blob

    def metadata(self) -> dict[str, bytes]:
        """Every key; a key of `kv` wins over what the lists would give, b"" removes it."""
        found = self.body.keys() | {TOKENS: self.encoded_tokens()}
        if self.types is not None:
            found[TYPES] = value("[i32]", self.types)
        if self.scores is not None:
            found[SCORES] = value("[f32]", self.scores)
        found |= self.kv
        return {key: content for key, content in found.items() if content}


def read(path: Path) -> Model:
    """The vocabulary of a GGUF file."""
    data = path.read_bytes()
    n_kv = struct.unpack_from("<Q", data, 16)[0]
    at = HEADER
    kv: dict[str, bytes] = {}
    for _ in range(n_kv):
        size = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8 : at + 8 + size].decode()
        start = at + 8 + size
        at = skip(data, start)
        if key.startswith("tokenizer."):
            kv[key] = data[start:at]
    blob = kv.pop(TOKENS)
    types, scores = kv.pop(TYPES, None), kv.pop(SCORES, None)
    return Model(kv, split_strings(blob), numbers(types, "i"), numbers(scores, "f"), blob)


def skip(data: bytes, at: int) -> int:
    """Where the typed value that starts here ends."""
    kind = KINDS[struct.unpack_from("<I", data, at)[0]]
    at += 4
    if kind == "str":
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != "arr":
        return at + struct.calcsize("<" + PACK[kind])
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if KINDS[inner] != "str":
        return at + count * struct.calcsize("<" + PACK[KINDS[inner]])
    unpack = struct.Struct("<Q").unpack_from
    for _ in range(count):
        at += 8 + unpack(data, at)[0]
    return at


def split_strings(blob: bytes) -> list[bytes]:
    """The elements of an encoded array of strings."""
    count = struct.unpack_from("<Q", blob, 8)[0]
    unpack, at, found = struct.Struct("<Q").unpack_from, 16, []
    for _ in range(count):
        size = unpack(blob, at)[0]
        found.append(blob[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def numbers(blob: bytes | None, code: str) -> list | None:
    """The elements of an encoded array of 4-byte numbers."""
    if blob is None:
        return None
    return list(struct.unpack_from(f"<{(len(blob) - 16) // 4}{code}", blob, 16))


def pattern(size: int, kind: int) -> bytes:
    """Small deterministic weights; ids count up."""
    if kind == I64:
        return struct.pack(f"<{size // 8}q", *range(size // 8))
    code = "f" if kind == F32 else "e"
    unit = struct.pack(f"<64{code}", *[((i * 37) % 61 - 30) / 64 for i in range(64)])
    return (unit * (size // len(unit) + 1))[:size]


def tensor_infos(tensors: list, damage: Damage) -> tuple[bytes, list[tuple[int, int]]]:
    """The tensor table, and size and type of every tensor."""
    infos, sizes, offset = [], [], 0
    for index, (name, shape, kind) in enumerate(tensors):
        size = TENSOR_SIZE[kind]
        for side in shape:
            size *= side
        stored = offset + (damage.shift if index == 1 else 0)
        dims = damage.dims if damage.dims and index == 0 else len(shape)
        shape = shape + (1,) * (dims - len(shape))
        stored_kind = damage.type_id if damage.type_id is not None and index == 1 else kind
        infos.append(string(name) + struct.pack(f"<I{dims}Q", dims, *shape))
        infos.append(struct.pack("<IQ", stored_kind, stored))
        sizes.append((size, kind))
        offset += size + -size % damage.alignment
    return b"".join(infos), sizes


def encode(kv: dict[str, bytes], tensors: list, damage: Damage) -> list[bytes]:
    """The parts of one file: header and metadata, padding, tensors."""
    infos, sizes = tensor_infos(tensors, damage)
    pairs = [string(key) + content for key, content in kv.items()] + damage.raw
    counts = struct.pack("<IQQ", damage.version, len(tensors), len(pairs) + damage.count)
    head = b"".join([damage.magic, counts, *pairs, infos])
    parts = [head, bytes(-len(head) % damage.alignment)]
    for size, kind in sizes:
        parts += [pattern(size, kind), bytes(-size % damage.alignment)]
    return parts


def save(path: Path, parts: list[bytes], damage: Damage) -> None:
    """Write the parts, cut short or with a tail where that is wanted."""
    data = b"".join(parts) + bytes(damage.tail)
    if isinstance(damage.cut, float):
        data = data[: int(len(parts[0]) * damage.cut)]
    elif damage.cut is not None:
        data = data[: damage.cut]
    path.write_bytes(data)


def write_model(model: Model, folder: Path, name: str) -> Path:
    """Write the model, in two shards when it asks for that, and say what to load."""
    kv, tensors = model.metadata(), model.body.tensors(len(model.tokens))
    if model.split is None:
        path = folder / f"{name}.gguf"
        save(path, encode(kv, tensors, model.damage), model.damage)
        return path
    return write_shards(model.split, kv, tensors, folder / name)


def write_shards(mode: str, kv: dict[str, bytes], tensors: list, stem: Path) -> Path:
    """Two shards, as `mode` wants them: good or wrong in one way."""
    count_kind = "u32" if mode == "count-u32" else "u16"
    total = len(tensors) + (1 if mode == "tensor-count" else 0)
    marks = {"split.count": value(count_kind, 3 if mode == "three" else 2)}
    marks["split.tensors.count"] = value("i32", total)
    first = kv | marks | {"split.no": value("u16", 1 if mode == "second-first" else 0)}
    second = {"split.no": value("u16", 0 if mode == "same-number" else 1)} | marks
    middle = len(tensors) // 2
    names = [stem.with_name(f"{stem.name}-0000{i}-of-00002.gguf") for i in (1, 2)]
    if mode == "name":
        names[0] = stem.with_suffix(".gguf")
    save(names[0], encode(first, tensors[:middle], Damage()), Damage())
    names[1].unlink(missing_ok=True)
    if mode != "missing":
        save(names[1], encode(second, tensors[middle:], Damage()), Damage())
    return names[0]
