"""Text -> ModelRef. Looks at the file system only to see what kind of thing a path is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from draftcheck.errors import ReadError, UsageError

FACTS_SUFFIX = ".facts.json"
OLLAMA = "ollama:"
HUB = re.compile(
    r"(?P<repo>[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*)"
    r"(?:/(?P<file>[^@\0\\]+\.gguf))?"
    r"(?:@(?P<revision>[\w.][\w./+-]*))?"
    r"(?::(?P<tag>[\w.-]+))?",
    re.ASCII | re.IGNORECASE,
)
URL = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/+(?P<rest>.+)", re.IGNORECASE)
LONGEST = 96
"""Characters of each part of a repo's name, as the Hub has it."""


@dataclass(frozen=True, slots=True)
class ModelRef:
    text: str
    kind: str
    """folder, gguf, facts, hub or ollama."""
    path: Path = Path()
    repo: str = ""
    """Of a Hub model: org/name. Of an Ollama model: its name."""
    revision: str | None = None
    file: str | None = None
    """A GGUF of a Hub repo; the layer of an Ollama model where it is not the model itself."""
    tag: str | None = None


def parse(text: str) -> ModelRef:
    """Say what a reference means; an existing local path wins over everything else."""
    if not text or "\0" in text:
        raise UsageError(f"{text!r} is not a model reference")
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            return ModelRef(text, "folder", path)
        if path.exists() or path.is_symlink():
            if path.name.endswith(FACTS_SUFFIX):
                return ModelRef(text, "facts", path)
            if path.name.endswith(".gguf"):
                return ModelRef(text, "gguf", path)
            raise UsageError(
                f"{text}: neither a checkpoint folder, a .gguf file nor a {FACTS_SUFFIX} file",
                hint="Name the folder that holds config.json and tokenizer.json, or a GGUF file.",
            )
        return _elsewhere(text, path)
    except PermissionError as error:
        raise ReadError(f"{text}: {error.strerror}") from error
    except OSError as error:
        raise UsageError(f"{text}: {error.strerror or error}") from error
    except RuntimeError as error:  # ~name of nobody
        raise UsageError(f"{text}: {error}") from error


def _elsewhere(text: str, path: Path) -> ModelRef:
    """Not on this disk: a model of the Hub or of Ollama, or a mistake."""
    if text.startswith(OLLAMA):
        return _ollama(text)
    if match := URL.fullmatch(text):
        name = "/".join(match["rest"].split("/")[:2])
        raise UsageError(f"{text}: an address, not a model reference", hint=f"Write {name}.")
    named = text.startswith((".", "/", "~")) or text.endswith(FACTS_SUFFIX)
    # org/name/file.gguf is a file of a repo, unless its folder is here and only the file is not.
    gone = text.endswith(".gguf") and (text.count("/") < 2 or path.parent.is_dir())
    if named or gone:
        raise ReadError(f"{text}: no such file or folder")
    match = HUB.fullmatch(text)
    if match is None or not _sound(match["repo"], match["file"], match["revision"]):
        hint = None if "/" in text else "A model of the Hub is written org/name."
        raise ReadError(f"{text}: no such file or folder", hint=hint)
    if match["file"] and match["tag"]:
        raise UsageError(f"{text}: names a file and a quantisation; one of them is enough")
    return ModelRef(text, "hub", Path(), **match.groupdict())


def _sound(repo: str, file: str | None, revision: str | None) -> bool:
    """What the Hub's own names can be; nothing that walks about in a path."""
    if ".." in repo or "--" in repo or repo.endswith((".git", ".", "-")):
        return False
    if any(len(part) > LONGEST or part.endswith((".", "-")) for part in repo.split("/")):
        return False
    if ".." in (revision or "") or "//" in (revision or ""):
        return False
    return not any(part in ("", ".", "..") for part in (file or "x").split("/"))


def _ollama(text: str) -> ModelRef:
    """ollama:[host/][namespace/]name[:tag][#draft], with Ollama's own defaults."""
    whole, _, layer = text.removeprefix(OLLAMA).partition("#")
    name, _, tag = whole.rpartition(":")
    if not name or "/" in tag:  # no tag; a colon before a slash is a port
        name, tag = whole, "latest"
    parts = name.split("/")
    sound = all(re.fullmatch(r"[A-Za-z0-9_][\w.:-]{0,349}", part, re.ASCII) for part in parts)
    sound = sound and layer in ("", "draft")
    if not sound or len(parts) > 4 or not re.fullmatch(r"[A-Za-z0-9_][\w.-]{0,79}", tag, re.ASCII):
        raise UsageError(
            f"{text}: not the name of an Ollama model",
            hint="Write ollama:name or ollama:name:tag; #draft behind it means its draft layer.",
        )
    return ModelRef(text, "ollama", repo=name, tag=tag, file=layer or None)
