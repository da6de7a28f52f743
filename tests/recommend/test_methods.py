"""Which method for this target: by what was measured here, then published, then modelled."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from draftcheck.models import stored
from draftcheck.values.facts import ConfigFacts, HeadFacts, ModelFacts, WeightFacts
from tests.conftest import FIXTURES, Ran, Run
from tests.evidence.test_known import FIRST
from tests.hub import Hub, models
from tests.hub.process import Draftcheck

PAIR = FIXTURES / "pair"
TYPES = {
    "Qwen/Qwen3.5-35B-A3B": "qwen3_5_moe", "Qwen/Qwen3.6-35B-A3B": "qwen3_5_moe",
    "Qwen/Qwen3.6-27B": "qwen3_5", "Qwen/Qwen3.8-27B": "qwen3_5",
    "deepseek-ai/DeepSeek-V4-Flash": "deepseek_v4", "deepseek-ai/DeepSeek-V4-Pro": "deepseek_v4",
    "zai-org/GLM-5.2": "glm_moe_dsa",
}  # fmt: skip
"""Of targets with layers of their own."""


def saved(folder: Path, name: str, mtp: int = 0, **words: Any) -> Path:
    """Facts as `inspect --output` saves them."""
    config = ConfigFacts(
        model_type=TYPES.get(name, "llama"), vocab_size=151_936, layers=36, hidden=4096, heads=32,
        kv_heads=8, head_dim=128, context=40_960, scaled_context=40_960, tied=False,
        multimodal=False, mtp_layers=mtp or None,
    )  # fmt: skip
    facts = ModelFacts(
        name,
        "hub",
        role="full",
        config=config,
        weights=WeightFacts(parameters=8 * 10**9, nbytes=16 * 10**9, faults=()),
        head=HeadFacts("full", mtp_promised=mtp, mtp_present=mtp) if mtp else None,
        **words,
    )
    stored.save(facts, folder / "target.facts.json")
    return folder / "target.facts.json"


@pytest.fixture
def offline(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """recommend --offline with nothing but a target's saved facts."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def call(target: Path, *words: str) -> Ran:
        return run("recommend", target, "--offline", *words)

    return call


@pytest.mark.parametrize(("target", "first"), FIRST.items())
def test_saved_facts_are_enough_to_name_the_publisher_s_head(
    offline: Any, tmp_path: Path, target: str, first: str
) -> None:
    own = first == "own"
    facts = saved(tmp_path, target, mtp=int(own))
    ran = offline(facts, "--format", "json")
    best = ran.json["methods"][0]
    assert best["draft"] == (None if own else first)
    assert best["known_by"] == "published"
    assert ran.code == (0 if own else 3)  # layers of its own were judged, a head was not read
    assert best["verdict"] == ("compatible" if own else None)
    line = offline(facts).out.splitlines()[0]
    name = best["method"]
    what = rf"{re.escape(name)} with \S+" if own else re.escape(f"{first} ({name})")
    assert re.match(rf"use {what} for {re.escape(target)}: ", line), line
    assert name in ("MTP of its own" if own else line)


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("Qwen/Qwen3-8B", ["DFlash", "DSpark", "EAGLE-3", "MTP head", "P-EAGLE", "PARD", "n-gram"]),
        ("google/gemma-4-12B-it", ["assistant", "DSpark", "EAGLE-3", "DFlash", "n-gram"]),
    ],
)
def test_each_method_once(offline: Any, tmp_path: Path, target: str, names: list[str]) -> None:
    rows = offline(saved(tmp_path, target), "--format", "json").json["methods"]
    assert [row["method"] for row in rows] == names
    assert [row["rank"] for row in rows] == list(range(1, len(names) + 1))


def test_engines_that_lack_a_method_are_not_promised_it(offline: Any, tmp_path: Path) -> None:
    facts = saved(tmp_path, "Qwen/Qwen3-8B")
    rows = offline(facts, "--engine", "transformers", "--format", "json").json["methods"]
    assert [row["method"] for row in rows] == ["DFlash", "MTP head", "PARD", "n-gram"]
    assert all(row["engines"] == ["transformers"] for row in rows)


def test_layers_that_were_lost_are_not_named(offline: Any, tmp_path: Path) -> None:
    """A packing without the MTP tensors, whatever is published of the model."""
    facts = saved(tmp_path, "Qwen/Qwen3.6-27B")
    rows = offline(facts, "--format", "json").json["methods"]
    assert "MTP of its own" not in [row["method"] for row in rows]
    assert rows[0]["draft"] == "z-lab/Qwen3.6-27B-DFlash"


def test_what_it_was_packed_from_counts(offline: Any, tmp_path: Path) -> None:
    facts = saved(tmp_path, "me/renamed", bases={"openai/gpt-oss-120b": "quantized"})
    rows = offline(facts, "--format", "json").json["methods"]
    assert rows[0]["draft"] == FIRST["openai/gpt-oss-120b"]
    tuned = saved(tmp_path, "me/renamed", bases={"openai/gpt-oss-120b": "finetune"})
    rows = offline(tuned, "--format", "json").json["methods"]
    assert [row["method"] for row in rows] == ["n-gram"]


def trial_of(target: Path, draft: Path, **words: Any) -> dict[str, Any]:
    return {
        "target": {"ref": str(target)}, "draft": {"ref": str(draft)}, "lengths": [],
        "acceptance_rate": {"value": 0.5}, "device": "cpu", "dtype": "float32", **words,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("figures", "first"),
    [
        ({"lengths": [{"draft_tokens": 3, "tokens_per_pass": 1.3, "speedup": 1.02}]}, "measured"),
        ({"lengths": [{"draft_tokens": 3, "tokens_per_pass": 1.3}]}, "measured"),
        ({"lengths": [{"draft_tokens": 3, "tokens_per_pass": 1.3, "speedup": 0.9}]}, "published"),
        ({"lengths": [{"draft_tokens": 3, "tokens_per_pass": 1.01}]}, "published"),
        ({"broken": "it drafts nonsense"}, "published"),
    ],
    ids=["gains", "not timed", "loses", "worthless", "broken"],
)
def test_published_figures_never_beat_what_was_measured_here(
    run: Run, tmp_path: Path, figures: dict[str, Any], first: str
) -> None:
    """6.54 tokens per pass are published of one pair; another was measured to gain 2 %."""
    target, small, head = (tmp_path / n for n in ("Qwen3-8B", "small", "Qwen3-8B-DFlash-b16"))
    for source, folder in (("target", target), ("draft", small), ("heads/dflash", head)):
        shutil.copytree(PAIR / source, folder)
    (tmp_path / "trial.json").write_text(json.dumps(trial_of(target, small, **figures)))
    words = ("recommend", target, "--candidate", small, "--candidate", head)
    ran = run(*words, "--trials", tmp_path / "trial.json", "--format", "json")
    assert ran.json["methods"][0]["known_by"] == first
    assert ran.json["candidates"][0]["draft"] == str(small if first == "measured" else head)
    assert ran.json["methods"][0]["draft"] == ran.json["candidates"][0]["draft"]
    # Of the measured pair itself nothing published is shown, however well it did elsewhere.
    (tmp_path / "trial.json").write_text(json.dumps(trial_of(target, head, **figures)))
    ran = run(*words, "--trials", tmp_path / "trial.json", "--format", "json")
    (row,) = [r for r in ran.json["candidates"] if r["draft"] == str(head)] or [{"published": None}]
    assert row["published"] is None
    assert ran.json["methods"][0]["draft"] == str(head if first == "measured" else small)


def test_own_layers_that_were_measured(offline: Any, tmp_path: Path) -> None:
    facts = saved(tmp_path, "Qwen/Qwen3.6-27B", mtp=1)
    report = tmp_path / "own.json"
    rows = [{"draft_tokens": 1, "tokens_per_pass": 1.8, "speedup": 1.4}]
    report.write_text(json.dumps(trial_of(facts, facts, lengths=rows)))
    best = offline(facts, "--trials", str(report), "--format", "json").json["methods"][0]
    assert (best["method"], best["known_by"], best["speedup"], best["published"]) == (
        "MTP of its own", "measured", 1.4, None,
    )  # fmt: skip
    report.write_text(json.dumps(trial_of(facts, facts, broken="all zeros")))
    rows = offline(facts, "--trials", str(report), "--format", "json").json["methods"]
    assert "MTP of its own" not in [row["method"] for row in rows]


def test_the_hub_s_word_for_a_packing(hub: Hub, draftcheck: Draftcheck) -> None:
    """Its tags come with the list of files: nothing more is asked for, and they are kept."""
    pytest.importorskip("huggingface_hub")
    base = "openai/gpt-oss-120b"
    tags = (f"base_model:{base}", f"base_model:quantized:{base}")
    hub.add_repo("packer/renamed", models.checkpoint(models.BIG, words=600), tags=tags)
    facts = draftcheck("inspect", "packer/renamed", "--format", "json").json["facts"]
    assert facts["bases"] == {base: "quantized"}
    before = len(hub.log)
    known = draftcheck("known", "packer/renamed", "--format", "json").json["known"]
    assert (known[0]["draft"], known[0]["matched_by"]) == (FIRST[base], "base model")
    assert len(hub.log) == before
    methods = draftcheck("recommend", "packer/renamed", "--format", "json").json["methods"]
    assert methods[0]["draft"] == FIRST[base]
