"""The vLLM backend, with a small stand-in for vLLM's offline API that runs the real models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from draftcheck.trial.backends.vllm import backend as vllm_backend
from draftcheck.trial.backends.vllm import engines, pass_times
from draftcheck.trial.backends.vllm.backend import rank_and_confidence
from draftcheck.trial.backends.vllm.engines import EngineOutput
from tests.conftest import FIXTURES, Run

pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")

from tests.trial import play_vllm
from tests.trial.play_vllm import LLM

pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]

PAIR = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")
COMMON = ("--tokens", "12", "--no-cost", "--format", "json")
STEP, PASS, DRAFTED = 0.01, 0.012, 0.001


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    play_vllm.install(monkeypatch)


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
    def spoil(self: Any, ids: list[int], params: Any, out: list[int]) -> Any:
        answer = SimpleNamespace(token_ids=[0] * 8, cumulative_logprob=float("nan"))
        return SimpleNamespace(outputs=[answer], prompt_logprobs=None)

    monkeypatch.setattr(LLM, "_output", spoil)
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
    monkeypatch.setattr(LLM, "step", die)
    ran = run("trial", *PAIR, "--backend", "vllm", "--prompts", prompts, *COMMON)
    assert ran.code == 3
    assert "vLLM stopped: OutOfMemoryError: 3 GiB were free" in ran.err
    assert "Traceback" not in ran.err


def test_ctrl_c_keeps_what_is_under_way(
    run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, steps = LLM.step, []

    def impatient(self: LLM) -> list[Any]:
        steps.append(self)
        if len(steps) > 6:
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(LLM, "step", impatient)
    ran = run("trial", *PAIR, "--backend", "vllm", "--prompts", prompts, *COMMON)
    assert ran.code == 130, ran.err
    assert ran.json["incomplete"] == "interrupted" and ran.json["prompts"] == 4
    assert 4 * 2 < ran.json["tokens"] <= 4 * 6
    assert ran.json["acceptance_rate"]["value"] is not None
    assert not steps[0].has_unfinished_requests(), "what nobody waits for is called off"


def test_the_budget_ends_it_between_two_steps(
    run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(10_000))
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), perf_counter=time.perf_counter)
    monkeypatch.setattr(engines, "time", clock)  # every look at it is a second later
    asked = ("--backend", "vllm", "--prompts", prompts, "--budget", "5", *COMMON)
    ran = run("trial", *PAIR, *asked)
    assert ran.code == 0, ran.err
    assert ran.json["prompts"] == 4 and 4 < ran.json["tokens"] <= 4 * 5


def test_verify_reads_vllms_counters(run: Run, prompts: Path) -> None:
    ran = run("trial", *PAIR, "--backend", "vllm", "--prompts", prompts, *COMMON, "--verify")
    assert ran.code == 0, ran.err
    found = ran.json["verified"]
    assert LLM.started[-1]["speculative_config"]["method"] == "draft_model"
    # vLLM also counts what it accepts beyond the end of a text; tokens per pass leaves that out.
    assert found["tokens_per_pass"] == pytest.approx(found["predicted_tokens_per_pass"])
    assert found["identical_output"] is True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What engines take: a second for a prompt, and STEP, or PASS and DRAFTED, for a pass."""
    now = [0.0]
    whole = LLM.step

    def step(self: Any) -> list[Any]:
        reading = any(not out for _, _, out in self.waiting.values())
        busy = len(self.waiting) ** 0.5
        now[0] += 1.0 if reading else PASS * busy + DRAFTED * self.g if self.draft else STEP
        outputs = whole(self)
        for output in outputs:
            output.metrics.last_token_ts = now[0]
        return outputs

    monkeypatch.setattr(LLM, "step", step)
    sizes = {"PROMPT": 4, "TOKENS": 6, "SKIPPED": 0, "ROUNDS": 2}  # this engine has no cache
    for name, size in sizes.items():
        monkeypatch.setattr(pass_times, name, size)


def test_speed_is_that_of_vllms_own_passes(run: Run, prompts: Path, clock: None) -> None:
    common = ("--backend", "vllm", "--prompts", prompts, "--tokens", "12", "--format", "json")
    ran = run("trial", *PAIR, *common)
    assert ran.code == 0, ran.err
    for row in ran.json["lengths"][1:]:
        tokens, drafted = row["tokens_per_pass"], row["drafted_per_pass"]
        assert row["speedup"] == pytest.approx(tokens * STEP / (PASS + DRAFTED * drafted))
    drafts = [
        (one.get("speculative_config") or {}).get("num_speculative_tokens") for one in LLM.started
    ]
    assert drafts == [None, None, 1, 2, 4, 8]
    whose = {"engine": "vllm", "version": "0.32.0", "source": "measured"}
    assert ran.json["costs"].items() >= whose.items()
    assert any("4 more engines" in note for note in ran.json["notes"])


def test_speed_is_measured_at_every_load(
    run: Run, prompts: Path, clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sys.modules["vllm.platforms"].current_platform.device_type = "cuda"  # type: ignore[attr-defined]
    monkeypatch.setattr(vllm_backend, "LOADS", (1, 4))
    common = ("--backend", "vllm", "--prompts", prompts, "--tokens", "12", "--format", "json")
    ran = run("trial", *PAIR, *common, "--dtype", "float32")
    assert ran.code == 0, ran.err
    one, four = ran.json["loads"]
    assert one["speedup"] > four["speedup"] > 0
    rows = {row["draft_tokens"]: row for row in ran.json["lengths"]}
    best = rows[four["draft_tokens"]]
    seconds = PASS * 2 + DRAFTED * best["drafted_per_pass"]
    assert four["speedup"] == pytest.approx(best["tokens_per_pass"] * STEP / seconds)


def test_a_draft_that_vllm_cannot_run_has_no_speed(
    run: Run, prompts: Path, clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = LLM.__init__

    def start(self: Any, **settings: Any) -> None:
        if "speculative_config" in settings:
            raise RuntimeError("no room for the draft")
        whole(self, **settings)

    monkeypatch.setattr(LLM, "__init__", start)
    common = ("--backend", "vllm", "--prompts", prompts, "--tokens", "12", "--format", "json")
    ran = run("trial", *PAIR, *common)
    assert ran.code == 0, ran.err
    assert ran.json["cost"] is None and ran.json["lengths"][0]["speedup"] is None
    assert any("not be timed" in n and "no room for the draft" in n for n in ran.json["notes"])


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
