"""A made-up site written into a store, as a scan would have left it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftcheck.report.site.data import (
    SiteAnswer,
    SiteChange,
    SiteData,
    SiteMemory,
    SiteModel,
    SiteScan,
)
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
                row = {"target": pair.target, "draft": pair.draft, "relation": pair.relation}
                _insert(db, "verdicts", {**_verdict(answer), **row, "slot": ""})
            if pair.trial is not None:
                _insert(db, "trials", _trial(site, pair.target, pair.draft, pair.trial))
        for ref, answers in site.alone.items():
            for answer in answers:
                row = {"target": ref, "draft": "", "slot": answer.method or ""}
                _insert(db, "verdicts", {**_verdict(answer), **row})
        for change in site.changes:
            _insert(db, "changes", _change(change, site.scan.number if site.scan else 1))
        for pin in site.pins:
            row = {"target": pin.target, "draft": pin.draft, "engines": json.dumps(pin.engines)}
            _insert(db, "pins", row)
        for model in site.unread:
            problem = {"status": "gated", "problem": model.unread}
            _insert(db, "models", {**_model(model), **problem})
        for scan, changes in site.earlier:
            for change in changes:
                _insert(db, "changes", _change(change, scan.number))
    return path


def _insert(db: Any, table: str, values: Values) -> None:
    names = ", ".join(values)
    marks = ", ".join("?" for _ in values)
    db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))


def _scan(scan: SiteScan) -> Values:
    return {
        "number": scan.number, "state": "complete" if scan.complete else "partial",
        "started": scan.started, "finished": scan.finished, "draftcheck": scan.version,
        "settings": "{}", "counts": json.dumps(scan.counts),
    }  # fmt: skip


def _model(model: SiteModel) -> Values:
    return {
        "ref": model.ref, "kind": "hub", "revision": model.revision, "status": "read",
        "role": model.kind, "family": model.family, "parameters": model.parameters,
        "nbytes": model.nbytes, "architecture": model.architecture, "context": model.context,
        "downloads": model.downloads, "since": 1, "scan": 1,
    }  # fmt: skip


def _verdict(answer: SiteAnswer) -> Values:
    findings = [
        [reason.rule, reason.outcome, "error", answer.reaction, reason.saw]
        for reason in answer.reasons
    ]
    return {
        "asked": answer.asked, "engine": answer.engine, "version": answer.version,
        "version_checked": int(answer.checked), "method": answer.method,
        "reaction": answer.reaction, "verdict": str(answer.verdict),
        "decided_by": findings[0][0] if findings else None, "findings": json.dumps(findings),
        "passed": 9, "setup": answer.setup, "memory": _memory(answer.memory), "notes": "[]",
        "rules": "", "since": 1,
    }  # fmt: skip


def _memory(memory: SiteMemory | None) -> str | None:
    if memory is None:
        return None
    return json.dumps(
        {
            "gpu": memory.gpu, "answer": memory.answer, "required_bytes": memory.required,
            "available_bytes": memory.available, "max_context": memory.max_context,
            "target_bytes": 1, "draft_bytes": 2, "kv_per_token": [1, 2],
        }
    )  # fmt: skip


def _trial(site: SiteData, target: str, draft: str, body: Any) -> Values:
    revisions = {model.ref: model.revision for model in (*site.targets, *site.drafts)}
    return {
        "target": target, "draft": draft, "key": "k", "target_revision": revisions[target],
        "draft_revision": revisions[draft], "backend": "transformers", "state": "done",
        "body": json.dumps(body), "since": 1,
    }  # fmt: skip


def _change(change: SiteChange, scan: int) -> Values:
    return {
        "scan": scan, "target": change.target, "draft": change.draft or "",
        "asked": change.engine, "slot": "", "kind": change.kind, "engine": change.engine,
        "version": "1", "method": None, "before": change.before, "after": change.after,
        "cause": change.cause, "why": change.why,
    }  # fmt: skip
