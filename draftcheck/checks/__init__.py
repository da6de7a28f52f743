"""Checks: pure functions that rules name. (comparison, setup, *, params) -> Seen."""

from __future__ import annotations

from collections.abc import Callable

from draftcheck.checks import llama, model, vocabulary
from draftcheck.types import Seen

Check = Callable[..., Seen]

CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        vocabulary.relation_is,
        vocabulary.texts_differ,
        vocabulary.vocab_size_equal,
        vocabulary.ids_within_rows,
        vocabulary.same_behaviour,
        vocabulary.config_ids_equal,
        llama.llama_loads,
        llama.llama_load_is_known,
        llama.llama_vocab_type,
        llama.llama_special,
        llama.llama_size_gap,
        llama.llama_token_text,
        llama.llama_no_vocabulary,
        llama.llama_architecture_in,
        llama.llama_bos_exists,
        model.always,
        model.draft_is_full_model,
        model.draft_is_smaller,
        model.weights_are_safe,
        model.draft_context,
        model.draft_context_learned,
        model.heads_divisible,
        model.type_listed,
        model.draft_name_contains,
        model.not_multimodal,
        model.one_kind_of_cache,
        model.quantization_listed,
        model.quantization_deprecated,
        model.draft_tensor_parallel,
        model.single_rank,
        model.no_mrope,
        model.draft_name_dotted,
    )
}
