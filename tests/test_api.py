"""The Python API: functions named like the commands, their results, and what keeps them light."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import draftcheck
from draftcheck.cli.options import circumstances_options
from draftcheck.errors import DraftcheckError, ReadError, UsageError
from draftcheck.judge.compare import compare
from draftcheck.values.circumstances import Circumstances, CircumstanceWords
from draftcheck.values.results import PublicResult
from tests.conftest import FIXTURES, ROOT, Run

PAIR = FIXTURES / "pair"
TARGET, DRAFT = str(PAIR / "target"), str(PAIR / "draft")


def test_the_examples_of_the_docstring_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ran = doctest.testmod(draftcheck)
    assert ran.attempted >= 4 and ran.failed == 0


def test_functions_stay_when_the_packages_of_their_names_are_imported() -> None:
    code = (
        "import draftcheck; from draftcheck.gate import run; from draftcheck.recommend import run;"
        "from draftcheck.trial import prompts; import inspect;"
        "print([inspect.isfunction(getattr(draftcheck, name)) for name in draftcheck.__all__[1:]])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([True] * 7)


def test_the_import_loads_only_empty_packages() -> None:
    code = "import sys, draftcheck; print(*sorted(m for m in sys.modules if 'draftcheck.' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ("errors", "gate", "probe", "recommend", "settings", "trial")
    assert done.stdout.split() == [f"draftcheck.{name}" for name in names]


# ---- each result is the command's JSON, and one short line ----


def assert_public(result: PublicResult, printed: dict[str, Any], *shown: str) -> None:
    """to_dict is what the command printed; the repr is one short line with these words."""
    written = result.to_dict()
    assert written == printed
    json.dumps(written)
    shown_html = result._repr_html_()  # what a notebook calls
    assert shown_html.startswith("<pre>") and "\x1b" not in shown_html
    line = repr(result)
    assert "\n" not in line and len(line) < 100 + len(TARGET) + len(DRAFT), line
    assert all(text in line for text in shown), line


@pytest.mark.parametrize("engines", [(), ("vllm@0.15.1",), ("vllm", "llama.cpp")])
@pytest.mark.parametrize("draft", [DRAFT, None])
def test_check_is_pair(run: Run, engines: tuple[str, ...], draft: str | None) -> None:
    options = [word for engine in engines for word in ("--engine", engine)]
    named = [TARGET, *([draft] if draft else []), *options]
    verdict = draftcheck.check(TARGET, draft, engines=engines)
    shown = ("no draft" if draft is None else DRAFT, str(verdict.verdict))
    assert_public(verdict, run("pair", *named, "--format", "json").json, *shown)


def test_inspect_is_inspect(run: Run) -> None:
    facts = draftcheck.inspect(TARGET)
    printed = run("inspect", TARGET, "--format", "json").json
    assert_public(facts, printed, TARGET, "folder", "full")
    gguf = str(PAIR / "target.gguf")
    printed = run("inspect", gguf, "--format", "json").json
    assert_public(draftcheck.inspect(gguf), printed, "gguf")


def test_recommend_is_recommend(run: Run) -> None:
    answer = draftcheck.recommend(TARGET, candidates=[DRAFT], engines=["vllm"], gpu="24GiB")
    options = ("--candidate", DRAFT, "--engine", "vllm", "--gpu", "24GiB", "--format", "json")
    assert_public(answer, run("recommend", TARGET, *options).json, "1 drafts", DRAFT)
    nothing = draftcheck.recommend(TARGET, candidates=[DRAFT], max_size=1)
    assert "0 drafts; 1 turned away" in repr(nothing)


def test_gate_is_gate(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FIXTURES / "deploy")
    report = draftcheck.gate("compose", versions={"vllm": "0.15.1"})
    printed = run("gate", "compose", "--engine", "vllm@0.15.1", "--format", "json").json
    assert_public(report, printed, "files", "setups", str(report.verdict))


def test_probe_is_probe(run: Run) -> None:
    from tests.probe.conftest import RECORDED
    from tests.probe.server import Fake

    fake = Fake(RECORDED["draft"]["served"])
    try:
        result = draftcheck.probe(fake.url)
        printed = run("probe", fake.url, "--format", "json").json
    finally:
        fake.close()
    assert_public(result, printed, "speculating", "llama.cpp")


def test_the_package_tells_type_checkers_its_types() -> None:
    assert (Path(draftcheck.__file__).parent / "py.typed").is_file()


def test_texts_of_a_hostile_model_stay_on_one_line() -> None:
    from dataclasses import replace

    facts = replace(draftcheck.inspect(TARGET), ref="a\x1b[31m\nb")
    verdict = draftcheck.decide(compare(facts, facts), engines=["vllm"])
    assert "\x1b" not in repr(facts) + repr(verdict) and "\n" not in repr(facts) + repr(verdict)


# ---- circumstances ----


def test_circumstances_are_named_alike_everywhere() -> None:
    """Fields of the dataclass, keyword arguments of the API, options of the command line."""
    worked_out = {"capability", "machine"}  # from gpu
    words = {field.name for field in fields(Circumstances)} - worked_out
    assert set(CircumstanceWords.__annotations__) == words
    options = circumstances_options(lambda: None).__click_params__  # type: ignore[attr-defined]
    assert {option.name for option in options} == words


def test_circumstances_by_name_win_over_the_object() -> None:
    given = Circumstances(gpu="24GiB", context=4096)
    by_name = draftcheck.check(
        TARGET, DRAFT, engines=["vllm"], circumstances=given, context=128
    ).to_dict()
    whole = Circumstances(gpu="24GiB", context=128)
    assert (
        by_name == draftcheck.check(TARGET, DRAFT, engines=["vllm"], circumstances=whole).to_dict()
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda **words: draftcheck.check(TARGET, DRAFT, **words),
        lambda **words: draftcheck.recommend(TARGET, candidates=[DRAFT], **words),
        lambda **words: draftcheck.decide(
            compare(draftcheck.inspect(TARGET), draftcheck.inspect(DRAFT)), **words
        ),
    ],
)
def test_an_unknown_name_is_a_type_error_that_names_it(call: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="contxt"):
        call(contxt=4096)


def test_errors_are_those_of_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown engine"):
        draftcheck.check(TARGET, DRAFT, engines=["nonesuch"])
    with pytest.raises(ReadError):
        draftcheck.inspect(str(tmp_path))
    with pytest.raises(DraftcheckError):
        draftcheck.gate("no/such/file")
