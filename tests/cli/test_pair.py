"""`draftcheck pair` through its command line: verdicts, exit codes, formats."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from draftcheck.rulebook import book
from tests import make
from tests.conftest import FIXTURES, Run

ENGINES = [
    "llama.cpp", "vllm", "sglang", "transformers", "tensorrt-llm", "exllamav2", "exllamav3",
    "tabbyapi", "mlx-lm", "lm-studio", "ollama", "openvino-genai",
]  # fmt: skip


def test_same_tokenizer_is_compatible_everywhere(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "big", layers=8), make.folder(tmp_path / "small")
    ran = run("pair", target, draft, "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["verdict"] == "compatible"
    assert ran.json["vocabulary"]["relation"] == "identical"
    assert [entry["engine"] for entry in ran.json["engines"]] == ENGINES
    for entry in ran.json["engines"]:
        if entry["engine"] == "ollama":  # takes no ordinary draft
            assert (entry["reaction"], entry["verdict"]) == ("refuses", "incompatible"), entry
            continue
        assert (entry["reaction"], entry["verdict"]) == ("runs", "compatible"), entry
        assert str(draft) in entry["setup"]
    assert ran.engine("llama.cpp")["setup"].startswith("python convert_hf_to_gguf.py ")


def test_json_has_every_field_of_the_contract(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b")
    body = run("pair", target, draft, "--format", "json").json
    assert body["schema_version"] == 1
    top = [
        "draftcheck_version",
        "target",
        "draft",
        "vocabulary",
        "engines",
        "memory",
        "trial",
        "verdict",
    ]
    assert set(top) <= set(body)
    assert {"ref", "kind", "revision", "facts"} <= set(body["target"])
    assert body["target"]["ref"] == str(target) and body["target"]["kind"] == "folder"
    vocabulary = "relation target_size draft_size size_gap differing_ids first_difference overlap"
    assert set(vocabulary.split()) <= set(body["vocabulary"])
    entry = body["engines"][0]
    fields = "engine version version_checked method reaction verdict findings setup"
    assert set(fields.split()) <= set(entry)
    finding = "rule slug severity outcome saw why fix source"
    assert set(finding.split()) <= set(entry["findings"][0])
    assert body["memory"] is None and body["trial"] is None


def test_padding_is_refused_by_size_but_not_by_llama_cpp(run: Run, tmp_path: Path) -> None:
    target = make.folder(tmp_path / "a", vocab_size=388)
    draft = make.folder(tmp_path / "b", vocab_size=260)
    ran = run("pair", target, draft, "--format", "json")
    assert ran.json["vocabulary"]["relation"] == "padded"
    assert ran.json["vocabulary"]["size_gap"] == 128
    assert ran.engine("llama.cpp")["verdict"] == "compatible"
    for name in ("vllm", "transformers", "sglang"):
        assert ran.engine(name)["reaction"] == "refuses"
    assert ran.code == 0  # one engine takes it


def test_same_size_other_texts_runs_and_is_called_incompatible(run: Run, tmp_path: Path) -> None:
    words = {f"w{i}": i for i in range(256)}
    target = make.folder(tmp_path / "a")
    draft = make.folder(tmp_path / "b", tokenizer_json=make.tokenizer(words))
    ran = run("pair", target, draft, "--engine", "vllm", "--format", "json")
    assert ran.code == 1
    assert ran.engine("vllm")["reaction"] == "runs"
    assert ran.engine("vllm")["verdict"] == "incompatible"
    failed = [f["rule"] for f in ran.engine("vllm")["findings"] if f["outcome"] == "fail"]
    assert "TRU001" in failed


def test_other_special_tokens_degrade(run: Run, tmp_path: Path) -> None:
    target = make.folder(tmp_path / "a")
    other = make.tokenizer(added=("<s>", "</s>", "<think>", "<unk>"))
    draft = make.folder(tmp_path / "b", tokenizer_json=other)
    ran = run("pair", target, draft, "--format", "json")
    assert ran.json["vocabulary"]["relation"] == "specials-differ"
    assert ran.json["vocabulary"]["first_difference"] == {
        "id": 258,
        "target": "<pad>",
        "draft": "<think>",
    }
    assert ran.engine("vllm")["verdict"] == "degraded"
    assert ran.engine("llama.cpp")["reaction"] == "ignores-draft"
    assert ran.code == 0
    assert run("pair", target, draft, "--engine", "vllm", "--strict").code == 1


@pytest.mark.parametrize(
    ("version", "reaction"),
    [
        ("b6044", "refuses"),
        ("b6045", "falls-back"),
        ("b9108", "falls-back"),
        ("b9109", "ignores-draft"),
    ],
)
def test_one_difference_three_eras(run: Run, tmp_path: Path, version: str, reaction: str) -> None:
    target = make.gguf(tmp_path / "a.gguf", make.gguf_tokens(500))
    draft = make.gguf(tmp_path / "b.gguf", make.gguf_tokens(300))
    ran = run("pair", target, draft, "--engine", f"llama.cpp@{version}", "--format", "json")
    assert ran.engine("llama.cpp")["reaction"] == reaction


def test_a_version_beyond_the_horizon_is_marked(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b")
    ran = run("pair", target, draft, "--engine", "vllm@99.0", "--format", "json")
    assert ran.engine("vllm")["version_checked"] is False
    assert "not verified" in ran.engine("vllm")["notes"][0]
    assert "not verified" in run("pair", target, draft, "--engine", "vllm@99.0").out


def test_a_version_before_the_first_read_is_undecided(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b")
    ran = run("pair", target, draft, "--engine", "vllm@0.3.0", "--format", "json")
    assert ran.code == 3
    assert ran.engine("vllm")["verdict"] == "undecided"


def test_gguf_pair_asks_engines_that_load_gguf(run: Run, tmp_path: Path) -> None:
    target, draft = make.gguf(tmp_path / "a.gguf"), make.gguf(tmp_path / "b.gguf")
    ran = run("pair", target, draft, "--format", "json")
    assert ran.code == 0, ran.out
    engines = [entry["engine"] for entry in ran.json["engines"]]
    assert engines[0] == "llama.cpp"
    assert "vllm" not in engines
    assert run("pair", target, draft, "--engine", "vllm").code == 3


def test_md_alone_is_ignored(run: Run, tmp_path: Path) -> None:
    target, draft = make.gguf(tmp_path / "a.gguf"), make.gguf(tmp_path / "b.gguf")
    ran = run(
        "pair", target, draft, "--engine", "llama.cpp", "--method", "none", "--format", "json"
    )
    assert ran.code == 1
    assert ran.engine("llama.cpp")["reaction"] == "ignores-draft"
    assert ran.engine("llama.cpp")["decided_by"] == "LCP010"


def test_text_puts_the_answer_first_and_ends_in_a_command(run: Run) -> None:
    ran = run("pair", FIXTURES / "pair/target.gguf", FIXTURES / "pair/draft.gguf")
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[0].startswith("compatible: ")
    assert "llama-server -m " in lines[-1] and "--spec-type draft-simple" in lines[-1]


def test_text_of_a_failure_has_saw_why_and_fix(run: Run, tmp_path: Path) -> None:
    target = make.folder(tmp_path / "a", vocab_size=300)
    draft = make.folder(tmp_path / "b")
    ran = run("pair", target, draft, "--engine", "vllm")
    assert ran.code == 1
    assert "error[VLL003 vocab-size]" in ran.out
    for word in ("  saw  target vocab_size 300, draft 260", "  why  ", "  fix  ", "  says "):
        assert word in ran.out


def test_what_was_not_read_is_said_and_undecided(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b")
    (draft / "tokenizer.json").unlink()
    ran = run("pair", target, draft, "--engine", "vllm")
    assert ran.code == 3
    assert "not checked (TRU001" in ran.out and "draft" in ran.out
    assert "no tokenizer file" in ran.err


def test_quiet_prints_nothing(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b")
    ran = run("pair", target, draft, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_output_goes_to_a_file(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b")
    file = tmp_path / "report.json"
    ran = run("pair", target, draft, "--format", "json", "--output", file)
    assert ran.out == ""
    assert json.loads(file.read_text())["verdict"] == "compatible"
    assert run("pair", target, draft, "--output", tmp_path / "no" / "file").code == 3


def test_markdown_is_a_table(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "a|x"), make.folder(tmp_path / "b")
    out = run("pair", target, draft, "--format", "markdown").out
    assert out.startswith("### draftcheck: compatible")
    assert "| engine | version | method | reaction | verdict |" in out
    assert "a\\|x" in out and "a|x can" not in out


def test_verbose_lists_what_passed(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b")
    assert "ok[VLL003 vocab-size]" in run("pair", target, draft, "--verbose").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--engine", "vlm"), "unknown engine 'vlm'"),
        (("--engine", "vllm@x.y"), "'x.y' is not a version"),
        (("--engine", "vllm@"), "names no version"),
        (("--engine", "llama.cpp@0.5"), "is not a build such as b10586"),
        (("--engine", "vllm", "--method", "eagel"), "vllm has no method 'eagel'"),
        (("--method", "draft_model"), "--method needs --engine"),
        (("--context", "0"), "--context"),
        (("--format", "yaml"), "--format"),
    ],
)
def test_usage_errors(run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b")
    ran = run("pair", target, draft, *arguments)
    assert ran.code == 2
    assert words in ran.err
    assert ran.out == ""


def test_context_decides_for_sglang(run: Run, tmp_path: Path) -> None:
    target = make.folder(tmp_path / "a", max_position_embeddings=4096)
    draft = make.folder(tmp_path / "b", max_position_embeddings=2048)
    ran = run("pair", target, draft, "--engine", "sglang", "--format", "json")
    assert ran.engine("sglang")["reaction"] == "refuses"
    assert ran.engine("sglang")["decided_by"] == "SGL002"
    assert run("pair", target, draft, "--engine", "sglang", "--context", 2048).code == 0


def test_tensor_parallel_decides_for_vllm(run: Run, tmp_path: Path) -> None:
    target = make.folder(tmp_path / "a", num_attention_heads=8)
    draft = make.folder(tmp_path / "b", num_attention_heads=14)
    assert run("pair", target, draft, "--engine", "vllm").code == 0
    ran = run("pair", target, draft, "--engine", "vllm", "--tensor-parallel", 4)
    assert ran.code == 1 and "VLL008" in ran.out
    both = ("--tensor-parallel", 2, "--draft-tensor-parallel")
    assert "VLL010" in run("pair", target, draft, "--engine", "vllm@0.20.0", *both, 1).out
    assert run("pair", target, draft, "--engine", "vllm@0.31.0", *both, 1).code == 0
    assert "VLL009" in run("pair", target, draft, "--engine", "vllm", *both, 4).out


def test_python_api_gives_the_same_answer(tmp_path: Path) -> None:
    import draftcheck

    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b", vocab_size=261)
    verdict = draftcheck.check(str(target), str(draft), engines=["vllm@0.15.1"])
    assert str(verdict.verdict) == "incompatible"
    assert verdict.engines[0].decided_by == "VLL003"


OWN_LAYERS = sorted(
    {
        (name, method.id)
        for name in book.engine_files()
        for method in book.load(name).methods
        if "itself" in method.drafts
    }
)
"""Engines and their methods in which the target drafts with layers of its own."""


def same_model(tmp_path: Path, engine: str, *, layers: int) -> Path:
    """A model in a form that the engine takes, with so many MTP layers promised."""
    if engine == "ollama":
        keys = {"qwen3.nextn_predict_layers": ("uint32", layers)} if layers else {}
        return make.gguf(tmp_path / "model.gguf", make.gguf_tokens(300), keys=keys)
    return make.folder(tmp_path / "model", **({"mtp_num_hidden_layers": layers} if layers else {}))


@pytest.mark.parametrize("layers", [0, 1])
@pytest.mark.parametrize(("engine", "method"), OWN_LAYERS)
def test_a_target_named_twice_means_its_own_layers(
    run: Run, tmp_path: Path, engine: str, method: str, layers: int
) -> None:
    """Everything but the ways out, which are told where a draft was named."""
    target = same_model(tmp_path, engine, layers=layers)
    how = ("--engine", engine, "--method", method, "--format", "json")
    once, twice = run("pair", target, *how), run("pair", target, target, *how)
    assert once.json["draft"] is None
    assert twice.json["draft"]["ref"] == str(target)
    wanted, given = once.json["engines"][0], twice.json["engines"][0]
    assert given["method"] == method
    for field in ("verdict", "reaction", "findings", "setup", "notes"):
        assert given[field] == wanted[field]
    assert twice.code == once.code


def test_a_target_named_twice_without_a_method_is_an_ordinary_draft(
    run: Run, tmp_path: Path
) -> None:
    target = make.folder(tmp_path / "model")
    ran = run("pair", target, target, "--engine", "vllm", "--format", "json")
    assert ran.engine("vllm")["method"] == "draft_model"
    failed = [f["slug"] for f in ran.engine("vllm")["findings"] if f["outcome"] == "fail"]
    assert "draft-not-smaller" in failed


def test_another_draft_is_not_the_targets_own_layers(run: Run, tmp_path: Path) -> None:
    """A copy has another name, so the method is asked what it does with a whole model."""
    target, copy = make.folder(tmp_path / "model"), make.folder(tmp_path / "copy")
    ran = run("pair", target, copy, "--engine", "vllm", "--method", "mtp", "--format", "json")
    assert ran.engine("vllm")["verdict"] == "incompatible"
    saw = [f["saw"] for f in ran.engine("vllm")["findings"] if f["outcome"] == "fail"]
    assert any("the draft is: full" in text for text in saw)


# ---- the answer and the command agree with the memory section ----

LARGE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192,
    "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip
SMALL = {**LARGE, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
SMALL |= {"num_attention_heads": 32, "head_dim": 64}


@pytest.fixture
def large_pair(tmp_path: Path) -> tuple[Path, Path]:
    """The shapes of a 70B and a 1B; their weights are holes."""
    target = make.folder(tmp_path / "70b", config=LARGE)
    return target, make.folder(tmp_path / "1b", config=SMALL)


def test_what_memory_assumes_stands_in_the_command(run: Run, large_pair: tuple[Path, Path]) -> None:
    gpu = ("--gpu", "2x h100", "--format", "json")
    for engine, split, length in (
        ("vllm", "--tensor-parallel-size 2", "--max-model-len 8192"),
        ("llama.cpp", "-ngl all", "-c 8192"),
    ):
        setup = run("pair", *large_pair, "--engine", engine, *gpu).engine(engine)["setup"]
        assert split in setup and length in setup
    setup = run("pair", *large_pair, "--engine", "vllm", "--format", "json").engine("vllm")["setup"]
    assert "--tensor-parallel-size" not in setup and "--max-model-len" not in setup
    roomy = run("pair", *large_pair, "--engine", "vllm", "--gpu", "8x h200", "--format", "json")
    assert "--max-model-len" not in roomy.engine("vllm")["setup"], "its own length fits"


def test_the_first_line_says_that_it_does_not_fit(run: Run, large_pair: tuple[Path, Path]) -> None:
    ran = run("pair", *large_pair, "--engine", "vllm", "--gpu", "24GiB")
    first = ran.out.splitlines()[0]
    assert ran.code == 1
    assert first.startswith("incompatible: does not fit 24GiB with vllm: 1")
    assert "GiB needed of 22.08 GiB; fits with: the target in 4 bits" in first
    assert "to switch it on" not in ran.out
    ran = run("pair", *large_pair, "--engine", "llama.cpp", "--gpu", "24GiB")
    assert ran.code == 0
    assert ran.out.startswith("degraded: does not fit 24GiB with llama.cpp: ")
    assert "-ngl" not in ran.out.splitlines()[-1], "llama-server moves no layers that -ngl names"
    ran = run("pair", *large_pair, "--gpu", "24GiB")
    assert ran.out.startswith("degraded: does not fit 24GiB with llama.cpp: ")


def test_more_requests_than_fit_wait_in_vllm(run: Run, large_pair: tuple[Path, Path]) -> None:
    load = ("--context", "16384", "--sequences", "8")
    ran = run("pair", *large_pair, "--engine", "vllm", "--gpu", "2x h100", *load)
    assert ran.code == 0, ran.out
    assert re.search(r"room for about \d of 16,384 tokens at once, the rest waits", ran.out)


def test_the_first_line_says_that_models_are_swapped(
    run: Run, large_pair: tuple[Path, Path]
) -> None:
    ran = run("pair", *reversed(large_pair), "--engine", "vllm")
    assert re.match(
        r"degraded: swapped\? the draft is \d\d(\.\d)? times the target's size", ran.out
    )


def test_a_dtype_that_the_engine_lacks_gives_no_command(
    run: Run, large_pair: tuple[Path, Path]
) -> None:
    ran = run("pair", *large_pair, "--engine", "vllm", "--dtype", "fp8", "--format", "json")
    assert ran.code == 1 and ran.engine("vllm")["decided_by"] == "VLL195"
    ran = run("pair", *large_pair, "--engine", "vllm", "--dtype", "bf16", "--format", "json")
    assert "--dtype bfloat16" in ran.engine("vllm")["setup"]


# ---- several drafts ----


def test_several_drafts_are_compared_in_one_table(run: Run, tmp_path: Path) -> None:
    target = make.folder(tmp_path / "big", layers=8)
    good = make.folder(tmp_path / "good")
    words = {f"w{i}": i for i in range(256)}
    other = make.folder(tmp_path / "other", tokenizer_json=make.tokenizer(words))
    ran = run("pair", target, other, good, "--engine", "vllm", "--format", "json")
    assert ran.code == 0
    assert [row["draft"] for row in ran.json["candidates"]] == [str(good)]
    assert [row["draft"] for row in ran.json["rejected"]] == [str(other)]
    text = run("pair", target, other, good, "--engine", "vllm").out
    assert str(good) in text and str(other) in text and "vllm serve" in text
    assert run("pair", target, other, other, "--engine", "vllm", "--quiet").code == 1
    ran = run("pair", target, good, other, "--trial-from", "x.json")
    assert ran.code == 2 and "--trial-from takes one DRAFT" in ran.err


PAIR = FIXTURES / "pair"
SIDES = [
    ("target", "draft"), ("target.gguf", "draft.gguf"), ("target.gguf", "draft"),
    ("target", "draft.gguf"), ("target", None), ("target.gguf", None), ("heads/target-mtp", None),
    ("target", "heads/eagle3"), ("target", "heads/medusa"), ("target.gguf", "heads/dflash"),
    ("draft", "target"),
]  # fmt: skip


@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_no_reason_is_empty_and_not_applicable_is_a_word_of_its_own(
    run: Run, sides: tuple[str, str | None]
) -> None:
    asked = [word for name in ENGINES for word in ("--engine", name)]
    models = [PAIR / name for name in sides if name is not None]
    rows = run("pair", *models, *asked, "--format", "json").json["engines"]
    shown = run("pair", *models, *asked).out
    assert {row["engine"] for row in rows} == set(ENGINES)
    for row in rows:
        assert (row["reason"] is None) is (row["verdict"] == "compatible"), row
        assert row["reason"] is None or row["reason"].strip(), row
        method = re.escape(row["method"] or "-")
        [line] = re.findall(rf"(?m)^  {row['engine']}  .* {method} .*$", shown)
        assert line.endswith("not applicable" if not row["applies"] else row["verdict"]), line
        if not row["applies"]:
            assert row["verdict"] == "undecided" and "rules here cover" in row["reason"]
    assert {row["applies"] for row in rows} == {True, False} or sides[0] != "target.gguf"


def test_the_first_line_says_what_does_not_apply(run: Run) -> None:
    ran = run("pair", PAIR / "target.gguf", PAIR / "draft.gguf", "--engine", "vllm")
    first = ran.out.splitlines()[0]
    assert ran.code == 3 and first == (
        "not applicable: vLLM's rules here cover checkpoints only, not GGUF files"
    )


def test_what_was_not_found_out_about_an_engine_is_said_with_the_next_step(
    run: Run, tmp_path: Path
) -> None:
    target, draft = make.folder(tmp_path / "a"), make.folder(tmp_path / "b")
    ran = run("pair", target, draft, "--engine", "vllm", "--gpu", "mi300x")
    assert ran.code == 3
    first = ran.out.splitlines()[0]
    assert first.startswith("undecided") and "not one of NVIDIA's" in first and "mi300x" in first
    assert "unknown[VLL480" in ran.out and "fix  Try it: the target alone" in ran.out
    *_, last, command = ran.out.splitlines()
    assert last.startswith("try it with vLLM") and command.startswith("  vllm serve")
    assert "not checked" not in ran.out
