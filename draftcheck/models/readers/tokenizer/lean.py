"""A tokenizer.json whose texts nobody needs: its beginning, and where its vocabulary ends.

Two models with the same file have the same tokens. What is still asked of the file is how it
frames a text, which tokens were added, and how many ids there are: that is some kilobytes of ten
or thirty megabytes. Wherever the file is not laid out as the tokenizers library writes it, the
answer is None, and the whole file is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.models.readers.tokenizer import tokenizer_json, vocabulary
from draftcheck.models.readers.tokenizer.tokenizer_json import TokenizerDefinition
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import TokenizerFacts

WORTH = 256 * 1024
"""A smaller file is read whole."""
FIRST = 24 * 1024
MOST = 8 * 1024 * 1024
WINDOW = 16 * 1024
PROBES = 14
KINDS = ("BPE", "WordPiece", "WordLevel")
SPACE = " \t\n\r"
ENTRY = re.compile(rb'":[ \t\n\r]*(\d{1,7})[ \t\n\r]*(?:,|\})')
END = re.compile(rb'":[ \t\n\r]*(\d{1,7})[ \t\n\r]*\}[ \t\n\r]*(?:\}|,[ \t\n\r]*"\w+"[ \t\n\r]*:)')
"""How the last entry, the end of the vocabulary and what follows it look."""


def read(
    source: ModelSource, name: str, rows: int | None
) -> tuple[TokenizerFacts, TokenizerDefinition] | None:
    """Facts without token texts; None when the file has to be read whole.

    rows: how many ids there are about, as the config says.
    """
    if source.files()[name] < WORTH:
        return None
    where = f"{source.label}/{name}"
    found = _beginning(source, name)
    if found is None:
        return None
    root, start = found
    try:
        definition = tokenizer_json.frame(root, where)
    except ReadError:
        return None  # the reader of the whole file says it better
    likely = max(definition.added, default=None)  # the first of the ids that were added at the end
    while likely and likely - 1 in definition.added:
        likely -= 1
    last = _last_id(source, name, start, likely or rows)
    if last is None or last >= vocabulary.MAX_ID:
        return None
    source.vouch(name)
    facts = definition.facts(
        length=max((last, *definition.added)) + 1,
        unk_id=find(texts(definition), definition.unk_token),
        files={name: source.digest(name) or ""},
        origin={"*": name, "tokens": "not read: the same file on all sides"},
    )
    return facts, definition


def texts(definition: TokenizerDefinition) -> Mapping[int, bytes]:
    return {i: vocabulary.encode(entry["content"]) for i, entry in definition.added.items()}


def find(
    tokens: Sequence[bytes | None] | Mapping[int, bytes] | None, content: str | None
) -> int | None:
    if content is None or tokens is None:
        return None
    wanted = vocabulary.encode(content)
    if isinstance(tokens, Mapping):
        return next((number for number, text in tokens.items() if text == wanted), None)
    try:
        return tokens.index(wanted)
    except ValueError:
        return None


def _beginning(source: ModelSource, name: str) -> tuple[dict[str, Any], int] | None:
    """Everything before the vocabulary, and the byte at which that starts."""
    length = FIRST
    while length <= MOST:
        data = bytes(source.head(name, length)[:length])
        try:
            return _parse(data.decode("utf-8", "ignore"))
        except IndexError:
            length *= 2  # the beginning goes on
        except (ValueError, RecursionError):
            return None
    return None


class _Text:
    """JSON text that may end anywhere: IndexError says that it does."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def skip(self, wanted: str) -> str:
        while self.text[self.at] in SPACE:
            self.at += 1
        sign = self.text[self.at]
        if sign not in wanted:
            raise ValueError(sign)
        self.at += 1
        return sign

    def value(self) -> Any:
        while self.text[self.at] in SPACE:
            self.at += 1
        try:
            value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            raise IndexError from error  # cut, or broken: more of it will tell
        if self.at >= len(self.text):
            raise IndexError  # a number could go on
        return value

    def members(self, stop: str) -> dict[str, Any]:
        """Read the members of an object until the one of that name begins."""
        self.skip("{")
        found: dict[str, Any] = {}
        while True:
            key = self.value()
            self.skip(":")
            if key == stop:
                return found
            found[key] = self.value()
            self.skip(",")


def _parse(text: str) -> tuple[dict[str, Any], int]:
    """Read members until model.vocab begins."""
    reader = _Text(text)
    root = reader.members("model")
    model = {"merges": [], **reader.members("vocab")}
    reader.skip("{")  # a list (Unigram) is read whole
    if "added_tokens" not in root or model.get("type", "BPE") not in KINDS:
        raise ValueError("not the usual order")
    return {**root, "model": model}, len(text[: reader.at].encode())


def _last_id(source: ModelSource, name: str, start: int, likely: int | None) -> int | None:
    """The last id of a vocabulary that is written in the order of its ids.

    Looks at some windows of the file: entries with rising ids are before the end, anything else
    behind it; the right one shows how vocabulary and merges meet.
    """
    low, low_id, high = start, 0, source.files()[name]
    first = [int(match[1]) for match in ENTRY.finditer(source.read_range(name, start, 2048))]
    if len(first) < 8 or first[0] != 0 or not _rising(first):
        return None
    rate = 24.0
    for probe in range(PROBES):
        at = max(low, (low + high) // 2 - WINDOW // 2)
        if likely is not None and likely > low_id and probe < PROBES // 2:
            guess = low + int((likely - low_id) * rate) - WINDOW // 2
            at = guess if low <= guess < high - WINDOW // 2 else at
        data = source.read_range(name, at, WINDOW)
        if end := END.search(data):
            before = [int(match[1]) for match in ENTRY.finditer(data, 0, end.end())]
            return int(end[1]) if _rising(before) else None
        ids = [int(match[1]) for match in ENTRY.finditer(data)]
        if len(ids) >= 8 and _rising(ids) and ids[0] >= low_id:
            rate = len(data) / len(ids)  # later tokens are longer: the last window tells best
            low, low_id = at + len(data) - 256, ids[-1]
        else:
            high = at + 256
        if high - low < 256:
            return None
    return None


def _rising(ids: list[int]) -> bool:
    """Entries of a vocabulary in order; a number in a token's text may stand between them."""
    steps = sum(b == a + 1 for a, b in pairwise(ids))
    return steps >= (len(ids) - 1) * 0.9
