"""HTTP with limits: a deadline for the whole answer, a cap on its size, no foreign hosts.

Uses no proxy and follows no redirect to another host; the key is never part of an error. Texts and
numbers of an answer are taken by text, count, number and seconds, which let nothing in that is
too long or too large.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from draftcheck.errors import UsageError

MODELS = "/v1/models"
"""What all OpenAI-compatible servers have."""
CAP = 8 * 1024 * 1024
LONGEST_KEY = 8192
CONNECT_SECONDS = 5.0
REDIRECTS = 3
ROUND = 3
"""All questions of one reading together take at most this many times the limit of one."""
FAULTS: Mapping[type[Exception] | tuple[type[Exception], ...], str] = {
    socket.gaierror: "the host name is not known",
    ConnectionRefusedError: "connection refused: nothing listens there",
    ssl.SSLError: "no TLS there: is it an http address?",
    (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError): (
        "the connection was closed before the answer was complete"
    ),
    (http.client.HTTPException, ValueError): "what answers there does not speak HTTP",
}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST = re.compile(r"[\w.:\[\]/-]{1,200}")
_ENDPOINT = re.compile(r"/(v1(/.*)?|metrics|slots|props|health)$")
_UNSEEN = re.compile(r"[\x00-\x20\x7f]")
_KEY = re.compile(rb"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server, without the endpoint."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """What makes it the same server."""
        return self.scheme, self.host, self.port

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @property
    def loopback(self) -> bool:
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse(url: str) -> ServerAddress:
    """Read the base address in a URL; an endpoint such as /v1 at its end is dropped."""
    if not _SCHEME.match(url):
        if not _HOST.fullmatch(url):  # what may hold a password or a key is not repeated
            raise UsageError("the URL has no scheme", hint="Write http://HOST:PORT")
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError("the URL cannot be read: host or port is malformed") from None
    if parts.scheme not in ("http", "https"):
        raise UsageError(f"{parts.scheme}: only http and https URLs can be asked")
    if parts.username is not None or parts.password is not None:
        raise UsageError("a URL with a user or password", hint="Use --api-key-file FILE.")
    if not host or _UNSEEN.search(url) or parts.query or parts.fragment:
        raise UsageError("not a server's address", hint="Write http://HOST:PORT, nothing more.")
    path = quote(_ENDPOINT.sub("", parts.path.rstrip("/")), safe="/%:@!$&'()*+,;=~-._")
    default = 443 if parts.scheme == "https" else 80
    return ServerAddress(parts.scheme, host, port if port is not None else default, path)


def read_key(path: Path) -> str:
    """Read the one word in the file; says what is wrong without quoting it."""
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST_KEY + 1)
    except OSError as error:
        raise UsageError(f"{path}: the key cannot be read: {error.strerror}") from None
    key = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if len(raw) > LONGEST_KEY or not _KEY.fullmatch(key):
        hint = "One line, printable ASCII, no spaces, no word such as Bearer."
        raise UsageError(f"{path}: this is not a key", hint=hint)
    return key.decode("ascii")


def key_exposed(url: str, key: str | None) -> str | None:
    """Warn when the key would cross a network unencrypted."""
    base = parse(url)
    if key is None or base.scheme == "https" or base.loopback:
        return None
    return f"the key goes to {base.host} unencrypted: use https"


def text(value: object, longest: int = 300) -> str | None:
    """Take a text worth keeping, cut where no name goes on."""
    return value[:longest] if isinstance(value, str) and value else None


def part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Take the object under a name; an empty one where there is none."""
    found = body.get(name)
    return found if isinstance(found, Mapping) else {}


def count(value: object) -> int | None:
    """Take a number that can be a count; anything else tells nothing."""
    if not isinstance(value, int | float) or number(value) is None or value < 0:
        return None
    return int(value)


def number(value: object) -> float | None:
    """Take a number of a size that something can have; anything else tells nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 2**63 else None  # nan is not less than anything


def seconds(milliseconds: object) -> float | None:
    """Take a time that a server measured; one that no pass of a model takes tells nothing."""
    told = number(milliseconds)
    return told / 1000 if told is not None and 1e-6 <= told <= 1e9 else None


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What came back; status 0 and a fault when nothing usable did."""

    path: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    fault: str | None = None
    reached: bool = True

    @property
    def ok(self) -> bool:
        """Whether it is a whole answer with status 200."""
        return self.status == 200 and self.fault is None

    @property
    def refused(self) -> bool:
        """Whether a key is missing or wrong."""
        return self.status in (401, 403)

    def json(self) -> Any:
        """Parse the body of a good answer; None for any other."""
        if not self.ok:
            return None
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None

    def object(self) -> dict[str, Any]:
        """Parse the body; an empty object where it is none."""
        body = self.json()
        return body if isinstance(body, dict) else {}

    def rows(self, name: str | None = None) -> list[dict[str, Any]]:
        """The objects of the list that the body is, or that it holds under a name."""
        found = self.json() if name is None else self.object().get(name)
        return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


class ProbedServer:
    """One server; keeps the answers of a reading, so that each address is asked once."""

    def __init__(self, base: ServerAddress, key: str | None = None, seconds: float = 10.0) -> None:
        self.base = base
        self.seconds = seconds
        self.asked: list[tuple[str, int]] = []
        self._key = key
        self._known: dict[str, ServerAnswer] = {}
        self._end = time.monotonic() + ROUND * seconds

    @property
    def has_key(self) -> bool:
        return self._key is not None

    def again(self) -> None:
        """Forget the answers: the next reading asks anew."""
        self._known.clear()
        self._end = time.monotonic() + ROUND * self.seconds

    def get(self, path: str) -> ServerAnswer:
        """Ask once; a redirect inside the same server is followed."""
        if path not in self._known:
            left = min(self.seconds, self._end - time.monotonic())
            self._known[path] = self._follow(path, left)
            self.asked.append((path, self._known[path].status))
        return self._known[path]

    def models(self) -> list[dict[str, Any]]:
        return self.get(MODELS).rows("data")

    def first_model(self) -> str | None:
        return next((text(entry.get("id")) for entry in self.models()), None)

    def post(self, path: str, body: Mapping[str, Any], seconds: float) -> ServerAnswer:
        """Send a JSON body; never repeated, never redirected."""
        answer = self._exchange("POST", path, json.dumps(body).encode(), seconds)
        self.asked.append((path, answer.status))
        return answer

    def _follow(self, path: str, seconds: float) -> ServerAnswer:
        end, here = time.monotonic() + seconds, path
        for _ in range(REDIRECTS + 1):
            answer = self._exchange("GET", here, None, end - time.monotonic())
            if answer.status not in (301, 302, 303, 307, 308):
                return answer
            location = answer.headers.get("location", "")
            target = self._inside(here, location)
            if target is None:
                fault = f"redirects to {_shown(self.base, location)}"
                return ServerAnswer(path, answer.status, answer.headers, fault=fault)
            here = target
        return ServerAnswer(path, answer.status, answer.headers, fault="redirects in a circle")

    def _inside(self, path: str, location: str) -> str | None:
        """The path a redirect leads to, when it stays on this server."""
        try:
            to = urlsplit(urljoin(self.base.url + path, location))
            port = to.port if to.port is not None else 443 if to.scheme == "https" else 80
        except ValueError:
            return None
        if (to.scheme, to.hostname, port) != self.base.origin:
            return None
        if not to.path.startswith(self.base.path):
            return None
        query = f"?{to.query}" if to.query else ""
        return quote(to.path[len(self.base.path) :] + query, safe="/%:@!$&'()*+,;=~-._?")

    def _exchange(self, method: str, path: str, body: bytes | None, seconds: float) -> ServerAnswer:
        if seconds <= 0:
            return ServerAnswer(path, fault="not asked: the time for all questions is used up")
        deadline = time.monotonic() + seconds
        secure = self.base.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self.base.host, self.base.port, timeout=min(CONNECT_SECONDS, seconds))
        watch: threading.Timer | None = None
        try:
            connection.connect()
            watch = _watch(connection.sock, deadline)
            connection.request(method, self.base.path + path, body, self._headers(body))
            with contextlib.closing(connection.getresponse()) as response:
                body_text = self._without_key(_body(response))
                headers = {k.lower(): self._without_key(v) for k, v in response.getheaders()}
            return ServerAnswer(path, response.status, headers, body_text)
        except _Unusable as error:
            return ServerAnswer(path, fault=str(error))
        except (OSError, http.client.HTTPException, ValueError) as error:
            late = time.monotonic() >= deadline or isinstance(error, TimeoutError)
            fault = "no complete answer in time" if late else _fault(error)
            return ServerAnswer(path, fault=fault, reached=watch is not None)
        finally:
            if watch is not None:
                watch.cancel()
            connection.close()

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {
            "Accept": "application/json, text/plain",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "User-Agent": "draftcheck",
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def _without_key(self, words: str) -> str:
        return words.replace(self._key, "…") if self._key else words


class _Unusable(Exception):
    """An answer that is not read to its end."""


def _watch(sock: socket.socket, deadline: float) -> threading.Timer:
    """Cut the line at the deadline: a timeout per read never ends a byte-a-second answer."""

    def cut() -> None:
        with contextlib.suppress(OSError, ValueError):
            sock.shutdown(socket.SHUT_RDWR)

    left = max(0.0, deadline - time.monotonic())
    sock.settimeout(left + 1)
    timer = threading.Timer(left, cut)
    timer.daemon = True
    timer.start()
    return timer


def _body(response: http.client.HTTPResponse) -> str:
    """The whole body as text; refuses what is larger than CAP or cut short."""
    if (coding := response.getheader("Content-Encoding", "identity").lower()) != "identity":
        raise _Unusable(f"answers compressed ({coding[:20]}), which was not asked for")
    parts, size = [], 0
    while chunk := response.read1(65536):
        parts.append(chunk)
        size += len(chunk)
        if size > CAP:
            raise _Unusable(f"the answer is larger than {CAP // 1024 // 1024} MiB")
    if response.length:
        raise ConnectionResetError("cut short")
    return b"".join(parts).decode("utf-8", "replace")


def _fault(error: Exception) -> str:
    """What went wrong, in words without the error's own text where that could quote us."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted ({error.verify_message}); see SSL_CERT_FILE"
    told = next((words for kinds, words in FAULTS.items() if isinstance(error, kinds)), None)
    return told or (getattr(error, "strerror", None) or "the connection failed").lower()


def _shown(base: ServerAddress, location: str) -> str:
    """Where a redirect leads, without its query."""
    try:
        to: SplitResult = urlsplit(urljoin(base.url, location))
        port = f":{to.port}" if to.port else ""
        return f"{to.scheme}://{to.hostname or ''}{port}{to.path}"[:300]
    except ValueError:
        return "a malformed address"
