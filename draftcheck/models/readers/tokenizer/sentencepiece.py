"""SentencePiece tokenizer.model (a protobuf) -> pieces and ids, without protobuf's runtime."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_MODEL_TYPES = {1: "unigram", 2: "spm-bpe", 3: "wordlevel", 4: "char"}
MAX_PIECES = 1 << 20


class BadSentencePiece(Exception):
    """The bytes are not a SentencePiece model."""


@dataclass(slots=True)
class SentencePieceModel:
    pieces: list[bytes] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    kind: str = "unigram"
    unk_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    pad_id: int = -1


def parse(data: bytes) -> SentencePieceModel:
    """Read a ModelProto: field 1 holds the pieces, field 2 the trainer's settings."""
    model = SentencePieceModel()
    for count, (number, value) in enumerate(_fields(data)):
        if count > MAX_PIECES:
            raise BadSentencePiece("too many pieces")
        if number == 1 and isinstance(value, bytes):
            text, kind = b"", NORMAL
            for inner, content in _fields(value):
                if inner == 1 and isinstance(content, bytes):
                    text = content
                elif inner == 3 and isinstance(content, int):
                    kind = content
            model.pieces.append(text)
            model.types.append(kind)
        elif number == 2 and isinstance(value, bytes):
            _trainer(model, value)
    if not model.pieces:
        raise BadSentencePiece("no pieces")
    return model


def _trainer(model: SentencePieceModel, data: bytes) -> None:
    names = {40: "unk_id", 41: "bos_id", 42: "eos_id", 43: "pad_id"}
    for number, value in _fields(data):
        if not isinstance(value, int):
            continue
        if number == 3:
            model.kind = _MODEL_TYPES.get(value, "unigram")
        elif number in names:
            signed = (value & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)  # an int32, as protobuf cuts it
            setattr(model, names[number], max(signed, -1))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes | float]]:
    """Field number and value of each entry on one level of a protobuf message."""
    at, size = 0, len(data)
    while at < size:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            length, at = _varint(data, at)
            if length > size - at:
                raise BadSentencePiece(f"field {number} at byte {at:,} runs past the end")
            yield number, data[at : at + length]
            at += length
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            if width > size - at:
                raise BadSentencePiece(f"field {number} at byte {at:,} runs past the end")
            yield number, struct.unpack_from("<d" if wire == 1 else "<f", data, at)[0]
            at += width
        else:
            raise BadSentencePiece(f"wire type {wire} at byte {at:,}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise BadSentencePiece(f"bad number at byte {at:,}")
