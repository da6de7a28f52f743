"""Jupyter notebooks: the code of each cell, as Python or as shell lines (!vllm serve …)."""

from __future__ import annotations

import re
from dataclasses import replace

from draftcheck.deploy.deployment import ContentsBuilder, DocumentTree
from draftcheck.deploy.kinds import python_file, shell
from draftcheck.deploy.syntax import json_places
from draftcheck.deploy.text import TextView, joined

_MAGIC = re.compile(r"^([ \t]*)([!%](?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_CELL_MAGIC = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*%%(\w+)([^\n]*)(?:\n|$)")


def read(view: TextView, contents: ContentsBuilder) -> None:
    """Collect what the cells start; all cells share one program."""
    tree = json_places.parse_view(view, contents, "a notebook")
    if tree is None:
        return
    code = list[TextView]()
    for cell in tree.listed("cells"):
        source = _source(cell.get("source"))
        if source is None or cell.said("cell_type") != "code":
            continue
        magic = _CELL_MAGIC.match(source.text)
        if magic is None:
            code.append(_without_magics(source, contents))
            continue
        rest = source.slice(magic.end(), len(source.text))
        if magic[1] == "writefile":
            shell.file_inside(rest, magic[2].split()[-1] if magic[2].split() else "", contents)
        elif magic[1] in ("bash", "sh", "script"):
            shell.inside(rest, contents)
        elif magic[1] in ("time", "timeit", "capture"):
            code.append(_without_magics(rest, contents))
    _python(code, contents)


def _python(code: list[TextView], contents: ContentsBuilder) -> None:
    """All cells as one program; cell by cell where that is not Python."""
    if not code:
        return
    whole, alone = (ContentsBuilder(contents.read_file) for _ in range(2))
    python_file.read(joined(code), whole)
    found = whole
    if whole.troubles:
        for cell in code:
            python_file.read(cell, alone)
        found = alone
    contents.commands.extend(found.commands)
    contents.documents.extend(found.documents)
    contents.troubles.extend(found.troubles)


def _source(tree: DocumentTree | None) -> TextView | None:
    parts = (tree.items if tree.items is not None else (tree,)) if tree is not None else ()
    views = [text for part in parts if (text := part.view) is not None]
    return joined(views) if views else None


def _without_magics(source: TextView, contents: ContentsBuilder) -> TextView:
    """The Python of a cell; shell lines are read, they and magics become blank."""

    def blank(magic: re.Match[str]) -> str:
        if magic[2][0] == "!":
            shell.inside(source.slice(magic.start(2) + 1, magic.end()), contents)
        size = len(magic[2])
        return magic[1] + ("pass".ljust(size) if size > 3 else " " * size)

    last = source.slice(max(len(source.text) - 1, 0), len(source.text))
    last.text = "\n"
    return joined([replace(source, text=_MAGIC.sub(blank, source.text)), last])
