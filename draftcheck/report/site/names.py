"""File names that stay the same night after night, whatever a model is called."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256

from draftcheck.report.rulepages import TRUTH
from draftcheck.rulebook import book
from draftcheck.scan.rows import ModelRow
from draftcheck.settings import endpoint

LONGEST = 60
REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_ODD = re.compile(r"[^a-z0-9]+")


def digest(ref: str) -> str:
    return sha256(ref.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def page(ref: str) -> str:
    """A target's page: readable letters of its name, and a digest that makes it its own."""
    slug = _ODD.sub("-", ref.lower())[:LONGEST].strip("-")
    return f"target-{slug}-{digest(ref)}.html" if slug else f"target-{digest(ref)}.html"


def hub_url(model: ModelRow) -> str | None:
    """Where people look at its files; only for a link."""
    at_hub = model.kind == "hub" and REPO.fullmatch(model.ref)
    return f"{endpoint()}/{model.ref}" if at_hub else None


def rules(engine: str) -> str:
    """An engine's rule page; engine names are ours."""
    return f"rules-{_ODD.sub('-', engine.lower())}.html"


@cache
def rule_pages() -> dict[str, str]:
    """Rule -> the page that explains it."""
    found = {rule.id: rules(TRUTH) for rule in book.truth()}
    for engine in book.engine_files():
        found |= {rule.id: rules(engine) for rule in book.load(engine).rules}
    return found
