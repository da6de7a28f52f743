"""Bytes on the GPU: whether target, draft and both caches fit, and how far one can go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import structs

from draftcheck.errors import UsageError
from draftcheck.memory import from_config, from_gguf, plan, profiles, search, weights
from draftcheck.memory.from_config import ShapeUnknown
from draftcheck.memory.paged import NotPlanned
from draftcheck.memory.profiles import Profile
from draftcheck.memory.question import MemoryQuestion, PlannedModel
from draftcheck.memory.shape import Shape
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.memory import Fit, Machine, MemoryFit

MOST_OWN = 64
"""Prediction layers of a model; real ones have one to three."""
CONTEXT = 8192
"""Tokens per sequence unless the user says otherwise; never silently the model's maximum."""


def fit(
    comparison: Comparison,
    circumstances: Circumstances,
    machine: Machine,
    *,
    engine: str,
    version: str,
    order: Callable[[str], Any],
    drafts: tuple[str, ...] = ("full",),
) -> MemoryFit | None:
    """Whether the pair fits; None for an engine whose memory is not modelled.

    drafts: what the method takes, as in the rulebook ("none" and "itself" need no draft).
    """
    profile = profiles.load(engine, version, order)
    if profile is None:
        return None
    notes: list[str] = []
    context = _context(comparison.target, circumstances, notes)
    sequences = circumstances.sequences or 1
    empty = MemoryFit(
        machine.spec, engine, version, context, sequences, _kv_name(profile, circumstances, notes),
        Fit.CANNOT_TELL, when_full=structs.asdict(profile.when_full),
    )  # fmt: skip
    try:
        question = _question(
            comparison, circumstances, machine, profile, drafts, context, sequences, notes
        )
        ours, theirs = plan.weigh(question)
        if ours is None or (theirs is None and question.draft and question.role != "itself"):
            side = "target" if ours is None else "draft"
            return replace(empty, notes=(*notes, f"the {side}'s weights were not read"))
        devices = plan.devices(question, ours, theirs)
    except ShapeUnknown as error:
        return replace(empty, notes=(*notes, str(error)))
    except NotPlanned:
        why = f"{engine} cannot lay out caches of these two models in one pool"
        return replace(empty, notes=(*notes, why))
    for found in (ours, theirs):
        notes += found.notes if found else ()
    answer = max((device.answer for device in devices), key=ORDER.index)
    return replace(
        empty,
        answer=answer,
        devices=devices,
        draft_tokens=question.draft_tokens,
        limits=search.limits(question, ours, theirs),
        alone=search.limits(question.without_draft(), search.alone(question, ours), None),
        changes=()
        if answer is Fit.FITS
        else search.changes(question, ours, theirs, tight=answer is Fit.TIGHT),
        per_token=_per_token(question),
        notes=tuple(dict.fromkeys(notes)),
    )


ORDER = (Fit.FITS, Fit.TIGHT, Fit.CANNOT_TELL, Fit.DOES_NOT_FIT)


def table(facts: ModelFacts) -> Shape:
    """The per-layer table of one model; Unknown says what is missing."""
    return from_gguf.read(facts) if facts.gguf is not None else from_config.read(facts)


def _context(target: ModelFacts, circumstances: Circumstances, notes: list[str]) -> int:
    if circumstances.context is not None:
        return circumstances.context
    longest = target.config.scaled_context or target.config.context
    if longest is not None and 0 < longest < CONTEXT:
        notes.append(f"context {longest:,}, the target's maximum; --context asks for another")
        return longest
    notes.append(f"context {CONTEXT:,} is assumed; --context asks for another")
    return CONTEXT


def _kv_name(profile: Profile, circumstances: Circumstances, notes: list[str]) -> str:
    name, _ = profile.kv_bits(circumstances.kv_dtype, 2)
    if not profile.takes(circumstances.kv_dtype):
        known = ", ".join(profile.kv_types)
        notes.append(f"{profile.engine} has no KV cache of type {name} (it takes {known})")
        name, _ = profile.kv_bits(None, 2)
    return name


def _question(
    comparison: Comparison,
    circumstances: Circumstances,
    machine: Machine,
    profile: Profile,
    drafts: tuple[str, ...],
    context: int,
    sequences: int,
    notes: list[str],
) -> MemoryQuestion:
    role, draft = _draft(comparison, profile, circumstances, drafts, notes)
    stages = _stages(circumstances, profile, notes)
    ranks = _ranks(circumstances, machine, profile, stages, notes)
    alone = circumstances.draft_gpu
    if alone is not None and alone >= len(machine.devices):
        raise UsageError(f"--draft-gpu {alone}: there are {len(machine.devices)} GPUs, from 0 on")
    kv_dtype = circumstances.kv_dtype if profile.takes(circumstances.kv_dtype) else None
    return MemoryQuestion(
        profile=profile,
        devices=machine.devices,
        target=PlannedModel(
            comparison.target, _table(comparison.target, profile, circumstances, notes)
        ),
        draft=draft,
        role=role,
        context=context,
        sequences=sequences,
        kv_dtype=kv_dtype,
        dtype=circumstances.dtype,
        ranks=ranks,
        draft_ranks=circumstances.draft_tensor_parallel or ranks,
        draft_tokens=circumstances.draft_tokens or profile.draft_tokens,
        fraction=circumstances.memory_fraction,
        draft_gpu=alone if draft is not None else None,
        sequences_said=circumstances.sequences is not None,
        stages=stages,
    )


def _draft(
    comparison: Comparison,
    profile: Profile,
    circumstances: Circumstances,
    drafts: tuple[str, ...],
    notes: list[str],
) -> tuple[str, PlannedModel | None]:
    """The draft's role and table; the target's own prediction layers count as a draft."""
    facts = comparison.draft
    if set(drafts) <= {"none"}:
        return "", None
    if "itself" in drafts and comparison.one_model:
        table = _table(comparison.target, profile, circumstances, notes)
        own = [layer for layer in table.layers if layer.attends][-1:]
        count = min(_own_layers(comparison.target), MOST_OWN)
        return "itself", PlannedModel(
            comparison.target, replace(table, layers=tuple(own * count), floor=None)
        )
    if facts is None:
        return "", None
    role = facts.role or "full"
    if role in plan.NO_CACHE:
        table = _table(comparison.target, profile, circumstances, notes)
        return role, PlannedModel(facts, replace(table, layers=(), floor=None))
    return role, PlannedModel(facts, _table(facts, profile, circumstances, notes))


def _own_layers(facts: ModelFacts) -> int:
    """Prediction layers that the model brings along."""
    if facts.gguf is not None:
        key = f"{facts.config.model_type}.nextn_predict_layers"
        kind, value = facts.gguf.keys.get(key, ("", 0))
        return int(value) if kind.startswith(("uint", "int")) and value > 0 else 1
    return facts.config.mtp_layers or 1


def _table(
    facts: ModelFacts, profile: Profile, circumstances: Circumstances, notes: list[str]
) -> Shape:
    found = table(facts)
    notes += found.notes
    if facts.gguf is not None:
        return found
    size, _ = weights.run_bytes(facts, profile, circumstances.dtype)
    return replace(found, float_bytes=size)


def _stages(circumstances: Circumstances, profile: Profile, notes: list[str]) -> int:
    """Stages of a pipeline; engines that split by layers have them anyway, by free memory."""
    asked = circumstances.pipeline_parallel or 1
    if asked > 1 and profile.stages is None:
        notes.append(f"{profile.engine} has no pipeline stages: layers go where memory is free")
        return 1
    return asked


def _ranks(
    circumstances: Circumstances,
    machine: Machine,
    profile: Profile,
    stages: int,
    notes: list[str],
) -> int:
    """Ranks of a tensor-parallel group; engines that split by layers have one."""
    if profile.split != "tensor":
        return 1
    count = len(machine.devices)
    asked = circumstances.tensor_parallel
    if count > 1 and stages * (asked or 1) > count:
        words = [f"--tensor-parallel {asked}"] if asked else []
        words += [f"--pipeline-parallel {stages}"] if stages > 1 else []
        raise UsageError(f"{' '.join(words)}: --gpu names {count} GPUs")
    if asked is None:
        if count > stages:
            notes.append(f"tensor parallel over {count // stages} GPUs is assumed")
        return count // stages if count > 1 else 1
    return asked


def _per_token(question: MemoryQuestion) -> tuple[int, int]:
    """What one more token costs on one rank, once every window is full."""
    step = 1 << 16
    base = replace(question, context=1 << 21)
    more = replace(question, context=(1 << 21) + step)
    first, second = plan.cache_of(base), plan.cache_of(more)
    scale = step * question.sequences
    return (second.target - first.target) // scale, (second.draft - first.draft) // scale
