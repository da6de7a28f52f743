"""The command line and the list of targets: what is accepted, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftcheck.errors import UsageError
from draftcheck.scan.rows import PinRow, TrialRow
from draftcheck.scan.targets import HubSearch, ScanTrials, count, load
from tests.conftest import ROOT, Run

LIST = """
engines = ["vllm", "llama.cpp@b10586"]
gpu = "h200"
context = 8192

[[target]]
ref = "org/large"
pins = ["org/small"]
engines = ["vllm"]

[[search]]
author = "org"
min_parameters = "14B"
limit = 5

[[candidates]]
filters = ["text-generation"]
max_parameters = "8B"

[[candidates]]
refs = ["me/mine", "./models/draft"]

[trial]
per_target = 2
budget = 300
"""


def test_a_whole_list(tmp_path: Path) -> None:
    path = tmp_path / "targets.toml"
    path.write_text(LIST)
    job = load(path)
    assert job.targets == ("org/large",)
    assert job.pins == (PinRow("org/large", "org/small", ("vllm",)),)
    assert job.engines == ("vllm", "llama.cpp@b10586")
    assert job.said == {"gpu": "h200", "context": 8192}
    assert job.searches == (HubSearch(author="org", min_parameters=14 * 10**9, limit=5),)
    assert job.candidates == (HubSearch(filters=("text-generation",), max_parameters=8 * 10**9),)
    assert job.named == ("me/mine", "./models/draft")
    assert job.trials == ScanTrials(per_target=2, budget=300)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("target = 3", "target is written [[target]]"),
        ("[[target]]\nname = 'x'", "target 1: unknown key 'name'"),
        ("[[target]]\nref = 3", "target 1: ref: '3' is no text"),
        ("enginess = []", "unknown key 'enginess'"),
        ("[[candidates]]\nmax_parameters = 'big'", "no number of parameters such as 8B"),
        ("[[candidates]]\nlimit = 0", "limit '0' is no number of models"),
        ("[trial]\ntokens = 'x'", "trial: tokens 'x' is not sensible"),
        ("context = 'long'", "context 'long' is not sensible"),
        ("sequences = true", "sequences 'True' is not sensible"),
        ("capability = [9, 0]", "unknown key 'capability'"),
        ("gpu = 'h200'\ncontext = 1" + "0" * 400, "context '1000"),
        ("gpu = 'h200'\nsequences = 1" + "0" * 400, "sequences '1000"),
        ("context = 0x1" + "0" * 5000, "context a number without end is not sensible"),
        ("context = 1" + "0" * 5000, "not valid TOML"),
        ("memory_fraction = nan", "memory_fraction 'nan' is not sensible"),
        ("memory_fraction = inf", "memory_fraction 'inf' is not sensible"),
        ("memory_fraction = 0", "memory_fraction '0' is not sensible"),
        ("tensor_parallel = 0", "tensor_parallel '0' is not sensible"),
        ("draft_gpu = 4096", "draft_gpu '4096' is not sensible"),
        ("[trial]\nbudget = nan", "trial: budget 'nan' is not sensible"),
        ("[trial]\ntokens = 0x1" + "0" * 5000, "trial: tokens a number without end"),
        ("[[search]]\nlimit = 0x1" + "0" * 5000, "limit a number without end is no number"),
        ("[[search]]\nmin_parameters = 0x1" + "0" * 5000, "a number without end is no number"),
        ("[[target", "not valid TOML"),
        ("\udcff", "not valid TOML"),
    ],
)
def test_lists_that_make_no_sense(tmp_path: Path, run: Run, text: str, words: str) -> None:
    path = tmp_path / "targets.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    ran = run("scan", path, "--store", tmp_path / "s.db")
    assert ran.code == 2 and words in ran.err and "targets.toml" in ran.err
    assert len(ran.err) < 400
    assert not (tmp_path / "s.db").exists()


def test_usage(tmp_path: Path, run: Run) -> None:
    store = ("--store", tmp_path / "s.db")
    assert run("scan", *store).code == 2
    assert "no targets" in run("scan", *store).err
    assert run("scan", tmp_path / "none.toml", *store).code == 2
    assert "unknown engine" in run("scan", "--target", "a/b", "--engine", "vlm", *store).err
    assert run("scan", "--target", "a/b", "--executor", "slurm", *store).code == 2
    assert run("scan", "--target", "a/b", "--max-size", "big", *store).code == 2
    assert run("scan", "--target", "a/b", "--gpu", "abacus", *store).code == 2
    assert not (tmp_path / "s.db").exists()


def test_no_network(tmp_path: Path, run: Run) -> None:
    ran = run("scan", "--target", "a/b", "--store", tmp_path / "s.db")
    assert ran.code == 3 and "cannot be listed without the network" in ran.err


def test_local_models_and_a_trial(tmp_path: Path, run: Run) -> None:
    """Everything on this disk: nothing is listed, the pair is judged and measured."""
    pytest.importorskip("transformers")
    path = tmp_path / "targets.toml"
    pair = ROOT / "fixtures" / "pair"
    path.write_text(
        f"[[target]]\nref = '{pair / 'target'}'\n[[candidates]]\nrefs = ['{pair / 'draft'}']\n"
        "[trial]\nper_target = 1\ntokens = 8\nprompts = 2\ndevice = 'cpu'\n"
    )
    store = tmp_path / "s.db"
    ran = run("scan", path, "--store", store, "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["scan"]["counts"]["trials"] == 1
    assert ran.json["targets"][0]["usable_drafts"] == 1
    again = run("scan", path, "--store", store, "--format", "json")
    assert "trials" not in again.json["scan"]["counts"], "measured once"
    from draftcheck.scan.store import ScanStore

    with ScanStore.open(store, readonly=True) as found:
        [trial] = found.read(TrialRow)
        assert trial.state == "done" and trial.body["acceptance_rate"]["value"] > 0


@pytest.mark.parametrize(("text", "number"), [("8B", 8 * 10**9), ("0.6b", 6 * 10**8), (7, 7)])
def test_counts(text: object, number: int) -> None:
    assert count(text, "here") == number
    with pytest.raises(UsageError):
        count("8GB of it", "here")
