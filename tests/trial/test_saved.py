"""Results that are kept: the same figures after reading them back, and edited ones are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftcheck.errors import ReadError
from draftcheck.trial import saved
from draftcheck.trial.backends.backend import VerifiedRun
from draftcheck.trial.result import LoadFigures, MeasuredModel, Trial
from draftcheck.trial.simulate import answers
from draftcheck.trial.simulate.traces import Trace
from draftcheck.trial.speed.speedup import Costs
from tests.conftest import FIXTURES, Run

PAIR = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")
COSTS = Costs(0.1, 1.0, {2: 1.0, 5: 1.2, 17: 1.4}, "CUDA graphs")


def trial(**changes: Any) -> Trial:
    rng = np.random.default_rng(2)
    traces = [
        Trace(np.arange(20), rng.integers(0, 9, 40), rng.integers(0, 2, 40), rng.random(40))
        for _ in range(4)
    ]
    found = answers.answer(traces, COSTS)
    fields: dict[str, Any] = {
        "target": "a/b", "draft": "c/d", "backend": "transformers", "device": "cuda:0",
        "dtype": "bfloat16", "temperature": 0.5, "seed": 3, "prompts": 4, "tokens": 160,
        "seconds": 1.5, "stopped": "all prompts were used", "length": found.length,
        "acceptance": 0.5, "interval": (0.4, 0.6), "lengths": found.lengths,
        "thresholds": found.thresholds, "trees": found.trees, "ngram": found.ngram,
        "greedy_lengths": found.lengths, "best": found.best, "costs": COSTS, "floor": COSTS,
        "floor_speedup": 2.0,
        "loads": (LoadFigures(1, 4, 1.5, 0.01), LoadFigures(64, 1, 0.9, 0.02)),
        "categories": answers.parts(["x", "y"] * 2, found.by_length, 4, COSTS),
        "workload": answers.parts(["greedy", "sampled"] * 2, found.by_length, 4, None),
        "verified": VerifiedRun(4, 2.0, 1.4, None, 2.01), "notes": ("one",),
        "models": {"target": MeasuredModel("a/b", "0" * 40),
                   "draft": MeasuredModel("c/d", None, "x")},
        "prompts_digest": "sha256:1", "tokens_per_prompt": 40, "greedy_share": 0.5,
    }  # fmt: skip
    return Trial(**{**fields, **changes})


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    body = saved.body(trial())
    file = tmp_path / "trial.json"
    file.write_text(json.dumps(body), encoding="utf-8")
    assert saved.body(saved.load(file)) == body
    file.write_text(json.dumps({"engines": [], "trial": body}), encoding="utf-8")
    assert saved.body(saved.load(file)) == body


def test_classic_figures_by_name() -> None:
    body = saved.body(trial(verified=None))
    row = next(row for row in body["lengths"] if row["draft_tokens"] == body["length"])
    figures = body["figures"]
    assert figures["block_efficiency"] == row["tokens_per_pass"]
    tau, g, c = row["tokens_per_pass"], row["draft_tokens"], body["cost"]["ratio"]
    assert figures["mbsu"] == pytest.approx(tau / (c * g + 1))
    assert figures["token_rate_ratio"] == row["speedup"]
    assert saved.body(trial())["figures"]["token_rate_ratio"] == 1.4  # of the real run
    assert body["stops_paying_at"] == 64
    assert body["serving_speedup"] == sorted([row["speedup"], body["floor_speedup"]])
    for row in body["lengths"]:
        counters = row["counters"]
        assert len(row["acceptance_by_position"]) == row["draft_tokens"]
        assert sum(counters["num_accepted_tokens_per_pos"]) == counters["num_accepted_tokens"]
        assert sum(row["accepted_length_histogram"]) == counters["num_drafts"]


BODY = saved.body(trial())
nonsense = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=3), st.integers()),
    st.just(10**400), st.just([[]] * 5000), st.just("x" * 5000),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60, deadline=None)
@given(st.sampled_from(sorted(BODY)), nonsense)
def test_edited_results_are_refused_or_sound(name: str, value: Any) -> None:
    """Whatever a field is set to: either an error of ours, or a result that can be written."""
    try:
        found = saved.parse({**BODY, name: value}, "file")
    except ReadError as error:
        assert "file" in error.message
        return
    json.dumps(saved.body(found), allow_nan=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not the JSON of a trial"),
        ("[1]", "not the result of a trial"),
        ("{}", "is missing or not"),
        ('{"engines": [], "trial": null}', "without a trial"),
        ("[" * 100_000, "not the JSON of a trial"),
    ],
)
def test_other_files_are_refused(run: Run, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "trial.json"
    file.write_text(text, encoding="utf-8")
    ran = run("pair", *PAIR, "--trial-from", file)
    assert ran.code == 3
    assert words in ran.err


def test_a_result_of_other_models_is_refused(run: Run, tmp_path: Path) -> None:
    from draftcheck.trial import model_places

    file = tmp_path / "trial.json"
    models = {
        "target": model_places.identify(str(PAIR[0])),
        "draft": model_places.identify(str(PAIR[1])),
    }
    file.write_text(json.dumps(saved.body(trial(models=models))), encoding="utf-8")
    ran = run("pair", *PAIR, "--trial-from", file, "--engine", "vllm", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["trial"]["length"] == trial().length
    assert f'"num_speculative_tokens": {trial().length}' in ran.engine("vllm")["setup"]
    ran = run("pair", *PAIR, "--trial-from", file, "--engine", "vllm", "--draft-tokens", "7")
    assert '"num_speculative_tokens": 7' in ran.out
    assert "block efficiency" in ran.out
    ran = run("pair", PAIR[1], PAIR[1], "--trial-from", file)
    assert ran.code == 2
    assert "another target" in ran.err


def test_a_broken_pair_is_not_compatible_whatever_the_files_say(run: Run, tmp_path: Path) -> None:
    from draftcheck.trial import model_places

    models = {
        "target": model_places.identify(str(PAIR[0])),
        "draft": model_places.identify(str(PAIR[1])),
    }
    file = tmp_path / "trial.json"
    body = saved.body(trial(models=models, broken="nearly every draft is rejected"))
    file.write_text(json.dumps(body), encoding="utf-8")
    ran = run("pair", *PAIR, "--trial-from", file)
    assert ran.code == 1
    assert "nearly every draft is rejected" in ran.out


def test_a_saved_result_is_read_without_numpy(tmp_path: Path) -> None:
    import subprocess
    import sys

    file = tmp_path / "trial.json"
    file.write_text(json.dumps(BODY), encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from draftcheck.trial import saved;"
        "saved.load(Path(sys.argv[1])); assert not {'numpy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
