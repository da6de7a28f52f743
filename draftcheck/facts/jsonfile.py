"""JSON from untrusted files: bounded, strict about the top level, errors that name the file."""

from __future__ import annotations

import json
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.sources import Source

MAX_CONFIG = 16 * 1024 * 1024
MAX_TOKENIZER = 256 * 1024 * 1024


def parse(data: bytes, where: str) -> Any:
    """Decode JSON text; every way it can be bad becomes a ReadError."""
    if data[:4] == b"vers" and data.startswith(b"version https://git-lfs"):
        raise ReadError(
            f"{where}: a git-lfs pointer, not the file itself",
            hint="Fetch the real files: git lfs pull.",
        )
    try:
        return json.loads(data)
    except RecursionError:
        raise ReadError(f"{where}: nested too deeply to be a model's file") from None
    except UnicodeDecodeError as error:
        raise ReadError(f"{where}: not UTF-8 text (byte {error.start:,})") from None
    except json.JSONDecodeError as error:
        raise ReadError(
            f"{where}: not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    except ValueError as error:  # integers of more than 4,300 digits
        raise ReadError(f"{where}: not usable JSON: {error}") from None


def read_object(source: Source, name: str, limit: int = MAX_CONFIG) -> dict[str, Any] | None:
    """The JSON object in a file; None when there is no such file."""
    if name not in source.files():
        return None
    where = f"{source.label}/{name}"
    value = parse(source.read(name, limit), where)
    if not isinstance(value, dict):
        raise ReadError(f"{where}: a JSON object was expected, not a {type(value).__name__}")
    return value


def integer(value: Any) -> int | None:
    """A plain non-negative whole number, else None; true is not 1, and 1e30 is not a size."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**40 else None


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
