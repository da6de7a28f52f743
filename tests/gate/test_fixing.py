"""--fix: only the words in question change, whole files or none, and the gate looks again."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from draftcheck.gate import fixing
from draftcheck.gate.fixing import ChangedFile
from draftcheck.gate.survey import DeploySurvey, SurveyedFile
from draftcheck.values.findings import FilePlace, Finding, Fix
from draftcheck.values.words import Outcome, Severity
from tests.conftest import FIXTURES, ROOT
from tests.gate.conftest import Repo

OLD = "llama-server -m big.gguf -md small.gguf --spec-type draft-simple --draft-max 8"
IMAGE = "docker run ghcr.io/ggml-org/llama.cpp:server-b9500 -m /m/big.gguf -md /m/small.gguf"


def flags(repo: Repo, name: str) -> list[str]:
    found = [f for f in repo.json(name)["findings"] if f["fixable"]]
    return [f["rule"] for f in found]


def test_a_flag_that_is_gone_is_replaced(repo: Repo) -> None:
    head = f"#!/bin/sh\r\n# ünïcode\r\n{IMAGE} --spec-type draft-simple \\\r\n"
    text = f"{head}  --draft-max 8   # keep\r\n"
    path = repo.write("serve.sh", text)
    path.chmod(0o750)
    assert flags(repo, "serve.sh")
    shown = repo.gate("serve.sh", "--diff")
    assert path.read_bytes() == text.encode()
    assert "-  --draft-max 8   # keep\r\n+  --spec-draft-n-max 8   # keep\r\n" in shown.out
    ran = repo.gate("serve.sh", "--fix")
    assert path.read_bytes() == text.replace("--draft-max", "--spec-draft-n-max").encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert "fixed serve.sh" in ran.err
    assert not flags(repo, "serve.sh")
    assert [p.name for p in repo.path.iterdir() if "serve" in p.name] == ["serve.sh"]


def test_links_stay_links(repo: Repo) -> None:
    real = repo.write("real/serve.sh", f"{IMAGE} --spec-type draft-simple --draft-max 8\n")
    link = repo.path / "serve.sh"
    link.symlink_to(real)
    repo.gate("serve.sh", "--fix")
    assert link.is_symlink()
    assert "--spec-draft-n-max" in real.read_text(encoding="utf-8")


def test_what_is_ignored_is_not_fixed(repo: Repo) -> None:
    text = f"{IMAGE} --spec-type draft-simple --draft-max 8\n"
    repo.write("serve.sh", text)
    [rule] = flags(repo, "serve.sh")
    text = f"# draftcheck: ignore[{rule}] because of a wrapper\n{text}"
    path = repo.write("serve.sh", text)
    repo.gate("serve.sh", "--fix")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_is_said(repo: Repo) -> None:
    repo.write("serve.sh", f"{IMAGE} --spec-type draft-simple --draft-max 8\n")
    repo.path.chmod(0o500)
    try:
        ran = repo.gate("serve.sh", "--fix")
    finally:
        repo.path.chmod(0o700)
    assert ran.code == 3
    assert "serve.sh: cannot be written" in ran.err


def finding(*changes: tuple[int, int, int, int, str], safe: bool = True) -> Finding:
    fixes = tuple(Fix(FilePlace("f", a, b, c, d), text, safe) for a, b, c, d, text in changes)
    place = fixes[0].place
    return Finding(
        "FIL001", "x", "t", Severity.ERROR, Outcome.FAIL, "s", "w", "f", place=place, changes=fixes
    )


def planned(data: bytes, *findings: Finding) -> list[ChangedFile]:
    """What becomes of a file that reads well whatever is done to it."""
    Path("f").write_bytes(data)
    surveyed = DeploySurvey(Path(), SurveyedFile, files=[SurveyedFile("f", data)])
    return fixing.plan(findings, surveyed).changes


def fixed(data: bytes, *findings: Finding) -> bytes:
    changes = planned(data, *findings)
    return changes[0].after if changes else data


@pytest.mark.usefixtures("repo")
def test_spans() -> None:
    data = b"one two\nthree\n"
    assert fixed(data, finding((1, 5, 1, 8, "2"))) == b"one 2\nthree\n"
    assert fixed(data, finding((1, 5, 2, 3, "2"))) == b"one 2ree\n"
    assert fixed(data, finding((1, 1, 1, 1, "zero "))) == b"zero one two\nthree\n"
    assert fixed(data, finding((1, 1, 1, 4, "1")), finding((1, 5, 1, 8, "2"))) == b"1 2\nthree\n"


@pytest.mark.usefixtures("repo")
def test_not_safe_not_inside_not_overlapping() -> None:
    data = b"one two\n"
    assert fixed(data, finding((1, 1, 1, 4, "1"), safe=False)) == data
    assert fixed(data, finding((9, 1, 9, 4, "1"))) == data
    assert fixed(data, finding((1, 1, 1, 400, "1"))) == data
    # All of a finding's changes or none: the second would overlap.
    both = finding((1, 1, 1, 4, "1")), finding((1, 2, 1, 3, "x"), (1, 5, 1, 8, "2"))
    assert fixed(data, *both) == b"1 two\n"
    same = finding((1, 1, 1, 4, "1")), finding((1, 1, 1, 4, "1"))
    assert fixed(data, *same) == b"1 two\n"


@pytest.mark.usefixtures("repo")
def test_encodings_stay() -> None:
    assert fixed(b"\xef\xbb\xbfone two\r\n", finding((1, 5, 1, 8, "2"))) == b"\xef\xbb\xbfone 2\r\n"
    assert fixed("né two".encode("latin-1"), finding((1, 4, 1, 7, "2"))) == "né 2".encode("latin-1")
    assert fixed("né two".encode(), finding((1, 4, 1, 7, "2"))) == "né 2".encode()
    for encoding in ("utf-16-le", "utf-16-be"):
        before, after = (f"\ufeffné {word}\r\n".encode(encoding) for word in ("two", "2"))
        assert fixed(before, finding((1, 4, 1, 7, "2"))) == after
    # A mark that promises UTF-8, and a byte that is none.
    broken = b"\xef\xbb\xbfone two \xff\r\n"
    assert fixed(broken, finding((1, 5, 1, 8, "2"))) == b"\xef\xbb\xbfone 2 \xff\r\n"
    # What the encoding lacks, and what would make another encoding of it, stays undone.
    assert fixed(b"n\xe9 two", finding((1, 4, 1, 7, "€"))) == b"n\xe9 two"
    assert fixed(b"n\xe9 two", finding((1, 2, 1, 3, "e"))) == b"n\xe9 two"


@pytest.mark.usefixtures("repo")
def test_a_patch_without_newline_at_the_end() -> None:
    [change] = planned(b"one", finding((1, 1, 1, 4, "1")))
    assert fixing.patch([change]) == (
        b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n\\ No newline at end of file\n"
        b"+1\n\\ No newline at end of file\n"
    )


@pytest.mark.usefixtures("repo")
def test_a_thousand_fixes_in_one_line() -> None:
    many = [finding((1, 1 + 4 * i, 1, 4 + 4 * i, str(i))) for i in range(1000)]
    changed = fixed(b"one " * 1000, *many, *many)
    assert changed == " ".join(str(i) for i in range(1000)).encode() + b" "


LISTED = """\
services:
  llama:
    image: ghcr.io/ggml-org/llama.cpp:server-b9500
    command:
      - -m
      - a.gguf
      - -md
      - b.gguf
      - --spec-type=draft-simple
  vllm:
    image: vllm/vllm-openai:v0.15.1
    command:
      - --model=a/b
      - --speculative-config={"model":"c/d","num_speculative_tokens":4}
"""


def test_items_of_a_list_stay_one_word_and_plain_yaml_stays_plain(repo: Repo) -> None:
    path = repo.write("compose.yaml", LISTED)
    repo.gate("--fix")
    services = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]
    assert services["llama"]["command"][-1] == "--spec-type=draft-simple"
    option, _, config = services["vllm"]["command"][-1].partition("=")
    assert (option, json.loads(config)["method"]) == ("--speculative-config", "draft_model")


GONE = f"{IMAGE} --spec-type draft-simple --draft-max 8\n"
POWERSHELL = "# ü\r\nllama-server -m a.gguf -md b.gguf --spec-type draft-simple --draft-max 8\r\n"


@pytest.mark.parametrize(
    "encoded",
    [
        f"\ufeff{POWERSHELL}".encode("utf-16-le"),
        f"\ufeff{POWERSHELL}".encode("utf-16-be"),
        f"\ufeff{POWERSHELL}".encode(),
        POWERSHELL.encode("latin-1"),
        b"\xef\xbb\xbf" + POWERSHELL.encode("latin-1"),
        b"\xef\xbb\xbf" + POWERSHELL.partition("\n")[2].encode() + b"# \xff\r\n",
    ],
)
def test_every_other_byte_stays_whatever_the_encoding(encoded: bytes, repo: Repo) -> None:
    wide = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(encoded[:2], "latin-1")
    old, new = ("--draft-max".encode(wide), "--spec-draft-n-max".encode(wide))
    path = repo.write("serve.ps1", encoded)
    repo.git("init")
    patch = repo.path / "fix.patch"
    found = repo.json("--engine", "llama.cpp@b9990", "serve.ps1")["findings"]
    assert [f["rule"] for f in found if f["fixable"]] == ["FIL001"]
    patch.write_bytes(diffed("--engine", "llama.cpp@b9990", "serve.ps1"))
    assert "fixed" in repo.gate("--engine", "llama.cpp@b9990", "--fix", "serve.ps1").err
    assert path.read_bytes() == encoded.replace(old, new)
    path.write_bytes(encoded)
    repo.git("apply", "fix.patch")
    assert path.read_bytes() == encoded.replace(old, new)


def diffed(*arguments: str) -> bytes:
    """What --diff writes, byte by byte."""
    program = [sys.executable, "-m", "draftcheck", "gate", "--diff", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(program, env=environment, capture_output=True, check=False).stdout


@pytest.mark.parametrize(
    "text",
    [
        "llama-server -m a.gguf -md 'b.gguf\n",
        'llama-server -m a.gguf -md "b.gguf\n# more\n',
        "cat <<E > run.sh\nllama-server -m a.gguf -md 'b.gguf\nE\n",
    ],
)
def test_a_quote_that_never_ends_is_left_alone(text: str, repo: Repo) -> None:
    path = repo.write("serve.sh", text)
    ran = repo.gate("--engine", "llama.cpp@b9990", "--fix", "serve.sh")
    assert path.read_text(encoding="utf-8") == text
    assert "\nfixed" not in f"\n{ran.err}" and ran.code in (1, 3)


def test_what_would_not_read_as_meant_is_said(repo: Repo) -> None:
    text = "llama-server -m a.gguf -md 'b.gguf\n"
    repo.write("serve.sh", text)
    ran = repo.gate("--engine", "llama.cpp@b9990", "--fix", "serve.sh")
    assert "not fixed serve.sh:1: FIL009: the file would not read as is meant" in ran.err


def test_read_only_files_and_other_names_stay(repo: Repo) -> None:
    path = repo.write("serve.sh", GONE)
    path.chmod(0o444)
    ran = repo.gate("serve.sh", "--fix")
    assert "not fixed serve.sh: it is read-only" in ran.err and ran.code == 1
    path.chmod(0o644)
    other = repo.path / "other.txt"
    os.link(path, other)
    for option in ("--fix", "--diff"):
        ran = repo.gate("serve.sh", option)
        assert "not fixed serve.sh: it has other names (hard links)" in ran.err and ran.code == 1
    assert path.read_text(encoding="utf-8") == other.read_text(encoding="utf-8") == GONE
    other.unlink()
    assert "fixed serve.sh (1)" in repo.gate("serve.sh", "--fix").err


def test_the_longest_names_are_written(repo: Repo) -> None:
    name = "n" * 248 + ".sh"
    path = repo.write(name, GONE)
    assert "fixed" in repo.gate(name, "--fix").err
    assert path.read_text(encoding="utf-8") == GONE.replace("--draft-max", "--spec-draft-n-max")


@pytest.mark.skipif(os.name == "nt", reason="names that Windows does not have")
@pytest.mark.parametrize(
    "name",
    [
        b"a b.sh", b"a\tb.sh", b"a\rb.sh", b"a\x1b[31mb.sh", "a\u202eb.sh".encode(), b'a"b.sh',
        "a\u2028b.sh".encode(), b"a\\b.sh", b"a\xffb.sh", "é.sh".encode(), b"--fix.sh", b"a'b.sh",
        b"a\x07\x08\x0b\x0c\x7fb.sh",
    ],
)  # fmt: skip
def test_git_takes_the_patch_whatever_the_name(name: bytes, repo: Repo) -> None:
    path = Path(os.fsdecode(name))
    path.write_text(GONE, encoding="utf-8")
    repo.git("init")
    patch = diffed()
    assert set(patch) <= {*b"\t\n", *range(32, 127)}
    Path("fix.patch").write_bytes(patch)
    repo.git("apply", "fix.patch")
    assert path.read_text(encoding="utf-8") == GONE.replace("--draft-max", "--spec-draft-n-max")


def mutations() -> Iterator[tuple[str, bytes]]:
    """Deploy files as they are, in other encodings, and with a quote or a here-document open."""
    dice = random.Random(11)
    old = "llama-server -m a.gguf --model-draft b.gguf --draft-max 8 --spec-type=draft-simple"
    for path in sorted(FIXTURES.joinpath("deploy").rglob("*")):
        if not path.is_file() or path.name in ("expected.toml", "draftcheck.toml"):
            continue
        data = path.read_bytes()
        yield path.name, data
        for _ in range(2):
            bit = dice.choice((b"'", b'"', b"cat <<E\n", b"\\", b"`", b"$(", b"\xff", b"\r"))
            at = dice.randrange(len(data) + 1)
            data = data[:at] + bit + data[at:]
        yield path.name, data
    for name, form in (
        ("a.sh", "{}"), ("a.sh", "bash -c '{}"), ("a.sh", "cat <<E\n{}\nE"), ("a.sh", 'X="{}"\n$X'),
        ("a.ps1", "{}"), ("compose.yaml", "services:\n  a:\n    command: {}"),
        ("a.service", "[Service]\nExecStart={}"), ("Makefile", "a:\n\t{}"),
        ("Dockerfile", "FROM a\nCMD {}"), ("a.py", "import os\nos.system('{}')"),
    ):  # fmt: skip
        for text in (f"{form.format(old)}\n", f"{form.format(old)} '\n", f'{form.format(old)} "x'):
            for encoding in ("utf-8", "utf-8-sig", "utf-16"):
                yield name, text.encode(encoding)
                yield name, text.replace("\n", "\r\n").encode(encoding)


def test_fixing_again_changes_nothing(repo: Repo) -> None:
    """Whatever was there: a second run changes nothing, and no run adds findings."""
    fixed_files = 0
    for name, data in mutations():
        path = repo.write(name, data)
        before = repo.json(name, "--engine", "llama.cpp@b9990")
        repo.gate(name, "--fix", "--engine", "llama.cpp@b9990")
        once = path.read_bytes()
        ran = repo.gate(name, "--fix", "--engine", "llama.cpp@b9990", "--format", "json")
        assert path.read_bytes() == once, (name, data)
        after = ran.json
        assert len(after["setups"]) >= len(before["setups"])
        mended = {f["rule"] for f in before["findings"]} >= {f["rule"] for f in after["findings"]}
        assert mended or once == data, (name, data)
        fixed_files += once != data
        path.unlink()
    assert fixed_files > 20
