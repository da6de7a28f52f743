"""Names that engines understand, taken from their sources: what a setup may use, and no more."""

from __future__ import annotations


def _words(text: str) -> set[str]:
    return set(text.split())


CALLS = {
    # exllamav2 0.3.2: config.py, cache.py, tokenizer, generator/dynamic.py
    "ExLlamaV2Config": _words("model_dir"),
    "ExLlamaV2": _words("config lazy_load"),
    "ExLlamaV2Tokenizer": _words("config lazy_init force_json force_spm"),
    "ExLlamaV2Cache": _words("model batch_size max_seq_len copy_from lazy num_key_value_heads"),
    "ExLlamaV2DynamicGenerator": _words(
        "model cache tokenizer max_batch_size max_seq_len max_chunk_size max_q_size draft_model"
        " draft_cache num_draft_tokens use_ngram_draft max_ngram paged"
    ),
    # exllamav3 1.6.5: model/model.py, cache/cache.py, generator/generator.py
    "from_directory": _words("directory"),
    "from_config": _words("config component swa_full"),
    "Cache": _words("model max_num_tokens layer_type max_batch_size max_history recurrent_dtype"),
    "Generator": _words(
        "model cache tokenizer max_batch_size max_chunk_size max_q_size draft_model draft_cache"
        " num_draft_tokens ngram_match_min dynamic_draft_tokens draft_confidence"
    ),
    "generate": _words("prompt max_new_tokens"),
    # mlx-lm 0.32.2: generate.py
    "stream_generate": _words("max_tokens draft_model num_draft_tokens sampler prompt_cache"),
    # lmstudio 1.5.0
    "respond": _words("config"),
    # openvino-genai 2026.4.1: py_openvino_genai.pyi, llm/pipeline.cpp
    "LLMPipeline": _words("draft_model prompt_lookup scheduler_config ATTENTION_BACKEND"),
    "draft_model": _words("models_path device"),
    # TensorRT-LLM llm_args.py (0004396)
    "UserProvidedDecodingConfig": _words("max_draft_len drafter resource_manager"),
    "LLM": _words("speculative_config disable_overlap_scheduler"),
    # TensorRT-LLM 1.0.0: examples/llm_speculative_decoding, features/speculative-decoding
    "DraftTargetDecodingConfig": _words("max_draft_len speculative_model_dir"),
    "EagleDecodingConfig": _words("max_draft_len speculative_model_dir eagle3_one_model"),
    "MTPDecodingConfig": _words("num_nextn_predict_layers"),
    "NGramDecodingConfig": _words("max_draft_len max_matching_ngram_size"),
    "print": _words("end flush"),
}
ASSIGNED = {
    "config": _words("max_seq_len max_new_tokens num_assistant_tokens max_ngram_size"),
    "scheduler": _words("enable_prefix_caching cache_size"),
}
LMSTUDIO = _words("draftModel speculativeDecodingNumDraftTokensExact")
# TabbyAPI e632af4: common/config_models.py
TABBY_DRAFT = _words(
    "draft_mode draft_model_dir draft_model_name draft_rope_scale draft_rope_alpha"
    " draft_cache_mode draft_gpu_split draft_num_tokens dynamic_draft ngram_match_min"
)
TABBY_MODEL = _words(
    "model_dir model_name max_seq_len cache_size cache_mode max_batch_size tensor_parallel"
)
# TensorRT-LLM llm_args.py (0004396): the classes refuse every other key
TRT_ANY = _words(
    "decoding_type max_draft_len max_total_draft_tokens speculative_model max_concurrency"
    " draft_len_schedule load_format acceptance_rate_window_size acceptance_rate_threshold"
)
TRT = {
    "Draft_Target": _words(""),
    "Eagle3": _words("eagle3_layers_to_capture use_dynamic_tree"),
    "MTP": _words("use_mtp_vanilla"),
    "DFlash": _words("mask_token_id target_layer_ids"),
    "DSpark": _words("mask_token_id target_layer_ids block_size"),
    "PARD": _words("mask_token_id"),
    "NGram": _words("max_matching_ngram_size is_keep_all is_use_oldest is_public_pool"),
    "SA": _words("max_matching_ngram_size enable_global_pool"),
    "AUTO": _words(""),
}
FLAGS = {
    "trtllm-serve": _words("--config --max_seq_len --tp_size --max_batch_size"),
    "mlx_lm.generate": _words("--model --draft-model --num-draft-tokens --prompt --max-tokens"),
    "mlx_lm.server": _words("--model --draft-model --num-draft-tokens"),
}
