"""Which class reads which kind of head: the kinds are the roles that models/readers/heads names."""

from __future__ import annotations

from collections.abc import Callable

from draftcheck.trial.backends.transformers.heads import block, eagle3, mtp, plain
from draftcheck.trial.backends.transformers.heads.readings import Head, HeadSource

FAMILIES: dict[str, Callable[[HeadSource], Head]] = {
    "eagle3": eagle3.Eagle3Head,
    "mtp": mtp.MtpHead,
    "medusa": plain.MedusaHead,
    "mlp_speculator": plain.MlpSpeculatorHead,
    "dflash": block.BlockHead,
}
