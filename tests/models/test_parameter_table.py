"""rules/tables/parameters.toml against transformers itself, for every class that the table knows.

The classes are built on the meta device: no weights, no download.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from draftcheck.models.readers import second_opinion
from draftcheck.models.readers.weights import families
from tests import make
from tests.conftest import Run
from tests.models.test_loadability import BROKEN, SOUND, Checkpoint, findings

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
transformers = pytest.importorskip("transformers", reason="the trial extra is not installed")
deep = pytest.importorskip("draftcheck.models.readers.weights.deep")

pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]
CONFIGS = 5
"""Random configs for each class."""


@pytest.fixture(autouse=True)
def _first_opinion_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """--deep starts a process for each weight file; what it says is tested in a file of its own."""
    monkeypatch.setattr(second_opinion, "notes", lambda *_: ())


def values(kind: str, rng: random.Random) -> dict[str, Any]:
    """Small sizes and random flags, under every name that some class has for them."""

    def flag() -> bool:
        return rng.random() < 0.5

    heads, layers = rng.choice([2, 4]), rng.choice([1, 2, 3])
    hidden, kv = heads * rng.choice([4, 8]), rng.choice([1, 2])
    sizes = {
        "vocab_size": rng.choice([33, 64]), "hidden_size": hidden, "n_embd": hidden,
        "d_model": hidden, "num_hidden_layers": layers, "n_layer": layers, "n_layers": layers,
        "num_layers": layers, "num_attention_heads": heads, "n_head": heads, "n_heads": heads,
        "num_heads": heads, "num_key_value_heads": kv, "num_kv_heads": kv,
        "head_dim": hidden // heads if kind == "helium" else rng.choice([4, 8, 16]),
        "intermediate_size": rng.choice([24, 40]), "n_inner": rng.choice([None, 20]),
        "ffn_dim": 30, "ffn_hidden_size": rng.choice([None, 28]), "n_positions": 19,
        "max_position_embeddings": 21, "word_embed_proj_dim": rng.choice([hidden, 8]),
        "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
        "moe_intermediate_size": 12, "shared_expert_intermediate_size": 10,
        "n_shared_experts": rng.choice([1, 2]), "num_experts_per_tok": 2,
        "first_k_dense_replace": rng.choice([0, 1, 2]), "decoder_sparse_step": rng.choice([1, 2]),
        "mlp_only_layers": rng.choice([[], [0]]), "q_lora_rank": rng.choice([None, 6]),
        "kv_lora_rank": 5, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 6,
        "n_group": 1, "topk_group": 1, "rotary_dim": 4, "pad_token_id": 0, "alibi": False,
    }  # fmt: skip
    names = (
        "tie_word_embeddings", "attention_bias", "attention_out_bias", "use_bias", "qkv_bias",
        "use_qkv_bias", "enable_bias", "bias", "lm_head_bias", "use_qk_norm", "multi_query",
        "do_layer_norm_before", "new_decoder_architecture", "parallel_attn",
        "use_parallel_residual",
    )  # fmt: skip
    flags: dict[str, Any] = {name: flag() for name in names}
    if kind != "deepseek_v2":  # the table declines it there
        flags["mlp_bias"] = flag()
    if kind == "gpt_neo":
        flags["attention_types"] = [[["global"], layers]]
    if kind == "mpt":
        del flags["bias"]
    return sizes | flags


def config_of(kind: str, rng: random.Random) -> Any:
    known = transformers.AutoConfig.for_model(kind)
    names = set(known.to_dict()) | set(getattr(known, "attribute_map", {}))
    chosen = {name: value for name, value in values(kind, rng).items() if name in names}
    return transformers.AutoConfig.for_model(kind, **chosen)


def as_file(config: Any, kind: str, cls: Any) -> dict[str, Any]:
    """What save_pretrained would write: values that equal the class's are left out."""
    raw: dict[str, Any] = json.loads(config.to_json_string(use_diff=True))
    return {**raw, "model_type": kind, "architectures": [cls.__name__]}


KINDS = [kind for row in families.table().family for kind in row.types]


def class_of(kind: str) -> Any:
    mapping = transformers.AutoModelForCausalLM._model_mapping
    return mapping[transformers.CONFIG_MAPPING[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_shapes_are_those_of_the_class(kind: str) -> None:
    rng = random.Random(kind)
    cls = class_of(kind)
    for _ in range(CONFIGS):
        config = config_of(kind, rng)
        raw = as_file(config, kind, cls)
        model = families.model(raw, raw)
        assert model is not None and cls.__name__ in model.classes, raw
        assert make.parameters_of(model) == deep.parameters(torch, cls, config), raw


@pytest.mark.parametrize("kind", KINDS)
def test_one_missing_and_one_misshapen_parameter(run: Run, tmp_path: Path, kind: str) -> None:
    """Table and class name the same parameter, in a folder that the class itself wrote."""
    rng = random.Random(kind)
    config, cls = config_of(kind, rng), class_of(kind)
    torch.manual_seed(0)
    folder = make.folder(tmp_path / "m")
    with torch.device("cpu"):
        cls(config).save_pretrained(folder)
    make.write_json(folder / "config.json", as_file(config, kind, cls))
    assert faults(run, folder) == faults(run, folder, "--deep") == {}
    stored = {n: (t.dtype, list(t.shape)) for n, t in tensors(folder).items()}
    body = sorted(name for name in stored if not name.startswith(("lm_head", "embed_out")))
    lost, bent = rng.sample(body, 2)
    dtype, shape = stored[bent]
    stored[bent] = (dtype, [*shape[:-1], shape[-1] + 1])
    del stored[lost]
    make.safetensors(folder / "model.safetensors", stored)
    table = faults(run, folder)
    assert lost in table["missing-parameter"] | table.get("unfamiliar", set())
    assert bent in table.get("shape", set()) | table.get("embedding-rows", set())
    found = faults(run, folder, "--deep")
    assert lost in found["missing-parameter"] and bent in found["shape"]


def tensors(folder: Path) -> Any:
    from draftcheck.models.readers.weights import safetensors_header
    from draftcheck.models.sources.folder import FolderSource

    return safetensors_header.read(FolderSource(folder), "model.safetensors")[0]


def faults(run: Run, folder: Path, *options: str) -> dict[str, set[str]]:
    ran = run("inspect", folder, "--format", "json", *options)
    assert ran.code == 0, ran.err
    weights = ran.json["facts"]["weights"]
    assert weights["class_known"].startswith("transformers" if options else "table")
    found: dict[str, set[str]] = {}
    for fault in weights["faults"]:
        found.setdefault(fault["kind"], set()).add(fault.get("tensor") or "")
    return found


NAMED_ALIKE = [
    kind
    for kind, (_, rule, _) in BROKEN.items()
    if rule in ("TRU210", "TRU211", "TRU212") or kind in ("biases that the class does not have",)
]


@pytest.mark.parametrize("kind", NAMED_ALIKE)
def test_the_class_finds_the_same_faults(run: Run, tmp_path: Path, kind: str) -> None:
    spoil, rule, _ = BROKEN[kind]
    model = Checkpoint(tmp_path / "m")
    spoil(model)
    ran = run("pair", model.path, model.path, "--engine", "vllm", "--deep", "--format", "json")
    loud = {name for name, row in findings(ran).items() if row["severity"] != "note"}
    assert loud == {rule}


@pytest.mark.parametrize("kind", [kind for kind in SOUND if "multimodal" not in kind])
def test_the_class_finds_sound_ones_sound(run: Run, tmp_path: Path, kind: str) -> None:
    """The multimodal ones have no vision part, which the table does not ask for."""
    model = Checkpoint(tmp_path / "m")
    SOUND[kind](model)
    ran = run("pair", model.path, model.path, "--engine", "vllm", "--deep", "--format", "json")
    loud = {name: row["saw"] for name, row in findings(ran).items() if row["severity"] != "note"}
    assert not loud


def test_a_config_of_absurd_size_is_not_built(run: Run, tmp_path: Path) -> None:
    model = Checkpoint(tmp_path / "m")
    model.config.update(num_hidden_layers=10**6, hidden_size=2**40)
    model.write()
    ran = run("inspect", model.path, "--deep", "--format", "json")
    assert ran.code == 0
    assert "class_known" not in ran.json["facts"]["weights"]


def test_without_the_libraries_it_is_a_usage_error(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    model = Checkpoint(tmp_path / "m")
    model.write()
    ran = run("inspect", model.path, "--deep")
    assert ran.code == 2
    assert "--deep needs torch and transformers" in ran.err and "draftcheck-llm[deep]" in ran.err
