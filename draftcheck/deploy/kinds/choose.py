"""Files -> commands and documents with places. Knows no engine; runs, expands and fetches nothing.

KINDS says which function reads a file, by its name and, where that is not enough, its text.
could() asks by name alone, might() takes a fast look at the bytes, read() does the work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from draftcheck.deploy.deployment import Contents, FileTrouble
from draftcheck.deploy.kinds import (
    batch,
    containers,
    dockerfile,
    draftcheck_toml,
    engine_files,
    ini,
    literals,
    makefile,
    markdown,
    powershell,
    python_file,
    shell,
)
from draftcheck.deploy.options import forks
from draftcheck.deploy.options.programs import hinted_bytes, signed
from draftcheck.deploy.syntax import templates
from draftcheck.deploy.text import SourceText, TextView, decoded, searchable
from draftcheck.values.findings import FilePlace

MAX_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of deploy file."""

    names: str
    """A pattern of the lower-case names (without folder) of every file that may be of this kind."""
    read: Callable[[TextView, Contents], None]
    """Collects what it holds."""
    claims: Callable[[str, str], bool] | None = None
    """Whether a file with such a name and this text is of this kind; None: the name tells it."""


def _holds(*patterns: str) -> Callable[[str, str], bool]:
    return lambda _, text: all(re.search(pattern, text) for pattern in patterns)


# The first that claims a file reads it.
KINDS = (
    FileKind(r"\.?draftcheck\.toml", draftcheck_toml.read),
    FileKind(
        r"(?:dockerfile|containerfile)(?:[.-].*)?|.*\.(?:dockerfile|containerfile)",
        dockerfile.read,
    ),
    FileKind(r"modelfile(?:[.-].*)?|.*\.modelfile", engine_files.read_modelfile),
    FileKind(r"(?:gnu)?makefile(?:\..*)?|.*\.(?:mk|mak)", makefile.read_makefile),
    FileKind(r"\.?justfile|.*\.just", partial(makefile.read_makefile, just=True)),
    FileKind(r"procfile(?:\..*)?", makefile.read_procfile),
    FileKind(r".+\.ya?ml", containers.read_compose, containers.is_compose),
    FileKind(
        r".+\.ya?ml",
        containers.read_kubernetes,
        _holds(r"(?m)^[ \t]*apiVersion:", r"(?m)^[ \t]*kind:"),
    ),
    FileKind(
        r".+\.ya?ml",
        containers.read_llama_swap,
        _holds(r"(?m)^models:", r"(?m)^[ \t]+[\"']?cmd[\"']?:"),
    ),
    FileKind(r".+\.ya?ml", engine_files.read_engine_yaml, engine_files.is_engine_yaml),
    FileKind(r".+\.ya?ml", containers.read_yaml),
    FileKind(r".+\.(?:service|container|conf|ini)", ini.read, _holds(r"(?m)^[ \t]*\[")),
    FileKind(r".+\.(?:pbtxt|prototxt)", engine_files.read_pbtxt),
    FileKind(r"(?!package-lock\.json).+\.json", containers.read_json),
    FileKind(r".+\.ipynb", python_file.read_notebook),
    FileKind(r".+\.(?:bat|cmd)", batch.read),
    FileKind(r".+\.ps1", powershell.read),
    FileKind(r".+\.(?:md|markdown|mdx)", markdown.read),
    FileKind(r".+\.py", python_file.read),
    FileKind(r".+\.(?:[cm]?[jt]s|[jt]sx|nix)", literals.read),
    FileKind(r"[^.]+", python_file.read, _holds(r"\A#!.*\bpython")),
    FileKind(
        r".+\.(?:sh|bash|zsh|ksh|command|sbatch|slurm|env)|\.env(?:\..+)?"
        r"|\.(?:envrc|bashrc|bash_aliases|zshrc|profile)",
        shell.read,
    ),
    FileKind(r"[^.]+", shell.read, _holds(r"\A#!.*\b(?:ba|z|da|k|a)?sh\b")),
)
_NAMES = re.compile("|".join(f"(?:{kind.names})" for kind in KINDS))
_ALWAYS = re.compile(r"\.?draftcheck\.toml|.*modelfile.*")
_RECORD = re.compile(r"(?:^|/)(?:results?|outputs?|logs?)/(?:.*/)?[^/]+\.(?:json|ya?ml|env)$")
"""What a run left behind: it ran once, and starts nothing."""
_TEMPLATE_SUFFIX = re.compile(r"\.(?:j2|jinja2?|tpl|tmpl|gotmpl|template|example|sample|dist|in)$")


def _base(name: str) -> str:
    base = name.replace("\\", "/").rsplit("/", 1)[-1].lower().replace("\n", " ")
    return _TEMPLATE_SUFFIX.sub("", base) or base


def could(name: str) -> bool:
    """Whether a file of this name may be of a kind that is looked at."""
    return bool(_NAMES.fullmatch(_base(name)))


def might(data: bytes, name: str) -> bool:
    """A fast look: whether reading the file can find anything."""
    if not could(name):
        return False
    if _ALWAYS.fullmatch(_base(name)):
        return True
    if (name.endswith(".py") and forks.is_source(name)) or _RECORD.search(name):
        return False
    if "." not in _base(name) and b"\0" in data[:1024]:
        return False
    if name.lower().endswith(literals.SUFFIXES):
        return signed(searchable(data))
    return hinted_bytes(searchable(data))


def kind_of(name: str, text: str) -> FileKind | None:
    base = _base(name)
    for kind in KINDS:
        if re.fullmatch(kind.names, base) and (not kind.claims or kind.claims(base, text)):
            return kind
    return None


def _inside(view: TextView, name: str, contents: Contents) -> None:
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
        if name.endswith((".ipynb", ".json")) and not signed(searchable(data)):
            return None  # pictures and data make them large
        text = f"larger than {MAX_BYTES:,} bytes: not read"
        return Contents(_inside, troubles=[FileTrouble(first, text)])
    file = decoded(data)
    text = file.text
    if "\0" in text:
        binary = Contents(_inside, troubles=[FileTrouble(first, "a binary file: not read")])
        return binary if "." in _base(name) else None
    kind = kind_of(name, text)
    if kind is None:
        return None
    source = SourceText(name, text)
    contents = Contents(_inside, outside=outside or {}, source=source)
    view = TextView(source, text, [0], [0], name=_base(name))
    if file.odd is not None:
        contents.trouble(view.place(file.odd, file.odd + 1), "not UTF-8: read as Latin-1")
    if _TEMPLATE_SUFFIX.search(name.lower()) and not name.endswith(".tpl"):
        view.text = templates.hidden(text)
    kind.read(view, contents)
    return contents
