"""INI-like files: systemd units and quadlets, supervisor programs, presets of models."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from draftcheck.deploy.deployment import Contents, DocumentTree, split
from draftcheck.deploy.kinds import shell
from draftcheck.deploy.options.programs import is_options
from draftcheck.deploy.syntax.variables import Variables, filled, interpolated
from draftcheck.deploy.text import TextView, Word, joined

_SECTION = re.compile(r"\s*\[([^\]]*)\]")
_SPECIFIER = re.compile(r"(?<!%)%(?:[a-zA-Z]|\(\w+\)s)")
_PREFIX = re.compile(r"[@:+!|-]+")
_STARTS = {"ExecStart", "ExecStartPre", "ExecStartPost", "command", "Exec"}


@dataclass(slots=True)
class IniSection:
    """A heading and the settings below it."""

    heading: TextView
    settings: list[tuple[TextView, TextView]] = field(default_factory=list)


def read(view: TextView, contents: Contents) -> None:
    """Collect the commands of units and programs; anything else in an .ini is a preset."""
    found = sections(view)
    env, image = dict[str, Word](), None
    values = dict[str, TextView]()
    for section in found:
        for key, value in section.settings:
            if key.text in ("Environment", "environment"):
                _environment(value, env, values, contents)
            elif key.text == "Image":
                image = value.word()
    runs = False
    for section in found:
        words = list[Word]()
        for key, value in section.settings:
            if key.text in _STARTS:
                runs = True
                if image is not None:
                    words.extend(split(interpolated(value, values), contents))
                    continue
                prefix = _PREFIX.match(value.text)
                bare = value.slice(prefix.end() if prefix else 0, len(value.text))
                text = filled(interpolated(bare, values), _SPECIFIER, lambda _: None)
                unwrapping = shell.Unwrapping(contents, Variables(), value.place(), None, env)
                unwrapping.emit(split(text, contents))
        if words:
            shell.Unwrapping(contents, Variables(), None, image, env).emit(words)
        elif image is not None and section.heading.text == "Container":
            runs = True
            contents.command([], image.place, image, env)
    rows = [value for section in found for _, value in section.settings if is_options(value.text)]
    for value in rows:  # whoever reads this file hands them on
        contents.loose_options(_without_comment(value))
    if found and not runs and not rows and view.name.endswith(".ini"):
        entries = list[tuple[Word, DocumentTree]]()
        for section in found:
            pairs = (
                (key.word(), DocumentTree.of(_without_comment(value).word()))
                for key, value in section.settings
            )
            heading = section.heading
            entries.append((heading.word(), DocumentTree(heading.place(), entries=tuple(pairs))))
        contents.document("llama-preset", DocumentTree(view.place(0, 0), entries=tuple(entries)))


def read_options(view: TextView, contents: Contents) -> None:
    """A file of options, one or more a line, for a script that hands them on."""
    told = [
        view.slice(*line) for line in view.lines() if view.text[slice(*line)].lstrip()[:1] == "-"
    ]
    parts = [part for line in told for part in (line, line.blank(max(len(line.text) - 1, 0)))]
    if parts:
        contents.loose_options(joined(parts))


def _without_comment(value: TextView) -> TextView:
    """llama.cpp common/preset.cpp: a value ends where ; or # stands."""
    return value.slice(0, len(re.split("[;#]", value.text, maxsplit=1)[0].rstrip()))


def sections(view: TextView) -> list[IniSection]:
    """The sections of a file; settings before the first heading have an empty one."""
    found = list[IniSection]()
    for line in _logical(view):
        heading = _SECTION.match(line.text)
        key, equals, value = line.text.partition("=")
        if heading:
            found.append(IniSection(line.slice(*heading.span(1))))
        elif equals and key.strip():
            if not found:
                found.append(IniSection(line.slice(0, 0)))
            name = line.slice(len(key) - len(key.lstrip()), len(key.rstrip()))
            end = len(line.text.rstrip())
            start = len(line.text) - len(value.lstrip())
            found[-1].settings.append((name, line.slice(start, max(start, end))))
    return found


def _logical(view: TextView) -> list[TextView]:
    """Lines, those that end in a backslash (or are indented, as supervisor has it) joined."""
    found, parts = list[TextView](), list[TextView]()
    for start, end in view.lines():
        text = view.text[start:end]
        if text.lstrip().startswith(("#", ";")):
            continue
        more = text.rstrip().endswith("\\")
        cut = start + len(text.rstrip()) - 1 if more else end
        piece = view.slice(start, cut)
        if found and not parts and text[:1] in (" ", "\t") and text.strip() and not more:
            found[-1] = joined([found[-1], view.slice(max(start - 1, 0), end)])
            continue
        parts.append(piece)
        if more:
            parts.append(view.blank(cut))
        else:
            found.append(joined(parts))
            parts = []
    if parts:
        found.append(joined(parts))
    return found


def _environment(
    value: TextView, env: dict[str, Word], values: dict[str, TextView], contents: Contents
) -> None:
    for arg in split(value, contents):
        view = arg.view
        for match in re.finditer(r"([A-Za-z_]\w*)=", view.text):
            if match.start() and view.text[match.start() - 1] != ",":
                continue
            following = re.search(r",[A-Za-z_]\w*=", view.text[match.end() :])
            end = match.end() + following.start() if following else len(view.text)
            values[match[1]] = view.slice(match.end(), end)
            env[match[1]] = values[match[1]].word()
