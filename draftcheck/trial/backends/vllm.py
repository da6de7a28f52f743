"""The trial with vLLM in this process: two engines side by side, one for each model.

The draft reads a text as a prompt whose log-probabilities are asked for: vLLM gives the rank of
each token and the likeliest others there. At a temperature the draft proposes its first choice, as
vLLM's drafts do. It cannot time single steps, which vLLM does not tell, nor translate vocabularies;
what speculation is worth in vLLM itself is measured by the real run (--verify).
"""

from __future__ import annotations

import gc
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from draftcheck.errors import ReadError, UsageError
from draftcheck.models import read as facts
from draftcheck.models import refs
from draftcheck.trial.backends.backend import (
    Backend,
    BackendLimits,
    CannotVerify,
    TargetText,
    TrialOptions,
    check_rows,
    draft_not_numbers,
    target_not_numbers,
)
from draftcheck.trial.backends.sides import GREEDY
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import VerifiedRun
from draftcheck.trial.simulate.traces import CONFIDENCE_TOP, Floats, Ints, Trace
from draftcheck.values.facts import ModelFacts

MEMORY = 0.85
"""Share of the GPU that both engines together may take."""
LEAST = 0.1
LONGEST_PROMPT = 4096
SEQUENCES = 16
LOGGING = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_LOGGING_STREAM": "ext://sys.stderr"}
"""vLLM logs to standard output, which is for the result."""
LOG_READ = 1 << 18
"""Bytes of the end that are searched."""
SAID = 300
RAISED = re.compile(r"(?:^|[\s.])([A-Z]\w*(?:Error|Exception)): (\S.*)$")
EMPTY = re.compile(r"See (?:root cause|stack trace)", re.IGNORECASE)
"""Words of an error that only points at another one."""


def open(target: str, draft: str, options: TrialOptions) -> VllmBackend:
    """Both engines; each gets memory by its weights."""
    if options.universal:
        raise UsageError("--universal needs --backend transformers")
    for name, value in LOGGING.items():  # read when vLLM is first imported
        os.environ.setdefault(name, value)
    output = EngineOutput()
    with output.taken():
        from vllm.platforms import current_platform

        kind = str(current_platform.device_type)  # each build of vLLM is for one: cuda, cpu …
    if options.device not in (None, kind, f"{kind}:0"):
        raise UsageError(f"--device {options.device}: vLLM runs on {kind} here and nowhere else")
    read = facts.read_all(refs.parse(target), refs.parse(draft))
    return VllmBackend((target, draft), read, options, kind, output)


class EngineOutput:
    """What engines print: kept out of our output, and asked when one of them fails.

    Standard output and error of the processes that are started while it is taken.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (it lives as long as the engines)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Engines start inside: their processes go on writing here, ours goes back."""
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [os.dup(number) for number in (1, 2)]
        try:
            for number in (1, 2):
                os.dup2(self._file.fileno(), number)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, number)
                os.close(copy)

    def reason(self, error: BaseException) -> str:
        """What went wrong in a line: the first cause printed, where the error only points at it."""
        words = " ".join(str(error).split())
        if words and not EMPTY.search(words):
            return words[:SAID]
        size = os.fstat(self._file.fileno()).st_size
        printed = os.pread(self._file.fileno(), LOG_READ, max(0, size - LOG_READ))
        for line in printed.decode(errors="replace").splitlines():
            if (found := RAISED.search(line)) and not EMPTY.search(found[2]):
                return f"{found[1]}: {found[2]}"[:SAID]
        return (words or type(error).__name__)[:SAID]


class VllmBackend(Backend):
    """Target and draft, each in an engine of its own."""

    name = "vllm"

    def __init__(
        self,
        pair: tuple[str, str],
        read: Sequence[ModelFacts],
        options: TrialOptions,
        device: str,
        output: EngineOutput,
    ) -> None:
        super().__init__()
        self._refs = pair
        self._facts = read
        self._options = options
        self._output = output
        self._target: Any = None
        self._draft: Any = None
        self.device = device if device == "cpu" else f"{device}:0"
        self.dtype = options.dtype or ("float32" if device == "cpu" else "auto")
        self._too_long = 0
        contexts = [one.config.scaled_context or one.config.context for one in read]
        known = [size for size in contexts if size]
        self._context = min([options.tokens + LONGEST_PROMPT, *known])
        # The target first: vLLM runs a draft in the type of its target.
        if not options.kept:
            self._start_target()
        # The draft only reads: nothing is gained by compiling it.
        memory = MEMORY * (1 - self._share())
        self._draft = self._engine(pair[1], memory, enforce_eager=True)
        self.dtype = _dtype(self._draft)

    def _start_target(self) -> None:
        self._target = self._engine(self._refs[0], MEMORY * self._share())
        self.dtype = _dtype(self._target)

    def _share(self) -> float:
        """Of the memory for the target: by weights, with something left for a small draft."""
        big, small = (one.weights.nbytes or 0 for one in self._facts)
        share = big / (big + small) if big and small else 0.75
        return min(max(share, LEAST), 1 - LEAST)

    def _engine(self, ref: str, memory: float, **more: Any) -> Any:
        at = refs.parse(ref)
        settings: dict[str, Any] = {
            "model": at.repo or str(at.path),
            "gpu_memory_utilization": memory,
            "max_model_len": self._context,
            "max_num_seqs": SEQUENCES,
            "trust_remote_code": self._options.trust_remote_code,
            "seed": self._options.seed,
            "dtype": self.dtype,
            "generation_config": "vllm",  # no penalties from the model's own file
            **more,
        }
        if at.revision:
            settings["revision"] = at.revision
        try:
            with self._output.taken():
                from vllm import LLM

                return LLM(**settings)
        except Exception as error:  # an engine fails in its own ways, often in another process
            words = self._output.reason(error)
            raise ReadError(f"{ref}: vLLM cannot load it: {words}") from error

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
        settings = {**_settings(options), "logprobs": 0}  # of the token itself: to see NaN
        outputs = self._run(0, self._target, [ids for _, ids in fitting], settings)
        texts = []
        for (category, ids), output in zip(fitting, outputs, strict=True):
            answer = output.outputs[0]
            if math.isnan(answer.cumulative_logprob):
                raise target_not_numbers(self._refs[0])
            tokens = np.array(answer.token_ids, dtype=np.int64)
            texts.append(TargetText(category, np.array(ids), tokens))
        return texts

    def _leave_out(self, count: int) -> None:
        if count:
            self._too_long += count
            words = "left out: too long for the context of"
            self.remarks = [note for note in self.remarks if words not in note]
            self.remarks.append(f"{self._too_long} prompts {words} {self._context:,}")

    def _run(
        self, side: int, engine: Any, ids: Sequence[list[int]], settings: Mapping[str, Any]
    ) -> list[Any]:
        from vllm import SamplingParams

        wanted = [{"prompt_token_ids": row} for row in ids]
        try:
            return list(engine.generate(wanted, SamplingParams(**settings), use_tqdm=False))
        except Exception as error:  # out of memory, or its process died
            words = self._output.reason(error)
            raise ReadError(f"{self._refs[side]}: vLLM stopped: {words}") from error

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
        for text, output in zip(texts, self._run(1, self._draft, whole, settings), strict=True):
            told = output.prompt_logprobs[len(text.prompt) :]
            rank, sure = rank_and_confidence(told, text.tokens)
            traces.append(Trace(text.prompt, text.tokens, rank, sure, text.category))
        return traces

    # ---- for real ----

    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        """vLLM's own speculation: one prompt at a time, without and with the draft."""
        if self._target is None:
            self._start_target()
        self._write_again(self._target, texts[:1], options)  # what is made at first use
        plain, _ = self._write_again(self._target, texts, options)
        self.close()
        draft = refs.parse(self._refs[1])
        config = {
            "method": "draft_model",
            "model": draft.repo or str(draft.path),
            "num_speculative_tokens": g,
            **({"revision": draft.revision} if draft.revision else {}),
        }
        try:
            engine = self._engine(
                self._refs[0], MEMORY, speculative_config=config, disable_log_stats=False
            )
        except ReadError as error:
            raise CannotVerify(error.message) from error
        try:
            self._write_again(engine, texts[:1], options)
            start = _counters(engine)
            fast, outputs = self._write_again(engine, texts, options)
            drafts, drafted, accepted = (
                now - then for now, then in zip(_counters(engine), start, strict=True)
            )
        finally:
            del engine
            gc.collect()
        if not drafts:
            raise CannotVerify("vLLM made no drafts")
        same = outputs == [text.tokens.tolist() for text in texts]
        # Not 1 + accepted / drafts: vLLM also counts what it accepts behind the end of a text.
        tokens = sum(len(output) - 1 for output in outputs)
        return VerifiedRun(
            draft_tokens=g,
            tokens_per_pass=tokens / drafts,
            speedup=plain / fast if fast else None,
            identical_output=same if options.temperature == 0 else None,
            drafted=drafted,
            accepted=accepted,
            first=1,
        )

    def _write_again(
        self, engine: Any, texts: Sequence[TargetText], options: TrialOptions
    ) -> tuple[float, list[list[int]]]:
        settings = _settings(options)
        ids = [text.prompt.tolist() for text in texts]
        before = time.perf_counter()
        outputs = [self._run(0, engine, [row], settings)[0] for row in ids]
        seconds = time.perf_counter() - before
        return seconds, [list(output.outputs[0].token_ids) for output in outputs]


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


def _settings(options: TrialOptions) -> dict[str, Any]:
    return {
        "temperature": options.temperature,
        "max_tokens": options.tokens,
        "seed": options.seed if options.temperature > 0 else None,
        "top_p": 1.0,
        "top_k": -1,
    }


def _counters(engine: Any) -> tuple[int, int, int]:
    """Drafts, draft tokens and accepted tokens since the engine began."""
    found = {metric.name: getattr(metric, "value", 0) for metric in engine.get_metrics()}
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    drafts, drafted, accepted = (int(found.get(f"vllm:spec_decode_{name}", 0)) for name in names)
    return drafts, drafted, accepted
