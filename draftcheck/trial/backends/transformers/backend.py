"""Both models in this process, or the draft alone, by transformers: any device that torch knows.

It can measure everything: acceptance at any temperature with a draft that samples too, drafts of
another vocabulary (--universal), seconds per step, and a real run by assisted generation. Steps
are those of torch under CUDA graphs, or plain ones on other devices: near a serving engine's, but
not the same. It cannot run heads such as EAGLE or Medusa, which are no models by themselves.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList
from transformers.utils import logging

from draftcheck.errors import ReadError
from draftcheck.trial import model_places
from draftcheck.trial.backends.backend import (
    Backend,
    BackendLimits,
    BrokenDraft,
    CannotVerify,
    NotNumbers,
    TargetText,
    TrialOptions,
    check_rows,
    draft_not_numbers,
    target_not_numbers,
)
from draftcheck.trial.backends.sides import DraftReader
from draftcheck.trial.backends.transformers import draft_logits, loading, steps, universal
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import VerifiedRun
from draftcheck.trial.simulate.traces import Floats, Ints, PassCounts, Trace
from draftcheck.trial.speedup import Costs

BATCH = 16


def open(target: str, draft: str, options: TrialOptions) -> TransformersBackend:
    """Load both models, when they fit."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    where = loading.device(options)
    places = model_places.locate(target), model_places.locate(draft)
    loading.check_room(target, draft, where, loading.dtype_name(options, where), options)
    tokenizer = loading.tokenizer(places[0], options)
    big = loading.model(places[0], where, options)
    small = loading.model(places[1], where, options, like=big)
    backend = TransformersBackend(places, big, small, tokenizer, where)
    if options.universal:
        backend.translate(universal.Translation(tokenizer, backend.draft_tokenizer(options), small))
    return backend


class TransformersBackend(Backend):
    """Target and draft in this process."""

    name = "transformers"

    def __init__(
        self,
        places: tuple[model_places.ModelPlace, model_places.ModelPlace],
        target: Any,
        draft: Any,
        tokenizer: Any,
        where: str,
    ) -> None:
        super().__init__()
        self._places = places
        self.target = target
        self.draft = draft
        self.tokenizer = tokenizer
        self.device = where if where == "auto" else str(target.device)
        self.dtype = str(target.dtype).removeprefix("torch.")
        self.models = {"target": places[0].model, "draft": places[1].model}
        self._translation: universal.Translation | None = None
        self._too_long = 0
        self._batch = BATCH
        ends = target.generation_config.eos_token_id
        self._ends = [ends] if isinstance(ends, int) else list(ends or [])
        # What a model brings along (a repetition penalty, top-k …) would be filled in silently.
        for model in (target, draft):
            model.generation_config = GenerationConfig(eos_token_id=self._ends or None)

    def limits(self) -> BackendLimits:
        return BackendLimits(
            loading.rows(self.target),
            loading.context(self.target),
            loading.rows(self.draft),
            loading.context(self.draft),
        )

    def draft_tokenizer(self, options: TrialOptions) -> Any:
        return loading.tokenizer(self._places[1], options)

    def translate(self, translation: universal.Translation) -> None:
        """The draft speaks another vocabulary from now on."""
        self._translation = translation
        self.translation = "shared texts"
        self.shared = translation.shared
        self.remarks.append(
            "the vocabularies differ: figures hold for engines that translate tokens by their"
            f" text; {translation.shared:.0%} of the target's tokens have one in the draft"
        )

    # ---- the target's text ----

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
            try:
                texts += self._write(part, options)
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
        self, rows: Sequence[tuple[str, list[int]]], options: TrialOptions
    ) -> list[TargetText]:
        longest = max(len(ids) for _, ids in rows)
        pad = self._ends[0] if self._ends else 0
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
            logits_processor=LogitsProcessorList([_Watch(self._places[0].ref)]),
        )
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
            eos_token_id=self._ends or None,
            pad_token_id=self._ends[0] if self._ends else 0,
            **more,
        )

    def _cut(self, tokens: Any) -> Any:
        """Up to the first end token."""
        ends = np.flatnonzero(np.isin(tokens, self._ends))
        return tokens[: ends[0] + 1] if len(ends) else tokens

    # ---- the draft's choices ----

    @torch.inference_mode()
    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> list[Trace]:
        if self._translation is None:
            for text in texts:
                check_rows(text, loading.rows(self.draft))
        texts = [text for text in texts if len(text.tokens)]
        sizes = [(len(text.prompt), len(text.tokens)) for text in texts]
        traces: list[Trace] = []
        for part in draft_logits.groups(sizes, loading.rows(self.draft), self.draft.dtype.itemsize):
            try:
                traces += self._read(texts[part], options)
            except torch.OutOfMemoryError as error:
                raise loading.out_of_memory(self._places[1].ref, error) from error
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                raise loading.failed(self._places[1].ref, "reading", error) from error
        return traces

    def _read(self, texts: Sequence[TargetText], options: TrialOptions) -> list[Trace]:
        whole = [torch.from_numpy(np.concatenate([t.prompt, t.tokens])) for t in texts]
        begin = min(len(text.prompt) for text in texts) - 1
        draft = self._logits(self.draft, whole, begin)
        sampled = options.temperature > 0 and self._translation is None
        target = self._logits(self.target, whole, begin) if sampled else None
        parts: list[list[dict[str, Any]]] = [[] for _ in texts]
        at = begin + 1  # the token that the next logits are about
        for logits in draft:
            other = next(target) if target is not None else None
            for row, text in enumerate(whole):
                tokens = text[at : at + logits.shape[1]].to(logits.device)
                if not len(tokens):  # this text is over
                    continue
                ours = other[row, : len(tokens)] if other is not None else None
                theirs = logits[row, : len(tokens)]
                parts[row].append(self._columns(theirs, tokens, ours, options.temperature))
            at += logits.shape[1]
        return [
            self._trace(text, pieces, len(text.prompt) - begin - 1)
            for text, pieces in zip(texts, parts, strict=True)
        ]

    def _logits(self, model: Any, texts: Sequence[torch.Tensor], begin: int) -> Any:
        """Logits from place `begin` on, piece by piece; NaN ends the trial."""
        if model is self.draft and self._translation is not None:
            texts = [self._translation.to_draft(text) for text in texts]
        widest = max(loading.rows(self.target), loading.rows(self.draft))
        own = [text.to(model.device) for text in texts]
        try:
            yield from draft_logits.read(model, own, begin, widest)
        except NotNumbers:
            if model is self.draft:
                raise draft_not_numbers() from None
            raise target_not_numbers(self._places[0].ref) from None

    def _columns(
        self, logits: torch.Tensor, tokens: torch.Tensor, target: Any, temperature: float
    ) -> dict[str, Any]:
        if self._translation is not None:
            logits, tokens = self._translation.constrain(logits, tokens)
        columns = draft_logits.in_chunks(draft_logits.of_draft, logits, tokens)
        if target is not None:
            both = partial(draft_logits.of_both, temperature)
            columns |= draft_logits.in_chunks(both, target.to(logits.device), logits, tokens)
        return columns

    def _trace(self, text: TargetText, pieces: Sequence[dict[str, Any]], skip: int) -> Trace:
        """skip: places before the first token of the continuation."""
        columns = {
            name: torch.cat([piece[name] for piece in pieces])[skip:].numpy() for name in pieces[0]
        }
        first = columns.pop("first")
        rows = loading.rows(self.target)
        if self._translation is None and len(first) and int(first.max()) >= rows:
            raise BrokenDraft(
                f"the draft proposes token {int(first.max())}, and the target has {rows:,} rows:"
                " the target cannot check it"
            )
        rank = columns.pop("rank").astype(np.int64)
        floats: dict[str, Any] = {name: column.astype(float) for name, column in columns.items()}
        return Trace(text.prompt, text.tokens, rank, category=text.category, **floats)

    def cause(self) -> str | None:
        try:
            theirs = loading.tokenizer(self._places[1], TrialOptions()).get_vocab()
        except ReadError:
            return None
        return universal.difference(self.tokenizer.get_vocab(), theirs)

    def reencoded(
        self, texts: Sequence[TargetText], longest: int, first: int
    ) -> dict[int, PassCounts]:
        if self._translation is None:
            return {}
        with torch.inference_mode():
            return universal.reencoded(self._translation, self.tokenizer, texts, longest, first)

    # ---- seconds ----

    def costs(self, sequences: int, context: int) -> Costs | None:
        try:
            return steps.measure(self.target, self.draft, self.device, sequences, context)
        except Exception as error:  # caches that cannot be rewound, kernels that cannot be captured
            words = " ".join(str(error).split())[:200] or type(error).__name__
            self.remarks.append(f"steps of {sequences} sequences could not be timed: {words}")
            return None

    def floor(self) -> Costs | None:
        return steps.floor(self.target, self.draft, self.device)

    # ---- for real ----

    @loading.growing()
    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        """transformers' own assisted generation with a fixed draft length."""
        passes = tokens = 0
        same = True
        plain_s = fast_s = 0.0
        for text in texts:
            found, calls, seconds = self.assist(text, g, options)
            same &= len(found) == len(text.tokens) and bool((found == text.tokens).all())
            passes, tokens, fast_s = passes + calls, tokens + len(found), fast_s + seconds
            ids = torch.tensor(text.prompt, device=self.target.device)[None]
            before = time.perf_counter()
            with torch.inference_mode():
                self.target.generate(ids, generation_config=self._config(options)).cpu()
            plain_s += time.perf_counter() - before
        again = self.reencoded(texts, g, 0)  # with a translation
        return VerifiedRun(
            draft_tokens=g,
            tokens_per_pass=tokens / max(passes, 1),
            predicted=again[g].tokens_per_pass if again else None,
            speedup=plain_s / fast_s if fast_s else None,
            identical_output=same if options.temperature == 0 else None,
        )

    @loading.growing()
    def assist(self, text: TargetText, g: int, options: TrialOptions) -> tuple[Ints, int, float]:
        """One real run: its tokens, the target's passes, seconds.

        The first pass reads the prompt together with the first drafts. The length is taken from the
        draft's own settings, where a confidence threshold would cut it short.
        """
        torch.manual_seed(options.seed)
        settings = self.draft.generation_config
        settings.num_assistant_tokens = g
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0.0
        more: dict[str, Any] = {"assistant_model": self.draft}
        if self._translation is not None:
            more["tokenizer"] = self.tokenizer
            more["assistant_tokenizer"] = self.draft_tokenizer(options)
        ids = torch.tensor(text.prompt, device=self.target.device)[None]
        passes: list[None] = []
        hook = self.target.register_forward_hook(lambda *_: passes.append(None))
        before = time.perf_counter()
        try:
            with torch.inference_mode():
                out = self.target.generate(ids, generation_config=self._config(options), **more)
                new = out[0, ids.shape[1] :].cpu().numpy()
        except (ValueError, RuntimeError, IndexError, AttributeError) as error:
            words = " ".join(str(error).split())[:200]
            raise CannotVerify(f"transformers' assisted generation: {words}") from error
        finally:
            hook.remove()
        return self._cut(new), len(passes), time.perf_counter() - before


class TransformersDraft(DraftReader):
    """Reads texts that something else wrote. Not timed: no step of the target is here as well."""

    rows: int

    def __init__(self, ref: str, options: TrialOptions) -> None:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        where = loading.device(options)
        self._ref = ref
        self._model = loading.model(model_places.locate(ref), where, options)
        self.device = str(self._model.device)
        self.dtype = str(self._model.dtype).removeprefix("torch.")
        self.rows = loading.rows(self._model)
        self.context = loading.context(self._model)

    @torch.inference_mode()
    def read(self, text: TargetText) -> tuple[Ints, Floats]:
        check_rows(text, self.rows)
        whole = np.concatenate([text.prompt, text.tokens])
        ids = torch.from_numpy(whole).to(self._model.device)
        begin = len(text.prompt) - 1
        ranks, sure, at = [], [], begin + 1
        try:
            for logits in draft_logits.read(self._model, [ids], begin):
                tokens = ids[at : at + logits.shape[1]]
                scores = logits[0, : len(tokens)]
                columns = draft_logits.in_chunks(draft_logits.of_draft, scores, tokens)
                ranks.append(columns["rank"].numpy())
                sure.append(columns["confidence"].numpy())
                at += logits.shape[1]
        except NotNumbers:
            raise draft_not_numbers() from None
        except torch.OutOfMemoryError as error:
            raise loading.out_of_memory(self._ref, error) from error
        return np.concatenate(ranks).astype(np.int64), np.concatenate(sure).astype(float)


class Spelling:
    """The target's tokenizer alone: text to ids, where a server tells none."""

    def __init__(self, ref: str, options: TrialOptions) -> None:
        self._tokenizer: Any = loading.tokenizer(model_places.locate(ref), options)
        end = self._tokenizer.eos_token_id
        self.end = end if isinstance(end, int) else None

    def encode(self, prompt: Prompt, options: TrialOptions) -> list[int]:
        return loading.encode(self._tokenizer, prompt, options)

    def spell(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])


class _Watch(LogitsProcessor):
    """Ends a generation of NaN: it would "write" all the same."""

    def __init__(self, ref: str) -> None:
        self._ref = ref

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if bool(torch.isnan(scores).any() | (scores == torch.inf).any()):
            raise target_not_numbers(self._ref)
        return scores
