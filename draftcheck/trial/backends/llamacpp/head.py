"""A head in GGUF: what llama-server takes of it, pass by pass.

A head is no model of its own, and llama-server does not say what it thinks at a place. So the
target's texts are written again by a llama-server with the head, and every token comes with the
counters so far: where draft_n rises, a pass was checked, and draft_n_accepted says what it took.

With drafts of g tokens a pass that begins at place i takes min(L(i), g) of them, L(i) being how far
the head is right from there. A run with g tells L where its passes begin, and so all that the
simulation needs for g. If no pass took more than m, the runs with m, m + 1 … g are the same one:
the next run is with m - 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from draftcheck.errors import ReadError
from draftcheck.probe import client
from draftcheck.trial.backends.backend import (
    BackendLimits,
    BrokenDraft,
    CannotVerify,
    TargetText,
    TrialOptions,
)
from draftcheck.trial.backends.llamacpp.server import LlamaServer
from draftcheck.trial.backends.llamacpp.speculation import Speculation
from draftcheck.trial.backends.sides import DraftReader, ServerLost, Sides, TargetWriter
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import HeadRun
from draftcheck.trial.simulate.traces import NEVER, Floats, Ints, Trace
from draftcheck.values.facts import HeadFacts

LONGEST = 8
"""Tokens of the longest drafts that are run; heads are seldom used for more."""


class LlamaHead(TargetWriter, DraftReader):
    """A target with its head: one llama-server at a time, with or without drafts."""

    def __init__(self, speculation: Speculation, facts: HeadFacts, device: str) -> None:
        self.speculation, self.facts, self.device = speculation, facts, device
        layers = facts.mtp_present or 1
        self.longest = min(LONGEST, layers) if layers > 1 else LONGEST
        self.lengths: list[int] = []
        """Draft lengths that were run."""
        self.other = 0
        """Texts that came out otherwise with the head."""
        self._open = ExitStack()
        self._held: tuple[int | None, LlamaServer] | None = None
        server = self._server(None)
        self.rows, self.context, self.dtype = server.rows, server.context, server.dtype
        self.build = server.build

    @property
    def notes(self) -> Sequence[str]:
        if not self.lengths:
            return ()
        names = ", ".join(map(str, self.lengths))
        found = [
            f"the head was run by llama-server itself, with drafts of {names} tokens: thresholds"
            " and trees were not measured, and their rows say what plain drafts do"
        ]
        if self.other:
            found.append(f"{self.other} texts came out otherwise with the head: usual below F32")
        return found

    def write(self, prompt: Prompt, options: TrialOptions) -> TargetText | None:
        return self._server(None).write(prompt, options)

    def read(self, text: TargetText) -> tuple[Ints, Floats]:
        [trace] = self.traces([text], TrialOptions())
        return trace.rank, trace.confidence

    def traces(self, texts: Sequence[TargetText], options: TrialOptions) -> list[Trace]:
        reach = [np.zeros(len(text.tokens), dtype=np.int64) for text in texts]
        g = self.longest
        while g > 0:
            server = self._server(g)
            if g not in self.lengths:
                self.lengths.append(g)
            most = 0
            for text, row in zip(texts, reach, strict=True):
                events = server.stream(text.prompt.tolist(), len(text.tokens), options)
                taken = passes(events, g)
                begins = 1 + np.cumsum([0, *(count + 1 for count in taken)])[:-1]
                known = begins < len(row)
                np.maximum.at(row, begins[known], np.array(taken)[known])
                most = max([most, *taken])
                self.other += g == self.longest and not _same(events, text)
            g = min(g, most) - 1
        return [self._trace(text, row) for text, row in zip(texts, reach, strict=True)]

    def _trace(self, text: TargetText, reach: Ints) -> Trace:
        right = np.arange(self.longest) < reach[:, None]
        rank, sure = np.where(right, 0, NEVER), np.ones(right.shape)
        return Trace(text.prompt, text.tokens, rank, sure, text.category)

    def _server(self, g: int | None) -> LlamaServer:
        """The one with drafts of g tokens; None: without."""
        if self._held is None or self._held[0] != g:
            self.close()
            try:
                self._held = g, self._open.enter_context(self.speculation.server(g))
            except CannotVerify as error:
                raise BrokenDraft(str(error)) from error
        return self._held[1]

    def close(self) -> None:
        self._held = None
        self._open.close()


def passes(events: Sequence[dict[str, Any]], g: int) -> list[int]:
    """What each pass took, by the counters that came with the tokens.

    Tokens that end inside a character come late, and so do their counters: passes that are seen
    together took what they took together in order.
    """
    found = []
    before = (0, 0)
    for event in events:
        timed = client.part(event, "timings")
        now = (
            client.count(timed.get("draft_n")) or 0,
            client.count(timed.get("draft_n_accepted")) or 0,
        )
        drafted, accepted = now[0] - before[0], now[1] - before[1]
        for left in range(drafted, 0, -g):
            found.append(min(accepted, left, g))
            accepted -= found[-1]
        before = now if drafted > 0 else before
    return found


def _same(events: Sequence[dict[str, Any]], text: TargetText) -> bool:
    """Whether the tokens that were shown are those of the text; hidden ones are not compared."""
    shown = [token for event in events for token in event.get("tokens") or ()]
    return len(shown) != len(text.tokens) or shown == text.tokens.tolist()


class HeadSides(Sides):
    """The trial of such a head."""

    def __init__(self, head: LlamaHead) -> None:
        super().__init__("llama.cpp", head, head, "")
        self.head = head
        kind, layers = head.speculation.kind, head.facts.aux_layers or ()
        self.head_run = HeadRun(kind, self.name, head.build, layers)
        self.speculation = replace(head.speculation, free=head.close).verify

    @property
    def notes(self) -> list[str]:
        return list(dict.fromkeys(super().notes))

    def limits(self) -> BackendLimits:
        return replace(super().limits(), longest=self.head.longest)

    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> Iterator[Trace]:
        try:
            yield from self.head.traces(texts, options)
        except ServerLost as error:
            raise ReadError(f"llama-server with the head: {error}") from error

    def costs(self, sequences: int, context: int) -> None:
        """A step of the head alone cannot be timed; --verify times the whole."""
