"""The gate over a repository of 2,000 files with 40 setups, the lock present, and over a large one
with nothing in it.

The promise: under one second of CPU beyond the start of the interpreter, on one core, and linear
in bytes; and where 3,000 files, 200 of them YAML of a megabyte, hold no speculation, two seconds
at most. `python -m benchmarks.gate [FILES] [SETUPS]` also prints where the time goes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import models
from benchmarks.measure import Command, cpu_seconds

ROOT = Path(__file__).parent.parent
FILES, SETUPS, FAMILIES = 2000, 40, 4
ANSWERS = (0, 1, 3)
ROUNDS = 7
LARGE = 1 << 20
PROSE = "The quick brown fox serves models in batches. " * 40
YAML = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llm-{i}}}
spec:
  template:
    spec:
      containers:
        - name: engine
          image: vllm/vllm-openai:v0.15.1
          args: ["--model", "{target}", "--max-model-len", "2048", "--speculative-config",
                 '{config}']
"""
COMPOSE = """\
services:
  llm{i}:
    image: ghcr.io/ggml-org/llama.cpp:server-b9500
    command: >
      -m {target} -md {draft} --spec-type draft-simple
      -c 2048 --spec-draft-n-max 8
"""


def repository(path: Path, files: int, setups: int) -> Path:
    """Deploy files that name models of a few vocabularies, among files of other kinds."""
    for family in range(FAMILIES):
        # Every second pair shares its vocabulary, as drafts should; the others differ in a token.
        last = ("<|a|>", "<|b|>")[family % 2]
        models.folders(path / f"m/f{family}", 150_000 - family, last=last)
        models.ggufs(path / f"m/g{family}", 150_000 - family, last=last)
    for i in range(setups):
        family = i // 2 % FAMILIES
        kind = "fg"[i % 2]
        names = {"i": i, **_names(f"m/{kind}{family}", ".gguf" * (kind == "g"))}
        config = {"method": "draft_model", "model": names["draft"], "num_speculative_tokens": 4}
        text = (YAML, COMPOSE)[i % 2].format(config=json.dumps(config), **names)
        folder = path / f"deploy/{i}"
        folder.mkdir(parents=True)
        (folder / ("pod.yaml", "compose.yml")[i % 2]).write_text(text, encoding="utf-8")
    for i in range(files - setups):
        folder = path / f"src/{i % 50}"
        folder.mkdir(parents=True, exist_ok=True)
        suffix = (".py", ".md", ".yaml", ".sh", ".json", ".ts")[i % 6]
        body = {".json": json.dumps({"text": PROSE}), ".py": f"TEXT = '''{PROSE}'''\n"}
        text = body.get(suffix, f"# {PROSE}\nkey: value\n")
        (folder / f"file{i}{suffix}").write_text(text, encoding="utf-8")
    (path / "draftcheck.toml").write_text('[gate]\nexclude = ["m"]\n', encoding="utf-8")
    return path


def _names(folder: str, suffix: str) -> dict[str, str]:
    return {side: f"{folder}/{side}{suffix}" for side in ("target", "draft")}


def prepared(path: Path, files: int, setups: int) -> Path:
    """The repository with a lock and a commit, and without the models."""
    repository(path, files, setups)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "draftcheck", "lock", "--quiet"],
        cwd=path, env=environment, check=True,
    )  # fmt: skip
    shutil.rmtree(path / "m")
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=path, check=True)
    return path


def cost(path: Path, rounds: int) -> float:
    """CPU seconds of the gate beyond those of an interpreter that does nothing."""
    before = Path.cwd()
    os.environ["PYTHONPATH"] = str(ROOT)
    try:
        os.chdir(path)
        bare = Command(sys.executable, "-c", "pass")
        gate = Command(sys.executable, "-m", "draftcheck", "gate", "--quiet", codes=ANSWERS)
        costs = cpu_seconds({"bare": bare, "gate": gate}, rounds)
        return costs["gate"] - costs["bare"]
    finally:
        os.chdir(before)


def half(path: Path, whole: Path) -> Path:
    """The same repository with every second file and setup."""
    shutil.copytree(whole, path)
    for folder in ("deploy", "src"):
        for place in sorted((path / folder).iterdir())[::2]:
            shutil.rmtree(place)
    subprocess.run(["git", "add", "-A"], cwd=path, check=True)
    return path


def without_speculation(path: Path) -> Path:
    """3,000 files, 200 of them large YAML, with words of engines and none of speculation."""
    entry = "  - {name: llama-draft, spec: vllm, description: a release draft of some length}\n"
    large = "items:\n" + entry * (LARGE // len(entry))
    for i in range(3000):
        folder = path / f"{i % 50}"
        folder.mkdir(parents=True, exist_ok=True)
        suffix = (".py", ".md", ".sh", ".json", ".ts")[i % 5]
        name, text = (
            (f"{i}.yaml", large) if i < 200 else (f"{i}{suffix}", f"# {PROSE} vllm draft\n")
        )
        (folder / name).write_text(text, encoding="utf-8")
    return path


def main() -> int:
    files, setups = (int(word) for word in (sys.argv[1:3] or (FILES, SETUPS)))
    with tempfile.TemporaryDirectory() as folder:
        everything = prepared(Path(folder) / "whole", files, setups)
        few = cost(half(Path(folder) / "half", everything), ROUNDS)
        whole = cost(everything, ROUNDS)
        (Path(folder) / "none").mkdir()
        none = cost(Path(folder) / "none", ROUNDS)
        idle = cost(without_speculation(Path(folder) / "idle"), 3)
    print(f"{files:,} files, {setups} setups: {whole:.2f} s of CPU beyond an interpreter's start")
    print(f"half of both: {few:.2f} s; nothing to check: {none:.2f} s")
    print(f"twice the files cost {(whole - none) / max(few - none, 1e-9):.2f} times as much")
    print(f"3,000 files, 200 of a megabyte, no speculation: {idle:.2f} s")
    return 0 if whole < 1 and idle < 2 else 1


if __name__ == "__main__":
    sys.exit(main())
