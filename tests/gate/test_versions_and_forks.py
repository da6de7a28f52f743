"""Where a version is looked for, and engines that are none of ours to judge.

Files in the manner of those that people publish; what must be found stands beside them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import make
from tests.gate.conftest import Repo

SGLANG = "python3 -m sglang.launch_server --model-path org/big --speculative-algorithm EAGLE"
GONE = f"{SGLANG} --cuda-graph-max-bs 64\n"
"""--cuda-graph-max-bs is there until 0.5.20."""
SERVE = (
    "from vllm import LLM\n"
    "llm = LLM(model='org/big', speculative_model='org/small', num_speculative_tokens=5)\n"
)
"""Arguments of vLLM until 0.8.3."""
MODAL = """import subprocess
import modal
image = modal.Image.from_registry("lmsysorg/sglang:v0.5.10.post1-cu130-runtime").entrypoint([])
"""
PIP = """import modal, subprocess
image = modal.Image.debian_slim().uv_pip_install("vllm==0.8.2", "hf-transfer")
"""
START = """import subprocess
CMD = ["python", "-m", "sglang.launch_server", "--model-path", "org/big",
       "--speculative-algorithm", "EAGLE", "--cuda-graph-max-bs", "64"]
subprocess.run(CMD)
"""


def setups(repo: Repo, *files: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = repo.json(*files)["setups"]
    return found


def told(repo: Repo, *files: str) -> list[tuple[str | None, bool]]:
    return [(s["version"], s["version_from"] is not None) for s in setups(repo, *files)]


def severities(repo: Repo, *files: str, rule: str) -> list[str]:
    return [f["severity"] for f in repo.json(*files)["findings"] if f["rule"] == rule]


@pytest.mark.parametrize(
    ("name", "text", "beside", "version"),
    [
        ("run.py", MODAL + START, {}, "0.5.10.post1"),
        ("app/model.py", SERVE, {"config.yaml": "requirements:\n- vllm==0.6.5\n"}, "0.6.5"),
        ("run.py", PIP + SERVE, {}, "0.8.2"),
        ("serve.sh", GONE, {"Dockerfile": "FROM lmsysorg/sglang:v0.5.12-cu130\n"}, "0.5.12"),
        ("serve.sh", GONE, {"pyproject.toml": 'dependencies = ["sglang==0.5.9"]\n'}, "0.5.9"),
        (
            "bench/glm_fp8_h200_mtp.sh",
            GONE,
            {
                "configs/nvidia-master.yaml": "glm-fp8-h200-vllm-mtp:\n"
                "  image: vllm/vllm-openai:v0.25.1\n"
                "glm-fp8-h200-sglang-mtp:\n  image: lmsysorg#sglang:v0.5.12-cu130\n"
                "glm-fp8-h200-sglang:\n  image: lmsysorg/sglang:v0.5.23\n"
            },
            "0.5.12",
        ),
        (
            "config_big.yaml",
            "model-path: org/big\nspeculative-algorithm: EAGLE\ncuda-graph-max-bs: 64\n",
            {"start.py": MODAL + 'CONFIG = "config_big.yaml"\n'},
            "0.5.10.post1",
        ),
    ],
)
def test_a_version_is_found_where_people_write_it(
    name: str, text: str, beside: dict[str, str], version: str, repo: Repo
) -> None:
    repo.write(name, text)
    for other, content in beside.items():
        repo.write(other, content)
    assert told(repo, name) == [(version, True)]
    assert not severities(repo, name, rule="FIL001")


def test_the_build_of_a_release_stands_in_its_folder(repo: Repo) -> None:
    words = "-m C:\\m\\big.gguf -md C:\\m\\small.gguf --draft-max 8"
    repo.write("serve.bat", f"D:\\tools\\llama-b8900-bin-win-cuda\\llama-server.exe {words}\r\n")
    assert told(repo) == [("b8900", True)]
    assert not severities(repo, rule="FIL001")
    repo.write("serve.bat", f"D:\\tools\\llama-b9500-bin-win-cuda\\llama-server.exe {words}\r\n")
    assert severities(repo, rule="FIL001") == ["error"]


def test_an_image_of_no_known_kind_is_not_what_is_pinned_further_up(repo: Repo) -> None:
    compose = "services:\n  llm:\n    image: registry.local/our-vllm:7\n    command: {}\n"
    start = "vllm serve org/big --spec-model org/small --spec-tokens 3"
    repo.write("pyproject.toml", 'dependencies = ["vllm==0.15.1"]\n')
    repo.write("deploy/compose.yml", compose.format(start))
    (setup,) = setups(repo, "deploy/compose.yml")
    assert setup["version_from"] is None
    assert not severities(repo, "deploy/compose.yml", rule="FIL002")
    options = "    model: org/big\n    spec-model: org/small\n    spec-tokens: 3\n"
    inside = f"data:\n  serve.yaml: |\n{options}"
    pod = "---\nkind: Pod\nspec:\n  containers:\n  - image: registry.local/our-vllm:7\n"
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    repo.write("deploy/map.yaml", head + inside + pod)
    assert [s["version_from"] for s in setups(repo, "deploy/map.yaml")] == [None]
    repo.write("deploy/Dockerfile", "FROM vllm/vllm-openai:v0.15.1\n")
    assert told(repo, "deploy/compose.yml") == [("0.15.1", True)], "built from what lies there"
    assert "error" in severities(repo, "deploy/compose.yml", rule="FIL002")


def test_a_file_that_names_two_versions_names_none(repo: Repo) -> None:
    repo.write("run.py", MODAL + 'old = "lmsysorg/sglang:v0.5.3"\n' + START)
    assert [known for _, known in told(repo, "run.py")] == [False]
    assert severities(repo, "run.py", rule="FIL001") == ["note"]


def test_without_a_version_nothing_stops_and_the_versions_are_said(repo: Repo) -> None:
    repo.write("serve.sh", GONE)
    (gone,) = (f for f in repo.json()["findings"] if f["rule"] == "FIL001")
    assert (gone["severity"], gone["fixable"]) == ("note", False)
    assert "holds for sglang from 0.5.20 on" in gone["saw"]
    assert repo.gate("--engine", "sglang@0.5.23").code == 1, "the command line names a version"
    assert repo.gate("--engine", "sglang@0.5.19").code == 3
    repo.write("draftcheck.toml", '[gate.versions]\nsglang = "0.5.23"\n')
    assert repo.gate().code == 1


def test_what_every_version_refuses_is_an_error_without_one(repo: Repo) -> None:
    repo.write("serve.sh", "vllm serve org/big --speculative-config '{\"model\": org/small}'\n")
    assert severities(repo, rule="FIL008") == ["error"]
    repo.write("serve.sh", 'vllm serve org/big --speculative-config \'{"model": "org/small"}\'\n')
    assert severities(repo, rule="FIL007") == ["error"], "no version does without tokens"


BROKEN = "--model org/big --speculative-config '{\"model\": org/small}'"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("compose.yml", f"services:\n  a:\n    image: mine/a:1\n    command: >\n      {BROKEN}\n"),
        ("run.env", f'EXTRA_ARGS="{BROKEN}"\n'.replace('\\"', "")),
        ("models.yaml", "a:\n  speculative_config: {num_speculativ_tokens: 3, method: ngram}\n"),
    ],
)
def test_an_engine_that_only_options_tell_is_not_certain(name: str, text: str, repo: Repo) -> None:
    repo.write(name, text)
    found = [f for f in repo.json()["findings"] if f["rule"].startswith("FIL")]
    assert found and {f["severity"] for f in found} == {"note"}
    assert all("its options alone tell that" in f["saw"] for f in found)


def test_a_version_that_was_not_read_makes_no_error(repo: Repo) -> None:
    served = (
        f"services:\n  a:\n    image: vllm/vllm-openai:v0.15.1\n    command: >\n      {BROKEN}\n"
    )
    repo.write("compose.yml", served)
    assert severities(repo, rule="FIL008") == ["error"]
    repo.write("compose.yml", served.replace("v0.15.1", "v9.0.0"))
    assert severities(repo, rule="FIL008") == ["note"]


def test_the_image_of_one_command_is_not_the_version_of_another(repo: Repo) -> None:
    tasks = (
        "- copy:\n    content: |\n      [Service]\n      ExecStart=/bin/llama-server -m a.gguf"
        " -md b.gguf --draft-max 8\n"
        "- podman_container:\n    image: ghcr.io/ggml-org/llama.cpp:server-b9500\n"
        "    command: -m a.gguf --spec-type draft-mtp\n"
    )
    repo.write("tasks.yml", tasks)
    assert [known for _, known in told(repo, "tasks.yml")] == [False, True]
    assert severities(repo, "tasks.yml", rule="FIL001") == ["note"]


def test_a_context_given_twice_by_a_variable_is_no_warning(repo: Repo) -> None:
    repo.write(
        "serve.sh",
        'EVAL=""\nif [ -n "$ONLY" ]; then EVAL="--context-length 4096"; fi\n'
        f"{SGLANG} --context-length 8192 $EVAL\n",
    )
    assert not severities(repo, rule="FIL012")
    repo.write("serve.sh", f"{SGLANG} --context-length 8192 --context-length 4096\n")
    assert severities(repo, rule="FIL012") == ["warning"]


def test_a_key_that_stands_over_a_merged_one_is_not_given_twice(repo: Repo) -> None:
    repo.write(
        "config.yaml",
        "base: &base\n  max-num-seqs: 16\n<<: *base\nmodel: org/big\nmax-num-seqs: 64\n"
        'speculative-config: {"method": "ngram", "num_speculative_tokens": 3}\n',
    )
    assert not severities(repo, rule="FIL012")


# ---- forks ----

OWN = "-m big.gguf -md small.gguf --spec-type dflash:n=4 --draft-max 8 --spec-novel 3"


@pytest.mark.parametrize(
    ("text", "fork"),
    [
        (f"ik-llama-server {OWN}", "ik_llama.cpp"),
        (f"/opt/ik_llama.cpp/build/bin/llama-server {OWN}", "ik_llama.cpp"),
        (f"cd ~/src/ik_llama.cpp && ./build/bin/llama-server {OWN}", "ik_llama.cpp"),
        (f"docker run ghcr.io/someone/beellama:server {OWN}", "beellama.cpp"),
        (f"docker run local/beellama llama-server {OWN}", "beellama.cpp"),
        (f"/runtimes/buun-dflash-34501c5/llama-server {OWN}", "buun-llama-cpp"),
        (f"llama-cpp-turboquant/build/bin/llama-server {OWN}", "TurboQuant"),
        (f"./llamafile {OWN}", "llamafile"),
        (
            "git clone https://github.com/somebody/llama.cpp\n"
            f"llama.cpp/build/bin/llama-server {OWN}",
            "somebody/llama.cpp",
        ),
        (
            "git clone --depth 1 https://github.com/spiritbuun/buun-llama-cpp.git /src\n"
            f"/src/build/bin/llama-server {OWN}",
            "buun-llama-cpp",
        ),
    ],
)
def test_a_fork_is_named_and_not_judged(text: str, fork: str, repo: Repo) -> None:
    repo.write("serve.sh", text + "\n")
    report = repo.json()
    (setup,) = report["setups"]
    assert (setup["engine"], setup["fork"], setup["version"]) == ("llama.cpp", fork, None)
    assert [f["rule"] for f in report["findings"]] == ["GAT016"]
    assert repo.gate().code == 3
    assert f"{fork} (a fork of llama.cpp)" in repo.gate("--verbose").out


@pytest.mark.parametrize("start", ["mlx_vlm.server", "python -m mlx_vlm.server"])
def test_a_kin_of_mlx_lm_is_no_mlx_lm(start: str, repo: Repo) -> None:
    repo.write("serve.sh", f"{start} --model org/a --draft-model org/b --draft-kind mtp\n")
    (setup,) = setups(repo)
    assert (setup["engine"], setup["fork"], setup["draft"]) == ("mlx-lm", "mlx-vlm", "org/b")
    assert {rule for rule, *_ in repo.rules()} == {"GAT016"}


def test_a_dockerfile_beside_it_tells_the_fork(repo: Repo) -> None:
    repo.write("Dockerfile", "RUN git clone https://github.com/ikawrakow/ik_llama.cpp /src\n")
    repo.write("serve.sh", f"/src/build/bin/llama-server {OWN}\n")
    assert [s["fork"] for s in setups(repo, "serve.sh")] == ["ik_llama.cpp"]


@pytest.mark.parametrize(
    ("owner", "fork"), [("PrismML-Eng", "PrismML llama.cpp"), ("ggml-org", None)]
)
def test_a_flake_above_it_tells_the_fork(owner: str, fork: str | None, repo: Repo) -> None:
    repo.write("flake.nix", f'{{ inputs.llama = {{ url = "github:{owner}/llama.cpp/9ca2"; }}; }}\n')
    repo.write("bench/serve.sh", f"/nix/store/x-run/bin/llama-server {OWN}\n")
    assert [s["fork"] for s in setups(repo, "bench/serve.sh")] == [fork]


def test_what_is_built_from_the_repository_itself_is_no_release(repo: Repo) -> None:
    for name in ("convert_hf_to_gguf.py", "CMakePresets.json", "build-xcframework.sh"):
        repo.write(name, "")
    repo.write("serve.sh", f"./build/bin/llama-server {OWN}\n")
    assert [s["fork"] for s in setups(repo)] == ["a build of this repository"]
    repo.write("serve.sh", "docker run ghcr.io/ggml-org/llama.cpp:server-b9500 -m a -md b\n")
    assert [(s["fork"], s["version"]) for s in setups(repo)] == [(None, "b9500")]


def test_a_switch_that_became_an_option_is_wrong_only_since_then(repo: Repo) -> None:
    words = "-m a.gguf -md b.gguf --spec-type draft-simple -fa"
    repo.write("serve.sh", f"llama-server {words}\n")
    (found,) = (f for f in repo.json()["findings"] if f["rule"] == "FIL006")
    assert found["severity"] == "note" and "holds for llama.cpp from b6325 on" in found["saw"]
    repo.write("serve.sh", f"docker run ghcr.io/ggml-org/llama.cpp:server-b9500 {words}\n")
    assert severities(repo, rule="FIL006") == ["error"]


def test_the_engine_itself_is_no_fork(repo: Repo) -> None:
    clone = "git clone https://github.com/ggml-org/llama.cpp\n"
    plain = "llama-server -m big.gguf -md small.gguf --spec-type draft-simple\n"
    also = "# https://github.com/somebody/llama.cpp/issues/1\n"
    for text in (clone + plain, also + plain, plain):
        repo.write("serve.sh", text)
        assert [s["fork"] for s in setups(repo)] == [None], text


def test_lock_leaves_forks_alone(repo: Repo) -> None:
    repo.write("serve.sh", f"ik-llama-server {OWN}\n")
    assert repo.lock("--offline").code == 0


@pytest.mark.parametrize(
    ("files", "version", "told"),
    [
        (
            {"serve.yaml": "spec:\n  image: vllm/vllm-openai\n  version: v0.9.0\n  items:\n"
                           "  - args: [vllm, serve, a/b, --speculative-config.method, ngram]\n"},
            "0.9.0", "image tag v0.9.0",
        ),
        (
            {"chart/values.global.yaml": "vllm:\n  image:\n    repository: vllm/vllm-openai\n"
                                         "    tag: v0.9.0\n",
             "chart/templates/x.yaml": "run: vllm serve a/b --speculative-config.method ngram\n"},
            "0.9.0", "chart/values.global.yaml:4",
        ),
        (
            {"ab.py": 'IMAGE = "ghcr.io/mostlygeek/llama-swap:v245-vulkan-b10200"\n'
                      'ARGS = ["-m", "a.gguf", "--spec-type", "draft-mtp"]\n'},
            "b10200", "ab.py:1",
        ),
    ],
)  # fmt: skip
def test_a_tag_under_a_key_or_name_of_its_own(
    repo: Repo, files: dict[str, str], version: str, told: str
) -> None:
    for name, text in files.items():
        repo.write(name, text)
    (setup,) = repo.gate("--format", "json").json["setups"]
    assert setup["version"] == version and setup["version_from"].endswith(told)


def test_without_a_version_the_newest_is_shown_wherever_models_are_known_or_not(
    repo: Repo,
) -> None:
    spec = "--speculative-config.method ngram\n"
    repo.write("known.sh", f"vllm serve a/b {spec}")
    repo.write("outside.sh", f"vllm serve $MODEL {spec}")
    known, outside = repo.gate("--format", "json").json["setups"]
    assert known["version"] == outside["version"] is not None
    assert known["version_from"] is outside["version_from"] is None


def test_a_banner_is_no_pin(repo: Repo) -> None:
    repo.write("run.sh", 'echo "=== vllm ==="\nvllm serve a/b --speculative-config.method ngram\n')
    ran = repo.gate("--format", "json")
    assert "is no version" not in ran.out


def test_flags_that_went_long_ago_are_said_to_be_gone_since_then(repo: Repo) -> None:
    repo.write("run.sh", "vllm serve a/b --speculative-model c/d --num-speculative-tokens 3\n")
    about = [f for f in repo.gate("--format", "json").json["findings"] if f["rule"] == "FIL001"]
    assert about and all("from 0.8.3 on" in finding["saw"] for finding in about)


def test_the_engine_itself_kept_in_a_repository_is_not_read(repo: Repo) -> None:
    repo.write("overlay/vllm/config/speculative.py", 'x = ["--speculative-config", "{}"]\n')
    assert repo.gate("--format", "json").json["nothing_to_check"]


def test_keys_that_only_presets_have_are_known(repo: Repo) -> None:
    repo.write(
        "models.ini", "[a]\nmodel = a.gguf\nspec-type = draft-mtp\nload-on-startup = true\n"
        "stop-timeout = 5\ndedup-cache-models = 1\n",
    )  # fmt: skip
    findings = repo.gate("--format", "json").json["findings"]
    assert not [f for f in findings if f["rule"].startswith("FIL")]


@pytest.mark.parametrize(
    ("method", "version", "verdict"),
    [
        (None, "0.9.0", "undecided"), (None, "0.9.2", "undecided"),
        ("eagle", "0.9.2", "incompatible"), (None, "0.10.0", "incompatible"),
    ],
)  # fmt: skip
def test_a_method_that_is_not_named_may_go_another_way(
    repo: Repo, method: str | None, version: str, verdict: str
) -> None:
    """vLLM 0.9 takes its older engine for an EAGLE head whose method the setup does not name."""
    repo.model("big", config={**make.CONFIG, "architectures": ["Qwen2ForCausalLM"]})
    head = {**make.CONFIG, "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 1}
    tensors = {
        "fc.weight": ("BF16", [64, 128]), "layers.0.self_attn.q_proj.weight": ("BF16", [64, 64])
    }  # fmt: skip
    make.safetensors(repo.model("EAGLE-small", config=head) / "model.safetensors", tensors)
    named = {"method": method} if method else {}
    config = json.dumps({**named, "model": "EAGLE-small", "num_speculative_tokens": 2})
    repo.write("serve.sh", f"vllm serve big --speculative-config '{config}'\n")
    repo.write("requirements.txt", f"vllm=={version}\n")
    found = repo.json()
    assert found["setups"][0]["verdict"] == verdict
    said = [one["saw"] for one in found["findings"] if one["rule"] == "GAT006"]
    assert bool(said) == (verdict == "undecided")
    assert all("names no method" in one and "VLL192" in one for one in said)
