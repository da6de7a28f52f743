"""The vLLM backend, with a small stand-in for vLLM's offline API that runs the real models."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.conftest import FIXTURES, Run

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
transformers = pytest.importorskip("transformers", reason="the trial extra is not installed")
pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]

PAIR = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")
COMMON = ("--tokens", "24", "--no-cost", "--format", "json")


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
        self.draft = speculation and transformers.AutoModelForCausalLM.from_pretrained(
            speculation["model"], dtype=torch.float32
        )
        self.g = speculation and speculation["num_speculative_tokens"]
        self.counts = [0, 0, 0]

    def get_tokenizer(self) -> Any:
        return self.tokenizer

    def get_metrics(self) -> list[Any]:
        names = ("drafts", "draft_tokens", "accepted_tokens")
        return [
            SimpleNamespace(name=f"vllm:spec_decode_num_{name}", value=value)
            for name, value in zip(names, self.counts, strict=True)
        ]

    @torch.inference_mode()
    def generate(self, prompts: list[Any], params: Any, use_tqdm: bool) -> list[Any]:
        return [self._one(prompt["prompt_token_ids"], params) for prompt in prompts]

    def _one(self, ids: list[int], params: Any) -> Any:
        assert len(ids) + params.max_tokens <= self.settings["max_model_len"]
        told = self._told(ids, params.prompt_logprobs) if params.prompt_logprobs else None
        out: list[int] = []
        while len(out) < params.max_tokens and self.tokenizer.eos_token_id not in out:
            accepted = self._draft_and_check(ids + out) if self.draft and out else []
            out += accepted
            out.append(int(self.model(torch.tensor([ids + out])).logits[0, -1].argmax()))
        out = out[: params.max_tokens]
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=out)], prompt_logprobs=told)

    def _draft_and_check(self, ids: list[int]) -> list[int]:
        drafted: list[int] = []
        for _ in range(self.g):
            logits = self.draft(torch.tensor([ids + drafted])).logits[0, -1]
            drafted.append(int(logits.argmax()))
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


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("vllm")
    module.LLM = LLM  # type: ignore[attr-defined]
    module.SamplingParams = lambda **settings: SimpleNamespace(  # type: ignore[attr-defined]
        **{"prompt_logprobs": None, **settings}
    )
    module.__spec__ = SimpleNamespace(name="vllm")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "vllm", module)
    LLM.started.clear()


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    rows = [{"prompt": f"Once there were {n} birds and"} for n in range(2, 6)]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return file


def test_it_sees_what_transformers_sees(run: Run, prompts: Path) -> None:
    there = run("trial", *PAIR, "--backend", "vllm", "--prompts", prompts, *COMMON)
    assert there.code == 0, there.err
    here = run("trial", *PAIR, "--device", "cpu", "--prompts", prompts, *COMMON).json
    assert there.json["backend"] == "vllm"
    for ours, theirs in zip(there.json["lengths"], here["lengths"], strict=True):
        assert ours["tokens_per_pass"] == pytest.approx(theirs["tokens_per_pass"])
    for ours, theirs in zip(there.json["thresholds"], here["thresholds"], strict=True):
        assert ours["tokens_per_pass"] == pytest.approx(theirs["tokens_per_pass"])
    shares = [settings["gpu_memory_utilization"] for settings in LLM.started]
    assert shares[0] > shares[1] > 0 and sum(shares) < 0.9


def test_verify_reads_vllms_counters(run: Run, prompts: Path) -> None:
    ran = run("trial", *PAIR, "--backend", "vllm", "--prompts", prompts, *COMMON, "--verify")
    assert ran.code == 0, ran.err
    found = ran.json["verified"]
    assert LLM.started[-1]["speculative_config"]["method"] == "draft_model"
    # vLLM drafts beyond the end of a text; the prediction does not.
    assert found["tokens_per_pass"] == pytest.approx(found["predicted_tokens_per_pass"], rel=0.1)
    assert found["identical_output"] is True


def test_what_vllm_says_when_it_cannot_load_is_one_line(
    run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, **settings: Any) -> None:
        raise RuntimeError("Engine core initialization failed.\nSee root cause above.")

    monkeypatch.setattr(LLM, "__init__", fail)
    ran = run("trial", *PAIR, "--backend", "vllm", "--prompts", prompts)
    assert ran.code == 3
    assert "vLLM cannot load it: Engine core initialization failed. See root cause" in ran.err


def test_without_vllm_a_line_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from draftcheck.trial import backend

    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    for name, hint in (("vllm", "pip install vllm"), ("transformers", "draftcheck-llm[trial]")):
        ran = run("trial", *PAIR, "--backend", name)
        assert ran.code == 2
        assert f"a trial with {name} cannot run:" in ran.err and hint in ran.err
    assert "trial extra" in ran.err
