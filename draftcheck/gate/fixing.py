"""Safe changes -> new text of files. Nothing but what the changes name is touched."""

from __future__ import annotations

import codecs
import difflib
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from draftcheck.deploy.text import SourceText, decoded
from draftcheck.errors import ReadError
from draftcheck.gate import writing
from draftcheck.values.findings import Finding, Fix

Span = tuple[int, int, str]
"""From, up to, and what takes its place."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file before and after."""

    name: str
    before: bytes
    after: bytes
    applied: int
    """Findings that are mended by it."""


def plan(findings: Iterable[Finding], read: dict[str, bytes]) -> list[ChangedFile]:
    """What the safe changes of these findings make of the files, as they were read."""
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.fixable and finding.ignored is None:
            by_file.setdefault(finding.place.file, []).append(finding)
    changed = []
    for name, found in by_file.items():
        if name in read and (done := _change(name, read[name], found)) is not None:
            changed.append(done)
    return changed


def _change(name: str, data: bytes, findings: Sequence[Finding]) -> ChangedFile | None:
    text, encoding = decoded(data)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) and encoding == "utf-8" else b""
    starts = SourceText(name, text).lines
    taken: list[Span] = []
    """In order, none overlapping another."""
    applied = 0
    for finding in findings:
        spans = [_span(change, starts, len(text)) for change in finding.changes]
        if any(span is None for span in spans):
            continue
        new = [span for span in spans if span is not None and not _there(span, taken)]
        # All changes of a finding or none: half a fix is a new mistake.
        if not any(_overlaps(span, taken) for span in new):
            for span in new:
                insort(taken, span)
            applied += 1
    for start, end, put in reversed(taken):
        text = text[:start] + put + text[end:]
    after = mark + text.encode(encoding)
    return ChangedFile(name, data, after, applied) if after != data else None


def _span(change: Fix, starts: Sequence[int], size: int) -> Span | None:
    place = change.place
    last = place.end_line or place.line
    if place.end_column is None or not 1 <= place.line <= last <= len(starts):
        return None
    start = starts[place.line - 1] + place.column - 1
    end = starts[last - 1] + place.end_column - 1
    return (start, end, change.text) if 0 <= start <= end <= size else None


def _there(span: Span, taken: Sequence[Span]) -> bool:
    at = bisect_left(taken, span)
    return at < len(taken) and taken[at] == span


def _overlaps(span: Span, taken: Sequence[Span]) -> bool:
    """Whether it shares characters, or its very place, with a neighbour."""
    at = bisect_left(taken, span)
    for other in taken[max(at - 1, 0) : at + 1]:
        if span[:2] == other[:2] or (span[0] < other[1] and other[0] < span[1]):
            return True
    return False


def patch(changes: Iterable[ChangedFile]) -> str:
    """A unified diff of all of them."""
    lines: list[str] = []
    for change in changes:
        before, after = (decoded(data)[0] for data in (change.before, change.after))
        for line in difflib.unified_diff(
            _lines(before), _lines(after), f"a/{change.name}", f"b/{change.name}", lineterm="\n"
        ):
            lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines)


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def write(change: ChangedFile) -> None:
    """Put the new text in place, if the file is still what was looked at."""
    path = Path(change.name)
    try:
        now = path.read_bytes()
    except OSError as error:
        raise ReadError(f"{change.name}: {error.strerror}") from error
    if now != change.before:
        raise ReadError(f"{change.name}: changed while it was looked at")
    writing.write(path, change.after, change.name)
