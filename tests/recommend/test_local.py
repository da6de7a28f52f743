"""Which of the models on this disk go together: caches and stores of other programs, folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from draftcheck.recommend import local, records
from tests import make
from tests.conftest import FIXTURES, Run

sys.path.insert(0, str(Path(__file__).parents[1] / "agreement"))
import head_cases

PAIR = FIXTURES / "pair"
SHA = "0123456789abcdef0123456789abcdef01234567"
OLD = "f" * 40


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cached(home: Path, repo: str, source: Path, sha: str = SHA) -> Path:
    """A repo in the Hub's cache: links to blobs, as huggingface_hub lays them out."""
    folder = home / "hf" / "hub" / f"models--{repo.replace('/', '--')}"
    for name in ("blobs", "refs", f"snapshots/{sha}"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(sha)
    files = source.iterdir() if source.is_dir() else [source]
    for file in files:
        blob = folder / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        shutil.copy(file, blob)
        link = folder / "snapshots" / sha / file.name
        link.symlink_to(os.path.relpath(blob, link.parent))
    return folder


def pulled(home: Path, name: str, data: bytes) -> None:
    digest = hashlib.sha256(data).hexdigest()
    blobs = home / "ollama" / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / f"sha256-{digest}").write_bytes(data)
    row = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
    path = home / "ollama" / "manifests" / "registry.ollama.ai" / "library" / name / "latest"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"layers": [{**row, "size": len(data)}]}))


def pairs(body: dict[str, Any]) -> dict[str, list[str]]:
    return {
        row["target"]["ref"]: [found["draft"] for found in row["candidates"]]
        for row in body["pairs"]
    }


def test_everything_on_this_disk(home: Path, run: Run) -> None:
    cached(home, "org/big", PAIR / "target")
    cached(home, "org/small", PAIR / "draft")
    old = cached(home, "org/small", PAIR / "draft", OLD) / "refs" / "main"
    old.write_text(SHA)
    studio = home / ".lmstudio" / "models" / "maker" / "big-GGUF"
    studio.mkdir(parents=True)
    shutil.copy(PAIR / "target.gguf", studio / "big-Q8_0.gguf")
    (studio / "mmproj-big.gguf").write_bytes(b"GGUF")
    llama = home / ".cache" / "llama.cpp"
    llama.mkdir(parents=True)
    shutil.copy(PAIR / "draft.gguf", llama / "maker_small.gguf")
    (llama / "broken.gguf").write_bytes(b"GGUF but no more")
    pulled(home, "little", (PAIR / "draft.gguf").read_bytes())
    ran = run("recommend", "--local", "--format", "json")
    assert ran.code == 0, ran.err
    big = str(studio / "big-Q8_0.gguf")
    small = str(llama / "maker_small.gguf")
    assert pairs(ran.json) == {"org/big": ["org/small"], big: [small, "ollama:little:latest"]}
    assert [row["model"] for row in ran.json["unread"]] == [str(llama / "broken.gguf")]
    row = ran.json["pairs"][0]["candidates"][0]
    assert row["source"] == "hub-cache" and row["revision"] == SHA
    text = run("recommend", "--local")
    assert "1 draft for org/big" in text.out and "broken.gguf" in text.out
    assert "to switch it on" in text.out


def test_a_target_of_the_cache(home: Path, run: Run) -> None:
    cached(home, "org/big", PAIR / "target")
    cached(home, "org/small", PAIR / "draft")
    cached(home, "org/other", make.folder(home / "made"))
    shutil.rmtree(home / "made")
    for more in (["--local"], ["--offline"]):
        ran = run("recommend", "org/big", *more, "--format", "json")
        assert ran.code == 0, ran.err
        assert [row["draft"] for row in ran.json["candidates"]] == ["org/small"]
        [away] = ran.json["rejected"]
        assert away["draft"] == "org/other" and away["rule"] == "TRU001"


def test_folders_that_are_named(home: Path, run: Run) -> None:
    shelf = home / "shelf"
    shutil.copytree(PAIR / "target", shelf / "deep" / "big")
    shutil.copytree(PAIR / "draft", shelf / "small")
    (shelf / "round").symlink_to(shelf)
    cached(home, "org/elsewhere", PAIR / "draft")
    one = run("recommend", shelf / "deep" / "big", "--local", shelf, "--format", "json")
    assert [row["draft"] for row in one.json["candidates"]] == [str(shelf / "small")]
    every = run("recommend", "--local", shelf, "--format", "json")
    assert pairs(every.json) == {str(shelf / "deep" / "big"): [str(shelf / "small")]}
    assert run("recommend", shelf / "small", "--local", shelf).code == 1
    # Two GGUF files and some checkpoints: no target, but models to be paired.
    both = pairs(run("recommend", "--local", PAIR, "--format", "json").json)
    assert both == {
        str(PAIR / "target"): [str(PAIR / "draft")],
        str(PAIR / "target.gguf"): [str(PAIR / "draft.gguf")],
        str(PAIR / "heads" / "target-mtp"): [str(PAIR / "draft"), str(PAIR / "target")],
    }


def test_a_folder_of_gguf_files_is_never_passed_to_a_server(home: Path, run: Run) -> None:
    """A file and a folder of others: models to be paired. A file alone: that file."""
    shelf = home / "shelf"
    (shelf / "more").mkdir(parents=True)
    shutil.copy(PAIR / "target.gguf", shelf)
    alone = run("recommend", "--local", shelf)
    assert f"llama-server -m {shelf / 'target.gguf'} " in alone.out, alone.out
    shutil.copy(PAIR / "draft.gguf", shelf / "more")
    ran = run("recommend", "--local", shelf)
    assert ran.code == 0 and f"llama-server -m {shelf / 'target.gguf'} " in ran.out, ran.out
    assert f"-m {shelf} " not in alone.out + ran.out


def test_a_head_and_what_it_names(home: Path, run: Run) -> None:
    """Paired by the verifier, since a head has no vocabulary of its own to go by."""
    cached(home, "org/big", PAIR / "target")
    about = json.loads((PAIR / "target" / "config.json").read_text())
    for name in ("big", "moose"):
        config = {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "speculators_version": "0.3.0",
            "draft_vocab_size": about["vocab_size"],
            "transformer_layer_config": {**about, "num_hidden_layers": 1},
            "speculators_config": {
                "algorithm": "eagle3",
                "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
                "verifier": {"name_or_path": f"org/{name}", "architectures": []},
            },
        }
        folder = home / "shelf" / f"head-of-{name}"
        folder.mkdir(parents=True)
        make.write_json(folder / "config.json", config)
        wide = about["hidden_size"]
        make.safetensors(
            folder / "model.safetensors",
            {"fc.weight": ("BF16", [wide, 3 * wide]), "lm_head.weight": ("BF16", [64, wide])},
        )
    ran = run("recommend", "org/big", "--local", home / "shelf", "--format", "json")
    reasons = {row["draft"]: row["rule"] for row in ran.json["rejected"]}
    assert reasons[str(home / "shelf" / "head-of-moose")] == "TRU104"


def test_the_verdicts_are_those_of_pair(home: Path, run: Run) -> None:
    shape = {"hidden_size": 512, "intermediate_size": 1024, "layers": 8}
    target = make.folder(home / "big", **shape)  # type: ignore[arg-type]
    words = {**make.byte_vocabulary(), "moose": 256}
    drafts = [
        make.folder(home / "small"),
        make.folder(home / "padded", vocab_size=320),
        make.folder(home / "added", tokenizer_json=make.tokenizer(added=("<s>", "</s>", "<x>"))),
        make.folder(home / "other", tokenizer_json=make.tokenizer(words)),
        make.folder(home / "encoder", architectures=["BertModel"], model_type="bert"),
    ]
    for engine in ("vllm", "llama.cpp", "sglang", "transformers"):
        named = [part for draft in drafts for part in ("--candidate", draft)]
        ran = run("recommend", target, *named, "--engine", engine, "--format", "json")
        found = {row["draft"]: row["verdict"] for row in ran.json["candidates"]}
        found |= {row["draft"]: row["verdict"] for row in ran.json["rejected"]}
        for draft in drafts:
            said = run("pair", target, draft, "--engine", engine, "--format", "json").json
            assert found[str(draft)] == said["verdict"], (engine, draft)


def test_layers_of_its_own_are_an_answer(home: Path, run: Run) -> None:
    case = next(case for case in head_cases.CASES if case.name == "mtp/own-layer")
    target, _ = head_cases.write(case, home)
    (home / "empty").mkdir()
    said = ("--engine", "llama.cpp", "--local", home / "empty")
    ran = run("recommend", target, *said, "--format", "json")
    assert ran.code == 0 and ran.json["candidates"] == []
    first = ran.json["without_draft"][0]
    assert first["own_layers"] and first["method"] == "draft-mtp"
    text = run("recommend", target, *said).out
    assert "with layers of its own: draft-mtp (llama.cpp)" in text and "without any draft" in text
    assert "--spec-type draft-mtp" in text
    # n-grams need nothing of the target: no answer to the question for a draft
    assert run("recommend", PAIR / "target.gguf", *said).code == 1


def test_a_gguf_head_beside_its_target(home: Path, run: Run) -> None:
    case = next(case for case in head_cases.CASES if case.name == "eagle3/fits")
    target, draft = head_cases.write(case, home)
    ran = run(
        "recommend", target, "--candidate", draft, "--engine", "llama.cpp", "--format", "json"
    )
    [row] = ran.json["candidates"]
    assert row["kind"] == "eagle3" and row["method"] == "draft-eagle3" and "you named" in row["why"]


def test_nothing_there(home: Path, run: Run) -> None:
    ran = run("recommend", "--local")
    assert ran.code == 1 and "no two models on this disk go together" in ran.out
    alone = run("recommend", PAIR / "target", "--offline")
    assert alone.code == 1 and "offline: only what was read" in alone.err
    assert run("recommend").code == 2
    assert run("recommend", PAIR / "target", home).code == 2
    assert run("recommend", PAIR / "target", "--local", home / "nowhere").code == 3
    assert run("recommend", PAIR / "target", "--max-size", "many").code == 2


def test_saved_facts_are_candidates_too(home: Path, run: Run) -> None:
    facts = home / "small.facts.json"
    assert run("inspect", PAIR / "draft", "--output", facts).code == 0
    ran = run("recommend", PAIR / "target", "--candidate", facts, "--format", "json")
    assert [row["draft"] for row in ran.json["candidates"]] == [str(facts)]


@pytest.mark.transformers
def test_a_trial_says_how_much_faster(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from draftcheck.trial import measure

    monkeypatch.setattr(records, "SECONDS", 12.0)  # loading and a first step on a busy machine
    monkeypatch.setattr(measure, "BATCH", 2)
    monkeypatch.setattr(measure, "CONTEXT", 64)
    measured: list[int] = []
    real = records.of

    def of(trial: Any) -> records.TrialRecord:
        measured.append(trial.length)
        return real(trial)

    monkeypatch.setattr(records, "of", of)
    words = ["recommend", PAIR / "target", "--candidate", PAIR / "draft", "--format", "json"]
    ran = run(*words, "--engine", "transformers", "--trial")
    [row] = ran.json["candidates"]
    assert row["speedup"] > 0 and 0 < row["acceptance"] <= 1
    assert row["why"].startswith("measured ")
    assert f"num_assistant_tokens = {measured[0]} " in row["setup"]


def test_a_place_that_was_not_looked_at_to_its_end_is_named(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        shutil.copytree(PAIR / "draft", home / "models" / name)
    monkeypatch.setattr(local, "MOST", 2)
    words = f"{home / 'models'}: only 2 of its folders were looked at"
    ran = run("recommend", PAIR / "target", home / "models", "--local")
    assert ran.code == 0 and words in ran.err, ran.err
    assert words in run("recommend", home / "models", "--local").err
    monkeypatch.setattr(local, "MOST", 4)
    ran = run("recommend", PAIR / "target", home / "models", "--local")
    assert ran.code == 0 and "looked at" not in ran.err
