"""The vocabulary stage of the loader: GGUF keys -> type, ids, flags and texts."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from draftcheck.judge.llama.build import Build, Keys, LoadFailure, NotTold, converted_class
from draftcheck.rulebook.tables import TokenizerModel
from draftcheck.values.facts import NO_TOKEN, Conversion, GgufArray, ModelFacts

T = TypeVar("T")
TYPES = {"NONE": 0, "SPM": 1, "BPE": 2, "WPM": 3, "UGM": 4, "RWKV": 5, "PLAMO2": 6, "TEST": 7}
NORMAL, BYTE = 1, 6
MODEL, PRE = "tokenizer.ggml.model", "tokenizer.ggml.pre"
TOKENS, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges"
SCORES, TOKEN_TYPES = "tokenizer.ggml.scores", "tokenizer.ggml.token_type"
SUPPRESS = "tokenizer.ggml.suppress_tokens"
CHARSMAP = "tokenizer.ggml.precompiled_charsmap"
# Four bytes that look like UTF-8 but lie above U+10FFFF.
TOO_LARGE = re.compile(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}")
LEADS = (b"\xf4", b"\xf5", b"\xf6", b"\xf7")
UTF8 = re.compile(
    rb"(?:[\0-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3})*"
)
BYTE_TEXT = re.compile(rb"<0x([0-9A-Fa-f]{2})>")
PHI3 = (b"</s>", b"<unk>", b"<s>", b"<|endoftext|>")
KMER_MARK = "\ue000".encode()
MEMOS = 8


@dataclass(frozen=True, slots=True)
class LlamaVocab:
    """What the compatibility check sees."""

    type: str
    texts: Sequence[bytes] | None
    """None: not read, because the other side has the same tokenizer file."""
    bos: int
    eos: int
    add_bos: bool | None
    add_eos: bool | None
    count: int = 0
    """Tokens, where their texts were not read."""

    @property
    def n(self) -> int:
        return self.count if self.texts is None else len(self.texts)


def derive(keys: Keys, tokens: Sequence[bytes | None] | None, build: Build) -> LlamaVocab:
    """Follow the loader in its own order; raise LoadFailure where it stops."""
    name = build.string(keys, MODEL)
    if name is None:
        raise LoadFailure("no-tokenizer", f"key {MODEL} is missing")
    pre = build.string(keys, PRE) or ""
    build.value(keys, "tokenizer.ggml.token_type_count", "uint32")
    row = _model_row(name, build)
    if row.type == "NONE":
        arch = build.string(keys, "general.architecture") or ""
        count = build.value(keys, f"{arch}.vocab_size", "uint32") or 0
        return LlamaVocab("NONE", [b""] * min(count, 1 << 22), NO_TOKEN, NO_TOKEN, False, False)
    pre = _pre_tokenizer(keys, row, pre, build)
    for flag in build.vocabulary.keys.early_bool:
        build.value(keys, flag, "bool")
    if TOKENS not in keys:
        raise LoadFailure("no-tokens", f"key {TOKENS} is missing")
    if (kind := keys[TOKENS][0]) != "array[string]":
        if kind.startswith("array") or build.has(build.vocabulary.behaviour.checks_array_types):
            build.fail("array-type", f"{TOKENS} is {kind}, not array[string]")
        raise NotTold(f"what a token list of type {kind} does")
    if tokens is None:
        raise NotTold("the token texts")
    plain = getattr(tokens, "plain", False)
    texts: Sequence[bytes] = (
        tokens  # type: ignore[assignment]
        if plain
        else once(tokens, "texts", lambda: fix_texts([text or b"" for text in tokens]))
    )
    types = _side_arrays(keys, len(texts), build)
    _distinct(texts, tokens, build)
    if name == "hybriddna":
        texts = _without_marks(texts)
    if row.type == "PLAMO2":
        _plamo2(texts, types, build)
    bos, eos = _ids(keys, row, pre, len(texts), build)
    add_bos, add_eos = _flags(keys, row, pre, build)
    if keys.get(SUPPRESS, ("array[int32]",))[0] != "array[int32]":
        build.fail("side-array-type", f"{SUPPRESS} is {keys[SUPPRESS][0]}, not array[int32]")
    too_large = once(tokens, "too large", lambda: _any_too_large(texts))
    if row.type == "BPE" and too_large and pre not in build.vocabulary.pre.plain_text:
        for i, text in enumerate(texts):
            if (types is None or types[i] == NORMAL) and TOO_LARGE.search(text):
                build.fail("codepoint", f"token {i} is {text!r}")
    _pieces(keys, row.type, pre, texts, types, build)
    # The id printed as the newline token must exist.
    if row.type == "WPM" and not texts:
        build.fail("linefeed", "no token at all for the newline")
    if row.type == "UGM" and len(texts) < 3 and not any(b"\n" in text for text in texts):
        build.fail("linefeed", f"no newline token among {len(texts)} tokens")
    return LlamaVocab(row.type, texts, bos, eos, add_bos, add_eos)


def once(tokens: Sequence[bytes | None], name: Any, work: Callable[[], T]) -> T:
    """What is worked out from all texts, once for a table that remembers (of condensed facts)."""
    memo: dict[Any, T] | None = getattr(tokens, "memo", None)
    if memo is None:
        return work()
    if name not in memo:
        if len(memo) > MEMOS:
            memo.clear()
        memo[name] = work()
    return memo[name]


def foreseen(odd: Sequence[bytes]) -> dict[str, Any]:
    """What once() would work out where all texts but the odd ones are plain and distinct; empty
    where texts are not taken as they are."""
    if not all(odd) or b"\0" in b"".join(odd):
        return {}
    return {"distinct": len(set(odd)) == len(odd), "too large": _any_too_large(odd)}


def from_conversion(facts: ModelFacts, build: Build) -> LlamaVocab:
    """The same for a folder, as llama.cpp's converter would write it."""
    conversion, tokenizer, rows = facts.conversion, facts.tokenizer, facts.config.vocab_size
    tokens = tokenizer.tokens
    if conversion is None or (tokens is None and tokenizer.length is None):
        raise NotTold("the tokenizer")
    if tokenizer.length is None:
        raise NotTold("the special tokens (a tiktoken file does not hold them)")
    if rows is None:
        raise NotTold("config.json's vocab_size, which the converter pads the tokens to")
    length = tokenizer.length if tokens is None else len(tokens)
    if rows < length and conversion.model in build.conversion.asserts_size:
        build.fail(
            "not-convertible",
            f"the tokenizer defines id {length - 1:,}, but vocab_size is {rows:,}",
        )
    elif rows < length:
        if not _drops_pieces(facts, conversion, rows, build):
            raise NotTold("what the converter makes of tokens beyond config.json's vocab_size")
        length = rows
    count = max(rows, length)
    row = _model_row(conversion.model, build)
    # Without a stored flag a BPE default depends on the pre-tokenizer's name, which only
    # the converter's own hash of a tokenized text tells.
    default_bos = None if row.type == "BPE" else row.add_bos
    texts = None
    if tokens is not None:
        user_defined = tokenizer.added - tokenizer.special
        named = ("converted", count, user_defined)
        texts = once(tokens, named, lambda: _converted_texts(tokens, count, user_defined))
    return LlamaVocab(
        row.type,
        texts,
        row.bos if conversion.bos_id is None else conversion.bos_id,
        row.eos if conversion.eos_id is None else conversion.eos_id,
        default_bos if conversion.add_bos is None else conversion.add_bos,
        row.add_eos if conversion.add_eos is None else conversion.add_eos,
        count=count,
    )


def _drops_pieces(facts: ModelFacts, conversion: Conversion, rows: int, build: Build) -> bool:
    """Whether the converter is known to leave out the tokens beyond config.json's vocab_size."""
    table = build.conversion
    ends = (conversion.bos_id or 0, conversion.eos_id or 0)  # one beyond is looked for elsewhere
    return (
        conversion.model == "llama"
        and bool(conversion.pieces)
        and max(ends) < rows
        and build.has(table.drops_pieces)
        and converted_class(facts, build) in table.drops_pieces_of
    )


def _converted_texts(
    tokens: Sequence[bytes | None], count: int, user_defined: frozenset[int]
) -> Sequence[bytes]:
    if None in tokens:
        texts = [b"[PAD%d]" % i if text is None else text for i, text in enumerate(tokens)]
    else:  # by far the fastest look at 150,000 texts
        texts = list(tokens)  # type: ignore[arg-type]
    # The converter writes the word-start sign of user-defined tokens as a plain space.
    for i in user_defined:
        texts[i] = texts[i].replace("\u2581".encode(), b" ")
    texts += [b"[PAD%d]" % i for i in range(len(texts), count)]
    return fix_texts(texts[:count])


def fix_texts(tokens: Sequence[bytes]) -> Sequence[bytes]:
    """C strings end at the first NUL, and an empty text gets a name."""
    if all(tokens) and b"\0" not in b"".join(tokens):
        return tokens
    cut = [text.split(b"\0", 1)[0] for text in tokens]
    return [text or b"[EMPTY_%d]" % i for i, text in enumerate(cut)]


def _model_row(name: str, build: Build) -> TokenizerModel:
    for row in build.vocabulary.tokenizer_model:
        if row.name != name:
            continue
        doubtful = row.absent is not None and build.at > build.order(row.absent)
        if doubtful and not build.has(row.since):
            raise NotTold(f"whether this build knows tokenizer model {name!r}")
        if build.has(row.since, row.until):
            return row
    raise LoadFailure("unknown-tokenizer", f"{MODEL} is {name!r}")


def _pre_tokenizer(keys: Keys, row: TokenizerModel, pre: str, build: Build) -> str:
    """Check merges, charsmap and the pre-tokenizer's name; return the name in force."""
    if row.type == "UGM":
        _charsmap(keys, build)
    if row.type != "BPE":
        return ""
    table = build.vocabulary.pre
    if MERGES not in keys:
        exempt = pre in table.needs_no_merges and build.has(table.needs_no_merges_since)
        if not exempt or row.pre is not None:
            build.fail("no-merges", f"a BPE tokenizer without {MERGES}")
    elif (kind := keys[MERGES][0]) != "array[string]" and (
        # Older builds take a single string for a list of one.
        kind != "string" or build.has(build.vocabulary.behaviour.checks_array_types)
    ):
        build.fail("array-type", f"{MERGES} is {kind}, not array[string]")
    pre = pre if row.pre is None else row.pre
    if pre and not build.knows(pre, table, "pre-tokenizer"):
        build.fail("unknown-pre-tokenizer", f"{PRE} is {pre!r}")
    return pre


def _charsmap(keys: Keys, build: Build) -> None:
    if CHARSMAP not in keys:
        return
    stored, value = keys[CHARSMAP]
    if stored not in ("array[uint8]", "array[int8]"):
        build.fail("charsmap-type", f"{CHARSMAP} is {stored}")
        return
    length = value.count if isinstance(value, GgufArray) else len(value)
    if length < 4:
        build.fail("charsmap-empty", f"{CHARSMAP} has {length} bytes")
        if length:
            build.fail("charsmap", f"{CHARSMAP} has {length} bytes")
    elif not isinstance(value, GgufArray):
        size = int.from_bytes(value.tobytes()[:4], "little")
        if size + 4 >= length:
            build.fail("charsmap", f"{CHARSMAP} claims {size:,} of its {length:,} bytes")


def _side_arrays(keys: Keys, n: int, build: Build) -> Sequence[int] | None:
    """Check scores and token types; return the types when they are there."""
    for name, wanted in ((SCORES, "array[float32]"), (TOKEN_TYPES, "array[int32]")):
        stored, value = keys.get(name, (wanted, None))
        if stored != wanted:
            code = "int-scores" if stored == "array[int32]" else "side-array-type"
            build.fail(code, f"{name} is {stored}, not {wanted}")
        if name in keys and "string" not in stored:
            single = not stored.startswith("array")  # counts as a list of one
            count = 1 if single else value.count if isinstance(value, GgufArray) else len(value)
            if count < n:
                build.fail("short-array", f"{name} has {count:,} entries for {n:,} tokens")
    stored, types = keys.get(TOKEN_TYPES, ("", None))
    there = stored == "array[int32]" and isinstance(types, array) and len(types) >= n
    return types if there else None


def _distinct(texts: Sequence[bytes], tokens: Sequence[bytes | None], build: Build) -> None:
    if once(tokens, "distinct", lambda: len(set(texts)) == len(texts)):
        return
    seen: dict[bytes, int] = {}
    repeats = [i for i, text in enumerate(texts) if seen.setdefault(text, i) != i]
    text = texts[repeats[0]]
    first = f"ids {seen[text]} and {repeats[0]} are both {text!r}"
    build.fail("duplicate-texts", f"{len(repeats):,} repeated token text(s): {first}")


def _without_marks(texts: Sequence[bytes]) -> Sequence[bytes]:
    """hybriddna: k-mers after <oov> carry a mark that is dropped after loading."""
    if b"<oov>" not in texts:
        return texts
    start = texts.index(b"<oov>") + 1
    return [*texts[:start], *(text.removesuffix(KMER_MARK) or text for text in texts[start:])]


def _plamo2(texts: Sequence[bytes], types: Sequence[int] | None, build: Build) -> None:
    found = set()
    for i, text in enumerate(texts):
        if i and types is not None and types[i] == BYTE and (match := BYTE_TEXT.fullmatch(text)):
            found.add(int(match[1], 16))
    if missing := sorted(set(range(256)) - found):
        build.fail("plamo2-bytes", f"no byte token for <0x{missing[0]:02X}>")
    for i, text in enumerate(texts):
        if (types is None or types[i] != BYTE) and TOO_LARGE.search(text):
            build.fail("codepoint", f"token {i} is {text!r}")


def _ids(keys: Keys, row: TokenizerModel, pre: str, n: int, build: Build) -> tuple[int, int]:
    """bos and eos: stored ids beat defaults, unless they are out of range."""
    found = {"bos": row.bos, "eos": row.eos, **row.others}
    if pre in build.vocabulary.pre.no_default_bos:
        found["bos"] = NO_TOKEN
    drops = build.has(build.vocabulary.behaviour.drops_default_ids_out_of_range)
    for name in build.vocabulary.keys.uint32:
        short = name.removeprefix("tokenizer.ggml.").removesuffix("_token_id")
        if found.get(short, NO_TOKEN) >= n and drops:
            found[short] = NO_TOKEN
        value = build.value(keys, name, "uint32")
        if value is not None and short in found and value < n:
            found[short] = value
    for short, number in sorted(found.items(), key=lambda item: item[0] != "eos"):
        if number < n:
            continue
        if short != "eos" or not build.has(build.vocabulary.behaviour.prints_end_tokens):
            build.fail("default-id-range", f"default {short} id {number} for {n:,} tokens")
        raise NotTold(f"what reading default {short} id {number} of {n:,} tokens does")
    return found["bos"], found["eos"]


def _flags(keys: Keys, row: TokenizerModel, pre: str, build: Build) -> tuple[bool, bool]:
    table = build.vocabulary.pre
    stored = {name: build.value(keys, name, "bool") for name in build.vocabulary.keys.bool}
    add_bos, add_eos = (stored[f"tokenizer.ggml.add_{name}_token"] for name in ("bos", "eos"))
    if add_bos is None:
        add_bos = row.add_bos or pre in table.add_bos
    if add_eos is None:
        add_eos = row.add_eos
    if pre in table.forced_add_bos and build.has(build.vocabulary.behaviour.forces_add_bos):
        add_bos = True
    return bool(add_bos), bool(add_eos)


def _pieces(
    keys: Keys,
    kind: str,
    pre: str,
    texts: Sequence[bytes],
    types: Sequence[int] | None,
    build: Build,
) -> None:
    """The cache of printable pieces decodes every token once."""
    if kind == "BPE" and "invalid-utf8" in build.failures:
        for i, text in enumerate(texts):
            if (types is None or types[i] == NORMAL) and not is_utf8(text):
                build.fail("invalid-utf8", f"token {i} is {text!r}")
    if types is not None and BYTE in types:
        control = build.vocabulary.control_texts  # these are control tokens, whatever is stored
        codes = {"SPM": "byte-token", "UGM": "byte-token", "BPE": "byte-token-bpe"}
        for i, text in enumerate(texts):
            if types[i] != BYTE:
                continue
            if kind == "WPM" and text.decode("utf-8", "replace") not in control:
                build.fail("byte-token-wpm", f"id {i} is a byte token in a WPM vocabulary")
            elif kind in codes and len(text) < 3:
                build.fail(codes[kind], f"byte token {i} has the text {text!r}")
    name = (build.string(keys, "general.name") or "").lower()
    if "phi-3" in name or "phi3" in name:
        missing = [text for text in PHI3 if text not in texts]
        if missing and not any(
            sign in pre for sign in ("jina-v2-de", "jina-v2-es", "jina-v2-code")
        ):
            build.fail("phi3-tokens", f"a model called phi-3 without the token {missing[0]!r}")


def is_utf8(text: bytes) -> bool:
    """Whether the engine can decode it: it counts bytes, and knows no overlong forms."""
    return UTF8.fullmatch(text) is not None


def _any_too_large(texts: Sequence[bytes]) -> bool:
    whole = b"\n".join(texts)
    return any(lead in whole for lead in LEADS) and TOO_LARGE.search(whole) is not None
