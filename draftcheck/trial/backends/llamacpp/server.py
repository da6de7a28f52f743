"""One model behind a llama-server, as target or as draft.

As the draft it is asked for one token at each place of the target's text. Each question only adds
a token to what the server has in its cache, so it costs one step and no cache is ever wound back:
exact for any architecture, with what every build offers.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from draftcheck.probe import client
from draftcheck.trial.backends.asking import ServerAsker, is_token_ids
from draftcheck.trial.backends.backend import (
    NotNumbers,
    TargetText,
    TrialOptions,
    check_rows,
    draft_not_numbers,
    target_not_numbers,
)
from draftcheck.trial.backends.llamacpp.program import RunningServer
from draftcheck.trial.backends.sides import DraftReader, ServerLost, TargetWriter
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.simulate.traces import CONFIDENCE_TOP, Floats, Ints
from draftcheck.trial.simulate.trees import MAX_RANK

PIECE = 32
"""Tokens that are asked for at a time: no more are lost by Ctrl-C."""
APART = 1_000_003
"""Between the seeds of an answer's pieces; those of prompts lie side by side."""
REPEATS = 2
"""In a round."""


class LlamaServer(TargetWriter, DraftReader):
    """A llama-server: ours, or one that runs already."""

    def __init__(
        self,
        asker: ServerAsker,
        *,
        running: RunningServer | None = None,
        template: bool = True,
        device: str | None = None,
    ) -> None:
        """template: False where the model has none, so that the server would make one up."""
        self._asker, self._running, self._template = asker, running, template
        props = asker.get("/props").object()
        if not props:
            raise ServerLost("/props: no answer; is it a llama-server with --props?")
        found = client.part(props, "default_generation_settings").get("n_ctx")
        meta = client.part(next(iter(asker.models()), {}), "meta")
        self.rows = client.count(meta.get("n_vocab"))
        self.context = client.count(found) or client.count(meta.get("n_ctx_train"))
        self.device = device or asker.base.url
        self.dtype = client.text(props.get("model_ftype")) or "as in the file"
        self.engine = "llama.cpp"
        self.build = self.version = client.text(props.get("build_info")) or "unknown"
        slots = client.count(props.get("total_slots"))
        self.at_once = max(1, min(slots or 1, 8))
        self._seen = False
        self._end = client.text(props.get("eos_token"))

    @property
    def end(self) -> int | None:
        found = self.spell(self._end) if self._end else []
        return found[0] if len(found) == 1 else None

    # ---- the target's text ----

    def encode(self, prompt: Prompt, options: TrialOptions) -> list[int]:
        text = prompt.text
        if self._template:
            body: dict[str, Any] = {
                "messages": [dict(message) for message in prompt.messages],
                "chat_template_kwargs": {"enable_thinking": options.thinking},
            }
            text = str(self._asker.ask("/apply-template", body).get("prompt", ""))
        return self.spell(text, special=True)

    def spell(self, text: str, *, special: bool = False) -> list[int]:
        """special: add what the vocabulary wants at the ends."""
        body = {"content": text, "add_special": special, "parse_special": True}
        return _ids(self._asker.ask("/tokenize", body).get("tokens"), "/tokenize")

    def write(self, prompt: Prompt, options: TrialOptions) -> TargetText | None:
        ids = self.encode(prompt, options)
        if not ids or (self.context is not None and len(ids) + options.tokens > self.context):
            return None
        if not self._seen:  # llama-server "writes" with NaN all the same
            try:
                self._choices(ids)
            except NotNumbers:
                raise target_not_numbers(self.device) from None
            self._seen = True
        tokens: list[int] = []
        options.begun(ids, tokens)
        # In pieces: what is streamed lacks tokens whose text is not complete.
        end = time.monotonic() + (options.seconds or math.inf)
        for piece in range(-(-options.tokens // PIECE)):
            count = min(PIECE, options.tokens - len(tokens))
            drawn = replace(options, seed=(options.seed + piece * APART) % (1 << 31))
            body = {**self._body([*ids, *tokens], count, drawn), "cache_prompt": piece > 0}
            found = self._asker.ask("/completion", body)
            tokens += _ids(found.get("tokens"), "/completion")[:count]
            if _ended(found, count) or time.monotonic() >= end:
                break
        return TargetText(prompt.category, np.array(ids), np.array(tokens, dtype=np.int64))

    def complete(self, ids: list[int], count: int, options: TrialOptions) -> dict[str, Any]:
        """A continuation."""
        return self._asker.ask("/completion", self._body(ids, count, options))

    def stream(self, ids: list[int], count: int, options: TrialOptions) -> list[dict[str, Any]]:
        """The same token by token, each with the counters so far."""
        body = {**self._body(ids, count, options), "timings_per_token": True}
        return self._asker.stream("/completion", body)

    @staticmethod
    def _body(ids: list[int], count: int, options: TrialOptions) -> dict[str, Any]:
        """By the model's own probabilities, whatever the server's defaults are."""
        return {
            "prompt": ids,
            "n_predict": count,
            "samplers": ["temperature"],
            "temperature": options.temperature,
            "seed": options.seed,
            "return_tokens": True,
            "cache_prompt": False,
        }

    # ---- the draft's choices ----

    def read(self, text: TargetText) -> tuple[Ints, Floats]:
        known = np.concatenate([text.prompt, text.tokens]).tolist()
        check_rows(text, self.rows)
        rank = np.full(len(text.tokens), MAX_RANK, dtype=np.int64)  # or further back
        confidence = np.zeros(len(text.tokens))
        for i, token in enumerate(text.tokens.tolist()):
            end = len(text.prompt) + i
            if self.context is not None and end >= self.context:
                break  # no draft beyond the draft's context
            try:
                ids, chances = self._choices(known[:end])
            except NotNumbers:
                raise draft_not_numbers() from None
            if token in ids:
                rank[i] = ids.index(token)
            confidence[i] = chances[0] / sum(chances[:CONFIDENCE_TOP])
        return rank, confidence

    def _choices(self, ids: list[int]) -> tuple[list[int], list[float]]:
        """The likeliest next tokens and their chances beside the likeliest's, before samplers."""
        body = {
            "prompt": ids,
            "n_predict": 1,
            "temperature": 0.0,
            "n_probs": MAX_RANK,
            "cache_prompt": True,
        }
        found = self._asker.ask("/completion", body).get("completion_probabilities")
        first = found[0] if isinstance(found, list) and found else {}
        top = first.get("top_logprobs") if isinstance(first, Mapping) else None
        if not isinstance(top, list) or not top or not all(map(_is_choice, top)):
            raise ServerLost("/completion: no top_logprobs with ids; llama-server before b4365?")
        told = [client.number(entry["logprob"]) for entry in top]
        logs = [log for log in told if log is not None]
        if len(logs) < len(top):
            raise NotNumbers
        # Held against the likeliest: whatever the server says, one of them is 1.
        return [entry["id"] for entry in top], [math.exp(log - max(logs)) for log in logs]

    # ---- seconds ----

    def step(self, context: int, width: int) -> float | None:
        """What the server itself measures for reading so many tokens behind a cached prompt."""
        if self.context is not None and context + width + 1 >= self.context:
            context = self.context - width - 2
        if context < 1:
            return None
        before = [1 + i % 97 for i in range(context)]
        seconds = []
        for turn in range(REPEATS + 1):
            body = {
                "prompt": before + [100 + turn % 2] * width,
                "n_predict": 1,
                "temperature": 0.0,
                "cache_prompt": True,
            }
            timings = client.part(self._asker.ask("/completion", body), "timings")
            taken = client.seconds(timings.get("prompt_ms"))
            if turn and client.count(timings.get("prompt_n")) == width and taken is not None:
                seconds.append(taken)
        return statistics.median(seconds) if seconds else None

    def passes(self, context: int, count: int) -> list[tuple[int, float]]:
        """Passes behind the prompt's, of an answer of `count` tokens: drafted tokens, seconds.

        The prompt stays in the cache: no part of its reading is left over for the first pass.
        """
        if self.context is not None:
            context = min(context, self.context - count - 2)
        if context < 1:
            return []
        body = {
            **self._body([1 + i % 97 for i in range(context)], count, TrialOptions()),
            "cache_prompt": True,
            "ignore_eos": True,
            "timings_per_token": True,
        }
        found = []
        before: tuple[int, float] | None = None
        for event in self._asker.stream("/completion", body):
            timed = client.part(event, "timings")
            drafted = client.count(timed.get("draft_n")) or 0
            seconds = client.seconds(timed.get("predicted_ms"))
            if seconds is None:
                continue
            if before is None:  # the prompt's own pass gave this token, a microsecond ago
                before = (drafted, seconds)
            elif seconds > before[1]:  # tokens of one pass come together
                found.append((drafted - before[0], seconds - before[1]))
                before = (drafted, seconds)
        return found

    def close(self) -> None:
        if self._running is not None:
            self._running.close()


def _ended(found: Mapping[str, Any], count: int) -> bool:
    """Whether an answer ends by itself, not with the tokens that were asked for."""
    stopped = found.get("stop_type")  # since b4365; before, one switch for each kind
    by_itself = stopped in ("eos", "word") or bool(found.get("stopped_eos"))
    return by_itself or len(_ids(found.get("tokens"), "/completion")) < count


def _ids(found: Any, where: str) -> list[int]:
    if not is_token_ids(found):
        raise ServerLost(f"{where}: the answer holds no token ids")
    return list(found)


def _is_choice(entry: Any) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("id"), int) and "logprob" in entry
