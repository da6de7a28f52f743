"""tokenizer.json -> token table, kind, digests of merges and behaviour.

The file is one object of small members and a model with two large ones. `vocab` and `merges` are
cut out as raw bytes. The vocabulary is decoded once for all files that have the same bytes
there, as the models of a family mostly do; of the merges, two thirds of the file, only the
digest is wanted, which `flatten` makes without decoding them. Whatever is laid out
otherwise, or msgspec refuses (a lone surrogate, NaN), goes through the patient parser of
`jsonfile`, which either accepts it or says what is wrong with it.
"""

from __future__ import annotations

import gc
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import msgspec

from draftcheck.errors import ReadError
from draftcheck.models.readers import jsonfile
from draftcheck.models.readers.tokenizer import vocabulary
from draftcheck.values.facts import TokenizerFacts

# What tokenizers assumes when a field of the model is absent.
_MODEL_DEFAULTS = {
    "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
    "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TokenizerDefinition:
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
    decoder: str | None
    unk_token: str | None

    def facts(self, **more: Any) -> TokenizerFacts:
        """What it says of the tokenizer, with or without its vocabulary."""
        added = self.added.items()
        return TokenizerFacts(
            kind=self.kind,
            pre=self.pre,
            added=frozenset(self.added),
            special=frozenset(i for i, entry in added if entry.get("special") is True),
            unnormalized=frozenset(i for i, entry in added if entry.get("normalized") is False),
            behaviour=self.behaviour,
            **more,
        )


_LARGE = ("vocab", "merges")
_VOCAB = re.compile(rb'"vocab"[ \t\n\r]*:[ \t\n\r]*')
_MERGES = re.compile(rb'\}[ \t\n\r]*,[ \t\n\r]*"merges"[ \t\n\r]*:[ \t\n\r]*(?=\[)')
_MARK = b'"cut out here"'


def read(data: bytes, where: str) -> TokenizerDefinition:
    collecting = gc.isenabled()
    gc.disable()  # half a million short lists make it the slowest part of the parser
    try:
        jsonfile.guard_stack(data)
        root, model, (base, entries), digest = _cut(data, where)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        root = jsonfile.parse(data, where)
        if not isinstance(root, dict):
            kind = type(root).__name__
            raise ReadError(f"{where}: a JSON object was expected, not a {kind}") from None
        if not isinstance(root.get("model"), dict):
            raise ReadError(f"{where}: has no model") from None
        model = root["model"]
        base, entries = _base(model.get("vocab"), where)
        digest = _digest_of(model.get("merges"), where)
    finally:
        if collecting:
            gc.enable()
    definition = frame({**root, "model": model}, where)
    tokens = list(base)
    for number, entry in definition.added.items():
        vocabulary.place(tokens, number, entry["content"], where)
    return replace(definition, tokens=tokens, base_size=entries, merges=digest)


def frame(root: dict[str, Any], where: str) -> TokenizerDefinition:
    """The definition without vocabulary and merges, from all that stands before them."""
    model = root["model"]
    jsonfile.shallow_object({**root, "model": _settings(model)}, where)
    decoder = root.get("decoder")
    return TokenizerDefinition(
        tokens=None,
        base_size=None,
        merges=None,
        kind=_kind(root, model),
        added=_added(root.get("added_tokens"), where),
        behaviour=_digest([root.get("normalizer"), root.get("pre_tokenizer"), _settings(model)]),
        pre=_digest([root.get("normalizer"), root.get("pre_tokenizer")]),
        post_processor=root.get("post_processor"),
        byte_fallback=bool(model.get("byte_fallback")),
        decoder=decoder.get("type") if isinstance(decoder, dict) else None,
        unk_token=jsonfile.text(model.get("unk_token")),
    )


BaseVocabulary = tuple[list[bytes | None], int]
"""The tokens of model.vocab by id, and how many entries it has."""
FileParts = tuple[dict[str, Any], dict[str, Any], BaseVocabulary, str | None]
"""The file's small members, its model's small members, the vocabulary, digest of the merges."""


def _cut(data: bytes, where: str) -> FileParts:
    """The parts of a file in the usual form, with vocabulary and merges cut out as bytes.

    Strings hold no bare quotes, so the two names stand where members begin. The rest, with a
    mark in the place of each, must decode to a model that has the marks under these names.
    """
    vocab = _VOCAB.search(data)
    merges = _MERGES.search(data, vocab.end()) if vocab else None
    if vocab is None or merges is None:
        raise msgspec.DecodeError("not the usual form")
    end = data.rfind(b"]", merges.end()) + 1
    table, pairs = data[vocab.end() : merges.start() + 1], data[merges.end() : end]
    rest = (
        data[: vocab.end()] + _MARK + data[merges.start() + 1 : merges.end()] + _MARK + data[end:]
    )
    if rest.count(_MARK) != 2 or any(map(jsonfile.crowded, (table, pairs, rest))):
        raise msgspec.DecodeError("not the usual form")
    root = msgspec.json.decode(rest)
    model = root.get("model") if isinstance(root, dict) else None
    mark = msgspec.json.decode(_MARK)
    if not isinstance(model, dict) or any(model.get(name) != mark for name in _LARGE):
        raise msgspec.DecodeError("not the usual form")
    base = _once("vocab", table, lambda raw: _base(msgspec.json.decode(raw), where))
    return root, model, base, _once("merges", pairs, lambda raw: _raw_digest(raw, where))


_LAST: dict[str, tuple[bytes, Any]] = {}
"""What was last made of a large member, and of which bytes: a family's files mostly share it."""


def _once(name: str, raw: bytes, decode: Callable[[bytes], Any]) -> Any:
    before, result = _LAST.get(name, (None, None))
    if before != raw:
        result = decode(raw)
        _LAST[name] = raw, result
    return result


def _base(vocab: Any, where: str) -> BaseVocabulary:
    where = f"{where} model.vocab"
    if isinstance(vocab, dict):
        return vocabulary.by_id(vocab, where), len(vocab)
    if isinstance(vocab, list):  # Unigram: [[text, score], …]
        try:
            return [vocabulary.encode(entry[0]) for entry in vocab], len(vocab)
        except (TypeError, IndexError, AttributeError, KeyError):
            raise ReadError(f"{where}: entries are not [text, score] pairs") from None
    raise ReadError(f"{where}: no vocabulary")


def _raw_digest(raw: bytes, where: str) -> str | None:
    flat = flatten(raw)
    if flat is not None:
        return hashlib.sha256(flat).hexdigest()
    return _digest_of(msgspec.json.decode(raw), where)


def _digest_of(entries: Any, where: str) -> str | None:
    """All parts in order, one per line: the same for "a b", ["a", "b"] and GGUF's spelling.

    llama.cpp's converter writes a space inside a part as the byte-level space sign.
    """
    if entries is None:
        return None
    try:
        if not entries or set(map(type, entries)) <= {str}:
            flat = "\n".join(entries or ()).replace(" ", "\n")
        else:
            flat = "\n".join(chain.from_iterable(entries)).replace(" ", "\u0120")
    except TypeError:
        raise ReadError(f"{where}: model.merges is not a list of pairs") from None
    return hashlib.sha256(vocabulary.encode(flat)).hexdigest()


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
    signs = _types(root.get("pre_tokenizer")) | _types(root.get("decoder"))
    if "ByteLevel" in signs:
        return "byte-bpe"
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
    settings = {key: value for key, value in model.items() if key not in _LARGE}
    return {**_MODEL_DEFAULTS, **settings}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


# Merges are written as "a b" texts or as ["a", "b"] pairs. Inside JSON strings a quote is always
# escaped, so the separators, which the tokenizers library writes the same way throughout, can be
# found with plain byte searches: half the time of making half a million lists.
_OPEN = re.compile(rb'[ \t\r\n]*\[[ \t\r\n]*(\[[ \t\r\n]*)?"')
_CLOSE_TEXTS = re.compile(rb'"[ \t\r\n]*\][ \t\r\n]*\Z')
_CLOSE_PAIRS = re.compile(rb'"[ \t\r\n]*\][ \t\r\n]*\][ \t\r\n]*\Z')
_INNER = re.compile(rb'"[ \t\r\n]*,[ \t\r\n]*"')
_OUTER = re.compile(rb'"[ \t\r\n]*\][ \t\r\n]*,[ \t\r\n]*\[[ \t\r\n]*"')
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*|.)")
_SIMPLE = {rb"\"": b'"', b"\\\\": b"\\", rb"\n": b"\n", rb"\t": b"\t", rb"\r": b"\r"}
_CONTROL = bytes(range(1, 32))
_LINES = bytes.maketrans(b"\0", b"\n")
_WORD_LINES = bytes.maketrans(b"\0 ", b"\n\n")
_TAIL = 4096
_SLICE = 24_000
"""Below 30,000 bytes CPython looks for a short pattern without preparing tables first."""
SPACE = "\u0120".encode()
"""llama.cpp's converter writes a space inside a part as the byte-level space sign."""


def flatten(array: bytes) -> bytes | None:
    """All parts of the JSON array in order, one per line; None where it is laid out otherwise."""
    opening = _OPEN.match(array)
    if opening is None:
        return None
    close = _CLOSE_PAIRS if opening[1] else _CLOSE_TEXTS
    end = close.search(array, max(0, len(array) - _TAIL))
    first = _STRING.match(array, opening.end() - 1)
    inner = _INNER.match(array, first.end() - 1) if first else None
    if end is None or inner is None:
        return None
    body = array[opening.end() : end.start()]
    parts = _parts(array, body, inner) if opening[1] else _replaced(body, inner[0])
    if parts is None or not _sound(parts) or b"\\u0000" in parts:  # a NUL would pass for ours
        return None
    try:
        plain = _ESCAPE.sub(_unescape, parts) if b"\\" in parts else parts
    except ValueError:
        return None
    return (
        plain.replace(b" ", SPACE).translate(_LINES) if opening[1] else plain.translate(_WORD_LINES)
    )


def _parts(array: bytes, body: bytes, inner: re.Match[bytes]) -> bytes | None:
    """The texts of all pairs with a NUL between them; each pair must have two."""
    second = _STRING.match(array, inner.end() - 1)
    outer = _OUTER.match(array, second.end() - 1) if second else None
    if outer is None:
        return None
    entries = _replaced(body, outer[0])
    parts = _replaced(entries, inner[0])
    pairs = (len(body) - len(entries)) // (len(outer[0]) - 1) + 1
    return parts if (len(entries) - len(parts)) // (len(inner[0]) - 1) == pairs else None


def _replaced(data: bytes, separator: bytes) -> bytes:
    """data.replace(separator, NUL), slice by slice: twice as fast."""
    done = []
    start = 0
    while len(data) - start > _SLICE:
        end = data.rfind(separator, start, start + _SLICE)
        if end <= start:  # a very long text
            break
        done.append(data[start:end].replace(separator, b"\0"))
        start = end
    done.append(data[start:].replace(separator, b"\0"))
    return b"".join(done)


def _sound(parts: bytes) -> bool:
    """No bare quote, no control character but our own, valid UTF-8."""
    if b'"' in parts and b'"' in parts.replace(b"\\\\", b"").replace(b'\\"', b""):
        return False
    if len(parts.translate(None, _CONTROL)) != len(parts):
        return False
    try:
        parts.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    if escape in _SIMPLE:
        return _SIMPLE[escape]
    plain: str = json.loads(b'"' + escape + b'"')
    return plain.encode("utf-8", "surrogatepass")
