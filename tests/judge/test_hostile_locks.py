"""A draftcheck.lock with sound digests and nonsense in its facts: the gate says so in exit 3."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftcheck.gate.lock import format as locks
from tests import make
from tests.conftest import Run
from tests.gate.conftest import Repo
from tests.judge.test_condensed import spoilt

BIG, OTHER = "models/big", "models/other"
PAIR = f"{BIG} + {OTHER}"


@pytest.fixture
def locked(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """Two models with other vocabularies, locked; the models are gone."""
    monkeypatch.chdir(tmp_path)
    repo = Repo(tmp_path, run)
    repo.write("draftcheck.toml", "")
    repo.model(BIG)
    repo.model(OTHER, tokenizer_json=make.tokenizer(added=("<x>", "<y>", "<z>", "<w>")))
    repo.serve("serve.sh", BIG, OTHER)
    assert repo.lock().code == 0
    shutil.rmtree(tmp_path / "models")
    return repo


def rewrite(repo: Repo, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the lock and sign every entry again, as whoever means harm can."""
    lock = repo.locked
    change(lock)
    for kind in ("models", "pairs"):
        for key, entry in lock[kind].items():
            if kind == "pairs":
                entry["of"] = [lock["models"][name]["digest"] for name in key.split(" + ")]
            entry["digest"] = locks.digest(kind, key, entry)
    repo.write("draftcheck.lock", json.dumps(lock))


def put(part: str, name: str, *path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(lock: dict[str, Any]) -> None:
        entry = lock[part][name]
        for step in path[:-1]:
            entry = entry[step]
        entry[path[-1]] = to

    return change


WRONG = {
    "a vocabulary of 2^24": put("models", BIG, "facts", "table", "count", to=(1 << 24) - 1),
    "ids without end": put("models", BIG, "facts", "ids", to={"special": "0-16777214"}),
    "undefined ids": put("models", BIG, "facts", "table", "undefined", to="0-16777214"),
    "two million tensors": put(
        "models", BIG, "facts", "tensors", to=[["a.*", ["0-1999999"], "F32", [1], 4]]
    ),
    "names of gigabytes": put(
        "models", BIG, "facts", "tensors", to=[["a" * 9999 + ".*", ["0-99999"], "F32", [1], 4]]
    ),
    "a share that is a list": put("pairs", PAIR, "notes", "vocabulary", "overlap", to=[]),
    "a count that is a text": put("pairs", PAIR, "notes", "vocabulary", "differing_ids", to="x"),
    "notes of another kind": put("pairs", PAIR, "notes", to={"unheard": 1}),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_nonsense_under_a_sound_digest_is_exit_3(name: str, locked: Repo) -> None:
    rewrite(locked, WRONG[name])
    ran = locked.gate()
    assert ran.code == 3, ran.out + ran.err
    assert "Traceback" not in ran.err


def test_every_wrong_cell_ends_in_a_verdict_or_in_exit_3(locked: Repo) -> None:
    sound = locked.locked

    for seed in range(60):

        def change(lock: dict[str, Any], seed: int = seed) -> None:
            chance = random.Random(seed)
            facts = {name: entry["facts"] for name, entry in lock["models"].items()}
            for name, entry in spoilt(facts, chance).items():
                lock["models"][name]["facts"] = entry

        locked.write("draftcheck.lock", json.dumps(sound))
        rewrite(locked, change)
        ran = locked.gate()
        assert ran.code in (0, 1, 3), (seed, ran.err)
        assert "Traceback" not in ran.err, seed
