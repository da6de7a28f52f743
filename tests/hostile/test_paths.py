"""Paths: things that are not plain files, links that lead away, names that nobody expects."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from draftcheck.errors import ReadError
from draftcheck.models.readers.gguf import facts as gguf
from draftcheck.models.readers.tokenizer import files as tokenizer
from draftcheck.models.readers.weights import safetensors_header
from draftcheck.models.sources.folder import FolderSource
from tests import make
from tests.conftest import ROOT, Run
from tests.hostile.support import (
    ANY,
    BROKEN,
    READ,
    REFERENCE,
    as_nobody,
    assert_calm,
    bounded,
    examine,
    sparse,
    write,
)

READ_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n"


def test_nothing_there(run: Run, good: Path, tmp_path: Path) -> None:
    ran = examine(run, tmp_path / "missing", READ, good)
    assert "missing: no such file or folder" in ran.err
    ran = examine(run, tmp_path / "missing.gguf", READ, good)
    assert "no such file" in ran.err


def test_an_empty_folder(run: Run, good: Path, tmp_path: Path) -> None:
    assert "an empty folder" in examine(run, tmp_path, READ, good).err


def test_only_a_readme(run: Run, good: Path, tmp_path: Path) -> None:
    write(tmp_path / "README.md", "# a model")
    assert "no model here" in examine(run, tmp_path, READ, good).err


def test_no_tokenizer_is_undecided(run: Run, good: Path, tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / "tokenizer.json").unlink()
    ran = examine(run, folder, ANY, good)
    assert "warning: " in ran.err and "no tokenizer file" in ran.err
    assert run("pair", folder, good).code == 3


@pytest.mark.parametrize("name", ["", "a\0b", "~nobody-of-that-name/x", "./" + "n" * 4096])
def test_references_that_name_nothing(run: Run, good: Path, name: str) -> None:
    for arguments in (("inspect", name), ("pair", name, good), ("pair", good, name)):
        ran = run(*arguments)
        assert_calm(ran)
        assert ran.code in (2, 3)
        assert ran.err.startswith("error: ") and ran.out == ""


@pytest.mark.parametrize("name", ["x\x1b[2Jy", "a\nb", "a\rb", "\u202egpj", "\u200bx", "\x9bx"])
def test_names_with_control_characters(run: Run, good: Path, tmp_path: Path, name: str) -> None:
    examine(run, tmp_path / f"missing{name}", READ)
    folder = make.folder(tmp_path / f"m{name}")
    examine(run, folder, ANY, good)
    write(folder / "config.json", "{")
    assert "config.json: not valid JSON" in examine(run, folder, READ, good).err
    examine(run, make.gguf(tmp_path / f"m{name}.gguf"), ANY)
    examine(run, write(tmp_path / f"bad{name}.gguf", b"GGUF"), READ)


@pytest.mark.skipif(sys.platform == "darwin", reason="the file system allows UTF-8 names only")
def test_names_that_are_not_utf8(run: Run, tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    strange = os.fsencode(folder) + b"/pytorch_model\xff\xfe.bin"
    with open(strange, "wb"):  # noqa: PTH123 - a name that no Path of text has
        pass
    (folder / "model.safetensors").unlink()
    ran = examine(run, folder, ANY)
    assert "never opened" in ran.err
    other = os.fsdecode(os.fsencode(tmp_path) + b"/m\xe9.gguf")
    examine(run, make.gguf(Path(other)), ANY)


def test_a_file_of_another_kind_is_a_wrong_reference(run: Run, good: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "model.bin", b"\x80\x04.")
    assert "neither a checkpoint folder" in examine(run, other, REFERENCE, good).err
    examine(run, "/dev/null", REFERENCE)
    examine(run, "/dev/zero", REFERENCE)


@pytest.mark.parametrize("name", READ_FILES)
def test_a_folder_in_place_of_a_file(run: Run, good: Path, tmp_path: Path, name: str) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / name).unlink()
    (folder / name).mkdir()
    examine(run, folder, ANY, good)
    (tmp_path / "folder.gguf").mkdir()
    assert "an empty folder" in examine(run, tmp_path / "folder.gguf", READ).err


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address may have 108 bytes only
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


ODD = [fifo, unix_socket, dangling, loop, endless]


@pytest.mark.parametrize("name", [*READ_FILES, "chat_template.jinja", "special_tokens_map.json"])
@pytest.mark.parametrize("odd", ODD)
def test_no_plain_file(
    run: Run, good: Path, tmp_path: Path, name: str, odd: Callable[[Path], None]
) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / name).unlink(missing_ok=True)
    odd(folder / name)
    assert f"m/{name}: " in examine(run, folder, READ, good).err


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["m.gguf", "m.facts.json"])
def test_no_plain_file_by_name(
    run: Run, good: Path, tmp_path: Path, odd: Callable[[Path], None], name: str
) -> None:
    odd(tmp_path / name)
    assert f"{name}: " in examine(run, tmp_path / name, READ, good).err


@pytest.mark.parametrize("odd", ODD)
def test_a_folder_with_an_odd_gguf(
    run: Run, good: Path, tmp_path: Path, odd: Callable[[Path], None]
) -> None:
    odd(tmp_path / "m.gguf")
    assert "m.gguf: " in examine(run, tmp_path, READ, good).err


@pytest.mark.parametrize("name", READ_FILES)
def test_a_link_out_of_the_folder(run: Run, good: Path, tmp_path: Path, name: str) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / name).rename(tmp_path / "outside")
    (folder / name).symlink_to(tmp_path / "outside")
    ran = examine(run, folder, READ, good)
    assert f"{name}: a link that leaves the folder" in ran.err
    assert "\nhint: " in ran.err


def test_a_gguf_link_out_of_the_folder(run: Run, tmp_path: Path) -> None:
    outside = make.gguf(tmp_path / "outside.gguf")
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "m.gguf").symlink_to(outside)
    assert "a link that leaves the folder" in examine(run, folder, READ).err
    examine(run, folder / "m.gguf", ANY)  # whoever names the link means the file


def test_links_inside_the_folder_are_files(run: Run, good: Path, tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / "sub").mkdir()
    (folder / "config.json").rename(folder / "sub/c")
    (folder / "config.json").symlink_to("sub/c")
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    for path in (folder, linked):
        examine(run, path, (0,), good)


def cached(repo: Path, model: Path) -> Path:
    """The layout of the Hub's cache: snapshots of links into blobs."""
    snapshot = repo / "snapshots/0123abc"
    snapshot.mkdir(parents=True)
    (repo / "blobs").mkdir()
    for number, file in enumerate(sorted(model.iterdir() if model.is_dir() else [model])):
        shutil.copy(file, repo / f"blobs/{number:064x}")
        (snapshot / file.name).symlink_to(f"../../blobs/{number:064x}")
    return snapshot


def test_a_snapshot_of_the_hub_cache(run: Run, good: Path, good_gguf: Path, tmp_path: Path) -> None:
    snapshot = cached(tmp_path / "hub/models--a--b", good)
    ran = examine(run, snapshot, (0,), good)
    assert ran.err == ""
    ggufs = cached(tmp_path / "hub/models--a--c", good_gguf)
    for model in (ggufs, ggufs / good_gguf.name):
        examine(run, model, ANY, good_gguf)
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to("../../../../escape")
    write(tmp_path / "escape", "{}")
    assert "a link that leaves the folder" in examine(run, snapshot, READ).err


@pytest.mark.parametrize("name", READ_FILES)
def test_a_file_that_may_not_be_read(good: Path, tmp_path: Path, name: str) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / name).chmod(0)
    code, err = _without_rights(folder, good)
    assert code == 3
    assert f"{name}: permission denied" in err.lower()
    assert "Traceback" not in err


def test_a_folder_that_may_not_be_read(good: Path, tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    for shut in (folder, tmp_path / "m/.."):
        shut.chmod(0)
        try:
            code, err = _without_rights(folder, good)
        finally:
            shut.chmod(0o755)
        assert code == 3
        assert "permission denied" in err.lower()
        assert "Traceback" not in err


def _without_rights(model: Path, good: Path) -> tuple[int, str]:
    """Inspect as somebody whom permissions bind."""
    for parent in model.parents[:4]:  # pytest's own folders are closed to others
        if not as_nobody() and parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o711)
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, "inspect", str(model)],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
        check=False,
        env={**os.environ, "GOOD": str(good)},
    )
    return done.returncode, done.stderr


# The first command imports all there is to import, as long as that is allowed.
_AS_NOBODY = """
import os, sys
from draftcheck.cli import main
main(["inspect", os.environ["GOOD"]])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("name", [name for name in READ_FILES if name.endswith(".json")])
def test_a_huge_sparse_file_is_refused_at_once(run: Run, tmp_path: Path, name: str) -> None:
    folder = make.folder(tmp_path / "m")
    sparse(folder / name, 10 * 10**9)
    start = time.monotonic()
    ran = examine(run, folder, READ)
    assert f"{name}: 10,000,000,000 bytes is more than" in ran.err
    assert time.monotonic() - start < 10


def test_a_huge_sparse_facts_file_is_refused_at_once(run: Run, tmp_path: Path) -> None:
    ran = examine(run, sparse(tmp_path / "m.facts.json", 10 * 10**9), READ)
    assert "m.facts.json: 10,000,000,000 bytes is more than" in ran.err


def test_a_huge_gguf_costs_its_header_only(good_gguf: Path, tmp_path: Path) -> None:
    """Also where the file does not fit the address space."""
    huge = sparse(tmp_path / "huge.gguf", 40 * 10**9, good_gguf.read_bytes())
    found = bounded("inspect", huge, "--format", "json")
    assert found.ran.code == 0, found.ran.err
    assert found.ran.json["facts"]["weights"]["files"][0]["size"] == 40 * 10**9


def test_a_huge_safetensors_costs_its_header_only(tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    make.safetensors(
        folder / "model.safetensors", {"model.embed_tokens.weight": ("BF16", [260, 64_000_000])}
    )
    assert (folder / "model.safetensors").stat().st_size > 30 * 10**9
    found = bounded("inspect", folder)
    assert found.ran.code == 0, found.ran.err


@pytest.mark.parametrize(
    "name",
    [
        "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "special_tokens_map.json", "model.safetensors", "model.safetensors.index.json",
        "chat_template.jinja", "hf_quant_config.json",
    ],
)  # fmt: skip
def test_a_git_lfs_pointer_in_place_of_a_file(
    run: Run, good: Path, tmp_path: Path, name: str
) -> None:
    folder = make.folder(tmp_path / "m")
    write(folder / name, POINTER)
    if name.startswith("model.safetensors"):  # read, and proven to be no weights
        examine(run, folder, BROKEN if name.endswith("s") else ANY, good)
        assert "a git-lfs pointer" in run("pair", good, folder).out
        assert "git lfs pull" in run("rules", "TRU201").out
        return
    ran = examine(run, folder, READ, good)
    assert f"{name}: a git-lfs pointer" in ran.err
    assert "git lfs pull" in ran.err


@pytest.mark.parametrize(
    "name",
    ["tekken.json", "tokenizer.model", "qwen.tiktoken", "vocab.json", "vocab.txt"],
)
def test_a_git_lfs_pointer_in_place_of_a_vocabulary(
    run: Run, good: Path, tmp_path: Path, name: str
) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / "tokenizer.json").unlink()
    write(folder / name, POINTER)
    assert f"{name}: a git-lfs pointer" in examine(run, folder, READ, good).err


@pytest.mark.parametrize("name", ["m.gguf", "m.facts.json"])
def test_a_git_lfs_pointer_by_name(run: Run, good: Path, tmp_path: Path, name: str) -> None:
    assert "a git-lfs pointer" in examine(run, write(tmp_path / name, POINTER), READ, good).err


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "consolidated.00.pth", "model.ckpt", "x.pt", "data.pkl"]
)
def test_pickles_are_never_opened(run: Run, good: Path, tmp_path: Path, name: str) -> None:
    """Neither loaded (the planted one would write a file) nor read (a FIFO would be refused)."""
    folder = make.folder(tmp_path / "m")
    trace = tmp_path / "trace"
    write(folder / name, f"cos\nsystem\n(S'touch {trace}'\ntR.")
    write(folder / "training_args.bin", f"cos\nsystem\n(S'touch {trace}'\ntR.")
    examine(run, folder, ANY, good)
    (folder / "model.safetensors").unlink()
    ran = examine(run, folder, ANY, good)
    assert "pickled weights" in ran.err and "never opened" in ran.err
    (folder / name).unlink()
    os.mkfifo(folder / name)
    examine(run, folder, ANY, good)
    assert not trace.exists()


def test_code_of_a_repo_is_never_imported(run: Run, good: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    auto = {"AutoConfig": "configuration_x.X", "AutoTokenizer": ["a/b--tokenization_x.X", None]}
    config = {"bos_token": "<s>", "tokenizer_class": "XTokenizer", "auto_map": auto}
    folder = make.folder(tmp_path / "m", auto_map=auto, tokenizer_config=config)
    for name in ("configuration_x.py", "tokenization_x.py", "__init__.py", "sitecustomize.py"):
        write(folder / name, f"open({str(trace)!r}, 'w')")
    before = sorted(tmp_path.rglob("*"))
    examine(run, folder, ANY, good)
    found = run("inspect", folder, "--format", "json").json["facts"]
    assert found["config"]["remote_code"] is True
    assert not trace.exists()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("size", [0, 3, 30, 100])
def test_files_that_shrink_while_they_are_read(
    good: Path, good_gguf: Path, tmp_path: Path, size: int
) -> None:
    """A download in progress, or somebody who wants to see a reader run in circles."""
    for model in (good / "tokenizer.json", good / "model.safetensors", good_gguf):
        path = tmp_path / model.name
        shutil.copy(model, path)
        source = FolderSource(tmp_path)
        assert source.files()[path.name] == model.stat().st_size
        os.truncate(path, size)
        with pytest.raises(ReadError, match=path.name):
            if path.suffix == ".gguf":
                gguf.read(source, path.name, str(path))
            elif path.suffix == ".json":
                tokenizer.read(source)
            else:
                safetensors_header.read(source, path.name)
        path.unlink()
