"""What a running server accepted as a speculation profile."""

from __future__ import annotations

from draftcheck.errors import UsageError
from draftcheck.evidence.profiles import SpeculationProfile, from_counts
from draftcheck.probe.readings import ProbeResult


def profile(result: ProbeResult) -> SpeculationProfile:
    counts = result.counts
    if counts is None or not counts.drafts or not counts.by_position:
        raise UsageError("the server does not tell by position what was accepted: no profile")
    server, read = result.server, result.reading
    return SpeculationProfile(
        marginal=from_counts(counts.drafts, counts.by_position),
        method=read.method if read is not None else None,
        draft=read.draft if read is not None else None,
        target=read.model if read is not None else None,
        conditions={
            "engine": server.engine if server is not None else None,
            "engine_version": server.version if server is not None else None,
            "num_drafts": counts.drafts,
        },
    )
