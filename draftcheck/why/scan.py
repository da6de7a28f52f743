"""A log of any size -> which messages are in it, and where. Streams; memory stays bounded.

It comes from a file, a pipe or standard input, in blocks of bytes (LogSource). Logs repeat
themselves: lines that differ only in digits and signs are looked at once. Of a new kind of line the
words are looked up, and only a line with a message's own word is matched.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from draftcheck.errors import ReadError, UsageError
from draftcheck.why.messages import Message, MessageKind
from draftcheck.why.patterns import plain, shadows, shape, shared

BLOCK = 256 * 1024
MOST_BYTES = 1024**3
"""Bytes that are read at most; an error stands long before."""
PATIENCE = 5.0
"""Seconds to wait for somebody to write into a named pipe."""
STANDARD_INPUT = "-"
MESSAGE = "the message given"
LONG_LINE, OVERLAP = 8192, 2048
"""A longer line is looked at in parts, which overlap by more than any message is long."""
REST = 64 * 1024
"""Bytes of a line without an end that wait for more."""
KNOWN_SHAPES, LONGEST_SHAPE = 50_000, 512
"""How many kinds of ordinary lines are remembered, and how long they may be."""
LEAD, SHOWN = 120, 400
"""Characters of a line that are shown before a message, and in all."""
KEPT = 3
MOST_PER_MESSAGE, MOST = 20_000, 100_000
"""Lines that are recorded at most, for one message and for all."""
_COLOUR = re.compile(rb"\x1b\[[0-9;]{0,40}[mK]")
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?")


FILE_NAME = re.compile(r"^(?:-|[^\s]*(?:[\\/~]|\.\w{1,8})[^\s]*)$|\0")
"""What is meant as a file, or as standard input, even where there is none: no word of a message."""


class LogSource:
    """A file, a pipe or standard input, read once in blocks."""

    def __init__(self, name: str | None) -> None:
        """Without a name: what is piped in."""
        if name is None and (sys.stdin is None or sys.stdin.isatty()):
            raise UsageError("no log was named", hint="Name a file, or pipe a log into `why -`.")
        self.name = name or STANDARD_INPUT
        self.text = b""
        """Words of a message that were given instead of a file."""
        if not FILE_NAME.search(self.name) and not os.path.lexists(self.name):
            self.name, self.text = MESSAGE, self.name.encode("utf-8", "replace")
        self.cut = False
        """Whether there was more than is read."""

    def blocks(self) -> Iterator[bytes]:
        """Read it, block by block; what cannot be read is one error."""
        if self.text:
            yield self.text[:MOST_BYTES]
            return
        if self.name == STANDARD_INPUT:
            if sys.stdin is None:
                raise ReadError("standard input is closed")
            yield from self._limited(sys.stdin.buffer)
            return
        try:
            with _open(self.name) as stream:
                yield from self._limited(stream)
        except FileNotFoundError as error:
            hint = "To ask about a message, put it in quotes."
            raise ReadError(f"{self.name}: {error.strerror}", hint=hint) from None
        except OSError as error:
            raise ReadError(f"{self.name}: {error.strerror or error}") from None
        except ValueError as error:  # a NUL in the name
            raise ReadError(f"{self.name}: {error}") from None

    def _limited(self, stream: BinaryIO) -> Iterator[bytes]:
        left = MOST_BYTES
        decoder: codecs.IncrementalDecoder | None = None
        first = True
        while block := stream.read(min(BLOCK, left)):
            left -= len(block)
            if first and block[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                # What `>` of Windows PowerShell writes.
                decoder = codecs.getincrementaldecoder("utf-16")("replace")
            first = False
            yield decoder.decode(block).encode("utf-8", "replace") if decoder else block
            if not left:
                self.cut = bool(stream.read(1))
                return


def _open(name: str) -> BinaryIO:
    path = Path(name)
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ReadError(f"{name}: is a folder", hint="Name the log file in it.")
    if not stat.S_ISFIFO(mode):
        return path.open("rb")
    # Opening a pipe waits for its writer; so that nobody waits for ever, look first.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not select.select([handle], [], [], PATIENCE)[0] and not _has_writer(handle):
            raise ReadError(f"{name}: nobody opened this pipe to write for {PATIENCE:g} seconds")
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _has_writer(handle: int) -> bool:
    """Whether an empty pipe has a writer that is only silent."""
    try:
        return bool(os.read(handle, 1))
    except BlockingIOError:
        return True


@dataclass(frozen=True, slots=True)
class LogMatch:
    line: int
    text: str
    values: Mapping[str, str]


@dataclass(slots=True)
class LogNumbers:
    """What is kept of a number that many lines carry."""

    count: int = 0
    total: float = 0.0
    last: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add(self, value: float) -> None:
        self.least = min(self.least, value) if self.count else value
        self.most = max(self.most, value) if self.count else value
        self.count += 1
        self.total += value
        self.last = value

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class Sighting:
    """One message in the log: how often, the first lines, its numbers."""

    count: int = 0
    last: int = 0
    hits: list[LogMatch] = field(default_factory=list)
    numbers: dict[str, LogNumbers] = field(default_factory=dict)

    def add(self, hit: LogMatch) -> None:
        """Count one more line, and keep it if it is one of the first."""
        if self.last == hit.line:  # twice in one line
            return
        self.last = hit.line
        self.count += 1
        if len(self.hits) < KEPT:
            self.hits.append(hit)
        for name, text in hit.values.items():
            if number := _NUMBER.match(text):
                self.numbers.setdefault(name, LogNumbers()).add(float(number[0]))


@dataclass(slots=True)
class ScannedLog:
    """Everything that is known of a log after it was read once."""

    nbytes: int = 0
    lines: int = 0
    binary: bool = False
    seen: dict[str, Sighting] = field(default_factory=dict)


def scan(blocks: Iterable[bytes], messages: Iterable[Message]) -> ScannedLog:
    state = ScannedLog()
    reader = _LogReader(messages, state)
    rest = b""
    for block in blocks:
        state.nbytes += len(block)
        state.binary = state.binary or b"\0" in block[:4096]
        data = rest + block
        end = data.rfind(b"\n")
        if end >= 0:
            reader.take(data[:end])
            state.lines += 1
        rest = data[end + 1 :]
        if len(rest) > REST:  # an endless line: what was looked at can go
            reader.take(rest)
            rest = rest[-OVERLAP:]
    if rest:
        reader.take(rest)
        state.lines += 1
    return state


class _LogReader:
    """Looks at lines, in the order of the log."""

    def __init__(self, messages: Iterable[Message], state: ScannedLog) -> None:
        self.state = state
        self.by_word: dict[bytes, dict[str, Message]] = {}
        for message in messages:
            if message.matched_as == message.id:
                for pattern in message.patterns:
                    self.by_word.setdefault(pattern.word, {})[message.id] = message
        self.left = MOST
        self.dull: set[bytes] = set()
        self.more_exact: dict[tuple[str, str], bool] = {}

    def take(self, data: bytes) -> None:
        """Look at whole lines; counts those that end in here."""
        if b"\x1b[" in data:
            data = _COLOUR.sub(b"", data)
        shapes = shape(data).split(b"\n")
        lines: list[bytes] = []
        for number, kind in enumerate(shapes):
            if candidates := self._candidates(kind):
                lines = lines or data.split(b"\n")
                self._match(self.state.lines + number + 1, lines[number], candidates)
        self.state.lines += len(shapes) - 1

    def _candidates(self, kind: bytes) -> list[Message]:
        """The messages that a line of this shape may hold."""
        if kind in self.dull:
            return []
        words = self.by_word.keys() & kind.split()
        found = {id: message for word in words for id, message in self.by_word[word].items()}
        fitting = [
            message
            for message in found.values()
            if any(pattern.fits(kind) for pattern in message.patterns)
        ]
        if not fitting and len(self.dull) < KNOWN_SHAPES and len(kind) <= LONGEST_SHAPE:
            self.dull.add(kind)
        return fitting

    def _match(self, number: int, line: bytes, candidates: Sequence[Message]) -> None:
        for part in _parts(line):
            if len(part) < len(line):  # one of many: each is only held against what it may be
                candidates = self._candidates(shape(part))
            shown = part.decode("utf-8", "replace")
            text = plain(shown)
            hits = []
            for message in candidates:
                values = message.match(text)
                if values is not None:
                    hits.append((message, LogMatch(number, _around(shown, text, message), values)))
            self._record(hits)

    def _record(self, hits: Sequence[tuple[Message, LogMatch]]) -> None:
        """Keep what one line said, less what another message says more exactly."""
        for message, hit in hits:
            if any(self._says_more(other, message) for other, _ in hits):
                continue
            sighting = self.state.seen.setdefault(message.id, Sighting())
            sighting.add(hit)
            self.left -= 1
            if sighting.count >= MOST_PER_MESSAGE or self.left <= 0:  # seen often enough
                for messages in self.by_word.values():
                    messages.pop(message.id, None)

    def _says_more(self, one: Message, other: Message) -> bool:
        pair = (one.id, other.id)
        if pair not in self.more_exact:
            self.more_exact[pair] = says_more(one, other)
        return self.more_exact[pair]


def says_more(one: Message, other: Message) -> bool:
    """Whether one is the more exact of two messages that a line matches."""
    if one is other or MessageKind.ABOUT_RUN in (one.kind, other.kind):
        return False
    mine, theirs = one.patterns[0], other.patterns[0]
    if any(shadows(mine, pattern) for pattern in other.patterns):
        return not any(shadows(theirs, pattern) for pattern in one.patterns)
    alike = bool(one.rules and other.rules) and shared(mine, theirs)
    return alike and len(mine.pieces) < len(theirs.pieces)


def _parts(line: bytes) -> Iterator[bytes]:
    """A line as it is matched: progress bars apart, long ones in overlapping parts."""
    for piece in line.split(b"\r"):
        for start in range(0, max(len(piece) - OVERLAP, 1), LONG_LINE - OVERLAP):
            yield piece[start : start + LONG_LINE]


def _around(shown: str, line: str, message: Message) -> str:
    """The part of the line, as it is, that shows the message."""
    places = [line.find(pattern.pieces[0]) for pattern in message.patterns]
    first = min((at for at in places if at >= 0), default=0)
    start = 0 if first <= LEAD else first - LEAD
    return ("…" if start else "") + shown[start : start + SHOWN].strip()
