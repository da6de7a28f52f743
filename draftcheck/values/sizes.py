"""Large numbers in few letters, the same in every text."""

from __future__ import annotations

COUNTS = (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3))
BYTES = (("GiB", 1 << 30, 2), ("MiB", 1 << 20, 1), ("KiB", 1 << 10, 1))


def short_count(number: int) -> str:
    """1,234,567,890 -> 1.23B."""
    for unit, size in COUNTS:
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)


def byte_size(number: int) -> str:
    """1,234,567,890 -> 1.15 GiB."""
    for unit, size, digits in BYTES:
        if abs(number) >= size:
            return f"{number / size:,.{digits}f} {unit}"
    return f"{number} B"
