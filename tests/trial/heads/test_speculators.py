"""A second opinion: the speculators library's own models give the logits that the readings give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("speculators")

from safetensors.torch import load_file  # noqa: E402
from speculators.config import SpeculatorsConfig, VerifierConfig  # noqa: E402
from speculators.models.dflash import DFlashDraftModel, DFlashSpeculatorConfig  # noqa: E402
from speculators.models.dspark import DSparkDraftModel, DSparkSpeculatorConfig  # noqa: E402
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig  # noqa: E402
from speculators.models.peagle import PEagleDraftModel, PEagleSpeculatorConfig  # noqa: E402
from speculators.proposals.greedy import GreedyTokenProposalConfig  # noqa: E402
from transformers import AutoConfig  # noqa: E402

from draftcheck.trial.backends.transformers.heads.readings import SlotTokens  # noqa: E402
from tests.trial.heads.tables import states  # noqa: E402
from tests.trial.heads.test_families import LAYER, Made, V, head, llama, randomized  # noqa: E402

OWN, IDS, MASK, LENGTH = 24, [1, 2, 4], 7, 15
NEAR = {"atol": 1e-4, "rtol": 1e-4}


def model(kind: Any, config: Any, layers: str, target: Any, **more: Any) -> Any:
    part = AutoConfig.for_model(layers, **{**LAYER, "num_hidden_layers": 2})
    part._attn_implementation = "eager"
    proposal = GreedyTokenProposalConfig(speculative_tokens=3)
    made = kind(
        config(
            transformer_layer_config=part,
            draft_vocab_size=OWN,
            speculators_config=SpeculatorsConfig(
                algorithm="any", proposal_methods=[proposal],
                default_proposal_method=proposal.proposal_type,
                verifier=VerifierConfig(name_or_path=None, architectures=[]),
            ),
            **more,
        )
    )  # fmt: skip
    made = randomized(made, 5)
    made.d2t.copy_(Made(6).ids(OWN))
    made.embed_tokens.weight.data = target.get_input_embeddings().weight.data
    return made


def readings(made: Any, kind: str, target: Any, text: Any, count: int, tmp: Path) -> list[Any]:
    """From the files that the library writes: logits of each reading, at all slots."""
    made.save_pretrained(tmp)
    raw = json.loads((tmp / "config.json").read_text(encoding="utf-8"))
    reader = head(kind, raw, load_file(tmp / "model.safetensors"), target, "transformers")
    hidden = reader.readings(SlotTokens(text, 0), states(reader, target, text), count)
    return [reader.logits(out, number)[0] for number, out in enumerate(hidden, start=1)]


def inputs(target: Any, text: Any) -> dict[str, Any]:
    seen = target(text, output_hidden_states=True).hidden_states
    return {
        "hidden_states": torch.cat([seen[i] for i in IDS], dim=-1),
        "verifier_last_hidden_states": seen[-1],
        "document_ids": torch.zeros_like(text),
    }


@pytest.mark.parametrize(
    ("layers", "flags"),
    [
        ("llama", {}),
        ("qwen3", {"norm_before_residual": True, "norm_output": True}),
        ("llama", {"norm_before_fc": True}),
        ("qwen3", {"fc_norm": True}),
    ],
)
@torch.inference_mode()
def test_eagle3(layers: str, flags: dict[str, bool], tmp_path: Path) -> None:
    target, text = llama(0), torch.randint(0, V, (1, LENGTH))
    made = model(
        Eagle3DraftModel, Eagle3SpeculatorConfig, layers, target,
        eagle_aux_hidden_state_layer_ids=IDS, **flags,
    )  # fmt: skip
    theirs: list[Any] = []
    made.lm_head.register_forward_hook(lambda _, __, out: theirs.append(out[0]))
    given = inputs(target, text)
    made(
        hidden_states=given["hidden_states"][:, :-1], input_ids=text[:, 1:],
        document_ids=given["document_ids"][:, 1:], ttt_steps=4,
    )  # fmt: skip
    ours = readings(made, "eagle3", target, text, 4, tmp_path)
    for number, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        torch.testing.assert_close(own[: LENGTH - 1 - number], other[: LENGTH - 1 - number], **NEAR)


@torch.inference_mode()
def test_peagle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from speculators.models.peagle import core

    target, text = llama(0), torch.randint(0, V, (1, LENGTH))
    made = model(
        PEagleDraftModel, PEagleSpeculatorConfig, "llama", target,
        eagle_aux_hidden_state_layer_ids=IDS, mask_token_id=MASK,
    )  # fmt: skip
    kept: dict[str, Any] = {}
    monkeypatch.setattr(core, "compute_metrics", lambda **given: (kept.update(given), {}))
    given = {name: x[:, :-1] for name, x in inputs(target, text).items()}
    made(**given, input_ids=text[:, 1:], num_depths=4, down_sample_ratio=1.0)
    ours = readings(made, "peagle", target, text, 4, tmp_path)
    rows = list(zip(kept["anchor_pos"].tolist(), kept["depth"].tolist(), strict=True))
    assert len(rows) > 3 * LENGTH
    for (slot, depth), theirs in zip(rows, kept["logits"][0], strict=True):
        if slot >= 0:  # it also makes chains that begin before the text
            torch.testing.assert_close(ours[depth][slot], theirs, **NEAR)


@pytest.mark.parametrize("anchor", [False, True])
@pytest.mark.parametrize(
    ("kind", "config", "name"),
    [
        (DFlashDraftModel, DFlashSpeculatorConfig, "dflash"),
        (DSparkDraftModel, DSparkSpeculatorConfig, "dspark"),
    ],
)
@torch.inference_mode()
def test_blocks(
    kind: Any, config: Any, name: str, anchor: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, text = llama(0), torch.randint(0, V, (1, LENGTH))
    more = {"markov_rank": 6} if name == "dspark" else {}
    made = model(
        kind, config, "qwen3", target, aux_hidden_state_layer_ids=IDS, mask_token_id=MASK,
        block_size=4, sample_from_anchor=anchor, **more,
    )  # fmt: skip
    kept: list[Any] = []
    core = __import__(f"speculators.models.{name}.core", fromlist=["core"])
    monkeypatch.setattr(core, "compute_metrics", lambda logits, *_, **__: (kept.append(logits), {}))
    anchors = LENGTH - 4
    made(
        **inputs(target, text), input_ids=text, loss_mask=torch.ones_like(text), max_anchors=anchors
    )
    theirs = kept[0].view(anchors, 4, -1)[1:]  # before the first token there is nothing to read
    first = 0 if anchor else 1
    ours = torch.stack(readings(made, name, target, text, 4, tmp_path), dim=1)[: anchors - 1]
    torch.testing.assert_close(ours, theirs[:, first:], **NEAR)
