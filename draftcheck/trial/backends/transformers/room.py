"""Whether both are models, and fit where they are to run: asked before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import torch

from draftcheck.errors import ReadError, UsageError
from draftcheck.memory import fit as memory
from draftcheck.models import read, refs
from draftcheck.trial.backends.backend import TrialOptions
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Behaviour, Comparison, VocabularyComparison
from draftcheck.values.dtypes import dtype_bytes
from draftcheck.values.facts import ModelFacts
from draftcheck.values.memory import Gpu, Machine
from draftcheck.values.words import Relation
from draftcheck.versions import ORDERS

GIB = 1 << 30
SEQUENCES = 4
"""Continuations at once that must have room; more are tried and given up again."""


def check(target: str, draft: str, where: str, dtype: str, options: TrialOptions) -> None:
    """Refuse what cannot fit, with what was needed, what there is, and a smaller plan."""
    try:
        ours, theirs = read.read_all(refs.parse(target), refs.parse(draft))
    except ReadError:
        return  # loading it will say more
    for name, model in ((target, ours), (draft, theirs)):
        if model.role not in (None, "full"):
            raise UsageError(
                f"{name}: not a model that writes text by itself ({model.role})",
                hint="A head is measured in the engine that serves it: draftcheck probe URL.",
            )
    free_bytes = free(where)
    need = needed(ours, theirs, dtype, options)
    if free_bytes is None or need is None or need <= free_bytes:
        return
    raise ReadError(
        f"{target} and {draft} need {need / GIB:.1f} GiB in {dtype}, and {where} has"
        f" {free_bytes / GIB:.1f} GiB free",
        hint=_smaller(ours, theirs, free_bytes, dtype, options),
    )


def _smaller(
    ours: ModelFacts, theirs: ModelFacts, free_bytes: int, dtype: str, options: TrialOptions
) -> str:
    """A plan that would fit, or where to look for one."""
    plans = []
    if dtype_bytes(dtype) != 2:
        half = needed(ours, theirs, "bfloat16", options)
        if half is not None and half <= free_bytes:
            plans.append(f"--dtype bfloat16 needs {half / GIB:.1f} GiB")
    plans += ["--device auto spreads them over several GPUs", "--device cpu uses main memory"]
    return "; ".join(plans) + "; or take smaller models."


def needed(ours: ModelFacts, theirs: ModelFacts, dtype: str, options: TrialOptions) -> int | None:
    """Bytes of weights and caches of both models; None where the files do not tell."""
    nothing = VocabularyComparison(Relation.UNKNOWN)
    pair = Comparison(ours, theirs, nothing, (), Behaviour(None, ""))
    context = max(options.tokens * 2, 256)
    limit = ours.config.scaled_context or ours.config.context
    circumstances = Circumstances(
        context=min(context, limit) if limit else context,
        sequences=SEQUENCES,
        dtype=None if dtype == "auto" else dtype,
    )
    machine = Machine("here", (Gpu("here", 1 << 50),))
    import transformers

    fit = memory.fit(
        pair, circumstances, machine, engine="transformers", version=transformers.__version__,
        order=ORDERS["pep440"],
    )  # fmt: skip
    if fit is None or not fit.devices:
        return None
    parts = fit.devices[0].parts
    return sum(part.low for part in parts if part.owner in ("target", "draft"))


def free(where: str) -> int | None:
    """Bytes that are free there; None where nobody tells."""
    if where.startswith("cuda"):
        return int(torch.cuda.mem_get_info(where)[0])
    if where == "auto":
        gpus = range(torch.cuda.device_count())
        return sum(torch.cuda.mem_get_info(i)[0] for i in gpus) if gpus else _main_memory()
    return _main_memory() if where == "cpu" else None


def _main_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
