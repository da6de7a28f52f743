"""speculation_profile.json: what a draft is worth, as NVIDIA's Model-Optimizer writes it.

Its fields as of pull requests #2247, #2313, #2315 and #2316 (open in 2026-09; schema "1.0"), read
in their producers and tests. Lengths there count the target's own token. Marginal rates are a
share of all passes, conditional ones of the passes that came so far: vLLM's synthetic sampler
takes the first, Dynamo's simulator the second, AIConfigurator the mean of accepted drafts.
What the format has no place for stands under "draftcheck".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import msgspec

from draftcheck import atomic
from draftcheck.errors import ReadError, UsageError

SCHEMA = "1.0"
PRODUCER = "draftcheck"
CHAINS = {"draft_model", "full", "eagle", "eagle3", "mtp", "itself"}
"""Methods that draft token by token: lengths that were not measured can be worked out."""
DIGITS = 6
LARGEST = 1 << 20
CLOSE = 0.02
"""Of the mean that is said and the one that the rates make."""


class SpeculationProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How many drafted tokens a pass accepts."""

    marginal: tuple[float, ...]
    """By position, of all passes."""
    method: str | None = None
    draft: str | None = None
    target: str | None = None
    block_size: int | None = None
    histogram: Mapping[int, float] | None = None
    """Passes by tokens that they gave, the target's own counted."""
    by_length: Mapping[int, float] = {}
    """Tokens per pass of each draft length that was measured."""
    categories: Mapping[str, Mapping[str, Any]] | None = None
    conditions: Mapping[str, Any] = {}
    own: Mapping[str, Any] = {}
    """What the format lacks."""
    others: Mapping[str, Any] = {}
    """A file of another producer, as it was: written again, it loses nothing."""

    @property
    def tokens(self) -> int:
        """Drafted tokens of a pass."""
        return len(self.marginal)

    @property
    def tokens_per_pass(self) -> float:
        return 1 + sum(self.marginal)

    @property
    def conditional(self) -> tuple[float, ...]:
        reached = (1.0, *self.marginal)
        return tuple(now / before if before else 0.0 for before, now in pairwise(reached))

    def to_dict(self) -> dict[str, Any]:
        mean = round(self.tokens_per_pass, DIGITS)
        lengths = self.by_length or {self.tokens: mean}
        body: dict[str, Any] = {
            "schema_version": SCHEMA,
            "measured": True,
            "producer": PRODUCER,
            "method": self.method,
            "draft_checkpoint": self.draft and {"id": self.draft},
            "target_model": self.target and {"id": self.target},
            "num_speculative_tokens": self.tokens,
            "block_size": self.block_size,
            "max_supported_k": max(self.tokens, *lengths),
            "verification_method": "longest_prefix",
            "conditional_accept_rates": [round(rate, DIGITS) for rate in self.conditional],
            "marginal_accept_rates": [round(rate, DIGITS) for rate in self.marginal],
            "mean_accept_length": mean,
            "mean_accept_length_per_request": None,
            "accept_length_model": "chain_analytic" if self.method in CHAINS else "measured_per_k",
            "accept_length_by_k": {
                str(k): round(length, DIGITS) for k, length in sorted(lengths.items())
            },
            "acceptance_length_histogram": self.histogram
            and {str(length): count for length, count in sorted(self.histogram.items())},
            "per_category": self.categories,
            "measurement_conditions": dict(self.conditions),
            "validation": {
                "mean_consistency": {
                    "passed": True,
                    "reported_mean_accept_length": mean,
                    "implied_mean_accept_length": mean,
                },
                "marginal_monotonicity": {"passed": True},
            },
            "draftcheck": dict(self.own),
        }
        return {**body, **self.others}

    def write(self, file: Path) -> None:
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=True) + "\n"
        try:
            atomic.write(file.resolve(), text.encode())
        except OSError as error:
            raise ReadError(f"{file}: cannot be written: {error.strerror}") from error

    def vllm(self) -> dict[str, Any]:
        """What vLLM's --speculative-config takes to accept so much of any draft."""
        named = {"model": self.draft, "method": self.method} if self.draft else {}
        return {
            **{name: value for name, value in named.items() if value},
            "num_speculative_tokens": self.tokens,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": [round(rate, DIGITS) for rate in self.marginal],
        }

    def aiconfigurator(self) -> str:
        return f"--nextn {self.tokens} --nextn-accepted {self.tokens_per_pass - 1:.{DIGITS}g}"


def stub(draft: str, target: str | None, method: str | None, tokens: int | None) -> dict[str, Any]:
    """A placeholder: who it is of, and what has to be measured."""
    conditions = ("dataset", "temperature", "thinking", "engine", "engine_version", "hardware")
    return {
        "schema_version": SCHEMA,
        "measured": False,
        "producer": PRODUCER,
        "method": method,
        "draft_checkpoint": {"id": draft},
        "target_model": target and {"id": target},
        "num_speculative_tokens": tokens,
        "conditional_accept_rates": None,
        "marginal_accept_rates": None,
        "mean_accept_length": None,
        "measurement_conditions": dict.fromkeys(conditions),
    }


def from_counts(passes: float, by_position: Sequence[float]) -> tuple[float, ...]:
    """Marginal rates of passes that accepted at least the first 1, 2, 3 … drafts."""
    if passes <= 0 or not by_position:
        raise UsageError("no pass was measured: there is nothing to write into a profile")
    return tuple(count / passes for count in by_position)


def load(file: Path) -> SpeculationProfile:
    """A profile of any producer; conditional rates will do."""
    try:
        if file.stat().st_size > LARGEST:
            raise ReadError(f"{file}: too large for a speculation profile")
        body = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReadError(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise ReadError(f"{file}: not JSON") from None
    try:
        return _parsed(body)
    except _WrongProfileError as error:
        raise ReadError(f"{file}: {error}") from None


class _WrongProfileError(ValueError):
    """What is wrong with a profile."""


def _parsed(body: Any) -> SpeculationProfile:
    if not isinstance(body, dict) or "schema_version" not in body:
        raise _WrongProfileError("no speculation profile: schema_version is missing")
    if str(body["schema_version"]).partition(".")[0] != SCHEMA.partition(".")[0]:
        raise _WrongProfileError(f"schema {str(body['schema_version'])[:20]!r} is not known")
    if body.get("measured") is False:
        raise _WrongProfileError("nothing was measured: it is a placeholder")
    marginal = _rates(body, "marginal_accept_rates")
    conditional = _rates(body, "conditional_accept_rates")
    if marginal is None and conditional is not None:
        reached, marginal = 1.0, []
        for rate in conditional:
            reached *= rate
            marginal.append(reached)
    if not marginal:
        reason = str(body.get("vectors_unavailable_reason") or "no rates by position")[:200]
        raise _WrongProfileError(reason)
    if any(later > before + 1e-9 for before, later in pairwise(marginal)):
        raise _WrongProfileError("marginal_accept_rates grow")
    if conditional is not None and not _agree(conditional, marginal):
        raise _WrongProfileError("conditional_accept_rates do not make the marginal ones")
    said = body.get("mean_accept_length")
    made = 1 + sum(marginal)
    if isinstance(said, int | float) and abs(made / said - 1 if said else 1) > CLOSE:
        raise _WrongProfileError(
            f"mean_accept_length is {said}, the rates make {made:.3f}: which draft length is meant?"
        )
    return SpeculationProfile(
        marginal=tuple(marginal),
        method=_text(body.get("method")),
        draft=_id(body.get("draft_checkpoint")),
        target=_id(body.get("target_model")),
        block_size=_whole(body.get("block_size")),
        histogram=_numbers(body.get("acceptance_length_histogram")) or None,
        by_length=_numbers(body.get("accept_length_by_k")),
        categories=_table(body.get("per_category")) or None,
        conditions=_table(body.get("measurement_conditions")),
        own=_table(body.get("draftcheck")),
        others={} if body.get("producer") == PRODUCER else body,
    )


def _agree(conditional: Sequence[float], marginal: Sequence[float]) -> bool:
    """Whether two vectors say the same, as closely as four digits do."""
    reached = 1.0
    for rate, said in zip_longest(conditional, marginal, fillvalue=-1.0):
        reached *= rate
        if abs(reached - said) > 1e-3:
            return False
    return True


def _rates(body: Mapping[str, Any], name: str) -> list[float] | None:
    found = body.get(name)
    if found is None:
        return None
    numbers: list[Any] = found if isinstance(found, list) and 0 < len(found) <= 256 else [None]
    if not all(_is_rate(rate) for rate in numbers):
        raise _WrongProfileError(f"{name} must be numbers between 0 and 1")
    return [float(rate) for rate in numbers]


def _is_rate(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= 1


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _id(value: Any) -> str | None:
    """A name, or a table that has one."""
    if isinstance(value, dict):
        return next(
            (name for key in ("id", "name", "path") if (name := _text(value.get(key)))), None
        )
    return _text(value)


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 20 else None


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _numbers(value: Any) -> dict[int, float]:
    rows = value.items() if isinstance(value, dict) else ()
    return {
        int(key): float(number)
        for key, number in rows
        if str(key).isdecimal() and type(number) in (int, float) and math.isfinite(number)
    }
