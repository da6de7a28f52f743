"""The first line is the answer: every command in every outcome, with its exit code.

Answers go to standard output; what went wrong before there was one, to standard error. What needs
a Hub, a release or a browser's parts stands with their tests: tests/scan/test_nights.py,
tests/watch/test_watch.py, tests/doctor/test_doctor.py, tests/web/test_site.py,
tests/report/site/test_from_a_scan.py.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from draftcheck.cli import COMMANDS
from tests import make
from tests.cli.test_pair import LARGE, SMALL
from tests.conftest import FIXTURES, Run
from tests.probe import answers
from tests.probe.conftest import RECORDED
from tests.probe.server import Fake
from tests.probe.test_engines import FOREIGN
from tests.recommend.test_methods import trial_of

PAIR = FIXTURES / "pair"
LOGS = FIXTURES / "logs"
VLLM = """vllm serve {} --speculative-config \
'{{"method": "draft_model", "model": "{}", "num_speculative_tokens": 4}}'
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models of all kinds, deploy files, and the embedded pair."""
    monkeypatch.chdir(tmp_path)
    for name in ("target", "draft", "target.gguf", "draft.gguf", "heads"):
        (tmp_path / name).symlink_to(PAIR / name)
    words = {f"w{i}": i for i in range(256)}
    make.folder(tmp_path / "70b", config=LARGE)
    make.folder(tmp_path / "1b", config=SMALL)
    make.folder(tmp_path / "big", layers=8)
    make.folder(tmp_path / "small")
    make.folder(tmp_path / "other", tokenizer_json=make.tokenizer(words))
    specials = make.tokenizer(added=("<s>", "</s>", "<pad>", "<else>"))
    make.folder(tmp_path / "near", tokenizer_json=specials)
    shutil.copytree(tmp_path / "small", tmp_path / "bare")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "bare" / file).unlink(missing_ok=True)
    for name, draft in (("good", "small"), ("bad", "other"), ("loses", "near"),
                        ("gone", "nobody/knows")):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.sh").write_text(VLLM.format("../big", f"../{draft}"))
        (tmp_path / name / "requirements.txt").write_text("vllm==0.15.1\n")
    (tmp_path / "empty").mkdir()
    rows = [{"draft_tokens": 1, "tokens_per_pass": 1.2, "speedup": 0.54}]
    (tmp_path / "slow.json").write_text(
        json.dumps(trial_of(Path("big"), Path("small"), lengths=rows))
    )
    return tmp_path


LINES = [
    # ---- pair ----
    ("pair big small", 0, r"compatible: small can speculate for big"),
    ("pair big near --engine vllm", 0, r"degraded: near can speculate for big, with losses"),
    ("pair big near --engine vllm --strict", 1, r"degraded: near can speculate for big, with .*"),
    ("pair big other", 1, r"incompatible: other cannot speculate for big"),
    ("pair big bare --engine llama.cpp", 3, r"undecided: it cannot be told whether .*: \w+: .*"),
    ("pair target.gguf draft.gguf --engine vllm", 3, r"not applicable: vLLM's rules here cover .*"),
    ("pair small big --engine vllm", 0, r"degraded: swapped\? the draft is .* times the .*"),
    ("pair big big", 0, r"compatible: the draft is the target itself: it runs, and cannot be .*"),
    ("pair 70b 1b --engine vllm --gpu 24GiB", 1,
     r"incompatible: does not fit 24GiB with vllm: .* needed of .*; fits with: .*"),
    ("pair big", 0, r"compatible: big can speculate without a draft model"),
    ("pair big small other near", 0, r"use small \(draft model\) with \S+ for big: .*"),
    ("pair big other near --engine llama.cpp", 1, r"no draft for big was found; without one: .*"),
    ("pair nowhere small", 3, r"error: nowhere: .*"),
    ("pair", 2, r"Usage: draftcheck pair .*"),
    # ---- recommend ----
    ("recommend big --candidate small", 0,
     r"use small \(draft model\) with \S+ for big: modelled, .*; not measured here: draftcheck"
     r" trial big small"),
    ("recommend big --candidate small --trials slow.json", 0,
     r"no draft pays for big: the only one measured is 0\.54x \(small\)"),
    ("recommend big --candidate other", 1, r"no draft for big was found; without one: n-gram .*"),
    ("recommend heads/target-mtp --candidate other", 0,
     r"use MTP of its own with \S+ for heads/target-mtp: .*"),
    ("recommend big --candidate bare --engine llama.cpp", 3,
     r"undecided: no draft for big could be judged \(bare: \w+: .*\); without one: n-gram .*"),
    ("recommend big --local .", 0, r"use small \(draft model\) with \S+ for big: .*"),
    ("recommend --local empty", 1, r"no two models on this disk go together"),
    ("recommend", 2, r"error: which TARGET\?"),
    # ---- known ----
    ("known Qwen/Qwen3-32B", 0, r"Qwen/Qwen3-32B: \d+ ways known, first \S+ \(.*\): .*"),
    ("known Qwen/Qwen3-32B nobody/knows", 3, r"nothing is published here of \S+ with \S+"),
    ("known", 2, r"Usage: draftcheck known .*"),
    ("known nobody/knows", 3, r"nothing is published here of nobody/knows"),
    # ---- gate, lock ----
    ("gate good", 0, r"compatible: .*"),
    ("gate bad", 1, r"incompatible: .*"),
    ("gate gone", 3, r"undecided: .*"),
    ("gate loses", 0, r"degraded: .*"),
    ("gate loses --strict", 1, r"degraded: .*"),
    ("gate empty", 0, r"nothing to check: no file here starts an engine with .*"),
    ("gate nothing.sh", 2, r"error: nothing\.sh: .*"),
    ("lock empty", 0, r"nothing to lock \(0 setups found\)"),
    ("lock good", 0, r"added .*"),
    ("lock good --check", 1, r"added .*"),
    ("lock gone", 3, r"added big"),
    # ---- why, probe: see below for servers ----
    (f"why {LOGS / 'llamacpp-type.log'}", 0, r"explained: .*"),
    (f"why {LOGS / 'llamacpp-working.log'}", 0, r"explained: Speculation is on: .*"),
    (f"why {LOGS / 'nothing.log'}", 3, r"not recognised: .*"),
    ("why kaputt", 3, r"not recognised: .*"),
    ("why missing.log", 3, r"error: missing\.log: No such file or directory"),
    ("probe http://127.0.0.1:1", 3, r"error: http://127\.0\.0\.1:1: connection refused.*"),
    ("probe ftp://host", 2, r"error: .*only http and https.*"),
    # ---- rules, explain, schema, inspect, cache ----
    ("rules --engine mlx-lm", 0, r"MLX\d{3}  .*"),
    ("rules", 0, r"[A-Z]{3}\d{3}  .*"),
    ("rules XXX999", 2, r"error: there is no rule 'XXX999'"),
    ("explain LCP003", 0, r"LCP003 vocab-size-gap: .*"),
    ("explain", 2, r"Usage: draftcheck explain .*"),
    ("explain XXX999", 2, r"error: there is no rule 'XXX999'"),
    ("schema", 0, r"cache      draftcheck cache --format json, version 1"),
    ("schema pair", 0, r"\{"),
    ("schema pairs", 2, r"error: there is no schema 'pairs'"),
    ("inspect target.gguf", 0, r"target\.gguf: llama, 847k parameters, byte-bpe, context 512"),
    ("inspect heads/eagle3", 0, r"heads/eagle3: llama, 272k parameters, context 512, role eagle3"),
    ("inspect", 2, r"Usage: draftcheck inspect .*"),
    ("inspect empty", 3, r"error: empty: an empty folder"),
    ("cache", 0, r"\d+ files, .* \(limit 4\.00 GiB\) in .*"),
    ("cache --clear", 0, r"cleared \d+ files, .* in .*"),
    # ---- publish, watch, report, scan, web, doctor, trial ----
    ("publish heads/eagle3 --target target", 1, r"heads/eagle3: \d+ errors?.*; runs in \d+ of .*"),
    ("publish heads/eagle3", 1, r"heads/eagle3: \d+ errors? and \d+ hints?"),
    ("publish empty", 3, r"error: empty: an empty folder"),
    ("watch vlm", 2, r"error: unknown engine 'vlm'"),
    ("report --store none.db", 3, r"error: .*none\.db: no such store"),
    ("scan", 2, r"error: no targets"),
    ("scan --target nobody/knows", 3, r"error: the Hub cannot be listed without the network"),
    ("web out", 3, r"error: \S+: not in the cache, and HF_HUB_OFFLINE is set"),
    ("web", 2, r"Usage: draftcheck web .*"),
    ("doctor", 3, r"error: doctor needs the network"),
    ("trial", 2, r"Usage: draftcheck trial .*"),
    ("pairs big small", 2, r"Usage: draftcheck .*"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "code", "first"), LINES, ids=[row[0][-60:] for row in LINES])
def test_the_first_line(run: Run, place: Path, command: str, code: int, first: str) -> None:
    ran = run(*command.split())
    shown = (ran.out or ran.err).splitlines()[0]
    assert (ran.code, bool(re.fullmatch(first, shown))) == (code, True), (shown, ran.err)


SERVERS = [
    ("draft", "served", 0, r"speculating: \d+ % accepted, \d\.\d\d tokens per pass.*"),
    ("draft", "fresh", 0, r"speculating: llama\.cpp \S+ at \S+ is speculating"),
    ("no draft", "served", 1, r"not-speculating: llama\.cpp \S+ at \S+ is not speculating"),
]


@pytest.mark.parametrize(("server", "state", "code", "first"), SERVERS)
def test_the_first_line_of_a_probe(
    run: Run, server: str, state: str, code: int, first: str
) -> None:
    fake = Fake(RECORDED[server][state])
    try:
        ran = run("probe", fake.url)
    finally:
        fake.close()
    assert ran.code == code and re.fullmatch(first, ran.out.splitlines()[0]), ran.out


METRICS = [
    (answers.vllm(FOREIGN), 1,
     r"not-accepting: vllm \S+ at \S+ drafts, and accepts next to nothing"),
    (answers.vllm(answers.vllm_metrics(0, 0, 0, (0, 0), 0)), 3,
     r"configured: vllm \S+ at \S+ is set up to speculate, but nothing shows .*"),
    ({"/v1/models": answers.models("vllm")}, 3,
     r"unknown: whether vllm at \S+ is speculating cannot be told"),
    ({}, 3, r"unknown: whether the server at \S+ is speculating cannot be told"),
]  # fmt: skip


@pytest.mark.parametrize(("routes", "code", "first"), METRICS, ids=range(len(METRICS)))
def test_the_first_line_of_a_probe_that_shows_little(
    run: Run, routes: dict[str, Any], code: int, first: str
) -> None:
    fake = Fake(routes)
    try:
        ran = run("probe", fake.url)
    finally:
        fake.close()
    assert ran.code == code and re.fullmatch(first, ran.out.splitlines()[0]), ran.out


def test_the_first_line_of_a_trial(run: Run, place: Path) -> None:
    """The other outcomes of a trial: tests/trial/test_speed_words.py, test_failures.py."""
    pytest.importorskip("transformers")
    (place / "p.txt").write_text("One bird\nTwo birds\n")
    common = ("--prompts", "p.txt", "--tokens", "12", "--device", "cpu", "--no-cost")
    ran = run("trial", "target", "draft", *common)
    first = r"\d+% of \d+-token drafts accepted; step costs were not measured"
    assert ran.code == 0 and re.fullmatch(first, ran.out.splitlines()[0]), ran.out
    ran = run("trial", "target", "big", *common)
    assert ran.code == 1 and ran.out.startswith("broken: "), ran.out


def test_the_first_line_of_a_lock_that_is_there(run: Run, place: Path) -> None:
    assert run("lock", "good").code == 0
    for command, first in (
        (("lock", "good", "--check"), r"draftcheck\.lock unchanged: .*"),
        (("lock", "good"), r"draftcheck\.lock unchanged: .*"),
        (("gate", "good", "--strict"), r"compatible: .*"),
    ):
        ran = run(*command)
        assert ran.code == 0 and re.fullmatch(first, ran.out.splitlines()[0]), ran.out


def test_every_command_is_in_the_table() -> None:
    assert {row[0].split()[0] for row in LINES} >= set(COMMANDS)
