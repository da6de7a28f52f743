"""The trained heads against vLLM itself: its texts and counters, recorded, float32, greedy.

tests/trial/heads/data/vllm-VERSION.json holds for each head the prompts, what vLLM wrote without
speculation (some tokens more than the answers have), and by draft length its counters for answers
of `tokens` tokens, ends ignored: [drafts, accepted at position 1, 2 …]. vLLM does not cut a draft
at the end of an answer and counts what it accepts behind it; hence the tokens more.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")

import numpy as np

from draftcheck.trial.backends.backend import TargetText, TrialOptions
from draftcheck.trial.backends.transformers import backend
from draftcheck.trial.simulate.traces import Ints
from tests.conftest import ROOT

PAIR = ROOT / "fixtures/pair"
FILES = sorted((ROOT / "tests/trial/heads/data").glob("vllm-*.json"))
RECORDED = [
    pytest.param(recorded["tokens"], head, texts, id=f"{recorded['vllm']}-{head}")
    for recorded in (json.loads(file.read_text(encoding="utf-8")) for file in FILES)
    for head, texts in recorded["heads"].items()
]


def counters(rank: Ints, length: int, tokens: int) -> list[int]:
    """vLLM's, from the ranks of place x reading."""
    found, at = [0] * (length + 1), 1
    while at < tokens:
        hits = int(np.cumprod(rank[at, :length] == 0).sum())
        for position in range(hits + 1):
            found[position] += 1
        at += hits + 1
    return found


@pytest.mark.parametrize(("tokens", "head", "texts"), RECORDED)
def test_the_readings_give_the_counters_of_vllm(
    tokens: int, head: str, texts: list[dict[str, Any]]
) -> None:
    own = head == "target-mtp"
    target, draft = (
        (PAIR / "heads" / head, None) if own else (PAIR / "target", PAIR / "heads" / head)
    )
    options = TrialOptions(tokens=tokens, device="cpu", dtype="float32", engine="vllm")
    both = backend.open(str(target), None if draft is None else str(draft), options)
    told = [TargetText("", np.array(text["prompt"]), np.array(text["written"])) for text in texts]
    traces = both.read(told, options)
    for text, trace in zip(texts, traces, strict=True):
        predicted = {
            length: counters(trace.of_length.get(int(length), trace).rank, int(length), tokens)
            for length in text["counters"]
        }
        assert predicted == text["counters"]
