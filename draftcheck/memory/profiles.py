"""rules/memory.toml -> how one version of an engine uses memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from draftcheck.errors import UsageError
from draftcheck.rulebook import files

MIB = 1 << 20
GIB = 1 << 30


class Profile:
    """The habits of an engine at one version."""

    def __init__(self, engine: str, values: Mapping[str, Any]) -> None:
        self.engine, self.values = engine, values

    def get(self, name: str, default: Any = None) -> Any:
        """Look a habit up by its key in rules/memory.toml."""
        return self.values.get(name, default)

    def range(self, name: str) -> tuple[int, int, int]:
        """Turn a [low, typical, high] row of MiB into bytes."""
        low, typical, high = self.values.get(name, (0, 0, 0))
        return low * MIB, typical * MIB, high * MIB

    def step(self, name: str, memory: int) -> int:
        """Find what the engine picks by the size of the GPU: rows of [value, below GiB]."""
        rows = self.values[name]
        for value, below in rows:
            if below and memory < below * GIB:
                return int(value)
        return int(rows[-1][0])

    def kv_bits(self, kv_dtype: str | None, float_bytes: int) -> tuple[str, float]:
        """Find the name and the bits per element of the cache's type."""
        types = files.load("memory")["kv_bits"]
        known = self.values["kv_types"]
        word = (kv_dtype or known[0]).lower()
        if kv_dtype is not None and word not in known and word not in types:
            raise UsageError(
                f"--kv-dtype {kv_dtype[:40]!r} is no type of a KV cache",
                hint=f"{self.engine} takes {', '.join(known)}.",
            )
        if word == "auto":
            return ("float32" if float_bytes == 4 else "16-bit"), 8.0 * float_bytes
        bits = types.get(word)
        return word, float(bits) if bits is not None else 8.0 * float_bytes

    def takes(self, kv_dtype: str | None) -> bool:
        """Whether the engine has a KV cache of this type."""
        return kv_dtype is None or kv_dtype.lower() in self.values["kv_types"]


def load(engine: str, version: str, order: Callable[[str], Any]) -> Profile | None:
    """Find the habits of an engine's version; None where its memory is not modelled."""
    table = files.load("memory")["engine"]
    row = table.get(engine)
    if row is not None and "like" in row:
        # Another program around the same engine; its versions say nothing about the cache.
        newest = dict(table[row["like"]])
        for change in newest["change"]:
            newest |= change
        return Profile(engine, {**newest, **row})
    if row is None:
        return None
    values = dict(row)
    at = order(version)
    for change in row.get("change", ()):
        if at >= order(change["since"]):
            values |= {name: value for name, value in change.items() if name != "since"}
    return Profile(engine, values)
