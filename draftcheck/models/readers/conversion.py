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
    names = _Specials(files.config)
    if files.definition is not None:
        names.apply(files.definition.post_processor)
    return Conversion(
        model=model,
        bos_id=_id("bos", names.texts["bos"], files, raw),
        eos_id=_id("eos", names.texts["eos"], files, raw),
        add_bos=_flag("bos", names.add, files.config),
        add_eos=_flag("eos", names.add, files.config),
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


class _Specials:
    """bos and eos texts and add flags, as the post-processor changes them."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.texts = {
            "bos": token_text(config.get("bos_token")) or token_text(config.get("cls_token")),
            "eos": token_text(config.get("eos_token")) or token_text(config.get("sep_token")),
        }
        self.cls = token_text(config.get("cls_token"))
        self.add: dict[str, bool] = {}

    def apply(self, post_processor: Any) -> None:
        if not isinstance(post_processor, dict):
            return
        members = post_processor.get("processors")
        for member in members if isinstance(members, list) else [post_processor]:
            kind = member.get("type") if isinstance(member, dict) else None
            if kind == "ByteLevel":
                self.add.setdefault("bos", False)
                self.add.setdefault("eos", False)
            elif kind == "RobertaProcessing":
                self.add.update(bos=True, eos=True)
            elif kind == "TemplateProcessing":
                self._template(member.get("single"))

    def _template(self, single: Any) -> None:
        if not isinstance(single, list) or len(single) < 2:
            return
        if first := _special(single[0]):
            self.texts["bos"] = self.texts["bos"] or first
            self.add["bos"] = first in (self.texts["bos"], self.cls or first)
        if last := _special(single[-1]):
            self.texts["eos"] = last
            self.add["eos"] = True


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
