"""JUnit XML: a case per setup and per finding of a file, for CI systems that show tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import quoteattr

from draftcheck.gate.results import GateReport
from draftcheck.report.gate import NOTHING, setup_words, where
from draftcheck.report.safe import safe
from draftcheck.values.findings import Finding
from draftcheck.values.words import Outcome, Severity

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: GateReport) -> str:
    suites: dict[str, list[str]] = {}
    tallies: dict[str, list[int]] = {}
    about: dict[int | None, list[Finding]] = {}
    for finding in report.findings:
        about.setdefault(finding.setup, []).append(finding)
    for number, setup in enumerate(report.setups):
        found = about.get(number, [])
        name = f"line {setup.place.line}: {setup_words(setup)}"
        _case(suites, tallies, setup.place.file, name, found)
    for finding in about.get(None, []):
        name = f"line {finding.place.line}: {finding.rule} {finding.slug}"
        _case(suites, tallies, finding.place.file, name, [finding])
    if not suites:
        _case(suites, tallies, "draftcheck", NOTHING, [], skipped=NOTHING)
    total = [sum(tally[i] for tally in tallies.values()) for i in range(4)]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {_tally(total)}>"]
    for file, cases in suites.items():
        lines += [f"<testsuite name={_attribute(file)} {_tally(tallies[file])}>", *cases]
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>"])


def _case(
    suites: dict[str, list[str]],
    tallies: dict[str, list[int]],
    file: str,
    name: str,
    findings: Iterable[Finding],
    skipped: str = "",
) -> None:
    tally = tallies.setdefault(file, [0, 0, 0, 0])
    head = f"<testcase classname={_attribute(file)} name={_attribute(name)} file={_attribute(file)}"
    failures, errors, said = [], [], []
    for finding in findings:
        line = f"{where(finding.place)}: {finding.rule} {finding.title}: {finding.saw}"
        if finding.ignored is not None:
            skipped = skipped or f"ignored {finding.rule}: {finding.ignored}"
        elif finding.outcome is Outcome.UNKNOWN:
            errors.append((finding, line))
        elif finding.severity is not Severity.ERROR:
            said.append(f"{finding.severity}: {line}; fix: {finding.fix}")
        else:
            failures.append((finding, line))
    inside = [
        f"<{tag} type={_attribute(f.rule)} message={_attribute(line)}>"
        f"{_text(f'{line}; why: {f.why}; fix: {f.fix}')}</{tag}>"
        for tag, group in (("failure", failures), ("error", errors))
        for f, line in group
    ]
    if skipped and not inside:
        inside.append(f"<skipped message={_attribute(skipped)}/>")
        tally[3] += 1
    if said:
        inside.append(f"<system-out>{_text(chr(10).join(said))}</system-out>")
    tally[0] += 1
    tally[1] += bool(failures)
    tally[2] += bool(errors and not failures)
    body = f">{''.join(inside)}</testcase>" if inside else "/>"
    suites.setdefault(file, []).append(head + body)


def _tally(tally: list[int]) -> str:
    names = ("tests", "failures", "errors", "skipped")
    return " ".join(f'{name}="{count}"' for name, count in zip(names, tally, strict=True))


def _text(text: str) -> str:
    plain = "\n".join(safe(line, 2000) for line in text.split("\n"))
    plain = _NOT_XML.sub("?", plain)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", safe(text, 1000)))
