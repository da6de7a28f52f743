"""A model as a deploy file names it -> the reference that the lock and the readers know it by.

The text may be a path inside a container (the manifest says what that means here), a path from the
root, from the file or from the current folder, or a name of the Hub. The key under which reports
and the lock know the model does not depend on the machine.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from draftcheck.deploy.text import Word
from draftcheck.errors import DraftcheckError, ReadError, UsageError
from draftcheck.models.refs import HUB, ModelRef, parse
from draftcheck.values.facts import ModelFacts

HEAD = 32 << 20
"""Bytes of a file that its digest is over: everything that facts are read from lies there."""
SPLIT = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelReference:
    """One model."""

    key: str
    """Its name in reports and in the lock."""
    ref: ModelRef | None = None
    """How to read it; None: nobody can tell what it is."""
    problem: str = ""
    also: tuple[str, ...] = ()
    """Other names that it may have in a lock made where its files are."""
    fallback: ModelRef | None = None
    """What is read where there is no file with the tag that an engine tries first."""

    @property
    def local(self) -> bool:
        return self.ref is not None and self.ref.kind in ("folder", "gguf", "facts")


def of_word(word: Word, root: Path, paths: Mapping[str, str]) -> ModelReference:
    """The model that a word of a deploy file names."""
    found = resolve(word.text, word.place.file, root, paths)
    ref = found.ref
    if ref is None or ref.kind != "hub" or not ref.tag or word.raw is None:
        return found
    if f":{ref.tag}" in word.raw:
        return found
    # The tag is the engine's own first choice, not the file's: without it, any file will do.
    return replace(found, fallback=replace(ref, tag=None))


def resolve(text: str, file: str, root: Path, paths: Mapping[str, str]) -> ModelReference:
    """What a text in that file means; paths: what the manifest says about paths in containers."""
    text = _mapped(text.strip(), paths)
    path = text.startswith(("./", "../"))
    text = text.removeprefix("./") or text
    if not text or "\0" in text:
        return ModelReference(text, None, "no model is named")
    places = [base / text for base in (root, Path(file).parent.resolve(), Path.cwd())]
    for place in places:
        if _exists(place):
            return _local(place, root, text)
    also = tuple(dict.fromkeys(_key(place, root, text) for place in places))
    if path or (HUB.fullmatch(text) is None and not text.startswith("ollama:")):
        problem = f"{text} is neither on this disk nor a name of the Hub"
        return ModelReference(text, None, problem, also)
    try:
        return ModelReference(text, parse(text), also=also)
    except DraftcheckError as error:
        return ModelReference(text, None, error.message, also)


def _mapped(text: str, paths: Mapping[str, str]) -> str:
    """The longest path of the manifest that this one is, or lies below."""
    if text in paths:
        return paths[text]
    whole = PurePosixPath(text)
    for parent in whole.parents:
        for form in (str(parent), f"{parent}/"):
            if form in paths:
                return f"{paths[form].rstrip('/')}/{whole.relative_to(parent)}"
    return text


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except (OSError, ValueError):
        return False


def _local(place: Path, root: Path, text: str) -> ModelReference:
    key = _key(place, root, text)
    try:
        # Facts name the model as the repository does, not as this machine does.
        return ModelReference(key, replace(parse(os.path.normpath(place)), text=key))
    except DraftcheckError as error:
        return ModelReference(key, None, error.message)


def _key(place: Path, root: Path, text: str) -> str:
    """Relative to the root, unless the file itself names a place elsewhere by its whole path."""
    plain = Path(os.path.normpath(place))
    if not plain.is_relative_to(root) and Path(text).is_absolute():
        return plain.as_posix()
    return Path(os.path.relpath(plain, root)).as_posix()


def read(reference: ModelReference, facts: Callable[[ModelRef], ModelFacts]) -> ModelFacts:
    """The facts of a model, by the function that reads them."""
    if reference.ref is None:
        raise ReadError(reference.problem)
    try:
        return facts(reference.ref)
    except UsageError:
        if reference.fallback is None:
            raise
        return facts(reference.fallback)


def content(ref: ModelRef) -> str | None:
    """A digest over the files of a local model: their names, sizes and heads."""
    files = _files(ref.path)
    if not files:
        return None
    whole = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as file:
                head = hashlib.sha256(file.read(HEAD)).hexdigest()
                size = os.fstat(file.fileno()).st_size
        except OSError:
            return None
        whole.update(f"{path.name}\0{size}\0{head}\n".encode("utf-8", "surrogateescape"))
    return "sha256:" + whole.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = [entry for entry in path.iterdir() if entry.is_file()]
        return sorted(entry for entry in found if not entry.name.startswith("."))
    if match := SPLIT.fullmatch(path.name):
        return sorted(path.parent.glob(f"{_literal(match['stem'])}-*-of-{match['count']}.gguf"))
    return [path]


def _literal(text: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", text)
