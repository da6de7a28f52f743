"""The Hub that tests hold in their hands: repos, tokens, faults, quotas, and the log."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.hub import api, downloads, faults, listing
from tests.hub.answers import Answer, as_json, error, redirect
from tests.hub.blobs import Data
from tests.hub.faults import ANY, EARLY, KINDS, Fault
from tests.hub.log import Entry, Log
from tests.hub.quotas import Quotas, kind_of
from tests.hub.repos import Content, Repo, Token
from tests.hub.requests import Request
from tests.hub.server import Listener

BUSY = b"<!doctype html><html><body><h1>429</h1><p>We had to rate limit you.</p></body></html>"
EDGE = {
    "Age": "29",
    "X-Cache": "Hit from cloudfront",
    "RateLimit": '"resolvers";r=0;t=45',
    "RateLimit-Policy": '"fixed window";"resolvers";q=3000;w=300',
}
"""What an edge says of a file that it kept: the limits are those of whoever asked first."""
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Range",
    "Access-Control-Expose-Headers": "X-Repo-Commit,X-Request-Id,X-Error-Code,X-Error-Message,"
    "X-Total-Count,ETag,Link,Accept-Ranges,Content-Range,X-Linked-Size,X-Linked-ETag,X-Xet-Hash",
    "Cache-Control": "no-store",  # else a browser's own cache asks for other ranges than we do
}
"""What the Hub tells browsers."""
STORAGE_CORS = {name: value for name, value in CORS.items() if "Expose" not in name}
"""What a store of large files tells them: not even which range it sends."""


class Hub:
    """Use as a context manager. It answers as the real one was recorded (recorded.toml).

    The API is at url, the CDN at cdn_url: other name, other port. mirror_url leads to the API,
    as mirrors do for callers from abroad.
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.aliases: dict[str, str] = {}
        self.tokens: dict[str, Token] = {}
        self.faults: list[Fault] = []
        self.quotas = Quotas()
        self.log_book = Log()
        self.errors: list[str] = []
        self.closing = threading.Event()
        self.secret = secrets.token_bytes(16)
        self.link_seconds = 3600.0
        self.link_age = 0
        self.tree_page, self.list_page = 1000, 1000
        self.small_files = "cache"
        """How small public files come: "cache" (307, then the file) or "direct" (200)."""
        self.lfs_files = "cdn"
        """How large files come: "cdn" (302, then the file) or "direct" (200 or 206)."""
        self.packs = True
        """Whether small files are packed for clients that accept gzip."""
        self.error_codes = False
        """Whether the unknown, too, are told in X-Error-Code that a repo is missing."""
        self.edge = True
        """Whether small files come from an edge, with its limits."""
        self.link_host: str | None = "https://huggingface.co"
        """The host of the address of a next page; None: our own."""
        self.not_in_lists: set[str] = set()
        """Fields that are refused when listing."""
        self.xet = True
        """Whether LFS files carry Xet hashes."""
        self.expands = True
        """Whether it knows expand=…; otherwise that is a bad request."""
        self.sizes = True
        """Whether lists can be limited by the number of parameters; otherwise that is a bad
        request, and not said which word is meant."""
        self.sorts = True
        """Whether it does what sort=… asks for."""
        self.shard_headers = False
        """Whether /safetensors-metadata answers."""
        self.cors = False
        """Whether pages of other origins may read answers, as on the public Hub."""
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []

    def __enter__(self) -> Hub:
        makers: list[tuple[str, str, Callable[[Hub, Request], Answer]]] = [
            ("api", "127.0.0.1", _api),
            ("cdn", "localhost", downloads.cdn),
            ("elsewhere", "localhost", _elsewhere),
            ("mirror", "localhost", _mirror),
        ]
        for origin, host, route in makers:
            self._listeners.append(Listener(self, origin, host, self._responder(route)))
        self.url, self.cdn_url, self.elsewhere_url, self.mirror_url = (
            one.url for one in self._listeners
        )
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        for listener in self._listeners:
            listener.close()
        assert not self.errors, f"the loopback Hub itself failed: {self.errors}"

    # What is there

    def add_repo(
        self,
        repo_id: str,
        files: Mapping[str, Content],
        *,
        sha: str | None = None,
        branches: Mapping[str, Mapping[str, Content]] | None = None,
        **about: Any,
    ) -> Repo:
        """A repo whose main has these files; about: fields of Repo."""
        repo = Repo(repo_id, **about)
        repo.commit(files, sha=sha)
        for name, content in (branches or {}).items():
            repo.commit(content, branch=name)
        self.repos[repo_id] = repo
        return repo

    def rename(self, old: str, new: str) -> None:
        """The repo has a new name; the old one leads to it."""
        repo = self.repos.pop(old)
        repo.id = new
        self.repos[new] = repo
        self.aliases[old] = new

    def add_token(
        self,
        token: str,
        *,
        user: str = "somebody",
        repos: Iterable[str] = (),
        reads_gated: bool = True,
    ) -> None:
        self.tokens[token] = Token(user, frozenset(repos), reads_gated)

    def expire_links(self) -> None:
        """Every link to the CDN given so far is void."""
        self.link_age += 1

    def now(self) -> float:
        return time.time()

    # What goes wrong

    def fault(
        self,
        kind: str,
        *,
        path: str = "*",
        file: str | None = None,
        origin: str | None = None,
        method: str | None = None,
        nth: int = 1,
        times: int | None = 1,
        **options: Any,
    ) -> Fault:
        """From the nth matching request on, so many times (None: always). See faults.py.

        path and file are patterns; file is org/name/path of what a request is about.
        """
        assert kind in KINDS, f"{kind} is not one of {sorted(KINDS)}"
        made = Fault(kind, path, file, origin, method, nth, times, options)
        self.faults.append(made)
        return made

    # What happened

    @property
    def log(self) -> list[Entry]:
        self.log_book.settle()
        return list(self.log_book.entries)

    @property
    def requests(self) -> int:
        return len(self.log)

    @property
    def bytes(self) -> int:
        """Everything that went out, headers of answers included."""
        return sum(entry.wire for entry in self.log)

    @property
    def body_bytes(self) -> int:
        return sum(entry.body for entry in self.log)

    @property
    def leaks(self) -> list[Entry]:
        """Requests that carried a token to an origin that is not the API."""
        return [entry for entry in self.log if entry.origin != "api" and entry.had_token]

    def asked(self, file: str, method: str | None = None) -> list[Entry]:
        """The requests for one file."""
        wanted = (None, method) if method else (None,)
        return [e for e in self.log if e.file == file and (method is None or e.method in wanted)]

    def reset(self) -> None:
        """Forget the log and the faults; the repos stay."""
        self.log_book.clear()
        self.faults.clear()

    def story(self) -> str:
        """The log as text, for a failing test."""
        return "\n".join(map(str, self.log))

    # For clients

    def env(self, home: Path, token: str | None = None, **more: str) -> dict[str, str]:
        """An environment for a subprocess whose Hub this is and whose caches are in home."""
        kept = {
            name: os.environ.get(name, "")  # pytest's own come and go
            for name in list(os.environ)
            if not name.startswith(("HF_", "HUGGING", "XDG_", "DRAFTCHECK_", "OLLAMA"))
            and not name.lower().endswith("_proxy")
        }
        found = {
            **kept,
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home / "hf"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",  # there is no such storage here
            "XDG_CACHE_HOME": str(home / "cache"),
            "HOME": str(home),
            "USERPROFILE": str(home),
            "LOCALAPPDATA": str(home / "cache"),
            **({"HF_TOKEN": token} if token else {}),
        }
        return {**found, **more}

    # How it answers

    def own_answer(self, request: Request) -> Answer | None:
        """For a Hub that has more repos than anybody could add."""
        return None

    def split_id(self, segments: Sequence[str]) -> tuple[str, list[str]]:
        """The repo id at the front of a path (one word or two), and the rest."""
        two = "/".join(segments[:2])
        if two not in self.repos and two not in self.aliases and segments:
            one = segments[0]
            if one in self.repos or one in self.aliases:
                return one, list(segments[1:])
        return two, list(segments[2:])

    def moved(self, repo_id: str) -> str | None:
        """Where a repo is found now: under a new name, or in the letters it was made with."""
        if repo_id in self.repos:
            return None
        same = (name for name in self.repos if name.lower() == repo_id.lower())
        return self.aliases.get(repo_id) or next(same, None)

    def _responder(self, route: Callable[[Hub, Request], Answer]) -> Callable[[Entry, str], Answer]:
        def respond(entry: Entry, raw: str) -> Answer:
            if self.cors and entry.method == "OPTIONS":
                return Answer(204, {**CORS})
            entry.file = self._file_of(entry, raw)
            answer = self._early(entry)
            if answer is None:
                answer = self._in_turn(entry, raw, route)
                self._spoil(entry, answer)
            if self.cors:
                answer.headers |= CORS if entry.origin == "api" else STORAGE_CORS
            return answer

        return respond

    def _in_turn(self, entry: Entry, raw: str, route: Callable[[Hub, Request], Answer]) -> Answer:
        if entry.origin != "api":
            return route(self, Request(entry, raw, None))
        if self.edge and raw.startswith("/api/resolve-cache/"):
            answer = self._with_token(entry, raw, route)
            if answer.status in (200, 206):
                answer.headers |= EDGE
                return answer
        good, limits = self.quotas.take(kind_of(raw))
        if not good:
            answer = Answer(429, {"Content-Type": "text/html; charset=utf-8"}, Data(BUSY))
        else:
            answer = self._with_token(entry, raw, route)
        answer.headers |= {**limits, "X-Request-Id": f"Root=1-{len(self.log_book.entries)}"}
        if not entry.had_token:
            answer.headers["X-HF-Warning"] = "unauthenticated; Set a token for higher limits."
        return answer

    def _with_token(
        self, entry: Entry, raw: str, route: Callable[[Hub, Request], Answer]
    ) -> Answer:
        word = (entry.authorization or "").removeprefix("Bearer ")
        if word and word not in self.tokens:
            repo = self.repos.get("/".join((entry.file or "").split("/")[:2]))
            if repo is not None and repo.gated:
                return route(self, Request(entry, raw, None))
            return error(401, "Invalid credentials in Authorization header")
        return route(self, Request(entry, raw, self.tokens.get(word)))

    def _due(self, entry: Entry, wanted: Callable[[Fault], bool]) -> list[Fault]:
        with self._lock:
            found = [f for f in self.faults if wanted(f) and f.matches(entry, entry.file)]
            found = [fault for fault in found if fault.due()]
        entry.faults += [fault.kind for fault in found]
        return found

    def _early(self, entry: Entry) -> Answer | None:
        for fault in self._due(entry, lambda fault: fault.kind in EARLY):
            answer = faults.early(fault, entry, self.closing.wait)
            if answer is not None:
                return answer
        return None

    def _spoil(self, entry: Entry, answer: Answer) -> None:
        has_body = answer.status in (200, 206) and entry.method != "HEAD"
        kinds = KINDS - EARLY if has_body else ANY
        for fault in self._due(entry, lambda fault: fault.kind in kinds):
            faults.spoil(fault, answer)

    def _file_of(self, entry: Entry, raw: str) -> str | None:
        """org/name/path, as far as the address alone says it."""
        parts = entry.path.split("/")[1:]
        if entry.origin == "cdn" and len(parts) > 3:
            return "/".join(parts[3:])
        if "resolve" in parts[1:3]:
            at = parts.index("resolve")
            return "/".join(parts[:at] + parts[at + 2 :])
        if parts[:2] == ["api", "resolve-cache"]:
            repo_id, rest = self.split_id(parts[3:])
            return "/".join([repo_id, *rest[1:]])
        return None


def _api(hub: Hub, request: Request) -> Answer:
    if (own := hub.own_answer(request)) is not None:
        return own
    parts = request.segments
    if parts[:2] == ["api", "models"]:
        return (
            api.answer(hub, request)
            if parts[2:] not in ([], [""])
            else listing.answer(hub, request)
        )
    if parts[:3] == ["api", "resolve-cache", "models"]:
        return downloads.resolve_cache(hub, request)
    if parts[:2] == ["api", "agent-harnesses"]:
        return as_json({"standardEnvVars": [], "harnesses": {}})
    if parts[:2] == ["api", "whoami-v2"]:
        if request.token is None:
            return error(401, "Invalid username or password.")
        return as_json(
            {"type": "user", "name": request.token.user, "auth": {"type": "access_token"}}
        )
    if "resolve" in parts[1:3]:
        return downloads.resolve(hub, request)
    return error(404, "Not found")


def _mirror(hub: Hub, request: Request) -> Answer:
    """Every path leads to the Hub that it mirrors, and nothing is said of commits."""
    query = f"?{request.entry.query}" if request.entry.query else ""
    return redirect(308, f"{hub.url}{request.raw_path}{query}")


def _elsewhere(hub: Hub, request: Request) -> Answer:
    """A host that nobody named; whoever comes here was led here."""
    return as_json({"you": "should not be here"})
