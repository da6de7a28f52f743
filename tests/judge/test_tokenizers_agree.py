"""Same vocabulary, other merges or pre-tokenizer: found by running both tokenizers."""

from __future__ import annotations

from pathlib import Path

from tests import make
from tests.conftest import Run

VOCAB = {**make.byte_vocabulary(), "th": 256, "he": 257, "the": 258}


def tokenization(run: Run, tmp_path: Path, one: dict, two: dict) -> dict:
    target = make.folder(tmp_path / "a", tokenizer_json=one, vocab_size=263)
    draft = make.folder(tmp_path / "b", tokenizer_json=two, vocab_size=263)
    found: dict = run("pair", target, draft, "--format", "json").json
    return found


def test_other_merges_give_other_ids(run: Run, tmp_path: Path) -> None:
    one = make.tokenizer(VOCAB, merges=[["t", "h"], ["th", "e"], ["h", "e"]])
    two = make.tokenizer(VOCAB, merges=[["h", "e"], ["t", "h"], ["th", "e"]])
    body = tokenization(run, tmp_path, one, two)
    assert body["vocabulary"]["relation"] == "identical"
    assert body["tokenization"]["same"] is False
    vllm = next(entry for entry in body["engines"] if entry["engine"] == "vllm")
    assert vllm["verdict"] == "degraded"
    assert "TRU005" in {f["rule"] for f in vllm["findings"] if f["outcome"] == "fail"}


def test_another_definition_with_the_same_effect_is_the_same(run: Run, tmp_path: Path) -> None:
    merges = [["t", "h"], ["th", "e"], ["h", "e"]]
    one = make.tokenizer(VOCAB, merges=merges)
    two = make.tokenizer(VOCAB, merges=merges, normalizer={"type": "NFC"})
    body = tokenization(run, tmp_path, one, two)
    assert body["tokenization"]["same"] is True
    assert "probe text" in body["tokenization"]["detail"]


def test_equal_digests_need_no_run(run: Run, tmp_path: Path) -> None:
    one = make.tokenizer(VOCAB, merges=[["t", "h"]])
    body = tokenization(run, tmp_path, one, make.tokenizer(VOCAB, merges=["t h"]))
    assert body["tokenization"] == {
        "same": True,
        "detail": "same merges, normalizer and pre-tokenizer",
    }


def test_a_tokenizer_the_library_refuses_is_unknown(run: Run, tmp_path: Path) -> None:
    two = make.tokenizer(VOCAB, merges=[["q", "no such token"]])
    body = tokenization(run, tmp_path, make.tokenizer(VOCAB, merges=[["t", "h"]]), two)
    assert body["tokenization"]["same"] is None
