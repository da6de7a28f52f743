"""What is in the cache: how much, and of which repos."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from draftcheck.models.sources.hub.cache import HubCache
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.safe import safe
from draftcheck.values.sizes import byte_size


@dataclass(frozen=True, slots=True)
class CacheShare:
    """One repo at one commit; contents that repos share count for each."""

    repo: str
    commit: str
    endpoint: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CacheSurvey:
    folder: str
    entries: int
    bytes: int
    limit: int
    shares: tuple[CacheShare, ...]
    cleared: tuple[int, int] | None = None


def survey(store: HubCache, cleared: tuple[int, int] | None) -> CacheSurvey:
    """Count what is there."""
    sizes: dict[str, list[int]] = {}
    entries = total = 0
    for kept in store.entries():
        entries, total = entries + 1, total + kept.size
        sizes.setdefault(kept.name.partition("@")[0], []).append(kept.size)
    shares = [_share(body, sizes) for body in store.listings()]
    shares.sort(key=lambda share: (-share.bytes, share.repo, share.commit))
    return CacheSurvey(str(store.folder), entries, total, store.limit, tuple(shares), cleared)


def _share(body: dict[str, Any], sizes: dict[str, list[int]]) -> CacheShare:
    names = {
        str(entry[1]).partition(":")[2]
        for entry in body["files"].values()
        if isinstance(entry, list) and len(entry) == 2
    }
    mine = [sizes[name] for name in names if name in sizes]
    return CacheShare(
        str(body.get("repo")),
        str(body.get("commit")),
        str(body.get("endpoint")),
        len(mine),
        sum(map(sum, mine)),
    )


def _text(cache: CacheSurvey) -> str:
    lines = [safe(cache.folder)]
    if cache.cleared is not None:
        lines.append(f"  cleared {cache.cleared[0]:,} files, {byte_size(cache.cleared[1])}")
    lines.append(
        f"  {cache.entries:,} files, {byte_size(cache.bytes)} (limit {byte_size(cache.limit)})"
    )
    for share in cache.shares:
        lines.append(
            f"  {byte_size(share.bytes):>10}  {share.files:>5,} files"
            f"  {safe(share.repo, 120)}@{safe(share.commit[:12])}"
        )
    return "\n".join(lines)


def _json(cache: CacheSurvey) -> str:
    cleared = None
    if cache.cleared is not None:
        cleared = {"entries": cache.cleared[0], "bytes": cache.cleared[1]}
    keys = ("repo", "revision=commit", "endpoint", "entries=files", "bytes")
    body = {
        **HEAD,
        **picked(cache, "folder", "entries", "bytes", "limit_bytes=limit"),
        "repos": [picked(share, *keys) for share in cache.shares],
        "cleared": cleared,
    }
    return dumps(body)


FORMATS: Mapping[str, Callable[[CacheSurvey], str]] = {
    "text": _text,
    "json": _json,
}
