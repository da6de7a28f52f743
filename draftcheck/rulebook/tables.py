"""rules/tables: what an engine's code lists (architectures, classes, tokenizers), by version.

Only the tables that an engine's rules name in `[engine] tables` are here, because the rulebook
hands them to the checks; every other table has its type in the package that reads it.
Bounds are builds or versions; `since` tables list names under the first build that has them,
`absent` ones under the newest build that was read and does not have them yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text

TableName = Literal[
    "llamacpp-vocabulary", "llamacpp-architectures", "llamacpp-conversion", "vllm-mtp"
]
NamesByBuild = Mapping[str, Names]
BuildByName = Mapping[str, str]


class FirstBuilds(RuleRow, frozen=True):
    """Names by the first build that knows them."""

    since: NamesByBuild


class KnownNames(FirstBuilds, frozen=True):
    """The same, and names that the newest build read before did not know.

    A first build may be followed by the one that took the names away again.
    """

    absent: NamesByBuild


class ArchitectureKinds(RuleRow, frozen=True):
    """Architectures that are treated alike."""

    no_memory: Names
    encoder_decoder: Names
    recurrent: Names
    vision: Names
    projectors: Names
    heads: Names
    rope_over_whole_head: Names
    output_of_another_width: Names


class RequiredKey(RuleRow, frozen=True):
    """A hyperparameter that the loader cannot do without."""

    key: Text
    type: str | None = None
    """The only one it may have; None: not checked here."""
    architectures: Names | None = None
    """Those that ask for it; None: all."""
    since: str | None = None
    until: str | None = None


class TypedKeys(RuleRow, frozen=True):
    """Optional hyperparameters that must have one type where they are stored."""

    keys: Mapping[str, str]
    every_until: Text
    afterwards: Names
    every: Mapping[str, str]
    with_heads: Mapping[str, str]
    or_array: Mapping[str, str]


class ArchitectureTensors(RuleRow, frozen=True):
    """Tensors of one architecture."""

    once: Names
    per_layer: Names
    unfused: Names
    dense: Names = ()
    experts: Names = ()
    """Of a layer without and with experts; none named: files with experts are not checked."""
    known: Names | None = None
    """Everything that a file may hold; None: not checked."""
    biases: Names = ()
    """Those of a layer that may come with a bias."""
    fused: str | None = None
    """First build that takes attn_qkv for the three of `unfused`."""
    unless: str | None = None
    """A hyperparameter whose presence means other tensors."""


class MtpArchitectures(KnownNames, frozen=True):
    """Architectures whose own MTP layers can draft."""

    single: Names
    load_without: Names
    made_for: Mapping[str, str]


class LayerFeeds(KnownNames, frozen=True):
    """Architectures that hand out the inputs of their layers to heads."""

    last: Names


class TensorTypes(FirstBuilds, frozen=True):
    """Tensor types by the build that brought them, and by the one that dropped them."""

    until: NamesByBuild


class LlamaArchitectures(KnownNames, frozen=True):
    """llamacpp-architectures.toml."""

    foreign: Names
    """Beginnings of names that no architecture's tensors have."""
    kinds: ArchitectureKinds
    required: tuple[RequiredKey, ...]
    typed: TypedKeys
    tensors: Mapping[str, ArchitectureTensors]
    scales: NamesByBuild
    """What else than .weight a tensor's name may end in."""
    mtp: MtpArchitectures
    nextn: FirstBuilds
    feeds: LayerFeeds
    types: TensorTypes
    embedding_optional: NamesByBuild
    """Architectures whose files may lack token_embd.weight, by the first build that takes that."""
    asked_until: NamesByBuild
    """Architectures with a tensor each, by the first build that loads them without it."""


class WrittenMtp(RuleRow, frozen=True):
    """What the converter does with the MTP layers of a whole model, by class."""

    left_out: Names
    written: BuildByName


class ConvertedClasses(KnownNames, frozen=True):
    """Classes of config.json that the converter took later than their architecture."""

    text_since: Text
    """First build that goes by the class of the text part."""
    root_first: Names
    """Classes that it goes by even then."""
    through_text: BuildByName
    """Classes that it converts by their text part, from this build on."""


class FormerArchitecture(RuleRow, frozen=True):
    """What the converter wrote for a class before."""

    until: Text
    name: Text


class AttentionAlone(RuleRow, frozen=True):
    """What is written for a hybrid's class when no layer is recurrent."""

    since: Text
    dense: Text
    experts: Text


class QuantisedFolders(FirstBuilds, frozen=True):
    """Ways of quantising by the first build whose converter reads the weights."""

    never: Names
    surely: NamesByBuild
    """METHOD/ALGORITHM by the first build; others by that method are open."""


class LlamaConversion(RuleRow, frozen=True):
    """llamacpp-conversion.toml."""

    eagle3_layers: Text
    architectures: Mapping[str, Names]
    classes: ConvertedClasses
    formerly: Mapping[str, FormerArchitecture]
    with_experts: Mapping[str, str]
    attention_alone: Mapping[str, AttentionAlone]
    text_types: Mapping[str, str]
    """Architectures that a class writes for one model_type of its text part only."""
    quantised: QuantisedFolders
    heads: Mapping[str, BuildByName]
    mtp: WrittenMtp
    asserts_size: Names
    """Tokenizer models whose ids must all lie below vocab_size."""
    drops_pieces: Text
    """First build that leaves out the pieces of a SentencePiece file beyond it."""
    copies_output: Names
    """Architectures whose tied models were written with an output.weight while it was asked for."""
    drops_pieces_of: Names
    """Classes whose SentencePiece file is read in this way."""


class TokenizerKeys(RuleRow, frozen=True):
    """The keys of a tokenizer by the only type that they may have."""

    string: Names
    uint32: Names
    bool: Names
    early_bool: Names
    windows: BuildByName
    """Builds that read a key, where not all do: since, or since and until."""


class TokenizerBehaviour(RuleRow, frozen=True):
    """What changed in the loader, by first build."""

    counts_tokens: Text
    drops_default_ids_out_of_range: Text
    prints_end_tokens: Text
    wpm_puts_bos: Text
    checks_array_types: Text
    forces_add_bos: Text


class TokenizerModel(RuleRow, frozen=True):
    """One value of tokenizer.ggml.model, with the defaults that it brings."""

    name: Text
    type: Text
    bos: int
    eos: int
    add_bos: bool
    add_eos: bool
    others: Mapping[str, int] = {}
    pre: str | None = None
    since: str | None = None
    until: str | None = None
    absent: str | None = None


class PreTokenizers(KnownNames, frozen=True):
    """Values of tokenizer.ggml.pre, and what they switch."""

    needs_no_merges: Names
    needs_no_merges_since: Text
    plain_text: Names
    forced_add_bos: Names
    no_default_bos: Names
    add_bos: Names


class LlamaVocabulary(RuleRow, frozen=True):
    """llamacpp-vocabulary.toml."""

    control_texts: Names
    keys: TokenizerKeys
    behaviour: TokenizerBehaviour
    tokenizer_model: tuple[TokenizerModel, ...]
    pre: PreTokenizers


class VllmMtp(RuleRow, frozen=True):
    """vllm-mtp.toml: name -> window of versions, as versions.window reads it."""

    types: Mapping[str, str]
    containing: Mapping[str, str]
    with_layers: Mapping[str, str]
    architectures: Mapping[str, str]
    text_part: Mapping[str, str]
    ready: Mapping[str, str]
    instead: Mapping[str, str]
    keeps_class: Mapping[str, str]
    one_layer: Mapping[str, str]
    number_at_root: Mapping[str, str]
    zero_unless_stated: Mapping[str, str]
    number_needed: Mapping[str, str]
    refused_first: Mapping[str, str]
    one_token: Mapping[str, str]
    looks_for_weights: Mapping[str, Mapping[str, str]]
    reports_nothing: Mapping[str, str]


TYPES: Mapping[str, Any] = {
    "llamacpp-vocabulary": LlamaVocabulary,
    "llamacpp-architectures": LlamaArchitectures,
    "llamacpp-conversion": LlamaConversion,
    "vllm-mtp": VllmMtp,
}


def load(name: str) -> Any:
    """The table rules/tables/NAME.toml that an engine's head names."""
    return files.read(f"tables/{name}", TYPES[name])


def llama_architectures() -> LlamaArchitectures:
    """llama.cpp's architectures, for readers of GGUF files."""
    return files.read("tables/llamacpp-architectures", LlamaArchitectures)
