"""What a reference means: every form, what wins, and what is a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftcheck.errors import DraftcheckError, ReadError, UsageError
from draftcheck.models import choose_gguf, opening, refs
from draftcheck.models.sources.hub.repos import HubRepo
from tests import make
from tests.conftest import Run

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "repo", "revision", "file", "tag"),
    [
        ("org/name", "org/name", None, None, None),
        ("Org-1/Name_2.5-B", "Org-1/Name_2.5-B", None, None, None),
        ("org/name@main", "org/name", "main", None, None),
        ("org/name@refs/pr/1", "org/name", "refs/pr/1", None, None),
        (f"org/name@{SHA}", "org/name", SHA, None, None),
        ("org/name:Q4_K_M", "org/name", None, None, "Q4_K_M"),
        ("org/name@v1.0:Q4_K_M", "org/name", "v1.0", None, "Q4_K_M"),
        ("org/name/file.gguf", "org/name", None, "file.gguf", None),
        ("org/name/a/b c/file.gguf", "org/name", None, "a/b c/file.gguf", None),
        ("org/name/file.gguf@dev", "org/name", "dev", "file.gguf", None),
    ],
)
def test_hub_forms(
    text: str, repo: str, revision: str | None, file: str | None, tag: str | None
) -> None:
    ref = refs.parse(text)
    assert (ref.kind, ref.repo, ref.revision, ref.file, ref.tag) == (
        "hub", repo, revision, file, tag
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "tag", "layer"),
    [
        ("ollama:llama3", "llama3", "latest", None),
        ("ollama:llama3:8b-q4_0", "llama3", "8b-q4_0", None),
        ("ollama:me/llama3:x", "me/llama3", "x", None),
        ("ollama:hf.co/org/name-GGUF:Q4_K_M", "hf.co/org/name-GGUF", "Q4_K_M", None),
        ("ollama:localhost:5000/me/llama3", "localhost:5000/me/llama3", "latest", None),
        ("ollama:gemma4:31b#draft", "gemma4", "31b", "draft"),
    ],
)
def test_ollama_forms(text: str, name: str, tag: str, layer: str | None) -> None:
    ref = refs.parse(text)
    assert (ref.kind, ref.repo, ref.tag, ref.file) == ("ollama", name, tag, layer)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", UsageError),
        ("no-such-model", ReadError),
        ("./org/name", ReadError),
        ("org/name.gguf", ReadError),
        ("org/../name", ReadError),
        ("org/na..me", ReadError),
        ("org/name/../../x.gguf", ReadError),
        ("org/name//x.gguf", ReadError),
        ("org/name@../main", ReadError),
        ("org/name@a/../b", ReadError),
        ("org/" + "x" * 97, ReadError),
        ("org/näme", ReadError),
        ("org/name/file.bin", ReadError),
        ("org/name/file.gguf:Q4_K_M", UsageError),
        ("https://huggingface.co/org/name", UsageError),
        ("hf.co/org/name", UsageError),
        ("ollama:", UsageError),
        ("ollama:../../etc/passwd", UsageError),
        ("ollama:a/b/c/d/e", UsageError),
        ("ollama:name:a/../b", UsageError),
        ("ollama:name#template", UsageError),
    ],
)
def test_mistakes(text: str, error: type[DraftcheckError]) -> None:
    with pytest.raises(error):
        refs.parse(text)


def test_a_local_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refs.parse("org/name").kind == "hub"
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert refs.parse("org/name").kind == "folder"
    (tmp_path / "ollama:x").mkdir()
    assert refs.parse("ollama:x").kind == "folder"


def test_a_file_that_is_not_in_a_folder_here_is_not_looked_for_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refs.parse("org/name/x.gguf").kind == "hub"
    (tmp_path / "org" / "name").mkdir(parents=True)
    with pytest.raises(ReadError, match="no such file"):
        refs.parse("org/name/x.gguf")


def test_an_address_says_what_to_write(run: Run) -> None:
    ran = run("inspect", "https://huggingface.co/org/name/tree/main")
    assert ran.code == 2 and "hint: Write org/name." in ran.err


def pick(text: str, *paths: str) -> str | None:
    ref = refs.parse(text)
    return opening.gguf_path(ref, HubRepo(ref.repo, SHA, paths, None))


GGUFS = (
    "README.md",
    "config.json",
    "m-Q4_K_M.gguf",
    "m-UD-Q4_K_M.gguf",
    "m-Q8_0.gguf",
    "mmproj-m-Q8_0.gguf",
    "BF16/m-BF16-00001-of-00002.gguf",
    "BF16/m-BF16-00002-of-00002.gguf",
)


@pytest.mark.parametrize(
    ("tag", "path"),
    [
        ("Q4_K_M", "m-Q4_K_M.gguf"),
        ("q4_k_m", "m-Q4_K_M.gguf"),
        ("UD-Q4_K_M", "m-UD-Q4_K_M.gguf"),
        ("Q8_0", "m-Q8_0.gguf"),
        ("BF16", "BF16/m-BF16-00001-of-00002.gguf"),
    ],
)
def test_a_tag_picks_one_file(tag: str, path: str) -> None:
    assert pick(f"org/x:{tag}", *GGUFS) == path


@pytest.mark.parametrize("text", ["org/x", "org/x:Q5_0", "org/x/no.gguf"])
def test_a_choice_is_listed(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        pick(text, *GGUFS)
    assert "m-Q8_0.gguf" in str(caught.value.hint) or "org/x:Q8_0" in str(caught.value.hint)
    assert "mmproj" not in str(caught.value.hint) or text.endswith(".gguf")


HEAD_NAMES = [f"{mark}m-Q4_K_M.gguf" for mark in choose_gguf.HEADS]


@pytest.mark.parametrize(
    ("paths", "chosen"),
    [
        *((("m-Q8_0.gguf", head), "m-Q8_0.gguf") for head in HEAD_NAMES),
        (("m-Q8_0.gguf", "mmproj-m-Q4_K_M.gguf", "m.imatrix.gguf"), "m-Q8_0.gguf"),
        (("m-Q8_0.gguf", "m-UD-Q4_K_M.gguf"), "m-Q8_0.gguf"),
        (("m-UD-IQ1_S.gguf", "m-UD-Q4_K_M.gguf"), "m-UD-Q4_K_M.gguf"),
        (("m-BF16.gguf", "m-F16.gguf"), "m-BF16.gguf"),
        (("m-IQ1_S.gguf", "Q4_0/m-00001-of-00002.gguf", "Q4_0/m-00002-of-00002.gguf"),
         "Q4_0/m-00001-of-00002.gguf"),
        (("m.gguf", "a.gguf", "README.md"), "a.gguf"),
        (("mtp-m-Q8_0.gguf",), "mtp-m-Q8_0.gguf"),
        (("mmproj-m.gguf",), None),
        (("m-00002-of-00002.gguf",), None),
        ((), None),
    ],
)  # fmt: skip
def test_one_gguf_stands_for_a_repo(paths: tuple[str, ...], chosen: str | None) -> None:
    assert choose_gguf.usual(paths) == chosen
    assert choose_gguf.usual(reversed(paths)) == chosen


def test_a_repo_with_a_head_beside_the_model_needs_no_tag() -> None:
    assert pick("org/x", "m.gguf", "mtp-m.gguf") == "m.gguf"
    assert pick("org/x", "eagle3-m.gguf") == "eagle3-m.gguf"
    with pytest.raises(UsageError, match="no GGUF files"):
        pick("org/x:Q8_0", "mtp-m-Q8_0.gguf")


def test_a_folder_with_a_head_and_a_projector_beside_the_model(run: Run, tmp_path: Path) -> None:
    make.gguf(tmp_path / "m.gguf", make.gguf_tokens(300))
    for beside in ("mmproj-m.gguf", "mtp-m.gguf"):
        (tmp_path / beside).write_bytes(b"GGUF")
    ran = run("inspect", tmp_path, "--format", "json")
    assert ran.code == 0, ran.err
    make.gguf(tmp_path / "other.gguf", make.gguf_tokens(300))
    ran = run("inspect", tmp_path)
    assert ran.code == 2 and "2 GGUF models in this folder" in ran.err
    assert "Name one: m.gguf, other.gguf" in ran.err


def test_two_files_with_one_tag_are_a_choice() -> None:
    with pytest.raises(UsageError) as caught:
        pick("org/x:Q4_0", "a-Q4_0.gguf", "b-Q4_0.gguf")
    assert "org/x/a-Q4_0.gguf, org/x/b-Q4_0.gguf" in str(caught.value.hint)


def test_a_later_part_is_not_the_model() -> None:
    with pytest.raises(UsageError, match="not the first part"):
        pick("org/x/BF16/m-BF16-00002-of-00002.gguf", *GGUFS)


def test_a_single_gguf_needs_no_tag_and_a_checkpoint_is_no_gguf_repo() -> None:
    assert pick("org/x", "config.json", "only.gguf", "mmproj-only.gguf") == "only.gguf"
    assert pick("org/x", "config.json", "model.safetensors", "extra.gguf") is None
    assert pick("org/x", "config.json") is None
