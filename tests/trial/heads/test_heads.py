"""`draftcheck trial TARGET HEAD`: what it says is what a speculating loop counts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, Run

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
transformers = pytest.importorskip("transformers", reason="the trial extra is not installed")
files = pytest.importorskip("safetensors.torch", reason="the trial extra is not installed")

pytestmark = pytest.mark.transformers
TARGET = FIXTURES / "pair" / "target"
HEADS = FIXTURES / "pair" / "heads"
EAGLE3 = HEADS / "eagle3"
LENGTHS = (1, 2, 3, 5)
Tensors = dict[str, Any]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    file.write_text("Tell me about Mira.\nHow many apples are left?\n", encoding="utf-8")
    return file


def changed(
    folder: Path, change: Callable[[Tensors], Tensors | None] | None = None, **more: Any
) -> Path:
    """The EAGLE-3 head with other tensors or other words in its config."""
    shutil.copytree(EAGLE3, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **more}), encoding="utf-8")
    if change is not None:
        tensors = files.load_file(folder / "model.safetensors")
        files.save_file(change(tensors) or tensors, folder / "model.safetensors")
    return folder


def measured(run: Run, prompts: Path, texts: Path, *more: object, code: int = 0) -> dict[str, Any]:
    ran = run(
        "trial", TARGET, *more, "--prompts", prompts, "--tokens", 40, "--device", "cpu",
        "--no-cost", "--reuse", texts, "--format", "json",
    )  # fmt: skip
    assert ran.code == code, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def drafter(name: str, engine: str, target: Any) -> tuple[Any, list[int]]:
    """A loop that drafts with a fixture's head, and the layers that it reads."""
    from tests.trial.heads import naive, naive_more

    (file,) = (HEADS / name).glob("*.safetensors")
    weights = {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in files.load_file(file).items()
    }
    config = json.loads((HEADS / name / "config.json").read_text(encoding="utf-8"))
    if name == "eagle3":
        ids = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
        return naive.eagle3(target, config, weights, ids), ids
    if name == "medusa":
        return naive_more.medusa(target, weights), []
    own = config["dflash_config"]
    ids = [number + 1 for number in own["target_layer_ids"]]
    if engine == "transformers":
        return naive_more.dflash(target, config, weights), ids
    some = {**config, "mask_token_id": own["mask_token_id"]}
    return naive.block(target, some, weights, ids, causal=[False], window=[None]), ids


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("eagle3", "vllm"),
        ("medusa", "vllm"),
        ("dflash", "vllm"),  # as many masks as drafts
        ("dflash", "transformers"),  # whole blocks
    ],
)
@torch.inference_mode()
def test_every_length_is_what_a_loop_counts(
    run: Run, prompts: Path, tmp_path: Path, name: str, engine: str
) -> None:
    from tests.trial.heads import naive

    texts = tmp_path / "texts.json"
    found = measured(run, prompts, texts, HEADS / name, "--engine", engine)
    target = transformers.AutoModelForCausalLM.from_pretrained(TARGET, dtype=torch.float32)
    draft, ids = drafter(name, engine, target)
    answers = json.loads(texts.read_text(encoding="utf-8"))["texts"]
    rows = {row["draft_tokens"]: row for row in found["lengths"]}
    assert list(rows) == list(range(1, len(rows) + 1)) and len(rows) >= 3
    for g in [g for g in LENGTHS if g in rows]:

        def whole(text: list[int], count: int, g: int = g) -> list[int]:
            drafted: list[int] = draft(text, g)  # an engine makes as many wherever it is
            return drafted[:count]

        taken = [
            hits
            for text in answers
            for hits in naive.speculate(target, text["prompt"], text["tokens"], whole, g)
        ]
        counters = rows[g]["counters"]
        reached = [sum(hits > i for hits in taken) for i in range(g)]
        assert counters["num_accepted_tokens"] == sum(taken)
        assert counters["num_accepted_tokens_per_pos"] == reached
        tokens = sum(len(text["tokens"]) - 1 for text in answers)
        assert rows[g]["tokens_per_pass"] == pytest.approx(tokens / len(taken))
    assert rows[3]["tokens_per_pass"] > 1.3
    assert found["head"] == {
        "kind": name, "engine": engine, "version": found["head"]["version"], "layers": ids,
    }  # fmt: skip
    assert found["thresholds"] and found["trees"]


def test_a_chain_is_the_tree_of_first_choices(run: Run, prompts: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree.json"
    tree.write_text(json.dumps([[0], [0, 0], [0, 0, 0]]), encoding="utf-8")
    found = measured(run, prompts, tmp_path / "texts.json", EAGLE3, "--tree", tree)
    own = next(row for row in found["trees"] if row["name"] == "tree")
    assert own["tokens_per_pass"] == found["lengths"][2]["tokens_per_pass"]


def test_a_sampled_target(run: Run, prompts: Path, tmp_path: Path) -> None:
    found = measured(run, prompts, tmp_path / "t.json", EAGLE3, "--temperature", 0.7)
    assert found["draft_sampling"] == "probabilistic"
    rates = [row["tokens_per_pass"] for row in found["lengths"]]
    assert 1.2 < rates[0] < 2 and rates[0] < rates[2] < 4
    assert 0 < found["overlap"] < 1


def test_a_target_without_layers_of_its_own(run: Run, prompts: Path, tmp_path: Path) -> None:
    found = measured(run, prompts, tmp_path / "texts.json")
    assert found["lengths"] == [] and found["ngram"] and found["broken"] is None
    assert any("no MTP layers" in note for note in found["notes"])


def permuted(tensors: Tensors) -> Tensors:
    size = len(tensors["d2t"])
    ids = (torch.arange(size) + tensors["d2t"]).roll(size // 3)
    return {**tensors, "d2t": ids - torch.arange(size)}


@pytest.mark.parametrize(
    ("change", "config", "says"),
    [
        (permuted, {}, "do not rise"),
        (lambda t: {k: v for k, v in t.items() if k != "d2t"}, {}, "no d2t"),
        (lambda t: {k: v for k, v in t.items() if "o_proj" not in k}, {}, "o_proj"),
        (lambda t: {k: v for k, v in t.items() if k != "fc.weight"}, {}, "fc.weight"),
        (None, {"hidden_size": 64, "head_dim": 16}, "width 64"),
        (lambda t: {**t, "fc.weight": t["fc.weight"][:, :256].contiguous()}, {}, "fc.weight"),
        (None, {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 9]}}, "layer 9"),
        (lambda t: {**t, "norm.weight": t["norm.weight"] * float("nan")}, {}, "not numbers"),
    ],
    ids=["permuted d2t", "no d2t", "no o_proj", "no fc", "width", "fc width", "layer", "NaN"],
)
def test_a_head_that_does_not_fit(
    run: Run, prompts: Path, tmp_path: Path, change: Any, config: dict[str, Any], says: str
) -> None:
    head = changed(tmp_path / "head", change, **config)
    found = measured(run, prompts, tmp_path / "texts.json", head, code=1)
    assert says in found["broken"]


def test_a_head_of_another_target(run: Run, prompts: Path, tmp_path: Path) -> None:
    """It loads and runs; the figure is what it is worth."""

    def other(tensors: Tensors) -> Tensors:
        generator = torch.Generator().manual_seed(1)
        fc = tensors["fc.weight"]
        turn = torch.linalg.qr(torch.randn(len(fc), len(fc), generator=generator))[0]
        return {**tensors, "fc.weight": (turn @ fc.float()).to(fc.dtype).contiguous()}

    good = measured(run, prompts, tmp_path / "texts.json", EAGLE3)
    head = changed(tmp_path / "head", other)
    bad = measured(run, prompts, tmp_path / "texts.json", head)
    assert bad["lengths"][2]["tokens_per_pass"] < good["lengths"][2]["tokens_per_pass"] / 1.5


def test_every_kind_has_a_class() -> None:
    from draftcheck.trial.backends import backend
    from draftcheck.trial.backends.transformers.heads.families import FAMILIES

    assert set(backend.HEADS) == set(FAMILIES)
