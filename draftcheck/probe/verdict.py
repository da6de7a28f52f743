"""From readings to a state: who says what, and do the counters bear it out."""

from __future__ import annotations

from draftcheck.probe.causes import limit
from draftcheck.probe.readings import ProbeState, ServerCounts, ServerReading, SpeculationSwitch

Verdict = tuple[ProbeState, str | None]
"""The state and the id of the cause, if one is to be named."""


def judge(reading: ServerReading, *latest: ServerCounts | None) -> Verdict:
    """Decide by the newest figures that say something; the server's own word comes after."""
    if reading.switch is SpeculationSwitch.OFF:
        return ProbeState.NOT_SPECULATING, reading.cause or "off"
    untold = reading.switch is SpeculationSwitch.UNTOLD
    in_vain = 0
    for counts in (*latest, reading.counts):
        if counts is not None and not counts.says_nothing:
            return _weigh(counts)
        if counts is not None and counts.none_drafted:
            in_vain = max(in_vain, counts.generated or 0)
        if in_vain >= limit("enough_tokens"):
            return ProbeState.NOT_SPECULATING, "off" if untold else "never-drafts"
    if untold:
        return ProbeState.UNKNOWN, reading.cause or "no-evidence"
    if in_vain >= limit("some_tokens"):
        return ProbeState.CONFIGURED, "never-drafts"
    if reading.switch is SpeculationSwitch.ON:
        return ProbeState.SPECULATING, None
    return ProbeState.CONFIGURED, reading.cause or "no-request"


def _weigh(counts: ServerCounts) -> Verdict:
    """Drafts were made: are they accepted?"""
    length, rate = counts.mean_length, counts.acceptance_rate
    by_tokens = counts.drafts is None and counts.drafted is not None
    if by_tokens and rate is not None:
        # Passes without a draft may be among them: the mean length would blame the draft.
        accepting = rate > limit("broken_rate")
    elif length is not None:
        accepting = length > limit("broken_length")
    else:
        return ProbeState.UNKNOWN, "no-figures"
    if accepting:
        return ProbeState.SPECULATING, None
    return (
        (ProbeState.NOT_ACCEPTING, "rejected")
        if _enough(counts)
        else (ProbeState.UNKNOWN, "few-drafts")
    )


def _enough(counts: ServerCounts) -> bool:
    if counts.drafts is not None:
        return counts.drafts >= limit("enough_drafts")
    return counts.drafted is None or counts.drafted >= limit("enough_drafted")
