"""The server's key: read from a file, never shown."""

from __future__ import annotations

import re
from pathlib import Path

from draftcheck.errors import UsageError
from draftcheck.probe.client import parse

LONGEST = 8192
_KEY = re.compile(rb"[\x21-\x7e]+")


def read(path: Path) -> str:
    """Read the one word in the file; says what is wrong without quoting it."""
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: the key cannot be read: {error.strerror}") from None
    key = raw.removeprefix(b"\xef\xbb\xbf").strip()
    if len(raw) > LONGEST or not _KEY.fullmatch(key):
        hint = "One line, printable ASCII, no spaces, no word such as Bearer."
        raise UsageError(f"{path}: this is not a key", hint=hint)
    return key.decode("ascii")


def exposed(url: str, key: str | None) -> str | None:
    """Warn when the key would cross a network unencrypted."""
    base = parse(url)
    if key is None or base.scheme == "https" or base.loopback:
        return None
    return f"the key goes to {base.host} unencrypted: use https"
