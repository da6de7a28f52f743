"""The arithmetic of speed-up, by hand-made costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftcheck.trial import speedup
from draftcheck.trial.simulate import answers
from draftcheck.trial.simulate.traces import PassCounts
from draftcheck.trial.speedup import Costs

FREE = Costs(draft_step=0.0, target_step=1.0, verify={17: 1.0})


def test_free_drafts_are_worth_what_they_yield() -> None:
    assert speedup.of_pass(3.5, 8, FREE) == pytest.approx(3.5)
    assert speedup.break_even(FREE) == pytest.approx(0.0, abs=1e-6)


def test_a_draft_as_slow_as_the_target_never_pays() -> None:
    costs = Costs(draft_step=1.0, target_step=1.0, verify={17: 1.0})
    assert speedup.break_even(costs) is None


def test_break_even_is_where_the_best_length_gives_one() -> None:
    costs = Costs(draft_step=0.2, target_step=1.0, verify={2: 1.1, 17: 1.5})
    found = speedup.break_even(costs)
    assert found is not None

    def best(acceptance: float) -> float:
        return max(
            speedup.of_pass(speedup.expected_tokens(acceptance, g), g, costs) for g in range(1, 25)
        )

    assert best(found + 0.01) > 1 > best(found - 0.01)


def test_memory_bound_speedup_has_the_ratio_below() -> None:
    one, three = np.array([1.0]), np.array([3.0])
    counts = PassCounts(one, three, np.array([4.0]), one * 2, one, np.zeros(5))
    [row] = answers.length_rows({4: counts}, Costs(0.1, 1.0, {}))
    assert (row.tokens_per_pass, row.mbsu) == (3.0, pytest.approx(3.0 / 1.4))


@given(st.dictionaries(st.integers(2, 65), st.floats(1e-4, 1), min_size=1), st.integers(1, 200))
def test_checking_more_never_costs_less(verify: dict[int, float], width: int) -> None:
    costs = Costs(0.1, 0.01, verify)
    assert costs.verify_step(width) <= costs.verify_step(width + 1) + 1e-12


def test_costs_between_the_measured_widths_lie_on_a_line() -> None:
    costs = Costs(0.1, 1.0, {3: 2.0, 5: 4.0})
    assert costs.verify_step(2) == pytest.approx(1.5)
    assert costs.verify_step(4) == pytest.approx(3.0)
    assert costs.verify_step(7) == pytest.approx(6.0)
    assert speedup.of_pass(2.0, 2.5, costs, steps=0) == pytest.approx(2.0 / 2.5)


def test_what_the_draft_reads_again_is_paid_for_drafts_of_a_model_alone() -> None:
    costs = Costs(0.1, 1.0, {2: 1.0, 5: 1.0}, overhead={2: 0.4, 4: 0.8})
    assert speedup.of_pass(1.0, 1, costs) == pytest.approx(1 / 1.5)
    assert speedup.of_pass(1.0, 2, costs) == pytest.approx(1 / 1.8)
    assert speedup.of_pass(1.0, 2.5, costs, steps=1) == pytest.approx(1 / 1.8)
    assert speedup.of_pass(1.0, 2, costs, steps=0) == pytest.approx(1.0)  # copied: no draft reads
