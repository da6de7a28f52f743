"""Dockerfiles: stages, ENV and ARG, ENTRYPOINT with CMD, and what RUN installs or writes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from draftcheck.deploy.deployment import Contents
from draftcheck.deploy.kinds import shell
from draftcheck.deploy.syntax import json_places
from draftcheck.deploy.syntax.shell_words import Lexer
from draftcheck.deploy.syntax.variables import Variables, VariableValue, interpolated
from draftcheck.deploy.text import TextView, Word, joined

MAX_VALUES = 100
_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+")
_OPTION = re.compile(r"--[a-z-]+(?:=\S*)?\s+")
_HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_PAIR = re.compile(r"[A-Za-z_]\w*=")


@dataclass(slots=True)
class _Stage:
    """One FROM and what follows it."""

    image: Word | None
    values: dict[str, TextView] = field(default_factory=dict)
    env: dict[str, Word] = field(default_factory=dict)
    entry: TextView | None = None
    command: TextView | None = None
    built_on: bool = False


def read(view: TextView, contents: Contents) -> None:
    stages, arguments = dict[str, _Stage](), dict[str, TextView]()
    stage: _Stage | None = None
    found = list[_Stage]()
    for line in _instructions(view):
        match = _INSTRUCTION.match(line.text)
        if not match:
            continue
        rest = line.slice(match.end(), len(line.text))
        name = match[1].upper()
        if name == "FROM":
            stage = _from(rest, stages, arguments)
            found.append(stage)
        elif name == "ARG":
            _pairs(rest, arguments if stage is None else stage.values, arguments)
        elif stage is not None:
            _within(stage, name, rest, contents)
    for each in found:
        if not each.built_on and (each is found[-1] or each.entry or each.command):
            _start(each, contents)


def _instructions(view: TextView) -> list[TextView]:
    """Each instruction as one text: continued lines joined, comments left out."""
    found, parts, waiting = list[TextView](), list[TextView](), list[str]()
    for start, end in view.lines():
        text = view.text[start:end]
        stripped = text.strip()
        if waiting:
            parts.append(view.slice(start, min(end + 1, len(view.text))))
            if stripped == waiting[0]:
                waiting.pop(0)
        elif (not stripped and not parts) or stripped.startswith("#"):
            continue
        elif text.rstrip().endswith(("\\", "`")) and not _HEREDOC.search(text):
            parts.append(view.slice(start, start + len(text.rstrip()) - 1))
            # Two lines are two words, as behind a continued line of a shell.
            parts.append(view.blank(start + len(text.rstrip()) - 1))
            continue
        elif stripped:
            marks = [match[1] for match in _HEREDOC.finditer(text)]
            waiting.extend(marks if re.match(r"\s*(?:RUN|COPY|ADD)\b", text, re.I) else ())
            parts.append(view.slice(start, min(end + 1, len(view.text)) if waiting else end))
        if parts and not waiting and stripped:
            found.append(joined(parts))
            parts = []
    if parts:
        found.append(joined(parts))
    return found


def _from(rest: TextView, stages: dict[str, _Stage], arguments: dict[str, TextView]) -> _Stage:
    at = 0
    while match := _OPTION.match(rest.text, at):
        at = match.end()
    words = [rest.slice(*match.span()) for match in re.compile(r"\S+").finditer(rest.text, at)]
    if not words:
        return _Stage(None)
    base = stages.get(words[0].text)
    if base is not None:
        base.built_on = True
        stage = replace(base, values=dict(base.values), env=dict(base.env), built_on=False)
    else:
        image = interpolated(words[0], arguments)
        stage = _Stage(image.word(words[0].place(), words[0].raw() if image is words[0] else None))
    if len(words) > 2 and words[1].text.lower() == "as":
        stages[words[2].text] = stage
    return stage


def _pairs(
    rest: TextView, values: dict[str, TextView], known: dict[str, TextView]
) -> dict[str, Word]:
    """NAME=value pairs, or NAME value."""
    found = dict[str, Word]()
    variables = Variables({name: VariableValue(view) for name, view in {**known, **values}.items()})
    if not _PAIR.match(rest.text):
        name, _, value = rest.text.partition(" ")
        if value.strip():
            start = len(name) + len(rest.text[len(name) :]) - len(rest.text[len(name) :].lstrip())
            view = rest.slice(start, len(rest.text.rstrip()))
            values[name], found[name] = view, view.word()
        return found
    for token in Lexer(rest).tokens():
        for arg in variables.expand(token, rest) if not hasattr(token, "body") else ():
            name, equals, _ = arg.view.text.partition("=")
            if equals and arg.unknown is None:
                view = arg.view.slice(len(name) + 1, len(arg.view.text))
                if len(values) < MAX_VALUES:
                    values[name], found[name] = view, view.word()
                variables.values[name] = VariableValue(view)
    return found


def _within(stage: _Stage, name: str, rest: TextView, contents: Contents) -> None:
    if name == "ENV":
        stage.env.update(_pairs(rest, stage.values, {}))
    elif name == "ENTRYPOINT":
        stage.entry, stage.command = rest, None
    elif name == "CMD":
        stage.command = rest
    elif name == "RUN":
        at = 0
        while match := _OPTION.match(rest.text, at):
            at = match.end()
        script = rest.slice(at, len(rest.text))
        first = script.text.find("\n")
        if _HEREDOC.match(script.text) and first >= 0:
            last = max(script.text.rstrip().rfind("\n") + 1, first + 1)
            script = script.slice(first + 1, last)
        _script(stage, script, contents)
    elif name in ("COPY", "ADD"):
        heredoc, first = _HEREDOC.search(rest.text), rest.text.find("\n")
        if heredoc and first > heredoc.end():
            target = rest.text[heredoc.end() : first].split()
            last = max(rest.text.rstrip().rfind("\n") + 1, first + 1)
            body = rest.slice(first + 1, last)
            shell.file_inside(body, target[-1] if target else "", contents)


def _script(stage: _Stage, view: TextView, contents: Contents, image: Word | None = None) -> None:
    variables = Variables({name: VariableValue(text) for name, text in stage.values.items()})
    shell.inside(view, contents, variables, image, stage.env)


def _listed(view: TextView | None, contents: Contents) -> list[Word] | None:
    """The words of the exec form; None: it is the shell form."""
    if view is None or not view.text.lstrip().startswith("["):
        return None
    tree = json_places.parse_view(view, contents, "the JSON list of an exec form")
    if tree is None:
        return None
    found = list[Word]()
    for item in tree.items or ():
        if item.word is not None:
            dollar = re.search(r"\$\{?\w+\}?", item.word.view.text)
            found.append(replace(item.word, unknown=dollar[0]) if dollar else item.word)
    return found


def _start(stage: _Stage, contents: Contents) -> None:
    """What the stage's image runs."""
    entry, command = _listed(stage.entry, contents), _listed(stage.command, contents)
    wrapped = shell.Unwrapping(contents, Variables(), None, stage.image, stage.env)
    if stage.entry is not None and entry is None:
        _script(stage, stage.entry, contents, stage.image)
    elif entry is None and stage.command is not None and command is None:
        _script(stage, stage.command, contents, stage.image)
    else:
        wrapped.emit([*(entry or ()), *(command or ())])
