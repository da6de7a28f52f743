"""Drafts made from the embedded one: other ids, another cut of text, other numbers of rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.conftest import FIXTURES

DRAFT = FIXTURES / "pair" / "draft"


def copy(folder: Path) -> Path:
    shutil.copytree(DRAFT, folder)
    return folder


def edit(file: Path, **changes: Any) -> None:
    body = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**body, **changes}), encoding="utf-8")


def set_rows(folder: Path, order: list[int]) -> None:
    """Give the model these rows of its own, in this order."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        if name in tensors:
            tensors[name] = tensors[name][order].contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    edit(folder / "config.json", vocab_size=len(order))


def renumbered(folder: Path, padding: int = 8) -> Path:
    """The same model under other ids: ordinary tokens in reverse order, and rows for nobody."""
    copy(folder)
    file = folder / "tokenizer.json"
    body = json.loads(file.read_text(encoding="utf-8"))
    special = {entry["content"] for entry in body["added_tokens"]}
    vocabulary = body["model"]["vocab"]
    ordinary = sorted(id for text, id in vocabulary.items() if text not in special)
    moved = dict(zip(ordinary, reversed(ordinary), strict=True))
    body["model"]["vocab"] = {text: moved.get(id, id) for text, id in vocabulary.items()}
    file.write_text(json.dumps(body), encoding="utf-8")
    size = len(vocabulary)
    back = {new: old for old, new in moved.items()}
    set_rows(folder, [back.get(id, id) for id in range(size)] + [0] * padding)
    return folder


def shortened(folder: Path, size: int) -> Path:
    """A draft that lacks the last merges: it cuts some words into more tokens."""
    copy(folder)
    file = folder / "tokenizer.json"
    body = json.loads(file.read_text(encoding="utf-8"))
    model = body["model"]
    model["vocab"] = {text: id for text, id in model["vocab"].items() if id < size}
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    model["merges"] = [pair for pair in pairs if "".join(pair) in model["vocab"]]
    file.write_text(json.dumps(body), encoding="utf-8")
    set_rows(folder, list(range(size)))
    return folder
