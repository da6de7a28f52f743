"""PowerShell: variables, @( … ) lists, defaults of parameters, & $program @list, Start-Process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from draftcheck.deploy.deployment import Command, Contents, around, at_spaces
from draftcheck.deploy.kinds import shell
from draftcheck.deploy.kinds.batch import program
from draftcheck.deploy.options.programs import is_options, is_sign
from draftcheck.deploy.syntax.variables import Variables, VariableValue, filled
from draftcheck.deploy.text import TextView, Word

_BLANK = re.compile(r"(?:[ \t\r]|`\r?\n|#[^\n]*|<#.*?#>)+", re.DOTALL)
_STRING = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"`]|`.|\"\")*\"", re.DOTALL)
_BARE = re.compile(r"(?:[^\s'\"`;|&{}(),@]|`[^\r\n])+")
_SIGN = re.compile(r"\r?\n|[;|&{}(),@]")
_ASSIGNS = re.compile(r"\$(?:(?:script|global|local|private):)?(env:)?(\w+)", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{?(?:env:|script:|global:)?(\w+)\}?|\$\([^()]*\)", re.IGNORECASE)
_COMMAND = re.compile(r"[A-Za-z]+-[A-Za-z]+")
_GROWS = re.compile(r"\$(\w+)\.Add(?:Range)?", re.IGNORECASE)
_NEW_LIST = re.compile(r"\[.*List\b.*::new|new-object", re.IGNORECASE)
_PARAMETER = re.compile(r"-[A-Z]\w+")


LONGEST_CALL = 200
"""Tokens of a call inside a list."""


@dataclass(slots=True)
class PowerShellToken:
    """A word without its quotes, or a sign."""

    view: TextView
    start: int
    end: int
    sign: str = ""
    expands: bool = True
    """Whether variables in it count."""


@dataclass(slots=True)
class _Statement:
    """The tokens of a statement, lists in brackets with it; under a condition or not."""

    tokens: list[PowerShellToken] = field(default_factory=list)
    branch: bool = False


def read(view: TextView, contents: Contents) -> None:
    variables = Variables()
    for statement in _statements(view):
        _run(statement, view, variables, contents)
    for value in variables.values.values():  # lists that no command here uses
        _loose(value.items or [], contents)


def _tokens(view: TextView) -> Iterator[PowerShellToken]:
    text, at = view.text, 0
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
        elif string := _STRING.match(text, at):
            inner = view.slice(at + 1, string.end() - 1)
            yield PowerShellToken(inner, at, string.end(), expands=text[at] == '"')
            at = string.end()
        elif sign := _SIGN.match(text, at):
            yield PowerShellToken(view.slice(*sign.span()), at, sign.end(), sign[0].strip() or "\n")
            at = sign.end()
        elif bare := _BARE.match(text, at):
            yield PowerShellToken(view.slice(*bare.span()), at, bare.end())
            at = bare.end()
        else:
            at += 1


def _statements(view: TextView) -> Iterator[_Statement]:
    """Cut at new lines and braces; a comma at the end, or an open bracket, goes on."""
    at, brackets, braces, listed, last = _Statement(), 0, 0, False, ""
    for token in _tokens(view):
        brackets = max(brackets + (token.sign == "(") - (token.sign == ")"), 0)
        ends = token.sign in ("\n", ";", "{", "}", "|") and not (listed and brackets)
        if ends and last != ",":
            braces = max(braces + (token.sign == "{") - (token.sign == "}"), 0)
            yield at
            at, brackets, listed, last = _Statement(branch=braces > 0), 0, False, ""
        elif token.sign != "\n":
            at.tokens.append(token)
            listed = listed or token.sign == "@" or token.view.text.lower() == "param"
            last = token.sign
    yield at


def _run(statement: _Statement, view: TextView, variables: Variables, contents: Contents) -> None:
    tokens, variables.guarded = statement.tokens, statement.branch
    spoken = bool(tokens) and tokens[0].view.text.lower().startswith("write-")
    for token in tokens if not spoken else ():
        if not token.sign and is_options(token.view.text):  # @{ ArgumentList = "--options" }
            _loose(at_spaces(_words([token], view, variables)[0].view), contents)
    if tokens and tokens[0].view.text.lower() == "param":
        for at, token in enumerate(tokens[:-1]):
            if tokens[at + 1].view.text == "=" and not tokens[at + 1].sign:
                default = _Statement(tokens[at + 2 : at + 3], statement.branch)
                _assign(token, "=", default, view, variables, contents)
        return
    if len(tokens) > 1 and tokens[1].view.text in ("=", "+=") and not tokens[1].sign:
        value = _Statement(tokens[2:], statement.branch)
        _assign(tokens[0], tokens[1].view.text, value, view, variables, contents)
        tokens = tokens[2:]  # it may be what a command says
        if not tokens or not (tokens[0].sign == "&" or _COMMAND.fullmatch(tokens[0].view.text)):
            return
    grows = _GROWS.fullmatch(tokens[0].view.text) if len(tokens) > 1 else None
    if grows and tokens[1].sign == "(":
        added = [
            replace(word, maybe=statement.branch) for word in _words(tokens[1:], view, variables)
        ]
        variables.append(grows[1].lower(), VariableValue(items=added, branch=statement.branch))
        return
    words = _words(tokens, view, variables)
    if words and words[0].text.lower() in ("start-process", "saps", "start"):
        words = _started(words)
    elif any(is_sign(b.text) and _PARAMETER.fullmatch(a.text) for a, b in pairwise(words)):
        return  # -Flag "--spec-type" -Value x: what a function does with it is not known
    if words:
        words[0] = program(words[0])
        place = view.place(tokens[0].start, tokens[-1].end)
        shell.Unwrapping(contents, Variables(), place).emit(words)


def _assign(
    name: PowerShellToken,
    how: str,
    statement: _Statement,
    view: TextView,
    variables: Variables,
    contents: Contents,
) -> None:
    tokens, branch = statement.tokens, statement.branch
    match = re.search(_ASSIGNS, name.view.text)
    if match is None or not tokens:
        return
    words = _words(tokens, view, variables)
    commas = any(token.sign == "," for token in tokens)
    value = VariableValue(branch=branch)
    if tokens[0].sign == "@" or commas:
        value = VariableValue(items=words, branch=branch)
    elif words and _NEW_LIST.match(words[0].text):
        value = VariableValue(items=[], branch=branch)
    elif len(words) == 1:
        value = VariableValue(words[0].view, branch=branch)
    elif words and words[0].text.lower() == "join-path":
        value = VariableValue(words[-1].view, branch=branch)
    key = match[2].lower()
    before = variables.values.get(key)
    if how == "+=" and before is not None and before.items is not None:
        value = VariableValue(items=words, branch=branch)
    _loose(value.items or [], contents)  # another value may take its place
    (variables.append if how == "+=" else variables.assign)(key, value)


def _loose(words: list[Word], contents: Contents) -> None:
    if any(is_sign(word.text) for word in words):
        contents.loose.append(Command(tuple(words), around(words)))


def _words(tokens: list[PowerShellToken], view: TextView, variables: Variables) -> list[Word]:
    """The words, variables filled in; a list that stands alone gives all of its words."""
    found = list[Word]()

    def value(match: re.Match[str]) -> TextView | None:
        held = variables.values.get((match[1] or "").lower())
        off = held is not None and variables.guarded and (held.off or held.empty)
        return held.view if held is not None and not off else None

    skipped = 0
    for at, token in enumerate(tokens):
        if at and token.sign == "(" and at >= skipped and (end := _call(tokens, at)):
            skipped = end
            first, last = token.start, tokens[end - 1].end
            found.append(view.hole(first, last).word(view.place(first, last), None))
        if token.sign or at < skipped:
            continue
        splat = at > 0 and tokens[at - 1].sign == "@" and tokens[at - 1].end == token.start
        name = token.view.text if splat else token.view.text.removeprefix("$")
        held = variables.values.get(name.lower()) if splat or token.view.text[:1] == "$" else None
        if held is not None and held.items is not None:
            found.extend(held.items)
            continue
        text = filled(token.view, _VARIABLE, value) if token.expands else token.view
        if splat and held is None:
            text = token.view.hole(0, len(token.view.text))
        place = view.place(token.start, token.end)
        same = text is token.view
        found.append(text.word(place, view.raw(token.start, token.end) if same else None))
    return found


def _call(tokens: list[PowerShellToken], at: int) -> int:
    """Behind (Resolve-Path $x).Path, whose value only running it would tell; 0: no such thing."""
    inner = tokens[at + 1].view.text.lower() if at + 1 < len(tokens) else ""
    if not _COMMAND.fullmatch(inner) or inner == "join-path":
        return 0
    depth = 0
    for end in range(at, min(len(tokens), at + LONGEST_CALL)):
        depth += (tokens[end].sign == "(") - (tokens[end].sign == ")")
        if depth == 0:
            behind = tokens[end + 1] if end + 1 < len(tokens) else None
            member = behind is not None and behind.view.text.startswith(".")
            return end + 1 + (member and not behind.sign)  # type: ignore[union-attr]
    return 0


def _started(words: list[Word]) -> list[Word]:
    """Start-Process -FilePath x -ArgumentList …: the program and its words."""
    named, files, arguments = "", list[Word](), list[Word]()
    for word in words[1:]:
        if re.fullmatch(r"-[A-Za-z]+", word.text) and word.text.lower() in _PARAMETERS:
            named = _PARAMETERS[word.text.lower()]
        elif named == "arguments":
            arguments.append(word)
        elif not files:
            files.append(word)
        elif named == "" and len(files) == 1:
            arguments.append(word)
    if len(arguments) == 1 and " " in arguments[0].text:
        text = arguments[0].view
        arguments = [text.slice(*match.span()).word() for match in re.finditer(r"\S+", text.text)]
    return [*files, *arguments]


_PARAMETERS = {
    "-filepath": "file", "-argumentlist": "arguments", "-args": "arguments",
    **dict.fromkeys(
        ("-workingdirectory", "-redirectstandardoutput", "-redirectstandarderror", "-windowstyle",
         "-passthru", "-wait", "-nonewwindow", "-verb", "-erroraction", "-credential"), "other",
    ),
}  # fmt: skip
