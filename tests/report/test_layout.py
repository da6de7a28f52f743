"""What all reports share: sizes, wrapped fields, columns, versions in words."""

from __future__ import annotations

import pytest

from draftcheck.report.layout import padded, plural, table_row, version_window, wrapped
from draftcheck.values.sizes import byte_size, short_count
from tests.conftest import FIXTURES, Run


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (494_032_768, "494M"),
        (1_543_714_304, "1.54B"),
        (32_763_876_352, "32.8B"),
        (1_026_470_731_056, "1.03T"),
    ],
)
def test_counts(number: int, shown: str) -> None:
    assert short_count(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (24 << 30, "24.00 GiB"),
        (-(3 << 30), "-3.00 GiB"),
        (2048 << 30, "2,048.00 GiB"),
    ],
)
def test_bytes(number: int, shown: str) -> None:
    assert byte_size(number) == shown


def test_a_field_keeps_words_whole_and_stands_below_its_start() -> None:
    long = "--speculative-config-" + "x" * 120
    lines = wrapped("  saw  ", f"{'word ' * 30}{long} end").splitlines()
    assert lines[0].startswith("  saw  word")
    assert all(line.startswith(" " * 7) and line[7] != " " for line in lines[1:])
    assert any(line.strip() == long for line in lines)
    assert max(len(line) for line in lines if long not in line) <= 100


def test_columns_plurals_windows_and_rows() -> None:
    assert padded([("a", "long"), ("wide", "b")]) == [["a   ", "long"], ["wide", "b   "]]
    assert padded([]) == []
    assert [plural(number, "file") for number in (0, 1, 2)] == ["files", "file", "files"]
    assert version_window("1", "2") == "1 up to, not including, 2"
    assert version_window(None, "2") == "before 2"
    assert (version_window("1", None), version_window(None, None)) == ("1 and newer", None)
    assert table_row(["a", "", "b"]) == "| a | | b |"


def test_tables_of_drafts_fit_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that are told below go; only the answer and commands to paste may be longer."""
    monkeypatch.chdir(FIXTURES)
    for columns in ("70", "80", "100"):
        monkeypatch.setenv("COLUMNS", columns)
        lines = run("recommend", "pair/target", "--candidate", "pair/draft").out.splitlines()[1:]
        table = [line for line in lines if "vllm serve" not in line]
        assert max(map(len, table)) <= int(columns)
        assert ("known by" in "\n".join(table)) is (columns != "70")
