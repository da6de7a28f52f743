"""A real llama-server, where DRAFTCHECK_LLAMA_SERVER names one; models are tiny and random."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import ROOT, Run
from tests.probe.record_llama_server import SIMPLE, running

pytestmark = pytest.mark.llamacpp
Start = Callable[..., str]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A target, a draft that fits and one that does not."""
    sys.path.insert(0, str(ROOT / "tests" / "agreement"))
    import mutate

    cases = {case.name: case for case in mutate.CASES}
    folder = tmp_path_factory.mktemp("models")
    (folder / "fit").mkdir()
    (folder / "unfit").mkdir()
    target, draft = mutate.write(cases["small-bpe/text4/draft"], folder / "fit")
    _, unfit = mutate.write(cases["small-bpe/text300/draft"], folder / "unfit")
    return {"target": target, "draft": draft, "unfit": unfit}


@pytest.fixture
def start(files: dict[str, Path]) -> Iterator[Start]:
    server = os.environ.get("DRAFTCHECK_LLAMA_SERVER")
    if not server or not Path(server).is_file():
        pytest.skip("DRAFTCHECK_LLAMA_SERVER does not name a llama-server")
    with ExitStack() as stack:

        def call(draft: str | None, *options: str) -> str:
            chosen = ["-md", str(files[draft])] if draft else []
            arguments = ["-m", str(files["target"]), *chosen, *options]
            return stack.enter_context(running(Path(server), arguments))

        yield call


def test_with_a_draft(start: Start, run: Run) -> None:
    url = start("draft", *SIMPLE, "--metrics")
    fresh = run("probe", url, "--format", "json")
    assert fresh.code == 0 and fresh.json["engine"] == "llama.cpp"
    asked = run("probe", url, "--format", "json", "--prompt", "ba be bi").json
    assert asked["method"] == "draft-simple" and asked["prompt"]["drafted_tokens"] > 0
    figures = ("drafted_tokens", "accepted_tokens", "generated_tokens")
    assert [asked["prompt"][name] for name in figures] == [
        asked["since_start"][name] for name in figures
    ]


def test_with_md_only_and_with_an_unfit_draft(start: Start, run: Run) -> None:
    for draft, options, cause in (("draft", (), "not-asked"), ("unfit", SIMPLE, "dropped")):
        url = start(draft, *options)
        assert run("probe", url).code == 1
        ran = run("probe", url, "--format", "json", "--prompt", "ba be bi")
        assert ran.code == 1 and {entry["id"] for entry in ran.json["causes"]} == {cause}


def test_without_slots_and_metrics(start: Start, run: Run) -> None:
    url = start("draft", *SIMPLE, "--no-slots")
    assert run("probe", url).code == 3
    asked = run("probe", url, "--format", "json", "--prompt", "ba be bi").json
    assert asked["prompt"]["drafted_tokens"] > 0


def test_with_a_key(start: Start, run: Run, tmp_path: Path) -> None:
    url = start(None, "--api-key", "a-key")
    assert run("probe", url).code == 3
    (tmp_path / "key").write_text("a-key\n")
    assert run("probe", url, "--api-key-file", tmp_path / "key").code == 1
