"""The trained heads in fixtures/pair/heads: readings of them against a loop that speculates.

Random heads hardly ever hit; these do, so that every reading decides some pass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
transformers = pytest.importorskip("transformers", reason="the trial extra is not installed")

from safetensors.torch import load_file  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from draftcheck.trial.backends.transformers.heads import families, ways  # noqa: E402
from draftcheck.trial.backends.transformers.heads.readings import (  # noqa: E402
    Head,
    HeadSource,
    SlotTokens,
    TargetStates,
)
from tests.conftest import ROOT  # noqa: E402
from tests.trial.heads import naive, naive_more  # noqa: E402
from tests.trial.heads.naive import Drafter, Tensors  # noqa: E402

PAIR = ROOT / "fixtures/pair"
HEADS = PAIR / "heads"
LENGTHS = (1, 2, 3, 5)
PROMPTS = (
    "<|im_start|>user\nTell me a story about Greta.<|im_end|>\n<|im_start|>assistant\n",
    "The table of 7:\n1 x 7 = 7\n2 x 7",
    "Dear Viktor,\n\nthank you for",
)
Texts = list[tuple[list[int], list[int]]]
"""Prompts and the target's own answers."""


@pytest.fixture(scope="module", autouse=True)
def _no_gradients() -> Any:
    with torch.inference_mode():
        yield


def load(name: str) -> Any:
    kind = transformers.AutoModelForCausalLM
    return kind.from_pretrained(PAIR / name, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def target() -> Any:
    return load("target")


@pytest.fixture(scope="module")
def with_mtp() -> Any:
    return load("heads/target-mtp")


@pytest.fixture(scope="module")
def texts(target: Any) -> Texts:
    tokenizer = Tokenizer.from_file(str(PAIR / "target/tokenizer.json"))
    made = []
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt).ids
        out = target.generate(torch.tensor([ids]), max_new_tokens=32, do_sample=False)
        made.append((ids, out[0, len(ids) :].tolist()))
    return made


def files(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Config and tensors of a fixture, in float32."""
    (weights,) = (HEADS / name).glob("*.safetensors")
    config = json.loads((HEADS / name / "config.json").read_text(encoding="utf-8"))
    tensors = load_file(weights)
    return config, {k: v.float() if v.is_floating_point() else v for k, v in tensors.items()}


def made(kind: str, raw: Mapping[str, Any], w: Tensors, target: Any, engine: str = "vllm") -> Head:
    return families.FAMILIES[kind](HeadSource(raw, w, target, ways.way(engine)))


def from_readings(head: Head, target: Any, texts: Texts, length: int) -> list[list[int]]:
    """Accepted drafts of each pass of each text, all texts in one batch."""
    whole = [torch.tensor(prompt + answer) for prompt, answer in texts]
    ids = torch.nn.utils.rnn.pad_sequence(whole, batch_first=True)
    seen = target(ids, output_hidden_states=True).hidden_states
    hidden = torch.cat([seen[n] for n in head.layers_read or (-1,)], dim=-1)
    begin = min(len(prompt) for prompt, _ in texts) - 1
    choices = [
        head.logits(state, reading).argmax(-1)
        for reading, state in enumerate(
            head.readings(SlotTokens(ids, begin), TargetStates(hidden), length), start=1
        )
    ]
    if head.to_target is not None:
        choices = [head.to_target[own] for own in choices]
    passes = []
    for n, (prompt, answer) in enumerate(texts):

        def draft(text: list[int], count: int, n: int = n) -> list[int]:
            return [int(own[n, len(text) - 2 - begin]) for own in choices[:count]]

        passes.append(naive.speculate(target, prompt, answer, draft, length))
    return passes


def compare(head: Head, draft: Drafter, target: Any, texts: Texts) -> None:
    for length in LENGTHS:
        slow = [naive.speculate(target, *text, draft, min(length, head.longest)) for text in texts]
        assert from_readings(head, target, texts, min(length, head.longest)) == slow
        if length == 3:
            taken = [hits for passes in slow for hits in passes]
            assert 1 + sum(taken) / len(taken) > 1.3


def test_eagle3(target: Any, texts: Texts) -> None:
    raw, w = files("eagle3")
    ids = raw["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    compare(made("eagle3", raw, w, target), naive.eagle3(target, raw, w, ids), target, texts)


def test_eagle3_in_the_speculators_format_makes_the_same_passes(target: Any, texts: Texts) -> None:
    raw, w = files("eagle3")
    renamed = {name.replace("midlayer.", "layers.0."): part for name, part in w.items()}
    renamed["embed_tokens.weight"] = target.get_input_embeddings().weight
    nested = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": raw["draft_vocab_size"],
        "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
        "norm_before_residual": False,
        "transformer_layer_config": {k: v for k, v in raw.items() if k != "eagle_config"},
    }
    heads = made("eagle3", raw, w, target), made("eagle3", nested, renamed, target)
    assert from_readings(heads[0], target, texts, 5) == from_readings(heads[1], target, texts, 5)


def test_medusa(target: Any, texts: Texts) -> None:
    raw, w = files("medusa")
    head = made("medusa", raw, w, target)
    assert head.longest == raw["medusa_num_heads"]
    compare(head, naive_more.medusa(target, w), target, texts)


def test_dflash(target: Any, texts: Texts) -> None:
    """The way of transformers, where a block is whole however few drafts are wanted."""
    raw, w = files("dflash")
    head = made("dflash", raw, w, target, "transformers")
    assert head.longest == raw["block_size"] - 1
    compare(head, naive_more.dflash(target, raw, w), target, texts)


def test_mtp(with_mtp: Any, texts: Texts) -> None:
    """vLLM feeds the plain state of GLM's layers back, and blanks the embedding at position 0."""
    raw, w = files("target-mtp")
    draft = naive_more.mtp(with_mtp, raw, w, feeds_normed=False, zero_first=True)
    compare(made("mtp", raw, w, with_mtp), draft, with_mtp, texts)


def test_mtp_where_the_normed_state_is_fed_back(with_mtp: Any, texts: Texts) -> None:
    """The trained norm is so even that either state gives the same drafts: make it uneven."""
    raw, w = files("target-mtp")
    w["model.layers.4.shared_head.norm.weight"] *= torch.linspace(0.4, 1.6, raw["hidden_size"])
    draft = naive_more.mtp(with_mtp, raw, w, feeds_normed=True, zero_first=False)
    compare(made("mtp", raw, w, with_mtp, "sglang"), draft, with_mtp, texts)


def test_the_target_with_an_mtp_layer_is_the_target(
    target: Any, with_mtp: Any, texts: Texts
) -> None:
    ids = torch.tensor([texts[0][0] + texts[0][1]])
    assert torch.equal(with_mtp(ids).logits, target(ids).logits)
