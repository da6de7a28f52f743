"""What is said of a pair: verdicts per engine, with their findings and ways out. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import OWN_FILE, QUANT_FILE, ModelFacts
from draftcheck.values.findings import Finding, most_telling
from draftcheck.values.memory import MemoryFit
from draftcheck.values.results import PublicResult
from draftcheck.values.words import Reaction, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSetup(Circumstances):
    """The circumstances of one verdict."""

    engine: str
    version: str
    method: str
    order: Callable[[str], Any]
    """Makes a version text of this engine comparable."""
    checked: str
    """The newest version whose source was read."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Data tables that belong to the engine's rules, by file name."""
    untyped: Mapping[str, str] = field(default_factory=dict)
    """Classes published without a model_type -> the one that this version takes."""
    unsized: Mapping[str, int] = field(default_factory=dict)
    """Types published without a vocab_size -> the one that their class has."""
    contexts: Mapping[str, int] = field(default_factory=dict)
    """The same for max_position_embeddings."""
    quant_file: bool = False
    """Whether this version reads hf_quant_config.json where config.json states no quantisation."""
    failures: frozenset[str] = frozenset()
    """Load failures that this version has: the `failure` parameters of its active rules."""
    memory: MemoryFit | None = None
    memo: dict[int, Any] = field(default_factory=dict, compare=False)
    """What checks worked out once for this verdict."""

    def __post_init__(self) -> None:
        """Its circumstances were held against their limits when they were said."""


@dataclass(frozen=True, slots=True)
class JudgedPair(Comparison):
    """Two models side by side, and the setup in which they are judged: what a check looks at."""

    setup: EngineSetup = field(kw_only=True)

    @classmethod
    def of(cls, comparison: Comparison, setup: EngineSetup) -> JudgedPair:
        both = {name: getattr(comparison, name) for name in Comparison.__dataclass_fields__}
        both["target"] = _sized(_as_read(comparison.target, setup), setup)
        if comparison.draft is not None:
            both["draft"] = _as_read(comparison.draft, setup)
        return cls(**both, setup=setup)


def _as_read(facts: ModelFacts, setup: EngineSetup) -> ModelFacts:
    """The facts that the engine has: less hf_quant_config.json where it does not read that file,
    and with the model_type that it fills in where config.json has none."""
    config = facts.config
    if not setup.quant_file and (config.quantization or {}).get(OWN_FILE):
        origin = {**config.origin, "quantization": QUANT_FILE}
        config = replace(config, quantization=None, origin=origin)
        facts = replace(facts, config=config)
    kind = setup.untyped.get((config.architectures or ("",))[0])
    if kind is None or config.model_type is not None:
        return facts
    return replace(facts, config=replace(config, model_type=kind, outer_type=kind, recurrent=False))


def _sized(facts: ModelFacts, setup: EngineSetup) -> ModelFacts:
    """A target with the vocab_size and context of its class, where config.json has none.

    Drafts are left as they are: those published so (Gemma 3 4B) were not read as drafts.
    """
    config = facts.config
    if facts.gguf is not None:
        return facts
    kind = config.model_type or ""
    size, context = setup.unsized.get(kind), setup.contexts.get(kind)
    if size is not None and config.vocab_size is None:
        config = replace(config, vocab_size=size)
    if context is not None and config.context is None:
        config = replace(config, context=context)
    return replace(facts, config=config)


TO_TRY = "try"
"""The repair of a verdict that is open only because the engine was not read for it."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A way out of a verdict that is not good: a changed model, method or version."""

    id: str
    title: str
    text: str = ""
    """What to paste; empty when the title says it all."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class EngineVerdict:
    engine: str
    version: str
    version_checked: bool
    method: str | None
    reaction: Reaction
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    decided_by: str | None = None
    """Rule id that decided the reaction, when it is not ``runs``."""
    basis: str | None = None
    """How well the reaction is known: run, read or documented."""
    setup: str | None = None
    memory: MemoryFit | None = None
    """Whether it fits; None where no GPU was named or the engine's memory is not modelled."""
    repairs: tuple[Repair, ...] = ()
    notes: tuple[str, ...] = ()
    applies: bool = True
    """False: the engine's rules cover no such files, so nothing was held against them."""

    @property
    def reason(self) -> str | None:
        """Why it is not simply compatible, in a sentence."""
        if self.verdict is Verdict.COMPATIBLE:
            return None
        finding = most_telling(self.findings, self.decided_by)
        if finding is not None:
            said = finding.saw or finding.title
            if finding.not_found_out:
                said = f"{finding.title} ({finding.saw})"
            return f"{finding.rule}: {said}"
        return self.notes[-1] if self.notes else "nothing that was read tells"


@dataclass(frozen=True, slots=True)
class PairVerdict(PublicResult):
    comparison: Comparison
    engines: tuple[EngineVerdict, ...]
    verdict: Verdict

    def __repr__(self) -> str:
        facts = self.comparison.draft
        draft = "no draft" if facts is None else repr(facts.ref)
        told = [f"{entry.engine} {entry.version} {entry.verdict}" for entry in self.engines]
        engines = ", ".join(told) if len(told) <= 2 else f"{len(told)} engines"
        return (
            f"<PairVerdict {self.verdict}: {draft} for {self.comparison.target.ref!r}; {engines}>"
        )
