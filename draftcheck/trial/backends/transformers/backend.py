"""Both models in this process, or the draft alone, by transformers: any device that torch knows.

It can measure everything: acceptance at any temperature with a draft that samples too, drafts of
another vocabulary (--universal), seconds per step, and a real run by assisted generation. Steps
are those of torch under CUDA graphs, or plain ones on other devices: no serving engine's. Heads
such as EAGLE or Medusa, which are no models by themselves, are in heads/.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.utils import logging

from draftcheck.errors import ReadError
from draftcheck.trial import model_places
from draftcheck.trial.backends.backend import (
    BackendLimits,
    BrokenDraft,
    NotNumbers,
    TargetText,
    TrialOptions,
    check_rows,
    draft_not_numbers,
    target_not_numbers,
)
from draftcheck.trial.backends.sides import DraftReader
from draftcheck.trial.backends.transformers import draft_logits, loading, steps, universal
from draftcheck.trial.backends.transformers.heads import backend as heads
from draftcheck.trial.backends.transformers.target import TransformersTarget
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import VerifiedRun
from draftcheck.trial.simulate.traces import Floats, Ints, PassCounts, Trace
from draftcheck.trial.speedup import Costs


def open(target: str, draft: str | None, options: TrialOptions) -> TransformersTarget:
    """Load both models, when they fit; no draft: what the target brings along."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    where = loading.device(options)
    ours = model_places.locate(target)
    places = ours, ours if draft is None else model_places.locate(draft)
    kind = loading.check_room(target, draft, where, options)
    tokenizer = loading.tokenizer(places[0], options)
    big = loading.model(places[0], where, options)
    if kind != loading.FULL:
        own = draft is None
        head = heads.load_own(ours, big, options) if own else heads.load(kind, places, big, options)
        return heads.HeadBackend(places, big, head, tokenizer, where)
    small = loading.model(places[1], where, options, like=big)
    backend = TransformersBackend(places, big, small, tokenizer, where)
    if options.universal:
        backend.translate(universal.Translation(tokenizer, backend.draft_tokenizer(options), small))
    return backend


class TransformersBackend(TransformersTarget):
    """Target and draft in this process."""

    def __init__(
        self,
        places: tuple[model_places.ModelPlace, model_places.ModelPlace],
        target: Any,
        draft: Any,
        tokenizer: Any,
        where: str,
    ) -> None:
        super().__init__(places, target, tokenizer, where)
        self.draft = draft
        self._translation: universal.Translation | None = None
        draft.generation_config = GenerationConfig(eos_token_id=self.ends or None)

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

    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        """transformers' own assisted generation with a fixed draft length."""
        again = self.reencoded(texts, g, 0)  # with a translation
        return self.speculate(
            texts,
            g,
            options,
            predicted=again[g].tokens_per_pass if again else None,
            **self._assisted(g, options),
        )

    def _assisted(self, g: int, options: TrialOptions) -> dict[str, Any]:
        """The length is taken from the draft's own settings, where a threshold would cut it."""
        settings = self.draft.generation_config
        settings.num_assistant_tokens = g
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0.0
        more: dict[str, Any] = {"assistant_model": self.draft}
        if self._translation is not None:
            more["tokenizer"] = self.tokenizer
            more["assistant_tokenizer"] = self.draft_tokenizer(options)
        return more


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
