"""Every command that is printed is one that the gate reads, understands and has nothing against.

Commands of engines are collected from the reports, written to files as somebody would paste them,
and given to `draftcheck gate`: engine, method and models must be those of the report, the verdict
too, and no option may be unknown to the version. Commands of draftcheck itself are parsed.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import draftcheck
from draftcheck.cli import cli
from draftcheck.deploy.discover import Neighbours
from draftcheck.deploy.find import find
from draftcheck.deploy.kinds import choose
from draftcheck.rulebook import book
from draftcheck.values.comparison import Comparison
from draftcheck.values.dtypes import SHORT
from draftcheck.values.verdicts import EngineVerdict
from tests.conftest import FIXTURES, Ran, Run

PAIR = FIXTURES / "pair"
SIDES = (
    ("target", "draft"), ("target.gguf", "draft.gguf"), ("target",), ("target.gguf",),
    ("heads/target-mtp",), ("target", "heads/eagle3"), ("target", "heads/medusa"),
    ("target", "heads/dflash"),
)  # fmt: skip
SAID: tuple[dict[str, Any], ...] = (
    {},
    {"gpu": "2x h100"},
    {"context": 256, "sequences": 4, "dtype": "bf16", "kv_dtype": "auto"},
    {"gpu": "2x h100", "tensor_parallel": 2, "context": 384, "memory_fraction": 0.8},
    {"gpu": "2x h100", "pipeline_parallel": 2, "draft_tokens": 3},
    {"gpu": "24GiB", "sequences": 3, "dtype": "float16", "kv_dtype": "q8_0"},
    {"gpu": "2x h100", "draft_gpu": 1, "draft_tensor_parallel": 1},
)
CONVERTED = "GAT005"
"""A GGUF that the command itself makes is not there yet."""


@pytest.fixture(scope="module")
def comparisons() -> list[Comparison]:
    every = [[str(PAIR / name) for name in names] for names in SIDES]
    return [draftcheck.check(*models, engines=["vllm"]).comparison for models in every]


def versions(name: str) -> list[str]:
    """The newest one, and those in which a method got another form."""
    engine = book.load(name)
    edges = {str(method.since).removeprefix("<=") for method in engine.methods if method.since}
    return sorted({engine.checked, *edges}, key=engine.order)


Printed = tuple[str | None, str, str]
"""Method, verdict and text."""


def printed(engine: str, version: str, comparisons: list[Comparison]) -> Iterator[Printed]:
    newest = version == book.load(engine).checked
    for comparison in comparisons:
        for said in SAID if newest else SAID[:2]:
            for entry in asked(comparison, engine, version, said):
                yield entry.method, str(entry.verdict), str(entry.setup)


def asked(
    comparison: Comparison, engine: str, version: str, said: dict[str, Any]
) -> Iterator[EngineVerdict]:
    verdict = draftcheck.decide(comparison, engines=[f"{engine}@{version}"], **said)
    return (entry for entry in verdict.engines if entry.setup is not None)


def file_name(text: str) -> str:
    """Of the file that somebody would make of it."""
    if re.match(r"(?:#.*\n)*(?:from \w+ import|import )", text):
        return "run.py"
    if text.startswith("# config.yml"):
        return "config.yml"
    return "Modelfile" if text.startswith("FROM ") else "run.sh"


def paste(text: str, folder: Path) -> Path:
    """The file that somebody would make of it."""
    folder.mkdir(parents=True)
    file = folder / file_name(text)
    file.write_text(text + "\n", encoding="utf-8")
    for model, made in re.findall(r"^#   optimum-cli .* --model (\S+) .*?(\S+)$", text, re.M):
        shutil.copytree(model, folder / made)  # stands for what the export would make
    return file


def gate(run: Run, engine: str, version: str) -> Ran:
    ran = run("gate", ".", "--engine", f"{engine}@{version}", "--format", "json", "--verbose")
    assert ran.code in (0, 3), ran.err
    return ran


@pytest.mark.parametrize("engine", sorted(book.engine_files()))
def test_the_gate_reads_what_pair_prints(
    run: Run,
    comparisons: list[Comparison],
    engine: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {rule.id for rule in book.load(engine).rules}
    for version in versions(engine):
        setups = list(dict.fromkeys(printed(engine, version, comparisons)))
        if not setups:
            continue
        root = tmp_path / version
        files = [paste(text, root / str(n)) for n, (_, _, text) in enumerate(setups)]
        monkeypatch.chdir(root)
        # Names that only a running program resolves: the user says which models they are.
        models = sorted({str(PAIR / name) for names in SIDES for name in names})
        lines = "".join(f'"{model}" = "{model}"\n' for model in models)
        Path("draftcheck.toml").write_text(f"[paths]\n{lines}", encoding="utf-8")
        body = gate(run, engine, version).json
        found = [row for row in body["findings"] if row["severity"] != "note"]
        # The engine's own rules are the reason of the verdict, which is compared below.
        found = [row for row in found if row["rule"] not in own]
        assert {row["rule"] for row in found} <= {CONVERTED}, found
        unsure = {row["file"] for row in found}
        read = {row["file"]: row for row in body["setups"]}
        assert len(read) == len(body["setups"]), "one setup a file"
        for (method, verdict, text), file in zip(setups, files, strict=True):
            name = file.relative_to(root).as_posix()
            row = read[name]
            assert (row["engine"], row["version"]) == (engine, version), text
            # -md is all that early builds have for a draft: the gate leaves the name open.
            assert row["method"] in (method, None), text
            here = f"{file.parent.name}/"  # where a model stands beside the file
            models = [str(row[side] or "").removeprefix("./").removeprefix(here)
                      for side in ("target", "draft")]  # fmt: skip
            assert models[0] and all(name in text for name in models), (models, text)
            assert name in unsure or row["verdict"] == verdict, text


SPELT = {
    "vllm": {"context", "sequences", "dtype", "tensor_parallel", "memory_fraction"},
    "sglang": {"context", "sequences", "dtype", "tensor_parallel", "memory_fraction"},
    "llama.cpp": {"context", "sequences", "kv_dtype", "draft_tokens"},
    "tabbyapi": {"context", "draft_tokens"},
    **{name: {"draft_tokens"} for name in ("exllamav2", "exllamav3", "lm-studio", "mlx-lm")},
}
"""Circumstances that must stand in the command where the engine takes them."""


@pytest.mark.parametrize("engine", sorted(book.engine_files()))
def test_the_gate_reads_the_circumstances_that_were_given(
    comparisons: list[Comparison], engine: str
) -> None:
    """What was said is in the command as it was said, or not at all: never something else."""
    version, read = book.load(engine).checked, set[str]()
    texts = [(said, str(entry.setup)) for said in SAID for comparison in comparisons[:2]
             for entry in asked(comparison, engine, version, said)]  # fmt: skip
    for said, text in dict.fromkeys((tuple(said.items()), text) for said, text in texts):
        contents = choose.read(text.encode(), file_name(text))
        assert contents is not None, text
        for found in find(contents, Neighbours({}, Path())):
            for name, value in said:
                got = found.circumstances.get(name)
                assert got in (None, SHORT.get(value, value)), (name, text)
                read |= {name} if got is not None else set()
    assert read >= SPELT.get(engine, set())


def test_recommend_and_publish_print_the_same_kind(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = PAIR / "target", PAIR / "draft"
    gpu = ("--gpu", "2x h100", "--context", "256", "--sequences", "2")
    for engine in ("vllm", "sglang", "llama.cpp"):
        asked = ("--candidate", draft, "--engine", engine, *gpu, "--format", "json")
        rows = run("recommend", target, *asked).json
        texts = [row["setup"] for row in rows["candidates"] + rows["without_draft"]]
        assert len([text for text in texts if text]) > 1
        for n, text in enumerate(filter(None, texts)):
            paste(text, tmp_path / engine / str(n))
        monkeypatch.chdir(tmp_path / engine)
        body = gate(run, engine, book.load(engine).checked).json
        assert len(body["setups"]) == len(list(filter(None, texts)))
        assert {row["rule"] for row in body["findings"] if row["severity"] != "note"} <= {CONVERTED}
    out = run("publish", PAIR / "heads" / "eagle3", "--target", target).out
    blocks = re.findall(r"(?s)```bash\n(.*?)```", out.replace("\n  ", "\n"))
    assert blocks, out
    for n, text in enumerate(blocks):
        paste(text, tmp_path / "card" / str(n))
    monkeypatch.chdir(tmp_path / "card")
    body = run("gate", ".", "--format", "json", "--verbose").json
    assert {row["engine"] for row in body["setups"]} <= set(book.engine_files())
    rules = {row["rule"] for row in body["findings"] if row["severity"] == "error"}
    assert len(body["setups"]) == len(blocks) and not rules, body["findings"]


OURS = re.compile(r"draftcheck (?:pair|recommend|trial|gate|lock|inspect|known|probe) [^`\n]+")


def test_our_own_commands_are_ours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reports tell people to run next is taken by our own parser."""
    monkeypatch.setenv("COLUMNS", "200")  # no command is broken over two lines
    told = [
        run("known", "Qwen/Qwen3-32B").out,
        run("known", "nobody/knows-this").out,
        run("recommend", PAIR / "target", "--candidate", PAIR / "draft").out,
        run("publish", PAIR / "heads" / "eagle3").out,
    ]
    found = [line for text in told for line in OURS.findall(text)]
    assert len(found) >= 3, told
    for line in found:
        name, *words = shlex.split(line.removeprefix("draftcheck ").rstrip(" .;,)"))
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        command.make_context(name, [word for word in words if word not in ("fills", "it:")])
