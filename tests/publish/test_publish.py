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
        return run("publish", folder, "--target", values["target"], "--format", "json")

    return call


def rules(ran: Ran) -> list[str]:
    return [finding["rule"] for finding in ran.json["findings"]]


def test_a_card_that_is_right(publish: Publish) -> None:
    ran = publish()
    assert ran.code == 0, ran.out
    assert ran.json["findings"] == [] and ran.json["errors"] == 0
    since = {one["engine"]: one["since"] for one in ran.json["engines"]}
    assert since["vllm"] == "0.10.2"  # its class is registered from there on (VLL193)
    block = ran.json["card_block"]
    assert "| vLLM | 0.10.2 | eagle3 |" in block and "vllm serve" in block


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
        (GOOD.replace("apache-2.0", "other"), {}, ["PUB018"]),
        (GOOD.replace("apache-2.0", "other\nlicense_name: my-terms"), {}, ["PUB018"]),
        (GOOD.replace("apache-2.0", "other\nlicense_name: a\nlicense_link: LICENSE"), {}, []),
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


def edit_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def made(folder: Path, kind: str, **changes: Any) -> Path:
    """A copy of a head of the fixtures, with other fields in its config."""
    shutil.copytree(HEADS / kind, folder)
    edit_config(folder, **changes)
    return folder


DSPARK = {
    "architectures": ["Qwen3DSparkModel"], "markov_rank": 8, "markov_head_type": "vanilla",
}  # fmt: skip
ALL_KINDS: list[tuple[str, dict[str, Any], str, dict[str, str | None]]] = [
    (
        "eagle3",
        {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}},
        "eagle3",
        {"vllm": "0.10.2", "sglang": "0.5.2", "llama.cpp": "b9606"},
    ),
    ("dflash", {}, "dflash", {"vllm": "0.20.0", "sglang": "0.5.11", "llama.cpp": "b9831"}),
    ("medusa", {}, "medusa", {"vllm": None, "sglang": None}),  # vLLM 0.33.0 has it no more
    ("dflash", DSPARK, "dspark", {"vllm": "0.25.0", "sglang": "0.5.16", "llama.cpp": "b10163"}),
    ("dflash", {"speculators_model_type": "dflash2"}, "dflash2", {"vllm": "0.29.0"}),
    (
        "eagle3",
        {"model_type": "eagle", "architectures": ["LlamaForCausalLM"]},
        "eagle",
        {"vllm": "0.6.5", "sglang": None},
    ),
    # Configs of these kinds over the weights of others: no engine takes them.
    ("eagle3", {"speculators_model_type": "peagle"}, "peagle", {"vllm": None}),
    ("eagle3", {"model_type": "gemma4_assistant"}, "mtp", {"vllm": None, "transformers": None}),
    ("medusa", {"model_type": "mlp_speculator"}, "mlp_speculator", {"vllm": None}),
]


@pytest.mark.parametrize(("source", "changes", "role", "since"), ALL_KINDS)
def test_the_oldest_version_of_each_engine(
    run: Run,
    tmp_path: Path,
    source: str,
    changes: dict[str, Any],
    role: str,
    since: dict[str, str | None],
) -> None:
    """One head of every kind; `pair` says the same of that version."""
    folder = made(tmp_path / "head", source, **changes)
    body = run("publish", folder, "--target", TARGET, "--format", "json").json
    assert body["profile_stub"]["method"] == role
    found = {one["engine"]: one["since"] for one in body["engines"]}
    assert {engine: found.get(engine) for engine in since} == since
    for engine, version in since.items():
        asked = f"{engine}@{version}" if version else engine
        code = run("pair", TARGET, folder, "--engine", asked, "--quiet").code
        assert code == (0 if version else 1), asked


@pytest.mark.parametrize(
    ("theirs", "expected"), [("apache-2.0", []), ("llama3.1", ["PUB019"]), (None, [])]
)
def test_the_target_s_licence(
    publish: Publish, tmp_path: Path, theirs: str | None, expected: list[str]
) -> None:
    target = tmp_path / "target"
    shutil.copytree(TARGET, target)
    if theirs is not None:
        (target / "README.md").write_text(f"---\nlicense: {theirs}\n---\n", encoding="utf-8")
    ran = publish(target=target)
    assert rules(ran) == expected and ran.code == 0
    if expected:
        assert ran.json["findings"][0]["saw"] == "apache-2.0 here, llama3.1 there"


def test_a_card_of_more_than_a_mebibyte(publish: Publish) -> None:
    ran = publish(GOOD + "x" * (1 << 20))
    assert rules(ran) == ["PUB017"] and ran.code == 0


def test_a_quantised_head_says_who_loads_it(run: Run, tmp_path: Path) -> None:
    folder = made(tmp_path / "head", "eagle3", quantization_config={"quant_method": "fp8"})
    ran = run("publish", folder, "--target", TARGET, "--format", "json")
    (found,) = [one for one in ran.json["findings"] if one["rule"] == "PUB016"]
    since = {one["engine"]: one["since"] for one in ran.json["engines"]}
    assert found["saw"].startswith("fp8; loaded by ") and found["severity"] == "note"
    assert f"vLLM {since['vllm']}" in found["saw"]
    plain = run("publish", HEADS / "eagle3", "--target", TARGET, "--format", "json")
    assert "PUB016" not in rules(plain)


def test_the_mode_is_asked_for_where_the_target_has_two(publish: Publish, tmp_path: Path) -> None:
    """The template of the fixtures has no such switch."""
    card = GOOD.replace("thinking", "haste")
    assert rules(publish(card)) == []
    target = tmp_path / "two-modes"
    shutil.copytree(TARGET, target)
    file = target / "tokenizer_config.json"
    template = {"chat_template": "{% if enable_thinking %}a{% endif %}"}
    file.write_text(json.dumps(json.loads(file.read_text()) | template))
    assert rules(publish(card, target=target)) == ["PUB011"]
    named = card + "\nFor org/Big-Thinking-2507 and Big-4B-Thinking.\n"
    assert rules(publish(named, target=target)) == ["PUB011"]
    assert rules(publish(card + "\nTrained in non-thinking mode.\n", target=target)) == []
    assert rules(publish(target=target)) == []


def test_a_model_with_layers_of_its_own_is_its_own_target(run: Run, tmp_path: Path) -> None:
    """Its base is what it was made from; engines are asked about its own layers."""
    folder = made(tmp_path / "model", "target-mtp")
    command = f"vllm serve {folder} --speculative-config '{json.dumps({'method': 'mtp'})}'"
    card = f"---\nlicense: mit\nbase_model: org/base\n---\nthinking\n```bash\n{command}\n```\n"
    (folder / "README.md").write_text(card, encoding="utf-8")
    ran = run("publish", folder, "--format", "json")
    assert rules(ran) == ["PUB013"] and ran.code == 0, ran.out
    found = {one["engine"]: (one["since"], one["method"]) for one in ran.json["engines"]}
    assert found["vllm"][1] == "mtp" and found["vllm"][0] is not None
    assert ran.json["profile_stub"]["method"] == "mtp"
    assert "MTP layers of its own." in ran.json["card_block"]


def test_a_stub_is_no_profile(run: Run, tmp_path: Path) -> None:
    """What is to be pasted names both models, and is refused until it is measured."""
    ran = run("publish", HEADS / "dflash", "--target", TARGET, "--format", "json")
    stub = ran.json["profile_stub"]
    assert (stub["method"], stub["num_speculative_tokens"]) == ("dflash", 4)
    assert stub["target_model"] == {"id": str(TARGET)}
    (tmp_path / "speculation_profile.json").write_text(json.dumps(stub), encoding="utf-8")
    told = run("known", tmp_path / "speculation_profile.json")
    assert told.code == 3 and "nothing was measured" in told.err
    assert "for speculation_profile.json" in run("publish", HEADS / "dflash").out


def test_a_folder_that_is_not_uploaded_yet(run: Run, tmp_path: Path) -> None:
    """Its card names the repository that it will be; so do the commands to paste."""
    folder = made(tmp_path / "out", "eagle3")
    card = GOOD.format(target=TARGET, draft="me/my-head", method="eagle3", tokens=3)
    (folder / "README.md").write_text(card, encoding="utf-8")
    asked = ("publish", folder, "--target", TARGET, "--format", "json")
    assert rules(run(*asked)) == ["PUB006", "PUB013"]
    body = run(*asked, "--as", "me/my-head").json
    assert [finding["rule"] for finding in body["findings"]] == ["PUB013"]
    assert '"model": "me/my-head"' in body["card_block"] and str(folder) not in body["card_block"]
    assert body["profile_stub"]["draft_checkpoint"] == {"id": "me/my-head"}
