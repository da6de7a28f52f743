"""The contract's JSON of each result of the Python API, as a dict: what PublicResult.to_dict says.

It is read back from the text that the command prints, so the two cannot differ.
"""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable, Mapping
from typing import Any

from draftcheck.values.results import PublicResult


def of(result: PublicResult) -> dict[str, Any]:
    """The dict of a result."""
    body: dict[str, Any] = standard_json.loads(WRITERS[type(result).__name__](result))
    return body


def _pair(verdict: Any) -> str:
    from draftcheck.report import pair

    return pair.pair_json(verdict)


def _facts(facts: Any) -> str:
    from draftcheck.judge.llama.loaded import loaded
    from draftcheck.report import pair

    return pair.inspect_json(facts, loaded(facts))


def _recommendation(answer: Any) -> str:
    from draftcheck.report import recommend

    return recommend.FORMATS["json"]([answer], False, False)


def _gate(report: Any) -> str:
    from draftcheck.report import gate_formats

    return gate_formats.FORMATS["json"](report, False)


WRITERS: Mapping[str, Callable[[Any], str]] = {
    "PairVerdict": _pair,
    "ModelFacts": _facts,
    "Recommendation": _recommendation,
    "GateReport": _gate,
}
"""By class name: each writer imports what it needs, and only that."""
