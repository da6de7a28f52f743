"""What is asked of a trial, and what it has measured so far.

Of that the target's texts may be kept in a file, so that trying ten drafts costs one run of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from draftcheck import atomic
from draftcheck.errors import ReadError
from draftcheck.trial import strict_json
from draftcheck.trial.backends.backend import TargetText, TrialOptions
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.simulate.traces import Trace
from draftcheck.trial.simulate.trees import DraftTree
from draftcheck.trial.speedup import Costs
from draftcheck.trial.strict_json import Number, Text, Whole

Format = Literal["draftcheck texts 2"]
FORMAT: Format = "draftcheck texts 2"
MAX_BYTES = 1 << 30
WHAT = "a file of texts"
TokenId = Annotated[int, Meta(ge=0, lt=1 << 31)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """What is asked of a trial; api.trial makes it."""

    target: str
    draft: str | None
    """None: what the target brings along."""
    prompts: Sequence[Prompt]
    backend: str | None = None
    """None: chosen by the files."""
    options: TrialOptions = field(default_factory=TrialOptions)
    precision: float = 0.03
    """Enough prompts were asked when acceptance is known to within this."""
    budget: float | None = None
    """Seconds after which no more prompts are asked."""
    cost: bool = True
    """Time steps too."""
    verify: bool = False
    """Also speculate for real."""
    reuse: Path | None = None
    """Where the target's texts are kept, or come from."""
    tree: DraftTree | None = None
    """A tree of the user's, beside the best ones."""
    greedy_share: float = 0.0
    """At a temperature: the share of the prompts that is answered greedily all the same."""


@dataclass(slots=True)
class TrialWork:
    """What is there so far: kept when the trial ends half-way."""

    texts: list[TargetText] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)
    """One for each number of sequences at once."""
    floor: Costs | None = None
    busy: str | None = None
    """What else kept the machine busy when steps were timed."""
    stopped: str = "all prompts were used"
    incomplete: str | None = None

    @property
    def measurable(self) -> bool:
        """Whether an answer has a second token: the first one is nobody's draft."""
        return any(len(trace.tokens) > 1 for trace in self.traces)


class SavedText(msgspec.Struct, forbid_unknown_fields=True):
    """A prompt and the target's answer, as token ids."""

    category: Text
    temperature: Number
    prompt: Annotated[list[TokenId], Meta(min_length=1)]
    tokens: list[TokenId]


class SavedTexts(msgspec.Struct, forbid_unknown_fields=True):
    """The file: how the texts were made, and the texts."""

    format: Format
    target: Text
    tokens: Whole
    temperature: Number
    seed: Whole
    greedy_share: Number
    texts: list[SavedText]

    def __post_init__(self) -> None:
        for number, text in enumerate(self.texts):
            if text.temperature not in (0.0, self.temperature):
                raise ValueError(f"texts[{number}].temperature: another than the file's")


def load_texts(file: Path, plan: TrialPlan) -> list[TargetText] | None:
    """The texts, when the file is there; an error when they were made otherwise."""
    if not file.exists():
        return None
    found = strict_json.load(file, WHAT, MAX_BYTES)
    saved = strict_json.convert(found, SavedTexts, str(file), WHAT)
    for name, wanted in _circumstances(plan).items():
        if found[name] != wanted:
            raise ReadError(
                f"{file}: was made with {name} {found[name]!r:.200}, not {wanted!r}",
                hint="Use another file, or the same settings.",
            )
    return [
        TargetText(
            text.category,
            np.array(text.prompt, dtype=np.int64),
            np.array(text.tokens, dtype=np.int64),
            float(text.temperature),
        )
        for text in saved.texts
        if text.tokens
    ]


def save_texts(file: Path, plan: TrialPlan, texts: Sequence[TargetText]) -> None:
    rows = [
        SavedText(text.category, text.temperature, text.prompt.tolist(), text.tokens.tolist())
        for text in texts
    ]
    body = SavedTexts(**_circumstances(plan), format=FORMAT, texts=rows)
    try:
        atomic.write(file, json.dumps(msgspec.to_builtins(body)).encode())
    except OSError as error:
        raise ReadError(f"{file}: cannot be written: {error.strerror}") from error


def _circumstances(plan: TrialPlan) -> dict[str, Any]:
    return {
        "target": plan.target,
        "tokens": plan.options.tokens,
        "temperature": plan.options.temperature,
        "seed": plan.options.seed,
        "greedy_share": plan.greedy_share,
    }
