"""Requests from a browser's worker: a synchronous XMLHttpRequest, the one call that waits there.

The browser follows redirects by itself (and takes the token out where they leave the origin),
unpacks what was packed, and shows only headers that the server lets pages see. It cannot stop in
the middle of a body: what limits that is the time, and the user, who can end the worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from draftcheck.models.sources.hub.transport import RetryableError

SECONDS = 300.0
"""For one answer with its body: a tokenizer of 30 MB through a slow line."""
SHORT = 4096
RANGE = re.compile(r"bytes=(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class BrowserResponse:
    """An answer that has come, whole."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def short(self) -> bytes:
        return self.body[:SHORT]

    def chunks(self) -> Iterator[bytes]:
        yield self.body


@contextmanager
def send(
    url: str, headers: Mapping[str, str], timeout: float, what: str
) -> Iterator[BrowserResponse]:
    from js import XMLHttpRequest  # type: ignore[import-not-found]
    from pyodide.ffi import JsException  # type: ignore[import-not-found]

    request: Any = XMLHttpRequest.new()
    request.open("GET", url, False)
    request.responseType = "arraybuffer"
    request.timeout = SECONDS * 1000
    for name, value in headers.items():
        request.setRequestHeader(name, value)
    host = urlsplit(url).netloc
    try:
        request.send()
    except JsException as error:
        if "TimeoutError" in str(error):
            says = f"{host} did not answer within {SECONDS:g} seconds"
        else:  # the browser says no more
            says = f"cannot reach {host}, or it does not let this page read it"
        raise RetryableError(
            f"{what}: {says}",
            hint="Check the network; browser extensions and proxies can refuse requests, too.",
            tries=2,
        ) from None
    body = request.response.to_bytes() if request.response else b""
    found = _visible(str(request.getAllResponseHeaders()))
    yield BrowserResponse(
        str(request.responseURL) or url, int(request.status), _told(found, headers, body), body
    )


def _visible(text: str) -> dict[str, str]:
    """The headers that a page may see."""
    lines = (line.partition(": ") for line in text.split("\r\n"))
    return {name.lower(): value for name, _, value in lines if name}


def _told(seen: dict[str, str], asked: Mapping[str, str], body: bytes) -> dict[str, str]:
    """The headers as they are without packing; a hidden range is the one asked for, if it fits."""
    seen.pop("content-encoding", None)
    seen["content-length"] = str(len(body))
    span = RANGE.fullmatch(asked.get("range", ""))
    if span and "content-range" not in seen and len(body) == int(span[2]) - int(span[1]) + 1:
        seen["content-range"] = f"bytes {span[1]}-{span[2]}/*"
    return seen
