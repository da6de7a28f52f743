"""The formats that a report of the gate comes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from draftcheck.gate.results import GateReport
from draftcheck.report import gate, github, junit, sarif
from draftcheck.report.json import dumps

FORMATS: Mapping[str, Callable[[GateReport, bool], str]] = {
    "text": lambda report, verbose: gate.text(report, verbose=verbose),
    "json": lambda report, _: dumps(gate.body(report)),
    "markdown": lambda report, _: "\n".join(gate.markdown(report)),
    "sarif": lambda report, _: sarif.render(report),
    "junit": lambda report, _: junit.render(report),
    "github": lambda report, _: github.render(report),
}
"""Form -> a report of the gate; the second argument asks for remarks and ignored findings too."""
