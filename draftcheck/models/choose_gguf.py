"""Which GGUF file of a repo or a folder is the model. The one place that knows; names only.

A repo of GGUF files holds one model in several quantisations, each whole or split into parts,
and beside them files that are no language model (a vision projector, an importance matrix) or
that only draft for it (heads). So, from the names alone:

1. a split file counts once, by its first part;
2. what stands beside a model is never the model;
3. a head is the model only where there is nothing else: then the repo is one of heads;
4. of several quantisations the usual one stands for the model, and the plain one before the
   dynamic one of the same name (UD-…).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from draftcheck.models.readers.gguf.facts import SPLIT

BESIDE = ("mmproj", "imatrix")
"""Parts of names of files that are no language model."""
HEADS = ("mtp-", "eagle3-", "dflash-", "dspark-")
"""How llama.cpp tells the file of a head from the model when it picks one by tag: by its name."""
DYNAMIC = "ud-"
USUAL = ("q4_k_m", "q8_0", "q5_k_m", "q6_k", "q4_k_s", "q4_0", "iq4_xs", "bf16", "f16")
"""Quantisations, the ones that most people take first."""
QUANTISATION = re.compile(
    r"[-.]((?:UD-)?(?:I?Q\d|B?F\d|MXFP|NVFP|TQ)[A-Z0-9_]*)(?:-\d{5}-of-\d{5})?\.gguf$",
    re.IGNORECASE,
)


def first_parts(paths: Iterable[str]) -> list[str]:
    """GGUF files in order of their names, of split ones the first part."""
    found = []
    for path in sorted(paths):
        split = SPLIT.fullmatch(_name(path))
        if path.endswith(".gguf") and (split is None or int(split["part"]) == 1):
            found.append(path)
    return found


def language_models(paths: Iterable[str]) -> list[str]:
    """The files of models and heads."""
    return [path for path in first_parts(paths) if not _has(path, BESIDE)]


def heads(paths: Iterable[str]) -> list[str]:
    """The files that are named as heads are, beside a model."""
    return [path for path in language_models(paths) if _name(path).lower().startswith(HEADS)]


def without_heads(paths: Iterable[str]) -> list[str]:
    """The files that llama.cpp may take for the model, which no mark of a head disguises."""
    return [path for path in language_models(paths) if not _has(path, HEADS)]


def models(paths: Iterable[str]) -> list[str]:
    """The files of which each is the model in one quantisation."""
    paths = list(paths)
    return without_heads(paths) or language_models(paths)


def usual(paths: Iterable[str]) -> str | None:
    """The file that stands for the model; None where there is none."""
    found = models(paths)
    for names in (_plain(found, DYNAMIC), found):
        for tag in USUAL:
            for path in names:
                if re.search(rf"(?:^|[-._/]){tag}[./-]", path.lower()):
                    return path
    return found[0] if found else None


def tagged(paths: Iterable[str], tag: str) -> list[str]:
    """The files of that quantisation: llama.cpp looks for the tag before a dot or a dash."""
    found = without_heads(paths)
    word = re.escape(tag)
    for pattern in (rf"(?:^|[-._/]){word}(?:-\d{{5}}-of-\d{{5}})?\.gguf", rf"{word}[./-]"):
        fitting = [path for path in found if re.search(pattern, path, re.IGNORECASE)]
        if fitting:
            return _plain(fitting, f"{DYNAMIC}{tag.lower()}") or fitting
    return []


def tag_of(path: str) -> str | None:
    """The quantisation that a file's name ends with."""
    match = QUANTISATION.search(path)
    return match[1] if match else None


def _plain(paths: Sequence[str], dynamic: str) -> list[str]:
    return [path for path in paths if dynamic not in path.lower()]


def _has(path: str, marks: Sequence[str]) -> bool:
    return any(mark in _name(path).lower() for mark in marks)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
