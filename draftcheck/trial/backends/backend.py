"""What a trial asks of a backend, and the backends there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from draftcheck.errors import UsageError
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.speed.speedup import Costs

if TYPE_CHECKING:  # results are read without numpy
    from draftcheck.trial.simulate.traces import Ints, Trace

BACKENDS = {
    "transformers": "draftcheck.trial.backends.transformers.backend",
    "llama.cpp": "draftcheck.trial.backends.llamacpp.backend",
    "vllm": "draftcheck.trial.backends.vllm.backend",
    "endpoint": "draftcheck.trial.backends.endpoint.backend",
}
PACKAGES = {"transformers": ("torch", "transformers"), "vllm": ("vllm",)}
"""What a backend cannot do without; the others say themselves what they lack."""
EXTRA = {"transformers": ", it comes with the trial extra"}
INSTALL = {
    "transformers": "pip install 'draftcheck-llm[trial]'",
    "llama.cpp": "pip install 'draftcheck-llm[llama]', or put llama-server on PATH",
    "vllm": "pip install vllm",
}


class BrokenDraft(Exception):
    """The draft turned out unusable; the text says how."""


class NotNumbers(Exception):
    """Logits hold NaN or infinity."""


class CannotVerify(Exception):
    """No real speculative run can be made here; the text says why."""


class Interrupted(Exception):
    """A side went away half-way; what it had done by then is kept."""

    def __init__(
        self, words: str, texts: Sequence[TargetText] = (), traces: Sequence[Trace] = ()
    ) -> None:
        super().__init__(words)
        self.texts, self.traces = list(texts), list(traces)


@dataclass(frozen=True, slots=True)
class TrialOptions:
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
    kept: bool = False
    """The target's texts are at hand, so it need not write."""
    target_url: str | None = None
    """A server that writes the target's texts."""
    target_model: str | None = None
    """What that server calls the target."""
    draft_url: str | None = None
    """A llama-server that reads them as the draft."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetText:
    """A prompt and what the target made of it."""

    category: str
    prompt: Ints
    tokens: Ints
    temperature: float = 0.0
    """What the tokens were chosen at."""


@dataclass(frozen=True, slots=True)
class VerifiedRun:
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

    def generate(self, prompts: Sequence[Prompt], options: TrialOptions) -> list[TargetText]:
        """The target's own continuations."""
        ...

    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> list[Trace]:
        """What the draft thinks of them."""
        ...

    def costs(self, sequences: int, context: int) -> Costs | None:
        """Seconds per step; None where they cannot be measured."""
        ...

    def floor(self) -> Costs | None:
        """Seconds per step if reading the weights were all there is to it."""
        ...

    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        """Speculate for real."""
        ...

    def limits(self) -> Mapping[str, Any]:
        """Facts that bound the trial: rows, context."""
        ...

    def close(self) -> None:
        """Give back what is loaded; may be called twice."""
        ...


def missing(name: str) -> str | None:
    """Why a backend cannot run here, in a line; None: it can."""
    for package in PACKAGES.get(name, ()):
        if find_spec(package) is None:
            return f"{package} is not installed" + EXTRA.get(name, "")
    if name in PACKAGES:
        return None
    found: str | None = import_module(BACKENDS[name]).available()
    return found


def choose(target: str, draft: str, options: TrialOptions) -> str:
    """The backend that the files and servers named ask for."""
    from draftcheck.trial import gguf_files

    if options.target_url is not None:
        return "endpoint"
    if options.draft_url is not None:
        return "llama.cpp"
    pair = gguf_files.is_gguf(target) and gguf_files.is_gguf(draft)
    names = ("llama.cpp", "transformers") if pair else ("transformers",)
    why = {name: missing(name) for name in names}
    found = next((name for name in names if why[name] is None), None)
    if found is not None:
        return found
    raise UsageError(
        "no backend can run this pair: "
        + "; ".join(f"{name}: {reason}" for name, reason in why.items()),
        hint="; or ".join(INSTALL[name] for name in names) + ".",
    )


def open_backend(name: str | None, target: str, draft: str, options: TrialOptions) -> Backend:
    """Load both models; a UsageError says what is missing. None: chosen by the files."""
    name = name or choose(target, draft, options)
    if name not in BACKENDS:
        raise UsageError(f"no backend {name!r}", hint=f"Known: {', '.join(BACKENDS)}.")
    if (why := missing(name)) is not None:
        raise UsageError(f"a trial with {name} cannot run: {why}", hint=INSTALL.get(name))
    try:
        module = import_module(BACKENDS[name])
    except ImportError as error:
        raise UsageError(f"a trial with {name} cannot run: {error}", INSTALL.get(name)) from error
    opened: Backend = module.open(target, draft, options)
    return opened
