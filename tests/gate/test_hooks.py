"""The hooks: the real pre-commit in a throw-away repository, and files that other CI reads."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.gate.conftest import GIT, Repo

HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
BAD = "docker run ghcr.io/ggml-org/llama.cpp:server-b9500 -m a.gguf -md b.gguf --draft-max 8\n"


def pre_commit(repo: Repo, config: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec("pre_commit") is None:
        pytest.skip("pre-commit is not installed")
    repo.write(".pre-commit-config.yaml", yaml.safe_dump(config))
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        "PRE_COMMIT_HOME": str(repo.path.parent / "pre-commit"),
        "PYTHONPATH": str(ROOT),
        "PIP_NO_COMPILE": "0",  # that is how pip's documentation switches compiling off
    }
    command = [sys.executable, "-m", "pre_commit", *(words or ("run", "--all-files"))]
    return subprocess.run(
        command, cwd=repo.path, env=environment, capture_output=True, text=True, check=False
    )


def local(hook: dict[str, Any]) -> dict[str, Any]:
    """The hook as it is published, run by this interpreter instead of one that is installed."""
    entry = hook["entry"].replace("draftcheck", f"{sys.executable} -m draftcheck", 1)
    fields = {**hook, "language": "system", "entry": entry}
    return {"repos": [{"repo": "local", "hooks": [fields]}]}


@pytest.fixture
def committed(good: Repo) -> Repo:
    good.git("init")
    good.git("add", "-A")
    return good


def test_the_hook_stops_a_bad_commit_and_lets_a_good_one_pass(committed: Repo) -> None:
    config = local(HOOKS[0])
    ran = pre_commit(committed, config)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    committed.write("bad.sh", BAD)
    committed.git("add", "-A")
    ran = pre_commit(committed, config)
    assert ran.returncode == 1
    assert "bad.sh:1:" in ran.stdout and "--draft-max" in ran.stdout
    committed.git("commit", "-qm", "one", "--no-verify")
    # A commit that touches no deploy file is not stopped by one that is bad already.
    committed.write("notes.txt", "nothing here\n")
    committed.git("add", "-A")
    ran = pre_commit(committed, config, "run")
    assert ran.returncode == 0, ran.stdout


def test_the_hook_needs_no_models_where_there_is_a_lock(committed: Repo) -> None:
    assert committed.lock().code == 0
    committed.git("rm", "-rq", "--cached", "models")
    subprocess.run(["rm", "-r", "models"], cwd=committed.path, check=True)
    committed.git("add", "-A")
    ran = pre_commit(committed, local(HOOKS[0]))
    assert ran.returncode == 0, ran.stdout


TEAM = {
    "deploy/docker-compose.yml": """services:
  chat:
    image: ghcr.io/ggml-org/llama.cpp:server-b9500
    command: -m /models/big.gguf -md /models/small.gguf --spec-type draft-simple --draft-max 8
""",
    "scripts/serve.sh": """#!/bin/sh
exec vllm serve "$MODEL" \\
  --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'
""",
    "llama-swap.yaml": """macros:
  server: /opt/llama-b9500-bin-ubuntu-x64/llama-server --port ${PORT}
models:
  coder:
    cmd: |
      ${server} -m ${env.HOME}/models/coder.gguf
      -md ${env.HOME}/models/tiny.gguf --spec-type draft-simple --draft-min 2
""",
}


def test_what_a_team_does(repo: Repo) -> None:
    """True errors stop the commit and --fix mends them; the rest passes, with a line each."""
    hook, strict = HOOKS[0], next(h for h in HOOKS if h["id"] == "draftcheck-strict")
    repo.git("init")
    for name, text in TEAM.items():
        repo.write(name, text)
    repo.git("add", "-A")
    ran = pre_commit(repo, local(hook))
    assert ran.returncode == 1, ran.stdout
    assert "deploy/docker-compose.yml:4:" in ran.stdout and "llama-swap.yaml:7:" in ran.stdout
    assert ran.stdout.count("error[FIL001 option-gone]") <= 2
    ran = pre_commit(repo, local({**hook, "args": ["--fix"]}))
    assert ran.returncode == 1, "pre-commit stops where a hook changes files"
    assert "--spec-draft-n-max 8" in (repo.path / "deploy/docker-compose.yml").read_text("utf-8")
    assert "--spec-draft-n-min 2" in (repo.path / "llama-swap.yaml").read_text("utf-8")
    repo.git("add", "-A")
    ran = pre_commit(repo, local(hook))
    assert ran.returncode == 0, ran.stdout
    left = [line for line in ran.stdout.splitlines() if "not checked[" in line]
    report = repo.json()
    unknown = [f for f in report["findings"] if f["outcome"] == "unknown"]
    assert len(left) == len(unknown) >= 3, ran.stdout
    assert {f["file"] for f in unknown} == set(TEAM)
    assert {"error", "warning"} & {
        f["severity"] for f in report["findings"] if f not in unknown
    } == set()
    assert repo.gate().code == 3, "the gate itself goes on saying that it did not check"
    assert pre_commit(repo, local(strict)).returncode == 1
    repo.write("draftcheck.toml", '[gate]\nunresolved = "fail"\n')
    assert pre_commit(repo, local(hook)).returncode == 1
    repo.write("draftcheck.toml", '[gate]\nunresolved = "warn"\n')
    assert repo.gate().code == 0 and repo.gate("--unresolved", "fail").code == 3
    assert pre_commit(repo, local(strict)).returncode == 1
    repo.write("draftcheck.toml", '[gate]\nunresolved = "maybe"\n')
    ran_gate = repo.gate()
    assert ran_gate.code == 1 and '"warn" or "fail"' in ran_gate.out


@pytest.mark.skipif(os.name == "nt", reason="names that Windows does not have")
def test_names_of_files_are_never_options(committed: Repo, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n", encoding="utf-8")
    for name in (f"--output={victim}", "--fix", "-", "@x", "--", "--engine", "-h", "--quiet"):
        committed.write(f"./{name}", f"#!/bin/sh\n{BAD}")
    committed.git("add", "-A")
    names = committed.git("ls-files", "-z").split("\0")
    for words in ([], ["--engine", "vllm@0.15.1"], ["--strict", "--"], ["--fix"]):
        hook = {**HOOKS[0], "args": words}
        ran = pre_commit(committed, local(hook))
        assert ran.returncode == 1, ran.stdout + ran.stderr
        for name in ("-", "@x", "--", "--engine", "-h", "--quiet", "--fix"):
            assert f"\n{name}:2:" in f"\n{ran.stdout}", ran.stdout
        assert f"--output={victim}:2:" in ran.stdout
        assert victim.read_text(encoding="utf-8") == "mine\n"
        changed = any(b"--spec-draft-n-max" in Path(name).read_bytes() for name in names if name)
        assert changed == (words == ["--fix"])


def test_what_exists_may_be_the_value_of_an_option(good: Repo) -> None:
    assert good.lock("--lock", "other.lock").code == 0
    for words in (("--lock", "other.lock"), ("--lock=other.lock",), ("--strict",), ()):
        ran = good.gate("--pre-commit", "--", *words, "serve.sh")
        assert ran.code == 0, ran.err
    assert good.gate("--pre-commit", "--", "--no-such-option", "serve.sh").code == 2
    assert good.gate("--pre-commit", "--", "no-such-file", "serve.sh").code == 2
    assert good.gate("--pre-commit", "--").code == 0


@pytest.mark.slow
def test_the_hook_as_pre_commit_installs_it(committed: Repo, tmp_path: Path) -> None:
    source = tmp_path / "draftcheck"
    copy = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if subprocess.run(copy, capture_output=True, check=False).returncode:
        pytest.skip("not a git checkout, so there is nothing that pre-commit could clone")
    names = subprocess.run(copy, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "fixtures/", "docs/rules")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"], ["tag", "v0"]):
        subprocess.run([*GIT, *words], cwd=source, check=True)
    config = {"repos": [{"repo": str(source), "rev": "v0", "hooks": [{"id": "draftcheck"}]}]}
    ran = pre_commit(committed, config)
    said = ran.stdout + ran.stderr
    if "No matching distribution" in said or "Failed to establish" in said:
        pytest.skip("no package index, so pre-commit cannot install the hook")
    assert ran.returncode == 0, said
    committed.write("bad.sh", BAD)
    committed.git("add", "-A")
    ran = pre_commit(committed, config)
    assert ran.returncode == 1 and "bad.sh:1:" in ran.stdout


def test_the_action_is_sound() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        # Inputs inside a script would be code of whoever opens a pull request.
        assert "${{" not in step.get("run", "")
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name in action["inputs"]:
        assert f"inputs.{name}" in text


def test_the_action_does_what_it_says(good: Repo, tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    [gate] = [step for step in action["runs"]["steps"] if step.get("id") == "gate"]
    program = tmp_path / "draftcheck" / "bin" / "draftcheck"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m draftcheck "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    files = {name: tmp_path / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    good.write("bad.sh", BAD)
    for named, code in (("", 1), ("serve.sh", 0), ("bad.sh serve.sh", 1), ("$(touch x) *", 2)):
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "RUNNER_TEMP": str(tmp_path), "FILES": named,
            "BASE": "", "STRICT": "false", "SARIF": "out.sarif",
            **{name: str(path) for name, path in files.items()},
        }  # fmt: skip
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", gate["run"]],
            cwd=good.path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == code, ran.stdout + ran.stderr
        assert f"exit-code={code}" in files["GITHUB_OUTPUT"].read_text(encoding="utf-8")
    assert not (good.path / "x").exists()
    assert (good.path / "out.sarif").exists()
    assert "### draftcheck gate" in files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
