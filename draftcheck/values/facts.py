"""Facts: what the files of one model say. No opinion, no I/O.

``None`` always means "not read"; an id that a model is known not to have is ``NO_TOKEN``.
Every part knows, under ``origin``, the file that a value came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftcheck.values.results import PublicResult

NO_TOKEN = -1
"""A special token that the files say does not exist (llama.cpp's LLAMA_TOKEN_NULL)."""
MLX_ALONE = "mlx_key_alone"
"""In ``quantization``: config.json has mlx-lm's own key, and no quantization_config beside it."""
OLDER_KEY = "compression_config_alone"
"""In ``quantization``: it stands under compression_config, as older compressed-tensors wrote it."""
INNER = "in_text_part"
"""In ``quantization``: it stands in the part of config.json that describes the language model."""
OWN_FILE = "in_hf_quant_config"
"""In ``quantization``: it stands in QUANT_FILE alone, as older versions of ModelOpt wrote it."""
QUANT_FILE = "hf_quant_config.json"

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
    thinking_switch: bool | None = None
    """Whether the chat template can switch thinking on and off (enable_thinking)."""
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
    text_architectures: tuple[str, ...] | None = None
    """Of a model with several parts: the classes that its language model's part names."""
    vocab_size: int | None = None
    """config.json vocab_size (text_config first), or the GGUF's number of tokens."""
    vocab_size_outside: bool | None = None
    """Whether a config with a text part states vocab_size beside it: pipeline() reads that one."""
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
    ids_inside: tuple[str, ...] | None = None
    """Of a config with a text part: which of these ids stand in it; pipeline() reads no others."""
    generation_eos_ids: tuple[int, ...] | None = None
    use_cache: bool | None = None
    """What generate() starts from: generation_config.json, or config.json where there is none."""
    cache_kind: str | None = None
    """cache_implementation of the language model in config.json; "unset" where none is stated."""
    generation_cache_kind: str | None = None
    """The same in generation_config.json; "unset" too where there is no such file."""
    generation_version: str | None = None
    """The transformers_version that generation_config.json states."""
    mrope: bool | None = None
    """Rotary positions in several dimensions (vision models)."""
    positions: str | None = None
    """rope, learned, alibi, sinusoidal …"""
    remote_code: bool | None = None
    mtp_layers: int | None = None
    """Multi-token-prediction layers that the config promises."""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of config.json that decide the memory of a token or a sequence, as written."""
    origin: Origin = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that the bytes of a checkpoint prove; rules say what it means."""

    kind: str
    """pointer, header, span, cut-off, missing-shard, missing-parameter, shape …"""
    file: str
    says: str
    tensor: str | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.says}" if self.file else self.says


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
    part_fault: str | None = None
    """A later part of a split file that says it is another one."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The vocabulary keys that llama.cpp's converter would write for a checkpoint folder.

    ``None`` for an id or a flag means that the key would be absent.
    """

    model: str
    pieces: bool | None = None
    """True: the texts come from a SentencePiece file."""
    bos_id: int | None = None
    eos_id: int | None = None
    add_bos: bool | None = None
    add_eos: bool | None = None


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """What a head (or the MTP layers of a whole model) needs of its target."""

    kind: str | None = None
    """eagle, eagle3, mtp, medusa, mlp_speculator, dflash, dspark …; full for a whole model."""
    form: str | None = None
    """speculators, checkpoint or gguf."""
    form_version: str | None = None
    layer_type: str | None = None
    """model_type of the head's own layers, where the speculators format names it."""
    declared: tuple[str, ...] | None = None
    """Fields of this record that the config states; the weights say the rest."""
    hidden: int | None = None
    target_hidden: int | None = None
    """Width of the target's hidden states, where the config names it."""
    layers: int | None = None
    aux_layers: tuple[int, ...] | None = None
    """Target layers whose states the head reads, as numbered in the file."""
    aux_place: str | None = None
    """The part of the config that lists them: root, eagle_config, dflash_config."""
    aux_key: str | None = None
    """The name that the list has there."""
    aux_count: int | None = None
    aux_number: int | None = None
    """How many layers it reads, where the config states a number (num_aux_hidden_states)."""
    use_aux_hidden_state: bool | None = None
    """False: it reads the last states alone."""
    fc_in: int | None = None
    fc_out: int | None = None
    fc_bias: bool | None = None
    eagle_fc_bias: bool | None = None
    """Whether the config announces that bias."""
    vocab: int | None = None
    """Vocabulary of the target that it was made for."""
    draft_vocab: int | None = None
    draft_vocab_named: bool | None = None
    """Whether the root of the config has the key draft_vocab_size, if only as null."""
    d2t: int | None = None
    """Entries of the table from its own ids to the target's; 0: there is no such table."""
    d2t_fault: str | None = None
    """First fault in the table, empty when there is none."""
    d2t_sorted: bool | None = None
    d2t_last: int | None = None
    """Highest target id in the table."""
    t2d: int | None = None
    lm_head: bool | None = None
    lm_head_rows: int | None = None
    embed_tokens: bool | None = None
    mask_token_id: int | None = None
    mask_keys: tuple[str, ...] | None = None
    """Where the config names the mask token: mask_token_id, dflash_config.mask_token_id …"""
    block_size: int | None = None
    block_key: str | None = None
    """The name that the block size has in the config: block_size, dspark_block_size."""
    markov_rank: int | None = None
    """Of a DSpark head: rank of the step from one drafted token to the next."""
    markov_head_type: str | None = None
    markov_place: str | None = None
    """The part of the config that states the rank: root, dspark_config, dflash_config."""
    sample_from_anchor: bool | None = None
    """Of a block: the slot of the last token proposes too."""
    mtp_promised: int | None = None
    mtp_present: int | None = None
    """Multi-token-prediction layers among the tensor names."""
    mtp_beside: int | None = None
    """The same with the folder's other safetensors files, where the model's own hold too few."""
    mtp_unlisted: bool | None = None
    """Whether there is an index, which leaves those other files out."""
    medusa_heads: int | None = None
    medusa_names: str | None = None
    """Whose names the tensors of Medusa heads have: medusa (j.0.linear.weight) or vllm."""
    medusa_bias_dropped: bool | None = None
    """There are biases, and the config does not announce them (medusa_fc_bias)."""
    mask_hidden: bool | None = None
    """Whether the weights of a P-EAGLE head have the state that stands for later tokens."""
    norm_before_fc: bool | None = None
    norm_place: str | None = None
    """The part of the config that sets it: root, eagle_config."""
    fc_norm: bool | None = None
    norm_before_residual: bool | None = None
    norm_output: bool | None = None
    """Of EAGLE 3.1: the states for the next token are those behind the last norm."""
    verifier_architectures: tuple[str, ...] | None = None
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def block_drafts(self) -> int | None:
        """Tokens that a block head was made to propose in one pass; None: it is none.

        A whole model (DeepSeek V4) may hold DSpark stages, under a name of their own.
        """
        inside = self.block_key == "dspark_block_size"
        if self.block_size is None or (self.kind == "full" and not inside):
            return None
        anchor = self.sample_from_anchor
        if anchor is None:  # DSpark does as it is published, not in the speculators format
            anchor = (self.kind == "dspark" or inside) and self.form != "speculators"
        return max(1, self.block_size if anchor else self.block_size - 1)


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: it is large
class ModelFacts(PublicResult):
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
    bases: Mapping[str, str] = field(default_factory=dict)
    """Models that its publisher says it was made from -> how: quantized, finetune … or nothing."""
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
    gated: bool | None = None
    """Its publisher decides who may have its files; None: not that anybody knows."""
    origin: Origin = field(default_factory=dict)

    def __repr__(self) -> str:
        about = (self.kind, self.role, self.config.model_type, self.refused and "not read")
        return f"<ModelFacts {self.called!r}: {', '.join(filter(None, about))}>"

    @property
    def called(self) -> str:
        """The name to use for the model itself, in commands and for engines that look at it."""
        return self.name or self.ref

    @property
    def rows(self) -> int | None:
        """Rows of the embedding: from the weights, else what the config promises."""
        rows = self.weights.embedding_rows
        return rows if rows is not None else self.config.vocab_size
