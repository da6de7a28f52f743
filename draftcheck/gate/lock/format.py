"""The file draftcheck.lock: a JSON object with one table per kind of entry, small and reviewable.

models: a model's condensed facts. pairs: what two models say only together. trials: the figures of
a measurement. Every entry carries a digest over itself and the name it stands under, so that an
entry that was edited, cut or moved is noticed; the others are still believed. The digest is no
signature: whoever can run `draftcheck lock` can write one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from draftcheck.errors import ReadError
from draftcheck.models.readers.jsonfile import shallow_object

NAME = "draftcheck.lock"
FORMAT = 1
LARGEST = 64 << 20
DEPTH = 5
"""What lies deeper is written on one line."""
Figure = int | float | None
Entry = TypeVar("Entry", bound="LockEntry")


class LockEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What every entry has; fields are written in the order in which they are declared."""

    @property
    def body(self) -> dict[str, Any]:
        """As the file has it; without a digest before it is signed."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain if plain["digest"] else {k: v for k, v in plain.items() if k != "digest"}


class LockedModel(LockEntry, frozen=True, kw_only=True):
    """A model as the gate knows it."""

    kind: str
    revision: str | None
    draftcheck: str
    """The version that read it."""
    facts: dict[str, Any]
    content: str | UnsetType | None = UNSET
    """Of a model on this disk: a digest over its files."""
    digest: str = ""


class LockedPair(LockEntry, frozen=True, kw_only=True):
    """What can be said of two models only with the texts of their tokens."""

    of: list[str]
    """The digests of the two models that it was made from."""
    checks: list[str]
    """Checks whose answers are in notes."""
    notes: dict[str, Any]
    digest: str = ""


class LockedTrial(LockEntry, frozen=True, kw_only=True):
    """The figures of a trial file."""

    target: dict[str, str]
    draft: dict[str, str]
    length: Figure
    acceptance_rate: Figure
    speedup: Figure
    broken: str | None
    incomplete: str | UnsetType | None = UNSET
    unsure: str | UnsetType | None = UNSET
    """Why its speed-up tells nothing."""
    lengths: list[Annotated[list[Figure], msgspec.Meta(min_length=3, max_length=3)]]
    """Draft tokens, draft efficiency and speed-up, for each length that was looked at."""
    backend: str | Figure
    device: str | Figure
    dtype: str | Figure
    temperature: str | Figure
    prompts: str | Figure
    tokens: str | Figure
    file: str
    sha256: str
    digest: str = ""


KINDS: Mapping[str, type[LockEntry]] = {
    "models": LockedModel,
    "pairs": LockedPair,
    "trials": LockedTrial,
}


@dataclass(frozen=True, slots=True)
class LockFlaw:
    """Something about the lock itself."""

    rule: str
    line: int
    saw: str


@dataclass(slots=True)
class GateLock:
    """The entries that can be believed, and what is wrong with the others."""

    models: dict[str, LockedModel] = field(default_factory=dict)
    pairs: dict[str, LockedPair] = field(default_factory=dict)
    trials: dict[str, LockedTrial] = field(default_factory=dict)
    flaws: dict[str, LockFlaw] = field(default_factory=dict)
    """By kind and key ("models Qwen/Qwen3-8B"), or "" for the whole file."""

    def flaw(self, kind: str, key: str) -> LockFlaw | None:
        return self.flaws.get("") or self.flaws.get(f"{kind} {key}")


def pair_key(target: str, draft: str) -> str:
    return f"{target} + {draft}"


def digest(kind: str, key: str, entry: Mapping[str, Any]) -> str:
    """Over what is said, what it is said about, and the format it is said in."""
    body = {name: value for name, value in entry.items() if name != "digest"}
    text = json.dumps([FORMAT, kind, key, body], sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def sign(kind: str, key: str, entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, digest=digest(kind, key, entry.body))


def text_checks(engines: Iterable[str]) -> list[str]:
    """The checks of these engines that need token texts, which a lock does not keep."""
    # Imported here: reading a lock must not cost the rulebook.
    from draftcheck.judge.condensed.pairs import TEXT_CHECKS
    from draftcheck.rulebook import book
    from draftcheck.values.comparison import recorded_name

    names = {
        recorded_name(rule.check, rule.params)
        for engine in engines
        for rule in book.load(engine).rules
        if rule.check in TEXT_CHECKS
    }
    return sorted(names)


def load(path: Path) -> GateLock | None:
    """The lock, as far as it can be believed; None when there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from error
    if len(data) > LARGEST:
        return _spoilt("GAT004", 1, f"more than {LARGEST:,} bytes")
    return parse(data)


def parse(data: bytes) -> GateLock:
    try:
        text = data.decode("utf-8")
        root = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        root = shallow_object(root, "draftcheck.lock")
    except json.JSONDecodeError as error:
        conflict = "; a merge left both sides in it" if b"\n<<<<<<<" in b"\n" + data else ""
        return _spoilt("GAT004", error.lineno, f"not JSON any more: {error.msg}{conflict}")
    except (ValueError, RecursionError, ReadError) as error:
        return _spoilt("GAT004", 1, f"not a lock: {str(error)[:200] or 'nested too deeply'}")
    if "draftcheck_lock" not in root:
        return _spoilt("GAT004", 1, "not a lock: it names no format")
    form = root["draftcheck_lock"]
    if type(form) is not int or form < 1:
        return _spoilt("GAT004", 1, f"its format is {str(form)[:40]!r}")
    if form != FORMAT:
        saw = f"lock format {form}, of another version of draftcheck; this one reads {FORMAT}"
        return _spoilt("GAT003", 1, saw)
    if other := sorted(set(root) ^ {"draftcheck_lock", *KINDS}):
        return _spoilt("GAT004", 1, f"the part {other[0][:80]!r} is missing, or not one of a lock")
    lines = _lines(text)
    lock = GateLock()
    for kind in KINDS:
        _believe(lock, kind, root[kind], lines)
    return lock


def _believe(lock: GateLock, kind: str, entries: Any, lines: Mapping[str, int]) -> None:
    """Take over the entries that are whole and unchanged."""
    if not isinstance(entries, dict):
        lock.flaws[""] = LockFlaw("GAT004", 1, f"{kind} is not a table")
        return
    for key, entry in entries.items():
        about = f"{kind}: the entry {key[:200]!r}"
        if not isinstance(entry, dict) or not isinstance(entry.get("digest"), str):
            saw = f"{about} has no digest"
        elif entry["digest"] != digest(kind, key, entry):
            saw = f"{about} does not match its digest"
        else:
            try:
                getattr(lock, kind)[key] = msgspec.convert(entry, KINDS[kind])
                continue
            except (msgspec.ValidationError, UnicodeEncodeError) as error:
                saw = f"{about} is none that this version writes: {str(error)[:200]}"
        line = lines.get(f"{kind} {key}", 1)
        lock.flaws[f"{kind} {key}"] = LockFlaw("GAT004", line, saw)


def _spoilt(rule: str, line: int, saw: str) -> GateLock:
    return GateLock(flaws={"": LockFlaw(rule, line, saw)})


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice[:80]!r} stands there twice")
    return found


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _lines(text: str) -> dict[str, int]:
    """Kind and key -> line, as dumps() lays them out."""
    found: dict[str, int] = {}
    kind = ""
    for number, line in enumerate(text.split("\n"), 1):
        if match := re.match(r'  "(\w+)": \{', line):
            kind = match[1]
        elif match := re.match(r'    ("(?:[^"\\]|\\.)*"): \{', line):
            found[f"{kind} {json.loads(match[1])}"] = number
    return found


def dumps(lock: GateLock) -> str:
    """Stable order, a field a line, so that a review shows what changed."""
    body: dict[str, Any] = {"draftcheck_lock": FORMAT}
    for kind in KINDS:
        entries: Mapping[str, LockEntry] = getattr(lock, kind)
        body[kind] = {key: entries[key].body for key in sorted(entries)}
    return _pretty(body, 0) + "\n"


def _pretty(value: Any, depth: int) -> str:
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {_pretty(value[key], depth + 1)}" for key in value]
        ends = "{}"
    elif isinstance(value, list) and any(isinstance(entry, dict | list) for entry in value):
        rows, ends = [_pretty(entry, DEPTH) for entry in value], "[]"
    else:
        rows, ends = [], ""
    if not rows or depth >= DEPTH:
        return json.dumps(value, allow_nan=False)
    pad = "\n" + "  " * (depth + 1)
    return ends[0] + pad + f",{pad}".join(rows) + "\n" + "  " * depth + ends[1]
