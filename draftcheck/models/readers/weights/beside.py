"""MTP layers in safetensors files that are not the model's own: some engines read every such file
of the folder, whatever the index names.

Headers of them are read only where the config promises layers that the model's files do not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from draftcheck.errors import ReadError
from draftcheck.models.readers import heads
from draftcheck.models.readers.weights import files, safetensors_header
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import HeadFacts, Tensor

MOST_FILES = 16
"""More are not looked at: a folder of many models, or a second copy in another format."""


def look(
    head: HeadFacts | None,
    tensors: Mapping[str, Tensor] | None,
    layers: int | None,
    source: ModelSource,
) -> HeadFacts | None:
    """The head's facts, with what the other files add to its layers, or to stages of DSpark."""
    if head is None or not tensors:
        return head
    stages = head.kind == heads.FULL and head.aux_key == heads.STAGE_LAYERS

    def count(names: Mapping[str, Tensor]) -> int | None:
        return int(heads.dspark_stages(names)) if stages else heads.mtp_layers(names, layers)

    if (count(tensors) or 0) >= (1 if stages else head.mtp_promised or 0):
        return head
    own = {tensor.file for tensor in tensors.values()}
    others = [name for name in sorted(source.files()) if _is_read(name) and name not in own]
    if not 0 < len(others) <= MOST_FILES:
        return head
    source.expect(dict.fromkeys(others, files.HEADER))
    together = dict(tensors)
    try:
        for name in others:
            found, _ = safetensors_header.read(source, name)
            source.vouch(name)
            together.update(found)
    except ReadError:  # not looked at, then
        return head
    return replace(head, mtp_beside=count(together), mtp_unlisted=files.INDEX in source.files())


def _is_read(name: str) -> bool:
    return name.endswith(".safetensors") and "/" not in name and not name.startswith(".")
