"""Where the characters of a YAML scalar stand: quoted, folded and block scalars included."""

from __future__ import annotations

import re

from draftcheck.deploy.syntax.variables import filled
from draftcheck.deploy.text import TextView, joined

_BLANKS = re.compile(r"[ \t]*")
_BREAKS = re.compile(r"[ \t\r\n]*")
_DOUBLED = re.compile("''")
_ESCAPED = {"x": 2, "u": 4, "U": 8}


def scalar(view: TextView, value: str, start: int, end: int, style: str | None) -> TextView:
    """The value of a scalar that stands in text[start:end], with the place of each character."""
    if style in ("|", ">"):
        found = _block(view, value, start, end)
    elif style == '"' and "\\" in view.text[start:end]:
        found = _escaped(view, value, start + 1, end - 1)
    elif style == "'" and "''" in view.text[start + 1 : end - 1]:
        found = _doubled(view, start + 1, end - 1)
    else:
        inner = 1 if style in ("'", '"') else 0
        found = _lines(view, value, start + inner, end - inner)
    if found is None or found.text != value:
        return view.vague(value, start, end)
    return found


def _lines(view: TextView, value: str, start: int, end: int) -> TextView | None:
    """Line by line: folding changes breaks and the blanks around them only."""
    if view.text[start:end] == value:
        return view.slice(start, end)
    parts, at = list[TextView](), 0
    source = view.slice(start, end)
    for first, last in source.lines():
        text = source.text[first:last]
        left = len(text) - len(text.lstrip(" \t"))
        stripped = text.strip(" \t")
        if not stripped:
            continue
        # The blanks at the ends of a quoted text belong to it.
        lead = 0
        while lead < left and at < len(value) and value.startswith(text[left - lead - 1], at):
            if not value.startswith(text[left - lead - 1 : left] + stripped, at):
                break
            lead += 1
        gap = value.find(stripped, at)
        if gap < 0 or value[at:gap].strip():
            return None
        if gap > at:
            parts.append(_break(source, value[at:gap], first))
        parts.append(source.slice(first + left, first + left + len(stripped)))
        at = gap + len(stripped)
    if value[at:].strip():
        return None
    if at < len(value):
        parts.append(_break(source, value[at:], max(len(source.text) - 1, 0)))
    return joined(parts) if parts else None


def _block(view: TextView, value: str, start: int, end: int) -> TextView | None:
    """A literal or folded block: its lines without their indentation."""
    header = view.text.find("\n", start)
    if header < 0 or header >= end:
        return view.slice(start, start) if not value else None
    parts, at = list[TextView](), 0
    source = view.slice(header + 1, end)
    for first, last in source.lines():
        text = source.text[first:last]
        stripped = text.lstrip(" ")
        if not stripped.strip():
            continue
        gap = value.find(stripped, at)
        if gap < 0 or value[at:gap].strip():
            return None
        keep = gap
        # Deeper indentation than the block's own belongs to the value.
        blanks = len(value[at:gap]) - len(value[at:gap].rstrip(" "))
        folded = parts and value[at:gap] == " "
        if not folded:
            keep = gap - min(blanks, len(text) - len(stripped))
        if keep > at:
            parts.append(_break(source, value[at:keep], max(first - 1, 0)))
        lead = gap - keep
        left = len(text) - len(stripped) - lead
        parts.append(source.slice(first + left, first + left + lead + len(stripped)))
        at = gap + len(stripped)
    if value[at:].strip():
        return None
    if at < len(value):
        parts.append(_break(source, value[at:], max(len(source.text) - 1, 0)))
    return joined(parts) if parts else None


def _break(source: TextView, text: str, at: int) -> TextView:
    """Line breaks as the value has them; they stand where a line of the file ends."""
    offset = source.offset(at)
    return TextView(source.source, text, [0], [offset], source.extent)


def _doubled(view: TextView, start: int, end: int) -> TextView | None:
    inner = view.slice(start, end)
    if "\n" in inner.text:
        return None
    return filled(inner, _DOUBLED, lambda quotes: inner.slice(quotes.start(), quotes.start() + 1))


def _escaped(view: TextView, value: str, start: int, end: int) -> TextView | None:
    """A double-quoted text with escapes: one character of the value per escape."""
    text, parts, at, done = view.text, list[TextView](), start, 0
    while at < end:
        slash = text.find("\\", at, end)
        line = text.find("\n", at, end if slash < 0 else slash)
        stop = min(each for each in (slash, line, end) if each >= 0)
        if line >= 0 and stop == line:
            stop = at + len(text[at:line].rstrip(" \t\r"))
        if stop > at:
            parts.append(view.slice(at, stop))
            done += stop - at
        if stop >= end:
            break
        if text[stop] == "\\":
            following = text[stop + 1 : stop + 2]
            size = 2 + _ESCAPED.get(following, 0)
            if following in ("\n", "\r"):
                at = stop + 1 + (2 if following == "\r" else 1)
                at = _after(_BLANKS, text, at, end)
                continue
            parts.append(_break(view, value[done : done + 1], stop))
            done += 1
            at = min(stop + size, end)
        else:
            at = _after(_BREAKS, text, stop, end)
            breaks = text.count("\n", stop, at)
            parts.append(_break(view, " " if breaks == 1 else "\n" * (breaks - 1), stop))
            done += len(parts[-1].text)
    return joined(parts) if parts else view.slice(start, start)


def _after(pattern: re.Pattern[str], text: str, at: int, end: int) -> int:
    match = pattern.match(text, at, end)
    return match.end() if match else at
