"""The tensor table of a GGUF against the tensors that its architecture cannot do without."""

from __future__ import annotations

from collections.abc import Mapping

from draftcheck.models.readers.weights import families
from draftcheck.values.facts import ConfigFacts, Fault, Tensor

MOST_LAYERS = 512


def missing(
    config: ConfigFacts, nextn: int, tensors: Mapping[str, Tensor], file: str
) -> tuple[Fault, ...]:
    """At most one fault: the first tensor that is not there, and how many more."""
    table = families.table().gguf
    arch = config.model_type or ""
    words = table.layer.get(arch)
    if words is None or not tensors or config.layers is None:
        return ()
    once = f"{table.once['every']} {table.once.get(arch, '')}".split()
    lacking = [name for name in once if f"{name}.weight" not in tensors]
    wanted = [entry.split("|") for entry in words.split()]
    # The last blocks of some files predict further tokens; they have tensors of their own.
    for layer in range(min(config.layers - min(nextn, config.layers), MOST_LAYERS)):
        base = f"blk.{layer}."
        for names in wanted:
            if not any(f"{base}{name}.weight" in tensors for name in names):
                lacking.append(base + names[0])
    if not lacking:
        return ()
    more = f" (and {len(lacking) - 1:,} more)" if len(lacking) > 1 else ""
    says = f"tensor {lacking[0]}.weight of architecture {arch} is missing{more}"
    return (Fault("gguf-tensor", file, says, f"{lacking[0]}.weight"),)
