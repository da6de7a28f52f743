"""What a trial found out, and the JSON of the contract that says so.

A Trial holds one SpeculationFigures for every way of speculating: draft lengths, thresholds, trees,
n-grams. Its single figures (acceptance, speed-up …) are those of one draft length, Trial.length.

The classes have the shape of the JSON; `rename` says where a key has another name there. to_dict
writes that shape and adds what follows from other figures. load reads it back: measured once, used
by every command that asks later. People edit such files, so reading is strict. The classes check
what they are made of; then the result is written again, and the keys of the file must be those that
were written. Nothing here needs numpy: most commands only read results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from draftcheck.errors import ReadError
from draftcheck.trial import strict_json
from draftcheck.trial.engine_speed.speedups import EngineSpeedup
from draftcheck.trial.speedup import GAIN, Costs, ratio
from draftcheck.trial.strict_json import Number, Text, Whole

MAX_ROWS = 4096
MAX_BYTES = 16 << 20
WHAT = "the result of a trial"
HEAD = ("schema_version", "draftcheck_version")
"""Keys that the report of a trial adds."""
SETTINGS = ("p_min", "nodes", "levels", "min", "max", "draft_tokens")
Interval = tuple[Number, Number]


class MeasuredModel(msgspec.Struct, frozen=True):
    """Which model it was, so that a saved result is not taken for that of another."""

    ref: Text
    revision: Text | None = None
    """The commit of a model of the Hub."""
    digest: Text | None = None
    """Of the names, sizes and ends of local files."""


class HeadRun(msgspec.Struct, frozen=True):
    """A head, and whose way of running it was taken: engines differ, and figures with them."""

    kind: Text
    engine: Text
    version: Text
    layers: Annotated[tuple[Whole, ...], Meta(max_length=MAX_ROWS)] = ()
    """Layers of the target whose inputs it read; none: the last state."""


class CostsOrigin(msgspec.Struct, frozen=True):
    """Whose costs the speed-ups rest on; acceptance holds in every engine, speed in this one."""

    engine: Text
    version: Text | None
    source: Text
    """As in Costs."""
    spread: Number | None
    """As in Costs; None: not known."""
    warning: Text | None = None
    """Why nobody should decide by these speed-ups."""

    def __str__(self) -> str:
        return f"{self.engine} {self.version}" if self.version else self.engine


class AcceptanceRate(msgspec.Struct, frozen=True):
    """Accepted over drafted tokens."""

    value: Number
    ci95: Interval | None = None

    def __post_init__(self) -> None:
        _check_order(self.ci95)


class VllmCounters(msgspec.Struct, frozen=True):
    """What a draft length came to, in the counters of vLLM's /metrics."""

    num_drafts: Number
    """Passes that checked at least one drafted token."""
    num_draft_tokens: Number
    num_accepted_tokens: Number
    num_accepted_tokens_per_pos: Annotated[tuple[Number, ...], Meta(max_length=MAX_ROWS)]
    """Passes that accepted at least the first 1, 2, 3 … drafts."""

    @property
    def by_position(self) -> list[float]:
        """Share of the drafts whose first i + 1 tokens were accepted: vLLM's figure."""
        return [ratio(n, self.num_drafts) for n in self.num_accepted_tokens_per_pos]

    @property
    def by_position_given_the_last(self) -> list[float]:
        """The same among the drafts whose token before it was accepted."""
        reached = [self.num_drafts, *self.num_accepted_tokens_per_pos]
        return [ratio(now, before) for before, now in pairwise(reached)]

    @property
    def histogram(self) -> list[float]:
        """Drafts by the number of their tokens that were accepted: 0, 1, 2 …"""
        reached = [self.num_drafts, *self.num_accepted_tokens_per_pos, 0.0]
        return [before - now for before, now in pairwise(reached)]


class SpeculationFigures(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"interval": "tokens_per_pass_ci95", "break_even": "break_even_tokens_per_pass"},
):
    """One way of speculating and what it came to; each method has settings of its own."""

    name: Text
    method: Text
    p_min: Number | None = None
    nodes: Whole | None = None
    levels: Whole | None = None
    min: Whole | None = None
    max: Whole | None = None
    draft_tokens: Whole | None = None
    tokens_per_pass: Number
    """Block efficiency, tau."""
    interval: Interval | None = None
    """Of tokens_per_pass."""
    draft_efficiency: Number
    drafted_per_pass: Number
    speedup: Number | None = None
    speedup_ci95: Interval | None = None
    mbsu: Number | None = None
    """Memory-bound speed-up: tau / (c g + 1)."""
    break_even: Number | None = None
    """Tokens per pass from which this draft length pays: a pass in plain steps."""
    counters: VllmCounters | None = None
    """Of draft lengths."""

    def __post_init__(self) -> None:
        _check_order(self.interval)
        _check_order(self.speedup_ci95)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the method, without those of other methods."""
        return {name: value for name in SETTINGS if (value := getattr(self, name)) is not None}

    def to_dict(self) -> dict[str, Any]:
        of_lengths = ("mbsu", "break_even_tokens_per_pass", "counters")
        left_out = {*SETTINGS, *of_lengths} - self.settings.keys()
        return {name: value for name, value in _fields(self).items() if name not in left_out}

    def to_dict_with_counters(self) -> dict[str, Any]:
        """The same of a draft length."""
        body = {
            **self.to_dict(),
            "mbsu": self.mbsu,
            "break_even_tokens_per_pass": self.break_even,
            "counters": {},
        }
        return body if self.counters is None else {**body, **_with_shares(self.counters)}


class LoadFigures(msgspec.Struct, frozen=True, rename={"target_step": "target_step_s"}):
    """What a number of sequences at once makes of it."""

    sequences: Whole
    draft_tokens: Whole
    speedup: Number
    target_step: Number
    speedup_ci95: Interval | None = None

    def __post_init__(self) -> None:
        _check_order(self.speedup_ci95)


class CategoryFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of some of the prompts: a category, or the greedy share of a mixed workload."""

    prompts: Whole
    tokens: Whole
    acceptance_rate: AcceptanceRate
    tokens_per_pass: Number
    draft_tokens: Whole
    """The length that is best for this part; the trial's own where no costs are known."""
    speedup: Number | None = None
    speedup_ci95: Interval | None = None

    def __post_init__(self) -> None:
        _check_order(self.speedup_ci95)

    @property
    def acceptance(self) -> float:
        return self.acceptance_rate.value

    @property
    def interval(self) -> Interval | None:
        """Of the acceptance."""
        return self.acceptance_rate.ci95


class VerifiedRun(
    msgspec.Struct, frozen=True, kw_only=True, rename={"predicted": "predicted_tokens_per_pass"}
):
    """A real speculative run by the backend's own implementation, or by that of an engine."""

    engine: Text | None = None
    """Which one; None, and not written: the backend."""
    draft_tokens: Whole
    """Those of the trial's length, unless the engine makes another number whatever is asked."""
    tokens_per_pass: Number
    predicted: Number | None = None
    """What the traces say for the same texts and the same way of counting."""
    speedup: Number | None
    identical_output: bool | None
    """None: sampled texts never are the same."""
    drafted: Whole | None = None
    accepted: Whole | None = None
    """The engine's own counters, where it has them."""
    first: int = 0
    """1: the engine drafts nothing in the pass that reads the prompt. Not written."""
    samples: bool | None = None
    """At a temperature the draft samples too; None: if the traces have it. Not written."""


Rows = Annotated[tuple[SpeculationFigures, ...], Meta(max_length=MAX_ROWS)]


class Trial(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "target_model": "target",
        "draft_model": "draft",
        "shared": "shared_tokens",
        "greedy_draft": "greedy_draft_acceptance",
        "greedy_lengths": "greedy_draft_lengths",
        "reencoded": "reencoded_lengths",
        "costs": "cost",
        "costs_origin": "costs",
        "break_even": "break_even_acceptance",
    },
):
    """The result of a trial of one pair."""

    target_model: MeasuredModel
    draft_model: MeasuredModel
    head: HeadRun | None = None
    """What drafts, where that is no model by itself."""
    backend: Text
    device: Text
    dtype: Text
    temperature: Number
    greedy_share: Number = 0.0
    translation: Text | None = None
    """How texts were brought from one vocabulary to the other; None: ids mean the same."""
    seed: Whole
    prompts: Whole
    prompts_digest: Text | None = None
    tokens: Whole
    tokens_per_prompt: Whole | None = None
    seconds: Number
    stopped: Text
    """Why no more prompts were taken."""
    incomplete: Text | None = None
    """Why the trial ended before it was done."""
    length: Whole
    """The draft length that single figures are about."""
    acceptance_rate: AcceptanceRate
    categories: Mapping[str, CategoryFigures] = {}
    workload: Mapping[str, CategoryFigures] = {}
    """The greedy and the sampled part of a mixed workload."""
    overlap: Number | None = None
    greedy_draft: Number | None = None
    lengths: Rows = ()
    greedy_lengths: Rows = ()
    """At a temperature: draft lengths when the draft proposes its first choice."""
    reencoded: Rows = ()
    """Of a translated draft: lengths, in the draft's tokens, when text is encoded anew."""
    shared: Number | None = None
    """Of a translated draft: share of the target's tokens that the draft has too."""
    thresholds: Rows = ()
    trees: Rows = ()
    ngram: Rows = ()
    best: SpeculationFigures | None = None
    """None: neither costs nor real runs were timed."""
    costs: Costs | None = None
    costs_origin: CostsOrigin | None = None
    """None: no speed-ups, or not known whose."""
    floor: Costs | None = None
    floor_speedup: Number | None = None
    """What memory would allow; no engine's figure."""
    loads: Annotated[tuple[LoadFigures, ...], Meta(max_length=MAX_ROWS)] = ()
    break_even: Number | None = None
    speeds: Annotated[tuple[EngineSpeedup, ...], Meta(max_length=64)] = ()
    """What engines would gain that were not run here, the one that was asked for first."""
    speeds_unknown: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    """Engines that run such a draft, of which neither is known: no guess is made."""
    verified: VerifiedRun | None = None
    broken: Text | None = None
    notes: Annotated[tuple[Text, ...], Meta(max_length=MAX_ROWS)] = ()

    def __post_init__(self) -> None:
        groups = (self.lengths, self.greedy_lengths, self.reencoded, self.thresholds, self.ngram)
        if any(row.draft_tokens is None for group in groups for row in group):
            raise ValueError("a row of lengths, thresholds or ngram without draft_tokens")
        if self.best is not None and self.best.speedup is None:
            raise ValueError("a best way without a speedup")

    def _repr_html_(self) -> str:
        shown: str = import_module("draftcheck.report.json").as_html(self)
        return shown

    def __repr__(self) -> str:
        pair, row = f"{self.draft} for {self.target}", self.row
        if self.broken is not None:
            return f"<Trial {pair}: broken: {self.broken}>"
        if row is None:
            return f"<Trial {pair}: nothing was measured>"
        gain = "" if row.speedup is None else f", speed-up {row.speedup:.2f}"
        passes = f"{row.tokens_per_pass:.2f} tokens per pass with drafts of {self.length}"
        return f"<Trial {pair}: {passes}{gain}>"

    @property
    def target(self) -> str:
        return self.target_model.ref

    @property
    def draft(self) -> str:
        return self.draft_model.ref

    @property
    def acceptance(self) -> float:
        return self.acceptance_rate.value

    @property
    def interval(self) -> Interval | None:
        """Of the acceptance."""
        return self.acceptance_rate.ci95

    @property
    def pays(self) -> bool | None:
        """Whether anything beats not speculating."""
        if self.lost_for_real is not None:
            return False
        return None if self.best is None else self.best.method != "none"

    @property
    def worthless(self) -> bool:
        """It was measured, and the answer is no: broken, slower for real, or nothing gained."""
        if self.speeds and self.lost_for_real is None:
            return not self.speeds[0].pays
        return self.broken is not None or self.pays is False

    @property
    def lost_for_real(self) -> VerifiedRun | None:
        """The real run, where it was slower: then no promise counts, unless of another engine."""
        real, origin = self.verified, self.costs_origin
        if real is None or real.speedup is None or real.speedup >= 1:
            return None
        if origin is None or origin.source == "steps" or origin.engine == self.verified_by:
            return real
        return None

    @property
    def verified_by(self) -> str:
        """The engine of the real run."""
        named = None if self.verified is None else self.verified.engine
        return named or self.backend

    @property
    def row(self) -> SpeculationFigures | None:
        """The draft length that single figures are about."""
        return next((row for row in self.lengths if row.draft_tokens == self.length), None)

    @property
    def headline(self) -> SpeculationFigures | None:
        """The best way, or what comes nearest to paying; None: no speed-ups are known."""
        if self.best is None or self.best.method != "none":
            return self.best
        copied = [row for row in self.ngram if row.speedup is not None and row.speedup <= GAIN]
        return self.row or max(copied, key=lambda row: row.speedup or 0.0, default=None)

    @property
    def counters(self) -> VllmCounters | None:
        return self.row.counters if self.row is not None else None

    @property
    def by_position(self) -> list[float]:
        return self.counters.by_position if self.counters is not None else []

    @property
    def serving(self) -> Interval | None:
        """The interval of the speed-up in a serving engine, where its costs are known."""
        if self.row is None or self.costs_origin is None or self.costs_origin.source == "steps":
            return None
        return self.row.speedup_ci95

    @property
    def token_rate_ratio(self) -> float | None:
        """Tokens per second with the draft over those without it: of the real run, if any."""
        if self._measured_ratio is not None:
            return self._measured_ratio
        return self.row.speedup if self.row is not None else None

    @property
    def _measured_ratio(self) -> float | None:
        real = self.verified
        return real.speedup if real is not None and real.draft_tokens == self.length else None

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the contract."""
        row, counters = self.row, self.counters
        real = self._measured_ratio is not None or (self.best is not None and self.costs is None)
        body = _fields(self)
        for name, rows in (
            ("lengths", self.lengths),
            ("greedy_draft_lengths", self.greedy_lengths),
            ("reencoded_lengths", self.reencoded),
        ):
            body[name] = [length.to_dict_with_counters() for length in rows]
        if self.best is not None:
            body["best"] = {"draft_tokens": None, **self.best.to_dict()}
        if self.verified is not None:
            del body["verified"]["first"], body["verified"]["samples"]
            if self.verified.engine is None:
                del body["verified"]["engine"]
        if self.head is None:
            del body["head"]
        for name in ("speeds", "speeds_unknown"):
            if not body[name]:
                del body[name]
        figures = {  # the classic ones by their names, at the trial's length
            "acceptance_rate": self.acceptance if row else None,
            "block_efficiency": row.tokens_per_pass if row else None,
            "draft_efficiency": row.draft_efficiency if row else None,
            "mbsu": row.mbsu if row else None,
            "token_rate_ratio": self.token_rate_ratio,
            "token_rate_ratio_is": "measured" if real else "from step costs",
        }
        stops = next((load.sequences for load in self.loads if load.speedup <= 1.0), None)
        following: dict[str, dict[str, Any]] = {  # by the key that they stand behind
            "greedy_share": {
                "draft_sampling": "probabilistic" if self.greedy_lengths else "greedy"
            },
            "acceptance_rate": {"figures": figures, **_with_shares(counters)},
            "floor_speedup": {"serving_speedup": _json(self.serving)},
            "loads": {"stops_paying_at": stops},
        }
        return {
            key: value
            for name in body
            for key, value in ((name, body[name]), *following.get(name, {}).items())
        }


def _json(value: Any) -> Any:
    """A value as JSON has it: structs under the names they are read by, lists for tuples."""
    if isinstance(value, SpeculationFigures | Costs):
        return value.to_dict()
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, Mapping):
        return {name: _json(entry) for name, entry in value.items()}
    return [_json(entry) for entry in value] if isinstance(value, tuple) else value


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    return {written: _json(getattr(struct, name)) for name, written in names}


def _with_shares(counters: VllmCounters | None) -> dict[str, Any]:
    """vLLM's counters and the shares that follow from them."""
    given_the_last = counters.by_position_given_the_last if counters else []
    return {
        "acceptance_by_position": counters.by_position if counters else [],
        "acceptance_by_position_conditional": given_the_last,
        "accepted_length_histogram": counters.histogram if counters else [],
        "counters": _json(counters) if counters else {},
    }


def _check_order(interval: Interval | None) -> None:
    if interval is not None and interval[0] > interval[1]:
        raise ValueError("an interval whose ends are swapped")


PUBLISHED = "published"
"""Beside the result in its file: what others measured, which is no part of it."""


def load(file: Path) -> Trial:
    """The result in a file of `trial --format json`, or under "trial" in one of `pair`."""
    found = strict_json.load(file, WHAT, MAX_BYTES)
    if isinstance(found, dict) and "engines" in found:
        if found.get("trial") is None:
            raise ReadError(f"{file}: the result of pair without a trial")
        found = found["trial"]
    return parse(found, str(file))


def parse(found: Any, where: str) -> Trial:
    """The result itself; an error names the key that is wrong."""
    trial = strict_json.convert(found, Trial, where, WHAT)
    body = {name: value for name, value in found.items() if name not in (*HEAD, PUBLISHED)}
    for problem in _other_keys(body, trial.to_dict(), ""):
        raise ReadError(f"{where}: not {WHAT}: {problem}")
    return trial


def _other_keys(found: Any, written: Any, place: str) -> Iterator[str]:
    """Keys of the file that we would not write, and those we would write with a value.

    Also figures that follow from others and come out beyond all bounds.
    """
    if isinstance(found, dict) and isinstance(written, dict) and written:
        before = f"{place}." if place else ""
        for name in found:
            if name not in written:
                yield f"unknown key {before}{name:.80}"
        for name, value in written.items():
            if name in found:
                yield from _other_keys(found[name], value, before + name)
            elif value is not None:
                yield f"missing key {before}{name}"
    elif isinstance(found, list) and isinstance(written, list):
        for number, (one, other) in enumerate(zip(found, written, strict=False)):
            yield from _other_keys(one, other, f"{place}[{number}]")
    elif isinstance(written, float) and not math.isfinite(written):
        yield f"{place}: no number comes of these figures"
