"""What to scan: targets, pins, the part of the Hub to look at, engines. From a file or options."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
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
FOUND = 20
"""Targets that a search brings, unless the user says otherwise."""
LONGEST_FILE = 4 << 20
MOST = 1 << 40
"""Of anything that a list counts, apart from parameters."""
LIMITS: dict[str, tuple[float, float]] = {
    "memory_fraction": (sys.float_info.min, 1), "draft_gpu": (0, 1023),
    "per_target": (0, MOST), "tokens": (0, MOST), "prompts": (0, MOST),
    "budget": (sys.float_info.min, MOST),
}  # fmt: skip
"""Smallest and largest value, where they are not 1 and MOST."""
KINDS: dict[str, tuple[type, ...]] = {
    "int | None": (int,), "float | None": (int, float), "str | None": (str,),
}  # fmt: skip
SAID = {
    name: KINDS[str(field.type)]
    for name, field in Circumstances.__dataclass_fields__.items()
    if str(field.type) in KINDS
}
"""What a list may say about the deployment, and in which types."""


@dataclass(frozen=True, slots=True)
class HubSearch:
    """A part of the Hub's list of models."""

    filters: tuple[str, ...] = ()
    """Tags that a model must all have."""
    search: str = ""
    author: str = ""
    min_parameters: int | None = None
    max_parameters: int | None = None
    limit: int = LIMIT


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


def count(text: Any, where: str) -> int:
    """Read a number of parameters: 8B, 600M, or plain."""
    if type(text) is int and 0 <= text < 1 << 60:
        return text
    match = COUNT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UsageError(f"{where}: {_shown(text)} is no number of parameters such as 8B")
    return int(float(match[1]) * UNITS[match[2].upper()])


def _job(root: Mapping[str, Any], where: str) -> ScanJob:
    _known(root, {"engines", "target", "search", "candidates", "trial", *SAID}, where)
    targets, pins = [], []
    for number, row in enumerate(_tables(root, "target", where), 1):
        place = f"{where}: target {number}"
        _known(row, {"ref", "pins", "engines"}, place)
        ref = _text(row.get("ref"), f"{place}: ref")
        targets.append(ref)
        engines = tuple(_texts(row, "engines", place))
        pins += [PinRow(ref, draft, engines) for draft in _texts(row, "pins", place)]
    rows = _tables(root, "candidates", where)
    named = [ref for row in rows for ref in _texts(row, "refs", f"{where}: candidates")]
    searches = [
        _search(row, f"{where}: candidates", {"refs"}) for row in rows if set(row) - {"refs"}
    ]
    return ScanJob(
        targets=tuple(targets),
        searches=tuple(
            _search({"limit": FOUND, **row}, f"{where}: search")
            for row in _tables(root, "search", where)
        ),
        candidates=tuple(searches) if rows else (HubSearch(),),
        named=tuple(named),
        pins=tuple(pins),
        engines=tuple(_texts(root, "engines", where)),
        said=_said(root, where),
        trials=_trials(root.get("trial", {}), f"{where}: trial"),
    )


def _said(root: Mapping[str, Any], where: str) -> dict[str, Any]:
    given = {name: root[name] for name in SAID if name in root}
    _sensible(given, SAID, where)
    return given


def _sensible(values: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]], where: str) -> None:
    """Values are of their kinds, and numbers within their limits."""
    for name, value in values.items():
        least, most = LIMITS.get(name, (1, MOST))
        if type(value) not in kinds[name] or not (isinstance(value, str) or least <= value <= most):
            raise UsageError(f"{where}: {name} {_shown(value)} is not sensible")


def _shown(value: Any) -> str:
    """The beginning of a value; of a number of thousands of digits, that there is one."""
    try:
        return repr(str(value)[:40])
    except ValueError:
        return "a number without end"


def _search(row: Mapping[str, Any], where: str, more: Iterable[str] = ()) -> HubSearch:
    counts = {"min_parameters", "max_parameters"}
    _known(row, {"filters", "search", "author", "limit", *counts, *more}, where)
    limit = row.get("limit", LIMIT)
    if type(limit) is not int or not 0 < limit <= 10_000_000:
        raise UsageError(f"{where}: limit {_shown(limit)} is no number of models")
    return HubSearch(
        filters=tuple(_texts(row, "filters", where)),
        search=_text(row.get("search", ""), f"{where}: search"),
        author=_text(row.get("author", ""), f"{where}: author"),
        limit=limit,
        **{name: count(row[name], f"{where}: {name}") for name in counts & set(row)},
    )


def _trials(row: Any, where: str) -> ScanTrials:
    if not isinstance(row, dict):
        raise UsageError(f"{where}: not a table")
    whole, text = (int,), (str,)
    kinds: dict[str, tuple[type, ...]] = {
        "per_target": whole, "backend": text, "tokens": whole, "prompts": whole, "device": text,
        "budget": (int, float),
    }  # fmt: skip
    _known(row, kinds, where)
    _sensible(row, kinds, where)
    return ScanTrials(**row)


def _known(row: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    if unknown := sorted(set(row) - set(names)):
        raise UsageError(
            f"{where}: unknown key {unknown[0]!r}", hint=f"Known: {', '.join(sorted(names))}."
        )


def _tables(root: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    rows = root.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{where}: {name} is written [[{name}]]")
    return rows


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where}: {_shown(value)} is no text")
    return value


def _texts(row: Mapping[str, Any], name: str, where: str) -> list[str]:
    values = row.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise UsageError(f"{where}: {name} is no list of texts")
    return values
