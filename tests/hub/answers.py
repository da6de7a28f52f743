"""An answer before it is sent: what a handler says, and what faults make of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tests.hub.blobs import Blob, Data


@dataclass
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Blob = field(default_factory=lambda: Data(b""))
    whole: Blob | None = None
    """The file behind a ranged answer."""
    start: int = 0
    """Where in the file the body begins."""
    file: str | None = None
    chunked: bool = False
    closes: bool = False
    """No Content-Length: the end of the connection ends the body."""
    claims: int | None = None
    """Content-Length, when it is not that of the body."""
    cut_after: int | None = None
    cut_how: str = "fin"
    pace: tuple[int, float] | None = None
    """So many bytes, then so many seconds."""
    slow_head: bool = False
    """The pace is for status line and headers too."""
    before: bytes = b""
    again: bytes = b""
    """Sent for ever, after `before`, in place of the whole answer."""


def as_json(value: Any, status: int = 200, **headers: str) -> Answer:
    text = json.dumps(value).encode()
    usual = {
        "Content-Type": "application/json; charset=utf-8",
        "ETag": f'W/"{len(text):x}-{hashlib.sha1(text).hexdigest()[:27]}"',
    }
    return Answer(status, {**usual, **headers}, Data(text))


def redirect(status: int, to: str, **headers: str) -> Answer:
    """With a line of text, as web frameworks send it."""
    kind = {"Location": to, "Content-Type": "text/plain; charset=utf-8"}
    return Answer(status, {**headers, **kind}, Data(f"Redirecting to {to}".encode()))


def error(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    """The Hub's way: the reason in headers and as JSON."""
    answer = as_json({"error": message}, status)
    if code:
        answer.headers["X-Error-Code"] = code
    answer.headers["X-Error-Message"] = message
    if status == 401:
        answer.headers["WWW-Authenticate"] = 'Bearer realm="Authentication required"'
    answer.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return answer
