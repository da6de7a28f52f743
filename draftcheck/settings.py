"""This program's version, and the usual Hub settings, read when they are needed.

huggingface_hub reads its variables once, at its import; a long-lived program may set them later.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from draftcheck.errors import UsageError

__version__ = "0.1.0"

ENDPOINT = "https://huggingface.co"
CACHE_LIMIT = 4 << 30
TRUE = {"1", "ON", "YES", "TRUE"}
_patience: list[float] = []


def endpoint() -> str:
    """Where the Hub is: HF_ENDPOINT, or the public one."""
    text = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and not (parts.query or parts.fragment)
    except ValueError:
        usable = False
    if "@" in text:  # it would be shown in messages and written into the cache
        raise UsageError(
            "HF_ENDPOINT holds a user or a password", hint="Leave them out; HF_TOKEN is sent."
        )
    if not usable:
        shown = re.split(r"[?#]", text)[0]  # what follows may be a secret
        raise UsageError(f"HF_ENDPOINT is {shown!r}, not the address of a Hub")
    return text


def offline() -> bool:
    """Whether the user wants no network: HF_HUB_OFFLINE, as huggingface_hub understands it."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in TRUE


def token() -> str | None:
    """The token that huggingface_hub would send; never printed, never stored."""
    try:
        from huggingface_hub import constants, get_token
    except ImportError:  # in a browser; the page puts it there, and nothing keeps it
        found = os.environ.get("HF_TOKEN")
    else:
        found = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    if found and not re.fullmatch(r"[!-~]+", found):  # else an error of the client would show it
        raise UsageError(
            "the Hub token holds characters that no token has",
            hint="Correct HF_TOKEN, or log in again (hf auth login).",
        )
    return found


def timeout() -> float:
    """Seconds that one read may take."""
    try:
        from huggingface_hub import constants
    except ImportError:  # in a browser, which has its own
        return 10.0
    return float(max(constants.HF_HUB_DOWNLOAD_TIMEOUT, 1))


def be_patient(seconds: float | None) -> None:
    """The Hub may ask this run to wait so long at once; None: the usual time."""
    _patience[:] = [] if seconds is None else [seconds]


def patience() -> float | None:
    """Seconds that the user is ready to wait at once, where that was said."""
    return _patience[0] if _patience else None


def hub_cache() -> Path:
    """Where huggingface_hub keeps what it has downloaded."""
    if named := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(os.path.expandvars(named)).expanduser()
    return _hf_home() / "hub"


def _hf_home() -> Path:
    if named := os.environ.get("HF_HOME"):
        return Path(os.path.expandvars(named)).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface"


def cache() -> Path:
    """The folder where draftcheck keeps what it has read."""
    if named := os.environ.get("DRAFTCHECK_CACHE"):
        return Path(named).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser() / "draftcheck"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
        return Path(local).expanduser() / "draftcheck" / "Cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/draftcheck").expanduser()
    return Path("~/.cache/draftcheck").expanduser()


def cache_limit() -> int:
    """How many bytes it may take: DRAFTCHECK_CACHE_LIMIT, as 500MB or 2GB."""
    text = os.environ.get("DRAFTCHECK_CACHE_LIMIT", "").strip()
    if not text:
        return CACHE_LIMIT
    match = re.fullmatch(r"(\d{1,15}) ?([KMGT]?)I?B?", text.upper())
    if match is None:
        raise UsageError(f"DRAFTCHECK_CACHE_LIMIT is {text!r}: a size such as 500MB was expected")
    return int(match[1]) << 10 * " KMGT".index(match[2] or " ")
