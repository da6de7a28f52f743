"""Any other YAML or JSON: Helm values, CI steps … Lists of arguments are told by their names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from draftcheck.deploy.deployment import TOO_MUCH, ContentsBuilder, DocumentTree
from draftcheck.deploy.kinds.containers import ContainerReader, objects, references, started
from draftcheck.deploy.syntax import json_places
from draftcheck.deploy.syntax.yaml_tree import parse
from draftcheck.deploy.text import TextView, Word

_ARGUMENTS = re.compile(r"(?:\w*_?args|\w*Args|arguments|\w*[fF]lags|extra_?opts)")
_SCRIPTS = {
    "run", "cmds", "script", "before_script", "after_script", "shell", "runcmd",
    "ansible.builtin.shell", "ansible.builtin.command",
}  # fmt: skip
_ENVIRONMENT = ("env", "environment", "variables", "extraEnv", "extraEnvVars")
# A chart's own names for what it passes on as options.
_MODELS = ("modelURL", "modelUrl")
_OPTIONS = re.compile(r"vllmConfig|sglangConfig|llamaConfig")
_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHELLS = {
    "pwsh": "step.ps1", "powershell": "step.ps1", "cmd": "step.bat", "python": "step.py",
}  # fmt: skip
MAX_VISITS = 200_000


@dataclass(frozen=True, slots=True)
class _Above:
    """What the mappings around a mapping say."""

    image: Word | None = None
    model: DocumentTree | None = None
    windows: bool = False
    """Steps are PowerShell unless they say otherwise."""


def read(view: TextView, contents: ContentsBuilder) -> None:
    reader = ContainerReader(contents)
    for tree in parse(view, contents):
        walk(reader, tree)


def walk(reader: ContainerReader, tree: DocumentTree) -> None:
    """Visit every mapping, images of outer ones in mind."""
    waiting = [(tree, _Above(), "")]
    seen = set[int]()
    visits = 0
    while waiting and visits < MAX_VISITS:
        at, above, under = waiting.pop()
        visits += 1
        if id(at) in seen:
            continue
        seen.add(id(at))
        waiting.extend((item, above, under) for item in reversed(at.items or ()))
        if at.entries is None:
            continue
        above = _around(reader, at, above)
        if under != "with":  # the inputs of an action have names of their own
            _mapping(reader, at, above, seen)
        waiting.extend((value, above, key.text) for key, value in reversed(at.entries))
    if waiting:
        reader.contents.cut_at(tree.place, TOO_MUCH)


def _around(reader: ContainerReader, mapping: DocumentTree, above: _Above) -> _Above:
    container = mapping.get("container")
    inner = container.get("image") if container is not None else None
    image = reader.image(mapping.get("image") or inner or container)
    if image is None and mapping.get("repository") is not None and mapping.get("tag") is not None:
        image = reader.image(mapping)
    if image is not None:
        above = replace(above, image=image)
    runs_on = mapping.get("runs-on")
    if runs_on is not None and runs_on.word is not None:
        above = replace(above, windows="windows" in runs_on.word.text.lower())
    names = (found for name in _MODELS if (found := mapping.get(name)) is not None)
    model = next(names, mapping.get("modelArtifacts", "uri"))
    return replace(above, model=model) if model is not None else above


def _mapping(reader: ContainerReader, mapping: DocumentTree, above: _Above, seen: set[int]) -> None:
    env = dict[str, Word]()
    for name in _ENVIRONMENT:
        env.update(reader.environment(mapping.get(name)))
    words = list[Word]()
    for key, value in mapping.entries or ():
        if key.text in _SCRIPTS:
            _script(reader, value, mapping.get("shell"), above, env)
        elif key.text in ("command", "cmd", "entrypoint"):
            if value.word is None or value.word.text.lstrip().startswith("-"):
                words[:0] = _listed(reader, value)
            else:
                reader.script(value, above.image, env)
        elif _ARGUMENTS.fullmatch(key.text):
            words.extend(_listed(reader, value))
        elif _OPTIONS.fullmatch(key.text):
            _options(reader, value, above, env)
            seen.add(id(value))
    if mapping.get("engine_kwargs") is not None and mapping.get("model_loading_config") is not None:
        reader.contents.document("ray-llm", mapping)
    words[:0] = started(mapping.get("modelCommand"), above.model)
    if words:
        reader.emit(references(words, env), above.image, env)


def _script(
    reader: ContainerReader,
    value: DocumentTree,
    shell: DocumentTree | None,
    above: _Above,
    env: dict[str, Word],
) -> None:
    """A step's text, in the language that it names."""
    named = "pwsh" if above.windows else "sh"
    if shell is not None and shell.word is not None and shell.word.text.strip():
        named = shell.word.text.split()[0]
    name = _SHELLS.get(named)
    if name is not None:
        reader.file(value, name)
    elif value is not shell:
        reader.script(value, above.image, env)


def _listed(reader: ContainerReader, value: DocumentTree) -> list[Word]:
    """Arguments: a list, or a text that begins with an option."""
    if value.items is not None:
        return reader.args(value)
    text = value.word.text.lstrip() if value.word is not None else ""
    return reader.args(value) if text.startswith("-") else []


def _options(
    reader: ContainerReader, mapping: DocumentTree, above: _Above, env: dict[str, Word]
) -> None:
    """Options by name (maxModelLen: 4096), as the chart spells them on the command line."""
    words = list[Word]()
    if above.model is not None and (model := reader.word(above.model)) is not None:
        words += [Word("--model", model.place, model.view.vague("--model", 0, 0)), model]
    for key, value in mapping.entries or ():
        if _ARGUMENTS.fullmatch(key.text):
            words.extend(_listed(reader, value))
            continue
        arg = reader.word(value)
        if arg is not None and arg.kind in ("int", "float", "str"):
            option = "--" + _UPPER.sub("-", key.text).lower()
            words += [Word(option, key.place, arg.view.vague(option, 0, 0)), arg]
    reader.emit(words, above.image, env)


_WORTH = re.compile(r"\"(?:image|command|\w*[aA]rgs|cmd|entry[pP]oint|run|scripts?)\"\s*:")


def read_json(view: TextView, contents: ContentsBuilder) -> None:
    """A document of engine arguments, or the commands that it describes."""
    if view.name != "model.json" and not _WORTH.search(view.text):
        return
    tree = json_places.parse_view(view, contents, "JSON")
    if tree is None or tree.word is not None:
        return
    reader = ContainerReader(contents)
    if view.name == "model.json" and tree.get("model") is not None:
        contents.document("triton-model", tree)
    elif tree.get("apiVersion") is not None:
        objects(reader, [tree])
    else:
        walk(reader, tree)
        for _, script in tree.pairs("scripts"):
            reader.script(script)
