"""GGUF headers that lie: counts, lengths, types, shapes, and texts from hell."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.conftest import Run
from tests.hostile.support import (
    ANY,
    BROKEN,
    READ,
    REFERENCE,
    assert_calm,
    bounded,
    examine,
    header,
    key,
    some,
    sparse,
    strict_json,
    strings,
    tensor,
    text,
    u32,
    u64,
    write,
)

TOKENS = "tokenizer.ggml.tokens"


def array(kind: int, count: int, body: bytes = b"") -> bytes:
    return u32(kind) + u64(count) + body


def nested(depth: int) -> bytes:
    return array(9, 1) * depth + array(0, 1, b"\0")


# What the header says -> what the error says.
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "cut off: ends inside the magic"),
    "one byte": (b"G", "cut off: ends inside the magic"),
    "magic only": (b"GGUF", "cut off: ends inside the version"),
    "no counts": (b"GGUF" + u32(3), "cut off: ends inside the tensor count"),
    "HTML page": (b"<!DOCTYPE html><html><body>404</body></html>", "is not a GGUF file"),
    "JSON": (b'{"error": "not found"}', "is not a GGUF file"),
    "GGML of old": (b"lmgg" + u32(1), "is not a GGUF file"),
    "zip": (b"PK\x03\x04" + bytes(60), "is not a GGUF file"),
    "version 0": (header(version=0), "GGUF version 0"),
    "version 1": (header(version=1), "GGUF version 1"),
    "version 4": (header(version=4), "GGUF version 4"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "2^63 keys": (header(n_keys=2**63), "claims 9,223,372,036,854,775,808 keys"),
    "2^63 tensors": (header(n_tensors=2**63), "claims 9,223,372,036,854,775,808 tensors"),
    "keys behind the end": (header(n_keys=7), "cut off: ends inside key 0"),
    "tensors behind the end": (header(n_tensors=7), "cut off: ends inside tensor 0"),
    "key of 2^62 bytes": (header(u64(2**62), n_keys=1), "key 0 claims 4,611,686,018,427,387,904"),
    "key of 2^64-1 bytes": (header(u64(2**64 - 1), n_keys=1), "key 0 claims"),
    "key behind the end": (header(u64(1000), n_keys=1), "cut off: ends inside key 0"),
    "empty key": (header(key("", 4, u32(1))), "key 0 has no name"),
    "string of 2^62 bytes": (header(key("a", 8, u64(2**62))), "key 'a' claims"),
    "string behind the end": (header(key("a", 8, u64(99))), "cut off: ends inside key 'a'"),
    "value type 99": (header(key("a", 99, b"")), "key 'a' has unknown type 99"),
    "value type 2^32-1": (header(key("a", 2**32 - 1, b"")), "unknown type 4294967295"),
    "no value": (header(key("a", 12, b"")), "cut off: ends inside key 'a'"),
    "array of 2^63": (header(key("a", 9, array(4, 2**63))), "array 'a' claims"),
    "array of 2^40": (header(key("a", 9, array(0, 2**40))), "array 'a' claims"),
    "array of 2^25 in no bytes": (header(key("a", 9, array(0, 2**25))), "cut off: ends inside arr"),
    "2^63 strings": (header(key("a", 9, array(8, 2**63))), "array 'a' claims"),
    "2^40 strings": (header(key("a", 9, array(8, 2**40))), "array 'a' claims"),
    "2^40 tokens": (header(key(TOKENS, 9, array(8, 2**40))), "claims 1,099,511,627,776 strings"),
    "10^6 strings in no bytes": (header(key("a", 9, array(8, 10**6))), "cut off: ends inside"),
    "10^6 tokens in no bytes": (header(key(TOKENS, 9, array(8, 10**6))), "cut off: ends inside"),
    "token of 2^62": (header(key(TOKENS, 9, array(8, 1, u64(2**62)))), "cut off: ends inside str"),
    "token of 2^64-1": (header(key(TOKENS, 9, array(8, 1, u64(2**64 - 1)))), "cut off"),
    "other string of 2^62": (header(key("a", 9, array(8, 99, u64(2**62)))), "cut off"),
    "other string of 2^64-1": (header(key("a", 9, array(8, 99, u64(2**64 - 1)))), "cut off"),
    "array of arrays": (header(key("a", 9, nested(1))), "elements of unknown type 9"),
    "2,000 arrays in arrays": (header(key("a", 9, nested(2000))), "elements of unknown type 9"),
    "array of type 99": (header(key("a", 9, array(99, 1))), "elements of unknown type 99"),
    "2^32-1 dimensions": (
        header(tensors=[text("t") + u32(2**32 - 1)]),
        "tensor 't' has 4,294,967,295 dimensions",
    ),
    "5 dimensions": (header(tensors=[tensor("t", [1] * 5)]), "tensor 't' has 5 dimensions"),
    "half a tensor": (header(tensors=[text("t") + u32(2) + u64(1)]), "cut off: ends inside ten"),
    "alignment 0": (header(key("general.alignment", 4, u32(0))), "general.alignment is uint32 0"),
    "alignment 3": (header(key("general.alignment", 4, u32(3))), "general.alignment is uint32 3"),
    "alignment of text": (header(key("general.alignment", 8, text("x"))), "general.alignment is"),
    "alignment of 2^64": (header(key("general.alignment", 10, u64(32))), "general.alignment is"),
    "alignment list": (header(key("general.alignment", 9, array(4, 0))), "general.alignment is"),
}


@pytest.mark.parametrize("fault", UNREADABLE)
def test_headers_that_cannot_be_read(run: Run, good_gguf: Path, tmp_path: Path, fault: str) -> None:
    data, says = UNREADABLE[fault]
    ran = examine(run, write(tmp_path / "m.gguf", data), READ, good_gguf)
    assert says in ran.err
    assert "m.gguf: " in ran.err


def test_the_fault_of_49_bytes_costs_nothing(run: Run, tmp_path: Path) -> None:
    """An array of 2^40 elements in a file of 49 bytes: nothing may be allocated for it."""
    data = header(key("abcdefgh", 9, array(0, 2**40)))[:49]
    path = write(tmp_path / "m.gguf", data)
    run("inspect", path)
    tracemalloc.start()
    assert run("inspect", path).code == 3
    assert tracemalloc.get_traced_memory()[1] < 2 * 10**6
    tracemalloc.stop()


def test_a_sparse_file_full_of_empty_strings(tmp_path: Path) -> None:
    """Zeros are strings of no bytes: as many as may be cost little."""
    data = header(key(TOKENS, 9, array(8, 2**21)))
    found = bounded("inspect", sparse(tmp_path / "m.gguf", 40 * 10**9, data))
    assert found.ran.code in (0, 3)
    assert found.peak < 700 * 10**6


def test_a_header_without_end(run: Run, tmp_path: Path) -> None:
    """Every key sound, all of them together far more than a header has."""
    data = header(key("a", 9, array(0, 2**26)), n_keys=90_000)
    assert run("inspect", sparse(tmp_path / "m.gguf", 40 * 10**9, data)).code == 3
    many = header(*[key(f"k{i}", 9, array(6, 2**23)) for i in range(9)])
    found = bounded("inspect", sparse(tmp_path / "n.gguf", 40 * 10**9, many))
    assert found.ran.code == 3


def test_fifty_thousand_tensors(tmp_path: Path) -> None:
    data = header(tensors=[tensor(f"t{i}", [1]) for i in range(50_000)])
    found = bounded("inspect", write(tmp_path / "m.gguf", data))
    assert found.ran.code == 0
    assert found.peak < 400 * 10**6


@pytest.mark.parametrize("cut", range(0, 1200, 37))
def test_cut_off_anywhere(run: Run, good_gguf: Path, tmp_path: Path, cut: int) -> None:
    whole = good_gguf.read_bytes()
    ran = examine(run, write(tmp_path / "m.gguf", whole[:cut]), READ, good_gguf)
    assert "m.gguf: cut off" in ran.err


def test_cut_off_in_the_data(run: Run, good_gguf: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", good_gguf.read_bytes()[:-64])
    examine(run, path, ANY, good_gguf)
    ran = run("pair", path, good_gguf)
    assert ran.code == 1 and "cut-off" in ran.out


SHAPES: dict[str, list[bytes]] = {
    "product of 2^128": [tensor("t", [2**32] * 4)],
    "product of 2^256": [tensor("token_embd.weight", [2**64 - 1] * 4)],
    "two sides of 2^40": [tensor("token_embd.weight", [2**40, 2**40])],
    "no dimension": [tensor("t", []), tensor("token_embd.weight", [])],
    "a side of 0": [tensor("t", [0, 5]), tensor("token_embd.weight", [0, 0])],
    "offset 2^60": [tensor("t", [4], offset=2**60)],
    "offset 2^64-1": [tensor("t", [4], offset=2**64 - 1)],
    "offset not aligned": [tensor("t", [4], offset=1)],
    "unknown type": [tensor("t", [4], kind=999)],
    "removed type": [tensor("t", [4], kind=4)],
    "type 2^32-1": [tensor("token_embd.weight", [4, 4], kind=2**32 - 1)],
    "half a block": [tensor("t", [100], kind=12)],
    "one name twice": [tensor("t", [4]), tensor("t", [4], offset=32)],
    "empty name": [tensor("", [4])],
    "long name": [tensor("t" * 5000, [4])],
    "name of escapes": [tensor("\x1b]0;pwned\x07\u202e", [4])],
    "both on one place": [tensor("a", [8]), tensor("b", [8])],
}


@pytest.mark.parametrize("fault", SHAPES)
def test_tensor_tables(run: Run, good_gguf: Path, tmp_path: Path, fault: str) -> None:
    """Readable, whatever llama.cpp says to it; and nothing is allocated for what they claim."""
    keys = [key("general.architecture", 8, text("llama")), key(TOKENS, 9, strings("a", "b"))]
    path = write(tmp_path / "m.gguf", header(*keys, tensors=SHAPES[fault], tail=bytes(256)))
    examine(run, path, (1, 3), good_gguf)


def test_a_key_that_stands_twice(run: Run, good_gguf: Path, tmp_path: Path) -> None:
    keys = [key("a", 4, u32(1)), key("a", 8, text("x")), key(TOKENS, 9, strings("a"))]
    path = write(tmp_path / "m.gguf", header(*keys, *keys))
    examine(run, path, (1, 3), good_gguf)


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", b"a\0b", b"\x1b[2J", "\u202ex".encode(), b"k" * 4000]
)
def test_strange_keys(run: Run, good_gguf: Path, tmp_path: Path, name: bytes) -> None:
    keys = [
        key(name, 4, u32(1)),
        key(name + b"2", 9, strings(b"\xff")),
        key(name + b"3", 12, b"\xff" * 8),
    ]
    examine(run, write(tmp_path / "m.gguf", header(*keys)), (1, 3), good_gguf)
    unknown = write(tmp_path / "n.gguf", header(key(name, 77, b"")))
    examine(run, unknown, READ, good_gguf)


def changed(tmp_path: Path, **keys: tuple[str, Any]) -> Path:
    named = {f"tokenizer.ggml.{name}": value for name, value in keys.items()}
    return make.gguf(tmp_path / "m.gguf", keys=named)


FLOATS = [0.0] * 300
NO_TEXTS = [bytes([255, i % 256]) for i in range(300)]
ESCAPES = [b"\x1b[%dm\x9b\r\n\x07" % i for i in range(300)]
VOCABULARIES: dict[str, dict[str, tuple[str, Any]]] = {
    "few scores": {"scores": ("array[float32]", FLOATS[:9])},
    "many scores": {"scores": ("array[float32]", FLOATS * 9)},
    "no score": {"scores": ("array[float32]", [])},
    "scores of NaN": {"scores": ("array[float32]", [float("nan")] * 300)},
    "scores of infinity": {"scores": ("array[float64]", [float("-inf")] * 300)},
    "scores of text": {"scores": ("array[string]", ["x"] * 300)},
    "few types": {"token_type": ("array[int32]", [1] * 9)},
    "many types": {"token_type": ("array[int32]", [1, 3, 5, 6] * 999)},
    "no type": {"token_type": ("array[int32]", [])},
    "types of bytes": {"token_type": ("array[uint8]", [1] * 300)},
    "types out of range": {"token_type": ("array[int32]", [-(2**31), 2**31 - 1, 99] * 100)},
    "types of text": {"token_type": ("array[string]", ["x"] * 300)},
    "one type": {"token_type": ("int32", 1)},
    "all unused": {"token_type": ("array[int32]", [5] * 300)},
    "all bytes": {"token_type": ("array[int32]", [6] * 300)},
    "bos out of range": {"bos_token_id": ("uint32", 2**32 - 1)},
    "eos out of range": {"eos_token_id": ("uint32", 300)},
    "bos of text": {"bos_token_id": ("string", "x")},
    "negative eos": {"eos_token_id": ("int32", -5)},
    "bos list": {"bos_token_id": ("array[uint32]", [1, 2])},
    "padding out of range": {"padding_token_id": ("uint32", 2**31)},
    "unknown of 2^64-1": {"unknown_token_id": ("uint64", 2**64 - 1)},
    "flag of text": {"add_bos_token": ("string", "true")},
    "model of escapes": {"model": ("string", "\x1b]8;;http://x\x07gpt2\x1b[2J")},
    "model that is no text": {"model": ("string", b"\xff\xfe\x00gpt2")},
    "model of 1 MB": {"model": ("string", "m" * 10**6)},
    "model is a number": {"model": ("uint32", 5)},
    "model is a list": {"model": ("array[string]", ["gpt2"])},
    "pre of escapes": {"pre": ("string", "\x1b[2J\r\u202e\u200b\x9b")},
    "pre is a flag": {"pre": ("bool", True)},
    "no merges": {"merges": ("array[string]", [])},
    "merges of numbers": {"merges": ("array[uint8]", [1])},
    "merges that are no text": {"merges": ("array[string]", [b"\xff \xfe", b"\n", b""])},
    "tokens are numbers": {"tokens": ("array[uint32]", [1, 2, 3])},
    "tokens are one text": {"tokens": ("string", "a b c")},
    "tokens are a number": {"tokens": ("uint64", 2**64 - 1)},
    "no token": {"tokens": ("array[string]", [])},
    "one token": {"tokens": ("array[string]", [b""])},
    "same tokens": {"tokens": ("array[string]", [b"x"] * 300)},
    "tokens that are no text": {"tokens": ("array[string]", NO_TEXTS)},
    "tokens with NUL": {"tokens": ("array[string]", [b"a\0%d" % i for i in range(300)])},
    "tokens of escapes": {"tokens": ("array[string]", ESCAPES)},
    "byte tokens": {"tokens": ("array[string]", [b"<0x-1>"] * 300)},
    "charsmap of nothing": {"precompiled_charsmap": ("array[uint8]", [])},
    "charsmap that lies": {"precompiled_charsmap": ("array[uint8]", [255] * 8)},
    "charsmap is text": {"precompiled_charsmap": ("string", "x")},
    "suppressed texts": {"suppress_tokens": ("array[string]", ["x"])},
}  # fmt: skip


@pytest.mark.parametrize("fault", VOCABULARIES)
def test_vocabularies(run: Run, good_gguf: Path, tmp_path: Path, fault: str) -> None:
    examine(run, changed(tmp_path, **VOCABULARIES[fault]), ANY, good_gguf)


KEYS = (
    "general.architecture", "general.name", "general.file_type", "llama.context_length",
    "llama.embedding_length", "llama.block_count", "llama.feed_forward_length",
    "llama.attention.head_count", "llama.attention.head_count_kv", "llama.attention.key_length",
    "llama.attention.layer_norm_rms_epsilon", "llama.rope.dimension_count", "llama.vocab_size",
    "llama.rope.scaling.type", "llama.expert_count", "tokenizer.chat_template", "split.count",
    "split.no", "tokenizer.ggml.token_type_count", "tokenizer.ggml.add_bos_token",
)  # fmt: skip
VALUES: list[tuple[str, Any]] = [
    ("string", b"\x1b[31m\xff\0x"), ("string", ""), ("uint8", 0), ("uint32", 0),
    ("uint32", 2**32 - 1), ("int32", -1), ("uint64", 2**64 - 1), ("int64", -(2**63)),
    ("float32", float("nan")), ("float64", float("inf")), ("bool", True),
    ("array[string]", []), ("array[string]", [b"\xff"]), ("array[int32]", [-1] * 5),
    ("array[float32]", [float("nan")]), ("array[bool]", [True, False]),
    ("array[uint64]", [2**64 - 1] * 3), ("array[int8]", [0] * 5000),
]  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_every_key_with_every_kind_of_value(run: Run, tmp_path: Path, name: str) -> None:
    """Also through a facts file, which must carry whatever was in the GGUF."""
    saved = tmp_path / "m.facts.json"
    for kind, value in some(VALUES, name):
        path = make.gguf(tmp_path / "m.gguf", keys={name: (kind, value)})
        direct = run("inspect", path, "--format", "json", "--output", saved)
        again = run("inspect", saved, "--format", "json")
        pair = [run("pair", path, saved)] if name in KEYS[:3] else []
        for ran in (direct, again, *pair):
            assert_calm(ran)
            assert ran.code in ANY
        assert strict_json(again.out)["llama_cpp"] == strict_json(direct.out)["llama_cpp"]


def test_a_million_tokens_that_are_the_same(good_gguf: Path, tmp_path: Path) -> None:
    model = key("tokenizer.ggml.model", 8, text("gpt2"))
    tokens = key(TOKENS, 9, array(8, 10**6, text("x") * 10**6))
    path = write(tmp_path / "m.gguf", header(model, tokens))
    found = bounded("pair", path, good_gguf, seconds=40)
    assert found.ran.code == 1
    assert found.peak < 10**9


def test_a_token_of_16_megabytes(good_gguf: Path, tmp_path: Path) -> None:
    path = make.gguf(tmp_path / "m.gguf", ["x" * 2**24, *make.gguf_tokens(299)])
    found = bounded("pair", path, good_gguf)
    assert found.ran.code == 1
    assert len(found.ran.out) < 20_000
    assert found.peak < 600 * 10**6


def test_an_architecture_of_escapes(run: Run, good_gguf: Path, tmp_path: Path) -> None:
    for name in ("\x1b]0;pwned\x07", "llama\n\rerror: x", "\u202elamall", b"\xff\xfe", "a" * 10**5):
        keys = {"general.architecture": ("string", name), "general.name": ("string", name)}
        examine(run, make.gguf(tmp_path / "m.gguf", keys=keys), ANY, good_gguf)


def split(folder: Path, count: int, *, present: int, stem: str = "m") -> Path:
    for number in range(1, present + 1):
        marks = {"split.count": ("uint16", count), "split.no": ("uint16", number - 1)}
        make.gguf(folder / f"{stem}-{number:05d}-of-{count:05d}.gguf", keys=marks)
    return folder / f"{stem}-00001-of-{count:05d}.gguf"


def test_parts_that_are_missing(run: Run, good_gguf: Path, tmp_path: Path) -> None:
    first = split(tmp_path, 3, present=2)
    ran = examine(run, first, BROKEN, good_gguf)
    assert "part m-00003-of-00003.gguf of 3 is not there" in ran.err
    examine(run, tmp_path, BROKEN)


def test_a_part_that_is_broken_is_the_one_named(run: Run, good_gguf: Path, tmp_path: Path) -> None:
    first = split(tmp_path, 2, present=2)
    write(tmp_path / "m-00002-of-00002.gguf", b"GGUF")
    assert "m-00002-of-00002.gguf: cut off" in examine(run, first, READ, good_gguf).err


def test_a_later_part(run: Run, good_gguf: Path, tmp_path: Path) -> None:
    split(tmp_path, 2, present=2)
    ran = examine(run, tmp_path / "m-00002-of-00002.gguf", REFERENCE, good_gguf)
    assert "hint: Name m-00001-of-00002.gguf." in ran.err
    (tmp_path / "m-00001-of-00002.gguf").unlink()
    assert "not the first part" in examine(run, tmp_path, READ).err


@pytest.mark.parametrize("count", [0, 1, 2, 65535])
def test_a_count_of_parts_that_lies(run: Run, good_gguf: Path, tmp_path: Path, count: int) -> None:
    for number in (1, 2):
        marks = {"split.count": ("uint16", count), "split.no": ("uint16", 7)}
        make.gguf(tmp_path / f"m-0000{number}-of-00002.gguf", keys=marks)
    examine(run, tmp_path / "m-00001-of-00002.gguf", ANY, good_gguf)
    alone = make.gguf(tmp_path / "alone.gguf", keys={"split.count": ("uint16", count)})
    examine(run, alone, ANY, good_gguf)


def test_99999_parts(run: Run, tmp_path: Path) -> None:
    path = make.gguf(tmp_path / "m-00001-of-99999.gguf")
    examine(run, path, READ)
    examine(run, make.gguf(tmp_path / "m-00001-of-00000.gguf"), READ)
    examine(run, make.gguf(tmp_path / "m-00000-of-00001.gguf"), REFERENCE)


def test_a_folder_of_several_models(run: Run, tmp_path: Path) -> None:
    for name in ("a\x1b[2J.gguf", "b.gguf"):
        make.gguf(tmp_path / name)
    ran = examine(run, tmp_path, REFERENCE)
    assert "2 GGUF models" in ran.err and "hint: Name one: " in ran.err
