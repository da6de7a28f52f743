"""Candidates on this disk: the Hub's cache, LM Studio, llama.cpp, Ollama, folders that are named.

Looks at names only; nothing is opened.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from draftcheck import settings
from draftcheck.errors import ReadError
from draftcheck.models import choose_gguf
from draftcheck.models.sources import ollama
from draftcheck.models.sources.hub.listing import COMMIT
from draftcheck.recommend.candidates import Candidate

DEEPEST = 6
MOST = 20_000
"""Folders that are looked at in one place."""
REPO = re.compile(r"models--(?P<owner>[\w.-]+?)--(?P<name>[\w.-]+)")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
SKIPPED = ("blobs", ".git", "__pycache__", "node_modules", ".locks", "refs", ".no_exist", "trees")
LONGEST = 1 << 20


def find(folders: tuple[Path, ...], notes: list[str]) -> Iterator[Candidate]:
    """Find every model in the usual places, or in these folders alone; each once.

    notes: is told which places were not looked at to their end.
    """
    seen: set[str] = set()
    for source, root in [("folder", path) for path in folders] or places():
        for found in _walk(root, source, notes):
            real = os.path.realpath(found.path or found.ref)
            if real not in seen:
                seen.add(real)
                yield found
    if not folders:
        for store in ollama.stores():
            yield from (Candidate(name, "ollama") for name in ollama.names(store))


def check(folders: tuple[Path, ...]) -> None:
    """Refuse a folder that was named and is none."""
    for folder in folders:
        if not folder.is_dir():
            raise ReadError(f"{folder}: no such folder")


def places() -> list[tuple[str, Path]]:
    """List where programs keep models, as far as it is there."""
    home = Path.home()
    found = [("hub-cache", settings.hub_cache())]
    found += [("lm-studio", path) for path in _lm_studio(home)]
    found.append(("llama.cpp", _llama(home)))
    return [(source, path) for source, path in found if _is_dir(path)]


def is_model(path: Path) -> bool:
    """Whether a folder holds one model itself, rather than several or folders of them."""
    names = _names(path)
    if "config.json" in names:
        return True
    below = (found for folder in _folders(path) for found in _here(folder, ""))
    return len(choose_gguf.models(names)) == 1 and next(below, None) is None


def _lm_studio(home: Path) -> list[Path]:
    """Its folder of today, the one it named in its settings, and the one of old versions."""
    base = home / ".lmstudio"
    with suppress(OSError, ValueError):
        pointer = (home / ".lmstudio-home-pointer").read_text(encoding="utf-8")[:4096].strip()
        base = Path(pointer) if pointer else base
    folders = [base / "models", home / ".cache" / "lm-studio" / "models"]
    with suppress(OSError, ValueError, RecursionError):
        body = json.loads((base / "settings.json").read_bytes()[:LONGEST])
        named = body.get("downloadsFolder") if isinstance(body, dict) else None
        folders += [Path(named)] if isinstance(named, str) and named else []
    return folders


def _llama(home: Path) -> Path:
    """LLAMA_CACHE, else the cache of older builds; newer ones use the Hub's own."""
    if named := os.environ.get("LLAMA_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "llama.cpp"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData/Local") / "llama.cpp"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "llama.cpp"


def _walk(root: Path, source: str, notes: list[str]) -> Iterator[Candidate]:
    """Models below a folder, in order of their names."""
    todo = [(root, 0)]
    seen: set[str] = set()
    while todo and len(seen) < MOST:
        folder, depth = todo.pop(0)
        real = os.path.realpath(folder)
        if real in seen:  # links may lead in circles
            continue
        seen.add(real)
        match = REPO.fullmatch(folder.name)
        if match is not None and _is_dir(folder / "snapshots"):
            yield from _cached(folder, f"{match['owner']}/{match['name']}", source)
            continue
        yield from _here(folder, source)
        if depth < DEEPEST:
            todo += [(path, depth + 1) for path in _folders(folder)]
    if todo:
        notes.append(f"{root}: only {MOST:,} of its folders were looked at")


def _here(folder: Path, source: str) -> Iterator[Candidate]:
    """The models whose files lie directly in a folder."""
    names = _names(folder)
    if "config.json" in names and any(name.endswith(WEIGHTS) for name in names):
        yield Candidate(str(folder), source, files=tuple(sorted(names)))
        return
    for name in choose_gguf.language_models(names):
        yield Candidate(str(folder / name), source, files=(name,))


def _cached(folder: Path, repo: str, source: str) -> Iterator[Candidate]:
    """A repo of the Hub's cache: the commit that main means, else the newest that is there."""
    commits = [path for path in _folders(folder / "snapshots") if COMMIT.fullmatch(path.name)]
    if not commits:
        return
    try:
        main = (folder / "refs" / "main").read_text(encoding="ascii")[:100].strip()
    except (OSError, ValueError):
        main = ""
    newest = max(commits, key=lambda path: (path.name == main, _age(path), path.name))
    below = [found for folder in _folders(newest) for found in _here(folder, source)]
    # Folders in a repo hold quantisations.
    for found in (*_here(newest, source), *(row for row in below if row.ref.endswith(".gguf"))):
        path = Path(found.ref)
        inside = path.relative_to(newest).as_posix()
        label = repo if inside == "." else f"{repo}/{inside}"
        yield replace(found, ref=label, path=str(path), revision=newest.name)


def _names(folder: Path) -> set[str]:
    """Files that are really there; a link to a blob that was removed is not."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except OSError:
        return set()


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            below = [entry for entry in entries if entry.is_dir() and entry.name not in SKIPPED]
    except OSError:
        return []
    return sorted(Path(entry.path) for entry in below)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False
