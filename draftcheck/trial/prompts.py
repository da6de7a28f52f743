"""What the target is asked: our own set, or the user's file. No prompt is used twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from draftcheck.errors import ReadError, UsageError
from draftcheck.rulebook import files
from draftcheck.rulebook.files import RuleRow, Text

MAX_BYTES = 64 << 20
MAX_PROMPTS = 10_000
LONGEST_CATEGORY = 4096
TEXT_KEYS = ("prompt", "question", "instruction", "input", "text")


class PromptGroup(RuleRow, frozen=True):
    category: Text
    texts: tuple[Text, ...]


class PromptFile(RuleRow, frozen=True):
    """rules/prompts.toml."""

    prompts: tuple[PromptGroup, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    category: str
    messages: tuple[Mapping[str, str], ...]
    """A conversation that ends with the user's turn."""

    @property
    def text(self) -> str:
        """For models without a chat template."""
        return "\n\n".join(message["content"] for message in self.messages)


def load(file: Path | None = None) -> list[Prompt]:
    """Prompts with their categories taken in turn, so that any first few cover all of them."""
    if file is None:
        groups = files.read("prompts", PromptFile).prompts
        found = [_of_user(group.category, text) for group in groups for text in group.texts]
    else:
        rows = _parquet(file) if file.suffix == ".parquet" else _lines(file)
        found = [_prompt(row, where) for where, row in islice(rows, MAX_PROMPTS)]
    unique = list({prompt.messages and prompt.text: prompt for prompt in found}.values())
    if not unique:
        raise UsageError(f"{file}: no prompts in it")
    by_category: dict[str, list[Prompt]] = {}
    for prompt in unique:
        by_category.setdefault(prompt.category, []).append(prompt)
    mixed = chain.from_iterable(zip_longest(*by_category.values()))
    return [prompt for prompt in mixed if prompt is not None]


def digest(prompts: Sequence[Prompt]) -> str:
    """Says whether two trials asked the same."""
    rows = [[prompt.category, *map(dict, prompt.messages)] for prompt in prompts]
    return "sha256:" + hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def _of_user(category: str, text: str) -> Prompt:
    return Prompt(category, ({"role": "user", "content": text},))


def _lines(file: Path) -> Iterator[tuple[str, Any]]:
    """A prompt per line: JSON objects in .jsonl and .json, plain text otherwise."""
    try:
        with file.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise ReadError(f"{file}: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise ReadError(f"{file}: more than {MAX_BYTES:,} bytes of prompts")
    text = raw.decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        if file.suffix not in (".jsonl", ".json"):
            yield where, line.strip()
            continue
        try:
            row = json.loads(line)
            json.dumps(row, ensure_ascii=False).encode()  # half a character is none
            yield where, row
        except (ValueError, RecursionError) as error:
            raise ReadError(f"{where}: not JSON: {error}") from error


def _parquet(file: Path) -> Iterator[tuple[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        words = f"{file}: reading parquet needs pyarrow"
        raise UsageError(words, hint="pip install pyarrow") from None
    try:
        with parquet.ParquetFile(file) as table:
            batches = table.iter_batches(batch_size=256)
            rows = chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, row in enumerate(rows, start=1):
                yield f"{file}: row {number}", row
    except (ArrowException, OSError) as error:
        raise ReadError(f"{file}: not a parquet file: {str(error).splitlines()[0]}") from error


def _prompt(row: Any, where: str) -> Prompt:
    if isinstance(row, str):
        return _of_user("prompts", row)
    if not isinstance(row, dict):
        raise ReadError(f"{where}: a prompt is a text or an object")
    category = row.get("category") if isinstance(row.get("category"), str) else "prompts"
    if len(str(category)) > LONGEST_CATEGORY:
        raise ReadError(f"{where}: a category of more than {LONGEST_CATEGORY:,} characters")
    messages = row.get("messages")
    if isinstance(messages, list) and messages:
        return Prompt(str(category), tuple(_message(entry, where) for entry in messages))
    for key in TEXT_KEYS:
        if isinstance(row.get(key), str) and row[key].strip():
            return _of_user(str(category), row[key])
    raise ReadError(f"{where}: neither messages nor one of {', '.join(TEXT_KEYS)}")


def _message(entry: Any, where: str) -> Mapping[str, str]:
    if isinstance(entry, dict):
        role, content = entry.get("role"), entry.get("content")
        if isinstance(role, str) and isinstance(content, str):
            return {"role": role, "content": content}
    raise ReadError(f"{where}: a message needs a role and a content, both texts")
