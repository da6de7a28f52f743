"""A draft that is right only where copying would be: said, because its figures look passable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from draftcheck.trial.backends.backend import Backend, BackendLimits, TargetText, TrialOptions
from draftcheck.trial.measure import sum_up
from draftcheck.trial.plan import TrialPlan, TrialWork
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.simulate.traces import Trace


class NoBackend(Backend):
    """One that has done its work, and has nothing of its own to add."""

    name, device, dtype = "made", "cpu", "float32"

    def limits(self) -> BackendLimits:
        return BackendLimits(None, None, None, None)

    def generate(self, prompts: Sequence[Prompt], options: TrialOptions) -> list[TargetText]:
        raise NotImplementedError

    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> list[Trace]:
        raise NotImplementedError


def notes(share: float) -> tuple[str, ...]:
    """What is said about a text that repeats itself, and a draft that is right so often."""
    rng = np.random.default_rng(0)
    text = np.array([*range(12)] * 6)
    rank = np.where(rng.random(len(text)) < share, 0, 99)
    work = TrialWork(traces=[Trace(np.arange(12), text, rank, np.ones(len(text)))])
    plan = TrialPlan(target="big", draft="small", prompts=[])
    return sum_up(plan, NoBackend(), work).notes


@pytest.mark.parametrize(("share", "said"), [(0.3, True), (0.98, False)])
def test_a_draft_no_better_than_copying_is_remarked_on(share: float, said: bool) -> None:
    assert any("n-grams copied from the text alone" in note for note in notes(share)) is said
