"""The vLLM backend, with a small stand-in for vLLM's offline API that runs the real models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from draftcheck.trial.backends.vllm.backend import rank_and_confidence
from draftcheck.trial.backends.vllm.engines import LOGGING, EngineOutput
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
        dtype = f"torch.{settings['dtype']}"
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(dtype=dtype))
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

    def _one(self, ids: list[int], params: Any) -> Any:
        assert len(ids) + params.max_tokens <= self.settings["max_model_len"]
        told = self._told(ids, params.prompt_logprobs) if params.prompt_logprobs else None
        out: list[int] = []
        while len(out) < params.max_tokens and self.tokenizer.eos_token_id not in out:
            accepted = self._draft_and_check(ids + out) if self.draft and out else []
            out += accepted
            out.append(int(self.model(torch.tensor([ids + out])).logits[0, -1].argmax()))
        out = out[: params.max_tokens]
        assert params.prompt_logprobs or params.logprobs in (None, 0)
        logits = self.model(torch.tensor([ids])).logits[0, -1]
        answer = SimpleNamespace(token_ids=out, cumulative_logprob=float(logits.max()))
        return SimpleNamespace(outputs=[answer], prompt_logprobs=told)

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
    module.__version__ = "0.32.0"  # type: ignore[attr-defined]
    module.LLM = LLM  # type: ignore[attr-defined]
    module.SamplingParams = lambda **settings: SimpleNamespace(  # type: ignore[attr-defined]
        **{"prompt_logprobs": None, "logprobs": None, **settings}
    )
    platforms = ModuleType("vllm.platforms")
    platforms.current_platform = SimpleNamespace(device_type="cpu")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    for name in LOGGING:
        monkeypatch.setenv(name, "WARNING")
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
    assert (there.json["device"], there.json["dtype"]) == ("cpu", "float32")


def test_kept_texts_need_no_engine_of_the_target(run: Run, prompts: Path, tmp_path: Path) -> None:
    kept = ("--prompts", prompts, *COMMON, "--reuse", tmp_path / "kept.jsonl")
    here = run("trial", *PAIR, "--device", "cpu", *kept)
    assert here.code == 0, here.err
    there = run("trial", *PAIR, "--backend", "vllm", *kept)
    assert there.code == 0, there.err
    assert [Path(settings["model"]).name for settings in LLM.started] == ["draft"]
    assert there.json["lengths"] == here.json["lengths"]


def test_what_an_engine_prints_stays_out_of_the_result(capfd: pytest.CaptureFixture[str]) -> None:
    """Its processes outlive the start, and print later too."""
    output = EngineOutput()
    late = "import sys; sys.stdin.read(); print('ValueError: head size 33')"
    with output.taken():
        os.write(1, b"INFO loading\n")
        child = subprocess.Popen([sys.executable, "-c", late], stdin=subprocess.PIPE)
    print("the result", flush=True)
    child.communicate(b"")
    assert capfd.readouterr() == ("the result\n", "")
    assert output.reason(RuntimeError("It failed. See root cause above.")) == (
        "ValueError: head size 33"
    )
    assert output.reason(RuntimeError("no\nroom")) == "no room"


def test_a_device_that_this_vllm_is_not_for_is_refused(run: Run, prompts: Path) -> None:
    ran = run("trial", *PAIR, "--backend", "vllm", "--device", "cuda:1", "--prompts", prompts)
    assert ran.code == 2
    assert "--device cuda:1: vLLM runs on cpu here" in ran.err
    assert not LLM.started


def test_of_equal_choices_the_lower_id_comes_first() -> None:
    """In half precision logits are often equal; vLLM's rank counts equal ones as better."""
    place = {
        7: SimpleNamespace(logprob=-1.0, rank=2),
        3: SimpleNamespace(logprob=-1.0, rank=1),
        5: SimpleNamespace(logprob=-4.0, rank=3),
    }
    ranks = [rank_and_confidence([place], np.array([token]))[0][0] for token in (3, 7, 5)]
    assert ranks == [0, 1, 2]
    far = {**{i: SimpleNamespace(logprob=-1.0, rank=i + 1) for i in range(10)},
           99: SimpleNamespace(logprob=-9.0, rank=600)}  # fmt: skip
    assert rank_and_confidence([far], np.array([99]))[0][0] == 599


def test_a_target_that_computes_nothing_sensible_is_called_so(
    run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(self: Any, ids: list[int], params: Any) -> Any:
        answer = SimpleNamespace(token_ids=[0] * 8, cumulative_logprob=float("nan"))
        return SimpleNamespace(outputs=[answer], prompt_logprobs=None)

    monkeypatch.setattr(LLM, "_one", spoil)
    ran = run("trial", *PAIR, "--backend", "vllm", "--prompts", prompts, *COMMON)
    assert ran.code == 3
    assert "target's logits are not numbers" in ran.err


def test_an_engine_that_dies_ends_the_trial_with_its_own_reason(
    run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = LLM.__init__

    def start(self: Any, **settings: Any) -> None:
        whole(self, **settings)
        os.write(2, b"(EngineCore pid=1) ERROR [core.py:1] OutOfMemoryError: 3 GiB were free\n")
        os.write(2, b"RuntimeError: Engine failed. See stack trace (above)\n")

    def die(self: Any, *_: Any, **__: Any) -> Any:
        raise RuntimeError("EngineCore encountered an issue. See stack trace (above).")

    monkeypatch.setattr(LLM, "__init__", start)
    monkeypatch.setattr(LLM, "generate", die)
    ran = run("trial", *PAIR, "--backend", "vllm", "--prompts", prompts, *COMMON)
    assert ran.code == 3
    assert "vLLM stopped: OutOfMemoryError: 3 GiB were free" in ran.err
    assert "Traceback" not in ran.err


def test_verify_reads_vllms_counters(run: Run, prompts: Path) -> None:
    ran = run("trial", *PAIR, "--backend", "vllm", "--prompts", prompts, *COMMON, "--verify")
    assert ran.code == 0, ran.err
    found = ran.json["verified"]
    assert LLM.started[-1]["speculative_config"]["method"] == "draft_model"
    # vLLM also counts what it accepts beyond the end of a text; tokens per pass leaves that out.
    assert found["tokens_per_pass"] == pytest.approx(found["predicted_tokens_per_pass"])
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
    from draftcheck.trial.backends import backend

    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    for name, hint in (("vllm", "pip install vllm"), ("transformers", "draftcheck-llm[trial]")):
        ran = run("trial", *PAIR, "--backend", name)
        assert ran.code == 2
        assert f"a trial with {name} cannot run:" in ran.err and hint in ran.err
    assert "trial extra" in ran.err
