"""draftcheck known: published figures under one definition, publishers' pairs, and their check."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftcheck.errors import RuleError
from draftcheck.evidence import check, published
from draftcheck.rulebook import files
from tests import make
from tests.conftest import ROOT, Run

EVIDENCE = ROOT / "rules" / "evidence"


def figures(run: Run, *words: str) -> dict[str, dict[str, Any]]:
    """By the id of their row."""
    ran = run("known", *words, "--format", "json")
    assert ran.code == 0, ran.err
    return {row["id"]: row for way in ran.json["known"] for row in way["figures"]}


def test_a_pair_and_its_figures(run: Run) -> None:
    pair = ("meta-llama/Llama-3.1-8B-Instruct", "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3")
    told = run("known", *pair)
    assert told.code == 0
    assert told.out.splitlines()[0] == (
        f"{pair[0]} with {pair[1]}: 2.6 tokens per pass on MT-Bench, 80 prompts, 256 out"
        " with 3 drafted"
    )
    assert told.out.splitlines()[-1] == f"to check it: draftcheck pair {' '.join(pair)}"
    row = figures(run, *pair)["A114"]
    assert row["tokens_per_pass"] == {"low": 2.6, "high": 2.6, "as_said": "2.6"}
    assert (row["by_position"], row["by_position_is"]) == ([0.7296, 0.5208, 0.3545], "marginal")
    assert (row["draft_tokens"], row["temperature"], row["engine"]) == (3, 0.0, "vllm")
    assert "test_acceptance_length.py" in row["source"]


FIRST = {
    "google/gemma-4-31B-it": "google/gemma-4-31B-it-assistant",
    "google/gemma-4-12B-it": "google/gemma-4-12B-it-assistant",
    "google/gemma-4-26B-A4B-it": "google/gemma-4-26B-A4B-it-assistant",
    "Qwen/Qwen3.8-27B": "own",
    "Qwen/Qwen3.6-27B": "own",
    "Qwen/Qwen3.6-35B-A3B": "own",
    "Qwen/Qwen3.5-35B-A3B": "own",
    "deepseek-ai/DeepSeek-V4-Flash": "own",
    "deepseek-ai/DeepSeek-V4-Pro": "own",
    "zai-org/GLM-5.2": "own",
    "mistralai/Mistral-Small-4-119B-2603": "mistralai/Mistral-Small-4-119B-2603-eagle",
    "openai/gpt-oss-120b": "nvidia/gpt-oss-120b-Eagle3-v3",
    "openai/gpt-oss-20b": "amazon/GPT-OSS-20B-P-EAGLE",
    "moonshotai/Kimi-K2.5": "lightseekorg/kimi-k2.5-eagle3-mla",
    "moonshotai/Kimi-K2.6": "lightseekorg/kimi-k2.6-eagle3-mla",
    "moonshotai/Kimi-K3": "RedHatAI/Kimi-K3-speculator.dspark",
    "meta-llama/Llama-3.1-8B-Instruct": "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
    "meta-llama/Llama-3.3-70B-Instruct": "nebius/EAGLE3-Llama-3.3-70B-Instruct",
    "Qwen/Qwen3-4B": "deepseek-ai/dspark_qwen3_4b_block7",
    "Qwen/Qwen3-8B": "z-lab/Qwen3-8B-DFlash-b16",
    "Qwen/Qwen3-14B": "deepseek-ai/dspark_qwen3_14b_block7",
    "Qwen/Qwen3-32B": "AngelSlim/Qwen3-32B_eagle3",
}
"""The targets with most public pairs: the head of its publisher, or layers of its own; where its
publisher has none, what an engine's makers give, then the publishers of heads."""
FURTHER = {
    "google/gemma-4-E4B-it": "google/gemma-4-E4B-it-assistant",
    "Qwen/Qwen3-Next-80B-A3B-Instruct": "own",
    "deepseek-ai/DeepSeek-V3.2": "own",
    "zai-org/GLM-4.7": "own",
    "XiaomiMiMo/MiMo-V2.5": "own",
    "stepfun-ai/Step-3.5-Flash": "own",
    "inclusionAI/Ling-3.0-flash": "inclusionAI/Ling-3.0-flash-dspark",
    "tencent/Hy3": "own",
    "meta-models/Muse-Glimmer-30B": "meta-models/Muse-Glimmer-30B-assistant",
    "mistralai/Mistral-Medium-3.5-128B": "mistralai/Mistral-Medium-3.5-128B-EAGLE",
    "poolside/Laguna-S-2.1": "poolside/Laguna-S-2.1-DFlash",
    "MiniMaxAI/MiniMax-M3": "Inferact/MiniMax-M3-EAGLE3",
}


@pytest.mark.parametrize(("target", "first"), [*FIRST.items(), *FURTHER.items()])
def test_what_its_publisher_means_comes_first(run: Run, target: str, first: str) -> None:
    known = run("known", target, "--format", "json").json["known"]
    assert known[0]["draft"] == first


def test_the_targets_with_most_pairs_are_asked_about() -> None:
    """Twenty of the most named targets, by the rows that name them."""
    named = Counter(pair.target for pair in published.pairs())
    assert {target for target, _ in named.most_common(20)} <= FIRST.keys() | FURTHER.keys()


def test_best_first_for_a_kind_of_work(run: Run) -> None:
    known = run("known", "Qwen/Qwen3-8B", "--for", "maths", "--format", "json").json["known"]
    maths = [
        max(
            (row["tokens_per_pass"]["low"] for row in way["figures"]
             if row["work"] == "maths" and row["tokens_per_pass"] and not row["tree"]),
            default=0.0,
        )
        for way in known if way["public"]
    ]  # fmt: skip
    assert maths == sorted(maths, reverse=True) and maths[0] > 6
    assert [way["public"] for way in known] == sorted((w["public"] for w in known), reverse=True)


@pytest.mark.parametrize(
    "name",
    [
        "RedHatAI/gemma-4-12B-it-NVFP4",
        "unsloth/gemma-4-12b-it-GGUF",
        "/models/gemma-4-12B-it-Q4_K_M.gguf",
    ],
)
def test_names_match_across_packings_and_say_so(run: Run, name: str) -> None:
    told = run("known", name)
    assert told.code == 0
    assert "google/gemma-4-12B-it-assistant" in told.out
    assert "by name, another packing of " in told.out and "google/gemma-4-12B-it" in told.out
    other = run("known", "google/gemma-4-12B", "--format", "json")
    assert (other.code, other.json["known"]) == (3, [])  # another model, not another packing


def test_a_published_version_that_the_rules_refuse_is_said_so(run: Run) -> None:
    pair = ("meta-llama/Llama-3.1-8B-Instruct", "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3")
    engines = run("known", *pair, "--format", "json").json["known"][0]["engines"]
    (vllm,) = [one for one in engines if one["engine"] == "vllm"]
    assert vllm["since"] == "0.6.0" and vllm["refused"].startswith("VLL101")
    assert "but VLL101: This version does not know the method" in run("known", *pair).out
    gemma = run("known", "google/gemma-4-31B-it", "--format", "json").json["known"][0]
    assert [one["refused"] for one in gemma["engines"]] == [None] * len(gemma["engines"])


def test_one_engine(run: Run) -> None:
    known = run("known", "Qwen/Qwen3-8B", "--engine", "llama.cpp", "--format", "json").json["known"]
    assert known
    for way in known:
        named = {one["engine"] for one in way["engines"]} | {r["engine"] for r in way["figures"]}
        assert "llama.cpp" in named
    assert run("known", "Qwen/Qwen3-8B", "--engine", "vlm").code == 2


def test_definitions_are_made_equal(run: Run) -> None:
    """SGLang's block counts the last token; two figures of a cell are two rows; ranges stay."""
    row = figures(run, "Qwen/Qwen3-8B")
    assert (row["A605"]["draft_tokens"], row["A118"]["draft_tokens"]) == (15, 16)
    assert row["A607"]["tokens_per_pass"] == {"low": 6.29, "high": 6.44, "as_said": "6.29..6.44"}
    two = figures(run, "netease-youdao/Confucius3-Math")
    assert [two[key]["tokens_per_pass"]["low"] for key in ("A725a", "A725b")] == [5.47, 5.79]
    assert [two[key]["dataset"] for key in ("A725a", "A725b")] == ["GSM8K", "MATH500"]
    floor = figures(run, "XiaomiMiMo/MiMo-V2-Flash")["A708"]["tokens_per_pass"]
    assert floor == {"low": 3.2, "high": None, "as_said": ">=3.2"}


def test_every_row_can_be_read_back(run: Run) -> None:
    """Of a sample of targets: all their rows, under the id that the table has."""
    every = (*published.figures(), *published.pairs())
    for target in sorted({row.target for row in every})[::8]:
        known = run("known", target, "--format", "json").json["known"]
        read = {row["id"] for way in known for row in (*way["figures"], *way["pairs"])}
        assert {row.id for row in every if row.target == target} <= read


def test_what_is_left_out_has_a_reason(run: Run) -> None:
    told = run("known", "--left-out")
    assert told.code == 0 and told.out.startswith("15 collected rows are left out")
    assert "neither target nor head is public" in " ".join(told.out.split())


def test_every_row_passes_its_check(run: Run) -> None:
    told = run("known", "--check")
    assert (told.code, told.out.strip()) == (0, "0 faults in 1469 rows")


def rewritten(rows: list[dict[str, str]], folder: Path, name: str) -> None:
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str, dict[str, str]], None]:
    """Give the row of a table other cells, in a copy of rules/."""

    def change(table: str, row: str, cells: dict[str, str]) -> None:
        shutil.copytree(ROOT / "rules", tmp_path / "rules")
        monkeypatch.setattr(files, "folder", lambda: tmp_path / "rules")
        monkeypatch.setattr(files, "_read_table_once", files._read_table_once.__wrapped__)
        with (EVIDENCE / f"{table}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        (one,) = [entry for entry in rows if entry["id"] == row]
        one |= cells
        rewritten(rows, tmp_path / "rules" / "evidence", table)

    return change


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"tokens_per_pass": "0.6"}, "is not between 1 and 4"),
        ({"tokens_per_pass": "4.5"}, "is not between 1 and 4"),
        ({"tokens_per_pass": "2.2"}, "positions make 2.60 tokens per pass, not 2.2"),
        ({"rate": "0.9"}, "positions make a rate of 0.535, not 0.9"),
        ({"positions": "0.5 0.7 0.2"}, "marginal rates by position grow"),
        ({"positions_are": ""}, "go together"),
        ({"tokens_per_pass": "", "positions": "", "positions_are": ""}, "no figure"),
        ({"engine": "vlm"}, "an engine called 'vlm' is not known here"),
        ({"speedup": "900", "speedup_over": "plain"}, "is not between 0.05 and 20"),
        ({"draft": ""}, "no draft"),
        ({"id": "A115"}, "A115 stands in acceptance, acceptance"),
    ],
)
def test_rows_that_cannot_be_true(
    changed: Callable[..., None], cells: dict[str, str], words: str
) -> None:
    changed("acceptance", "A114", cells)
    assert any(words in fault for fault in check.faults()), list(check.faults())


def test_a_row_twice(changed: Callable[..., None]) -> None:
    with (EVIDENCE / "acceptance.csv").open(newline="", encoding="utf-8") as file:
        (row,) = [entry for entry in csv.DictReader(file) if entry["id"] == "A114"]
    changed("acceptance", "A115", {**row, "id": "A115"})
    assert list(check.faults()) == ["A115 says what A114 says"]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"target": "Llama 3.1"}, "'target' must match"),
        ({"tokens_per_pass": "2,6"}, "'tokens_per_pass' must match"),
        ({"tokens": "three"}, "'tokens' must be int"),
        ({"work": "poetry"}, "'work'"),
        ({"source": ""}, "'source' is missing"),
    ],
)
def test_cells_of_another_kind(
    changed: Callable[..., None], cells: dict[str, str], words: str
) -> None:
    changed("acceptance", "A114", cells)
    with pytest.raises(RuleError) as caught:
        published.figures()
    assert caught.value.message.startswith("evidence/acceptance.csv line 114: ")
    assert words in caught.value.message


def test_nothing_is_known(run: Run) -> None:
    told = run("known", "some/model\x1b[31m")
    assert told.code == 3
    assert (
        told.out.startswith("nothing is published here of some/model")
        and "\x1b[31m" not in told.out
    )
    assert run("known").code == 2


def test_a_verdict_shows_what_was_published_of_the_pair(run: Run, tmp_path: Path) -> None:
    target, draft = tmp_path / "Qwen3-8B", tmp_path / "Qwen3-8B-DFlash-b16"
    for name, folder in (("target", target), ("draft", draft)):
        shutil.copytree(ROOT / "fixtures" / "pair" / name, folder)
    told = run("pair", target, draft, "--engine", "transformers")
    assert "  published   6.54 tokens per pass on GSM8K with 16 drafted (thinking off)" in told.out
    body = run("pair", target, draft, "--engine", "transformers", "--format", "json").json
    assert body["published"]["id"] == "A120"
    alone = run("pair", target, "--engine", "vllm", "--format", "json").json
    assert alone["published"] is None  # it has no layers of its own
    other = run("pair", *(ROOT / "fixtures" / "pair" / n for n in ("target", "draft")))
    assert "published" not in other.out


def of_base_model(repo: str, relation: str = "quantized") -> str:
    return f"---\nbase_model: {repo}\nbase_model_relation: {relation}\n---\n"


def test_base_models_match_where_names_do_not(run: Run, tmp_path: Path) -> None:
    """A card that says what the folder was packed from; what was tuned is another model."""
    shutil.copytree(ROOT / "fixtures" / "pair" / "target", tmp_path / "my-model")
    card = tmp_path / "my-model" / "README.md"
    card.write_text(of_base_model("google/gemma-4-12B-it"), encoding="utf-8")
    told = run("known", tmp_path / "my-model")
    assert told.code == 0 and "google/gemma-4-12B-it-assistant" in told.out
    assert "note: by its publisher's word, another packing of" in told.out
    first = run("known", tmp_path / "my-model", "--format", "json").json["known"][0]
    assert (first["match"], first["matched_by"]) == ("packing", "base model")
    pair = run("pair", tmp_path / "my-model", "--engine", "vllm", "--format", "json").json
    assert pair["target"]["facts"]["bases"] == {"google/gemma-4-12B-it": "quantized"}
    saved = tmp_path / "m.facts.json"
    assert "google/gemma-4-12B-it (quantized)" in run("inspect", tmp_path / "my-model").out
    run("inspect", tmp_path / "my-model", "--output", saved)
    assert run("known", saved, "--format", "json").json["known"][0] == first
    card.write_text(of_base_model("google/gemma-4-12B-it", "finetune"), encoding="utf-8")
    assert run("known", tmp_path / "my-model").code == 3
    for broken in ("---\n[\nbase_model_relation:\n---\n", "---\nbase_model_relation: [1]\n"):
        card.write_text(broken, encoding="utf-8")
        assert run("known", tmp_path / "my-model").code == 3


@pytest.mark.parametrize(
    ("called", "code"), [("Gemma 4 12B It", 0), ("Gemma 4 12B Poems", 3)], ids=["packed", "tuned"]
)
def test_a_gguf_names_its_base(run: Run, tmp_path: Path, called: str, code: int) -> None:
    """Converters copy the base of what they convert: only with its name it is a packing of it."""
    url = "https://huggingface.co/google/gemma-4-12B-it"
    keys = {"general.name": called, "general.base_model.0.repo_url": url}
    make.gguf(tmp_path / "model.gguf", keys={key: ("string", keys[key]) for key in keys})
    assert run("known", tmp_path / "model.gguf").code == code


def test_a_folder_of_the_hub_s_cache_has_the_name_of_its_repo(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "models--google--gemma-4-12B-it" / "snapshots" / ("a" * 40)
    shutil.copytree(ROOT / "fixtures" / "pair" / "target", folder)
    known = run("known", folder, "--format", "json").json["known"]
    assert known[0]["draft"] == "google/gemma-4-12B-it-assistant"
