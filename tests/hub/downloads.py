"""The file half of the Hub: resolve, the small-file cache beside it, and the CDN with its links."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.hub.access import may_read, no_entry, no_revision, repo_not_found
from tests.hub.answers import Answer, error, redirect
from tests.hub.blobs import Data, File, Part
from tests.hub.faults import DENIED

if TYPE_CHECKING:
    from tests.hub.hub import Hub
    from tests.hub.requests import Request

RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def resolve(hub: Hub, request: Request) -> Answer:
    """/ID/resolve/REV/PATH: to the CDN, to the small-file cache, or the file itself."""
    segments = request.segments
    at = segments.index("resolve")
    repo_id, rest = "/".join(segments[:at]), segments[at + 1 :]
    if moved := hub.moved(repo_id):
        tail = request.raw_path.split("/", at + 1)[-1]
        return redirect(307, f"/{moved}/{tail}")
    repo = hub.repos.get(repo_id)
    if repo is None or len(rest) < 2:
        return repo_not_found(hub, request)
    name = "/".join(rest[1:])
    refused = may_read(hub, request, repo)
    if refused is not None:
        refused.file = f"{repo_id}/{name}"
        return refused
    commit = repo.find(rest[0])
    if commit is None:
        return no_revision(rest[0])
    file = commit.files.get(name)
    if file is None:
        return no_entry(commit)
    label = f"{repo_id}/{name}"
    headers = {
        "X-Repo-Commit": commit.sha,
        "X-Linked-ETag": f'"{file.etag}"',
        "Accept-Ranges": "bytes",
    }
    if file.lfs and hub.lfs_files == "direct":
        answer = _ranged(request, file, label)
        answer.headers |= {"ETag": f'"{file.etag}"', "X-Repo-Commit": commit.sha}
        return answer
    if file.lfs:
        headers |= {"X-Linked-Size": str(file.size), "Cache-Control": "no-store"}
        if hub.xet:
            headers["X-Xet-Hash"] = file.xet
        answer = redirect(302, sign(hub, label, commit.sha), **headers)
        answer.file = label
        return answer
    if hub.small_files == "cache" and not repo.private:
        path = f"/api/resolve-cache/models/{repo_id}/{commit.sha}/{quote(name)}"
        query = f"{quote(f'/{repo_id}/resolve/{rest[0]}/{name}', safe='')}=&etag=%22{file.etag}%22"
        answer = redirect(307, f"{path}?{query}", **headers)
        answer.file = label
        return answer
    return _small(hub, request, file, label, commit.sha)


def resolve_cache(hub: Hub, request: Request) -> Answer:
    """/api/resolve-cache/models/ID/SHA/PATH"""
    repo_id, rest = hub.split_id(request.segments[3:])
    repo = hub.repos.get(repo_id)
    if repo is None or len(rest) < 2:
        return repo_not_found(hub, request)
    refused = may_read(hub, request, repo)
    if refused is not None:
        return refused
    commit = repo.commits.get(rest[0])
    if commit is None:
        return no_revision(rest[0])
    name = "/".join(rest[1:])
    file = commit.files.get(name)
    if file is None:
        return no_entry(commit)
    return _small(hub, request, file, f"{repo_id}/{name}", commit.sha)


def _small(hub: Hub, request: Request, file: File, label: str, sha: str) -> Answer:
    answer = _ranged(request, file, label)
    answer.headers |= {"ETag": f'"{file.etag}"', "X-Repo-Commit": sha}
    packs = "gzip" in request.entry.headers.get("accept-encoding", "")
    if answer.status == 200 and packs and request.method == "GET" and hub.packs:
        # As the Hub's own CDN does: packed, in chunks, without a length.
        answer.body = Data(gzip.compress(b"".join(file.blob.pieces()), 6))
        answer.headers |= {"Content-Encoding": "gzip", "ETag": f'W/"{file.etag}"'}
        answer.chunked = True
    return answer


def _ranged(request: Request, file: File, label: str) -> Answer:
    """The file or the part of it that was asked for."""
    headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    asked = request.entry.range
    match = RANGE.fullmatch(asked or "")
    if match is None or not any(match.groups()):
        return Answer(200, headers, file.blob, whole=file.blob, file=label)
    first, last = match.groups()
    start = int(first) if first else max(0, file.size - int(last))
    stop = min(file.size, int(last) + 1) if first and last else file.size
    if start >= file.size or stop <= start:
        return Answer(416, {"Content-Range": f"bytes */{file.size}"}, file=label)
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    return Answer(206, headers, Part(file.blob, start, stop), file.blob, start, label)


def sign(hub: Hub, label: str, sha: str) -> str:
    """A link to the CDN that opens one file for a while, without a token."""
    path = f"/repos/{sha[:2]}/{sha}/{quote(label)}"
    expires = int(hub.now() + hub.link_seconds)
    return (
        f"{hub.cdn_url}{path}?Expires={expires}&Policy=eyJ&Key-Pair-Id=K1"
        f"&Signature={_signature(hub, path, expires)}"
    )


def _signature(hub: Hub, path: str, expires: int) -> str:
    text = f"{hub.link_age} {path} {expires}".encode()
    return hmac.new(hub.secret, text, hashlib.sha256).hexdigest()


def cdn(hub: Hub, request: Request) -> Answer:
    """/repos/…: the body of an LFS file, for who has a link that holds."""
    parts = request.segments
    if len(parts) < 5 or parts[0] != "repos":
        return error(404, "Not found")
    sha = parts[2]
    repo_id, rest = hub.split_id(parts[3:])
    commit = hub.repos[repo_id].commits.get(sha) if repo_id in hub.repos else None
    file = commit.files.get("/".join(rest)) if commit else None
    if file is None:
        return error(404, "Not found")
    expires = request.argument("Expires", "0")
    label = f"{repo_id}/{'/'.join(rest)}"
    good = _signature(hub, request.raw_path, int(expires) if expires.isdigit() else 0)
    if request.argument("Signature") != good or int(expires) < hub.now():
        return Answer(403, {"Content-Type": "application/xml"}, Data(DENIED), file=label)
    answer = _ranged(request, file, label)
    answer.headers["ETag"] = f'"{file.xet}"'
    return answer
