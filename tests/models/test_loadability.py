"""Broken checkpoints are named for what they are; odd but sound ones are never called broken."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import draftcheck
from draftcheck.models.readers.weights import families, soundness
from draftcheck.values.facts import Tensor, WeightFacts
from tests import make
from tests.conftest import Run

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
INDEX = "model.safetensors.index.json"
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
UP = "model.layers.1.mlp.up_proj.weight"
Q = "model.layers.{}.self_attn.q_proj"


@dataclass
class Checkpoint:
    """A llama of two layers in two shards, to be spoiled before or after it is written."""

    path: Path
    config: dict[str, Any] = field(default_factory=lambda: dict(make.CONFIG))
    tensors: dict[str, tuple[str, list[int]]] = field(default_factory=dict)
    whole: bool = False
    """One model.safetensors instead of two shards and an index."""

    def __post_init__(self) -> None:
        self.fill()

    def fill(self, **changes: Any) -> None:
        """All parameters of the class, for a changed config."""
        self.config.update(changes)
        self.tensors = make.weights(self.config)

    def write(self) -> Path:
        make.folder(self.path)
        make.write_json(self.path / "config.json", self.config)
        (self.path / "model.safetensors").unlink()
        if self.whole:
            make.safetensors(self.path / "model.safetensors", self.tensors)
            return self.path
        names = list(self.tensors)
        half = len(names) // 2
        for file, part in ((ONE, names[:half]), (TWO, names[half:])):
            make.safetensors(self.path / file, {name: self.tensors[name] for name in part})
        size = sum(make.BITS[d] * _count(s) // 8 for d, s in self.tensors.values())
        self.index = {
            "metadata": {"total_size": size},
            "weight_map": {name: ONE if i < half else TWO for i, name in enumerate(names)},
        }
        self.write_index()
        return self.path

    def write_index(self) -> None:
        make.write_json(self.path / INDEX, self.index)


def _count(shape: list[int]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count


def header(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    found: dict[str, Any] = json.loads(data[8 : 8 + length])
    return found


def rewrite(path: Path, entries: object, extra: int = 0) -> None:
    """Another header before the same data."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :] + bytes(extra))


Spoil = Callable[[Checkpoint], object]


def before(change: Spoil) -> Spoil:
    def spoil(model: Checkpoint) -> None:
        change(model)
        model.write()

    return spoil


def after(change: Spoil) -> Spoil:
    def spoil(model: Checkpoint) -> None:
        model.write()
        change(model)

    return spoil


def entry(model: Checkpoint, number: int = 1, **changes: object) -> None:
    """Change one tensor's entry in the first shard's header."""
    entries = header(model.path / ONE)
    name = [name for name in entries if name != "__metadata__"][number]
    entries[name].update(changes)
    rewrite(model.path / ONE, entries)


def cut(model: Checkpoint, file: str, keep: int | None = None) -> None:
    path = model.path / file
    size = path.stat().st_size
    with path.open("r+b") as handle:
        handle.truncate(size - 100 if keep is None else keep)


def index(change: Callable[[dict[str, Any]], object]) -> Spoil:
    def spoil(model: Checkpoint) -> None:
        model.write()
        change(model.index)
        model.write_index()

    return spoil


def quantise(model: Checkpoint, method: str, **said: object) -> None:
    """The layers' linear modules in the form of that method; bits 4, groups of 32."""
    for name, (_, shape) in list(model.tensors.items()):
        if not name.startswith("model.layers.") or len(shape) != 2:
            continue
        module = name.removesuffix(".weight")
        del model.tensors[name]
        out, inputs = shape
        if method == "gptq":
            model.tensors[f"{module}.qweight"] = ("I32", [inputs // 8, out])
            model.tensors[f"{module}.qzeros"] = ("I32", [inputs // 32, out // 8])
            model.tensors[f"{module}.scales"] = ("F16", [inputs // 32, out])
            model.tensors[f"{module}.g_idx"] = ("I32", [inputs])
        elif method == "awq":
            model.tensors[f"{module}.qweight"] = ("I32", [inputs, out // 8])
            model.tensors[f"{module}.qzeros"] = ("I32", [inputs // 32, out // 8])
            model.tensors[f"{module}.scales"] = ("F16", [inputs // 32, out])
        elif method == "fp8":
            model.tensors[name] = ("F8_E4M3", shape)
            model.tensors[f"{module}.weight_scale_inv"] = ("F32", [1, 1])
        elif method == "compressed-tensors":
            model.tensors[f"{module}.weight_packed"] = ("I32", [out, inputs // 8])
            model.tensors[f"{module}.weight_scale"] = ("BF16", [out, inputs // 32])
            model.tensors[f"{module}.weight_shape"] = ("I64", [2])
        elif method == "modelopt":
            model.tensors[name] = ("U8", [out, inputs // 2])
            model.tensors[f"{module}.weight_scale"] = ("F8_E4M3", [out, inputs // 16])
            model.tensors[f"{module}.weight_scale_2"] = ("F32", [])
            model.tensors[f"{module}.input_scale"] = ("F32", [])
        elif method == "bitsandbytes":
            model.tensors[name] = ("U8", [out * inputs // 2, 1])
            for leaf, dtype, length in (("absmax", "U8", 8), ("quant_map", "F32", 16)):
                model.tensors[f"{name}.{leaf}"] = (dtype, [length])
            model.tensors[f"{name}.quant_state.bitsandbytes__nf4"] = ("U8", [80])
        elif method == "mlx":
            model.tensors[name] = ("U32", [out, inputs // 8])
            model.tensors[f"{module}.scales"] = ("BF16", [out, inputs // 32])
            model.tensors[f"{module}.biases"] = ("BF16", [out, inputs // 32])
    said = {"bits": 4, "group_size": 32, **said}
    if method == "mlx":
        model.config["quantization"] = said
    else:
        model.config["quantization_config"] = {"quant_method": method, **said}


def without(*ends: str) -> Callable[[Checkpoint], None]:
    def change(model: Checkpoint) -> None:
        model.tensors = {n: t for n, t in model.tensors.items() if not n.endswith(ends)}

    return change


def quantised(method: str, then: Spoil = lambda model: None, **said: object) -> Spoil:
    def spoil(model: Checkpoint) -> None:
        quantise(model, method, **said)
        then(model)
        model.write()

    return spoil


def add(model: Checkpoint, **tensors: tuple[str, list[int]]) -> None:
    model.tensors.update({name.replace("__", "."): t for name, t in tensors.items()})


def rename(model: Checkpoint, old: str, new: str) -> None:
    model.tensors = {name.replace(old, new): t for name, t in model.tensors.items()}


# Kind -> how it is made, the rule that names it, words that must be in what it saw.
BROKEN: dict[str, tuple[Spoil, str, str]] = {
    "git-lfs pointer": (
        after(lambda m: (m.path / TWO).write_text(POINTER)), "TRU201", f"{TWO}: a git-lfs pointer"),
    "pickle that is a git-lfs pointer": (
        after(lambda m: [
            (m.path / ONE).unlink(), (m.path / TWO).unlink(), (m.path / INDEX).unlink(),
            (m.path / "pytorch_model.bin").write_text(POINTER)]),
        "TRU201", "pytorch_model.bin: 130 bytes: the size of a git-lfs pointer"),
    "last bytes missing": (after(lambda m: cut(m, TWO)), "TRU202", "cut off, 100 missing"),
    "cut inside the header": (
        after(lambda m: cut(m, ONE, 60)), "TRU202", f"{ONE}: cut off: header of"),
    "empty file": (after(lambda m: cut(m, ONE, 0)), "TRU202", "0 bytes is too short"),
    "bytes behind the end": (
        after(lambda m: rewrite(m.path / ONE, header(m.path / ONE), extra=8)),
        "TRU203", "something follows the tensors"),
    "HTML instead of weights": (
        after(lambda m: (m.path / ONE).write_text("<!DOCTYPE html><html>404 not found</html>")),
        "TRU204", "header claims"),
    "header that is not JSON": (
        after(lambda m: rewrite(m.path / ONE, b"{,}")), "TRU204", "header is not usable JSON"),
    "unknown dtype": (
        after(lambda m: entry(m, dtype="F128")), "TRU204", "has unknown dtype 'F128'"),
    "shape of another size": (
        after(lambda m: entry(m, shape=[3, 3])), "TRU204", "[3 x 3] does not take"),
    "negative offsets": (
        after(lambda m: entry(m, data_offsets=[-8, 0])), "TRU204", "impossible shape or offsets"),
    "tensors that overlap": (
        after(lambda m: entry(m, dtype="BF16", shape=[64], data_offsets=[0, 128])),
        "TRU205", "overlaps the tensor before it"),
    "hole between tensors": (
        after(lambda m: rewrite(m.path / ONE, {
            name: value for i, (name, value) in enumerate(header(m.path / ONE).items()) if i != 1
        })), "TRU205", "leaves a hole before it"),
    "shard missing": (
        after(lambda m: (m.path / TWO).unlink()), "TRU206", f"names '{TWO}', which is not in"),
    "shard half downloaded": (
        after(lambda m: (m.path / TWO).rename(m.path / f"{TWO}.incomplete")),
        "TRU206", "a download that did not finish"),
    "index of another checkpoint": (
        after(lambda m: [
            (m.path / file).rename(m.path / file.replace("model", "output")) for file in (ONE, TWO)
        ]),
        "TRU206", "names none of the weight files that are here",
    ),
    "numbered shard missing, no index": (
        after(lambda m: [(m.path / ONE).unlink(), (m.path / INDEX).unlink()]),
        "TRU206", "shard 1 of 2 is not in the folder"),
    "pickled shard missing": (
        after(lambda m: [
            (m.path / ONE).unlink(), (m.path / TWO).unlink(), (m.path / INDEX).unlink(),
            make.write_json(m.path / "pytorch_model.bin.index.json",
                            {"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}})]),
        "TRU206", "names 'pytorch_model-00001-of-00001.bin'"),
    "only an unfinished download": (
        after(lambda m: [
            (m.path / INDEX).unlink(), (m.path / TWO).unlink(),
            (m.path / ONE).rename(m.path / "model.safetensors.incomplete")]),
        "TRU206", "a download that did not finish"),
    "index without weight_map": (
        index(lambda i: i.pop("weight_map")), "TRU207", "has no weight_map"),
    "index cut off": (
        after(lambda m: (m.path / INDEX).write_text('{"weight_map": {"a')),
        "TRU207", "not valid JSON"),
    "index that leads out of the folder": (
        index(lambda i: i["weight_map"].update(a="../../other/model.safetensors")),
        "TRU206", "which is not in the folder"),
    "tensor in the wrong shard": (
        index(lambda i: i["weight_map"].update({"model.embed_tokens.weight": TWO})),
        "TRU208", f"'model.embed_tokens.weight' is in {ONE}, the index says {TWO}"),
    "index left over from another save": (
        after(lambda m: [
            make.safetensors(m.path / "model.safetensors", m.tensors),
            (m.path / ONE).unlink(), (m.path / TWO).unlink()]),
        "TRU208", "some engines read it without asking the index"),
    "parameter missing": (before(without(UP)), "TRU210", f"needs tensor '{UP}' [128, 64]"),
    "kind of parameter missing everywhere": (
        before(without("mlp.up_proj.weight")), "TRU210", "which is not stored (and 1 more)"),
    "layer missing": (
        before(lambda m: m.config.update(num_hidden_layers=3)),
        "TRU210", "no tensor of layer 2 is stored, LlamaForCausalLM has 3 layers"),
    "embedding missing": (
        before(without("embed_tokens.weight")), "TRU210", "'model.embed_tokens.weight' [260, 64]"),
    "last norm missing": (before(without("model.norm.weight")), "TRU210", "'model.norm.weight'"),
    "biases that the config promises": (
        before(lambda m: m.config.update(attention_bias=True)),
        "TRU210", "'model.layers.0.self_attn.q_proj.bias' [64]"),
    "output layer missing": (
        before(without("lm_head.weight")), "TRU211", "config.json does not tie it"),
    "shape of another config": (
        before(lambda m: m.config.update(intermediate_size=130)),
        "TRU212", "is [128, 64], LlamaForCausalLM with this config needs [130, 64]"),
    "other number of key heads": (
        before(lambda m: m.config.update(num_key_value_heads=4)), "TRU212", "k_proj.weight"),
    "parameter of no elements": (
        before(lambda m: m.tensors.update({UP: ("BF16", [0, 64])})), "TRU212", "is [0, 64]"),
    "rows beside vocab_size": (
        before(lambda m: m.config.update(vocab_size=256)),
        "TRU213", "has 260 rows, config.json says 256"),
    "weights of another architecture": (
        before(lambda m: m.__setattr__("tensors", make.weights({
            "model_type": "gpt2", "vocab_size": 260, "n_embd": 64, "n_layer": 2, "n_head": 4,
            "n_positions": 128}))),
        "TRU214", "none of the parameters of LlamaForCausalLM is stored"),
    "renamed everywhere": (
        before(lambda m: rename(m, "q_proj", "query")), "TRU215", "self_attn.query.weight"),
    "more layers than the config counts": (
        before(lambda m: m.config.update(num_hidden_layers=1)),
        "TRU216", "layer 1 is stored, config.json counts 1 layers"),
    "biases that the class does not have": (
        before(lambda m: [add(m, **{
            f"model__layers__{i}__self_attn__q_proj__bias": ("BF16", [64])}) for i in (0, 1)]),
        "TRU217", "LlamaForCausalLM does not have it (and 1 more)"),
    "norms that the class does not have": (
        before(lambda m: add(m, model__layers__0__self_attn__q_norm__weight=("BF16", [16]))),
        "TRU217", "self_attn.q_norm.weight"),
    "tied, with an output layer of other rows": (
        before(lambda m: [
            m.config.update(tie_word_embeddings=True),
            m.tensors.update({"lm_head.weight": ("BF16", [100, 64])})]),
        "TRU217", "'lm_head.weight' is [100, 64]"),
    "tensor twice in two types": (
        after(lambda m: make.safetensors(m.path / TWO, {
            **{n: m.tensors[n] for n, f in m.index["weight_map"].items() if f == TWO},
            "model.embed_tokens.weight": ("F32", [260, 64])})),
        "TRU218", "as BF16 [260, 64] there and F32 [260, 64] here"),
    "GPTQ without scales": (
        quantised("gptq", without("up_proj.scales")), "TRU220", "'scales' of that module"),
    "AWQ without zeros": (
        quantised("awq", without("1.mlp.up_proj.qzeros")), "TRU220", "'qzeros' of that module"),
    "fp8 without scales": (
        quantised("fp8", without("down_proj.weight_scale_inv")), "TRU220", "weight_scale_inv"),
    "compressed-tensors without scales": (
        quantised("compressed-tensors", without("weight_scale")), "TRU220", "'weight_scale'"),
    "bitsandbytes without absmax": (
        quantised("bitsandbytes", without(".absmax")), "TRU220", "weight.absmax"),
    "quantised by config only": (
        before(lambda m: m.config.update(
            quantization_config={"quant_method": "awq", "bits": 4, "group_size": 32})),
        "TRU220", "config.json says awq, but no module is stored in that form"),
    "bits of another quantisation": (
        quantised("gptq", bits=8), "TRU220", "with 8 bits in groups of 32 needs scales"),
    "one layer left unquantised": (
        quantised("gptq", lambda m: [
            without(f"{Q.format(1)}.qweight", f"{Q.format(1)}.qzeros", f"{Q.format(1)}.scales",
                    f"{Q.format(1)}.g_idx")(m),
            m.tensors.update({f"{Q.format(1)}.weight": ("BF16", [64, 64])})]),
        "TRU220", "is not quantised, the same module of other layers is"),
    "quantised without a word in the config": (
        quantised("gptq", lambda m: m.config.pop("quantization_config")),
        "TRU221", "config.json declares no quantisation"),
    "excluded, but quantised": (
        quantised("awq", modules_to_not_convert=[Q.format(0)]),
        "TRU222", f"config.json excludes '{Q.format(0)}'"),
}  # fmt: skip
WARNINGS = {"TRU208", "TRU215", "TRU217", "TRU222"}


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Checkpoint(tmp_path_factory.mktemp("sound") / "sound").write()


def findings(ran: Any) -> dict[str, dict[str, Any]]:
    """The rules about weights that failed, for every engine alike."""
    found: dict[str, dict[str, Any]] = {}
    for engine in ran.json["engines"]:
        for row in engine["findings"]:
            if row["rule"].startswith("TRU2") and row["outcome"] == "fail":
                found[row["rule"]] = row
    return found


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_ones_are_named(run: Run, sound: Path, tmp_path: Path, kind: str) -> None:
    spoil, rule, words = BROKEN[kind]
    model = Checkpoint(tmp_path / "m")
    spoil(model)
    for pair, side in (((sound, model.path), "draft"), ((model.path, sound), "target")):
        ran = run("pair", *pair, "--engine", "vllm", "--format", "json")
        found = findings(ran)
        loud = {name for name, row in found.items() if row["severity"] != "note"}
        assert loud == {rule}, {name: row["saw"] for name, row in found.items()}
        assert words in found[rule]["saw"] and found[rule]["saw"].startswith(f"{side}: ")
        assert ran.code == (0 if rule in WARNINGS else 1)
        assert ran.json["verdict"] == ("degraded" if rule in WARNINGS else "incompatible")
    shown = run("inspect", model.path)
    assert shown.code == 0
    assert shown.err.startswith("warning: ")


def test_there_are_enough_kinds() -> None:
    assert len(BROKEN) >= 45 and len(SOUND) >= 35


def mtp(model: Checkpoint) -> None:
    model.config["num_nextn_predict_layers"] = 1
    for name in ("eh_proj.weight", "enorm.weight", "hnorm.weight", "self_attn.q_proj.weight"):
        model.tensors[f"model.layers.2.{name}"] = ("BF16", [64, 64])


def experts(model: Checkpoint, **changes: Any) -> None:
    model.fill(
        architectures=["MixtralForCausalLM"], model_type="mixtral", num_local_experts=4,
        num_experts_per_tok=2, **changes,
    )  # fmt: skip


def fuse_experts(model: Checkpoint) -> None:
    """As transformers 5 keeps them in memory."""
    experts(model)
    without("w1.weight", "w2.weight", "w3.weight", "block_sparse_moe.gate.weight")(model)
    for i in (0, 1):
        base = f"model.layers.{i}.mlp"
        model.tensors[f"{base}.experts.gate_up_proj"] = ("BF16", [4, 256, 64])
        model.tensors[f"{base}.experts.down_proj"] = ("BF16", [4, 64, 128])
        model.tensors[f"{base}.gate.weight"] = ("BF16", [4, 64])


def stack_experts(model: Checkpoint) -> None:
    """As mlx-lm writes them."""
    experts(model)
    without("w1.weight", "w2.weight", "w3.weight")(model)
    for i in (0, 1):
        for name in ("gate_proj", "up_proj", "down_proj"):
            model.tensors[f"model.layers.{i}.block_sparse_moe.switch_mlp.{name}.weight"] = (
                "BF16", [4, 128, 64],
            )  # fmt: skip


def mxfp4(model: Checkpoint) -> None:
    """gpt-oss as its publisher stores it."""
    model.fill(
        architectures=["GptOssForCausalLM"], model_type="gpt_oss", num_local_experts=4,
        head_dim=16, quantization_config={"quant_method": "mxfp4"},
    )  # fmt: skip
    without("experts.gate_up_proj", "experts.down_proj")(model)
    for i in (0, 1):
        for name in ("gate_up_proj", "down_proj"):
            model.tensors[f"model.layers.{i}.mlp.experts.{name}_blocks"] = ("U8", [4, 64, 2, 16])
            model.tensors[f"model.layers.{i}.mlp.experts.{name}_scales"] = ("U8", [4, 64, 2])


def deepseek(model: Checkpoint) -> None:
    model.fill(
        architectures=["DeepseekV3ForCausalLM"], model_type="deepseek_v3", n_routed_experts=4,
        n_shared_experts=1, moe_intermediate_size=32, first_k_dense_replace=1, q_lora_rank=16,
        kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, n_group=1,
        topk_group=1, auto_map={"AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM"},
    )  # fmt: skip
    gates = {n: t for n, t in model.tensors.items() if n.endswith("mlp.gate.weight")}
    quantise(model, "fp8", weight_block_size=[128, 128])
    for name, tensor in gates.items():
        del model.tensors[f"{name}_scale_inv"]
        model.tensors[name] = tensor
    model.config["num_nextn_predict_layers"] = 1
    for name in ("embed_tokens", "shared_head.head", "eh_proj", "enorm", "mlp.gate"):
        model.tensors[f"model.layers.2.{name}.weight"] = ("BF16", [64, 64])


def mlx_format(model: Checkpoint) -> None:
    for name in (ONE, TWO):
        path = model.path / name
        rewrite(path, {"__metadata__": {"format": "mlx"}, **header(path)})


def multimodal(model: Checkpoint, prefix: str) -> None:
    text = dict(model.config)
    model.config = {
        "architectures": ["LlavaForConditionalGeneration"], "model_type": "llava",
        "text_config": text, "vision_config": {"model_type": "clip_vision_model"},
    }  # fmt: skip
    rename(model, "model.", prefix)
    model.tensors["vision_tower.encoder.layers.0.fc.weight"] = ("BF16", [8, 8])


SOUND: dict[str, Spoil] = {
    "plain": before(lambda m: None),
    "one file": before(lambda m: m.__setattr__("whole", True)),
    "tied, without output layer": before(lambda m: [
        m.config.update(tie_word_embeddings=True), without("lm_head.weight")(m)]),
    "tied, with output layer": before(lambda m: m.config.update(tie_word_embeddings=True)),
    "tied, output layer only in the index": index(lambda i: None),
    "index without metadata": index(lambda i: i.pop("metadata")),
    "index with metadata null": index(lambda i: i.update(metadata=None)),
    "index with a wrong total": index(lambda i: i["metadata"].update(total_size=7)),
    "index with a total in words": index(lambda i: i["metadata"].update(total_size="1 GB")),
    "consolidated beside shards": after(lambda m: make.safetensors(
        m.path / "consolidated.safetensors", {"tok_embeddings.weight": ("BF16", [260, 64])})),
    "consolidated alone": after(lambda m: [
        (m.path / ONE).unlink(), (m.path / TWO).unlink(), (m.path / INDEX).unlink(),
        make.safetensors(m.path / "consolidated.safetensors", {
            "tok_embeddings.weight": ("BF16", [260, 64]),
            "layers.0.attention.wq.weight": ("BF16", [64, 64])})]),
    "numbered shards without an index": after(lambda m: (m.path / INDEX).unlink()),
    "folder original": after(lambda m: [
        (m.path / "original").mkdir(),
        (m.path / "original/consolidated.00.pth").write_bytes(b"x")]),
    "two precisions": after(lambda m: [
        make.safetensors(m.path / "model.safetensors", m.tensors),
        (m.path / ONE).unlink(), (m.path / TWO).unlink(), (m.path / INDEX).unlink(),
        make.safetensors(m.path / "model.fp16.safetensors", {
            n: ("F16", s) for n, (_, s) in m.tensors.items()})]),
    "one precision with a name": after(lambda m: [
        (m.path / ONE).unlink(), (m.path / TWO).unlink(), (m.path / INDEX).unlink(),
        make.safetensors(m.path / "model.fp16.safetensors", m.tensors)]),
    "adapter beside the model": after(lambda m: [
        make.write_json(m.path / "adapter_config.json", {"peft_type": "LORA"}),
        make.safetensors(m.path / "adapter_model.safetensors", {
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": ("F32", [8, 64])})]),
    "adapter alone": after(lambda m: [
        (m.path / ONE).unlink(), (m.path / TWO).unlink(), (m.path / INDEX).unlink(),
        make.safetensors(m.path / "adapter_model.safetensors", {
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": ("F32", [8, 64])})]),
    "pickles beside safetensors": after(lambda m: [
        (m.path / "pytorch_model.bin").write_bytes(b"\x80\x04."),
        (m.path / "training_args.bin").write_bytes(b"\x80\x04."),
        (m.path / "optimizer.pt").write_bytes(b"\x80\x04.")]),
    "half download of another file": after(lambda m: (
        m.path / "model-00003-of-00003.safetensors.incomplete").write_bytes(b"x")),
    "sentence-transformers beside it": after(lambda m: [
        make.write_json(m.path / "modules.json", [{"idx": 0}]), (m.path / "1_Pooling").mkdir()]),
    "rotary tables": before(lambda m: add(
        m, model__layers__0__self_attn__rotary_emb__inv_freq=("F32", [8]))),
    "scales of the KV cache": before(lambda m: [
        add(m, model__layers__0__self_attn__k_scale=("F32", [])),
        add(m, model__layers__0__self_attn__v_scale=("F32", [1]))]),
    "layers for several tokens": before(mtp),
    "tensors of no elements": before(lambda m: add(m, extra__empty=("F32", [0, 8]))),
    "types of all kinds": before(lambda m: add(
        m, x__bool=("BOOL", [3]), x__u16=("U16", [1]), x__f8=("F8_E8M0", [3]), x__f4=("F4", [2]))),
    "tensors that are not aligned": before(lambda m: m.__setattr__(
        "tensors", {"odd": ("U8", [3]), **m.tensors})),
    "half of it in float32": before(lambda m: m.__setattr__("tensors", {
        n: ("F32" if i % 2 else "BF16", s) for i, (n, (_, s)) in enumerate(m.tensors.items())})),
    "head_dim of its own": before(lambda m: m.fill(head_dim=32)),
    "null where the class has a default": before(lambda m: m.fill(
        head_dim=None, num_key_value_heads=None)),
    "names of the bare model": before(lambda m: rename(m, "model.", "")),
    "multimodal, old names": before(lambda m: multimodal(m, "language_model.model.")),
    "multimodal, new names": before(lambda m: multimodal(m, "model.language_model.")),
    "multimodal, nested names": before(lambda m: multimodal(m, "model.language_model.model.")),
    "multimodal, layers called blocks": before(lambda m: [
        multimodal(m, "language_model.model."),
        m.config.update(model_type="brandnew", architectures=["BrandNewForConditionalGeneration"]),
        m.__setattr__("tensors", {
            name.replace(".layers.", ".blocks."): row for name, row in m.tensors.items()})]),
    "code of its own": before(lambda m: [
        m.config.update(auto_map={"AutoModel": "x.Y"}, architectures=["YForCausalLM"]),
        rename(m, "self_attn", "attention")]),
    "class that nobody knows": before(lambda m: [
        m.config.update(model_type="brandnew", architectures=["BrandNewForCausalLM"]),
        rename(m, "self_attn", "attention")]),
    "experts one by one": before(experts),
    "experts in one tensor": before(fuse_experts),
    "experts stacked by mlx-lm": lambda m: [stack_experts(m), m.write(), mlx_format(m)],
    "experts in MXFP4": before(mxfp4),
    "DeepSeek-V3 in fp8 with its MTP layer": before(deepseek),
    "GPTQ": quantised("gptq"),
    "GPTQ with settings by module": quantised("gptq", dynamic={"-:.*q_proj": {}}, bits=8),
    "AWQ": quantised("awq"),
    "AWQ with modules left alone": quantised(
        "awq", lambda m: [
            without(*(f"{Q.format(0)}.{leaf}" for leaf in ("qweight", "qzeros", "scales")))(m),
            m.tensors.update({f"{Q.format(0)}.weight": ("BF16", [64, 64])})],
        modules_to_not_convert=["layers.0.self_attn.q_proj"]),
    "fp8": quantised("fp8", fmt="e4m3", weight_block_size=[128, 128]),
    "compressed-tensors": quantised(
        "compressed-tensors", format="pack-quantized", ignore=["lm_head"]),
    "NVFP4": quantised("modelopt", quant_algo="NVFP4"),
    "bitsandbytes": quantised("bitsandbytes", load_in_4bit=True),
    "quantised by mlx-lm": quantised("mlx"),
    "a method that nobody knows": quantised("gptq", lambda m: m.config.update(
        quantization_config={"quant_method": "brandnew"})),
    "quantize_config.json beside it": lambda m: [
        quantised("gptq", lambda m: m.config.pop("quantization_config"))(m),
        make.write_json(m.path / "quantize_config.json", {"bits": 4, "group_size": 32})],
}  # fmt: skip


@pytest.mark.parametrize("kind", SOUND)
def test_sound_ones_are_never_called_broken(
    run: Run, sound: Path, tmp_path: Path, kind: str
) -> None:
    model = Checkpoint(tmp_path / "m")
    SOUND[kind](model)
    for pair in ((sound, model.path), (model.path, sound)):
        ran = run("pair", *pair, "--engine", "vllm", "--format", "json")
        loud = {
            name: row["saw"] for name, row in findings(ran).items() if row["severity"] != "note"
        }
        assert not loud


def test_a_tensor_that_only_the_index_knows(run: Run, sound: Path, tmp_path: Path) -> None:
    """It matters where the class is not known; a known one would ask for it."""
    for kind, rule in (("brandnew", "TRU209"), ("llama", "TRU219")):
        model = Checkpoint(tmp_path / kind)
        if kind == "brandnew":
            model.config.update(model_type=kind, architectures=["BrandNewForCausalLM"])
        model.write()
        model.index["weight_map"]["ghost.weight"] = ONE
        model.write_index()
        found = findings(run("pair", sound, model.path, "--engine", "vllm", "--format", "json"))
        assert "the index promises tensor 'ghost.weight'" in found[rule]["saw"]
        assert set(found) <= {rule, "TRU219"}


def test_a_tied_output_layer_in_the_index_only(run: Run, sound: Path, tmp_path: Path) -> None:
    model = Checkpoint(tmp_path / "m")
    model.config["tie_word_embeddings"] = True
    without("lm_head.weight")(model)
    model.write()
    model.index["weight_map"]["lm_head.weight"] = ONE
    model.write_index()
    found = findings(run("pair", sound, model.path, "--engine", "vllm", "--format", "json"))
    assert set(found) == {"TRU219"}


def test_every_engine_says_so(run: Run, sound: Path, tmp_path: Path) -> None:
    model = Checkpoint(tmp_path / "m")
    model.write()
    (model.path / TWO).unlink()
    ran = run("pair", sound, model.path, "--format", "json")
    assert ran.code == 1
    assert {engine["verdict"] for engine in ran.json["engines"]} == {"incompatible"}
    text = run("pair", sound, model.path)
    assert "error[TRU206 shard-missing]" in text.out and "Download the missing file" in text.out


def test_a_file_that_cannot_be_read_is_no_verdict(run: Run, sound: Path, tmp_path: Path) -> None:
    model = Checkpoint(tmp_path / "m")
    model.write()
    (model.path / TWO).unlink()
    (model.path / TWO).symlink_to(tmp_path / "nowhere")
    assert run("pair", sound, model.path).code == 3


def test_faults_travel_in_facts_files(run: Run, sound: Path, tmp_path: Path) -> None:
    model = Checkpoint(tmp_path / "m")
    BROKEN["parameter missing"][0](model)
    saved = tmp_path / "m.facts.json"
    assert run("inspect", model.path, "--output", saved).code == 0
    found = findings(run("pair", sound, saved, "--engine", "vllm", "--format", "json"))
    assert UP in found["TRU210"]["saw"]
    assert run("inspect", sound, "--output", tmp_path / "s.facts.json").code == 0
    again = run("pair", sound, tmp_path / "s.facts.json", "--engine", "vllm", "--format", "json")
    assert again.code == 0 and not findings(again)


def test_the_python_interface_says_the_same(sound: Path, tmp_path: Path) -> None:
    model = Checkpoint(tmp_path / "m")
    BROKEN["last bytes missing"][0](model)
    verdict = draftcheck.check(str(sound), str(model.path), engines=["vllm"])
    assert str(verdict.verdict) == "incompatible"
    assert verdict.engines[0].decided_by == "TRU202"
    [fault] = verdict.comparison.draft.weights.faults or ()
    assert (fault.kind, fault.file) == ("cut-off", TWO)


# ---- GGUF ----

LAYERS = families.table().gguf.layer


def gguf(path: Path, arch: str, drop: str = "", fused: bool = False) -> Path:
    """A file with every tensor that the architecture needs, less one."""
    keys = {
        "general.architecture": ("string", arch),
        **{f"{arch}.{name}": ("uint32", 32) for name in (
            "embedding_length", "feed_forward_length", "context_length")},
        f"{arch}.block_count": ("uint32", 2),
        f"{arch}.attention.head_count": ("uint32", 2),
        f"{arch}.attention.layer_norm_rms_epsilon": ("float32", 1e-5),
    }  # fmt: skip
    once = ["token_embd", "output_norm", *(["position_embd"] if arch == "gpt2" else [])]
    per_layer = [entry.split("|")[-1 if fused else 0] for entry in LAYERS[arch].split()]
    names = once + [f"blk.{i}.{name}" for i in (0, 1) for name in dict.fromkeys(per_layer)]
    tensors = {f"{name}.weight": (32, 300) for name in names if name != drop}
    make.write_gguf(path, {**_gguf_keys(), **keys}, tensors)
    return path


def _gguf_keys() -> dict[str, tuple[str, Any]]:
    texts = [text.encode() for text in make.gguf_tokens()]
    return {
        "tokenizer.ggml.model": ("string", "gpt2"),
        "tokenizer.ggml.pre": ("string", "gpt-2"),
        "tokenizer.ggml.tokens": ("array[string]", texts),
        "tokenizer.ggml.merges": ("array[string]", ["a b"]),
    }


@pytest.mark.parametrize("arch", LAYERS)
def test_tensors_of_a_gguf(run: Run, tmp_path: Path, arch: str) -> None:
    sound = gguf(tmp_path / "sound.gguf", arch)
    for whole in (sound, gguf(tmp_path / "fused.gguf", arch, fused=True)):
        ran = run("inspect", whole, "--format", "json")
        assert ran.json["facts"]["weights"]["faults"] == []
    for lost in ("token_embd", "output_norm", "blk.1.attn_output", "blk.0.ffn_down"):
        name = lost + ("_exps" if arch == "qwen3moe" and lost.endswith("ffn_down") else "")
        broken = gguf(tmp_path / "broken.gguf", arch, drop=name)
        ran = run("pair", sound, broken, "--engine", "ollama", "--format", "json")
        found = findings(ran)["TRU225"]["saw"]
        assert found == (
            f"draft: broken.gguf: tensor {name}.weight of architecture {arch} is missing"
        )
        assert ran.code == 1


def test_a_gguf_that_is_cut_off(run: Run, tmp_path: Path) -> None:
    sound = gguf(tmp_path / "sound.gguf", "qwen2")
    broken = gguf(tmp_path / "broken.gguf", "qwen2")
    with broken.open("r+b") as file:
        file.truncate(broken.stat().st_size - 1000)
    for engine, rule in (("ollama", "TRU224"), ("llama.cpp", "LCP")):
        ran = run("pair", sound, broken, "--engine", engine, "--format", "json")
        assert ran.code == 1
        saw = [
            (row["rule"], row["saw"])
            for row in ran.json["engines"][0]["findings"]
            if row["outcome"] == "fail" and "bytes of tensor data" in row["saw"]
        ]
        assert len(saw) == 1 and saw[0][0].startswith(rule), saw
    assert "1,000 bytes of tensor data are missing" in run("inspect", broken).err


# ---- nonsense ----

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 1.5, 2**31, 2**40, 10**30, "", "llama", "gptq", [], [0], {},
    [None], ["lm_head", 7, None], ["re:(a+)+$", "*", "["], {"bits": 4}, {"a": {}}, "x" * 5000,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_no_config_makes_it_stumble(seed: int) -> None:
    """Whatever the config says, faults come out, never an exception."""
    rng = random.Random(seed)
    kinds = [kind for row in families.table().family for kind in row.types]
    for _ in range(60):
        model_type = rng.choice(kinds)
        row = next(r for r in families.table().family if model_type in r.types)
        config: dict[str, Any] = {**make.CONFIG, "model_type": model_type}
        config["architectures"] = rng.choice([row.classes, list(row.classes), [], [3], None])
        sizes = {**families.table().sizes, **row.sizes}
        names = [key for keys in sizes.values() for key in keys.split()]
        config |= {name: 4 for name in names if name not in config}
        names += [*row.flags.values(), *row.absent, *row.decline]
        names += ["mlp_only_layers", "decoder_sparse_step", "architectures", "text_config"]
        for name in rng.sample(names, rng.randrange(3)):
            config[name] = rng.choice(ODD)
        if rng.random() < 0.5:
            said = {"quant_method": rng.choice(["gptq", "awq", "fp8", "bitsandbytes", 7, None])}
            keys = ["bits", "group_size", "ignore", "modules_to_not_convert", "dynamic", "format"]
            said |= {key: rng.choice(ODD) for key in rng.sample(keys, 3)}
            config["quantization_config"] = rng.choice([said, said, said, *ODD])
        tensors = {
            name: Tensor(rng.choice(["BF16", "I32", "U8", "F8_E4M3"]), tuple(shape), "m", 8)
            for name, (_, shape) in make.weights(make.CONFIG).items()
            if rng.random() < 0.9
        }
        tensors["model.layers.0.self_attn.q_proj.qweight"] = Tensor(
            "I32", rng.choice([(), (3, 0)]), "m"
        )
        tensors["model.layers.0.self_attn.q_proj.scales"] = Tensor("F16", (3, 0), "m")
        facts = WeightFacts(tensors=tensors, nbytes=1, faults=())
        for fault in soundness.look(facts, config, ()).faults or ():
            assert fault.kind and fault.says


def test_a_config_that_asks_for_millions_of_experts(run: Run, tmp_path: Path) -> None:
    model = Checkpoint(tmp_path / "m")
    experts(model)
    model.config.update(num_hidden_layers=4096, num_local_experts=4096)
    model.write()
    ran = run("inspect", model.path, "--format", "json")
    assert ran.code == 0 and "class_known" not in ran.json["facts"]["weights"]


@pytest.mark.parametrize("kind", ["index with metadata null", "index without metadata"])
def test_an_index_without_metadata_stops_one_engine(
    run: Run, sound: Path, tmp_path: Path, kind: str
) -> None:
    model = Checkpoint(tmp_path / "m")
    SOUND[kind](model)
    ran = run("pair", sound, model.path, "--format", "json")
    assert ran.code == 0
    assert ran.engine("transformers")["decided_by"] == "TRF201"
    assert ran.engine("vllm")["verdict"] == "compatible"


def test_shards_without_an_index_stop_one_engine(run: Run, sound: Path, tmp_path: Path) -> None:
    model = Checkpoint(tmp_path / "m")
    SOUND["numbered shards without an index"](model)
    ran = run("pair", sound, model.path, "--format", "json")
    assert ran.code == 0
    assert ran.engine("transformers")["decided_by"] == "TRF202"


def test_exllama_reads_files_that_an_index_of_another_checkpoint_does_not_name(
    tmp_path: Path, run: Run
) -> None:
    """Converters to EXL2 copy the index of the original beside output-….safetensors."""
    model = Checkpoint(tmp_path / "model")
    path = model.write()
    for file in (ONE, TWO):
        (path / file).rename(path / file.replace("model", "output"))
    engines = {"exllamav2": "runs", "exllamav3": "runs", "tabbyapi": "runs", "vllm": "unknown"}
    for engine, reaction in engines.items():
        entry = run("pair", path, path, "--engine", engine, "--format", "json").engine(engine)
        assert entry["reaction"] == reaction, entry["reason"]
    facts = draftcheck.inspect(str(path))
    assert facts.weights.tensors is not None and set(facts.weights.tensors) == set(model.tensors)
