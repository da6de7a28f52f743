"""What people see before they know the options: help, examples, and hints at the right word."""

from __future__ import annotations

import shlex

import click
import pytest

from draftcheck.cli import COMMANDS, GROUPS, cli
from draftcheck.cli.help import EXAMPLES
from tests.conftest import Run


def test_every_command_stands_in_a_group_with_its_whole_text(run: Run) -> None:
    assert {name for names in GROUPS.values() for name in names} == set(COMMANDS)
    shown = " ".join(run("--help").out.split())
    for text in COMMANDS.values():
        assert text in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_sections_and_examples(run: Run, name: str) -> None:
    ran = run(name, "--help")
    assert ran.code == 0 and "\nExamples:\n" in ran.out and "\nReport:\n" in ran.out
    assert "1099511627776" not in ran.out and "INTEGER RANGE" not in ran.out


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_examples_are_what_the_command_takes(line: str) -> None:
    words = shlex.split(line)
    assert words.pop(0) == "draftcheck"
    name = words.pop(0)
    group = click.Context(cli)
    command = cli.get_command(group, name)
    assert command is not None and line in EXAMPLES[name]
    _, rest, _ = command.make_parser(click.Context(command)).parse_args(words)
    assert not rest


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("pairs",), "pair"),
        (("recomend", "x"), "recommend"),
        (("pair", "a", "b", "--engine", "llamacpp"), "llama.cpp"),
        (("pair", "a", "b", "--engine", "llama-cpp"), "llama.cpp"),
        (("pair", "a", "b", "--engine", "exllama3"), "exllamav3"),
        (("why", "-", "--engine", "vlm"), "vllm"),
        (("explain", "LCP9003"), "LCP003"),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest(
    run: Run, words: tuple[str, ...], meant: str
) -> None:
    ran = run(*words)
    assert ran.code == 2
    assert f"Did you mean {meant}" in ran.err


def test_explain_is_the_page_of_one_rule(run: Run) -> None:
    assert run("explain", "LCP003").out == run("rules", "LCP003").out
    assert run("explain", "vocab-size-gap").out.startswith("LCP003 vocab-size-gap: ")
    assert run("explain").code == 2


def test_shells_complete_engines_and_rules() -> None:
    from click.shell_completion import ShellComplete

    complete = ShellComplete(cli, {}, "draftcheck", "_DRAFTCHECK_COMPLETE").get_completions
    assert [item.value for item in complete(["pair", "--engine"], "ll")] == ["llama.cpp"]
    assert "LCP003" in [item.value for item in complete(["explain"], "lcp00")]
    assert [item.value for item in complete([], "rec")] == ["recommend"]
