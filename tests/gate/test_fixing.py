"""--fix: only the words in question change, whole files or none, and the gate looks again."""

from __future__ import annotations

import json
import os
import stat

import pytest
import yaml

from draftcheck.gate import fixing
from draftcheck.gate.results import Finding
from draftcheck.values.findings import FilePlace, Fix
from draftcheck.values.words import Outcome, Severity
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


def fixed(data: bytes, *findings: Finding) -> bytes:
    changes = fixing.plan(findings, {"f": data})
    return changes[0].after if changes else data


def test_spans() -> None:
    data = b"one two\nthree\n"
    assert fixed(data, finding((1, 5, 1, 8, "2"))) == b"one 2\nthree\n"
    assert fixed(data, finding((1, 5, 2, 3, "2"))) == b"one 2ree\n"
    assert fixed(data, finding((1, 1, 1, 1, "zero "))) == b"zero one two\nthree\n"
    assert fixed(data, finding((1, 1, 1, 4, "1")), finding((1, 5, 1, 8, "2"))) == b"1 2\nthree\n"


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


def test_encodings_stay() -> None:
    assert fixed(b"\xef\xbb\xbfone two\r\n", finding((1, 5, 1, 8, "2"))) == b"\xef\xbb\xbfone 2\r\n"
    assert fixed("né two".encode("latin-1"), finding((1, 4, 1, 7, "2"))) == "né 2".encode("latin-1")
    assert fixed("né two".encode(), finding((1, 4, 1, 7, "2"))) == "né 2".encode()


def test_a_patch_without_newline_at_the_end() -> None:
    [change] = fixing.plan([finding((1, 1, 1, 4, "1"))], {"f": b"one"})
    assert fixing.patch([change]) == (
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n\\ No newline at end of file\n"
        "+1\n\\ No newline at end of file\n"
    )


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
