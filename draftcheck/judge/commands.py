"""A method's template and a pair -> the commands or config to paste."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from draftcheck.rulebook.book import Method
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison

TOKENS = re.compile(r"\{tokens(\+1)?:(\d+)\}")
BY_KIND = re.compile(r"\{(target|draft)_by_kind:(\w+)\|(\w+)(?:\|([\w ]+))?\}")
SLOT = re.compile(r"\{(\w+)\}")


def render(
    text: str, comparison: Comparison, circumstances: Circumstances, method: Method | None = None
) -> str:
    """The text with names quoted for where they stand, after the conversions it needs.

    method: the one whose text it is, with its own conversions, flags and keys.
    """
    convert = method.convert if method else ""
    flags = _said(method.flags if method else {}, circumstances)
    keys = _said(method.keys if method else {}, circumstances)
    steps, names, folders = [], [], []
    sides = [(comparison.target, convert)]
    if comparison.draft is not None:
        sides.append((comparison.draft, (method.convert_draft if method else "") or convert))
    for facts, command in sides:
        name = facts.called
        # Engines take a repo's name, but no file of it, no commit, and nothing to convert.
        if facts.download and (command or facts.gguf is not None or "@" in name):
            steps.append(facts.download)
            name = facts.downloaded or name
        folders.append(name)
        if command and facts.gguf is None:
            file = f"{PurePath(name).name}.gguf"
            words = {"model": name, "file": file, "target_model": folders[0]}
            quoted = {slot: shlex.quote(word) for slot, word in words.items()}
            steps.append(SLOT.sub(lambda match: quoted.get(match[1], match[0]), command))  # noqa: B023
            name = file
        names.append(name)
    values = {
        "target_rows": str(comparison.target.rows),
        "flags": "".join(f" {words}" for words in flags),
        "keys": "".join(f", {words}" for words in keys),
    }
    for side, name in (("target", names[0]), ("draft", names[-1])):
        values |= {side: shlex.quote(name), f"{side}_python": repr(name)}
        # For a JSON string inside single quotes of a shell.
        values[f"{side}_json"] = json.dumps(name)[1:-1].replace("'", "'\\''")

    def tokens(match: re.Match[str]) -> str:
        """As many as were asked for, else the usual number.

        +1: where the option counts the target's own token too.
        """
        number = circumstances.draft_tokens or _usual(match, comparison, method)
        return str(number + 1 if match[1] else number)

    def by_kind(match: re.Match[str]) -> str:
        """The second for a model of more than text; not of these types, nor with own code."""
        config = sides[0 if match[1] == "target" else -1][0].config
        first = config.remote_code or config.outer_type in (match[4] or "").split()
        return match[3 if config.multimodal and not first else 2]

    body = BY_KIND.sub(by_kind, TOKENS.sub(tokens, text.strip()))
    # One pass: a name that holds {draft} must not be filled in again.
    body = SLOT.sub(lambda match: values.get(match[1], match[0]), body)
    return "\n".join([*steps, body])


def usual_tokens(method: Method, comparison: Comparison) -> int | None:
    """The draft length that is written where none is asked for; None: the text has none."""
    match = TOKENS.search(method.setup)
    return _usual(match, comparison, method) if match else None


def _usual(match: re.Match[str], comparison: Comparison, method: Method | None) -> int:
    """The template's own number, as far as the head goes."""
    usual, drafter = int(match[2]), comparison.draft
    if drafter is None and method is not None and "itself" in method.drafts:
        drafter = comparison.target  # DeepSeek V4 holds its DSpark stages
    most = drafter.head.block_drafts if drafter is not None and drafter.head is not None else None
    return min(usual, most or usual)


def _said(words: Mapping[str, str], circumstances: Circumstances) -> Iterator[str]:
    """What the user said about the deployment, in the engine's words."""
    total = None
    if circumstances.context is not None:
        total = circumstances.context * (circumstances.sequences or 1)
    for name, text in words.items():
        value = getattr(circumstances, name)
        if value is not None:
            values = {name: value, "total_context": total}
            yield SLOT.sub(lambda match: str(values.get(match[1], match[0])), text)  # noqa: B023
