"""How a command line becomes a typed request, and the line of progress that all commands share."""

from __future__ import annotations

import ast
import inspect
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from draftcheck.cli import COMMANDS, cli, progress
from draftcheck.cli.options import ReportOptions, TrialKnobs, parsed_into
from draftcheck.models.sources import progress as meter
from draftcheck.scan.night import StageProgress
from draftcheck.values.progress import FleetingText
from tests.conftest import ROOT


@dataclass(frozen=True, kw_only=True)
class ExampleRequest:
    name: str
    report: ReportOptions
    """Filled from the same values as the request itself."""
    known: int = 7


def test_values_become_a_request_and_its_parts() -> None:
    asked: list[ExampleRequest] = []
    command = parsed_into(ExampleRequest)(lambda request: asked.append(request) or 5)  # type: ignore[func-returns-value]
    assert command(name="a", form="json", output=None) == 5
    assert asked == [ExampleRequest(name="a", report=ReportOptions(form="json", output=None))]


def test_an_option_without_a_field_and_a_field_without_an_option_are_errors() -> None:
    command = parsed_into(ExampleRequest)(lambda request: 0)
    with pytest.raises(TypeError, match="ExampleRequest has no field for colour"):
        command(name="a", form="json", output=None, colour=True)
    with pytest.raises(TypeError, match="output"):
        command(name="a", form="json")
    assert {"tokens", "device"} <= set(TrialKnobs.__dataclass_fields__)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_takes_anything_whatever(name: str) -> None:
    context = cli.make_context("draftcheck", [name], resilient_parsing=True)
    command = cli.get_command(context, name)
    assert command is not None and command.callback is not None
    signature = inspect.signature(inspect.unwrap(command.callback))
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}


@pytest.mark.parametrize("path", sorted(ROOT.glob("draftcheck/cli/*.py")), ids=lambda p: p.stem)
def test_functions_of_the_command_line_are_short(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 60, f"{path}:{node.lineno} {node.name} has {length} lines"


# ---- the line of progress ----


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(value=100.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.value)
    return now


def test_reading_is_shown_after_a_second_and_wiped(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.progress(quiet=False) as say:
        meter.came("a", 1_000_000)
        assert terminal.getvalue() == ""
        clock.value += 1.1
        meter.came("b", 500_000)
        assert terminal.getvalue() == "\rreading: 1.5 MB, 2 files"
        say("judging")  # too soon after the last line
        clock.value += 0.2
        meter.came("b", 0)
    shown = terminal.getvalue().split("\r")
    assert shown[2].rstrip() == "judging: 1.5 MB, 2 files"
    assert len(shown[2]) >= len(shown[1]) and shown[3:] == [
        " " * len("judging: 1.5 MB, 2 files"),
        "",
    ]


def test_a_long_wait_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.progress(quiet=False):
        meter.came("a", 0, 5.0)
        assert terminal.getvalue() == "\rreading: 0.0 MB, 0 files, waiting 5 s"


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO, False), (Terminal, True)])
def test_nothing_is_shown_in_a_log_or_when_quiet(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, stream: type[io.StringIO], quiet: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", shown := stream())
    with progress.progress(quiet):
        clock.value += 60
        meter.came("a", 10)
    assert shown.getvalue() == ""


def test_a_scan_writes_over_its_line_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress.scan_progress(quiet=False) as say:
        say(StageProgress("reading", 1, 2000, 120.0))
        say(StageProgress("reading", 2, 2000, 60.0))  # too soon
        say(StageProgress("reading", 2000, 2000, None))  # the last is never left out
    lines = terminal.getvalue().split("\r")
    assert lines[1] == "scan: reading 1 of 2,000, about 2 min left"
    assert lines[2].rstrip() == "scan: reading 2,000 of 2,000" and len(lines[2]) == len(lines[1])
    assert lines[3].strip() == "" and lines[4] == ""


def test_a_scan_writes_a_line_now_and_then_in_a_log(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    monkeypatch.setattr(sys, "stderr", log := io.StringIO())
    with progress.scan_progress(quiet=False) as say:
        for done in range(4):
            say(StageProgress("judging", done, None, None))
            clock.value += 20
    assert log.getvalue() == "scan: judging 0\nscan: judging 2\n"


def test_a_trial_says_what_measures_and_writes_over_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    for stream, shown in (
        (Terminal, "  measuring with x\n\r  1 of 9 prompts\r  2 of 9 prompts\r" + " " * 16 + "\r"),
        (io.StringIO, "  measuring with x\n  2 of 9 prompts\n"),
    ):
        monkeypatch.setattr(sys, "stderr", log := stream())
        with progress.trial_progress(quiet=False) as say:
            say("measuring with x")
            for number in (1, 2):
                say(FleetingText(f"{number} of 9 prompts"))
                clock.value += 40
        assert log.getvalue() == shown
