"""make audit: a row beside the code at both edges of its window."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from draftcheck.rulebook import book
from tests.agreement import audit
from tests.watch.conftest import ENGINE, SOURCE, write_source, write_wheel


def committed(clone: Path, source: Path, tag: str) -> None:
    """The source as the next commit of a clone, with a tag."""
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", tag], ["tag", tag]):
        subprocess.run(["git", "-C", str(source), *command], check=True)
    source.rename(clone)


@pytest.mark.parametrize("kind", ["folders", "wheels", "clone"])
def test_a_row_and_the_code_at_its_edges(kind: str, rules: Path, tmp_path: Path) -> None:
    [rule] = [r for r in book.load(ENGINE).rules if r.id == "MLX003" and r.since]
    old = SOURCE["generate.py"].replace("if not all(", "if False and not all(")
    sources, releases = [], {"0.31.1": old, "0.31.2": SOURCE["generate.py"]}
    folder = tmp_path / "releases"
    folder.mkdir()
    for version, text in releases.items():
        source = write_source(tmp_path / f"mlx_lm-{version}", generate=text)
        if kind == "wheels":
            write_wheel(folder / f"mlx_lm-{version}-py3-none-any.whl", source, version)
        elif kind == "clone":
            committed(tmp_path / f"clone{version}", source, f"v{version}")
            sources.append(tmp_path / f"clone{version}")
        else:
            source.rename(folder / source.name)
    shown = "\n".join(audit.show(audit.Releases(book.load(ENGINE), sources or [folder]), rule))
    assert shown.count("--- since: 0.31.2, and 0.31.1 outside") == 1
    line = (
        SOURCE["generate.py"].splitlines().index("def step(prompt: str, caches: list) -> int:") + 1
    )
    assert f"0.31.2 generate.py::step, line {line}" in shown
    assert "-    if False and not all(" in shown
    assert "--- until: 0.31.2" in shown


def test_the_same_seed_draws_the_same_rows(
    rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = []
    for seed in ("7", "7", "8"):
        words = ["audit", "--seed", seed, "--rows", "3", f"{ENGINE}={tmp_path}"]
        monkeypatch.setattr("sys.argv", words)
        audit.main()
        shown = capsys.readouterr().out.splitlines()
        drawn.append([line for line in shown if line.startswith("mlx-lm MLX")])
    assert len(drawn[0]) == 3
    assert drawn[0] == drawn[1] != drawn[2]


def test_rows_that_were_read_are_left_out_until_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "audited.tsv"
    ledger.write_text("engine\tid\tdigest\tdate\twhere\nmlx-lm\tMLX001\tgone\t2026-01-01\tx\n")
    monkeypatch.setattr(audit, "AUDITED", ledger)
    first, other = book.load(ENGINE).rules[:2]
    notes = tmp_path / "notes.tsv"
    lines = [
        (ENGINE, rule.id, ",".join(rule.methods), rule.since or "-", rule.until or "-", mark, "f:1")
        for rule, mark in ((first, "right"), (other, "left"))
    ]
    lines.append((ENGINE, "MLX999", "", "-", "-", "right", "nowhere"))
    notes.write_text("".join("\t".join(line) + "\n" for line in lines))

    monkeypatch.setattr("sys.argv", ["audit", "--record", str(notes)])
    audit.main()
    told = capsys.readouterr().out
    assert told.startswith("1 rows recorded; 1 lines name no row")
    assert "MLX999" in told
    [_, kept] = ledger.read_text().splitlines()
    assert kept.split("\t")[:3] == [ENGINE, first.id, audit.row_digest(first)]

    every = len(book.load(ENGINE).rules)
    monkeypatch.setattr(
        "sys.argv", ["audit", "--unread", "--rows", str(every), f"{ENGINE}={tmp_path}"]
    )
    audit.main()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{every - 1} rows were not read since they changed"
    changed = msgspec.structs.replace(first, fix="Something else.")
    assert (ENGINE, first.id, audit.row_digest(changed)) not in audit.audited()
