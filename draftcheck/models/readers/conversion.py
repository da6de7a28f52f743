"""Predict the vocabulary keys that llama.cpp's converter would write for a checkpoint folder.

Follows convert_hf_to_gguf.py (b11312: conversion/base.py, gguf-py/gguf/vocab.py) for the
ordinary classes; classes that write keys of their own (ChatGLM, Phi-2, MPT, Hunyuan …) are not
told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftcheck.models.readers.jsonfile import integer
from draftcheck.models.readers.tokenizer.files import TokenizerFiles, token_text
from draftcheck.values.facts import ConfigFacts, Conversion


def predict(
    files: TokenizerFiles, config: ConfigFacts, raw: Mapping[str, Any]
) -> Conversion | None:
    """The keys that would be written; None when the kind of tokenizer does not tell."""
    model = _model(files)
    if model is None:
        return None
    texts, add = _specials(files)
    return Conversion(
        model=model,
        pieces=files.sentencepiece or None,
        bos_id=_id("bos", texts["bos"], files, raw),
        eos_id=_id("eos", texts["eos"], files, raw),
        add_bos=_flag("bos", add, files.config),
        add_eos=_flag("eos", add, files.config),
    )


def _model(files: TokenizerFiles) -> str | None:
    """tokenizer.ggml.model: SentencePiece file first, then a Llama-like BPE, then byte-level."""
    definition = files.definition
    if files.sentencepiece:
        return "t5" if files.facts.kind == "unigram" and definition is None else "llama"
    if (
        definition is not None
        and definition.kind in ("spm-bpe", "bpe")
        and definition.byte_fallback
        and definition.decoder == "Sequence"
    ):
        return "llama"
    kinds = {"byte-bpe": "gpt2", "wordpiece": "bert", "unigram": "t5", "spm-bpe": "llama"}
    return kinds.get(files.facts.kind or "")


def _specials(files: TokenizerFiles) -> tuple[dict[str, str | None], dict[str, bool]]:
    """bos and eos texts and add flags, as the post-processor changes them."""
    cls = token_text(files.config.get("cls_token"))
    sep = token_text(files.config.get("sep_token"))
    texts = {
        "bos": token_text(files.config.get("bos_token")) or cls,
        "eos": token_text(files.config.get("eos_token")) or sep,
    }
    add: dict[str, bool] = {}
    processor: Any = files.definition.post_processor if files.definition is not None else None
    members = processor.get("processors") if isinstance(processor, dict) else None
    for member in members if isinstance(members, list) else [processor]:
        kind = member.get("type") if isinstance(member, dict) else None
        if kind == "ByteLevel":
            add = {"bos": False, "eos": False, **add}
        elif kind == "RobertaProcessing":
            add.update(bos=True, eos=True)
        elif kind == "TemplateProcessing":
            single = member.get("single")
            if not isinstance(single, list) or len(single) < 2:
                continue
            if first := _special(single[0]):
                texts["bos"] = texts["bos"] or first
                add["bos"] = first in (texts["bos"], cls or first)
            if last := _special(single[-1]):
                texts["eos"], add["eos"] = last, True
    return texts, add


def _special(entry: Any) -> str | None:
    token = entry.get("SpecialToken") if isinstance(entry, dict) else None
    return token_text(token.get("id")) if isinstance(token, dict) else None


def _id(
    name: str, content: str | None, files: TokenizerFiles, raw: Mapping[str, Any]
) -> int | None:
    """The added token with that text, else config.json's id; a list or null is skipped."""
    if files.definition is not None and content is not None:
        for number, entry in files.definition.added.items():
            if entry["content"] == content:
                return number
    value = raw.get(f"{name}_token_id")
    part = raw.get("text_config")
    if value is None and isinstance(part, dict):
        value = part.get(f"{name}_token_id")
    return integer(value)


def _flag(name: str, add: Mapping[str, bool], config: Mapping[str, Any]) -> bool | None:
    """The post-processor wins over tokenizer_config.json; neither: the key stays absent."""
    if name in add:
        return add[name]
    value = config.get(f"add_{name}_token")
    return value if isinstance(value, bool) else None
