"""Requests through huggingface_hub's session: proxies, certificates and offline mode are its own.

Its retries are not used: they sleep as long as a server says, and cannot go on after a cut.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from draftcheck.errors import ReadError
from draftcheck.models.sources.hub.transport import OfflineError, RetryableError
from draftcheck.settings import __version__

SHORT = 4096
USUAL = {"user-agent": f"draftcheck/{__version__}", "accept-encoding": "identity"}


class ReadDeadline:
    """A read timeout that runs down: headers that drip, or never end, must not reset it.

    Sockets take any number of seconds that has __index__, and ask for it before every read.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = math.ceil(seconds)
        self._until: float | None = time.monotonic() + seconds

    def free(self) -> None:
        """The headers are there: from now on every read has its own time."""
        self._until = None

    def limit(self, seconds: float) -> None:
        """All that is still to come has so long, together."""
        self._until = time.monotonic() + seconds

    def __index__(self) -> int:
        if self._until is None:
            return self._seconds
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("headers without end")
        return math.ceil(left)


class SessionResponse:
    """An answer of the session."""

    def __init__(self, response: Any, url: str) -> None:
        self.url, self.short = url, b""
        self.status = int(response.status_code)
        self.headers: Mapping[str, str] = response.headers
        self._response = response

    def chunks(self) -> Iterator[bytes]:
        yield from self._response.iter_raw()


@contextmanager
def send(
    url: str, headers: Mapping[str, str], timeout: float, what: str
) -> Iterator[SessionResponse]:
    from huggingface_hub.errors import OfflineModeIsEnabled
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    host = urlsplit(url).netloc
    clock: Any = ReadDeadline(timeout)
    limits = httpx.Timeout(timeout, read=clock)
    try:
        with _session().stream(
            "GET", url, headers={**USUAL, **headers}, timeout=limits, follow_redirects=False
        ) as response:
            clock.free()
            found = SessionResponse(response, url)
            if found.status not in (200, 206):
                found.short = _finish(response, clock)
            yield found
    except httpx.TimeoutException:
        raise RetryableError(
            f"{what}: {host} did not answer within {timeout:g} seconds", tries=3
        ) from None
    except httpx.ConnectError as error:
        raise RetryableError(
            f"{what}: cannot reach {host}: {_words(error)}",
            hint="Check the network and HF_ENDPOINT; --offline uses what was read before.",
            tries=2,
        ) from None
    except httpx.TransportError as error:
        raise RetryableError(f"{what}: the connection to {host} broke: {_words(error)}") from None
    except OfflineModeIsEnabled:
        raise OfflineError(f"{what}: not in a cache, and HF_HUB_OFFLINE is set") from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:
        raise ReadError(f"{what}: {host}: {_words(error)}") from None


def _session() -> Any:
    """huggingface_hub's shared client."""
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    try:
        return get_session()
    except (ValueError, ImportError, OSError) as error:
        raise ReadError(
            f"no connection can be made: {_words(error)}",
            hint="Check the proxy and certificate settings (HTTPS_PROXY, SSL_CERT_FILE).",
        ) from None


def _finish(response: Any, clock: ReadDeadline) -> bytes:
    """Read a short body, if it comes at once: the connection can be used again."""
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    body = b""
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:19]) <= SHORT:
        clock.limit(1.0)
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError):
            body = response.read()
        clock.free()
    return body


def _words(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__
