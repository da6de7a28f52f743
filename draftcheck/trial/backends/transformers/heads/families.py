"""Which class reads which kind of head: the kinds are the roles that models/readers/heads names."""

from __future__ import annotations

from collections.abc import Callable

from draftcheck.trial.backends.transformers.heads import (
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


FAMILIES: dict[str, Callable[[HeadSource], Head]] = {
    "eagle": eagle.EagleHead,
    "eagle3": _eagle3,
    "peagle": peagle.ParallelEagleHead,
    "mtp": mtp.MtpHead,
    "medusa": plain.MedusaHead,
    "mlp_speculator": plain.MlpSpeculatorHead,
    "dflash": block.BlockHead,
    "dspark": dspark.MarkovBlockHead,
}
