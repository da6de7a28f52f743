"""A backend whose target and draft are loaded apart: one writes texts, the other reads them.

The two sides need not know each other: a server may write and a GGUF file in this process may
read. At a temperature the draft is taken to propose its first choice, which is what llama.cpp and
vLLM do: a token of the target's sampled text was a taken draft when it is that choice.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TypeVar

import numpy as np

from draftcheck.errors import ReadError
from draftcheck.trial.backends.backend import (
    Backend,
    BackendLimits,
    CannotVerify,
    StoppedWriting,
    TargetText,
    TrialOptions,
)
from draftcheck.trial.backends.rounds import merge
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import VerifiedRun
from draftcheck.trial.simulate.traces import NEVER, Floats, Ints, Trace
from draftcheck.trial.speedup import LONGEST, WIDTHS, Costs

GREEDY = "at a temperature: for a draft that proposes its first choice, as llama.cpp and vLLM do"

TIMED = (1, *WIDTHS[:-1])
"""Tokens in a step. Not those of the widest trees: on a CPU they take seconds."""
ROUNDS = 4

T = TypeVar("T")
Verify = Callable[[Sequence[TargetText], int, TrialOptions], VerifiedRun]


class ServerLost(Exception):
    """A server does not answer as it should; the text says how."""

    def __init__(self, words: str, status: int = 0) -> None:
        super().__init__(words)
        self.status = status


class TrialSide(ABC):
    """What both sides tell of themselves; what is not known or not possible is left as it is."""

    device: str
    dtype: str
    rows: int | None = None
    """Tokens of the vocabulary."""
    context: int | None = None
    engine = version = ""
    """Whose steps are timed."""

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know about how it was measured."""
        return ()

    def step(self, context: int, width: int) -> float | None:
        """Seconds to read `width` tokens behind `context` others; None: cannot be timed."""
        return None

    def close(self) -> None:  # noqa: B027 (Python gives back what no program holds)
        """Give back memory, end programs; may be called twice."""


class TargetWriter(TrialSide):
    at_once = 1
    """Prompts that it takes side by side."""

    @abstractmethod
    def write(self, prompt: Prompt, options: TrialOptions) -> TargetText | None:
        """The target's continuation; None: the prompt is too long for it. Raises ServerLost."""


class DraftReader(TrialSide):
    longest = LONGEST
    """Tokens that it can propose in one pass."""

    @abstractmethod
    def read(self, text: TargetText) -> tuple[Ints, Floats]:
        """Rank of each token among the draft's choices, and its confidence. Raises ServerLost."""


class NoDraft(DraftReader):
    """For a target alone: drafts are copied from the text, which needs no model and no time."""

    longest = 0

    def read(self, text: TargetText) -> tuple[Ints, Floats]:
        return np.full(len(text.tokens), NEVER), np.zeros(len(text.tokens))

    def step(self, context: int, width: int) -> float:
        return 0.0


class Sides(Backend):
    """Target and draft, each by its own means."""

    def __init__(self, name: str, target: TargetWriter, draft: DraftReader, how: str) -> None:
        """how: steps are timed."""
        super().__init__()
        self.name = name
        self.target, self.draft = target, draft
        self.device, self.dtype = target.device, target.dtype
        self._how = how
        self.speculation: Verify | str = "this backend has no speculation of its own"
        """How to speculate for real, or why that is not possible."""
        self.reads_again = False
        """Each pass the draft reads once more what was checked."""
        self._too_long = 0

    @property
    def notes(self) -> list[str]:
        notes = [*self.remarks, *self.target.notes, *self.draft.notes]
        if self._too_long:
            size = f" of {self.target.context:,}" if self.target.context else ""
            notes.append(
                f"{self._too_long} prompt{'s' * (self._too_long > 1)} left out: too long for the"
                f" target's context{size}"
            )
        return notes

    def limits(self) -> BackendLimits:
        target, draft = self.target, self.draft
        sizes = (target.rows, target.context, draft.rows, draft.context)
        return BackendLimits(*sizes, draft.longest)

    def generate(self, prompts: Sequence[Prompt], options: TrialOptions) -> Iterator[TargetText]:
        if options.temperature > 0 and GREEDY not in self.remarks:
            self.remarks.append(GREEDY)
        end = time.monotonic() + (options.seconds or math.inf)
        under_way: dict[int, tuple[list[int], list[int]]] = {}

        def begun(number: int, ids: list[int], tokens: list[int]) -> None:
            under_way[number] = (ids, tokens)

        each = [replace(options, seed=options.seed + i, begun=partial(begun, i))
                for i in range(len(prompts))]  # fmt: skip
        jobs = [partial(self._write, *one, end) for one in zip(prompts, each, strict=True)]
        try:
            for i, result in enumerate(side_by_side(jobs, self.target.at_once)):
                try:
                    text = result()
                except ServerLost as error:
                    raise ReadError(f"the target's server: {error}") from error
                under_way.pop(i, None)
                if text is not None and len(text.tokens):
                    yield text
        except KeyboardInterrupt:
            parts = [(prompts[i].category, *under_way[i]) for i in sorted(under_way)]
            raise StoppedWriting(
                [
                    TargetText(category, np.array(ids), np.array(tokens, dtype=np.int64))
                    for category, ids, tokens in parts
                    if tokens
                ]
            ) from None

    def _write(self, prompt: Prompt, options: TrialOptions, end: float) -> TargetText | None:
        left = end - time.monotonic()
        if left <= 0:
            return None
        text = self.target.write(prompt, replace(options, seconds=min(left, 1e9)))
        self._too_long += text is None
        return text

    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> Iterator[Trace]:
        for text in texts:
            try:
                rank, confidence = self.draft.read(text)
            except ServerLost as error:
                raise ReadError(f"the draft's server: {error}") from error
            yield Trace(text.prompt, text.tokens, rank, confidence, text.category)

    def costs(self, sequences: int, context: int) -> Costs | None:
        """By the same plain timing on both sides, in turns, one sequence at a time."""
        if sequences != 1:
            return None
        rounds = []
        try:
            for _ in range(ROUNDS):
                timed = self._time_steps(context)
                if timed is None:
                    return None
                rounds.append(timed)
        except ServerLost as error:
            self.remarks.append(f"steps could not be timed: {error}")
            return None
        return merge(rounds)

    def _time_steps(self, context: int) -> Costs | None:
        ours, theirs = (
            {width: taken for width in TIMED if (taken := side.step(context, width)) is not None}
            for side in (self.target, self.draft)
        )
        if not ours.get(1) or 1 not in theirs:
            return None
        return Costs(
            theirs[1],
            ours.pop(1),
            ours,
            self._how,
            engine=self.target.engine,
            version=self.target.version,
            source="measured",
            overhead=theirs if self.reads_again else {},
        )

    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        if isinstance(self.speculation, str):
            raise CannotVerify(self.speculation)
        try:
            return self.speculation(texts, g, options)
        except ServerLost as error:
            raise CannotVerify(str(error)) from error

    def close(self) -> None:
        self.target.close()
        self.draft.close()


def side_by_side(jobs: Sequence[Callable[[], T]], count: int) -> Iterator[Callable[[], T]]:
    """Begin jobs, `count` at a time; what comes out, in order, gives a result or raises.

    One at a time runs in the caller's own thread: a model that is loaded in this process must not
    be closed while another thread still computes with it. More go to daemon threads, because those
    of a pool would keep an interrupted program waiting for answers that nobody wants.
    """
    if count == 1:
        yield from jobs
        return
    queue: SimpleQueue[tuple[Callable[[], T], Future[T]]] = SimpleQueue()
    futures: list[Future[T]] = [Future() for _ in jobs]
    over = Event()
    for job, future in zip(jobs, futures, strict=True):
        queue.put((job, future))

    def work() -> None:
        while not over.is_set():
            try:
                job, future = queue.get_nowait()
            except Empty:
                return
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

    for _ in range(min(count, len(jobs))):
        Thread(target=work, daemon=True).start()
    try:
        yield from (future.result for future in futures)
    finally:
        over.set()
