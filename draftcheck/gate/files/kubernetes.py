"""Kubernetes objects: containers wherever they stand, and files inside ConfigMaps."""

from __future__ import annotations

import re

from draftcheck.gate.files.containers import Reader, mappings, references
from draftcheck.gate.files.gathered import Gathered
from draftcheck.gate.files.views import View
from draftcheck.gate.files.yamltree import parse
from draftcheck.gate.model import Tree

NAMES = re.compile(r".+\.ya?ml|.+\.tpl")
_API = re.compile(r"^[ \t]*apiVersion:", re.MULTILINE)
_KIND = re.compile(r"^[ \t]*kind:", re.MULTILINE)


def claims(name: str, text: str) -> bool:
    """Whether this holds Kubernetes objects."""
    return bool(_API.search(text) and _KIND.search(text))


def read(view: View, gathered: Gathered) -> None:
    """Collect containers and files."""
    parsed = parse(view, gathered)
    reader = Reader(parsed, gathered)
    for tree in parsed.trees:
        objects(reader, tree)


def objects(reader: Reader, tree: Tree) -> None:
    """One document: every mapping that names an image, a command or its arguments."""
    for mapping in mappings(tree):
        kind = mapping.get("kind")
        if kind is not None and kind.word is not None and kind.word.text in ("ConfigMap", "Secret"):
            for part in ("data", "stringData"):
                files = mapping.get(part)
                for key, value in (files.entries or ()) if files else ():
                    reader.file(value, key.text)
        else:
            _container(reader, mapping)


def _container(reader: Reader, mapping: Tree) -> None:
    command, args = mapping.get("command"), mapping.get("args")
    lists = [tree for tree in (command, args) if tree is not None and tree.items is not None]
    image = mapping.get("image")
    if not lists and (image is None or image.word is None):
        return
    env = reader.environment(mapping.get("env"))
    words = [arg for tree in lists for arg in reader.args(tree)]
    reader.emit(references(words, env), reader.image(image), env)
