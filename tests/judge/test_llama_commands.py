"""Setups for llama.cpp: every option in them exists in the build that they are printed for.

llamacpp_options.json says in which builds llama-server takes which option; it was extracted from
llama.cpp's history by tests/agreement/extract_options.py. Where a llama-server is at hand, its own
parser reads the setups of the newest build.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from draftcheck.judge import commands
from draftcheck.judge.compare import compare
from draftcheck.judge.decide import Question, judge_methods
from draftcheck.models.read import read
from draftcheck.models.refs import parse
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Method
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import ModelFacts
from tests import make
from tests.conftest import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "agreement"))
import head_cases
from record_llamacpp import start

ENGINE = book.load("llama.cpp")
OPTIONS: dict[str, list[list[str | None]]] = json.loads(
    (Path(__file__).parents[1] / "agreement" / "llamacpp_options.json").read_text(encoding="utf-8")
)
SAID = Circumstances(context=4096, sequences=2, draft_tokens=7, kv_dtype="q8_0")
WITH_WORDS = ("--spec-type", "-ngl", "-ngld")


def number(build: str) -> int:
    return int(build.removeprefix("b"))


EDGES = sorted(
    {number(edge) for windows in OPTIONS.values() for window in windows for edge in window if edge}
    | {number(e) for m in ENGINE.methods for e in (m.since, m.until) if e}
    | {number(ENGINE.checked)}
)
FIRST = {"ngram-mod": "b7888", "draft-mtp": "b9180", "draft-eagle3": "b9606"}
FIRST |= {"draft-dflash": "b9831", "draft-dspark": "b10163"}


def first(method: Method) -> int:
    """The first build that knows it: before, a rule refuses it and nothing is printed."""
    name = "b7864" if method.id.startswith("ngram") else method.since or ENGINE.oldest
    return number(FIRST.get(method.id, name))


def builds(method: Method) -> list[int]:
    """Both sides of every edge inside the window of a method's row."""
    low = max(first(method), number(method.since or ENGINE.oldest))
    high = number(method.until) if method.until else number(ENGINE.checked) + 1
    return [b for edge in EDGES for b in (edge - 1, edge) if low <= b < high]


def there(option: str, build: int) -> bool:
    return any(
        number(since or "b0") <= build and (until is None or build < number(until))
        for since, until in OPTIONS.get(option, [])
    )


def words(command: str) -> list[str]:
    """The options of a command, with the word after them where it must be one of a list."""
    parts = shlex.split(command)
    found = []
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        if part.startswith("-"):
            found.append(part)
            if part in WITH_WORDS and not following.isdigit():
                found.append(f"{part} {following}")
    return found


def rendered(method: Method, said: Circumstances) -> list[str]:
    pair = compare(ModelFacts("org/big", "folder"), ModelFacts("org/small", "folder"))
    text = commands.render(method.setup, pair, said, method)
    return text.splitlines()


@pytest.mark.parametrize("method", ENGINE.methods, ids=lambda m: f"{m.id}-{m.since}-{m.drafts[0]}")
def test_every_option_exists_in_every_build_of_the_window(method: Method) -> None:
    assert builds(method)
    for build in builds(method):
        for line in rendered(method, SAID):
            for word in words(line):
                assert there(word, build), f"b{build} has no {word}: {line}"


def test_the_table_knows_the_renames() -> None:
    """A table that says yes to everything would prove nothing."""
    assert there("--draft-max", 8954) and not there("--draft-max", 8955)
    assert not there("--spec-draft-n-max", 8954) and there("--spec-draft-n-max", 8955)
    assert there("--spec-type draft", 9130) and not there("--spec-type draft", 9131)
    assert not there("--spec-type draft-simple", 9130) and there("--spec-type draft-simple", 9131)
    assert not there("--no-such-option", 11312)


def test_context_is_counted_for_all_sequences(tmp_path: Path, run: Run) -> None:
    """--context is per sequence; -c is what all slots share."""
    target, draft = make.gguf(tmp_path / "t.gguf"), make.gguf(tmp_path / "d.gguf")
    pair = ("pair", target, draft, "--engine", "llama.cpp", "--format", "json")
    setup = run(*pair, "--context", 4096, "--sequences", 3, "--draft-tokens", 5)
    text = setup.engine("llama.cpp")["setup"]
    assert "-np 3 -c 12288" in text and "--spec-draft-n-max 5" in text
    assert "--spec-type draft-simple" in text, "-md alone is never used since b9464"
    assert run(*pair, "--context", 4096).engine("llama.cpp")["setup"].endswith("-c 4096")
    assert " -c " not in run(*pair).engine("llama.cpp")["setup"]


def test_a_target_alone_gets_every_method_without_a_draft(tmp_path: Path, run: Run) -> None:
    target = make.gguf(tmp_path / "t.gguf")
    ran = run("pair", target, "--engine", "llama.cpp", "--format", "json")
    found = {entry["method"]: entry for entry in ran.json["engines"]}
    assert set(found) == {f"ngram-{n}" for n in ("simple", "map-k", "map-k4v", "mod", "cache")}
    assert {entry["verdict"] for entry in found.values()} == {"compatible"}
    assert all("-md" not in entry["setup"] for entry in found.values())
    old = run("pair", target, "--engine", "llama.cpp@b7863", "--format", "json")
    assert old.code == 1 and {e["decided_by"] for e in old.json["engines"]} == {"LCP200"}


def test_a_folder_of_a_head_is_converted_with_its_target() -> None:
    method = next(m for m in ENGINE.methods if m.id == "draft-eagle3")
    lines = rendered(method, Circumstances())
    assert lines[:2] == [
        "python convert_hf_to_gguf.py org/big --outfile big.gguf",
        "python convert_hf_to_gguf.py org/small --target-model-dir org/big --outfile small.gguf",
    ]
    assert lines[2].startswith("llama-server -m big.gguf -md small.gguf --spec-type draft-eagle3")


@pytest.fixture(scope="module")
def server() -> str:
    named = os.environ.get("DRAFTCHECK_LLAMA_SERVER") or shutil.which("llama-server")
    if not named or not Path(named).is_file():
        pytest.skip("DRAFTCHECK_LLAMA_SERVER does not name a llama-server, and none is on PATH")
    return named


@pytest.mark.llamacpp
def test_the_real_parser_takes_every_setup(server: str) -> None:
    """--help behind the arguments: they are parsed, and nothing is loaded."""
    newest = [m for m in ENGINE.methods if m.until is None]
    assert len(newest) >= 11
    for method in newest:
        for said in (Circumstances(), SAID):
            arguments = shlex.split(rendered(method, said)[-1])[1:]
            done = subprocess.run([server, *arguments, "--help"], capture_output=True, timeout=60)
            assert done.returncode == 0, f"{arguments}: {done.stderr.decode()[-300:]}"
    wrong = subprocess.run([server, "--draft-max", "5", "--help"], capture_output=True, timeout=60)
    assert wrong.returncode != 0, "the parser is really asked"


@pytest.mark.llamacpp
def test_a_setup_from_the_command_line_starts_speculating(server: str, tmp_path: Path) -> None:
    """What is printed is pasted: the server comes up and says that it speculates."""
    for name in ("eagle3/fits", "mtp/own-layer", "ngram/mod", "as-draft-simple/plain"):
        case = next(case for case in head_cases.CASES if case.name == name)
        folder = tmp_path / name.replace("/", "-")
        folder.mkdir()
        target, draft = head_cases.write(case, folder)
        ours = read(parse(str(target)))
        pair = compare(ours, None if draft is None else read(parse(str(draft))))
        verdict = judge_methods(pair, Question("llama.cpp", method=case.method))[0]
        assert verdict.setup is not None
        ran = start(Path(server), shlex.split(verdict.setup)[1:], folder)
        assert (ran.exit, ran.speculative, ran.request) == (None, True, None), name
