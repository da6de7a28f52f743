"""The command that draftcheck gives for a pair, and its own verdict; shared by record and test."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from vllm_pairs import Pair

from draftcheck.judge import commands
from draftcheck.judge.compare import compare
from draftcheck.judge.decide import Question, judge_methods
from draftcheck.judge.methods import choose, needs_no_draft
from draftcheck.models.read import read
from draftcheck.models.refs import parse
from draftcheck.rulebook import book
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.verdicts import EngineVerdict

ENGINE = "vllm"


class Asked(NamedTuple):
    verdict: EngineVerdict
    argv: list[str]
    """What stands after `vllm serve`."""


def ask(pair: Pair, target: Path, draft: Path, version: str) -> Asked | None:
    """Judge the pair, and fill the method's template in whether it is usable or not.

    None where that version has no such method.
    """
    engine = book.load(ENGINE)
    said = Circumstances(**pair.said)
    ours = read(parse(str(target)))
    comparison = compare(ours, None if pair.draft is None else read(parse(str(draft))))
    verdict = judge_methods(comparison, Question(ENGINE, version, pair.method, said))[0]
    methods = choose(comparison, engine, version, pair.method).methods
    if not methods:
        return None
    method = methods[0]
    if needs_no_draft(method):
        comparison = compare(ours, None)
    text = commands.render(method.setup, comparison, said, method)
    words = shlex.split(text.splitlines()[-1])
    return Asked(verdict, _with(words[words.index("serve") + 1 :], pair.extra))


def _with(argv: list[str], extra: dict[str, Any]) -> list[str]:
    place = argv.index("--speculative-config") + 1
    config = {**json.loads(argv[place]), **extra}
    return [*argv[:place], json.dumps(config), *argv[place + 1 :]]
