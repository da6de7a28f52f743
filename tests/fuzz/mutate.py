"""Damage to bytes, texts and JSON values; all of it decided by the generator that is given."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import struct
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 3, 7, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**53 + 1, 2**63 - 1, 2**63,
    2**64 - 1, 2**64, -(2**63), 10**18, 10**30, 10**400, 0.5, -0.5, 1e-320, 1e308,
    float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
WORDS = (
    "", " ", "x", "null", "true", "NaN", "-", "--", "--fix", "--output=out", "-m", "@x", "a/b",
    "../../etc/passwd", "/", ".", "~", "\x1b[2J", "\x00", "\r", "\n", "\u202e", "\u2028", "\ud800",
    "é", "日本", "😀", "%s%n", "{0}", "${x}", "$(touch canary)", "`touch canary`", "{{ x }}",
    "*a", "&a", "!!python/object/apply:os.system ['touch canary']", "'", '"', "\\", "#", ";", "|",
    "9" * 400, "9" * 5000, "x" * 70_000, "0." + "9" * 5000, "[" * 2000, "{" * 2000, "a." * 3000,
)  # fmt: skip


def number(rng: random.Random) -> Any:
    return rng.choice(NUMBERS) if rng.random() < 0.7 else rng.randrange(-(2**70), 2**70)


def number_text(rng: random.Random) -> str:
    """A number as people and attackers write it."""
    found = number(rng)
    words = [
        "1e400",
        "0x7fffffff",
        "1_000",
        "+5",
        "٣",
        "1.",
        ".5",
        "1e",
        "0" * 50 + "4",
        "4k",
        "--1",
    ]
    return rng.choice(words) if rng.random() < 0.2 else str(json.dumps(found))


def value(rng: random.Random) -> Any:
    """Any JSON value, mostly a hostile one."""
    kind = rng.randrange(8)
    if kind < 3:
        return number(rng)
    if kind < 5:
        return rng.choice(WORDS)
    if kind == 5:
        return rng.choice([None, True, False])
    if kind == 6:
        return rng.choice([[], {}, [[]], [None], {"": None}, [1, 2, 3], ["a", 1]])
    inner: Any = number(rng)
    for _ in range(rng.choice([3, 40, 600])):
        inner = [inner] if rng.random() < 0.5 else {"a": inner}
    return inner


def damaged_json(base: Any, rng: random.Random) -> Any:
    """Some members replaced, removed, renamed, doubled or put elsewhere."""
    root = [copy.deepcopy(base)]
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        places = list(_places(root))
        holder, name = rng.choice(places)
        kind = rng.randrange(6)
        if kind < 3:
            holder[name] = value(rng)
        elif kind == 3 and holder is not root:
            del holder[name]
        elif kind == 4 and isinstance(holder, dict):
            holder[rng.choice([*WORDS, f"{name}x", str(name).upper()])] = holder[name]
        else:
            other, place = rng.choice(places)
            if other is not root and place in (
                other if isinstance(other, dict) else range(len(other))
            ):
                with contextlib.suppress(RecursionError):
                    holder[name] = copy.deepcopy(other[place])
    return root[0]


def _places(holder: Any, most: int = 3000) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    queue = [holder]
    while queue and len(found) < most:
        at = queue.pop()
        inner = list(at.items()) if isinstance(at, dict) else list(enumerate(at))
        for name, child in inner[:300]:
            found.append((at, name))
            if isinstance(child, dict | list):
                queue.append(child)
    return found


def as_json(body: Any, rng: random.Random) -> bytes:
    indent, plain = rng.choice([None, 1, 2]), rng.random() < 0.5
    try:
        text = json.dumps(body, indent=indent, ensure_ascii=plain)
    except RecursionError:
        return b"[" * 5000
    return text.encode("utf-8", "surrogatepass")


def damaged_bytes(base: bytes, rng: random.Random) -> bytes:
    """A few bytes turned, written over, put in, taken out or cut off."""
    data = bytearray(base)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 8])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at : at + 1] = rng.randbytes(1)
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 3:
            del data[at : at + rng.choice([1, 2, 8, 100])]
        elif kind == 4:
            word = rng.choice([0, 1, 2**31, 2**32, 2**40, 2**62, 2**63, 2**64 - 1])
            data[at : at + 8] = struct.pack("<Q", word)
        elif kind == 5:
            piece = bytes(data[at : at + rng.randrange(1, 40)])
            other = rng.randrange(len(data) + 1)
            data[other:other] = piece
        elif rng.random() < 0.3:
            del data[at:]
    return bytes(data)


def damaged_text(base: str, rng: random.Random) -> str:
    """Damage that keeps a file what it is for most of its lines."""
    lines = base.splitlines(keepends=True) or [""]
    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        at = rng.randrange(len(lines))
        line = lines[at]
        spot = rng.randrange(len(line) + 1)
        kind = rng.randrange(10)
        if kind == 0:
            lines[at] = line[:spot] + rng.choice(WORDS) + line[spot:]
        elif kind == 1:
            lines[at] = (
                line[:spot] + rng.choice("'\"\\`{}[]()<>|&;#$%*!,:=- \t\0\x1b") + line[spot:]
            )
        elif kind == 2:
            lines[at] = line[:spot] + line[spot + rng.choice([1, 1, 3, 10]) :]
        elif kind == 3:
            lines[at] = _digits_replaced(line, rng)
        elif kind == 4:
            lines.insert(rng.randrange(len(lines) + 1), line)
        elif kind == 5 and len(lines) > 1:
            del lines[at]
        elif kind == 6:
            lines[at] = line * rng.choice([2, 3, 50, 400])
        elif kind == 7:
            tricks = (
                "<<EOF\n",
                "cat <<'EOF' > x\n",
                "EOF\n",
                "if x; then\n",
                "\\\n",
                '"""\n',
                "---\n",
                "- &a [*a]\n",
                "X=$X$X\n",
                "# draftcheck: ignore\n",
                "{% if x %}\n",
                "@echo off\n",
            )
            lines.insert(at, rng.choice(tricks))
        elif kind == 8:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            words = line.split(" ")
            rng.shuffle(words)
            lines[at] = " ".join(words)
        if not lines:
            lines = [""]
    return "".join(lines)


def _digits_replaced(line: str, rng: random.Random) -> str:
    places = [at for at, character in enumerate(line) if character.isdigit()]
    if not places:
        return line + number_text(rng)
    start = rng.choice(places)
    end = start
    while end < len(line) and line[end].isdigit():
        end += 1
    return line[:start] + number_text(rng) + line[end:]


ENCODINGS = ("utf-8",) * 6 + ("utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "latin-1", "cp1252")


def encoded(text: str, rng: random.Random) -> bytes:
    """In some encoding, with some line ends; now and then with bytes that are none of it."""
    ends = rng.choice(["\n", "\n", "\n", "\r\n", "\r", "mixed"])
    if ends == "mixed":
        text = "".join(line + rng.choice(["\n", "\r\n"]) for line in text.split("\n"))
    elif ends != "\n":
        text = text.replace("\n", ends)
    encoding = rng.choice(ENCODINGS)
    if encoding == "utf-16-be":
        return b"\xfe\xff" + text.encode(encoding, "replace")
    data = text.encode(encoding, "replace")
    if rng.random() < 0.1:
        at = rng.randrange(len(data) + 1)
        data = (
            data[:at]
            + rng.choice([b"\xe9", b"\xff\xfe", b"\xc3", b"\xef\xbb\xbf", b"\0"])
            + data[at:]
        )
    return data[:-1] if rng.random() < 0.1 else data
