"""Things that go wrong on order: which request, and what happens to its answer.

Before the answer: call delay hang drop status expired html redirect loop
To an answer with a body: cut slow endless corrupt wrong_range ignore_range longer shorter
cut_json no_length gzip replace edit
To any answer: headers slow_head endless_head endless_100
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from tests.hub.answers import Answer
from tests.hub.blobs import Blob, Data, Endless, Part

if TYPE_CHECKING:
    from tests.hub.log import Entry

HTML = b"<!doctype html><html><title>Sign in</title><body>Welcome to the hotel Wi-Fi</body></html>"
DENIED = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code>'
    b"<Message>Request has expired</Message></Error>"
)
EARLY = frozenset(
    {"call", "delay", "hang", "drop", "status", "expired", "html", "redirect", "loop"}
)


class Drop(Exception):
    """Close the connection now; how: fin or rst."""


@dataclass
class Fault:
    kind: str
    path: str = "*"
    file: str | None = None
    origin: str | None = None
    method: str | None = None
    nth: int = 1
    times: int | None = 1
    options: dict[str, Any] = field(default_factory=dict)
    met: int = 0
    """Matching requests so far."""

    def matches(self, entry: Entry, file: str | None) -> bool:
        if self.origin not in (None, entry.origin) or self.method not in (None, entry.method):
            return False
        if self.file is not None and not (file and fnmatchcase(file, self.file)):
            return False
        return fnmatchcase(entry.path, self.path)

    def due(self) -> bool:
        """Count a matching request; whether it is one that the fault is for."""
        self.met += 1
        late = self.times is not None and self.met >= self.nth + self.times
        return self.met >= self.nth and not late


def early(fault: Fault, entry: Entry, wait: Callable[[float], object]) -> Answer | None:
    """What happens instead of the answer; None: go on."""
    options = fault.options
    if fault.kind == "call":
        options["do"]()
    elif fault.kind == "delay":
        wait(options["seconds"])
    elif fault.kind == "hang":
        wait(1e6)
        raise Drop("fin")
    elif fault.kind == "drop":
        raise Drop(options.get("how", "fin"))
    elif fault.kind == "status":
        return _status(options)
    elif fault.kind == "expired":
        return Answer(403, {"Content-Type": "application/xml"}, Data(DENIED))
    elif fault.kind == "html":
        body = Data(options.get("body", HTML))
        return Answer(200, {"Content-Type": "text/html; charset=utf-8"}, body)
    elif fault.kind in ("redirect", "loop"):
        to = options["to"] if fault.kind == "redirect" else f"{entry.path}?{entry.query}"
        body = Data(options.get("body", b""))
        headers = {"Location": to}
        return Answer(options.get("status", 302), headers, body, pace=options.get("pace"))
    return None


def _status(options: Mapping[str, Any]) -> Answer:
    headers = {"Content-Type": "text/plain", **options.get("headers", {})}
    if "retry_after" in options:
        headers["Retry-After"] = str(options["retry_after"])
    if "reset" in options:
        headers["RateLimit"] = f'"api";r=0;t={options["reset"]}'
    body = Data(options.get("body", b"out of order\n"))
    return Answer(options["code"], headers, body, pace=options.get("pace"))


def spoil(fault: Fault, answer: Answer) -> None:
    """Change an answer."""
    _SPOIL[fault.kind](answer, fault.options)


def _cut(answer: Answer, options: Mapping[str, Any]) -> None:
    answer.cut_after, answer.cut_how = options.get("after", 0), options.get("how", "fin")


def _slow(answer: Answer, options: Mapping[str, Any]) -> None:
    answer.pace = (options.get("bytes", 1), options.get("seconds", 1.0))


def _endless(answer: Answer, options: Mapping[str, Any]) -> None:
    answer.body = Endless(options.get("piece", bytes(65536)))
    answer.chunked = not options.get("closes", False)
    answer.closes = not answer.chunked


def _corrupt(answer: Answer, options: Mapping[str, Any]) -> None:
    """Flip bits at a place of the body: of the file when it is given as `at`."""
    data = bytearray(b"".join(answer.body.pieces()))
    at = options["at"] - answer.start if "at" in options else len(data) // 2
    if 0 <= at < len(data):
        data[at] ^= options.get("mask", 0x01)
    answer.body = Data(bytes(data))


def _wrong_range(answer: Answer, options: Mapping[str, Any]) -> None:
    size = answer.body.size or 0
    start = answer.start + options.get("shift", 1000)
    total = options.get("total", answer.whole.size if answer.whole else size)
    value = options.get("value", f"bytes {start}-{start + size - 1}/{total}")
    answer.status = 206
    if value is None:
        answer.headers.pop("Content-Range", None)
    else:
        answer.headers["Content-Range"] = value


def _ignore_range(answer: Answer, options: Mapping[str, Any]) -> None:
    if answer.whole is not None:
        answer.status, answer.body, answer.start = 200, answer.whole, 0
        answer.headers.pop("Content-Range", None)


def _longer(answer: Answer, options: Mapping[str, Any]) -> None:
    """A 206 with more than its Content-Range says."""
    more = options.get("by", 1_000_000)
    if answer.whole is not None and answer.whole.size is not None:
        stop = min(answer.whole.size, answer.start + (answer.body.size or 0) + more)
        answer.body = Part(answer.whole, answer.start, stop)


def _shorter(answer: Answer, options: Mapping[str, Any]) -> None:
    """Fewer bytes than asked for, sent in good order; honest: Content-Range says so."""
    size = max(0, (answer.body.size or 0) - options.get("by", 10))
    answer.body = Part(answer.body, 0, size)
    if "Content-Range" in answer.headers and options.get("honest", False):
        total = answer.headers["Content-Range"].rpartition("/")[2]
        answer.headers["Content-Range"] = f"bytes {answer.start}-{answer.start + size - 1}/{total}"


def _cut_json(answer: Answer, options: Mapping[str, Any]) -> None:
    answer.body = Part(answer.body, 0, (answer.body.size or 0) // 2)


def _no_length(answer: Answer, options: Mapping[str, Any]) -> None:
    answer.closes = not options.get("chunked", False)
    answer.chunked = not answer.closes


def _gzip(answer: Answer, options: Mapping[str, Any]) -> None:
    """Compress whether asked or not; bomb: so many zero bytes instead of the body."""
    answer.headers["Content-Encoding"] = "gzip"
    if "bomb" in options:
        answer.body = Data(_bomb(options["bomb"] >> 20))
    else:
        answer.body = Data(gzip.compress(b"".join(answer.body.pieces())))


def _bomb(megabytes: int) -> bytes:
    """So many megabytes of zeros in a thousandth of it: one block again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + block * megabytes + packer.flush() + bytes(8)


def _replace(answer: Answer, options: Mapping[str, Any]) -> None:
    body = options["body"]
    answer.body = body if isinstance(body, Blob) else Data(body)


def _edit(answer: Answer, options: Mapping[str, Any]) -> None:
    answer.body = Data(options["do"](b"".join(answer.body.pieces())))


def _slow_head(answer: Answer, options: Mapping[str, Any]) -> None:
    _slow(answer, options)
    answer.slow_head = True


def _endless_head(answer: Answer, options: Mapping[str, Any]) -> None:
    answer.before, answer.again = b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"


def _endless_100(answer: Answer, options: Mapping[str, Any]) -> None:
    answer.again = b"HTTP/1.1 100 Continue\r\n\r\n"


def _headers(answer: Answer, options: Mapping[str, Any]) -> None:
    """Set headers, or take them away (None)."""
    for name, value in options["set"].items():
        if value is None:
            answer.headers.pop(name, None)
        else:
            answer.headers[name] = value


_SPOIL: dict[str, Callable[[Answer, Mapping[str, Any]], None]] = {
    "cut": _cut,
    "slow": _slow,
    "endless": _endless,
    "corrupt": _corrupt,
    "wrong_range": _wrong_range,
    "ignore_range": _ignore_range,
    "longer": _longer,
    "shorter": _shorter,
    "cut_json": _cut_json,
    "no_length": _no_length,
    "gzip": _gzip,
    "replace": _replace,
    "edit": _edit,
    "headers": _headers,
    "slow_head": _slow_head,
    "endless_head": _endless_head,
    "endless_100": _endless_100,
}
ANY = frozenset({"headers", "slow_head", "endless_head", "endless_100"})
"""Those that need no body."""
KINDS = EARLY | set(_SPOIL)
