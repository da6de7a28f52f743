"""Ways out are commands that work: they are run here, on the embedded pair."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests import make
from tests.conftest import FIXTURES, Run


def padded(tmp_path: Path) -> tuple[Path, Path]:
    """The embedded pair, the target with 24 rows of padding more."""
    target, draft = tmp_path / "target", tmp_path / "draft"
    shutil.copytree(FIXTURES / "pair" / "draft", draft)
    shutil.copytree(FIXTURES / "pair" / "target", target)
    transformers = pytest.importorskip("transformers", reason="needs the trial extra")
    model = transformers.AutoModelForCausalLM.from_pretrained(target)
    model.resize_token_embeddings(1024, mean_resizing=False)
    model.save_pretrained(target)
    return target, draft


def test_the_padding_script_makes_the_pair_fit(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = padded(tmp_path)
    ran = run("pair", target, draft, "--engine", "vllm", "--format", "json")
    assert ran.code == 1
    repair = next(r for r in ran.engine("vllm")["repairs"] if r["id"] == "pad-draft")
    script = repair["text"].partition("<<'PY'\n")[2].partition("\nPY\n")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "pad-draft", "exec"), {})  # torch is imported here already
    config = json.loads((tmp_path / "draft-resized" / "config.json").read_text(encoding="utf-8"))
    assert config["vocab_size"] == 1024
    again = run(
        "pair", target, tmp_path / "draft-resized", "--engine", "vllm", "--engine", "sglang"
    )
    assert again.code == 0, again.out


def test_another_vocabulary_is_offered_a_transplant(run: Run, tmp_path: Path) -> None:
    other = make.tokenizer()
    vocab = other["model"]["vocab"]
    names = list(vocab)
    other["model"]["vocab"] = {name: i for i, name in enumerate(reversed(names))}
    target = make.folder(tmp_path / "big", layers=8)
    draft = make.folder(tmp_path / "small", tokenizer_json=other)
    ran = run("pair", target, draft, "--engine", "vllm", "--format", "json")
    assert ran.code == 1
    texts = {r["id"]: r["text"] for r in ran.engine("vllm")["repairs"]}
    assert f"transplant_vocab.py {draft} {target} " in texts["vocabulary-transplant"]


def test_gguf_files_are_not_transplanted(run: Run, tmp_path: Path) -> None:
    """Nor is the folder of a GGUF passed to a program that wants the file."""
    target = make.gguf(tmp_path / "target.gguf", tokens=[f"a{i}" for i in range(300)])
    (tmp_path / "one").mkdir()
    draft = make.gguf(tmp_path / "one" / "draft.gguf", tokens=[f"b{i}" for i in range(300)])
    ran = run("pair", target, draft, "--engine", "llama.cpp", "--format", "json")
    [repair] = [r for r in ran.engine("llama.cpp")["repairs"] if "transplant" in r["id"]]
    assert repair["text"] == "" and "checkpoints, not of GGUF files" in repair["title"]
    shown = run("pair", target, draft, "--engine", "llama.cpp").out
    assert "transplant_vocab.py" not in shown
    good = run("pair", draft.parent, draft.parent, "--engine", "llama.cpp", "--format", "json")
    assert f"-m {draft} " in good.engine("llama.cpp")["setup"], good.out


def test_a_good_pair_needs_no_way_out(run: Run) -> None:
    pair = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")
    for entry in run("pair", *pair, "--format", "json").json["engines"]:
        assert entry["repairs"] == [] or entry["verdict"] != "compatible"


def test_ollama_folders_are_sent_where_they_are_converted(run: Run) -> None:
    """A llama-server cannot be pointed at a folder."""
    pair = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")
    entry = run("pair", *pair, "--engine", "ollama", "--format", "json").engine("ollama")
    (text,) = [r["text"] for r in entry["repairs"] if r["id"].startswith("llama-server")]
    assert "llama-server -m" not in text
    setup = run(*text.split()[1:], "--format", "json").engine("llama.cpp")["setup"]
    assert "convert_hf_to_gguf.py" in setup


@pytest.mark.parametrize(("target_type", "offered"), [("qwen2", True), ("qwen2_5_vl", False)])
def test_a_resized_draft_is_a_way_out_only_where_it_then_runs(
    run: Run, tmp_path: Path, target_type: str, offered: bool
) -> None:
    """Qwen2.5-VL counts positions for images, and no draft of text takes them."""
    target = make.folder(tmp_path / "big", layers=8, config={
        "model_type": target_type, "architectures": ["Big"], "vocab_size": 1024,
    })  # fmt: skip
    draft = make.folder(tmp_path / "small")
    ran = run("pair", target, draft, "--engine", "transformers@5.23.0", "--method", "generate",
              "--format", "json")  # fmt: skip
    entry = ran.engine("transformers")
    assert entry["decided_by"] == "TRF001"
    assert ("resize-draft" in {repair["id"] for repair in entry["repairs"]}) is offered
