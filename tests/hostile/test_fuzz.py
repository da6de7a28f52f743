"""Random input: a result or the documented error, whatever the bytes.

DRAFTCHECK_FUZZ=20 runs everything twenty times as long.
"""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from draftcheck.errors import ReadError, UsageError
from draftcheck.models import refs, stored
from draftcheck.models.readers import config, jsonfile
from draftcheck.models.readers.gguf import facts as gguf
from draftcheck.models.readers.gguf import header as gguf_header
from draftcheck.models.readers.tokenizer import files as tokenizer
from draftcheck.models.readers.tokenizer import sentencepiece, tokenizer_json, vocabulary
from draftcheck.models.readers.weights import safetensors_header
from tests import make
from tests.conftest import Run
from tests.fuzz.mutate import damaged_bytes as damaged
from tests.hostile.support import (
    LONG,
    assert_calm,
    key,
    strict_json,
    strings,
    tensor,
    text,
    u32,
    u64,
    write,
)

MANY = settings(
    max_examples=int(40 * LONG),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    database=None,
    derandomize=LONG == 1,
)
NUMBERS = st.one_of(
    st.integers(-2, 5),
    st.sampled_from([2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1, 2**64, 10**30, -(2**63)]),
    st.integers(),
)
WORDS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        [
            "type",
            "id",
            "content",
            "model",
            "vocab",
            "merges",
            "dtype",
            "shape",
            "data_offsets",
            "F32",
        ]
    ),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.floats(), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)


class Memory:
    """Files that exist only here."""

    def __init__(self, **files: bytes) -> None:
        self.label = "memory"
        self.revision = None
        self._files = {name.replace("__", "."): data for name, data in files.items()}

    def files(self) -> Mapping[str, int]:
        return {name: len(data) for name, data in self._files.items()}

    def read(self, name: str, limit: int) -> bytes:
        return self._files[name]

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self._files[name][start : start + length]

    def head(self, name: str, length: int) -> bytes:
        return self._files[name][:length]

    def path(self, name: str) -> str | None:
        return None

    def called(self, name: str) -> str:
        return f"memory/{name}"

    def digest(self, name: str) -> str | None:
        return None

    def expect(self, heads: Mapping[str, int]) -> None:
        pass

    def vouch(self, name: str) -> None:
        pass

    def offer(self, name: str, data: bytes) -> None:
        pass


def allowed(call: Callable[[], object], *errors: type[Exception]) -> object:
    """The result, or None for a documented error."""
    try:
        return call()
    except errors:
        return None


def objects(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of the members that a reader looks for."""
    return st.dictionaries(st.one_of(st.sampled_from(names), WORDS), JSON, max_size=6)


# Parsers


@given(st.binary(max_size=200), st.sampled_from([b"", b"GGUF", b"GGUF" + u32(3), b"GGUF" + u32(2)]))
@MANY
def test_gguf_of_any_bytes(data: bytes, start: bytes) -> None:
    allowed(lambda: gguf_header.parse(start + data), gguf_header.BadGguf)
    source = Memory(m__gguf=start + data)
    allowed(lambda: gguf.read(source, "m.gguf", "m"), ReadError)


KINDS = st.one_of(st.integers(0, 14), NUMBERS.filter(lambda n: 0 <= n < 2**32))
LENGTHS = st.one_of(st.integers(0, 6), NUMBERS.filter(lambda n: 0 <= n < 2**64))
NAMES = st.sampled_from(
    ["a", "general.architecture", "general.alignment", "llama.block_count", "llama.context_length",
     "tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
     "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.scores"]
)  # fmt: skip
SCALAR_KEYS = st.builds(lambda n, k, v: key(n, k, v), NAMES, KINDS, st.binary(max_size=12))
TEXT_KEYS = st.builds(lambda n, v: key(n, 8, text(v)), NAMES, st.binary(max_size=8))
LIST_KEYS = st.builds(lambda n, v: key(n, 9, strings(*v)), NAMES, st.lists(st.binary(max_size=5)))
ARRAY_KEYS = st.builds(
    lambda n, k, c, v: key(n, 9, u32(k) + u64(c) + v), NAMES, KINDS, LENGTHS, st.binary(max_size=40)
)
TENSORS = st.builds(
    lambda n, d, k, o: tensor(n, d, k, o),
    st.sampled_from(["t", "token_embd.weight", "output.weight", ""]),
    st.lists(LENGTHS, max_size=5),
    KINDS,
    LENGTHS,
)


@given(
    st.lists(st.one_of(SCALAR_KEYS, TEXT_KEYS, LIST_KEYS, ARRAY_KEYS), max_size=6),
    st.lists(TENSORS, max_size=3),
    st.integers(-1, 1),
    st.binary(max_size=64),
)
@MANY
def test_gguf_of_sound_parts(
    keys: list[bytes], tensors: list[bytes], extra: int, tail: bytes
) -> None:
    counts = u64(max(0, len(tensors) + extra)) + u64(len(keys))
    data = b"GGUF" + u32(3) + counts + b"".join(keys) + b"".join(tensors) + tail
    allowed(lambda: gguf_header.parse(data), gguf_header.BadGguf)
    found = allowed(lambda: gguf.read(Memory(m__gguf=data), "m.gguf", "m"), ReadError)
    if found is not None:
        body = json.loads(json.dumps(stored.dump(found, whole=True)))  # type: ignore[arg-type]
        stored.from_dict({**body, "ref": "m"}, "m")


@given(st.one_of(st.binary(max_size=100), JSON.map(lambda v: json.dumps(v).encode())))
@MANY
def test_safetensors_of_any_bytes(body: bytes) -> None:
    for data in (
        body,
        struct.pack("<Q", len(body)) + body,
        struct.pack("<Q", len(body)) + body + body,
    ):
        source = Memory(m__safetensors=data)
        allowed(lambda s=source: safetensors_header.read(s, "m.safetensors"), ReadError)


@given(st.dictionaries(WORDS, objects("dtype", "shape", "data_offsets"), max_size=3))
@MANY
def test_safetensors_of_any_header(header: dict[str, Any]) -> None:
    body = json.dumps(header).encode()
    source = Memory(m__safetensors=struct.pack("<Q", len(body)) + body)
    allowed(lambda: safetensors_header.read(source, "m.safetensors"), ReadError)


@given(st.one_of(st.binary(max_size=100), JSON.map(lambda v: json.dumps(v).encode())))
@MANY
def test_json_of_any_bytes(data: bytes) -> None:
    allowed(lambda: jsonfile.shallow_object(jsonfile.parse(data, "x"), "x"), ReadError)
    allowed(lambda: tokenizer_json.read(data, "x"), ReadError)


VOCAB = st.one_of(
    JSON, st.dictionaries(st.text(max_size=4), st.one_of(st.integers(0, 20), NUMBERS), max_size=8)
)
MERGES = st.one_of(
    JSON,
    st.lists(st.one_of(st.text(max_size=5), st.lists(st.text(max_size=3), max_size=3)), max_size=5),
)
ADDED = st.one_of(JSON, st.lists(objects("id", "content", "special", "normalized"), max_size=3))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "added_tokens": ADDED,
            "normalizer": JSON,
            "pre_tokenizer": objects("type", "pretokenizers"),
            "decoder": objects("type", "decoders"),
            "post_processor": objects("type", "single", "processors"),
            "model": st.fixed_dictionaries(
                {"vocab": VOCAB},
                optional={"type": JSON, "merges": MERGES, "unk_token": JSON, "byte_fallback": JSON},
            ),
        },
    ),
    objects("bos_token", "eos_token", "add_bos_token", "added_tokens_decoder", "chat_template"),
)
@MANY
def test_tokenizers_of_any_shape(root: dict[str, Any], options: dict[str, Any]) -> None:
    body = json.dumps(root).encode()
    allowed(lambda: tokenizer_json.read(body, "x"), ReadError)
    files = {"tokenizer__json": body, "tokenizer_config__json": json.dumps(options).encode()}
    allowed(lambda: tokenizer.read(Memory(**files)), ReadError)
    files["vocab__json"] = json.dumps(root.get("model", {}).get("vocab")).encode()
    del files["tokenizer__json"]
    allowed(lambda: tokenizer.read(Memory(**files)), ReadError)


@given(st.binary(max_size=200))
@MANY
def test_sentencepiece_of_any_bytes(data: bytes) -> None:
    allowed(lambda: sentencepiece.parse(data), sentencepiece.BadSentencePiece)
    source = Memory(tokenizer__model=data)
    allowed(lambda: tokenizer.read(source), ReadError)


LINES = st.lists(
    st.builds(lambda a, b: a + b" " + b, st.binary(max_size=6), st.binary(max_size=4)), max_size=6
)


@given(st.one_of(st.binary(max_size=80), LINES.map(b"\n".join)))
@MANY
def test_tiktoken_of_any_bytes(data: bytes) -> None:
    for body in (data, b"YQ== 0\n" + data):
        allowed(lambda b=body: vocabulary.read_tiktoken(b, "x"), ReadError)
        allowed(lambda b=body: tokenizer.read(Memory(tokenizer__model=b)), ReadError)


@given(
    st.one_of(
        objects("config", "vocab", "special_tokens"),
        st.fixed_dictionaries(
            {
                "config": objects("default_vocab_size", "default_num_special_tokens", "pattern"),
                "vocab": st.one_of(JSON, st.lists(objects("token_bytes", "rank"), max_size=4)),
            },
            optional={"special_tokens": st.lists(objects("rank", "token_str"), max_size=3)},
        ),
    )
)
@MANY
def test_tekken_of_any_object(root: dict[str, Any]) -> None:
    allowed(lambda: vocabulary.read_tekken(root, "x"), ReadError)
    source = Memory(tekken__json=json.dumps(root).encode())
    allowed(lambda: tokenizer.read(source), ReadError)


@given(
    objects("vocab_size", "rope_scaling", "text_config", "layer_types", "quantization_config",
            "eos_token_id", "architectures", "max_position_embeddings", "num_attention_heads",
            "hidden_size"),
    st.one_of(st.none(), objects("eos_token_id")),
)  # fmt: skip
@MANY
def test_config_of_any_object(body: dict[str, Any], generation: dict[str, Any] | None) -> None:
    allowed(lambda: config.from_dict(body, generation, "x"), ReadError)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "tokenizer": objects("tokens", "added", "bos_id", "length", "files", "padding"),
            "config": objects("vocab_size", "architectures", "rope_scaling", "eos_token_ids"),
            "weights": objects("files", "tensors", "parameters", "problems"),
            "gguf": objects("version", "keys", "splits"),
            "conversion": objects("model", "bos_id", "add_bos"),
            "notes": JSON,
            "origin": JSON,
            "role": JSON,
        },
    )
)
@MANY
def test_facts_of_any_object(body: dict[str, Any]) -> None:
    found = allowed(lambda: stored.from_dict({**body, "ref": "x"}, "x"), ReadError)
    if found is not None:
        strict_json(json.dumps(stored.dump(found, whole=False)))  # type: ignore[arg-type]


@given(st.text(max_size=40))
@MANY
def test_references_of_any_text(name: str) -> None:
    allowed(lambda: refs.parse(name), ReadError, UsageError)


# tokenizer.json is read by byte searches where its layout allows, by the JSON parser where not


TOKENS = st.lists(
    st.one_of(
        st.text(max_size=5),
        st.text(alphabet=st.sampled_from('ab ",:[]{}\\/\u0120\n\t5\u00e9\U0001f600'), max_size=8),
        st.sampled_from(
            ['": 5, "', '"], ["', '", "', "\\", '\\"', '"', " ", "  ", "], [", "vocab"]
        ),
    ),
    min_size=1,
    max_size=12,
    unique=True,
)
LAYOUTS = st.sampled_from(
    [
        {"separators": (",", ":"), "ensure_ascii": False},
        {"separators": (",", ":")},
        {"indent": 2, "ensure_ascii": False},
        {"indent": 1},
        {},
    ]
)


@given(
    TOKENS, st.randoms(use_true_random=False), LAYOUTS, st.sampled_from(["pairs", "texts", "both"])
)
@settings(MANY, max_examples=int(80 * LONG))
def test_both_ways_to_read_a_tokenizer_agree(
    tokens: list[str], rng: random.Random, layout: dict[str, Any], form: str
) -> None:
    ids = list(range(len(tokens)))
    if rng.random() < 0.3:
        rng.shuffle(ids)
    pairs: list[Any] = [[rng.choice(tokens), rng.choice(tokens)] for _ in range(rng.randrange(4))]
    if form != "pairs":
        joined = [" ".join(pair) for pair in pairs]
        pairs = joined if form == "texts" else joined + pairs
    root = make.tokenizer(dict(zip(tokens, ids, strict=True)), added=("<s>",), merges=pairs)
    body = json.dumps(root, **layout).encode("utf-8", "surrogatepass")
    assert_agree(body)
    assert_agree(damaged_text(body, rng))


def damaged_text(body: bytes, rng: random.Random) -> bytes:
    """Bytes that matter to JSON, in the tables."""
    data = bytearray(body)
    start = data.find(b'"vocab"')
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = rng.randrange(start, len(data))
        if rng.random() < 0.5:
            data[at : at + rng.choice([0, 1])] = rng.choice(
                [
                    b'"',
                    b"\\",
                    b",",
                    b":",
                    b"[",
                    b"]",
                    b"{",
                    b"}",
                    b" ",
                    b"0",
                    b"\x0b",
                    b"\xff",
                    b"\n",
                ]
            )
        else:
            del data[at : at + rng.choice([1, 2, 5])]
    return bytes(data)


def assert_agree(body: bytes) -> None:
    """The same file with one member more at its end is always left to the JSON parser."""
    if not body.rstrip().endswith(b"}"):
        return
    other = body.rstrip()[:-1] + b', "zz": null}'
    quick = allowed(lambda: tokenizer_json.read(body, "x"), ReadError)
    plain = allowed(lambda: tokenizer_json.read(other, "x"), ReadError)
    assert quick == plain, body


# Whole commands over files with random damage


def folder_files(folder: Path) -> Iterator[tuple[Path, Path]]:
    for path in sorted(folder.iterdir()):
        yield path, folder


def shake(run: Run, path: Path, model: Path, good: Path, rounds: int, seed: int) -> None:
    """Damage one file again and again; the model must stay readable or say why it is not."""
    base = path.read_bytes()
    rng = random.Random(seed)
    try:
        for number in range(rounds):
            data = damaged(base, rng)
            write(path, data)
            pair = ("pair", model, good) if rng.random() < 0.5 else ("pair", good, model)
            arguments = pair if number % 3 == 0 else ("inspect", model)
            ran = run(*arguments, "--format", rng.choice(["json", "text", "markdown"]))
            try:
                assert_calm(ran)
            except AssertionError:
                keep(data, path.name)
                raise
    finally:
        write(path, base)


def keep(data: bytes, name: str) -> None:
    """Leave the culprit where it can be found."""
    folder = os.environ.get("DRAFTCHECK_FUZZ_KEEP")
    if folder:
        write(Path(folder) / f"culprit-{name}", data)


@pytest.fixture
def several(tmp_path: Path) -> dict[str, Path]:
    """One small model of every kind."""
    merges = [["a", "b"], ["c", "d"], ["ab", "cd"]]
    folder = make.folder(tmp_path / "folder", tokenizer_json=make.tokenizer(merges=merges))
    make.write_json(folder / "generation_config.json", {"eos_token_id": [257, 258]})
    make.write_json(folder / "special_tokens_map.json", {"unk_token": {"content": "<unk>"}})
    make.write_json(
        folder / "model.safetensors.index.json",
        {"weight_map": {"model.embed_tokens.weight": "model.safetensors"}},
    )
    plain = make.folder(tmp_path / "plain")
    (plain / "tokenizer.json").unlink()
    make.write_json(plain / "vocab.json", make.byte_vocabulary())
    make.write_json(plain / "added_tokens.json", {"<s>": 256, "</s>": 257})
    write(plain / "merges.txt", "#version: 0.2\na b\nab c\n")
    types = [3, *[1] * 297, 4, 5]
    model = make.gguf(
        tmp_path / "m.gguf",
        types=types,
        keys={"tokenizer.ggml.scores": ("array[float32]", [0.5] * 300),
              "tokenizer.chat_template": ("string", "{{ x }}"),
              "llama.attention.head_count": ("array[uint32]", [2, 2])},
    )  # fmt: skip
    return {"folder": folder, "plain": plain, "gguf": model}


def test_damaged_folders(run: Run, several: dict[str, Path], good: Path) -> None:
    for seed, name in enumerate(("folder", "plain")):
        for path, model in folder_files(several[name]):
            size = path.stat().st_size
            shake(run, path, model, good, int(LONG * (25 if size < 10**5 else 10)), seed)


def test_damaged_ggufs(run: Run, several: dict[str, Path], good_gguf: Path) -> None:
    shake(run, several["gguf"], several["gguf"], good_gguf, int(150 * LONG), 1)


def test_damaged_facts(run: Run, several: dict[str, Path], tmp_path: Path, good: Path) -> None:
    for name, model in several.items():
        path = tmp_path / f"{name}.facts.json"
        assert run("inspect", model, "--output", path).code == 0
        shake(run, path, path, good, int(30 * LONG), 2)


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["ggml-vocab-llama-spm.gguf", "ggml-vocab-phi-3.gguf"])
def test_damaged_real_ggufs(run: Run, realdata: Path, tmp_path: Path, name: str) -> None:
    real = realdata / "gguf-vocab" / name
    path = write(tmp_path / name, real.read_bytes())
    shake(run, path, path, real, int(12 * LONG), 3)


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["llama2", "yi"])
def test_damaged_real_tokenizers(run: Run, realdata: Path, tmp_path: Path, name: str) -> None:
    real = realdata / "tokenizers" / name
    for file in real.iterdir():
        write(tmp_path / file.name, file.read_bytes())
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shake(run, tmp_path / file, tmp_path, real, int(6 * LONG), 4)


SCRAPS = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a"', b'"a":', b" ", b"\n", b"\\", b"\\ud800",
         b"\\u00e9", b"\xc3\xa9", b"\xe9", b"\x1b", b"0", b"-0", b"01", b"1.5", b"1e999", b"-1E-9",
         b"18446744073709551616", b"NaN", b"-Infinity", b"true", b"null", b"//", b"\xef\xbb\xbf"]
    ),
    max_size=9,
)  # fmt: skip


@MANY
@given(SCRAPS.map(b"".join))
@example(b'{"a": 1, "a": 2}')
@example(b'{"a": [1.0, -0, -0.0, 1e23, 123456789012345678901234567890]}')
@example(b'["\\ud800", "\\ud83d\\ude00", NaN, 1e999]')
def test_json_is_what_the_standard_library_reads(data: bytes) -> None:
    """msgspec reads most files; nothing passes or differs that json would not read the same."""
    try:
        ours = repr(jsonfile.parse(data, "m"))
    except ReadError:
        ours = "refused"
    try:
        theirs = repr(json.loads(str(data, "utf-8")))
    except ValueError:
        theirs = "refused"
    assert ours == theirs
