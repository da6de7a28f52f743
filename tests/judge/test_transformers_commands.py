"""What we tell users of transformers to paste is pasted: every setup and every way out is run."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from draftcheck import check
from draftcheck.rulebook import book

pytest.importorskip("torch", reason="the trial extra is not installed")
transformers = pytest.importorskip("transformers", reason="the trial extra is not installed")

from tests import tiny  # noqa: E402

pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]
ENGINE = f"transformers@{transformers.__version__}"


def run(code: str, monkeypatch: pytest.MonkeyPatch, cwd: Path) -> tuple[str, dict[str, Any]]:
    """Run it as a user would; what it printed, and what it left."""
    transformers.logging.set_verbosity_error()
    monkeypatch.chdir(cwd)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "setup", "exec"), names)
    return printed.getvalue(), names


def pair(tmp_path: Path, method: str) -> list[Path]:
    if method == "use_mtp":
        return [tiny.with_mtp(tmp_path / "t", 46)]
    target = tiny.llama(tmp_path / "t", num_hidden_layers=2)
    if method in ("prompt_lookup", "early_exit"):
        return [target]
    if method == "dflash":
        return [target, tiny.block_drafter(tmp_path / "d")]
    if method in ("UAD", "USD"):
        return [target, tiny.llama(tmp_path / "d", tiny.merged_tokenizer(), vocab_size=266)]
    return [target, tiny.llama(tmp_path / "d")]


METHODS = [
    method.id
    for method in book.load("transformers").methods
    if method.id != "gemma4_assistant"  # its text is that of generate; a pair cannot be made tiny
]


@pytest.mark.parametrize("method", METHODS)
def test_setup_runs(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [str(path) for path in pair(tmp_path, method)]
    [verdict] = check(*models, engines=[ENGINE], method=method, draft_tokens=3).engines
    assert verdict.setup is not None, verdict
    printed, names = run(verdict.setup, monkeypatch, tmp_path)
    assert printed.strip()
    if "draft" in names and method != "dflash":
        assert names["draft"].generation_config.num_assistant_tokens == 3


@pytest.mark.parametrize("rows", [256 + 4 + 64, 259 + 1])
def test_resizing_the_draft_works(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padding on either side."""
    target = tiny.llama(tmp_path / "t", num_hidden_layers=2, vocab_size=584 - rows)
    draft = tiny.llama(tmp_path / "d", vocab_size=rows)
    [verdict] = check(str(target), str(draft), engines=[ENGINE]).engines
    assert str(verdict.reaction) == "refuses"
    repairs = {repair.id: repair.text for repair in verdict.repairs}
    printed, names = run(repairs["resize-draft"], monkeypatch, tmp_path)
    assert printed.strip()
    assert names["draft"].config.vocab_size == names["target"].config.vocab_size
    sampled = names["target"].generate(
        **names["inputs"], assistant_model=names["draft"], do_sample=True, max_new_tokens=8
    )
    assert sampled.shape[-1] > names["inputs"]["input_ids"].shape[-1]


def test_saving_the_resized_draft_makes_pipeline_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tiny.llama(tmp_path / "t", num_hidden_layers=2)
    draft = tiny.llama(tmp_path / "d", vocab_size=324)
    [verdict] = check(str(target), str(draft), engines=[ENGINE], method="pipeline").engines
    repairs = {repair.id: repair.text for repair in verdict.repairs}
    run(repairs["resize-draft-on-disk"], monkeypatch, tmp_path)
    new = tmp_path / "draft-resized"
    [again] = check(str(target), str(new), engines=[ENGINE], method="pipeline").engines
    assert str(again.verdict) == "compatible"
    pipe = transformers.pipeline("text-generation", model=str(target), assistant_model=str(new))
    assert pipe("the cat", max_new_tokens=8)


def test_other_special_ids_have_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny.llama(tmp_path / "t", num_hidden_layers=2)
    draft = tiny.llama(tmp_path / "d", eos_token_id=[257, 5])
    [verdict] = check(str(target), str(draft), engines=[ENGINE], method="pipeline").engines
    assert verdict.decided_by == "TRF002"
    repairs = {repair.id: repair.text for repair in verdict.repairs}
    assert run(repairs["generate-instead"], monkeypatch, tmp_path)[0].strip()


def test_other_vocabularies_are_offered_the_translating_methods(tmp_path: Path) -> None:
    target = tiny.llama(tmp_path / "t", num_hidden_layers=2)
    draft = tiny.llama(tmp_path / "d", tiny.merged_tokenizer(), vocab_size=266)
    [verdict] = check(str(target), str(draft), engines=[ENGINE]).engines
    offered = {repair.title.split("'s ")[1].split(" ")[0] for repair in verdict.repairs
               if repair.id == "other-method"}  # fmt: skip
    assert offered >= {"UAD", "USD"}
    assert "resize-draft" not in {repair.id for repair in verdict.repairs}
