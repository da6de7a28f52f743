"""Texts such as vllm@0.15.1 -> Questions for the judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftcheck.errors import UsageError
from draftcheck.judge.decide import Question
from draftcheck.rulebook import book
from draftcheck.values.circumstances import Circumstances


def ask(
    engines: Sequence[str],
    *,
    method: str | None = None,
    circumstances: Circumstances = Circumstances(),  # noqa: B008  frozen
) -> list[Question]:
    """One question per engine named, or per engine in the rulebook; auto: per engine found here."""
    base = Question("", None, method, circumstances)
    if not engines:
        if method is not None:
            raise UsageError("--method needs --engine", hint="Methods belong to an engine.")
        return [replace(base, engine=name) for name in book.engine_files()]
    questions = []
    for text in engines:
        if text == "auto":
            # Imported here: reading packages' metadata is not for everyone.
            from draftcheck.judge import installed

            for found in installed.engines():
                questions.append(replace(found, method=method, circumstances=circumstances))
            continue
        name, _, version = text.partition("@")
        engine = book.load(name)
        if "@" in text and not version:
            hint = f"For example {name}@{engine.checked}."
            raise UsageError(f"{text!r} names no version", hint=hint)
        questions.append(replace(base, engine=name, version=engine.version(version or None)))
    return questions


def settle(said: Circumstances) -> Circumstances:
    """The circumstances with the devices that --gpu means, or those of this machine."""
    if said.machine is not None and said.gpu in (None, said.machine.spec):
        return said
    from draftcheck.memory import gpus

    if said.gpu is not None:
        return gpus.placed(said)
    # Shown, but never a verdict: that must not depend on where the question is asked.
    return replace(said, machine=gpus.here())
