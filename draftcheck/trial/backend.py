"""What a trial asks of a backend, and the backends there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from draftcheck.errors import UsageError
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.speedup import Costs

if TYPE_CHECKING:  # results are read without numpy
    from draftcheck.trial.traces import Ints, Trace

BACKENDS = {"transformers": "draftcheck.trial.transformers"}


class BrokenDraft(Exception):
    """The draft turned out unusable; the text says how."""


class CannotVerify(Exception):
    """No real speculative run can be made here; the text says why."""


class Interrupted(Exception):
    """A side went away half-way; what it had done by then is kept."""

    def __init__(
        self, words: str, texts: Sequence[Text] = (), traces: Sequence[Trace] = ()
    ) -> None:
        super().__init__(words)
        self.texts, self.traces = list(texts), list(traces)


@dataclass(frozen=True, slots=True)
class Options:
    """How a trial is run."""

    tokens: int = 128
    """New tokens per prompt."""
    temperature: float = 0.0
    seed: int = 0
    device: str | None = None
    dtype: str | None = None
    thinking: bool = False
    trust_remote_code: bool = False
    seconds: float | None = None
    """The target stops writing after so long; what it wrote counts."""
    universal: bool = False
    """The draft has another vocabulary, and texts are translated."""


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A prompt and what the target made of it."""

    category: str
    prompt: Ints
    tokens: Ints
    temperature: float = 0.0
    """What the tokens were chosen at."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A real speculative run by the backend's own implementation."""

    draft_tokens: int
    tokens_per_pass: float
    speedup: float | None
    identical_output: bool | None
    """None: sampled texts never are the same."""
    predicted: float | None = None
    """What the traces say for the same texts and the same way of counting."""
    drafted: int | None = None
    accepted: int | None = None
    """The engine's own counters, where it has them."""
    first: int = 0
    """1: the engine drafts nothing in the pass that reads the prompt."""


class Backend(Protocol):
    """Target and draft, loaded."""

    name: str
    device: str
    dtype: str

    def generate(self, prompts: Sequence[Prompt], options: Options) -> list[Text]:
        """The target's own continuations."""
        ...

    def read(self, texts: Sequence[Text], options: Options) -> list[Trace]:
        """What the draft thinks of them."""
        ...

    def costs(self, sequences: int, context: int) -> Costs | None:
        """Seconds per step; None where they cannot be measured."""
        ...

    def floor(self) -> Costs | None:
        """Seconds per step if reading the weights were all there is to it."""
        ...

    def verify(self, texts: Sequence[Text], g: int, options: Options) -> Verified:
        """Speculate for real."""
        ...

    def limits(self) -> Mapping[str, Any]:
        """Facts that bound the trial: rows, context."""
        ...


def open_backend(name: str, target: str, draft: str, options: Options) -> Backend:
    """Load both models; a UsageError says what is missing."""
    if name not in BACKENDS:
        raise UsageError(f"no backend {name!r}", hint=f"Known: {', '.join(BACKENDS)}.")
    try:
        module = import_module(BACKENDS[name])
    except ImportError as error:
        raise UsageError(
            f"a trial with {name} needs the trial extra ({error.name} is not installed)",
            hint="pip install 'draftcheck-llm[trial]'",
        ) from error
    opened: Backend = module.open(target, draft, options)
    return opened
