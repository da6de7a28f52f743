"""The target in this process, by transformers: it writes the texts that drafts and heads read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from draftcheck.trial import model_places
from draftcheck.trial.backends.backend import (
    Backend,
    CannotVerify,
    StoppedWriting,
    TargetText,
    TrialOptions,
    target_not_numbers,
)
from draftcheck.trial.backends.transformers import loading
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import VerifiedRun
from draftcheck.trial.simulate.traces import Ints

BATCH = 16


class TransformersTarget(Backend):
    """The half of a backend that writes; what reads derives from it."""

    name = "transformers"

    def __init__(
        self,
        places: tuple[model_places.ModelPlace, model_places.ModelPlace],
        target: Any,
        tokenizer: Any,
        where: str,
    ) -> None:
        """places: of the target, and of what drafts for it."""
        super().__init__()
        self._places = places
        self.target = target
        self.tokenizer = tokenizer
        self.device = where if where == "auto" else str(target.device)
        self.dtype = str(target.dtype).removeprefix("torch.")
        self.models = {"target": places[0].model, "draft": places[1].model}
        self._too_long = 0
        self._batch = BATCH
        ends = target.generation_config.eos_token_id
        self.ends = [ends] if isinstance(ends, int) else list(ends or [])
        # What a model brings along (a repetition penalty, top-k …) would be filled in silently.
        target.generation_config = GenerationConfig(eos_token_id=self.ends or None)

    def encode(self, prompt: Prompt, options: TrialOptions) -> list[int]:
        return loading.encode(self.tokenizer, prompt, options)

    @torch.inference_mode()
    @loading.growing()
    def generate(self, prompts: Sequence[Prompt], options: TrialOptions) -> list[TargetText]:
        encoded = self._fitting(prompts, options)
        # Prompts of like length share a batch: less padding.
        encoded.sort(key=lambda entry: len(entry[1]))
        texts: list[TargetText] = []
        while len(texts) < len(encoded):
            part = encoded[len(texts) : len(texts) + self._batch]
            watch = _Watch(self._places[0].ref, options, len(texts), len(part))
            try:
                texts += self._write(part, options, watch)
            except KeyboardInterrupt:
                raise StoppedWriting([*texts, *self._texts(part, watch.written)]) from None
            except torch.OutOfMemoryError as error:
                if self._batch == 1:
                    raise loading.out_of_memory(self._places[0].ref, error) from error
                self._batch //= 2
                torch.cuda.empty_cache()
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                raise loading.failed(self._places[0].ref, "writing", error) from error
        return texts

    def _fitting(
        self, prompts: Sequence[Prompt], options: TrialOptions
    ) -> list[tuple[str, list[int]]]:
        """Prompts as ids; those too long for a context are left out, and counted."""
        limits = self.limits()
        context = min(limits.contexts, default=None)
        side = "target" if context == limits.target_context else "draft"
        fitting = []
        for prompt in prompts:
            try:
                ids = self.encode(prompt, options)
            except Exception as error:  # a template is a program: it can fail in any way
                raise loading.failed(self._places[0].ref, "its chat template", error) from error
            if not ids:
                continue
            if context is not None and len(ids) + options.tokens > context:
                self._too_long += 1
            else:
                fitting.append((prompt.category, ids))
        if self._too_long:
            words = f"too long for the {side}'s context of"
            self.remarks = [note for note in self.remarks if words not in note]
            self.remarks.append(
                f"{self._too_long} prompt{'s' * (self._too_long > 1)} left out: {words}"
                f" {context:,} with {options.tokens:,} new tokens"
            )
        return fitting

    def _write(
        self, rows: Sequence[tuple[str, list[int]]], options: TrialOptions, watch: _Watch
    ) -> list[TargetText]:
        longest = max(len(ids) for _, ids in rows)
        pad = self.ends[0] if self.ends else 0
        ids = torch.full((len(rows), longest), pad)
        mask = torch.zeros_like(ids)
        for i, (_, row) in enumerate(rows):
            ids[i, longest - len(row) :] = torch.tensor(row)
            mask[i, longest - len(row) :] = 1
        torch.manual_seed(options.seed)
        out = self.target.generate(
            input_ids=ids.to(self.target.device),
            attention_mask=mask.to(self.target.device),
            generation_config=self._config(options),
            logits_processor=LogitsProcessorList([watch]),
        )
        return self._texts(rows, out)

    def _texts(
        self, rows: Sequence[tuple[str, list[int]]], out: torch.Tensor | None
    ) -> list[TargetText]:
        """What stands behind the prompts, which end at one place."""
        if out is None:
            return []
        longest = max(len(ids) for _, ids in rows)
        return [
            TargetText(category, np.array(row), self._cut(out[i, longest:].cpu().numpy()))
            for i, (category, row) in enumerate(rows)
        ]

    def _config(self, options: TrialOptions) -> GenerationConfig:
        sampling = options.temperature > 0
        more = {"temperature": options.temperature, "top_k": 0, "top_p": 1.0} if sampling else {}
        return GenerationConfig(
            max_new_tokens=options.tokens,
            max_time=options.seconds,
            do_sample=sampling,
            eos_token_id=self.ends or None,
            pad_token_id=self.ends[0] if self.ends else 0,
            **more,
        )

    def _cut(self, tokens: Any) -> Any:
        """Up to the first end token."""
        ends = np.flatnonzero(np.isin(tokens, self.ends))
        return tokens[: ends[0] + 1] if len(ends) else tokens

    # ---- for real ----

    @loading.growing()
    def speculate(
        self,
        texts: Sequence[TargetText],
        g: int,
        options: TrialOptions,
        *,
        first: int = 0,
        predicted: float | None = None,
        **more: Any,
    ) -> VerifiedRun:
        """Write the texts again, speculating; first: 1 where the prompt's pass checks no drafts."""
        passes = tokens = 0
        same = True
        plain_s = fast_s = 0.0
        for text in texts:
            found, calls, seconds = self.write_with(text, options, **more)
            same &= len(found) == len(text.tokens) and bool((found == text.tokens).all())
            passes, tokens = passes + calls - first, tokens + len(found) - first
            fast_s += seconds
            ids = torch.tensor(text.prompt, device=self.target.device)[None]
            before = time.perf_counter()
            with torch.inference_mode():
                self.target.generate(ids, generation_config=self._config(options)).cpu()
            plain_s += time.perf_counter() - before
        return VerifiedRun(
            draft_tokens=g,
            tokens_per_pass=tokens / max(passes, 1),
            predicted=predicted,
            speedup=plain_s / fast_s if fast_s else None,
            identical_output=same if options.temperature == 0 else None,
            first=first,
        )

    @loading.growing()
    def write_with(
        self, text: TargetText, options: TrialOptions, **more: Any
    ) -> tuple[Ints, int, float]:
        """A text with these arguments of generate: its tokens, the target's passes, seconds.

        With a draft model the first pass reads the prompt together with the first drafts.
        """
        torch.manual_seed(options.seed)
        ids = torch.tensor(text.prompt, device=self.target.device)[None]
        passes: list[None] = []
        hook = self.target.register_forward_hook(lambda *_: passes.append(None))
        before = time.perf_counter()
        try:
            with torch.inference_mode():
                out = self.target.generate(ids, generation_config=self._config(options), **more)
                new = out[0, ids.shape[1] :].cpu().numpy()
        except Exception as error:  # generators of candidates have errors of their own
            words = " ".join(str(error).split())[:200] or type(error).__name__
            raise CannotVerify(f"transformers' assisted generation: {words}") from error
        finally:
            hook.remove()
        return self._cut(new), len(passes), time.perf_counter() - before


class _Watch(LogitsProcessor):
    """Ends a generation of NaN: it would "write" all the same. Holds what is written so far."""

    def __init__(self, ref: str, options: TrialOptions, before: int, rows: int) -> None:
        """before: prompts that are answered; rows: those under way."""
        self._ref, self._options = ref, options
        self._before, self._rows, self._steps = before, rows, 0
        self.written: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.written = input_ids
        self._options.wrote(self._before + self._rows * self._steps / self._options.tokens)
        self._steps += 1
        if bool(torch.isnan(scores).any() | (scores == torch.inf).any()):
            raise target_not_numbers(self._ref)
        return scores
