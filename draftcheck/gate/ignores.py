"""Comments that say `draftcheck: ignore[RULE] because …`: which findings they silence.

A comment counts for its own line, or, alone on a line, for the next one that is no comment.
On the first line of a setup it counts for everything about that setup: most files allow no
comment inside a command that goes over several lines. In YAML it counts for all that stands below
its line and further in: a key, a list item, the text of a block scalar. Of a list of words, an
option's comment counts for its value too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from draftcheck.gate.results import gate_finding
from draftcheck.values.findings import FilePlace, Finding

MARK = b"draftcheck:"
COMMENT = re.compile(r"(?P<sign>#|//|--|;|<!--|/\*)\s*draftcheck:\s*(?P<word>[\w-]*)(?P<rest>.*)")
RULES = re.compile(r"\s*\[(?P<rules>[^\]]*)\](?P<reason>.*)")
LEAD = re.compile(r"^[\s:,;.–—-]*(?:because\b)?[\s:]*", re.IGNORECASE)
END = re.compile(r"\s*(?:-->|\*/)\s*$")
YAML = (".yaml", ".yml")
MOST_LINES = 5000
OPTION_ITEM = re.compile(r"\s*-\s+[\"']?-")
VALUE_ITEM = re.compile(r"\s*-\s+[\"']?(?!-)[\"']?[^-\s\"']")
ANY_COMMENT = re.compile(r"\s*(?:#|//|--|;|<!--|/\*)|\s*$")


@dataclass(slots=True)
class IgnoreComment:
    """One comment; two are the same where they ask for the same."""

    place: FilePlace = field(compare=False)
    rules: frozenset[str]
    reason: str
    line: int
    """The first line that it is about."""
    end: int
    """The last one."""
    used: set[str] = field(default_factory=set, compare=False)


def find(text: str, name: str) -> list[IgnoreComment]:
    lines = text.split("\n")
    found = []
    following = None
    """The next line that is no comment, from the end of the file upwards."""
    for number, line in zip(range(len(lines), 0, -1), reversed(lines), strict=True):
        if "draftcheck:" in line and (match := COMMENT.search(line)):
            rest = END.sub("", match["rest"].rstrip("\r"))
            parts = RULES.match(rest) if match["word"] == "ignore" else None
            named, reason = parts.groups() if parts else ("", "")
            rules = frozenset(word.strip().lower() for word in named.split(",") if word.strip())
            place = FilePlace(name, number, match.start() + 1, number, len(line.rstrip("\r")) + 1)
            about = number if line[: match.start()].strip() else following or number
            end = _yaml_end(lines, about) if name.endswith(YAML) else about
            found.append(IgnoreComment(place, rules, LEAD.sub("", reason).strip(), about, end))
        if not ANY_COMMENT.match(line):
            following = number
    return found[::-1]


def _yaml_end(lines: Sequence[str], number: int) -> int:
    """The last line of what begins on a line: those below it that are further in."""
    first = lines[number - 1]
    depth, end = _depth(first), number
    for at in range(number, min(len(lines), number + MOST_LINES)):
        line = lines[at]
        value = at == number and OPTION_ITEM.match(first) and VALUE_ITEM.match(line)
        if line.strip() and _depth(line) <= depth and not value:
            break
        end = at + 1 if line.strip() else end
    return end


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def apply(
    findings: Iterable[tuple[Finding, int | None]], ignores: Sequence[IgnoreComment]
) -> list[Finding]:
    """The findings of one file, ignored ones marked, and what is wrong with the ignores.

    With each finding comes the first line of the command that it is about.
    """
    sound = [ignore for ignore in ignores if ignore.rules and ignore.reason]
    done = []
    for finding, first in findings:
        names = {finding.rule.lower(), finding.slug.lower()}
        for ignore in sound:
            here = ignore.line <= finding.place.line <= ignore.end or ignore.line == first
            if here and ignore.rules & names:
                ignore.used |= names
                finding = replace(finding, ignored=ignore.reason)  # noqa: PLW2901
        done.append(finding)
    return done + [complaint for ignore in ignores for complaint in _complaints(ignore)]


def _complaints(ignore: IgnoreComment) -> list[Finding]:
    if not ignore.rules:
        return [gate_finding("GAT012", ignore.place, "the comment names no rule")]
    named = ", ".join(sorted(rule.upper() for rule in ignore.rules))
    if not ignore.reason:
        return [gate_finding("GAT012", ignore.place, f"no reason is given for ignoring {named}")]
    unused = sorted(ignore.rules - ignore.used)
    if not unused:
        return []
    names = ", ".join(name.upper() for name in unused)
    lines = f"line {ignore.line} has"
    if ignore.end > ignore.line:
        lines = f"lines {ignore.line} to {ignore.end} have"
    saw = f"{lines} no finding of {names}"
    return [gate_finding("GAT013", ignore.place, saw)]
