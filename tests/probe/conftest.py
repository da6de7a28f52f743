"""Fakes that are closed again, and short ways to ask them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran, Run
from tests.probe.server import Answer, Fake

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "recorded" / "llama_server.json").read_text(encoding="utf-8")
)
Serve = Callable[..., Fake]
Ask = Callable[..., Ran]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a fake server with these routes."""
    running: list[Fake] = []

    def start(routes: Mapping[str, Answer], host: str = "127.0.0.1") -> Fake:
        running.append(Fake(routes, host))
        return running[-1]

    yield start
    for fake in running:
        fake.close()


@pytest.fixture
def ask(run: Run, serve: Serve) -> Ask:
    """Probe a fake server with these routes; the JSON report is read by default."""

    def call(routes: Mapping[str, Answer], *options: object, form: str = "json") -> Ran:
        return run("probe", serve(routes).url, "--format", form, *options)

    return call


def two(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Routes that answer from one look first and from another afterwards."""
    return {path: [first[path], second[path]] for path in first}
