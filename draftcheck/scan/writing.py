"""One scan's results into the store, each in one transaction; what changed is noted in the same.

A verdict stands under target, draft, question and slot, and a change under the same key and the
number of the scan. A change is always against the last *complete* scan: when a scan was killed or
cut short, the next one goes on under its number, and what it noted before keeps its `before`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from draftcheck.judge.condensed import facts as condensed
from draftcheck.models.refs import ModelRef
from draftcheck.scan import changes, rows
from draftcheck.scan.plan import PlannedPairs, repo_of
from draftcheck.scan.store import SPREAD, ScanStore, digest_of, insert, pack, stable_json
from draftcheck.scan.tasks import FilesDone, ModelDone, TaskProblem
from draftcheck.settings import __version__
from draftcheck.values.words import Verdict

FORMAT = f"{condensed.FORMAT}:"
"""What digests of facts start with: facts in another form are read anew."""
REOPEN = "UPDATE repos SET stage = NULL, why = NULL WHERE"
SAME_PAIR = "target = ? AND draft = ?"
SAME_VERDICT = f"{SAME_PAIR} AND asked = ? AND slot = ?"
JudgeAgain = Callable[[str, str], Mapping[tuple[str, str], str]]
"""Judges other facts, by their digests, as of now: tells files from rules as a cause."""


class ScanWriter:
    """Writes one scan."""

    def __init__(self, store: ScanStore, settings: Mapping[str, Any]) -> None:
        self.store = store
        with store.transaction() as db:
            last = next(reversed(store.scans()), None)
            self.resumed = last is not None and last.state != "complete"
            self.number = 1 if last is None else last.number + (not self.resumed)
            self.before = None if last is None else last.settings
            self.first = (
                db.execute("SELECT 1 FROM scans WHERE state = 'complete'").fetchone() is None
            )
            self.standing = next(store.read(rows.StandingRow), rows.StandingRow())
            db.execute(
                "INSERT INTO scans (number, state, started, draftcheck, settings)"
                " VALUES (?, 'running', ?, ?, ?) ON CONFLICT (number) DO UPDATE SET state ="
                " 'running', draftcheck = excluded.draftcheck, settings = excluded.settings",
                (self.number, now(), __version__, stable_json(dict(settings))),
            )

    def targets(self, targets: Sequence[rows.TargetRow], pins: Iterable[rows.PinRow]) -> None:
        """Write the targets in the order of the list, and the pairs that somebody relies on."""
        with self.store.transaction() as db:
            db.execute("DELETE FROM targets")
            for place, target in enumerate(targets):
                insert(db, target, place=place, scan=self.number)
            db.execute("DELETE FROM pins")
            for pin in pins:
                insert(db, pin)

    def stand(self, standing: rows.StandingRow) -> None:
        """Write what holds for repos that are not listed again."""
        if standing != self.standing:
            self._insert(standing, one=1)
            self.standing = standing

    def page(self, repos: Iterable[rows.RepoRow], walk: rows.HubWalkRow | None = None) -> None:
        """Write a page of the Hub's list, and how far the walk along it has come."""
        values = []
        for repo in repos:
            about = {name: getattr(repo, name) for name in SPREAD["listed"]}
            listed = stable_json({**about, "bases": list(repo.bases[:8])})
            stage = "listing" if repo.refused else None
            values.append((repo.name, repo.sha, self.number, listed, repo.refused, stage))
        with self.store.transaction() as db:
            db.executemany(
                "INSERT INTO repos (name, sha, seen, listed, why, stage) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET sha = excluded.sha, seen = excluded.seen,"
                " listed = excluded.listed, why = excluded.why, stage = excluded.stage",
                values,
            )
            if walk is not None:
                insert(db, walk)

    def mark_seen(self, name: str, sha: str | None) -> None:
        """Mark a repo that no page had as there; sha: its commit, where it could be asked."""
        self._execute(
            "UPDATE repos SET seen = ?, sha = coalesce(?, sha) WHERE name = ?",
            (self.number, sha, name),
        )

    def forget_walks(self, questions: Sequence[str]) -> None:
        """Drop how far other questions than these have come."""
        others = {walk.question for walk in self.store.read(rows.HubWalkRow)} - set(questions)
        if others:
            with self.store.transaction() as db:
                db.executemany("DELETE FROM walks WHERE question = ?", [(o,) for o in others])

    def reject(self, stage: str, reasons: Mapping[str, str]) -> None:
        """Write why repos are no candidates: a sentence for each."""
        if reasons:
            with self.store.transaction() as db:
                db.executemany(
                    "UPDATE repos SET stage = ?, why = ? WHERE name = ?",
                    [(stage, why[:300], name) for name, why in reasons.items()],
                )

    def reopen(self, names: Collection[str]) -> None:
        """Take repos back, whatever speaks against them."""
        if names:
            with self.store.transaction() as db:
                db.executemany(f"{REOPEN} name = ?", [(name,) for name in names])

    def reopen_listing(self) -> None:
        """Take back whom the targets, and not their listing alone, spoke against there."""
        refused = "json_extract(listed, '$.refused')"
        where = f"stage = 'listing' AND {refused} IS NULL"
        self._reopen_stage(where, replace(self.standing, by_listing=None))

    def reopen_digest(self) -> None:
        """Take back whom the vocabularies of the targets spoke against."""
        self._reopen_stage("stage = 'digest'", replace(self.standing, by_digest=None))

    def _reopen_stage(self, where: str, standing: rows.StandingRow) -> None:
        with self.store.transaction() as db:
            db.execute(f"{REOPEN} {where}")
            insert(db, standing, one=1)
        self.standing = standing

    def files(self, ref: ModelRef, done: FilesDone | TaskProblem) -> None:
        """Write the list of files of a repo at a commit, or why there is none."""
        values: tuple[Any, ...]
        if isinstance(done, TaskProblem):
            values = (None if done.passing else ref.revision, None, None, None, done.says[:300])
        else:
            values = (ref.revision, pack(done.body), done.tokenizer, done.gguf, None)
        self._execute(
            "UPDATE repos SET files_sha = ?, files = ?, tokenizer = ?, gguf = ?, problem = ?,"
            " stage = NULL, why = NULL WHERE name = ?",
            (*values, ref.repo),
        )

    def vocabulary(self, digest: str, done: rows.VocabularyRow | TaskProblem) -> None:
        """Write what a vocabulary file is, or why it cannot be read."""
        if isinstance(done, rows.VocabularyRow):
            self._insert(done)
        elif not done.passing:
            self._insert(rows.VocabularyRow(digest, problem=done.says[:300]))

    def model(
        self, ref: str, tried: str | None, done: ModelDone | TaskProblem, repo: rows.RepoRow | None
    ) -> None:
        """Write the facts of a model; where it could not be read, what was known before stays."""
        with self.store.transaction() as db:
            if isinstance(done, TaskProblem):
                status = "gone" if done.missing else "unreadable"
                db.execute(
                    "INSERT INTO models (ref, kind, tried, status, problem, passing, since, scan)"
                    " VALUES (?, '', ?, ?, ?, ?, ?, ?) ON CONFLICT (ref) DO UPDATE SET"
                    " tried = excluded.tried, problem = excluded.problem,"
                    " passing = excluded.passing, scan = excluded.scan,"
                    # A new commit that cannot be read now says nothing against the one before.
                    " status = CASE WHEN excluded.passing AND facts IS NOT NULL THEN status"
                    " ELSE excluded.status END",
                    (ref, tried, status, done.says[:1000], done.passing, self.number, self.number),
                )
                return
            facts = FORMAT + digest_of(done.body)
            insert(db, rows.FactsRow(facts, **done.body))
            old = self.store.model(ref)
            row = replace(
                done.row,
                tried=tried,
                downloads=repo.downloads if repo else None,
                likes=repo.likes if repo else None,
                facts=facts,
                since=old.since if old and old.facts == facts else self.number,
            )
            insert(db, row, scan=self.number)

    def mark_gone(self, repo: str, says: str) -> None:
        """Mark the models of a repo that vanished."""
        self._execute(
            "UPDATE models SET status = 'gone', problem = ?, passing = 0, tried = NULL,"
            " scan = ? WHERE ref = ? OR (ref > ? AND ref < ?)",  # or a file of that repo
            (says[:1000], self.number, repo, f"{repo}/", f"{repo}0"),
        )

    def notes(self, key: tuple[str, str], body: Mapping[str, Any]) -> None:
        """Write what two vocabularies side by side tell."""
        self._insert(rows.NotesRow(*key, body))

    def trial(self, row: rows.TrialRow) -> None:
        """Write a measurement, or why it failed."""
        self._insert(replace(row, since=self.number))

    def verdicts(
        self,
        pair: rows.PairRow,
        found: Sequence[rows.VerdictRow],
        judge_again: JudgeAgain,
        gated: bool,
    ) -> None:
        """Write the verdicts of a pair, and note which of them changed."""
        key = (pair.target, pair.draft)
        with self.store.transaction() as db:
            left = self._verdicts(key)
            known = next(self.store.read(rows.PairRow, SAME_PAIR, *key), None)
            for row in found:
                old = left.pop((row.asked, row.slot), None)
                was = old.verdict if old is not None else None
                same = old if was == row.verdict else None
                new = replace(row, since=same.since if same else self.number)
                insert(db, new)
                if self.first or (changes.kind(was, new.verdict) is None and not self._noted(new)):
                    continue
                before, after = None, changes.origin(pair, new)
                if old is not None and known is not None:
                    before = changes.origin(known, old)
                    cause = changes.cause(before, after, gated=gated)
                    if cause == "several":
                        old_files = judge_again(known.target_facts, known.draft_facts)
                        between = old_files.get((new.asked, new.slot))
                        cause = changes.blame(before, after, (was, between, new.verdict))
                elif known is not None and known.since < self.number:
                    cause = "newly-asked"
                else:
                    query = "SELECT 1 FROM pairs WHERE target = ? AND since < ? LIMIT 1"
                    older = db.execute(query, (new.target, self.number)).fetchone()
                    cause = "new-model" if older else "new-target"
                why = changes.sentence(new, cause, before, after)
                self._note(db, new, (was, new.verdict), cause, why)
            for old in left.values():
                self._drop(db, old, "not-asked", "the engine does not take this pair any more")
            insert(db, replace(pair, since=known.since if known else self.number))

    def _verdicts(self, pair: tuple[str, str]) -> dict[tuple[str, str], rows.VerdictRow]:
        found = self.store.read(rows.VerdictRow, SAME_PAIR, *pair)
        return {(row.asked, row.slot): row for row in found}

    def _drop(self, db: sqlite3.Connection, row: rows.VerdictRow, cause: str, why: str) -> None:
        db.execute(f"DELETE FROM verdicts WHERE {SAME_VERDICT}", _key(row))
        self._note(db, row, (row.verdict, None), cause, why)

    def _noted(self, row: rows.VerdictRow) -> rows.ChangeRow | None:
        """The change that this scan noted for a verdict before it was interrupted."""
        where = f"scan = ? AND {SAME_VERDICT}"
        return next(self.store.read(rows.ChangeRow, where, self.number, *_key(row)), None)

    def _note(
        self,
        db: sqlite3.Connection,
        row: rows.VerdictRow,
        verdicts: tuple[Verdict | None, Verdict | None],
        cause: str,
        why: str,
    ) -> None:
        """Note a change; verdicts: before and after."""
        if self.first:
            return
        before, after = verdicts
        noted = self._noted(row)
        before = noted.before if noted is not None else before
        where = f"scan = ? AND {SAME_VERDICT}"
        db.execute(f"DELETE FROM changes WHERE {where}", (self.number, *_key(row)))
        if (kind := changes.kind(before, after)) is not None:
            change = rows.ChangeRow(
                self.number, kind, row.target, row.draft, row.asked, row.engine, row.version,
                row.method, before, after, cause, why[:600], row.slot,
            )  # fmt: skip
            insert(db, change)

    def finish(
        self,
        pairs: PlannedPairs | None,
        causes: Mapping[str, tuple[str, str]],
        counts: Mapping[str, int],
        seconds: float,
    ) -> None:
        """Write the end of a scan; pairs: None when it was cut short.

        causes: for models that are no candidates any more, the cause and a sentence.
        """
        with self.store.transaction() as db:
            if pairs is not None:
                self._clean(db, pairs, causes)
            db.execute(
                "UPDATE scans SET state = ?, finished = ?, counts = ?, seconds = ?"
                " WHERE number = ?",
                ("partial" if pairs is None else "complete", now(), stable_json(dict(counts)),
                 round(seconds, 3), self.number),
            )  # fmt: skip

    def _clean(
        self, db: sqlite3.Connection, pairs: PlannedPairs, causes: Mapping[str, tuple[str, str]]
    ) -> None:
        """Drop the verdicts of pairs that are none any more, and facts that nobody has."""
        wanted = set(pairs)
        usual = ("left-list", "it is no candidate any more")
        for pair in list(self.store.read(rows.PairRow)):
            key = (pair.target, pair.draft)
            if key in wanted:
                continue
            refs = (pair.draft, repo_of(pair.draft), pair.target, repo_of(pair.target))
            cause, why = next((causes[ref] for ref in refs if ref in causes), usual)
            for old in self._verdicts(key).values():
                self._drop(db, old, cause, why)
            db.execute(f"DELETE FROM pairs WHERE {SAME_PAIR}", key)
        db.execute(
            "DELETE FROM facts WHERE digest NOT IN"
            " (SELECT facts FROM models WHERE facts IS NOT NULL)"
        )

    def _insert(self, row: Any, **more: Any) -> None:
        with self.store.transaction() as db:
            insert(db, row, **more)

    def _execute(self, query: str, values: Sequence[Any]) -> None:
        with self.store.transaction() as db:
            db.execute(query, values)


def _key(row: rows.VerdictRow) -> tuple[str, str, str, str]:
    return row.target, row.draft or rows.ALONE, row.asked, row.slot


def now() -> str:
    """The time for people to read; nothing is ordered by it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
