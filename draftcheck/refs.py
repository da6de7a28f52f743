"""Text -> ModelRef. Looks at the file system only to see what kind of thing a path is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from draftcheck.errors import ReadError, UsageError

FACTS_SUFFIX = ".facts.json"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+|:[\w.-]+|(/[\w.-]+)+\.gguf)?")


@dataclass(frozen=True, slots=True)
class ModelRef:
    text: str
    kind: str
    """folder, gguf or facts."""
    path: Path


def parse(text: str) -> ModelRef:
    """Say what a reference means; an existing local path wins over everything else."""
    if not text or "\0" in text:
        raise UsageError(f"{text!r} is not a model reference")
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            return ModelRef(text, "folder", path)
        if path.exists() or path.is_symlink():
            return ModelRef(text, _file_kind(text, path), path)
    except PermissionError as error:
        raise ReadError(f"{text}: {error.strerror}") from error
    except OSError as error:
        raise UsageError(f"{text}: {error.strerror or error}") from error
    except RuntimeError as error:  # ~name of nobody
        raise UsageError(f"{text}: {error}") from error
    raise _missing(text)


def _file_kind(text: str, path: Path) -> str:
    if path.name.endswith(FACTS_SUFFIX):
        return "facts"
    if path.name.endswith(".gguf"):
        return "gguf"
    raise UsageError(
        f"{text}: neither a checkpoint folder, a .gguf file nor a {FACTS_SUFFIX} file",
        hint="Name the folder that holds config.json and tokenizer.json, or a GGUF file.",
    )


def _missing(text: str) -> ReadError | UsageError:
    looks_local = text.startswith((".", "/", "~")) or text.endswith((".gguf", FACTS_SUFFIX))
    if not looks_local and (text.startswith("ollama:") or HUB_ID.fullmatch(text)):
        return UsageError(
            f"{text}: no such local path, and models that are not on this disk"
            " cannot be read by this version",
            hint="Download the repo's config, tokenizer and weight files and name their folder.",
        )
    return ReadError(f"{text}: no such file or folder")
