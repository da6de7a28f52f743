"""The schemas that are shipped: each is one, each command has its own, and reports keep to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from draftcheck.cli import COMMANDS, cli
from draftcheck.report import schema
from tests.conftest import FIXTURES, ROOT, Run
from tests.report import make_schemas

PAIR = FIXTURES / "pair"
WITHOUT = {"explain": "rules", "schema": None}
"""Commands whose JSON is another's, or a list of names."""
REPORTS: dict[str, tuple[object, ...]] = {
    "pair": ("pair", PAIR / "target", PAIR / "draft", "--gpu", "24GiB"),
    "pair alone": ("pair", PAIR / "target", "--engine", "vllm"),
    "pair gguf": ("pair", PAIR / "target.gguf", PAIR / "draft.gguf"),
    "inspect": ("inspect", PAIR / "target"),
    "inspect head": ("inspect", PAIR / "heads" / "eagle3"),
    "recommend": ("recommend", PAIR / "target", "--candidate", PAIR / "draft"),
    "gate": ("gate", FIXTURES / "deploy" / "compose"),
    "rules": ("rules",),
    "rules one": ("rules", "LCP003"),
    "known": ("known", "Qwen/Qwen3-32B"),
    "cache": ("cache",),
    "why": ("why", "draft model vocab type must match target model to use speculation"),
}


def printed_as_json() -> list[str]:
    found = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        forms = next((one.type for one in command.params if one.name == "form"), None)
        if isinstance(forms, click.Choice) and "json" in forms.choices:
            found.append(name)
    return found


@pytest.mark.parametrize("name", schema.names())
def test_each_is_a_schema(run: Run, name: str) -> None:
    body = json.loads(run("schema", name).out)
    jsonschema.Draft202012Validator.check_schema(body)
    assert body["required"] and "schema_version" in body["required"]


def test_every_command_with_json_has_one(run: Run) -> None:
    told = {WITHOUT.get(name, name) for name in printed_as_json()} - {None}
    assert told <= set(schema.names())
    assert [line.split()[0] for line in run("schema").out.splitlines()] == schema.names()
    ran = run("schema", "pairs")
    assert ran.code == 2 and "Did you mean pair?" in ran.err


@pytest.mark.parametrize("case", REPORTS)
def test_reports_keep_to_it(run: Run, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    body = run(*REPORTS[case], "--format", "json").json
    jsonschema.validate(body, schema.load(case.partition(" ")[0]))


def test_a_missing_key_and_a_wrong_word_are_found(run: Run) -> None:
    body: dict[str, Any] = run(*REPORTS["pair"], "--format", "json").json
    for change in ({"verdict": "perhaps"}, {"engines": {}}, {"vocabulary": None}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(body | change, schema.load("pair"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema_version": 1}, schema.load("pair"))


def test_a_schema_is_made_of_what_was_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_schemas, "SHAPES", str(tmp_path / "shapes"))
    monkeypatch.setattr(make_schemas, "FOLDER", tmp_path / "out")
    for body in (
        {"a": 1, "b": {"x/y": 1}},
        {"a": None, "b": {"z.w": 2.5}, "c": [{"verdict": "degraded"}]},
    ):
        make_schemas.remember("pair", body)
    make_schemas.main(tmp_path / "shapes")
    found = json.loads((tmp_path / "out" / "pair.json").read_text())
    assert found["required"] == ["a", "b"]
    assert found["properties"]["a"] == {"type": ["integer", "null"]}
    assert found["properties"]["b"]["additionalProperties"] == {"type": "number"}
    assert "degraded" in found["properties"]["c"]["items"]["properties"]["verdict"]["enum"]
