"""mlx_lm.server: neither its addresses nor its answers say anything about drafts."""

from __future__ import annotations

from draftcheck.probing import openai
from draftcheck.probing.reading import Reading, Reply
from draftcheck.probing.web import Site

ENGINE = "mlx-lm"
OWNERS: frozenset[str] = frozenset()


def looks_like(site: Site) -> str | None:
    """Python's plain HTTP server, and models without an owner."""
    plain = site.get(openai.MODELS).headers.get("server", "").startswith("BaseHTTP/")
    listed = openai.models(site)
    bare = bool(listed) and all(set(entry) == {"id", "object", "created"} for entry in listed)
    return "the form of /v1/models" if plain and bare else None


def version(site: Site) -> str | None:
    return None


def read(site: Site, model: str | None) -> Reading:
    return Reading(model=model, cause="not-told")


def ask(site: Site, model: str | None, prompt: str) -> Reply | None:
    """Not sent: the answer would not tell."""
    return None
