"""Which model a reference means, and how to tell later whether it still is the same one.

transformers takes a folder or a repo of the Hub (locate), llama.cpp a GGUF file on this disk
(locate_gguf).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from draftcheck.errors import DraftcheckError, ReadError, UsageError
from draftcheck.models.opening import OpenedModel, Opener
from draftcheck.models.readers.gguf import facts as gguf
from draftcheck.models.refs import ModelRef, parse
from draftcheck.trial.result import MeasuredModel

KEPT = (".json", ".safetensors", ".gguf", ".bin", ".model", ".jinja")
"""Files that make a model what it is."""
ENDS = 64 << 10


@dataclass(frozen=True, slots=True)
class ModelPlace:
    ref: str
    name: str
    """A folder, or a repo of the Hub."""
    arguments: dict[str, Any] = field(default_factory=dict)
    model: MeasuredModel = field(default_factory=lambda: MeasuredModel(""))


def locate(text: str) -> ModelPlace:
    """What a reference means; a revision of the Hub is resolved to its commit once."""
    ref = parse(text)
    if ref.kind in ("facts", "ollama"):
        what = "facts hold no weights" if ref.kind == "facts" else "a model of Ollama's store"
        raise UsageError(
            f"{text}: {what}; transformers cannot run it",
            hint="Name a checkpoint folder, a GGUF file or a model of the Hub.",
        )
    opened = _open(ref)
    if ref.kind == "hub":
        commit = opened.source.revision
        arguments = {"revision": commit}
        if opened.gguf is not None and opened.downloaded is not None:
            arguments["gguf_file"] = opened.downloaded
        return ModelPlace(text, ref.repo, arguments, MeasuredModel(text, commit))
    model = MeasuredModel(text, digest=_digest(_files(ref, opened)))
    if opened.gguf is None:
        return ModelPlace(text, str(ref.path), {}, model)
    folder = ref.path if ref.kind == "folder" else ref.path.parent
    return ModelPlace(text, str(folder), {"gguf_file": opened.gguf}, model)


def _open(ref: ModelRef) -> OpenedModel:
    opener = Opener(offline=False)
    try:
        return opener.open(ref)
    finally:
        opener.close()


def is_gguf(text: str) -> bool:
    """Whether the reference means a GGUF, as far as that is told without the network."""
    try:
        ref = parse(text)
        if ref.kind == "folder":
            return Opener(offline=True).open(ref).gguf is not None
    except DraftcheckError:
        return False
    named = ref.file is not None or ref.tag is not None or "gguf" in ref.repo.lower()
    return ref.kind in ("gguf", "ollama") or (ref.kind == "hub" and named)


def locate_gguf(text: str) -> Path:
    """The file, or the first part of it; a model of the Hub is downloaded as the Hub does it."""
    ref = parse(text)
    if ref.kind == "facts":
        raise UsageError(f"{text}: facts hold no weights; a trial needs the model")
    opened = _open(ref)
    if opened.gguf is None:
        raise UsageError(
            f"{text}: not a GGUF, and llama.cpp runs nothing else",
            hint="Name a .gguf file, or use --backend transformers.",
        )
    if opened.remote:
        return _download(opened)
    path = opened.source.path(opened.gguf)
    if path is None:
        raise ReadError(f"{text}: is not on this disk")
    return Path(path)


def _download(opened: OpenedModel) -> Path:
    """Into the Hub's own cache, all parts of a split file."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    repo, commit = opened.ref.repo, opened.source.revision
    folder, slash, name = (opened.downloaded or "").rpartition("/")
    names = [folder + slash + part for part in gguf.parts(name)]
    try:
        parts = [hf_hub_download(repo, name, revision=commit) for name in names]
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        words = " ".join(str(error).split())[:200]
        raise ReadError(f"{opened.ref.text}: cannot be downloaded: {words}") from error
    return Path(parts[0])


def identify(text: str) -> MeasuredModel:
    """The model by what is on this disk; of a model elsewhere only its name is known."""
    ref = parse(text)
    if ref.kind not in ("folder", "gguf"):
        return MeasuredModel(text, ref.revision)
    return MeasuredModel(text, digest=_digest(_files(ref, Opener(offline=True).open(ref))))


def _files(ref: ModelRef, opened: OpenedModel) -> list[Path]:
    if ref.kind == "gguf":
        return [ref.path]
    if opened.gguf is not None:
        return [ref.path / opened.gguf]
    return [path for path in ref.path.iterdir() if path.suffix in KEPT and path.is_file()]


def _digest(files: list[Path]) -> str:
    """Of names, sizes, beginnings and ends: hashing all weights would take minutes."""
    total = hashlib.sha256()
    try:
        for file in sorted(files):
            with file.open("rb") as handle:
                size = file.stat().st_size
                total.update(f"{file.name}\0{size}\0".encode())
                total.update(handle.read(ENDS))
                handle.seek(max(size - ENDS, 0))
                total.update(handle.read(ENDS))
    except OSError as error:
        raise ReadError(f"{error.filename}: {error.strerror}") from error
    return f"ends-sha256:{total.hexdigest()}"


def differs(was: MeasuredModel, text: str, revision: str | None) -> str | None:
    """How the model of a saved result differs from the one that is asked about now."""
    if was.revision is not None and revision is not None:
        same = was.revision == revision
        return None if same else f"commit {was.revision[:12]} of {was.ref}, not {revision[:12]}"
    if was.digest is not None:
        same = was.digest == identify(text).digest
        return None if same else f"{was.ref} with other files than {text} has now"
    return None if was.ref == text else f"{was.ref}, not {text}"
