"""llama.cpp through the command line: odd bytes, tensor types, heads in folders, MTP layers."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from draftcheck.models.readers.gguf.header import TENSOR_TYPES
from tests import make
from tests.conftest import Run
from tests.hostile.support import strict_json


def test_json_of_bytes_that_are_no_text(tmp_path: Path, run: Run) -> None:
    r"""What is not UTF-8 comes out as \xNN: strict parsers refuse lone surrogates."""
    path = tmp_path / "m.gguf"
    keys = {"general.name": ("string", b"caf\xe9"), "general.author": ("string", "é\U0001f600")}
    make.gguf(path, keys=keys)
    odd = path.read_bytes().replace(b"general.author", b"general.auth\xf6r", 1)
    path.write_bytes(odd)
    for arguments in (("inspect", path), ("pair", path, path)):
        out = run(*arguments, "--format", "json").out
        strict_json(out)
        json.loads(out)["schema_version"]
        json.dumps(json.loads(out), ensure_ascii=False).encode("utf-8")
    found = run("inspect", path, "--format", "json").json["facts"]["gguf"]["keys"]
    assert found["general.name"] == ["string", "caf\\xe9"]
    assert found["general.auth\\xf6r"] == ["string", "é\U0001f600"]


def typed(path: Path, kind: int) -> Path:
    """A model whose last tensor, rows of 256, has this type."""
    keys = {"general.architecture": ("string", "qwen2")}
    keys |= {f"qwen2.{name}": ("uint32", 32) for name in ("context_length", "embedding_length")}
    keys["qwen2.block_count"] = ("uint32", 1)
    make.gguf(path, keys=keys)
    data = path.read_bytes()
    name = b"blk.0.ffn_down.weight"
    at = data.index(name) + len(name) + 4 + 16
    path.write_bytes(data[:at] + struct.pack("<I", kind) + data[at + 4 :])
    return path


@pytest.mark.parametrize(("kind", "build"), [("MXFP4", 6096), ("Q4_0", 4164)])
def test_a_type_of_tensor_comes_with_a_build(
    kind: str, build: int, tmp_path: Path, run: Run
) -> None:
    number = next(n for n, (name, *_) in TENSOR_TYPES.items() if name == kind)
    model = typed(tmp_path / "m.gguf", number)

    def rules(version: int) -> set[str]:
        ran = run("pair", model, model, "--engine", f"llama.cpp@b{version}", "--format", "json")
        return {f["rule"] for f in ran.engine("llama.cpp")["findings"] if f["outcome"] == "fail"}

    assert "LCP146" not in rules(build)
    if build > 4164:
        assert "LCP146" in rules(build - 1)


def head_folder(path: Path, **changes: Any) -> Path:
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "vocab_size": 260,
        "draft_vocab_size": 100,
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        **changes,
    }
    path.mkdir()
    make.write_json(path / "config.json", {k: v for k, v in config.items() if v is not None})
    make.safetensors(
        path / "model.safetensors",
        {
            "fc.weight": ("BF16", (64, 3 * 64)),
            "d2t": ("I64", (100,)),
            "lm_head.weight": ("BF16", (100, 64)),
            "midlayer.hidden_norm.weight": ("BF16", (64,)),
        },
    )
    return path


def judged(run: Run, target: Path, draft: Path, engine: str = "llama.cpp") -> dict[str, Any]:
    return run("pair", target, draft, "--engine", engine, "--format", "json").engine("llama.cpp")


def test_a_folder_of_an_eagle3_head(tmp_path: Path, run: Run) -> None:
    """Judged as the file that the converter would write, with the commands that write it."""
    target = make.folder(tmp_path / "target", num_hidden_layers=8)
    entry = judged(run, target, head_folder(tmp_path / "head"))
    assert (entry["method"], entry["reaction"]) == ("draft-eagle3", "runs")
    assert entry["verdict"] in ("compatible", "degraded"), entry["findings"]
    assert f"--target-model-dir {target} --outfile head.gguf" in entry["setup"]
    assert "--spec-type draft-eagle3" in entry["setup"]
    old = judged(run, target, tmp_path / "head", "llama.cpp@b9605")
    assert old["decided_by"] == "LCP133" and old["reaction"] == "refuses"


@pytest.mark.parametrize(
    ("changes", "rule", "reaction"),
    [
        ({"draft_vocab_size": None}, "LCP133", "refuses"),
        ({"architectures": ["SomethingEagle3ForCausalLM"]}, "LCP133", "refuses"),
        ({"hidden_size": 32}, "LCP205", "refuses"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4, 9]}, "LCP203", "crashes"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4]}, "LCP201", "refuses"),
    ],
)
def test_a_folder_of_a_head_that_does_not_fit(
    changes: dict[str, Any], rule: str, reaction: str, tmp_path: Path, run: Run
) -> None:
    target = make.folder(tmp_path / "target", num_hidden_layers=8)
    entry = judged(run, target, head_folder(tmp_path / "head", **changes))
    assert (entry["decided_by"], entry["reaction"]) == (rule, reaction), entry["findings"]


def test_a_target_that_feeds_no_head(tmp_path: Path, run: Run) -> None:
    target = make.folder(
        tmp_path / "t", num_hidden_layers=8, architectures=["Qwen2ForCausalLM"], model_type="qwen2"
    )
    entry = judged(run, target, head_folder(tmp_path / "head"))
    assert (entry["decided_by"], entry["reaction"]) == ("LCP222", "crashes")


@pytest.mark.parametrize(
    ("called", "build", "names", "outcome"),
    [
        ("Qwen3DSparkModel", "b10586", (), "fail"),
        ("Qwen3DSparkModel", "b10586", ("confidence_head.proj.weight",), "ok"),
        # Between two sources read: its converter has other names for these tensors.
        ("Gemma4DSparkModel", "b10600", ("confidence_proj.weight",), None),
        ("DSparkDraftModel", "b10466", (), None),
    ],
)
def test_a_folder_without_a_confidence_head(
    called: str, build: str, names: tuple[str, ...], outcome: str | None, tmp_path: Path, run: Run
) -> None:
    target = make.folder(tmp_path / "target", num_hidden_layers=8)
    head = tmp_path / "head"
    head.mkdir()
    config = {"architectures": [called], "model_type": "qwen3", "vocab_size": 260}
    config |= {"hidden_size": 64, "num_hidden_layers": 1, "target_layer_ids": [1, 4, 6]}
    config |= {"mask_token_id": 5, "block_size": 7, "markov_rank": 4, "markov_head_type": "vanilla"}
    make.write_json(head / "config.json", config)
    steps = {f"markov_head.markov_w{n}.weight": ("BF16", (260, 4)) for n in (1, 2)}
    proj = dict.fromkeys(names, ("BF16", (1, 68)))
    fc = {"fc.weight": ("BF16", (64, 192))}
    make.safetensors(head / "model.safetensors", {**fc, **steps, **proj})
    findings = judged(run, target, head, f"llama.cpp@{build}")["findings"]
    found = [one["outcome"] for one in findings if one["rule"] == "LCP230"]
    assert found == ([outcome] if outcome else []), findings


def test_a_head_in_a_folder_needs_the_target_in_a_folder(tmp_path: Path, run: Run) -> None:
    entry = judged(run, make.gguf(tmp_path / "t.gguf"), head_folder(tmp_path / "head"))
    unread = [f["saw"] for f in entry["findings"] if f["outcome"] == "unknown"]
    assert any("--target-model-dir" in saw for saw in unread)
    assert entry["setup"] is None


def test_kinds_of_heads_that_the_engine_never_takes(tmp_path: Path, run: Run) -> None:
    target = make.folder(tmp_path / "target")
    draft = make.folder(tmp_path / "medusa", architectures=["MedusaModel"], model_type="medusa")
    entry = judged(run, target, draft)
    assert entry["verdict"] == "incompatible" and "no method" in " ".join(entry["notes"])


def test_md_alone_is_named_as_a_trap(tmp_path: Path, run: Run) -> None:
    target, draft = make.gguf(tmp_path / "t.gguf"), make.gguf(tmp_path / "d.gguf")
    ask = ("pair", target, draft, "--method", "none", "--format", "json", "--engine")
    entry = run(*ask, "llama.cpp").engine("llama.cpp")
    assert (entry["reaction"], entry["decided_by"]) == ("ignores-draft", "LCP010")
    assert run(*ask, "llama.cpp@b9463").engine("llama.cpp")["verdict"] == "incompatible"
