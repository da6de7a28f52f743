"""What a trial found out: the figures of the contract, ready to be written or drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from draftcheck.trial.backend import Verified
from draftcheck.trial.speedup import Costs


@dataclass(frozen=True, slots=True)
class Row:
    """One way of speculating and what it came to."""

    method: str
    name: str
    tokens_per_pass: float
    draft_efficiency: float
    drafted_per_pass: float
    speedup: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Load:
    """What a number of sequences at once makes of it."""

    sequences: int
    draft_tokens: int
    speedup: float
    target_step: float


@dataclass(frozen=True, slots=True)
class Trial:
    target: str
    draft: str
    backend: str
    device: str
    dtype: str
    temperature: float
    seed: int
    prompts: int
    tokens: int
    seconds: float
    stopped: str
    """Why no more prompts were taken."""
    length: int
    """The draft length that single figures are about."""
    acceptance: float
    interval: tuple[float, float] | None
    by_position: tuple[float, ...]
    by_position_given_the_last: tuple[float, ...]
    categories: Mapping[str, float]
    lengths: tuple[Row, ...]
    thresholds: tuple[Row, ...]
    trees: tuple[Row, ...]
    ngram: tuple[Row, ...]
    counters: Mapping[str, Any]
    histogram: tuple[float, ...]
    overlap: float | None = None
    greedy_draft: float | None = None
    costs: Costs | None = None
    floor: Costs | None = None
    floor_speedup: float | None = None
    loads: tuple[Load, ...] = ()
    break_even: float | None = None
    best: Row | None = None
    """None: no costs were measured."""
    verified: Verified | None = None
    broken: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def pays(self) -> bool | None:
        """Whether anything beats not speculating."""
        return None if self.best is None else self.best.method != "none"


def body(trial: Trial) -> dict[str, Any]:
    """The contract's JSON, written by hand so that refactoring cannot change it."""
    return {
        "backend": trial.backend,
        "device": trial.device,
        "dtype": trial.dtype,
        "temperature": trial.temperature,
        "seed": trial.seed,
        "prompts": trial.prompts,
        "tokens": trial.tokens,
        "seconds": trial.seconds,
        "stopped": trial.stopped,
        "length": trial.length,
        "acceptance_rate": {
            "value": trial.acceptance,
            "ci95": list(trial.interval) if trial.interval else None,
        },
        "acceptance_by_position": list(trial.by_position),
        "acceptance_by_position_conditional": list(trial.by_position_given_the_last),
        "categories": dict(trial.categories),
        "accepted_length_histogram": list(trial.histogram),
        "overlap": trial.overlap,
        "greedy_draft_acceptance": trial.greedy_draft,
        "counters": dict(trial.counters),
        "lengths": [{**row.settings, **_figures(row)} for row in trial.lengths],
        "thresholds": [{**row.settings, **_figures(row)} for row in trial.thresholds],
        "trees": [{"name": row.name, **row.settings, **_figures(row)} for row in trial.trees],
        "ngram": [{"name": row.name, **row.settings, **_figures(row)} for row in trial.ngram],
        "best": _best(trial.best),
        "cost": _cost(trial.costs),
        "floor": _cost(trial.floor),
        "floor_speedup": trial.floor_speedup,
        "loads": [
            {
                "sequences": load.sequences,
                "draft_tokens": load.draft_tokens,
                "speedup": load.speedup,
                "target_step_s": load.target_step,
            }
            for load in trial.loads
        ],
        "break_even_acceptance": trial.break_even,
        "verified": _verified(trial.verified),
        "broken": trial.broken,
        "notes": list(trial.notes),
    }


def _figures(row: Row) -> dict[str, Any]:
    return {
        "tokens_per_pass": row.tokens_per_pass,
        "draft_efficiency": row.draft_efficiency,
        "speedup": row.speedup,
    }


def _best(row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {
        "method": row.method,
        "name": row.name,
        "draft_tokens": row.settings.get("draft_tokens"),
        "tokens_per_pass": row.tokens_per_pass,
        "speedup": row.speedup,
    }


def _cost(costs: Costs | None) -> dict[str, Any] | None:
    if costs is None:
        return None
    return {
        "how": costs.how,
        "draft_step_s": costs.draft_step,
        "target_step_s": costs.target_step,
        "verify_step_s": {str(width): seconds for width, seconds in costs.verify.items()},
        "ratio": costs.ratio,
    }


def _verified(verified: Verified | None) -> dict[str, Any] | None:
    if verified is None:
        return None
    return {
        "draft_tokens": verified.draft_tokens,
        "tokens_per_pass": verified.tokens_per_pass,
        "predicted_tokens_per_pass": verified.predicted,
        "speedup": verified.speedup,
        "identical_output": verified.identical_output,
    }
