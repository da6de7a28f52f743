"""Our readers of headers against the libraries that own the formats; --deep asks those, too."""

from __future__ import annotations

import random
import struct
from array import array
from pathlib import Path
from typing import Any

import pytest

from draftcheck.models import limited
from draftcheck.models.readers import second_opinion
from draftcheck.models.readers.gguf import facts as gguf_facts
from draftcheck.models.readers.gguf import header as gguf_header
from draftcheck.models.readers.weights import safetensors_header
from draftcheck.models.sources.folder import FolderSource
from tests.conftest import FIXTURES, Run

gguf = pytest.importorskip("gguf", reason="gguf is not installed")
np = pytest.importorskip("numpy", reason="numpy is not installed")
safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
safe_open = safetensors.safe_open

DTYPES = (
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32",
    "uint16", "uint8", "bool", "complex64",
)  # fmt: skip


def shape_of(rng: random.Random) -> list[int]:
    return [rng.choice((0, 1, 2, 3, 7, 32)) for _ in range(rng.randrange(5))]


@pytest.mark.parametrize("seed", range(12))
def test_safetensors_headers(tmp_path: Path, seed: int) -> None:
    """Types, scalars, empty tensors, no tensors at all, many of them, odd names, metadata."""
    rng = random.Random(seed)
    made = {}
    for number in range((0, 1, 5, 40, 3_000)[seed % 5]):
        name = rng.choice(("model.layers.{}.weight", "é {}", 'a"\\{}', "{}")).format(number)
        made[name] = np.zeros(shape_of(rng), rng.choice(DTYPES))
    metadata = rng.choice((None, {"format": "pt", "ä": "\n"})) if made else None
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors.save(made, metadata=metadata))
    tensors, said = safetensors_header.read(FolderSource(tmp_path), path.name)
    with safe_open(str(path), "np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        theirs = {n: (part.get_dtype(), tuple(part.get_shape())) for n, part in slices.items()}
        assert said == (file.metadata() or {})
    assert {name: (t.dtype, t.shape) for name, t in tensors.items()} == theirs


def write_gguf(path: Path, seed: int) -> None:
    """Every type of key, arrays of them, several alignments and tensor types."""
    rng = random.Random(seed)
    writer = gguf.GGUFWriter(path, "llama")
    if seed % 3 == 1:
        writer.add_custom_alignment(rng.choice((8, 64, 256)))
    for number in range((0, 3, 60)[seed % 3]):
        key = f"x.{number}"
        kind = rng.choice(("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64",
                           "int64", "float32", "float64", "bool", "string"))  # fmt: skip
        value: Any = rng.randrange(100)
        if kind.startswith("float"):
            value = rng.choice((0.5, -1.25, 3.0))
        elif kind == "bool":
            value = rng.random() < 0.5
        elif kind == "string":
            value = rng.choice(("", "a", "é\n", "x" * 3_000))
        getattr(writer, f"add_{kind}")(key, value)
        if rng.random() < 0.5:
            writer.add_array(f"{key}.array", [value] * rng.randrange(1, 20))
    for number in range((2, 0, 300)[seed % 3]):
        dtype = rng.choice((np.float32, np.float16, np.int8, np.int32))
        sides = [rng.choice((1, 3, 32)) for _ in range(rng.randrange(1, 5))]
        writer.add_tensor(f"blk.{number}.weight", np.zeros(sides, dtype))
        packed = np.zeros((4, 34), np.uint8)
        writer.add_tensor(f"q.{number}", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def plain(value: Any) -> Any:
    if isinstance(value, array):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value.decode() if isinstance(value, bytes) else value


def assert_agree(path: Path) -> None:
    header = gguf_header.parse(path.read_bytes())
    reader = gguf.GGUFReader(path)
    fields = {n: field for n, field in reader.fields.items() if not n.startswith("GGUF.")}
    assert header.keys.keys() == fields.keys()
    for name, field in fields.items():
        kind, ours = header.keys[name]
        names = [member.name.lower() for member in field.types]
        assert kind == (f"array[{names[-1]}]" if names[0] == "array" else names[0]), name
        if not isinstance(ours, gguf_header.GgufArray):
            assert plain(ours) == field.contents(), name
        else:
            assert ours.count == len(field.data), name
    theirs = {t.name: (t.tensor_type.name, tuple(map(int, t.shape))) for t in reader.tensors}
    ours = {
        t.name: (gguf_facts.gguf_header.TENSOR_TYPES[t.type][0], tuple(t.dims))
        for t in header.tensors
    }
    assert ours == theirs
    if reader.tensors:
        offsets = [header.data_start + t.offset for t in header.tensors]
        assert offsets == [int(t.data_offset) for t in reader.tensors]


@pytest.mark.parametrize("seed", range(9))
def test_gguf_headers(tmp_path: Path, seed: int) -> None:
    write_gguf(tmp_path / "m.gguf", seed)
    assert_agree(tmp_path / "m.gguf")


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["gpt-2", "llama-spm"])
def test_real_gguf_headers(realdata: Path, name: str) -> None:
    assert_agree(realdata / f"gguf-vocab/ggml-vocab-{name}.gguf")


def test_where_we_are_stricter_on_purpose(tmp_path: Path) -> None:
    """gguf reads a key without a name, and tensors of no bytes at all; llama.cpp refuses both."""
    body = struct.pack("<IIQQ", 0x46554747, 3, 0, 1) + struct.pack("<QII", 0, 4, 7)
    (tmp_path / "m.gguf").write_bytes(body)
    assert "" in gguf.GGUFReader(tmp_path / "m.gguf").fields
    with pytest.raises(gguf_header.BadGguf, match="has no name"):
        gguf_header.parse(body)


@pytest.mark.parametrize("model", ["pair/target.gguf", "pair/target"])
def test_sound_files_get_no_note(run: Run, model: str) -> None:
    pytest.importorskip("transformers", reason="the trial extra is not installed")
    ran = run("inspect", FIXTURES / model, "--deep", "--format", "json")
    assert ran.code == 0
    assert "notes" not in ran.json["facts"]


DIFFERENT: list[tuple[Any, str]] = [
    (None, "no second opinion: gguf did not come to an end"),
    ({"refused": "ValueError: a\nb"}, "gguf refuses it: ValueError: a b"),
    ({"tensors": {}}, "only draftcheck sees tensor 'a'"),
    ({"tensors": {"a": ["F32", [2]], "b": ["F32", []]}}, "only gguf sees tensor 'b'"),
    ({"tensors": {"a": ["F16", [2]]}}, "tensor 'a' is F32 [2], for gguf it is F16 [2]"),
    ({"tensors": {"a": ["F32", [3]]}}, "tensor 'a' is F32 [2], for gguf it is F32 [3]"),
    ({"tensors": {"a": ["F32", [2]]}, "keys": ["GGUF.version"]}, "only draftcheck sees key "),
]


@pytest.mark.parametrize(("answer", "says"), DIFFERENT)
def test_a_difference_is_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any, says: str
) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("a", np.zeros(2, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    monkeypatch.setattr(limited, "run", lambda *_, **__: answer)
    ran = run("inspect", tmp_path / "m.gguf", "--deep", "--format", "json")
    assert ran.code == 0
    [note] = ran.json["facts"]["notes"]
    assert note.startswith(f"{tmp_path / 'm.gguf'}: {says}")
    assert "notes" not in run("inspect", tmp_path / "m.gguf", "--format", "json").json["facts"]


def test_a_library_that_is_not_installed_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_opinion, "find_spec", lambda _: None)
    ran = run("inspect", FIXTURES / "pair/target.gguf", "--deep", "--format", "json")
    [note] = ran.json["facts"]["notes"]
    assert note.startswith("no second opinion: gguf is not installed")


def test_a_child_has_limits(tmp_path: Path) -> None:
    assert limited.run("print(json.dumps(sys.argv[3:]))", "a") == ["a"]
    assert limited.run("import time; time.sleep(60)", seconds=1) is None
    assert limited.run("bytearray(1 << 40)") is None
    assert limited.run("print('no JSON')") is None
