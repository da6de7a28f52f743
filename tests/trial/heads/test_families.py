"""Every family of heads drafts what a loop written out (naive.py) drafts, at every length."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from draftcheck.trial.backends.backend import BrokenDraft  # noqa: E402
from draftcheck.trial.backends.transformers.heads import backend  # noqa: E402
from draftcheck.trial.backends.transformers.heads.families import FAMILIES  # noqa: E402
from draftcheck.trial.backends.transformers.heads.readings import Head, HeadSource  # noqa: E402
from draftcheck.trial.backends.transformers.heads.ways import way  # noqa: E402
from tests.trial.heads import naive  # noqa: E402
from tests.trial.heads.tables import agree, table  # noqa: E402

SEEDS = (0, 1, 2)
SWA, FULL = "sliding_attention", "full_attention"
V, H = 40, 16
LAYER = {
    "hidden_size": H, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "rope_theta": 500.0, "rms_norm_eps": 1e-6, "vocab_size": V,
    "num_hidden_layers": 1, "max_position_embeddings": 512,
}  # fmt: skip


class Made:
    """Random tensors; norms are near one."""

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)

    def matrix(self, *shape: int) -> Any:
        return torch.randn(*shape, generator=self.random) * 0.4

    def norm(self, width: int = H) -> Any:
        return 1 + torch.randn(width, generator=self.random) * 0.3

    def layer(self, prefix: str, wide: int = H, qk_norm: bool = False) -> dict[str, Any]:
        """A decoder layer's tensors; wide: what queries, keys and values read."""
        sizes = {"q": (32, wide), "k": (16, wide), "v": (16, wide), "o": (H, 32)}
        made = {f"self_attn.{n}_proj.weight": self.matrix(*size) for n, size in sizes.items()}
        made |= {f"mlp.{n}_proj.weight": self.matrix(24, H) for n in ("gate", "up")}
        made |= {"mlp.down_proj.weight": self.matrix(H, 24)}
        made |= {f"{n}_layernorm.weight": self.norm() for n in ("input", "post_attention")}
        if qk_norm:
            made |= {f"self_attn.{n}_norm.weight": self.norm(8) for n in "qk"}
        return {f"{prefix}{name}": tensor for name, tensor in made.items()}

    def ids(self, count: int) -> Any:
        """d2t of a vocabulary of so many tokens."""
        chosen = torch.randperm(V, generator=self.random)[:count]
        return torch.sort(chosen).values - torch.arange(count)


def llama(seed: int, layers: int = 5) -> Any:
    config = LlamaConfig(
        vocab_size=V, hidden_size=H, intermediate_size=24, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=512,
        tie_word_embeddings=False,
    )  # fmt: skip
    return randomized(LlamaForCausalLM(config), seed)


def randomized(model: Any, seed: int) -> Any:
    made = Made(seed)
    for name, parameter in model.named_parameters():
        fresh = made.norm(parameter.numel()) if "norm" in name else made.matrix(parameter.numel())
        parameter.data = fresh.view(parameter.shape)
    return model.eval().float()


def head(kind: str, raw: dict[str, Any], weights: Any, target: Any, engine: str = "vllm") -> Head:
    return FAMILIES[kind](HeadSource(raw, weights, target, way(engine)))


def eagle3_weights(
    made: Made, prefix: str, ids: int, *, own: int | None = None, layers: int = 1, **more: bool
) -> dict[str, Any]:
    w = {"fc.weight": made.matrix(H, ids * H), "norm.weight": made.norm()}
    qk = more.get("qk_norm", False)
    w |= made.layer(prefix, 2 * H, qk_norm=qk) | {f"{prefix}hidden_norm.weight": made.norm()}
    for number in range(1, layers):
        w |= made.layer(f"layers.{number}.", qk_norm=qk)
    w |= {"input_norm.weight": made.norm(ids * H)}
    w |= {f"fc_norm.{number}.weight": made.norm() for number in range(ids)}
    if own is not None:
        w |= {"lm_head.weight": made.matrix(own, H), "d2t": made.ids(own)}
    return w


def told(**raw: Any) -> dict[str, Any]:
    return raw


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("raw", "ids", "own"),
    [
        (told(), [2], 24),  # 2, 5 // 2 and 5 - 3 without repeats
        (told(eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1, 4]}), [0, 1, 4], None),
        (told(eagle_aux_hidden_state_layer_ids=[4, 1], norm_output=True), [1, 4], 31),
        (told(norm_before_residual=True, norm_before_fc=True), [2], 24),
        (told(fc_norm=True, num_hidden_layers=3), [2], None),
        (told(eagle_config={"norm_before_fc": True}, fc_norm=True, norm_output=True), [2], 9),
    ],
)
def test_eagle3_as_published(seed: int, raw: dict[str, Any], ids: list[int], own: int) -> None:
    target, made = llama(seed), Made(seed + 100)
    config = {**LAYER, "model_type": "llama", **raw}
    flat = {**config, **raw.get("eagle_config", {})}
    w = eagle3_weights(made, "midlayer.", len(ids), own=own, layers=config["num_hidden_layers"])
    draft = naive.eagle3(target, flat, w, ids, norm_output=bool(raw.get("norm_output")))
    assert agree(head("eagle3", config, w, target), target, draft, seed) == 16


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("raw", "kind", "own", "engine", "before"),
    [
        (told(), "llama", 24, "vllm", True),
        (told(), "qwen3", None, "sglang", False),
        (told(norm_before_residual=False), "qwen3", 17, "vllm", False),
        (told(norm_before_residual=True, norm_before_fc=True), "llama", None, "transformers", True),
    ],
)
def test_eagle3_of_speculators(
    seed: int, raw: dict[str, Any], kind: str, own: int | None, engine: str, before: bool
) -> None:
    """Its own embeddings, a layer of Llama or Qwen3, and what an engine takes for granted."""
    target, made = llama(seed, 6), Made(seed + 200)
    layer = {**LAYER, "model_type": kind, "num_hidden_layers": 2}
    w = eagle3_weights(made, "layers.0.", 3, own=own, layers=2, qk_norm=kind == "qwen3")
    w["embed_tokens.weight"] = made.matrix(V, H)
    given = {"eagle_aux_hidden_state_layer_ids": [1, 2, 4], "speculators_model_type": "eagle3"}
    reader = head("eagle3", {**raw, **given, "transformer_layer_config": layer}, w, target, engine)
    ids = [2, 3, 5] if engine == "sglang" else [1, 2, 4]
    draft = naive.eagle3(target, {**layer, **raw, "norm_before_residual": before}, w, ids)
    assert agree(reader, target, draft, seed) == 16


@pytest.mark.parametrize("seed", SEEDS)
def test_eagle3_with_a_sliding_window(seed: int) -> None:
    target, made = llama(seed), Made(seed)
    layer = {**LAYER, "model_type": "qwen3", "num_hidden_layers": 3, "sliding_window": 5}
    w = eagle3_weights(made, "layers.0.", 1, layers=3, qk_norm=True)
    raw = {"speculators_model_type": "eagle3", "norm_before_residual": False}
    raw["transformer_layer_config"] = {**layer, "layer_types": [SWA, FULL, SWA]}
    draft = naive.eagle3(target, {**layer, "windows": [5, 99, 5]}, w, [2])
    assert agree(head("eagle3", raw, w, target), target, draft, seed) == 16


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
@pytest.mark.parametrize("name", ["enorm.weight", "layers.0.self_attn.q_norm.weight"])
def test_tensors_without_a_known_use_are_refused(kind: str, name: str) -> None:
    target, made = llama(0), Made(0)
    w = eagle3_weights(made, "layers.0.", 1)
    if kind == "eagle":
        w = {"fc.weight": made.matrix(H, 2 * H), **made.layer("layers.0.")}
    w["layers.0.self_attn.rotary_emb.inv_freq"] = made.norm(4)  # old files have it: no harm
    raw = {**LAYER, "model_type": "llama"}
    head(kind, raw, w, target)
    with pytest.raises(BrokenDraft, match=name.rpartition(".layers")[2]):
        head(kind, raw, {**w, name: made.norm()}, target)


@pytest.mark.parametrize("seed", SEEDS)
def test_eagle3_on_the_last_state_alone(seed: int) -> None:
    target, made = llama(seed), Made(seed)
    w = eagle3_weights(made, "midlayer.", 1)
    del w["fc.weight"]
    raw = {**LAYER, "model_type": "llama", "eagle_config": {"use_aux_hidden_state": False}}
    reader = head("eagle3", raw, w, target)
    assert reader.layers_read == ()
    assert agree(reader, target, naive.eagle3(target, LAYER, w, None), seed) == 16


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["speculators", "checkpoint"])
def test_peagle(seed: int, form: str) -> None:
    target, made = llama(seed, 6), Made(seed + 300)
    config = {**LAYER, "model_type": "llama", "num_hidden_layers": 2}
    w = eagle3_weights(made, "layers.0.", 2, own=24, layers=2)
    w["mask_hidden"] = made.matrix(1, 1, 2 * H)
    if form == "speculators":
        raw = {"speculators_model_type": "peagle", "transformer_layer_config": config}
        raw |= {"mask_token_id": 7}
        reader = head("peagle", raw, w, target)
    else:
        reader = head("eagle3", {**config, "ptd_token_id": 7}, w, target)
    draft = naive.eagle3(target, {**config, "mask_token_id": 7}, w, [2, 3])
    assert reader.leads
    assert agree(reader, target, draft, seed) == 16


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("layers", [1, 2])
def test_eagle(seed: int, layers: int) -> None:
    target, made = llama(seed), Made(seed + 400)
    w = {"fc.weight": made.matrix(H, 2 * H), "embed_tokens.weight": made.matrix(V, H)}
    for number in range(layers):
        w |= made.layer(f"layers.{number}.")
    del w["layers.0.input_layernorm.weight"]
    config = {**LAYER, "model_type": "llama", "num_hidden_layers": layers}
    reader = head("eagle", config, w, target)
    assert agree(reader, target, naive.eagle(target, config, w), seed) == 16


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("spelling", ["medusa", "vllm"])
def test_medusa(seed: int, spelling: str) -> None:
    target, made = llama(seed), Made(seed + 500)
    blocks = [
        ({"weight": made.matrix(H, H), "bias": made.matrix(H)}, made.matrix(V, H)) for _ in range(4)
    ]
    w: dict[str, Any] = {}
    for j, (linear, matrix) in enumerate(blocks):
        names = (f"{j}.0.linear", f"{j}.1.weight")
        if spelling == "vllm":
            names = (f"blocks.{j}.layers.0", f"lm_heads.{j}.weight")
        w |= {f"{names[0]}.{part}": tensor for part, tensor in linear.items()}
        w[names[1]] = matrix
    reader = head("medusa", {"medusa_fc_bias": True}, w, target)
    assert reader.longest == 4
    assert agree(reader, target, naive.medusa(target, blocks), seed) == 9
    for linear, _ in blocks:  # vLLM drops them if the config does not name them
        linear["bias"] = torch.zeros(H)
    dropped = head("medusa", {}, w, target)
    assert agree(dropped, target, naive.medusa(target, blocks), seed) == 9


def test_biases_that_only_vllm_drops_count_and_are_remarked() -> None:
    target = llama(0)
    w = {"0.0.linear.weight": torch.eye(H), "0.0.linear.bias": torch.ones(H)}
    loaded = backend.made("medusa", HeadSource({}, w, target, way(None)))
    assert loaded.head.blocks[0][0][1] is not None
    assert loaded.remarks == (
        "the head was run as its files say",
        "vllm runs it otherwise (its biases: False, not True): --engine vllm",
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tied", [False, True])
def test_mlp_speculator(seed: int, tied: bool) -> None:
    target, made = llama(seed), Made(seed + 600)
    raw = {"n_predict": 5, "inner_dim": 12, "emb_dim": H, "scale_input": tied, "tie_weights": tied}
    w: dict[str, Any] = {}
    for j in range(5):
        wide = H if j == 0 else 12
        if not tied or j < 2:
            w[f"proj.{j}.weight"] = made.matrix(12, wide)
        if not tied or j == 0:
            w |= {f"emb.{j}.weight": made.matrix(V, 12), f"head.{j}.weight": made.matrix(V, 12)}
            w |= {f"ln.{j}.weight": made.norm(12), f"ln.{j}.bias": made.matrix(12)}
    reader = head("mlp_speculator", raw, {f"speculator.{k}": v for k, v in w.items()}, target)
    assert agree(reader, target, naive.mlp_speculator(target, raw, w), seed) == 16


def block_weights(made: Made, layers: int, features: int) -> dict[str, Any]:
    w = {"fc.weight": made.matrix(H, features * H), "hidden_norm.weight": made.norm()}
    w["norm.weight"] = made.norm()
    for number in range(layers):
        w |= made.layer(f"layers.{number}.", qk_norm=True)
    return w


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("raw", "engine", "causal", "window"),
    [
        (told(), "vllm", [False, False], [None, None]),
        (told(), "transformers", [False, False], [None, None]),
        (told(layer_types=[SWA, FULL], sliding_window=3), "vllm", [True, False], [3, None]),
        (told(is_causal=True), "sglang", [True, True], [None, None]),
        (
            told(dflash_config={"use_swa": True, "swa_window_size": 4, "causal": False}),
            "vllm", [False, False], [4, 4],
        ),
    ],
)  # fmt: skip
def test_dflash(
    seed: int, raw: dict[str, Any], engine: str, causal: list[bool], window: list[int | None]
) -> None:
    """Layers are numbered by what they put out: 4 is the last one of five."""
    target, made = llama(seed), Made(seed + 700)
    w = block_weights(made, 2, 2)
    part = {"mask_token_id": 39, "target_layer_ids": [0, 4], **raw.get("dflash_config", {})}
    config = {**LAYER, "num_hidden_layers": 2, "block_size": 6, **raw, "dflash_config": part}
    reader = head("dflash", config, w, target, engine)
    whole = engine == "transformers"
    assert reader.longest == 5
    assert reader.leads == (whole or all(causal))
    assert reader.layers_read == (1, 5)
    draft = naive.block(
        target, {**config, "mask_token_id": 39}, w, [1, 5], causal=causal, window=window,
        size=6 if whole else None,
    )  # fmt: skip
    assert agree(reader, target, draft, seed) == 16


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("engine", "causal"), [("vllm", True), ("sglang", False)])
def test_dflash_of_speculators(seed: int, engine: str, causal: bool) -> None:
    target, made = llama(seed), Made(seed + 800)
    w = block_weights(made, 2, 2) | {"lm_head.weight": made.matrix(24, H), "d2t": made.ids(24)}
    layer = {**LAYER, "num_hidden_layers": 2}
    raw = {
        "speculators_model_type": "dflash", "transformer_layer_config": layer, "block_size": 6,
        "mask_token_id": 39, "aux_hidden_state_layer_ids": [1, 3],
        "sliding_window_non_causal": False,
    }  # fmt: skip
    ids = [1, 3] if engine == "vllm" else [2, 4]
    draft = naive.block(
        target, {**layer, "mask_token_id": 39}, w, ids, causal=[causal] * 2, window=[None] * 2
    )
    reader = head("dflash", raw, w, target, engine)
    assert agree(reader, target, draft, seed) == 16
    told = reader.choices(HeadSource(raw, w, target, way(engine)))
    assert told["layers that see their whole block"] == (0 if causal else 2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("anchor", [True, False])
def test_dspark(seed: int, anchor: bool) -> None:
    target, made = llama(seed), Made(seed + 900)
    w = block_weights(made, 2, 2) | {"lm_head.weight": made.matrix(24, H), "d2t": made.ids(24)}
    w |= {"markov_head.markov_w1.weight": made.matrix(V, 6) * 3}
    w |= {"markov_head.markov_w2.weight": made.matrix(24, 6)}
    raw = {**LAYER, "num_hidden_layers": 2, "block_size": 5 if anchor else 6, "mask_token_id": 39}
    raw |= {"target_layer_ids": [0, 2]} | ({} if anchor else {"sample_from_anchor": False})
    reader = head("dspark", raw, w, target)
    draft = naive.block(
        target, raw, w, [1, 3], causal=[False] * 2, window=[None] * 2, anchor=anchor
    )
    assert reader.longest == 5
    assert agree(reader, target, draft, seed) == 16


def test_a_batch_of_texts_is_read_as_each_alone() -> None:
    """Padding behind a text's end changes nothing before it."""
    target, made = llama(0), Made(1)
    raw = {**LAYER, "model_type": "llama"}
    reader = head("eagle3", raw, eagle3_weights(made, "midlayer.", 1, own=24), target)
    texts = [torch.randint(0, V, (n,), generator=made.random).tolist() for n in (14, 9)]
    for begin in (0, 3):
        whole = [table(reader, target, text, begin, 3) for text in texts]
        padded = table(reader, target, texts[1] + [0] * 5, begin, 3)
        assert padded[: len(texts[1]) - 3 - begin] == whole[1][: len(texts[1]) - 3 - begin]
