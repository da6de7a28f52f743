"""Files -> commands and documents with places. Knows no engine; runs, expands and fetches nothing.

A kind of file is a module with NAMES, claims(name, text) and read(view, contents), named in KINDS.
could() asks by name alone, might() takes a fast look at the bytes, read() does the work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Protocol

from draftcheck.deploy.contents import ContentsBuilder
from draftcheck.deploy.deployment import Contents, FileTrouble
from draftcheck.deploy.hints import hinted_bytes
from draftcheck.deploy.kinds import (
    batch,
    compose,
    dockerfile,
    draftcheck_toml,
    engine_yaml,
    ini,
    json_file,
    kubernetes,
    llama_swap,
    makefile,
    modelfile,
    notebook,
    pbtxt,
    procfile,
    python_file,
    shell,
    yaml_file,
)
from draftcheck.deploy.syntax import templates
from draftcheck.deploy.text import SourceText, TextView, decoded, searchable
from draftcheck.values.findings import FilePlace

MAX_BYTES = 2_000_000


class DeployFileKind(Protocol):
    """What a module of this package offers."""

    NAMES: re.Pattern[str]
    """Matches the lower-case name (without folder) of every file that may be of this kind."""

    def claims(self, name: str, text: str) -> bool:
        """Whether a file with such a name and this text is of this kind."""

    def read(self, view: TextView, contents: ContentsBuilder) -> None:
        """Collect what it holds."""


# The first that claims a file reads it.
KINDS: tuple[DeployFileKind, ...] = (
    draftcheck_toml,
    dockerfile,
    modelfile,
    makefile,
    procfile,
    compose,
    kubernetes,
    llama_swap,
    engine_yaml,
    yaml_file,
    ini,
    pbtxt,
    json_file,
    notebook,
    batch,
    python_file,
    shell,
)
_ALWAYS = re.compile(r"\.?draftcheck\.toml|.*modelfile.*")
_TEMPLATE_SUFFIX = re.compile(r"\.(?:j2|jinja2?|tpl|tmpl|gotmpl|template|example|sample|dist|in)$")


@cache
def _names() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{kind.NAMES.pattern})" for kind in KINDS))


def _base(name: str) -> str:
    base = name.replace("\\", "/").rsplit("/", 1)[-1].lower().replace("\n", " ")
    return _TEMPLATE_SUFFIX.sub("", base) or base


def could(name: str) -> bool:
    """Whether a file of this name may be of a kind that is looked at."""
    return bool(_names().fullmatch(_base(name)))


def might(data: bytes, name: str) -> bool:
    """A fast look: whether reading the file can find anything."""
    if not could(name):
        return False
    if _ALWAYS.fullmatch(_base(name)):
        return True
    if "." not in _base(name) and b"\0" in data[:1024]:
        return False
    return hinted_bytes(searchable(data))


def kind_of(name: str, text: str) -> DeployFileKind | None:
    """The kind that a file is of."""
    base = _base(name)
    for kind in KINDS:
        if kind.NAMES.fullmatch(base) and kind.claims(base, text):
            return kind
    return None


class _Embedded:
    """Scripts and files that stand inside a file."""

    script = staticmethod(shell.inside)

    @staticmethod
    def file(view: TextView, name: str, contents: ContentsBuilder) -> None:
        """Read a text as the file that it becomes."""
        kind = kind_of(name, view.text)
        if kind is not None:
            kind.read(replace(view, name=_base(name)), contents)


def read(data: bytes, name: str, outside: Mapping[str, str] | None = None) -> Contents | None:
    """The commands and documents of a file; None: not a kind that is looked at.

    outside: variables that a file beside it gives values to.
    """
    if not could(name):
        return None
    first = FilePlace(name, 1)
    if len(data) > MAX_BYTES:
        text = f"larger than {MAX_BYTES:,} bytes: not read"
        return Contents(troubles=(FileTrouble(first, text),))
    file = decoded(data)
    text = file.text
    if "\0" in text:
        binary = Contents(troubles=(FileTrouble(first, "a binary file: not read"),))
        return binary if "." in _base(name) else None
    kind = kind_of(name, text)
    if kind is None:
        return None
    contents = ContentsBuilder(_Embedded(), outside=outside or {})
    view = TextView.whole(SourceText(name, text), _base(name))
    if file.odd is not None:
        contents.trouble(view.place(file.odd, file.odd + 1), "not UTF-8: read as Latin-1")
    if _TEMPLATE_SUFFIX.search(name.lower()) and not name.endswith(".tpl"):
        view.text = templates.hidden(text)
    kind.read(view, contents)
    return contents.built()
