"""Is my acceptance normal? Figures beside those that were published of the pair."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from draftcheck.evidence.usual import chain, usual
from tests.conftest import ROOT, Run
from tests.probe import answers
from tests.probe.conftest import Ask, ask, serve  # noqa: F401  (fixtures)

PAIR = ("meta-llama/Llama-3.1-8B-Instruct", "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3")
"""2.6 tokens per pass with 3 drafted, one figure."""


@pytest.mark.parametrize(
    ("tokens_per_pass", "place"),
    [(2.6, "usual"), (2.25, "usual"), (3.1, "above"), (2.15, "below"), (1.3, "far below")],
)
def test_places(tokens_per_pass: float, place: str) -> None:
    found = usual(*PAIR, 3, tokens_per_pass)
    assert found is not None and (found.low, found.high) == (2.6, 2.6)
    assert found.place == place
    assert bool(found.causes) == (place == "far below")


def test_another_draft_length_is_brought_to_the_same() -> None:
    """The rate that makes 2.6 of 3 drafted tokens makes 1.72 of one, 3.36 of eight."""
    rate = 0.7172
    assert chain(rate, 3) == pytest.approx(2.6, abs=0.02)
    for tokens in (1, 8):
        found = usual(*PAIR, tokens, chain(rate, tokens))
        assert found is not None and found.place == "usual"
        assert found.low == pytest.approx(chain(rate, tokens), rel=0.02)


def test_trees_floors_and_random_prompts_are_no_yardstick() -> None:
    assert usual("zai-org/GLM-5.1-FP8", None, 3, 1.1) is None  # random prompts alone
    assert usual("XiaomiMiMo/MiMo-V2-Flash", None, 3, 1.1) is None  # a floor of a test
    assert usual("lmsys/vicuna-13b-v1.3", "yuhuili/EAGLE3-Vicuna1.3-13B", 3, 1.1) is None  # a tree
    assert usual("org/unheard", "org/of", 3, 2.0) is None


def test_a_server_that_accepts_far_less(ask: Ask) -> None:  # noqa: F811
    metrics = answers.vllm(answers.vllm_metrics(400, 1200, 120, (100, 15, 5), 520))
    ran = ask(metrics, "--expect", *PAIR)
    body = ran.json["published"]
    assert (body["place"], body["low"], body["draft_tokens"]) == ("far below", 2.6, 3)
    assert body["figures"] == ["A114"]
    assert body["causes"][0]["text"].startswith("Thinking is on")
    told = ask(metrics, "--expect", *PAIR, form="text").out
    assert "  published   far below: 2.60 tokens per pass with 3 drafted (1 figure" in told
    assert "    perhaps Thinking is on" in told
    fine = answers.vllm(answers.vllm_metrics(400, 1200, 640, (292, 208, 140), 1040))
    assert ask(fine, "--expect", *PAIR).json["published"]["place"] == "usual"
    assert ask(fine, "--expect", "org/unheard", "own").json["published"] is None


def test_a_trial_says_it(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    target, draft = tmp_path / "Qwen3-8B", tmp_path / "Qwen3-8B-DFlash-b16"
    for name, folder in (("target", target), ("draft", draft)):
        shutil.copytree(ROOT / "fixtures" / "pair" / name, folder)
    asked = ("trial", target, draft, "--no-cost", "--tokens", "24", "--budget", "60", "--quiet")
    body = run(*asked, "--format", "json").json
    assert body["published"]["place"] == "far below"
    assert "  published   far below: " in run(*asked).out
