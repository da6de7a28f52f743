"""llama-swap's configuration: a command per model, with macros."""

from __future__ import annotations

import re
from functools import partial

from draftcheck.gate.files.containers import Reader
from draftcheck.gate.files.gathered import Gathered
from draftcheck.gate.files.variables import filled
from draftcheck.gate.files.views import View
from draftcheck.gate.files.yamltree import Parsed, parse
from draftcheck.gate.model import Tree

NAMES = re.compile(r".+\.ya?ml")
_MODELS = re.compile(r"^models:", re.MULTILINE)
_CMD = re.compile(r"^[ \t]+[\"']?cmd[\"']?:", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#.*$|\$\{([\w.-]+)\}", re.MULTILINE)


def claims(name: str, text: str) -> bool:
    """Whether this is a configuration of llama-swap."""
    return bool(_MODELS.search(text) and _CMD.search(text))


def read(view: View, gathered: Gathered) -> None:
    """Collect each model's command."""
    parsed = parse(view, gathered)
    for tree in parsed.trees:
        shared = _macros(parsed, tree.get("macros"))
        models = tree.get("models")
        for key, model in (models.entries or ()) if models else ():
            macros = {**shared, **_macros(parsed, model.get("macros"))}
            macros["MODEL_ID"] = view.instead(key.text, 0, 0)
            reader = Reader(parsed, gathered, partial(_filled, macros=macros))
            command = model.get("cmd")
            if command is not None:
                env = reader.environment(model.get("env"))
                reader.emit(reader.args(command), None, env, command.place)


def _macros(parsed: Parsed, tree: Tree | None) -> dict[str, View]:
    found = dict[str, View]()
    for name, value in (tree.entries or ()) if tree is not None else ():
        text = parsed.view(value)
        if text is not None:
            # A macro may use those before it.
            found[name.text] = _filled(text, found)
    return found


def _filled(view: View, macros: dict[str, View]) -> View:
    """The text with macros filled in and without comment lines."""

    def value(match: re.Match[str]) -> View | None:
        return macros.get(match[1]) if match[1] else view.slice(match.start(), match.start())

    return filled(view, _MACRO, value)
