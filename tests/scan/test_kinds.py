"""Heads find their verifiers, GGUF files their like; searches bring targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftcheck.models import choose_gguf
from tests import make
from tests.hub import Hub, Virtual, models
from tests.hub.process import Draftcheck, assert_calm
from tests.scan.world import SMALL, TARGET, WORDS, checkpoint, results

pytest.importorskip("huggingface_hub")


def drafts(path: Path) -> dict[str, set[str | None]]:
    found: dict[str, set[str | None]] = {}
    for row in results(path)["verdicts"]:
        found.setdefault(row.target, set()).add(row.draft)
    return found


def test_heads_by_their_verifier_never_by_their_card_alone(
    hub: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    card = {"extra": {"baseModels": {"relation": "finetune", "models": [{"id": TARGET}]}}}
    hub.add_repo("lab/large-eagle3", models.head(TARGET, WORDS, 128))
    hub.add_repo("lab/plain-name", models.head(TARGET, WORDS, 128), **card)
    hub.add_repo("lab/eagle-of-another", models.head("other/large9", WORDS, 128), **card)
    store = tmp_path / "s.db"
    ran = draftcheck("scan", "--target", TARGET, "--store", store, "--quiet")
    assert_calm(ran)
    found = drafts(store)[TARGET]
    assert {"lab/large-eagle3", "lab/plain-name"} <= found
    assert "lab/eagle-of-another" not in found
    [why] = [row for row in results(store)["rejected"] if row.repo == "lab/eagle-of-another"]
    assert why.stage == "header" and "made for other/large9" in why.why
    methods = {row.method for row in results(store)["verdicts"] if row.draft == "lab/plain-name"}
    assert "eagle3" in methods


def test_gguf_files_are_paired_with_gguf_files(
    hub: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    wide = {
        "embedding_length": 512, "block_count": 4, "feed_forward_length": 512,
        "attention.head_count": 8, "attention.head_count_kv": 1,
    }  # fmt: skip
    big = models.gguf_keys(WORDS, **{f"llama.{key}": ("uint32", n) for key, n in wide.items()})
    rows = models.gguf_tensors(WORDS + 5, "F16", 4, 512, 512)
    large = Virtual(*make.gguf_header(big, rows))
    hub.add_repo("quant/large-GGUF", {"large-Q8_0.gguf": large, "large-Q4_K_M.gguf": large})
    small = models.small_gguf(WORDS)
    hub.add_repo("quant/small-GGUF", {"small-Q8_0.gguf": small, "small-IQ1_S.gguf": small})
    hub.add_repo("quant/other-GGUF", {"other.gguf": models.small_gguf(WORDS + 9)})
    store = tmp_path / "s.db"
    target = "quant/large-GGUF:Q8_0"
    ran = draftcheck("scan", "--target", target, "--store", store, "--quiet")
    assert_calm(ran)
    assert ran.code == 0, ran.out
    assert drafts(store) == {target: {None, "quant/small-GGUF/small-Q8_0.gguf"}}
    hub.reset()
    draftcheck("scan", "--target", target, "--store", store, "--quiet")
    assert len(hub.log) == 1, hub.story()
    del hub.repos["quant/small-GGUF"]
    ran = draftcheck("scan", "--target", target, "--store", store, "--quiet", "--format", "json")
    assert {(c["kind"], c["cause"]) for c in ran.json["changes"]} == {("gone", "vanished")}


@pytest.mark.parametrize("mark", choose_gguf.HEADS)
def test_a_head_beside_a_gguf_is_not_read_as_the_model(
    hub: Hub, draftcheck: Draftcheck, tmp_path: Path, mark: str
) -> None:
    """The head stands first by quantisation and by name, and yet the model is read."""
    hub.add_repo("quant/large-GGUF", {"large-Q8_0.gguf": models.gguf(WORDS)})
    files = {
        "small-Q8_0.gguf": models.small_gguf(WORDS),
        f"{mark}small-Q4_K_M.gguf": models.small_gguf(WORDS),
    }
    hub.add_repo("quant/small-GGUF", files)
    store = tmp_path / "s.db"
    target = "quant/large-GGUF:Q8_0"
    assert_calm(draftcheck("scan", "--target", target, "--store", store, "--quiet"))
    assert drafts(store) == {target: {None, "quant/small-GGUF/small-Q8_0.gguf"}}


def test_targets_that_a_search_brings(hub: Hub, draftcheck: Draftcheck, tmp_path: Path) -> None:
    sizes = {"extra": {"safetensors": {"total": 10**9, "parameters": {"BF16": 10**9}}}}
    for name in ("org/large", "other/large"):
        hub.repos[name].extra.update(sizes["extra"])
    path = tmp_path / "targets.toml"
    path.write_text('[[search]]\nauthor = "org"\nmin_parameters = "0.5B"\n')
    store = tmp_path / "s.db"
    ran = draftcheck("scan", path, "--store", store, "--quiet", "--format", "json")
    assert_calm(ran)
    assert [(t["ref"], t["source"]) for t in ran.json["targets"]] == [("org/large", "search")]
    assert drafts(store)["org/large"] >= {"org/draft-0", "org/tuned"}
    again = draftcheck("scan", path, "--store", store, "--quiet", "--format", "json")
    assert again.json["changes"] == []


def test_a_target_that_cannot_be_read(hub: Hub, draftcheck: Draftcheck, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    command = ("scan", "--target", TARGET, "--target", "org/nobody", "--store", store)
    ran = draftcheck(*command, "--quiet", "--format", "json")
    assert_calm(ran)
    assert ran.code == 3
    problems = {t["ref"]: t["problem"] for t in ran.json["targets"]}
    assert problems[TARGET] is None and "no such repo" in problems["org/nobody"]
    assert TARGET in drafts(store)


def test_a_draft_as_large_as_the_target_is_left_out(
    hub: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    hub.add_repo("org/copy", models.checkpoint({**SMALL, "num_hidden_layers": 90}, words=WORDS))
    store = tmp_path / "s.db"
    draftcheck("scan", "--target", "org/draft-3", "--store", store, "--quiet")
    found = drafts(store)["org/draft-3"]
    assert "org/draft-0" in found and not found & {"org/copy", TARGET}


def test_a_model_that_no_store_could_hold_does_not_end_the_night(
    hub: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    """Half a character and a number of 31 digits in its config; another cannot be read, and is
    pinned: the rest of the night is as ever."""
    odd, broken = checkpoint(), checkpoint()
    config = json.loads(odd["config.json"])
    config |= {"architectures": ["Llama\ud800ForCausalLM"], "max_position_embeddings": 10**30}
    odd["config.json"] = json.dumps(config).encode()
    broken["config.json"] = b'{"model_type": "\\ud800", "vocab_size": '
    hub.add_repo("org/odd", odd)
    hub.add_repo("org/broken", broken)
    store = tmp_path / "store.db"
    scan = ("scan", "--target", TARGET, "--pin", TARGET, "org/broken", "--store", store, "--quiet")
    for _ in range(2):
        ran = draftcheck(*scan, "--candidate", "org/odd", "--format", "json")
        assert_calm(ran)
        assert ran.code == 3, ran.err  # the pinned pair is undecided
        assert [pin["verdict"] for pin in ran.json["pins"]] == ["undecided"]
        assert "org/broken" in ran.json["pins"][0]["why"]
        assert ran.json["targets"][0]["usable_drafts"] >= 5
    models = {model.ref: model for model in results(store)["models"]}
    assert models["org/odd"].context is None
    assert models["org/odd"].architecture == "Llama\\ud800ForCausalLM"
    report = ("report", "--store", store, "--output", tmp_path / "out")
    assert draftcheck(*report).code == 0
