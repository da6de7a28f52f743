"""What is read in pieces comes out as if it were read at once."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")

from draftcheck.trial.backends.backend import TrialOptions  # noqa: E402
from draftcheck.trial.backends.transformers import backend, draft_logits  # noqa: E402
from draftcheck.trial.backends.transformers.heads import block  # noqa: E402
from draftcheck.trial.prompts import load  # noqa: E402
from tests.conftest import FIXTURES  # noqa: E402

PAIR = FIXTURES / "pair"
OPTIONS = TrialOptions(tokens=24, device="cpu", dtype="float32")


def test_the_highest_scores_are_those_of_topk() -> None:
    torch.manual_seed(0)
    scores = torch.randn(7, 6100).round(decimals=1)  # with many equal ones
    scores[2, -3:] = 9.0  # behind the last whole group
    scores[3, 1000:1012] = 9.0  # all in one group
    assert torch.equal(draft_logits.highest(scores, 10), scores.topk(10, dim=1).values)


@pytest.mark.parametrize("name", ["dflash", "eagle3"])
def test_pieces_of_logits_and_of_blocks_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = backend.open(str(PAIR / "target"), str(PAIR / "heads" / name), OPTIONS)
    texts = made.generate(load()[:5], OPTIONS)
    assert len({len(text.prompt) for text in texts}) > 1  # so that spans differ
    whole = made.read(texts, OPTIONS)
    monkeypatch.setattr(draft_logits, "LOGITS_BYTES", 50_000)
    monkeypatch.setattr(block, "SLOTS_AT_ONCE", 20)
    alone = [made.read([text], OPTIONS)[0] for text in texts]
    for one, other in zip(whole, alone, strict=True):
        assert (one.rank == other.rank).all()
        assert abs(one.confidence - other.confidence).max() < 1e-5
        assert list(one.of_length) == list(other.of_length)
        for length in one.of_length:
            assert (one.of_length[length].rank == other.of_length[length].rank).all()
