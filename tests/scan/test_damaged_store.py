"""A store that holds anything: every column of every table, wrong in every way SQLite allows.

A scan stops with one line that names the table and the row; a report leaves the row out and says
so. Neither ends in a traceback.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from draftcheck.scan import schema
from tests.conftest import Ran, Run
from tests.hub import Hub
from tests.hub.process import Draftcheck, assert_calm
from tests.scan.world import TARGET, checkpoint, populate

pytest.importorskip("huggingface_hub")
NIGHT = ("scan", "--target", TARGET, "--pin", TARGET, "org/draft-1", "--gpu", "24GiB", "--quiet",
         "--engine", "vllm", "--engine", "llama.cpp")  # fmt: skip
TRIAL = (
    "INSERT INTO trials SELECT t.ref, d.ref, 'k', t.revision, d.revision, 'transformers', 'done',"
    " NULL, ?, 1 FROM models t, models d WHERE t.ref = ? AND d.ref = 'org/draft-0'"
)
FIGURES = (
    '{"device": "cuda:0", "dtype": "bf16", "prompts": 2, "broken": null, "lengths": [{"speedup":'
    ' 1.5, "draft_tokens": 1}, {"speedup": 1.6, "draft_tokens": 2}], "best": {"draft_tokens": 2},'
    ' "acceptance_rate": {"value": 0.5}, "acceptance_by_position": [0.5, 0.2]}'
)
WRONG: dict[str, object] = {
    "null": None,
    "text": "x",
    "nothing": "",
    "bytes": b"\xff\x00",
    "a half": 0.5,
    "minus": -1,
    "huge": (1 << 63) - 1,
    "endless": 9e999,
    "half of an object": "{",
    "an object": '{"lengths": 5, "facts": [], "bases": 3, "gpu": {}}',
    "a list": '[1, ["LCP001", "fails", 3, null, 5]]',
    "digits": "1" + "0" * 400,
    "more digits": "[1" + "0" * 5000 + "]",
    "no number": '{"listed": NaN, "a": 1e999}',
    "deep": "[" * 100_000,
}


def columns() -> list[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema.FIRST)
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE sql LIKE"
                                               " 'CREATE TABLE%'")]  # fmt: skip
        return [(t, row[1]) for t in tables for row in db.execute(f"PRAGMA table_info({t})")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights, a change, a trial: no table is empty."""
    folder = tmp_path_factory.mktemp("whole")
    path = folder / "scan.db"
    with Hub() as hub:
        draftcheck = Draftcheck(hub, folder / "home")
        populate(hub, drafts=2)
        assert draftcheck(*NIGHT, "--store", path).code == 0
        hub.add_repo("org/draft-1", checkpoint(seed=1))
        assert draftcheck(*NIGHT, "--store", path).code == 1
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(TRIAL, (FIGURES, TARGET))
        for table in {table for table, _ in columns()}:
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0], table
    return path


def damaged(whole: Path, folder: Path, statement: str, *values: object) -> Path | None:
    """A copy after this statement; None where SQLite itself refuses it."""
    path = folder / "s.db"
    shutil.copy(whole, path)
    with closing(sqlite3.connect(path)) as db:
        try:
            with db:
                db.execute(statement, values)
        except sqlite3.IntegrityError:
            return None
    return path


def calm_scan(ran: Ran) -> None:
    assert_calm(ran)
    if ran.code == 3 and (wrong := [line for line in ran.err.splitlines() if "damaged" in line]):
        assert re.search(r"table \w+, row |notes on ", wrong[0]), ran.err


def calm_report(ran: Ran) -> None:
    assert ran.code in (0, 3) and "Traceback" not in ran.err, ran.err
    if ran.code == 3:
        assert len(ran.err.splitlines()) <= 2 and ran.out == ""


@pytest.mark.parametrize(("table", "column"), columns())
def test_no_cell_ends_in_a_traceback(
    whole: Path, tmp_path: Path, run: Run, table: str, column: str
) -> None:
    """Each column in every row at once, with two of the values; which ones, the name tells.

    tests/fuzz tries the others, in cells of its choice."""
    chosen = random.Random(f"{table}.{column}").sample(sorted(WRONG), 2)
    for name in chosen:
        statement = f"UPDATE OR IGNORE {table} SET {column} = ?"
        if (path := damaged(whole, tmp_path, statement, WRONG[name])) is not None:
            calm_report(run("report", "--store", path, "--output", tmp_path / "out"))
            calm_scan(run(*NIGHT, "--offline", "--store", path))


CELLS = [
    ("scans", "counts", "x", "scans"),
    ("scans", "settings", "[]", "scans"),
    ("verdicts", "memory", '{"gpu": 5}', "verdicts"),
    ("verdicts", "notes", "{", "verdicts"),
    ("verdicts", "verdict", "splendid", "verdicts"),
    ("verdicts", "method", b"\xff", "verdicts"),
    ("models", "context", "long", "models"),
    ("models", "parameters", -1, "models"),
    ("pins", "engines", "3", "pins"),
    ("trials", "body", '{"lengths": 5}', "trials"),
    ("changes", "kind", "odd", "changes"),
]


@pytest.mark.parametrize(("table", "column", "value", "told"), CELLS)
def test_a_report_says_what_it_leaves_out(
    whole: Path, tmp_path: Path, run: Run, table: str, column: str, value: object, told: str
) -> None:
    """One row of several: the rest of the site is there."""
    key = {"scans": "number", "models": "ref", "verdicts": "draft", "changes": "asked"}.get(table)
    first = f" WHERE {key} = (SELECT {key} FROM {table} ORDER BY 1 DESC LIMIT 1)" if key else ""
    path = damaged(whole, tmp_path, f"UPDATE {table} SET {column} = ?{first}", value)
    assert path is not None
    ran = run("report", "--store", path, "--output", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert f"left out: {path}: table {told}, row " in ran.err
    assert (tmp_path / "out" / "index.html").exists()


SCANNED = [
    ("scans", "settings", "{"),
    ("scans", "number", (1 << 62) + 1),
    ("verdicts", "verdict", "splendid"),
    ("verdicts", "findings", '[["a"]]'),
    ("models", "context", "long"),
    ("models", "status", "asleep"),
    ("models", "facts", b"\xff"),
    ("repos", "listed", "[]"),
    ("repos", "sha", b"\xff"),
    ("tokenizers", "family", b"\xff"),
    ("facts", "body", b"\xff"),
    ("pairs", "since", "x"),
    ("notes", "body", "5"),
]


@pytest.mark.parametrize(("table", "column", "value"), SCANNED)
def test_a_scan_names_the_table_and_the_row(
    whole: Path, tmp_path: Path, run: Run, table: str, column: str, value: object
) -> None:
    path = damaged(whole, tmp_path, f"UPDATE OR IGNORE {table} SET {column} = ?", value)
    assert path is not None
    again = ("--engine", "transformers")  # asks anew, so that all is read
    ran = run(*NIGHT, *again, "--offline", "--store", path)
    assert_calm(ran)
    assert ran.code == 3 and f"table {table}, row " in ran.err, ran.err


@pytest.mark.parametrize("seed", range(12))
def test_bytes_that_are_cut_or_garbled(whole: Path, tmp_path: Path, run: Run, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(whole.read_bytes())
    if seed % 3 == 0:
        del data[chance.randrange(len(data)) :]
    elif seed % 3 == 1:
        at = chance.randrange(len(data))
        data[at : at + 4096] = chance.randbytes(4096)
    else:
        for _ in range(200):
            data[chance.randrange(len(data))] = chance.randrange(256)
    path = tmp_path / "s.db"
    path.write_bytes(data)
    calm_report(run("report", "--store", path, "--output", tmp_path / "out"))
    path.write_bytes(data)
    ran = run(*NIGHT, "--offline", "--store", path)
    assert_calm(ran)


def test_code_in_a_store_is_not_run(whole: Path, tmp_path: Path, run: Run) -> None:
    """A view could count for ever in the place of a table."""
    endless = (
        "CREATE VIEW verdicts AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
        " SELECT x AS target FROM n"
    )
    path = damaged(whole, tmp_path, "ALTER TABLE verdicts RENAME TO others")
    assert path is not None
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(endless)
    for command in (("report", "--output", tmp_path / "out"), (*NIGHT, "--offline")):
        ran = run(*command, "--store", path)
        assert ran.code == 3 and "no store of draftcheck scan" in ran.err
