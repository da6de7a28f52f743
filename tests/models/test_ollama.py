"""Ollama's local store: which file is the model, and manifests that lie."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, Run

MEDIA = "application/vnd.ollama.image."
TARGET = (FIXTURES / "pair" / "target.gguf").read_bytes()
DRAFT = (FIXTURES / "pair" / "draft.gguf").read_bytes()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "models"))
    (tmp_path / "models" / "blobs").mkdir(parents=True)
    return tmp_path / "models"


def layer(store: Path, kind: str, data: bytes, **changes: Any) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    (store / "blobs" / f"sha256-{digest}").write_bytes(data)
    row = {"mediaType": MEDIA + kind, "digest": f"sha256:{digest}", "size": len(data)}
    return {**row, **changes}


def manifest(store: Path, name: str, *layers: Any, tag: str = "latest") -> Path:
    path = store / "manifests" / "registry.ollama.ai" / "library" / name / tag
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 2, "layers": list(layers)}))
    return path


def test_two_models_of_the_store_are_judged(store: Path, run: Run) -> None:
    manifest(store, "big", layer(store, "model", TARGET))
    path = manifest(store, "small", layer(store, "model", DRAFT), tag="1b")
    ran = run("pair", "ollama:big", "ollama:small:1b", "--engine", "llama.cpp", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["draft"]["kind"] == "ollama"
    assert ran.json["draft"]["revision"] == hashlib.sha256(path.read_bytes()).hexdigest()
    blob = f"sha256-{hashlib.sha256(DRAFT).hexdigest()}"
    assert f"-md {store / 'blobs' / blob}" in ran.engine("llama.cpp")["setup"]


def test_template_and_parameters_are_told(store: Path, run: Run) -> None:
    manifest(
        store,
        "big",
        layer(store, "model", TARGET),
        layer(store, "template", b"{{ .Prompt }}"),
        layer(store, "params", b'{"num_ctx": 4096, "stop": ["<|end|>"]}'),
        layer(store, "license", b"free"),
    )
    origin = run("inspect", "ollama:big", "--format", "json").json["facts"]["origin"]
    assert origin["layers"] == "model, template, params, license"
    assert '"num_ctx": 4096' in origin["params"]
    assert hashlib.sha256(b"{{ .Prompt }}").hexdigest() in origin["template"]


def test_a_draft_layer_is_named_behind_a_hash(store: Path, run: Run) -> None:
    manifest(store, "big", layer(store, "model", TARGET), layer(store, "draft", DRAFT))
    ran = run("pair", "ollama:big", "ollama:big#draft", "--engine", "llama.cpp", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["draft"]["ref"] == "ollama:big#draft"
    small, large = (ran.json[side]["facts"]["weights"]["nbytes"] for side in ("draft", "target"))
    assert small < large
    manifest(store, "bare", layer(store, "model", TARGET))
    ran = run("inspect", "ollama:bare#draft")
    assert ran.code == 3 and "has no draft layer" in ran.err


def test_other_registries_have_folders_of_their_own(store: Path, run: Run) -> None:
    path = store / "manifests" / "hf.co" / "org" / "name-GGUF" / "Q4_K_M"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"layers": [layer(store, "model", TARGET)]}))
    assert run("inspect", "ollama:hf.co/org/name-GGUF:Q4_K_M").code == 0
    ran = run("inspect", "ollama:absent")
    assert ran.code == 3 and "ollama:hf.co/org/name-GGUF:Q4_K_M" in ran.err


def test_a_missing_model_says_where_it_was_looked_for(store: Path, run: Run) -> None:
    ran = run("inspect", "ollama:absent:7b")
    assert ran.code == 3 and str(store) in ran.err and "OLLAMA_MODELS" in ran.err


def test_the_store_is_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    store = tmp_path / ".ollama" / "models"
    (store / "blobs").mkdir(parents=True)
    manifest(store, "big", layer(store, "model", TARGET))
    assert run("inspect", "ollama:big").code == 0


def bad(store: Path, **changes: Any) -> dict[str, Any]:
    return layer(store, "model", TARGET, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"digest": "sha256:../../../../etc/passwd"}, "no kind, sha256 or size"),
        ({"digest": "sha256:" + "A" * 64}, "no kind, sha256 or size"),
        ({"digest": "sha256:" + "0" * 64}, "not in the store"),
        ({"digest": 5}, "no kind, sha256 or size"),
        ({"size": -1}, "no kind, sha256 or size"),
        ({"size": True}, "no kind, sha256 or size"),
        ({"size": 10**15}, "in the manifest"),
        ({"mediaType": None}, "no kind, sha256 or size"),
        ({"mediaType": MEDIA + "tensor"}, "no model layer"),
    ],
)
def test_layers_that_lie(store: Path, run: Run, changes: dict[str, Any], words: str) -> None:
    manifest(store, "big", bad(store, **changes))
    ran = run("inspect", "ollama:big")
    assert ran.code == 3 and words in ran.err, ran.err


@pytest.mark.parametrize(
    "body",
    ["", "[]", "null", "{}", '{"layers": {}}', '{"layers": ["x"]}', "[" * 100_000, "\udc80"],
)
def test_manifests_that_are_none(store: Path, run: Run, body: str) -> None:
    path = manifest(store, "big")
    path.write_bytes(body.encode("utf-8", "surrogatepass"))
    ran = run("inspect", "ollama:big")
    assert ran.code == 3 and "ollama:big" in ran.err and ran.err.count("\n") <= 2


def test_two_model_layers_are_refused(store: Path, run: Run) -> None:
    manifest(store, "big", layer(store, "model", TARGET), layer(store, "model", DRAFT))
    ran = run("inspect", "ollama:big")
    assert ran.code == 3 and "2 layers of kind model" in ran.err


def test_a_blob_that_leads_out_of_the_store_is_not_read(
    store: Path, tmp_path: Path, run: Run
) -> None:
    row = layer(store, "model", TARGET)
    blob = store / "blobs" / row["digest"].replace(":", "-")
    outside = tmp_path / "outside.gguf"
    blob.rename(outside)
    blob.symlink_to(outside)
    manifest(store, "big", row)
    ran = run("inspect", "ollama:big")
    assert ran.code == 3 and "leaves the folder" in ran.err
