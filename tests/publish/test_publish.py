"""draftcheck publish: a repository and its card held against files, target and rulebook."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, Ran, Run

HEADS = FIXTURES / "pair" / "heads"
TARGET = FIXTURES / "pair" / "target"
GOOD = """---
license: apache-2.0
base_model: {target}
---
# A head
Trained without thinking.
```bash
vllm serve {target} --speculative-config \\
  '{{"model": "{draft}", "method": "{method}", "num_speculative_tokens": {tokens}}}'
```
"""

Publish = Callable[..., Ran]


@pytest.fixture
def publish(run: Run, tmp_path: Path) -> Publish:
    """Publish a copy of a head with this card; None: without one."""

    def call(card: str | None = GOOD, kind: str = "eagle3", **words: Any) -> Ran:
        folder = tmp_path / "head"
        shutil.copytree(HEADS / kind, folder, dirs_exist_ok=True)
        (folder / "speculation_profile.json").write_text("{}", encoding="utf-8")
        values = {"target": TARGET, "draft": folder, "method": kind, "tokens": 3, **words}
        if card is not None:
            (folder / "README.md").write_text(card.format(**values), encoding="utf-8")
        else:
            (folder / "README.md").unlink(missing_ok=True)
        return run("publish", folder, "--target", TARGET, "--format", "json")

    return call


def rules(ran: Ran) -> list[str]:
    return [finding["rule"] for finding in ran.json["findings"]]


def test_a_card_that_is_right(publish: Publish) -> None:
    ran = publish()
    assert ran.code == 0, ran.out
    assert ran.json["findings"] == [] and ran.json["errors"] == 0
    since = {one["engine"]: one["since"] for one in ran.json["engines"]}
    assert since["vllm"] == "0.9.1"  # eagle3 came with 0.8.5, 0.9.0 lost its vocabulary (VLL171)
    block = ran.json["card_block"]
    assert "| vLLM | 0.9.1 | eagle3 |" in block and "vllm serve" in block


@pytest.mark.parametrize(
    ("card", "words", "expected"),
    [
        (None, {}, ["PUB001"]),
        (GOOD.replace("license: apache-2.0\n", ""), {}, ["PUB002"]),
        (GOOD.replace("base_model: {target}\n", ""), {}, ["PUB003"]),
        (GOOD.replace("base_model: {target}", "base_model: org/other"), {}, ["PUB004"]),
        (GOOD.split("```", maxsplit=1)[0], {}, ["PUB005"]),
        (GOOD, {"draft": "org/another"}, ["PUB006"]),
        (GOOD.replace("vllm serve {target}", "vllm serve org/another"), {}, ["PUB007"]),
        (GOOD, {"tokens": -3}, ["PUB009"]),
        (GOOD.replace("thinking", "haste"), {}, ["PUB011"]),
        ("no header\n\nthinking", {}, ["PUB002", "PUB003", "PUB005"]),
        ("---\n- [\n---\nthinking", {}, ["PUB002", "PUB003", "PUB005"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_card(
    publish: Publish, card: str | None, words: dict[str, Any], expected: list[str]
) -> None:
    ran = publish(card, **words)
    assert rules(ran) == expected
    errors = {"PUB001", "PUB004", "PUB006", "PUB007", "PUB009"}
    assert ran.code == int(bool(errors & set(expected)))


def test_a_command_of_old_versions(publish: Publish) -> None:
    old = (
        "\n```bash\nvllm serve {target} --speculative-model {draft} --num-speculative-tokens 3\n```"
    )
    ran = publish(GOOD + old)
    assert set(rules(ran)) == {"PUB015"} and ran.code == 0


def test_more_tokens_than_the_block_has(publish: Publish) -> None:
    right = publish(kind="dflash")
    (block,) = {
        word for word in right.json["card_block"].splitlines() if word.startswith("It proposes")
    }
    proposes = int(block.split()[2])
    assert "PUB008" not in rules(right) and proposes >= 3
    ran = publish(kind="dflash", tokens=proposes + 1)
    assert "PUB008" in rules(ran) and ran.code == 1


def test_layers_that_were_lost(run: Run, tmp_path: Path) -> None:
    """A quantiser that drops the MTP tensors and keeps the promise."""
    folder = tmp_path / "model"
    shutil.copytree(TARGET, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "glm4_moe", "num_nextn_predict_layers": 1}
    (folder / "config.json").write_text(json.dumps(config))
    ran = run("publish", folder, "--target", TARGET, "--format", "json")
    assert "PUB010" in rules(ran) and ran.code == 1


def test_without_a_target_engines_are_not_asked(run: Run, tmp_path: Path) -> None:
    shutil.copytree(HEADS / "eagle3", tmp_path / "head")
    ran = run("publish", tmp_path / "head")
    assert ran.code == 1
    assert ran.out.splitlines()[0] == f"{tmp_path / 'head'}: 1 error and 1 hint"
    assert "--target TARGET does" in ran.out
    assert run("publish", tmp_path / "none").code == 3
