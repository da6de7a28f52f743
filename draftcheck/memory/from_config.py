"""config.json -> the table of layers. Families are rules/tables/memory.toml; knows no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from draftcheck.memory import profiles, shape
from draftcheck.memory.profiles import PLAIN_CONFIG, ConfigFamily, config_defaults
from draftcheck.memory.shape import LayerShape, Shape
from draftcheck.values.dtypes import dtype_bytes
from draftcheck.values.facts import ModelFacts

KIND_NAMES = {
    "full_attention": "full", "attention": "full", "global": "full", "global_attention": "full",
    "compressed_sparse_attention": "other", "sliding_attention": "sliding",
    "local_attention": "sliding", "sliding": "sliding", "chunked_attention": "chunked",
    "linear_attention": "linear", "mamba": "mamba", "mamba2": "mamba", "conv": "conv",
    "hybrid": "both", "mlp": "none", "moe": "none", "*": "full", "M": "mamba", "-": "none",
    "E": "none",
}  # fmt: skip


class ConfigFields:
    """Fields of one config, checked; a default of the model's class where it has none."""

    def __init__(self, values: Mapping[str, Any], defaults: Mapping[str, Any], where: str) -> None:
        self.values, self.defaults, self.where = values, defaults, where

    def raw(self, name: str) -> Any:
        return self.values[name] if name in self.values else self.defaults.get(name)

    def number(self, *names: str, least: int = 1, most: int = shape.MAX_SIDE) -> int | None:
        """Find the first of these fields that is there; absurd numbers are refused by name."""
        for places in (self.values, self.defaults):
            for name in names:
                value = places.get(name)
                if value is None or (places is self.defaults and name in self.values):
                    continue
                if value == "auto":
                    continue
                if type(value) is not int or not least <= value <= most:
                    raise shape.bad(self.where, name, value)
                return value
        return None

    def need(self, *names: str) -> int:
        number = self.number(*names)
        if number is None:
            raise ShapeUnknown(f"{names[0]} is not given")
        return number


class ShapeUnknown(Exception):
    """The table cannot be made; the words say why."""


def read(facts: ModelFacts) -> Shape:
    """Make the table of a checkpoint folder; ShapeUnknown when its config says too little."""
    config = facts.config
    name = config.model_type or ""
    tables = config_defaults()
    fields = ConfigFields(config.sizes, tables.get(name, {}), facts.ref)
    count = fields.number(
        "num_hidden_layers", "n_layer", "num_layers", "n_layers", most=shape.MAX_LAYERS
    )
    pattern = fields.raw("hybrid_override_pattern")
    if count is None and isinstance(pattern, str):
        count = len(pattern)
    if count is None and config.layer_kinds:
        count = len(config.layer_kinds)
    if not count:
        raise ShapeUnknown("config.json gives no number of layers")
    family = profiles.table().family.get(name, PLAIN_CONFIG)
    notes: list[str] = []
    kinds, least = _kinds(config.layer_kinds, fields, family, count, notes, name in tables)
    build = _LayerBuilder(fields, family)
    layers = _share(tuple(build.layer(kind) for kind in kinds), fields)
    floor = _share(tuple(build.layer(kind) for kind in least), fields) if least else None
    if name not in tables:
        notes.append(f"model type {name or 'none'!r} is not known: plain attention is assumed")
    dtypes = [fields.raw(key) for key in ("mamba_ssm_dtype", "mamba_ssm_cache_dtype")]
    dense = fields.number("intermediate_size", "n_inner", "ffn_dim", least=0) or 0
    expert = fields.number("moe_intermediate_size", least=0) or 0
    used = fields.number("num_experts_per_tok", least=0) or 0
    return Shape(
        layers=layers,
        hidden=build.hidden,
        heads=build.heads,
        feed_forward=max(dense, expert * used) or 4 * build.hidden,
        vocab=fields.number("vocab_size") or config.vocab_size or 0,
        max_context=config.scaled_context or config.context,
        head_dim=build.head_dim,
        float_bytes=dtype_bytes(config.dtype) or 2,
        state_dtype=next((text for text in dtypes if text and isinstance(text, str)), None),
        moe=bool(config.experts),
        arch=name,
        floor=floor,
        notes=tuple(notes),
    )


def _kinds(
    listed: Sequence[str] | None,
    fields: ConfigFields,
    family: ConfigFamily,
    count: int,
    notes: list[str],
    known: bool,
) -> tuple[list[str], list[str] | None]:
    """The kind of each layer, and what they may be instead where the config leaves it open."""
    pattern = fields.raw("hybrid_override_pattern")
    if listed or isinstance(pattern, str):
        names = list(listed or pattern)[:count]
        kinds = [KIND_NAMES.get(name, "other") for name in names]
        kinds += ["full"] * (count - len(kinds))
        if "other" in kinds:
            odd = names[kinds.index("other")]
            notes.append(f"layers of kind {odd[:40]!r} are not known: full attention is the bound")
            least = ["none" if kind == "other" else kind for kind in kinds]
            return ["full" if kind == "other" else kind for kind in kinds], least
        return kinds, None
    if family.layers is not None:
        return _by_rule(fields, family, count), None
    slides = (
        fields.raw("sliding_window") is not None and fields.raw("use_sliding_window") is not False
    )
    if slides and not known:
        notes.append("sliding_window is given, but not for which layers")
        return ["full"] * count, ["sliding"] * count
    return ["full"] * count, None


def _every(fields: ConfigFields, family: ConfigFamily, count: int) -> list[str]:
    """One full layer per period, the others by window or chunk."""
    period = family.period
    key = fields.raw(family.period_key)
    if isinstance(key, int) and not isinstance(key, bool) and key > 0:
        period = key
    elif isinstance(key, str) and key:
        return ["sliding" if key[i % len(key)] == "L" else "full" for i in range(count)]
    if fields.raw("sliding_window") is None and family.word is None:
        return ["full"] * count
    at = 0 if family.full_first else period - 1
    local = family.word or "sliding"
    words = ["full" if i % period == at else local for i in range(count)]
    if family.last_full:
        words[-1] = "full"
    return words


def _by_rule(fields: ConfigFields, family: ConfigFamily, count: int) -> list[str]:
    """The kind of each layer by the rule that the family's row names."""
    numbers = range(count)
    listed = fields.raw(family.indices) if family.indices else None
    match family.layers:
        case "every":
            return _every(fields, family, count)
        case "all":  # every layer slides when there is a window
            return ["full" if fields.raw("sliding_window") is None else "sliding"] * count
        case "late":  # those from max_window_layers on slide, when sliding is switched on
            if not fields.raw("use_sliding_window") or fields.raw("sliding_window") is None:
                return ["full"] * count
            first = fields.number("max_window_layers", least=0) or 0
            return ["sliding" if i >= first else "full" for i in numbers]
        case "interval":  # linear attention, and full attention at the end of every interval
            named = fields.number("full_attention_interval", most=shape.MAX_LAYERS)
            period = named or family.period
            return ["full" if (i + 1) % period == 0 else "linear" for i in numbers]
        case "chunks":  # Llama 4: layers without rotary positions see everything, others a chunk
            ropes = fields.raw("no_rope_layers")
            if not isinstance(ropes, list) or len(ropes) != count:
                named = fields.number("no_rope_layer_interval", most=shape.MAX_LAYERS)
                every = named or family.period
                ropes = [int((i + 1) % every != 0) for i in numbers]
            if fields.raw("attention_chunk_size") is None:
                return ["full"] * count
            return ["chunked" if rope else "full" for rope in ropes]
        case "period-offset":  # Jamba: attention at one place of every period
            period = fields.number("attn_layer_period", most=shape.MAX_LAYERS) or 8
            offset = fields.number("attn_layer_offset", least=0) or 0
            return ["full" if i % period == offset else "mamba" for i in numbers]
        case "indices":  # attention in the layers that are listed; elsewhere the other kind
            other = family.word or "full"
            if not isinstance(listed, list):
                return ["full" if other == "conv" else other] * count
            return ["full" if i in listed else other for i in numbers]
        case "pattern-list":  # a list of 0 and 1 per layer
            if not isinstance(listed, list) or len(listed) < count:
                return ["full"] * count
            return [family.words[1 if entry else 0] for entry in listed[:count]]
        case "kimi":  # Kimi Linear: lists of layers, counted from 1
            table = fields.raw("linear_attn_config")
            full = table.get("full_attn_layers") if isinstance(table, dict) else None
            if not isinstance(full, list):
                return ["full" if (i + 1) % 4 == 0 else "linear" for i in numbers]
            return ["full" if i + 1 in full else "linear" for i in numbers]
    return [family.word or "full"] * count  # one-kind


def _share(layers: tuple[LayerShape, ...], fields: ConfigFields) -> tuple[LayerShape, ...]:
    """The last layers of Gemma 3n and 4 use the cache of earlier ones."""
    shared = fields.number("num_kv_shared_layers", least=0, most=shape.MAX_LAYERS) or 0
    own = max(0, len(layers) - shared)
    return layers[:own] + tuple(
        replace(layer, kind=shape.NONE, k=0, v=0, kv_heads=0) for layer in layers[own:]
    )


class _LayerBuilder:
    """Makes a layer of the kind that a word names."""

    def __init__(self, fields: ConfigFields, family: ConfigFamily) -> None:
        self.fields, self.family = fields, family
        self.hidden = fields.need("hidden_size", "n_embd", "d_model", "dim")
        self.heads = fields.number("num_attention_heads", "n_head", "num_heads") or 1
        given = None
        if fields.raw("head_dim") != 0:
            given = fields.number("head_dim", "hidden_size_per_head")
        self.head_dim = given or max(1, self.hidden // self.heads)
        self.kv_heads = self._kv_heads()

    def _kv_heads(self) -> int:
        fields = self.fields
        if fields.raw("multi_query") is True and not fields.raw("new_decoder_architecture"):
            return 1
        given = fields.number(
            "n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num",
            "num_attention_groups",
        )  # fmt: skip
        if given is not None and given > max(self.heads, 1) * 8:
            raise shape.bad(fields.where, "num_key_value_heads", given)
        return given or self.heads

    def layer(self, word: str) -> LayerShape:
        if word == "none":
            return LayerShape(kind=shape.NONE)
        if word == "mamba":
            return self._mamba(LayerShape(kind=shape.NONE))
        if word == "both":
            return self._mamba(self._attention("full"))
        if word == "linear":
            return self._linear()
        if word == "conv":
            kernel = self.fields.need("conv_L_cache")
            return LayerShape(
                kind=shape.NONE, state_kind=shape.CONV, conv=self.hidden, kernel=kernel
            )
        return self._attention(word)

    def _attention(self, word: str) -> LayerShape:
        fields = self.fields
        latent = fields.number("kv_lora_rank", least=0)
        if latent:
            return self._mla(latent)
        local = word in ("sliding", "chunked")
        window = None
        if word == "sliding":
            window = fields.number("sliding_window", "sliding_window_size", most=shape.MAX_WINDOW)
        elif word == "chunked":
            window = fields.number("attention_chunk_size", most=shape.MAX_WINDOW)
        kv_heads, k = self.kv_heads, self.head_dim
        v = fields.number("v_head_dim", least=0) or k  # 0: DeepSeek without latents
        if local:
            kv_heads = fields.number("swa_num_key_value_heads") or kv_heads
            k = fields.number("swa_head_dim") or k
            v = fields.number("swa_v_head_dim", "swa_head_dim") or v
        elif wide := fields.number("global_head_dim"):
            k = v = wide
            if fields.raw("attention_k_eq_v") is True:
                kv_heads = fields.number("num_global_key_value_heads") or kv_heads
        kind = {"sliding": shape.SLIDING, "chunked": shape.CHUNKED}.get(word, shape.FULL)
        if window is None:
            kind = shape.FULL
        return LayerShape(kind=kind, kv_heads=kv_heads, k=k, v=v, window=window)

    def _mla(self, latent: int) -> LayerShape:
        rotary = self.fields.number("qk_rope_head_dim", least=0) or 0
        plain = self.fields.number("qk_nope_head_dim", least=0) or 0
        value = self.fields.number("v_head_dim", least=0) or 0
        return LayerShape(
            kind=shape.MLA,
            kv_heads=1,
            k=latent + rotary,
            v=latent,
            expanded=self.heads * (plain + rotary + value),
            index=self.fields.number("index_head_dim", least=0) or 0,
        )

    def _mamba(self, base: LayerShape) -> LayerShape:
        """Mamba-2 where there are heads of its own, else Mamba-1."""
        fields = self.fields
        kernel = fields.need("mamba_d_conv", "conv_kernel")
        size = fields.need("mamba_d_state", "ssm_state_size", "state_size")
        expand = fields.number("mamba_expand", "expand") or 2
        heads = fields.number("mamba_n_heads", "mamba_num_heads")
        if heads is None and self.family.mamba == 2:
            heads = fields.number("num_heads")
        if heads is None:
            inner = fields.number("intermediate_size") if self.family.inner else None
            inner = inner or expand * self.hidden
            return replace(
                base, state_kind=shape.MAMBA1, conv=inner, kernel=kernel, state=inner * size
            )
        inner = fields.number("mamba_d_ssm") or expand * self.hidden
        dim = fields.number("mamba_d_head", "mamba_head_dim")
        if dim is None:
            dim = fields.number("head_dim") if self.family.mamba == 2 else inner // heads
        dim = dim or 1
        groups = fields.number("mamba_n_groups", "n_groups") or 1
        return replace(
            base,
            state_kind=shape.MAMBA2,
            conv=heads * dim + 2 * groups * size,
            kernel=kernel,
            state=heads * dim * size,
            groups=groups,
            per_group=2 * size,
        )

    def _linear(self) -> LayerShape:
        """Gated delta net, KDA or plain linear attention, by the fields that are there."""
        fields = self.fields
        table = fields.raw("linear_attn_config")
        if isinstance(table, dict):
            inner = ConfigFields(table, {}, fields.where)
            dim, heads = inner.number("head_dim") or 128, inner.number("num_heads") or self.heads
            kernel = inner.number("short_conv_kernel_size") or 4
            return LayerShape(
                kind=shape.NONE, state_kind=shape.KDA, conv=3 * heads * dim, kernel=kernel,
                state=heads * dim * dim,
            )  # fmt: skip
        values = fields.number("linear_num_value_heads")
        if values is None:
            dim = self.head_dim
            return LayerShape(
                kind=shape.NONE, state_kind=shape.LINEAR, state=self.heads * dim * dim
            )
        keys = fields.need("linear_num_key_heads")
        key, value = fields.need("linear_key_head_dim"), fields.need("linear_value_head_dim")
        return LayerShape(
            kind=shape.NONE,
            state_kind=shape.DELTA,
            conv=2 * keys * key + values * value,
            kernel=fields.number("linear_conv_kernel_dim") or 4,
            state=values * value * key,
        )
