"""Whatever becomes of the streams and of the folder, the exit code is that of the verdict."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, Run

TARGET, DRAFT = str(FIXTURES / "pair" / "target"), str(FIXTURES / "pair" / "draft")
COMMAND = (sys.executable, "-m", "draftcheck")
FITS = ("pair", TARGET, DRAFT)
REFUSED = ("pair", TARGET, str(FIXTURES / "pair" / "draft.gguf"), "--engine", "transformers")
UNREADABLE = ("pair", "/no/such/model", DRAFT)
FULL = Path("/dev/full")
full_device = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def ran(arguments: tuple[str, ...], **streams: Any) -> tuple[int, str]:
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | streams
    done = subprocess.run([*COMMAND, *arguments], text=True, check=False, timeout=60, **streams)
    return done.returncode, done.stderr or ""


@pytest.fixture(scope="module")
def refused() -> int:
    code, _ = ran(REFUSED)
    assert code in (1, 3)
    return code


@full_device
def test_a_report_that_a_full_disk_took_away_is_no_success(refused: int) -> None:
    with FULL.open("w") as full:
        code, err = ran(FITS, stdout=full)
        assert (code, err.count("\n")) == (3, 1)
        assert "standard output: the report could not be written: No space left" in err
        assert ran(REFUSED, stdout=full)[0] == refused


@full_device
def test_messages_that_nobody_can_read_change_no_exit_code(refused: int) -> None:
    with FULL.open("w") as full:
        assert ran(FITS, stderr=full)[0] == 0
        assert ran(REFUSED, stderr=full)[0] == refused
        assert ran(UNREADABLE, stderr=full)[0] == 3
        assert ran(("pair",), stderr=full)[0] == 2


@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(closed: str, refused: int) -> None:
    for arguments, code in ((FITS, 0), (REFUSED, refused), (UNREADABLE, 3)):
        line = f'"$@" {closed}'
        done = subprocess.run(
            ["sh", "-c", line, "sh", *COMMAND, *arguments], check=False, timeout=60,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, (arguments, closed)


def test_messages_never_go_into_a_file_that_took_the_number_of_a_closed_stream(
    tmp_path: Path,
) -> None:
    output = tmp_path / "report.json"
    line = '"$@" >&- 2>&-'
    arguments = (*UNREADABLE[:2], DRAFT, "--format", "json", "--output", str(output))
    subprocess.run(["sh", "-c", line, "sh", *COMMAND, *arguments], check=False, timeout=60)
    assert not output.exists() or output.read_text().startswith("{")


def test_a_reader_that_goes_away_changes_no_exit_code(refused: int) -> None:
    for arguments, code in ((FITS, 0), (REFUSED, refused)):
        read, write = os.pipe()
        os.close(read)
        try:
            assert ran(arguments, stdout=write) == (code, "")
        finally:
            os.close(write)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("gate",), 3),
        (("lock",), 3),
        (("scan", "--target", "a/b"), 3),
        (("recommend", TARGET, "--local", "."), 3),
        (FITS, 0),
        (("pair", "a", "b"), 3),
    ],
)
def test_a_folder_that_is_gone(tmp_path: Path, command: tuple[str, ...], code: int) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", line, "sh", str(gone), *COMMAND, *command], text=True, check=False, timeout=60,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(FIXTURES.parent)},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert code == 0 or done.stderr.startswith("error: "), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX")
def test_a_report_that_grows_too_large_leaves_the_old_one(tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    output.write_text("before")
    link = tmp_path / "report.json.part"
    link.symlink_to(tmp_path / "elsewhere")
    line = 'trap "" XFSZ; ulimit -f 1; exec "$@"'
    arguments = (*COMMAND, *FITS, "--format", "json", "--output", str(output))
    done = subprocess.run(
        ["sh", "-c", line, "sh", *arguments], text=True, check=False, timeout=60,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert "report.json: cannot be written: File too large" in done.stderr
    assert output.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == [output.name, link.name]


def test_a_report_goes_through_a_link_and_into_a_device(tmp_path: Path) -> None:
    link, real = tmp_path / "link.json", tmp_path / "real.json"
    link.symlink_to(real)
    assert ran((*FITS, "--format", "json", "--output", str(link)))[0] == 0
    assert link.is_symlink()
    assert real.read_text().startswith("{")
    assert ran((*FITS, "--output", "/dev/null"))[0] == 0


def test_folders_that_may_not_be_looked_into_are_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/some/folder")

    monkeypatch.setattr("draftcheck.models.refs.parse", denied)
    ran = run("inspect", tmp_path)
    assert (ran.code, ran.err) == (3, "error: /some/folder: Permission denied\n")
