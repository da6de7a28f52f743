"""Engines of vLLM in this process: started, asked, and made to speculate for real.

A real run writes texts again, one at a time, without and with a draft or a head. vLLM's counters
(v1/spec_decode/metrics.py, 0.32.0): every pass behind the prompt's drafts num_speculative_tokens,
whatever is left to write, and counts what it accepts behind the end of a text too.
"""

from __future__ import annotations

import gc
import json
import math
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from draftcheck.errors import ReadError, UsageError
from draftcheck.models import refs
from draftcheck.trial import setups
from draftcheck.trial.backends import ctrl_c
from draftcheck.trial.backends.backend import CannotVerify, TargetText, TrialOptions
from draftcheck.trial.result import VerifiedRun
from draftcheck.values.facts import ModelFacts

MEMORY = 0.85
"""Share of the GPU that all engines together may take."""
LONGEST_PROMPT = 4096
SEQUENCES = 64
"""At once, at most."""
LOGGING = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_LOGGING_STREAM": "ext://sys.stderr"}
"""vLLM logs to standard output, which is for the result."""
LOG_READ = 1 << 18
"""Bytes of the end that are searched."""
SAID = 300
RAISED = re.compile(r"(?:^|[\s.])([A-Z]\w*(?:Error|Exception)): (\S.*)$")
EMPTY = re.compile(r"See (?:root cause|stack trace)", re.IGNORECASE)
"""Words of an error that only points at another one."""
OPTION = "--speculative-config"


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


@dataclass(frozen=True, slots=True)
class WrittenAgain:
    """What one engine made of some prompts."""

    seconds: float
    outputs: list[list[int]]


class VllmEngines:
    """Engines for one trial."""

    def __init__(
        self,
        options: TrialOptions,
        models: Sequence[ModelFacts],
        dtype: str | None,
        longest_prompt: int = 0,
    ) -> None:
        """models: those that must have the context; dtype: None for the usual one."""
        for name, value in LOGGING.items():  # read when vLLM is first imported
            os.environ.setdefault(name, value)
        self._options = options
        self._output = EngineOutput()
        with self._output.taken():
            import vllm
            from vllm.platforms import current_platform

            self.kind = str(current_platform.device_type)
            """Each build of vLLM is for one: cuda, cpu …"""
            self.version = str(vllm.__version__).partition("+")[0]
        if options.device not in (None, self.kind, f"{self.kind}:0"):
            raise UsageError(
                f"--device {options.device}: vLLM runs on {self.kind} here and nowhere else"
            )
        self.dtype = dtype or ("float32" if self.kind == "cpu" else "auto")
        contexts = [one.config.scaled_context or one.config.context for one in models]
        wanted = options.tokens + max(LONGEST_PROMPT, longest_prompt)
        self.context = min([wanted, *(size for size in contexts if size)])

    def start(self, ref: str, memory: float = MEMORY, **more: Any) -> Any:
        at = refs.parse(ref)
        settings: dict[str, Any] = {
            "model": at.repo or str(at.path),
            "gpu_memory_utilization": memory,
            "max_model_len": self.context,
            "max_num_seqs": SEQUENCES,
            "trust_remote_code": self._options.trust_remote_code,
            "seed": self._options.seed,
            "dtype": self.dtype,
            "generation_config": "vllm",  # no penalties from the model's own file
            "enable_prefix_caching": False,  # every text is read once, and passes are timed
            "disable_log_stats": False,  # counts of drafts, and when passes ended
            **more,
        }
        if at.revision:
            settings["revision"] = at.revision
        try:
            with self._output.taken(), ctrl_c.kept_from_children():
                from vllm import LLM

                return LLM(**settings)
        except Exception as error:  # an engine fails in its own ways, often in another process
            words = self._output.reason(error)
            raise ReadError(f"{ref}: vLLM cannot load it: {words}") from error

    def ask(
        self, ref: str, engine: Any, ids: Sequence[list[int]], settings: Mapping[str, Any]
    ) -> list[Any]:
        from vllm import SamplingParams

        wanted = [{"prompt_token_ids": row} for row in ids]
        try:
            return list(engine.generate(wanted, SamplingParams(**settings), use_tqdm=False))
        except Exception as error:  # out of memory, or its process died
            words = self._output.reason(error)
            raise ReadError(f"{ref}: vLLM stopped: {words}") from error

    def write(
        self,
        ref: str,
        engine: Any,
        ids: Sequence[list[int]],
        settings: Mapping[str, Any],
        options: TrialOptions,
        latest: dict[int, Any],
    ) -> None:
        """The same step by step: latest has what each prompt's answer is so far.

        The seconds of the options, or Ctrl-C, end it.
        """
        from vllm import SamplingParams

        core, names = engine.llm_engine, [str(i) for i in range(len(ids))]
        end = time.monotonic() + (options.seconds or math.inf)
        try:
            for name, row in zip(names, ids, strict=True):
                core.add_request(name, {"prompt_token_ids": row}, SamplingParams(**settings))
            while core.has_unfinished_requests() and time.monotonic() < end:
                latest.update((int(output.request_id), output) for output in core.step())
                written = sum(len(output.outputs[0].token_ids) for output in latest.values())
                options.wrote(written / options.tokens)
        except Exception as error:  # out of memory, or its process died
            words = self._output.reason(error)
            raise ReadError(f"{ref}: vLLM stopped: {words}") from error
        finally:
            with suppress(Exception):  # of an engine that is gone
                core.abort_request(names)

    def pass_ends(
        self, ref: str, engine: Any, ids: Sequence[list[int]], settings: Mapping[str, Any]
    ) -> list[float]:
        """Moments at which a pass ended that gave every prompt something, by the engine's clock.

        Outputs wait while this process is held up, and are then taken several at once.
        """
        from vllm import SamplingParams

        core, ends, began = engine.llm_engine, [], time.perf_counter_ns()
        try:
            for i, row in enumerate(ids):
                wanted = SamplingParams(**settings)
                core.add_request(f"{began}-{i}", {"prompt_token_ids": row}, wanted)
            while core.has_unfinished_requests():
                outputs = core.step()
                if len(outputs) == len(ids):
                    said = getattr(outputs[0].metrics, "last_token_ts", 0.0)
                    ends.append(said or time.monotonic())
        except Exception as error:  # out of memory, or its process died
            words = self._output.reason(error)
            raise ReadError(f"{ref}: vLLM stopped: {words}") from error
        return ends

    # ---- for real ----

    def write_again(
        self, ref: str, engine: Any, texts: Sequence[TargetText], settings: Mapping[str, Any]
    ) -> WrittenAgain:
        """One prompt at a time."""
        ids = [text.prompt.tolist() for text in texts]
        before = time.perf_counter()
        outputs = [self.ask(ref, engine, [row], settings)[0] for row in ids]
        seconds = time.perf_counter() - before
        return WrittenAgain(seconds, [list(output.outputs[0].token_ids) for output in outputs])

    def plainly(
        self, ref: str, engine: Any, texts: Sequence[TargetText], settings: Mapping[str, Any]
    ) -> WrittenAgain:
        """Without a draft."""
        self.write_again(ref, engine, texts, settings)  # what is made at first use, for each shape
        return self.write_again(ref, engine, texts, settings)

    def speculate(
        self,
        models: Sequence[ModelFacts],
        pair: tuple[str, str | None],
        texts: Sequence[TargetText],
        g: int,
        settings: Mapping[str, Any],
        plain: WrittenAgain,
    ) -> VerifiedRun:
        """With drafts of g tokens, as the rulebook would have the pair set up in vLLM.

        models: what is known of the pair; no draft: layers of the target's own.
        """
        engine = self.start_drafting(models, pair, g)
        try:
            self.write_again(pair[0], engine, texts, settings)
            start = counters(engine)
            fast = self.write_again(pair[0], engine, texts, settings)
            drafts, drafted, accepted = (
                now - then for now, then in zip(counters(engine), start, strict=True)
            )
        finally:
            del engine
            gc.collect()
        if not drafts:
            raise CannotVerify("vLLM made no drafts")
        # Not 1 + accepted / drafts: vLLM also counts what it accepts behind the end of a text.
        tokens = sum(len(output) - 1 for output in fast.outputs)
        return VerifiedRun(
            draft_tokens=g,
            tokens_per_pass=tokens / drafts,
            speedup=plain.seconds / fast.seconds if fast.seconds else None,
            identical_output=fast.outputs == plain.outputs if not settings["temperature"] else None,
            drafted=drafted,
            accepted=accepted,
            first=1,
            samples=False,
        )

    def start_drafting(
        self, models: Sequence[ModelFacts], pair: tuple[str, str | None], g: int
    ) -> Any:
        """An engine that speculates, with its counters."""
        config = self._config(models, pair[1], g)
        try:
            return self.start(pair[0], speculative_config=config)
        except ReadError as error:
            raise CannotVerify(error.message) from error

    def _config(self, models: Sequence[ModelFacts], draft: str | None, g: int) -> dict[str, Any]:
        """The JSON of the rulebook's command for this pair; the draft is loaded as it was named."""
        setup = setups.setup("vllm", self.version, models, g)
        words = shlex.split(setup) if setup else []
        if OPTION not in words:
            raise CannotVerify(f"the rulebook has no way to run it in vLLM {self.version}")
        config: dict[str, Any] = json.loads(words[words.index(OPTION) + 1])
        if draft is not None:
            at = refs.parse(draft)
            config["model"] = at.repo or str(at.path)
            config |= {"revision": at.revision} if at.revision else {}
        return config


def sampling(options: TrialOptions) -> dict[str, Any]:
    return {
        "temperature": options.temperature,
        "max_tokens": options.tokens,
        "seed": options.seed if options.temperature > 0 else None,
        "top_p": 1.0,
        "top_k": -1,
    }


def counters(engine: Any) -> tuple[int, int, int]:
    """Drafts, draft tokens and accepted tokens since the engine began."""
    found = {metric.name: getattr(metric, "value", 0) for metric in engine.get_metrics()}
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    drafts, drafted, accepted = (int(found.get(f"vllm:spec_decode_{name}", 0)) for name in names)
    return drafts, drafted, accepted
