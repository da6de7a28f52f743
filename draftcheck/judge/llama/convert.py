"""What llama.cpp's converter makes of a checkpoint folder: its architecture, and a head's keys."""

from __future__ import annotations

from dataclasses import replace

from draftcheck.judge.llama.build import Build
from draftcheck.values.facts import ConfigFacts, HeadFacts, ModelFacts

EAGLE3_LAYERS = "eagle_aux_hidden_state_layer_ids"
DSPARK_LAYERS = "aux_hidden_state_layer_ids"
BLOCK_SIZE = 16
"""Written for a DFlash head that states none."""


def architecture(facts: ModelFacts, build: Build) -> str | None:
    """The general.architecture that would be written; None where config.json names no class."""
    names = facts.config.architectures
    if not names:
        return None
    if facts.role in build.conversion.heads:
        return _head(facts, names[0], build)
    for name, classes in build.conversion.architectures.items():
        if names[0] in classes:
            other = build.conversion.with_experts.get(name)
            return str(other if other and facts.config.experts else name)
    build.fail("not-convertible", f"the converter does not know the class {names[0]!r}")
    return None


def _head(facts: ModelFacts, name: str, build: Build) -> str:
    since = build.conversion.heads[facts.role or ""].get(name)
    if since is None:
        build.fail("not-convertible", f"the converter does not know the class {name!r}")
    elif not build.has(since):
        build.fail("not-convertible", f"the converter knows the class {name!r} from {since} on")
    head = facts.head
    if facts.role == "eagle3":
        if head is not None and head.declared is not None and head.draft_vocab is None:
            build.fail("not-convertible", "no draft_vocab_size: taken for a plain Llama")
        if head is not None and (head.layers or 1) != 1:
            build.fail("not-convertible", f"{head.layers} layers: taken for a plain Llama")
        return "eagle3"
    return "gemma4-assistant" if facts.role == "mtp" else "dflash"


def head(facts: HeadFacts, role: str | None, target: ConfigFacts) -> HeadFacts:
    """The head's facts as they stand in the file that the converter writes."""
    layers = facts.aux_layers
    if role == "eagle3":
        if layers is None or not reads_layers(facts):
            count = target.layers
            layers = None if count is None else (2, count // 2, count - 3)
    elif layers is not None and facts.aux_key != DSPARK_LAYERS:
        # Counted as the inputs of layers: one more than the layer whose output is meant.
        layers = tuple(number + 1 for number in layers)
    changed = replace(facts, aux_layers=layers, aux_count=None if layers is None else len(layers))
    if role == "eagle3":
        changed = replace(changed, target_hidden=facts.target_hidden or target.hidden)
    elif changed.block_size is None:
        changed = replace(changed, block_size=BLOCK_SIZE)
    if facts.declared is None:
        return changed
    fields = ("aux_layers", "target_hidden", "block_size")
    written = {name for name in fields if getattr(changed, name) is not None}
    return replace(changed, declared=tuple(sorted({*facts.declared, *written})))


def reads_layers(facts: HeadFacts) -> bool:
    """Whether the converter looks where an EAGLE-3 head lists its layers."""
    return facts.aux_place == "root" and facts.aux_key in (EAGLE3_LAYERS, None)
