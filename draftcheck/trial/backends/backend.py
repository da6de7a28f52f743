"""What a trial asks of a backend, and the backends there are.

A new backend is a module with open(target, draft, options) -> Backend, named in BACKENDS. It gets
a folder of its own and derives from Backend, or from Sides where target and draft are loaded
apart. Modules that BACKENDS names are imported when they are used: most need torch or an engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from draftcheck.errors import ReadError, UsageError, did_you_mean
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import HeadRun, MeasuredModel, VerifiedRun
from draftcheck.trial.speedup import LONGEST, Costs

if TYPE_CHECKING:  # backends are chosen without numpy
    from draftcheck.trial.simulate.traces import Ints, PassCounts, Trace

BACKENDS = {
    "transformers": "draftcheck.trial.backends.transformers.backend",
    "llama.cpp": "draftcheck.trial.backends.llamacpp.backend",
    "vllm": "draftcheck.trial.backends.vllm.backend",
    "endpoint": "draftcheck.trial.backends.endpoint",
}
HEADS = ("dflash", "dspark", "eagle", "eagle3", "medusa", "mlp_speculator", "mtp", "peagle")
"""Kinds of heads that a trial can measure."""
ALONE = ("transformers", "llama.cpp")
"""Backends that measure what a target brings along."""
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


class StoppedWriting(KeyboardInterrupt):
    """The user wants no more; what the target had written by then."""

    def __init__(self, texts: Sequence[TargetText]) -> None:
        super().__init__()
        self.texts = texts


class CannotVerify(Exception):
    """No real speculative run can be made here; the text says why."""


@dataclass(frozen=True, slots=True)
class TrialOptions:
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
    engine: str | None = None
    """Whose way of running heads is taken; None: the usual one."""
    wrote: Callable[[float], None] = lambda _: None
    """Is told how many prompts are answered, parts of answers included."""
    begun: Callable[[list[int], list[int]], object] = lambda *_: None
    """Is told of a text under way: its prompt, and the list that its tokens go into."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetText:
    """A prompt and what the target made of it."""

    category: str
    prompt: Ints
    tokens: Ints
    temperature: float = 0.0


def check_rows(text: TargetText, rows: int | None) -> None:
    """Ids that the draft has no row for end an engine, whatever the acceptance."""
    top = max(int(ids.max(initial=0)) for ids in (text.prompt, text.tokens))
    if rows is not None and top >= rows:
        raise BrokenDraft(
            f"the target's text holds token {top}, and the draft has {rows:,} rows:"
            " the draft cannot read it"
        )


def draft_not_numbers() -> BrokenDraft:
    return BrokenDraft("the draft's logits are not numbers (NaN or inf)")


def target_not_numbers(where: object) -> ReadError:
    return ReadError(f"{where}: the target's logits are not numbers (NaN or inf)")


@dataclass(frozen=True, slots=True)
class BackendLimits:
    """Sizes that bound a trial; None: not known."""

    target_rows: int | None
    """Tokens of the vocabulary, as rows of the embedding table."""
    target_context: int | None
    draft_rows: int | None
    draft_context: int | None
    longest: int = LONGEST
    """Tokens that the draft can propose in one pass; 0: there is none."""

    @property
    def contexts(self) -> list[int]:
        """Those that are known."""
        return [size for size in (self.target_context, self.draft_context) if size]


class Backend(ABC):
    """Target and draft, loaded: everything that a trial asks of them.

    A backend must write the target's texts and read them as the draft does. What it cannot
    measure it leaves to the defaults, which say so.
    """

    name: str
    device: str
    dtype: str

    def __init__(self) -> None:
        self.remarks: list[str] = []
        """What the user should know about how it was measured; any member may add to it."""
        self.models: Mapping[str, MeasuredModel] = {}
        """Which "target" and "draft" were loaded; empty: the files that were named say it."""
        self.translation: str | None = None
        """How texts come from one vocabulary to the other; None: ids mean the same."""
        self.shared: float | None = None
        """With a translation: share of the target's tokens that the draft has too."""
        self.head_run: HeadRun | None = None
        """Of a head: what it is, and how it was run."""
        self.speedups: Mapping[int, float] = {}
        """By draft length, of real runs; empty: none were made, or not timed."""

    @property
    def notes(self) -> Sequence[str]:
        """Remarks so far, for the result."""
        return self.remarks

    @abstractmethod
    def limits(self) -> BackendLimits:
        """Rows and contexts of both models."""

    @abstractmethod
    def generate(self, prompts: Sequence[Prompt], options: TrialOptions) -> Iterable[TargetText]:
        """The target's own continuations; what came before a ReadError or Ctrl-C counts."""

    @abstractmethod
    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> Iterable[Trace]:
        """The draft's choices at every token of the texts. Raises ReadError, BrokenDraft."""

    def costs(self, sequences: int, context: int) -> Costs | None:
        """Seconds per step; None where they cannot be measured."""
        return None

    def floor(self) -> Costs | None:
        """Seconds per step if reading the weights were all there is to it; None: not known."""
        return None

    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        """Speculate for real with drafts of g tokens."""
        raise CannotVerify("this backend has no speculation of its own")

    def cause(self) -> str | None:
        """Why nothing is accepted, when the models tell."""
        return None

    def reencoded(
        self, texts: Sequence[TargetText], longest: int, first: int
    ) -> Mapping[int, PassCounts]:
        """With a translation: draft lengths for engines that encode text anew; else empty."""
        return {}

    def close(self) -> None:  # noqa: B027 (most backends have nothing to do)
        """Give back what is loaded; may be called twice."""


def missing(name: str) -> str | None:
    """Why a backend cannot run here, in a line; None: it can."""
    for package in PACKAGES.get(name, ()):
        if find_spec(package) is None:
            return f"{package} is not installed" + EXTRA.get(name, "")
    if name in PACKAGES or not hasattr(module := import_module(BACKENDS[name]), "available"):
        return None
    found: str | None = module.available()
    return found


def choose(target: str, draft: str | None, options: TrialOptions) -> str:
    """The backend that the files and servers named ask for."""
    from draftcheck.trial import model_places

    if options.target_url is not None:
        return "endpoint"
    if options.draft_url is not None:
        return "llama.cpp"
    ggufs = all(model_places.is_gguf(model) for model in (target, draft) if model is not None)
    names: tuple[str, ...] = ("llama.cpp", "transformers") if ggufs else ("transformers",)
    if ggufs and draft is None:  # MTP layers of a GGUF are read by llama.cpp alone
        names = ("llama.cpp",)
    why = {name: missing(name) for name in names}
    found = next((name for name in names if why[name] is None), None)
    if found is not None:
        return found
    raise UsageError(
        "no backend can run this pair: "
        + "; ".join(f"{name}: {reason}" for name, reason in why.items()),
        hint="; or ".join(INSTALL[name] for name in names) + ".",
    )


def instead_of(name: str, target: str) -> str:
    """Why the engine that people run such files in does not measure them, where it does not."""
    from draftcheck.trial import model_places

    if name != "transformers" or not model_places.is_gguf(target):
        return ""
    usual = "llama.cpp"
    return f" because {missing(usual) or 'it was asked for'}; speeds will not be those of {usual}"


def open_backend(
    name: str | None, target: str, draft: str | None, options: TrialOptions
) -> Backend:
    """Load both models; a UsageError says what is missing. No name: chosen by the files."""
    name = name or choose(target, draft, options)
    if draft is None and (name not in ALONE or options.draft_url is not None):
        raise UsageError(f"a trial with {name} needs a draft", hint="Name it behind the target.")
    if name not in BACKENDS:
        raise UsageError(f"no backend {name!r}", hint=did_you_mean(name, BACKENDS))
    if (why := missing(name)) is not None:
        raise UsageError(f"a trial with {name} cannot run: {why}", hint=INSTALL.get(name))
    try:
        module = import_module(BACKENDS[name])
    except ImportError as error:
        raise UsageError(f"a trial with {name} cannot run: {error}", INSTALL.get(name)) from error
    opened: Backend = module.open(target, draft, options)
    return opened
