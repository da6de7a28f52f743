"""Files -> commands and documents with places. Knows no engine; runs, expands and fetches nothing.

KINDS says which function reads a file, by its name and, where that is not enough, its text.
could() asks by name alone, might() takes a fast look at the bytes, read() does the work.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from draftcheck.deploy.deployment import Contents, FileTrouble
from draftcheck.deploy.kinds import LANGUAGES
from draftcheck.deploy.options import forks
from draftcheck.deploy.options.programs import hinted_bytes, signed, speculates
from draftcheck.deploy.syntax import code_talk, templates
from draftcheck.deploy.text import SourceText, TextView, decoded, joined, searchable
from draftcheck.values.findings import FilePlace

MAX_BYTES, MAX_SEARCHED = 2_000_000, 20_000_000
"""What is longer is not read, only searched; what is longer still, not even that."""


FOR_PEOPLE = (
    ".txt", ".rst", ".adoc", ".org", ".tex", ".html", ".htm", ".xml", ".log", ".out", ".err",
    ".stdout", ".stderr", ".summary", ".trace", ".jsonl", ".ndjson", ".css", ".po", ".1", ".ipynb",
)  # fmt: skip
"""Texts and logs: options in them are mentioned."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of deploy file."""

    names: re.Pattern[str]
    """Of the lower-case names (without folder) of every file that may be of this kind."""
    reader: str
    """The function that collects what it holds, as module.name: most files need few of them."""
    claims: Callable[[str, str], bool] | None = None
    """Whether a file with such a name and this text is of this kind; None: the name tells it."""

    def read(self, view: TextView, contents: Contents) -> None:
        _function(self.reader)(view, contents)


def _function(named: str) -> Any:
    module, _, name = named.partition(".")
    return getattr(importlib.import_module(f"draftcheck.deploy.kinds.{module}"), name)


def _kind(names: str, reader: str, *texts: str, told_by: str = "") -> FileKind:
    """texts: patterns that all are found in the text; told_by: a function that is asked."""
    patterns = [re.compile(text) for text in texts]

    def claims(base: str, text: str) -> bool:
        asked = not told_by or bool(_function(told_by)(base, text))
        return asked and all(each.search(text) for each in patterns)

    return FileKind(re.compile(names), reader, claims if texts or told_by else None)


# The first that claims a file reads it.
KINDS = (
    _kind(r"\.?draftcheck\.toml", "toml_files.read_manifest"),
    _kind(
        r"(?:dockerfile|containerfile)(?:[.-].*)?|.*\.(?:dockerfile|containerfile)",
        "dockerfile.read",
    ),
    _kind(r"modelfile(?:[.-].*)?|.*\.modelfile", "engine_files.read_modelfile"),
    _kind(r"(?:gnu)?makefile(?:\..*)?|.*\.(?:mk|mak)", "makefile.read_makefile"),
    _kind(r"\.?justfile|.*\.just", "makefile.read_justfile"),
    _kind(r"procfile(?:\..*)?", "makefile.read_procfile"),
    _kind(r".+\.ya?ml", "containers.read_compose", told_by="containers.is_compose"),
    _kind(
        r".+\.ya?ml",
        "containers.read_kubernetes",
        r"(?m)^[ \t]*apiVersion:",
        r"(?m)^[ \t]*kind:",
    ),
    _kind(
        r".+\.ya?ml",
        "containers.read_llama_swap",
        r"(?m)^models:",
        r"(?m)^[ \t]+[\"']?cmd[\"']?:",
    ),
    _kind(r".+\.ya?ml", "engine_files.read_engine_yaml", told_by="engine_files.is_engine_yaml"),
    _kind(r".+\.ya?ml", "containers.read_yaml"),
    _kind(r".+\.(?:service|container|conf|ini|cfg|desktop)", "ini.read", r"(?m)^[ \t]*\["),
    _kind(r".+\.(?:conf|args|flags|opts)", "ini.read_options", r"(?m)^[ \t]*--[a-z]"),
    _kind(r".+\.txt", "ini.read_options", r"\A\s*+(?:(?:#|--?[a-z])[^\n]*+(?:\n\s*+|\Z))++\Z"),
    _kind(r".+\.(?:pbtxt|prototxt)", "engine_files.read_pbtxt"),
    _kind(r"(?!package-lock\.json).+\.jsonc?", "containers.read_json"),
    _kind(r".+\.kcpps", "engine_files.read_kcpps"),
    _kind(r".+\.ipynb", "python_file.read_notebook"),
    _kind(r".+\.(?:bat|cmd)", "batch.read"),
    _kind(r".+\.ps1", "powershell.read"),
    _kind(r".+\.(?:md|markdown|mdx)", "markdown.read"),
    _kind(r".+\.py", "python_file.read"),
    _kind(
        rf".+(?:{'|'.join(map(re.escape, code_talk.SCRIPTS + code_talk.SOURCES))})", "literals.read"
    ),
    _kind(r".+\.toml", "toml_files.read"),
    _kind(r".+\.plist", "literals.read_plist", r"<key>ProgramArguments</key>"),
    _kind(r"[^.]+", "python_file.read", r"\A#!.*\bpython"),
    _kind(
        r".+\.(?:sh|bash|zsh|ksh|fish|command|sbatch|slurm|env)|\.env(?:\..+)?"
        r"|\.(?:envrc|bashrc|bash_aliases|zshrc|profile)",
        "shell.read",
    ),
    _kind(r"[^.]+", "shell.read", r"\A#!.*\b(?:ba|z|da|k|a)?sh\b"),
)
_NAMES = re.compile("|".join(f"(?:{kind.names.pattern})" for kind in KINDS))
_SOURCES, _TEXTS = (".py", *code_talk.SOURCES), (*LANGUAGES, ".txt")
_ALWAYS = re.compile(r"\.?draftcheck\.toml|.*modelfile.*")
_LEFT_BEHIND = r"(?:^|/)(?:results?|outputs?|logs?|baselines?)/"
_RECORD = re.compile(rf"{_LEFT_BEHIND}(?:.*/)?[^/]+\.(?:json|ya?ml|env)$")
"""What a run left behind: it ran once, and starts nothing."""
_TOLD = (
    (r"\A\s*#!.*\bpython", "text.py"),
    (r"\A\s*#!", "text.sh"),
    (r"^\[(?:Unit|Service|Container|program:.*)\]", "text.service"),
    (r"^services:", "compose.yaml"),
    (r"^apiVersion:|^macros:|^models:", "text.yaml"),
    (r"\A\s*FROM ", "Dockerfile"),
    (r"\A\s*\{", "text.json"),
    (r"\A[\w-]+:(?: .*)?\n(?:[\w-]+:|[ #-])", "text.yaml"),
    (r"\A", "text.sh"),
)
"""What a text is read as that is written to a file of unknown name."""
_TEMPLATE_SUFFIX = re.compile(r"\.(?:j2|jinja2?|tpl|tmpl|gotmpl|template|example|sample|dist|in)$")


@lru_cache(maxsize=16)  # a file is asked for several times
def _base(name: str) -> str:
    base = name.replace("\\", "/").rsplit("/", 1)[-1].lower().replace("\n", " ")
    return _TEMPLATE_SUFFIX.sub("", base) or base


@lru_cache(maxsize=16)
def could(name: str) -> bool:
    """Whether a file of this name may be of a kind that is looked at."""
    return bool(_NAMES.fullmatch(_base(name)))


def might(data: bytes, name: str) -> bool:
    """A fast look: whether reading the file can find anything."""
    if not could(name):
        return signed(searchable(data))
    if _ALWAYS.fullmatch(_base(name)):
        return True
    if (name.endswith(_SOURCES) and forks.is_source(name)) or _RECORD.search(name):
        return False
    if "." not in _base(name) and b"\0" in data[:1024]:
        return False
    if name.lower().endswith(_TEXTS):
        return signed(searchable(data))
    return hinted_bytes(searchable(data))


def kind_of(name: str, text: str) -> FileKind | None:
    base = _base(name)
    for kind in KINDS:
        if kind.names.fullmatch(base) and (not kind.claims or kind.claims(base, text)):
            return kind
    return None


def _inside(view: TextView, name: str, contents: Contents) -> None:
    """Read a text as the file that it becomes."""
    kind = kind_of(name, view.text)
    if kind is None:
        name = next((known for told, known in _TOLD if re.search(told, view.text, re.M)), "")
        kind = kind_of(name, view.text)
    if kind is not None:
        kind.read(replace(view, name=_base(name)), contents)


_ITEM = re.compile(r"^- ", re.MULTILINE)


def _about_speculation(view: TextView) -> TextView | None:
    """Of a catalogue (a long YAML list): the items that speak of it, and what others refer to."""
    starts = [match.start() for match in _ITEM.finditer(view.text)]
    items = (
        view.slice(start, end)
        for start, end in zip(starts, [*starts[1:], len(view.text)], strict=True)
    )
    kept = [item for item in items if item.text.startswith("- &") or speculates(item.text)]
    return joined(kept) if kept and sum(len(item.text) for item in kept) <= MAX_BYTES else None


def read(data: bytes, name: str, outside: Mapping[str, str] | None = None) -> Contents | None:
    """The commands and documents of a file; None: not a kind that is looked at.

    outside: variables that a file beside it gives values to.
    """
    first = FilePlace(name, 1)
    if len(data) > MAX_BYTES:
        if name.endswith((".ipynb", ".json")) and not signed(searchable(data)):
            return None  # pictures and data make them large
        text = f"larger than {MAX_BYTES:,} bytes: not read"
        known = SourceText(name, decoded(data).text) if len(data) <= MAX_SEARCHED else None
        if known is not None and name.lower().endswith((".yaml", ".yml")):
            whole = TextView(known, known.text, [0], [0])
            if (items := _about_speculation(whole)) is not None:
                contents = Contents(_inside, outside=outside or {}, source=known)
                _function("containers.read_yaml")(items, contents)
                return contents
        return Contents(_inside, troubles=[FileTrouble(first, text)], source=known)
    file = decoded(data)
    text = file.text
    if "\0" in text:
        binary = Contents(_inside, troubles=[FileTrouble(first, "a binary file: not read")])
        return binary if "." in _base(name) else None
    kind = kind_of(name, text)
    source = SourceText(name, text)
    if kind is None:  # it is searched for options
        about = signed(searchable(data)) and not re.search(_LEFT_BEHIND, name)
        told = name.lower().endswith(FOR_PEOPLE)
        return Contents(_inside, source=source) if about and not told else None
    contents = Contents(_inside, outside=outside or {}, source=source)
    view = TextView(source, text, [0], [0], name=_base(name))
    if file.odd is not None:
        contents.trouble(view.place(file.odd, file.odd + 1), "not UTF-8: read as Latin-1")
    if _TEMPLATE_SUFFIX.search(name.lower()) and not name.endswith(".tpl"):
        view.text = templates.hidden(text)
    kind.read(view, contents)
    return contents
