"""What is said of speed: whose it is, how sure it is, and when it is no reason to switch on.

Timings are stubbed: nothing here depends on the machine.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import transformers
from msgspec import structs

from draftcheck.cli import cli
from draftcheck.report import trial as report
from draftcheck.rulebook import book
from draftcheck.trial.backends.transformers import steps
from draftcheck.trial.backends.transformers.backend import TransformersBackend
from draftcheck.trial.result import CostsOrigin, HeadRun, VerifiedRun
from tests.cli.test_printed_commands import paste
from tests.conftest import FIXTURES, Ran, Run
from tests.trial.test_saved import trial

PAIR = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")
HERE = f"transformers {transformers.__version__}"
Noise = Callable[[], float]
Trial = Callable[..., Ran]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    file.write_text("Tell me about a bird.\nAdd 12 and 30.\nWrite a recipe for soup.\nA list:\n")
    return file


@pytest.fixture
def timed(run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trial]:
    """A trial whose draft steps take so much of a target step, each with noise of its own."""

    def stub(ratio: float, noise: Noise = lambda: 0.0, models: Sequence[Path] = PAIR) -> Trial:
        def one_round(found: Mapping[int, object], repeats: int) -> dict[int, list[float]]:
            plain = {name: 1e-3 * (1 + name / 100) for name in found} | {0: 1e-3 * ratio}
            return {name: [plain[name] * (1 + noise()) for _ in range(repeats)] for name in found}

        monkeypatch.setattr(steps, "timed_round", one_round)
        common = ("trial", *models, "--device", "cpu", "--prompts", prompts, "--tokens", "24")
        return lambda *more: run(*common, *more)

    return stub


def figures(ran: Ran) -> tuple[dict[str, Any], dict[str, Any]]:
    assert ran.code == 0, ran.err
    body = ran.json
    return body, next(row for row in body["lengths"] if row["draft_tokens"] == body["length"])


def test_a_speed_up_says_whose_it_is_and_how_sure(timed: Callable[..., Trial]) -> None:
    body, row = figures(timed(0.05)("--format", "json"))
    whose = {"engine": "transformers", "version": transformers.__version__, "source": "steps"}
    assert body["costs"] == {**whose, "spread": 0.0, "warning": None}
    assert {**whose, "spread": 0.0}.items() <= body["cost"].items()
    assert body["serving_speedup"] is None, "no serving engine's costs are known"
    tokens, between = row["tokens_per_pass"], row["speedup_ci95"]
    # Steps that are known exactly leave what is not known of tokens per pass.
    assert between == pytest.approx(
        [row["speedup"] * end / tokens for end in row["tokens_per_pass_ci95"]]
    )
    assert row["break_even_tokens_per_pass"] == pytest.approx(tokens / row["speedup"])
    for name in ("lengths", "thresholds", "trees", "ngram", "loads"):
        for entry in body[name]:
            low, high = entry["speedup_ci95"]
            assert low <= entry["speedup"] <= high, name
    assert body["best"]["speedup_ci95"] == between
    told = timed(0.05)().out
    first = f"{row['speedup']:.2f}x ({between[0]:.2f} to {between[1]:.2f}) by the steps of {HERE}"
    assert told.startswith(f"{first} with drafts of {body['length']} token")
    assert "to switch it on: " in told
    assert "holds in every engine" in told and "no other engine's" in told


def test_it_ends_with_the_command_of_the_engine(
    timed: Callable[..., Trial], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the engine named; for GGUF files the one that they are for. The gate takes it."""
    monkeypatch.setenv("COLUMNS", "400")  # no command is broken over two lines
    cases = (("vllm", PAIR, ("--engine", "vllm")), ("exllamav3", PAIR, ("--engine", "exllamav3")),
             ("llama.cpp", [path.with_suffix(".gguf") for path in PAIR], ()))  # fmt: skip
    for engine, models, said in cases:
        ran = timed(0.05, models=models)(*said)
        head, _, command = ran.out.partition("to switch it on (")[2].partition(":\n")
        version = book.load(engine).checked
        assert head.startswith(f"{engine} {version}, "), ran.out
        text = textwrap.dedent(command)
        paste(text, tmp_path / engine / "0")
        monkeypatch.chdir(tmp_path / engine)
        body = run(
            "gate", ".", "--engine", f"{engine}@{version}", "--format", "json", "--verbose"
        ).json
        (row,) = body["setups"]
        assert (row["engine"], row["verdict"]) == (engine, "compatible"), text
        assert [row["target"], row["draft"]] == [str(path) for path in models]
        assert not [each for each in body["findings"] if each["severity"] != "note"], text
    own = timed(0.05)().out.rpartition("to switch it on: ")[2]
    name, *words = shlex.split(own.removeprefix("draftcheck "))
    command = cli.get_command(click.Context(cli), name)
    assert command is not None and command.make_context(name, words).params["draft_tokens"]


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.6])
def test_from_when_it_pays_is_said_in_the_figure_of_the_first_line(
    timed: Callable[..., Trial], ratio: float
) -> None:
    ask = timed(ratio)
    _, row = figures(ask("--format", "json"))
    line = next(line for line in ask().out.splitlines() if "tokens per pass on" in line)
    needed = float(line.partition("% of them")[0].split()[-1]) / 100
    assert (row["draft_efficiency"] > needed) == (row["speedup"] > 1), line


def test_not_worth_it_is_an_answer_without_a_command(timed: Callable[..., Trial]) -> None:
    ran = timed(2.0)()
    assert ran.code == 0
    assert ran.out.startswith(f"not worth it by the steps of {HERE}: 0.")
    assert "to switch it on" not in ran.out


def test_a_lost_real_run_comes_first(
    timed: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slower(self: object, texts: Sequence[object], g: int, options: object) -> VerifiedRun:
        return VerifiedRun(draft_tokens=g, tokens_per_pass=2.0, speedup=0.76, identical_output=True)

    monkeypatch.setattr(TransformersBackend, "verify", slower)
    ran = timed(0.05)("--verify")
    assert ran.code == 0
    assert ran.out.startswith(f"not worth it in {HERE}: a real run with drafts of ")
    assert "gave 0.76x (" in ran.out.splitlines()[0]
    assert "to switch it on" not in ran.out


def test_a_real_run_of_another_engine_does_not_speak_for_the_one_asked() -> None:
    slower = VerifiedRun(
        engine="transformers", draft_tokens=4, tokens_per_pass=2.0, speedup=0.7,
        identical_output=True,
    )  # fmt: skip
    assert trial(verified=slower).pays, "the speed-up is vLLM's"
    assert " gave 0.70x in transformers)" in report.answer(trial(verified=slower))
    assert not trial(verified=structs.replace(slower, engine="vllm")).pays
    assert not trial(verified=slower, costs_origin=None).pays


@pytest.mark.parametrize("scale", [0.02, 0.1, 0.5, 3.0])
def test_three_noisy_trials_agree_or_warn(timed: Callable[..., Trial], scale: float) -> None:
    """As on a machine whose other programs steal time from any step."""
    beside = 0
    for seed in range(2):
        chance = random.Random(seed)
        noisy = timed(0.5, lambda: scale * chance.expovariate(1.0))  # noqa: B023
        found = [figures(noisy("--format", "json"))[0] for _ in range(3)]
        warned = [body["costs"]["warning"] is not None for body in found]
        assert all(warned) or scale < 3, "such noise is always seen"
        assert not any(warned) or scale > 0.02, "and such never"
        for g in range(4):
            rows = [body["lengths"][g] for body in found]
            ends = [row["speedup_ci95"] for row in rows]
            agree = all(low <= row["speedup"] <= high for low, high in ends for row in rows)
            assert agree or any(warned), (seed, rows)
        # The same of the steps alone: what a pass takes beside a plain step.
        passes = [body["lengths"][3]["break_even_tokens_per_pass"] for body in found]
        for body, own in zip(found, passes, strict=True):
            room = 1 + body["costs"]["spread"]
            beside += sum(not own / room <= other <= own * room for other in passes)
    assert beside <= 2, "of 12: a 95 % interval"


def test_noise_is_said_first_and_nothing_is_switched_on(timed: Callable[..., Trial]) -> None:
    chance = random.Random(1)
    ran = timed(0.05, lambda: chance.expovariate(1.0))()
    assert "; do not decide by it: what steps take is known to within " in (ran.out.splitlines()[0])
    assert "note: do not decide by these speed-ups: " in ran.out
    assert "to switch it on" not in ran.out


def test_each_warning_has_its_reason(timed: Callable[..., Trial]) -> None:
    found = []
    for seed in range(8):
        chance = random.Random(seed)
        noisy = timed(0.45, lambda: 0.7 * chance.expovariate(1.0))  # noqa: B023
        body, row = figures(noisy("--format", "json"))
        low, high = (row if body["best"]["method"] == "none" else body["best"])["speedup_ci95"]
        reasons = {
            "gain and loss are both possible": low < 1 < high and high - low > 0.2,
            "what steps take is known to within": body["costs"]["spread"] > 0.15,
        }
        for words, holds in reasons.items():
            assert (words in (body["costs"]["warning"] or "")) == holds
        found.append(tuple(reasons.values()))
    assert {(False, False), (True, False), (True, True)} <= set(found), "else this shows little"


def test_a_busy_machine_is_said(
    timed: Callable[..., Trial], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = timed(0.05)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (2.6, 1.0, 1.0))
    assert "do not decide by it: the machine was busy (load 2.6 on 2 cores)" in quiet().out
    monkeypatch.setattr(os, "getloadavg", lambda: (1.9, 9.0, 9.0))
    assert "busy" not in quiet().out
    monkeypatch.delattr(os, "getloadavg")
    assert "busy" not in quiet().out, "Windows does not tell"


def test_only_ways_that_the_engine_offers_are_the_answer(
    timed: Callable[..., Trial], tmp_path: Path
) -> None:
    """A tree that would be by far the best: transformers has none."""
    file = tmp_path / "tree.json"
    file.write_text(json.dumps([[0] * n for n in range(1, 9)] + [[1], [2], [0, 1]]))
    body, row = figures(timed(0.0)("--tree", str(file), "--format", "json"))
    top = max(entry["speedup"] for entry in (*body["trees"], *body["thresholds"]))
    assert top > row["speedup"], "else this shows nothing"
    assert body["best"]["method"] == "draft_model"
    assert body["best"]["draft_tokens"] == body["length"]


def test_without_costs_a_real_run_is_the_answer() -> None:
    faster = VerifiedRun(
        engine="vllm", draft_tokens=4, tokens_per_pass=2.0, speedup=1.2, identical_output=True
    )
    alone = trial(verified=faster, best=None, costs=None, costs_origin=None)
    assert report.answer(alone).startswith(
        "a real run with drafts of 4 tokens gave 1.20x in vllm ("
    )
    lost = structs.replace(alone, verified=structs.replace(faster, speedup=0.9))
    assert report.answer(lost).startswith(
        "not worth it in vllm: a real run with drafts of 4 tokens"
    )


def test_the_words_name_what_is_known_of_the_costs() -> None:
    vllm = trial(verified=None)
    assert report.answer(vllm).split(" with ")[0].endswith(" in vllm 0.32.0")
    measured = CostsOrigin("llama.cpp", "b11312", "measured", None)
    assert " in llama.cpp b11312 with " in report.answer(
        structs.replace(vllm, costs_origin=measured)
    )
    head = structs.replace(vllm, head=HeadRun("eagle3", "sglang", "0.5.23"))
    assert " in vllm 0.32.0 (not of sglang, where such heads run) with " in report.answer(head)
    assert "memory would allow 2.00x" in report.FORMATS["text"](vllm)
    assert "no engine's figure" in report.FORMATS["text"](vllm)
