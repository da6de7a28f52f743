"""Deploy files -> engines, versions, pairs, and what is wrong with the file, by line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from draftcheck.deploy.deployment import Deployment, Finding
from draftcheck.deploy.discover import Neighbours
from draftcheck.deploy.file_versions import Versions
from draftcheck.deploy.find import find
from draftcheck.deploy.kinds import choose
from draftcheck.deploy.options.tables import load
from draftcheck.values.words import Severity

JSON = '{"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 5}'


class Around(Neighbours):
    """Files beside the deploy file."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__({name: Path(name) for name in files}, Path())
        self.files = files

    def read(self, name: str) -> bytes | None:
        return self.files[name].encode() if name in self.files else None


def deployments(
    text: str, name: str = "run.sh", said: Mapping[str, str] | None = None, **beside: str
) -> list[Deployment]:
    contents = choose.read(text.encode(), name)
    assert contents is not None
    around = Around({key.replace("__", "."): value for key, value in beside.items()})
    return find(contents, around, Versions(contents, around, name, text.encode(), said or {}))


def one(
    text: str, name: str = "run.sh", said: Mapping[str, str] | None = None, **beside: str
) -> Deployment:
    (found,) = deployments(text, name, said, **beside)
    return found


def seen(deployment: Deployment) -> list[tuple[str, int, str]]:
    return [(f.rule, f.place.line, f.severity.value) for f in deployment.findings]


def rules(text: str, name: str = "run.sh", **beside: str) -> list[str]:
    return [f.rule for d in deployments(text, name, **beside) for f in d.findings]


def fixed(text: str, findings: tuple[Finding, ...]) -> str:
    """The text after every safe change, from back to front."""
    lines = text.split("\n")
    changes = sorted((c for f in findings for c in f.changes if c.safe), key=lambda c: c.place)
    for change in reversed(changes):
        place = change.place
        assert place.end_line == place.line and place.end_column is not None
        line = lines[place.line - 1]
        lines[place.line - 1] = (
            line[: place.column - 1] + change.text + line[place.end_column - 1 :]
        )
    return "\n".join(lines)


def llama(build: str, words: str) -> str:
    return f"docker run ghcr.io/ggml-org/llama.cpp:server-cuda-{build} {words}\n"


def vllm(version: str, words: str) -> str:
    return f"docker run vllm/vllm-openai:v{version} --model Qwen/Qwen3-8B {words}\n"


def sc(**keys: object) -> str:
    """--speculative-config with these keys; k is short for num_speculative_tokens."""
    named = {"num_speculative_tokens" if key == "k" else key: v for key, v in keys.items()}
    return f"--speculative-config '{json.dumps(named)}'"


# ---- what is found ----


@pytest.mark.parametrize(
    ("options", "ranks"),
    [("--dp-size 48 --enable-dp-attention", 1), ("--dp 4 --enable-dp-attention", 12),
     ("--enable-dp-attention", 48), ("--dp-size 48", None), ("--attn-dp-size 4", 12)],
)  # fmt: skip
def test_groups_of_sglang_have_the_drafts_attention_whole(options: str, ranks: int | None) -> None:
    found = one(
        "python -m sglang.launch_server --model-path big --speculative-algorithm EAGLE "
        f"--speculative-draft-model-path head --tp-size 48 {options}\n"
    )
    assert found.circumstances.get("draft_tensor_parallel") == ranks
    assert found.circumstances["tensor_parallel"] == 48


@pytest.mark.parametrize(
    ("options", "tokens"),
    [("DFLASH --speculative-dflash-block-size 8", 8),
     ("DSPARK --speculative-num-draft-tokens 8", 8),
     ("DSPARK --speculative-num-draft-tokens 8 --speculative-dspark-block-size 7", None),
     ("EAGLE3 --speculative-num-draft-tokens 8 --speculative-dspark-block-size 7", 8)],
)  # fmt: skip
def test_blocks_of_sglang(options: str, tokens: int | None) -> None:
    found = one(
        "python -m sglang.launch_server --model-path big --speculative-draft-model-path head "
        f"--speculative-algorithm {options}\n"
    )
    assert found.circumstances.get("draft_tokens") == tokens


def test_a_pair_with_its_circumstances() -> None:
    found = one(
        "#!/bin/sh\nMODEL=Qwen/Qwen3-8B\n"
        "vllm serve $MODEL --revision abc -tp 2 -pp 2 --max-model-len 32k --max-num-seqs=64 \\\n"
        f"  --kv-cache-dtype fp8 --dtype half --gpu-memory-utilization 0.85 \\\n  -sc '{JSON}'\n"
    )
    assert (found.engine, found.method, found.speculates) == ("vllm", "draft_model", True)
    assert found.target and found.target.text == "Qwen/Qwen3-8B@abc"
    assert found.draft and (found.draft.text, found.draft.place.line) == ("Qwen/Qwen3-0.6B", 5)
    assert found.circumstances == {
        "tensor_parallel": 2, "pipeline_parallel": 2, "context": 32000, "sequences": 64,
        "kv_dtype": "fp8", "dtype": "half", "memory_fraction": 0.85, "draft_tokens": 5,
    }  # fmt: skip
    assert not found.findings and not found.unknown


@pytest.mark.parametrize(
    ("words", "target", "draft"),
    [
        ("-m models/a/t.gguf -md d.gguf", "./models/a/t.gguf", "./d.gguf"),
        ("-hf org/t-GGUF -hfd org/d-GGUF:Q8_0", "org/t-GGUF:Q4_K_M", "org/d-GGUF:Q8_0"),
        ("-hf org/t -hff x/t.gguf -hfd org/d -md d.gguf", "org/t/x/t.gguf", "org/d/d.gguf"),
        (
            "-mu https://huggingface.co/org/t/resolve/main/t.gguf --model-draft /m/d.gguf",
            "org/t/t.gguf",
            "/m/d.gguf",
        ),
        ("--hf_repo org/t:Q5_K_M --spec-draft-model ~/d.gguf", "org/t:Q5_K_M", "~/d.gguf"),
    ],
)
def test_references_of_llama_cpp(words: str, target: str, draft: str) -> None:
    found = one(f"llama-server {words} --spec-type draft-simple -c 8192 -np 4\n")
    assert found.target and found.draft
    assert (found.target.text, found.draft.text) == (target, draft)
    assert found.circumstances == {"context": 2048, "sequences": 4}, "-c is shared by all sequences"
    assert not found.findings


def test_environment_sets_options_and_the_command_line_wins() -> None:
    found = one(
        "services:\n  llm:\n    image: ghcr.io/ggml-org/llama.cpp:server-b10000\n"
        "    environment:\n      LLAMA_ARG_MODEL: /m/t.gguf\n"
        "      LLAMA_ARG_SPEC_DRAFT_MODEL: /m/d.gguf\n      LLAMA_ARG_SPEC_TYPE: draft-simple\n"
        "      LLAMA_ARG_CTX_SIZE: 4096\n    command: -c 8192\n",
        "compose.yaml",
    )
    assert found.target and found.draft and found.target.text == "/m/t.gguf"
    assert (found.version, found.method, found.circumstances["context"]) == (
        "b10000",
        "draft-simple",
        8192,
    )
    assert not found.findings


@pytest.mark.parametrize(
    ("text", "engine", "method"),
    [
        ("sglang serve a/b --speculative-algorithm EAGLE", "sglang", "EAGLE"),
        ("python -m sglang.launch_server --model a/b --speculative-algorithm NGRAM --tp 2", "sglang", "NGRAM"),  # noqa: E501
        ("python3 -m mlx_lm server --model a/b --draft-model c/d", "mlx-lm", "server"),
        ("mlx_lm.generate --model a/b --draft-model c/d", "mlx-lm", "generate"),
        ("uv run vllm serve a/b --spec-method ngram --spec-tokens 3", "vllm", "ngram"),
        ("llama-server -m t --spec-default", "llama.cpp", "ngram-mod"),
        ("llama-server -m t -md d --spec-type ngram-mod,draft-simple", "llama.cpp", "draft-simple"),
    ],
)  # fmt: skip
def test_programs_and_methods(text: str, engine: str, method: str) -> None:
    found = one(text + "\n")
    assert (found.engine, found.method, found.speculates) == (engine, method, True)
    assert not found.findings


def test_without_speculation_nothing_is_asked() -> None:
    found = one("vllm serve a/b --no-such-thing\n")
    assert not found.speculates and not found.findings and not found.unknown
    assert not deployments("vllm bench serve --model a/b\necho llama-server\n")


# ---- versions ----


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.15.1", "0.15.1"),
        ("docker.io/vllm/vllm-openai:v0.11.0-x86_64", "0.11.0"),
        ("registry.local:5000/mirror/vllm/vllm-openai:v0.9.2@sha256:00", "0.9.2"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai@sha256:00", None),
        ("vllm/vllm-openai", None),
        ("vllm/vllm-openai:nightly-0123abc", None),
    ],
)
def test_versions_from_image_tags(image: str, version: str | None) -> None:
    found = one(f"docker run {image} --model a/b --speculative-config '{JSON}'\n")
    assert found.version == version
    assert bool(found.version_from) == bool(version) and bool(found.version_note) != bool(version)


@pytest.mark.parametrize(
    ("beside", "version"),
    [
        ({"requirements__txt": "torch\nvllm==0.15.1  # pinned\n"}, "0.15.1"),
        ({"requirements__txt": "vllm[audio]==0.16.0; python_version>'3'\n"}, "0.16.0"),
        ({"requirements__txt": "# vllm==0.9.0\nvllm>=0.9\n"}, None),
        ({"uv__lock": 'name = "vllm"\nversion = "0.14.1"\n', "requirements__txt": "vllm==0.1"}, "0.14.1"),  # noqa: E501
        ({"Pipfile__lock": '{"default": {"vllm": {"hashes": [], "version": "==0.13.0"}}}'}, "0.13.0"),  # noqa: E501
        ({"pyproject__toml": '[project]\ndependencies = ["vllm==0.12.0"]\n'}, "0.12.0"),
        ({"requirements__txt": "vllm-flash-attn==2.0\nmyvllm==1.0\n"}, None),
    ],
)  # fmt: skip
def test_versions_from_files_beside(beside: dict[str, str], version: str | None) -> None:
    found = one(f"vllm serve a/b --speculative-config '{JSON}'\n", **beside)
    assert found.version == version


def test_versions_from_the_same_file() -> None:
    script = "pip install 'vllm==0.15.1'\nvllm serve a/b --spec-method ngram\n"
    assert one(script).version == "0.15.1"
    build = "git checkout b8900\n./llama.cpp/build/bin/llama-server -m t -md d\n"
    assert one(build).version == "b8900"
    url = "https://github.com/ggml-org/llama.cpp/releases/download/b9200/llama-b9200-bin.zip"
    assert one(f"curl -LO {url}\nllama-server -m t -md d\n").version == "b9200"


# ---- what is wrong with the file ----


@pytest.mark.parametrize(
    ("build", "words", "expected"),
    [
        ("b8954", "-m t -md d --draft-max 8 --draft-min 1", []),
        ("b8955", "-m t -md d --draft-max 8 --draft-min 1", ["FIL001", "FIL001"]),
        ("b8954", "-m t -md d --spec-draft-n-max 8", ["FIL002"]),
        ("b9463", "-m t -md d", []),
        ("b9464", "-m t -md d", ["FIL009"]),
        ("b10412", "-m t -md d-dflash.gguf", ["FIL009"]),
        ("b10413", "-m t -md d-dflash.gguf", []),
        ("b10413", "-m t -md d-eagle3.gguf", ["FIL009"]),
        ("b9464", "-m t -md d --spec-type draft-simple", []),
        ("b9130", "-m t -md d --spec-type draft-simple", ["FIL006"]),
        ("b9131", "-m t -md d --spec-type draft", ["FIL006"]),
        ("b11312", "-m t -md d --spec-type ngram-mod", ["FIL009"]),
        ("b11312", "-m t --spec-type draft-simple", ["FIL010"]),
        ("b11312", "-m t --spec-type draft-mtp", []),
        ("b11312", "-m t --spec-draft-n-max 8", ["FIL010"]),
        ("b11312", "-m t --spec-typ draft-mtp", ["FIL003"]),
        ("b11312", "-m t --draft-model d.gguf --spec-type draft-simple", ["FIL003"]),
        ("b11312", "-m t -md d --spec-type draft-simple -cd 4096", ["FIL001"]),
        ("b11312", "-m t -md d --spec-type draft-simple -ctkd q3_0", ["FIL006"]),
        ("b11312", "-m t -md d --spec-type=draft-simple", ["FIL013"]),
        ("b11312", "-m t -md d --spec-type draft-simple --spec-draft-nmax 8", ["FIL003"]),
        ("b11312", "-m t -md d --spec-type draft-simple --draft-p-min x", ["FIL006"]),
        ("b11312", "-m t -md d -md e.gguf --spec-type draft-simple", ["FIL012"]),
        ("b11312", "-m t -md d --spec_type draft-simple --ctx_size 4096", []),
        ("b11312", "-m t -md d $EXTRA", []),
    ],
)  # fmt: skip
def test_llama_cpp(build: str, words: str, expected: list[str]) -> None:
    assert rules(llama(build, words)) == expected


@pytest.mark.parametrize(
    ("version", "words", "expected"),
    [
        ("0.8.2", "--speculative-model a/b --num-speculative-tokens 5", []),
        ("0.8.3", "--speculative-model a/b --num-speculative-tokens 5", ["FIL001", "FIL001"]),
        ("0.8.1", sc(method="draft_model", model="c/d", k=5), ["FIL002"]),
        ("0.14.1", sc(method="draft_model", model="c/d", k=5), []),
        ("0.15.1", sc(model="a/b", k=5), ["FIL007"]),
        ("0.15.1", sc(model="a/EAGLE3-b", k=5), []),
        ("0.17.0", sc(model="a/b", k=5), []),
        ("0.17.0", sc(method="draft_model", model="a/b"), ["FIL007"]),
        ("0.17.0", sc(method="suffix"), []),
        ("0.17.0", sc(method="mtp", k=1), []),
        ("0.17.0", sc(k=1), ["FIL010"]),
        ("0.16.0", sc(method="ngram", k=4, disable_by_batch_size=8), ["FIL004"]),
        ("0.17.0", sc(method="ngram", k=4, disable_by_batch_size=8), ["FIL001"]),
        ("0.24.0", sc(method="ngram", num_speculativ_tokens=4), ["FIL007", "FIL003"]),
        ("0.24.0", sc(method="eagel3", model="a/b", k=4), ["FIL006"]),
        ("0.10.2", sc(method="mtp", k=1), ["FIL006"]),
        ("0.24.0", sc(method="ngram", k=0), ["FIL006"]),
        ("0.24.0", sc(method="ngram", k=4).replace("}", ""), ["FIL008"]),
        ("0.24.0", "--speculative_config.method ngram -sc.num_speculative_tokens 4", []),
        ("0.24.0", f"--spec-model a/b --speculative-config '{JSON}'", ["FIL011"]),
        ("0.24.0", "--spec-model a/b --spec-tokens 4 --enable-prefix-cachin", []),
        ("0.24.0", "--spec-model a/b --spec-tokens 4 --enable-prefix-cashing", ["FIL003"]),
        ("0.24.0", "--draft-model a/b --spec-tokens 4", ["FIL003"]),
        ("0.13.0", sc(method="qwen3_next_mtp", k=2), ["FIL005"]),
    ],
)  # fmt: skip
def test_vllm(version: str, words: str, expected: list[str]) -> None:
    assert sorted(rules(vllm(version, words))) == sorted(expected)


@pytest.mark.parametrize(
    ("version", "words", "expected"),
    [
        ("0.5.3", "--speculative-draft-model-path a/b", ["FIL009"]),
        ("0.5.3", "--speculative-algorithm STANDALONE", ["FIL010"]),
        ("0.5.2", "--speculative-algorithm NGRAM", ["FIL006"]),
        ("0.5.3", "--speculative-algorithm ngram", []),
        ("0.5.10", "--speculative-algorithm DFLASH --speculative-draft-model a/b", ["FIL006"]),
        ("0.5.11", "--speculative-algorithm DFLASH --speculative-draft-model a/b", []),
        ("0.5.11", "--speculative-algo EAGLE3 --draft-model-path a/b", ["FIL003"]),
        ("0.5.11", "--speculative-algo EAGLE3 --speculative-draft-model a/b --speculative-eagle-topk 1", ["FIL007"]),  # noqa: E501
        ("0.5.11", "--speculative-config x --speculative-algorithm NGRAM", ["FIL003"]),
        ("0.5.2", "--speculative-algo EAGLE3 --speculative-draft-model a/b --speculative-num-steps 3", ["FIL007"]),  # noqa: E501
        ("0.5.23", "--speculative-algorithm STANDALONE --speculative-draft-model a/b --speculative-num-steps 3", ["FIL007"]),  # noqa: E501
        ("0.5.23", "--speculative-algo EAGLE3 --speculative-draft-model a/b --speculative-num-steps 3 --speculative-adaptive", []),  # noqa: E501
        ("0.5.23", "--speculative-algo NEXTN --speculative-draft-model a/b-assistant --speculative-num-steps 3", []),  # noqa: E501
        ("0.5.23", "--speculative-algo EAGLE3 --speculative-draft-model a/b --speculative-num-steps 3 --speculative-eagle-topk 4", ["FIL007"]),  # noqa: E501
        ("0.5.23", "--speculative-algo EAGLE3 --speculative-draft-model a/b --speculative-num-steps 3 --speculative-eagle-topk 1", []),  # noqa: E501
        ("0.5.10", "--speculative-algorithm NGRAM --enable-dp-attention --tp 2", []),
        ("0.5.10", "--speculative-algorithm NGRAM --enable-dp-attention --tp 2 --dp 1", []),
        ("0.5.10", "--speculative-algorithm NGRAM --enable-dp-attention --tp 2 --dp 2", ["FIL011"]),
        ("0.5.23", "--speculative-algorithm NGRAM --attn-dp-size 2 --tp 2", ["FIL011"]),
        ("0.5.22", "--device npu --speculative-algorithm DFLASH --speculative-draft-model a/b --tp 2 --attn-dp-size 2", []),  # noqa: E501
        ("0.5.22", "--speculative-algorithm DFLASH --speculative-draft-model a/b --tp 2 --attn-dp-size 2", ["FIL011"]),  # noqa: E501
        ("0.5.23", "--speculative-algorithm DFLASH --speculative-draft-model a/b --tp 2 --attn-dp-size 2", ["FIL007"]),  # noqa: E501
        ("0.5.23", "--speculative-algorithm DFLASH --speculative-draft-model a/b --tp 2 --attn-dp-size 2 --enable-dp-lm-head", []),  # noqa: E501
        ("0.5.23", "--speculative-algorithm DFLASH --speculative-draft-model a/b --speculative-num-draft-tokens 8 --speculative-dflash-block-size 16", ["FIL011"]),  # noqa: E501
        ("0.5.23", "--speculative-algorithm DFLASH --speculative-draft-model a/b --speculative-num-draft-tokens 8 --speculative-dflash-block-size 8", []),  # noqa: E501
        ("0.5.16", "--speculative-algorithm DSPARK --speculative-draft-model a/b --tp 2 --dp 2 --enable-dp-attention", ["FIL007"]),  # noqa: E501
    ],
)  # fmt: skip
def test_sglang(version: str, words: str, expected: list[str]) -> None:
    image = f"lmsysorg/sglang:v{version}-cu126"
    text = f"docker run {image} python3 -m sglang.launch_server --model-path m/n {words}\n"
    assert rules(text) == expected


TABBY = """model:
  model_dir: models
  model_name: big-exl3
  cache_mode: 8,8
draft_model:
  draft_model_dir: models
  draft_model_name: small-exl3
"""


TABBY_NOW = {"tabbyapi": load("tabbyapi").head.checked}


def test_tabbyapi() -> None:
    found = one(TABBY, "config.yml", TABBY_NOW)
    assert found.target and found.draft
    assert (found.target.text, found.draft.text) == ("./models/big-exl3", "./models/small-exl3")
    assert not found.findings
    worse = TABBY + "  draft_rope_alpha: 2.0\n  draft_cache_mode: 8,8\n  draft_num_token: 4\n"
    assert seen(one(worse, "config.yml", TABBY_NOW)) == [
        ("FIL004", 8, "warning"), ("FIL006", 9, "error"), ("FIL003", 10, "warning"),
    ]  # fmt: skip
    sample = TABBY + "  draft_rope_alpha:\n  draft_gpu_split: []\n"
    quiet = one(sample, "config.yml", TABBY_NOW)
    assert not quiet.findings, "a key that says nothing is not said to be dead"
    wrong = one(TABBY.replace("8,8", "Q5"), "config.yml", TABBY_NOW)
    assert seen(wrong) == [("FIL006", 4, "error")]
    off = TABBY + "  draft_mode: disabled\n"
    assert seen(one(off, "config.yml", TABBY_NOW)) == [("FIL009", 7, "error")]


def test_tabbyapi_of_old() -> None:
    text = "model:\n  model_name: big\n  draft:\n    draft_model_name: small\n"
    found = one(text, "config.yml")
    assert seen(found) == [("FIL014", 3, "warning")]
    assert found.draft and found.draft.text == "./models/small"


def test_modelfile() -> None:
    text = "FROM ./t.gguf\nDRAFT ./d.gguf\nPARAMETER num_draft 4\nPARAMETER num_ctx 8192\n"
    found = one(text, "Modelfile")
    assert found.draft and found.draft.text == "./d.gguf" and found.circumstances["context"] == 8192
    assert seen(found) == [("FIL003", 3, "error")]
    assert "draft_num_predict 4" in fixed(text, found.findings)


def test_python_calls() -> None:
    text = (
        "from vllm import LLM\nfrom transformers import AutoModelForCausalLM as M\n"
        "LLM('a/b', speculative_model='c/d', num_speculative_tokens=5)\n"
        "LLM(model='a/b', speculative_config={'model': 'c/d', 'num_speculative_tokens': 5})\n"
        "t = M.from_pretrained('a/b')\nd = M.from_pretrained('c/d')\n"
        "t.generate(x, assistant_model=d, num_assistant_tokens=5)\nt.generate(x)\n"
    )
    old, new, assisted = deployments(text, "app.py", {"vllm": "0.32.0", "transformers": "5.22.2"})
    assert seen(old) == [("FIL001", 3, "error"), ("FIL001", 3, "error")]
    assert "spec_model='c/d', spec_tokens=5" in fixed(text, old.findings)
    assert not new.findings and new.draft and new.draft.text == "c/d"
    assert (assisted.engine, seen(assisted)) == ("transformers", [("FIL004", 7, "warning")])
    assert assisted.target and assisted.target.text == "a/b"


def test_a_config_file_beside_the_command_counts() -> None:
    yaml = "model: a/b\nspeculative-config:\n  model: c/d\n  num_speculative_tokens: 5\n"
    found = one("vllm serve --config serve.yaml\n", serve__yaml=yaml)
    assert found.target and found.draft
    assert (found.target.text, found.draft.text) == ("a/b", "c/d")


def test_presets_are_one_deployment_a_section() -> None:
    text = (
        "version = 1\n[*]\nc = 8192\n[a]\nmodel = /m/t.gguf\nmodel-draft = /m/d.gguf\n"
        "draft-max = 8\nspec-type = draft-simple\n[b]\nhf-repo = org/x:Q8_0\n"
        "spec-type = draft-mtp\n"
    )
    first, second = deployments(text, "models.ini", {"llama.cpp": "b11312"})
    assert (
        first.target and first.draft and first.circumstances == {"context": 8192, "draft_tokens": 8}
    )
    assert seen(first) == [("FIL001", 7, "error")]
    assert "spec-draft-n-max = 8" in fixed(text, first.findings)
    assert second.target and (second.target.text, second.method) == ("org/x:Q8_0", "draft-mtp")
    assert not second.findings


def test_triton_names_models_that_only_the_server_knows() -> None:
    text = "".join(
        f'parameters: {{\n  key: "tensorrt_llm_{which}model_name"\n'
        f'  value: {{ string_value: "{which}x" }}\n}}\n'
        for which in ("", "draft_")
    )
    found = one(f'name: "tensorrt_llm_bls"\nbackend: "python"\n{text}', "config.pbtxt")
    assert found.speculates and len(found.unknown) == 2 and not found.findings


def test_json_in_a_string_of_a_config_file() -> None:
    text = f"model: a/b\nspeculative-config: '{JSON}'\nno-enable-prefix-caching: true\n"
    found = one(text, "serve.yaml")
    assert found.draft and (found.draft.text, found.draft.place.line) == ("Qwen/Qwen3-0.6B", 2)
    assert not found.findings


# ---- what is not known is said ----


def test_unknown_variables() -> None:
    found = one(f"vllm serve $MODEL --speculative-config '{JSON}'\n")
    assert [t.text for t in found.unknown] == ["the target is $MODEL, which is not known"]
    whole = one('vllm serve a/b --speculative-config "$SPEC"\n')
    assert whole.speculates and len(whole.unknown) == 1 and not whole.findings
    inside = '"{\\"method\\": \\"mtp\\", \\"num_speculative_tokens\\": ${N}}"'
    part = one(f"vllm serve a/b --speculative-config {inside}\n")
    assert (part.method, part.findings, part.unknown) == ("mtp", (), ())


def test_a_beginning_of_several_options_may_have_been_one_of_an_older_version() -> None:
    words = "sglang serve --model-path a/b --speculative-algo NEXTN --speculative-draft c/d\n"
    (finding,) = one(words).findings
    assert (finding.severity.value, "several options begin so" in finding.saw) == ("note", True)
    told = deployments(words, **{"requirements.txt": "sglang==0.5.11\n"})
    assert [seen(each) for each in told] == [[("FIL003", 1, "error")]]


def test_what_an_unknown_version_may_take_is_a_note_that_says_when_it_holds() -> None:
    found = one("llama-server -m t -md d --spec-type draft-simple -fmoe --draft-max 3\n")
    assert seen(found) == [("FIL003", 1, "note"), ("FIL001", 1, "note")]
    assert "holds for all versions up to b11312" in found.findings[0].saw
    assert "holds for llama.cpp from b8955 on" in found.findings[1].saw
    assert not any(finding.fixable for finding in found.findings)
    pinned = llama("b11312", "-m t -md d --spec-type draft-simple -fmoe")
    assert seen(one(pinned)) == [("FIL003", 1, "error")]


def test_an_old_name_is_deprecated_while_the_parser_takes_it_and_gone_after() -> None:
    text = "python -m sglang.launch_server --model-path a/b --speculative-algorithm EAGLE "
    text += "--cuda-graph-max-bs 8\n"
    for version, expected in (
        ("0.5.13", []),
        ("0.5.14", [("FIL005", 1, "note")]),
        ("0.5.19", [("FIL005", 1, "note")]),
        ("0.5.20", [("FIL001", 1, "error")]),
    ):
        found = one(text, said={"sglang": version})
        assert seen(found) == expected, version
        if expected:
            assert "--cuda-graph-max-bs-decode 8" in fixed(text, found.findings)
    (unknown,) = one(text).findings
    assert unknown.severity is Severity.NOTE and "from 0.5.20 on" in unknown.saw


def test_a_version_that_was_not_read_is_judged_as_the_newest() -> None:
    found = one(vllm("9.9.9", "--spec-model a/b --spec-tokens 3 --spec-novelty 3"))
    assert found.version == "9.9.9" and seen(found) == [("FIL003", 1, "warning")]


# ---- fixes ----


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (llama("b8955", "-m t -md d --draft-max 8"), "--spec-draft-n-max 8"),
        (llama("b9464", "-m t -md d -ngl 9"), "-md d --spec-type draft-simple -ngl 9"),
        (llama("b11312", "-m t --draft-model d.gguf --spec-type=draft-simple"), "-md d.gguf --spec-type draft-simple"),  # noqa: E501
        (vllm("0.22.0", "--speculative-model a/b --num-speculative-tokens 5"), "--spec-model a/b --spec-tokens 5"),  # noqa: E501
        (vllm("0.15.1", sc(model="a/b", k=5)), """'{"method": "draft_model", "model": "a/b","""),
        (vllm("0.24.0", sc(method="draft", model="a/b", num_spec_tokens=5)), '"draft_model", "model": "a/b", "num_speculative_tokens": 5'),  # noqa: E501
    ],
)  # fmt: skip
def test_safe_fixes_leave_nothing_to_find(text: str, after: str) -> None:
    better = fixed(text, one(text).findings)
    assert after in better and better != text
    assert not one(better).findings


def test_no_words_are_added_inside_a_list() -> None:
    """In a list of YAML or JSON a space would become part of a word."""
    text = (
        "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-b10000\n"
        '    command: ["-m", "t.gguf", "-md", "d.gguf"]\n'
    )
    (finding,) = one(text, "compose.yaml").findings
    assert (finding.rule, finding.changes) == ("FIL009", ())
    block = text.replace('["-m", "t.gguf", "-md", "d.gguf"]', "")
    block += "".join(f"      - {word}\n" for word in ("-m", "t.gguf", "-md", "d.gguf"))
    (finding,) = one(block, "compose.yaml").findings
    assert (finding.rule, finding.place.line, finding.changes) == ("FIL009", 7, ())
    renamed = text.replace(
        '"d.gguf"]', '"d.gguf", "--spec-type", "draft-simple", "--draft-max", "8"]'
    )
    assert '"--spec-draft-n-max", "8"' in fixed(renamed, one(renamed, "compose.yaml").findings)


def test_what_only_the_whole_shows_is_said_where_the_command_names_the_file() -> None:
    yaml = "speculative-draft-model-path: c/d\n"
    command = "python -m sglang.launch_server --model a/b --config serve.yaml"
    found = one(f"{command}\n", serve__yaml=yaml)
    assert seen(found) == [("FIL009", 1, "error")] and found.configs == ("serve.yaml",)
    better = one(f"{command} --speculative-algorithm STANDALONE\n", serve__yaml=yaml)
    assert better.draft and not better.findings
    assert not one(yaml, "serve.yaml").findings, "the command may name the algorithm"
