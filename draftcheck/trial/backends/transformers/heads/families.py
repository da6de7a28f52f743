"""Which class reads which kind of head: the kinds are the roles that models/readers/heads names."""

from __future__ import annotations

from collections.abc import Callable

from draftcheck.trial.backends.transformers.heads import (
    assistant,
    block,
    dspark,
    eagle,
    eagle3,
    mtp,
    peagle,
    plain,
)
from draftcheck.trial.backends.transformers.heads.readings import Head, HeadSource


def _eagle3(source: HeadSource) -> Head:
    parallel = "mask_hidden" in source.weights
    return (peagle.ParallelEagleHead if parallel else eagle3.Eagle3Head)(source)


def _mtp(source: HeadSource) -> Head:
    """Assistants count as MTP layers, and are models of their own."""
    own = str(source.raw.get("model_type", "")).endswith("_assistant")
    return (assistant.AssistantHead if own else mtp.MtpHead)(source)


FAMILIES: dict[str, Callable[[HeadSource], Head]] = {
    "eagle": eagle.EagleHead,
    "eagle3": _eagle3,
    "peagle": peagle.ParallelEagleHead,
    "mtp": _mtp,
    "medusa": plain.MedusaHead,
    "mlp_speculator": plain.MlpSpeculatorHead,
    "dflash": block.BlockHead,
    "dspark": dspark.MarkovBlockHead,
}
