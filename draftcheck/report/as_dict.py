"""The contract's JSON of each result of the Python API, as a dict: what PublicResult.to_dict says.

It is read back from the text that the command prints, so the two cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from draftcheck.values.results import PublicResult

WRITERS: Mapping[str, tuple[str, Callable[[Any, Any], str]]] = {
    "PairVerdict": ("pair", lambda report, verdict: report.pair_json(verdict)),
    "ModelFacts": ("pair", lambda report, facts: report.inspect_json(facts)),
    "Recommendation": (
        "recommend", lambda report, answer: report.FORMATS["json"]([answer], False, False),
    ),
    "GateReport": ("gate", lambda report, found: report.FORMATS["json"](found, False)),
}  # fmt: skip
"""By class name, the module that writes it: only what is asked for is imported."""


def of(result: PublicResult) -> dict[str, Any]:
    """The dict of a result."""
    module, write = WRITERS[type(result).__name__]
    body: dict[str, Any] = json.loads(write(import_module(f"draftcheck.report.{module}"), result))
    return body
