"""Heads as llama.cpp runs them: readings of a checkpoint against the counters of llama-server.

The fixture's heads go to llama-server as GGUF in F32, with caches in F32, so that nothing is
rounded: passes, drafted and accepted tokens must be equal, not near.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")
pytest.importorskip("gguf", reason="the gguf package is not installed")

import numpy  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from draftcheck.trial.backends.backend import TargetText, TrialOptions, open_backend  # noqa: E402
from draftcheck.trial.backends.llamacpp.head import (  # noqa: E402
    HeadSides,
    LlamaHead,
    RunTime,
    passes,
    run_time,
    tokens_per_second,
)
from draftcheck.trial.backends.llamacpp.program import LlamaProgram  # noqa: E402
from draftcheck.trial.backends.llamacpp.server import LlamaServer  # noqa: E402
from draftcheck.trial.backends.llamacpp.speculation import Speculation  # noqa: E402
from draftcheck.trial.backends.transformers.heads import ways  # noqa: E402
from draftcheck.trial.prompts import load  # noqa: E402
from draftcheck.trial.simulate import answers  # noqa: E402
from draftcheck.trial.simulate.traces import Trace  # noqa: E402
from draftcheck.values.facts import HeadFacts  # noqa: E402
from fixtures import head_gguf  # noqa: E402
from tests.conftest import FIXTURES  # noqa: E402

PAIR = FIXTURES / "pair"
OPTIONS = TrialOptions(tokens=32, device="cpu", dtype="float32", engine="llama.cpp")
EXACT = ["-c", "512", "-np", "1", "-ngl", "0", "-fa", "off"]
EXACT += ["-ctk", "f32", "-ctv", "f32", "-ctkd", "f32", "-ctvd", "f32"]
EXACT += ["-t", "1", "-tb", "1", "-td", "1", "-tbd", "1"]
SERVER = os.environ.get("DRAFTCHECK_LLAMA_SERVER", "")
Read = tuple[list[TargetText], list[Trace], Speculation]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    os.environ["LLAMA_ARG_THREADS"] = "1"


def layers_at_the_top(folder: Path) -> Path:
    """The EAGLE-3 head with its layers where llama.cpp's converter looks for them."""
    source = PAIR / "heads" / "eagle3"
    config = json.loads((source / "config.json").read_text())
    config |= config.pop("eagle_config")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes())
    return folder


def uneven_norm(folder: Path) -> Path:
    """The target with its MTP layer, whose last norm turns the state that is fed back."""
    source = PAIR / "heads" / "target-mtp"
    tensors = load_file(source / "model.safetensors")
    weight = tensors["model.layers.4.shared_head.norm.weight"]
    weight *= torch.linspace(0.2, 1.8, len(weight)).to(weight.dtype)
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def after_two_tokens(text: TargetText, server: LlamaServer) -> TargetText:
    """What the target writes behind the end of a prompt: few slots, so that each one counts."""
    prompt = text.prompt[-2:]
    made = server.complete(prompt.tolist(), OPTIONS.tokens, OPTIONS)
    return replace(text, prompt=prompt, tokens=numpy.array(made["tokens"]))


@pytest.fixture(scope="module", params=["eagle3", "eagle3 as converted", "dflash", "mtp"])
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Texts, the readings of a head, and a llama-server that has it."""
    folder = tmp_path_factory.mktemp("head")
    kind = request.param.partition(" ")[0]
    target, head = PAIR / "target", PAIR / "heads" / kind
    if request.param == "eagle3":
        head = layers_at_the_top(folder)
    if kind == "mtp":
        target = uneven_norm(folder)
    backend = open_backend(
        "transformers", str(target), str(head) if kind != "mtp" else None, OPTIONS
    )
    texts = list(backend.generate(load()[::6][:12], OPTIONS))
    big = head_gguf.write(target, folder / "target.gguf")
    small = None if kind == "mtp" else head_gguf.write(head, folder / "head.gguf")
    speculation = Speculation(LlamaProgram(Path(SERVER)), big, small, EXACT, kind=kind)
    if kind == "mtp":
        with speculation.server() as server:
            texts = [after_two_tokens(text, server) for text in texts]
    return texts, list(backend.read(texts, OPTIONS)), speculation


def needs_server(test: Any) -> Any:
    why = "DRAFTCHECK_LLAMA_SERVER does not name a llama-server"
    return pytest.mark.llamacpp(pytest.mark.skipif(not Path(SERVER).is_file(), reason=why)(test))


@needs_server
@pytest.mark.parametrize("g", [1, 2, 3, 5])
def test_readings_foretell_what_llama_server_counts(read: Read, g: int) -> None:
    texts, traces, speculation = read
    longest = traces[0].rank.shape[1]
    g = min(g, longest)
    told = answers.by_length(traces, longest)[g]
    if speculation.kind == "mtp":  # the first slot of a request holds what the one before left
        real = [speculation.count([text], OPTIONS, g) for text in texts]
    else:
        real = [speculation.count(texts, OPTIONS, g)]
    assert all(part.same for part in real)
    assert [
        sum(getattr(part, name) for part in real) for name in ("passes", "drafted", "accepted")
    ] == [told.passes.sum(), told.drafted.sum(), told.accepted.sum()]


@needs_server
def test_runs_of_llama_server_alone_say_the_same(read: Read) -> None:
    """As a trial of two GGUF files does it: from the counters that come with each token."""
    texts, traces, speculation = read
    if speculation.kind == "mtp":
        pytest.skip("the first slot of a request holds what the one before left")
    size = 5 if speculation.kind == "dflash" else None
    sides = HeadSides(LlamaHead(speculation, HeadFacts(block_size=size), "cpu"))
    found = list(sides.read(texts, OPTIONS))
    sides.close()
    told = answers.by_length(traces, traces[0].rank.shape[1])
    real = answers.by_length(found, sides.limits().longest)
    assert list(real) == ([1, 2, 3, 4] if size else [1, 2, 3, 4, 6, 8])
    for g, counts in real.items():
        assert counts.passes.tolist() == told[g].passes.tolist()
        assert counts.accepted.tolist() == told[g].accepted.tolist()
        assert counts.drafted.tolist() == told[g].drafted.tolist()
    assert len(sides.notes) == 1, "no text came out otherwise"


def test_passes_by_the_counters_of_each_token() -> None:
    def seen(*counters: tuple[int, int]) -> list[dict[str, Any]]:
        return [{"timings": {"draft_n": d, "draft_n_accepted": a}} for d, a in counters]

    first: list[dict[str, Any]] = [{"timings": {}}]
    assert passes(first + seen((3, 2), (3, 2), (3, 2), (6, 2), (8, 4), (8, 4)), 3) == [2, 0, 2]
    # The second pass ended inside a character: its counters came with those of the third.
    assert passes(first + seen((3, 0), (9, 4), (9, 4)), 3) == [0, 3, 1]


def test_runs_are_compared_by_tokens_per_second() -> None:
    """Texts of a sampled run may end earlier than those it is held against."""
    told = [{"predicted_n": 1, "predicted_ms": 0.5}, {"predicted_n": 6, "predicted_ms": 2000.0}]
    one = run_time([{"timings": timings} for timings in told])
    assert one == RunTime(5, 2.0)
    assert run_time([]) == run_time([{}]) == RunTime(0, 0.0)
    assert tokens_per_second([one, RunTime(25, 3.0)]) == 6.0


def test_layers_that_the_converter_does_not_see_are_the_usual_ones(tmp_path: Path) -> None:
    found = {
        head: open_backend("transformers", str(PAIR / "target"), str(head), OPTIONS).head_run
        for head in (PAIR / "heads" / "eagle3", layers_at_the_top(tmp_path))
    }
    told = [run.layers for run in found.values() if run is not None]
    assert told == [(2, 2, 1), (1, 2, 3)]
    assert ways.way("llama.cpp").slot_before
