"""The values that travel between layers: enums and frozen dataclasses.

Standard library only, no I/O, no opinions. ``None`` always means "not read";
an id that a model is known not to have is ``NO_TOKEN``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftcheck.circumstances import Circumstances
from draftcheck.headfacts import HeadFacts
from draftcheck.memorytypes import MemoryFit
from draftcheck.weightfacts import Fault
from draftcheck.words import Outcome, Reaction, Relation, Severity, Verdict

__all__ = [
    "NO_TOKEN", "Behaviour", "Circumstances", "Comparison", "ConfigFacts", "Conversion",
    "Difference", "EngineVerdict", "Finding", "GgufArray", "GgufFacts", "ModelFacts", "Origin",
    "Outcome", "PairVerdict", "Reaction", "Relation", "Repair", "Seen", "Setup", "Severity",
    "SpecialToken", "Tensor", "TokenizerFacts", "Verdict", "VocabularyComparison", "WeightFacts",
    "WeightFile", "recorded_name",
]  # fmt: skip

NO_TOKEN = -1
"""A special token that the files say does not exist (llama.cpp's LLAMA_TOKEN_NULL)."""

Origin = Mapping[str, str]
"""Field name -> the file (and key) that the value came from."""


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """What the tokenizer files of one model say."""

    kind: str | None = None
    """byte-bpe, spm-bpe, unigram, wordpiece, wordlevel, rwkv, plamo2, none …"""
    pre: str | None = None
    """Pre-tokenizer: GGUF's name for it, or a digest of tokenizer.json's definition."""
    tokens: Sequence[bytes | None] | None = None
    """Token text by id, as UTF-8 bytes in the file's own spelling; None where no id is defined."""
    padding: frozenset[int] = frozenset()
    """Ids that only fill up rows ([PAD123] written by a converter)."""
    added: frozenset[int] = frozenset()
    special: frozenset[int] = frozenset()
    unnormalized: frozenset[int] = frozenset()
    """Added tokens matched before normalisation (``normalized: false``)."""
    byte_tokens: frozenset[int] = frozenset()
    base_size: int | None = None
    length: int | None = None
    """Highest defined id + 1."""
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int | None = None
    unk_id: int | None = None
    add_bos: bool | None = None
    add_eos: bool | None = None
    chat_template: str | None = None
    """sha256 of the chat template's text."""
    merges: str | None = None
    """sha256 over the merges in order."""
    behaviour: str | None = None
    """sha256 over everything else that decides how text is cut (normalizer, pre-tokenizer …)."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Tokenizer files and their sha256."""
    definition: str | None = None
    """Path of a tokenizer.json that the tokenizers library can load, when there is one."""
    origin: Origin = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """Architecture: what config.json, generation_config.json or GGUF keys say."""

    model_type: str | None = None
    """Of the language model; outer_type is the whole model's where it has several parts."""
    outer_type: str | None = None
    architectures: tuple[str, ...] | None = None
    vocab_size: int | None = None
    """config.json vocab_size (text_config first), or the GGUF's number of tokens."""
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    feed_forward: int | None = None
    context: int | None = None
    """max_position_embeddings or context_length, before rope scaling."""
    rope_scaling: Mapping[str, Any] | None = None
    scaled_context: int | None = None
    sliding_window: int | None = None
    layer_kinds: tuple[str, ...] | None = None
    experts: int | None = None
    experts_used: int | None = None
    tied: bool | None = None
    dtype: str | None = None
    quantization: Mapping[str, Any] | None = None
    multimodal: bool | None = None
    recurrent: bool | None = None
    """Some layer keeps a recurrent state (Mamba, RWKV, delta net) instead of a KV cache."""
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] | None = None
    eos_is_list: bool | None = None
    """Whether config.json gives eos as a list: pipeline() tells [1] from 1."""
    pad_token_id: int | None = None
    generation_eos_ids: tuple[int, ...] | None = None
    mrope: bool | None = None
    """Rotary positions in several dimensions (vision models)."""
    positions: str | None = None
    """rope, learned, alibi, none …"""
    remote_code: bool | None = None
    mtp_layers: int | None = None
    """Multi-token-prediction layers that the config promises."""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of config.json that decide the memory of a token or a sequence, as written."""
    origin: Origin = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One row of a weight file's header."""

    dtype: str
    shape: tuple[int, ...]
    file: str
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class WeightFile:
    name: str
    size: int
    format: str
    """safetensors, gguf, pickle, lfs-pointer, other."""
    tensors: int | None = None


@dataclass(frozen=True, slots=True)
class WeightFacts:
    """Weight files and what their headers list; never tensor data."""

    files: tuple[WeightFile, ...] | None = None
    tensors: Mapping[str, Tensor] | None = None
    parameters: int | None = None
    nbytes: int | None = None
    embedding_rows: int | None = None
    problems: tuple[str, ...] = ()
    faults: tuple[Fault, ...] | None = None
    """What the files prove to be wrong; empty: looked at and sound as far as could be told."""
    class_known: str | None = None
    """How names and shapes were held against the model's class: table, transformers, or not."""
    origin: Origin = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GgufArray:
    """An array that was counted, not kept."""

    type: str
    count: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class GgufFacts:
    """Keys of a GGUF file with their stored types: llama.cpp is strict about both."""

    version: int
    keys: Mapping[str, tuple[str, Any]]
    """Key -> (GGUF type name, value); arrays that were only counted hold a GgufArray."""
    data_short_by: int = 0
    """Bytes missing at the end of the file for the tensors it declares."""
    splits: int = 1
    duplicate_key: str | None = None
    tensor_fault: str | None = None
    """First thing in the tensor table that the reader of llama.cpp refuses."""
    offset_fault: str | None = None
    """Tensors that do not follow each other without gaps."""
    unaligned: bool = False
    """The first tensor does not lie on a multiple of 32 bytes."""
    split_fault: str | None = None
    """How the parts of a split file contradict each other."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The vocabulary keys that llama.cpp's converter would write for a checkpoint folder.

    ``None`` for an id or a flag means that the key would be absent.
    """

    model: str
    bos_id: int | None = None
    eos_id: int | None = None
    add_bos: bool | None = None
    add_eos: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: it is large
class ModelFacts:
    """Everything read about one model."""

    ref: str
    kind: str
    """folder, gguf, hub or ollama."""
    name: str | None = None
    """What the model was called when its facts were saved; ref is then the facts file."""
    revision: str | None = None
    role: str | None = None
    """full, or the kind of head: eagle, eagle3, mtp, medusa, mlp_speculator, dflash, dspark …"""
    verifier: str | None = None
    """The target a head says it was made for."""
    tokenizer: TokenizerFacts = field(default_factory=TokenizerFacts)
    config: ConfigFacts = field(default_factory=ConfigFacts)
    weights: WeightFacts = field(default_factory=WeightFacts)
    gguf: GgufFacts | None = None
    conversion: Conversion | None = None
    head: HeadFacts | None = None
    notes: tuple[str, ...] = ()
    """What could not be read, one sentence each."""
    download: str | None = None
    """The command that brings a remote model to this disk."""
    downloaded: str | None = None
    """What it is called there."""
    refused: str | None = None
    """Why none of its files could be read; then the listing is all that is known."""
    origin: Origin = field(default_factory=dict)

    @property
    def called(self) -> str:
        """The name to use for the model itself, in commands and for engines that look at it."""
        return self.name or self.ref

    @property
    def rows(self) -> int | None:
        """Rows of the embedding: from the weights, else what the config promises."""
        rows = self.weights.embedding_rows
        return rows if rows is not None else self.config.vocab_size


@dataclass(frozen=True, slots=True)
class Difference:
    """One id whose text is not the same on both sides."""

    id: int
    target: bytes | None
    draft: bytes | None


@dataclass(frozen=True, slots=True)
class VocabularyComparison:
    relation: Relation
    target_size: int | None = None
    draft_size: int | None = None
    differing_ids: int | None = None
    differences: tuple[Difference, ...] = ()
    """The first few, in order of id."""
    only_special: bool | None = None
    overlap: float | None = None
    """Share of the draft's token texts that the target has too, whatever their ids."""
    same_file: bool = False
    """Both sides have the same tokenizer file by its digest, so nobody read its texts."""

    @property
    def size_gap(self) -> int | None:
        if self.target_size is None or self.draft_size is None:
            return None
        return abs(self.target_size - self.draft_size)


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """One named special token, side by side (id, text)."""

    name: str
    target_id: int | None
    draft_id: int | None
    target_text: bytes | None
    draft_text: bytes | None


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Whether both tokenizers cut the same text into the same ids."""

    same: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sets of facts side by side; no opinion."""

    target: ModelFacts
    draft: ModelFacts
    vocabulary: VocabularyComparison
    specials: tuple[SpecialToken, ...]
    behaviour: Behaviour
    recorded: Mapping[str, Seen] = field(default_factory=dict)
    """What checks saw while the token texts were at hand, by recorded_name()."""

    @property
    def alone(self) -> bool:
        """There is no draft: the target stands on both sides."""
        return self.draft is self.target


def recorded_name(check: str, params: Mapping[str, Any]) -> str:
    """The name under which a comparison records what a check saw."""
    return " ".join([check, *(f"{name}={params[name]!r}" for name in sorted(params))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup(Circumstances):
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
    failures: frozenset[str] = frozenset()
    """Load failures that this version has: the `failure` parameters of its active rules."""
    memory: MemoryFit | None = None
    memo: dict[int, Any] = field(default_factory=dict, compare=False)
    """What checks worked out once for this verdict."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one check saw, with the proof in words."""

    outcome: Outcome
    saw: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule held against a comparison."""

    rule: str
    slug: str
    title: str
    severity: Severity
    outcome: Outcome
    reaction: Reaction
    saw: str
    why: str
    fix: str
    source: str
    basis: str
    engine_says: str | None = None


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


@dataclass(frozen=True, slots=True)
class PairVerdict:
    comparison: Comparison
    engines: tuple[EngineVerdict, ...]
    verdict: Verdict
