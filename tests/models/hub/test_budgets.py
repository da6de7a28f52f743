"""What a verdict costs, counted at the server: requests and bytes, never seconds."""

from __future__ import annotations

import json

import pytest

from tests.hub import Hub, Virtual, models
from tests.hub.process import Draftcheck, assert_calm, assert_discreet
from tests.hub.words import tokenizer_json

pytest.importorskip("huggingface_hub")
SHARDS = 30


def heads(hub: Hub, *names: str) -> int:
    """Bytes of all headers of the repos' weight files."""
    files = [file for name in names for file in hub.repos[name].files.items()]
    return sum(
        len(file.head)
        for name, file in files
        if isinstance(file, Virtual) and name.endswith((".safetensors", ".gguf"))
    )


def pair(draftcheck: Draftcheck, target: str, draft: str) -> dict[str, object]:
    ran = draftcheck("pair", target, draft, "--format", "json")
    assert_calm(ran)
    assert ran.code in (0, 1), ran.err + draftcheck.hub.story()
    return ran.json


@pytest.fixture
def large(hub: Hub) -> Hub:
    """A 70B target of 30 shards, a 1B draft of its family, and one of another."""
    hub.add_repo("org/big", models.checkpoint(models.BIG, count=SHARDS))
    hub.add_repo("org/small", models.checkpoint(models.SMALL))
    hub.add_repo("org/other", models.checkpoint(models.SMALL, seed=1))
    return hub


def test_a_sharded_target_and_a_draft_with_another_tokenizer(
    large: Hub, draftcheck: Draftcheck
) -> None:
    found = pair(draftcheck, "org/big", "org/other")
    assert found["verdict"] == "incompatible"
    tokenizers = len(tokenizer_json()) + len(tokenizer_json(seed=1))
    assert large.requests <= 2 * (SHARDS + 1) + 12, large.story()
    assert large.bytes <= 1.15 * (heads(large, "org/big", "org/other") + tokenizers), large.story()
    assert_discreet(large, "org/big", "org/other")


def test_equal_digests_are_not_downloaded(large: Hub, draftcheck: Draftcheck) -> None:
    found = pair(draftcheck, "org/big", "org/small")
    assert found["verdict"] == "compatible", json.dumps(found)[:2000]
    assert found["vocabulary"]["relation"] == "identical"  # type: ignore[index]
    assert large.requests <= 2 * (SHARDS + 1) + 12, large.story()
    assert large.bytes <= 300_000 + heads(large, "org/big", "org/small"), large.story()
    read = [entry for entry in large.log if (entry.file or "").endswith("/tokenizer.json")]
    assert sum(entry.body for entry in read) <= 100_000, "a look at the special tokens at most"


def test_two_ggufs_of_forty_gigabytes(hub: Hub, draftcheck: Draftcheck) -> None:
    hub.add_repo("org/big-gguf", {"big-Q4_K_M.gguf": models.gguf(), "README.md": b"#"})
    hub.add_repo("org/small-gguf", {"small-Q4_K_M.gguf": models.gguf(seed=1), "README.md": b"#"})
    found = pair(draftcheck, "org/big-gguf:Q4_K_M", "org/small-gguf/small-Q4_K_M.gguf")
    assert found["vocabulary"]["relation"] == "differs"  # type: ignore[index]
    assert hub.requests <= 14, hub.story()
    assert hub.bytes <= 1.15 * heads(hub, "org/big-gguf", "org/small-gguf"), hub.story()


def test_a_split_gguf_costs_its_first_part(hub: Hub, draftcheck: Draftcheck) -> None:
    files = models.split_gguf("Q4_K_M/big-Q4_K_M", 5)
    hub.add_repo("org/big-gguf", {**files, "small-Q8_0.gguf": models.gguf(seed=1)})
    ran = draftcheck("inspect", "org/big-gguf:Q4_K_M", "--format", "json")
    assert_calm(ran)
    assert ran.code == 0, ran.err
    assert hub.requests <= 2 * 5 + 6, hub.story()
    assert hub.bytes <= 1.15 * heads(hub, "org/big-gguf"), hub.story()


@pytest.mark.parametrize("draft", ["org/small", "org/other"])
def test_a_second_run_costs_next_to_nothing(draft: str, large: Hub, draftcheck: Draftcheck) -> None:
    first = pair(draftcheck, "org/big", draft)
    large.reset()
    assert pair(draftcheck, "org/big", draft) == first
    assert large.requests <= 4, large.story()
    assert large.bytes <= 20_000, large.story()


def test_a_second_run_of_ggufs_costs_next_to_nothing(hub: Hub, draftcheck: Draftcheck) -> None:
    hub.add_repo("org/gguf", {"a-Q4_K_M.gguf": models.gguf(), "b-Q8_0.gguf": models.gguf(seed=1)})
    first = pair(draftcheck, "org/gguf:Q4_K_M", "org/gguf:Q8_0")
    hub.reset()
    assert pair(draftcheck, "org/gguf:Q4_K_M", "org/gguf:Q8_0") == first
    assert hub.requests <= 4 and hub.bytes <= 20_000, hub.story()


def test_a_pinned_commit_that_was_read_before_costs_nothing(
    hub: Hub, draftcheck: Draftcheck
) -> None:
    repo = hub.add_repo("org/a", models.small_checkpoint())
    pinned = f"org/a@{repo.sha}"
    first = pair(draftcheck, pinned, pinned)
    hub.reset()
    assert pair(draftcheck, pinned, pinned) == first
    assert hub.requests == 0, hub.story()


def test_what_one_model_read_is_not_read_for_another(large: Hub, draftcheck: Draftcheck) -> None:
    """The cache is by content: a new repo with a known tokenizer costs its headers."""
    pair(draftcheck, "org/big", "org/other")
    large.add_repo("org/third", models.checkpoint(models.SMALL, seed=1))
    large.reset()
    pair(draftcheck, "org/big", "org/third")
    assert large.bytes <= 300_000 + heads(large, "org/third"), large.story()


def test_a_changed_readme_costs_a_listing(large: Hub, draftcheck: Draftcheck) -> None:
    first = pair(draftcheck, "org/big", "org/small")
    large.repos["org/big"].commit({"README.md": b"# New words"}, keep=True)
    large.reset()
    assert pair(draftcheck, "org/big", "org/small")["engines"] == first["engines"]
    assert large.requests <= 6 and large.bytes <= 60_000, large.story()


def test_a_head_costs_its_tables(hub: Hub, draftcheck: Draftcheck) -> None:
    hub.add_repo("org/big", models.checkpoint(models.BIG, count=SHARDS))
    hub.add_repo("org/head", models.head())
    found = pair(draftcheck, "org/big", "org/head")
    assert {entry["engine"]: entry["verdict"] for entry in found["engines"]}["vllm"] == "compatible"  # type: ignore[attr-defined]
    tables = 8 * 32_000 + 151_680
    tokenizer = len(tokenizer_json())
    limit = 300_000 + heads(hub, "org/big", "org/head") + tables + tokenizer
    assert hub.bytes <= limit, hub.story()
    assert not [entry for entry in hub.log if entry.body > 1.05 * max(tokenizer, tables)]


def test_a_file_of_the_quantisation_is_read_where_config_json_names_none(
    hub: Hub, draftcheck: Draftcheck
) -> None:
    said = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
    file = {"hf_quant_config.json": json.dumps(said)}
    own = {"quantization_config": {"quant_method": "fp8"}}
    hub.add_repo("org/there", {**models.small_checkpoint(), **file})
    hub.add_repo("org/named", {**models.small_checkpoint(**own), **file})
    hub.add_repo("org/plain", models.small_checkpoint())
    methods = []
    for name in ("org/there", "org/named", "org/plain"):
        ran = draftcheck("inspect", name, "--format", "json")
        assert_calm(ran)
        methods.append(ran.json["facts"]["config"].get("quantization", {}).get("quant_method"))
    assert methods == ["modelopt", "fp8", None]
    asked = [entry.path for entry in hub.log if "hf_quant_config" in entry.path]
    assert asked and all("/org/there/" in path for path in asked), hub.story()
