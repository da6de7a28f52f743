"""The draft alone, with transformers; the target's texts come from elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from draftcheck.trial import model_places
from draftcheck.trial.backends.backend import (
    NotNumbers,
    TargetText,
    TrialOptions,
    check_rows,
    draft_not_numbers,
)
from draftcheck.trial.backends.sides import DraftReader
from draftcheck.trial.backends.transformers import draft_logits, loading
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.simulate.traces import Floats, Ints


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
                columns = draft_logits.in_chunks(
                    draft_logits.of_draft,
                    logits[0, : len(tokens)],
                    tokens,
                    vocabulary=logits.shape[-1],
                )
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
