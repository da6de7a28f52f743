"""llama-swap's configuration: a command per model, with macros."""

from __future__ import annotations

import re
from functools import partial

from draftcheck.deploy.contents import ContentsBuilder
from draftcheck.deploy.deployment import DocumentTree
from draftcheck.deploy.kinds.containers import ContainerReader
from draftcheck.deploy.syntax.variables import filled
from draftcheck.deploy.syntax.yaml_tree import ParsedYaml, parse
from draftcheck.deploy.text import TextView

NAMES = re.compile(r".+\.ya?ml")
_MODELS = re.compile(r"^models:", re.MULTILINE)
_CMD = re.compile(r"^[ \t]+[\"']?cmd[\"']?:", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#.*$|\$\{([\w.-]+)\}", re.MULTILINE)


def claims(name: str, text: str) -> bool:
    """Whether this is a configuration of llama-swap."""
    return bool(_MODELS.search(text) and _CMD.search(text))


def read(view: TextView, contents: ContentsBuilder) -> None:
    """Collect each model's command."""
    parsed = parse(view, contents)
    for tree in parsed.trees:
        shared = _macros(parsed, tree.get("macros"))
        models = tree.get("models")
        for key, model in (models.entries or ()) if models else ():
            macros = {**shared, **_macros(parsed, model.get("macros"))}
            macros["MODEL_ID"] = view.instead(key.text, 0, 0)
            reader = ContainerReader(parsed, contents, partial(_filled, macros=macros))
            command = model.get("cmd")
            if command is not None:
                env = reader.environment(model.get("env"))
                reader.emit(reader.args(command), None, env, command.place)


def _macros(parsed: ParsedYaml, tree: DocumentTree | None) -> dict[str, TextView]:
    found = dict[str, TextView]()
    for name, value in (tree.entries or ()) if tree is not None else ():
        text = parsed.view(value)
        if text is not None:
            # A macro may use those before it.
            found[name.text] = _filled(text, found)
    return found


def _filled(view: TextView, macros: dict[str, TextView]) -> TextView:
    """The text with macros filled in and without comment lines."""

    def value(match: re.Match[str]) -> TextView | None:
        return macros.get(match[1]) if match[1] else view.slice(match.start(), match.start())

    return filled(view, _MACRO, value)
