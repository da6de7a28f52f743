"""Vocabularies of byte strings in base64 -> token table, in the byte-level spelling.

tiktoken's ranks are lines of "base64 rank" (Llama 3's tokenizer.model, qwen.tiktoken); their
special tokens live in code, not in the file, and stay unread. Mistral's tekken.json lists its
special tokens first, then the ranks.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.models.readers import jsonfile
from draftcheck.models.readers.tokenizer import vocabulary

_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d{1,9}\r?\n")


def looks_like_tiktoken(data: bytes) -> bool:
    """Whether a file that starts like this holds tiktoken ranks."""
    return _LINE.match(data) is not None


def read_tiktoken(data: bytes, where: str) -> list[bytes | None]:
    """Token texts by rank."""
    if data.count(b"\n") + data.count(b"\r") > vocabulary.MAX_ID:
        raise ReadError(f"{where}: more than {vocabulary.MAX_ID:,} lines")
    texts: list[bytes] = []
    ranks: list[int] = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            raw = base64.b64decode(token, validate=True)
            ranks.append(int(rank))
            texts.append(vocabulary.byte_level(raw))
        except (ValueError, binascii.Error):
            raise ReadError(f"{where}: line {number} is not a base64 token and its rank") from None
    return vocabulary.arrange(texts, ranks, where)


def read_tekken(
    root: dict[str, Any], where: str
) -> tuple[list[bytes | None], int, dict[str, int], str]:
    """Lay the table out as mistral-common does: tokens, number of special ones, ids, pattern."""
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
        number = jsonfile.integer(entry.get("rank")) if isinstance(entry, dict) else None
        text = entry.get("token_str") if isinstance(entry, dict) else None
        if number is None or not isinstance(text, str):
            raise ReadError(f"{where}: special_tokens has an entry without rank and token_str")
        if number < reserved:
            tokens[number] = vocabulary.encode(text)
            names[text] = number
    try:
        for entry in vocab[: size - reserved]:
            raw = base64.b64decode(entry["token_bytes"], validate=True)
            tokens.append(vocabulary.byte_level(raw))
    except (TypeError, KeyError, ValueError, binascii.Error):
        raise ReadError(f"{where}: vocab has an entry without base64 token_bytes") from None
    return tokens, reserved, names, jsonfile.text(config.get("pattern")) or ""


# Files of version v3 do not list their special tokens; mistral-common fixes these.
_CLASSIC_NAMES = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
    "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
)  # fmt: skip
_CLASSIC = [{"rank": rank, "token_str": text} for rank, text in enumerate(_CLASSIC_NAMES)]
