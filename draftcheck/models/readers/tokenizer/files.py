"""Tokenizer files of a folder -> TokenizerFacts: picks the file, names the special tokens."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.models.readers import jsonfile
from draftcheck.models.readers.tokenizer import lean as lean_tokenizer
from draftcheck.models.readers.tokenizer import sentencepiece, tokenizer_json, vocabulary
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import NO_TOKEN, TokenizerFacts

MAX_PIECES_FILE = 32 * 1024 * 1024
NAMES = ("bos", "eos", "pad", "unk")


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """The facts and the raw parts that the prediction of a conversion needs."""

    facts: TokenizerFacts
    config: Mapping[str, Any]
    definition: tokenizer_json.TokenizerDefinition | None = None
    sentencepiece: bool = False


def read(
    source: ModelSource, *, whole: bool = True, lean: bool = False, rows: int | None = None
) -> TokenizerFiles:
    """Read the tokenizer that engines would use, from the best file there is.

    whole: small files that no rule asks for, too (chat template, unk). lean: every side has the
    same vocabulary file, so its texts are not needed, and not read where that saves much;
    rows: about how many there are.
    """
    config = jsonfile.read_object(source, "tokenizer_config.json") or {}
    spm = "tokenizer.model"
    has_spm = spm in source.files() and not vocabulary.looks_like_tiktoken(
        source.read_range(spm, 0, 512)
    )
    name = main_file(source)
    if name is None:
        return TokenizerFiles(_with_template(source, TokenizerFacts(), config, whole), config)
    definition = None
    if name == "tokenizer.json":
        found = lean_tokenizer.read(source, name, rows) if lean else None
        facts, definition = found or _parsed(source, name)
    else:
        facts = _READERS[name](source, name)
    facts = _with_added_tokens(source, facts, config)
    # The map speaks only where tokenizer_config.json is silent; of unk, rules ask only where
    # there is no eos.
    wanted = NAMES if whole or config.get("eos_token") is None else NAMES[:-1]
    special_map = None
    if not all(f"{special}_token" in config for special in wanted):
        special_map = jsonfile.read_object(source, "special_tokens_map.json")
    facts = _with_specials(facts, definition, config, special_map or {})
    facts = _with_template(source, facts, config, whole)
    return TokenizerFiles(facts, config, definition, has_spm)


def main_file(source: ModelSource) -> str | None:
    """The file that holds the vocabulary."""
    return next((name for name in _READERS if name in source.files()), None)


def alone(source: ModelSource) -> TokenizerFacts | None:
    """What the vocabulary file says by itself, without the small files beside it."""
    name = main_file(source)
    return None if name is None else _READERS[name](source, name)


def listed(source: ModelSource) -> TokenizerFacts:
    """What the listing alone says: which file, with which digest."""
    name = main_file(source)
    digest = source.digest(name) if name else None
    return TokenizerFacts(files={name: digest} if name and digest else {}, origin={"*": "listing"})


_PARSING = threading.Lock()
_LAST: dict[str, tokenizer_json.TokenizerDefinition] = {}


def _facts(
    name: str, data: bytes, tokens: Sequence[bytes | None], kind: str | None, **more: Any
) -> TokenizerFacts:
    """What every vocabulary file says, and what this one says beyond."""
    known = {
        "length": len(tokens),
        "base_size": len(tokens),
        "files": {name: hashlib.sha256(data).hexdigest()},
        "origin": {"*": name},
    }
    return TokenizerFacts(kind=kind, tokens=tokens, **{**known, **more})


def _from_tokenizer_json(source: ModelSource, name: str) -> TokenizerFacts:
    return _parsed(source, name)[0]


def _parsed(
    source: ModelSource, name: str
) -> tuple[TokenizerFacts, tokenizer_json.TokenizerDefinition]:
    data = source.read(name, jsonfile.MAX_TOKENIZER)
    digest = hashlib.sha256(data).hexdigest()
    with _PARSING:  # one after the other: each takes far more memory than it leaves behind
        definition = _LAST.get(digest)  # the two models of a pair mostly share the file
        if definition is None:
            definition = tokenizer_json.read(data, f"{source.label}/{name}")
            _LAST.clear()
            _LAST[digest] = definition
    facts = definition.facts(
        tokens=definition.tokens,
        base_size=definition.base_size,
        length=len(definition.tokens or ()),
        unk_id=lean_tokenizer.find(definition.tokens, definition.unk_token),
        merges=definition.merges,
        files={name: digest},
        definition=source.path(name),
        origin={"*": name},
    )
    return facts, definition


def _from_tekken(source: ModelSource, name: str) -> TokenizerFacts:
    data = source.read(name, jsonfile.MAX_TOKENIZER)
    where = f"{source.label}/{name}"
    root = jsonfile.shallow_object(jsonfile.parse(data, where), where)
    tokens, count, ids, pattern = vocabulary.read_tekken(root, where)
    specials = frozenset(range(count))
    return _facts(
        name,
        data,
        tokens,
        "byte-bpe",
        pre=hashlib.sha256(vocabulary.encode(pattern)).hexdigest(),
        added=specials,
        special=specials,
        base_size=len(tokens) - count,
        bos_id=ids.get("<s>"),
        eos_id=ids.get("</s>"),
        pad_id=ids.get("<pad>"),
        unk_id=ids.get("<unk>"),
        add_bos=True,  # mistral-common always starts a prompt with <s>
        add_eos=False,
        origin={"*": name, "add_bos": "mistral-common", "add_eos": "mistral-common"},
    )


def _from_model_file(source: ModelSource, name: str) -> TokenizerFacts:
    data = source.read(name, MAX_PIECES_FILE)
    if name != "tokenizer.model" or vocabulary.looks_like_tiktoken(data):
        origin = {"*": name, "length": "not in the file: special tokens of tiktoken live in code"}
        tokens = vocabulary.read_tiktoken(data, f"{source.label}/{name}")
        return _facts(name, data, tokens, "byte-bpe", length=None, origin=origin)
    try:
        model = sentencepiece.parse(data)
    except sentencepiece.BadSentencePiece as error:
        raise ReadError(
            f"{source.label}/{name}: neither SentencePiece nor tiktoken: {error}"
        ) from None

    def ids(*kinds: int) -> frozenset[int]:
        return frozenset(i for i, kind in enumerate(model.types) if kind in kinds)

    return _facts(
        name,
        data,
        model.pieces,
        model.kind,
        special=ids(sentencepiece.UNKNOWN, sentencepiece.CONTROL),
        added=ids(sentencepiece.USER_DEFINED),
        byte_tokens=ids(sentencepiece.BYTE),
        bos_id=model.bos_id,
        eos_id=model.eos_id,
        pad_id=model.pad_id,
        unk_id=model.unk_id,
    )


def _from_vocab_json(source: ModelSource, name: str) -> TokenizerFacts:
    vocab = jsonfile.read_object(source, name, jsonfile.MAX_TOKENIZER) or {}
    tokens = vocabulary.by_id(vocab, f"{source.label}/{name}")
    merges = None
    if "merges.txt" in source.files():
        lines = _lines(source.read("merges.txt", jsonfile.MAX_TOKENIZER), source, "merges.txt")
        kept = [line for line in lines if line.strip() and not line.startswith(b"#version")]
        merges = hashlib.sha256(b"\n".join(kept).replace(b" ", b"\n")).hexdigest()
    return TokenizerFacts(
        kind="byte-bpe",
        tokens=tokens,
        base_size=len(vocab),
        length=len(tokens),
        merges=merges,
        origin={"*": name, "merges": "merges.txt"},
    )


def _from_vocab_txt(source: ModelSource, name: str) -> TokenizerFacts:
    data = source.read(name, MAX_PIECES_FILE)
    return _facts(name, data, _lines(data, source, name), "wordpiece")


def _lines(data: bytes, source: ModelSource, name: str) -> list[bytes]:
    if data.count(b"\n") + data.count(b"\r") > vocabulary.MAX_ID:
        raise ReadError(f"{source.label}/{name}: more than {vocabulary.MAX_ID:,} lines")
    return data.splitlines()


# In the order in which an engine would prefer them.
_READERS: dict[str, Callable[[ModelSource, str], TokenizerFacts]] = {
    "tokenizer.json": _from_tokenizer_json,
    "tekken.json": _from_tekken,
    "tokenizer.model": _from_model_file,
    "qwen.tiktoken": _from_model_file,
    "tiktoken.model": _from_model_file,
    "vocab.json": _from_vocab_json,
    "vocab.txt": _from_vocab_txt,
}


FILES = tuple(_READERS)
"""Names of files that hold a vocabulary."""


def _with_added_tokens(
    source: ModelSource, facts: TokenizerFacts, config: Mapping[str, Any]
) -> TokenizerFacts:
    """Tokens that the main file lacks: added_tokens.json and tokenizer_config's decoder."""
    if "tokenizer.json" in source.files() or facts.tokens is None:
        return facts
    extra: dict[int, tuple[str, str]] = {}
    where = f"{source.label}/added_tokens.json"
    for content, number in (jsonfile.read_object(source, "added_tokens.json") or {}).items():
        if jsonfile.integer(number) is None:
            raise ReadError(f"{where}: token {content[:40]!r} has id {str(number)[:40]}")
        extra[number] = content, where
    decoder = config.get("added_tokens_decoder")
    special = set(facts.special)
    for key, entry in decoder.items() if isinstance(decoder, dict) else ():
        text = token_text(entry) if isinstance(entry, dict) else None
        if text is not None and key.isdecimal():
            number = int(key) if len(key) < 10 else vocabulary.MAX_ID
            extra[number] = text, f"{source.label}/tokenizer_config.json"
            if entry.get("special") is True:
                special.add(number)
    if not extra:
        return facts
    tokens = list(facts.tokens)
    for number, (content, file) in sorted(extra.items()):
        vocabulary.place(tokens, number, content, file)
    return replace(
        facts,
        tokens=tokens,
        length=len(tokens),
        added=facts.added | frozenset(extra),
        special=frozenset(special),
    )


def _with_specials(
    facts: TokenizerFacts,
    definition: tokenizer_json.TokenizerDefinition | None,
    config: Mapping[str, Any],
    special_map: Mapping[str, Any],
) -> TokenizerFacts:
    """Ids of bos, eos, pad and unk by the texts that the config files give them."""
    texts: Sequence[bytes | None] | Mapping[int, bytes] | None = facts.tokens
    if texts is None and definition is not None:
        texts = lean_tokenizer.texts(definition)
    found: dict[str, int | None] = {}
    origin = dict(facts.origin)
    for name in NAMES:
        key = f"{name}_token"
        for place, file in (
            (config, "tokenizer_config.json"),
            (special_map, "special_tokens_map.json"),
        ):
            if key not in place:
                continue
            content = token_text(place[key])
            if place[key] is None:
                found[f"{name}_id"] = NO_TOKEN
            elif content is not None:
                found[f"{name}_id"] = lean_tokenizer.find(texts, content)
            origin[f"{name}_id"] = f"{file} {key}"
            break
    for name in ("add_bos", "add_eos"):
        flag = config.get(f"{name}_token")
        if isinstance(flag, bool):
            origin[name] = f"tokenizer_config.json {name}_token"
            found[name] = flag
    return replace(facts, origin=origin, **found)  # type: ignore[arg-type]


def token_text(entry: Any) -> str | None:
    """The text of a token given as a string or as an AddedToken object."""
    if isinstance(entry, dict):
        entry = entry.get("content")
    return entry if isinstance(entry, str) else None


def _with_template(
    source: ModelSource, facts: TokenizerFacts, config: Mapping[str, Any], more: bool
) -> TokenizerFacts:
    """Digest of the chat template; its text is never rendered. more: it may be a file, too."""
    template: Any = config.get("chat_template")
    file = "tokenizer_config.json"
    if not more:
        pass
    elif "chat_template.jinja" in source.files():
        template = source.read("chat_template.jinja", jsonfile.MAX_CONFIG).decode(
            "utf-8", "replace"
        )
        file = "chat_template.jinja"
    elif template is None and (other := jsonfile.read_object(source, "chat_template.json")):
        template, file = other.get("chat_template"), "chat_template.json"
    if template is None:
        return facts
    content = template if isinstance(template, str) else json.dumps(template, sort_keys=True)
    digest = hashlib.sha256(vocabulary.encode(content)).hexdigest()
    origin = {**facts.origin, "chat_template": file}
    switch = "enable_thinking" in content
    return replace(facts, chat_template=digest, thinking_switch=switch, origin=origin)
