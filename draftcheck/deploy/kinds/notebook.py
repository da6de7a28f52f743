"""Jupyter notebooks: the code of each cell, as Python or as shell lines (!vllm serve …)."""

from __future__ import annotations

import re
from dataclasses import replace

from draftcheck.deploy.deployment import ContentsBuilder, DocumentTree
from draftcheck.deploy.kinds import python_file, shell, wrappers
from draftcheck.deploy.syntax import json_places
from draftcheck.deploy.text import TextView, joined

_CELL_MAGIC = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*%%(\w+)([^\n]*)(?:\n|$)")


def read(view: TextView, contents: ContentsBuilder) -> None:
    """Collect what the cells start; all cells share one program."""
    tree = json_places.parse_view(view, contents, "a notebook")
    if tree is None:
        return
    cells = tree.get("cells")
    code = list[TextView]()
    for cell in (cells.items or ()) if cells else ():
        kind = cell.get("cell_type")
        source = _source(cell.get("source"))
        if source is None or kind is None or kind.word is None or kind.word.text != "code":
            continue
        magic = _CELL_MAGIC.match(source.text)
        if magic is None:
            code.append(_without_magics(source, contents))
            continue
        rest = source.slice(magic.end(), len(source.text))
        if magic[1] == "writefile":
            wrappers.inside(rest, magic[2].split()[-1] if magic[2].split() else "", contents)
        elif magic[1] in ("bash", "sh", "script"):
            _script(rest, contents)
        elif magic[1] in ("time", "timeit", "capture"):
            code.append(_without_magics(rest, contents))
    _python(code, contents)


def _python(code: list[TextView], contents: ContentsBuilder) -> None:
    """All cells as one program; cell by cell where that is not Python."""
    if not code:
        return
    whole, alone = (ContentsBuilder(contents.read_file, contents.read_script) for _ in range(2))
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
    text, at = list[str](), 0
    while at < len(source.text):
        end = source.text.find("\n", at)
        end = len(source.text) if end < 0 else end
        start = at + len(source.text[at:end]) - len(source.text[at:end].lstrip())
        if source.text[start : start + 1] in ("!", "%"):
            while end < len(source.text) and source.text[end - 1] == "\\":
                following = source.text.find("\n", end + 1)
                end = len(source.text) if following < 0 else following
            if source.text[start] == "!":
                _script(source.slice(start + 1, end), contents)
            size = end - start
            text.append(source.text[at:start] + ("pass".ljust(size) if size > 3 else " " * size))
        else:
            text.append(source.text[at:end])
        text.append("\n" if end < len(source.text) else "")
        at = end + 1
    blanked = "".join(text)
    if len(blanked) != len(source.text):
        return source
    last = source.slice(max(len(source.text) - 1, 0), len(source.text))
    last.text = "\n"
    return joined([replace(source, text=blanked), last])


def _script(view: TextView, contents: ContentsBuilder) -> None:
    shell.inside(view, contents)
