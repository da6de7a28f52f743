"""tiktoken ranks ("base64 rank" lines: Llama 3's tokenizer.model, qwen.tiktoken) -> token table.

The special tokens of these tokenizers live in code, not in the file: they stay unread.
"""

from __future__ import annotations

import base64
import binascii
import re

from draftcheck.errors import ReadError
from draftcheck.models.readers.tokenizer import vocabulary

_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d{1,9}\r?\n")


def looks_like(data: bytes) -> bool:
    """Whether a file that starts like this holds tiktoken ranks."""
    return _LINE.match(data) is not None


def read(data: bytes, where: str) -> list[bytes | None]:
    """Token texts by rank, in the byte-level spelling."""
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
