"""The TOML files of rules/ -> typed rows. The only reader of that folder, and a strict one.

A package that gives a rule file its meaning writes down what the file may hold, as classes
derived from `RuleRow`, and calls `read(name, Type)`. A field that is unknown, missing, empty or of
another type is a RuleError that names the file, the table (with the row's own name) and the
field: `programs.toml [[program]] vllm: unknown field 'postional'`.

Parsing TOML is slow, so what it gave is kept as JSON under the digest of the file's bytes. What
is kept goes through the same typed decoder as what was parsed just now.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, TypeVar, cast

import msgspec

from draftcheck import atomic, settings
from draftcheck.errors import RuleError

T = TypeVar("T")
Text = Annotated[str, msgspec.Meta(pattern=r"\S")]
"""A text that says something: required ones must not be empty."""
Names = tuple[str, ...]
_PLACE = re.compile(r"(?P<says>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<index>\d+|\.\.\.)\]")
_UNKNOWN = r"Object contains unknown field `(.*)`"
_WORDINGS = (
    (_UNKNOWN, r"unknown field '\1'"),
    (r"Object missing required field `(.*)`", r"'\1' is missing"),
    (r"Expected `str` matching regex '\\\\S'", "{key} is empty"),
    (r"Expected `str` matching regex '(.*)'", r"{key} must match \1"),
    (r"Expected (.*), got (.*)", r"{key} must be \1, not \2"),
    (r"Invalid enum value (.*)", r"{key} \1 is not one of {choices}"),
)


_READING = RLock()
"""msgspec works out what a type holds at its first use; two threads at once would crash there."""


class RuleRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of a rule file: these fields, of these types, and no others."""


@cache
def folder() -> Path:
    """rules/ inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    for place in (package / "rules", package.parent / "rules"):
        if place.is_dir():
            return place
    raise RuleError("the rules folder is missing: reinstall draftcheck")


def names(*under: str) -> tuple[str, ...]:
    """The rule files of these folders of rules/ ("": the top), without suffix."""
    found = [path for part in under for path in (folder() / part).glob("*.toml")]
    return tuple(sorted(path.relative_to(folder()).with_suffix("").as_posix() for path in found))


def read(name: str, kind: type[T]) -> T:
    """The file rules/NAME.toml as an object of this type."""
    once: Any = _read_once  # typed as a cache it would lose T
    with _READING:
        return cast(T, once(name, kind))


@cache
def _read_once(name: str, kind: Any) -> Any:
    path = folder() / f"{name}.toml"
    try:
        kept = settings.cache() / kept_name(name, path.read_bytes())
    except OSError as error:
        raise RuleError(f"{path.name}: {error.strerror}") from None
    try:
        return msgspec.json.decode(kept.read_bytes(), type=kind)
    except (OSError, ValueError, msgspec.DecodeError, RecursionError):
        data = parse(path)
    # Written whole or not at all; a cache that cannot be written is no error.
    with contextlib.suppress(OSError, ValueError, TypeError):
        kept.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # shared with repos
        kept.parent.mkdir(exist_ok=True)
        # Exactly this file's: vllm-*.json would be vllm-mtp's too.
        for old in kept.parent.glob(f"{kept.name.rpartition('-')[0]}-{'[0-9a-f]' * 32}.json"):
            old.unlink(missing_ok=True)
        atomic.write(kept, msgspec.json.encode(data))
    return typed(data, kind, f"{name}.toml")


def kept_name(name: str, toml: bytes) -> str:
    """The file of the cache with the parsed form of these very bytes."""
    return f"rules/{name.replace('/', '.')}-{hashlib.sha256(toml).hexdigest()[:32]}.json"


def read_table(name: str, kind: type[T], text: str = "") -> tuple[T, ...]:
    """The rows of rules/NAME.csv, a line each; cells that are empty are left to the type.

    text: only lines that hold it, in any case; the others are not looked at.
    """
    once: Any = _read_table_once
    with _READING:
        return cast(tuple[T, ...], once(name, kind, text.lower()))


def holds(name: str, *texts: str) -> bool:
    """Whether rules/NAME.csv has one of these texts somewhere; they are in small letters."""
    whole = _table_bytes(name).lower()
    return any(text.encode("utf-8", "surrogateescape") in whole for text in texts)


def _table_bytes(name: str) -> bytes:
    path = folder() / f"{name}.csv"
    try:
        return path.read_bytes()
    except OSError as error:
        raise RuleError(f"{path.name}: {error.strerror}") from None


@cache
def _read_table_once(name: str, kind: Any, text: str) -> tuple[Any, ...]:
    lines = _table_bytes(name).decode().splitlines()
    chosen = [n for n, line in enumerate(lines[1:], 2) if text in line.lower()]
    if not chosen:
        return ()
    import csv

    reader = csv.DictReader([lines[0], *(lines[n - 1] for n in chosen)], strict=True)
    found: list[Any] = []
    where = given = None
    try:
        for number, row in zip(chosen, reader, strict=True):
            where = f"{name}.csv line {number}"
            given = {key: cell for key, cell in row.items() if cell not in ("", None)}
            if None in given:
                raise RuleError(f"{where}: too many cells")
            found.append(msgspec.convert(given, kind, strict=False))
    except (csv.Error, ValueError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise RuleError(_explain(given or {}, kind, where or name, str(error))) from None
        raise RuleError(f"{name}.csv: {error}") from None
    return tuple(found)


def head(name: str) -> str:
    """The first lines of rules/NAME.toml."""
    with (folder() / f"{name}.toml").open(encoding="utf-8") as file:
        return file.read(4096)


def parse(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{path.name}: not valid TOML: {error}") from None
    except OSError as error:
        raise RuleError(f"{path.name}: {error.strerror}") from None


def typed(data: dict[str, Any], kind: type[T], file: str) -> T:
    """What was parsed as an object of this type; a RuleError that names the place."""
    try:
        # Through JSON, so that a day is a text here as it is in what was kept.
        return msgspec.json.decode(msgspec.json.encode(data), type=kind)
    except msgspec.ValidationError as error:
        raise RuleError(_explain(data, kind, file, str(error))) from None


def _explain(data: dict[str, Any], kind: Any, file: str, error: str) -> str:
    """The decoder's error with the names that a writer of rules knows."""
    match = _PLACE.fullmatch(error)
    assert match is not None
    path = _path(data, kind, error, match["path"] or "")
    table, says = path, match["says"]
    for pattern, wording in _WORDINGS:
        if (fits := re.fullmatch(pattern, says, re.DOTALL)) is None:
            continue
        says = fits.expand(wording).replace("`", "")
        if "{key}" in wording:
            # A fault in a list of texts is one of the field that holds the list.
            names = [at for at, step in enumerate(path) if isinstance(step, str)]
            table = path if match["key"] else path[: names[-1]]
            rows = path[names[-1] + 1 : -1]
            key = f"'{path[names[-1]]}'" + (f" (row {int(rows[0]) + 1})" if rows else "")
            says = says.replace("{key}", key)
            if "{choices}" in says:
                choices = _choices(kind, path, keys=bool(match["key"]))
                says = says.replace("{choices}", ", ".join(choices))
        elif pattern == _UNKNOWN and not path:
            says = says.replace("field", "table")
        break
    return f"{file}{_table(data, table)}: {says}"


def _path(data: Any, kind: Any, error: str, text: str) -> list[str | int]:
    """The steps from the file to the fault; the decoder does not tell the keys of free tables."""
    found: list[str | int] = []
    here = data
    for step in _STEP.finditer(text):
        key: str | int = step["field"] or ""
        if step["index"] == "...":
            key = _guilty(data, here, kind, error) if isinstance(here, dict) else 0
        elif step["index"]:
            key = int(step["index"])
        found.append(key)
        here = here[key]
    return found


def _guilty(data: Any, table: dict[str, Any], kind: Any, error: str) -> str:
    """The key of a free table whose value alone gives the same error."""
    whole = dict(table)
    try:
        for key, value in whole.items():
            table.clear()
            table[key] = value
            try:
                msgspec.json.decode(msgspec.json.encode(data), type=kind)
            except msgspec.ValidationError as again:
                if str(again) == error:
                    return key
    finally:
        table.clear()
        table.update(whole)
    return "?"


def _table(data: Any, path: Iterable[str | int]) -> str:
    """[engine.vllm], [[program]] vllm: the table at the end of a path as its file writes it."""
    names: list[str] = []
    rows = ""
    for key in path:
        data = data[key]
        if isinstance(key, int):
            rows += f" [[{'.'.join(names)}]] {_row_name(data) or key + 1}"
            names = []
        else:
            names.append(key)
    return rows + (f" [{'.'.join(names)}]" if names else "")


def _row_name(row: Any) -> str:
    """What a reader calls a row: its id or name, else its first text."""
    if not isinstance(row, dict):
        return ""
    first = next((row[key] for key in ("id", "name", "names", "modules") if key in row), None)
    for value in (first, *row.values()):
        text = value[0] if isinstance(value, list) and value else value
        if isinstance(text, str) and text.strip():
            return text
    return ""


def _choices(kind: Any, path: Iterable[str | int], *, keys: bool) -> list[str]:
    """The values that a field of a type may have."""
    import msgspec.inspect as kinds

    at: Any = kinds.type_info(kind)
    for key in path:
        for inner in at.types if isinstance(at, kinds.UnionType) else (at,):
            if isinstance(inner, kinds.StructType):
                named = {field.encode_name: field.type for field in inner.fields}
                at = list(named.values())[key] if isinstance(key, int) else named[key]
            elif isinstance(inner, kinds.DictType):
                at = inner.value_type
            elif isinstance(inner, kinds.VarTupleType | kinds.ListType):
                at = inner.item_type
    at = at.key_type if keys and isinstance(at, kinds.DictType) else at
    for inner in at.types if isinstance(at, kinds.UnionType) else (at,):
        if isinstance(inner, kinds.EnumType):
            return [str(member.value) for member in inner.cls]
        if isinstance(inner, kinds.LiteralType):
            return [str(value) for value in inner.values]
    return []
