"""The SQLite file that a scan fills: opened, locked, migrated, and read as plain values.

One process writes (WAL: others may read meanwhile). Every write is a transaction that leaves the
store whole, so a scan that is killed loses nothing but what it was doing.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

from draftcheck.errors import ReadError
from draftcheck.scan import schema
from draftcheck.scan.lock import StoreLock
from draftcheck.scan.rows import (
    ChangeRow,
    FailedRuleRow,
    MemoryRow,
    ModelRow,
    PinRow,
    RejectedRow,
    ScanRow,
    TargetRow,
    TrialRow,
    VerdictRow,
)

BUSY_SECONDS = 30.0
LARGEST = 64 << 20
"""Bytes that one packed value may have unpacked: the store is a file like any other."""
MODEL = ", ".join(
    schema.NAMES.get(field.name, field.name) + f" AS {field.name}" for field in fields(ModelRow)
)
VERDICT = ", ".join(field.name for field in fields(VerdictRow))
ROOM = "Free some space and run the same command again: it goes on where it stopped."


class StoreError(ReadError):
    """The store cannot be used."""


class ScanStore:
    """An open store. Use it as a context manager."""

    def __init__(self, path: Path, db: sqlite3.Connection, lock: StoreLock | None) -> None:
        self.path = path
        self.db = db
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, readonly: bool = False) -> ScanStore:
        """For reading, any number; for writing, one process at a time."""
        path = path.expanduser().absolute()
        if readonly:
            return cls(path, _connect_to_read(path), None)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{path.parent}: {error.strerror}") from error
        lock = StoreLock(path)
        try:
            return cls(path, _connect_to_write(path), lock)
        except BaseException:
            lock.close()
            raise

    def close(self) -> None:
        """Give the file and its lock back."""
        self.db.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> ScanStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all that is done inside, or nothing of it."""
        with translated(self.path):
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield self.db
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")

    def rows(self, query: str, *values: Any) -> Iterator[sqlite3.Row]:
        """Ask for any rows; the query stands where its answer is used."""
        with translated(self.path):
            yield from self.db.execute(query, values)

    def scans(self) -> list[ScanRow]:
        """List every scan, oldest first."""
        query = (
            "SELECT number, state, started, finished, draftcheck, settings, counts, seconds"
            " FROM scans ORDER BY number"
        )
        return [ScanRow(**_values(row, "settings", "counts")) for row in self.rows(query)]

    def latest(self) -> ScanRow | None:
        """Name the newest scan that came to an end; while the first one runs, that one."""
        scans = self.scans()
        ended = [scan for scan in scans if scan.state != "running"]
        return next(reversed(ended or scans), None)

    def targets(self) -> list[TargetRow]:
        """List the targets in the order of the job."""
        query = "SELECT ref, source, problem FROM targets ORDER BY place, ref"
        return [TargetRow(*row) for row in self.rows(query)]

    def pins(self) -> list[PinRow]:
        """List the pairs that somebody relies on."""
        query = "SELECT target, draft, engines FROM pins ORDER BY target, draft"
        return [PinRow(row[0], row[1], tuple(json.loads(row[2]))) for row in self.rows(query)]

    def models(self) -> Iterator[ModelRow]:
        """List every model that was read or tried, by name."""
        for row in self.rows(f"SELECT {MODEL} FROM models ORDER BY ref"):
            yield ModelRow(**dict(row))

    def model(self, ref: str) -> ModelRow | None:
        """Find one model by its name."""
        row = next(self.rows(f"SELECT {MODEL} FROM models WHERE ref = ?", ref), None)
        return None if row is None else ModelRow(**dict(row))

    def body(self, digest: str) -> dict[str, Any]:
        """Unpack what is kept of a model: its condensed facts, and how to download it."""
        row = next(self.rows("SELECT body FROM facts WHERE digest = ?", digest), None)
        if row is None:
            raise StoreError(f"{self.path}: facts {digest[:20]!r} are missing")
        body = unpack(row[0], f"{self.path}: facts {digest[:20]!r}")
        if not isinstance(body, dict):
            raise StoreError(f"{self.path}: facts {digest[:20]!r} are no object")
        return body

    def facts(self, digest: str) -> dict[str, Any]:
        """Unpack the condensed facts (judge/condensed) that ModelRow.facts names."""
        facts: dict[str, Any] = self.body(digest)["facts"]
        return facts

    def verdicts(
        self, *, target: str | None = None, draft: str | None = None, engine: str | None = None
    ) -> Iterator[VerdictRow]:
        """List verdicts by target, draft and engine; draft "" means the target by itself."""
        wanted = {"target": target, "draft": draft, "engine": engine}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given)
        query = f"SELECT {VERDICT} FROM verdicts" + (f" WHERE {where}" if where else "")
        for row in self.rows(f"{query} ORDER BY target, draft, asked, slot", *given.values()):
            yield verdict_row(row)

    def trials(self, *, target: str | None = None) -> Iterator[TrialRow]:
        """List measurements, the newest of a pair last."""
        query = (
            "SELECT target, draft, target_revision, draft_revision, backend, state, problem, body,"
            " since FROM trials"
        )
        values = () if target is None else (target,)
        query += " WHERE target = ?" if values else ""
        for row in self.rows(f"{query} ORDER BY target, draft, since, key", *values):
            yield TrialRow(**_values(row, "body"))

    def changes(self, scan: int | None = None) -> list[ChangeRow]:
        """List what a scan changed; by default the latest."""
        if scan is None:
            latest = self.latest()
            scan = latest.number if latest else 0
        query = (
            "SELECT scan, kind, c.target AS target, c.draft AS draft, asked, engine, version,"
            " method, before, after, cause, why, p.target IS NOT NULL AS pinned FROM changes c"
            " LEFT JOIN pins p ON p.target = c.target AND p.draft = c.draft"
            " WHERE scan = ? ORDER BY c.target, c.draft, asked, slot"
        )
        rows = [dict(row) for row in self.rows(query, scan)]
        for row in rows:
            row |= {"draft": row["draft"] or None, "pinned": bool(row["pinned"])}
        return [ChangeRow(**row) for row in rows]

    def rejected(self) -> Iterator[RejectedRow]:
        """List repos that are no candidates, with the stage and the reason."""
        query = "SELECT name, stage, why FROM repos WHERE why IS NOT NULL ORDER BY name"
        for row in self.rows(query):
            yield RejectedRow(*row)


def verdict_row(row: sqlite3.Row) -> VerdictRow:
    """Turn a row of the table into plain values."""
    values = _values(row, "findings", "notes")
    values["draft"] = values["draft"] or None
    values["version_checked"] = bool(values["version_checked"])
    values["findings"] = tuple(FailedRuleRow(*entry) for entry in values["findings"])
    values["memory"] = MemoryRow.of(json.loads(values["memory"] or "null"))
    values["notes"] = tuple(values["notes"])
    return VerdictRow(**values)


def stable_json(value: Any) -> str:
    """Write a value so that equal values always give the same text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(value: Any) -> str:
    """Name a plain value by its content; stores hold these digests, so they never change."""
    return hashlib.sha256(stable_json(value).encode()).hexdigest()[:40]


def pack(value: Any) -> bytes:
    """Compress a plain value for the store."""
    return zlib.compress(stable_json(value).encode(), 6)


def unpack(data: bytes, where: str) -> Any:
    """Undo pack; a store is a file like any other, so its sizes are not trusted."""
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(data, LARGEST)
        if unpacker.unconsumed_tail:
            raise StoreError(f"{where}: larger than anything a scan writes")
        return json.loads(raw)
    except (zlib.error, ValueError, RecursionError, TypeError):
        raise StoreError(f"{where}: damaged") from None


def _values(row: sqlite3.Row, *json_columns: str) -> dict[str, Any]:
    return {**dict(row), **{name: json.loads(row[name]) for name in json_columns}}


def _connect_to_read(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise StoreError(f"{path}: no such store", hint="draftcheck scan --store PATH writes one.")
    with translated(path):
        db = _connect(path, "mode=ro")
        try:
            _recognise(db, path)
        except sqlite3.OperationalError as error:
            if (error.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_CANTOPEN:
                raise
            db = _connect(path, "mode=ro&immutable=1")  # on a medium where WAL has no place
            _recognise(db, path)
        version = _version(db)
    if version < len(schema.STEPS):
        raise StoreError(
            f"{path}: written by an older draftcheck (store version {version})",
            hint="The next draftcheck scan brings it up to date.",
        )
    return db


def _connect_to_write(path: Path) -> sqlite3.Connection:
    with translated(path):
        db = _connect(path, "mode=rwc")
        try:
            _recognise(db, path)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            _migrate(db)
        except BaseException:
            db.close()
            raise
    return db


def _connect(path: Path, options: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"file:{quote(str(path))}?{options}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    db.row_factory = sqlite3.Row
    return db


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _recognise(db: sqlite3.Connection, path: Path) -> None:
    """A store of ours, of a version we know; or an empty file."""
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    mark = db.execute("PRAGMA application_id").fetchone()[0]
    if tables and mark != schema.APPLICATION:
        raise StoreError(f"{path}: a database, but no store of draftcheck scan")
    version, known = _version(db), len(schema.STEPS)
    if version > known:
        raise StoreError(
            f"{path}: written by a newer draftcheck (store version {version}, this one knows"
            f" {known})",
            hint="Update draftcheck, or name another --store.",
        )


def _migrate(db: sqlite3.Connection) -> None:
    """Bring the tables up to date, step by step, each whole or not at all."""
    for number, step in enumerate(schema.STEPS, 1):
        if _version(db) >= number:
            continue
        db.execute("BEGIN IMMEDIATE")
        try:
            for statement in step.split(";\n"):
                if statement.strip():
                    db.execute(statement)
            db.execute(f"PRAGMA application_id = {schema.APPLICATION}")
            db.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors in words that help."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        words, hint = _WORDS.get(code, (f"cannot be used: {error}", None))
        raise StoreError(f"{path}: {words}", hint=hint) from error


_WORDS = {
    sqlite3.SQLITE_FULL: ("the disk is full; what was stored before is safe", ROOM),
    sqlite3.SQLITE_IOERR: ("the disk does not take or give the data; is it full?", ROOM),
    sqlite3.SQLITE_READONLY: ("cannot be written to", "Check the rights of the file and folder."),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "Check the rights of the file and folder."),
    sqlite3.SQLITE_BUSY: ("another program keeps it locked", "Close it and try again."),
    sqlite3.SQLITE_NOTADB: ("not a store of draftcheck scan", "Name another --store."),
    sqlite3.SQLITE_CORRUPT: ("damaged", "Move it away: the next scan makes a new one."),
}
