"""A small stand-in for vLLM's offline API that runs the real models, and trained heads slowly."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from draftcheck.trial.backends.vllm.engines import LOGGING
from tests.trial.heads import naive
from tests.trial.heads.naive import Drafter


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be imported as vllm."""
    module = ModuleType("vllm")
    module.__version__ = "0.32.0"  # type: ignore[attr-defined]
    module.LLM = LLM  # type: ignore[attr-defined]
    unsaid = {"prompt_logprobs": None, "logprobs": None, "stop_token_ids": [], "ignore_eos": False}
    module.SamplingParams = lambda **settings: SimpleNamespace(  # type: ignore[attr-defined]
        **{**unsaid, **settings}
    )
    platforms = ModuleType("vllm.platforms")
    platforms.current_platform = SimpleNamespace(device_type="cpu")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    for name in LOGGING:
        monkeypatch.setenv(name, "WARNING")
    module.__spec__ = SimpleNamespace(name="vllm")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "vllm", module)
    LLM.started.clear()


def draft_model(target: Any, folder: Path) -> Drafter:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def draft(text: list[int], count: int) -> list[int]:
        drafted: list[int] = []
        for _ in range(count):
            logits = model(torch.tensor([text + drafted])).logits[0, -1]
            drafted.append(int(logits.argmax()))
        return drafted

    return draft


def eagle3(target: Any, folder: Path) -> Drafter:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tensors = load_file(folder / "model.safetensors")
    w = {name: x.float() if x.is_floating_point() else x for name, x in tensors.items()}
    ids = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    return naive.eagle3(target, config, w, ids)


DRAFTERS = {"draft_model": draft_model, "eagle3": eagle3}


class LLM:
    """vLLM's offline engine as far as the trial uses it (vllm/entrypoints/llm.py, outputs.py)."""

    started: list[dict[str, Any]] = []  # noqa: RUF012

    def __init__(self, **settings: Any) -> None:
        LLM.started.append(settings)
        self.settings = settings
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            settings["model"], dtype=torch.float32
        )
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(settings["model"])
        speculation = settings.get("speculative_config")
        self.g = speculation and speculation["num_speculative_tokens"]
        self.draft = speculation and DRAFTERS[speculation["method"]](
            self.model, Path(speculation["model"])
        )
        self.counts = [0, 0, 0]
        dtype = f"torch.{settings['dtype']}"
        self.model_config = SimpleNamespace(dtype=dtype)
        self.llm_engine = self
        self.waiting: dict[str, tuple[list[int], Any, list[int]]] = {}
        os.write(1, b"vLLM is chatty\n")

    def get_tokenizer(self) -> Any:
        return self.tokenizer

    def get_metrics(self) -> list[Any]:
        assert self.settings.get("disable_log_stats") is False
        names = ("drafts", "draft_tokens", "accepted_tokens")
        return [
            SimpleNamespace(name=f"vllm:spec_decode_num_{name}", value=value)
            for name, value in zip(names, self.counts, strict=True)
        ]

    @torch.inference_mode()
    def generate(self, prompts: list[Any], params: Any, use_tqdm: bool) -> list[Any]:
        return [self._one(prompt["prompt_token_ids"], params) for prompt in prompts]

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        self.waiting[request_id] = (prompt["prompt_token_ids"], params, [])

    def has_unfinished_requests(self) -> bool:
        return bool(self.waiting)

    def abort_request(self, request_ids: list[str]) -> None:
        for name in request_ids:
            self.waiting.pop(name, None)

    @torch.inference_mode()
    def step(self) -> list[Any]:
        """One more pass of each (vllm/v1/engine/llm_engine.py); outputs hold all so far."""
        outputs = []
        for name, (ids, params, out) in list(self.waiting.items()):
            if self._pass(ids, params, out):
                del self.waiting[name]
            outputs.append(self._output(ids, params, out))
            outputs[-1].request_id = name
        return outputs

    def _one(self, ids: list[int], params: Any) -> Any:
        out: list[int] = []
        while not self._pass(ids, params, out):
            pass
        return self._output(ids, params, out)

    def _pass(self, ids: list[int], params: Any, out: list[int]) -> bool:
        """Whether the answer ends with it."""
        assert len(ids) + params.max_tokens <= self.settings["max_model_len"]
        out += self._draft_and_check(ids + out) if self.draft and out else []
        out.append(int(self.model(torch.tensor([ids + out])).logits[0, -1].argmax()))
        own = [] if params.ignore_eos else [self.tokenizer.eos_token_id]
        ends = {*params.stop_token_ids, *own}
        over = next((at + 1 for at, token in enumerate(out) if token in ends), None)
        del out[min(over or params.max_tokens, params.max_tokens) :]
        return over is not None or len(out) == params.max_tokens

    def _output(self, ids: list[int], params: Any, out: list[int]) -> Any:
        assert params.prompt_logprobs or params.logprobs in (None, 0)
        told = self._told(ids, params.prompt_logprobs) if params.prompt_logprobs else None
        logits = self.model(torch.tensor([ids])).logits[0, -1]
        answer = SimpleNamespace(token_ids=list(out), cumulative_logprob=float(logits.max()))
        stats = SimpleNamespace(last_token_ts=time.monotonic())  # RequestStateStats
        return SimpleNamespace(outputs=[answer], prompt_logprobs=told, metrics=stats)

    def _draft_and_check(self, ids: list[int]) -> list[int]:
        drafted = self.draft(ids, self.g)
        own = self.model(torch.tensor([ids + drafted])).logits[0, len(ids) - 1 :].argmax(-1)
        accepted = []
        for token, wanted in zip(drafted, own.tolist(), strict=False):
            if token != wanted:
                break
            accepted.append(token)
        self.counts = [a + b for a, b in zip(self.counts, [1, self.g, len(accepted)], strict=True)]
        return accepted

    def _told(self, ids: list[int], count: int) -> list[Any]:
        """None for the first token, then the likeliest ones and the token itself; ranks from 1."""
        logs = self.model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        found: list[Any] = [None]
        for row, token in zip(logs, ids[1:], strict=True):
            best = row.topk(count).indices.tolist()
            found.append(
                {
                    i: SimpleNamespace(logprob=float(row[i]), rank=int((row >= row[i]).sum()))
                    for i in {*best, token}
                }
            )
        return found
