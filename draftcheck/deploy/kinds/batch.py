"""Windows batch files: commands, continued lines, SET variables also in `if` and `for`."""

from __future__ import annotations

import re
from dataclasses import replace

from draftcheck.deploy.deployment import Contents
from draftcheck.deploy.kinds import shell
from draftcheck.deploy.syntax.variables import Variables, VariableValue, filled
from draftcheck.deploy.text import TextView, Word, joined

MAX_LINE = 20_000
_SET = re.compile(r"\s*@?set\s+(?P<quote>\"?)(?P<name>[\w-]+)=", re.IGNORECASE)
_CONDITION = re.compile(
    r"\s*(?:[()]|@(?=\S)|else\b|for\b.*?\bdo\b"
    r"|if\s+(?:/i\s+)?(?:not\s+)?(?:defined\s+\S+|errorlevel\s+\d+|exist\s+(?:\"[^\"]*\"|\S+)"
    r"|(?:\"[^\"]*\"|[^\s=]+)\s*(?:==|\b(?:equ|neq|lss|leq|gtr|geq)\b)\s*(?:\"[^\"]*\"|[^\s(]+)))",
    re.IGNORECASE,
)
"""What may stand before a command: it is run under this condition."""
_QUOTED_REST = re.compile(r"[^\"]*+(?:\"[^\"&|)]*+(?:\"[^\"]*+|$))*+\"?")
"""Behind an opening quote: to the end of the command, which only a sign outside quotes ends."""
_SILENT = re.compile(r"\s*@?(?:rem\b|::|echo\b)", re.IGNORECASE)
_STARTS = re.compile(r"\s*(?:@|call\s+|start\s+(?:\"[^\"]*\"\s+)?(?:/\w+\s+)*)*", re.IGNORECASE)
_TOKEN = re.compile(r"\\\"|(?<=[^\s\"])\"\"(?=[^\s\"])|[\"&|<>]|\s+|[^\s\"&|<>\\]+|\\")
_VARIABLE = re.compile(r"%([\w-]+)%|!([\w-]+)!|%%~?\w+|%~?\w*\d")


def read(view: TextView, contents: Contents) -> None:
    BatchFile(view, contents).run()


class BatchFile:
    """A walk through the lines, every branch taken; names count without their case."""

    def __init__(self, view: TextView, contents: Contents) -> None:
        self.view, self.contents = view, contents
        self.variables = Variables()
        self.depth = 0

    def run(self) -> None:
        for line in _logical(self.view):
            if len(line.text) > MAX_LINE:
                self.contents.trouble(line.place(0, 1), "too long a line")
            else:
                self._line(line)

    def _line(self, line: TextView) -> None:
        at, branch = 0, self.depth > 0
        while at < len(line.text):
            if _SILENT.match(line.text, at):
                return
            if condition := _CONDITION.match(line.text, at):
                sign = condition[0].strip()
                self.depth = max(self.depth + (sign == "(") - (sign == ")"), 0)
                at, branch = condition.end(), True
            elif given := _SET.match(line.text, at):
                at = self._set(line, given, branch)
            else:
                rest = line.slice(at, len(line.text))
                shell.Unwrapping(self.contents, Variables(), rest.place()).emit(self._args(rest))
                return

    def _set(self, line: TextView, given: re.Match[str], branch: bool) -> int:
        """Note a value; where the line goes on behind it."""
        start, end = given.end(), len(line.text.rstrip())
        after = end
        if given["quote"]:
            # The last quote of the command closes it: others may stand inside the value.
            rest = _QUOTED_REST.match(line.text, start)
            closing = line.text.rfind('"', start, rest.end() if rest else end)
            end = closing if closing >= 0 else end
            after = end + 1
        text = self._filled(line.slice(start, max(start, end)))
        whole = re.fullmatch(r"%%~?\w+", line.text[start:end])  # what a loop comes across
        value = VariableValue(text, branch=branch, argument=bool(branch and whole))
        self.variables.assign(given["name"].lower(), value)
        return after

    def _filled(self, view: TextView) -> TextView:
        def value(match: re.Match[str]) -> TextView | None:
            held = self.variables.values.get((match[1] or match[2] or "").lower())
            return held.view if held is not None else None

        return filled(view, _VARIABLE, value)

    def _args(self, line: TextView) -> list[Word]:
        starts = _STARTS.match(line.text)
        line = self._filled(line.slice(starts.end() if starts else 0, len(line.text)))
        found = list[Word]()
        for start, end, text in _words(line):
            word = text.word(line.place(start, end), line.raw(start, end))
            if not found:
                word = program(word)
            found.append(word)
        return found


def program(word: Word) -> Word:
    """The first word of a command without its folder and .exe."""
    return replace(word, text=re.sub(r"^.*\\", "", word.text).removesuffix(".exe"))


def _logical(view: TextView) -> list[TextView]:
    """Lines, those that end in ^ with the next."""
    found, parts = list[TextView](), list[TextView]()
    for start, end in view.lines():
        text = view.text[start:end].rstrip()
        if text.endswith("^"):
            parts.append(view.slice(start, start + len(text) - 1))
            parts.append(view.blank(start + len(text) - 1))
        else:
            found.append(joined([*parts, view.slice(start, end)]))
            parts = []
    return [*found, joined(parts)] if parts else found


def _words(view: TextView) -> list[tuple[int, int, TextView]]:
    """Start, end and text of each word; quotes are taken off, an escaped one stays."""
    found, parts = list[tuple[int, int, TextView]](), list[TextView]()
    start, quoted = -1, False
    for match in _TOKEN.finditer(view.text):
        token = match[0]
        if not quoted and (token.isspace() or token in "&|<>"):
            if start >= 0:
                found.append((start, match.start(), joined(parts)))
                parts, start = [], -1
            continue
        start = match.start() if start < 0 else start
        if token == '"':
            quoted = not quoted
            parts.append(view.slice(match.end(), match.end()))
        else:
            escaped = token in ('\\"', '""')
            parts.append(view.slice(match.end() - 1 if escaped else match.start(), match.end()))
    if start >= 0:
        found.append((start, len(view.text), joined(parts)))
    return found
