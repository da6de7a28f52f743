"""rules/tables/engine-speed.toml: what the constants mean is said there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from draftcheck import versions
from draftcheck.rulebook import book, files
from draftcheck.rulebook.files import Names, RuleRow, Text


class PassRow(RuleRow, frozen=True):
    engine: Text
    since: Text
    measured: Text
    on: Text
    date: Text
    within: float
    cpu_within: float
    shortest_us: float
    bandwidth: float
    flops: float
    layer_us: float
    pass_us: float
    token_us: float
    graphs: tuple[tuple[int, int], ...]
    eager_layer_us: float
    until: Text | None = None


class DraftingRow(RuleRow, frozen=True):
    engine: Text
    since: Text
    methods: Names
    gap_us: float
    waits_us: float
    cpu_us: float
    step_us: float
    layer_us: float
    measured: Text | None = None
    within: float | None = None
    until: Text | None = None
    at_once: bool = False


class ScheduleRow(RuleRow, frozen=True, rename={"template": "as"}):
    engine: Text
    since: Text
    template: Text
    until: Text | None = None
    methods: Names = ()


class EngineSpeedFile(RuleRow, frozen=True):
    engine: tuple[PassRow, ...]
    drafting: tuple[DraftingRow, ...]
    schedule: tuple[ScheduleRow, ...] = ()


class _Windowed(Protocol):
    @property
    def engine(self) -> str: ...
    @property
    def since(self) -> str: ...
    @property
    def until(self) -> str | None: ...


Row = TypeVar("Row", bound=_Windowed)


def rows(engine: str, version: str, method: str) -> tuple[PassRow, DraftingRow] | None:
    """What is known of this engine and method; None: nothing."""
    known = files.read("tables/engine-speed", EngineSpeedFile)
    passes = _at(known.engine, engine, version)
    drafting = _at((row for row in known.drafting if method in row.methods), engine, version)
    return None if passes is None or drafting is None else (passes, drafting)


def schedule(engine: str, version: str, method: str) -> str | None:
    """How a draft length by load is written; None: the engine has no such setting."""
    known = files.read("tables/engine-speed", EngineSpeedFile).schedule
    fitting = (row for row in known if method in (row.methods or (method,)))
    found = _at(fitting, engine, version)
    return None if found is None else found.template


def _at(found: Iterable[Row], engine: str, version: str) -> Row | None:
    mine = [row for row in found if row.engine == engine]
    if not mine:
        return None
    order = book.load(engine).order
    return next(
        (row for row in mine if versions.covers(order, version, row.since, row.until)), None
    )
