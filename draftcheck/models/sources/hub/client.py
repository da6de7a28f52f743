"""One GET at a time: origins, redirects, ranges, waiting, retries. Knows no repos, no models.

What sends the bytes is a transport: huggingface_hub's session, or the browser that this runs in.
"""

from __future__ import annotations

import contextlib
import email.utils
import json
import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar
from urllib.parse import urlsplit

from draftcheck.errors import GatedError, ReadError
from draftcheck.models.sources import progress
from draftcheck.models.sources.hub import addresses
from draftcheck.models.sources.hub.addresses import Allowed, Origin, origin
from draftcheck.models.sources.hub.budget import WINDOW, RequestBudget, limits
from draftcheck.models.sources.hub.transport import (
    TRIES,
    ResponseStream,
    RetryableError,
    Transport,
)

MAX_HOPS = 5
ALL_TRIES = 12
"""Even when every try brings some more bytes."""
PAUSE = 0.5
"""Seconds, doubled with every failure."""
SLOWEST = 1024
"""Bytes a second below which a body counts as stuck."""
MAX_SKIPPED = 32 * 1024 * 1024
"""Bytes read in vain to reach a range, where a server ignores Range."""
NOTED = 1.0
"""Seconds of waiting that the progress line mentions."""
LONGEST_WORDS = 300
"""Letters of a server's own reason that are shown."""
HOUR = 3600.0
"""Nobody is advised to wait longer."""
REDIRECTS = {301, 302, 303, 307, 308}
DISABLED = "access to this resource is disabled"
BAD_TOKEN = "invalid credentials"
BUSY = {408, 425, 429, 500, 502, 503, 504}
CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")

T = TypeVar("T")


class NotOnHub(ReadError):
    """No such repo, revision or file."""


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Bytes start to stop of a file whose whole size is known."""

    start: int
    stop: int
    size: int


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    url: str
    status: int
    headers: Mapping[str, str]
    hops: tuple[HttpAnswer, ...] = ()
    """The redirects on the way."""
    words: str = ""
    """Why it was refused, as the server says it."""


@dataclass(frozen=True, slots=True)
class ServerHabits:
    """What answers have shown of a server; shared by the clients of one run."""

    hubs: set[Origin]
    """The endpoint, and the Hub to which it leads as a mirror: that one never gets the token."""
    unknown_words: set[str] = field(default_factory=set)
    """Words of a question to the list of models that it does not take."""


class HubClient:
    """Requests to one endpoint and to where it sends us; the token goes to the endpoint only."""

    def __init__(
        self,
        endpoint: str,
        token: str | None,
        timeout: float,
        budget: RequestBudget | None = None,
        habits: ServerHabits | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.budget = budget or RequestBudget()
        self.has_token = bool(token)
        self._token = token
        self._timeout = timeout
        self._home = origin(endpoint)
        self.habits = habits or ServerHabits({self._home})
        self.stopped = threading.Event()

    def branch(self, *, timeout: float = 0.0) -> HubClient:
        """The same for one model of several: it waits with the others, but is stopped alone.

        timeout: seconds, where an answer may take longer than usual.
        """
        seconds = max(self._timeout, timeout)
        return HubClient(self.endpoint, self._token, seconds, self.budget, self.habits)

    def is_hub(self, url: str) -> bool:
        """Whether an address is of the endpoint, or of the Hub that it mirrors."""
        return origin(url) in self.habits.hubs

    def get(
        self,
        url: str,
        sink: bytearray,
        limit: int,
        what: str,
        *,
        span: ByteSpan | None = None,
        allowed: Allowed | None = None,
        same_host: bool = False,
    ) -> HttpAnswer:
        """GET, following redirects; of a good answer at most limit bytes are added to sink.

        allowed: which addresses of the endpoint a redirect may lead to; same_host: to no other
        host at all, unless the endpoint is a mirror that leads to the same place of its Hub.
        """
        addresses.refuse_user(url, what)
        hops: list[HttpAnswer] = []
        for _ in range(MAX_HOPS):
            # Wait while the allowance is used up, or another thread was told to wait.
            while (left := self.budget.ahead(url, home=self.is_hub(url))) > 0:
                self._sleep(min(left, 1.0), left)
            with self._send(url, what, span) as response:
                progress.asked()
                headers, status = dict(response.headers), response.status
                if response.url != url:  # a browser followed the redirect before we could look
                    hops.append(HttpAnswer(url, 302, {}))
                    url = self._follow(url, response.url, what, allowed)
                    if same_host and not self.is_hub(url):
                        raise ReadError(f"{what}: redirected to another host: {url[:120]!r}")
                if status in REDIRECTS and "location" in headers:
                    hops.append(HttpAnswer(url, status, headers))
                    url = self._follow(url, headers["location"], what, allowed)
                    if same_host and not self.is_hub(url):
                        raise ReadError(f"{what}: redirected to another host: {url[:120]!r}")
                    continue
                answer = HttpAnswer(
                    url, status, headers, tuple(hops), _reason(headers, response.short)
                )
                if status in (200, 206):
                    skip = _offset(answer, span, what)
                    self._receive(response, sink, limit, skip, what)
                return answer
        raise ReadError(f"{what}: redirected more than {MAX_HOPS} times")

    def _follow(self, url: str, location: str, what: str, allowed: Allowed | None) -> str:
        hubs = self.habits.hubs
        there = addresses.follow(url, location, what, self._home, hubs, allowed)
        if self.is_hub(url) and addresses.same_place(url, there, self.endpoint):
            hubs.add(origin(there))
        return there

    def retry(self, attempt: Callable[[], T], received: Callable[[], int]) -> T:
        """Try until it works, or until it failed too often in a row.

        received: bytes that all tries brought together; one that brought some starts a new row.
        """
        failures, tries, before = 0, 0, received()
        while True:
            try:
                return attempt()
            except RetryableError as error:
                tries += 1
                failures = failures + 1 if received() == before else 1
                before = received()
                if failures >= error.tries or tries >= ALL_TRIES:
                    raise
                pause = error.wait if error.wait is not None else min(PAUSE * 2.0**failures, 8.0)
                self._pause(pause, error)

    @contextmanager
    def _send(self, url: str, what: str, span: ByteSpan | None) -> Iterator[ResponseStream]:
        headers = {}
        if self._token and origin(url) == self._home:
            headers["authorization"] = f"Bearer {self._token}"
        if span is not None:
            headers["range"] = f"bytes={span.start}-{span.stop - 1}"
        host = urlsplit(url).netloc
        with (
            self._counted(url, host) as answered,
            _transport()(url, headers, self._timeout, what) as response,
        ):
            answered.append(dict(response.headers))
            yield response

    @contextmanager
    def _counted(self, url: str, host: str) -> Iterator[list[Mapping[str, str]]]:
        """One request of the budget; the caller puts in the headers that came."""
        answered: list[Mapping[str, str]] = []
        with self.budget.slot(host):
            home = self.is_hub(url)
            if home:
                self.budget.sent(url)
            try:
                yield answered
            finally:
                if home:
                    self.budget.note_answer(url, answered[0] if answered else None)

    def _receive(
        self, response: ResponseStream, sink: bytearray, limit: int, skip: int, what: str
    ) -> None:
        """Body -> sink, never more than limit, never slower than SLOWEST."""
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise ReadError(f"{what}: sent compressed, though plain bytes were asked for")
        declared = response.headers.get("content-length", "")
        fits = declared.isdecimal() and int(declared[:19]) <= limit + skip
        taken, since, recent = 0, time.monotonic(), 0
        for chunk in response.chunks():
            if self.stopped.is_set() or self.budget.stopped.is_set():
                raise ReadError(f"{what}: stopped")
            part = chunk[min(skip, len(chunk)) :]
            skip -= len(chunk) - len(part)
            part = part[: limit - taken]
            sink += part
            taken += len(part)
            progress.came(what, len(chunk))
            recent += len(chunk)
            now = time.monotonic()
            if now - since > self._timeout:
                if recent < SLOWEST * self._timeout:
                    raise RetryableError(
                        f"{what}: only {recent:,} bytes in {now - since:.0f} s", tries=3
                    )
                since, recent = now, 0
            if taken >= limit and not fits:
                return  # the rest is not wanted; leaving closes the connection

    def _sleep(self, seconds: float, shown: float) -> None:
        """Wait, and say how long it will still be: shown seconds now."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if (rest := shown - seconds + left) >= NOTED:
                progress.came("", 0, rest)
            if self.stopped.wait(min(left, 1.0)) or self.budget.stopped.is_set():
                raise ReadError("stopped")

    def _pause(self, seconds: float, error: RetryableError) -> None:
        """Wait before the next try; an error when all waiting together would take too long."""
        if self.budget.wait(seconds, asked=error.wait is not None):
            self._sleep(seconds, seconds)
            return
        hint = error.hint or "Try again later."
        if not error.wait:
            raise RetryableError(error.message, hint)
        if self.budget.longest < seconds <= HOUR:
            hint = f"Try again later, or wait for it: --patience {math.ceil(seconds)}."
        raise RetryableError(f"{error.message}; it asks to wait {seconds:,.0f} seconds", hint)


def _transport() -> Transport:
    """What sends requests here: a browser's own, or huggingface_hub's session."""
    if sys.platform == "emscripten":
        from draftcheck.models.sources.hub.browser_transport import send
    else:
        from draftcheck.models.sources.hub.session_transport import send
    return send


def _reason(headers: Mapping[str, str], body: bytes) -> str:
    """The server's own words for a refusal: in a header, or in JSON."""
    words: object = headers.get("x-error-message", "")
    if not words and "json" in headers.get("content-type", ""):
        with contextlib.suppress(ValueError, RecursionError):
            parsed = json.loads(body)
            words = parsed.get("error") if isinstance(parsed, dict) else None
    return words[:LONGEST_WORDS].strip() if isinstance(words, str) else ""


def asked_wait(answer: HttpAnswer) -> float | None:
    """Seconds that a busy server asks for: its rate limit first, then Retry-After."""
    limit = limits(answer.headers)
    if answer.status == 429 and limit and int(limit[2]) == 0:
        return float(limit[3]) + 1
    after = answer.headers.get("retry-after", "").strip()[:40]
    if after.isdecimal():
        return float(after[:12])
    try:
        until = email.utils.parsedate_to_datetime(after).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, until - time.time())


def _offset(answer: HttpAnswer, span: ByteSpan | None, what: str) -> int:
    """How many bytes of the body lie before what was asked for."""
    if answer.status == 200:
        start = span.start if span else 0
        if start > MAX_SKIPPED:
            raise ReadError(f"{what}: the server ignores Range, and byte {start:,} is far away")
        return start
    match = CONTENT_RANGE.fullmatch(answer.headers.get("content-range", "").strip())
    if span is None or match is None or int(match[1]) != span.start:
        shown = answer.headers.get("content-range", "nothing")[:80]
        asked = f"{span.start}-{span.stop - 1}" if span else "all"
        raise ReadError(f"{what}: asked for bytes {asked}, the server sent {shown!r}")
    if match[3] != "*" and int(match[3]) != span.size:
        raise ReadError(
            f"{what}: has {int(match[3]):,} bytes now, {span.size:,} in the list of files"
        )
    return 0


def refuse(
    web: HubClient, answer: HttpAnswer, repo: str, what: str, revision: str | None = None
) -> NoReturn:
    """Raise what an answer without content means; what names the file or the list of files."""
    code = answer.headers.get("x-error-code", "")
    said = answer.words
    status = answer.status
    where = f"{what} answered {status}{' ' + code[:40] if code else ''}"
    page = f"{web.endpoint}/{repo}"
    host = urlsplit(answer.url).netloc
    if status in BUSY:
        cause = "too many requests" if status == 429 else f"{host} is in trouble"
        wait, tries = asked_wait(answer), TRIES
        if status == 429 and wait is None and web.budget.longest >= WINDOW:
            # Edges do not say how long: six waits reach beyond any window.
            wait, tries = WINDOW / 5, TRIES + 2
        raise RetryableError(
            f"{repo}: {where}: {cause}", "Try again later.", wait=wait, tries=tries
        )
    if DISABLED in said.lower():
        raise ReadError(
            f"{repo}: disabled: {where}",
            hint="The Hub has closed this repo; nobody can read it. Look for another copy.",
        )
    if code == "GatedRepo":
        raise GatedError(f"{repo}: gated: {where}", hint=_access(web, answer, page))
    if BAD_TOKEN in said.lower():
        raise ReadError(
            f"{repo}: the token is not valid: {where}",
            hint="Log in again (hf auth login), or correct or unset HF_TOKEN.",
        )
    if code == "RevisionNotFound":
        raise NotOnHub(
            f"{repo}: no revision {revision or 'main'!r}: {where}",
            hint=f"Branches, tags and commits: {page}/commits.",
        )
    if code == "EntryNotFound":
        raise NotOnHub(f"{repo}: no such file: {where}")
    if status in (401, 403) and not code and "html" in answer.headers.get("content-type", ""):
        raise RetryableError(
            f"{repo}: {where} with a web page: not the Hub's own words"
            f" (a firewall or a proxy before {host}?)",
            hint="Try again later or from another network; draftcheck doctor says what answers.",
            tries=2,
        )
    if code == "RepoNotFound" or status in (401, 404):
        hint = _unseen(web, answer)
        raise NotOnHub(f"{repo}: no such repo, or a private one: {where}", hint=hint)
    tail = f": {said.rstrip('.')}" if said else ""
    if status == 403 and web.has_token and "token" in said.lower():
        raise GatedError(
            f"{repo}: the token lacks a right: {where}{tail}",
            hint=f"Change what the token may do at {web.endpoint}/settings/tokens, then try again.",
        )
    if status == 403:
        raise ReadError(f"{repo}: not allowed: {where}{tail}", hint=_access(web, answer, page))
    raise ReadError(f"{repo}: {where} from {host}{tail}")


def _access(web: HubClient, answer: HttpAnswer, page: str) -> str:
    if elsewhere := _tokenless(web, answer):
        return elsewhere
    if web.has_token:
        return f"Your token has no access: ask for it at {page}, then try again."
    return f"Ask for access at {page}, then log in (hf auth login) or set HF_TOKEN."


def _tokenless(web: HubClient, answer: HttpAnswer) -> str | None:
    """What to do when the answer came from a host that a mirror led to, without the token."""
    scheme, host, _ = there = origin(answer.url)
    if there == origin(web.endpoint):
        return None
    return (
        f"{web.endpoint} leads to {host}, where no token is sent:"
        f" set HF_ENDPOINT={scheme}://{urlsplit(answer.url).netloc} and HF_TOKEN."
    )


def _unseen(web: HubClient, answer: HttpAnswer) -> str:
    if elsewhere := _tokenless(web, answer):
        return f"Check the name; {elsewhere}"
    if web.has_token:
        return "Check the name (there is no such local path either), or whether your token sees it."
    return (
        "Check the name (there is no such local path either);"
        " for a private repo log in (hf auth login) or set HF_TOKEN."
    )
