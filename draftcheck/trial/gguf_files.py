"""A model reference -> the GGUF file on this disk that llama.cpp loads."""

from __future__ import annotations

from pathlib import Path

from draftcheck.errors import DraftcheckError, ReadError, UsageError
from draftcheck.models import refs
from draftcheck.models.opening import OpenedModel, Opener
from draftcheck.models.readers.gguf import facts as gguf


def is_gguf(text: str) -> bool:
    """Whether the reference means a GGUF, as far as that is told without the network."""
    try:
        ref = refs.parse(text)
        if ref.kind == "folder":
            return Opener(offline=True).open(ref).gguf is not None
    except DraftcheckError:
        return False
    named = ref.file is not None or ref.tag is not None or "gguf" in ref.repo.lower()
    return ref.kind in ("gguf", "ollama") or (ref.kind == "hub" and named)


def locate(text: str) -> Path:
    """The file, or the first part of it; a model of the Hub is downloaded as the Hub does it."""
    ref = refs.parse(text)
    if ref.kind == "facts":
        raise UsageError(f"{text}: facts hold no weights; a trial needs the model")
    opener = Opener(offline=False)
    try:
        opened = opener.open(ref)
        if opened.gguf is None:
            raise UsageError(
                f"{text}: not a GGUF, and llama.cpp runs nothing else",
                hint="Name a .gguf file, or use --backend transformers.",
            )
        if opened.remote:
            return _download(opened)
        path = opened.source.path(opened.gguf)
    finally:
        opener.close()
    if path is None:
        raise ReadError(f"{text}: is not on this disk")
    return Path(path)


def _download(opened: OpenedModel) -> Path:
    """Into the Hub's own cache, all parts of a split file."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    path = opened.downloaded or ""
    folder, _, name = path.rpartition("/")
    try:
        parts = [
            hf_hub_download(
                opened.ref.repo,
                f"{folder}/{part}" if folder else part,
                revision=opened.source.revision,
            )
            for part in gguf.parts(name)
        ]
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        words = " ".join(str(error).split())[:200]
        raise ReadError(f"{opened.ref.text}: cannot be downloaded: {words}") from error
    return Path(parts[0])
