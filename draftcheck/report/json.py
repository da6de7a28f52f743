"""The contract's JSON, written by hand so that refactoring cannot change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from draftcheck.models import stored
from draftcheck.report import memory
from draftcheck.settings import __version__
from draftcheck.values.comparison import Difference, SpecialToken, VocabularyComparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.findings import Finding
from draftcheck.values.verdicts import EngineVerdict, PairVerdict, Repair

if TYPE_CHECKING:
    from draftcheck.trial.result import Trial

SCHEMA_VERSION = 1
LONGEST = 1000


def pair(verdict: PairVerdict, trial: Trial | None = None) -> str:
    comparison = verdict.comparison
    body = {
        "schema_version": SCHEMA_VERSION,
        "draftcheck_version": __version__,
        "target": model(comparison.target),
        "draft": None if comparison.draft is None else model(comparison.draft),
        "vocabulary": vocabulary(comparison.vocabulary),
        "special_tokens": [_special(token) for token in comparison.specials],
        "tokenization": {
            "same": comparison.behaviour.same,
            "detail": comparison.behaviour.detail,
        },
        "engines": [engine(entry) for entry in verdict.engines],
        "memory": memory.top(verdict.engines),
        "trial": trial.to_dict() if trial is not None else None,
        "verdict": str(verdict.verdict),
    }
    return dumps(body)


def dumps(body: Any, indent: int | None = 2) -> str:
    # ASCII only: texts of models may hold control and bidi characters.
    separators = None if indent else (",", ":")
    return json.dumps(_unicode(body), indent=indent, separators=separators, ensure_ascii=True)


def _unicode(value: Any) -> Any:
    r"""The same without lone surrogates, which strict parsers refuse: bytes become \xNN."""
    if isinstance(value, str):
        return value if value.isascii() else _escaped(value)
    if isinstance(value, Mapping):
        return {_unicode(name): _unicode(entry) for name, entry in value.items()}
    return [_unicode(entry) for entry in value] if isinstance(value, list | tuple) else value


def _escaped(text: str) -> str:
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def model(facts: ModelFacts) -> dict[str, Any]:
    return {
        "ref": facts.ref,
        "kind": facts.kind,
        "revision": facts.revision,
        "facts": facts_object(facts),
    }


def facts_object(facts: ModelFacts) -> dict[str, Any]:
    """The facts without the big tables."""
    body = stored.dump(facts, whole=False)
    for key in ("ref", "kind", "revision"):
        body.pop(key, None)
    return body


def inspect(facts: ModelFacts, loaded: Mapping[str, object] | None) -> str:
    head = {"schema_version": SCHEMA_VERSION, "draftcheck_version": __version__}
    return dumps({**head, **model(facts), "llama_cpp": loaded and dict(loaded)})


def vocabulary(comparison: VocabularyComparison) -> dict[str, Any]:
    first = comparison.differences[0] if comparison.differences else None
    return {
        "relation": str(comparison.relation),
        "target_size": comparison.target_size,
        "draft_size": comparison.draft_size,
        "size_gap": comparison.size_gap,
        "differing_ids": comparison.differing_ids,
        "first_difference": _difference(first) if first else None,
        "differences": [_difference(entry) for entry in comparison.differences],
        "overlap": comparison.overlap,
    }


def _difference(entry: Difference) -> dict[str, Any]:
    return {"id": entry.id, "target": _text(entry.target), "draft": _text(entry.draft)}


def _special(token: SpecialToken) -> dict[str, Any]:
    return {
        "name": token.name,
        "target": {"id": token.target_id, "text": _text(token.target_text)},
        "draft": {"id": token.draft_id, "text": _text(token.draft_text)},
    }


def _text(raw: bytes | None) -> str | None:
    """A token's text, cut where nobody would read on."""
    return None if raw is None else raw[:LONGEST].decode("utf-8", "backslashreplace")


def engine(entry: EngineVerdict) -> dict[str, Any]:
    return {
        "engine": entry.engine,
        "version": entry.version,
        "version_checked": entry.version_checked,
        "method": entry.method,
        "reaction": str(entry.reaction),
        "verdict": str(entry.verdict),
        "decided_by": entry.decided_by,
        "basis": entry.basis,
        "findings": [finding(item) for item in entry.findings],
        "setup": entry.setup,
        "memory": entry.memory and memory.body(entry.memory),
        "repairs": [repair(item) for item in entry.repairs],
        "notes": list(entry.notes),
    }


def repair(item: Repair) -> dict[str, Any]:
    return {"id": item.id, "title": item.title, "text": item.text, "source": item.source}


def finding(item: Finding) -> dict[str, Any]:
    return {
        "rule": item.rule,
        "slug": item.slug,
        "title": item.title,
        "severity": str(item.severity),
        "outcome": str(item.outcome),
        "reaction": str(item.reaction),
        "saw": item.saw,
        "engine_says": item.engine_says,
        "why": item.why,
        "fix": item.fix,
        "source": item.source,
        "basis": item.basis,
    }
