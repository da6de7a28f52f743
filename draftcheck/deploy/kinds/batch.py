"""Windows batch and PowerShell files: commands, continued lines, SET variables."""

from __future__ import annotations

import re
from dataclasses import replace

from draftcheck.deploy.deployment import Contents
from draftcheck.deploy.kinds import shell
from draftcheck.deploy.syntax.variables import Variables, filled
from draftcheck.deploy.text import TextView, Word, joined

MAX_LINE = 20_000
_SET = re.compile(r"\s*@?set\s+\"?([\w-]+)=", re.IGNORECASE)
_DOLLAR_SET = re.compile(r"\s*\$(?:env:)?(\w+)\s*=\s*(?=[\"'\d])", re.IGNORECASE)
_TOKEN = re.compile(r"\\\"|[\"'&|<>]|\s+|[^\s\"'&|<>\\]+|\\")
_STARTS = re.compile(
    r"\s*(?:@|call\s+|start\s+(?:\"[^\"]*\"\s+)?(?:/\w+\s+)*|&\s+)*", re.IGNORECASE
)
_VARIABLE = re.compile(r"%([\w-]+)%|\$\{?(?:env:)?(\w+)\}?")


def read(view: TextView, contents: Contents) -> None:
    values = dict[str, TextView]()
    power = view.name.endswith(".ps1")
    for line in _logical(view, "`" if power else "^"):
        match = (_DOLLAR_SET if power else _SET).match(line.text)
        if re.match(r"\s*(?:rem\b|::|#|echo\b)", line.text, re.IGNORECASE):
            continue
        if match:
            end = len(line.text.rstrip())
            quoted = '"' in match[0] or line.text[match.end() : match.end() + 1] in ("'", '"')
            start = match.end() + (power and quoted)
            end -= quoted and line.text[end - 1 : end] in ("'", '"')
            values[match[1].lower()] = line.slice(start, max(start, end))
            continue
        if len(line.text) > MAX_LINE:
            contents.trouble(line.place(0, 1), "too long a line")
            continue
        args = _args(line, values, power)
        shell.Unwrapping(contents, Variables(), line.place()).emit(args)


def _logical(view: TextView, mark: str) -> list[TextView]:
    found, parts = list[TextView](), list[TextView]()
    for start, end in view.lines():
        text = view.text[start:end].rstrip()
        if text.endswith(mark):
            parts.append(view.slice(start, start + len(text) - 1))
            parts.append(view.blank(start + len(text) - 1))
        else:
            found.append(joined([*parts, view.slice(start, end)]))
            parts = []
    return [*found, joined(parts)] if parts else found


def _args(line: TextView, values: dict[str, TextView], power: bool) -> list[Word]:
    found = list[Word]()
    starts = _STARTS.match(line.text)
    command = line.slice(starts.end() if starts else 0, len(line.text))

    def value(match: re.Match[str]) -> TextView:
        """Unknown variables stay as they are spelled."""
        return values.get((match[1] or match[2]).lower(), command.slice(*match.span()))

    line = filled(command, _VARIABLE, value)
    for start, end, text in _words(line, power):
        word = text.word(line.place(start, end), line.raw(start, end))
        unknown = _VARIABLE.search(text.text)
        if not found:
            word = replace(word, text=re.sub(r"^.*\\", "", word.text).removesuffix(".exe"))
        found.append(replace(word, unknown=unknown[0]) if unknown else word)
    return found


def _words(view: TextView, power: bool) -> list[tuple[int, int, TextView]]:
    """Start, end and text of each word; quotes are taken off, an escaped one (\\") stays."""
    found, parts = list[tuple[int, int, TextView]](), list[TextView]()
    start, quote = -1, ""
    for match in _TOKEN.finditer(view.text):
        token = match[0]
        if not quote and (token.isspace() or token in "&|<>"):
            if start >= 0:
                found.append((start, match.start(), joined(parts)))
                parts, start = [], -1
            continue
        start = match.start() if start < 0 else start
        if token == quote:
            quote = ""
        elif token == '"' or (token == "'" and power and not quote):
            quote = quote or token
        elif token == '\\"':
            parts.append(view.slice(match.start() + 1, match.end()))
            continue
        else:
            parts.append(view.slice(*match.span()))
            continue
        parts.append(view.slice(match.end(), match.end()))
    if start >= 0:
        found.append((start, len(view.text), joined(parts)))
    return found
