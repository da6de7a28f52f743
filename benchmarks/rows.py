"""A promise per row: our cost against a peer's, or against a fixed limit."""

from __future__ import annotations

from collections.abc import Iterable


class Row:
    """One promise."""

    def __init__(self, name: str, ours: float, peer: float, limit: float, unit: str) -> None:
        self.name, self.ours, self.peer, self.limit, self.unit = name, ours, peer, limit, unit

    @property
    def ratio(self) -> float:
        return self.ours / self.peer

    @property
    def kept(self) -> bool:
        return self.ratio <= self.limit

    def __str__(self) -> str:
        figures = f"{self.ours:8.2f} {self.peer:9.2f} {self.unit:3} {self.ratio:9.3f}"
        verdict = "kept" if self.kept else "NOT KEPT"
        return f"{self.name:52} {figures} {self.limit:9.3f}  {verdict}"


def show(rows: Iterable[Row]) -> int:
    """Print the table; 1 when a promise is not kept."""
    found = list(rows)
    print(f"{'what':52} {'ours':>8} {'peer':>9} {'':3} {'measured':>9} {'promised':>9}")
    for row in found:
        print(row)
    return 0 if all(row.kept for row in found) else 1
