"""draftcheck report: what lies in the folder, from a store, by the command."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
import sys
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from draftcheck.report import charts
from draftcheck.report.site import pages, tables, words
from draftcheck.report.site.data import SiteData
from draftcheck.report.site.written import MANIFEST
from draftcheck.rulebook import book
from tests.conftest import Run
from tests.report.site.conftest import Written, written
from tests.report.site.made_up import GATED, HOSTILE, make
from tests.report.site.stores import fill

HIDDEN = re.compile("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x00-\x08]")


class Page(HTMLParser):
    """Elements, links and texts of a page, read as a browser would."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.inside: dict[str, list[str]] = {"style": [], "script": []}
        self.words: list[str] = []
        self._open: list[str] = []
        self._kind = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in self.inside:
            kind = dict(attrs).get("type") or ""
            self._open.append(tag if not kind else f"{tag}:{kind}")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.inside and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not self._open:
            self.words.append(data)
        elif self._open[-1] in self.inside:
            self.inside[self._open[-1]].append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, found, value in self.attributes if found == name]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_every_link_leads_somewhere(small: Written) -> None:
    read = {path.name: Page(path.read_text(encoding="utf-8")) for path in small.pages()}
    assert len(read) == 6 + 4 + len(book.engine_files()) + 1
    for name, page in read.items():
        for link in page.values("href"):
            if link.startswith(("https://huggingface.co/", "data:")):
                continue
            file, _, anchor = link.partition("#")
            assert (small.folder / unquote(file or name)).is_file(), f"{name}: {link}"
            if anchor and not file.startswith("matrix.html"):
                assert anchor in read[file or name].values("id"), f"{name}: {link}"


def test_a_page_asks_for_nothing_and_runs_only_its_own_script(small: Written) -> None:
    for path in small.pages():
        page = Page(path.read_text(encoding="utf-8"))
        policy = next(v for v in page.values("content") if v.startswith("default-src"))
        assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
        assert "unsafe" not in policy
        for text in (*page.inside["style"], *page.inside["script"]):
            digest = b64encode(sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy, path.name
        assert not page.values("src") and not page.values("style")
        assert not [name for _, name, _ in page.attributes if name.startswith("on")]
        assert page.elements["link"] == 1 and page.elements["iframe"] == 0
        assert "url(" not in "".join(page.inside["style"])
        assert "@import" not in "".join(page.inside["style"])


def test_hostile_names_stay_text(small: Written) -> None:
    target = Page(small.text(words.target_page(HOSTILE[0])))
    assert target.elements["script"] == 1 and target.elements["img"] == 0
    assert HOSTILE[0] in target.text
    everything = Page(small.text("matrix.html"))
    assert everything.elements["script"] == 2
    block = small.text("matrix.html").split('id="data">')[1].split("</script>")[0]
    assert not set("<>&") & set(block)
    assert HOSTILE[2] in [model[0] for model in json.loads(block)["drafts"]]
    for path in small.pages():
        text = path.read_text(encoding="utf-8")
        assert not HIDDEN.search(text), path.name
        assert "{{7*7}}" not in text or "49" not in re.findall(r"evil/\S{0,9}", text)
    assert "evil/\\u202egpj.exe\\u2066rtl" in Page(small.text("index.html")).text
    assert max(map(len, re.findall(r"x{50,}", small.text("index.html")))) < 100


def test_names_of_pages_are_tame_and_stay_the_same() -> None:
    found = [
        words.target_page(ref) for ref in (*HOSTILE, "Org/Name", "org/name", "../../etc", "", "con")
    ]
    assert len({name.lower() for name in found}) == len(found)
    for name in found:
        assert pages.OURS.fullmatch(name) and len(name) < 100
    assert words.target_page("Qwen/Qwen3-8B") == "target-qwen-qwen3-8b-a82fd54762.html"


def test_a_target_page_tells_each_engine_s_verdict(small: Written) -> None:
    target = small.site.targets[2]
    data = json.loads(small.text("data.json"))
    pairs = [pair for pair in data["pairs"] if pair["target"] == target.ref]
    assert [pair["rank"] for pair in pairs] == list(range(1, len(pairs) + 1))
    best = pairs[0]
    text = Page(small.text(words.target_page(target.ref))).text
    start = text.index("Engine by engine")
    for place in best["answers"]:
        answer = data["answers"][place]
        row = f"{answer['engine']} {answer['version']}"
        found = text.index(row, start)
        assert text[found:].split(answer["verdict"])[0].count(" ") < 8
        for finding in answer["findings"]:
            assert finding["saw"] in text
    assert "Speed-up" in text and "h100" in text


def test_json_says_what_the_store_says(small: Written) -> None:
    data = json.loads(small.text("data.json"))
    assert data["schema_version"] == 1 and data["scan"]["number"] == 12
    said = {
        (pair["target"], pair["draft"], data["answers"][place]["asked"]): data["answers"][place]
        for pair in data["pairs"]
        for place in pair["answers"]
    }
    with sqlite3.connect(small.store) as db:
        stored = db.execute(
            "SELECT target, draft, asked, verdict, reaction FROM verdicts WHERE draft != ''"
        ).fetchall()
    assert len(stored) == len(said) == 6 * 48 * len(book.engine_files())
    for target, draft, asked, verdict, reaction in stored:
        answer = said[target, draft, asked]
        assert (answer["verdict"], answer["reaction"]) == (verdict, reaction)


def test_csv_calculates_nothing(small: Written) -> None:
    with (small.folder / "pairs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 * 48
    assert {row["llama.cpp"] for row in rows} <= {
        "compatible",
        "degraded",
        "incompatible",
        "undecided",
    }
    for row in rows:
        for value in row.values():
            assert not value.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert next(row["draft"] for row in rows if "HYPERLINK" in row["draft"]).startswith("'=")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"),
        (" =1", "' =1"),
        ("a;=1", "a;'=1"),
        ('"=1', "'\"=1"),
        ("＝1", "'＝1"),
        ("a\t@b", "a\\x09@b"),
        ("-1", "'-1"),
        ("org/a-b", "org/a-b"),
        (-1, -1),
        (None, None),
    ],
)
def test_cells(text: object, shown: object) -> None:
    assert tables.cell(text) == shown


def test_the_same_store_gives_the_same_bytes(small: Written, run: Run, tmp_path: Path) -> None:
    assert run("report", "--store", small.store, "--output", tmp_path).code == 0
    assert contents(tmp_path) == contents(small.folder)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_pages_of_targets_that_left_are_taken_away(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    before = written(make(3, 6, hostile=False), tmp_path)
    (folder / "notes.html").write_text("mine", encoding="utf-8")
    gone = words.target_page(before.site.targets[2].ref)
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"] += ["../scan.db", "notes.html", 7, "target-x.html/../../scan.db"]
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    with sqlite3.connect(before.store) as db:
        db.execute("DELETE FROM targets WHERE ref = ?", (before.site.targets[2].ref,))
    assert run("report", "--store", before.store, "--output", folder).code == 0
    assert not (folder / gone).exists()
    assert (folder / "notes.html").exists() and before.store.exists()
    assert (folder / words.target_page(before.site.targets[1].ref)).exists()


def test_ranked_by_what_was_measured_and_only_on_these_commits(run: Run, tmp_path: Path) -> None:
    made = written(make(1, 60, hostile=False), tmp_path)
    [target] = made.site.targets
    measured = [pair for pair in made.site.pairs[target.ref] if pair.trial]
    assert len(measured) > 1
    data = json.loads(made.text("data.json"))
    gains = [pair["speedup"] for pair in data["pairs"] if pair["speedup"]]
    assert gains == sorted(gains, reverse=True) and len(gains) == len(measured)
    assert data["pairs"][0]["speedup"] == gains[0]
    best, second = data["pairs"][0]["draft"], data["pairs"][1]["draft"]
    with sqlite3.connect(made.store) as db:
        db.execute("UPDATE models SET revision = 'other' WHERE ref = ?", (best,))
        body = json.dumps({**(measured[0].trial or {}), "broken": "the head is random"})
        db.execute("UPDATE trials SET body = ? WHERE draft = ?", (body, second))
    assert run("report", "--store", made.store, "--output", made.folder).code == 0
    pairs = {pair["draft"]: pair for pair in json.loads(made.text("data.json"))["pairs"]}
    assert pairs[best]["speedup"] is None and pairs[best]["trial"] is None
    assert "broken" in pairs[second]["why"]
    assert pairs[second]["rank"] > max(p["rank"] for p in pairs.values() if p["speedup"])
    assert "the head is random" in Page(made.text(words.target_page(target.ref))).text


def test_changes_name_their_cause_and_pinned_pairs_come_first(small: Written) -> None:
    text = Page(small.text("changes.html")).text
    assert text.index("tokenizer.json changed") < text.index("sglang 0.5.22 became 0.5.23")
    assert text.index("broke pinned") < text.index("new model")
    assert "Scan 12" in text and "scan 11" in text
    assert Page(small.text("index.html")).text.count("broke pinned") == 1
    assert "Scan 11, 2026-11-14 02:00 UTC 1 broke, 1 new" in text


def test_pinned_pairs_and_unread_models_are_on_the_first_page(small: Written) -> None:
    text = Page(small.text("index.html")).text
    [_, good, bad] = small.site.pins
    assert f"holds {good.draft} for {good.target}" in text
    assert f"broken {bad.draft} for {bad.target}" in text
    assert "1 pinned pair is broken, 1 got worse." in text
    assert text.index("broken lab") < text.index("worse evil") < text.index("holds evil")
    assert "lab/gated-<i> gated: ask its <b>owner</b>" in text
    assert "requests 1,234" in text


def test_no_reason_is_empty_and_what_is_gated_is_marked(small: Written) -> None:
    page = Page(small.text(words.target_page(small.site.targets[4].ref))).text
    assert "not applicable the rulebook does not cover gguf files with vllm" in page
    assert "undecided unknown LCP005 not checked: the tokenizer of the draft was not read" in page
    assert f"{GATED} gated" in Page(small.text(words.target_page(small.site.targets[3].ref))).text
    alone = Page(small.text(words.target_page(small.site.targets[-1].ref))).text
    assert "sglang 1 not applicable no such files" in alone
    block = json.loads(small.text("matrix.html").split('id="data">')[1].split("</script>")[0])
    assert all(answer[5] for answer in block["answers"] if answer[1] > 1)
    assert [draft[0] for draft in block["drafts"] if draft[6]] == [GATED]


def test_a_night_without_pins_or_changes_says_so(run: Run, tmp_path: Path) -> None:
    made = written(make(1, 12, hostile=False), tmp_path)
    with sqlite3.connect(made.store) as db:
        db.execute("DELETE FROM pins")
        db.commit()
        assert run("report", "--store", made.store, "--output", made.folder).code == 0
        text = Page(made.text("index.html")).text
        assert "Since the last scan: 2 broke, 1 gone, 1 work now, 1 new." in text
        db.execute("DELETE FROM changes")
        db.commit()
        assert run("report", "--store", made.store, "--output", made.folder).code == 0
    assert "Nothing changed since the last scan." in Page(made.text("index.html")).text


def test_a_measured_slowdown_is_no_recommendation(run: Run, tmp_path: Path) -> None:
    made = written(make(1, 12, hostile=False), tmp_path)
    with sqlite3.connect(made.store) as db:
        longer = {"draft_tokens": 8, "acceptance_by_position": [0.5**n for n in range(1, 9)]}
        slow = {
            "lengths": [{"draft_tokens": 1, "speedup": 0.54, "tokens_per_pass": 1.2}, longer],
            "acceptance_by_position": [0.5],
        }
        for draft, body in db.execute("SELECT draft, body FROM trials").fetchall():
            body = json.dumps({**json.loads(body), **slow})
            db.execute("UPDATE trials SET body = ? WHERE draft = ?", (body, draft))
        db.execute("DELETE FROM verdicts WHERE draft NOT IN (SELECT draft FROM trials)")
    assert run("report", "--store", made.store, "--output", made.folder).code == 0
    page = made.text(words.target_page(made.site.targets[0].ref))
    assert 'aria-label="Accepted by position' in page
    text = Page(page).text
    assert "No draft pays The best one measured is 0.54×" in text
    assert "Switch it on" not in text


def test_an_unfinished_scan_is_said(run: Run, tmp_path: Path) -> None:
    made = written(make(1, 2, hostile=False), tmp_path)
    assert "did not finish" not in made.text("index.html")
    with sqlite3.connect(made.store) as db:
        db.execute("UPDATE scans SET state = 'partial' WHERE number = 12")
        db.execute("DELETE FROM scans WHERE number = 11")
    assert run("report", "--store", made.store, "--output", made.folder).code == 0
    assert "This scan did not finish" in made.text("index.html")
    assert "no earlier scan" in made.text("changes.html")


def test_a_target_without_a_draft_and_one_that_was_not_read(run: Run, tmp_path: Path) -> None:
    made = written(make(2, 3, hostile=False), tmp_path)
    with sqlite3.connect(made.store) as db:
        db.execute("DELETE FROM verdicts")
        db.execute("UPDATE targets SET problem = 'gated <b>' WHERE place = 1")
    assert run("report", "--store", made.store, "--output", made.folder).code == 0
    assert (
        "Not read: gated <b>" in Page(made.text(words.target_page(made.site.targets[1].ref))).text
    )
    assert "No draft that was looked at" in made.text(words.target_page(made.site.targets[0].ref))


def test_rule_pages_have_every_rule(small: Written) -> None:
    for engine in book.engine_files():
        page = Page(small.text(words.rules_page(engine)))
        found = book.load(engine)
        assert {rule.id for rule in found.rules} <= set(page.values("id"))
        for rule in found.rules:
            assert " ".join(rule.source.split()) in page.text


def test_a_site_of_eighteen_targets_is_small(large: Written) -> None:
    sizes = {name: len(text) for name, text in contents(large.folder).items()}
    html = [size for name, size in sizes.items() if name.endswith(".html")]
    assert sizes["matrix.html"] < 400_000
    assert sum(html) < 3_350_000 and max(html) < 1_000_000
    assert sum(sizes.values()) < 9_750_000


def test_charts_take_their_colours_from_the_page(small: Written) -> None:
    text = small.text(words.target_page(small.site.targets[2].ref))
    [first, *_] = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert "var(--s1)" in first and "#0000" not in first
    assert "style=" not in first and "<style" not in first and "xlink" not in first
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert "draft tokens" in first and 'aria-label="Speed-up' in first
    assert first.count('<path d="M') >= 3 and 'stroke-dasharray="7 3"' in first
    charts = re.findall(r'<svg[^>]*aria-label="([^"]+)', text)
    wanted = ("Speed-up: ", "Speed-up by load", "Accepted by position", "Memory with each draft")
    assert [name.startswith(word) for name, word in zip(charts, wanted, strict=True)] == [True] * 4
    memory = re.findall(r"<svg.*?</svg>", text, re.DOTALL)[-1]
    assert "to use on h100: 79.0 GiB" in memory and "target and cache" in memory


def test_a_chart_writes_names_as_they_are() -> None:
    lines = [charts.ChartLine("a/$x^2$<b>&\u202e", [1, 2], [1.0, 2.0])]
    svg = charts.curves(lines, "T", "x", "y", one=True)
    assert "a/$x^2$&lt;b&gt;&amp;\\u202e" in svg
    ElementTree.fromstring(svg)


@pytest.mark.parametrize(
    ("high", "whole", "expected"),
    [
        (1.0, False, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (2.58, False, [0, 0.5, 1, 1.5, 2, 2.5, 3]),
        (5.0, True, [0, 1, 2, 3, 4, 5]),
        (3, True, [0, 1, 2, 3]),
        (288, True, [0, 50, 100, 150, 200, 250, 300]),
        (0, False, [0]),
    ],
)
def test_ticks_are_round_and_cover_the_figures(
    high: float, whole: bool, expected: list[float]
) -> None:
    marks = charts.ticks(high, whole=whole)
    assert marks == expected or (high == 0 and marks[0] == 0)
    assert marks[-1] >= high
    assert charts.from_one(24) == [1, 5, 10, 15, 20]


def damaged(path: Path, statement: str) -> Path:
    with sqlite3.connect(path) as db:
        db.execute(statement)
    return path


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("PRAGMA user_version = 99", "newer draftcheck"),
        ("PRAGMA application_id = 7", "no store of draftcheck"),
        ("UPDATE verdicts SET findings = '{'", "damaged"),
        ("UPDATE verdicts SET verdict = 'splendid'", "damaged"),
        ("DELETE FROM scans", "no scan is stored"),
    ],
)
def test_a_store_that_is_not_right(run: Run, tmp_path: Path, statement: str, words: str) -> None:
    store = damaged(fill(tmp_path / "s.db", make(1, 2, hostile=False)), statement)
    ran = run("report", "--store", store, "--output", tmp_path / "out")
    assert ran.code == 3 and words in ran.err and "Traceback" not in ran.err
    assert len(ran.err.splitlines()) <= 2 and ran.out == ""


def test_no_store_and_no_room(run: Run, tmp_path: Path, small: Written) -> None:
    ran = run("report", "--store", tmp_path / "none.db", "--output", tmp_path / "out")
    assert ran.code == 3 and "no such store" in ran.err
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    ran = run("report", "--store", small.store, "--output", tmp_path / "file" / "below")
    assert ran.code == 3 and "cannot be written" in ran.err
    (tmp_path / "text.db").write_text("not a database at all, just text", encoding="utf-8")
    ran = run("report", "--store", tmp_path / "text.db", "--output", tmp_path / "out")
    assert ran.code == 3
    assert run("report", "--store", small.store, "--output", tmp_path / "file").code == 2


def test_the_report_reads_while_a_scan_writes(run: Run, tmp_path: Path, small: Written) -> None:
    from draftcheck.scan.store import ScanStore

    shutil.copy(small.store, tmp_path / "s.db")
    with ScanStore.open(tmp_path / "s.db") as store, store.transaction() as db:
        db.execute("DELETE FROM verdicts")
        ran = run("report", "--store", tmp_path / "s.db", "--output", tmp_path / "out")
        assert ran.code == 0, ran.err
    assert len(list((tmp_path / "out").glob("target-*.html"))) == 6


@pytest.mark.parametrize("name", ["index.html", "data.json", "pairs.csv", "files.json"])
def test_files_of_others_stay(run: Run, tmp_path: Path, small: Written, name: str) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / name).write_text("mine", encoding="utf-8")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    ran = run("report", "--store", small.store, "--output", folder)
    assert ran.code == 3 and f"{name}: not a file that draftcheck wrote" in ran.err
    assert {path.name for path in folder.iterdir()} == {name, "notes.txt"}
    assert (folder / name).read_text(encoding="utf-8") == "mine"


def test_a_night_that_was_killed_while_it_wrote(
    run: Run, tmp_path: Path, small: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("report", "--store", small.store, "--output", tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(pages.SitePages, "matrix", lambda self: 1 / 0)
        assert run(*command).code == 70
    assert (tmp_path / "out" / "index.html").exists()
    assert run(*command).code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_links_in_the_folder_are_not_followed(run: Run, tmp_path: Path, small: Written) -> None:
    command = ("report", "--store", small.store, "--output", tmp_path / "out")
    assert run(*command).code == 0
    precious = tmp_path / "precious"
    precious.write_text("mine", encoding="utf-8")
    for name in ("index.html", "data.json"):
        (tmp_path / "out" / name).unlink()
        (tmp_path / "out" / name).symlink_to(precious)
    assert run(*command).code == 0
    assert precious.read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "out" / "index.html").is_symlink()


def test_an_empty_site_is_a_site(tmp_path: Path) -> None:
    nothing = SiteData(title="Nothing <yet>", targets=[], drafts=[], columns=[], pairs={})
    assert "index.html" in pages.write(nothing, tmp_path)
    assert "Nothing &lt;yet&gt;" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_a_file_and_a_badge_for_other_programs(small: Written, tmp_path: Path) -> None:
    """Only for names that are fit for files; a badge says what the pages say."""
    whole = json.loads((small.folder / "data.json").read_text(encoding="utf-8"))
    fit = [t["ref"] for t in whole["targets"] if pages.REPO.fullmatch(t["ref"])]
    written = {
        str(path.relative_to(small.folder / "api" / "pairs")).removesuffix(".json")
        for path in (small.folder / "api").rglob("*.json")
    }
    assert fit and written == set(fit)
    for ref in fit:
        body = json.loads((small.folder / "api" / "pairs" / f"{ref}.json").read_text())
        pairs = [pair for pair in whole["pairs"] if pair["target"] == ref]
        assert [pair["draft"] for pair in body["pairs"]] == [pair["draft"] for pair in pairs]
        for mine, theirs in zip(body["pairs"], pairs, strict=True):
            places = zip(mine["answers"], theirs["answers"], strict=True)
            assert all(body["answers"][a] == whole["answers"][b] for a, b in places)
        ways = body["methods"]
        assert [row["rank"] for row in ways] == list(range(1, len(ways) + 1))
        page = (small.folder / words.target_page(ref)).read_text(encoding="utf-8")
        assert all(escape(row["method"]) in page for row in ways)
        usable = {pair["draft"] for pair in pairs if pair["verdict"] in ("compatible", "degraded")}
        assert {row["draft"] for row in ways if row["verdict"]} <= usable | {None}
    seen = set()
    made = {str(path.relative_to(small.folder)) for path in small.folder.rglob("*.svg")}
    for pair in small.site.every():
        if pages.badge_file(pair) in made:
            seen.add(pair.verdict)
            picture = ElementTree.parse(small.folder / pages.badge_file(pair)).getroot()
            texts = [text.text or "" for text in picture.iter() if text.tag.endswith("text")]
            word = {"compatible": "works: ", "degraded": "runs, degraded: "}.get(str(pair.verdict))
            assert texts[0] == "draftcheck"
            assert texts[1].startswith(word or "no engine known")
    assert len(seen) >= 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_a_linked_folder_inside_is_not_followed(run: Run, tmp_path: Path, small: Written) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "api").symlink_to(tmp_path / "elsewhere")
    ran = run("report", "--store", small.store, "--output", tmp_path / "out")
    assert ran.code == 3 and "a link, not a folder" in ran.err
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_method_comes_first(run: Run, tmp_path: Path) -> None:
    """By what the scan measured; without trials by what is published, read or not."""
    made = written(make(1, 60, hostile=False), tmp_path)
    [target] = made.site.targets
    tables = {"targets": "ref", "models": "ref", "verdicts": "target", "trials": "target"}
    with sqlite3.connect(made.store) as db:
        for table, column in tables.items():
            name = "Qwen/Qwen3-8B"
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (name, target.ref))

    def first() -> tuple[dict[str, Any], str]:
        assert run("report", "--store", made.store, "--output", made.folder).code == 0
        rows = json.loads(made.text("api/pairs/Qwen/Qwen3-8B.json"))["methods"]
        return rows[0], Page(made.text("index.html")).text

    best, overview = first()
    assert (best["known_by"], best["published"]) == ("measured", None)
    assert best["speedup"] > 1 and best["method"] in overview
    with sqlite3.connect(made.store) as db:
        db.execute("DELETE FROM trials")
    best, overview = first()
    assert (best["known_by"], best["verdict"]) == ("published", None)
    assert best["draft"] == "z-lab/Qwen3-8B-DFlash-b16" and "DFlash" in overview
    page = Page(made.text(words.target_page("Qwen/Qwen3-8B"))).text
    assert page.index("Methods, best first") < page.index("Drafts, best first")
