"""What must hold for any config of a family, not only for the models that we know."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from draftcheck.errors import ReadError
from draftcheck.memory import caches, fit, profiles, shape
from draftcheck.memory.caches import ServedLoad
from draftcheck.memory.from_config import ShapeUnknown
from draftcheck.versions import build, pep440
from tests.memory.memory_models import facts

ENGINES = {
    "llama.cpp": profiles.load("llama.cpp", "b11312", build),
    "vllm": profiles.load("vllm", "0.32.0", pep440),
    "sglang": profiles.load("sglang", "0.5.23", pep440),
    "transformers": profiles.load("transformers", "5.22.2", pep440),
    "exllamav3": profiles.load("exllamav3", "1.6.5", pep440),
}
few = settings(max_examples=60, deadline=None)


@st.composite
def attention(draw: st.DrawFn) -> dict[str, Any]:
    kv = draw(st.sampled_from([1, 2, 4, 8, 16]))
    dim = draw(st.sampled_from([64, 80, 96, 128, 256]))
    heads = kv * draw(st.integers(1, 8))
    return {
        "num_hidden_layers": draw(st.integers(1, 64)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": dim,
        "hidden_size": heads * dim,
        "intermediate_size": draw(st.integers(64, 30000)),
        "vocab_size": 32000,
        "torch_dtype": "bfloat16",
    }


def cache(engine: str, table: shape.Shape, context: int, sequences: int = 1) -> int:
    profile = ENGINES[engine]
    assert profile is not None
    fold = caches.FOLDS[profile.cache]
    load = ServedLoad(profile, context, sequences, 16, 16)
    return fold(load, table, None).target


@few
@given(attention(), st.integers(1, 1 << 20))
def test_plain_attention_is_the_textbook_formula(config: dict[str, Any], context: int) -> None:
    table = fit.table(facts("any", model_type="llama", **config))
    token = 2 * 2 * config["num_key_value_heads"] * config["head_dim"]
    token *= config["num_hidden_layers"]
    padded = {"llama.cpp": 256, "vllm": 16, "sglang": 1, "transformers": 1, "exllamav3": 256}
    for engine, step in padded.items():
        assert cache(engine, table, context) == -(-context // step) * step * token, engine


@few
@given(attention(), st.integers(1, 4096), st.integers(1, 1 << 18), st.integers(2, 8))
def test_windows_never_cost_more_than_full_layers(
    config: dict[str, Any], window: int, context: int, period: int
) -> None:
    local = fit.table(
        facts("any", model_type="gemma3_text", sliding_window=window,
              sliding_window_pattern=period, **config)
    )  # fmt: skip
    full = fit.table(facts("any", model_type="llama", **config))
    for engine in ("llama.cpp", "transformers", "sglang"):
        assert cache(engine, local, context) <= cache(engine, full, context), engine
    slides = [layer.window is not None for layer in local.layers]
    assert slides == [i % period != period - 1 for i in range(len(slides))]


@few
@given(attention(), st.integers(1, 100_000), st.integers(1, 16))
def test_memory_grows_with_context_and_sequences(
    config: dict[str, Any], context: int, sequences: int
) -> None:
    table = fit.table(facts("any", model_type="qwen3", **config))
    for engine in ENGINES:
        here = cache(engine, table, context, sequences)
        assert here <= cache(engine, table, context + 1, sequences)
        assert here <= cache(engine, table, context, sequences + 1)


@few
@given(
    attention(),
    st.integers(1, 8),
    st.sampled_from([4, 8, 16, 32]),
    st.sampled_from([64, 128]),
    st.integers(1, 1 << 17),
)
def test_delta_nets(
    config: dict[str, Any], interval: int, heads: int, dim: int, context: int
) -> None:
    """State does not depend on the context; llama.cpp keeps it in float32."""
    table = fit.table(
        facts("any", model_type="qwen3_next", full_attention_interval=interval,
              linear_num_key_heads=heads // 2, linear_num_value_heads=heads,
              linear_key_head_dim=dim, linear_value_head_dim=dim, linear_conv_kernel_dim=4,
              **config)
    )  # fmt: skip
    count = config["num_hidden_layers"]
    linear = count - count // interval
    state = 4 * linear * (heads * dim * dim + 3 * (2 * (heads // 2) * dim + heads * dim))
    token = 4 * config["num_key_value_heads"] * config["head_dim"] * (count // interval)
    padded = -(-context // 256) * 256
    assert cache("llama.cpp", table, context) == state + padded * token


@few
@given(
    st.integers(1, 80), st.sampled_from([256, 512]), st.sampled_from([0, 32, 64]),
    st.integers(1, 1 << 17),
)  # fmt: skip
def test_latents_do_not_depend_on_heads(layers: int, rank: int, rope: int, context: int) -> None:
    tables = [
        fit.table(
            facts("any", model_type="deepseek_v3", num_hidden_layers=layers,
                  num_attention_heads=heads, hidden_size=4096, kv_lora_rank=rank,
                  qk_rope_head_dim=rope, qk_nope_head_dim=128, v_head_dim=128,
                  torch_dtype="bfloat16")
        )
        for heads in (16, 128)
    ]  # fmt: skip
    for engine in ENGINES:
        assert cache(engine, tables[0], context) == cache(engine, tables[1], context)
    assert cache("transformers", tables[0], context) == context * layers * (rank + rope) * 2


@few
@given(attention(), st.integers(1, 128), st.sampled_from([16, 64, 128]), st.integers(1, 8))
def test_mamba_2(config: dict[str, Any], heads: int, size: int, groups: int) -> None:
    table = fit.table(
        facts("any", model_type="granitemoehybrid", mamba_n_heads=heads, mamba_d_head=64,
              mamba_n_groups=groups, mamba_d_state=size, mamba_d_conv=4,
              layer_types=["mamba"] * config["num_hidden_layers"], **config)
    )  # fmt: skip
    inner = heads * 64
    one = 4 * (3 * (inner + 2 * groups * size) + inner * size)
    assert cache("llama.cpp", table, 8192) == one * config["num_hidden_layers"]
    assert cache("llama.cpp", table, 8192, 3) == 3 * one * config["num_hidden_layers"]


numbers = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-4, 300),
    st.text(max_size=5), st.floats(), st.lists(st.integers(-3, 3), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip
names = st.sampled_from(sorted(
    {"num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size",
     "sliding_window", "sliding_window_pattern", "kv_lora_rank", "layer_types", "vocab_size",
     "linear_attn_config", "full_attn_idxs", "attn_type_list", "mamba_d_conv", "mamba_d_state",
     "mamba_n_heads", "no_rope_layers", "num_kv_shared_layers", "conv_L_cache", "attn_layer_period"}
))  # fmt: skip
types = st.sampled_from(
    ["llama", "gemma3_text", "qwen3_next", "deepseek_v3", "jamba", "lfm2", "kimi_linear", "minimax",
     "llama4_text", "granitemoehybrid", "falcon_h1", "nemotron_h", "mamba", "mamba2", "new", None]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(types, st.dictionaries(names, numbers, max_size=6))
def test_any_config_gives_a_table_or_a_reason(kind: str | None, fields: dict[str, Any]) -> None:
    try:
        table = fit.table(facts("any", model_type=kind, **fields))
    except (ReadError, ShapeUnknown) as error:
        assert str(error)
    else:
        assert_sensible(table)


def assert_sensible(table: shape.Shape) -> None:
    for layer in table.layers:
        assert layer.width >= 0
        assert layer.state >= 0
    for engine in ("llama.cpp", "transformers", "sglang", "exllamav3"):
        assert cache(engine, table, 100) >= 0
