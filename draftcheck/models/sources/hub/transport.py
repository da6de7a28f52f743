"""What every transport promises: one GET, redirects not followed where it can be helped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from draftcheck.errors import ReadError

TRIES = 5


class RetryableError(ReadError):
    """The network or a busy server failed: another try may succeed.

    wait: seconds that the server asks for; tries: how many in a row are worth it.
    """

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        wait: float | None = None,
        tries: int = TRIES,
    ) -> None:
        super().__init__(message, hint)
        self.wait, self.tries = wait, tries


class OfflineError(ReadError):
    """Something is in no cache, and the network may not be used."""


class ResponseStream(Protocol):
    """An answer whose body is still to come, or has come."""

    @property
    def url(self) -> str:
        """Where it came from: elsewhere than asked for where redirects cannot be stopped."""
        ...

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case names."""
        ...

    @property
    def short(self) -> bytes:
        """The body of a refusal, where it is short and came at once."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """The body as it is stored: never unpacked on the way."""
        ...


Transport = Callable[[str, Mapping[str, str], float, str], AbstractContextManager[ResponseStream]]
"""Address, headers, seconds that the server has, and what it is about, for messages."""
