"""docs/rules is made from the rulebook: every rule has its page, and none is out of date."""

from __future__ import annotations

from pathlib import Path

from draftcheck.report import rules
from draftcheck.rulebook import book
from tests.conftest import ROOT, Run

FOLDER = ROOT / "docs" / "rules"


def test_docs_are_up_to_date() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    pages = rules.render_pages()
    assert set(there) == set(pages), "run `make docs`"
    stale = [name for name, text in pages.items() if there[name] != text]
    assert not stale, "run `make docs`"


def test_every_rule_and_method_is_on_a_page(run: Run, tmp_path: Path) -> None:
    ran = run("rules", "--pages", tmp_path / "new" / "rules")
    assert ran.code == 0, ran.err
    for name in book.engine_files():
        page = (tmp_path / "new" / "rules" / f"{name}.md").read_text(encoding="utf-8")
        engine = book.load(name)
        for rule in engine.rules:
            assert f"## {rule.id} {rule.slug}\n" in page
            assert rule.source.replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|") in page
        for method in engine.methods:
            assert f"| `{method.id}` |" in page


def test_a_folder_that_cannot_be_written_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    ran = run("rules", "--pages", tmp_path / "file" / "below")
    assert ran.code == 3
    assert "cannot be written" in ran.err


def test_json_lists_engines_and_their_methods(run: Run) -> None:
    body = run("rules", "--format", "json").json
    assert [entry["engine"] for entry in body["engines"]] == list(book.engine_files())
    vllm = next(entry for entry in body["engines"] if entry["engine"] == "vllm")
    assert "draft_model" in {method["method"] for method in vllm["methods"]}


def test_repairs_name_rules_that_exist() -> None:
    known = {rule.id for name in book.engine_files() for rule in book.load(name).rules}
    known |= {rule.id for rule in book.truth()}
    for name in book.engine_files():
        for row in book.load(name).repairs:
            assert set(row.rules) <= known, row.id
    for row in book.truth_repairs():
        assert set(row.rules) <= known, row.id
