"""Drafts of another vocabulary: by shared texts, and by encoding text anew as transformers does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import FIXTURES, Run
from tests.trial import drafts

pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")
pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]

TARGET = FIXTURES / "pair" / "target"
COMMON = ("--tokens", "32", "--device", "cpu", "--no-cost", "--format", "json")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    lines = ["Tell me about a bird.", "Write a recipe for soup.", "Add 12 and 30.", "A short list"]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_other_ids_are_broken_unless_they_are_translated(
    run: Run, prompts: Path, tmp_path: Path
) -> None:
    other = drafts.renumbered(tmp_path / "other")
    ran = run("trial", TARGET, other, "--prompts", prompts, *COMMON)
    assert ran.code == 1
    assert "another vocabulary" in ran.json["broken"]
    assert "--universal" in ran.json["broken"]
    ran = run("trial", TARGET, other, "--prompts", prompts, *COMMON, "--universal", "--verify")
    assert ran.code == 0, ran.err
    translated = ran.json
    assert translated["translation"] == "shared texts"
    assert translated["shared_tokens"] == 1.0
    assert "translate" in translated["notes"][0]
    # The same tokens under other numbers: every figure is that of the untouched draft.
    plain = run("trial", TARGET, drafts.DRAFT, "--prompts", prompts, *COMMON).json
    assert translated["lengths"] == plain["lengths"]
    # And transformers, which encodes the text anew, does about as well as was said.
    verified = translated["verified"]
    assert verified["identical_output"] is True
    assert verified["tokens_per_pass"] == pytest.approx(
        verified["predicted_tokens_per_pass"], rel=0.08
    )


@pytest.mark.parametrize("g", [1, 4])
def test_another_cut_of_the_text_against_a_real_run(g: int, prompts: Path, tmp_path: Path) -> None:
    from draftcheck.trial.backends.backend import TrialOptions, open_backend
    from draftcheck.trial.prompts import load

    options = TrialOptions(tokens=32, device="cpu", universal=True)
    short = drafts.shortened(tmp_path / "short", 800)
    backend = open_backend("transformers", str(TARGET), str(short), options)
    texts = backend.generate(load(prompts), options)
    real = backend.verify(texts, g, options)
    assert real.identical_output
    assert real.tokens_per_pass > 1.2
    assert real.tokens_per_pass == pytest.approx(real.predicted, rel=0.08)
    traces = backend.read(texts, options)
    lost = [t.rank[t.tokens >= 800] for t in traces]
    assert all((rank >= 800).all() for rank in lost)  # what is not shared is never proposed


def test_only_shared_tokens_are_proposed(tmp_path: Path) -> None:
    """A draft with more tokens than the target: the others are out of the question."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from draftcheck.trial.backends.transformers.universal import Translation

    few = AutoTokenizer.from_pretrained(drafts.shortened(tmp_path / "few", 800))
    many = AutoTokenizer.from_pretrained(drafts.DRAFT)
    model = AutoModelForCausalLM.from_pretrained(drafts.DRAFT)
    translation = Translation(few, many, model)
    logits = torch.zeros(2, 1000)
    logits[:, 900] = 5.0
    logits[:, 10] = 1.0
    constrained, tokens = translation.constrain(logits, torch.tensor([10, 799]))
    assert constrained.argmax(1).tolist() == [10, 10]
    assert torch.isneginf(constrained[:, 800:]).all()
    assert tokens.tolist() == [10, 799]
    # The other way round: tokens that the draft has not are read as its end token.
    back = Translation(many, few, model)
    assert back.to_draft(torch.tensor([10, 900])).tolist() == [10, few.eos_token_id]
    assert back.constrain(logits[:1], torch.tensor([900]))[1].tolist() == [1000]
