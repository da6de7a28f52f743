"""A model reference -> the source of its files, and which of them are the model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from draftcheck.errors import ReadError, UsageError
from draftcheck.models import choose_gguf
from draftcheck.models.readers.gguf import facts as gguf
from draftcheck.models.refs import ModelRef
from draftcheck.models.sources.folder import FolderSource
from draftcheck.models.sources.source import ModelSource

if TYPE_CHECKING:
    from draftcheck.models.sources.hub.budget import RequestBudget
    from draftcheck.models.sources.hub.listing import Listing
    from draftcheck.models.sources.hub.repos import Hub, HubRepo

WEIGHTS = (".safetensors", ".bin", ".pth", ".pt", ".msgpack", ".h5")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json")
SHOWN = 12


@dataclass(frozen=True, slots=True)
class OpenedModel:
    ref: ModelRef
    source: ModelSource
    gguf: str | None = None
    """The file of the source that is the model, or its first part; None: a checkpoint."""
    kind: str = "folder"
    notes: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    """What else is known of it, for the facts' origin."""
    name: str | None = None
    """What engines call it, where that is not the reference."""
    download: str | None = None
    downloaded: str | None = None
    repo: HubRepo | None = None

    @property
    def remote(self) -> bool:
        return self.kind == "hub"

    @property
    def gated(self) -> bool | None:
        """Whether its publisher decides who may have it; None: not that anybody knows."""
        return (self.repo and self.repo.source and self.repo.source.listing.gated) or None

    def settle(self, error: ReadError | None) -> None:
        """Say how reading it went."""
        if self.repo is not None:
            self.repo.settle(error)


class Opener:
    """Opens references; the models of one run share what the Hub needs."""

    def __init__(self, *, offline: bool, budget: RequestBudget | None = None) -> None:
        self._offline = offline
        self._budget = budget

    @cached_property
    def hub(self) -> Hub:
        # Nothing of it is loaded for local models.
        from draftcheck.models.sources.hub.repos import Hub

        return Hub(offline=self._offline, budget=self._budget)

    def open(self, ref: ModelRef, *, known: Listing | None = None) -> OpenedModel:
        """known: the files of a Hub model at the revision named, asked for before."""
        if ref.kind == "hub":
            return self._open_hub(ref, known)
        if ref.kind == "ollama":
            return _open_ollama(ref)
        if ref.kind == "gguf":
            return _local_gguf(ref, ref.path, named=True)
        return _open_folder(ref)

    def close(self) -> None:
        if "hub" in self.__dict__:  # somebody asked for it
            self.hub.close()

    def _open_hub(self, ref: ModelRef, known: Listing | None) -> OpenedModel:
        repo = self.hub.open(ref.repo, ref.revision, known=known)
        notes: tuple[str, ...] = ()
        if repo.name != ref.repo:
            notes = (f"{ref.repo} is called {repo.name} now",)
        if repo.note is not None:
            notes = (*notes, repo.note)
        path = gguf_path(ref, repo)
        command, there = _download(ref, path)
        folder, _, name = (path or "").rpartition("/")
        source = repo.folder(folder)
        return OpenedModel(
            ref, source, name or None, "hub", notes, download=command, downloaded=there, repo=repo
        )


def _download(ref: ModelRef, path: str | None) -> tuple[str, str]:
    """The command that fetches a model, and what it is called then."""
    at = f" --revision {shlex.quote(ref.revision)}" if ref.revision else ""
    command = f"hf download {shlex.quote(ref.repo)}"
    if path is None:
        folder = ref.repo.partition("/")[2]
        return f"{command}{at} --local-dir {shlex.quote(folder)}", folder
    what = shlex.quote(path)
    if match := gguf.SPLIT.fullmatch(path):
        what = f"--include {shlex.quote(match['stem'] + '-*-of-' + match['count'] + '.gguf')}"
    return f"{command} {what}{at} --local-dir .", path


def gguf_path(ref: ModelRef, repo: HubRepo) -> str | None:
    """The GGUF that is meant; None when the repo is a checkpoint."""
    if ref.file is not None:
        if ref.file not in repo.paths:
            choices = choose_gguf.first_parts(repo.paths)
            raise UsageError(
                f"{ref.repo}: has no file {ref.file!r}", hint=_choices(ref, choices, by_tag=False)
            )
        gguf.parts(ref.file.rpartition("/")[2])  # says so when it is not the first part
        return ref.file
    names = choose_gguf.first_parts(repo.paths)
    if ref.tag is not None:
        return _tagged(ref, names)
    top = {path for path in repo.paths if "/" not in path}
    if not names or any(n.endswith(WEIGHTS) or n in TOKENIZERS for n in top):
        return None
    models = choose_gguf.models(names) or names
    if len(models) > 1:
        raise UsageError(
            f"{ref.text}: {len(models)} GGUF models in this repo", hint=_choices(ref, models)
        )
    return models[0]


def _tagged(ref: ModelRef, names: list[str]) -> str:
    found = choose_gguf.tagged(names, ref.tag or "")
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{ref.text}: {len(found)} files have this tag", hint=_choices(ref, found, by_tag=False)
        )
    models = choose_gguf.without_heads(names)
    if not models:
        raise UsageError(f"{ref.text}: this repo has no GGUF files", hint=f"Name {ref.repo} alone.")
    raise UsageError(f"{ref.text}: no GGUF with this tag", hint=_choices(ref, models))


def _choices(ref: ModelRef, names: list[str], *, by_tag: bool = True) -> str:
    at = f"@{ref.revision}" if ref.revision else ""
    shown = [f"{ref.repo}/{name}{at}" for name in names]
    if by_tag:
        tags = [choose_gguf.tag_of(name) for name in names]
        if all(tags) and len(set(tags)) == len(tags):
            shown = [f"{ref.repo}{at}:{tag}" for tag in tags]
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return f"Name one: {', '.join(shown[:SHOWN])}{more}" if shown else "It has no GGUF files."


def _open_folder(ref: ModelRef) -> OpenedModel:
    source = FolderSource(ref.path)
    if not source.files():
        raise ReadError(f"{ref.text}: an empty folder")
    ggufs = sorted(name for name in source.files() if name.endswith(".gguf"))
    if not ggufs or "config.json" in source.files():
        return OpenedModel(ref, source)
    firsts = choose_gguf.first_parts(ggufs)
    if not firsts:
        raise ReadError(
            f"{ref.text}: {ggufs[0]} is here, but not the first part of that split GGUF"
        )
    models = choose_gguf.models(firsts) or firsts
    if len(models) != 1:
        raise UsageError(
            f"{ref.text}: {len(models)} GGUF models in this folder",
            hint=f"Name one: {', '.join(models[:8])}",
        )
    return _local_gguf(ref, ref.path / models[0], named=False)


def _local_gguf(ref: ModelRef, path: Path, *, named: bool) -> OpenedModel:
    source = FolderSource(path.parent, only=gguf.parts(path.name), named=named)
    # Engines take the file, not the folder that it was found in.
    return OpenedModel(ref, source, path.name, "gguf", name=None if named else str(path))


def _open_ollama(ref: ModelRef) -> OpenedModel:
    from draftcheck.models.sources import ollama

    manifest = ollama.open_model(ref.repo, ref.tag or "latest", ref.text)
    wanted = ref.file or "model"
    layer = manifest.layer(wanted)
    if layer is None:
        kinds = ", ".join(sorted({layer.kind for layer in manifest.layers}))[:200]
        raise ReadError(f"{ref.text}: has no {wanted} layer in GGUF form (layers: {kinds})")
    source, about = manifest.source(layer), ollama.about(manifest)
    return OpenedModel(ref, source, layer.blob, "ollama", about=about, name=source.path(layer.blob))
