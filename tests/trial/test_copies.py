"""A draft that is right only where copying would be: said, because its figures look passable."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from draftcheck.trial.plan import TrialPlan, TrialWork
from draftcheck.trial.simulate.traces import Trace
from draftcheck.trial.summary import sum_up


def notes(share: float) -> tuple[str, ...]:
    """What is said about a text that repeats itself, and a draft that is right so often."""
    rng = np.random.default_rng(0)
    text = np.array([*range(12)] * 6)
    rank = np.where(rng.random(len(text)) < share, 0, 99)
    work = TrialWork(traces=[Trace(np.arange(12), text, rank, np.ones(len(text)))])
    backend: Any = SimpleNamespace(
        name="made", device="cpu", dtype="float32", notes=[], models={}, limits=dict,
        translation=None, shared=None,
    )  # fmt: skip
    return sum_up(TrialPlan("big", "small", []), backend, work, None).notes


@pytest.mark.parametrize(("share", "said"), [(0.3, True), (0.98, False)])
def test_a_draft_no_better_than_copying_is_remarked_on(share: float, said: bool) -> None:
    assert any("n-grams copied from the text alone" in note for note in notes(share)) is said
