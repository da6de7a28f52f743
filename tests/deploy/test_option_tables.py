"""The option tables: sound, of the rulebook's age, and what the engines' own parsers say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from draftcheck.deploy.kinds import shell
from draftcheck.deploy.options import programs, tables
from draftcheck.deploy.options.tables import OptionsAtVersion, load, view
from draftcheck.errors import RuleError
from draftcheck.rulebook import book, file_rules, files

TABLES = sorted(
    path.stem
    for path in (files.folder() / "options").glob("*.toml")
    if not path.stem.endswith("-names")
)


def test_a_wrapper_stands_once_and_is_found_by_its_form() -> None:
    rows = shell.rows()
    listed = files.read("wrappers", shell.WrapperFile).wrapper
    names = [name for row in listed for name in row.names]
    assert len(names) == len(set(names)) == len(rows)
    assert {row.form for row in rows.values()} == set(shell.FORMS)
    with pytest.raises(RuleError, match="optoins"):
        files.typed(
            {"wrapper": [{"names": ["x"], "optoins": []}]}, shell.WrapperFile, "wrappers.toml"
        )


@pytest.mark.parametrize("name", TABLES)
def test_a_table_belongs_to_its_engine(name: str) -> None:
    table = load(name)
    engine = book.load(table.head.engine)
    assert (table.head.oldest, table.head.checked) == (engine.oldest, engine.checked)
    assert table.head.versions == engine.versions
    known = {method.id for method in engine.methods}
    ways = {*table.head.ids, *table.file.alone.values(), *table.file.programs.values()}
    ways |= {o.method for o in table.options.values() if o.method}
    ways |= {way for o in table.options.values() for way in o.turns.values()}
    assert ways <= known, "the gate asks the judge about methods that the rulebook has"


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_sound(name: str) -> None:
    table = load(name)
    for row in (*table.file.change, *table.file.value, *table.file.check):
        for bound in (row.since, row.until):
            assert not bound or table.order(bound) <= table.order(table.head.checked)
        assert not row.since or not row.until or table.order(row.since) < table.order(row.until)
        assert row.source
    for check in table.file.check:
        assert check.rule in file_rules.load(file_rules.FILES)
        re.compile(check.if_draft), re.compile(check.unless_draft)
        meanings = {option.means for option in table.options.values()} | set(table.options)
        names = [n for g in (*check.given, *check.missing, check.at) for n in g.split("|")]
        assert set(names) <= meanings, f"{name}: a check asks for what nothing means"
        assert {*check.where, *check.unless} <= meanings
    for change in table.file.change:
        assert change.why and (change.becomes or change.fix or change.effect != "gone")


@pytest.mark.parametrize(
    "name", [name for name in TABLES if load(name).head.complete and load(name).head.names]
)
def test_what_takes_a_names_place_exists(name: str) -> None:
    """A fix must not lead to the next error."""
    table = load(name)
    for change in table.file.change:
        if not change.becomes:
            continue
        for version in {change.since or table.head.oldest, _last(table, change.until)}:
            for old in change.names:
                part, dot, _ = old.rpartition(".")
                new = f"{part}.{change.becomes}" if dot else change.becomes
                if not dot and "." in new:  # --object.key
                    new = new.removeprefix("--").replace("-", "_")
                here = tables.OptionsAtVersion(table, version)
                since = table.spans.get(new, ())
                if dot and since and table.order(version) < table.order(since[0].since or version):
                    continue  # the object itself came later
                assert here.now(new), f"{old} -> {new} in {version}"


def _last(table: tables.OptionTable, until: str) -> str:
    """A version right before a bound."""
    if not until:
        return table.head.checked
    if table.head.versions == "build":
        return f"b{table.order(until) - 1}"
    edges = {s.since for spans in table.spans.values() for s in spans if s.since}
    before = [e for e in edges if table.order(e) < table.order(until)]
    return max(before, key=table.order) if before else table.head.oldest


def llama(build: str, letter: str = "s") -> OptionsAtVersion:
    return view(load("llamacpp"), build, letter)


def test_llama_cpp_by_build() -> None:
    assert llama("b8954").now("--draft-max") and not llama("b8955").now("--draft-max")
    assert not llama("b8954").now("--spec-draft-n-max") and llama("b8955").now("--spec-draft-n-max")
    assert llama("b9108").now("-cd") and not llama("b9109").now("-cd")
    assert llama("b6324").now("-fa").takes == "0" and llama("b6325").now("-fa").takes == "1"  # type: ignore[union-attr]
    assert llama("b7347", "c").now("-md") is None, "llama-cli takes a draft from b7348 on"
    assert llama("b7348", "c").now("-md") is not None
    assert llama("b11312").now("-p") is None and llama("b11312", "c").now("-p") is not None
    assert "draft" in llama("b9130").choices("--spec-type")
    assert "draft-simple" in llama("b9131").choices("--spec-type")


def test_vllm_by_release() -> None:
    def at(version: str) -> OptionsAtVersion:
        return view(load("vllm"), version)

    assert at("0.8.2").now("--speculative-model") and not at("0.8.3").now("--speculative-model")
    assert at("0.8.2").now("--speculative-config") and not at("0.8.1").now("--speculative-config")
    assert at("0.16.0").now("speculative_config.disable_by_batch_size")
    assert not at("0.17.0").now("speculative_config.disable_by_batch_size")
    assert not at("0.21.0").now("--spec-model") and at("0.22.0").now("--spec-model")
    assert "mtp" in at("0.11.0").choices("speculative_config.method")
    assert "mtp" not in at("0.10.2").choices("speculative_config.method")


def test_programs_and_documents_name_tables() -> None:
    table = programs.table()
    for kind in ("program", "image", "package", "clue", "document", "call"):
        rows = getattr(table, kind)
        assert rows
        for row in rows:
            assert row.table in TABLES
            for field in ("match", "tag", "entry", "within", "pattern"):
                re.compile(getattr(row, field, None) or "")


@pytest.mark.llamacpp
def test_the_newest_list_is_what_llama_server_prints() -> None:
    named = os.environ.get("DRAFTCHECK_LLAMA_SERVER") or shutil.which("llama-server")
    if not named or not Path(named).is_file():
        pytest.skip("DRAFTCHECK_LLAMA_SERVER does not name a llama-server, and none is on PATH")
    text = subprocess.run([named, "--help"], capture_output=True, text=True, timeout=60).stdout
    printed = set()
    for line in text.splitlines():
        if match := re.match(r"(?:-[\w.-]+,?\s+)+", line):
            printed |= set(re.findall(r"(?<!\S)--?[A-Za-z][\w.-]*", match[0]))
    assert len(printed) > 300
    table = llama(load("llamacpp").checked)
    removed = {n for n, spans in table.table.spans.items() if spans[-1].kind == "removed"}
    unknown = {name for name in printed if not table.now(name)} - removed
    assert not unknown
    negative = {name for name in table.names("option") if name.startswith("--no-")}
    left = set(table.names("option")) - printed - negative
    assert len(left) < 12, f"the list names options that --help does not: {sorted(left)}"
