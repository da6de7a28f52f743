"""The store: one writer, versions, a full disk, files that are no store."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from draftcheck.scan import lock, schema
from draftcheck.scan.lock import StoreHeld
from draftcheck.scan.rows import ModelRow, TargetRow
from draftcheck.scan.store import ScanStore, StoreError
from draftcheck.scan.tasks import ModelDone
from draftcheck.scan.writing import ScanWriter
from tests.conftest import ROOT, Run

HOLDER = """
import sys, time
from pathlib import Path
from draftcheck.scan.store import ScanStore
store = ScanStore.open(Path(sys.argv[1]))
print("open", flush=True)
time.sleep(600)
"""


def lock_file(store: Path) -> Path:
    return store.with_name(lock.NAME.format(store.name))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a store?.db"  # a name that an address would have to quote


def test_two_scans_on_one_store(path: Path, run: Run) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "open\n"
        ran = run("scan", "--target", "org/x", "--store", path)
        assert ran.code == 3
        assert f"in use by process {child.pid} on " in ran.err and ", since 2" in ran.err
        with ScanStore.open(path, readonly=True) as store:
            assert store.scans() == []
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        if child.stdout:
            child.stdout.close()
    ScanStore.open(path).close()  # its death opened it


def test_a_lock_without_words_is_still_a_lock(path: Path) -> None:
    with ScanStore.open(path):
        lock_file(path).write_bytes(b"\xff nonsense")
        with pytest.raises(StoreHeld, match="in use by another process"):
            ScanStore.open(path)


@pytest.mark.parametrize("name", ["draftcheck", "uv", "poetry", "Cargo"])
def test_no_other_lock_file_is_touched(tmp_path: Path, run: Run, name: str) -> None:
    """They once were emptied: the store's own lock was called NAME.lock."""
    other = tmp_path / f"{name}.lock"
    other.write_text("what other tools rely on\n" * 100)
    before = other.read_bytes()
    assert run("scan", "--target", "org/x", "--store", tmp_path / name).code == 3  # no network
    assert other.read_bytes() == before
    ScanStore.open(tmp_path / name, readonly=True).close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
@pytest.mark.parametrize("kind", ["symbolic", "hard", "folder", "pipe"])
def test_what_lies_in_the_place_of_the_lock(path: Path, run: Run, kind: str) -> None:
    precious = path.with_name("precious")
    precious.write_text("do not touch")
    place = lock_file(path)
    if kind == "symbolic":
        place.symlink_to(precious)
    elif kind == "hard":
        place.hardlink_to(precious)
    elif kind == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    ran = run("scan", "--target", "org/x", "--store", path)
    assert ran.code == 3 and "cannot be locked" in ran.err and place.name in ran.err
    assert precious.read_text() == "do not touch" and not path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes")
def test_a_pipe_is_no_store(path: Path, run: Run) -> None:
    os.mkfifo(path)
    ran = run("scan", "--target", "org/x", "--store", path)
    assert ran.code == 3 and "not a file" in ran.err
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_words_that_no_scan_wrote_stay_in_the_lock(path: Path) -> None:
    lock_file(path).write_text('{"mine": true}')
    with ScanStore.open(path), pytest.raises(StoreHeld, match="in use by another process"):
        ScanStore.open(path)
    assert lock_file(path).read_text() == '{"mine": true}'


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_store_behind_a_link_has_one_lock(path: Path) -> None:
    link = path.with_name("link.db")
    ScanStore.open(path).close()
    link.symlink_to(path)
    with ScanStore.open(path), pytest.raises(StoreHeld):
        ScanStore.open(link)


@pytest.mark.parametrize("readonly", [True, False])
def test_a_store_of_a_newer_version(path: Path, readonly: bool, run: Run) -> None:
    ScanStore.open(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match=r"newer draftcheck \(store version 99"):
        ScanStore.open(path, readonly=readonly)
    ran = run("scan", "--target", "org/x", "--store", path)
    assert ran.code == 3 and "newer draftcheck" in ran.err and "hint: Update" in ran.err


def test_a_store_of_an_older_version_is_brought_up_to_date(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScanStore.open(path) as store:
        writer = ScanWriter(store, {})
        writer.targets([TargetRow("org/x", "named")], [])
    step = "ALTER TABLE targets ADD COLUMN colour TEXT DEFAULT 'red';\nCREATE TABLE more (x TEXT)"
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, step))
    with pytest.raises(StoreError, match="older draftcheck"):
        ScanStore.open(path, readonly=True)
    with ScanStore.open(path) as store:
        assert store.targets() == [TargetRow("org/x", "named")]
        assert [row[0] for row in store.query("SELECT colour FROM targets")] == ["red"]
    broken = "CREATE TABLE better (x TEXT);\nCREATE TABLE more (x TEXT)"
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, broken))
    with pytest.raises(StoreError, match="already exists"):
        ScanStore.open(path)
    db = sqlite3.connect(path)
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    assert "better" not in names, "half a migration"
    db.close()


def test_a_full_disk(path: Path) -> None:
    with ScanStore.open(path) as store:
        writer = ScanWriter(store, {})
        pages = store.db.execute("PRAGMA page_count").fetchone()[0]
        store.db.execute(f"PRAGMA max_page_count = {pages + 2}")
        many = [TargetRow(f"org/{number:060}", "named") for number in range(1000)]
        with pytest.raises(StoreError, match="the disk is full; what was stored before is safe"):
            writer.targets(many, [])
        store.db.execute("PRAGMA max_page_count = 1000000")
        assert store.targets() == [] and len(store.scans()) == 1
        writer.targets(many, [])
        assert len(store.targets()) == 1000


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of a process")
def test_a_file_that_may_not_grow(path: Path) -> None:
    """What a full disk looks like where the kernel says something else than ENOSPC."""
    code = (
        "import resource, sys; from draftcheck.cli import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000));"
        "sys.exit(main(['scan', '--target', 'org/x', '--store', sys.argv[1]]))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=env, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert "is it full?" in done.stderr and "Traceback" not in done.stderr
    ScanStore.open(path).close()


@pytest.mark.parametrize("content", [b"not a database at all, but long enough\n" * 40, b"SQLite"])
def test_a_file_that_is_no_store(path: Path, content: bytes, run: Run) -> None:
    path.write_bytes(content)
    ran = run("scan", "--target", "org/x", "--store", path)
    assert ran.code == 3 and "not a store of draftcheck scan" in ran.err
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE mine (x)"],
        ["PRAGMA application_id = 7"],
        ["PRAGMA user_version = 3"],
        ["PRAGMA journal_mode = WAL", "CREATE TABLE mine (x)", "INSERT INTO mine VALUES (1)"],
    ],
)
def test_somebody_elses_database(path: Path, run: Run, statements: list[str]) -> None:
    """Not even what its owner has yet to bring from the log into the file."""
    theirs = path.with_name("theirs.db")
    db = sqlite3.connect(theirs, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    for file in path.parent.glob("theirs.db*"):  # as their program left it when it was killed
        shutil.copy(file, path.with_name(file.name.replace("theirs.db", path.name)))
    db.close()
    before = path.read_bytes()
    ran = run("scan", "--target", "org/x", "--store", path)
    assert ran.code == 3 and "no store of draftcheck scan" in ran.err
    assert path.read_bytes() == before


def test_a_damaged_store(path: Path) -> None:
    with ScanStore.open(path) as store:
        ScanWriter(store, {}).targets([TargetRow(f"org/{i}", "named") for i in range(3000)], [])
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)
    with (
        pytest.raises(StoreError, match=r"damaged|cannot be used"),
        ScanStore.open(path, readonly=True) as store,
    ):
        store.targets()
        list(store.verdicts())


def test_no_store_to_read(path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        ScanStore.open(path, readonly=True)


def test_a_clock_that_jumps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans are told apart by number: the newest may have the oldest date."""
    numbers = []
    for year in (2030, 1970, 2026):
        monkeypatch.setattr(time, "time", lambda year=year: (year - 1970) * 31_557_600.0)
        with ScanStore.open(path) as store:
            writer = ScanWriter(store, {})
            monkeypatch.setattr("draftcheck.scan.writing.now", lambda year=year: f"{year}-01-01")
            writer.finish(None, {}, {}, 1.0)
            store.db.execute("UPDATE scans SET state = 'complete'")
            numbers.append(writer.number)
            latest = store.latest()
            assert latest is not None and latest.number == writer.number
    assert numbers == [1, 2, 3]


def test_a_field_with_a_new_name_stands_in_its_old_column(path: Path) -> None:
    """So that a store of any age is read, and extended, as it is."""
    row = ModelRow("org/x", "folder", "sha", "read", tokenizer_fingerprint="a digest")
    with ScanStore.open(path) as store:
        writer = ScanWriter(store, {})
        writer.model("org/x", "sha", ModelDone({"facts": {}}, row), None)
        assert next(store.query("SELECT voice FROM models"))[0] == "a digest"
        model = store.model("org/x")
        assert model is not None and model.tokenizer_fingerprint == "a digest"
        assert list(store.models()) == [model]
