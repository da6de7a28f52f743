"""The SQLite file that a scan fills: opened, locked, migrated, and read as typed rows.

One process writes (WAL: others may read meanwhile). Every write is a transaction that leaves the
store whole, so a scan that is killed loses nothing but what it was doing.

TABLES says how each kind of row lies in the file; reading and writing follow from it and from the
row's fields. What a row holds is not trusted: it is held against the types of its fields, once,
here. A scan stops at a row that is wrong; a report leaves it out and says so.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from draftcheck.errors import ReadError
from draftcheck.scan import rows, schema
from draftcheck.scan.lock import StoreLock

T = TypeVar("T")
BUSY_SECONDS = 30.0
PART = 1000
"""Rows of a long table that are held at a time."""
LARGEST = 64 << 20
"""Bytes that one packed value may have unpacked: the store is a file like any other."""
SEEN = 5
"""Fields of a finding that are kept; the rest are the rulebook's words."""
DAMAGED = "Move the store away: the next scan makes a new one."
ROOM = "Free some space and run the same command again: it goes on where it stopped."


@dataclass(frozen=True, slots=True)
class StoreTable:
    """How rows of one kind lie in the store."""

    name: str
    key: str
    """Columns that tell its rows apart, in the order in which they are read."""
    json: tuple[str, ...] = ()
    spread: str | None = None
    """A column of JSON, or of packed JSON, whose entries are fields of the row."""
    read_as: Mapping[str, str] = field(default_factory=dict)
    """Fields that are not a column of the same name: the SQL that gives them."""


ALONE_AS_NONE = {"draft": f"nullif(draft, '{rows.ALONE}')"}
PINNED = (
    "EXISTS (SELECT 1 FROM pins WHERE pins.target = changes.target AND pins.draft = changes.draft)"
)
TABLES: Mapping[type, StoreTable] = {
    rows.ScanRow: StoreTable("scans", "number", ("settings", "counts")),
    rows.TargetRow: StoreTable("targets", "place, ref"),
    rows.PinRow: StoreTable("pins", "target, draft", ("engines",)),
    rows.RepoRow: StoreTable("repos", "name", spread="listed"),
    rows.HubWalkRow: StoreTable("walks", "question"),
    rows.StandingRow: StoreTable("standing", "one"),
    rows.RejectedRow: StoreTable("repos", "name", read_as={"repo": "name"}),
    rows.ModelRow: StoreTable("models", "ref", read_as=schema.NAMES),
    rows.VocabularyRow: StoreTable("tokenizers", "digest"),
    rows.FactsRow: StoreTable("facts", "digest", spread="body"),
    rows.NotesRow: StoreTable("notes", "target, draft", ("body",)),
    rows.VerdictRow: StoreTable(
        "verdicts", "target, draft, asked, slot", ("findings", "memory", "notes"),
        read_as=ALONE_AS_NONE,
    ),
    rows.PairRow: StoreTable("pairs", "target, draft"),
    rows.TrialRow: StoreTable("trials", "target, draft, since, key", ("body",)),
    rows.ChangeRow: StoreTable(
        "changes", "scan, target, draft, asked, slot", read_as={**ALONE_AS_NONE, "pinned": PINNED}
    ),
}  # fmt: skip
SPREAD = {
    "listed": ("kind", "parameters", "packed", "gated", "bases", "downloads", "likes", "refused"),
    "body": ("facts", "download"),
}
"""Columns that hold several fields of a row: the fields."""


class StoreError(ReadError):
    """The store cannot be used."""


class StoreConnection(sqlite3.Connection):
    """Takes any text: half a character, which models may have in theirs, is written as its code."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return super().execute(sql, [_storable(value) for value in parameters])

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        return super().executemany(sql, [[_storable(value) for value in row] for row in parameters])


def _storable(value: Any) -> Any:
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode()


class ScanStore:
    """An open store. Use it as a context manager."""

    def __init__(self, path: Path, db: sqlite3.Connection, lock: StoreLock | None) -> None:
        self.path = path
        self.db = db
        self._lock = lock
        self.unread: dict[str, list[str]] | None = None
        """Table -> what is wrong with rows that were left out; None: such a row is an error."""
        self.found: Counter[str] = Counter()
        """Table -> rows that were read."""

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
        if path.exists() and not path.is_file():
            raise StoreError(f"{path}: not a file", hint="Name another --store.")
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
        with translated(self.path), _transaction(self.db):
            yield self.db

    def query(self, query: str, *values: Any) -> Iterator[sqlite3.Row]:
        """Ask for any rows as they stand in the file; the query stands where its answer is used."""
        with translated(self.path):
            for row in self.db.execute(query, values):  # noqa: UP028  one left early may outlive db
                yield row

    def read(self, kind: type[T], where: str = "", *values: Any, most: int = -1) -> Iterator[T]:
        """Read rows in the order of their keys; where: a condition in SQL."""
        table = TABLES[kind]
        query = f"SELECT {table.key}, {COLUMNS[kind]} FROM {table.name}"
        query += f" WHERE {where}" if where else ""
        keys = table.key.count(",") + 1
        for found in self.query(f"{query} ORDER BY {table.key} LIMIT ?", *values, most):
            try:
                row = _typed(kind, dict(zip(found.keys()[keys:], found[keys:], strict=True)))
            except (ValueError, TypeError, RecursionError, zlib.error) as error:
                self.leave_out(table.name, " ".join(str(p)[:100] for p in found[:keys]), error)
            else:
                self.found[table.name] += 1
                yield row

    def leave_out(self, table: str, row: str, error: Exception) -> None:
        """Note a row that is not what a scan writes; for a scan itself that is an error."""
        says = f"{self.path}: table {table}, row {row!r}: damaged: {str(error)[:200]}"
        if self.unread is None:
            raise StoreError(says, hint=DAMAGED) from None
        self.unread.setdefault(table, []).append(says)

    def scans(self) -> list[rows.ScanRow]:
        """List every scan, oldest first."""
        return list(self.read(rows.ScanRow))

    def latest(self) -> rows.ScanRow | None:
        """Name the newest scan that came to an end; while the first one runs, that one."""
        scans = self.scans()
        ended = [scan for scan in scans if scan.state != "running"]
        return next(reversed(ended or scans), None)

    def targets(self) -> list[rows.TargetRow]:
        """List the targets in the order of the job."""
        return list(self.read(rows.TargetRow))

    def models(self) -> Iterator[rows.ModelRow]:
        """List every model that was read or tried, by name."""
        return self.read(rows.ModelRow)

    def model(self, ref: str) -> rows.ModelRow | None:
        return next(self.read(rows.ModelRow, "ref = ?", ref), None)

    def facts(self, digest: str) -> rows.FactsRow:
        """Unpack the facts that ModelRow.facts names."""
        row = next(self.read(rows.FactsRow, "digest = ?", digest), None)
        if row is None:
            raise StoreError(f"{self.path}: facts {digest[:20]!r} are missing", hint=DAMAGED)
        return row

    def verdicts(
        self, *, target: str | None = None, draft: str | None = None
    ) -> Iterator[rows.VerdictRow]:
        """List verdicts by target and draft; draft "" means the target by itself."""
        given = {"target": target, "draft": draft}
        given = {name: value for name, value in given.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given)
        return self.read(rows.VerdictRow, where, *given.values())

    def changes(self, scan: int) -> list[rows.ChangeRow]:
        return list(self.read(rows.ChangeRow, "scan = ?", scan))

    def repo(self, name: str) -> rows.RepoRow | None:
        return next(self.read(rows.RepoRow, "name = ?", name), None)

    def open_repos(self, since: int, where: str = "TRUE") -> Iterator[rows.RepoRow]:
        """List repos that nothing speaks against; they may be written to meanwhile."""
        query, last = f"{schema.OPEN} AND seen >= ? AND name > ? AND {where}", ""
        while part := list(self.read(rows.RepoRow, query, since, last, most=PART)):
            yield from part
            last = part[-1].name

    def rejected(self) -> Iterator[rows.RejectedRow]:
        """List repos that are no candidates, with the stage and the reason."""
        return self.read(rows.RejectedRow, "why IS NOT NULL")


def _columns(kind: type) -> str:
    """What a row's fields are made from, in SQL."""
    table = TABLES[kind]
    spread = SPREAD[table.spread] if table.spread else ()
    plain = [entry.name for entry in fields(kind) if entry.name not in spread]
    found = [f"{table.read_as.get(name, name)} AS {name}" for name in plain]
    return ", ".join([*found, table.spread] if table.spread else found)


COLUMNS = {kind: _columns(kind) for kind in TABLES}
FLAGS = {kind: [entry.name for entry in fields(kind) if entry.type == "bool"] for kind in TABLES}


def _typed(kind: type[T], values: dict[str, Any]) -> T:
    """The row that these columns make; anything else than its fields allow is an error."""
    table = TABLES[kind]
    for name in table.json:
        if values[name] is not None:
            values[name] = _loads(values[name])
    if table.spread is not None:
        text = values.pop(table.spread)
        found = unpack(text) if isinstance(text, bytes) else _loads(text)
        values |= {name: found[name] for name in SPREAD[table.spread] if name in found}
    for name in FLAGS[kind]:
        if values.get(name) in (0, 1):
            values[name] = bool(values[name])
    return msgspec.convert(values, kind)


def insert(db: sqlite3.Connection, row: Any, **more: Any) -> None:
    """Write a row, in the place of one with the same key; more: columns that it has not."""
    table = TABLES[type(row)]
    values: dict[str, Any] = msgspec.to_builtins(row)
    if "findings" in values:
        values["findings"] = [entry[:SEEN] for entry in values["findings"]]
    if "draft" in values:
        values["draft"] = values["draft"] or rows.ALONE
    values.pop("pinned", None)
    for name in table.json:
        values[name] = None if values[name] is None else stable_json(values[name])
    if table.spread is not None:
        values[table.spread] = pack({name: values.pop(name) for name in SPREAD[table.spread]})
    named = {schema.NAMES.get(name, name): value for name, value in {**values, **more}.items()}
    db.execute(
        f"INSERT OR REPLACE INTO {table.name} ({', '.join(named)})"
        f" VALUES ({', '.join('?' * len(named))})",
        tuple(named.values()),
    )


def stable_json(value: Any) -> str:
    """Write a value so that equal values always give the same text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(value: Any) -> str:
    """Name a plain value by its content; stores hold these digests, so they never change."""
    return hashlib.sha256(stable_json(value).encode()).hexdigest()[:40]


def pack(value: Any) -> bytes:
    return zlib.compress(stable_json(value).encode(), 6)


def unpack(data: bytes) -> Any:
    """Undo pack; sizes are not trusted. Raises ValueError, TypeError or zlib.error."""
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(data, LARGEST)
    if unpacker.unconsumed_tail:
        raise ValueError("larger than anything a scan writes")
    return _loads(raw.decode())


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


_loads = json.JSONDecoder(parse_constant=_no_number).decode


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
        if path.exists():
            _look(path)
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


def _look(path: Path) -> None:
    """Recognise what is there before it is opened for writing, which may change it."""
    db = _connect(path, "mode=ro")
    try:
        _recognise(db, path)
    except sqlite3.OperationalError as error:
        # A journal that only a writer can undo: of a store that was being made, or on a full disk.
        code = error.sqlite_errorcode & 0xFF
        if code not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise
    finally:
        db.close()


def _connect(path: Path, options: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"file:{quote(str(path))}?{options}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=StoreConnection,
    )
    db.row_factory = sqlite3.Row
    db.text_factory = _text
    return db


def _text(data: bytes) -> str | bytes:
    """Text where it is; bytes are told from it where the row is read."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _recognise(db: sqlite3.Connection, path: Path) -> None:
    """A store of ours, of a version we know; or nothing at all."""
    kinds = {row[0] for row in db.execute("SELECT DISTINCT type FROM sqlite_master")}
    mark = db.execute("PRAGMA application_id").fetchone()[0]
    version, known = _version(db), len(schema.STEPS)
    empty = not kinds and not mark and not version
    # Views and triggers would be somebody's code; a store has none.
    if not empty and (mark != schema.APPLICATION or kinds - {"table", "index"}):
        raise StoreError(f"{path}: a database, but no store of draftcheck scan")
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
        with _transaction(db):
            for statement in filter(str.strip, step.split(";\n")):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {schema.APPLICATION}")
            db.execute(f"PRAGMA user_version = {number}")


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors in words that help."""
    try:
        yield
    except UnicodeDecodeError:  # SQLite names what it cannot read, and the name is garbled
        raise StoreError(f"{path}: damaged", hint=DAMAGED) from None
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
    sqlite3.SQLITE_CORRUPT: ("damaged", DAMAGED),
}
