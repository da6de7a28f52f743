"""Speculation profiles: written by trial, probe and known, read again, refused when wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftcheck.evidence import profiles
from draftcheck.evidence.profiles import SpeculationProfile
from tests.conftest import ROOT, Run

PAIR = [ROOT / "fixtures" / "pair" / name for name in ("target", "draft")]
LLAMA = ("meta-llama/Llama-3.1-8B-Instruct", "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3")


def written(file: Path, **changes: Any) -> Path:
    """A profile as another producer writes it, with other fields."""
    body: dict[str, Any] = {
        "schema_version": "1.0",
        "measured": True,
        "producer": "ar_validate",
        "num_speculative_tokens": 3,
        "conditional_accept_rates": [0.6, 0.5, 0.0],
        "marginal_accept_rates": [0.6, 0.3, 0.0],
        "mean_accept_length": 1.9,
        "mean_accept_length_per_request": 1.95,
        "acceptance_length_histogram": {"1": 40, "2": 30, "3": 30},
        "measurement_conditions": {"dataset": "mt_bench", "osl": 32},
    }
    file.write_text(json.dumps({**body, **changes}), encoding="utf-8")
    return file


def test_a_round_trip_loses_nothing(tmp_path: Path) -> None:
    made = SpeculationProfile(
        marginal=(0.7296, 0.5208, 0.3545),
        method="eagle3",
        draft="org/head",
        target="org/target",
        block_size=8,
        histogram={1: 27.0, 2: 21.0, 3: 17.0, 4: 35.0},
        by_length={1: 1.73, 3: 2.605},
        categories={"code": {"mean_accept_length": 2.8}},
        conditions={"dataset": "mt_bench", "temperature": 0.0},
        own={"evidence": "A114"},
    )
    made.write(tmp_path / "p.json")
    again = profiles.load(tmp_path / "p.json")
    assert again == made
    again.write(tmp_path / "q.json")
    assert (tmp_path / "q.json").read_bytes() == (tmp_path / "p.json").read_bytes()


AR_VALIDATE: dict[str, Any] = {
    "schema_version": "1.0",
    "measured": True,
    "producer": "ar_validate",
    "num_speculative_tokens": 3,
    "conditional_accept_rates": [0.816082, 0.776577, 0.749591],
    "marginal_accept_rates": [0.816082, 0.63375, 0.475054],
    "mean_accept_length": 2.924886,
    "mean_accept_length_per_request": 2.9,
    "acceptance_length_histogram": {"1": 20754, "2": 20575, "3": 17908, "4": 53607},
    "measurement_conditions": {"dataset": "mt_bench", "osl": 32, "num_samples": 80},
}
"""As pull request 2315 writes it: neither method nor accept_length_model."""
SPECDEC_BENCH: dict[str, Any] = {
    **AR_VALIDATE,
    "producer": "specdec_bench",
    "method": "dflash",
    "draft_checkpoint": {"id": "nvidia/MiniMax-M2.7-DFlash", "sha256": None},
    "target_model": {"id": "MiniMaxAI/MiniMax-M2.7"},
    "accept_length_model": "measured_per_k",
    "accept_length_by_k": {"3": 2.924886},
    "per_category": {"coding": {"mean_accept_length": 3.1, "num_steps": 1000}},
    "modelopt_version": None,
    "vectors_unavailable_reason": None,
}
"""As 2247 does, where the engine's container has no modelopt."""


@pytest.mark.parametrize("body", [AR_VALIDATE, SPECDEC_BENCH], ids=["2315", "2247"])
def test_a_file_of_the_pull_requests_survives_a_round_trip(
    run: Run, tmp_path: Path, body: dict[str, Any]
) -> None:
    """Every field comes back as it was, also those that nothing here knows."""
    (tmp_path / "a.json").write_text(json.dumps(body), encoding="utf-8")
    read = profiles.load(tmp_path / "a.json")
    read.write(tmp_path / "b.json")
    again = json.loads((tmp_path / "b.json").read_text())
    assert {key: again[key] for key in body} == body
    assert profiles.load(tmp_path / "b.json").marginal == read.marginal
    told = run("known", tmp_path / "b.json", "--format", "json").json
    assert (
        told["vllm_speculative_config"]["synthetic_acceptance_rates"]
        == (body["marginal_accept_rates"])
    )
    assert told["aiconfigurator"] == "--nextn 3 --nextn-accepted 1.92489"


def test_fields_of_the_format(tmp_path: Path) -> None:
    """Both conventions by name; lengths count the target's own token; identities hold."""
    SpeculationProfile(marginal=(0.6, 0.3, 0.0), method="dflash").write(tmp_path / "p.json")
    body = json.loads((tmp_path / "p.json").read_text())
    assert body["schema_version"] == "1.0" and body["measured"] is True
    assert body["marginal_accept_rates"] == [0.6, 0.3, 0.0]
    assert body["conditional_accept_rates"] == [0.6, 0.5, 0.0]
    assert body["mean_accept_length"] == pytest.approx(1.9)
    assert body["accept_length_by_k"] == {"3": 1.9}
    assert body["num_speculative_tokens"] == body["max_supported_k"] == 3
    assert body["accept_length_model"] == "measured_per_k"
    assert body["validation"]["mean_consistency"]["passed"] is True


def test_profiles_of_others(run: Run, tmp_path: Path) -> None:
    whole = profiles.load(written(tmp_path / "a.json"))
    assert whole.marginal == (0.6, 0.3, 0.0) and whole.histogram == {1: 40, 2: 30, 3: 30}
    half = profiles.load(written(tmp_path / "b.json", marginal_accept_rates=None))
    assert half.marginal == pytest.approx((0.6, 0.3, 0.0))
    told = run("known", tmp_path / "a.json")
    assert told.code == 0
    assert told.out.splitlines()[0].endswith("a.json: 1.90 tokens per pass with 3 drafted")
    assert "--nextn 3 --nextn-accepted 0.9" in told.out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_version": "2.0"}, "schema '2.0' is not known"),
        ({"measured": False}, "nothing was measured"),
        ({"marginal_accept_rates": [0.3, 0.6, 0.0]}, "marginal_accept_rates grow"),
        ({"marginal_accept_rates": [0.6, 0.5, 0.0]}, "do not make the marginal ones"),
        ({"conditional_accept_rates": [0.6, 0.5]}, "do not make the marginal ones"),
        ({"marginal_accept_rates": [0.6, 1.3, 0.0]}, "must be numbers between 0 and 1"),
        ({"marginal_accept_rates": [0.6, True]}, "must be numbers between 0 and 1"),
        ({"marginal_accept_rates": "0.6"}, "must be numbers between 0 and 1"),
        ({"mean_accept_length": 2.9}, "which draft length is meant?"),
        (
            {"marginal_accept_rates": None, "conditional_accept_rates": None,
             "vectors_unavailable_reason": "block verification is no longest-prefix one"},
            "block verification",
        ),
    ],
)  # fmt: skip
def test_profiles_that_are_wrong(
    run: Run, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    ran = run("known", written(tmp_path / "p.json", **changes))
    assert ran.code == 3 and words in ran.err and ran.err.count("\n") <= 2
    assert "Traceback" not in ran.err


def test_no_profile_at_all(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text("[1, 2", encoding="utf-8")
    assert "not JSON" in run("known", tmp_path / "p.json").err
    (tmp_path / "q.json").write_text("{}", encoding="utf-8")
    assert "schema_version is missing" in run("known", tmp_path / "q.json").err
    assert run("known", tmp_path / "none.json").code == 3


def test_a_published_figure_becomes_a_profile(run: Run, tmp_path: Path) -> None:
    ran = run("known", *LLAMA, "--profile", tmp_path / "p.json")
    assert ran.code == 0, ran.err
    body = run("known", tmp_path / "p.json", "--format", "json").json
    assert body["profile"]["marginal_accept_rates"] == [0.7296, 0.5208, 0.3545]
    assert body["profile"]["draftcheck"]["evidence"] == "A114"
    assert body["vllm_speculative_config"] == {
        "model": LLAMA[1],
        "method": "eagle3",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": [0.7296, 0.5208, 0.3545],
    }
    none = run("known", "google/gemma-4-E4B-it", "--profile", tmp_path / "q.json")
    assert none.code == 2 and "no rates by position are published" in none.err


def test_a_trial_becomes_a_profile(run: Run, tmp_path: Path) -> None:
    """Of the length it is about, with the counts that it measured, and no path of this machine."""
    pytest.importorskip("torch")
    ran = run(
        "trial", *PAIR, "--no-cost", "--tokens", "24", "--budget", "60", "--quiet",
        "--profile", tmp_path / "p.json", "--format", "json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    (row,) = [row for row in ran.json["lengths"] if row["draft_tokens"] == ran.json["length"]]
    counts = row["counters"]
    rates = [n / counts["num_drafts"] for n in counts["num_accepted_tokens_per_pos"]]
    read = profiles.load(tmp_path / "p.json")
    assert read.marginal == pytest.approx(rates, abs=1e-6)
    assert sum((read.histogram or {}).values()) == pytest.approx(counts["num_drafts"])
    assert set(read.by_length) == {row["draft_tokens"] for row in ran.json["lengths"]}
    assert (read.target, read.draft, read.method) == ("target", "draft", "draft_model")
    assert str(ROOT) not in (tmp_path / "p.json").read_text()
