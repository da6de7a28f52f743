"""What can go wrong with a trial: one line each, the right exit code, nothing measured is lost."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, Run
from tests.trial import drafts

pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")
pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]

TARGET, DRAFT = FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft"


@pytest.fixture
def trial(run: Run, tmp_path: Path) -> Callable[..., Any]:
    file = tmp_path / "prompts.txt"
    words = ("A bird", "Add 3", "def f(", "Dear", "List", "Soup", "Monday", "Why", "Who", "When")
    lines = [f"{word} {n}" for n in (1, 2) for word in words]
    file.write_text("\n".join(lines), encoding="utf-8")
    common = ("--prompts", file, "--tokens", "8", "--no-cost", "--device", "cpu")

    def call(target: Path, draft: Path, *more: object) -> Any:
        return run("trial", target, draft, *common, *more)

    return call


def test_pair_measures_what_the_verdict_allows(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("Tell me a story.\nAdd 3 and 4.\n", encoding="utf-8")
    common = ("--prompts", file, "--tokens", "12", "--device", "cpu", "--engine", "vllm")
    ran = run("pair", TARGET, DRAFT, "--trial", *common, "--format", "json")
    assert ran.code == 0, ran.err
    trial = ran.json["trial"]
    assert trial["tokens"] > 0
    assert f'"num_speculative_tokens": {trial["length"]}' in ran.engine("vllm")["setup"]
    assert trial["draft"]["digest"].startswith("ends-sha256:")
    head = drafts.renumbered(tmp_path / "other")
    ran = run("pair", TARGET, head, "--trial", *common, "--format", "json")
    assert ran.code == 1
    assert ran.json["trial"] is None
    assert "no trial was made" in ran.err
    ran = run("pair", TARGET, DRAFT, "--trial", *common, "--tokens", "600")
    assert ran.code == 3  # the verdict stands, the measurement could not be made
    assert ran.out.startswith("compatible")
    assert "context of 512" in ran.err


def test_ggufs_are_measured_too(trial: Callable[..., Any]) -> None:
    pair = FIXTURES / "pair" / "target.gguf", FIXTURES / "pair" / "draft.gguf"
    ran = trial(*pair, "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["lengths"][3]["tokens_per_pass"] > 1.2


def test_what_holds_no_weights_is_refused(
    run: Run, trial: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "target.facts.json"
    run("inspect", TARGET, "--output", file, "--format", "json")
    ran = trial(file, DRAFT)
    assert (ran.code, len(ran.err.splitlines())) == (2, 3)
    assert "facts hold no weights" in ran.err
    assert trial(Path("ollama:llama3"), DRAFT).code == 2


def test_a_model_that_says_it_is_a_head(trial: Callable[..., Any], tmp_path: Path) -> None:
    folder = drafts.copy(tmp_path / "head")
    drafts.edit(folder / "config.json", architectures=["LlamaForCausalLMEagle3"])
    ran = trial(TARGET, folder)
    assert ran.code == 1
    assert "the head does not fit: the head reads hidden states of width 64" in ran.out


def test_missing_tensors(trial: Callable[..., Any], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = drafts.copy(tmp_path / "holes")
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: data for name, data in tensors.items() if "q_proj" not in name}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    ran = trial(TARGET, folder)
    assert ran.code == 1
    assert "missing from the weights" in ran.out
    assert trial(folder, DRAFT).code == 3


def test_corrupt_weights(trial: Callable[..., Any], tmp_path: Path) -> None:
    folder = drafts.copy(tmp_path / "cut")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    ran = trial(TARGET, folder)
    assert ran.code == 3
    assert len(ran.err.splitlines()) == 2, "what measures, and the error"
    assert "Traceback" not in ran.err


def test_remote_code_is_not_run(trial: Callable[..., Any], tmp_path: Path) -> None:
    folder = drafts.copy(tmp_path / "code")
    (folder / "configuration_evil.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w')\nclass C: pass\n", encoding="utf-8"
    )
    drafts.edit(folder / "config.json", model_type="evil",
                auto_map={"AutoConfig": "configuration_evil.C"})  # fmt: skip
    ran = trial(TARGET, folder)
    assert ran.code == 3
    assert "code from its repository" in ran.err
    assert not (tmp_path / "ran").exists()


def test_ids_beyond_the_rows_are_broken(trial: Callable[..., Any], tmp_path: Path) -> None:
    few = drafts.copy(tmp_path / "few")
    drafts.set_rows(few, list(range(200)))
    ran = trial(TARGET, few)
    assert ran.code == 1
    assert "the draft has 200 rows" in ran.out
    # A draft whose favourite is a row that only it has.
    many = drafts.copy(tmp_path / "many")
    drafts.set_rows(many, [*range(1000), *range(1000)])
    from safetensors.torch import load_file, save_file

    tensors = load_file(many / "model.safetensors")
    name = "model.embed_tokens.weight"
    tensors[name][1000:] *= 1.5
    save_file(tensors, many / "model.safetensors", metadata={"format": "pt"})
    ran = trial(TARGET, many)
    assert ran.code == 1
    assert "the target has 1,000 rows" in ran.out


def test_prompts_that_do_not_fit_are_counted(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("Hello.\nGood morning.\n" + "word " * 600, encoding="utf-8")
    common = ("--prompts", file, "--no-cost", "--device", "cpu")
    ran = run("trial", TARGET, DRAFT, *common, "--tokens", "8", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["prompts"] == 2
    assert "1 prompt left out: too long" in ran.json["notes"][0]
    ran = run("trial", TARGET, DRAFT, *common, "--tokens", "600")
    assert ran.code == 3
    assert "3 prompts left out" in ran.err
    assert "context of 512" in ran.err


def test_too_little_memory_is_seen_before_loading(
    trial: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from draftcheck.trial.backends.transformers import loading

    monkeypatch.setattr(loading, "free", lambda _: 3 << 20)
    monkeypatch.setattr(loading, "model", None)  # never called
    ran = trial(TARGET, DRAFT)
    assert ran.code == 3
    assert "GiB in float32, and cpu has 0.0 GiB free" in ran.err
    assert "--dtype bfloat16" in ran.err


def test_a_full_device_is_tried_with_fewer_texts_at_once(
    trial: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from draftcheck.trial.backends.transformers.backend import TransformersBackend

    real = TransformersBackend._write
    sizes = []

    def full(self: Any, rows: Any, options: Any, watch: Any) -> Any:
        sizes.append(len(rows))
        if len(rows) > limit:
            raise torch.OutOfMemoryError("tried to allocate 7 GiB")
        return real(self, rows, options, watch)

    monkeypatch.setattr(TransformersBackend, "_write", full)
    limit = 4
    ran = trial(TARGET, DRAFT, "--format", "json", "--precision", "0")
    assert ran.json["prompts"] == 20
    assert sizes[:3] == [16, 8, 4]
    limit = 0
    ran = trial(TARGET, DRAFT)
    assert ran.code == 3
    assert "tried to allocate 7 GiB" in ran.err


@pytest.mark.parametrize("how", ["interrupted", "died"])
def test_what_was_measured_is_kept(
    how: str, trial: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from draftcheck.errors import ReadError
    from draftcheck.trial.backends.transformers.backend import TransformersBackend

    real = TransformersBackend.generate
    calls = []

    def fail(self: Any, prompts: Any, options: Any) -> Any:
        calls.append(len(prompts))
        if len(calls) > 1:
            raise KeyboardInterrupt if how == "interrupted" else ReadError("the server died")
        return real(self, prompts, options)

    monkeypatch.setattr(TransformersBackend, "generate", fail)
    kept = tmp_path / "texts.json"
    ran = trial(TARGET, DRAFT, "--precision", "0", "--reuse", kept, "--format", "json")
    assert ran.code == {"interrupted": 130, "died": 3}[how]
    assert ran.json["prompts"] == 16
    assert ran.json["incomplete"] == {"interrupted": "interrupted", "died": "the server died"}[how]
    assert len(ran.json["lengths"]) == 24
    assert len(json.loads(kept.read_text())["texts"]) == 16


def test_ctrl_c_in_the_first_batch_keeps_what_was_written(
    trial: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from draftcheck.trial import api, measure
    from draftcheck.trial.backends.transformers import target

    real = target._Watch.__call__
    steps = []

    def impatient(self: Any, input_ids: Any, scores: Any) -> Any:
        steps.append(None)
        if len(steps) > 5:
            raise KeyboardInterrupt
        return real(self, input_ids, scores)

    monkeypatch.setattr(target._Watch, "__call__", impatient)
    ran = trial(TARGET, DRAFT, "--format", "json")
    assert ran.code == 130, ran.err
    assert ran.json["incomplete"] == "interrupted" and ran.json["prompts"] == 16
    assert 16 < ran.json["tokens"] <= 16 * 5 and ran.json["acceptance_rate"]["value"] > 0
    steps.clear()
    assert trial(TARGET, DRAFT).out.startswith("interrupted: "), "the first line says it"
    steps.extend([None] * 5)
    nothing = trial(TARGET, DRAFT)
    assert nothing.code == 130 and nothing.out == "" and nothing.err.endswith("interrupted\n")
    monkeypatch.setattr(measure, "EVERY", 0.0)
    monkeypatch.setattr(target._Watch, "__call__", real)
    said: list[str] = []
    api.trial(str(TARGET), str(DRAFT), tokens=4, precision=0, say=said.append)
    assert said[0].startswith("measuring with transformers")
    assert said[1] == "loaded on cpu, float32; at most 10 min (--budget)"
    assert re.fullmatch(r"\d+ of \d+ prompts, at most about \d+ s left", said[2]), said


def test_a_budget_ends_it(trial: Callable[..., Any]) -> None:
    ran = trial(TARGET, DRAFT, "--budget", "0.01", "--precision", "0", "--format", "json")
    assert ran.code == 0, ran.err
    assert "budget of 0.01 s" in ran.json["stopped"]


def test_a_mixed_workload_has_both_parts(trial: Callable[..., Any]) -> None:
    ran = trial(TARGET, DRAFT, "--temperature", "1", "--greedy-share", "0.25", "--precision", "0",
                "--format", "json", "--tokens", "16")  # fmt: skip
    assert ran.code == 0, ran.err
    parts = ran.json["workload"]
    assert (parts["greedy"]["prompts"], parts["sampled"]["prompts"]) == (5, 15)
    assert len(ran.json["greedy_draft_lengths"]) == 24
    assert ran.json["draft_sampling"] == "probabilistic"
    text = trial(TARGET, DRAFT, "--temperature", "1", "--greedy-share", "0.25").out
    assert "greedy draft" in text
    assert "sampled" in text


def test_pickles_are_not_opened(trial: Callable[..., Any], tmp_path: Path) -> None:
    import torch

    folder = drafts.copy(tmp_path / "pickled")
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert trial(TARGET, folder).code == 3


def test_without_torch_the_extra_is_named(
    trial: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.startswith("draftcheck.trial.t"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    ran = trial(TARGET, DRAFT)
    assert ran.code == 2
    assert "draftcheck-llm[trial]" in ran.err


def test_devices_that_are_not_there(trial: Callable[..., Any]) -> None:
    assert "no such device" in trial(TARGET, DRAFT, "--device", "abacus").err
    assert "no mps device here" in trial(TARGET, DRAFT, "--device", "mps").err
    ran = trial(TARGET, DRAFT, "--device", "auto", "--format", "json")
    assert ran.code == 0, ran.err


def test_a_template_that_refuses(trial: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "template"
    shutil.copytree(TARGET, folder)
    drafts.edit(folder / "tokenizer_config.json",
                chat_template="{{ raise_exception('roles must alternate') }}")  # fmt: skip
    ran = trial(folder, DRAFT)
    assert (ran.code, len(ran.err.splitlines())) == (3, 2)
    assert "roles must alternate" in ran.err


def test_a_model_that_fails_while_it_runs(
    trial: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from draftcheck.trial.backends.transformers import draft_logits

    def fail(*_: Any) -> Any:
        raise RuntimeError("an illegal memory access\nwas encountered")

    monkeypatch.setattr(draft_logits, "read", fail)
    ran = trial(TARGET, DRAFT)
    assert (ran.code, len(ran.err.splitlines())) == (3, 2)
    assert "an illegal memory access was encountered" in ran.err


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (("--engine", "vlm"), "unknown engine 'vlm'"),
        (("--engine", "vllm@x.y"), "is not a version such as"),
        (("--gpu", "h2000"), "--gpu 'h2000': no such GPU"),
    ],
)
def test_what_nobody_knows_is_refused_before_anything_runs(
    run: Run, said: tuple[str, str], words: str
) -> None:
    ran = run("trial", "no/such", "model", *said)  # reading them would fail in other words
    assert ran.code == 2 and words in ran.err
