"""What is printed to switch a method on, for the engines that few machines have.

Every method of these engines is asked for through the command line, on small models of the kind it
takes. The names in the answer are held against lists that were taken from the engines' sources,
and against the engines themselves where they can be imported.
"""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from draftcheck.rulebook import book
from tests import make
from tests.conftest import FIXTURES, Run
from tests.deploy.engine_names import (
    ASSIGNED,
    CALLS,
    FLAGS,
    LMSTUDIO,
    TABBY_DRAFT,
    TABBY_MODEL,
    TRT,
    TRT_ANY,
)

ENGINES = (
    "tensorrt-llm", "exllamav2", "exllamav3", "tabbyapi", "mlx-lm", "lm-studio", "ollama",
    "openvino-genai",
)  # fmt: skip
REFUSED = {("ollama", "DRAFT", "full"), ("tensorrt-llm", "MTP", "mtp")}
"""Takes nothing that it is chosen for, or was not read: there is never a setup."""

# ---- small models of every kind ----

TOKENS = {
    "tokenizer.ggml.model": ("string", "gpt2"),
    "tokenizer.ggml.pre": ("string", "gpt-2"),
    "tokenizer.ggml.tokens": ("array[string]", [text.encode() for text in make.gguf_tokens()]),
    "tokenizer.ggml.token_type": ("array[int32]", [1] * len(make.gguf_tokens())),
}


def full(path: Path) -> Path:
    return make.folder(path, num_hidden_layers=16)


def head(path: Path, config: dict[str, Any]) -> Path:
    make.folder(path, config=config)
    (path / "tokenizer.json").unlink()
    return path


def own_layers(path: Path, architecture: str, model_type: str, **config: Any) -> Path:
    """A whole model that promises an MTP layer and has it."""
    make.folder(path, architectures=[architecture], model_type=model_type, **config)
    tensors = {
        "model.embed_tokens.weight": ("BF16", [260, 64]),
        "model.layers.0.mlp.up_proj.weight": ("BF16", [128, 64]),
        "mtp.layers.0.mlp.up_proj.weight": ("BF16", [128, 64]),
    }
    make.safetensors(path / "model.safetensors", tensors)
    return path


EAGLE3 = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 260}
DFLASH = {
    "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": 16,
    "dflash_config": {"mask_token_id": 3, "target_layer_ids": [1, 7, 13]},
}  # fmt: skip
DSPARK = {"architectures": ["DSparkDraftModel"], "model_type": "qwen3"}
ASSISTANT = {
    "architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant",
    "backbone_hidden_size": 64,
}  # fmt: skip


def gemma4(path: Path) -> Path:
    return make.folder(
        path, architectures=["Gemma4ForConditionalGeneration"], model_type="gemma4_text"
    )


def target_for(engine: str, kinds: tuple[str, ...], formats: tuple[str, ...], path: Path) -> Path:
    if formats[0] == "gguf":
        if not set(kinds) & {"itself", "mtp"}:
            return make.gguf(path.with_suffix(".gguf"))
        return gguf_with_own_layers(path.with_suffix(".gguf"))
    if "itself" in kinds and engine == "tensorrt-llm":
        config = {"num_nextn_predict_layers": 1}
        return own_layers(path, "DeepseekV3ForCausalLM", "deepseek_v3", **config)
    if "itself" in kinds:
        config = {"mtp_num_hidden_layers": 1}
        return own_layers(path, "Qwen3_5ForConditionalGeneration", "qwen3_5", **config)
    if "dflash" in kinds and engine == "tabbyapi":
        return make.folder(path, num_hidden_layers=16, quantization_config={"quant_method": "exl3"})
    if "dflash" in kinds and engine == "ollama":
        laguna = {"architectures": ["LagunaForCausalLM"], "model_type": "laguna"}
        return make.folder(path, num_hidden_layers=16, **laguna)
    return gemma4(path) if "mtp" in kinds else full(path)


def gguf_with_own_layers(path: Path) -> Path:
    keys = {
        "general.architecture": ("string", "qwen35"),
        "qwen35.block_count": ("uint32", 1),
        "qwen35.embedding_length": ("uint32", 32),
        "qwen35.nextn_predict_layers": ("uint32", 1),
        **TOKENS,
    }
    make.write_gguf(path, keys, {**make.gguf_tensors(300), "blk.0.nextn.eh_proj.weight": (64, 32)})
    return path


def draft_for(kinds: tuple[str, ...], formats: tuple[str, ...], path: Path) -> Path | None:
    if set(kinds) & {"itself", "none"}:
        return None
    if formats[0] == "gguf":
        return gguf_draft(kinds, path.with_suffix(".gguf"))
    for kind, config in (("eagle3", EAGLE3), ("dflash", DFLASH), ("dspark", DSPARK)):
        if kind in kinds:
            return head(path, config)
    return head(path, ASSISTANT) if "mtp" in kinds else make.folder(path)


def gguf_draft(kinds: tuple[str, ...], path: Path) -> Path:
    if "dflash" in kinds:
        keys = {
            "general.architecture": ("string", "dflash"),
            "dflash.block_count": ("uint32", 1),
            "dflash.embedding_length": ("uint32", 32),
            "dflash.target_layers": ("array[uint32]", [0]),
            "tokenizer.ggml.mask_token_id": ("uint32", 0),
            **TOKENS,
        }
        make.write_gguf(path, keys, {"fc.weight": (32, 32)})
    elif "mtp" in kinds:
        keys = {
            "general.architecture": ("string", "qwen35"),
            "qwen35.block_count": ("uint32", 2),
            "qwen35.embedding_length": ("uint32", 32),
            "qwen35.nextn_predict_layers": ("uint32", 1),
            **TOKENS,
        }
        make.write_gguf(path, keys, {"blk.1.nextn.eh_proj.weight": (64, 32)})
    else:
        make.gguf(path)
    return path


def methods() -> Iterator[tuple[str, book.Method]]:
    for engine in ENGINES:
        for method in book.load(engine).methods:
            if (engine, method.id, method.drafts[0]) not in REFUSED:
                yield engine, method


def version_of(engine: str, method: book.Method) -> str:
    """The newest one read, or where the method has gone the one that it came with."""
    return book.load(engine).checked if method.until is None else str(method.since)


every_method = pytest.mark.parametrize(
    ("engine", "method"),
    [
        pytest.param(engine, method, id=f"{engine}-{method.id}-{method.since}-{i}")
        for i, (engine, method) in enumerate(methods())
    ],
)


def printed(run: Run, tmp_path: Path, engine: str, method: book.Method, *more: object) -> str:
    target = target_for(engine, method.drafts, method.formats, tmp_path / "big one")
    draft = draft_for(method.drafts, method.formats, tmp_path / "small one")
    models = [target] if draft is None else [target, draft]
    named = f"{engine}@{version_of(engine, method)}"
    ran = run("pair", *models, "--engine", named, "--method", method.id, "--format", "json", *more)
    entry = ran.engine(engine)
    assert entry["method"] == method.id
    setup = entry["setup"]
    assert setup is not None, [f for f in entry["findings"] if f["outcome"] != "ok"]
    assert str(target) in setup or engine == "openvino-genai"
    assert draft is None or str(draft) in setup or engine == "openvino-genai"
    assert "{" + "tokens" not in setup and "{flags}" not in setup and "{draft" not in setup
    return str(setup)


@every_method
def test_setup_uses_names_that_the_engine_has(
    run: Run, tmp_path: Path, engine: str, method: book.Method
) -> None:
    checker(engine, method)(printed(run, tmp_path, engine, method), tmp_path)


@every_method
def test_setup_follows_the_deployment(
    run: Run, tmp_path: Path, engine: str, method: book.Method
) -> None:
    options = ("--context", 1024, "--sequences", 1, "--tensor-parallel", 1, "--draft-tokens", 7)
    setup = printed(run, tmp_path, engine, method, *options)
    checker(engine, method)(setup, tmp_path)
    if "{tokens:" in method.setup or "draft_tokens" in method.flags:
        assert "7" in setup
    if "context" in method.flags:
        assert "1024" in setup


def test_every_kind_of_setup_is_checked() -> None:
    assert {engine for engine, _ in methods()} == set(ENGINES)


# ---- held against the recorded names ----


def checker(engine: str, method: book.Method) -> Callable[[str, Path], None]:
    if engine == "tabbyapi":
        return assert_tabby
    if engine == "ollama":
        return assert_modelfile
    if method.id == "Triton":
        return assert_triton
    if "<<'YAML'" in method.setup:
        return assert_trtllm_serve
    return assert_python if "import " in method.setup else assert_command


def assert_python(setup: str, folder: Path) -> None:
    tree = ast.parse(setup)
    seen = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = (
                node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            )
            extra = {keyword.arg for keyword in node.keywords} - CALLS.get(name, set())
            assert not extra, f"{name} has no {extra}"
            seen += name in CALLS and name != "print"
            if name == "respond":
                assert set(ast.literal_eval(node.keywords[0].value)) <= LMSTUDIO
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            owner = ast.unparse(node.targets[0].value)
            assert node.targets[0].attr in ASSIGNED[owner]
    assert seen


def assert_command(setup: str, folder: Path) -> None:
    words = shlex.split(setup)
    assert {word for word in words if word.startswith("--")} <= FLAGS[words[0]]


def loaded(text: str) -> Any:
    return pytest.importorskip("yaml", reason="reads the config as the engine does").safe_load(text)


def assert_trtllm_serve(setup: str, folder: Path) -> None:
    """The shell writes the file that the command reads."""
    lines = setup.splitlines()
    assert_command(lines[-1], folder)
    subprocess.run(["sh", "-c", "\n".join(lines[:-1])], cwd=folder, check=True)
    body = loaded((folder / "speculative.yaml").read_text(encoding="utf-8"))
    assert set(body) <= {"speculative_config", "disable_overlap_scheduler"}
    assert_speculative(body["speculative_config"])


def assert_triton(setup: str, folder: Path) -> None:
    body = loaded(setup)
    keys = {"model", "backend", "speculative_config", "disable_overlap_scheduler"}
    assert set(body) <= keys and body["backend"] == "pytorch"
    assert_speculative(body["speculative_config"])


def assert_speculative(part: dict[str, Any]) -> None:
    assert set(part) <= TRT_ANY | TRT[part["decoding_type"]]
    assert part["decoding_type"] == "AUTO" or part["max_draft_len"] > 0


def assert_tabby(setup: str, folder: Path) -> None:
    body = loaded(setup)
    assert set(body) == {"draft_model", "model"}
    draft, model = body["draft_model"], body["model"]
    assert set(draft) <= TABBY_DRAFT and set(model) <= TABBY_MODEL
    mode = draft.get("draft_mode", "model")  # the key came in June 2026
    assert mode in ("model", "mtp", "ngram")
    named = Path(model["model_dir"]) / model["model_name"]
    assert named.is_dir()
    if mode == "model":
        assert (Path(draft["draft_model_dir"]) / draft["draft_model_name"]).is_dir()
    for name in ("max_seq_len", "cache_size", "max_batch_size"):
        assert isinstance(model.get(name, 0), int)


def assert_modelfile(setup: str, folder: Path) -> None:
    """What the shell writes, read as Ollama does: a command, a space, the rest of the line."""
    lines = setup.splitlines()
    subprocess.run(["sh", "-c", lines[0]], cwd=folder, check=True)
    written = (folder / "Modelfile").read_text(encoding="utf-8").splitlines()
    found = dict(line.split(" ", 1) for line in written)
    assert Path(found["FROM"]).exists()
    assert Path(found.get("DRAFT", found["FROM"])).exists()
    # The parameter came with 0.30.0.
    assert found.get("PARAMETER", "draft_num_predict ").startswith("draft_num_predict ")
    assert [line.split()[:2] for line in lines[1:]] == [["ollama", "create"], ["ollama", "run"]]


# ---- held against the engines themselves ----


@pytest.mark.parametrize("name", ["generate", "server"])
def test_mlx_lm_parses_its_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("mlx_lm", reason="mlx-lm is not installed here")
    import argparse
    import importlib

    method = [m for m in book.load("mlx-lm").methods if m.id == name][-1]
    words = shlex.split(printed(run, tmp_path, "mlx-lm", method))
    parse = argparse.ArgumentParser.parse_args
    seen: list[argparse.Namespace] = []

    def stop(parser: argparse.ArgumentParser, *_: Any) -> argparse.Namespace:
        seen.append(parse(parser, words[1:]))
        raise SystemExit

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    with pytest.raises(SystemExit):
        importlib.import_module(f"mlx_lm.{name}").main()
    assert seen[0].draft_model == str(tmp_path / "small one")
    assert seen[0].num_draft_tokens == 3


@pytest.mark.parametrize("name", ["draft_model", "prompt_lookup", "eagle3", "dflash"])
def test_openvino_has_the_settings(run: Run, tmp_path: Path, name: str) -> None:
    genai = pytest.importorskip("openvino_genai", reason="openvino-genai is not installed here")
    method = [m for m in book.load("openvino-genai").methods if m.id == name][-1]
    tree = ast.parse(printed(run, tmp_path, "openvino-genai", method))
    made = {"config": genai.GenerationConfig(), "scheduler": genai.SchedulerConfig()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            owner = made[ast.unparse(node.targets[0].value)]
            assert hasattr(owner, node.targets[0].attr)
            setattr(owner, node.targets[0].attr, ast.literal_eval(node.value))
    made["config"].validate()
    assert made["config"].is_assisting_generation()
    assert made["config"].is_prompt_lookup() == (name == "prompt_lookup")


def test_lmstudio_has_the_settings() -> None:
    models = pytest.importorskip("lmstudio._sdk_models", reason="lmstudio is not installed here")
    assert set(models.LlmPredictionConfigInputDict.__annotations__) >= LMSTUDIO


@pytest.mark.parametrize("name", ["model", "dflash", "mtp", "ngram"])
def test_tabbyapi_takes_its_config(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    checkout = os.environ.get("DRAFTCHECK_TABBYAPI")
    if not checkout:
        pytest.skip("DRAFTCHECK_TABBYAPI does not name a checkout of TabbyAPI")
    pytest.importorskip("pydantic", reason="TabbyAPI's config classes need pydantic")
    monkeypatch.setattr(sys, "path", [checkout, *sys.path])
    from common.config_models import TabbyConfigModel  # type: ignore[import-not-found]

    method = [m for m in book.load("tabbyapi").methods if m.id == name][-1]
    options = ("--context", 1024, "--sequences", 2, "--draft-tokens", 7)
    body = loaded(printed(run, tmp_path, "tabbyapi", method, *options))
    made = TabbyConfigModel.model_validate(body)
    assert made.draft_model.draft_mode == body["draft_model"]["draft_mode"]
    assert (made.model.max_seq_len, made.model.max_batch_size) == (1024, 2)
    assert set(TABBY_DRAFT) == set(type(made.draft_model).model_fields)
    assert set(type(made.model).model_fields) >= TABBY_MODEL


# ---- a default run over a plain pair of folders ----


def test_plain_folders_get_a_sensible_answer_from_each_engine(run: Run) -> None:
    ran = run("pair", FIXTURES / "pair/target", FIXTURES / "pair/draft", "--format", "json")
    said = {
        engine: (ran.engine(engine)["reaction"], ran.engine(engine)["verdict"])
        for engine in ENGINES
    }
    refused = said.pop("ollama")
    assert refused == ("refuses", "incompatible")
    assert set(said.values()) == {("runs", "compatible")}, said
    errors = [f for f in ran.engine("ollama")["findings"] if f["outcome"] == "fail"]
    assert [finding["rule"] for finding in errors if finding["severity"] != "note"] == ["OLL001"]


def test_a_target_alone_gets_the_methods_without_a_draft(run: Run) -> None:
    ran = run("pair", FIXTURES / "pair/target", "--format", "json")
    found = {(e["engine"], e["method"]) for e in ran.json["engines"] if e["engine"] in ENGINES}
    assert found == {
        ("tensorrt-llm", "NGram"), ("tensorrt-llm", "SA"), ("exllamav2", "ngram"),
        ("exllamav3", "ngram"), ("tabbyapi", "ngram"), ("openvino-genai", "prompt_lookup"),
    }  # fmt: skip


def test_other_special_ids_are_told_without_running_a_tokenizer(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = make.folder(tmp_path / "big")
    vocabulary = {text: 255 - i for text, i in make.byte_vocabulary().items()}
    other = make.tokenizer(vocabulary, added=("</s>", "<s>", "<pad>", "<unk>"))
    draft = make.folder(tmp_path / "small", tokenizer_json=other)

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a tokenizer was run")

    monkeypatch.setattr("subprocess.run", started)
    entry = run("pair", target, draft, "--engine", "openvino-genai", "--format", "json").engine(
        "openvino-genai"
    )
    assert (entry["reaction"], entry["verdict"]) == ("refuses", "incompatible")
    assert "OVG002" in {f["rule"] for f in entry["findings"] if f["outcome"] == "fail"}


# ---- heads and versions ----


@pytest.mark.parametrize("engine", ["mlx-lm", "exllamav2", "lm-studio", "tabbyapi"])
def test_an_engine_without_heads_says_so(run: Run, tmp_path: Path, engine: str) -> None:
    target, draft = full(tmp_path / "big"), head(tmp_path / "head", EAGLE3)
    ran = run("pair", target, draft, "--engine", engine, "--format", "json")
    assert ran.code == 1
    assert "eagle3" in " ".join(ran.engine(engine)["notes"])


@pytest.mark.parametrize(
    ("version", "verdict", "basis"),
    [
        ("0.3.9", "undecided", None),
        ("0.3.10", "compatible", "documented"),
        ("0.4.1", "compatible", "documented"),
        ("2026.8.21", "compatible", "read"),
    ],
)
def test_lm_studio_by_number_of_the_app_and_by_date_of_its_engine(
    run: Run, version: str, verdict: str, basis: str | None
) -> None:
    pair = (FIXTURES / "pair/target", FIXTURES / "pair/draft")
    entry = run("pair", *pair, "--engine", f"lm-studio@{version}", "--format", "json").engine(
        "lm-studio"
    )
    assert (entry["verdict"], entry["basis"]) == (verdict, basis)


def test_a_version_that_is_none_lists_what_is_known(run: Run) -> None:
    pair = (FIXTURES / "pair/target", FIXTURES / "pair/draft")
    ran = run("pair", *pair, "--engine", "lm-studio@newest")
    assert ran.code == 2
    assert "0.3.10" in ran.err and "2026.8.21" in ran.err


def test_tabbyapi_speaks_of_the_dead_rope_keys_where_they_would_matter(
    run: Run, tmp_path: Path
) -> None:
    target = make.folder(tmp_path / "big", max_position_embeddings=4096)
    draft = make.folder(tmp_path / "small")
    ran = run("pair", target, draft, "--engine", "tabbyapi")
    assert ran.code == 0 and "draft_rope_alpha do nothing" in ran.out
    ran = run("pair", target, draft, "--engine", "tabbyapi", "--context", 2048)
    assert "draft_rope_alpha" not in ran.out and "max_seq_len: 2048" in ran.out


def test_ollama_hands_an_ordinary_pair_to_llama_server(run: Run, tmp_path: Path) -> None:
    target, draft = make.gguf(tmp_path / "big.gguf"), make.gguf(tmp_path / "small.gguf")
    entry = run("pair", target, draft, "--engine", "ollama", "--format", "json").engine("ollama")
    assert entry["verdict"] == "incompatible"
    [repair] = [r for r in entry["repairs"] if r["id"] == "llama-server"]
    assert str(draft) in repair["text"] and "--spec-type draft-simple" in repair["text"]


def test_ollama_does_not_call_a_head_an_ordinary_draft(run: Run, tmp_path: Path) -> None:
    named = {"general.architecture": ("string", "eagle3")}
    target, head = make.gguf(tmp_path / "big.gguf"), make.gguf(tmp_path / "head.gguf", keys=named)
    entry = run("pair", target, head, "--engine", "ollama", "--format", "json").engine("ollama")
    assert entry["verdict"] == "incompatible"
    assert not [r for r in entry["repairs"] if "draft-simple" in r["text"]]


def test_gguf_files_are_judged_for_lm_studio_when_it_is_named(run: Run, tmp_path: Path) -> None:
    """By default llama.cpp speaks for them: its rules know more than a page of documentation."""
    target, draft = make.gguf(tmp_path / "big.gguf"), make.gguf(tmp_path / "small.gguf")
    ran = run("pair", target, draft, "--format", "json")
    assert "lm-studio" not in {entry["engine"] for entry in ran.json["engines"]}
    entry = run("pair", target, draft, "--engine", "lm-studio", "--format", "json").engine(
        "lm-studio"
    )
    assert (entry["method"], entry["verdict"]) == ("draft_model-gguf", "compatible")
    assert entry["basis"] == "documented"
    draft.write_bytes(draft.read_bytes()[:-64])
    assert run("pair", target, draft, "--engine", "lm-studio").code == 1
