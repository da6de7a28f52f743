"""P-EAGLE: an EAGLE-3 head that drafts all tokens of a pass at once.

    slot i        token x(i+1) with g(i), as EAGLE-3                      -> proposes x(i+2)
    r-th draft    the mask token with fc(mask_hidden), behind slot i      -> proposes x(i+r+1)

Each sees the slots up to i and the masks before it: the mask of the readings. So reading r is that
of EAGLE-3 with the mask's token and state instead of x(i+r) and the state fed back.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads.eagle3 import Eagle3Head
from draftcheck.trial.backends.transformers.heads.readings import (
    DraftingStep,
    HeadSource,
    setting,
)


class ParallelEagleHead(Eagle3Head):
    """The same in files of its own and of the speculators format."""

    at_once = True

    def __init__(self, source: HeadSource) -> None:
        super().__init__(source)
        mask = setting(source.raw, "mask_token_id", "pard_token", "ptd_token_id")
        if mask is None:
            raise BrokenDraft("the head's config names no mask token")
        self._mask_token = int(mask)
        self._mask_state = self.states(source.tensor("mask_hidden").view(1, 1, -1))

    def layer(self, step: DraftingStep) -> tuple[torch.Tensor, torch.Tensor]:
        if step.reading > 1:
            tokens = torch.full_like(step.tokens, self._mask_token)
            step = replace(step, tokens=tokens, state=self._mask_state.expand_as(step.state))
        return super().layer(step)
