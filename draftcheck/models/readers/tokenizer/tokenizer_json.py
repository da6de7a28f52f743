"""tokenizer.json -> token table, kind, digests of merges and behaviour.

The merges are two thirds of the file and only their digest is wanted, so they are
decoded in chunks and dropped: a 262k vocabulary stays far below 300 MB.
"""

from __future__ import annotations

import gc
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.models.readers import jsonfile
from draftcheck.models.readers.tokenizer import merges, vocabulary

# Strings hold no bare quotes, so this can only match between the members of an object.
_MERGES = re.compile(rb',[ \t\n\r]*"merges"[ \t\n\r]*:[ \t\n\r]*\[')
_END = re.compile(rb"\][ \t\n\r]*\}[ \t\n\r]*\}[ \t\n\r]*\Z")
_BREAK = re.compile(rb'(?<=[\]"])[ \t\n\r]*,[ \t\n\r]*(?=[\["])')
_CHUNK = 4 << 20
_TRIES = 16

# What tokenizers assumes when a field of the model is absent.
_MODEL_DEFAULTS = {
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}


@dataclass(frozen=True, slots=True)
class TokenizerDefinition:
    """The parts of a tokenizer.json."""

    kind: str | None
    tokens: list[bytes | None] | None
    """None: only the beginning of the file was read."""
    base_size: int | None
    added: dict[int, dict[str, Any]]
    merges: str | None
    behaviour: str
    pre: str
    post_processor: Any
    byte_fallback: bool
    ignore_merges: bool
    decoder: str | None
    unk_token: str | None


def read(data: bytes, where: str) -> TokenizerDefinition:
    """Parse the file's bytes."""
    with _without_collector():
        root, digest = _split(data, where)
    model = root.get("model")
    if not isinstance(model, dict):
        raise ReadError(f"{where}: has no model")
    jsonfile.shallow_object({**root, "model": _settings(model)}, where)
    tokens = _tokens(model.get("vocab"), f"{where} model.vocab")
    base = len(model["vocab"])
    added = _added(root.get("added_tokens"), where)
    for number, entry in added.items():
        vocabulary.place(tokens, number, entry["content"], where)
    return _define(root, model, added, tokens=tokens, base_size=base, merges=digest)


def frame(root: dict[str, Any], where: str) -> TokenizerDefinition:
    """The definition without vocabulary and merges, from all that stands before them."""
    model = root["model"]
    jsonfile.shallow_object({**root, "model": _settings(model)}, where)
    added = _added(root.get("added_tokens"), where)
    return _define(root, model, added, tokens=None, base_size=None, merges=None)


def _define(
    root: dict[str, Any], model: dict[str, Any], added: dict[int, dict[str, Any]], **table: Any
) -> TokenizerDefinition:
    decoder = root.get("decoder")
    return TokenizerDefinition(
        **table,
        kind=_kind(root, model),
        added=added,
        behaviour=_digest([root.get("normalizer"), root.get("pre_tokenizer"), _settings(model)]),
        pre=_digest([root.get("normalizer"), root.get("pre_tokenizer")]),
        post_processor=root.get("post_processor"),
        byte_fallback=bool(model.get("byte_fallback")),
        ignore_merges=bool(model.get("ignore_merges")),
        decoder=decoder.get("type") if isinstance(decoder, dict) else None,
        unk_token=jsonfile.text(model.get("unk_token")),
    )


@contextmanager
def _without_collector() -> Iterator[None]:
    """Half a million short lists make the cycle collector the slowest part of the parser."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _split(data: bytes, where: str) -> tuple[dict[str, Any], str | None]:
    """The file without its merges, and the digest of the merges."""
    root: Any = None
    digest = None
    start = _MERGES.search(data)
    end = _END.search(data, max(len(data) - 4096, start.end())) if start else None
    if start and end and not jsonfile.crowded(data[: start.start()]):
        try:
            root = json.loads(str(data[: start.start()], "utf-8") + "}}")
            digest = _region_digest(data, start.end(), end.start())
        except (ValueError, RecursionError, TypeError):
            root = None  # unusual layout or broken: let the whole-file parser have its say
    if root is None:
        root = jsonfile.parse(data, where)
        if isinstance(root, dict) and isinstance(root.get("model"), dict):
            digest = _whole_digest(root["model"].get("merges"), where)
    if not isinstance(root, dict):
        raise ReadError(f"{where}: a JSON object was expected, not a {type(root).__name__}")
    return root, digest


_SEEN: dict[bytes, str] = {}
"""Digest of the merges by the sha256 of their bytes: a family's files mostly share them."""


def _region_digest(data: bytes, start: int, end: int) -> str:
    key = hashlib.sha256(memoryview(data)[start:end]).digest()
    if key not in _SEEN:
        flat = merges.flatten(data[start:end])
        if flat is None:
            _SEEN[key] = _merges_digest(_chunks(data, start, end))
        else:
            _SEEN[key] = hashlib.sha256(flat).hexdigest()
    return _SEEN[key]


def _chunks(data: bytes, start: int, end: int) -> Iterator[list[Any]]:
    """The merges, some megabytes at a time."""
    while start < end:
        if end - start <= _CHUNK:
            yield _list(data[start:end])
            return
        stop = start + _CHUNK
        for attempt in range(_TRIES):  # a break inside a token such as "],[" only looks like one
            cut = _BREAK.search(data, stop, end)
            last = cut.start() if cut else end
            try:
                part = _list(data[start:last])
            except ValueError:
                if cut is None or attempt == _TRIES - 1:
                    raise
                stop = cut.end()
                continue
            yield part
            start = cut.end() if cut else end
            break


def _list(items: bytes) -> list[Any]:
    found: list[Any] = json.loads(f"[{str(items, 'utf-8')}]")
    return found


def _merges_digest(chunks: Iterable[list[Any]]) -> str:
    """All parts in order, one per line: the same for "a b", ["a", "b"] and GGUF's spelling.

    llama.cpp's converter writes a space inside a part as the byte-level space sign.
    """
    digest = hashlib.sha256()
    first = True
    for chunk in chunks:
        if not chunk:
            continue
        if set(map(type, chunk)) == {str}:
            text = "\n".join(chunk).replace(" ", "\n")
        else:
            text = "\n".join(chain.from_iterable(chunk)).replace(" ", "\u0120")
        digest.update((b"" if first else b"\n") + vocabulary.encode(text))
        first = False
    return digest.hexdigest()


def _whole_digest(entries: Any, where: str) -> str | None:
    if entries is None:
        return None
    try:
        return _merges_digest([entries])
    except TypeError:
        raise ReadError(f"{where}: model.merges is not a list of pairs") from None


def _tokens(vocab: Any, where: str) -> list[bytes | None]:
    if isinstance(vocab, dict):
        return vocabulary.by_id(vocab, where)
    if isinstance(vocab, list):  # Unigram: [[text, score], …]
        try:
            return [vocabulary.encode(entry[0]) for entry in vocab]
        except (TypeError, IndexError, AttributeError, KeyError):
            raise ReadError(f"{where}: entries are not [text, score] pairs") from None
    raise ReadError(f"{where}: no vocabulary")


def _added(entries: Any, where: str) -> dict[int, dict[str, Any]]:
    if entries is None:
        return {}
    if not isinstance(entries, list):
        raise ReadError(f"{where}: added_tokens is not a list")
    found: dict[int, dict[str, Any]] = {}
    for entry in entries:
        number = jsonfile.integer(entry.get("id")) if isinstance(entry, dict) else None
        if number is None or not isinstance(entry.get("content"), str):
            raise ReadError(f"{where}: added_tokens has an entry without id and content")
        found[number] = entry
    return found


def _kind(root: dict[str, Any], model: dict[str, Any]) -> str | None:
    kind = model.get("type")
    if kind is None:
        kind = "BPE" if "merges" in model else "Unigram" if "unk_id" in model else None
    plain = {"Unigram": "unigram", "WordPiece": "wordpiece", "WordLevel": "wordlevel"}
    if kind != "BPE":
        return plain.get(str(kind))
    if "ByteLevel" in _types(root.get("pre_tokenizer")) | _types(root.get("decoder")):
        return "byte-bpe"
    signs = _types(root.get("pre_tokenizer")) | _types(root.get("decoder"))
    if model.get("byte_fallback") or "Metaspace" in signs:
        return "spm-bpe"
    return "bpe"


def _types(part: Any) -> set[str]:
    """Type names of a component and, for a Sequence, of its members."""
    if not isinstance(part, dict):
        return set()
    found = {str(part.get("type"))}
    for key in ("pretokenizers", "decoders", "normalizers"):
        members = part.get(key)
        for member in members if isinstance(members, list) else []:
            if isinstance(member, dict):
                found.add(str(member.get("type")))
    return found


def _settings(model: dict[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in model.items() if key not in ("vocab", "merges")}
    return {**_MODEL_DEFAULTS, **settings}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
