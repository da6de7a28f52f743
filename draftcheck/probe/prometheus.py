"""The Prometheus text format, as far as counters and gauges need it."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
        self.declared: set[str] = set()
        for line in text.split("\n"):
            if line.startswith(f"# TYPE {prefix}"):
                self.declared.add(line[7:].split(" ", 1)[0])
            elif line.startswith(prefix) and (match := _LINE.fullmatch(line)) is not None:
                self._take(match)

    def _take(self, match: re.Match[str]) -> None:
        """Keep one value, if it is one that a counter or gauge can have."""
        try:
            value = float(match[3])
        except ValueError:
            return
        if 0 <= value < 2**63:
            sample = Sample(dict(_LABEL.findall(match[2] or "")), value)
            self.samples.setdefault(match[1], []).append(sample)

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
