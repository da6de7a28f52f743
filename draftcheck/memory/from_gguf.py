"""GGUF keys -> the table of layers, as llama.cpp's load_hparams reads them. Exact arch prefix."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from draftcheck.memory import profiles, shape
from draftcheck.memory.from_config import ShapeUnknown
from draftcheck.memory.profiles import PLAIN_GGUF, GgufFamily
from draftcheck.memory.shape import LayerShape, Shape
from draftcheck.rulebook import tables
from draftcheck.values.facts import GgufArray, ModelFacts

INDEXED = 4
"""Compression ratio of the layers that have an indexer."""


class GgufKeys:
    """Keys of one architecture, checked."""

    def __init__(self, keys: Mapping[str, tuple[str, Any]], arch: str, where: str) -> None:
        self.keys, self.arch, self.where = keys, arch, where

    def number(self, name: str, least: int = 0, most: int = shape.MAX_SIDE) -> int | None:
        """Find a whole number; of an array its largest. Absurd ones are refused by name."""
        values = self.values(name, least, most)
        return None if values is None else max(values, default=None)

    def values(
        self, name: str, least: int = 0, most: int = shape.MAX_SIDE
    ) -> tuple[int, ...] | None:
        """Find the whole numbers of a key, one or an array of them."""
        full = f"{self.arch}.{name}"
        kind, value = self.keys.get(full, ("", None))
        if value is None or isinstance(value, GgufArray) or "float" in kind or "string" in kind:
            return None
        numbers = tuple(value) if isinstance(value, array | list) else (int(value),)
        for number in numbers:
            if not least <= number <= most:
                raise shape.bad(self.where, full, number)
        return numbers

    def per_layer(self, name: str, count: int, default: int) -> list[int]:
        """Find one number per layer, from a number or an array."""
        values = self.values(name)
        if values is None:
            return [default] * count
        if not self.is_array(name):
            return [values[0]] * count
        return padded(values, count, 0)

    def is_array(self, name: str) -> bool:
        return self.keys.get(f"{self.arch}.{name}", ("",))[0].startswith("array")


def padded(values: Sequence[int], count: int, fill: int) -> list[int]:
    return (list(values) + [fill] * count)[:count]


def read(facts: ModelFacts) -> Shape:
    """Make the table of a GGUF; ShapeUnknown when its keys do not say enough."""
    assert facts.gguf is not None
    arch = facts.config.model_type or ""
    keys = GgufKeys(facts.gguf.keys, arch, facts.ref)
    table = profiles.table().gguf.get(arch, PLAIN_GGUF)
    count = keys.number("block_count", least=1, most=shape.MAX_LAYERS)
    hidden = keys.number("embedding_length", least=1)
    if not count or not hidden:
        raise ShapeUnknown("the GGUF gives no number of layers or no width")
    trunk = max(0, count - (keys.number("nextn_predict_layers", most=count) or 0))
    heads = keys.per_layer("attention.head_count", count, 0)
    most_heads = max(heads, default=0)
    if keys.values("attention.head_count") is not None and not most_heads:
        raise shape.bad(facts.ref, f"{arch}.attention.head_count", 0)
    notes = []
    architectures = tables.llama_architectures()
    rows = (*architectures.since.values(), *architectures.absent.values())
    known = {name for names in rows for name in names}
    if arch not in known:
        notes.append(f"architecture {arch!r} is not known: plain attention is assumed")
    if table.unsure:
        notes.append(table.unsure)
    layers = _layers(keys, table, trunk, heads)
    if arch in architectures.kinds.no_memory:
        layers = [LayerShape(kind=shape.NONE)] * trunk
    if table.loops:
        loops = keys.number("num_loops", least=1) or 1
        if loops * len(layers) > shape.MAX_LAYERS:
            raise shape.bad(facts.ref, f"{arch}.num_loops", loops)
        layers = layers * loops
    dense = keys.number("feed_forward_length") or 0
    expert = keys.number("expert_feed_forward_length") or 0
    used = keys.number("expert_used_count") or 0
    return Shape(
        layers=tuple(layers),
        hidden=hidden,
        heads=most_heads or 1,
        feed_forward=max(dense, expert * used) or 4 * hidden,
        vocab=facts.weights.embedding_rows or facts.config.vocab_size or 0,
        max_context=facts.config.context,
        head_dim=hidden // (most_heads or 1),
        moe=bool(facts.config.experts),
        arch=arch,
        floor=tuple(replace(layer, window=1) if layer.attends else layer for layer in layers)
        if arch not in known or table.unsure
        else None,
        notes=tuple(notes),
    )


def _layers(keys: GgufKeys, table: GgufFamily, count: int, heads: list[int]) -> list[LayerShape]:
    kv = keys.per_layer("attention.head_count_kv", max(count, 1), -1)
    kv = [heads[i] if n < 0 else n for i, n in enumerate(kv[:count])]
    first = heads[0] if heads else 0
    hidden = keys.number("embedding_length") or 0
    width = hidden // first if first else 0
    full = (
        _or(keys.number("attention.key_length"), width),
        _or(keys.number("attention.value_length"), width),
    )
    local = (
        _or(keys.number("attention.key_length_swa"), full[0]),
        _or(keys.number("attention.value_length_swa"), full[1]),
    )
    latent = table.mla == "always"
    latent = latent or bool(table.mla and keys.number("attention.key_length_mla"))
    slides, window = _slides(keys, table, count)
    recurrent = _recurrent(keys, table, count, kv)
    owns = count  # layers from this one on use an earlier layer's cache
    if table.own_cache is not None:
        owns = table.own_cache
    elif table.shares:
        owns -= keys.number("attention.shared_kv_layers", most=shape.MAX_LAYERS) or 0
    index = _index(keys, table, count)
    state = _state(keys, table, first)
    forward = keys.per_layer("feed_forward_length", count, 0)
    layers = []
    for i in range(count):
        layer = LayerShape(kind=shape.NONE)
        attends = not recurrent[i] and not (table.ff_is_mlp and forward[i])
        if (attends or table.both) and i < owns and kv[i]:
            k, v = local if slides[i] else full
            kind = shape.MLA if latent else shape.SLIDING if slides[i] else shape.FULL
            layer = LayerShape(
                kind=kind, kv_heads=kv[i], k=k, v=v, window=window if slides[i] else None,
                index=index[i],
            )  # fmt: skip
        if recurrent[i]:
            layer = replace(layer, **state)
        layers.append(layer)
    if table.compressed:
        layers = _compressed(keys, layers)
    if table.history:
        # Layers with n-gram embeddings keep a window of them in the recurrent cache.
        kernel = keys.number("ple.conv_kernel") or 0
        words = keys.number("ple.ngram_size") or 0
        streams = keys.number("hyper_connection.count") or 0
        extra = max(kernel - 1, 0) * words * streams * hidden
        for at in keys.values("ple.layers") or ():
            if at < len(layers):
                layers[at] = replace(layers[at], state=layers[at].state + extra)
    return layers


def _compressed(keys: GgufKeys, layers: list[LayerShape]) -> list[LayerShape]:
    """DeepSeek-V4: a window of raw keys, and every 4th or 128th token compressed."""
    ratios = keys.values("attention.compress_ratios") or ()
    size = keys.number("attention.indexer.key_length") or 0
    compressed = []
    for i, layer in enumerate(layers):
        ratio = ratios[i] if i < len(ratios) else 0
        if ratio == INDEXED:
            # What is being compressed lies in float32 rows, with its scores.
            state = 2 * 2 * INDEXED * 2 * (layer.k + size)
            changes: dict[str, Any] = {"index": size, "state_kind": shape.LINEAR, "state": state}
        elif ratio > 1:
            changes = {"state_kind": shape.LINEAR, "state": 2 * ratio * layer.k}
        else:
            changes = {}
        compressed.append(replace(layer, ratio=max(ratio, 1), **changes))
    return compressed


def _or(value: int | None, other: int) -> int:
    return other if value is None else value


def _slides(keys: GgufKeys, table: GgufFamily, count: int) -> tuple[list[bool], int | None]:
    """Which layers slide, by the architecture's own rule; other architectures ignore the key."""
    window = keys.number("attention.sliding_window", most=shape.MAX_WINDOW)
    never = [False] * count
    rule = table.slide
    if rule is None or table.only_with_layers not in (None, count):
        return never, None
    if window is None or (table.window_fixed and window):
        window = window if table.window is None else table.window
    if not window:
        return never, None
    pattern = keys.values("attention.sliding_window_pattern")
    if pattern is not None and keys.is_array("attention.sliding_window_pattern"):
        return [bool(n) for n in padded(pattern, count, 0)], window
    if rule == "array":
        return never, None
    if rule == "all":
        return [True] * count, window
    period = pattern[0] if pattern else table.period
    if period == 0:
        return [True] * count, window
    if table.full_first:
        return [i % period != 0 for i in range(count)], window
    return [i % period < period - 1 for i in range(count)], window


def _recurrent(keys: GgufKeys, table: GgufFamily, count: int, kv: list[int]) -> list[bool]:
    rule = table.recurrent
    if rule == "all":
        return [True] * count
    if rule == "no-kv":
        forward = keys.per_layer("feed_forward_length", count, 0)
        mlp = [bool(table.ff_is_mlp and n) for n in forward]
        return [kv[i] == 0 and not mlp[i] for i in range(count)]
    if rule == "interval":
        listed = keys.values("attention.recurrent_layers")
        if listed is not None:
            return [bool(n) for n in padded(listed, count, 0)]
        period = keys.number("full_attention_interval", least=1) or table.period
        return [(i + 1) % period != 0 for i in range(count)]
    return [False] * count


def _index(keys: GgufKeys, table: GgufFamily, count: int) -> list[int]:
    """Elements of the indexer's keys per layer."""
    rule = table.index
    size = keys.number("attention.indexer.key_length") or 0
    if rule is None or not size:
        return [0] * count
    if table.index_pools and keys.number("attention.indexer.kpool"):
        size *= 3  # keys, and the two ends of what is pooled
    if rule == "types":
        listed = keys.values("attention.indexer.types")
        if listed is not None:
            return [size * bool(n) for n in padded(listed, count, 1)]
    if table.index_values:
        size += _or(keys.number("attention.value_length"), 0)
    if rule == "after-dense":
        dense = keys.number("leading_dense_block_count") or 0
        return [0 if i < dense else size for i in range(count)]
    return [size] * count


def _state(keys: GgufKeys, table: GgufFamily, heads: int) -> dict[str, Any]:
    """What a recurrent layer keeps per sequence: llama_hparams::n_embd_r and n_embd_s."""
    hidden = keys.number("embedding_length") or 0
    kind = table.state
    kernel = keys.number("ssm.conv_kernel") or 0
    if kind == "rwkv":
        shift = _or(keys.number("token_shift_count"), 2)
        head = keys.number("wkv.head_size") or 0
        return {
            "state_kind": shape.RWKV, "conv": shift * hidden, "kernel": 2, "state": hidden * head,
        }  # fmt: skip
    if kind == "conv":
        cache = keys.number("shortconv.l_cache") or 0
        return {"state_kind": shape.CONV, "conv": hidden, "kernel": cache}
    if kind == "kda":
        head = keys.number("kda.head_dim") or 0
        return {
            "state_kind": shape.KDA, "conv": 3 * heads * head, "kernel": kernel or 4,
            "state": heads * head * head,
        }  # fmt: skip
    if kind == "lightning":
        head = _or(keys.number("attention.key_length"), hidden // heads if heads else 0)
        return {"state_kind": shape.LINEAR, "state": heads * head * head}
    inner, size = keys.number("ssm.inner_size") or 0, keys.number("ssm.state_size") or 0
    groups = keys.number("ssm.group_count") or 0
    many = shape.DELTA if table.recurrent == "interval" else shape.MAMBA2
    return {
        "state_kind": many if groups else shape.MAMBA1,
        "conv": inner + 2 * groups * size,
        "kernel": kernel,
        "state": size * inner,
    }
