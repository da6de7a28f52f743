"""A list that is longer than anybody wants to hold, or to ask for twice."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from draftcheck.errors import UsageError
from draftcheck.scan import hub_list, run, store, targets
from draftcheck.scan.rows import HubWalkRow, StandingRow
from draftcheck.scan.store import ScanStore
from draftcheck.scan.targets import HubSearch, ScanJob
from tests.conftest import ROOT, Ran
from tests.hub import Hub
from tests.hub.log import Entry
from tests.hub.many import STRANGER, TASK, ManyRepos
from tests.hub.process import HANGS, Draftcheck, assert_calm, finish
from tests.scan.world import TARGET, assert_same, checkpoint, results

pytest.importorskip("huggingface_hub")
ROWS, PAGE = 20_000, 100
ALL = ("--filter", TASK, "--limit", "all")
PEAK = """
import sys
from draftcheck.cli import main
code = main(sys.argv[1:])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
sys.exit(code)
"""


def scan_args(path: Path, *more: object) -> tuple[object, ...]:
    return ("scan", "--target", TARGET, "--store", path, "--quiet", "--workers", "1", *more)


def night(draftcheck: Draftcheck, path: Path, *more: object, code: int = 0) -> Ran:
    ran = draftcheck(*scan_args(path, "--format", "json", *more))
    assert_calm(ran)
    assert ran.code == code, ran.err + ran.out
    return ran


def pages(hub: Hub) -> list[Entry]:
    return [entry for entry in hub.log if entry.path == "/api/models"]


@pytest.fixture
def many() -> Iterator[ManyRepos]:
    with ManyRepos(ROWS) as hub:
        hub.list_page = PAGE
        hub.add_repo(TARGET, checkpoint(large=True))
        hub.add_repo("org/draft", checkpoint())
        hub.add_repo(STRANGER, checkpoint(seed=1))
        yield hub


def test_the_first_night_and_the_next(many: ManyRepos, tmp_path: Path) -> None:
    path, draftcheck = tmp_path / "s.db", Draftcheck(many, tmp_path / "home")
    first = night(draftcheck, path, *ALL).json
    asked = pages(many)
    assert len(asked) == ROWS // PAGE + 1
    assert {entry.arguments["filter"][0] for entry in asked} == {TASK}
    assert first["scan"]["counts"]["listed"] == ROWS + 3
    assert first["targets"][0]["usable_drafts"] == 1
    assert path.stat().st_size / ROWS <= 1000, "bytes for a repo that is no candidate"
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT stage, count(*) FROM repos GROUP BY stage").fetchall()
    assert dict(rows) == {None: 2, "digest": 1, "listing": ROWS}
    whole = many.requests
    many.change()
    many.reset()
    following = night(draftcheck, path, *ALL).json
    assert many.requests <= 0.03 * whole, many.story()
    assert following["scan"]["counts"]["listed"] < 0.03 * ROWS
    assert following["changes"] == [] and following["targets"][0]["usable_drafts"] == 1
    with closing(sqlite3.connect(path)) as db:
        changed = "SELECT count(*) FROM repos WHERE sha LIKE '%beef0000'"
        assert db.execute(changed).fetchone()[0] == ROWS // 100


def test_a_killed_walk_goes_on_where_it_was(many: ManyRepos, tmp_path: Path) -> None:
    path, draftcheck = tmp_path / "s.db", Draftcheck(many, tmp_path / "home")
    child = draftcheck.start(*scan_args(path, *ALL))
    many.fault("call", path="/api/models", nth=60, do=child.kill)
    finish(child)
    before = len(pages(many))
    assert 59 <= before <= 62
    assert night(draftcheck, path, *ALL).json["scan"]["counts"]["listed"] == ROWS + 3
    # The pages under way when it was killed are asked for again, and no others.
    assert ROWS // PAGE + 1 <= len(pages(many)) <= ROWS // PAGE + 4
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*), max(seen) FROM repos").fetchone() == (ROWS + 3, 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_does_not_grow_with_the_list(tmp_path: Path) -> None:
    peaks = []
    for rows in (2_000, ROWS):
        with ManyRepos(rows, candidate_every=50) as hub:
            hub.add_repo(TARGET, checkpoint(large=True))
            hub.add_repo(STRANGER, checkpoint(seed=1))
            home = tmp_path / str(rows)
            home.mkdir()
            done = subprocess.run(
                [sys.executable, "-c", PEAK, *map(str, scan_args(home / "s.db", *ALL))],
                env={**hub.env(home), "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                timeout=HANGS,
            )
            assert done.returncode == 0, done.stderr
            peaks.append(int(done.stdout.split()[-1]) / 1024)
            asked = [entry for entry in hub.log if "/revision/" in entry.path]
            assert len(asked) == rows // 50 + 2
    assert peaks[1] - peaks[0] < 8, f"MB: {peaks}"


# ---- a short list of the same kind, where repos can be changed one by one ----


@pytest.fixture
def dated(hub: Hub) -> Hub:
    """The usual repos, each older than the one before, two to a page."""
    hub.list_page = 2
    for number, repo in enumerate(hub.repos.values()):
        repo.last_modified = f"2026-10-{28 - number:02}T12:00:00.000Z"
    return hub


def touch(hub: Hub, name: str, hour: int = 0) -> None:
    hub.repos[name].last_modified = f"2026-11-03T{hour:02}:00:00.000Z"


def test_only_the_news_is_listed(dated: Hub, draftcheck: Draftcheck, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    night(draftcheck, path, "--limit", "all")
    assert len(pages(dated)) == -(-len(dated.repos) // 2)
    dated.add_repo("org/newcomer", checkpoint(layers=3))
    touch(dated, "org/newcomer", 1)
    dated.repos["org/draft-1"].commit(checkpoint(seed=1))
    touch(dated, "org/draft-1")
    dated.reset()
    ran = night(draftcheck, path, "--limit", "all")
    assert len(pages(dated)) == 2, dated.story()
    kinds = {(change["draft"], change["kind"]) for change in ran.json["changes"]}
    assert kinds == {("org/newcomer", "new"), ("org/draft-1", "gone")}
    # Who was not listed again is there as before.
    found = {row.draft for row in results(path)["verdicts"]}
    assert found == {None, "org/draft-0", "org/draft-2", "org/draft-3", "org/tuned", "org/newcomer"}


def test_a_page_with_news_is_never_the_last(
    dated: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    """However old it is: a repo may have been opened to the public long after its last change."""
    path = tmp_path / "s.db"
    night(draftcheck, path, "--limit", "all")
    for name, hour in (("org/opened", 20), ("org/opened-too", 11)):
        dated.add_repo(name, checkpoint(layers=3))
        dated.repos[name].last_modified = f"2026-10-27T{hour}:00:00.000Z"
    dated.reset()
    night(draftcheck, path, "--limit", "all")
    assert len(pages(dated)) == 3, dated.story()
    assert {"org/opened", "org/opened-too"} <= {row.draft for row in results(path)["verdicts"]}


def test_it_finds_what_a_whole_walk_finds(
    dated: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    brief, whole = tmp_path / "brief.db", tmp_path / "whole.db"
    for path in (brief, whole):
        night(draftcheck, path, "--limit", "all")
    dated.repos["org/draft-1"].commit({**checkpoint(layers=2), "README.md": "# New words\n"})
    dated.repos["org/draft-2"].commit({"README.md": "# nothing\n"})
    for number, name in enumerate(("org/draft-1", "org/draft-2")):
        touch(dated, name, number)
    night(draftcheck, brief, "--limit", "all")
    night(draftcheck, whole, "--limit", "all", "--relist")
    assert_same(results(brief), results(whole))


def test_who_vanished_shows_when_all_is_listed(
    dated: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"
    night(draftcheck, path, "--limit", "all")
    del dated.repos["org/draft-0"]
    assert night(draftcheck, path, "--limit", "all").json["changes"] == []
    gone = night(draftcheck, path, "--limit", "all", "--relist").json["changes"]
    assert {(c["draft"], c["cause"]) for c in gone} == {("org/draft-0", "vanished")}


def test_all_is_listed_again_now_and_then(
    dated: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"
    counts = []
    for _ in range(hub_list.AGAIN + 1):
        dated.reset()
        night(draftcheck, path, "--limit", "all")
        counts.append(len(pages(dated)))
    assert counts == [6, *[1] * (hub_list.AGAIN - 1), 6]


@pytest.mark.parametrize("more", [("--filter", "x"), ("--limit", "9")], ids=" ".join)
def test_another_question_is_asked_in_full(
    dated: Hub, draftcheck: Draftcheck, tmp_path: Path, more: tuple[str, ...]
) -> None:
    path = tmp_path / "s.db"
    for repo in dated.repos.values():
        repo.tags = ("x",)
    night(draftcheck, path, "--limit", "all")
    night(draftcheck, path, "--limit", "all", *more)
    assert len(pages(dated)) > 10
    dated.reset()
    night(draftcheck, path, "--limit", "all")
    assert len(pages(dated)) == 6, "in between, rows of the other answer were written"


def test_beside_a_limit_everything_is_listed(
    dated: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    """Who is no longer among the most downloaded must not stay for the other list's sake."""
    path, file = tmp_path / "s.db", tmp_path / "t.toml"
    file.write_text('[[candidates]]\nsearch = "draft"\nlimit = "all"\n[[candidates]]\nlimit = 2\n')
    for _ in range(2):
        dated.reset()
        night(draftcheck, path, file)
        assert len(pages(dated)) == 3, dated.story()


def test_a_new_target_takes_repos_back(dated: Hub, draftcheck: Draftcheck, tmp_path: Path) -> None:
    """Those of another family, and those that were larger than every target."""
    path = tmp_path / "s.db"
    dated.repos["org/tuned"].extra["safetensors"] = {"total": 5_000_000}
    small = ("scan", "--target", "org/draft-3", "--store", path, "--limit", "all", "--quiet")
    assert draftcheck(*small).code == 0
    why = {row.repo: row.stage for row in results(path)["rejected"]}
    assert why["other/small"] == "digest" and why["org/tuned"] == "listing"
    dated.reset()
    assert draftcheck(*small, "--target", TARGET, "--target", "other/large").code == 0
    assert len(pages(dated)) == 1, dated.story()
    verdicts = {(row.target, row.draft) for row in results(path)["verdicts"]}
    assert {("other/large", "other/small"), (TARGET, "org/tuned")} <= verdicts
    dated.reset()
    assert draftcheck(*small).code == 0
    again = {row.repo: row.stage for row in results(path)["rejected"]}
    assert again == why


def test_a_list_in_another_order_is_walked_whole(
    dated: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"
    night(draftcheck, path, "--limit", "all")
    dated.sorts = False
    dated.reset()
    night(draftcheck, path, "--limit", "all")
    assert len(pages(dated)) == 6


def test_a_place_that_the_hub_forgot(dated: Hub, draftcheck: Draftcheck, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    stopped = draftcheck(*scan_args(path, "--limit", "all", "--max-time", "0.000001"))
    assert stopped.code == 3, "its target is not read yet"
    with ScanStore.open(path, readonly=True) as opened:
        [walk] = opened.read(HubWalkRow)
    assert walk.following and walk.listed == 2
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE walks SET following = 'https://elsewhere.example/api/models?cursor=2'")
    dated.reset()
    ran = night(draftcheck, path, "--limit", "all")
    assert len(pages(dated)) == 6 and ran.json["scan"]["counts"]["listed"] == len(dated.repos)


def test_no_query_of_a_night_reads_all_repos(
    dated: Hub, draftcheck: Draftcheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EXPLAIN QUERY PLAN of every statement that a night of a known Hub sends."""
    path = tmp_path / "s.db"
    night(draftcheck, path, "--limit", "all")
    dated.repos["org/draft-1"].commit({**checkpoint(layers=2), "README.md": "# New words\n"})
    touch(dated, "org/draft-1")
    sent: set[str] = set()
    connect: Callable[..., sqlite3.Connection] = store._connect

    def traced(*arguments: str) -> sqlite3.Connection:
        db = connect(*arguments)
        db.set_trace_callback(sent.add)
        return db

    monkeypatch.setattr(store, "_connect", traced)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    for name, value in dated.env(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    job = ScanJob(targets=(TARGET,), candidates=(HubSearch(limit=None),))
    assert run.scan(job, path).scan.complete
    about = [text for text in sent if " repos" in text and not text.startswith("EXPLAIN")]
    assert len(about) > 8
    with closing(sqlite3.connect(path)) as db:
        for text in about:
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {text}")]
            steps = [step for step in plan if " repos" in step]
            assert all("repos_open" in step or "(name=?)" in step for step in steps), (text, plan)
        [[pairs]] = db.execute(
            "SELECT group_concat(sql) FROM sqlite_master WHERE name = 'pairs_since'"
        )
        assert "target, since" in pairs


def test_what_a_list_of_targets_may_say(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[[candidates]]\nfilters = ["text-generation"]\nlimit = "all"\n')
    assert targets.load(file).candidates == (HubSearch((TASK,), limit=None),)
    for table, word in (("search", "all"), ("candidates", "most")):
        file.write_text(f'[[{table}]]\nlimit = "{word}"\n')
        with pytest.raises(UsageError, match=f"limit '{word}' is no number of models"):
            targets.load(file)


def test_a_store_of_the_first_version_goes_on(hub: Hub, tmp_path: Path) -> None:
    """Offline, by the list of its last scan."""
    path, draftcheck = tmp_path / "s.db", Draftcheck(hub, tmp_path / "home")
    night(draftcheck, path)
    before = results(path)
    with closing(sqlite3.connect(path)) as db, db:
        for statement in (
            "DROP TABLE walks", "DROP TABLE standing", "DROP INDEX repos_open",
            "DROP INDEX pairs_since", "CREATE INDEX repos_seen ON repos (seen)",
            "PRAGMA user_version = 1",
        ):  # fmt: skip
            db.execute(statement)
    night(draftcheck, path, "--offline")
    assert results(path)["verdicts"] == before["verdicts"]
    with ScanStore.open(path, readonly=True) as opened:
        assert [row.base for row in opened.read(StandingRow)] == [1]
