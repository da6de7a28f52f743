"""/api/models: search, filters, sorting, pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.hub.answers import Answer, error
from tests.hub.api import chosen, fields, paged
from tests.hub.repos import Repo

if TYPE_CHECKING:
    from tests.hub.hub import Hub
    from tests.hub.requests import Request

USUAL = ("id", "modelId", "private", "downloads", "likes", "tags", "createdAt")
USUAL += ("pipeline_tag", "library_name")
FULL = (*USUAL, "author", "sha", "lastModified", "gated", "disabled", "siblings")
SORTS = {
    "lastModified": lambda repo: repo.last_modified,
    "last_modified": lambda repo: repo.last_modified,
    "createdAt": lambda repo: repo.created_at,
    "created_at": lambda repo: repo.created_at,
    "downloads": lambda repo: repo.downloads,
    "likes": lambda repo: repo.likes,
    "trendingScore": lambda repo: repo.extra.get("trendingScore", 0),
}
UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def answer(hub: Hub, request: Request) -> Answer:
    asked = chosen(hub, request, listing=True)
    if isinstance(asked, Answer):
        return asked
    if not hub.sizes and request.argument("num_parameters"):
        return error(400, "Bad request")
    sort = request.argument("sort")
    if sort and sort not in SORTS:
        return error(400, "Invalid sort parameter")
    found = [repo for repo in hub.repos.values() if _fits(request, repo)]
    key = SORTS[sort if sort and hub.sorts else "trendingScore"]
    found.sort(key=lambda repo: repo.id)
    found.sort(key=key, reverse=request.argument("direction", "-1") != "1")
    names = ("id", *asked) if asked else _usual(request)
    return paged(hub, request, found, hub.list_page, lambda repo: _row(repo, names))


def _usual(request: Request) -> tuple[str, ...]:
    names = FULL if request.switched_on("full") else USUAL
    names += ("config",) if request.switched_on("config") else ()
    return names + (("cardData",) if request.switched_on("cardData") else ())


def _row(repo: Repo, names: tuple[str, ...]) -> dict[str, Any]:
    whole = fields(repo, repo.commits[repo.sha], blobs=False)
    return {"_id": "0" * 24, **{name: whole[name] for name in names if name in whole}}


def _fits(request: Request, repo: Repo) -> bool:
    if repo.disabled or (repo.private and not (request.token and request.token.opens(repo))):
        return False
    wanted = request.argument("search").lower()
    if wanted and wanted not in repo.id.lower():
        return False
    if request.argument("author") not in ("", repo.author):
        return False
    for value in request.entry.arguments.get("filter", []):
        if not set(value.split(",")) <= set(repo.tags):
            return False
    kind = request.argument("pipeline_tag")
    if kind and repo.extra.get("pipeline_tag") != kind:
        return False
    gated = request.argument("gated")
    if gated and bool(repo.gated) is not (gated.lower() == "true"):
        return False
    return _in_size(request.argument("num_parameters"), repo)


def _in_size(wanted: str, repo: Repo) -> bool:
    """num_parameters=min:6B,max:128B"""
    total = repo.extra.get("safetensors", {}).get("total")
    total = total or repo.extra.get("gguf", {}).get("total")
    for part in filter(None, wanted.split(",")):
        side, _, text = part.partition(":")
        match = re.fullmatch(r"([\d.]+)([KMBT]?)", text.upper())
        if match is None or total is None:
            return False
        edge = float(match[1]) * UNITS[match[2]]
        if (side == "min" and total < edge) or (side == "max" and total > edge):
            return False
    return True
