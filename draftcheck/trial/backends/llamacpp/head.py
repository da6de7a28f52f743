"""A head in GGUF: what llama-server takes of it, pass by pass.

A head is no model of its own, and llama-server does not say what it thinks at a place. So the
target's texts are written again by a llama-server with the head, and every token comes with the
counters so far: where draft_n rises, a pass was checked, and draft_n_accepted says what it took.

One run per draft length: a block head drafts otherwise at every length, and where the passes of a
run with g begin is known, but not how far the head is right in between. Nor are its other choices
and how sure it is of them: no threshold and no tree can be told.

What a length is worth is measured too, not made of steps: tokens per second of its run over those
of a run without the head, of the same texts by the same server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from draftcheck.errors import ReadError
from draftcheck.probe import client
from draftcheck.trial.backends.backend import (
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
from draftcheck.trial.speedup import ratio
from draftcheck.values.facts import HeadFacts

ServerEvent = dict[str, Any]
LENGTHS = (1, 2, 3, 4, 6, 8)
"""Drafts that are run; heads are seldom used for more."""
MEASURED = "speed-ups are measured: tokens per second of llama-server with the head over without"


class RunTime(NamedTuple):
    """What llama-server says of one answer."""

    tokens: int
    seconds: float


class LlamaHead(TargetWriter, DraftReader):
    """A target with its head: one llama-server at a time, with or without drafts."""

    def __init__(self, speculation: Speculation, facts: HeadFacts, device: str) -> None:
        self.speculation, self.facts, self.device = speculation, facts, device
        most, layers = LENGTHS[-1], facts.mtp_present or 1
        most = min(most, facts.block_drafts or most)
        if layers > 1:  # each drafts one token
            most = min(most, layers)
        self.lengths = sorted({*(g for g in LENGTHS if g < most), most})
        """Of drafts, that are run."""
        self.longest = most
        self.other = 0
        """Texts that came out otherwise with the head."""
        self._texts: list[tuple[TargetText, TrialOptions]] = []
        """All that were run."""
        self._time: dict[int | None, list[RunTime]] = defaultdict(list)
        """Of the runs, by length; None: without the head."""
        self._open = ExitStack()
        self._held: tuple[int | None, LlamaServer] | None = None
        server = self._server(None)
        self.rows, self.context, self.dtype = server.rows, server.context, server.dtype
        self.build = server.build

    @property
    def notes(self) -> Sequence[str]:
        names = ", ".join(map(str, self.lengths))
        found = [
            f"the head was run by llama-server itself, with drafts of {names} tokens: no thresholds"
            " and trees"
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
        longest = found.pop(self.longest)
        self._texts += ((text, options) for text in texts)
        return [
            replace(trace, of_length={g: rows[i] for g, rows in found.items()})
            for i, trace in enumerate(longest)
        ]

    def _run(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> list[Trace]:
        """Tables that hold what the passes of one run took, where they began."""
        traces = []
        for text in texts:
            events = self._stream(text, g, options)
            reach = np.zeros(len(text.tokens), dtype=np.int64)
            place = 1  # the first token comes out of the prompt's pass
            for taken in passes(events, g):
                reach[place : place + 1] = taken
                place += taken + 1
            if options.temperature == 0 and g == self.longest:  # samples always differ
                self.other += not _same(events, text)
            right = np.arange(g) < reach[:, None]
            rank, sure = np.where(right, 0, NEVER), np.zeros(right.shape)
            trace = Trace(text.prompt, text.tokens, rank, sure, text.category, only_hits=True)
            traces.append(trace)
        return traces

    def speedups(self) -> dict[int, float]:
        """Of each length, by the same texts without the head; empty: the server tells no times."""
        for text, options in self._texts:
            self._stream(text, None, options)
        rates = {g: tokens_per_second(times) for g, times in self._time.items()}
        plain = rates.pop(None, 0.0)
        return {g: rate / plain for g, rate in rates.items() if g and rate} if plain else {}

    def _stream(self, text: TargetText, g: int | None, options: TrialOptions) -> list[ServerEvent]:
        """A text again, with drafts of g tokens, as long as it is known to be."""
        events = self._server(g).stream(text.prompt.tolist(), len(text.tokens), options)
        self._time[g].append(run_time(events))
        return events

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


def run_time(events: Sequence[ServerEvent]) -> RunTime:
    """As the last event tells it; the server's clock starts with the first token."""
    timed = client.part(events[-1], "timings") if events else {}
    tokens = client.count(timed.get("predicted_n")) or 1
    return RunTime(tokens - 1, client.seconds(timed.get("predicted_ms")) or 0.0)


def tokens_per_second(times: Sequence[RunTime]) -> float:
    tokens, seconds = map(sum, zip(*times, strict=True))
    return ratio(tokens, seconds)


def passes(events: Sequence[ServerEvent], g: int) -> list[int]:
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


def _same(events: Sequence[ServerEvent], text: TargetText) -> bool:
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

    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> Iterator[Trace]:
        try:
            yield from self.head.traces(texts, options)
        except ServerLost as error:
            raise ReadError(f"llama-server with the head: {error}") from error

    def costs(self, sequences: int, context: int) -> None:
        """A step of the head alone cannot be timed: whole runs are."""
        try:
            self.speedups = self.head.speedups()
        except ServerLost as error:
            self.remarks.append(f"runs could not be timed: {error}")
        if self.speedups:
            self.remarks.append(MEASURED)
