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
    repos: list[dict[str, Any]] = []
    for body in store.listings():  # one repo at one commit; shared contents count for each
        files = (file for file in body["files"].values() if isinstance(file, list))
        names = {str(file[1]).partition(":")[2] for file in files if len(file) == 2}
        mine = [sizes[name] for name in names if name in sizes]
        repos.append(
            {
                "repo": str(body.get("repo")),
                "revision": str(body.get("commit")),
                "endpoint": str(body.get("endpoint")),
                "entries": len(mine),
                "bytes": sum(map(sum, mine)),
            }
        )
    repos.sort(key=lambda share: (-share["bytes"], share["repo"], share["revision"]))
    return {
        "folder": str(store.folder),
        "entries": entries,
        "bytes": total,
        "limit_bytes": store.limit,
        "repos": repos,
        "cleared": cleared and {"entries": cleared[0], "bytes": cleared[1]},
    }


def _text(cache: Mapping[str, Any]) -> str:
    size, limit = byte_size(cache["bytes"]), byte_size(cache["limit_bytes"])
    lines = [f"{cache['entries']:,} files, {size} (limit {limit}) in {safe(cache['folder'])}"]
    if cleared := cache["cleared"]:
        told = f"cleared {cleared['entries']:,} files, {byte_size(cleared['bytes'])}"
        lines = [f"{told} in {safe(cache['folder'])}"]
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
