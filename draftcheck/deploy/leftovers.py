"""Options of speculation in none of a file's commands: setups whose values are elsewhere.

Only what one engine alone has counts ([[sign]] in rules/programs.toml), and it tells the engine.
Comments, help texts, patterns of a case, comparisons and declarations of options set nothing up; in
Python only texts and keywords count, in other languages texts that are handed on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from draftcheck.deploy.deployment import Command, Document, DocumentTree
from draftcheck.deploy.kinds import is_test
from draftcheck.deploy.options import programs
from draftcheck.deploy.syntax import code_talk
from draftcheck.deploy.text import SourceText, Word
from draftcheck.values.findings import FilePlace

if TYPE_CHECKING:
    import ast

_COMMENT = re.compile(r"[ \t]*(?:#|//|;|::|\*|<!--|@?rem\b)|[^\"'#]*\s#", re.IGNORECASE)
_TALK = re.compile(
    r"[ \t|]*@?(?:echo|printf|e?grep|sed|awk|log\w*|warn\w*|die|fail\w*|info|error|usage|help"
    r"|Write-\w+|throw|print|raise|assert\w*|\[+|test|return|elif?|if|while)\b|.*>&2",
    re.IGNORECASE,
)
_HELP = re.compile(
    r"[ \t]*(?:-\w+,?[ \t]+)*--[\w-]+(?:,[ \t]*--?[\w-]+)*(?:[ =][\w<>\[\]{}|,.:]+)?"
    r"[ \t]{2,}[^\s\\]"
    r"|.*\[(?:-\w+[ ,|]+)?--[\w-]+[^\"'\]]*\]"
)
_PATTERN = re.compile(r"[ \t]*\(?(?:[\w*=-]+[ \t]*\|[ \t]*)*--[\w-]+(?:=?\*|=\S*)?[ \t]*(?:\||\))")
_COMPARED = re.compile(r"(?:==|=~|!=|\bin)[ \t]*[\"'(\[]*$")
_MEASURED = re.compile(
    r"\"[^\"\n]{0,40}(?:tok(?:en)?s?_?(?:/|per_?)_?s|tps\b|ttft|tpot|itl_|latency|throughput"
    r"|accept\w*_(?:rate|len)|elapsed|duration|seconds|_ms\b)[^\"\n]{0,40}\"\s*:\s*\d+\.\d",
    re.IGNORECASE,
)
_BLOCK = re.compile(r"<#(?:(?!<#|#>).)*#>", re.DOTALL)
_TOLD = re.compile(
    r"(?i)(?:\b|_)(?:notes?|desc\w*|comment|help|label|title|summary|evidence|reason|basis)"
    r"[\"']?\s*[:=]\s*(?:\"[^\"]*|'[^']*)$"
)
_SENTENCE = re.compile(
    r"(?:[A-Za-z]{2,}[,:;.]? ){3,}|[\"'][A-Z][a-z]+ [a-z]{2,} "
    r"|[\"'][A-Z][A-Za-z]*[,:;]? (?:[A-Za-z]+[,:;.]? )*$"
)
_SENTENCE_OF_FIVE = re.compile(r"(?:[A-Za-z]{2,}[,;.]?\s+){5,}")
_ASIDE = re.compile(r"\((?:with|using|via|no|see|e\.g\.|i\.e\.)\s[^()]*$")
PROSE = re.compile(
    r"(?i)(?:\w+[_-])?(?:desc(?:ription)?|help|title|summary|comments?|notes?|docs?|documentation"
    r"|about|readme|gotchas?|caveats?|rationale|reasons?|remarks?|warnings?|lessons?)"
)
"""Keys whose texts are for people."""
_YAML_START = re.compile(
    r"[ \t]*(?:-[ \t]+)*(?:[\"']?(?P<key>[\w.-]+)[\"']?[ \t]*:(?:[ \t]+|$))?(?P<literal>\|)?"
)
MOST_LINES_OF_PROSE, MOST_INDENT = 60, 10_000
_NAMED = re.compile(r".*[\"']?\w[\"']?:[ \t]*[\"']?(--[\w-]+)[\"']?[ \t]*,?[ \t\r]*\n?")
"""flag: --spec-type, and no value: a name."""
_OR = re.compile(r"(?:-[\w-]+|^[ \t]*)\|$")
"""Before one of several names of an option; file|4096|--option is a value."""
_EITHER = re.compile(r"--[\w-]+\|-")
"""--spec-draft-model|--model-draft: a pattern."""
_LISTED = re.compile(
    r"[ \t]*-[ \t]+[\"']?--[\w-]+[\"']?[ \t]*\r?\n[ \t]*(?:-[ \t]+[\"']?--|[^\s-]|\Z)"
)
"""An item that is an option, and no value behind it."""
_DATA = (".yaml", ".yml", ".json")
_EQUALS = (".py", ".ipynb", ".toml", ".ini", ".cfg", ".conf")
"""Files in which a key may stand before an = sign."""
_SIGNS = ("option", "key", "table", "override", "variable", "inside")
MOST_ON_A_LINE = 20
MOST_APART = 8
"""Lines between options of one setup."""


@dataclass(frozen=True, slots=True)
class SeenOptions:
    """Options that one engine alone has, near each other, in no command that was understood."""

    table: str
    place: FilePlace
    names: tuple[str, ...]


def lines_of(found: Command | Document) -> set[int]:
    """The lines that a command or a document stands on, its words wherever they are defined."""
    words = found.words if isinstance(found, Command) else [*_words(found.tree)]
    return lines([found.place]) | lines_of_words(words)


def lines_of_words(words: Iterable[Word]) -> set[int]:
    return lines(word.place for word in words)


def lines(places: Iterable[FilePlace]) -> set[int]:
    """All lines of these places."""
    found, reached = set[int](), 0
    for first, last in sorted({(place.line, place.end_line or place.line) for place in places}):
        found.update(range(max(first, reached + 1), last + 1))  # words may all reach to one end
        reached = max(reached, last)
    return found


def _words(tree: DocumentTree) -> Iterator[Word]:
    waiting = [tree]
    while waiting:
        at = waiting.pop()
        if at.word is not None:
            yield at.word
        waiting.extend(at.items or ())
        for key, value in at.entries or ():
            yield key
            waiting.append(value)


def is_record(text: str) -> bool:
    """Whether JSON records what was measured: the command in it ran once, and starts nothing."""
    return _MEASURED.search(text) is not None


def find(source: SourceText, understood: set[int]) -> tuple[list[SeenOptions], bool]:
    """Options that stand in none of these lines: those that set an engine up, near ones together;
    and whether others are spoken of in a program that is not read as one."""
    if not programs.signed(source.text.encode(errors="replace")):
        return [], False
    name = source.name.lower()
    if name.endswith(".json") and is_record(source.text):
        return [], False
    code = name.endswith((*code_talk.SCRIPTS, *code_talk.SOURCES))
    telling = _of_program(source.text, name) if name.endswith(".py") else None
    if code:
        given = () if is_test(name) else code_talk.telling(source.text, name, programs.is_sign)
        telling = lines(source.place(*span) for span in given)
    found, mentioned, looked = list[SeenOptions](), False, Counter[int]()
    if name.endswith(".ps1") and "#>" in source.text:
        comments = (source.place(*found.span()) for found in _BLOCK.finditer(source.text))
        understood = understood | lines(comments)
    for match in programs.sign_pattern().finditer(source.text):
        line, column = source.at(match.start())
        looked[line] += 1
        if looked[line] > MOST_ON_A_LINE:
            continue
        start = source.lines[line - 1]
        end = source.lines[line] if line < len(source.lines) else len(source.text)
        text = source.text[start:end]
        if line in understood or (match["variable"] and line + 1 in understood):
            continue
        if match[0][-1] == "=" and match["key"] and not name.endswith(_EQUALS):
            continue
        if match["inside"] and (code or telling is not None):
            continue
        before = text[: match.start() - start]
        if code and _COMMENT.match(before + "\0"):
            continue
        if line not in telling if telling is not None else _talks(text, before):
            mentioned = mentioned or code
            continue
        if name.endswith(_DATA) and (
            _SENTENCE.search(before)
            or _ASIDE.search(before)
            or _LISTED.match(source.text, start)
            or (not match["key"] and not name.endswith(".json") and _is_prose(source, line))
        ):
            continue
        option = next(match[kind] for kind in _SIGNS if match[kind])
        place = FilePlace(source.name, line, column, line, column + len(match[0].rstrip()))
        shown = option + (match["below"] or "")
        _together(found, programs.sign_table(option), shown, place)
    return found, mentioned


def speaks(source: SourceText) -> bool:
    """Whether a file gives something an option that speaks of drafts, in no engine's own way.

    A program in Python may only declare it.
    """
    python = source.name.endswith(".py")
    for match in programs.spoken_pattern().finditer(source.text):
        if python and match.lastgroup:
            continue
        line, _ = source.at(match.start())
        start = source.lines[line - 1]
        end = source.lines[line] if line < len(source.lines) else len(source.text)
        if not _talks(source.text[start:end], source.text[start : match.start()]):
            return True
    return False


def _together(found: list[SeenOptions], table: str, option: str, place: FilePlace) -> None:
    """Add an option to those before it; one that is given again sets up something else."""
    last = next((each for each in reversed(found) if each.table == table), None)
    near = last is not None and place.line - (last.place.end_line or 0) <= MOST_APART
    if last is None or not near or option in last.names:
        found.append(SeenOptions(table, place, (option,)))
        return
    grown = replace(last.place, end_line=place.end_line, end_column=place.end_column)
    found[found.index(last)] = SeenOptions(table, grown, (*last.names, option))


def _talks(line: str, before: str) -> bool:
    """Whether a line only speaks of the option that stands behind this beginning of it."""
    return bool(
        _COMMENT.match(before + "\0")
        or _TALK.match(line)
        or _HELP.match(line)
        or _PATTERN.match(line)
        or _NAMED.fullmatch(line)
        or _COMPARED.search(before)
        or _TOLD.search(before)
        or before.endswith("`")
        or _OR.search(before)
        or _EITHER.match(line, len(before))
    )


def _is_prose(source: SourceText, line: int) -> bool:
    """Whether a line of YAML belongs to a text for people: by its key, or by a sentence in it."""
    top = max(line - MOST_LINES_OF_PROSE, 0)
    starts = [*source.lines, len(source.text)][top : line + MOST_LINES_OF_PROSE]
    lines = [source.text[at:end] for at, end in pairwise(starts)]
    indents = [len(text) - len(text.lstrip()) if text.strip() else MOST_INDENT for text in lines]
    here = first = line - 1 - top
    if not _YAML_START.match(lines[here])[0].strip():  # type: ignore[index]
        above = range(here - 1, -1, -1)
        first = next((n for n in above if indents[n] < indents[here]), here)
    start = owner = _YAML_START.match(lines[first])
    if start is not None and not start["key"]:  # an item of the list under a key
        keys = (n for n in range(first - 1, -1, -1) if indents[n] <= indents[first])
        items = (_YAML_START.match(lines[n]) for n in keys if lines[n].lstrip()[:2] != "- ")
        owner = next(items, start)
    if start is None or owner is None or PROSE.fullmatch(owner["key"] or ""):
        return start is not None
    if start["literal"]:
        return False
    told = [lines[first][start.end() :]]
    for text, indent in zip(lines[first + 1 :], indents[first + 1 :], strict=True):
        if indent <= indents[first]:
            break
        told.append(text)
    return _SENTENCE_OF_FIVE.search("".join(told)) is not None


def _names_sign(value: object) -> bool:
    if not isinstance(value, str):
        return False
    is_key = value.replace("_", "-") in programs.sign_keys()
    return is_key or programs.sign_pattern().search(value) is not None


def _sets_sign(target: ast.expr) -> bool:
    """engine_args.speculative_config = …; of itself a class only keeps what it was given."""
    import ast

    return (
        isinstance(target, ast.Attribute)
        and target.attr.replace("_", "-") in programs.sign_keys()
        and not (isinstance(target.value, ast.Name) and target.value.id in ("self", "cls"))
    )


def _of_program(text: str, name: str) -> set[int] | None:
    """The lines of a Python program on which a text or a keyword may set something up."""
    # Imported here: most files are no programs.
    import ast
    import warnings

    from draftcheck.deploy.syntax import python_talk

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines, quiet = set[int](), python_talk.quiet(tree, is_test(name))
    for node in ast.walk(tree):
        if id(node) in quiet:
            continue
        if isinstance(node, ast.keyword) and not isinstance(
            node.value, ast.Name | ast.Attribute | ast.Constant
        ):
            lines.add(node.lineno)
        if isinstance(node, ast.Assign) and any(map(_sets_sign, node.targets)):
            lines.add(node.lineno)
        if isinstance(node, ast.Constant) and _names_sign(node.value):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines
