"""Whether target, draft and both caches fit on the GPUs, and how far one can go.

two models' facts          rules/tables/memory.toml  --gpu, --context, --kv-dtype …
       │ from_config, from_gguf     │ profiles             │ gpus
Shape: a table of layers     Profile: an engine's     Machine, Circumstances
       │                     habits at a version             │
       └───────────────┬────────────┴────────────────────────┘
                plan.MemoryQuestion
                       │ weights, caches: bytes of each thing
                plan.devices: for every GPU its parts, each exact, modelled or a constant
                       │
         the answer, and the inverse: longest context, most sequences, the smallest change
         that would fit
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from draftcheck.errors import UsageError
from draftcheck.memory import from_config, from_gguf, plan, profiles, weights
from draftcheck.memory.caches import NotPlanned
from draftcheck.memory.from_config import ShapeUnknown
from draftcheck.memory.gpus import MAX_DEVICES
from draftcheck.memory.plan import MemoryQuestion, PlannedModel
from draftcheck.memory.profiles import Profile
from draftcheck.memory.shape import Shape
from draftcheck.memory.weights import Weights
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.memory import DeviceFit, Fit, Gpu, Limits, Machine, MemoryFit
from draftcheck.values.sizes import byte_size

MOST_OWN = 64
"""Prediction layers of a model; real ones have one to three."""
CONTEXT = 8192
"""Tokens per sequence unless the user says otherwise; never silently the model's maximum."""
WORST_LAST = (Fit.FITS, Fit.TIGHT, Fit.CANNOT_TELL, Fit.DOES_NOT_FIT)
MOST_SEQUENCES = 1 << 16
PACKINGS = {
    "torch": (("FP8", 8.002), ("4 bits", 4.16)),
    "gguf": (("Q4_K_M", 4.9), ("Q3_K_M", 4.0), ("Q2_K", 3.0)),
}
"""What people quantise a target to, and bits of a weight with its share of scales."""
MORE_GPUS = (2, 4, 8, 16)
LONGEST = 1 << 24
"""Tokens; only models that state no maximum are searched so far."""


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
    """Say whether the pair fits; None for an engine whose memory is not modelled.

    drafts: what the method takes, as in the rulebook ("none" and "itself" need no draft).
    """
    profile = profiles.load(engine, version, order)
    if profile is None:
        return None
    asking = _QuestionBuilder(comparison, circumstances, machine, profile)
    notes = asking.notes
    context = asking.context()
    sequences = circumstances.sequences or 1
    empty = MemoryFit(
        machine.spec, engine, version, context, sequences, asking.kv_name(),
        Fit.CANNOT_TELL, when_full=structs.asdict(profile.when_full),
    )  # fmt: skip
    try:
        question = asking.build(drafts, context, sequences)
        ours, theirs = plan.weigh(question)
        if ours is None or (theirs is None and question.draft and question.role != "itself"):
            side = "target" if ours is None else "draft"
            return replace(empty, notes=(*notes, f"the {side}'s weights were not read"))
        question = _served(question, ours, theirs)
        counted = list(plan.devices(question, ours, theirs))
    except ShapeUnknown as error:
        return replace(empty, notes=(*notes, str(error)))
    except NotPlanned:
        why = f"{engine} cannot lay out caches of these two models in one pool"
        return replace(empty, notes=(*notes, why))
    notes += (*ours.notes, *(theirs.notes if theirs else ()))
    answer = max((device.answer for device, _ in counted), key=WORST_LAST.index)
    devices: list[DeviceFit] = []
    for device, count in counted:
        devices += [device] * max(1, min(count, MAX_DEVICES - len(devices)))
    if (ranks := sum(count for _, count in counted)) > len(devices):
        notes.append(f"{ranks:,} GPUs: of those that hold the same, some are not listed")
    sure = answer is Fit.TIGHT  # a tight fit asks for one that is sure
    limits = _limits(question, ours, theirs)
    if question.sequences < sequences and limits.sequences is not None:
        room = f"room for about {limits.sequences:,} of {context:,} tokens at once"
        notes.append(f"{sequences:,} requests: {room}, the rest waits")
    return replace(
        empty,
        answer=answer,
        devices=tuple(devices),
        draft_tokens=question.draft_tokens,
        limits=limits,
        alone=_limits(question.without_draft(), _alone(question, ours), None),
        changes=() if answer is Fit.FITS else tuple(_changes(question, ours, theirs, sure)),
        per_token=_per_token(question),
        notes=tuple(dict.fromkeys(notes)),
        at_once=question.sequences,
        ranks=question.ranks,
    )


def _served(question: MemoryQuestion, ours: Weights, theirs: Weights | None) -> MemoryQuestion:
    """The same with as many sequences at once as surely fit, where the rest waits; at least one."""
    if not question.profile.queues or _fits(question, ours, theirs, sure=True):
        return question
    most = _most(_with_sequences(question, ours, theirs, sure=True), question.sequences)
    return replace(question, sequences=most or 1)


def table(facts: ModelFacts) -> Shape:
    """Make the per-layer table of one model; ShapeUnknown says what is missing."""
    return from_gguf.read(facts) if facts.gguf is not None else from_config.read(facts)


@dataclass
class _QuestionBuilder:
    """Makes the question, and notes what it had to assume."""

    comparison: Comparison
    circumstances: Circumstances
    machine: Machine
    profile: Profile
    notes: list[str] = field(default_factory=list)

    def context(self) -> int:
        if self.circumstances.context is not None:
            return self.circumstances.context
        config = self.comparison.target.config
        longest = config.scaled_context or config.context
        if longest is not None and 0 < longest < CONTEXT:
            note = f"context {longest:,}, the target's maximum; --context asks for another"
            self.notes.append(note)
            return longest
        self.notes.append(f"context {CONTEXT:,} is assumed; --context asks for another")
        return CONTEXT

    def kv_name(self) -> str:
        """The type of the KV cache, in the engine's word."""
        profile, kv_dtype = self.profile, self.circumstances.kv_dtype
        name, _ = profile.kv_bits(kv_dtype, 2)
        if not profile.takes(kv_dtype):
            known = ", ".join(profile.kv_types)
            self.notes.append(f"{profile.engine} has no KV cache of type {name} (it takes {known})")
            name, _ = profile.kv_bits(None, 2)
        return name

    def build(self, drafts: tuple[str, ...], context: int, sequences: int) -> MemoryQuestion:
        circumstances, machine, profile = self.circumstances, self.machine, self.profile
        if (kv_dtype := circumstances.kv_dtype or "").lower() in profile.kv_uncounted:
            raise ShapeUnknown(f"the size of a KV cache of type {kv_dtype} is not modelled")
        role, draft = self._draft(drafts)
        stages = self._stages()
        ranks = self._ranks(stages)
        draft_gpu = circumstances.draft_gpu
        if draft_gpu is not None and draft_gpu >= len(machine.devices):
            raise UsageError(
                f"--draft-gpu {draft_gpu}: there are {len(machine.devices)} GPUs, from 0 on"
            )
        return MemoryQuestion(
            profile=profile,
            devices=machine.devices,
            target=self._planned(self.comparison.target),
            draft=draft,
            role=role,
            context=context,
            sequences=sequences,
            kv_dtype=circumstances.kv_dtype if profile.takes(circumstances.kv_dtype) else None,
            dtype=circumstances.dtype,
            ranks=ranks,
            draft_ranks=circumstances.draft_tensor_parallel or ranks,
            draft_tokens=circumstances.draft_tokens or profile.draft_tokens,
            fraction=circumstances.memory_fraction,
            draft_gpu=draft_gpu if draft is not None else None,
            sequences_said=circumstances.sequences is not None,
            stages=stages,
        )

    def _draft(self, drafts: tuple[str, ...]) -> tuple[str, PlannedModel | None]:
        """The draft's role and table; the target's own prediction layers count as a draft."""
        target, draft = self.comparison.target, self.comparison.draft
        if set(drafts) <= {"none"}:
            return "", None
        if "itself" in drafts and self.comparison.one_model:
            planned = self._planned(target)
            last = [layer for layer in planned.shape.layers if layer.attends][-1:]
            own = target.config.mtp_layers or 1
            if target.gguf is not None:
                key = f"{target.config.model_type}.nextn_predict_layers"
                kind, value = target.gguf.keys.get(key, ("", 0))
                own = int(value) if kind.startswith(("uint", "int")) and value > 0 else 1
            layers = tuple(last * min(own, MOST_OWN))
            return "itself", replace(
                planned, shape=replace(planned.shape, layers=layers, floor=None)
            )
        if draft is None:
            return "", None
        role = draft.role or "full"
        if role == "full" and "full" not in drafts and "holds-dspark" in drafts:
            raise ShapeUnknown("of the draft only the DSpark stages are loaded: not counted")
        if role in plan.NO_CACHE:
            shape = self._planned(target).shape
            return role, PlannedModel(draft, replace(shape, layers=(), floor=None))
        return role, self._planned(draft)

    def _planned(self, facts: ModelFacts) -> PlannedModel:
        """A model with its table, in the type that the engine computes in."""
        shape = table(facts)
        self.notes += shape.notes
        if facts.gguf is None:
            size, _ = weights.run_bytes(facts, self.profile, self.circumstances.dtype)
            shape = replace(shape, float_bytes=size)
        return PlannedModel(facts, shape)

    def _stages(self) -> int:
        """Stages of a pipeline; engines that split by layers have them anyway, by free memory."""
        stages = self.circumstances.pipeline_parallel or 1
        if stages > 1 and self.profile.stages is None:
            engine = self.profile.engine
            self.notes.append(f"{engine} has no pipeline stages: layers go where memory is free")
            return 1
        if stages > MAX_DEVICES:
            raise ShapeUnknown(f"a pipeline of more than {MAX_DEVICES:,} stages is not counted")
        return stages

    def _ranks(self, stages: int) -> int:
        """Ranks of a tensor-parallel group; engines that split by layers have one."""
        if self.profile.split != "tensor":
            return 1
        count = len(self.machine.devices)
        ranks = self.circumstances.tensor_parallel
        if count > 1 and stages * (ranks or 1) > count:
            options = [f"--tensor-parallel {ranks}"] if ranks else []
            options += [f"--pipeline-parallel {stages}"] if stages > 1 else []
            raise UsageError(f"{' '.join(options)}: --gpu names {count} GPUs")
        if ranks is None:
            if count > stages:
                self.notes.append(f"tensor parallel over {count // stages} GPUs is assumed")
            return count // stages if count > 1 else 1
        return ranks


def _per_token(question: MemoryQuestion) -> tuple[int, int]:
    """What one more token costs on one rank, once every window is full."""
    step = 1 << 16
    base = replace(question, context=1 << 21)
    more = replace(question, context=(1 << 21) + step)
    first, second = plan.cache_of(base), plan.cache_of(more)
    scale = step * question.sequences
    return (second.target - first.target) // scale, (second.draft - first.draft) // scale


def _limits(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None, *, sure: bool = False
) -> Limits:
    """Find the longest context at these sequences, and the most sequences at this context."""
    longest = question.target.shape.max_context or LONGEST
    first = replace(question, sequences=1) if question.profile.queues else question

    def context(value: int) -> bool:
        return _fits(replace(first, context=value), ours, theirs, sure=sure)

    sequences = _with_sequences(question, ours, theirs, sure=sure)
    return Limits(_most(context, longest), _most(sequences, MOST_SEQUENCES))


def _with_sequences(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None, *, sure: bool
) -> Callable[[int], bool]:
    return lambda value: _fits(replace(question, sequences=value), ours, theirs, sure=sure)


def _fits(question: MemoryQuestion, ours: Weights, theirs: Weights | None, *, sure: bool) -> bool:
    """Whether the typical figure stays within every device; sure: the upper end, too."""
    devices = (device for device, _ in plan.devices(question, ours, theirs))
    try:
        if sure:
            return all(device.answer is Fit.FITS for device in devices)
        return all(device.required <= device.available for device in devices)
    except NotPlanned:
        return False


def _most(good: Callable[[int], bool], limit: int) -> int | None:
    """The largest value that is good; memory only grows with it."""
    if not good(1):
        return None
    low, high = 1, max(limit, 1)
    if good(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if good(middle):
            low = middle
        else:
            high = middle
    return low


def _changes(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None, sure: bool
) -> Iterator[str]:
    """What would make it fit, the smallest change first."""
    found = False
    for change in _settings(question, ours, theirs, sure):
        found = True
        yield change
    if not found:
        yield from _other_weights(question, sure)
    alone = question.without_draft()
    if question.draft is not None and _fits(alone, _alone(question, ours), None, sure=sure):
        yield "no draft: the target alone fits"


def _other_weights(question: MemoryQuestion, sure: bool) -> Iterator[str]:
    """The target in fewer bits, or on more of the same GPUs: where each first fits."""
    least = 0
    for number in _gpu_counts(question):
        ranks = number if question.profile.split == "tensor" and number > 1 else question.ranks
        other = replace(question, devices=question.devices[:1] * number) if number else question
        other = replace(other, ranks=ranks, draft_ranks=ranks) if number else other
        ours, theirs = plan.weigh(other)
        if ours is None:
            return
        where = f' --gpu "{number}x {question.devices[0].name}"' if number else ""
        if number and _fits(other, ours, theirs, sure=sure):
            yield where.strip()
            return
        facts = question.target.facts
        for name, bits in () if least else PACKINGS[question.profile.weights]:
            smaller = weights.packed(facts, ours, bits)
            if smaller is not None and _fits(other, smaller, theirs, sure=sure):
                size = byte_size(smaller.nbytes * ranks)
                yield f"the target in {name} (about {size})" + (where and f" with{where}")
                least = number or 1
                break


def _gpu_counts(question: MemoryQuestion) -> Iterator[int]:
    """Numbers of GPUs to try; 0: those that were named."""
    yield 0
    alike = len(set(question.devices)) == 1 and question.stages == 1
    if not alike or question.draft_gpu is not None:
        return
    for number in MORE_GPUS:
        divides = question.profile.split != "tensor" or not question.target.shape.heads % number
        if number > len(question.devices) and divides:
            yield number


def _settings(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None, sure: bool
) -> Iterator[str]:
    smaller = question.profile.smaller_kv
    if smaller and question.kv_dtype is None:
        other = replace(question, kv_dtype=smaller)
        if _fits(other, ours, theirs, sure=sure):
            yield f"--kv-dtype {smaller}"
    most = _limits(question, ours, theirs, sure=sure)
    if most.sequences is not None and most.sequences < question.sequences:
        yield f"--sequences {most.sequences:,}"
    if most.context is not None and most.context < question.context:
        # A context that people type: a multiple of 256 where there is one.
        yield f"--context {most.context // 256 * 256 or most.context}"
    if question.draft is None:
        return
    if len(question.devices) > 1 and question.draft_gpu is None:
        kinds: dict[tuple[Gpu, bool], int] = {}  # GPUs that are alike need one try
        for number, gpu in enumerate(question.devices):
            kinds.setdefault((gpu, number < question.ranks), number)
        for number in kinds.values():
            other = replace(question, draft_gpu=number, draft_ranks=1)
            if _fits(other, ours, theirs, sure=sure):
                yield f"--draft-gpu {number}"
                break


def _alone(question: MemoryQuestion, ours: Weights) -> Weights:
    """Weigh the target without its prediction layers; headers are long, so seldom anew."""
    if question.role != "itself":
        return ours
    return plan.weigh(question.without_draft())[0] or ours
