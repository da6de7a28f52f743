"""Values as JSON: what every report begins with, text that any parser takes, results as dicts.

The contract's keys are named one by one where a report is made, so that refactoring cannot change
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any

from draftcheck.settings import __version__
from draftcheck.values.results import PublicResult

SCHEMA_VERSION = 1
HEAD: Mapping[str, Any] = {"schema_version": SCHEMA_VERSION, "draftcheck_version": __version__}
"""What a report begins with."""


def picked(value: Any, *keys: str) -> dict[str, Any]:
    """Some fields of a value; `key=field` where the contract has another name for a field."""
    named = (entry.partition("=") for entry in keys)
    return {key: attrgetter(field or key)(value) for key, _, field in named}


def dumps(body: Any, indent: int | None = 2) -> str:
    # ASCII only: texts of models may hold control and bidi characters.
    separators = None if indent else (",", ":")
    return json.dumps(_unicode(body), indent=indent, separators=separators, ensure_ascii=True)


def _unicode(value: Any) -> Any:
    r"""The same without lone surrogates, which strict parsers refuse: bytes become \xNN."""
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        except UnicodeEncodeError:  # a surrogate that stands for no byte
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_unicode(name): _unicode(entry) for name, entry in value.items()}
    return [_unicode(entry) for entry in value] if isinstance(value, list | tuple) else value


WRITERS: Mapping[str, tuple[str, Callable[[Any, str, Any], str]]] = {
    "PairVerdict": ("pair", lambda report, form, one: report.PAIR[form](one, None, False, False)),
    "ModelFacts": ("pair", lambda report, form, one: report.INSPECT[form](one)),
    "Trial": ("trial", lambda report, form, one: report.FORMATS[form](one)),
    "Recommendation": (
        "recommend", lambda report, form, one: report.FORMATS[form]([one], False, False),
    ),
    "GateReport": ("gate", lambda report, form, one: report.FORMATS[form](one, False)),
    "ProbeResult": ("probe", lambda report, form, one: report.FORMATS[form](one)),
}  # fmt: skip
"""By class name, the module that writes it: only what is asked for is imported."""


def _written(result: PublicResult, form: str) -> str:
    module, write = WRITERS[type(result).__name__]
    return write(import_module(f"draftcheck.report.{module}"), form, result)


def as_dict(result: PublicResult) -> dict[str, Any]:
    """What PublicResult.to_dict says: read back from the text that the command prints."""
    body: dict[str, Any] = json.loads(_written(result, "json"))
    return body


def as_html(result: PublicResult) -> str:
    """The report for terminals, as a notebook shows it."""
    import html

    import click

    return f"<pre>{html.escape(click.unstyle(_written(result, 'text')))}</pre>"
