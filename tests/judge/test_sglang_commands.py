"""SGLang's command lines: what they say, and whether its own argument parser takes them."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

import pytest

from draftcheck import check
from draftcheck.judge import commands
from draftcheck.judge.compare import compare
from draftcheck.rulebook import book
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import ModelFacts
from tests import make
from tests.conftest import Run

SAID = Circumstances(
    context=4096, sequences=8, tensor_parallel=2, dtype="half", memory_fraction=0.8, draft_tokens=5
)
METHODS = book.load("sglang").methods
each = pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.id}-{m.drafts[0]}")


def line(method: book.Method, said: Circumstances) -> list[str]:
    target, draft = (ModelFacts(ref=f"org/{name}", kind="folder") for name in ("big", "small"))
    text = commands.render(method.setup, compare(target, draft), said, method)
    return shlex.split(text)


@each
def test_the_deployment_is_in_the_command(method: book.Method) -> None:
    words = line(method, SAID)
    assert words[:3] == ["python", "-m", "sglang.launch_server"]
    for flag, value in (
        ("--context-length", "4096"),
        ("--max-running-requests", "8"),
        ("--tp-size", "2"),
        ("--dtype", "half"),
        ("--mem-fraction-static", "0.8"),
        ("--speculative-algorithm", method.id),
    ):
        assert words[words.index(flag) + 1] == value
    assert "--context-length" not in line(method, Circumstances())


def test_a_draft_of_mtp_layers_gets_its_length_twice() -> None:
    """With an assistant of Gemma 4 SGLang does not work the second number out itself."""
    method = next(m for m in METHODS if m.id == "NEXTN" and "mtp" in m.drafts)
    for said, number in ((Circumstances(), "4"), (Circumstances(draft_tokens=5), "6")):
        words = line(method, said)
        assert words[words.index("--speculative-num-draft-tokens") + 1] == number


@each
def test_the_parser_takes_it(method: book.Method) -> None:
    args: Any = pytest.importorskip("sglang.srt.server_args", reason="SGLang is not installed")
    parser = argparse.ArgumentParser()
    args.ServerArgs.add_cli_args(parser)
    for said in (SAID, Circumstances()):
        parsed = parser.parse_args(line(method, said)[3:])
        assert parsed.speculative_algorithm == method.id
        assert parsed.model_path == "org/big"


def test_own_layers_need_no_second_model(run: Run, tmp_path: Path) -> None:
    config = {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
        "num_nextn_predict_layers": 1, "num_hidden_layers": 1,
    }  # fmt: skip
    target = make.folder(tmp_path / "big", config=config)
    layers = {f"model.layers.{i}.mlp.up_proj.weight": ("BF16", [128, 64]) for i in range(2)}
    embedding = {"model.embed_tokens.weight": ("BF16", [260, 64])}
    make.safetensors(target / "model.safetensors", {**embedding, **layers})
    ran = run("pair", target, "--engine", "sglang", "--format", "json")
    methods = {entry["method"]: entry for entry in ran.json["engines"]}
    assert list(methods) == ["NEXTN", "NGRAM"]
    assert methods["NEXTN"]["verdict"] == "compatible", methods["NEXTN"]
    assert f"--speculative-draft-model-path {target}" in methods["NEXTN"]["setup"]


def test_what_older_versions_lack(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "big", layers=8), make.folder(tmp_path / "small")
    assert run("pair", target, "--engine", "sglang@0.5.2", "--method", "NGRAM").code == 1
    assert run("pair", target, "--engine", "sglang@0.5.3", "--method", "NGRAM").code == 0
    assert run("pair", target, "--engine", "sglang@0.5.19", "--method", "UNO").code == 1
    assert run("pair", target, draft, "--engine", "sglang@0.5.2").code == 0


def test_old_gpus(tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "big", layers=8), make.folder(tmp_path / "small")
    seen = {}
    for gpu in ("v100-32gb", "t4", "l4"):
        [verdict] = check(str(target), str(draft), engines=["sglang"], gpu=gpu).engines
        seen[gpu] = (str(verdict.reaction), str(verdict.verdict))
    assert seen == {
        "v100-32gb": ("refuses", "incompatible"),
        "t4": ("unknown", "undecided"),
        "l4": ("runs", "compatible"),
    }
