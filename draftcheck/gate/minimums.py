"""What the manifest asks of a pair, held against the trial that is recorded for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.gate import lock as locks
from draftcheck.gate import trials
from draftcheck.gate.lock import GateLock
from draftcheck.gate.models import KnownModel
from draftcheck.gate.survey import SurveyedDeployment

Said = tuple[str, str, str | None]
"""A rule of the gate, the evidence, and a fix of its own."""


def check(
    setup: SurveyedDeployment,
    target: KnownModel,
    draft: KnownModel | None,
    lock: GateLock | None,
    root: Path,
) -> tuple[dict[str, Any] | None, list[Said]]:
    """The figures that were found, and what there is to say about them."""
    if draft is None:
        return None, [("GAT010", "trials measure a draft model, and this pair has none", None)]
    name, wanted = setup.deployment.name, setup.wanted
    figures, said = _figures(name, wanted.trial, lock, root)
    if figures is None:
        return None, [(rule, saw, _command(target, draft, wanted.trial)) for rule, saw in said]
    sides = {
        "target": (target.key, target.facts.revision),
        "draft": (draft.key, draft.facts.revision),
    }
    others = list(trials.differences(figures, wanted, sides))
    if others:
        saw = f"{figures['file']}: {'; '.join(others)}"
        return figures, [("GAT011", saw, _command(target, draft, wanted.trial))]
    return figures, [(rule, saw, None) for rule, saw in trials.held(figures, wanted)]


def _figures(
    name: str, file: str | None, lock: GateLock | None, root: Path
) -> tuple[dict[str, Any] | None, list[tuple[str, str]]]:
    """From the trial's own file where it is here, else from the lock."""
    kept = lock.trials.get(name) if lock is not None else None
    flaw = lock.flaw("trials", name) if lock is not None else None
    if flaw is not None:
        return None, [(flaw.rule, f"{locks.NAME}: {flaw.saw}")]
    if file is not None and (root / file).is_file():
        try:
            figures = trials.read(root / file, file)
        except ReadError as error:
            return None, [("GAT010", error.message)]
        if kept is not None and kept.get("sha256") != figures["sha256"]:
            return None, [("GAT003", f"{file} is not the trial that {locks.NAME} has")]
        return figures, []
    if kept is None:
        where = f"{file} does not exist" if file else "the pair names no trial"
        return None, [("GAT010", f"{where}, and {locks.NAME} has none for {name!r}")]
    if file is not None and kept.get("file") != file:
        return None, [("GAT003", f"{locks.NAME} has {kept.get('file')}, the pair names {file}")]
    return kept, []


def _command(target: KnownModel, draft: KnownModel, file: str | None) -> str:
    words = ["draftcheck", "trial", target.key, draft.key, "--format", "json"]
    words += ["--output", file or "trial.json"]
    then = "" if file else ' Name the file in draftcheck.toml: trial = "trial.json".'
    return f"Run `{shlex.join(words)}`, then `draftcheck lock`.{then}"


def recorded(setups: list[SurveyedDeployment], root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name of a pair -> the figures that a lock keeps of its trial."""
    for setup in setups:
        file = setup.wanted.trial
        if file is not None and setup.deployment.name and (root / file).is_file():
            yield setup.deployment.name, trials.read(root / file, file)
