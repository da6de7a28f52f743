"""Which method speaks for a pair: what needs no draft, what is too old, what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from draftcheck.rulebook import book, files
from tests import make
from tests.conftest import Run

TOY = """
[engine]
id = "toy"
name = "Toy"
versions = "pep440"
oldest = "1.0"
checked = "3.0"
checked_on = 2026-11-15
complete = true

[[method]]
id = "second"
setup = "toy {target} --with {draft} --length {tokens:4}{flags}"
flags = { context = "--context {context}", sequences = "--total {total_context}" }
since = "2.0"

[[method]]
id = "words"
drafts = ["none"]
vocabulary = "none"
basis = "documented"
setup = "toy {target} --words"

[[method]]
id = "own"
drafts = ["itself"]
vocabulary = "none"
setup = "toy {target} --own"

[[rule]]
id = "TOY001"
slug = "no-second"
title = "Version 2 has no working second model"
methods = ["second"]
check = "always"
params = { says = "it is broken" }
since = "2.0"
until = "2.5"
reaction = "refuses"
severity = "error"
why = "It was."
fix = "Wait."
source = "toy.c"
basis = "read"
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "toy.toml"
    file.write_text(TOY, encoding="utf-8")
    engine = book.engine_of(files.typed(files.parse(file), book.EngineFile, file.name), file.name)
    loaded = book.load
    monkeypatch.setattr(book, "load", lambda name: engine if name == "toy" else loaded(name))


def sides(tmp_path: Path, **changes: object) -> tuple[Path, Path]:
    return make.folder(tmp_path / "big", layers=8, **changes), make.folder(tmp_path / "small")


def test_no_draft_asks_every_method_that_needs_none(run: Run, toy: None, tmp_path: Path) -> None:
    target, _ = sides(tmp_path)
    ran = run("pair", target, "--engine", "toy", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["draft"] is None
    assert [entry["method"] for entry in ran.json["engines"]] == ["words"]
    assert ran.json["engines"][0]["basis"] == "documented"
    assert ran.json["engines"][0]["setup"] == f"toy {target} --words"


def test_own_layers_come_first(run: Run, toy: None, tmp_path: Path) -> None:
    target, _ = sides(tmp_path, config={"model_type": "deepseek_v3", "num_nextn_predict_layers": 1})
    methods = [
        entry["method"]
        for entry in run("pair", target, "--engine", "toy", "--format", "json").json["engines"]
    ]
    assert methods == ["own", "words"]
    ran = run("pair", target, target, "--engine", "toy", "--format", "json")
    assert [entry["method"] for entry in ran.json["engines"]] == ["own"]


def test_a_draft_that_is_not_used_is_said(run: Run, toy: None, tmp_path: Path) -> None:
    ran = run("pair", *sides(tmp_path), "--engine", "toy", "--method", "words", "--format", "json")
    assert ran.code == 0
    assert "is not looked at" in ran.json["engines"][0]["notes"][0]


def test_a_method_that_needs_a_draft_says_so(run: Run, toy: None, tmp_path: Path) -> None:
    ran = run("pair", sides(tmp_path)[0], "--engine", "toy", "--method", "second")
    assert ran.code == 2
    assert "needs a draft" in ran.err


def test_a_version_without_the_method_is_incompatible(run: Run, toy: None, tmp_path: Path) -> None:
    pair = sides(tmp_path)
    assert run("pair", *pair, "--engine", "toy@1.5").code == 1
    assert run("pair", *pair, "--engine", "toy@1.5", "--method", "second").code == 1
    assert run("pair", *pair, "--engine", "toy@0.5", "--method", "second").code == 3


def test_a_version_that_was_not_read_is_undecided(run: Run, toy: None, tmp_path: Path) -> None:
    target = sides(tmp_path)[0]
    assert run("pair", target, "--engine", "toy@1.0", "--method", "words").code == 0
    ran = run("pair", target, "--engine", "toy@0.9", "--method", "words")
    assert ran.code == 3
    assert "older than what was read (1.0)" in ran.out


def test_setup_speaks_of_the_deployment(run: Run, toy: None, tmp_path: Path) -> None:
    target, draft = sides(tmp_path)
    told = ("--context", "4096", "--sequences", "2", "--draft-tokens", "7")
    ran = run("pair", target, draft, "--engine", "toy", *told, "--format", "json")
    assert ran.json["engines"][0]["setup"] == (
        f"toy {target} --with {draft} --length 7 --context 4096 --total 8192"
    )
    plain = run("pair", target, draft, "--engine", "toy", "--format", "json")
    assert plain.json["engines"][0]["setup"] == f"toy {target} --with {draft} --length 4"


@pytest.mark.parametrize(
    ("config", "loads"),
    [
        ({}, "AutoModelForCausalLM"),
        ({"model_type": "qwen2_5_vl", "vision_config": {}}, "AutoModelForImageTextToText"),
        ({"vision_config": {}, "auto_map": {}}, "AutoModelForCausalLM"),
        ({"model_type": "gemma3", "vision_config": {}}, "AutoModelForCausalLM"),
    ],
)
def test_setup_loads_by_the_class_of_the_target(
    run: Run, tmp_path: Path, config: dict[str, object], loads: str
) -> None:
    target, draft = sides(tmp_path, config=config)
    told = ("--engine", "transformers@5.22.2", "--method", "prompt_lookup", "--format", "json")
    setup = run("pair", target, draft, *told).json["engines"][0]["setup"]
    assert f"target = transformers.{loads}.from_pretrained(" in setup


def test_names_are_filled_in_once(run: Run, toy: None, tmp_path: Path) -> None:
    target = make.folder(tmp_path / "{draft}", layers=8)
    draft = make.folder(tmp_path / "{flags}")
    ran = run("pair", target, draft, "--engine", "toy", "--format", "json")
    assert ran.json["engines"][0]["setup"] == f"toy '{target}' --with '{draft}' --length 4"


def test_the_next_version_is_a_way_out(run: Run, toy: None, tmp_path: Path) -> None:
    target, draft = sides(tmp_path)
    ran = run("pair", target, draft, "--engine", "toy@2.1", "--format", "json")
    assert ran.code == 1
    (entry,) = ran.json["engines"]
    assert [repair["id"] for repair in entry["repairs"]] == ["other-version"]
    assert entry["repairs"][0]["title"] == "with Toy 2.5 instead: compatible"
    text = run("pair", target, draft, "--engine", "toy@2.1").out
    assert "way out (toy): with Toy 2.5 instead" in text
    assert (
        "way out (toy)"
        in run("pair", target, draft, "--engine", "toy@2.1", "--format", "markdown").out
    )


def test_a_draft_that_the_engine_runs_by_another_method(
    run: Run, toy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = sides(tmp_path)
    engine = book.load("toy")
    second, *others = engine.methods
    told = structs.replace(second, runs_as={"llama": "words 2.6"})
    changed = structs.replace(engine, methods=(told, *others))
    monkeypatch.setattr(book, "load", lambda name: changed)
    for version, method, noted in (("2.5", "second", False), ("2.6", "words", True)):
        asked = ("--engine", f"toy@{version}", "--method", "second", "--format", "json")
        entry = run("pair", target, draft, *asked).json["engines"][0]
        assert entry["method"] == method
        note = f"Toy {version} runs this draft by method words, not second"
        assert (note in entry["notes"]) is noted


@pytest.mark.parametrize(("engine", "method"), [("vllm@0.33.0", "dspark"), ("sglang", "DSPARK")])
def test_a_model_that_holds_dspark_stages_is_a_dspark_draft(
    run: Run, tmp_path: Path, engine: str, method: str
) -> None:
    whole = {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]}
    stages = {"dspark_markov_rank": 64, "dspark_block_size": 7, "dspark_noise_token_id": 5}
    wider = {**stages, "hidden_size": 512}
    names = ("V4", "V4-small", "V4-DSpark", "V4-Pro-DSpark")
    target, plain, staged, other = (tmp_path / name for name in names)
    for folder, more in ((target, {}), (plain, {}), (staged, stages), (other, wider)):
        folder.mkdir()
        make.write_json(folder / "config.json", {**whole, "vocab_size": 256, **more})
    asked = ("--engine", engine, "--gpu", "h200", "--format", "json")
    for draft, chosen in ((plain, False), (staged, True), (other, False)):
        entry = run("pair", target, draft, *asked).json["engines"][0]
        assert (entry["method"] == method) is chosen, entry
        notes = " ".join(entry["memory"]["notes"])
        assert ("only the DSpark stages are loaded" in notes) is chosen, notes
    wanted = run("pair", target, other, *asked, "--method", method).json["engines"][0]
    assert wanted["verdict"] == "undecided", wanted


@pytest.mark.parametrize(
    ("name", "version", "asked", "method"),
    [
        ("V4-DSpark", "0.24.0", (), "mtp"),
        ("V4-DSpark", "0.25.0", (), "dspark"),
        ("V4-DSpark", "0.25.0", ("--method", "mtp"), "dspark"),
        ("V4-DSpark", "0.33.0", ("--method", "draft_model"), "dspark"),
        ("V4-0731", "0.33.0", (), "mtp"),
    ],
)
def test_by_its_name_a_model_with_dspark_stages_speculates_with_them(
    run: Run, tmp_path: Path, name: str, version: str, asked: tuple[str, ...], method: str
) -> None:
    config = {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]}
    config |= {"vocab_size": 256, "num_nextn_predict_layers": 3, "dspark_block_size": 5}
    config |= {"dspark_target_layer_ids": [1, 2], "dspark_markov_rank": 64}
    (folder := tmp_path / name).mkdir()
    make.write_json(folder / "config.json", config)
    given = ("--engine", f"vllm@{version}", "--kv-dtype", "fp8", "--format", "json")
    entry = run("pair", folder, folder, *given, *asked).json["engines"][0]
    assert entry["method"] == method
    assert (entry["decided_by"] == "VLL481") is (method == "mtp")
