"""SentencePiece, tiktoken, tekken, vocab.json and vocab.txt, broken in many ways."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.conftest import Run
from tests.hostile.support import ANY, LONG, READ, assert_calm, bounded, examine, sparse, write


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    return varint(number << 3 | 2) + varint(len(value)) + value


def piece(text: bytes, kind: int | None = None) -> bytes:
    score = varint(2 << 3 | 5) + bytes(4)
    return field(1, field(1, text) + score + (field(3, kind) if kind is not None else b""))


def trainer(**ids: int) -> bytes:
    numbers = {"model_type": 3, "unk": 40, "bos": 41, "eos": 42, "pad": 43}
    return field(2, b"".join(field(numbers[name], value) for name, value in ids.items()))


PIECES = b"".join(piece(b"t%d" % i) for i in range(300))


def model_folder(path: Path, name: str, data: bytes | str) -> Path:
    """A folder whose only tokenizer is this file."""
    folder = make.folder(path / "m")
    (folder / "tokenizer.json").unlink()
    write(folder / name, data)
    return folder


SENTENCEPIECE_BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "no pieces"),
    "zeros": (bytes(100), "no pieces"),
    "HTML": (b"<!DOCTYPE html>", ""),
    "JSON": (b'{"error": 404}', ""),
    "pickle": (b"\x80\x04\x95", ""),
    "number without end": (b"\xff" * 20, "bad number"),
    "length of 2^63": (b"\x0a" + varint(2**63), "runs past the end"),
    "length past the end": (PIECES + b"\x0a\x7f", "runs past the end"),
    "cut off": (PIECES[:-3], "runs past the end"),
    "group": (PIECES + b"\x0b", "wire type 3"),
    "wire type 7": (PIECES + b"\x0f", "wire type 7"),
    "half a float": (PIECES + b"\x15\x00", "runs past the end"),
    "half a double": (PIECES + b"\x11\x00", "runs past the end"),
    "no pieces": (trainer(model_type=2), "no pieces"),
    "broken piece": (field(1, b"\x0a\x7f"), "runs past the end"),
    "broken trainer": (PIECES + field(2, b"\xff"), "bad number"),
    "text": (b"just some text\n" * 9, ""),
}


@pytest.mark.parametrize("fault", SENTENCEPIECE_BROKEN)
def test_broken_sentencepiece(run: Run, good: Path, tmp_path: Path, fault: str) -> None:
    data, says = SENTENCEPIECE_BROKEN[fault]
    folder = model_folder(tmp_path, "tokenizer.model", data)
    ran = examine(run, folder, READ, good)
    assert "m/tokenizer.model: " in ran.err
    assert says in ran.err


SENTENCEPIECE_ODD: dict[str, bytes] = {
    "sound": PIECES + trainer(model_type=2, unk=0, bos=1, eos=2, pad=-1),
    "ids out of range": PIECES + trainer(unk=2**31 - 1, bos=2**40, eos=-5, pad=2**63 - 1),
    "unknown type": PIECES + trainer(model_type=99),
    "kinds out of range": PIECES + piece(b"x", 2**63) + piece(b"y", 99),
    "all the same": piece(b"x") * 300,
    "empty pieces": field(1, b"") * 300,
    "piece is a number": PIECES + field(1, 5),
    "no texts": b"".join(piece(bytes([255, i % 256])) for i in range(300)),
    "escapes": b"".join(piece(b"\x1b[%dm\x9b\r\n" % i) for i in range(300)),
    "unknown fields": PIECES + field(1000, b"x") + field(2**28, 5),
    "field 0": PIECES + b"\x00\x00",
    "many trainers": PIECES + trainer(bos=1) + trainer(bos=5),
    "all kinds": b"".join(piece(b"t%d" % i, i % 8) for i in range(300)),
}


@pytest.mark.parametrize("fault", SENTENCEPIECE_ODD)
def test_odd_sentencepiece(run: Run, good: Path, tmp_path: Path, fault: str) -> None:
    folder = model_folder(tmp_path, "tokenizer.model", SENTENCEPIECE_ODD[fault])
    examine(run, folder, ANY, good)
    (folder / "tokenizer.json").write_text(json.dumps(make.tokenizer()))
    examine(run, folder, ANY, good)  # now it only decides how a converter would see the folder


def test_millions_of_pieces(tmp_path: Path) -> None:
    folder = model_folder(tmp_path, "tokenizer.model", b"\x0a\x00" * 15_000_000)
    found = bounded("inspect", folder, seconds=40)
    assert found.ran.code == 3
    assert "too many pieces" in found.ran.err
    assert found.peak < 600 * 10**6


def rank(text: bytes, number: object) -> bytes:
    return base64.b64encode(text) + f" {number}\n".encode()


RANKS = b"".join(rank(bytes([i]), i) for i in range(256))
TIKTOKEN_BROKEN: dict[str, tuple[bytes, str]] = {
    "no rank": (RANKS + b"YWI=\n", "line 257"),
    "three words": (RANKS + b"YWI= 256 x\n", "line 257"),
    "no base64": (RANKS + b"a?b= 256\n", "line 257"),
    "bad padding": (RANKS + b"YWI 256\n", "line 257"),
    "float": (RANKS + rank(b"ab", 256.5), "line 257"),
    "negative": (RANKS + rank(b"ab", -1), "id"),
    "10^12": (RANKS + rank(b"ab", 10**12), "token id"),
    "5,000 digits": (RANKS + rank(b"ab", "9" * 5000), "line 257"),
    "far away": (RANKS + rank(b"ab", 10**6), "token id"),
    "empty token": (RANKS + rank(b"", 256), "line 257"),
    "not ASCII": (RANKS + "ä 256\n".encode(), "line 257"),
    "zeros": (RANKS + bytes(9), "line 257"),
    "cut off": (RANKS + b"YWI= 256\nYWJ", "line 258"),
}


@pytest.mark.parametrize("name", ["tokenizer.model", "qwen.tiktoken"])
@pytest.mark.parametrize("fault", TIKTOKEN_BROKEN)
def test_broken_tiktoken(run: Run, good: Path, tmp_path: Path, name: str, fault: str) -> None:
    data, says = TIKTOKEN_BROKEN[fault]
    folder = model_folder(tmp_path, name, data)
    ran = examine(run, folder, READ, good if name == "tokenizer.model" else None)
    assert f"m/{name}: " in ran.err
    assert says in ran.err


@pytest.mark.parametrize(
    "data",
    [
        RANKS, RANKS.replace(b"\n", b"\r\n"), RANKS + b"\n\n", RANKS + rank(b"a", 97),
        RANKS + rank(b"ab", 97), RANKS + rank(b"\x1b[2J", 256), b"YQ== 5\n",
    ],
    ids=range(7),
)  # fmt: skip
def test_odd_tiktoken(run: Run, good: Path, tmp_path: Path, data: bytes) -> None:
    examine(run, model_folder(tmp_path, "tokenizer.model", data), ANY, good)


def test_empty_tiktoken(run: Run, good: Path, tmp_path: Path) -> None:
    examine(run, model_folder(tmp_path, "qwen.tiktoken", b""), ANY, good)


def test_millions_of_ranks(tmp_path: Path) -> None:
    folder = model_folder(tmp_path, "tokenizer.model", b"YQ== 1\n" * 4_500_000)
    found = bounded("inspect", folder)
    assert found.ran.code == 3
    assert "lines" in found.ran.err


def tekken(**changes: Any) -> dict[str, Any]:
    vocab = [
        {"rank": i, "token_bytes": base64.b64encode(bytes([i])).decode(), "token_str": None}
        for i in range(256)
    ]
    config = {
        "pattern": "x",
        "num_vocab_tokens": 256,
        "default_vocab_size": 276,
        "default_num_special_tokens": 20,
        "version": "v3",
    }
    return {"config": config, "vocab": vocab, **changes}


def with_config(**changes: Any) -> dict[str, Any]:
    return tekken(config={**tekken()["config"], **changes})


TEKKEN_BROKEN: list[Any] = [
    [], None, 5, {}, {"config": {}}, {"config": {}, "vocab": []}, tekken(config=[]),
    tekken(vocab={}), tekken(vocab=None), tekken(vocab=[5]), tekken(vocab=[None]),
    tekken(vocab=["YQ=="]), tekken(vocab=[{}]), tekken(vocab=[{"token_bytes": None}]),
    tekken(vocab=[{"token_bytes": 5}]), tekken(vocab=[{"token_bytes": "?"}]),
    tekken(vocab=[{"token_bytes": "ä"}]), tekken(vocab=[{"token_bytes": ["YQ=="]}]),
    tekken(special_tokens=5), tekken(special_tokens={"a": 1}), tekken(special_tokens="<s>"),
    tekken(special_tokens=[5]), tekken(special_tokens=[{}]), tekken(special_tokens=True),
    tekken(special_tokens=[{"rank": -1, "token_str": "a"}]),
    tekken(special_tokens=[{"rank": "1", "token_str": "a"}]),
    tekken(special_tokens=[{"rank": 1, "token_str": None}]),
    with_config(default_vocab_size=None), with_config(default_vocab_size="131072"),
    with_config(default_vocab_size=-1), with_config(default_vocab_size=1e30),
    with_config(default_num_special_tokens=True), with_config(default_num_special_tokens=277),
    with_config(default_vocab_size=10**9, default_num_special_tokens=10**9),
    with_config(pattern="[" * 5, default_num_special_tokens=None),
]  # fmt: skip


@pytest.mark.parametrize("body", TEKKEN_BROKEN, ids=range(len(TEKKEN_BROKEN)))
def test_broken_tekken(run: Run, good: Path, tmp_path: Path, body: Any) -> None:
    folder = model_folder(tmp_path, "tekken.json", json.dumps(body))
    assert "m/tekken.json: " in examine(run, folder, READ, good).err


TEKKEN_ODD = [
    tekken(), tekken(vocab=[]), tekken(special_tokens=[]), tekken(special_tokens=None),
    tekken(special_tokens=[{"rank": 10**9, "token_str": "a"}]),
    tekken(special_tokens=[{"rank": 3, "token_str": "\ud800\x1b[2J\u202e"}] * 5),
    with_config(pattern="\ud800"), with_config(pattern=5), with_config(default_vocab_size=20),
    with_config(default_vocab_size=10**9), with_config(default_num_special_tokens=0),
]  # fmt: skip


@pytest.mark.parametrize("body", TEKKEN_ODD, ids=range(len(TEKKEN_ODD)))
def test_odd_tekken(run: Run, good: Path, tmp_path: Path, body: Any) -> None:
    examine(run, model_folder(tmp_path, "tekken.json", json.dumps(body)), ANY, good)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\r\r\n\n", b"a\nb", bytes(50), b"\xff\n\xfe", b"\x1b[2J\n\x9b\n"]
)
def test_odd_vocab_txt(run: Run, good: Path, tmp_path: Path, data: bytes) -> None:
    examine(run, model_folder(tmp_path, "vocab.txt", data), ANY, good)


def test_millions_of_lines(tmp_path: Path) -> None:
    folder = model_folder(tmp_path, "vocab.txt", b"\r" * 30_000_000)
    found = bounded("inspect", folder)
    assert found.ran.code == 3
    assert "vocab.txt: more than" in found.ran.err
    assert found.peak < 600 * 10**6


def test_tokenizers_of_ten_gigabytes(run: Run, tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / "tokenizer.json").unlink()
    for name in ("tekken.json", "tokenizer.model", "qwen.tiktoken", "vocab.json", "vocab.txt"):
        path = sparse(folder / name, 10**10)
        ran = examine(run, folder, READ)
        assert f"m/{name}: 10,000,000,000 bytes is more than" in ran.err
        path.unlink()


def test_bytes_turned_at_random(run: Run, tmp_path: Path) -> None:
    """Every file, one to three bytes changed, cut or added."""
    rng = random.Random(7)
    files = {
        "tokenizer.model": [SENTENCEPIECE_ODD["sound"], RANKS],
        "tekken.json": [json.dumps(tekken()).encode()],
        "vocab.json": [json.dumps(make.byte_vocabulary()).encode()],
    }
    for name, bases in files.items():
        folder = model_folder(tmp_path / name, name, b"")
        for base in bases:
            for _ in range(int(40 * LONG)):
                write(folder / name, mutated(base, rng))
                ran = run("inspect", folder)
                assert_calm(ran)
                assert ran.code in (0, 3)


def mutated(base: bytes, rng: random.Random) -> bytes:
    data = bytearray(base)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1) if data else 0
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 2:
            del data[at : at + rng.randrange(1, 20)]
        else:
            del data[at:]
    return bytes(data)
