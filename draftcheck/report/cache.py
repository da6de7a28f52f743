"""What is in the cache: how much, and of which repos."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from draftcheck.models.sources.hub.cache import HubCache
from draftcheck.report.json import HEAD, dumps
from draftcheck.report.safe import safe
from draftcheck.values.sizes import byte_size


def survey(store: HubCache, cleared: tuple[int, int] | None) -> dict[str, Any]:
    """Count what is there; cleared: how many files and bytes no longer are."""
    sizes: dict[str, list[int]] = {}
    entries = total = 0
    for kept in store.entries():
        entries, total = entries + 1, total + kept.size
        sizes.setdefault(kept.name.partition("@")[0], []).append(kept.size)
    repos = [_repo(body, sizes) for body in store.listings()]
    repos.sort(key=lambda share: (-share["bytes"], share["repo"], share["revision"]))
    return {
        "folder": str(store.folder),
        "entries": entries,
        "bytes": total,
        "limit_bytes": store.limit,
        "repos": repos,
        "cleared": cleared and {"entries": cleared[0], "bytes": cleared[1]},
    }


def _repo(body: dict[str, Any], sizes: dict[str, list[int]]) -> dict[str, Any]:
    """One repo at one commit; contents that repos share count for each."""
    names = {
        str(entry[1]).partition(":")[2]
        for entry in body["files"].values()
        if isinstance(entry, list) and len(entry) == 2
    }
    mine = [sizes[name] for name in names if name in sizes]
    return {
        "repo": str(body.get("repo")),
        "revision": str(body.get("commit")),
        "endpoint": str(body.get("endpoint")),
        "entries": len(mine),
        "bytes": sum(map(sum, mine)),
    }


def _text(cache: Mapping[str, Any]) -> str:
    lines = [safe(cache["folder"])]
    if cleared := cache["cleared"]:
        lines.append(f"  cleared {cleared['entries']:,} files, {byte_size(cleared['bytes'])}")
    size, limit = byte_size(cache["bytes"]), byte_size(cache["limit_bytes"])
    lines.append(f"  {cache['entries']:,} files, {size} (limit {limit})")
    for share in cache["repos"]:
        lines.append(
            f"  {byte_size(share['bytes']):>10}  {share['entries']:>5,} files"
            f"  {safe(share['repo'], 120)}@{safe(share['revision'][:12])}"
        )
    return "\n".join(lines)


FORMATS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "text": _text,
    "json": lambda cache: dumps({**HEAD, **cache}),
}
