"""What to scan: targets, pins, the part of the Hub to look at, engines. From a file or options."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from draftcheck.errors import UsageError
from draftcheck.models.refs import parse
from draftcheck.scan.rows import PinRow
from draftcheck.values.circumstances import Circumstances

COUNT = re.compile(r"(\d{1,12}(?:\.\d{1,3})?) ?([KMBT]?)", re.IGNORECASE)
UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
LIMIT = 100_000
"""Rows of the Hub's list, the most downloaded first, unless the user says otherwise."""
ALL = "all"
"""In the place of a limit: every row of the Hub's list."""
FOUND = 20
"""Targets that a search brings, unless the user says otherwise."""
LONGEST_FILE = 4 << 20
MOST = 1 << 40
"""Of anything that a list counts, apart from parameters."""
ABOVE_0 = sys.float_info.min


@dataclass(frozen=True, slots=True)
class HubSearch:
    """A part of the Hub's list of models."""

    filters: tuple[str, ...] = ()
    """Tags that a model must all have."""
    search: str = ""
    author: str = ""
    min_parameters: int | None = None
    max_parameters: int | None = None
    limit: int | None = LIMIT
    """The most downloaded, so many; None: all that there are."""


@dataclass(frozen=True, slots=True)
class ScanTrials:
    """How pairs are measured; per_target 0: not at all."""

    per_target: int = 0
    backend: str = "transformers"
    tokens: int = 128
    prompts: int = 32
    budget: float | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True)
class ScanJob:
    """Everything that a scan was asked for."""

    targets: tuple[str, ...] = ()
    searches: tuple[HubSearch, ...] = ()
    """Targets that are looked for on the Hub."""
    candidates: tuple[HubSearch, ...] = (HubSearch(),)
    """Where drafts are looked for."""
    named: tuple[str, ...] = ()
    """Drafts that the user named."""
    pins: tuple[PinRow, ...] = ()
    engines: tuple[str, ...] = ()
    said: Mapping[str, Any] = field(default_factory=dict)
    """Circumstances: gpu, context, sequences …"""
    trials: ScanTrials = ScanTrials()

    def refs(self) -> tuple[str, ...]:
        """List every model that was named, targets first, each once."""
        pinned = [ref for pin in self.pins for ref in (pin.target, pin.draft)]
        return tuple(dict.fromkeys((*self.targets, *pinned, *self.named)))

    def all_targets(self) -> tuple[str, ...]:
        """List the targets that were named, those of pins among them."""
        return tuple(dict.fromkeys((*self.targets, *(pin.target for pin in self.pins))))


def load(path: Path) -> ScanJob:
    """Read the job that a TOML file describes; strict about what it does not know."""
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if len(data) > LONGEST_FILE:
        raise UsageError(f"{path}: longer than any list of targets")
    try:
        root = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None
    return _job(root, str(path))


def merge(job: ScanJob, **options: Any) -> ScanJob:
    """Add what the command line says to a job; what it says about a deployment wins."""
    given = {name: value for name, value in options.pop("said", {}).items() if value is not None}
    whole = {name: value for name, value in options.items() if value is not None}
    for name in ("targets", "named", "pins"):
        whole[name] = (*getattr(job, name), *whole.get(name, ()))
    if not whole.get("engines"):
        whole["engines"] = job.engines
    return check(replace(job, said={**job.said, **given}, **whole))


def check(job: ScanJob) -> ScanJob:
    """Refuse what cannot be scanned before anything is asked."""
    if not job.all_targets() and not job.searches:
        raise UsageError(
            "no targets", hint="Name a file, or --target org/name (repeatable); see docs/scan.md."
        )
    for ref in job.refs():
        parse(ref)
    for pin in job.pins:
        for asked in pin.engines:
            if job.engines and asked not in job.engines:
                raise UsageError(f"pin {pin.target}: {asked} is not among the engines scanned")
    return job


def count(value: Any, where: str) -> int:
    """Read a number of parameters: 8B, 600M, or plain."""
    if type(value) is int and 0 <= value < 1 << 60:
        return value
    match = COUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise UsageError(f"{where}: {_shown(value)} is no number of parameters such as 8B")
    return int(float(match[1]) * UNITS[match[2].upper()])


def _shown(value: Any) -> str:
    """The beginning of a value; of a number of thousands of digits, that there is one."""
    try:
        return repr(str(value)[:40])
    except ValueError:
        return "a number without end"


# ---- readers of one value: where names the table, name the key ----

Reader = Callable[[Any, str, str], Any]


def _text(value: Any, where: str, name: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where}: {name}: {_shown(value)} is no text")
    return value


def _texts(value: Any, where: str, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise UsageError(f"{where}: {name} is no list of texts")
    return tuple(value)


def _tables(value: Any, where: str, name: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise UsageError(f"{where}: {name} is written [[{name}]]")
    return value


def _table(value: Any, where: str, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {name}: not a table")
    return value


def _count(value: Any, where: str, name: str) -> int:
    return count(value, f"{where}: {name}")


def _sensible(
    *kinds: type, least: float = 1, most: float = MOST, words: str = "is not sensible"
) -> Reader:
    """A value of one of these types; numbers within their limits."""

    def read(value: Any, where: str, name: str) -> Any:
        right = type(value) in kinds and (isinstance(value, str) or least <= value <= most)
        if not right:
            raise UsageError(f"{where}: {name} {_shown(value)} {words}")
        return value

    return read


KINDS: Mapping[str, Reader] = {"int | None": _sensible(int), "str | None": _sensible(str)}
SAID: Mapping[str, Reader] = {
    **{
        name: KINDS[str(field.type)]
        for name, field in Circumstances.__dataclass_fields__.items()
        if str(field.type) in KINDS
    },
    "memory_fraction": _sensible(int, float, least=ABOVE_0, most=1),
    "draft_gpu": _sensible(int, least=0, most=1023),
}
"""What a list may say about the deployment."""
LIST: Mapping[str, Reader] = {
    "engines": _texts, "target": _tables, "search": _tables, "candidates": _tables,
    "trial": _table, **SAID,
}  # fmt: skip
TARGET: Mapping[str, Reader] = {"ref": _text, "pins": _texts, "engines": _texts}
SEARCH: Mapping[str, Reader] = {
    "filters": _texts, "search": _text, "author": _text, "min_parameters": _count,
    "max_parameters": _count,
    "limit": _sensible(int, most=10_000_000, words="is no number of models"),
}  # fmt: skip


def _rows(value: Any, where: str, name: str) -> int | None:
    return None if value == ALL else SEARCH["limit"](value, where, name)


TRIAL: Mapping[str, Reader] = {
    "per_target": _sensible(int, least=0), "backend": _sensible(str),
    "tokens": _sensible(int, least=0), "prompts": _sensible(int, least=0),
    "device": _sensible(str), "budget": _sensible(int, float, least=ABOVE_0),
}  # fmt: skip


def _read(row: Mapping[str, Any], readers: Mapping[str, Reader], where: str) -> dict[str, Any]:
    """The values of a table, each by its reader; keys without one are refused."""
    if unknown := sorted(set(row) - set(readers)):
        raise UsageError(
            f"{where}: unknown key {unknown[0]!r}", hint=f"Known: {', '.join(sorted(readers))}."
        )
    return {name: readers[name](value, where, name) for name, value in row.items()}


def _job(root: Mapping[str, Any], where: str) -> ScanJob:
    top = _read(root, LIST, where)
    targets, pins = [], []
    for number, row in enumerate(top.get("target", ()), 1):
        place = f"{where}: target {number}"
        target = _read({"ref": None, **row}, TARGET, place)
        targets.append(target["ref"])
        engines = target.get("engines", ())
        pins += [PinRow(target["ref"], draft, engines) for draft in target.get("pins", ())]
    place = f"{where}: candidates"
    readers = {**SEARCH, "limit": _rows, "refs": _texts}
    drafts = [_read(row, readers, place) for row in top.get("candidates", ())]
    named = [ref for row in drafts for ref in row.pop("refs", ())]
    searches = [_read({"limit": FOUND, **row}, SEARCH, f"{where}: search") for row in
                top.get("search", ())]  # fmt: skip
    return ScanJob(
        targets=tuple(targets),
        searches=tuple(HubSearch(**row) for row in searches),
        candidates=tuple(HubSearch(**row) for row in drafts if row) if drafts else (HubSearch(),),
        named=tuple(named),
        pins=tuple(pins),
        engines=top.get("engines", ()),
        said={name: top[name] for name in SAID if name in top},
        trials=ScanTrials(**_read(top.get("trial", {}), TRIAL, f"{where}: trial")),
    )
