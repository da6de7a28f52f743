"""Drafts copied from the text so far: no draft model at all. Two rules, three engines.

A rule says, for each place in a text, which earlier tokens it would copy there. How many of them
are the target's next tokens is then counted like any other draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from draftcheck.trial.simulate.passes import Drafts
from draftcheck.trial.simulate.traces import Bools, Ints, JoinedTraces, Trace

NOWHERE = -1


class NgramTexts:
    """Prompts and continuations one behind the other, with numbers for their n-grams."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        parts = [np.concatenate([trace.prompt, trace.tokens]) for trace in traces]
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        self.tokens: Ints = np.concatenate(parts)
        self.begin: Ints = np.repeat(sizes.cumsum() - sizes, sizes)
        """Where the text of each place begins."""
        self.end: Ints = np.repeat(sizes.cumsum(), sizes)
        self.continuation: Bools = np.concatenate(
            [np.arange(len(part)) >= len(t.prompt) for part, t in zip(parts, traces, strict=True)]
        )
        # The same token in two texts gets two numbers: no n-gram is found in another text.
        ids = np.unique(self.tokens, return_inverse=True)[1]
        self._grams = [_numbered(self.begin * (len(ids) + 1) + ids)]

    def grams(self, n: int) -> Ints:
        """Equal numbers, equal n-grams; one for each place where an n-gram begins."""
        while len(self._grams) < n and len(self._grams[-1]) > 1:
            last, ones = self._grams[-1], self._grams[0]
            after = ones[len(self._grams) :]
            self._grams.append(_numbered(last[: len(after)] * (len(ones) + 1) + after))
        return self._grams[n - 1] if len(self._grams) >= n else self.tokens[:0]


def _numbered(values: Ints) -> Ints:
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class NgramLookup:
    """vLLM's ngram and transformers' prompt lookup: the longest n-gram, its first occurrence."""

    min: int
    max: int
    draft_tokens: int
    method: ClassVar[str] = "ngram"

    @property
    def name(self) -> str:
        return f"{self.min} to {self.max}-grams, {self.draft_tokens} tokens"

    def copies(self, texts: NgramTexts) -> tuple[Ints, Ints]:
        """For the token at each place: where a copy begins that is drafted there, and its size."""
        places = np.arange(len(texts.tokens))
        start = np.full(len(places), NOWHERE)
        for n in range(self.min, self.max + 1):
            names = texts.grams(n)
            firsts = np.zeros(len(names), dtype=np.int64)
            firsts[names[::-1]] = np.arange(len(names))[::-1]  # the earliest is written last
            # The n-gram before place i begins at i - n.
            first = firsts[names][: max(len(places) - n, 0)] + n
            earlier = (first < places[n:]) & (first > texts.begin[n:])
            start[n:] = np.where(earlier, first, start[n:])  # a longer one wins
        return start, np.where(start < 0, 0, np.minimum(self.draft_tokens, places - start))


@dataclass(frozen=True, slots=True)
class SimpleNgram:
    """llama.cpp's ngram-simple: one n, the last occurrence before this one, or nothing."""

    min: int = 12
    draft_tokens: int = 48
    method: ClassVar[str] = "ngram-simple"

    @property
    def name(self) -> str:
        return f"{self.min}-grams, {self.draft_tokens} tokens"

    @property
    def max(self) -> int:
        return self.min

    def copies(self, texts: NgramTexts) -> tuple[Ints, Ints]:
        n, m = self.min, self.draft_tokens
        places = np.arange(len(texts.tokens))
        start = np.full(len(places), NOWHERE)
        names = texts.grams(n)[: max(len(places) - n, 0)]
        # Where the same n-gram stood last before each place.
        order = np.argsort(names, kind="stable")
        before = np.full(len(names), NOWHERE)
        same = names[order[1:]] == names[order[:-1]]
        before[order[1:][same]] = order[:-1][same]
        # The newest token is not in llama.cpp's history yet: a match ends before it.
        overlapping = (before >= 0) & (before == np.arange(len(names)) - 1)
        before = np.where(overlapping, before[before], before)
        # Nor does it look at the first token of a text.
        seen = before > texts.begin[: len(names)]
        start[n:] = np.where(seen, before + n, NOWHERE)
        known = places - 1
        size = np.minimum(m, known - start)
        kept = (start >= 0) & (known - texts.begin > n + m + 1) & (size >= n)
        return np.where(kept, start, NOWHERE), np.where(kept, size, 0)


def drafts(line: JoinedTraces, texts: NgramTexts, rule: NgramLookup | SimpleNgram) -> Drafts:
    """What the rule copies over the continuations."""
    starts, sizes = rule.copies(texts)
    places = np.arange(len(starts))
    drafted = np.minimum(sizes, texts.end - places)
    accepted = np.zeros_like(drafted)
    going = np.flatnonzero(drafted > 0)
    for k in range(rule.draft_tokens):
        going = going[drafted[going] > k]
        going = going[texts.tokens[starts[going] + k] == texts.tokens[going + k]]
        accepted[going] = k + 1
        if not len(going):
            break
    accepted, drafted = accepted[texts.continuation], drafted[texts.continuation]
    return Drafts(
        np.minimum(accepted, line.room), np.minimum(drafted, line.room), rule.draft_tokens
    )
