"""What a model is: a full language model, or a head that lives on a target's hidden states.

Judged by configuration and tensor names; `architectures` alone lies (EAGLE-1 heads say
LlamaForCausalLM).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftcheck.facts.jsonfile import text
from draftcheck.types import ConfigFacts, Tensor

FULL = "full"
_BY_TYPE = {
    "medusa": "medusa",
    "mlp_speculator": "mlp_speculator",
    "eagle": "eagle",
    "eagle3": "eagle3",
    "gemma4_assistant": "mtp",
    "gemma4_unified_assistant": "mtp",
}
_BY_ARCHITECTURE = (
    ("eagle3", "eagle3"),
    ("eagle", "eagle"),
    ("dspark", "dspark"),
    ("dflash", "dflash"),
    ("medusa", "medusa"),
    ("mlpspeculator", "mlp_speculator"),
    ("mtp", "mtp"),
)
_GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


def role(
    config: ConfigFacts, raw: Mapping[str, Any], tensors: Mapping[str, Tensor] | None
) -> str | None:
    """full, a kind of head, encoder (cannot generate), or None when the files do not say."""
    if kind := text(raw.get("speculators_model_type")):
        return kind
    model_type = config.model_type or ""
    if model_type in _BY_TYPE:
        return _BY_TYPE[model_type]
    if model_type.endswith("_mtp"):
        return "mtp"
    if isinstance(raw.get("dflash_config"), dict):
        return "dflash"
    for name in config.architectures or ():
        for sign, kind in _BY_ARCHITECTURE:
            if sign in name.lower().replace("_", ""):
                return kind
    if by_tensors := _by_tensors(tensors):
        return by_tensors
    return _plain(config)


def verifier(raw: Mapping[str, Any]) -> str | None:
    """The target that a speculators-format head names."""
    speculators = raw.get("speculators_config")
    entry = speculators.get("verifier") if isinstance(speculators, dict) else None
    return text(entry.get("name_or_path")) if isinstance(entry, dict) else None


def _by_tensors(tensors: Mapping[str, Tensor] | None) -> str | None:
    if not tensors:
        return None
    if "markov_w1.weight" in tensors:
        return "dspark"
    if any(name in tensors for name in ("d2t", "t2d", "midlayer.hidden_norm.weight")):
        return "eagle3"
    if "fc.weight" in tensors and not any("embed_out" in name for name in tensors):
        rows, columns = (*tensors["fc.weight"].shape, 0, 0)[:2]
        return "eagle3" if columns == 3 * rows else "eagle"
    if any(name.startswith(("medusa_head.", "medusa_heads.")) for name in tensors):
        return "medusa"
    return None


def _plain(config: ConfigFacts) -> str | None:
    if config.architectures is None:
        return None
    if any(name.endswith(_GENERATES) for name in config.architectures):
        return FULL
    return "encoder" if config.architectures else None
