"""The sweep over model types: what it runs agrees, and what differs is told."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")

from tests.agreement import sweep_transformers as sweeping

pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]


def test_common_types_and_a_recurrent_one_agree(capsys: pytest.CaptureFixture[str]) -> None:
    said = ["--types", "llama,gpt2,mamba", "--methods", "generate,prompt_lookup", "--all"]
    assert sweeping.main(said) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "llama as target, generate: same text; we say: the same" in lines
    assert any("mamba as target, generate: ValueError" in line for line in lines)
    assert lines[-1].endswith("9 runs of 3 types, 0 differ; skipped: none")


@pytest.mark.parametrize(
    ("did", "ours"),
    [
        ("same text", None),
        ("other text", "runs"),
        ("ValueError: no", "runs"),
    ],
)
def test_a_run_that_differs_is_told(
    did: str, ours: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweeping, "outcome", lambda run: did)
    assert sweeping.main(["--types", "llama,nothing", "--methods", "prompt_lookup"]) == bool(ours)
    out = capsys.readouterr().out
    assert (f"llama as target, prompt_lookup: {did}; we say: {ours}" in out) == bool(ours)
    assert "skipped: nothing (" in out


def test_words_of_an_error_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweeping, "outcome", lambda run: "ValueError: no")
    assert sweeping.main(["--types", "mamba", "--methods", "prompt_lookup"]) == 1
    assert "we say: refuses (TRF003) with the words" in capsys.readouterr().out
