"""The trial with vLLM in this process: two engines side by side, one for each model.

The draft reads a text as a prompt whose log-probabilities are asked for: vLLM gives the rank of
each token and the likeliest others there. At a temperature the draft proposes its first choice, as
vLLM's drafts do. Costs are those of whole passes, plain and speculating, which takes two more
engines. It cannot translate vocabularies.
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from draftcheck.errors import ReadError, UsageError
from draftcheck.memory import gpus
from draftcheck.models import read as facts
from draftcheck.models import refs
from draftcheck.trial.backends.backend import (
    HEADS,
    Backend,
    BackendLimits,
    CannotVerify,
    StoppedWriting,
    TargetText,
    TrialOptions,
    check_rows,
    draft_not_numbers,
    target_not_numbers,
)
from draftcheck.trial.backends.sides import GREEDY
from draftcheck.trial.backends.vllm import pass_times
from draftcheck.trial.backends.vllm.engines import MEMORY, VllmEngines, sampling
from draftcheck.trial.engine_speed import serving
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import VerifiedRun
from draftcheck.trial.simulate.traces import CONFIDENCE_TOP, Floats, Ints, Trace
from draftcheck.trial.speedup import Costs
from draftcheck.values.facts import ModelFacts

LOADS = (1, 4, 16, 64)
LEAST = 0.1
"""Share of the memory that the smaller engine gets at least."""


def open(target: str, draft: str, options: TrialOptions) -> VllmBackend:
    """Both engines; each gets memory by its weights."""
    if options.universal:
        raise UsageError("--universal needs --backend transformers")
    read = facts.read_all(refs.parse(target), refs.parse(draft))
    if read[1].role in HEADS:
        raise UsageError(
            f"{draft}: a head ({read[1].role}) is read by transformers",
            hint="Leave --backend out; with --engine vllm --verify vLLM runs it for real.",
        )
    engines = VllmEngines(options, read, options.dtype)
    return VllmBackend((target, draft), read, options, engines)


class VllmBackend(Backend):
    """Target and draft, each in an engine of its own."""

    name = "vllm"

    def __init__(
        self,
        pair: tuple[str, str],
        read: Sequence[ModelFacts],
        options: TrialOptions,
        engines: VllmEngines,
    ) -> None:
        super().__init__()
        self._refs = pair
        self._facts = read
        self._engines = engines
        self._target: Any = None
        self._draft: Any = None
        self.device = engines.kind if engines.kind == "cpu" else f"{engines.kind}:0"
        self._too_long = 0
        self._costs: dict[int, Costs] | None = None
        self._context = engines.context
        # The target first: vLLM runs a draft in the type of its target.
        if not options.kept:
            self._start_target()
        # The draft only reads: nothing is gained by compiling it.
        memory = MEMORY * (1 - self._share())
        self._draft = engines.start(pair[1], memory, enforce_eager=True)
        self.dtype = engines.dtype = _dtype(self._draft)

    def _start_target(self) -> None:
        self._target = self._engines.start(self._refs[0], MEMORY * self._share())
        self._engines.dtype = _dtype(self._target)

    def _share(self) -> float:
        """Of the memory for the target: by weights, with something left for a small draft."""
        big, small = (one.weights.nbytes or 0 for one in self._facts)
        share = big / (big + small) if big and small else 0.75
        return min(max(share, LEAST), 1 - LEAST)

    def close(self) -> None:
        """Engines are processes: they end when nothing holds them."""
        self._target = self._draft = None
        gc.collect()

    def limits(self) -> BackendLimits:
        target, draft = (one.config.vocab_size for one in self._facts)
        return BackendLimits(target, self._context, draft, self._context)

    # ---- the target's text ----

    def generate(self, prompts: Sequence[Prompt], options: TrialOptions) -> list[TargetText]:
        from draftcheck.trial.backends.transformers import loading  # torch, which vLLM brings

        if options.temperature > 0 and GREEDY not in self.remarks:
            self.remarks.append(GREEDY)
        spelling = self._target.get_tokenizer()
        rows = [(prompt.category, loading.encode(spelling, prompt, options)) for prompt in prompts]
        # One more: the draft reads all of it as a prompt, and vLLM always adds a token.
        fitting = [row for row in rows if len(row[1]) + options.tokens < self._context]
        self._leave_out(len(rows) - len(fitting))
        settings = {**sampling(options), "logprobs": 0}  # of the token itself: to see NaN
        ids = [row for _, row in fitting]
        latest: dict[int, Any] = {}
        try:
            self._engines.write(self._refs[0], self._target, ids, settings, options, latest)
        except KeyboardInterrupt:
            raise StoppedWriting(self._texts(fitting, latest)) from None
        return self._texts(fitting, latest)

    def _texts(
        self, rows: Sequence[tuple[str, list[int]]], outputs: Mapping[int, Any]
    ) -> list[TargetText]:
        """What the target has written so far; nothing yet is no text."""
        texts = []
        for number in sorted(outputs):
            (category, row), answer = rows[number], outputs[number].outputs[0]
            if math.isnan(answer.cumulative_logprob):
                raise target_not_numbers(self._refs[0])
            tokens = np.array(answer.token_ids, dtype=np.int64)
            texts.append(TargetText(category, np.array(row), tokens))
        return texts

    def _leave_out(self, count: int) -> None:
        if count:
            self._too_long += count
            words = "left out: too long for the context of"
            self.remarks = [note for note in self.remarks if words not in note]
            self.remarks.append(f"{self._too_long} prompts {words} {self._context:,}")

    # ---- the draft's choices ----

    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> list[Trace]:
        texts = [text for text in texts if len(text.tokens)]
        fitting = [text for text in texts if len(text.prompt) + len(text.tokens) < self._context]
        self._leave_out(len(texts) - len(fitting))
        texts = fitting
        for text in texts:
            check_rows(text, self._facts[1].config.vocab_size)
        whole = [[*text.prompt.tolist(), *text.tokens.tolist()] for text in texts]
        settings = {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": CONFIDENCE_TOP}
        traces = []
        outputs = self._engines.ask(self._refs[1], self._draft, whole, settings)
        for text, output in zip(texts, outputs, strict=True):
            told = output.prompt_logprobs[len(text.prompt) :]
            rank, sure = rank_and_confidence(told, text.tokens)
            traces.append(Trace(text.prompt, text.tokens, rank, sure, text.category))
        return traces

    # ---- seconds ----

    def costs(self, sequences: int, context: int) -> Costs | None:
        """Of all loads when the first is asked for: engines are dear to start."""
        if self._costs is None:
            self._costs = self._time_passes(LOADS if self._engines.kind != "cpu" else LOADS[:1])
        return self._costs.get(sequences)

    def _time_passes(self, loads: Sequence[int]) -> dict[int, Costs]:
        began, started = time.monotonic(), len(pass_times.LENGTHS)
        self._draft = None  # it has read all there is; its memory is needed
        gc.collect()
        timed = {}
        try:
            if self._target is None:
                self._start_target()
                started += 1
            timer = partial(pass_times.time_engine, self._engines, self._refs[0], loads=loads)
            timed[pass_times.PLAIN] = timer(engine=self._target)
            self.close()
            for g in pass_times.LENGTHS:
                engine = self._engines.start_drafting(self._facts, self._refs, g)
                timed[g] = timer(engine=engine)
                del engine
                gc.collect()
        except (CannotVerify, ReadError) as error:
            self.remarks.append(f"passes could not be timed: {error}")
            return {}
        found = pass_times.costs(timed, self._engines.version, self._modelled())
        told = "passes were timed in vLLM itself" if found else "passes were too short to be timed"
        seconds = time.monotonic() - began
        self.remarks.append(f"{told}: {started} more engines, in {seconds:.0f} s")
        return found

    def _modelled(self) -> pass_times.Modelled | None:
        """How passes grow with their drafts, where the GPU and this vLLM are known."""
        if self._engines.kind != "cuda":
            return None
        with contextlib.suppress(UsageError):
            here = gpus.ask()[0]
            made = serving.modelled(("vllm", self._engines.version), self._facts, here)
            return made.speculating if made is not None else None
        return None

    # ---- for real ----

    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        """vLLM's own speculation: one prompt at a time, without and with the draft."""
        if self._target is None:
            self._start_target()
        settings = sampling(options)
        plain = self._engines.plainly(self._refs[0], self._target, texts, settings)
        self.close()
        return self._engines.speculate(self._facts, self._refs, texts, g, settings, plain)


def rank_and_confidence(places: Sequence[Mapping[int, Any]], tokens: Ints) -> tuple[Ints, Floats]:
    """Ranks and confidence from vLLM's log-probabilities of a prompt: rank 1 is the likeliest."""
    rank = np.zeros(len(tokens), dtype=np.int64)
    sure = np.zeros(len(tokens))
    for i, (place, token) in enumerate(zip(places, tokens.tolist(), strict=True)):
        logs = sorted((entry.logprob for entry in place.values()), reverse=True)[:CONFIDENCE_TOP]
        if any(math.isnan(log) for log in logs):
            raise draft_not_numbers()
        # Of equal ones the lower id is chosen first. vLLM counts them as better, and half precision
        # makes many equal.
        mine = place[token]
        better = sum(
            entry.logprob > mine.logprob or (entry.logprob == mine.logprob and other < token)
            for other, entry in place.items()
        )
        rank[i] = better if better < CONFIDENCE_TOP else int(mine.rank) - 1
        sure[i] = math.exp(logs[0]) / sum(math.exp(log) for log in logs)
    return rank, sure


def _dtype(engine: Any) -> str:
    """What it computes in, where auto left that to vLLM."""
    return str(engine.llm_engine.model_config.dtype).removeprefix("torch.")
