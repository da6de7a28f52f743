"""A made-up site written into a store, as a scan would have left it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from draftcheck.report.site.data import SiteData
from draftcheck.scan import schema
from draftcheck.scan.rows import ChangeRow, ModelRow, ScanRow, VerdictRow
from draftcheck.scan.store import ScanStore

Values = dict[str, Any]


def fill(path: Path, site: SiteData) -> Path:
    """Every table that the report reads; facts are left out, so nothing has a price."""
    with ScanStore.open(path) as store, store.transaction() as db:
        for scan in (site.previous, site.scan):
            if scan is not None:
                _insert(db, "scans", _scan(scan))
        for place, target in enumerate(site.targets):
            row = {"ref": target.ref, "place": place, "source": "named", "scan": 1}
            _insert(db, "targets", {**row, "problem": target.unread})
        for model in {m.ref: m for m in (*site.targets, *site.drafts)}.values():
            _insert(db, "models", _model(model))
        for pair in site.every():
            for answer in pair.answers:
                _insert(db, "verdicts", {**_verdict(answer), "slot": ""})
            if pair.trial is not None:
                _insert(db, "trials", _trial(site, pair.target, pair.draft, pair.trial))
        for answers in site.alone.values():
            for answer in answers:
                _insert(db, "verdicts", {**_verdict(answer), "slot": answer.method or ""})
        for change in site.changes:
            _insert(db, "changes", _change(change, site.scan.number if site.scan else 1))
        for pin in site.pins:
            row = {"target": pin.target, "draft": pin.draft, "engines": json.dumps(pin.engines)}
            _insert(db, "pins", row)
        for ref in site.gated:
            row = {"name": ref, "sha": "1", "seen": 1, "listed": '{"kind": "full", "gated": true}'}
            _insert(db, "repos", row)
        for model in site.unread:
            _insert(db, "models", _model(model))
        for scan, changes in site.earlier:
            for change in changes:
                _insert(db, "changes", _change(change, scan.number))
    return path


def _insert(db: Any, table: str, values: Values) -> None:
    names = ", ".join(schema.NAMES.get(name, name) for name in values)
    marks = ", ".join("?" for _ in values)
    db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))


def _scan(scan: ScanRow) -> Values:
    return {
        "number": scan.number, "state": scan.state, "started": scan.started,
        "finished": scan.finished, "draftcheck": scan.draftcheck, "settings": "{}",
        "counts": json.dumps(scan.counts),
    }  # fmt: skip


def _model(model: ModelRow) -> Values:
    return {**asdict(model), "since": 1, "scan": 1}


def _verdict(answer: VerdictRow) -> Values:
    findings = [
        [reason.rule, reason.outcome, reason.severity, answer.reaction, reason.saw]
        for reason in answer.findings
    ]
    memory = answer.memory and json.dumps({**asdict(answer.memory), "kv_per_token": [1, 2]})
    return {
        **asdict(answer), "draft": answer.draft or "", "findings": json.dumps(findings),
        "decided_by": findings[0][0] if findings else None, "verdict": str(answer.verdict),
        "version_checked": int(answer.version_checked), "memory": memory,
        "notes": json.dumps(answer.notes),
        "passed": 9, "rules": "", "since": 1,
    }  # fmt: skip


def _trial(site: SiteData, target: str, draft: str, body: Any) -> Values:
    revisions = {model.ref: model.revision for model in (*site.targets, *site.drafts)}
    return {
        "target": target, "draft": draft, "key": "k", "target_revision": revisions[target],
        "draft_revision": revisions[draft], "backend": "transformers", "state": "done",
        "body": json.dumps(body), "since": 1,
    }  # fmt: skip


def _change(change: ChangeRow, scan: int) -> Values:
    values = {**asdict(change), "scan": scan, "draft": change.draft or "", "slot": ""}
    del values["pinned"]  # the pins say it
    return values
