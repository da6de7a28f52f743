"""What all OpenAI-compatible servers share: the list of models and a short completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftcheck.probe.client import ProbedServer, ServerAnswer
from draftcheck.probe.readings import ServerCounts

MODELS = "/v1/models"
MOST_TOKENS = 48
PROMPT_SECONDS = 60.0
"""A completion waits for other requests, a question about the state does not."""


def models(server: ProbedServer) -> list[dict[str, Any]]:
    """List the entries of /v1/models."""
    data = server.get(MODELS).object().get("data")
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def owners(server: ProbedServer) -> set[str]:
    """List who owns the models: most servers put their own name there."""
    return {entry["owned_by"] for entry in models(server) if isinstance(entry.get("owned_by"), str)}


def first_model(server: ProbedServer) -> str | None:
    """Find the id of the first model listed."""
    return next((text(entry.get("id")) for entry in models(server)), None)


def text(value: object, longest: int = 300) -> str | None:
    """Take a text worth keeping, cut where no name goes on."""
    return value[:longest] if isinstance(value, str) and value else None


def count(value: object) -> int | None:
    """Take a number that can be a count; anything else tells nothing."""
    if not isinstance(value, int | float) or number(value) is None or value < 0:
        return None
    return int(value)


def number(value: object) -> float | None:
    """Take a number of a size that something can have; anything else tells nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 2**63 else None  # nan is not less than anything


def seconds(milliseconds: object) -> float | None:
    """Take a time that a server measured; one that no pass of a model takes tells nothing."""
    told = number(milliseconds)
    return told / 1000 if told is not None and 1e-6 <= told <= 1e9 else None


def figures(drafted: int | None, accepted: int | None, generated: int | None) -> ServerCounts:
    """Count what one answer tells; tokens per pass follow: the first token needs no pass.

    How many of the passes held a draft is not told.
    """
    taken = accepted or 0
    passes = 0 if generated is None else generated - 1 - taken
    length = 1 + taken / passes if drafted and passes > 0 else None
    return ServerCounts(
        drafted=drafted or 0, accepted=taken, generated=generated, told_length=length
    )


def complete(server: ProbedServer, path: str, body: Mapping[str, Any]) -> ServerAnswer:
    """Ask for one short completion at temperature 0."""
    return server.post(path, body, max(PROMPT_SECONDS, server.seconds))


def fault(answer: ServerAnswer) -> str | None:
    """Say why a completion gave nothing, or None."""
    if answer.fault is not None:
        return answer.fault
    if answer.status != 200:
        return f"HTTP {answer.status}"
    return None if answer.object() else "the answer is not a JSON object"
