"""SARIF 2.1.0, as GitHub code scanning and other viewers read it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any
from urllib.parse import quote

from draftcheck.gate.results import GateReport
from draftcheck.report.gate import NOTHING, setup_words
from draftcheck.report.json import dumps
from draftcheck.settings import __version__
from draftcheck.values.findings import FilePlace, Finding, Fix
from draftcheck.values.words import Outcome, Severity

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
DISTRIBUTION = "draftcheck-llm"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
ROOT = "%SRCROOT%"


def render(report: GateReport) -> str:
    home = _home()
    rules = list({finding.rule: finding for finding in report.findings}.values())
    order = {finding.rule: number for number, finding in enumerate(rules)}
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if report.empty:
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": {"text": NOTHING}}]
    run = {
        "tool": {
            "driver": {
                "name": "draftcheck",
                "version": __version__,
                "semanticVersion": __version__,
                **({"informationUri": home} if home else {}),
                "rules": [_rule(finding, report, home) for finding in rules],
            }
        },
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": _results(report, order),
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


PAGES = {"TRU": "every-engine", "MEM": "every-engine", "FIL": "deploy-files", "GAT": "deploy-files"}


def _home() -> str | None:
    """The repository that this package was built from, when it says so; never a guess."""
    try:
        told = metadata(DISTRIBUTION).get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    named = (entry.partition(",") for entry in told)
    return next((url.strip() for label, _, url in named if label.lower() == "repository"), None)


def _page(finding: Finding, report: GateReport, home: str) -> str:
    """Where the rule is explained."""
    engine = report.setups[finding.setup].engine if finding.setup is not None else "README"
    page = PAGES.get(finding.rule[:3], engine)
    anchor = f"{finding.rule} {finding.slug}".lower().replace(" ", "-")
    return f"{home}/blob/main/docs/rules/{quote(page)}.md#{anchor}"


def _rule(finding: Finding, report: GateReport, home: str | None) -> dict[str, Any]:
    return {
        "id": finding.rule,
        "name": _pascal(finding.slug),
        "shortDescription": {"text": _sentence(finding.title)},
        "fullDescription": {"text": _sentence(finding.why)},
        "help": {"text": f"{_sentence(finding.why)} {finding.fix}"},
        **({"helpUri": _page(finding, report, home)} if home else {}),
        "defaultConfiguration": {"level": LEVELS[finding.severity]},
        "properties": {"tags": ["speculative-decoding"]},
    }


def _results(report: GateReport, order: Mapping[str, int]) -> list[dict[str, Any]]:
    seen: dict[str, int] = {}
    results = []
    for finding in report.findings:
        print_ = _fingerprint(finding, report)
        seen[print_] = seen.get(print_, 0) + 1  # the same twice in a file: counted apart
        results.append(_result(finding, report, order, f"{print_}:{seen[print_]}"))
    return results


def _result(
    finding: Finding, report: GateReport, order: Mapping[str, int], mark: str
) -> dict[str, Any]:
    unknown = finding.outcome is Outcome.UNKNOWN
    lead = "Not checked: " if unknown else ""
    body: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": order[finding.rule],
        "level": LEVELS[finding.severity],
        "message": {"text": f"{lead}{_sentence(finding.title)} {finding.saw}. {finding.fix}"},
        "locations": [{"physicalLocation": _physical(finding.place)}],
        "partialFingerprints": {"draftcheck/v1": mark},
    }
    if finding.setup is not None:
        setup = report.setups[finding.setup]
        related: dict[str, Any] = {
            "id": 1,
            "physicalLocation": _physical(setup.place),
            "message": {"text": setup_words(setup)},
        }
        body["relatedLocations"] = [related]
    if finding.fixable:
        body["fixes"] = [_fix(finding.fix, finding.changes)]
    if finding.ignored is not None:
        body["suppressions"] = [{"kind": "inSource", "justification": finding.ignored}]
    return body


def _physical(place: FilePlace) -> dict[str, Any]:
    return {"artifactLocation": _artifact(place.file), "region": _region(place)}


def _artifact(file: str) -> dict[str, Any]:
    uri = quote(file.encode("utf-8", "surrogateescape"))
    return {"uri": uri} if file.startswith("/") else {"uri": uri, "uriBaseId": ROOT}


def _region(place: FilePlace) -> dict[str, Any]:
    region = {"startLine": place.line, "startColumn": place.column}
    if place.end_line is not None:
        region["endLine"] = place.end_line
    if place.end_column is not None:
        region["endColumn"] = place.end_column
    return region


def _fix(words: str, changes: Sequence[Fix]) -> dict[str, Any]:
    by_file: dict[str, list[Fix]] = {}
    for change in changes:
        by_file.setdefault(change.place.file, []).append(change)
    return {
        "description": {"text": words},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(file),
                "replacements": [
                    {
                        "deletedRegion": _region(change.place),
                        "insertedContent": {"text": change.text},
                    }
                    for change in group
                ],
            }
            for file, group in by_file.items()
        ],
    }


def _fingerprint(finding: Finding, report: GateReport) -> str:
    """The same for the same finding in a file whose other lines changed."""
    setup = report.setups[finding.setup] if finding.setup is not None else None
    about = setup_words(setup) if setup is not None else ""
    parts = (finding.rule, finding.place.file, finding.saw, about)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _pascal(slug: str) -> str:
    return "".join(part.capitalize() for part in slug.split("-"))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."
