"""The files of a head: its config and its tensors, whatever they are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from draftcheck.errors import ReadError
from draftcheck.models.readers import jsonfile
from draftcheck.trial.backends.transformers import loading
from draftcheck.trial.model_places import ModelPlace

INDEX = "model.safetensors.index.json"
PATTERNS = ["*.json", "*.safetensors"]
PICKLES = ["*.bin", "*.pt", "*.pth"]


def folder(place: ModelPlace, trust: bool) -> Path:
    """Where the files are; those of a repo of the Hub are downloaded into its own cache."""
    path = Path(place.name)
    if path.is_dir():
        return path
    from huggingface_hub import snapshot_download

    patterns = PATTERNS + (PICKLES if trust else [])
    try:
        return Path(
            snapshot_download(
                place.name, revision=place.arguments.get("revision"), allow_patterns=patterns
            )
        )
    except Exception as error:  # the client has many errors of its own
        raise loading.failed(place.ref, "downloading", error) from error


def config(place: ModelPlace, where: Path) -> dict[str, Any]:
    file = where / "config.json"
    try:
        with file.open("rb") as handle:
            found = jsonfile.parse(handle.read(jsonfile.MAX_CONFIG), str(file))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ReadError(f"{place.ref}: config.json: {error.strerror}") from error
    return found if isinstance(found, dict) else {}


def tensors(
    place: ModelPlace, where: Path, trust: bool, wanted: Callable[[str], bool] = lambda _: True
) -> dict[str, torch.Tensor]:
    """The tensors that are wanted, by name; pickled ones only where code is trusted too."""
    found: dict[str, torch.Tensor] = {}
    names = _shards(where, wanted)
    try:
        for name in names:
            with safe_open(str(where / name), framework="pt") as file:
                for key in file.keys():  # noqa: SIM118 (it is no mapping)
                    if wanted(key):
                        found[key] = file.get_tensor(key)
        if not names:
            found = _pickled(place, where, trust, wanted)
    except (OSError, SafetensorError, ValueError) as error:
        raise loading.refused(place.ref, error) from error
    for name, tensor in found.items():
        if tensor.dtype in (torch.uint8, torch.int8, torch.float8_e4m3fn, torch.float8_e5m2):
            raise ReadError(
                f"{place.ref}: {name} is quantised ({str(tensor.dtype).removeprefix('torch.')})",
                hint="A trial reads heads in full precision; use the head that was quantised.",
            )
    return found


def _shards(where: Path, wanted: Callable[[str], bool]) -> list[str]:
    """The files to look into: by the index, where there is one."""
    try:
        listed = json.loads((where / INDEX).read_text(encoding="utf-8"))["weight_map"]
        named = {str(file) for name, file in listed.items() if wanted(name)}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return sorted(file.name for file in where.glob("*.safetensors"))
    return sorted(name for name in named if name == Path(name).name)


def _pickled(
    place: ModelPlace, where: Path, trust: bool, wanted: Callable[[str], bool]
) -> dict[str, torch.Tensor]:
    files = [file for pattern in PICKLES for file in where.glob(pattern)]
    if not files:
        raise ReadError(f"{place.ref}: no weights")
    if not trust:
        raise ReadError(
            f"{place.ref}: its weights are pickled ({files[0].name})",
            hint="draftcheck opens none unless you say --trust-remote-code.",
        )
    found: dict[str, torch.Tensor] = {}
    for file in sorted(files):
        loaded = torch.load(file, map_location="cpu", weights_only=True)
        found |= {name: t for name, t in loaded.items() if torch.is_tensor(t) and wanted(name)}
    return found
