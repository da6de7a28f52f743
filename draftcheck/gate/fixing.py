"""Safe changes -> new bytes of files, or a word why a file stays as it is.

A finding names the text that is to stand in the place of another. plan() puts these into the text
of the file, keeps its encoding, mark and line ends, and reads the result as the gate would: it
counts only if the findings are gone, none has come, and the same engines start with the same
models. Where all changes of a file together do not hold, they are tried one by one.
"""

from __future__ import annotations

import difflib
import os
import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from draftcheck import atomic
from draftcheck.deploy.deployment import Deployment
from draftcheck.deploy.text import SourceText, decoded
from draftcheck.errors import ReadError
from draftcheck.gate.survey import DeploySurvey, SurveyedFile
from draftcheck.values.findings import Finding

Span = tuple[int, int, str]
"""From, up to, and what takes its place."""
NO_END = b"\\ No newline at end of file\n"
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_ESCAPES = {
    **{code: f"\\{code:03o}" for code in (*range(32), *range(127, 256))},
    **{
        ord(letter): f"\\{name}"
        for letter, name in zip('\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True)
    },
}
MOST_TRIED = 20
"""Findings of a file that are tried alone; each costs a reading of the file."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file before and after."""

    name: str
    before: bytes
    after: bytes
    applied: int
    """Findings that are mended by it."""


@dataclass(slots=True)
class FixPlan:
    """What can be changed, and a line for each thing that stays as it is."""

    changes: list[ChangedFile] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def plan(findings: Iterable[Finding], surveyed: DeploySurvey) -> FixPlan:
    """What the safe changes of these findings make of the files, as they were read."""
    files = {file.name: file for file in surveyed.files}
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.fixable and finding.ignored is None and finding.place.file in files:
            by_file.setdefault(finding.place.file, []).append(finding)
    made = FixPlan()
    for name, found in by_file.items():
        if reason := _untouchable(name):
            made.refused.append(f"{name}: {reason}")
        elif file := surveyed.read(name, files[name].data):  # alone, as it is read afterwards
            _mend(file, found, surveyed, made)
    return made


def _untouchable(name: str) -> str:
    """Why nobody but its owner should write to a file; empty: nothing speaks against it."""
    try:
        about = Path(name).stat()
    except OSError as error:
        return error.strerror or "not there any more"
    if not about.st_mode & 0o222 or not os.access(name, os.W_OK):
        return "it is read-only"
    return "it has other names (hard links)" if about.st_nlink > 1 else ""


def _mend(
    file: SurveyedFile, findings: Sequence[Finding], surveyed: DeploySurvey, made: FixPlan
) -> None:
    held = findings
    after, applied = spliced(file.name, file.data, findings)
    if not _holds(file, after, applied, surveyed):
        held = []
        for finding in findings[:MOST_TRIED]:
            after, applied = spliced(file.name, file.data, [*held, finding])
            if len(applied) > len(held) and _holds(file, after, applied, surveyed):
                held = applied
        after, applied = spliced(file.name, file.data, held)
    sound = {id(finding) for finding in held}
    for finding in findings:
        if id(finding) not in sound:
            where = f"{file.name}:{finding.place.line}"
            made.refused.append(f"{where}: {finding.rule}: the file would not read as is meant")
    if after != file.data:
        made.changes.append(ChangedFile(file.name, file.data, after, len(applied)))


def spliced(name: str, data: bytes, findings: Sequence[Finding]) -> tuple[bytes, list[Finding]]:
    """The file with the changes of these findings, and the findings whose changes had room."""
    file = decoded(data)
    source = SourceText(name, file.text)
    taken: list[Span] = []
    """In order, none overlapping another."""
    known: set[Span] = set()
    applied = []
    for finding in findings:
        spans = [(change, source.span(change.place)) for change in finding.changes]
        if any(span is None for _, span in spans):
            continue
        new = {(*span, change.text) for change, span in spans if span is not None} - known
        # All changes of a finding or none: half a fix is a new mistake.
        if not any(_overlaps(span, taken) for span in new):
            known |= new
            for span in new:
                insort(taken, span)
            applied.append(finding)
    ends = [0, *(end for _, end, _ in taken)]
    parts = [file.text[end:start] + put for end, (start, _, put) in zip(ends, taken, strict=False)]
    text = "".join([*parts, file.text[ends[-1] :]])
    try:
        after = file.encoded(text)
    except UnicodeEncodeError:
        return data, []
    again = decoded(after)
    kept = file.encoded(file.text) == data and (again.encoding, again.text) == (file.encoding, text)
    return (after, applied) if kept else (data, [])


def _overlaps(span: Span, taken: Sequence[Span]) -> bool:
    """Whether it shares characters, or its very place, with a neighbour."""
    at = bisect_left(taken, span)
    for other in taken[max(at - 1, 0) : at + 1]:
        if span[:2] == other[:2] or (span[0] < other[1] and other[0] < span[1]):
            return True
    return False


def _holds(
    file: SurveyedFile, after: bytes, mended: Sequence[Finding], surveyed: DeploySurvey
) -> bool:
    """Whether the file says afterwards what was meant: the same, without these findings."""
    again = surveyed.read(file.name, after)
    if again is None or len(again.setups) != len(file.setups):
        return False
    for old, new in zip(file.setups, again.setups, strict=True):
        if _setup(old.deployment) != _setup(new.deployment):
            return False
        if old.deployment.speculates and not new.deployment.speculates:
            return False
    left = _troubles(file) - Counter(finding.rule for finding in mended)
    return _troubles(again) <= left and again.ignores == file.ignores


def _setup(deployment: Deployment) -> tuple[Any, ...]:
    """What no fix changes: which engine runs which models, and how."""
    models = [word and word.text for word in (deployment.target, deployment.draft)]
    return deployment.engine, deployment.version, models, deployment.circumstances


def _troubles(file: SurveyedFile) -> Counter[str]:
    """What is wrong with a file: rules, and why pairs cannot be judged."""
    found = Counter(finding.rule for finding in file.findings)
    for setup in file.setups:
        found.update(finding.rule for finding in setup.deployment.findings)
        found.update(trouble.text for trouble in setup.deployment.unknown)
    return found


# ---- showing and writing ----


def patch(changes: Iterable[ChangedFile]) -> bytes:
    """A unified diff of all of them, as `git apply` takes it: bytes as the files have them."""
    lines: list[bytes] = []
    for change in changes:
        before, after = (_LINE.findall(data) for data in (change.before, change.after))
        old, new = (_quoted(os.fsencode(f"{side}/{change.name}")) for side in "ab")
        for line in difflib.diff_bytes(difflib.unified_diff, before, after, old, new):
            lines.append(line if line.endswith(b"\n") else line + b"\n" + NO_END)
    return b"".join(lines)


def _quoted(name: bytes) -> bytes:
    """A name as git writes it (core.quotePath): nothing in it is obeyed by whoever shows it."""
    plain = name.decode("latin-1").translate(_ESCAPES).encode("ascii")
    if plain != name:
        return b'"' + plain + b'"'
    return name + b"\t" if b" " in name else name


def write(change: ChangedFile) -> None:
    """Put the new text in place, if the file is still what was looked at."""
    path = Path(change.name)
    try:
        now = path.read_bytes()
    except OSError as error:
        raise ReadError(f"{change.name}: {error.strerror}") from error
    if now != change.before:
        raise ReadError(f"{change.name}: changed while it was looked at")
    put(path, change.after, change.name)


def put(path: Path, data: bytes, shown: str) -> None:
    """Write a file whole or not at all; one that is there keeps its mode, a link stays a link."""
    try:
        atomic.write(path.resolve(), data)
    except OSError as error:
        raise ReadError(f"{shown}: cannot be written: {error.strerror}") from error
