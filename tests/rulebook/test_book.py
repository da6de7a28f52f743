"""The rule files: sound, complete, and refused with file and id when they are not."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import click
import pytest

from draftcheck.errors import RuleError
from draftcheck.judge import bind
from draftcheck.report import rules
from draftcheck.rulebook import book, files
from tests.conftest import ROOT, Run

ENGINE = """
[engine]
id = "x"
name = "X"
versions = "pep440"
oldest = "1.0"
checked = "2.0"
checked_on = 2026-11-15

[[method]]
id = "m"
setup = "run"
"""
RULE = """
[[rule]]
id = "XXX001"
slug = "a-rule"
title = "T"
check = "vocab_size_equal"
reaction = "refuses"
severity = "error"
why = "w"
fix = "f"
source = "s"
basis = "read"
"""


def load(tmp_path: Path, text: str) -> book.Engine:
    path = tmp_path / "x.toml"
    path.write_text(text, encoding="utf-8")
    engine = book.engine_of(files.typed(files.parse(path), book.EngineFile, path.name), path.name)
    bind.validate(engine)
    return engine


def test_a_sound_file_loads(tmp_path: Path) -> None:
    assert [rule.id for rule in load(tmp_path, ENGINE + RULE).rules] == ["XXX001"]


WRONG = [
    (RULE.replace('check = "vocab_size_equal"', 'check = "no_such"'), "no check 'no_such'"),
    (RULE + "params = { max_gap = 3 }\n", "has no parameter 'max_gap'"),
    (RULE.replace("vocab_size_equal", "llama_size_gap"), "needs the parameter 'max_gap'"),
    (
        RULE.replace("vocab_size_equal", "llama_size_gap") + 'params = { max_gap = "128" }\n',
        "'max_gap' must be int",
    ),
    (RULE.replace('source = "s"\n', ""), "'source' is missing"),
    (RULE.replace('source = "s"', 'source = " "'), "'source' is empty"),
    (RULE + 'colour = "red"\n', "unknown field 'colour'"),
    (RULE.replace("refuses", "explodes"), "'reaction' 'explodes' is not one of runs, refuses"),
    (RULE.replace('"error"', '"fatal"'), "'severity' 'fatal' is not one of"),
    (RULE.replace('"read"', '"guess"'), "'basis' 'guess' is not one of documented, read, run"),
    (RULE.replace("XXX001", "X1"), "'id' must match"),
    (RULE.replace("a-rule", "A Rule"), "'slug' must match"),
    (RULE + 'since = "one"\n', "'one' is not a version"),
    (RULE + 'since = "1.5"\nuntil = "1.5"\n', "window from 1.5 to 1.5 is empty"),
    (RULE + 'methods = ["n"]\n', "method 'n' is not one of m"),
    (RULE + RULE, "two windows overlap"),
    (RULE + 'until = "1.5"\n' + RULE + 'since = "1.4"\n', "two windows overlap"),
    (
        RULE + 'until = "1.5"\n' + RULE.replace("a-rule", "b-rule") + 'since = "1.5"\n',
        "two slugs",
    ),
]


@pytest.mark.parametrize(("text", "words"), WRONG, ids=lambda value: value[:40])
def test_a_wrong_rule_is_refused_with_file_and_id(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(RuleError) as caught:
        load(tmp_path, ENGINE + text)
    assert words in caught.value.message
    assert caught.value.message.startswith("x.toml")
    assert "X1" in caught.value.message or "XXX001" in caught.value.message


REPAIR = """
[[repair]]
id = "mend"
rules = ["XXX001"]
title = "T"
source = "s"
"""
METHOD = '[[method]]\nid = "n"\nsetup = "x"\n'
WRONG_ROWS = [
    (REPAIR + 'check = "no_such"\n', "[[repair]] mend: there is no check 'no_such'"),
    (REPAIR + 'check = "relation_among"\n', "[[repair]] mend: check 'relation_among' needs"),
    (REPAIR + 'methods = ["n"]\n', "[[repair]] mend: method 'n' is not one of m"),
    (REPAIR + 'since = "one"\n', "[[repair]] mend: 'one' is not a version"),
    (REPAIR.replace('title = "T"\n', ""), "[[repair]] mend: 'title' is missing"),
    (
        '[[method]]\nid = "n"\nsetup = "x"\ndrafts = ["ghost"]\n',
        "[[method]] n: 'drafts' 'ghost' is not one of dflash",
    ),
    ('[[method]]\nid = "n"\nsetup = "x"\nbasis = "hope"\n', "[[method]] n: 'basis' 'hope' is not"),
    (
        '[[method]]\nid = "n"\nsetup = "x"\nflags = { wind = "--w" }\n',
        "[[method]] n: flag 'wind' is not one of",
    ),
]


@pytest.mark.parametrize(("text", "words"), WRONG_ROWS, ids=lambda value: value[-30:])
def test_a_wrong_method_or_repair_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(RuleError) as caught:
        load(tmp_path, ENGINE + text)
    assert caught.value.message.startswith(f"x.toml {words}")


def test_methods_take_what_they_share_from_one_place(tmp_path: Path) -> None:
    shared = """
[shared.serve]
flags = { context = "-c {context}", dtype = "-t {dtype}" }
formats = ["gguf"]
convert = "convert {model}"
[shared.draft]
flags = { draft_tokens = "-n {draft_tokens}" }
keys = { dtype = "x" }
"""
    method = METHOD + 'shared = ["serve", "draft"]\n'
    own = 'flags = { dtype = "--type {dtype}" }\nconvert = "mine"\n'
    _, plain, mine = load(tmp_path, ENGINE + shared + method + method + own).methods
    flags = {"context": "-c {context}", "dtype": "-t {dtype}", "draft_tokens": "-n {draft_tokens}"}
    assert (plain.flags, plain.keys) == (flags, {"dtype": "x"})
    assert (plain.formats, plain.convert) == (("gguf",), "convert {model}")
    assert mine.flags == {**flags, "dtype": "--type {dtype}"} and mine.convert == "mine"


def test_rows_of_one_id_may_follow_each_other(tmp_path: Path) -> None:
    text = ENGINE + RULE + 'until = "1.5"\n' + RULE + 'since = "1.5"\n'
    assert len(load(tmp_path, text).rules) == 2


def test_broken_toml_and_unknown_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"x\.toml: not valid TOML"):
        load(tmp_path, "[engine")
    with pytest.raises(RuleError, match="unknown table 'extra'"):
        load(tmp_path, ENGINE + "[extra]\n")
    with pytest.raises(RuleError, match="'versions' 'semver' is not one of build, pep440"):
        load(tmp_path, ENGINE.replace("pep440", "semver"))


def test_every_shipped_file_loads_and_ids_are_unique() -> None:
    owners: dict[str, str] = {}
    for name in book.engine_files():
        for rule in book.load(name).rules:
            assert owners.setdefault(rule.id, name) == name, rule.id
    for rule in book.truth():
        assert rule.id not in owners


def test_the_rules_the_user_named_are_there() -> None:
    rules = {rule.slug: rule for rule in book.load("llama.cpp").rules if rule.until is None}
    assert rules["vocab-size-gap"].params == {"max_gap": 128}
    assert rules["token-text-differs"].params == {"first_id": 5}
    assert {"tokenizer-type", "bos-token", "eos-token"} <= set(rules)


def test_windows_of_a_rule_leave_no_gap() -> None:
    """A rule that goes on must go on where its last row ended, or its absence is meant."""
    meant = {"VLL003": "0.10.0", "VLL011": "0.10.0"}  # no draft models at all until 0.15.0
    meant["VLL270"] = "0.10.0"  # likewise
    meant["TRF012"] = "5.1.0"  # caches without windows until 5.12.0
    meant["TRF023"] = "4.51.1 4.57.0 5.14.0"  # the same; 5.14 takes tokens back
    meant["TRF025"] = "5.14.0"  # the same
    meant["TRF115"] = "5.20.0"  # such drafts run until 5.23.0
    meant["TRF027"] = "4.37.0"  # such drafts run until 4.41.0
    meant["LCP145"] = "b7668"  # files are not mapped by default until b7853
    meant["LCP155"] = "b4912"  # the draft has an f16 cache until b8955
    meant["LCP162"] = "b8854"  # the draft goes back to a checkpoint until b9109
    meant |= {"LMS005": "2025.1.1", "LMS009": "2025.1.1"}  # the engine's dates: batched 2026-02-05
    meant["OVG005"] = "2026.2.0.0"  # one row for all methods until 2026.4.0.0
    meant["TRF010"] = "4.51.1"  # one row for all methods until 4.53.0
    meant["VLL031"] = "0.10.0"  # such a GPU is refused before it (VLL023) until 0.10.2
    meant |= {"VLL004": "0.10.0 0.31.0", "VLL016": "0.31.0"}  # another runner (VLL456) until 0.32.0
    meant["SGL145"] = "0.5.14"  # other targets, from 0.5.19 on
    for name in book.engine_files():
        engine = book.load(name)
        rows: dict[tuple[str, tuple[str, ...]], list[book.Rule]] = {}
        for rule in engine.rules:
            rows.setdefault((rule.id, rule.methods), []).append(rule)
        for (rule_id, _), members in rows.items():
            ends = [rule.until for rule in members if rule.until is not None]
            starts = {rule.since for rule in members}
            for end in ends:
                last = max(ends, key=engine.order)
                goes_on = any(rule.until is None for rule in members)
                if end != last or goes_on:
                    known = {*starts, *meant.get(rule_id, "").split()}
                    assert end in known, f"{rule_id} after {end}"


def test_tables_are_shipped_with_the_rules() -> None:
    for path in (ROOT / "rules").rglob("*.toml"):
        assert tomllib.loads(path.read_text(encoding="utf-8")), path
    assert "llamacpp-vocabulary" in book.load("llama.cpp").tables


def test_rules_command_lists_and_explains(run: Run) -> None:
    listing = run("rules").out
    assert "LCP003" in listing and "TRU001" in listing
    page = run("rules", "LCP003").out
    for word in ("b9109 and newer", "why", "fix", "source", "ignores-draft"):
        assert word in page
    assert run("rules", "vocab-size-gap").out == page
    body = run("rules", "--format", "json").json
    assert body["schema_version"] == 1
    assert {"id", "slug", "why", "fix", "source", "since", "until"} <= set(body["rules"][0])
    assert run("rules", "--engine", "vllm", "--format", "markdown").out.startswith("| id |")
    assert run("rules", "LCP003", "--format", "markdown").out.startswith("## LCP003")


def test_rules_command_helps_with_a_wrong_id(run: Run) -> None:
    ran = run("rules", "LCP999")
    assert ran.code == 2 and "there is no rule 'LCP999'" in ran.err and "LCP" in ran.err
    assert run("rules", "--engine", "nope").code == 2


def test_on_a_terminal_the_list_is_grouped_and_paged(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    paged: list[str] = []
    monkeypatch.setattr("click.echo_via_pager", lambda lines, color: paged.extend(lines))
    piped = run("rules", "--engine", "vllm").out
    assert piped.startswith("VLL") and not paged
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("rules").out == "" and run("rules", "--format", "json").out.startswith("{")
    lines = click.unstyle("".join(paged)).splitlines()
    engines = [line.partition(":")[0] for line in lines if re.match(r"\S.*: \d+ rules", line)]
    assert engines == [*book.engine_files(), "every engine", "deploy files"]
    assert lines[1].split() == ["id", "rule", "severity", "reaction", "versions"]
    ids = {line.split()[0] for line in lines if re.match(r"  [A-Z]{3}\d{3} ", line)}
    assert ids == {rule.id for _, rule in rules.select(None, None)}
    heads = [line for line in lines if re.fullmatch("  [a-zG][a-z, GPU]+", line)]
    assert heads.count("  vocabularies") > 5 and "  heads" in heads
