"""Reports for programs: JSON, SARIF, JUnit, GitHub annotations, a job summary."""

from __future__ import annotations

import json
import os
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.gate.conftest import Repo

HOSTILE = "evil%0A::error::x|y,\u202e\x1b[31m<b>&\"'`.sh"
BAD = (
    "docker run ghcr.io/ggml-org/llama.cpp:server-b9500 -m {} -md b.gguf --spec-type draft-simple"
    " --draft-max 8\n"
)


@pytest.fixture
def bad(good: Repo) -> Repo:
    """A good setup, a flag that is gone, models that nobody knows, an ignored finding."""
    good.write("bad.sh", BAD.format("'a%b,c:d\u202e.gguf'"))
    good.write(HOSTILE, BAD.format("a.gguf"))
    good.serve("gone.sh", "org/big", "org/small")
    text = (good.path / "gone.sh").read_text(encoding="utf-8")
    comment = "# draftcheck: ignore[GAT002] because of <a reason> & more\n"
    good.write("gone.sh", text.replace("vllm", comment + "vllm", 1))
    return good


def test_json(bad: Repo) -> None:
    report = bad.json()
    assert report["schema_version"] == 1
    assert set(report) == {
        "schema_version", "draftcheck_version", "verdict", "nothing_to_check", "files_looked_at",
        "setups_without_speculation", "setups_in_markdown", "lock", "missing", "setups", "findings",
    }  # fmt: skip
    assert set(report["setups"][0]) == {
        "file", "line", "column", "end_line", "end_column", "name", "engine", "version",
        "version_from", "fork", "method", "target", "draft", "reaction", "verdict", "trial",
        "published",
    }  # fmt: skip
    assert set(report["findings"][0]) == {
        "rule", "slug", "severity", "outcome", "file", "line", "column", "end_line", "end_column",
        "setup", "title", "saw", "why", "fix", "source", "fixable", "changes", "ignored",
    }  # fmt: skip
    places = [(f["file"], f["line"], f["column"]) for f in report["findings"]]
    assert places == sorted(places)


def test_what_was_published_of_a_pair_is_no_noise(good: Repo) -> None:
    """Told in JSON and to whoever asks for more; never a finding."""
    pair = ("Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16")
    good.serve("known.sh", *pair)
    setups = {setup["file"]: setup["published"] for setup in good.json()["setups"]}
    assert setups.pop("known.sh")["id"] == "A120" and set(setups.values()) == {None}
    assert "6.54 tokens per pass" in good.gate("--verbose").out
    assert "tokens per pass" not in good.gate().out


def sarif(repo: Repo, *arguments: object) -> dict[str, Any]:
    return repo.gate(*arguments, "--format", "sarif").json


def test_sarif(bad: Repo) -> None:
    log = sarif(bad)
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert (log["version"], run["columnKind"]) == ("2.1.0", "unicodeCodePoints")
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        [location] = result["locations"]
        region = location["physicalLocation"]["region"]
        assert region["startLine"] >= 1 and region["startColumn"] >= 1
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri), uri
    quiet = [r["suppressions"] for r in run["results"] if "suppressions" in r]
    assert quiet[0] == [{"kind": "inSource", "justification": "of <a reason> & more"}]
    fixes = [r["fixes"] for r in run["results"] if "fixes" in r]
    [change] = fixes[0][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"]["text"] == "--spec-draft-n-max"


def test_fingerprints_outlive_other_changes(bad: Repo) -> None:
    def marks() -> dict[str, str]:
        results = sarif(bad, "bad.sh")["runs"][0]["results"]
        found = {r["partialFingerprints"]["draftcheck/v1"]: r["ruleId"] for r in results}
        assert len(found) == len(results)
        return found

    before = marks()
    text = (bad.path / "bad.sh").read_text(encoding="utf-8")
    bad.write("bad.sh", "# a line more\n\n" + text)
    assert marks() == before


def test_sarif_is_valid_by_its_schema(bad: Repo) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    schema = os.environ.get("DRAFTCHECK_SARIF_SCHEMA")
    if not schema:
        pytest.skip("DRAFTCHECK_SARIF_SCHEMA does not name sarif-schema-2.1.0.json")
    validator = jsonschema.Draft4Validator(json.loads(Path(schema).read_text(encoding="utf-8")))
    for arguments in ((), ("models",)):
        errors = [error.message for error in validator.iter_errors(sarif(bad, *arguments))]
        assert not errors


def test_junit(bad: Repo) -> None:
    ran = bad.gate("--format", "junit")
    root = ElementTree.fromstring(ran.out)
    assert root.tag == "testsuites"
    cases = list(root.iter("testcase"))
    assert len(cases) == int(root.attrib["tests"])
    failed = [case for case in cases if case.find("failure") is not None]
    errors = [c for c in cases if c.find("failure") is None and c.find("error") is not None]
    assert len(failed) == int(root.attrib["failures"]) > 0
    assert len(errors) == int(root.attrib["errors"])
    [quiet] = root.iter("skipped")
    assert "of <a reason> & more" in quiet.attrib["message"]
    assert "\u202e" not in ran.out and "\x1b" not in ran.out


def test_github(bad: Repo) -> None:
    ran = bad.gate("--format", "github")
    lines = ran.out.splitlines()
    *commands, last = lines
    assert last.startswith("draftcheck: incompatible")
    for line in commands:
        match = re.fullmatch(r"::(error|warning|notice) ([^:]*)::([^\n\r]*)", line)
        assert match, line
        fields = dict(part.split("=", 1) for part in match[2].split(","))
        assert {"file", "line", "col", "title"} <= set(fields)
        assert "%0Afix: " in match[3]
    assert "ignore" not in " ".join(commands)
    hostile = [line for line in commands if "evil" in line]
    assert hostile and all("file=evil%250A%3A%3Aerror%3A%3Ax|y%2C" in line for line in hostile)
    assert "\u202e" not in ran.out and "\x1b" not in ran.out


def test_markdown(bad: Repo) -> None:
    out = bad.gate("--format", "markdown").out
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)
    assert "\\<b\\>" in out and "<b>" not in out
    assert "of \\<a reason\\> & more" in out


def test_text_names_place_rule_and_fix(bad: Repo) -> None:
    out = bad.gate("bad.sh").out
    assert out.startswith("incompatible: 1 error"), "the summary comes first"
    assert re.search(r"^error\[FIL\d{3} [a-z-]+\] .*\nbad\.sh:1:\d+: ", out, re.MULTILINE)
    assert "--fix does it" in out
    assert "\u202e" not in out


def test_a_cause_is_told_once_with_a_line_per_finding(repo: Repo) -> None:
    line = "docker run ghcr.io/ggml-org/llama.cpp:server-b9500 -m a.gguf -md b.gguf --draft-max 8\n"
    for number in range(40):
        repo.write(f"serve{number:02}.sh", line)
    out = repo.gate().out
    assert out.startswith("incompatible: ")
    assert sum("--draft-max in llama.cpp b9500" in text for text in out.splitlines()) == 40
    for once in ("error[FIL001 option-gone]", "\n  why     Since b8955", "\n  fix     Use --spec-"):
        assert out.count(once) == 1, once
    findings = [f for f in repo.json()["findings"] if f["severity"] != "note"]
    assert len(out.splitlines()) < len(findings) + 60


def test_concise_is_a_line_for_each(bad: Repo) -> None:
    summary, *lines = bad.gate("--format", "concise").out.splitlines()
    assert summary.startswith("incompatible: ")
    shown = [f for f in bad.json()["findings"] if f["severity"] != "note" and f["ignored"] is None]
    assert len(lines) == len(shown)
    for line in lines:
        assert re.match(r".*?:\d+:\d+: (error|warning|not checked)\[[A-Z]{3}\d{3}\] ", line), line
    assert "\u202e" not in "".join(lines)


def test_output_goes_to_a_file(bad: Repo) -> None:
    ran = bad.gate("--format", "sarif", "--output", "out.sarif")
    assert (ran.out, ran.code) == ("", 1)
    assert json.loads((bad.path / "out.sarif").read_bytes())["version"] == "2.1.0"


def test_quiet(bad: Repo) -> None:
    ran = bad.gate("--quiet")
    assert (ran.out, ran.code) == ("", 1)


def test_watch(good: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked again when a file changes, appears or goes, in no other case; Ctrl-C ends it well."""
    edits = [
        lambda: None,
        lambda: good.write("bad.sh", BAD.format("a.gguf")),
        lambda: None,
        lambda: good.write("draftcheck.toml", "[gate\n"),
        lambda: (good.path / "bad.sh").unlink(),
    ]

    def wait(seconds: float) -> None:
        if not edits:
            raise KeyboardInterrupt
        edits.pop(0)()

    monkeypatch.setattr(import_module("draftcheck.cli.gate"), "time", SimpleNamespace(sleep=wait))
    ran = good.gate("--watch", "--format", "concise")
    first = [line for line in ran.out.splitlines() if re.match("[a-z]+: ", line)]
    assert ran.code == 0 and len(first) == 4, ran.out
    assert first[0].startswith("compatible: ") and first[1].startswith("incompatible: ")
    assert [line for line in ran.err.splitlines() if line] == [
        "bad.sh changed", "draftcheck.toml changed", "bad.sh changed",
    ]  # fmt: skip
