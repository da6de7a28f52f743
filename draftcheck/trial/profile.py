"""A trial as a speculation profile: the rates by position of the length that it is about."""

from __future__ import annotations

from pathlib import Path

from draftcheck.errors import UsageError
from draftcheck.evidence.profiles import SpeculationProfile, from_counts
from draftcheck.trial.result import Trial


def _public(ref: str) -> str:
    """A model's name; folders of this machine are nobody's business."""
    return Path(ref).name if Path(ref).exists() else ref


def profile(trial: Trial) -> SpeculationProfile:
    row = trial.row
    if row is None or row.counters is None:
        raise UsageError("nothing was measured: there is nothing to write into a profile")
    counters = row.counters
    return SpeculationProfile(
        marginal=from_counts(counters.num_drafts, counters.num_accepted_tokens_per_pos),
        method=trial.head.kind if trial.head is not None else "draft_model",
        draft=_public(trial.draft_model.ref),
        target=_public(trial.target_model.ref),
        histogram={n + 1: count for n, count in enumerate(counters.histogram)},
        by_length={
            one.draft_tokens: 1 + sum(one.counters.by_position)
            for one in trial.lengths
            if one.draft_tokens and one.counters is not None and one.counters.num_drafts
        },
        categories={
            name: {
                "mean_accept_length": part.tokens_per_pass,
                "num_speculative_tokens": part.draft_tokens,
                "prompts": part.prompts,
            }
            for name, part in trial.categories.items()
        }
        or None,
        conditions={
            "dataset": trial.prompts_digest,
            "num_samples": trial.prompts,
            "temperature": trial.temperature,
            "engine": trial.backend,
            "dtype": trial.dtype,
        },
        own={
            "target_revision": trial.target_model.revision,
            "draft_revision": trial.draft_model.revision,
            "tokens": trial.tokens,
            "acceptance_rate": trial.acceptance_rate.value,
            "acceptance_rate_ci95": trial.acceptance_rate.ci95,
            "greedy_share": trial.greedy_share,
            "seed": trial.seed,
        },
    )
