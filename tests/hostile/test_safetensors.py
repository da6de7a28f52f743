"""safetensors headers and shard indexes; accepted and refused as by the loader itself."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftcheck.errors import ReadError
from draftcheck.models.readers.weights import files, safetensors_header
from draftcheck.models.sources.folder import FolderSource
from tests import make
from tests.conftest import Run
from tests.hostile.support import ANY, BROKEN, LONG, READ, bounded, examine, sparse, write

A = b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'


def one(**changes: object) -> bytes:
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}
    return json.dumps({"a": entry}).encode()


def file(text: bytes, data: bytes = bytes(4), length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text + data


# Files -> whether the loader accepts them, and what our error says.
FILES: dict[str, tuple[bytes, str | None]] = {
    "sound": (file(one()), None),
    "no tensor": (file(b"{}", b""), None),
    "leading spaces": (file(b"  \n" + one()), None),
    "trailing spaces": (file(one() + b"   "), None),
    "a name twice": (file(b"{" + A + b"," + A + b"}"), None),
    "no text of metadata": (file(b'{"__metadata__":null}', b""), None),
    "metadata": (file(b'{"__metadata__":{"format":"pt","format":"mlx"}}', b""), None),
    "unknown member": (file(one(x=[1, {"y": None}])), None),
    "scalar": (file(one(shape=[])), None),
    "side of 0": (file(one(shape=[0, 2**64 - 1], data_offsets=[0, 0]), b""), None),
    "4 bits": (file(one(dtype="F4", shape=[2, 4])), None),
    "empty file": (b"", "too short"),
    "7 bytes": (bytes(7), "too short"),
    "length 0": (bytes(8), "header is not usable JSON"),
    "length 2^63": (struct.pack("<Q", 2**63), "header claims 9,223,372,036,854,775,808 bytes"),
    "length 2^64-1": (b"\xff" * 8, "header claims"),
    "length over 100 MB": (file(one(), length=100_000_001), "header claims 100,000,001"),
    "length past the end": (file(one(), length=10_000), "cut off: header of 10,000 bytes"),
    "length too short": (file(one(), length=10), "header is not usable JSON"),
    "a list": (file(b"[]", b""), "header is a list"),
    "a number": (file(b"5", b""), "header is a int"),
    "null": (file(b"null", b""), "header is a NoneType"),
    "cut off JSON": (file(one()[:-2]), "header is not usable JSON"),
    "more JSON": (file(one() + b"{}"), "header is not usable JSON"),
    "padded with zeros": (file(one() + bytes(3)), "header is not usable JSON"),
    "BOM": (file(b"\xef\xbb\xbf" + one()), "header is not usable JSON"),
    "UTF-16": (file(one().decode().encode("utf-16")), "header is not usable JSON"),
    "not UTF-8": (file(one().replace(b'"a"', b'"\xff"')), "header is not usable JSON"),
    "lone surrogate": (file(one().replace(b'"a"', b'"\\ud800"')), "is not a text"),
    "control character": (file(one().replace(b'"a"', b'"\t"')), "header is not usable JSON"),
    "NaN": (file(one().replace(b"[1]", b"[NaN]")), "header is not usable JSON"),
    "a float": (file(one(shape=[1.0])), "impossible shape"),
    "a bool": (file(one(shape=[True])), "impossible shape"),
    "a text": (file(one(shape=["1"])), "impossible shape"),
    "negative side": (file(one(shape=[-1])), "impossible shape"),
    "negative offsets": (file(one(data_offsets=[-4, 0])), "impossible shape"),
    "offsets of 2^64": (file(one(data_offsets=[2**64, 2**64 + 4])), "impossible shape"),
    "shape [2^40, 2^40]": (file(one(shape=[2**40, 2**40])), "does not take 4 bytes"),
    "overflow before a 0": (file(one(shape=[2**63, 2, 0], data_offsets=[0, 0]), b""), "not take"),
    "shape of another size": (file(one(shape=[2])), "does not take 4 bytes"),
    "half a byte": (file(one(dtype="F4", shape=[3], data_offsets=[0, 1]), b"x"), "not take"),
    "offsets turned round": (file(one(data_offsets=[4, 0])), "does not take -4 bytes"),
    "three offsets": (file(one(data_offsets=[0, 4, 8])), "lacks a shape or two offsets"),
    "one offset": (file(one(data_offsets=[0])), "lacks a shape or two offsets"),
    "no offsets": (file(one(data_offsets=None)), "lacks a shape or two offsets"),
    "shape is a text": (file(one(shape="")), "lacks a shape or two offsets"),
    "shape is an object": (file(one(shape={})), "lacks a shape or two offsets"),
    "unknown dtype": (file(one(dtype="F128")), "unknown dtype 'F128'"),
    "dtype in small letters": (file(one(dtype="f32")), "unknown dtype"),
    "dtype is a list": (file(one(dtype=["F32"])), "unknown dtype 'list'"),
    "dtype is null": (file(one(dtype=None)), "unknown dtype"),
    "entry is null": (file(b'{"a":null}', b""), "is a NoneType, not an object"),
    "entry is empty": (file(b'{"a":{}}', b""), "lacks a shape or two offsets"),
    "hole": (file(one(data_offsets=[4, 8]), bytes(8)), "leaves a hole before it"),
    "overlap": (
        file(b"{" + A + b"," + A.replace(b'"a"', b'"b"') + b"}"),
        "overlaps the tensor before it",
    ),
    "hole in the middle": (
        file(b"{" + A + b"," + A.replace(b'"a"', b'"b"').replace(b"[0,4]", b"[8,12]") + b"}"),
        "leaves a hole before it",
    ),
    "data too short": (file(one(), bytes(3)), "cut off"),
    "data too long": (file(one(), bytes(5)), "something follows the tensors"),
    "metadata of numbers": (file(b'{"__metadata__":{"a":1}}', b""), "__metadata__ is not"),
    "metadata is a list": (file(b'{"__metadata__":[]}', b""), "__metadata__ is not"),
    "metadata twice": (file(b'{"__metadata__":{},"__metadata__":{}}', b""), "stands twice"),
    "dtype twice": (file(b'{"a":{"dtype":"F32",' + A[5:] + b"}"), "dtype stands twice"),
    "nested metadata": (
        file(b'{"__metadata__":{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}", b""),
        "header is not usable JSON",
    ),
    "nested shape": (file(b'{"a":{"shape":' + b"[" * 500 + b"]" * 500 + b"}}", b""), "two offsets"),
    "integer of 10,000 digits": (
        file(one().replace(b"[1]", b"[" + b"9" * 10_000 + b"]")),
        "header is not usable JSON",
    ),
    "shape of escapes": (file(one(dtype="\x1b[2J\u202e\r")), "unknown dtype"),
}
# Where we are stricter or milder than the loader, on purpose or for the cost of it.
DOCUMENTED: dict[str, tuple[bytes, bool]] = {
    # Readable by an accident of the loader's JSON library; nothing writes such files.
    "entry is a list": (file(b'{"a":["F32",[1],[0,4]]}'), True),
    "dtype is a variant": (file(one(dtype={"F32": None})), True),
    # Things that only a different JSON parser would notice.
    "minus zero": (file(one(shape=[0], data_offsets=[0, 0]).replace(b"[0]", b"[-0]"), b""), False),
    "number out of range": (file(one(x=0).replace(b'"x": 0', b'"x": 1e999')), False),
    "nested 200 deep": (file(one(x=0).replace(b"0}}", b"[" * 200 + b"]" * 200 + b"}}")), False),
}


def library_accepts(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "np") as opened:
            opened.keys()
    except SafetensorError:
        return False
    return True


def we_accept(path: Path) -> bool:
    try:
        safetensors_header.read(FolderSource(path.parent), path.name)
    except ReadError:
        return False
    return True


@pytest.mark.parametrize("fault", FILES)
def test_files(run: Run, good: Path, tmp_path: Path, fault: str) -> None:
    data, says = FILES[fault]
    folder = make.folder(tmp_path / "m")
    path = write(folder / "model.safetensors", data)
    assert library_accepts(path) is (says is None)
    ran = examine(run, folder, ANY if says is None else BROKEN, good)
    if says is not None:
        assert "warning: model.safetensors: " in ran.err
        assert says in ran.err


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_disagreements_with_the_loader(tmp_path: Path, name: str) -> None:
    data, accepted_by_the_loader = DOCUMENTED[name]
    path = write(tmp_path / "model.safetensors", data)
    assert library_accepts(path) is accepted_by_the_loader
    assert we_accept(path) is not accepted_by_the_loader


MINUS_ZERO_OR_EXPONENT = re.compile(rb"-0|\d[eE]")


def headers(seed: int) -> Iterator[bytes]:
    """Sound headers, changed by values and by bytes."""
    rng = random.Random(seed)
    words = [
        0,
        1,
        2,
        3,
        4,
        8,
        12,
        16,
        2**32,
        2**63,
        2**64 - 1,
        2**64,
        -1,
        1.5,
        True,
        None,
        "",
        "F16",
    ]
    while True:
        names = rng.sample(
            ["a", "b", "c", "__metadata__", "", "\x00", "ä", "𝄞"], rng.randrange(1, 4)
        )
        header: dict[str, object] = {}
        at = 0
        for name in names:
            shape = [rng.randrange(4) for _ in range(rng.randrange(3))]
            size = 4
            for side in shape:
                size *= side
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
            if name == "__metadata__":
                header[name] = {"format": "pt"}
            else:
                at += size
        for _ in range(rng.randrange(3)):  # other values
            entry = header[rng.choice(names)]
            assert isinstance(entry, dict)
            entry[rng.choice([*entry, "x", "shape", "dtype"])] = rng.choice(
                [rng.choice(words), [rng.choice(words)], [rng.choice(words), rng.choice(words)], {}]
            )
        text = bytearray(json.dumps(header, ensure_ascii=rng.random() < 0.5).encode())
        for _ in range(rng.choice([0, 0, 0, 1, 2])):  # other bytes
            text[rng.randrange(len(text))] = rng.choice(b'{}[]",:0123456789.-eE\\ \x00\xff\n')
        yield file(bytes(text), bytes(max(0, at + rng.choice([0, 0, 0, 0, 1, -1, 4]))))


def test_mutated_headers_are_judged_as_by_the_loader(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    accepted = 0
    for number, data in zip(range(int(600 * LONG)), headers(1), strict=False):
        write(path, data)
        if MINUS_ZERO_OR_EXPONENT.search(data):  # documented above
            continue
        theirs = library_accepts(path)
        assert we_accept(path) is theirs, (number, data)
        accepted += theirs
    assert accepted > 50 * LONG


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ("[]", "a JSON object was expected"),
        ("{}", "has no weight_map"),
        ('{"weight_map": []}', "has no weight_map"),
        ('{"weight_map": "model.safetensors"}', "has no weight_map"),
        ('{"weight_map": {"a": "missing.safetensors"}}', "which is not in the folder"),
        ('{"weight_map": {"a": "../../a/b/resolve/main/m.safetensors"}}', "not in the folder"),
        ('{"weight_map": {"a": "/etc/passwd"}}', "not in the folder"),
        ('{"weight_map": {"a": "C:\\\\x"}}', "not in the folder"),
        ('{"weight_map": {"a": "https://example.org/model.safetensors"}}', "not in the folder"),
        ('{"weight_map": {"a": "./model.safetensors"}}', "not in the folder"),
        ('{"weight_map": {"a": "sub/model.safetensors"}}', "not in the folder"),
        ('{"weight_map": {"a": "\\u0000"}}', "not in the folder"),
        ('{"weight_map": {"a": "\\u001b[2J\\u202e"}}', "not in the folder"),
        ('{"weight_map": {"a": null}}', "not in the folder"),
        ('{"weight_map": {"a": ["model.safetensors"]}}', "not in the folder"),
        ('{"weight_map": {"a": "pytorch_model.bin"}}', "is no safetensors file"),
        ('{"weight_map": {"a": "config.json"}}', "is no safetensors file"),
    ],
)  # fmt: skip
def test_indexes(run: Run, good: Path, tmp_path: Path, index: str, says: str) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / "sub").mkdir()
    (folder / "sub/model.safetensors").write_bytes(b"")
    write(folder / "pytorch_model.bin", b"\x80\x04.")
    write(folder / "model.safetensors.index.json", index)
    ran = examine(run, folder, ANY, good)  # the whole model lies beside it
    assert "model.safetensors.index.json: " in ran.err
    assert says in ran.err
    (folder / "model.safetensors").unlink()
    ran = examine(run, folder, BROKEN, good)
    assert "model.safetensors.index.json" in ran.err
    assert says in ran.err


def test_an_index_of_many_shards(tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    shards = {f"t{i}": f"{i}.safetensors" for i in range(200_000)}
    make.write_json(folder / "model.safetensors.index.json", {"weight_map": shards})
    found = bounded("inspect", folder)
    assert found.ran.code == 3
    assert "names 200,000 shards" in found.ran.err


def test_tensors_of_all_shards_are_counted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_TENSORS", 5)
    folder = make.folder(tmp_path / "m")
    names = {f"t{i}": f"{i}.safetensors" for i in range(6)}
    for tensor, name in names.items():
        make.safetensors(folder / name, {tensor: ("F32", [])})
    make.write_json(folder / "model.safetensors.index.json", {"weight_map": names})
    assert "5.safetensors: more than 5 tensors" in examine(run, folder, READ).err


HEAD = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 64,
    "vocab_size": 260,
    "draft_vocab_size": 100,
}
TABLES: dict[str, tuple[str, list[int], bytes]] = {
    "zeros": ("I64", [100], bytes(800)),
    "far away": ("I64", [100], struct.pack("<100q", *[2**63 - 1] * 100)),
    "negative": ("I64", [100], struct.pack("<100q", *[-(2**63)] * 100)),
    "all to one": ("I64", [100], struct.pack("<100q", *[-i for i in range(100)])),
    "32 bits": ("I32", [100], bytes(400)),
    "floats": ("F32", [100], b"\xff" * 400),
    "flags": ("BOOL", [100], b"\x07" * 100),
    "no entry": ("I64", [0], b""),
    "scalar": ("I64", [], bytes(8)),
    "two sides": ("I64", [10, 10], bytes(800)),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_a_head(run: Run, good: Path, tmp_path: Path, kind: str) -> None:
    """The only tensor data that is ever read."""
    dtype, shape, data = TABLES[kind]
    folder = make.folder(tmp_path / "m", config=HEAD)
    entries: dict[str, object] = {}
    for number, name in enumerate(("d2t", "t2d")):
        offsets = [number * len(data), (number + 1) * len(data)]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    write(folder / "model.safetensors", file(json.dumps(entries).encode(), data * 2))
    examine(run, folder, ANY, good)


def test_tables_of_millions_of_ids(tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m", config=HEAD)
    make.safetensors(
        folder / "model.safetensors", {"d2t": ("I64", [2**21]), "t2d": ("I64", [2**21])}
    )
    found = bounded("inspect", folder)
    assert found.ran.code == 0
    assert found.peak < 10**9


def test_a_header_of_100_megabytes(tmp_path: Path) -> None:
    """A little text can be a lot of objects."""
    folder = make.folder(tmp_path / "m")
    body = b'{"a":[' + b"[]," * 33_000_000 + b"0]}"
    path = sparse(folder / "model.safetensors", 8 + len(body), struct.pack("<Q", len(body)) + body)
    assert path.stat().st_size < 100_000_000
    found = bounded("inspect", folder)
    assert found.ran.code == 3
    assert "model.safetensors: " in found.ran.err
    assert found.peak < 10**9
