"""What doctor found, as text and JSON; texts of the server are escaped."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import click

from draftcheck.doctor.findings import AssumptionCheck, AssumptionState, DoctorReport
from draftcheck.report.json import HEAD, dumps
from draftcheck.report.layout import wrapped
from draftcheck.report.safe import safe
from draftcheck.settings import __version__

COLOURS = {
    AssumptionState.HOLDS: "green",
    AssumptionState.DIFFERS: "yellow",
    AssumptionState.FAILS: "red",
    AssumptionState.UNKNOWN: "magenta",
}


def code(report: DoctorReport) -> int:
    """0: draftcheck can work with it; 1: it cannot; 3: not everything could be asked."""
    if report.in_state(AssumptionState.FAILS):
        return 1
    return 3 if report.in_state(AssumptionState.UNKNOWN) else 0


def _answer(report: DoctorReport) -> str:
    """The first line."""
    failing, other, unknown, held = (
        report.in_state(state)
        for state in (
            AssumptionState.FAILS,
            AssumptionState.DIFFERS,
            AssumptionState.UNKNOWN,
            AssumptionState.HOLDS,
        )
    )
    total = len(report.checks)
    about = f"assumptions about {report.endpoint}"
    if failing:
        names = ", ".join(check.assumption.name for check in failing)
        verb = "does" if len(failing) == 1 else "do"
        return f"{len(failing)} of {total} {about} {verb} not hold: {names}"
    if unknown:
        return f"cannot tell: {len(unknown)} of {total} {about} could not be asked"
    if other:
        names = ", ".join(check.assumption.name for check in other)
        return f"{len(held)} of {total} {about} hold; draftcheck copes without: {names}"
    return f"all {total} {about} hold"


def _versions(report: DoctorReport) -> dict[str, Any]:
    return {
        "huggingface_hub": metadata.version("huggingface_hub"),
        "python": platform.python_version(),
        "token": report.has_token,
        "leads_to": report.leads_to,
    }


def _text(report: DoctorReport) -> str:
    about = _versions(report)
    token = "with a token" if report.has_token else "without a token"
    mirror = f", which leads to {report.leads_to}" if report.leads_to else ""
    lines = [
        safe(_answer(report)),
        "",
        f"  draftcheck {__version__}, huggingface_hub {about['huggingface_hub']},"
        f" Python {about['python']}",
        f"  {safe(report.model)} at {safe(report.endpoint)}{safe(mirror)}, {token}",
        "",
    ]
    width = max(len(check.assumption.name) for check in report.checks)
    lines += [line for check in report.checks for line in _lines(check, width)]
    return "\n".join([*lines, "", f"next  {safe(report.next_step, 500)}"])


def _lines(check: AssumptionCheck, width: int) -> list[str]:
    word = click.style(f"{check.state:<8}", fg=COLOURS[check.state])
    lines = [f"  {word}{check.assumption.name.ljust(width)}  {check.assumption.text}"]
    if check.state is AssumptionState.HOLDS:
        return lines
    asked = f" (GET {check.asked})" if check.asked else ""
    lines.append(wrapped("    saw   ", safe(f"{check.saw}{asked}", 500)))
    if check.state is not AssumptionState.UNKNOWN:
        lines.append(wrapped("    then  ", check.assumption.otherwise))
    return lines


def _object(report: DoctorReport) -> dict[str, Any]:
    failing = report.in_state(AssumptionState.FAILS)
    unknown = report.in_state(AssumptionState.UNKNOWN)
    return {
        **HEAD,
        "endpoint": report.endpoint,
        "model": report.model,
        **_versions(report),
        "summary": _answer(report),
        "usable": False if failing else None if unknown else True,
        "checks": [
            {
                "name": check.assumption.name,
                "assumption": check.assumption.text,
                "state": check.state,
                "asked": check.asked or None,
                "status": check.status,
                "saw": check.saw or None,
                "otherwise": check.assumption.otherwise,
                "copes": check.assumption.copes,
            }
            for check in report.checks
        ],
        "next": report.next_step,
    }


FORMATS: Mapping[str, Callable[[DoctorReport], str]] = {
    "text": _text,
    "json": lambda report: dumps(_object(report)),
}
