"""Results into the store, each in one transaction; what changed is noted in the same one."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from draftcheck.judge.condensed import facts as condensed
from draftcheck.scan import changes
from draftcheck.scan.changes import VerdictOrigin
from draftcheck.scan.plan import PlannedPairs, repo_of
from draftcheck.scan.rows import PinRow, RepoRow, TargetRow, TrialRow
from draftcheck.scan.store import ScanStore, pack, text
from draftcheck.scan.tasks import FilesDone, ModelDone, TaskProblem, VocabularyDone
from draftcheck.settings import __version__

FORMAT = f"{condensed.FORMAT}:"
"""What digests of facts start with: facts in another form are read anew."""
COLUMNS = (
    "kind", "status", "problem", "role", "verifier", "fingerprint", "family", "voice",
    "parameters", "nbytes", "architecture", "context",
)  # fmt: skip


Again = Callable[[str, str], Mapping[tuple[str, str], str]]


@dataclass(frozen=True, slots=True)
class VerdictInputs:
    """What the verdicts of a pair were made from."""

    made: tuple[str, str, str]
    """Digests of the target's facts, of the draft's, and of the settings."""
    gated: bool = False
    again: Again | None = None
    """Judges other facts, by their digests, as of now: tells files from rules as a cause."""


class ScanWriter:
    """Writes one scan."""

    def __init__(self, store: ScanStore, settings: Mapping[str, Any]) -> None:
        self.store = store
        with store.transaction() as db:
            last = db.execute("SELECT * FROM scans ORDER BY number DESC LIMIT 1").fetchone()
            self.resumed = last is not None and last["state"] != "complete"
            self.number = 1 if last is None else last["number"] + (not self.resumed)
            self.before = None if last is None else json.loads(last["settings"])
            self.first = (
                db.execute("SELECT 1 FROM scans WHERE state = 'complete'").fetchone() is None
            )
            db.execute(
                "INSERT INTO scans (number, state, started, draftcheck, settings)"
                " VALUES (?, 'running', ?, ?, ?) ON CONFLICT (number) DO UPDATE SET state ="
                " 'running', draftcheck = excluded.draftcheck, settings = excluded.settings",
                (self.number, now(), __version__, text(dict(settings))),
            )

    def targets(self, targets: Sequence[TargetRow], pins: Iterable[PinRow]) -> None:
        with self.store.transaction() as db:
            db.execute("DELETE FROM targets")
            db.executemany(
                "INSERT INTO targets VALUES (?, ?, ?, ?, ?)",
                [(t.ref, i, t.source, t.problem, self.number) for i, t in enumerate(targets)],
            )
            db.execute("DELETE FROM pins")
            db.executemany(
                "INSERT OR REPLACE INTO pins VALUES (?, ?, ?)",
                [(pin.target, pin.draft, text(list(pin.engines))) for pin in pins],
            )

    def page(self, repos: Iterable[RepoRow]) -> None:
        """A page of the Hub's list."""
        with self.store.transaction() as db:
            db.executemany(
                "INSERT INTO repos (name, sha, seen, listed, why, stage) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET sha = excluded.sha, seen = excluded.seen,"
                " listed = excluded.listed, why = excluded.why, stage = excluded.stage",
                [
                    (r.name, r.sha, self.number, text(_listed(r)), r.refused,
                     "listing" if r.refused else None)
                    for r in repos
                ],
            )  # fmt: skip

    def seen(self, name: str, sha: str | None) -> None:
        """A repo that no page had is still there; sha: its commit, where it could be asked."""
        with self.store.transaction() as db:
            db.execute(
                "UPDATE repos SET seen = ?, sha = coalesce(?, sha) WHERE name = ?",
                (self.number, sha, name),
            )

    def recall(self, before: int) -> None:
        """What an earlier scan saw counts as seen again."""
        with self.store.transaction() as db:
            db.execute("UPDATE repos SET seen = ? WHERE seen = ?", (self.number, before))

    def rejected(self, reasons: Iterable[tuple[str, str, str]]) -> None:
        """Repo, stage, why."""
        with self.store.transaction() as db:
            db.executemany(
                "UPDATE repos SET stage = ?, why = ? WHERE name = ?",
                [(stage, why[:300], name) for name, stage, why in reasons],
            )

    def files(self, name: str, sha: str, done: FilesDone | TaskProblem) -> None:
        with self.store.transaction() as db:
            if isinstance(done, TaskProblem):
                db.execute(
                    "UPDATE repos SET files_sha = ?, files = NULL, tokenizer = NULL, gguf = NULL,"
                    " problem = ? WHERE name = ?",
                    (None if done.passing else sha, done.says[:300], name),
                )
            else:
                db.execute(
                    "UPDATE repos SET files_sha = ?, files = ?, tokenizer = ?, gguf = ?,"
                    " problem = NULL WHERE name = ?",
                    (sha, pack(done.body), done.tokenizer, done.gguf, name),
                )

    def vocabulary(self, digest: str, done: VocabularyDone | TaskProblem) -> None:
        if isinstance(done, TaskProblem) and done.passing:
            return
        with self.store.transaction() as db:
            row: tuple[Any, ...] = (digest, None, None, None)
            if not isinstance(done, TaskProblem):
                row = (digest, done.fingerprint, done.family, done.size)
            says = done.says[:300] if isinstance(done, TaskProblem) else None
            db.execute("INSERT OR REPLACE INTO tokenizers VALUES (?, ?, ?, ?, ?)", (*row, says))

    def model(
        self, ref: str, tried: str | None, done: ModelDone | TaskProblem, repo: RepoRow | None
    ) -> None:
        """Facts of a model; where it could not be read, what was known before stays."""
        popular = (repo.downloads, repo.likes) if repo else (None, None)
        with self.store.transaction() as db:
            if isinstance(done, TaskProblem):
                self._unread(db, ref, tried, done)
                return
            digest = FORMAT + hashlib.sha256(text(done.body).encode()).hexdigest()[:40]
            db.execute("INSERT OR IGNORE INTO facts VALUES (?, ?)", (digest, pack(done.body)))
            old = db.execute("SELECT facts, since FROM models WHERE ref = ?", (ref,)).fetchone()
            since = old["since"] if old and old["facts"] == digest else self.number
            values = [done.about[name] for name in COLUMNS]
            db.execute(
                f"INSERT OR REPLACE INTO models (ref, revision, tried, {', '.join(COLUMNS)},"
                " downloads, likes, facts, since, scan)"
                f" VALUES ({', '.join('?' * (len(COLUMNS) + 8))})",
                (ref, done.revision, tried, *values, *popular, digest, since, self.number),
            )

    def _unread(
        self, db: sqlite3.Connection, ref: str, tried: str | None, done: TaskProblem
    ) -> None:
        status = "gone" if done.missing else "unreadable"
        db.execute(
            "INSERT INTO models (ref, kind, tried, status, problem, passing, since, scan)"
            " VALUES (?, '', ?, ?, ?, ?, ?, ?) ON CONFLICT (ref) DO UPDATE SET"
            " tried = excluded.tried, problem = excluded.problem, passing = excluded.passing,"
            " scan = excluded.scan,"
            # A new commit that cannot be read now says nothing against the one that was read.
            " status = CASE WHEN excluded.passing AND facts IS NOT NULL THEN status"
            " ELSE excluded.status END",
            (ref, tried, status, done.says[:1000], done.passing, self.number, self.number),
        )

    def gone(self, repo: str, says: str) -> None:
        with self.store.transaction() as db:
            db.execute(
                "UPDATE models SET status = 'gone', problem = ?, passing = 0, tried = NULL,"
                " scan = ? WHERE ref = ? OR substr(ref, 1, ?) = ?",  # or a file of that repo
                (says[:1000], self.number, repo, len(repo) + 1, f"{repo}/"),
            )

    def notes(self, key: tuple[str, str], body: Mapping[str, Any]) -> None:
        with self.store.transaction() as db:
            db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (*key, text(dict(body))))

    def trial(self, key: str, row: TrialRow) -> None:
        with self.store.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (row.target, row.draft, key, row.target_revision, row.draft_revision, row.backend,
                 row.state, row.problem, text(dict(row.body)), self.number),
            )  # fmt: skip

    def judged(
        self,
        target: str,
        draft: str,
        basis: str,
        given: VerdictInputs,
        rows: Sequence[Mapping[str, Any]],
    ) -> None:
        """The verdicts of a pair."""
        with self.store.transaction() as db:
            old = _verdicts(db, target, draft)
            pair = db.execute(
                "SELECT * FROM pairs WHERE target = ? AND draft = ?", (target, draft)
            ).fetchone()
            for row in rows:
                before = old.pop((row["asked"], row["slot"]), None)
                self._put(db, target, draft, row, before, pair, given)
            for before in old.values():
                self._drop(db, before, "not-asked", "the engine does not take this pair any more")
            db.execute(
                "INSERT OR REPLACE INTO pairs VALUES (?, ?, ?, ?, ?, ?, ?)",
                (target, draft, basis, *given.made, pair["since"] if pair else self.number),
            )

    def _put(
        self,
        db: sqlite3.Connection,
        target: str,
        draft: str,
        row: Mapping[str, Any],
        before: sqlite3.Row | None,
        pair: sqlite3.Row | None,
        given: VerdictInputs,
    ) -> None:
        after = VerdictOrigin(*given.made, row["rules"], row["version"])
        same = before is not None and before["verdict"] == row["verdict"]
        since = before["since"] if before is not None and same else self.number
        values = {"target": target, "draft": draft, **row, "since": since}
        db.execute(
            f"INSERT OR REPLACE INTO verdicts ({', '.join(values)})"
            f" VALUES ({', '.join('?' * len(values))})",
            tuple(values.values()),
        )
        was = before["verdict"] if before is not None else None
        kind = changes.kind(was, row["verdict"])
        if kind is None and not self._noted(db, target, draft, row):
            return
        old = None
        if before is not None and pair is not None:
            old = VerdictOrigin(
                pair["target_facts"], pair["draft_facts"], pair["settings"], before["rules"],
                before["version"],
            )  # fmt: skip
            cause = changes.cause(old, after, gated=given.gated)
            if cause == "several" and given.again is not None:
                old_files = given.again(old.target_facts, old.draft_facts)
                between = old_files.get((row["asked"], row["slot"]))
                cause = changes.blame(old, after, (was, between, row["verdict"]))
        else:
            cause = self._newness(db, target, pair)
        words = changes.words(row, cause, old, after)
        self._note(db, target, draft, row, was, row["verdict"], cause, words)

    def _newness(self, db: sqlite3.Connection, target: str, pair: sqlite3.Row | None) -> str:
        if pair is not None and pair["since"] < self.number:
            return "newly-asked"
        query = "SELECT 1 FROM pairs WHERE target = ? AND since < ? LIMIT 1"
        known = db.execute(query, (target, self.number)).fetchone()
        return "new-model" if known else "new-target"

    def _drop(self, db: sqlite3.Connection, row: sqlite3.Row, cause: str, why: str) -> None:
        key = (row["target"], row["draft"], row["asked"], row["slot"])
        db.execute(
            "DELETE FROM verdicts WHERE target = ? AND draft = ? AND asked = ? AND slot = ?", key
        )
        self._note(db, row["target"], row["draft"], row, row["verdict"], None, cause, why)

    def _noted(
        self, db: sqlite3.Connection, target: str, draft: str, row: Mapping[str, Any]
    ) -> bool:
        query = (
            "SELECT 1 FROM changes WHERE scan = ? AND target = ? AND draft = ? AND asked = ?"
            " AND slot = ?"
        )
        key = (self.number, target, draft, row["asked"], row["slot"])
        return db.execute(query, key).fetchone() is not None

    def _note(
        self,
        db: sqlite3.Connection,
        target: str,
        draft: str,
        row: Mapping[str, Any] | sqlite3.Row,
        before: str | None,
        after: str | None,
        cause: str,
        why: str,
    ) -> None:
        """A change against the last complete scan, however often this one was interrupted."""
        if self.first:
            return
        key = (self.number, target, draft, row["asked"], row["slot"])
        noted = db.execute(
            "SELECT before FROM changes WHERE scan = ? AND target = ? AND draft = ? AND asked = ?"
            " AND slot = ?",
            key,
        ).fetchone()
        before = noted["before"] if noted is not None else before
        kind = changes.kind(before, after)
        db.execute(
            "DELETE FROM changes WHERE scan = ? AND target = ? AND draft = ? AND asked = ?"
            " AND slot = ?",
            key,
        )
        if kind is not None:
            db.execute(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*key, kind, row["engine"], row["version"], row["method"], before, after, cause,
                 why[:600]),
            )  # fmt: skip

    def finish(
        self,
        pairs: PlannedPairs | None,
        causes: Mapping[str, tuple[str, str]],
        counts: Mapping[str, int],
        seconds: float,
    ) -> None:
        """The end of a scan; pairs: None when it was cut short.

        causes: for models that are no candidates any more, the cause and a sentence.
        """
        with self.store.transaction() as db:
            if pairs is not None:
                self._clean(db, pairs, causes)
            db.execute(
                "UPDATE scans SET state = ?, finished = ?, counts = ?, seconds = ?"
                " WHERE number = ?",
                ("partial" if pairs is None else "complete", now(), text(dict(counts)),
                 round(seconds, 3), self.number),
            )  # fmt: skip

    def _clean(
        self, db: sqlite3.Connection, pairs: PlannedPairs, causes: Mapping[str, tuple[str, str]]
    ) -> None:
        wanted = set(pairs)
        usual = ("left-list", "it is no candidate any more")
        for row in db.execute("SELECT target, draft FROM pairs").fetchall():
            key = (row["target"], row["draft"])
            if key in wanted:
                continue
            refs = (row["draft"], repo_of(row["draft"]), row["target"], repo_of(row["target"]))
            cause, why = next((causes[ref] for ref in refs if ref in causes), usual)
            for before in _verdicts(db, *key).values():
                self._drop(db, before, cause, why)
            db.execute("DELETE FROM pairs WHERE target = ? AND draft = ?", key)
        db.execute(
            "DELETE FROM facts WHERE digest NOT IN"
            " (SELECT facts FROM models WHERE facts IS NOT NULL)"
        )


def _verdicts(
    db: sqlite3.Connection, target: str, draft: str
) -> dict[tuple[str, str], sqlite3.Row]:
    query = "SELECT * FROM verdicts WHERE target = ? AND draft = ?"
    return {(row["asked"], row["slot"]): row for row in db.execute(query, (target, draft))}


def _listed(repo: RepoRow) -> dict[str, Any]:
    return {
        "kind": repo.kind,
        "parameters": repo.parameters,
        "packed": repo.packed,
        "gated": repo.gated,
        "bases": list(repo.bases[:8]),
        "downloads": repo.downloads,
        "likes": repo.likes,
        "refused": repo.refused,
    }


def now() -> str:
    """For people to read; nothing is ordered by it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
