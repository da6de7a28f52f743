"""A token table without its texts: a digest, and the few texts that an engine looks at alone.

Two tables with one digest are the same table, so stand-ins serve as well as the texts: every id
gets a text made of the digest and its number. Texts that a loader stumbles over (empty, doubled,
not UTF-8, byte tokens …) and those of special tokens are kept as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, overload
from weakref import WeakValueDictionary

from msgspec import Meta, Struct

from draftcheck.errors import ReadError
from draftcheck.judge.condensed import decode, pack_ids, unpack_ids
from draftcheck.judge.llama.vocab import BYTE_TEXT, PHI3, TOO_LARGE, foreseen, is_utf8
from draftcheck.models.readers.tokenizer.vocabulary import MAX_ID
from draftcheck.models.stored import to_bytes, to_text
from draftcheck.values.facts import TokenizerFacts


class TokenTable(Sequence[bytes | None]):
    """Token texts by id, most of them stand-ins; digest tells which texts they stand for.

    Stand-ins are texts that no model has, all different. They are made when somebody looks at all
    texts: most questions are answered by those that are none, and by whose the others are.
    """

    def __init__(self, digest: str, family: str, count: int) -> None:
        self.digest, self.family, self._count = digest, family, count
        self.own: dict[int, bytes | None] = {}
        """Texts that are no stand-ins, by id."""
        self.memo: dict[Any, Any] = {}
        """What was worked out from these texts: many models share one table."""
        self.plain = False
        """Engines take the texts as they are."""
        self._made: list[bytes | None] | None = None
        self._shared: tuple[TokenTable, int, frozenset[int]] | None = None

    def share(self, other: TokenTable, common: int, differing: frozenset[int]) -> None:
        """Take the other table's stand-ins below `common`, but for those that differ."""
        self._shared, self._made = (other, common, differing), None

    def write(self, texts: Mapping[int, bytes | None]) -> None:
        self.own.update(texts)
        self._made = None

    def foresee(self) -> None:
        """Remember what stand-ins make plain, so that nobody looks at every text."""
        odd = [text or b"" for text in self.own.values()]
        if not any(text.startswith(b"~") for text in odd):
            told = foreseen(odd)
            self.plain = bool(told)
            self.memo.update(told)

    def differing(self, other: TokenTable, start: int) -> list[int] | None:
        """Ids from start to the end of the shorter one whose texts differ; None: look at them."""
        common, ids = min(len(self), len(other)), {*self.own, *other.own}
        for table, owner in ((self, other), (other, self)):
            if table._shared is not None and owner._shared is None:
                whose, below, differing = table._shared
                if whose.digest != owner.digest:
                    return None
                ids |= differing | set(range(below, common))
                break
        else:
            if self._shared is not None or self.digest != other.digest:
                return None
        return sorted(i for i in ids if start <= i < common and self[i] != other[i])

    def _stand_in(self, i: int) -> bytes:
        table = self
        if self._shared is not None:
            other, common, differing = self._shared
            table = other if i < common and i not in differing else self
        return b"~%s.%d" % (table.digest[:16].encode("ascii"), i)

    def _all(self) -> list[bytes | None]:
        if self._made is None:
            made: list[bytes | None] = list(_stand_ins(self.digest, self._count))
            if self._shared is not None:
                other, common, differing = self._shared
                made[:common] = _stand_ins(other.digest, common)
                for i in differing:
                    made[i] = self._stand_in(i)
            for i, text in self.own.items():
                made[i] = text
            self._made = made
        return self._made

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> bytes | None: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes | None]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes | None] | None:
        if isinstance(at, slice) or self._made is not None:
            return self._all()[at]
        i = range(self._count)[at]
        return self.own[i] if i in self.own else self._stand_in(i)

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self._all())

    def __contains__(self, text: object) -> bool:
        if self._made is None and not (isinstance(text, bytes) and text.startswith(b"~")):
            return text in self.own.values()
        return text in self._all()

    def count(self, value: object) -> int:
        return list(self.own.values()).count(None) if value is None else self._all().count(value)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    __hash__ = None  # type: ignore[assignment]


def _stand_ins(digest: str, count: int) -> list[bytes]:
    """The first whole numbers as text are kept: making them costs more than all the rest."""
    _NUMBERS.extend(map(str, range(len(_NUMBERS), count)))
    mark = f"\n~{digest[:16]}."
    whole = f"{mark[1:]}{mark.join(_NUMBERS[:count])}".encode("ascii")
    return whole.split(b"\n") if count else []


TableDigest = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z]{8,64}\Z")]
SMALL = 64
"""Tables up to this size are kept whole."""
SHOWN = 4
"""Texts kept of every kind of oddity."""
LONGEST = 200
NAMED = ("bos_id", "eos_id", "pad_id", "unk_id")
REMEMBERED = 2
MOST_TOKENS = 1 << 25
"""Of all tables in memory, some gigabytes: a short file can name any number of large ones."""
_LIVE: WeakValueDictionary[int, TokenTable] = WeakValueDictionary()
BYTE_TEXTS = [b"<0x%02X>" % number for number in range(256)]
_NUMBERS: list[str] = []
_PACKED: dict[int, tuple[Sequence[bytes | None], tuple[Any, ...], dict[str, Any]]] = {}
ODD: dict[str, Callable[[bytes], bool]] = {
    "empty": lambda text: not text,
    "nul": lambda text: b"\0" in text,
    "too large": lambda text: TOO_LARGE.search(text) is not None,
    "not text": lambda text: not is_utf8(text),
    "looked for": lambda text: text in PHI3,
}


def fingerprint(tokenizer: TokenizerFacts) -> str | None:
    """A digest of the texts by id, mere padding left out; None where they were not read."""
    tokens = tokenizer.tokens
    if isinstance(tokens, TokenTable):
        return tokens.digest
    return None if tokens is None else _digest(tokens, tokenizer.padding)


def family(tokenizer: TokenizerFacts) -> str | None:
    """The same of ordinary tokens alone: what is left when added and special ones are not told
    apart. Models of one family may differ in special tokens."""
    tokens = tokenizer.tokens
    if isinstance(tokens, TokenTable):
        return tokens.family
    extra = tokenizer.added | tokenizer.special | tokenizer.padding
    return None if tokens is None else _digest(tokens, extra)


def _digest(tokens: Sequence[bytes | None], without: Iterable[int]) -> str:
    kept = list(tokens)
    for i in without:
        if i < len(kept):
            kept[i] = None
    while kept and kept[-1] is None:
        kept.pop()
    # Lengths first: texts may hold any byte, so no separator is safe.
    lengths = ",".join(str(-1 if t is None else len(t)) for t in kept).encode()
    return hashlib.sha256(lengths + b"|" + b"".join(t for t in kept if t is not None)).hexdigest()


def pack(tokenizer: TokenizerFacts, byte_typed: Iterable[int] = ()) -> dict[str, Any] | None:
    """The table as JSON; byte_typed: ids that the file calls byte tokens."""
    if tokenizer.tokens is None:
        return None
    # Models of one family are mostly condensed in a row, and share the very same texts.
    key = (tokenizer.padding, tokenizer.added, tokenizer.special, tuple(byte_typed))
    key += tuple(getattr(tokenizer, name) for name in NAMED)
    known = _PACKED.get(id(tokenizer.tokens))
    if known is None or known[0] is not tokenizer.tokens or known[1] != key:
        known = tokenizer.tokens, key, _pack(tokenizer, tokenizer.tokens, key[3])
        if len(_PACKED) >= REMEMBERED:
            _PACKED.clear()
        _PACKED[id(tokenizer.tokens)] = known
    return dict(known[2])


def _pack(
    tokenizer: TokenizerFacts, tokens: Sequence[bytes | None], byte_typed: Sequence[int]
) -> dict[str, Any]:
    kept = _kept(tokenizer, tokens, byte_typed) - tokenizer.padding
    undefined = [i for i, text in enumerate(tokens) if text is None]
    out: dict[str, Any] = {"count": len(tokens), "digest": fingerprint(tokenizer)}
    if (kin := family(tokenizer)) != out["digest"]:
        out["family"] = kin
    if undefined:
        out["undefined"] = pack_ids(undefined)
    if tokenizer.padding:
        out["padding"] = pack_ids(tokenizer.padding)
    start = next((i for i, text in enumerate(tokens) if text == b"<0x00>"), None)
    if start is not None and list(tokens[start : start + 256]) == BYTE_TEXTS:
        out["bytes_from"] = start
        kept -= set(range(start, start + 256))
    if kept:
        out["texts"] = {str(i): to_text(tokens[i] or b"") for i in sorted(kept)}
    return out


def _kept(
    tokenizer: TokenizerFacts, tokens: Sequence[bytes | None], byte_typed: Iterable[int]
) -> set[int]:
    defined = [i for i, text in enumerate(tokens) if text is not None]
    if len(tokens) <= SMALL:
        return set(defined)
    named = (getattr(tokenizer, name) for name in NAMED)
    kept = {number for number in named if number is not None and 0 <= number < len(tokens)}
    for odd in ODD.values():
        kept.update([i for i in defined if odd(tokens[i] or b"")][:SHOWN])
    short = [i for i in byte_typed if i < len(tokens)]
    kept.update([i for i in short if not BYTE_TEXT.fullmatch(tokens[i] or b"")][:SHOWN])
    seen = [None if text is None else text.split(b"\0", 1)[0] for text in tokens]
    if len(set(seen)) < len(seen):
        counts = Counter(text for text in seen if text is not None)
        twice = {text for text, count in counts.items() if count > 1}
        kept.update([i for i in defined if seen[i] in twice][: 16 * SHOWN])
    return {i for i in kept if tokens[i] is not None and len(tokens[i] or b"") <= LONGEST}


class TableEntry(Struct, forbid_unknown_fields=True):
    """A table as it is written: ranges of ids, and texts by id."""

    count: Annotated[int, Meta(ge=0, le=MAX_ID)]
    digest: TableDigest
    family: TableDigest | None = None
    undefined: str = ""
    padding: str = ""
    bytes_from: Annotated[int, Meta(ge=0)] | None = None
    """Where <0x00> to <0xFF> stand in a row."""
    texts: dict[str, str | None] = {}


def unpack(entry: object, where: str) -> TokenTable:
    """The table with stand-ins for most texts; one object for equal entries."""
    try:
        return _unpack(json.dumps(entry, sort_keys=True))
    except ReadError as error:  # kept by content: the name is that of whoever asks
        raise ReadError(f"{where}: {error.message}") from None


@lru_cache(maxsize=32)
def _unpack(text: str) -> TokenTable:
    entry, where = decode(json.loads(text), TableEntry, "tokens"), "tokens"
    if _held() + entry.count > MOST_TOKENS:
        _unpack.cache_clear()  # tables that nobody else holds
        if _held() + entry.count > MOST_TOKENS:
            raise ReadError(f"{where}: more than {MOST_TOKENS:,} in all vocabularies at once")
    table = TokenTable(entry.digest, entry.family or entry.digest, entry.count)
    _LIVE[id(table)] = table
    table.write(dict.fromkeys(unpack_ids(entry.undefined, where, entry.count)))
    table.write({i: b"[PAD%d]" % i for i in unpack_ids(entry.padding, where, entry.count)})
    if entry.bytes_from is not None and entry.bytes_from <= entry.count - 256:
        table.write(dict(enumerate(BYTE_TEXTS, entry.bytes_from)))
    put(table, entry.texts, where)
    table.foresee()
    return table


def _held() -> int:
    return sum(map(len, _LIVE.values()))


def put(table: TokenTable, texts: Mapping[str, str | None], where: str) -> None:
    """Write texts over stand-ins."""
    found = {}
    for key, text in texts.items():
        if not (key.isdecimal() and len(key) < 12):
            raise ReadError(f"{where}: {key[:40]!r} is no id with a text")
        if int(key) < len(table):
            try:
                found[int(key)] = None if text is None else to_bytes(text)
            except UnicodeEncodeError:
                raise ReadError(f"{where}: the text of id {key} is no text") from None
    table.write(found)
