"""Token tables: from {text: id} to texts by id, with ids from hostile files kept in bounds.

Two formats have byte strings in base64 instead. tiktoken's ranks are lines of "base64 rank" (Llama
3's tokenizer.model, qwen.tiktoken); their special tokens live in code, not in the file, and stay
unread. Mistral's tekken.json lists its special tokens first, then the ranks.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.models.readers import jsonfile

MAX_ID = 1 << 21
SPARSE = 1 << 16
"""Room for ids beyond the number of entries: real vocabularies have gaps, but small ones."""


def encode(text: str) -> bytes:
    """UTF-8, lone surrogates included: they are legal JSON and must not stop the reader."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def by_id(entries: Mapping[str, Any], where: str) -> list[bytes | None]:
    """Texts in a list indexed by id; None where nobody defines one."""
    ids = list(entries.values())
    plain = not set(map(type, ids)) - {int}
    if plain and len(ids) < MAX_ID and ids == list(range(len(ids))):
        return list(encode_all(entries))
    if not plain or min(ids, default=0) < 0:
        text = next(t for t, number in entries.items() if type(number) is not int or number < 0)
        raise ReadError(f"{where}: token {text[:40]!r} has id {str(entries[text])[:40]!r}")
    return arrange(encode_all(entries), ids, where)


def encode_all(texts: Collection[str]) -> list[bytes]:
    """UTF-8 of many texts, in one go where no text holds the separator."""
    found = encode("\0".join(texts)).split(b"\0")
    return found if len(found) == len(texts) else [encode(text) for text in texts]


def arrange(texts: Sequence[bytes], ids: list[int], where: str) -> list[bytes | None]:
    """Put each text at its id; refuses ids that would only waste memory."""
    highest = max(ids, default=-1)
    if min(ids, default=0) < 0:
        raise ReadError(f"{where}: token id {min(ids)}")
    if highest >= MAX_ID or highest > 16 * len(ids) + SPARSE:
        raise ReadError(f"{where}: token id {highest:,} for {len(ids):,} tokens")
    table: list[bytes | None] = [None] * (highest + 1)
    for number, value in zip(ids, texts, strict=True):
        table[number] = value
    return table


def place(table: list[bytes | None], number: int, text: str, where: str) -> None:
    """Put an added token into the table, which grows when it must."""
    if number >= MAX_ID or number > len(table) + SPARSE:
        raise ReadError(f"{where}: added token {text[:40]!r} has id {number:,}")
    if number >= len(table):
        table.extend([None] * (number + 1 - len(table)))
    table[number] = encode(text)


_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d{1,9}\r?\n")
# GPT-2's printable stand-in for every byte, as str.translate wants it.
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_OTHERS = (byte for byte in range(256) if byte not in _PRINTABLE)
_ALPHABET = {byte: chr(byte) for byte in _PRINTABLE}
_ALPHABET |= {byte: chr(spare) for spare, byte in enumerate(_OTHERS, 256)}


def byte_level(raw: bytes) -> bytes:
    """Raw token bytes -> the spelling that tokenizer.json and GGUF use for byte-level BPE."""
    return raw.decode("latin-1").translate(_ALPHABET).encode()


def looks_like_tiktoken(data: bytes) -> bool:
    """Whether a file that starts like this holds tiktoken ranks."""
    return _LINE.match(data) is not None


def read_tiktoken(data: bytes, where: str) -> list[bytes | None]:
    """Token texts by rank."""
    if data.count(b"\n") + data.count(b"\r") > MAX_ID:
        raise ReadError(f"{where}: more than {MAX_ID:,} lines")
    texts: list[bytes] = []
    ranks: list[int] = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            raw = base64.b64decode(token, validate=True)
            ranks.append(int(rank))
            texts.append(byte_level(raw))
        except (ValueError, binascii.Error):
            raise ReadError(f"{where}: line {number} is not a base64 token and its rank") from None
    return arrange(texts, ranks, where)


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
    if size is None or reserved is None or reserved > min(size, SPARSE):
        raise ReadError(f"{where}: default_vocab_size or default_num_special_tokens is unusable")
    specials = root.get("special_tokens") or _CLASSIC
    if not isinstance(specials, list) or len(vocab) > MAX_ID:
        raise ReadError(f"{where}: special_tokens or vocab is not a list that can be used")
    tokens: list[bytes | None] = [f"<SPECIAL_{number}>".encode() for number in range(reserved)]
    names: dict[str, int] = {}
    for entry in specials:
        number = jsonfile.integer(entry.get("rank")) if isinstance(entry, dict) else None
        text = entry.get("token_str") if isinstance(entry, dict) else None
        if number is None or not isinstance(text, str):
            raise ReadError(f"{where}: special_tokens has an entry without rank and token_str")
        if number < reserved:
            tokens[number] = encode(text)
            names[text] = number
    try:
        for entry in vocab[: size - reserved]:
            raw = base64.b64decode(entry["token_bytes"], validate=True)
            tokens.append(byte_level(raw))
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
