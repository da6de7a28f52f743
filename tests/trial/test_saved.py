"""Results that are kept: the same figures after reading them back, and edited ones are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from draftcheck.errors import ReadError
from draftcheck.trial import result
from draftcheck.trial.backends.backend import TrialOptions
from draftcheck.trial.plan import TrialPlan, load_texts
from draftcheck.trial.result import (
    AcceptanceRate,
    CostsOrigin,
    LoadFigures,
    MeasuredModel,
    Trial,
    VerifiedRun,
)
from draftcheck.trial.simulate import answers
from draftcheck.trial.simulate.traces import Trace
from draftcheck.trial.speedup import Costs
from tests.conftest import FIXTURES, Run

DATA = Path(__file__).parent / "data"
PAIR = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")
COSTS = Costs(
    0.1, 1.0, {2: 1.0, 5: 1.2, 17: 1.4}, "CUDA graphs",
    engine="vllm", version="0.32.0", source="modelled", spread=0.05, overhead={2: 0.1, 5: 0.2},
)  # fmt: skip


def trial(**changes: Any) -> Trial:
    rng = np.random.default_rng(2)
    traces = [
        Trace(np.arange(20), rng.integers(0, 9, 40), rng.integers(0, 2, 40), rng.random(40))
        for _ in range(4)
    ]
    found = answers.answer(traces, COSTS, engine="vllm")
    fields: dict[str, Any] = {
        "target_model": MeasuredModel("a/b", "0" * 40),
        "draft_model": MeasuredModel("c/d", None, "x"),
        "backend": "transformers", "device": "cuda:0",
        "dtype": "bfloat16", "temperature": 0.5, "seed": 3, "prompts": 4, "tokens": 160,
        "seconds": 1.5, "stopped": "all prompts were used", "length": found.length,
        "acceptance_rate": AcceptanceRate(0.5, (0.4, 0.6)), "lengths": found.lengths,
        "thresholds": found.thresholds, "trees": found.trees, "ngram": found.ngram,
        "greedy_lengths": found.lengths, "best": found.best, "costs": COSTS, "floor": COSTS,
        "costs_origin": CostsOrigin("vllm", "0.32.0", "modelled", 0.05), "floor_speedup": 2.0,
        "loads": (LoadFigures(1, 4, 1.5, 0.01), LoadFigures(64, 1, 0.9, 0.02)),
        "categories": answers.parts(["x", "y"] * 2, found.by_length, 4, COSTS),
        "workload": answers.parts(["greedy", "sampled"] * 2, found.by_length, 4, None),
        "verified": VerifiedRun(draft_tokens=found.length, tokens_per_pass=2.0, speedup=1.4,
                                identical_output=None, predicted=2.01),
        "notes": ("one",),
        "prompts_digest": "sha256:1", "tokens_per_prompt": 40, "greedy_share": 0.5,
    }  # fmt: skip
    return Trial(**{**fields, **changes})


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    body = trial().to_dict()
    file = tmp_path / "trial.json"
    file.write_text(json.dumps(body), encoding="utf-8")
    assert result.load(file).to_dict() == body
    file.write_text(json.dumps({"engines": [], "trial": body}), encoding="utf-8")
    assert result.load(file).to_dict() == body


def test_a_real_run_of_another_length_is_not_the_trials_ratio() -> None:
    real = VerifiedRun(
        engine="transformers", draft_tokens=1, tokens_per_pass=1.4, speedup=9.0,
        identical_output=True,
    )  # fmt: skip
    body = trial(verified=real).to_dict()
    assert body["length"] != 1 and body["verified"]["engine"] == "transformers"
    assert body["figures"]["token_rate_ratio"] != 9.0
    assert body["figures"]["token_rate_ratio_is"] == "from step costs"
    same = structs.replace(real, draft_tokens=body["length"], engine=None)
    body = trial(verified=same).to_dict()
    assert body["figures"]["token_rate_ratio"] == 9.0
    assert body["figures"]["token_rate_ratio_is"] == "measured"
    assert "engine" not in body["verified"]


def test_classic_figures_by_name() -> None:
    body = trial(verified=None).to_dict()
    row = next(row for row in body["lengths"] if row["draft_tokens"] == body["length"])
    figures = body["figures"]
    assert figures["block_efficiency"] == row["tokens_per_pass"]
    tau, g, c = row["tokens_per_pass"], row["draft_tokens"], body["cost"]["ratio"]
    assert figures["mbsu"] == pytest.approx(tau / (c * g + 1))
    assert figures["token_rate_ratio"] == row["speedup"]
    assert trial().to_dict()["figures"]["token_rate_ratio"] == 1.4  # of the real run
    assert body["stops_paying_at"] == 64
    assert body["serving_speedup"] == row["speedup_ci95"]
    steps = structs.replace(trial().costs_origin, source="steps")
    assert trial(costs_origin=steps).to_dict()["serving_speedup"] is None
    for row in body["lengths"]:
        counters = row["counters"]
        assert len(row["acceptance_by_position"]) == row["draft_tokens"]
        assert sum(counters["num_accepted_tokens_per_pos"]) == counters["num_accepted_tokens"]
        assert sum(row["accepted_length_histogram"]) == counters["num_drafts"]


BODY = trial().to_dict()
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
        found = result.parse({**BODY, name: value}, "file")
    except ReadError as error:
        assert "file" in error.message
        return
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not the result of a trial: not JSON: "),
        ("[1]", "not the result of a trial: expected object, got array"),
        ("{}", "not the result of a trial: object missing required field target"),
        ('{"seed": NaN}', "not JSON: NaN is not a number"),
        ('{"engines": [], "trial": null}', "without a trial"),
        ("[" * 100_000, "not the result of a trial: not JSON: "),
    ],
)
def test_other_files_are_refused(run: Run, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "trial.json"
    file.write_text(text, encoding="utf-8")
    ran = run("pair", *PAIR, "--trial-from", file)
    assert ran.code == 3
    assert f"{file}: " in ran.err
    assert words in ran.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backend": 1}, "backend: expected str, got int"),
        ({"more": 1}, "unknown key more"),
        ({"cost": {**BODY["cost"], "more": 1}}, "unknown key cost.more"),
        ({"cost": {**BODY["cost"], "target_step_s": 0}}, "cost.target_step_s: expected int >= 1"),
        ({"cost": {**BODY["cost"], "verify_step_s": {"x": 1}}}, "key in cost.verify_step_s"),
        ({"lengths": [{**BODY["lengths"][0], "speedup": "1"}]}, "lengths[0].speedup: expected"),
        ({"lengths": [{**BODY["lengths"][0], "more": 1}]}, "unknown key lengths[0].more"),
        ({"lengths": [{**BODY["lengths"][0], "draft_tokens": None}]}, "without draft_tokens"),
        ({"loads": [{"sequences": 1}]}, "loads[0]: object missing required field draft_tokens"),
        ({"acceptance_rate": {"value": 0.5, "ci95": [0.6, 0.4]}}, "ends are swapped"),
        ({"overlap": float("nan")}, "overlap: expected float >= 0.0"),
        ({"seconds": float("inf")}, "seconds: expected float <= 1"),
        ({"stopped": "x" * 5000}, "stopped: expected str of length <= 4096"),
    ],
)
def test_a_wrong_key_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ReadError) as error:
        result.parse({**BODY, **change}, "t.json")
    assert error.value.message.startswith("t.json: not the result of a trial: ")
    assert words in error.value.message
    assert "\n" not in error.value.message


@pytest.mark.parametrize("name", ["lengths", "notes", "greedy_share", "figures"])
def test_a_missing_key_is_named(name: str) -> None:
    with pytest.raises(ReadError, match=f"missing key {name}"):
        result.parse({key: value for key, value in BODY.items() if key != name}, "t.json")


def test_files_of_the_version_before_are_read() -> None:
    """Written by draftcheck 0.1.0 before results were read by msgspec; some rows were cut out."""
    text = (DATA / "trial.json").read_text(encoding="utf-8")
    found = result.load(DATA / "trial.json")
    body = {**{name: json.loads(text)[name] for name in result.HEAD}, **found.to_dict()}
    assert body["serving_speedup"] is None, "it had another meaning"
    body["serving_speedup"] = json.loads(text)["serving_speedup"]
    assert json.dumps(_without_new(body)) + "\n" == text
    assert (found.verified is not None, found.length, len(found.lengths)) == (True, 1, 4)


def _without_new(body: Any) -> Any:
    """Without the keys that came later, which are null in what is read from older files."""
    if isinstance(body, list):
        return [_without_new(entry) for entry in body]
    if not isinstance(body, dict):
        return body
    new = {"costs", "speedup_ci95", "break_even_tokens_per_pass"}
    assert all(body[name] is None for name in new & body.keys())
    return {name: _without_new(entry) for name, entry in body.items() if name not in new}


def test_texts_of_the_version_before_are_read() -> None:
    options = TrialOptions(tokens=12, temperature=0.7)
    plan = TrialPlan(target="fixtures/pair/target", draft="", prompts=[], options=options,
                     greedy_share=0.5)  # fmt: skip
    texts = load_texts(DATA / "texts.json", plan)
    assert texts is not None
    assert [(text.category, text.temperature) for text in texts] == [
        ("prompts", 0.0),
        ("prompts", 0.7),
    ]
    assert [len(text.tokens) for text in texts] == [12, 12]
    assert texts[0].prompt[:3].tolist() == [1, 371, 201]
    with pytest.raises(ReadError, match=r"was made with seed 0, not 1"):
        load_texts(DATA / "texts.json", replace(plan, options=replace(options, seed=1)))


def test_a_result_shows_itself_in_a_line() -> None:
    assert repr(trial()).startswith("<Trial c/d for a/b: ")
    assert " tokens per pass with drafts of " in repr(trial())
    assert repr(trial(broken="no")) == "<Trial c/d for a/b: broken: no>"
    assert "\n" not in repr(trial())


def test_a_result_of_other_models_is_refused(run: Run, tmp_path: Path) -> None:
    from draftcheck.trial import model_places

    file = tmp_path / "trial.json"
    models = {
        "target_model": model_places.identify(str(PAIR[0])),
        "draft_model": model_places.identify(str(PAIR[1])),
    }
    file.write_text(json.dumps(trial(**models).to_dict()), encoding="utf-8")
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
        "target_model": model_places.identify(str(PAIR[0])),
        "draft_model": model_places.identify(str(PAIR[1])),
    }
    file = tmp_path / "trial.json"
    body = trial(**models, broken="nearly every draft is rejected").to_dict()
    file.write_text(json.dumps(body), encoding="utf-8")
    ran = run("pair", *PAIR, "--trial-from", file)
    assert ran.code == 1
    assert ran.out.startswith("incompatible: broken: nearly every draft is rejected")
    assert "to switch it on" not in ran.out
    body = run("pair", *PAIR, "--trial-from", file, "--format", "json").json
    assert body["verdict"] == "incompatible" and body["trial"]["broken"]


def test_a_saved_result_is_read_without_numpy(tmp_path: Path) -> None:
    import subprocess
    import sys

    file = tmp_path / "trial.json"
    file.write_text(json.dumps(BODY), encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from draftcheck.trial import result;"
        "result.load(Path(sys.argv[1])); assert not {'numpy', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)


def test_a_best_way_has_a_speedup(run: Run, tmp_path: Path) -> None:
    body = json.loads((DATA / "trial.json").read_text(encoding="utf-8"))
    body["best"] = {**body["lengths"][0], "speedup": None}
    file = tmp_path / "trial.json"
    file.write_text(json.dumps(body), encoding="utf-8")
    ran = run("pair", *PAIR, "--trial-from", file)
    assert ran.code == 3 and ran.err.startswith("error: ") and "best" in ran.err


@pytest.mark.transformers
def test_nothing_measured_is_one_line_with_its_cause(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget that ends within the first answer is not "0 % accepted"."""
    pytest.importorskip("transformers")
    np = pytest.importorskip("numpy")
    from draftcheck.trial import measure
    from draftcheck.trial.backends.backend import TargetText

    def cut_short(plan: object, backend: object, work: Any, at: int, began: float) -> None:
        work.texts.append(TargetText("chat", np.array([1, 2]), np.array([3])))

    monkeypatch.setattr(measure, "_write_texts", cut_short)
    for form in ("text", "json"):
        ran = run("trial", *PAIR, "--budget", "0.001", "--format", form)
        assert ran.code == 3 and not ran.out
        _, error, hint = ran.err.splitlines()
        assert error.startswith(f"error: {PAIR[0]}: nothing was measured: 0.001 s were spent")
        assert hint.startswith("hint: Give --budget ")
