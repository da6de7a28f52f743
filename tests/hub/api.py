"""The JSON half of the Hub about one repo: info, tree, paths-info, refs, commits, shard headers."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from tests.hub.access import may_read, may_see, no_folder, no_revision, repo_not_found
from tests.hub.answers import Answer, as_json, error, redirect
from tests.hub.repos import DATE, Commit, Repo

if TYPE_CHECKING:
    from tests.hub.blobs import File
    from tests.hub.hub import Hub
    from tests.hub.requests import Request

EXPAND = {
    "author", "baseModels", "cardData", "childrenModelCount", "config", "createdAt", "disabled",
    "downloads", "downloadsAllTime", "evalResults", "gated", "gguf", "inference",
    "inferenceProviderMapping", "lastModified", "library_name", "likes", "mask_token",
    "model-index", "pipeline_tag", "private", "resourceGroup", "safetensors", "sha", "siblings",
    "spaces", "tags", "transformersInfo", "trendingScore", "usedStorage", "widgetData",
}  # fmt: skip


def answer(hub: Hub, request: Request) -> Answer:
    """/api/models/ID and what is below it."""
    segments = request.segments[2:]
    repo_id, rest = hub.split_id(segments)
    if moved := hub.moved(repo_id):
        tail = request.raw_path.split("/")[4 + repo_id.count("/") :]
        to = "/".join(["/api/models", moved, *tail])
        query = f"?{request.entry.query}" if request.entry.query else ""
        return redirect(307, to + query)
    repo = hub.repos.get(repo_id)
    if repo is None:
        return repo_not_found(hub, request)
    refused = may_see(hub, request, repo)
    if refused is not None:
        return refused
    if not rest or rest[0] == "revision":
        return _info(hub, request, repo, rest[1] if len(rest) > 1 else "main")
    handler = _BELOW.get(rest[0])
    return handler(hub, request, repo, rest[1:]) if handler else error(404, "Not found")


def fields(repo: Repo, commit: Commit, *, blobs: bool) -> dict[str, Any]:
    """Everything that the Hub says about a repo."""
    used = sum(file.size for file in commit.files.values())
    return {
        "id": repo.id,
        "modelId": repo.id,
        "author": repo.author,
        "sha": commit.sha,
        "lastModified": repo.last_modified,
        "createdAt": repo.created_at,
        "private": repo.private,
        "gated": repo.gated,
        "disabled": repo.disabled,
        "downloads": repo.downloads,
        "likes": repo.likes,
        "tags": list(repo.tags),
        "siblings": [_sibling(name, commit.files[name], blobs) for name in sorted(commit.files)],
        "spaces": [],
        "usedStorage": used,
        **repo.extra,
    }


def chosen(hub: Hub, request: Request, *, listing: bool = False) -> list[str] | Answer:
    """The properties that the caller wants (none: the usual ones), or the refusal."""
    asked = request.entry.arguments.get("expand", []) + request.entry.arguments.get("expand[]", [])
    for name in asked:
        if name not in EXPAND or not hub.expands:
            return error(400, f'Invalid option: expected one of the properties, not "{name}"')
        if listing and name in hub.not_in_lists:
            return error(400, f"{name} is only accepted for one model, not when listing")
    return asked


def _info(hub: Hub, request: Request, repo: Repo, revision: str) -> Answer:
    commit = repo.find(revision)
    if commit is None:
        return no_revision(revision)
    asked = chosen(hub, request)
    if isinstance(asked, Answer):
        return asked
    whole = fields(repo, commit, blobs=request.switched_on("blobs"))
    if asked:
        whole = {name: whole[name] for name in ("id", *asked) if name in whole}
    return as_json({"_id": "0" * 24, **whole})


def _sibling(name: str, file: File, blobs: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"rfilename": name}
    if blobs:
        entry |= {"blobId": file.oid, "size": file.size}
        if file.lfs:
            pointer = len(file.pointer)
            entry["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": pointer}
    return entry


def _entry(hub: Hub, commit: Commit, name: str, expand: bool) -> dict[str, Any]:
    """A file as tree and paths-info give it."""
    file = commit.files[name]
    entry: dict[str, Any] = {"type": "file", "oid": file.oid, "size": file.size, "path": name}
    if file.lfs:
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": len(file.pointer)}
        if hub.xet:
            entry["xetHash"] = file.xet
    if expand:
        entry["lastCommit"] = {"id": commit.sha, "title": commit.title, "date": DATE}
        entry["securityFileStatus"] = {
            "status": "safe",
            "avScan": {"status": "safe"},
            "pickleImportScan": None,
        }
    return entry


def _folder(path: str, expand: bool, commit: Commit) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": path}
    if expand:
        entry["lastCommit"] = {"id": commit.sha, "title": commit.title, "date": DATE}
    return entry


def _tree(hub: Hub, request: Request, repo: Repo, rest: list[str]) -> Answer:
    revision, below = (rest[0], "/".join(rest[1:]).strip("/")) if rest else ("main", "")
    commit = repo.find(revision)
    if commit is None:
        return no_revision(revision)
    expand = request.switched_on("expand")
    prefix = f"{below}/" if below else ""
    names = sorted(name for name in commit.files if name.startswith(prefix))
    if not names:
        return no_folder(revision, below)
    rows: dict[str, dict[str, Any]] = {}
    for name in names:
        parts = name[len(prefix) :].split("/")
        for depth in range(1, len(parts) if request.switched_on("recursive") else 2):
            path = prefix + "/".join(parts[:depth])
            if depth < len(parts):
                rows.setdefault(path, _folder(path, expand, commit))
        if len(parts) == 1 or request.switched_on("recursive"):
            rows[name] = _entry(hub, commit, name, expand)
    return paged(hub, request, list(rows.values()), 50 if expand else hub.tree_page)


def paged(
    hub: Hub,
    request: Request,
    rows: Sequence[Any],
    most: int,
    shown: Callable[[Any], Any] = lambda row: row,
) -> Answer:
    """One page of a list, and a Link to the next; rows are rendered for this page only."""
    limit = request.argument("limit")
    size = min(int(limit), most) if limit.isdigit() and int(limit) else most
    cursor = request.argument("cursor")
    try:
        at = int(base64.b64decode(cursor).decode().partition(":")[0]) if cursor else 0
    except ValueError:
        return error(400, "Invalid cursor")
    found = as_json([shown(row) for row in rows[at : at + size]])
    if at + size < len(rows):
        kept = [
            f"{quote(name)}={quote(value)}"
            for name, values in request.entry.arguments.items()
            for value in values
            if name != "cursor"
        ]
        place = base64.b64encode(f"{at + size}:{size}".encode()).decode()
        query = "&".join([*kept, f"cursor={quote(place, safe='')}"])
        home = hub.link_host or hub.url
        found.headers["Link"] = f'<{home}{request.raw_path}?{query}>; rel="next"'
    return found


def _paths_info(hub: Hub, request: Request, repo: Repo, rest: list[str]) -> Answer:
    revision = rest[0] if rest else "main"
    commit = repo.find(revision)
    if commit is None:
        return no_revision(revision)
    if request.method != "POST":
        return error(405, "Method not allowed")
    try:
        paths, expand = _posted(request)
    except ValueError:
        return error(400, "Bad request body")
    if len(paths) > 1000:
        return error(413, "Too many paths")
    found = []
    for path in paths:
        if path in commit.files:
            found.append(_entry(hub, commit, path, expand))
        elif any(name.startswith(path.rstrip("/") + "/") for name in commit.files):
            found.append(_folder(path, expand, commit))
    return as_json(found)


def _posted(request: Request) -> tuple[list[str], bool]:
    if "json" in request.entry.headers.get("content-type", ""):
        body = json.loads(request.entry.posted)
        return list(body["paths"]), bool(body.get("expand"))
    form = parse_qs(request.entry.posted.decode())
    return form.get("paths", []), form.get("expand", [""])[0].lower() in ("1", "true")


def _refs(hub: Hub, request: Request, repo: Repo, rest: list[str]) -> Answer:
    def row(name: str, ref: str) -> dict[str, str]:
        return {"name": name, "ref": ref, "targetCommit": repo.refs[name]}

    branches = [row(name, f"refs/heads/{name}") for name in repo.refs if "refs/" not in name]
    pulls = [row(name, name) for name in repo.refs if name.startswith("refs/pr/")]
    return as_json({"branches": branches, "converts": [], "tags": [], "pullRequests": pulls})


def _commits(hub: Hub, request: Request, repo: Repo, rest: list[str]) -> Answer:
    commit = repo.find(rest[0] if rest else "main")
    if commit is None:
        return no_revision(rest[0])
    rows = []
    while commit is not None:
        author = {"user": repo.author}
        rows.append(
            {"id": commit.sha, "title": commit.title, "message": "", "authors": [author]}
            | {"date": DATE}
        )
        commit = repo.commits.get(commit.parent or "")
    return paged(hub, request, rows, 50)


def _shard_headers(hub: Hub, request: Request, repo: Repo, rest: list[str]) -> Answer:
    """All safetensors headers of an index on main in one answer (clients 2.x ask for it)."""
    refused = may_read(hub, request, repo)
    if refused is not None:
        return refused
    index = repo.files.get("/".join(rest))
    if index is None or not hub.shard_headers:
        return error(404, "Not found")
    whole = json.loads(b"".join(index.blob.pieces()))
    names = sorted(set(whole["weight_map"].values()))
    headers = {name: _header(repo.files, name) for name in names}
    return as_json({"index": {"metadata": whole.get("metadata", {})}, "headers": headers})


def _header(files: Mapping[str, File], name: str) -> Any:
    [length] = struct.unpack("<Q", b"".join(files[name].blob.pieces(0, 8)))
    return json.loads(b"".join(files[name].blob.pieces(8, 8 + length)))


_BELOW = {
    "tree": _tree,
    "paths-info": _paths_info,
    "refs": _refs,
    "commits": _commits,
    "safetensors-metadata": _shard_headers,
}
