"""The gate's report in seven forms: for terminals, programs, job summaries and CI systems."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from draftcheck.evidence.matching import ModelNames, plain
from draftcheck.gate.results import CheckedDeployment, GateReport
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.layout import plural, wrapped
from draftcheck.report.safe import md, safe
from draftcheck.report.text import COLOURS, SEVERITY_COLOURS, published_of
from draftcheck.rulebook import book
from draftcheck.settings import __version__
from draftcheck.values.findings import FilePlace, Finding, Fix
from draftcheck.values.words import Outcome, Severity

if TYPE_CHECKING:
    from draftcheck.evidence.published import PublishedFigure

NOTHING = "nothing to check: no file here starts an engine with speculative decoding"
WORST_FIRST = ("error", "warning", "not checked", "note", "ignored")


def _text(report: GateReport, verbose: bool) -> str:
    """What it comes to, then the findings by cause: a line each, why and fix once."""
    blocks = [_summary(report)]
    causes: dict[tuple[str, ...], list[Finding]] = {}
    for finding in _shown(report, verbose):
        cause = (_word_for(finding), finding.rule, finding.why, finding.fix)
        causes.setdefault(cause, []).append(finding)
    order = sorted(causes.values(), key=lambda group: WORST_FIRST.index(_word_for(group[0])))
    blocks += [_cause(group, report) for group in order]
    for setup in report.setups if verbose else ():
        word = click.style(str(setup.verdict), fg=COLOURS[setup.verdict])
        blocks.append(f"{_where(setup.place)}: {word}: {safe(_setup_words(setup), 1000)}")
        if (row := _published(setup)) is not None:
            blocks[-1] += "\n" + wrapped("  published   ", f"{row.words} ({row.source})")
    return "\n\n".join(blocks)


def _concise(report: GateReport, verbose: bool) -> str:
    """A line for what it comes to, and a line per finding."""
    lines = [_summary(report)]
    for finding in _shown(report, verbose):
        word = click.style(_word_for(finding), fg=_colour(finding))
        mended = " (--fix does it)" if finding.fixable else ""
        head = f"{_where(finding.place)}: {word}[{finding.rule}] {safe(finding.title)}"
        lines.append(f"{head}: {safe(finding.saw, 300)}{mended}")
    return "\n".join(lines)


def _summary(report: GateReport) -> str:
    if report.empty:
        return f"{NOTHING} ({_count(report.looked_at, 'file')} looked at)"
    word = click.style(str(report.verdict), fg=COLOURS[report.verdict], bold=True)
    return f"{word}: {_counts(report)}"


def _shown(report: GateReport, verbose: bool) -> list[Finding]:
    return [f for f in report.findings if verbose or (f.ignored is None and not _remark(f))]


def _remark(finding: Finding) -> bool:
    """What nothing stops for: counted, and told where it is asked for. Only where options were seen
    and not read is always told."""
    return finding.severity is Severity.NOTE and finding.rule not in ("GAT017", "GAT018")


def _cause(group: list[Finding], report: GateReport) -> str:
    """Findings of one rule with the same reason and the same way out."""
    first = group[0]
    head = click.style(
        f"{_word_for(first)}[{first.rule} {first.slug}]", fg=_colour(first), bold=True
    )
    lines = [f"{head} {safe(first.title)}"]
    for finding in group:
        told = f"{_where(finding.place)}: {safe(finding.saw, 1000)}"
        lines.append(told + (" (--fix does it)" if finding.fixable else ""))
        if finding.ignored is not None:
            lines.append(_field("ignored", finding.ignored))
    setups = {f.setup: _setup_words(report.setups[f.setup]) for f in group if f.setup is not None}
    if len(setups) == 1:
        lines.append(_field("setup", next(iter(setups.values()))))
    if first.severity is not Severity.NOTE:
        lines += [_field("why", first.why), _field("fix", first.fix)]
    return "\n".join(lines)


def _colour(finding: Finding) -> str:
    unknown = finding.outcome is Outcome.UNKNOWN
    return "magenta" if unknown else SEVERITY_COLOURS[finding.severity]


def _word_for(finding: Finding) -> str:
    """How sure and how bad, in a word."""
    if finding.ignored is not None:
        return "ignored"
    return "not checked" if finding.outcome is Outcome.UNKNOWN else str(finding.severity)


def _where(place: FilePlace) -> str:
    return f"{safe(place.file)}:{place.line}:{place.column}"


def _setup_words(setup: CheckedDeployment) -> str:
    name = f"{setup.name}: " if setup.name else ""
    version = setup.version or "?"
    engine = setup.engine
    if setup.fork:
        engine, version = setup.fork, f"(a fork of {setup.engine})"
    method = f", {setup.method}" if setup.method else ""
    models = setup.target or "?"
    if setup.draft:
        models += f" with {setup.draft}"
    return f"{name}{models} on {engine} {version}{method}"


def _published(setup: CheckedDeployment) -> PublishedFigure | None:
    """What others measured of a setup's pair; told to whoever asks, never a finding."""
    own = setup.draft is None and book.uses_own_layers(setup.engine, setup.method)
    if setup.target is None or (setup.draft is None and not own):
        return None
    draft = None if setup.draft is None else ModelNames(plain(setup.draft))
    return published_of(ModelNames(plain(setup.target)), draft)


def _published_json(setup: CheckedDeployment) -> dict[str, Any] | None:
    row = _published(setup)
    if row is None:
        return None
    from draftcheck.report.known import figure_json

    return figure_json(row)


def _field(name: str, value: str) -> str:
    return wrapped(f"  {name.ljust(7)} ", safe(value, 1000))


def _counts(report: GateReport) -> str:
    """Everything that was looked at and found, in a sentence."""
    parts = [
        _count(report.count(Severity.ERROR), "error"),
        _count(report.count(Severity.WARNING), "warning"),
    ]
    if report.unchecked:
        parts.append(f"{report.unchecked} not checked")
    if notes := sum(f.ignored is None and _remark(f) for f in report.findings):
        parts.append(f"{_count(notes, 'note')} (--verbose shows {'it' if notes == 1 else 'them'})")
    if ignored := sum(f.ignored is not None for f in report.findings):
        parts.append(f"{ignored} ignored")
    setups = _count(len(report.setups), "setup")
    if seen := sum(f.rule == "GAT017" and f.ignored is None for f in report.findings):
        setups += f", {seen} of them only seen"
    idle = f", {report.idle} without speculation" if report.idle else ""
    idle += f", {report.recipes} in Markdown" if report.recipes else ""
    fixable = sum(f.fixable and f.ignored is None for f in report.findings)
    hint = f"; --fix mends {fixable}" if fixable else ""
    files = _count(report.looked_at, "file")
    return f"{', '.join(parts)} in {setups}{idle} ({files} looked at){hint}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {plural(number, word)}"


def _body(report: GateReport) -> dict[str, Any]:
    """The contract's JSON."""
    return {
        **HEAD,
        **picked(
            report, "verdict", "nothing_to_check=empty", "files_looked_at=looked_at",
            "setups_without_speculation=idle", "setups_in_markdown=recipes", "lock", "missing",
        ),
        "setups": [
            {
                **_place_object(setup.place),
                "name": setup.name or None,
                "engine": setup.engine,
                "fork": setup.fork or None,
                "version": setup.version,
                "version_from": setup.version_from or None,
                **picked(setup, "method", "target", "draft", "reaction", "verdict", "trial"),
                "published": _published_json(setup),
            }
            for setup in report.setups
        ],
        "findings": [
            {
                **picked(finding, "rule", "slug", "severity", "outcome"),
                **_place_object(finding.place),
                **picked(finding, "setup", "title", "saw", "why", "fix", "source", "fixable"),
                "changes": [
                    {**_place_object(change.place), **picked(change, "text", "safe")}
                    for change in finding.changes
                ],
                "ignored": finding.ignored,
            }
            for finding in report.findings
        ],
    }  # fmt: skip


def _place_object(place: FilePlace) -> dict[str, Any]:
    return picked(place, "file", "line", "column", "end_line", "end_column")


def _markdown(report: GateReport) -> Iterator[str]:
    """A job summary."""
    verdict = "nothing to check" if report.empty else report.verdict
    yield from (f"### draftcheck gate: {verdict}", "")
    yield (NOTHING if report.empty else _counts(report)) + "."
    shown = [f for f in report.findings if f.ignored is None and not _remark(f)]
    if shown:
        yield from ("", "| place | finding | saw | fix |", "|---|---|---|---|")
    for finding in shown:
        place = md(f"{finding.place.file}:{finding.place.line}")
        head = f"**{_word_for(finding)}** {md(finding.rule)} {md(finding.title)}"
        yield f"| {place} | {head} | {md(finding.saw)} | {md(finding.fix)} |"
    if report.setups:
        yield from ("", "| setup | engine | models | verdict |", "|---|---|---|---|")
    for setup in report.setups:
        place = md(f"{setup.place.file}:{setup.place.line}")
        engine = md(f"{setup.fork or setup.engine} {setup.version or '?'}")
        models = " with ".join(md(name) for name in (setup.target or "?", setup.draft) if name)
        yield f"| {place} | {engine} | {models} | {setup.verdict} |"
    ignored = [f for f in report.findings if f.ignored is not None]
    if ignored:
        yield ""
    for finding in ignored:
        place = md(f"{finding.place.file}:{finding.place.line}")
        yield f"- ignored {md(finding.rule)} at {place}: {md(finding.ignored or '')}"


# ---- GitHub annotations ----


def _github(report: GateReport) -> str:
    """Workflow commands that GitHub shows as annotations of a pull request."""
    # GitHub shows ten annotations of a kind: remarks about pairs that run stay out.
    lines = [_annotation(f) for f in report.findings if f.ignored is None and not _remark(f)]
    if report.empty:
        lines.append(f"::notice title=draftcheck::{_command_data(NOTHING)}")
    else:
        # The last line is for the log; :: at its start would make it a command.
        lines.append(f"draftcheck: {report.verdict}: {safe(_counts(report))}")
    return "\n".join(lines)


def _annotation(finding: Finding) -> str:
    place = finding.place
    fields = {"file": place.file, "line": str(place.line)}
    last = place.end_line or place.line
    if last != place.line:
        fields["endLine"] = str(last)
    fields["col"] = str(place.column)
    if last == place.line and place.end_column is not None:
        fields["endColumn"] = str(place.end_column)
    unknown = finding.outcome is Outcome.UNKNOWN
    fields["title"] = f"{finding.rule} {finding.slug}" + (" (not checked)" if unknown else "")
    said = ",".join(
        f"{name}=" + _command_data(safe(value)).replace(":", "%3A").replace(",", "%2C")
        for name, value in fields.items()
    )
    words = f"{safe(finding.title)}\nsaw: {safe(finding.saw, 1000)}\nfix: {safe(finding.fix, 1000)}"
    level = "notice" if finding.severity is Severity.NOTE else finding.severity
    return f"::{level} {said}::{_command_data(f'{_word_for(finding)}: {words}')}"


def _command_data(text: str) -> str:
    """The message of a command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


# ---- JUnit ----

_NOT_XML = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"

Suites = dict[str, tuple[Counter[str], list[str]]]
"""File -> how its cases came out, and the cases."""


def _junit(report: GateReport) -> str:
    """JUnit XML: a case per setup and per finding of a file, for CI systems that show tests."""
    suites: Suites = {}
    about: dict[int | None, list[Finding]] = {}
    for finding in report.findings:
        about.setdefault(finding.setup, []).append(finding)
    for number, setup in enumerate(report.setups):
        found = about.get(number, [])
        name = f"line {setup.place.line}: {_setup_words(setup)}"
        _case(suites, setup.place.file, name, found)
    for finding in about.get(None, []):
        name = f"line {finding.place.line}: {finding.rule} {finding.slug}"
        _case(suites, finding.place.file, name, [finding])
    if not suites:
        _case(suites, "draftcheck", NOTHING, [], skipped=NOTHING)
    total = sum((tally for tally, _ in suites.values()), Counter[str]())
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {_tally(total)}>"]
    for file, (tally, cases) in suites.items():
        lines += [f"<testsuite name={_xml_attribute(file)} {_tally(tally)}>", *cases]
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>"])


def _case(
    suites: Suites, file: str, name: str, findings: Iterable[Finding], skipped: str = ""
) -> None:
    tally, cases = suites.setdefault(file, (Counter(), []))
    place = _xml_attribute(file)
    head = f"<testcase classname={place} name={_xml_attribute(name)} file={place}"
    failures, errors, said = [], [], []
    for finding in findings:
        line = f"{_where(finding.place)}: {finding.rule} {finding.title}: {finding.saw}"
        if finding.ignored is not None:
            skipped = skipped or f"ignored {finding.rule}: {finding.ignored}"
        elif finding.outcome is Outcome.UNKNOWN:
            errors.append((finding, line))
        elif finding.severity is not Severity.ERROR:
            said.append(f"{finding.severity}: {line}; fix: {finding.fix}")
        else:
            failures.append((finding, line))
    inside = [
        f"<{tag} type={_xml_attribute(f.rule)} message={_xml_attribute(line)}>"
        f"{_xml_text(f'{line}; why: {f.why}; fix: {f.fix}')}</{tag}>"
        for tag, group in (("failure", failures), ("error", errors))
        for f, line in group
    ]
    if skipped and not inside:
        inside.append(f"<skipped message={_xml_attribute(skipped)}/>")
        tally["skipped"] += 1
    if said:
        inside.append(f"<system-out>{_xml_text(chr(10).join(said))}</system-out>")
    tally["tests"] += 1
    tally["failures"] += bool(failures)
    tally["errors"] += bool(errors and not failures)
    body = f">{''.join(inside)}</testcase>" if inside else "/>"
    cases.append(head + body)


def _tally(tally: Counter[str]) -> str:
    names = ("tests", "failures", "errors", "skipped")
    return " ".join(f'{name}="{tally[name]}"' for name in names)


def _xml_text(text: str) -> str:
    plain = "\n".join(safe(line, 2000) for line in text.split("\n"))
    plain = re.sub(_NOT_XML, "?", plain)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _xml_attribute(text: str) -> str:
    from xml.sax.saxutils import quoteattr  # it loads a client for HTTP

    return quoteattr(re.sub(_NOT_XML, "?", safe(text, 1000)))


# ---- SARIF ----

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def _sarif(report: GateReport) -> str:
    """SARIF 2.1.0, as GitHub code scanning and other viewers read it."""
    home = _home()
    rules = list({finding.rule: finding for finding in report.findings}.values())
    order = {finding.rule: number for number, finding in enumerate(rules)}
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if report.empty:
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": {"text": NOTHING}}]
    seen: Counter[str] = Counter()
    results = []
    for finding in report.findings:
        # The same digest for the same finding in a file whose other lines changed.
        about = "" if finding.setup is None else _setup_words(report.setups[finding.setup])
        parts = "\0".join((finding.rule, finding.place.file, finding.saw, about))
        digest = hashlib.sha256(parts.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        seen[digest] += 1  # the same twice in a file: counted apart
        results.append(_result(finding, report, order, f"{digest}:{seen[digest]}"))
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
        "results": results,
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


PAGES = {"TRU": "every-engine", "MEM": "every-engine", "FIL": "deploy-files", "GAT": "deploy-files"}


def _home() -> str | None:
    """The repository that this package was built from, when it says so; never a guess."""
    from importlib.metadata import PackageNotFoundError, metadata  # as long as the rest together

    try:
        told = metadata("draftcheck-llm").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    named = (entry.partition(",") for entry in told)
    return next((url.strip() for label, _, url in named if label.lower() == "repository"), None)


def _rule(finding: Finding, report: GateReport, home: str | None) -> dict[str, Any]:
    engine = report.setups[finding.setup].engine if finding.setup is not None else "README"
    page = quote(PAGES.get(finding.rule[:3], engine))
    anchor = f"{finding.rule} {finding.slug}".lower().replace(" ", "-")
    return {
        "id": finding.rule,
        "name": "".join(part.capitalize() for part in finding.slug.split("-")),
        "shortDescription": {"text": _sentence(finding.title)},
        "fullDescription": {"text": _sentence(finding.why)},
        "help": {"text": f"{_sentence(finding.why)} {finding.fix}"},
        **({"helpUri": f"{home}/blob/main/docs/rules/{page}.md#{anchor}"} if home else {}),
        "defaultConfiguration": {"level": finding.severity},
        "properties": {"tags": ["speculative-decoding"]},
    }


def _result(
    finding: Finding, report: GateReport, order: Mapping[str, int], mark: str
) -> dict[str, Any]:
    lead = "Not checked: " if finding.outcome is Outcome.UNKNOWN else ""
    body: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": order[finding.rule],
        "level": finding.severity,
        "message": {"text": f"{lead}{_sentence(finding.title)} {finding.saw}. {finding.fix}"},
        "locations": [{"physicalLocation": _physical(finding.place)}],
        "partialFingerprints": {"draftcheck/v1": mark},
    }
    if finding.setup is not None:
        setup = report.setups[finding.setup]
        message = {"text": _setup_words(setup)}
        body["relatedLocations"] = [
            {"id": 1, "physicalLocation": _physical(setup.place), "message": message}
        ]
    if finding.fixable:
        body["fixes"] = [_fix(finding.fix, finding.changes)]
    if finding.ignored is not None:
        body["suppressions"] = [{"kind": "inSource", "justification": finding.ignored}]
    return body


def _physical(place: FilePlace) -> dict[str, Any]:
    return {"artifactLocation": _artifact(place.file), "region": _region(place)}


def _artifact(file: str) -> dict[str, Any]:
    uri = quote(file.encode("utf-8", "surrogateescape"))
    return {"uri": uri} if file.startswith("/") else {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _region(place: FilePlace) -> dict[str, Any]:
    ends = {"endLine": place.end_line, "endColumn": place.end_column}
    known = {name: end for name, end in ends.items() if end is not None}
    return {"startLine": place.line, "startColumn": place.column, **known}


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


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


FORMATS: Mapping[str, Callable[[GateReport, bool], str]] = {
    "text": _text,
    "concise": _concise,
    "json": lambda report, _: dumps(_body(report)),
    "markdown": lambda report, _: "\n".join(_markdown(report)),
    "sarif": lambda report, _: _sarif(report),
    "junit": lambda report, _: _junit(report),
    "github": lambda report, _: _github(report),
}
"""Form -> the report; the second argument is whether it was asked to be verbose."""
