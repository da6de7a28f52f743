"""A trial's result as JSON, and back: measured once, used by every command that asks later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.trial.backends.backend import VerifiedRun
from draftcheck.trial.fields import SavedFields
from draftcheck.trial.result import (
    CategoryFigures,
    LoadFigures,
    MeasuredModel,
    SpeculationFigures,
    Trial,
    VllmCounters,
)
from draftcheck.trial.speed.speedup import Costs

MAX_BYTES = 16 << 20
MAX_ROWS = 4096


def body(trial: Trial) -> dict[str, Any]:
    """The contract's JSON, written by hand so that refactoring cannot change it."""
    counters = trial.counters
    return {
        "target": asdict(trial.models.get("target", MeasuredModel(trial.target))),
        "draft": asdict(trial.models.get("draft", MeasuredModel(trial.draft))),
        "backend": trial.backend,
        "device": trial.device,
        "dtype": trial.dtype,
        "temperature": trial.temperature,
        "greedy_share": trial.greedy_share,
        "draft_sampling": "probabilistic" if trial.greedy_lengths else "greedy",
        "translation": trial.translation,
        "seed": trial.seed,
        "prompts": trial.prompts,
        "prompts_digest": trial.prompts_digest,
        "tokens": trial.tokens,
        "tokens_per_prompt": trial.tokens_per_prompt,
        "seconds": trial.seconds,
        "stopped": trial.stopped,
        "incomplete": trial.incomplete,
        "length": trial.length,
        "acceptance_rate": {"value": trial.acceptance, "ci95": _pair(trial.interval)},
        "figures": _named(trial),
        "acceptance_by_position": trial.by_position,
        "acceptance_by_position_conditional": counters.by_position_given_the_last
        if counters
        else [],
        "accepted_length_histogram": counters.histogram if counters else [],
        "counters": _counters(counters),
        "categories": {name: _part(part) for name, part in trial.categories.items()},
        "workload": {name: _part(part) for name, part in trial.workload.items()},
        "overlap": trial.overlap,
        "greedy_draft_acceptance": trial.greedy_draft,
        "lengths": [_length(row) for row in trial.lengths],
        "greedy_draft_lengths": [_length(row) for row in trial.greedy_lengths],
        "reencoded_lengths": [_length(row) for row in trial.reencoded],
        "shared_tokens": trial.shared,
        "thresholds": [_row(row) for row in trial.thresholds],
        "trees": [_row(row) for row in trial.trees],
        "ngram": [_row(row) for row in trial.ngram],
        "best": _best(trial.best),
        "cost": _cost(trial.costs),
        "floor": _cost(trial.floor),
        "floor_speedup": trial.floor_speedup,
        "serving_speedup": _pair(trial.serving),
        "loads": [_load(load) for load in trial.loads],
        "stops_paying_at": next((n.sequences for n in trial.loads if n.speedup <= 1.0), None),
        "break_even_acceptance": trial.break_even,
        "verified": _verified(trial.verified),
        "broken": trial.broken,
        "notes": list(trial.notes),
    }


def _pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _named(trial: Trial) -> dict[str, Any]:
    """The classic figures by their names, at the trial's length."""
    row = trial.row
    return {
        "acceptance_rate": trial.acceptance if row else None,
        "block_efficiency": row.tokens_per_pass if row else None,
        "draft_efficiency": row.draft_efficiency if row else None,
        "mbsu": row.mbsu if row else None,
        "token_rate_ratio": trial.token_rate_ratio,
        "token_rate_ratio_is": "measured" if trial.verified else "from step costs",
    }


def _counters(counters: VllmCounters | None) -> dict[str, Any]:
    if counters is None:
        return {}
    return {
        "num_drafts": counters.num_drafts,
        "num_draft_tokens": counters.num_draft_tokens,
        "num_accepted_tokens": counters.num_accepted_tokens,
        "num_accepted_tokens_per_pos": list(counters.num_accepted_tokens_per_pos),
    }


def _row(row: SpeculationFigures) -> dict[str, Any]:
    return {
        "name": row.name,
        "method": row.method,
        **row.settings,
        "tokens_per_pass": row.tokens_per_pass,
        "tokens_per_pass_ci95": _pair(row.interval),
        "draft_efficiency": row.draft_efficiency,
        "drafted_per_pass": row.drafted_per_pass,
        "speedup": row.speedup,
    }


def _length(row: SpeculationFigures) -> dict[str, Any]:
    counters = row.counters
    found = {**_row(row), "mbsu": row.mbsu, "counters": _counters(counters)}
    if counters is not None:
        found["acceptance_by_position"] = counters.by_position
        found["acceptance_by_position_conditional"] = counters.by_position_given_the_last
        found["accepted_length_histogram"] = counters.histogram
    return found


def _part(part: CategoryFigures) -> dict[str, Any]:
    return {
        "prompts": part.prompts,
        "tokens": part.tokens,
        "acceptance_rate": {"value": part.acceptance, "ci95": _pair(part.interval)},
        "tokens_per_pass": part.tokens_per_pass,
        "draft_tokens": part.draft_tokens,
        "speedup": part.speedup,
    }


def _best(row: SpeculationFigures | None) -> dict[str, Any] | None:
    return None if row is None else {"draft_tokens": None, **_row(row)}


def _load(load: LoadFigures) -> dict[str, Any]:
    return {
        "sequences": load.sequences,
        "draft_tokens": load.draft_tokens,
        "speedup": load.speedup,
        "target_step_s": load.target_step,
    }


def _cost(costs: Costs | None) -> dict[str, Any] | None:
    if costs is None:
        return None
    return {
        "how": costs.how,
        "draft_step_s": costs.draft_step,
        "target_step_s": costs.target_step,
        "verify_step_s": {str(width): seconds for width, seconds in costs.verify.items()},
        "ratio": costs.ratio,
    }


def _verified(verified: VerifiedRun | None) -> dict[str, Any] | None:
    if verified is None:
        return None
    return {
        "draft_tokens": verified.draft_tokens,
        "tokens_per_pass": verified.tokens_per_pass,
        "predicted_tokens_per_pass": verified.predicted,
        "speedup": verified.speedup,
        "identical_output": verified.identical_output,
        "drafted": verified.drafted,
        "accepted": verified.accepted,
    }


# ---- and back ----


def load(file: Path) -> Trial:
    """The result in a file of `trial --format json`, or under "trial" in one of `pair`."""
    try:
        with file.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise ReadError(f"{file}: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise ReadError(f"{file}: more than {MAX_BYTES:,} bytes: not the result of a trial")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{file}: not the JSON of a trial: {error}") from error
    if isinstance(found, dict) and "engines" in found:
        if found.get("trial") is None:
            raise ReadError(f"{file}: the result of pair without a trial")
        found = found["trial"]
    return parse(found, str(file))


def parse(found: Any, where: str) -> Trial:
    """The result itself; an error names the field that is wrong."""
    got = SavedFields(found, where)
    rate = got.inside("acceptance_rate")
    models = {name: _model(got.inside(name)) for name in ("target", "draft")}
    categories = got.named("categories")
    return Trial(
        target=models["target"].ref,
        draft=models["draft"].ref,
        backend=got.text("backend"),
        device=got.text("device"),
        dtype=got.text("dtype"),
        temperature=got.number("temperature"),
        seed=got.whole("seed"),
        prompts=got.whole("prompts"),
        tokens=got.whole("tokens"),
        seconds=got.number("seconds"),
        stopped=got.text("stopped"),
        length=got.whole("length"),
        acceptance=rate.number("value"),
        interval=rate.interval("ci95"),
        lengths=_rows(got, "lengths", draft_tokens=True),
        thresholds=_rows(got, "thresholds", draft_tokens=True),
        trees=_rows(got, "trees"),
        ngram=_rows(got, "ngram", draft_tokens=True),
        greedy_lengths=_rows(got, "greedy_draft_lengths", draft_tokens=True),
        categories={name: _read_part(part) for name, part in categories.items()},
        workload={name: _read_part(part) for name, part in got.named("workload").items()},
        translation=got.maybe_text("translation"),
        reencoded=_rows(got, "reencoded_lengths", draft_tokens=True),
        shared=got.maybe("shared_tokens"),
        overlap=got.maybe("overlap"),
        greedy_draft=got.maybe("greedy_draft_acceptance"),
        costs=_read_cost(got, "cost"),
        floor=_read_cost(got, "floor"),
        floor_speedup=got.maybe("floor_speedup"),
        loads=tuple(_read_load(entry) for entry in got.rows("loads", MAX_ROWS)),
        break_even=got.maybe("break_even_acceptance"),
        best=_read_row(got.inside("best")) if got.has("best") else None,
        verified=_read_verified(got.inside("verified")) if got.has("verified") else None,
        broken=got.maybe_text("broken"),
        incomplete=got.maybe_text("incomplete"),
        notes=got.texts("notes", MAX_ROWS),
        models=models,
        prompts_digest=got.maybe_text("prompts_digest"),
        tokens_per_prompt=got.maybe_whole("tokens_per_prompt"),
        greedy_share=got.number("greedy_share"),
    )


def _model(got: SavedFields) -> MeasuredModel:
    return MeasuredModel(got.text("ref"), got.maybe_text("revision"), got.maybe_text("digest"))


def _rows(
    got: SavedFields, name: str, *, draft_tokens: bool = False
) -> tuple[SpeculationFigures, ...]:
    rows = got.rows(name, MAX_ROWS)
    if draft_tokens:
        for row in rows:
            row.whole("draft_tokens")
    return tuple(_read_row(row) for row in rows)


SETTINGS = ("draft_tokens", "p_min", "nodes", "levels", "min", "max")


def _read_row(got: SavedFields) -> SpeculationFigures:
    settings: Mapping[str, Any] = {
        name: got.number(name) if name == "p_min" else got.whole(name)
        for name in SETTINGS
        if got.has(name)
    }
    counters = got.inside("counters") if got.has("counters") else None
    return SpeculationFigures(
        method=got.text("method"),
        name=got.text("name"),
        tokens_per_pass=got.number("tokens_per_pass"),
        draft_efficiency=got.number("draft_efficiency"),
        drafted_per_pass=got.number("drafted_per_pass"),
        speedup=got.maybe("speedup"),
        settings=settings,
        interval=got.interval("tokens_per_pass_ci95"),
        mbsu=got.maybe("mbsu"),
        counters=None if counters is None else _read_counters(counters),
    )


def _read_counters(got: SavedFields) -> VllmCounters:
    return VllmCounters(
        got.number("num_drafts"),
        got.number("num_draft_tokens"),
        got.number("num_accepted_tokens"),
        got.numbers("num_accepted_tokens_per_pos", MAX_ROWS),
    )


def _read_part(got: SavedFields) -> CategoryFigures:
    rate = got.inside("acceptance_rate")
    return CategoryFigures(
        prompts=got.whole("prompts"),
        tokens=got.whole("tokens"),
        acceptance=rate.number("value"),
        interval=rate.interval("ci95"),
        tokens_per_pass=got.number("tokens_per_pass"),
        draft_tokens=got.whole("draft_tokens"),
        speedup=got.maybe("speedup"),
    )


def _read_load(got: SavedFields) -> LoadFigures:
    return LoadFigures(
        got.whole("sequences"),
        got.whole("draft_tokens"),
        got.number("speedup"),
        got.number("target_step_s"),
    )


def _read_cost(got: SavedFields, name: str) -> Costs | None:
    if not got.has(name):
        return None
    inside = got.inside(name)
    return Costs(
        draft_step=inside.number("draft_step_s"),
        target_step=inside.above_zero("target_step_s"),
        verify=inside.widths("verify_step_s", MAX_ROWS),
        how=inside.text("how"),
    )


def _read_verified(got: SavedFields) -> VerifiedRun:
    return VerifiedRun(
        got.whole("draft_tokens"),
        got.number("tokens_per_pass"),
        got.maybe("speedup"),
        got.maybe_flag("identical_output"),
        got.maybe("predicted_tokens_per_pass"),
        got.maybe_whole("drafted"),
        got.maybe_whole("accepted"),
    )
