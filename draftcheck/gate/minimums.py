"""What the manifest asks of a pair, held against the trial that was recorded for it.

`draftcheck trial --format json` writes a file, the manifest names it, `draftcheck lock` keeps its
figures. The gate takes them from the file where it is here, else from the lock. It first asks
whether the trial was made under the pair's circumstances, then whether it reaches the minimums.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from draftcheck.errors import ReadError
from draftcheck.gate.known_models import KnownModel
from draftcheck.gate.lock import format as locks
from draftcheck.gate.lock.format import Figure, GateLock, LockedTrial

LARGEST = 16 << 20
AS_THEY_ARE = ("length", "backend", "device", "dtype", "temperature", "prompts", "tokens")
"""Figures that a lock keeps as the trial's file has them."""
# Values of the manifest; the description is what a finding says that a value must be.
MOST = 2**40 - 1
Text = Annotated[str, Meta(pattern=r"\S", description="a text")]
Count = Annotated[int, Meta(ge=1, le=MOST, description="a whole number from 1 on")]
_AMOUNT, _PART = Meta(ge=0, le=MOST), Meta(ge=0, le=1)
Number = Annotated[
    Annotated[int, _AMOUNT] | Annotated[float, _AMOUNT],
    Meta(description="a number that is not negative"),
]
Share = Annotated[
    Annotated[int, _PART] | Annotated[float, _PART], Meta(description="a number from 0 to 1")
]


class TrialDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifest asks of a pair: keys of [[pair]]."""

    min_acceptance: Share | None = None
    min_speedup: Number | None = None
    trial: Text | None = None
    """File of `draftcheck trial --format json`."""
    draft_tokens: Count | None = None
    temperature: Number | None = None
    backend: Text | None = None


def check(
    name: str,
    wanted: TrialDemand,
    target: KnownModel,
    draft: KnownModel | None,
    lock: GateLock | None,
    root: Path,
) -> tuple[LockedTrial | None, list[tuple[str, str, str | None]]]:
    """The figures that were recorded for the pair of this name, and what is wrong with them:
    a rule of the gate, the evidence, and a fix of its own."""
    if draft is None:
        return None, [("GAT010", "trials measure a draft model, and this pair has none", None)]
    trial = _recorded_figures(name, wanted, lock, root)
    if not isinstance(trial, LockedTrial):
        rule, saw = trial
        return None, [(rule, saw, _command(target, draft, wanted.trial))]
    others = list(_differences(trial, wanted, target, draft))
    if others:
        saw = f"{trial.file}: {'; '.join(others)}"
        return trial, [("GAT011", saw, _command(target, draft, wanted.trial))]
    return trial, [(rule, saw, None) for rule, saw in _shortfalls(trial, wanted)]


def _recorded_figures(
    name: str, wanted: TrialDemand, lock: GateLock | None, root: Path
) -> LockedTrial | tuple[str, str]:
    """From the trial's own file where it is here, else from the lock; or a rule and evidence."""
    file = wanted.trial
    locked = lock.trials.get(name) if lock is not None else None
    flaw = lock.flaw("trials", name) if lock is not None else None
    if flaw is not None:
        return flaw.rule, f"{locks.NAME}: {flaw.saw}"
    try:
        here = recorded(wanted, root)
    except ReadError as error:
        return "GAT010", error.message
    if here is not None:
        if locked is not None and locked.sha256 != here.sha256:
            return "GAT003", f"{file} is not the trial that {locks.NAME} has"
        return here
    if locked is None:
        where = f"{file} does not exist" if file else "the pair names no trial"
        return "GAT010", f"{where}, and {locks.NAME} has none for {name!r}"
    if file is not None and locked.file != file:
        return "GAT003", f"{locks.NAME} has {locked.file}, the pair names {file}"
    return locked


def _command(target: KnownModel, draft: KnownModel, file: str | None) -> str:
    words = ["draftcheck", "trial", target.key, draft.key, "--format", "json"]
    words += ["--output", file or "trial.json"]
    then = "" if file else ' Name the file in draftcheck.toml: trial = "trial.json".'
    return f"Run `{shlex.join(words)}`, then `draftcheck lock`.{then}"


# ---- reading a trial file ----


class RecordedModel(msgspec.Struct, omit_defaults=True):
    """A model of a trial."""

    ref: str | None = None
    revision: str | None = None


class RecordedRow(msgspec.Struct):
    """The figures of one draft length, or one figure of all."""

    draft_tokens: Figure = None
    draft_efficiency: Figure = None
    speedup: Figure = None
    value: Figure = None


class RecordedCosts(msgspec.Struct):
    """Whose costs a speed-up is of."""

    warning: str | None = None


class RecordedTrial(msgspec.Struct):
    """What counts of a trial's file, of any version of draftcheck."""

    acceptance_rate: RecordedRow | Figure
    backend: str | Figure
    target: RecordedModel | None = None
    draft: RecordedModel | None = None
    length: Figure = None
    best: RecordedRow | None = None
    speeds: list[RecordedRow] | None = None
    verified: RecordedRow | None = None
    costs: RecordedCosts | None = None
    broken: str | None = None
    incomplete: str | None = None
    lengths: list[RecordedRow] | None = None
    device: str | Figure = None
    dtype: str | Figure = None
    temperature: str | Figure = None
    prompts: str | Figure = None
    tokens: str | Figure = None


def recorded(wanted: TrialDemand, root: Path) -> LockedTrial | None:
    """The figures that a lock keeps of the trial file that a pair names."""
    shown = wanted.trial
    if shown is None or not (root / shown).is_file():
        return None
    try:
        with (root / shown).open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ReadError(f"{shown}: {error.strerror}") from error
    if len(data) > LARGEST:
        raise ReadError(f"{shown}: more than {LARGEST:,} bytes is no trial")
    try:
        body = msgspec.json.decode(data)
        if isinstance(body, dict) and isinstance(body.get("trial"), dict):  # of `pair --trial`
            body = {**body["trial"], "target": body.get("target"), "draft": body.get("draft")}
        found = msgspec.convert(body, RecordedTrial)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ReadError(f"{shown}: not the JSON of a trial: {str(error)[:120]}") from None
    rate = found.acceptance_rate
    return LockedTrial(
        target=msgspec.to_builtins(found.target or RecordedModel()),
        draft=msgspec.to_builtins(found.draft or RecordedModel()),
        acceptance_rate=rate.value if isinstance(rate, RecordedRow) else rate,
        speedup=_promised(found),
        unsure=found.costs.warning[:400] if found.costs and found.costs.warning else None,
        broken=found.broken[:400] if found.broken else None,
        incomplete=found.incomplete[:400] if found.incomplete else None,
        lengths=[
            [row.draft_tokens, row.draft_efficiency, _real(found, row)]
            for row in found.lengths or ()
        ],
        file=shown,
        sha256=hashlib.sha256(data).hexdigest(),
        **{name: getattr(found, name) for name in AS_THEY_ARE},
    )


def _promised(found: RecordedTrial) -> float | int | None:
    """The speed-up that the trial's first line has: of the engine that was asked for, else of the
    best way."""
    rows = [*(found.speeds or ())[:1], found.best]
    return next((_real(found, row) for row in rows if row is not None), None)


def _real(found: RecordedTrial, row: RecordedRow) -> float | int | None:
    """Where a real run lost, no promise is worth more than it gave."""
    gave = found.verified.speedup if found.verified is not None else None
    if row.speedup is None or gave is None or gave >= 1:
        return row.speedup
    return min(row.speedup, gave)


# ---- holding it against the pair ----


def _differences(
    trial: LockedTrial, wanted: TrialDemand, target: KnownModel, draft: KnownModel
) -> Iterator[str]:
    """How the trial's circumstances differ from the pair's."""
    for side, measured, model in (("target", trial.target, target), ("draft", trial.draft, draft)):
        ref, revision = measured.get("ref"), measured.get("revision")
        now = model.facts.revision
        # A trial may have been made elsewhere, and names its commit apart.
        name, ours = (ref or "").partition("@")[0].removeprefix("./"), model.key.partition("@")[0]
        if ref is not None and name != ours and not name.endswith(f"/{ours}"):
            yield f"its {side} is {ref}, not {model.key}"
        elif now and revision and revision != now:
            yield f"its {side} is revision {revision[:12]}, not {now[:12]}"
    for name in ("temperature", "backend"):
        measured_at, asked = getattr(trial, name), getattr(wanted, name)
        if asked is not None and measured_at != asked:
            yield f"its {name} is {measured_at}, not {asked}"


def _shortfalls(trial: LockedTrial, wanted: TrialDemand) -> Iterator[tuple[str, str]]:
    """What falls short: a rule of the gate and the evidence; GAT010 where nothing was measured."""
    if trial.broken:
        yield "GAT008", f"the trial found the pair broken: {trial.broken[:200]}"
        return
    if trial.incomplete:
        yield "GAT010", f"{trial.file} was not finished: {trial.incomplete}"
        return
    # At the draft length of the pair, or the trial's own best.
    acceptance, speedup, length = trial.acceptance_rate, trial.speedup, trial.length
    if wanted.draft_tokens is not None:
        length = wanted.draft_tokens
        found = (row[1:] for row in trial.lengths if row[0] == length)
        acceptance, speedup = next(found, [None, None])
    at = f" at {length} draft tokens" if length else ""
    for rule, name, reached, least in (
        ("GAT008", "acceptance", acceptance, wanted.min_acceptance),
        ("GAT009", "speed-up", speedup, wanted.min_speedup),
    ):
        if least is None:
            continue
        if reached is None:
            yield "GAT010", f"{trial.file} has no {name}{at}"
        elif rule == "GAT009" and trial.unsure:
            yield "GAT010", f"{trial.file}: its {name} tells nothing: {trial.unsure}"
        elif reached < least:
            yield rule, f"{name} {reached:.3g}{at}, the minimum is {least:g}"
