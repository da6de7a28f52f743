"""A head in GGUF: what llama-server takes of it, pass by pass.

A head is no model of its own, and llama-server does not say what it thinks at a place. So the
target's texts are written again by a llama-server with the head, and every token comes with the
counters so far: where draft_n rises, a pass was checked, and draft_n_accepted says what it took.

One run per draft length: a block head drafts otherwise at every length, and where the passes of a
run with g begin is known, but not how far the head is right in between.
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

LENGTHS = (1, 2, 3, 4, 6, 8)
"""Drafts that are run; heads are seldom used for more."""


class LlamaHead(TargetWriter, DraftReader):
    """A target with its head: one llama-server at a time, with or without drafts."""

    def __init__(self, speculation: Speculation, facts: HeadFacts, device: str) -> None:
        self.speculation, self.facts, self.device = speculation, facts, device
        most, layers = LENGTHS[-1], facts.mtp_present or 1
        if facts.block_size is not None:  # a slot of a block is the last token's own
            most = max(1, min(most, facts.block_size - 1))
        if layers > 1:  # each drafts one token
            most = min(most, layers)
        self.lengths = sorted({*(g for g in LENGTHS if g < most), most})
        """Of drafts, that are run."""
        self.other = 0
        """Texts that came out otherwise with the head."""
        self._open = ExitStack()
        self._held: tuple[int | None, LlamaServer] | None = None
        server = self._server(None)
        self.rows, self.context, self.dtype = server.rows, server.context, server.dtype
        self.build = server.build

    @property
    def notes(self) -> Sequence[str]:
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
        found = {g: self._run(texts, g, options) for g in self.lengths}
        longest = found.pop(self.lengths[-1])
        return [
            replace(trace, of_length={g: rows[i] for g, rows in found.items()})
            for i, trace in enumerate(longest)
        ]

    def _run(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> list[Trace]:
        """Tables that hold what the passes of one run took, where they began."""
        server, traces = self._server(g), []
        for text in texts:
            events = server.stream(text.prompt.tolist(), len(text.tokens), options)
            reach = np.zeros(len(text.tokens), dtype=np.int64)
            place = 1  # the first token comes out of the prompt's pass
            for taken in passes(events, g):
                reach[place : place + 1] = taken
                place += taken + 1
            if options.temperature == 0 and g == self.lengths[-1]:  # samples always differ
                self.other += not _same(events, text)
            right = np.arange(g) < reach[:, None]
            rank, sure = np.where(right, 0, NEVER), np.ones(right.shape)
            traces.append(Trace(text.prompt, text.tokens, rank, sure, text.category))
        return traces

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
        return replace(super().limits(), longest=self.head.lengths[-1])

    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> Iterator[Trace]:
        try:
            yield from self.head.traces(texts, options)
        except ServerLost as error:
            raise ReadError(f"llama-server with the head: {error}") from error

    def costs(self, sequences: int, context: int) -> None:
        """A step of the head alone cannot be timed; --verify times the whole."""
