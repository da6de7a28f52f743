"""Drafts copied from the text so far: no draft model at all. Two rules, three engines.

A rule says, for each place in a text, where the tokens lie that it would copy there. How many of
them are the target's next tokens is then counted like any other draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from draftcheck.trial.simulate import walk
from draftcheck.trial.traces import Counts, Ints, Trace, line_up

NOWHERE = 0
"""No copy ever begins at the first token of a text: it would follow nothing."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """vLLM's ngram and transformers' prompt lookup: the longest n-gram, its first occurrence."""

    min: int
    max: int
    draft_tokens: int

    def copies(self, text: Ints) -> tuple[Ints, Ints]:
        """For the text up to each place: where a copy begins, and where it ends."""
        places = np.arange(len(text) + 1)
        found = np.zeros(len(text) + 1, dtype=np.int64)
        for n, names in enumerate(_names(text, self.max), start=1):
            if n < self.min:
                continue
            _, firsts, inverse = np.unique(names, return_index=True, return_inverse=True)
            first = firsts[inverse] + n  # where the first occurrence ends
            found[n:] = np.where(first < places[n:], first, found[n:])  # a longer one wins
        return found, np.where(found == NOWHERE, NOWHERE, _min(found + self.draft_tokens, places))


@dataclass(frozen=True, slots=True)
class Simple:
    """llama.cpp's ngram-simple: one n, the last occurrence before this one, or nothing."""

    size_n: int = 12
    size_m: int = 48

    @property
    def draft_tokens(self) -> int:
        return self.size_m

    def copies(self, text: Ints) -> tuple[Ints, Ints]:
        n, m = self.size_n, self.size_m
        places = np.arange(len(text) + 1)
        found = np.zeros(len(text) + 1, dtype=np.int64)
        names = _names(text, n)
        if len(names) == n:
            before = _previous(names[-1])
            # The newest token is not in llama.cpp's history yet: a match ends before it.
            overlapping = before == np.arange(len(before)) - 1
            before = np.where(overlapping, before[before], before)
            found[n:] = np.where(before > 0, before + n, NOWHERE)  # nor does it look at place 0
        known = places - 1
        copied = _min(known - found, np.full_like(found, m))
        kept = (found != NOWHERE) & (known > n + m + 1) & (copied >= n)
        return np.where(kept, found, NOWHERE), np.where(kept, found + copied, NOWHERE)


def simulate(traces: Sequence[Trace], rule: Lookup | Simple) -> Counts:
    """What the rule accepts over the continuations."""
    line = line_up(traces)
    pairs = [_one(trace, rule) for trace in traces]
    accepted, drafted = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return walk(line, np.minimum(accepted, line.room), _min(drafted, line.room), rule.draft_tokens)


def _one(trace: Trace, rule: Lookup | Simple) -> tuple[Ints, Ints]:
    """At each token: how many of the copied ones the target takes, and how many there are."""
    begin = len(trace.prompt)
    text = np.concatenate([trace.prompt, trace.tokens])
    starts, ends = (found[begin:-1] for found in rule.copies(text))
    drafted = _min(ends - starts, len(text) - begin - np.arange(len(starts)))
    accepted = np.zeros_like(drafted)
    going = np.flatnonzero(drafted > 0)
    for k in range(rule.draft_tokens):
        going = going[drafted[going] > k]
        going = going[text[starts[going] + k] == text[begin + going + k]]
        accepted[going] = k + 1
        if not len(going):
            break
    return accepted, drafted


def _names(text: Ints, longest: int) -> list[Ints]:
    """Numbers for the n-grams of each length: equal numbers, equal n-grams; by where they begin."""
    names = []
    current = np.unique(text, return_inverse=True)[1].astype(np.int64)
    ones = current
    for n in range(1, min(longest, len(text)) + 1):
        if n > 1:
            both = current[:-1] * (len(text) + 1) + ones[n - 1 :]
            current = np.unique(both, return_inverse=True)[1].astype(np.int64)
        names.append(current)
    return names


def _previous(names: Ints) -> Ints:
    """Where the same name stood last before each place; 0 where it did not."""
    order = np.argsort(names, kind="stable")
    before = np.zeros(len(names), dtype=np.int64)
    same = names[order[1:]] == names[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def _min(left: Ints, right: Ints) -> Ints:
    return np.asarray(np.minimum(left, right), dtype=np.int64)
