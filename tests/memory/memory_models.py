"""Configs of real models, the fields that decide memory; and facts made from them."""

from __future__ import annotations

import json
from typing import Any

from draftcheck.models.readers import config
from draftcheck.values.facts import ModelFacts, Tensor, WeightFacts
from tests.conftest import FIXTURES

CONFIGS: dict[str, dict[str, Any]] = json.loads(
    (FIXTURES / "memory" / "configs.json").read_text(encoding="utf-8")
)


def facts(name: str, nbytes: int | None = None, **changes: Any) -> ModelFacts:
    """Facts of a folder with this config; nbytes: one tensor of that size stands for all."""
    body = {**CONFIGS.get(name, {}), **changes}
    weights = WeightFacts()
    if nbytes is not None:
        tensor = Tensor("BF16", (nbytes // 2048, 1024), "model.safetensors", nbytes)
        weights = WeightFacts(tensors={"model.weight": tensor}, nbytes=nbytes)
    return ModelFacts(
        ref=f"org/{name}",
        kind="folder",
        role="full",
        config=config.from_dict(body, None, name),
        weights=weights,
    )
