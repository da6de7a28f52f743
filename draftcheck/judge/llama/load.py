"""The whole of the loader for one model: file, architecture, vocabulary, embedding."""

from __future__ import annotations

import re

from draftcheck.judge.llama.build import Build, Keys, LoadFailure, NotTold, converted_architecture
from draftcheck.judge.llama.vocab import TOKENS, LlamaVocab, derive, from_conversion
from draftcheck.values.facts import ConfigFacts, GgufFacts, ModelFacts

View = LlamaVocab | LoadFailure | NotTold


def load(facts: ModelFacts, build: Build) -> View:
    """The vocabulary that this build holds afterwards, or why there is none."""
    try:
        gguf = facts.gguf
        if gguf is None:
            name = converted_architecture(facts, build)
            _plain(facts.config, build)
            if name is not None:
                _known(name, f"the converter writes architecture {name!r}", build)
                copied = name in build.conversion.copies_output
                held = "lm_head.weight" in (facts.weights.tensors or ())
                if facts.config.tied and not copied and not held:
                    _asked(name, "output.weight", build)
            return from_conversion(facts, build)
        _file(facts, gguf, build)
        _architecture(facts, gguf.keys, build)
        vocab = derive(gguf.keys, facts.tokenizer.tokens, build)
        _embedding(facts, gguf.keys, vocab.n, build)
        _tensors(facts, gguf.keys, build)
        if gguf.unaligned:
            build.fail("unaligned", "the first tensor does not lie on a multiple of 32 bytes")
        if vocab.n == 0:
            build.fail("empty-vocabulary", "the file has no tokens")
        return vocab
    except (LoadFailure, NotTold) as stop:
        return stop


def _file(facts: ModelFacts, gguf: GgufFacts, build: Build) -> None:
    if gguf.duplicate_key is not None:
        build.fail("duplicate-key", f"key {gguf.duplicate_key!r} stands twice")
    if gguf.tensor_fault is not None:
        build.fail("tensor-table", gguf.tensor_fault)
    # Types of tensors come with a build, and a few went again.
    table = build.architectures.types
    gone = {name for until, names in table.until.items() if build.has(until) for name in names}
    for name, tensor in (facts.weights.tensors or {}).items():
        if 0 in tensor.shape[:-1]:
            build.fail("empty-tensor", f"tensor {name!r} has the shape {tensor.shape}")
        if tensor.dtype in gone or build.before(tensor.dtype, table.since):
            build.fail("tensor-type", f"tensor {name!r} is of type {tensor.dtype}")
    if gguf.offset_fault is not None:
        build.fail("tensor-offsets", gguf.offset_fault)
    build.string(gguf.keys, "general.architecture")
    if gguf.data_short_by > 0:
        build.fail("cut-off", f"{gguf.data_short_by:,} bytes of tensor data are missing at the end")
    if (build.value(gguf.keys, "split.count", "uint16") or 0) > 1:
        for key, kind in (("split.no", "uint16"), ("split.tensors.count", "int32")):
            if build.value(gguf.keys, key, kind) is None:
                build.fail("missing-key", f"key {key} is missing")
    if gguf.split_fault is not None:
        build.fail("split", gguf.split_fault)
    if gguf.part_fault is not None:
        build.fail("part-number", gguf.part_fault)
    build.value(gguf.keys, "general.file_type", "uint32")


def _plain(config: ConfigFacts, build: Build) -> None:
    """The converter reads the weights, however they are quantised."""
    quant, table = config.quantization or {}, build.conversion.quantised
    method = str(quant.get("quant_method") or ("mlx" if "bits" in quant else ""))
    kind = f"{method}/{quant.get('quant_algo')}"
    if method in table.never or any(build.before(name, table.since) for name in (method, kind)):
        build.fail("not-convertible", f"this build's converter does not read {method} weights")
    listed = [(since, name) for since, names in table.surely.items() for name in names]
    doubtful = any(name.startswith(f"{method}/") for _, name in listed)
    if doubtful and not any(name == kind and build.has(since) for since, name in listed):
        raise NotTold(f"whether this build's converter reads {kind[:80]} weights")


def _known(name: str, words: str, build: Build) -> None:
    if not build.knows(name, build.architectures, "architecture"):
        build.fail("unknown-architecture", words)


def _asked(name: str, tensor: str, build: Build) -> None:
    """Older builds ask an architecture for a tensor that is not there."""
    if build.before(f"{name} {tensor}", build.architectures.asked_until):
        build.fail("missing-tensor", f"tensor {tensor} is missing")


def _architecture(facts: ModelFacts, keys: Keys, build: Build) -> None:
    """The architecture is known, and the keys that it needs are there."""
    name = build.string(keys, "general.architecture") or ""
    _known(name, f"general.architecture is {name!r}", build)
    if name in build.architectures.kinds.projectors:
        build.fail("projector", f"general.architecture is {name!r}")
    build.string(keys, "general.name")
    for row in build.architectures.required:
        asked = row.architectures is None or name in row.architectures
        key = f"{name}.{row.key}"
        if not asked or not build.has(row.since, row.until):
            continue
        if key not in keys:
            build.fail("missing-key", f"key {key} is missing")
        elif row.type is not None:
            build.value(keys, key, row.type)
    blocks = build.value(keys, f"{name}.block_count", "uint32")
    if blocks == 0:
        build.fail("no-blocks", f"{name}.block_count is 0")
    elif blocks is not None and blocks > 512:
        build.fail("many-blocks", f"{name}.block_count is {blocks:,}")
    typed = build.architectures.typed
    _, heads = keys.get(f"{name}.attention.head_count", ("", 0))
    with_heads = typed.with_heads if isinstance(heads, int) and heads > 0 else {}
    for key, wanted in {**typed.every, **with_heads}.items():
        kind, _, since = wanted.partition(" ")
        stored, _ = keys.get(f"{name}.{key}", (kind, None))
        listed = stored.startswith("array") and key in typed.or_array
        if build.has(since or None) and not (listed and build.has(typed.or_array[key])):
            build.value(keys, f"{name}.{key}", kind)
    if f"{name}.rope.scaling.factor" not in keys:  # then the old name of the key is read
        build.value(keys, f"{name}.rope.scale_linear", "float32")
    if not build.has(typed.every_until) or name in typed.afterwards:
        for key, kind in typed.keys.items():
            build.value(keys, f"{name}.{key}", kind)
        stored, _ = keys.get(TOKENS, ("array", None))  # counted where the size is not told
        if f"{name}.vocab_size" not in keys and not stored.startswith("array"):
            build.fail("key-type", f"{TOKENS} is stored as {stored}, expected an array")
    if name in build.architectures.kinds.rope_over_whole_head:
        stored = build.value(keys, f"{name}.rope.dimension_count", "uint32")
        size = facts.config.head_dim
        if stored is not None and size is not None and stored != size:
            build.fail("rope-dimension", f"rope.dimension_count is {stored}, head size {size}")
    layers = facts.head.mtp_present if facts.head else 0
    if layers and build.before(name, build.architectures.nextn.since):
        build.fail("nextn", f"{name} with {layers} MTP layer(s) among its blocks")


def _embedding(facts: ModelFacts, keys: Keys, rows: int, build: Build) -> None:
    """token_embd and output must have a row for each token; heads may borrow the target's."""
    tensors = facts.weights.tensors
    if facts.role not in ("full", "encoder") or tensors is None:
        return
    if not build.has(build.vocabulary.behaviour.counts_tokens):  # it believes the key instead
        arch = build.string(keys, "general.architecture") or ""
        stored = keys.get(f"{arch}.vocab_size", ("", None))[1]
        if isinstance(stored, int) and stored != rows:
            build.fail("embedding-rows", f"{arch}.vocab_size is {stored:,} for {rows:,} tokens")
    name, kinds = build.string(keys, "general.architecture"), build.architectures.kinds
    optional = build.architectures.embedding_optional
    lent = any(name in names and build.has(since) for since, names in optional.items())
    if "token_embd.weight" not in tensors and not lent:
        build.fail("no-weights", "tensor token_embd.weight is missing")
    other = name in kinds.output_of_another_width
    for name in ("token_embd.weight",) if other else ("token_embd.weight", "output.weight"):
        shape = tensors[name].shape if name in tensors else ()
        if len(shape) == 2 and shape[0] != rows:
            build.fail("embedding-rows", f"{name} has {shape[0]:,} rows for {rows:,} tokens")


def _tensors(facts: ModelFacts, keys: Keys, build: Build) -> None:
    """No tensor is foreign; those of each layer are there, where the architecture has a list."""
    table = build.architectures.tensors.get(facts.config.model_type or "")
    tensors = facts.weights.tensors
    for rows in build.architectures.asked_until.values() if tensors else ():
        for name, tensor in map(str.split, rows):
            if name == facts.config.model_type and tensor not in (tensors or ()):
                _asked(name, tensor, build)
    for name in tensors or ():
        if name.startswith(build.architectures.foreign):
            build.fail("extra-tensor", f"no architecture has a tensor {name!r}")
    experts = facts.config.experts
    if table is None or tensors is None or (experts and not table.experts):
        return
    if f"{facts.config.model_type}.{table.unless}" in keys:
        return
    wanted = list(table.once)
    for layer in range(min(facts.config.layers or 0, 512)):
        fused = build.has(table.fused) and f"blk.{layer}.attn_qkv.weight" in tensors
        names = table.per_layer + (() if fused else table.unfused)
        names += table.experts if experts else table.dense
        wanted += [f"blk.{layer}.{name}.weight" for name in names]
    for name in wanted:
        if name not in tensors:
            build.fail("missing-tensor", f"tensor {name} is missing")
    if experts:
        return
    # Query and feed-forward widths follow from the keys; a missing key counts as 0.
    config = facts.config
    query, inner = (config.heads or 0) * (config.head_dim or 0), config.feed_forward or 0
    expected = {
        "blk.0.attn_q.weight": ("attention.head_count", query),
        "blk.0.ffn_gate.weight": ("feed_forward_length", inner),
    }
    for name, (key, width) in expected.items():
        if keys.get(f"{config.model_type}.{key}", ("",))[0].startswith("array"):
            continue  # a width for each layer
        shape = tensors[name].shape if name in tensors else ()
        if len(shape) == 2 and shape[0] != width:
            build.fail("tensor-shape", f"{name} has {shape[0]:,} rows, the keys say {width:,}")
    if table.known is None:
        return
    scales = (
        name
        for since, names in build.architectures.scales.items()
        if build.has(since)
        for name in names
    )
    known = re.compile(
        rf"(blk\.\d+\.)?({'|'.join(table.known)})(\.({'|'.join(('weight', *scales))}))?"
        rf"|blk\.\d+\.({'|'.join(table.biases or ('-',))})\.bias"
    )
    for name in tensors:
        if known.fullmatch(name) is None:
            build.fail("extra-tensor", f"tensor {name!r} is not one of this architecture's")
