"""Reading a part instead of the whole: what it tells must be what the whole file tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftcheck.models.readers.gguf import header
from draftcheck.models.readers.gguf.header import TruncatedGguf
from draftcheck.models.readers.tokenizer import lean as lean_tokenizer
from draftcheck.models.readers.tokenizer import tokenizer_json
from draftcheck.models.sources.folder import FolderSource
from tests import make
from tests.hub import models
from tests.hub.words import tokenizer_json as written

SAME = ("kind", "behaviour", "pre", "post_processor", "byte_fallback", "decoder", "added")


class Counted(FolderSource):
    """Counts what is read of a file."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.spans: dict[int, int] = {}

    def head(self, name: str, length: int) -> Any:
        self.spans[0] = max(self.spans.get(0, 0), length)
        return super().head(name, length)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        self.spans[start] = length
        return super().read_range(name, start, length)


def lean(folder: Path, data: bytes, rows: int | None = None) -> tuple[Any, int]:
    (folder / "tokenizer.json").write_bytes(data)
    source = Counted(folder)
    return lean_tokenizer.read(source, "tokenizer.json", rows), sum(source.spans.values())


def assert_same_as_whole(found: Any, data: bytes) -> None:
    assert found is not None
    facts, definition = found
    whole = tokenizer_json.read(data, "x")
    assert facts.length == len(whole.tokens or ()) and facts.tokens is None
    for name in SAME:
        assert getattr(definition, name) == getattr(whole, name), name


@pytest.mark.parametrize("words", [20_000, 60_001])
@pytest.mark.parametrize("compact", [False, True])
def test_a_tenth_of_a_tokenizer_tells_its_frame_and_length(
    tmp_path: Path, words: int, compact: bool
) -> None:
    data = written(words)
    if compact:
        data = json.dumps(json.loads(data), separators=(",", ":")).encode()
    found, count = lean(tmp_path, data)
    assert_same_as_whole(found, data)
    assert count < 140_000


def test_added_tokens_inside_the_vocabulary(tmp_path: Path) -> None:
    """No added ids at the end point to it: the number of rows does."""
    body = json.loads(written(30_000))
    body["added_tokens"] = [{**body["added_tokens"][0], "id": 0, "content": "<unk>"}]
    data = json.dumps(body, ensure_ascii=False).encode()
    for rows in (30_000, 32_000, None):
        found, count = lean(tmp_path, data, rows)
        assert_same_as_whole(found, data)
        assert count < 300_000


@pytest.mark.parametrize(
    "tokens",
    [
        ['": 5}, "merges": ['],
        ['\\": 7}}', "\\\\", '"'],
        [f'": {i},' for i in range(3000)],
    ],
)
def test_tokens_that_look_like_the_end(tmp_path: Path, tokens: list[str]) -> None:
    body = json.loads(written(20_000))
    vocab = body["model"]["vocab"]
    for text in tokens:
        vocab[text] = len(vocab)
    for number, entry in enumerate(body["added_tokens"]):
        entry["id"] = len(vocab) + number
    data = json.dumps(body, ensure_ascii=False).encode()
    found, _ = lean(tmp_path, data)
    if found is not None:  # giving up is allowed, being wrong is not
        assert_same_as_whole(found, data)


def shuffled(body: dict[str, Any]) -> None:
    items = list(body["model"]["vocab"].items())
    body["model"]["vocab"] = dict(items[10_000:] + items[:10_000])


def model_first(body: dict[str, Any]) -> None:
    rest = dict(body)
    body.clear()
    body.update(model=rest.pop("model"), **rest)


def unigram(body: dict[str, Any]) -> None:
    body["model"] = {"type": "Unigram", "unk_id": 0, "vocab": [["a" * 30, -1.0]] * 20_000}


@pytest.mark.parametrize("change", [shuffled, model_first, unigram])
def test_another_layout_is_read_whole(tmp_path: Path, change: Any) -> None:
    body = json.loads(written(20_000))
    change(body)
    found, _ = lean(tmp_path, json.dumps(body).encode())
    assert found is None


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]" * 200_000, b"\xff" * 300_000, b'{"a":' * 100_000, b" " * 300_000]
)
def test_rubbish_is_left_to_the_reader_of_the_whole(tmp_path: Path, data: bytes) -> None:
    assert lean(tmp_path, data)[0] is None


@pytest.mark.realdata
def test_real_tokenizers(tmp_path: Path, realdata: Path) -> None:
    for path in sorted(realdata.rglob("tokenizer.json")):
        data = path.read_bytes()
        found, count = lean(tmp_path, data)
        assert_same_as_whole(found, data)
        assert count < max(500_000, len(data) / 10), path


def fetched(data: bytes) -> tuple[int, int]:
    """How many bytes and reads it takes to have the whole header."""
    need, reads = 64 * 1024, 1
    while True:
        try:
            header.parse(data[:need])
            return need, reads
        except TruncatedGguf as stop:
            longer = header.guess(stop, need)
            assert longer > need
            need, reads = longer, reads + 1


@pytest.mark.parametrize("words", [5_000, 30_000, 151_643])
def test_a_gguf_header_takes_few_reads(words: int) -> None:
    file = models.gguf(words)
    need, reads = fetched(file.head + bytes(1 << 22))
    assert reads <= 5 and need <= 1.15 * len(file.head) + 64 * 1024


def test_a_gguf_without_merges_takes_few_reads() -> None:
    keys = {k: v for k, v in models.gguf_keys(60_000).items() if "merges" not in k}
    keys["tokenizer.ggml.scores"] = ("array[float32]", [0.0] * 60_005)
    head, _ = make.gguf_header(keys, models.gguf_tensors(60_005))
    need, reads = fetched(head + bytes(1 << 22))
    assert reads <= 5 and need <= 1.15 * len(head) + 64 * 1024
