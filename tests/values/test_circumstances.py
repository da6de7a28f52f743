"""Circumstances: numbers that no deployment has are refused where they enter."""

from __future__ import annotations

from typing import Any

import pytest

import draftcheck
from draftcheck.errors import UsageError
from draftcheck.values.circumstances import LEAST, Circumstances
from tests.conftest import ROOT

PAIR = [str(ROOT / "fixtures" / "pair" / name) for name in ("target", "draft")]


@pytest.mark.parametrize("name", list(LEAST))
@pytest.mark.parametrize(
    "number", [-1, 10**400, float("nan"), 1.5, True], ids=["-1", "10^400", "nan", "1.5", "true"]
)
def test_a_number_out_of_reason_is_refused_in_one_line(name: str, number: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Circumstances(**{name: number})
    assert name in caught.value.message
    assert len(caught.value.message) < 100


@pytest.mark.parametrize(
    "said",
    [
        {"context": 10**400},
        {"sequences": 0},
        {"tensor_parallel": 1 << 41},
        {"memory_fraction": float("nan")},
        {"memory_fraction": float("inf")},
        {"memory_fraction": 0},
    ],
)
def test_the_python_api_refuses_them_too(said: Any) -> None:
    with pytest.raises(UsageError):
        draftcheck.check(*PAIR, engines=["vllm"], gpu="h200", **said)


def test_what_deployments_say_is_taken() -> None:
    said = Circumstances(context=1 << 20, sequences=256, draft_gpu=0, memory_fraction=1)
    assert (said.context, said.memory_fraction) == (1 << 20, 1)
