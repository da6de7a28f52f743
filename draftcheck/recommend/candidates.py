"""Models that may draft for a target: where they are found, and what keeps them from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from draftcheck.models.opening import OpenedModel
from draftcheck.values.words import Verdict

HEAD_WORDS = (
    "eagle", "speculator", "medusa", "mtp", "nextn", "dflash", "dspark", "hydra", "assistant",
)  # fmt: skip
"""Words in names and tags of heads; only a reason to look, never a proof."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that somebody listed; ``None`` means that the list did not say."""

    ref: str
    """As the user would write it: org/name, a path, ollama:name:tag."""
    source: str = "hub"
    """hub, named (by the user), beside (in the target's repo), or where on this disk it lies:
    hub-cache, lm-studio, ollama, llama.cpp, folder."""
    revision: str | None = None
    path: str | None = None
    """What to read, where that is not the reference itself."""
    parameters: int | None = None
    """Elements that the list counts; of packed weights they are fewer than the parameters."""
    files: tuple[str, ...] | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of tokenizer files, once they were asked for."""
    model_type: str | None = None
    architectures: tuple[str, ...] = ()
    packed: bool = False
    """Quantised, so that elements are not parameters."""
    tags: tuple[str, ...] = ()
    base_models: tuple[str, ...] = ()
    """What its card names: of a draft, mostly its donor. Never a proof of its target."""
    task: str | None = None
    downloads: int = 0
    likes: int = 0
    gated: bool = False
    disabled: bool = False
    opened: OpenedModel | None = field(default=None, compare=False, repr=False)
    """Its list of files, once it was asked for; none is needed for a model on this disk."""

    @property
    def author(self) -> str:
        return self.ref.partition("/")[0] if self.source == "hub" else ""

    @property
    def kind(self) -> str:
        """What the list makes of it: head, gguf, adapter, full or other; facts may correct it."""
        names = self.files or ()
        ggufs = any(name.endswith(".gguf") for name in names)
        weights = any(name.endswith((".safetensors", ".bin", ".pt", ".pth")) for name in names)
        if "adapter_config.json" in names and "config.json" not in names:
            return "adapter"
        if ggufs and not (weights and "config.json" in names):
            return "gguf"
        if self.files is not None and not weights:
            return "other"
        return "head" if self.looks_like_a_head else "full"

    @property
    def looks_like_a_head(self) -> bool:
        """Whether its name, tags or classes speak of a head."""
        words = (self.ref, *self.tags, *self.architectures, self.model_type or "")
        return any(sign in word.lower() for word in words for sign in HEAD_WORDS)

    def reject(self, rule: str, saw: str, verdict: Verdict = Verdict.INCOMPATIBLE) -> Rejection:
        return Rejection(self.ref, rule, saw, verdict, self.revision, self.source)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a candidate is none; undecided: not enough could be read."""

    draft: str
    rule: str
    """The rule that speaks against it, or the stage at which it was dropped."""
    saw: str
    verdict: Verdict = Verdict.INCOMPATIBLE
    revision: str | None = None
    source: str = "hub"
