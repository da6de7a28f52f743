"""draftcheck.toml: pairs of our own, paths, versions, globs, ignores, minimums."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from draftcheck.gate import manifest
from draftcheck.rulebook import file_rules
from tests.conftest import ROOT
from tests.gate.conftest import Repo

PAIR = """\
[[pair]]
name = "chat"
target = "models/big"
draft = "models/small"
engine = "vllm@0.15.1"
"""


def test_a_pair_is_judged(good: Repo) -> None:
    good.write("draftcheck.toml", PAIR)
    [setup] = [s for s in good.json("draftcheck.toml")["setups"] if s["name"]]
    assert setup["name"] == "chat"
    assert (setup["file"], setup["line"]) == ("draftcheck.toml", 1)
    assert (setup["engine"], setup["version"], setup["verdict"]) == ("vllm", "0.15.1", "compatible")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (PAIR + "min-acceptance = 0.5\n", 6, "did you mean 'min_acceptance'?"),
        (PAIR + "drafts = 3\n", 6, "there is no key 'drafts' in pair; did you mean 'draft'?"),
        (PAIR + "context = 0\n", 6, "'context' must be a whole number from 1 on"),
        (PAIR + "context = true\n", 6, "'context' must be"),
        (PAIR + "min_acceptance = 80\n", 6, "'min_acceptance' must be a number from 0 to 1"),
        (PAIR.replace("vllm@", "vlm@"), 5, "there is no engine 'vlm'; did you mean 'vllm'?"),
        (PAIR.replace('engine = "vllm@0.15.1"\n', ""), 1, "[[pair]] has no 'engine'"),
        (PAIR + PAIR, 7, "a pair is called 'chat' in line 2"),
        ("[pair]\nname = 'x'\n", 1, "pair is written [[pair]]"),
        ("[path]\n", 1, "did you mean 'paths'?"),
        ("[paths]\n'/m' = 3\n", 2, "'/m' must be a text"),
        ("[gate]\nexclude = 'x'\n", 2, "'exclude' must be a list of texts"),
        ("[gate.versions]\nvlllm = '1'\n", 2, "there is no engine 'vlllm'"),
        ("[gate.versions]\nvllm = 1\n", 2, "versions: 'vllm' must be a text"),
        ("[gate]\nversions = 'x'\n", 2, "versions is written [versions]"),
        (PAIR + "draft_gpu = -1\n", 6, "'draft_gpu' must be a whole number from 0 on"),
        (PAIR + "min_speedup = nan\n", 6, "'min_speedup' must be a number that is not negative"),
        (PAIR + "context = 1.0\n", 6, "'context' must be a whole number from 1 on"),
        (PAIR + "method = ' '\n", 6, "'method' must be a text"),
        (PAIR + "context = 0\nsequences = 0\n", 7, "'sequences' must be"),
    ],
)
def test_what_is_not_understood_is_said_with_its_line(
    text: str, line: int, said: str, good: Repo
) -> None:
    good.write("draftcheck.toml", text)
    ran = good.gate("--format", "json")
    found = [f for f in ran.json["findings"] if f["rule"] == "GAT014"]
    assert [f["line"] for f in found if said in f["saw"]] == [line], found
    assert ran.code == 1


def test_broken_toml_is_a_finding(good: Repo) -> None:
    good.write("draftcheck.toml", "[gate]\nexclude = [\n\n[[pair]\n")
    ran = good.gate("--format", "json")
    assert ran.code == 3
    [finding] = [f for f in ran.json["findings"] if f["file"] == "draftcheck.toml"]
    assert finding["rule"] == "GAT001"


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "F" * 5000])
def test_a_number_without_end_is_a_finding(number: str, good: Repo) -> None:
    good.write("draftcheck.toml", f"[gate]\ngpu = {number}\n")
    ran = good.gate("--format", "json")
    assert ran.code == 3
    [finding] = [f for f in ran.json["findings"] if f["file"] == "draftcheck.toml"]
    assert "too many digits" in finding["saw"]


def test_paths_of_containers(good: Repo) -> None:
    good.serve("serve.sh", "/srv/models/big", "/srv/one-draft")
    assert good.gate("serve.sh").code == 3
    good.write(
        "draftcheck.toml", '[paths]\n"/srv/models" = "models"\n"/srv/one-draft" = "models/small"\n'
    )
    [setup] = good.json("serve.sh")["setups"]
    assert (setup["target"], setup["draft"]) == ("models/big", "models/small")
    assert setup["verdict"] == "compatible"


def test_versions_where_no_file_tells_them(good: Repo) -> None:
    (good.path / "requirements.txt").unlink()
    report = good.json("serve.sh")
    assert report["setups"][0]["version_from"] is None
    assert "GAT015" in {f["rule"] for f in report["findings"]}
    good.write("draftcheck.toml", '[gate.versions]\nvllm = "0.13.0"\n')
    report = good.json("serve.sh")
    assert report["setups"][0]["version"] == "0.13.0"
    assert "GAT015" not in {f["rule"] for f in report["findings"]}
    report = good.json("serve.sh", "--engine", "vllm@0.15.1")
    assert report["setups"][0]["version"] == "0.15.1"
    assert good.gate("--engine", "vllm").code == 2


def test_globs(good: Repo) -> None:
    good.serve("old/serve.sh", "models/big", "models/gone")
    assert good.gate().code == 3
    good.write("draftcheck.toml", '[gate]\nexclude = ["old"]\n')
    assert good.gate().code == 0
    good.write("draftcheck.toml", '[gate]\ninclude = ["old/*.sh"]\n')
    assert [s["file"] for s in good.json()["setups"]] == ["old/serve.sh"]


def test_globs_count_from_the_root(good: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    good.serve("old/serve.sh", "models/big", "models/gone")
    good.write("draftcheck.toml", '[gate]\nexclude = ["old"]\n')
    monkeypatch.chdir(good.path / "old")
    assert good.json()["setups"] == []
    entry = '[[ignore]]\nrule = "GAT002"\nfile = "old/*"\nreason = "retired in May"\n'
    good.write("draftcheck.toml", entry)
    assert good.gate("serve.sh").code == 0
    good.write("draftcheck.toml", entry.replace("GAT002", "GAT003"))
    assert good.rules("serve.sh") == [("GAT002", "serve.sh", 3)]  # not all files: none is unused


def test_ignores_for_files_without_comments(good: Repo) -> None:
    good.serve("old/serve.sh", "models/big", "models/gone")
    entry = '[[ignore]]\nrule = "GAT002"\nfile = "old/*"\nreason = "retired in May"\n'
    good.write("draftcheck.toml", entry)
    report = good.json()
    assert [f["ignored"] for f in report["findings"] if f["rule"] == "GAT002"] == ["retired in May"]
    assert good.gate().code == 0
    good.write("draftcheck.toml", entry.replace("old/*", "new/*"))
    assert ("GAT013", "draftcheck.toml", 1) in good.rules()
    good.write("draftcheck.toml", entry.replace('reason = "retired in May"\n', ""))
    assert ("GAT012", "draftcheck.toml", 1) in good.rules()


def trial(**changes: Any) -> str:
    body = {
        "schema_version": 1, "target": {"ref": "models/big"}, "draft": {"ref": "models/small"},
        "backend": "transformers", "device": "cuda:0", "dtype": "bfloat16", "temperature": 0.0,
        "prompts": 32, "tokens": 4096, "length": 4,
        "acceptance_rate": {"value": 0.7, "ci95": [0.68, 0.72]},
        "lengths": [
            {"draft_tokens": 2, "tokens_per_pass": 2.4, "draft_efficiency": 0.8, "speedup": 1.5},
            {"draft_tokens": 4, "tokens_per_pass": 3.8, "draft_efficiency": 0.7, "speedup": 1.9},
        ],
        "best": {"method": "draft_model", "draft_tokens": 4, "speedup": 1.9}, "broken": None,
    }  # fmt: skip
    return json.dumps({**body, **changes})


MINIMUMS = PAIR + 'min_acceptance = 0.6\nmin_speedup = 1.5\ntrial = "trial.json"\n'


@pytest.mark.parametrize(
    ("more", "changes", "rule", "said", "code"),
    [
        ("", {}, None, "", 0),
        ("", {"acceptance_rate": {"value": 0.5}}, "GAT008", "acceptance 0.5 at 4 draft tokens", 1),
        ("", {"best": {"speedup": 1.2}}, "GAT009", "speed-up 1.2", 1),
        ("draft_tokens = 2\n", {"best": {"speedup": 1.2}}, None, "", 0),
        ("", {"verified": {"speedup": 0.7}}, "GAT009", "speed-up 0.7", 1),
        ("draft_tokens = 2\n", {"verified": {"speedup": 0.7}}, "GAT009", "speed-up 0.7", 1),
        ("", {"speeds": [{"engine": "vllm", "speedup": 1.1}]}, "GAT009", "speed-up 1.1", 1),
        ("", {"costs": {"warning": "a busy machine"}}, "GAT010", "nothing: a busy machine", 3),
        ("draft_tokens = 3\n", {}, "GAT010", "has no acceptance at 3 draft tokens", 3),
        ("", {"best": None}, "GAT010", "has no speed-up", 3),
        ("", {"broken": "other texts"}, "GAT008", "broken: other texts", 1),
        ("", {"incomplete": "out of memory"}, "GAT010", "was not finished: out of memory", 3),
        ("", {"target": {"ref": "/home/me/models/big"}}, None, "", 0),
        ("", {"target": {"ref": "org/else"}}, "GAT011", "its target is org/else", 3),
        ("temperature = 0.7\n", {}, "GAT011", "its temperature is 0.0, not 0.7", 3),
        ('backend = "vllm"\n', {}, "GAT011", "its backend is transformers, not vllm", 3),
        ("", {"acceptance_rate": "high"}, "GAT010", "got `str` - at `$.acceptance_rate`", 3),
    ],
)
def test_minimums(
    more: str, changes: dict[str, Any], rule: str | None, said: str, code: int, good: Repo
) -> None:
    good.write("draftcheck.toml", MINIMUMS + more)
    good.write("trial.json", trial(**changes))
    ran = good.gate("--format", "json")
    found = [
        f for f in ran.json["findings"] if f["rule"] in ("GAT008", "GAT009", "GAT010", "GAT011")
    ]
    assert [f["rule"] for f in found][:1] == ([rule] if rule else []), found
    assert all(said in f["saw"] for f in found[:1])
    assert ran.code == code


def test_without_a_trial_the_command_is_told(good: Repo) -> None:
    good.write("draftcheck.toml", MINIMUMS)
    ran = good.gate("--format", "json")
    assert ran.code == 3
    [finding] = [f for f in ran.json["findings"] if f["rule"] == "GAT010"]
    assert (
        "draftcheck trial models/big models/small --format json --output trial.json"
        in finding["fix"]
    )


def test_the_lock_keeps_trials(good: Repo) -> None:
    good.write("draftcheck.toml", MINIMUMS)
    good.write("trial.json", trial())
    assert good.lock().code == 0
    kept = good.locked["trials"]["chat"]
    assert (kept["acceptance_rate"], kept["speedup"], kept["temperature"]) == (0.7, 1.9, 0.0)
    good.write("trial.json", trial(acceptance_rate={"value": 0.9}))
    ran = good.gate("--format", "json")
    assert ran.code == 3
    assert "GAT003" in {f["rule"] for f in ran.json["findings"]}
    (good.path / "trial.json").unlink()
    report = good.json()
    [setup] = [s for s in report["setups"] if s["name"] == "chat"]
    assert setup["trial"]["acceptance_rate"] == 0.7
    assert good.gate().code == 0
    lock = (good.path / "draftcheck.lock").read_text(encoding="ascii")
    good.write("draftcheck.lock", lock.replace('"acceptance_rate": 0.7', '"acceptance_rate": 0.99'))
    assert "GAT004" in {f["rule"] for f in good.json()["findings"]}


def test_the_documented_manifest_is_understood(good: Repo) -> None:
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    [text] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    good.write("draftcheck.toml", text)
    report = good.json()
    assert [f["saw"] for f in report["findings"] if f["rule"] == "GAT014"] == []
    [setup] = [s for s in report["setups"] if s["name"] == "chat"]
    assert (setup["engine"], setup["version"]) == ("vllm", "0.15.1")
    tables = (manifest.PairTable, manifest.GateTable, manifest.IgnoreTable)
    known = {*manifest.TOP, *(key for table in tables for key in table.__struct_fields__)}
    assert not [key for key in known if not re.search(rf"\b{key}\b", page)]


def test_every_rule_of_the_gate_is_documented() -> None:
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    assert not [rule for rule in file_rules.load(file_rules.GATE) if rule not in page]
