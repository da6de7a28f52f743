"""Heads: what is read from real-looking checkpoints and GGUF files, and the verdicts they get."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from draftcheck.models import read as facts
from draftcheck.models import stored
from draftcheck.models.readers import heads
from draftcheck.models.readers.weights import safetensors_header
from draftcheck.models.refs import parse
from draftcheck.models.sources.folder import FolderSource
from draftcheck.values.facts import HeadFacts
from tests import make
from tests.conftest import FIXTURES, Run
from tests.judge.rule_cases import cases_of, finding

ROWS = 260
OWN = 20
EAGLE3: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "draft_vocab_size": OWN,
    "num_hidden_layers": 1,
}
SPECULATORS: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "speculators_version": "0.3.0",
    "draft_vocab_size": OWN,
    "norm_before_residual": True,
    "transformer_layer_config": {**make.CONFIG, "num_hidden_layers": 1},
    "speculators_config": {
        "algorithm": "eagle3",
        "verifier": {"name_or_path": "org/big", "architectures": ["LlamaForCausalLM"]},
    },
}
Tensors = Mapping[str, tuple[str, Sequence[int]]]


def tensors(hidden: int = 64, own: int = OWN, **more: tuple[str, Sequence[int]]) -> dict[str, Any]:
    """The tensors of an EAGLE-3 head; a table of ids stands first, so that it is easy to fill."""
    return {
        "d2t": ("I64", [own]),
        "t2d": ("BOOL", [ROWS]),
        "fc.weight": ("BF16", [hidden, 3 * hidden]),
        "midlayer.hidden_norm.weight": ("BF16", [hidden]),
        "lm_head.weight": ("BF16", [own, hidden]),
        **more,
    }


def head(
    path: Path,
    config: Mapping[str, Any] = EAGLE3,
    weights: Tensors | None = None,
    ids: Sequence[int] | None = None,
    marked: Sequence[int] | None = None,
    **changes: Any,
) -> Path:
    """A folder with a head: config, headers, and tables that lead to the ids given."""
    path.mkdir()
    plain = "transformer_layer_config" not in config
    whole = {**(make.CONFIG if plain else {}), **config, **changes}
    make.write_json(path / "config.json", whole)
    wanted = dict(tensors() if weights is None else weights)
    write(path / "model.safetensors", wanted, ids or [13 * i for i in range(OWN)], marked)
    return path


def write(path: Path, wanted: Tensors, ids: Sequence[int], marked: Sequence[int] | None) -> None:
    header: dict[str, Any] = {}
    body = b""
    flags = bytes(i in set(ids if marked is None else marked) for i in range(ROWS))
    content = {
        "d2t": struct.pack(f"<{len(ids)}q", *(number - i for i, number in enumerate(ids))),
        "t2d": flags,
    }
    for name, (dtype, shape) in wanted.items():
        size = {"BF16": 2, "I64": 8, "BOOL": 1}[dtype]
        for side in shape:
            size *= side
        data = content.get(name, b"").ljust(size, b"\0")[:size]
        offsets = [len(body), len(body) + size]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def read(path: Path) -> HeadFacts:
    found = facts.read(parse(str(path))).head
    assert found is not None
    return found


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return make.folder(tmp_path / "target", num_hidden_layers=32)


def findings(body: Mapping[str, Any], outcome: str = "fail") -> list[str]:
    return [entry["rule"] for entry in body["findings"] if entry["outcome"] == outcome]


# ---- what is read ----


def test_an_eagle3_head_tells_what_it_needs(tmp_path: Path) -> None:
    found = read(head(tmp_path / "head", target_hidden_size=64))
    assert (found.kind, found.form, found.hidden, found.target_hidden) == (
        "eagle3", "checkpoint", 64, 64,
    )  # fmt: skip
    assert (found.fc_in, found.fc_out, found.draft_vocab, found.vocab) == (192, 64, OWN, ROWS)
    assert (found.d2t, found.t2d, found.d2t_fault, found.d2t_sorted) == (OWN, ROWS, "", True)
    assert found.d2t_last == 13 * (OWN - 1)
    assert (found.lm_head, found.lm_head_rows, found.embed_tokens) == (True, OWN, False)
    assert found.aux_layers is None and found.declared is not None
    assert "target_hidden" in found.declared and "mask_token_id" not in found.declared


def test_a_speculators_head_keeps_its_layers_in_a_part(tmp_path: Path) -> None:
    ids = {"eagle_aux_hidden_state_layer_ids": [2, 16, 29]}
    path = head(tmp_path / "head", {**SPECULATORS, **ids})
    found, model = read(path), facts.read(parse(str(path)))
    assert (found.form, found.form_version, found.layer_type) == ("speculators", "0.3.0", "llama")
    assert (found.hidden, found.vocab, found.layers) == (64, ROWS, 1)
    assert (found.aux_layers, found.aux_place, found.aux_count) == ((2, 16, 29), "root", 3)
    assert found.verifier_architectures == ("LlamaForCausalLM",)
    assert (model.role, model.verifier, model.config.heads) == ("eagle3", "org/big", 4)


DFLASH = {"architectures": ["DFlashDraftModel"], "block_size": 5}
DSPARK = {"architectures": ["Qwen3DSparkModel"], "block_size": 5}
BLOCKS = [
    (DFLASH, 4),
    ({**DFLASH, "dflash_config": {"sample_from_anchor": True}}, 5),
    (DSPARK, 5),
    ({**DSPARK, "sample_from_anchor": False}, 4),
    ({**DSPARK, "speculators_model_type": "dspark"}, 4),
    ({**DFLASH, "block_size": 1}, 1),
    (EAGLE3, None),
]


@pytest.mark.parametrize(("config", "drafts"), BLOCKS)
def test_a_block_drafts_what_its_slots_hold(
    tmp_path: Path, config: dict[str, Any], drafts: int | None
) -> None:
    assert read(head(tmp_path / "head", config)).block_drafts == drafts


@pytest.mark.parametrize(("asked", "told"), [((), 4), (("--draft-tokens", "3"), 3)])
def test_no_more_drafts_are_proposed_than_a_block_holds(
    run: Run, asked: tuple[str, ...], told: int
) -> None:
    """The trial stops there too; SGLang takes the block's size by itself."""
    pair = FIXTURES / "pair"
    ran = run("pair", pair / "target", pair / "heads" / "dflash", *asked, "--format", "json")
    setups = {row["engine"]: row["setup"] for row in ran.json["engines"] if row["setup"]}
    assert f'"num_speculative_tokens": {told}' in setups["vllm"]
    assert f"--spec-draft-n-max {told} " in setups["llama.cpp"]
    assert f"num_assistant_tokens = {told}" in setups["openvino-genai"]


TABLES = [
    ([5, 5, 6], None, "draft ids 0 and 1 both become 5"),
    ([-1, 2, 3], None, "draft id 0 becomes the target id -1"),
    ([1, 2, 3], [1, 2, 4], "d2t leads to the target id 3, which t2d does not mark"),
    ([1, 2, 3], [1, 2, 3, 9], "t2d marks the target id 9, to which d2t does not lead"),
    ([1, 2, 3], [1, 2, 3], ""),
    ([3, 1, 2], [1, 2, 3], ""),
]


@pytest.mark.parametrize(("ids", "marked", "fault"), TABLES)
def test_the_table_of_ids_is_judged(
    ids: list[int], marked: list[int] | None, fault: str, tmp_path: Path
) -> None:
    weights = tensors(own=3)
    if marked is None:
        del weights["t2d"]
    found = read(head(tmp_path / "head", weights=weights, ids=ids, marked=marked))
    assert found.d2t_fault == fault
    assert found.d2t_sorted is (None if -1 in ids else ids == sorted(set(ids)))


def test_a_table_of_another_type_is_not_read(tmp_path: Path) -> None:
    found = read(head(tmp_path / "head", weights=tensors(d2t=("BF16", [OWN]))))
    assert (found.d2t, found.d2t_fault, found.d2t_sorted) == (OWN, None, None)
    found = read(head(tmp_path / "wide", weights=tensors(d2t=("I64", [OWN, 1]))))
    assert (found.d2t, found.d2t_fault) == (None, None)


MTP_NAMES = [
    (["model.layers.2.eh_proj.weight"], 1),
    (["mtp.layers.0.mlp.up_proj.weight", "mtp.fc.weight"], 1),
    (["model.mtp_layers.0.a.weight", "model.mtp_layers.1.a.weight"], 2),
    (["mtp.0.e_proj.weight", "mtp.0.attn.wq_a.weight"], 1),  # DeepSeek V4
    (["mtp.0.main_proj.weight", "mtp.0.attn.wq_a.weight"], None),  # its DSpark stages
    ([], 0),
    (["mtp.fc.weight"], None),
    (["model.mtp_emb_norm.weight"], None),
]


@pytest.mark.parametrize(("names", "count"), MTP_NAMES)
def test_mtp_layers_are_counted_by_name(names: list[str], count: int | None) -> None:
    from draftcheck.values.facts import Tensor

    every = {name: Tensor("BF16", (1,), "f") for name in ["model.layers.1.a.weight", *names]}
    assert heads.mtp_layers(every, 2) == count
    assert heads.mtp_layers(None, 2) is None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"eagle_config": {"norm_before_fc": True}}, "eagle_config"),
        ({"eagle_config": {"norm_before_fc": True}, "norm_before_fc": True}, "root"),
        ({"norm_before_fc": False}, None),
    ],
)
def test_where_a_norm_is_asked_for(
    change: dict[str, Any], place: str | None, tmp_path: Path
) -> None:
    found = read(head(tmp_path / "head", {**EAGLE3, **change}))
    assert (found.norm_before_fc, found.norm_place) == (place is not None, place)


@pytest.mark.parametrize(
    "change",
    [
        {"draft_vocab_size": "many", "target_hidden_size": [1], "block_size": True},
        {"eagle_config": {"eagle_aux_hidden_state_layer_ids": ["a", 2]}},
        {"eagle_config": 7, "dflash_config": [1], "num_aux_hidden_states": -3},
        {"eagle_aux_hidden_state_layer_ids": [1] * 5000, "mask_token_id": 1e400},
        {"speculators_config": {"verifier": {"name_or_path": 3, "architectures": {"a": 1}}}},
        {"speculators_config": [], "speculators_version": {"x": 1}, "norm_before_fc": "yes"},
    ],
)
def test_hostile_values_are_not_read(change: dict[str, Any], target: Path, run: Run) -> None:
    path = head(target.parent / "head", {**EAGLE3, **change})
    found = read(path)
    assert found.aux_layers is None and found.verifier_architectures is None
    assert (found.mask_token_id, found.block_size, found.norm_before_fc) == (None, None, None)
    assert run("pair", target, path, "--format", "json").code in (0, 1, 3)


def test_facts_of_a_head_survive_saving(tmp_path: Path) -> None:
    path = head(tmp_path / "head", SPECULATORS)
    found = facts.read(parse(str(path)))
    stored.save(found, tmp_path / "head.facts.json")
    again = facts.read(parse(str(tmp_path / "head.facts.json")))
    assert again.head == found.head


def test_inspect_shows_the_head(tmp_path: Path, run: Run) -> None:
    path = head(tmp_path / "head")
    assert "draft vocabulary" in run("inspect", path).out
    assert run("inspect", path, "--format", "json").json["facts"]["head"]["fc_in"] == 192


# ---- verdicts from folders ----


def test_a_fitting_head_is_compatible_by_its_own_method(target: Path, run: Run) -> None:
    ran = run("pair", target, head(target.parent / "head"), "--format", "json")
    assert ran.code == 0
    for name, method in (("vllm", "eagle3"), ("sglang", "EAGLE3")):
        entry = ran.engine(name)
        assert (entry["method"], entry["verdict"]) == (method, "compatible"), entry
        assert method in entry["setup"]
    assert ran.engine("transformers")["verdict"] == "incompatible"


FAULTS: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
    ({"hidden_size": 128, "head_dim": 16}, {}, "VLL105", "crashes", "incompatible"),
    ({}, {"draft_vocab_size": 30}, "TRU101", "runs", "incompatible"),
    ({"vocab_size": 300}, {}, "TRU103", "runs", "degraded"),
    ({}, {"target_hidden_size": 32}, "VLL106", "refuses", "incompatible"),
    ({"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"]}, {}, "VLL104",
     "refuses", "incompatible"),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs", "rule", "reaction", "verdict"), FAULTS)
def test_a_head_that_does_not_fit(
    ours: dict[str, Any],
    theirs: dict[str, Any],
    rule: str,
    reaction: str,
    verdict: str,
    tmp_path: Path,
    run: Run,
) -> None:
    target = make.folder(tmp_path / "target", config=ours)
    path = head(tmp_path / "head", {**EAGLE3, **theirs})
    entry = run("pair", target, path, "--engine", "vllm", "--format", "json").engine("vllm")
    assert rule in findings(entry)
    assert (entry["reaction"], entry["verdict"]) == (reaction, verdict)


def test_a_head_without_its_table_runs_and_is_worthless(target: Path, run: Run) -> None:
    weights = tensors()
    del weights["d2t"], weights["t2d"]
    path = head(target.parent / "head", weights=weights)
    ran = run("pair", target, path, "--engine", "vllm", "--engine", "sglang", "--format", "json")
    assert ran.code == 1
    assert ran.engine("vllm")["reaction"] == ran.engine("sglang")["reaction"] == "runs"
    assert "VLL107" in findings(ran.engine("vllm"))
    assert "SGL107" in findings(ran.engine("sglang"))


def test_a_table_that_leads_beyond_the_target(target: Path, run: Run) -> None:
    ids = [*range(OWN - 1), ROWS]
    path = head(target.parent / "head", ids=ids, marked=range(OWN - 1))
    ran = run("pair", target, path, "--engine", "vllm")
    assert ran.code == 1 and "d2t leads to the id 260, the target has 260 rows" in ran.out


def test_a_head_is_no_draft_for_the_ordinary_method(target: Path, run: Run) -> None:
    path = head(target.parent / "head")
    options = ("--engine", "vllm", "--method", "draft_model", "--format", "json")
    entry = run("pair", target, path, *options).engine("vllm")
    assert "TRU006" in findings(entry) and entry["verdict"] == "incompatible"
    again = run("pair", target, path, "--engine", "vllm", "--format", "json").engine("vllm")
    assert "TRU006" not in {entry["rule"] for entry in again["findings"]}


def test_an_ordinary_model_is_no_head(target: Path, run: Run) -> None:
    draft = make.folder(target.parent / "draft")
    for engine, method, rule in (("vllm", "eagle3", "VLL109"), ("sglang", "EAGLE3", "SGL103")):
        options = ("--engine", engine, "--method", method, "--format", "json")
        entry = run("pair", target, draft, *options).engine(engine)
        assert rule in findings(entry) and entry["verdict"] == "incompatible"


@pytest.mark.parametrize(
    ("architecture", "said"),
    [
        ("LlamaForCausalLMEagle3", {"SGL104", "SGL122", "SGL123"}),
        ("Eagle3Qwen3ForCausalLM", {"SGL135"}),
        ("LlamaForCausalLM", {"SGL134"}),
    ],
)
def test_only_the_class_that_is_built_is_asked(
    architecture: str, said: set[str], tmp_path: Path, target: Path, run: Run
) -> None:
    """SGLang stops at a class that it does not have, or builds another one: no fc is compared."""
    layers = {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4]}
    weights = {**tensors(), "fc.weight": ("BF16", [64, 256])}
    changes = {"architectures": [architecture], "num_hidden_layers": 2, "eagle_config": layers}
    path = head(tmp_path / "other", weights=weights, **changes)
    options = ("--engine", "sglang@0.5.11", "--method", "EAGLE3", "--format", "json")
    found = set(findings(run("pair", target, path, *options).engine("sglang")))
    assert found & {"SGL104", "SGL122", "SGL123", "SGL134", "SGL135"} == said


def test_an_ordinary_llama_is_no_head_of_another_name(
    tmp_path: Path, target: Path, run: Run
) -> None:
    options = ("--engine", "sglang", "--method", "EAGLE", "--format", "json")
    other = shutil.copytree(target, tmp_path / "ordinary")
    found = findings(run("pair", target, other, *options).engine("sglang"))
    assert "SGL103" in found and "SGL134" not in found


def test_versions_before_the_method(target: Path, run: Run) -> None:
    path = head(target.parent / "head")
    ran = run("pair", target, path, "--engine", "vllm@0.8.4", "--format", "json")
    assert findings(ran.engine("vllm"))[0] == "VLL101"


def test_speculators_format_by_engine(target: Path, run: Run) -> None:
    path = head(target.parent / "head", SPECULATORS)
    ran = run("pair", target, path, "--format", "json")
    assert ran.engine("vllm")["verdict"] == "compatible", ran.engine("vllm")
    assert "SGL102" in findings(ran.engine("sglang"))
    assert "TRU104" in findings(ran.engine("vllm"), "unknown"), "a local folder has no public name"


@pytest.mark.parametrize(
    ("version", "model_type", "quantised", "rule", "reaction"),
    [
        ("0.16.0", "glm_moe_dsa", True, "VLL152", "unknown"),  # of Quark: VLL045
        ("0.16.0", "glm_moe_dsa", False, "VLL151", "refuses"),
        ("0.17.0", "glm_moe_dsa", True, "VLL108", "refuses"),
        ("0.32.0", "qwen3_next", True, "VLL152", "unknown"),
        ("0.32.0", "qwen3_next", False, "VLL151", "refuses"),
    ],
)
def test_mtp_layers_left_out_of_the_weights(
    tmp_path: Path,
    run: Run,
    version: str,
    model_type: str,
    quantised: bool,
    rule: str,
    reaction: str,
) -> None:
    """The class looks for them, or the loader does, or, of a quantised checkpoint, nobody."""
    config: dict[str, Any] = {"model_type": model_type, "num_hidden_layers": 1}
    if model_type == "glm_moe_dsa":  # Qwen3-Next states no number
        config["num_nextn_predict_layers"] = 1
    if quantised:
        config["quantization_config"] = {"quant_method": "quark"}
    model = make.folder(tmp_path / "model", config=config)
    options = ("--engine", f"vllm@{version}", "--method", "mtp", "--format", "json")
    entry = run("pair", model, model, *options).engine("vllm")
    assert rule in findings(entry)
    assert entry["reaction"] == reaction
    assert entry["verdict"] == "incompatible"


def test_a_whole_model_may_name_a_mask_token_in_several_ways(tmp_path: Path, run: Run) -> None:
    named = {"pard_token": 3, "mask_token_id": 4}
    facts = run("inspect", make.folder(tmp_path / "pard", config=named), "--format", "json")
    assert facts.json["facts"]["role"] == "full"
    assert facts.json["facts"]["head"]["mask_keys"] == ["mask_token_id", "pard_token"]


def test_a_dspark_head_may_keep_its_fields_in_dflash_config(target: Path, run: Run) -> None:
    config = {
        "architectures": ["Qwen3DSparkModel"],
        "block_size": 7,
        "markov_rank": 256,
        "markov_head_type": "vanilla",
        "dflash_config": {"mask_token_id": 5, "target_layer_ids": [0, 1]},
    }
    path = make.folder(target.parent / "head", config=config)
    facts = run("inspect", path, "--format", "json").json["facts"]
    told = facts["head"]
    assert facts["role"] == "dspark"
    assert told["mask_keys"] == ["dflash_config.mask_token_id"]
    assert (told["markov_rank"], told["markov_head_type"], told["block_key"]) == (
        256,
        "vanilla",
        "block_size",
    )
    ran = run("pair", target, path, "--engine", "vllm", "--format", "json")
    assert ran.engine("vllm")["method"] == "dspark"


@pytest.mark.parametrize("version", ["0.5.22", "0.5.23"])
@pytest.mark.parametrize("refused", [True, False])
def test_where_the_markov_rank_stands_decides(
    target: Path, run: Run, version: str, refused: bool
) -> None:
    """Published drafters keep it in dflash_config; SGLang builds the head from the root."""
    fields = {"mask_token_id": 5, "markov_rank": 256, "markov_head_type": "vanilla"}
    config = {"architectures": ["Qwen3DSparkModel"], "block_size": 7, "dflash_config": fields}
    if not refused:
        config |= fields
    path = make.folder(target.parent / "head", config=config)
    options = ("--engine", f"sglang@{version}", "--method", "DSPARK", "--format", "json")
    entry = run("pair", target, path, *options).engine("sglang")
    assert ("SGL128" in findings(entry)) is refused


def test_stages_inside_the_target_are_proposed_with_their_block(tmp_path: Path, run: Run) -> None:
    config = {
        "model_type": "deepseek_v4",
        "architectures": ["DeepseekV4ForCausalLM"],
        "num_nextn_predict_layers": 1,
        "dspark_block_size": 5,
        "dspark_target_layer_ids": [1, 2],
    }
    model = make.folder(tmp_path / "model", config=config)
    weights = {**make.weights({**make.CONFIG, **config}), "mtp.layers.0.a": ("BF16", [64, 64])}
    make.safetensors(model / "model.safetensors", weights)
    options = ("--engine", "vllm", "--method", "dspark", "--format", "json")
    setup = run("pair", model, *options).engine("vllm")["setup"]
    assert '"num_speculative_tokens": 5' in str(setup)


def test_medusa_names_and_biases(tmp_path: Path, target: Path, run: Run) -> None:
    """The heads of Medusa's authors: mapped by vLLM from 0.25.0 on, their biases dropped."""
    path = tmp_path / "medusa"
    path.mkdir()
    config = {"model_type": "medusa", "medusa_num_heads": 1, "hidden_size": 64, "vocab_size": ROWS}
    make.write_json(path / "config.json", config)
    weights = {
        "0.0.linear.weight": ("BF16", [64, 64]),
        "0.0.linear.bias": ("BF16", [64]),
        "0.1.weight": ("BF16", [ROWS, 64]),
    }
    make.safetensors(path / "medusa_lm_head.safetensors", weights)
    options = ("--method", "medusa", "--format", "json")
    for version, rules in (("0.24.0", ["VLL164", "VLL165"]), ("0.25.0", ["VLL165"])):
        entry = run("pair", target, path, "--engine", f"vllm@{version}", *options).engine("vllm")
        assert [rule for rule in findings(entry) if rule in ("VLL164", "VLL165")] == rules


def test_medusa_heads_are_counted_in_the_weights(tmp_path: Path, target: Path, run: Run) -> None:
    """A config that counts fewer than the weights hold does not limit the draft length."""
    path = tmp_path / "medusa"
    path.mkdir()
    config = {"model_type": "medusa", "medusa_num_heads": 2, "hidden_size": 64, "vocab_size": ROWS}
    make.write_json(path / "config.json", config)
    weights = {f"{number}.0.linear.weight": ("BF16", [64, 64]) for number in range(3)}
    make.safetensors(path / "medusa_lm_head.safetensors", weights)
    version = ("--engine", "vllm@0.32.0", "--method", "medusa")  # the last with Medusa
    options = (*version, "--format", "json", "--draft-tokens")
    for tokens, limited in (("3", False), ("4", True)):
        entry = run("pair", target, path, *options, tokens).engine("vllm")
        assert ("VLL235" in findings(entry)) is limited


def test_a_template_that_switches_thinking_is_noted(target: Path, run: Run) -> None:
    path = head(target.parent / "head")
    before = run("pair", target, path, "--engine", "vllm", "--format", "json").engine("vllm")
    template = "{% if enable_thinking %}<think>{% endif %}"
    (target / "chat_template.jinja").write_text(template, encoding="utf-8")
    after = run("pair", target, path, "--engine", "vllm", "--format", "json").engine("vllm")
    assert "TRU105" not in findings(before)
    assert "TRU105" in findings(after)
    assert after["verdict"] == before["verdict"]


def test_mtp_layers_that_the_config_does_not_count(tmp_path: Path, run: Run) -> None:
    """Qwen3-Next and MiMo-V2 name their layers in the weights only; engines take them by type."""
    config = {"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"]}
    model = make.folder(tmp_path / "model", config=config)
    mtp = {"mtp.layers.0.mlp.up_proj.weight": ("BF16", [64, 64])}
    make.safetensors(
        model / "model.safetensors", {**make.weights({**make.CONFIG, **config}), **mtp}
    )
    head = run("inspect", model, "--format", "json").json["facts"]["head"]
    assert (head.get("mtp_promised"), head["mtp_present"]) == (None, 1)
    for engine in ("vllm", "sglang"):
        entry = run("pair", model, "--engine", engine, "--format", "json").engine(engine)
        assert entry["method"] in ("mtp", "NEXTN")
        assert entry["reaction"] == "runs"


def _promises(folder: Path) -> tuple[Path, dict[str, tuple[str, list[int]]]]:
    """A target whose config promises an MTP layer, and that layer."""
    config = {
        "model_type": "qwen3_5",
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "mtp_num_hidden_layers": 1,
    }
    model = make.folder(folder, config=config)
    return model, {"mtp.layers.0.mlp.up_proj.weight": ("BF16", [64, 64])}


@pytest.mark.parametrize(("indexed", "vllm"), [(False, "runs"), (True, "refuses")])
def test_mtp_layers_beside_the_model(tmp_path: Path, run: Run, indexed: bool, vllm: str) -> None:
    """ExLlamaV3 reads every safetensors file; vLLM those of the index, where there is one."""
    model, layer = _promises(tmp_path / "model")
    make.safetensors(model / "mtp.safetensors", layer)
    if indexed:
        tensors, _ = safetensors_header.read(FolderSource(model), "model.safetensors")
        index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, "model.safetensors")}
        (model / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    head = run("inspect", model, "--format", "json").json["facts"]["head"]
    assert (head["mtp_present"], head["mtp_beside"], head["mtp_unlisted"]) == (0, 1, indexed)
    for engine, reaction in (("exllamav3", "runs"), ("tabbyapi", "runs"), ("vllm", vllm)):
        entry = run("pair", model, "--engine", engine, "--format", "json").engine(engine)
        assert (entry["method"], entry["reaction"]) == ("mtp", reaction), engine


def test_other_files_are_left_alone_where_nothing_is_missing(tmp_path: Path, run: Run) -> None:
    model, layer = _promises(tmp_path / "model")
    make.safetensors(model / "model.safetensors", {**make.weights(make.CONFIG), **layer})
    (model / "adapter_model.safetensors").write_bytes(b"broken")
    head = run("inspect", model, "--format", "json").json["facts"]["head"]
    assert (head["mtp_present"], head.get("mtp_beside")) == (1, None)


def test_other_files_that_make_no_sense_leave_the_question_open(tmp_path: Path, run: Run) -> None:
    model, _ = _promises(tmp_path / "model")
    (model / "mtp.safetensors").write_bytes(b"broken")
    entry = run("pair", model, "--engine", "exllamav3", "--format", "json").engine("exllamav3")
    assert (entry["method"], entry["reaction"]) == ("mtp", "unknown")


def gguf_head(path: Path, arch: str = "eagle3", **keys: tuple[str, Any]) -> Path:
    """A head of width 32 for a target of width 32; keys of its architecture by their names."""
    tokens = [text.encode() for text in make.gguf_tokens()]
    whole: dict[str, tuple[str, Any]] = {
        "general.architecture": ("string", arch),
        f"{arch}.context_length": ("uint32", 2048),
        f"{arch}.embedding_length": ("uint32", 32),
        f"{arch}.block_count": ("uint32", 1),
        f"{arch}.attention.layer_norm_rms_epsilon": ("float32", 1e-5),
        f"{arch}.attention.head_count": ("uint32", 2),
        f"{arch}.feed_forward_length": ("uint32", keys.get("embedding_length", ("", 32))[1]),
        f"{arch}.target_layers": ("array[int32]", [0, 0, 0]),
        f"{arch}.target_hidden_size": ("uint32", 32),
        "tokenizer.ggml.model": ("string", "gpt2"),
        "tokenizer.ggml.pre": ("string", "gpt-2"),
        "tokenizer.ggml.tokens": ("array[string]", tokens),
        "tokenizer.ggml.merges": ("array[string]", ["a b"]),
        "tokenizer.ggml.bos_token_id": ("uint32", len(tokens) - 2),
        "tokenizer.ggml.eos_token_id": ("uint32", len(tokens) - 1),
        **{f"{arch}.{name}": entry for name, entry in keys.items()},
    }
    width = whole[f"{arch}.embedding_length"][1]
    layers = whole[f"{arch}.target_layers"][1]
    sides = (len(layers) * width, width)
    inputs = 2 * width if arch == "eagle3" else width
    names = ("attn_norm", "attn_norm_2") if arch == "eagle3" else ("attn_norm",)
    names += ("ffn_norm",) if arch == "eagle3" else ("ffn_norm", "attn_q_norm", "attn_k_norm")
    tensors: dict[str, tuple[int, ...]] = {"fc.weight": sides, "output_norm.weight": (width,)}
    if arch == "dflash":
        tensors["enc.output_norm.weight"] = (width,)
    tensors |= {f"blk.0.{name}.weight": (width,) for name in names}
    tensors |= {f"blk.0.{name}.weight": (inputs, width) for name in ("attn_q", "attn_k", "attn_v")}
    square = ("attn_output", "ffn_gate", "ffn_up", "ffn_down")
    tensors |= {f"blk.0.{name}.weight": (width, width) for name in square}
    make.write_gguf(path, whole, tensors)
    return path


def test_a_gguf_head_tells_what_it_needs(tmp_path: Path) -> None:
    found = read(gguf_head(tmp_path / "head.gguf"))
    assert (found.kind, found.form, found.hidden, found.target_hidden) == ("eagle3", "gguf", 32, 32)
    assert (found.aux_layers, found.aux_count, found.fc_in, found.fc_out) == ((0, 0, 0), 3, 96, 32)
    assert (found.d2t, found.d2t_fault, found.lm_head) == (0, None, False)


GGUF_FAULTS: list[tuple[str, dict[str, tuple[str, Any]], str, str]] = [
    ("eagle3", {"target_layers": ("array[int32]", [0, 1])}, "LCP201", "refuses"),
    ("eagle3", {"target_layers": ("array[int32]", [0, 1, 2])}, "LCP203", "crashes"),
    ("eagle3", {"target_layers": ("string", "no")}, "LCP212", "refuses"),
    ("eagle3", {"target_hidden_size": ("uint32", 64)}, "LCP205", "refuses"),
    ("dflash", {"embedding_length": ("uint32", 64)}, "LCP219", "crashes"),
    ("dflash", {"target_layers": ("array[int32]", [1])}, "LCP203", "crashes"),
]


@pytest.mark.parametrize(("arch", "keys", "rule", "reaction"), GGUF_FAULTS)
def test_a_gguf_head_that_does_not_fit(
    arch: str,
    keys: dict[str, tuple[str, Any]],
    rule: str,
    reaction: str,
    tmp_path: Path,
    run: Run,
) -> None:
    target = make.gguf(tmp_path / "target.gguf")
    path = gguf_head(tmp_path / "head.gguf", arch, **keys)
    ran = run("pair", target, path, "--engine", "llama.cpp", "--format", "json")
    entry = ran.engine("llama.cpp")
    assert ran.code == 1 and entry["method"] == f"draft-{arch}"
    assert rule in findings(entry), findings(entry)
    assert entry["reaction"] == reaction


def test_a_fitting_gguf_head_by_build(tmp_path: Path, run: Run) -> None:
    target = make.gguf(tmp_path / "target.gguf")
    path = gguf_head(tmp_path / "head.gguf")
    ran = run("pair", target, path, "--engine", "llama.cpp", "--format", "json")
    entry = ran.engine("llama.cpp")
    assert (ran.code, entry["method"], entry["verdict"]) == (0, "draft-eagle3", "compatible")
    assert "--spec-type draft-eagle3" in entry["setup"]
    ran = run("pair", target, path, "--engine", "llama.cpp@b9605", "--format", "json")
    assert "LCP104" in findings(ran.engine("llama.cpp")), "the architecture came with b9606"


def test_a_gguf_that_holds_nothing_but_mtp_layers(tmp_path: Path, run: Run) -> None:
    keys: dict[str, tuple[str, Any]] = {
        "general.architecture": ("string", "qwen35"),
        "qwen35.block_count": ("uint32", 3),
        "qwen35.embedding_length": ("uint32", 32),
        "qwen35.nextn_predict_layers": ("uint32", 1),
    }
    path = tmp_path / "mtp.gguf"
    make.write_gguf(path, keys, {"blk.2.nextn.eh_proj.weight": (64, 32)})
    model = facts.read(parse(str(path)))
    assert model.role == "mtp" and model.head is not None
    assert (model.head.mtp_promised, model.head.mtp_present) == (1, 1)


@pytest.mark.parametrize("name", ["fc_norm", "use_aux_norm"])
def test_norms_of_states_have_two_names(name: str, target: Path, run: Run) -> None:
    path = head(target.parent / "head", {**EAGLE3, name: True})
    args = ("pair", target, path, "--method", "EAGLE3", "--engine")
    assert "SGL125" in run(*args, "sglang@0.5.11").out
    assert "SGL125" not in run(*args, "sglang@0.5.12").out


@pytest.mark.parametrize(
    ("change", "named"), [({}, True), ({"draft_vocab_size": None}, True), (None, False)]
)
def test_a_key_that_is_null_is_not_missing(
    change: dict[str, Any] | None, named: bool, tmp_path: Path
) -> None:
    config = {**EAGLE3, **(change or {})}
    if change is None:
        del config["draft_vocab_size"]
    assert read(head(tmp_path / "head", config)).draft_vocab_named is named


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": {"eagle_fc_bias": True}}, True),
        ({"model": {"eagle_fc_bias": True}, "eagle_fc_bias": False}, False),
        ({"model": {"eagle_fc_bias": True}, "model_type": "llama"}, None),
        ({"model": None}, None),
    ],
)
def test_a_head_of_type_eagle_may_keep_its_bias_with_its_model(
    change: dict[str, Any], told: bool | None, tmp_path: Path
) -> None:
    facts = read(head(tmp_path / "head", {**EAGLE3, "model_type": "eagle", **change}))
    assert facts.eagle_fc_bias is told


def test_a_head_may_read_the_last_states_alone(tmp_path: Path) -> None:
    config = {**EAGLE3, "eagle_config": {"use_aux_hidden_state": False}}
    assert read(head(tmp_path / "head", config)).use_aux_hidden_state is False
    assert read(head(tmp_path / "other", EAGLE3)).use_aux_hidden_state is None


@pytest.mark.parametrize(
    ("case", "later"),
    [
        ("LCP219/fail-borrows-for-a-wider-target", "LCP204"),
        ("LCP214/fail-one-of-two-glm4moe-b10258", "LCP216"),
        ("LCP214/fail-one-of-two-glm4moe", "LCP218"),
        ("LCP133/fail-head-of-two-layers", "LCP206"),
    ],
)
def test_only_the_first_end_of_llama_cpp_is_told(case: str, later: str) -> None:
    """What would happen at a later step is not said where an earlier one ends the server."""
    first = next(one for one in cases_of(case[:6]) if one.name == case)
    assert first.verdict.decided_by == first.rule
    assert finding(first.verdict, later) is None
