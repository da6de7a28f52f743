"""Numbers that no command can use are refused where they are given."""

from __future__ import annotations

import pytest

from tests.conftest import Run
from tests.hostile.support import assert_calm

PAIR, PROBE = ("pair", "a", "b"), ("probe", "http://127.0.0.1:9")
OPTIONS = [
    (PAIR, "--memory-fraction"),
    (PAIR, "--context"),
    (PAIR, "--tensor-parallel"),
    (PAIR, "--draft-gpu"),
    (PROBE, "--interval"),
    (PROBE, "--timeout"),
    (("trial", "a", "b"), "--temperature"),
    (("trial", "a", "b"), "--precision"),
    (("trial", "a", "b"), "--budget"),
    (("trial", "a", "b"), "--tokens"),
    (("trial", "a", "b"), "--seed"),
    (("scan",), "--max-time"),
    (("scan",), "--limit"),
    (("scan",), "--workers"),
    (("recommend", "a"), "--limit"),
]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "9" * 400, "9" * 5000, "-1e9"])
@pytest.mark.parametrize(("command", "option"), OPTIONS, ids=lambda value: str(value))
def test_numbers_out_of_bounds(run: Run, command: tuple[str, ...], option: str, value: str) -> None:
    ran = run(*command, option, value)
    assert ran.code == 2, ran.err
    assert "Traceback" not in ran.err
    assert option in ran.err
    assert all(len(line) < 1000 for line in ran.err.splitlines())


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("probe", "127.0.0.1:9", "--watch", "-3"), "'--watch': -3 is not a number above 0."),
        (("probe", "--watch=-0.5", "127.0.0.1:9"), "'--watch': -0.5 is not a number above 0."),
        (("gate", "--watch", "-2"), "'--watch': -2 is not a number above 0."),
        ((*PROBE, "--timeout", "-3"), "'--timeout': -3 is less than 0.1."),
        ((*PAIR, "--context", "0"), "'--context': 0 is less than 1."),
        ((*PAIR, "--memory-fraction", "0"), "'--memory-fraction': 0 is not more than 0."),
        (("recommend", "a", "--limit", "2000"), "'--limit': 2000 is more than 1,000."),
    ],
    ids=str,
)
def test_a_number_beyond_a_bound_names_the_bound(
    run: Run, command: tuple[str, ...], says: str
) -> None:
    ran = run(*command)
    assert ran.code == 2
    assert ran.err.splitlines()[-1] == f"error: Invalid value for {says}"


@pytest.mark.parametrize("digits", [101, 5000])
@pytest.mark.parametrize("engine", ["vllm@0.", "llama.cpp@b"])
def test_versions_of_thousands_of_digits(run: Run, engine: str, digits: int) -> None:
    ran = run(*PAIR, "--engine", engine + "9" * digits)
    assert ran.code == 2
    assert_calm(ran)


def test_control_characters_of_arguments_are_not_repeated(run: Run) -> None:
    ran = run("gate", "--\x1b[2J\u202e")
    assert ran.code == 2
    assert "\x1b" not in ran.err
    assert "\u202e" not in ran.err


def test_a_bug_report_holds_no_passwords(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    url = "http://me:secret@127.0.0.1:9/v1?key=hidden"
    monkeypatch.setattr("draftcheck.models.refs.parse", crash)
    monkeypatch.setattr("sys.argv", ["draftcheck", "trial", "a", "--target-url", url])
    ran = run("inspect", "a")
    assert ran.code == 70
    assert "127.0.0.1:9/v1" in ran.err
    assert "secret" not in ran.err and "hidden" not in ran.err
