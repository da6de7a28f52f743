"""The Prometheus text format, as far as counters and gauges need it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from draftcheck.probe.client import ServerAnswer

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+\S+)?[ \t\r]*")
_POSITION = re.compile(r"[0-9]{1,3}")
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a counter or gauge."""

    labels: Mapping[str, str]
    value: float


class Metrics:
    """The samples whose names start with a prefix; none in an answer that is no good one."""

    def __init__(self, answer: ServerAnswer, prefix: str) -> None:
        text = answer.text if answer.ok else ""
        self.samples: dict[str, list[Sample]] = {}
        self.declared = {name for name in _declared(text) if name.startswith(prefix)}
        for name, sample in _samples(text, prefix):
            self.samples.setdefault(name, []).append(sample)

    def counter(self, name: str) -> int | None:
        """Sum a counter over all engines of one process; with or without the ending _total."""
        values = [sample.value for sample in self._of(name)]
        return round(sum(values)) if values else None

    def mean(self, name: str) -> float | None:
        """Average a gauge over all ranks."""
        values = [sample.value for sample in self.samples.get(name, [])]
        return sum(values) / len(values) if values else None

    def positions(self, name: str) -> tuple[int, ...]:
        """Sum a counter with a position label by position."""
        sums: dict[int, float] = {}
        for sample in self._of(name):
            position = sample.labels.get("position", "")
            if _POSITION.fullmatch(position):
                sums[int(position)] = sums.get(int(position), 0) + sample.value
        return tuple(round(sums.get(position, 0)) for position in range(max(sums, default=-1) + 1))

    def _of(self, name: str) -> list[Sample]:
        return self.samples.get(f"{name}_total") or self.samples.get(name) or []


def _samples(text: str, prefix: str) -> Iterator[tuple[str, Sample]]:
    for line in text.split("\n"):
        if not line.startswith(prefix) or (match := _LINE.fullmatch(line)) is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value) and 0 <= value < 2**63:
            yield match[1], Sample(dict(_LABEL.findall(match[2] or "")), value)


def _declared(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if line.startswith("# TYPE "):
            yield line[7:].split(" ", 1)[0]
