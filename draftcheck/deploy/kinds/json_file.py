"""JSON files: Triton's model.json, and anything that describes containers or scripts."""

from __future__ import annotations

import re

from draftcheck.deploy.contents import ContentsBuilder
from draftcheck.deploy.kinds import kubernetes, yaml_file
from draftcheck.deploy.kinds.containers import ContainerReader
from draftcheck.deploy.syntax import json_places
from draftcheck.deploy.text import TextView

NAMES = re.compile(r"(?!package-lock\.json).+\.json")
_WORTH = re.compile(r"\"(?:image|command|\w*[aA]rgs|cmd|entry[pP]oint|run|scripts?)\"\s*:")


def claims(name: str, text: str) -> bool:
    """Whether this is JSON."""
    return True


def read(view: TextView, contents: ContentsBuilder) -> None:
    """A document of engine arguments, or the commands that it describes."""
    if view.name != "model.json" and not _WORTH.search(view.text):
        return
    parsed = json_places.parse_view(view, contents, "JSON")
    if parsed is None:
        return
    reader = ContainerReader(parsed, contents)
    for tree in parsed.trees:
        if tree.entries is None and tree.items is None:
            continue
        if view.name == "model.json" and tree.get("model") is not None:
            contents.document("triton-model", tree)
        elif tree.get("apiVersion") is not None:
            kubernetes.objects(reader, [tree])
        else:
            yaml_file.walk(reader, tree)
            scripts = tree.get("scripts")
            for _, script in (scripts.entries or ()) if scripts else ():
                reader.script(script)
