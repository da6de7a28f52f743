"""transformers' own assisted generation, with a fixed draft length and its passes counted."""

from __future__ import annotations

import time
from typing import Any

import torch

from draftcheck.trial.backends.backend import CannotVerify
from draftcheck.trial.simulate.traces import Ints


def speculate(
    target: Any, draft: Any, prompt: Ints, g: int, config: Any, tokenizers: dict[str, Any]
) -> tuple[Ints, int, float]:
    """New tokens, passes of the target, seconds.

    The first pass reads the prompt together with the first drafts. The length is taken from the
    draft's own settings, where a confidence threshold would cut it short.
    """
    settings = draft.generation_config
    settings.num_assistant_tokens = g
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = 0.0
    ids = torch.tensor(prompt, device=target.device)[None]
    with torch.inference_mode(), _Counter(target) as counter:
        before = time.perf_counter()
        try:
            out = target.generate(
                ids, generation_config=config, assistant_model=draft, **tokenizers
            )
        except (ValueError, RuntimeError, IndexError, AttributeError) as error:
            words = " ".join(str(error).split())[:200]
            raise CannotVerify(f"transformers' assisted generation: {words}") from error
        new = out[0, ids.shape[1] :].cpu().numpy()
        return new, counter.calls, time.perf_counter() - before


def alone(target: Any, prompt: Ints, config: Any) -> float:
    """Seconds of the target without a draft."""
    ids = torch.tensor(prompt, device=target.device)[None]
    before = time.perf_counter()
    with torch.inference_mode():
        target.generate(ids, generation_config=config).cpu()
    return time.perf_counter() - before


class _Counter:
    """Counts the passes of a model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.calls = 0

    def __enter__(self) -> _Counter:
        self._hook = self._model.register_forward_hook(self._count)
        return self

    def _count(self, *_: Any) -> None:
        self.calls += 1

    def __exit__(self, *_: object) -> None:
        self._hook.remove()
