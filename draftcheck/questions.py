"""Texts such as vllm@0.15.1 -> Questions for the judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftcheck import rulebook
from draftcheck.errors import UsageError
from draftcheck.judge import Question


def ask(
    engines: Sequence[str],
    *,
    method: str | None = None,
    context: int | None = None,
    tensor_parallel: int | None = None,
    draft_tensor_parallel: int | None = None,
) -> list[Question]:
    """One question per engine named, or per engine in the rulebook."""
    base = Question("", None, method, context, tensor_parallel, draft_tensor_parallel)
    if not engines:
        if method is not None:
            raise UsageError("--method needs --engine", hint="Methods belong to an engine.")
        return [replace(base, engine=name) for name in rulebook.default_engines()]
    return [_question(text, base) for text in engines]


def _question(text: str, base: Question) -> Question:
    name, _, version = text.partition("@")
    engine = rulebook.load(name)
    if "@" in text and not version:
        raise UsageError(f"{text!r} names no version", hint=f"For example {name}@{engine.checked}.")
    return replace(base, engine=name, version=engine.version(version or None))
