"""Kubernetes objects: containers wherever they stand, and files inside ConfigMaps."""

from __future__ import annotations

import re

from draftcheck.deploy.contents import ContentsBuilder
from draftcheck.deploy.deployment import DocumentTree, Word
from draftcheck.deploy.kinds.containers import ContainerReader, mappings, references, started
from draftcheck.deploy.syntax.yaml_tree import parse
from draftcheck.deploy.text import TextView

NAMES = re.compile(r".+\.ya?ml")
_API = re.compile(r"^[ \t]*apiVersion:", re.MULTILINE)
_KIND = re.compile(r"^[ \t]*kind:", re.MULTILINE)


def claims(name: str, text: str) -> bool:
    """Whether this holds Kubernetes objects."""
    return bool(_API.search(text) and _KIND.search(text))


def read(view: TextView, contents: ContentsBuilder) -> None:
    """Collect containers and files."""
    parsed = parse(view, contents)
    reader = ContainerReader(parsed, contents)
    objects(reader, parsed.trees)


def objects(reader: ContainerReader, trees: list[DocumentTree]) -> None:
    """Every mapping that names an image, a command or its arguments, and every file."""
    found = [mapping for tree in trees for mapping in mappings(tree)]
    settings = _settings(reader, found)
    for mapping in found:
        kind = mapping.get("kind")
        if kind is not None and kind.word is not None and kind.word.text in ("ConfigMap", "Secret"):
            for part in ("data", "stringData"):
                files = mapping.get(part)
                for key, value in (files.entries or ()) if files else ():
                    reader.file(value, key.text)
        else:
            _container(reader, mapping, settings)
            for inner in (mapping.get("helm", "values"), mapping.get("serveConfigV2")):
                if inner is not None and inner.word is not None:  # Argo CD, KubeRay
                    reader.file(inner, "values.yaml")


def _settings(reader: ContainerReader, found: list[DocumentTree]) -> dict[str, dict[str, Word]]:
    """What the ConfigMaps of the same file hold, by their names."""
    settings = dict[str, dict[str, Word]]()
    for mapping in found:
        kind, name = mapping.get("kind"), mapping.get("metadata", "name")
        if kind is not None and kind.word is not None and kind.word.text == "ConfigMap":
            label = name.word.text if name is not None and name.word is not None else ""
            settings[label] = reader.environment(mapping.get("data"))
    return settings


def _environment(
    reader: ContainerReader, mapping: DocumentTree, settings: dict[str, dict[str, Word]]
) -> dict[str, Word]:
    """A container's variables, those that come from a ConfigMap of the same file included."""
    env = dict[str, Word]()
    listed = mapping.get("envFrom")
    for item in (listed.items or ()) if listed is not None else ():
        env.update(settings.get(_text(item.get("configMapRef", "name")), {}))
    env.update(reader.environment(mapping.get("env")))
    named = mapping.get("env")
    for item in (named.items or ()) if named is not None else ():
        reference = item.get("valueFrom", "configMapKeyRef")
        if reference is not None:
            data = settings.get(_text(reference.get("name")), {})
            value = data.get(_text(reference.get("key")))
            if value is not None:
                env[_text(item.get("name"))] = value
    return env


def _text(tree: DocumentTree | None) -> str:
    return tree.word.text if tree is not None and tree.word is not None else ""


def _container(
    reader: ContainerReader, mapping: DocumentTree, settings: dict[str, dict[str, Word]]
) -> None:
    command, args = mapping.get("command"), mapping.get("args")
    lists = [tree for tree in (command, args) if tree is not None and tree.items is not None]
    image = mapping.get("image")
    if not lists and (image is None or image.word is None):
        return
    env = _environment(reader, mapping, settings)
    words = [arg for tree in lists for arg in reader.args(tree)]
    if command is None and image is None:
        runtime = mapping.get("modelFormat", "name") or mapping.get("engine")
        model = mapping.get("storageUri") or mapping.get("url")
        words[:0] = started(reader, runtime, model)
    reader.emit(references(words, env), reader.image(image), env)
