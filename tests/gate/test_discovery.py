"""Which files are looked at, and that looking at nothing is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import make
from tests.gate.conftest import Repo


def files(repo: Repo, *arguments: object) -> list[str]:
    return [setup["file"] for setup in repo.json(*arguments)["setups"]]


@pytest.fixture
def many(good: Repo) -> Repo:
    for name in ("deploy/a.sh", "node_modules/b.sh", ".venv/bin/c.sh", "ignored/d.sh", "new.sh"):
        good.serve(name, "models/big", "models/small")
    good.write(".gitignore", "ignored/\n")
    return good


def test_without_git_everything_but_packages(many: Repo) -> None:
    assert files(many) == ["deploy/a.sh", "ignored/d.sh", "new.sh", "serve.sh"]


def test_with_git_what_it_does_not_ignore(many: Repo) -> None:
    many.git("init")
    many.git("add", "serve.sh", "deploy")
    assert files(many) == ["deploy/a.sh", "new.sh", "serve.sh"]
    assert files(many, "deploy") == ["deploy/a.sh"]
    assert files(many, "ignored/d.sh") == ["ignored/d.sh"]  # named: looked at
    assert files(many, "ignored") == ["ignored/d.sh"]
    assert files(many, many.path / "new.sh") == ["new.sh"]


def test_in_a_folder_below(many: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    many.git("init")
    monkeypatch.chdir(many.path / "deploy")
    assert files(many) == ["a.sh"]
    assert many.json("../serve.sh")["setups"][0]["verdict"] == "compatible"


def test_diff_base(many: Repo) -> None:
    many.git("init")
    many.git("add", "-A")
    many.git("commit", "-qm", "one")
    many.git("checkout", "-qb", "work")
    assert files(many, "--diff-base", "main") == []
    assert "nothing to check" in many.gate("--diff-base", "main").out
    many.serve("deploy/a.sh", "models/big", "models/small", "--max-model-len", "64")
    many.serve("fresh.sh", "models/big", "models/small")
    assert files(many, "--diff-base", "main") == ["deploy/a.sh", "fresh.sh"]
    many.git("add", "-A")
    many.git("commit", "-qm", "two")
    (many.path / "serve.sh").unlink()
    assert files(many, "--diff-base", "main") == ["deploy/a.sh", "fresh.sh"]
    # main moves on by itself: that is not our change
    many.git("checkout", "-qf", "main")
    many.serve("new.sh", "models/big", "models/small", "--max-model-len", "32")
    many.git("commit", "-qam", "three")
    many.git("checkout", "-q", "work")
    assert files(many, "--diff-base", "main") == ["deploy/a.sh", "fresh.sh"]


def test_a_change_of_manifest_lock_or_version_is_about_more(many: Repo) -> None:
    many.git("init")
    many.git("add", "-A")
    many.git("commit", "-qm", "one")
    many.write("draftcheck.toml", "[paths]\n")
    assert "deploy/a.sh" in files(many, "--diff-base", "HEAD")
    many.git("commit", "-qam", "two")
    many.write("requirements.txt", "vllm==0.15.0\n")
    assert "serve.sh" in files(many, "--diff-base", "HEAD")


@pytest.mark.parametrize("base", ["no-such-branch", "--output=x", "main; rm -rf /", ""])
def test_a_revision_that_is_none(base: str, many: Repo) -> None:
    many.git("init")
    ran = many.gate("--diff-base", base)
    assert ran.code == 2
    assert "--diff-base" in ran.err
    assert not (many.path / "x").exists()


def test_diff_base_without_git(many: Repo) -> None:
    ran = many.gate("--diff-base", "main")
    assert (ran.code, "needs a git repository" in ran.err) == (2, True)


def test_the_repository_runs_nothing(many: Repo) -> None:
    many.git("init")
    many.git("add", "-A")
    many.git("commit", "-qm", "one")
    script = many.write("evil.sh", f"#!/bin/sh\ntouch {many.path}/ran\n")
    script.chmod(0o755)
    many.git("config", "core.fsmonitor", str(script))
    many.git("config", "diff.external", str(script))
    many.git("config", "diff.x.textconv", str(script))
    many.write(".gitattributes", "*.sh diff=x\n")
    many.serve("serve.sh", "models/big", "models/small", "--max-model-len", "64")
    (many.path / "ran").unlink(missing_ok=True)
    assert "serve.sh" in files(many, "--diff-base", "HEAD")
    assert files(many)
    assert not (many.path / "ran").exists()


def test_nothing_to_check_is_said(repo: Repo) -> None:
    repo.write("readme.sh", "echo hello\n")
    for arguments in ((), ("readme.sh",)):
        ran = repo.gate(*arguments)
        assert ran.code == 0
        assert "nothing to check" in ran.out
    for form in ("json", "sarif", "junit", "github", "markdown"):
        ran = repo.gate("--format", form)
        assert "nothing to check" in ran.err + ran.out
    assert repo.json()["nothing_to_check"] is True


def test_engines_without_speculation_are_counted(repo: Repo) -> None:
    repo.write("serve.sh", "vllm serve org/model\n")
    ran = repo.gate("--format", "json")
    assert (ran.code, ran.json["setups_without_speculation"]) == (0, 1)
    assert ran.json["nothing_to_check"] is False


def test_files_that_are_none(repo: Repo) -> None:
    assert repo.gate("gone.sh").code == 2
    fifo = repo.path / "pipe.sh"
    os.mkfifo(fifo)
    assert repo.gate("pipe.sh").code == 0
    assert repo.gate("/dev/zero").code == 0
    (repo.path / "loop.sh").symlink_to("loop.sh")
    assert repo.gate().code == 0
    assert repo.gate("loop.sh").code in (2, 3)


def test_links_out_of_the_repository_are_not_followed(repo: Repo, tmp_path: Path) -> None:
    outside = tmp_path / "outside.sh"
    outside.write_text(
        'vllm serve a/b --speculative-config \'{"model": "c/d"}\'\n', encoding="utf-8"
    )
    (repo.path / "link.sh").symlink_to(outside)
    assert files(repo) == []
    assert files(repo, "link.sh") == ["link.sh"]


def test_the_same_models_for_many_files(good: Repo) -> None:
    """Also through other spellings of the same path."""
    good.serve("b/serve.sh", "../models/big", "../models/small")
    good.serve("c/serve.sh", str(good.path / "models/big"), "./models/small")
    targets = {(s["target"], s["draft"]) for s in good.json()["setups"]}
    assert targets == {("models/big", "models/small")}


def test_target_and_draft_may_be_the_same_model(repo: Repo) -> None:
    repo.model("models/big", config=make.CONFIG)
    repo.serve("serve.sh", "models/big", "models/big")
    [setup] = repo.json()["setups"]
    assert (setup["target"], setup["draft"]) == ("models/big", "models/big")
    assert setup["verdict"] in ("compatible", "degraded", "incompatible")
