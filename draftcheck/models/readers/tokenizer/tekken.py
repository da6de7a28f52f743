"""Mistral's tekken.json -> token table: special tokens first, then the byte-level ranks."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.models.readers import jsonfile
from draftcheck.models.readers.tokenizer import vocabulary


@dataclass(frozen=True, slots=True)
class Tekken:
    tokens: list[bytes | None]
    specials: int
    names: dict[str, int]
    pattern: str | None


def read(root: dict[str, Any], where: str) -> Tekken:
    """Lay the table out as mistral-common does."""
    config = root.get("config")
    vocab = root.get("vocab")
    if not isinstance(config, dict) or not isinstance(vocab, list):
        raise ReadError(f"{where}: has no config and vocab")
    size = jsonfile.integer(config.get("default_vocab_size"))
    reserved = jsonfile.integer(config.get("default_num_special_tokens"))
    if size is None or reserved is None or reserved > min(size, vocabulary.SPARSE):
        raise ReadError(f"{where}: default_vocab_size or default_num_special_tokens is unusable")
    specials = root.get("special_tokens") or _CLASSIC
    if not isinstance(specials, list) or len(vocab) > vocabulary.MAX_ID:
        raise ReadError(f"{where}: special_tokens or vocab is not a list that can be used")
    tokens: list[bytes | None] = [f"<SPECIAL_{number}>".encode() for number in range(reserved)]
    names: dict[str, int] = {}
    for entry in specials:
        number, text = _special(entry, where)
        if number < reserved:
            tokens[number] = vocabulary.encode(text)
            names[text] = number
    for entry in vocab[: size - reserved]:
        tokens.append(vocabulary.byte_level(_raw(entry, where)))
    return Tekken(tokens, reserved, names, jsonfile.text(config.get("pattern")))


# Files of version v3 do not list their special tokens; mistral-common fixes these.
_CLASSIC = [
    {"rank": rank, "token_str": text}
    for rank, text in enumerate(
        (
            "<unk>",
            "<s>",
            "</s>",
            "[INST]",
            "[/INST]",
            "[AVAILABLE_TOOLS]",
            "[/AVAILABLE_TOOLS]",
            "[TOOL_RESULTS]",
            "[/TOOL_RESULTS]",
            "[TOOL_CALLS]",
            "[IMG]",
            "<pad>",
            "[IMG_BREAK]",
            "[IMG_END]",
            "[PREFIX]",
            "[MIDDLE]",
            "[SUFFIX]",
        )
    )
]


def _special(entry: Any, where: str) -> tuple[int, str]:
    rank = jsonfile.integer(entry.get("rank")) if isinstance(entry, dict) else None
    text = entry.get("token_str") if isinstance(entry, dict) else None
    if rank is None or not isinstance(text, str):
        raise ReadError(f"{where}: special_tokens has an entry without rank and token_str")
    return rank, text


def _raw(entry: Any, where: str) -> bytes:
    try:
        return base64.b64decode(entry["token_bytes"], validate=True)
    except (TypeError, KeyError, ValueError, binascii.Error):
        raise ReadError(f"{where}: vocab has an entry without base64 token_bytes") from None
