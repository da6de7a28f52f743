"""Numbers and names as the pages write them; everything from a model is made visible first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from draftcheck.report.safe import safe, safe_block
from draftcheck.report.text import REACTIONS
from draftcheck.values.sizes import byte_size, short_count
from draftcheck.values.words import Reaction

SHORT = 96
"""Letters of a name in a table; the Hub's own limit for one."""


def name(text: str, longest: int = SHORT) -> str:
    return safe(text, longest)


def _unless_unknown(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """A figure as text; nothing where there is none."""
    return lambda value: "" if value is None else write(value)


num = _unless_unknown("{:,}".format)
count = _unless_unknown(short_count)
"""A number of parameters."""
times = _unless_unknown("{:.2f}×".format)
decimal = _unless_unknown("{:.2f}".format)
percent = _unless_unknown(lambda value: f"{value:.0%}".replace("%", "\u00a0%"))
size = _unless_unknown(lambda value: byte_size(value).replace(" ", "\u00a0"))


def accepted(trial: Mapping[str, Any] | None) -> str:
    """The acceptance rate of a trial."""
    rate = (trial or {}).get("acceptance_rate")
    return percent(rate.get("value")) if isinstance(rate, Mapping) else ""


def moment(text: str | None, after: str | None = None) -> str:
    """A time stamp to the minute; after: without the day where it is the same."""
    if not text:
        return ""
    shown = safe(text.replace("T", " ")[:16], SHORT)
    if after and after[:10] == text[:10]:
        return shown[11:] + " UTC"
    return shown + " UTC"


def reaction(word: str) -> str:
    return REACTIONS[Reaction(word)] if word in set(Reaction) else safe(word, SHORT)


def words(text: str) -> str:
    """does-not-fit -> does not fit"""
    return safe(text.replace("-", " "), SHORT)


def sentence(text: str) -> str:
    """Starts with a capital, ends with a stop."""
    shown = safe(text)
    return shown[:1].upper() + shown[1:] + ("" if shown.endswith((".", "…")) else ".")


FILTERS = {
    "name": name, "text": safe, "block": safe_block, "num": num, "count": count, "times": times,
    "decimal": decimal, "percent": percent, "size": size, "accepted": accepted, "moment": moment,
    "reaction": reaction, "words": words, "sentence": sentence,
}  # fmt: skip
