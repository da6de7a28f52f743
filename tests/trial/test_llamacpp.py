"""The trial of GGUF files, held against what llama-server itself counts when it speculates."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import pytest

from tests.conftest import FIXTURES, ROOT, Run
from tests.hub import Hub
from tests.models import test_ollama

numpy = pytest.importorskip("numpy", reason="the trial extra is not installed")
pytest.importorskip("safetensors", reason="the trial extra is not installed")

from draftcheck.trial import result  # noqa: E402
from draftcheck.trial.backends import ctrl_c  # noqa: E402
from draftcheck.trial.backends.backend import (  # noqa: E402
    StoppedWriting,
    TargetText,
    TrialOptions,
)
from draftcheck.trial.backends.llamacpp import backend as llamacpp  # noqa: E402
from draftcheck.trial.backends.llamacpp import library  # noqa: E402
from draftcheck.trial.backends.llamacpp import program as llama_program  # noqa: E402
from draftcheck.trial.backends.llamacpp.server import LlamaServer  # noqa: E402
from draftcheck.trial.backends.llamacpp.speculation import Speculation  # noqa: E402
from draftcheck.trial.backends.sides import NoDraft, Sides  # noqa: E402
from draftcheck.trial.prompts import Prompt, load  # noqa: E402
from draftcheck.trial.simulate import passes as simulate  # noqa: E402
from draftcheck.trial.simulate.traces import Trace, line_up  # noqa: E402
from fixtures import head_gguf  # noqa: E402
from tests.trial.play_llama_server import DRAFTED, PASS, READ  # noqa: E402

PAIR = (FIXTURES / "pair" / "target.gguf", FIXTURES / "pair" / "draft.gguf")
OPTIONS = TrialOptions(tokens=32, device="cpu")
# Imported while the environment still says where its shared library is.
LIBRARY = library.missing() if importlib.util.find_spec("llama_cpp") else "not installed"
LIBRARY_PATH = os.environ.get("LLAMA_CPP_LIB_PATH")
SERVER = os.environ.get("DRAFTCHECK_LLAMA_SERVER", "")
needs_server = [
    pytest.mark.llamacpp,
    pytest.mark.skipif(
        not Path(SERVER).is_file(), reason="DRAFTCHECK_LLAMA_SERVER does not name a llama-server"
    ),
]
needs_library = pytest.mark.skipif(LIBRARY is not None, reason=f"llama-cpp-python: {LIBRARY}")


def server(test: object) -> object:
    for mark in needs_server:
        test = mark(test)
    return test


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")


@pytest.fixture(scope="module")
def read() -> Iterator[tuple[list[TargetText], list[Trace]]]:
    """Texts of the target and what the draft thinks of them, through llama-server."""
    os.environ["LLAMA_ARG_THREADS"] = "1"
    sides = llamacpp.open(*map(str, PAIR), OPTIONS)
    try:
        texts = list(sides.generate(load()[:10], OPTIONS))
        yield texts, list(sides.read(texts, OPTIONS))
    finally:
        sides.close()


def speculation() -> Speculation:
    real = llama_program.LlamaProgram(Path(SERVER))
    return Speculation(real, *PAIR, ["-c", "512", "-np", "1"], lambda: None)


@server
@pytest.mark.parametrize("g", range(1, 9))
def test_fixed_lengths_are_counted_as_llama_server_does(
    read: tuple[list[TargetText], list[Trace]], g: int
) -> None:
    texts, traces = read
    real = speculation().count(texts, OPTIONS, g)
    told = simulate.lengths(line_up(traces), g)[g]
    assert real.same
    assert (real.passes, real.drafted, real.accepted) == (
        told.passes.sum(), told.drafted.sum(), told.accepted.sum(),
    )  # fmt: skip


@server
@pytest.mark.parametrize(("p_min", "g"), [(0.5, 4), (0.75, 8), (0.75, 16)])
def test_thresholds_accept_what_llama_server_accepts(
    read: tuple[list[TargetText], list[Trace]], p_min: float, g: int
) -> None:
    """Drafts that go on after a wrong token are not seen in one reading: drafted is an estimate."""
    texts, traces = read
    real = speculation().count(texts, OPTIONS, g, p_min)
    line = line_up(traces)
    [told] = simulate.walk(line, [simulate.stop_when_unsure(line, p_min, g)])
    assert (real.passes, real.accepted) == (told.passes.sum(), told.accepted.sum())
    assert real.drafted == pytest.approx(told.drafted.sum(), rel=0.2)


@server
@needs_library
def test_both_ways_see_the_same(
    read: tuple[list[TargetText], list[Trace]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRAFTCHECK_LLAMA_SERVER")
    sides = llamacpp.open(*map(str, PAIR), OPTIONS)
    assert isinstance(sides.target, library.LlamaLibrary)
    texts = list(sides.generate(load()[:10], OPTIONS))
    assert [text.prompt.tolist() for text in texts] == [text.prompt.tolist() for text in read[0]]
    assert [text.tokens.tolist() for text in texts] == [text.tokens.tolist() for text in read[0]]
    for ours, theirs in zip(sides.read(texts, OPTIONS), read[1], strict=True):
        seen = theirs.rank < 64  # llama-server names that many
        assert (ours.rank[seen] == theirs.rank[seen]).all()
        assert (ours.rank[~seen] >= 64).all()
        assert numpy.allclose(ours.confidence, theirs.confidence, atol=1e-3)
    sides.close()


@server
def test_the_command_verifies_with_llama_cpps_own_speculation(run: Run, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Once there were 3 birds and\nAdd 4 and 3.\nTo make soup\n")
    kept = tmp_path / "texts.json"
    common = ("trial", *PAIR, "--prompts", prompts, "--tokens", "16", "--format", "json")
    ran = run(*common, "--verify", "--reuse", kept)
    assert ran.code == 0, ran.err
    body = ran.json
    assert body["backend"] == "llama.cpp"
    assert body["dtype"] == "F16"
    assert body["cost"]["target_step_s"] > body["cost"]["draft_step_s"] > 0
    found = body["verified"]
    assert found["tokens_per_pass"] == pytest.approx(found["predicted_tokens_per_pass"])
    assert found["identical_output"] is True
    again = run(*common, "--no-cost", "--reuse", kept)
    assert again.json["lengths"][3]["tokens_per_pass"] == body["lengths"][3]["tokens_per_pass"]


@server
def test_a_temperature_is_counted_as_llama_cpp_drafts(run: Run, tmp_path: Path) -> None:
    """Its draft proposes its first choice at any temperature; the target's sample must be that."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Once there were 3 birds and\nOnce there were 7 birds and\n")
    common = ("trial", *PAIR, "--prompts", prompts, "--tokens", "32", "--format", "json")
    cold, warm = (
        run(*common, "--no-cost", "--temperature", t).json["lengths"][3]["tokens_per_pass"]
        for t in ("0", "1.5")
    )
    assert 1 <= warm < cold


@server
def test_a_file_that_llama_cpp_refuses_is_named_with_its_words(run: Run, tmp_path: Path) -> None:
    broken = tmp_path / "draft.gguf"
    broken.write_bytes(PAIR[1].read_bytes()[:-4096])
    ran = run("trial", PAIR[0], broken, "--tokens", "8", "--no-cost")
    assert ran.code == 3
    assert "llama-server ended" in ran.err


def test_without_llama_cpp_one_line_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("DRAFTCHECK_LLAMA_SERVER", raising=False)
    monkeypatch.setattr(library, "missing", lambda: "llama-cpp-python is not installed")
    ran = run("trial", *PAIR, "--backend", "llama.cpp")
    assert ran.code == 2
    assert "llama-cpp-python is not installed; no llama-server on PATH" in ran.err
    monkeypatch.setenv("DRAFTCHECK_LLAMA_SERVER", "/nowhere/llama-server")
    ran = run("trial", *PAIR, "--backend", "llama.cpp")
    assert "DRAFTCHECK_LLAMA_SERVER names /nowhere/llama-server" in ran.err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--dtype", "float16"), "--dtype does not apply to GGUF"),
        (("--device", "tpu"), "llama.cpp takes cpu"),
    ],
)
def test_settings_that_mean_nothing_here_are_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, more: tuple[str, str], words: str
) -> None:
    monkeypatch.setattr(llamacpp, "available", lambda: None)
    ran = run("trial", *PAIR, "--backend", "llama.cpp", *more)
    assert ran.code == 2
    assert words in ran.err
    ran = run("trial", FIXTURES / "pair" / "target", PAIR[1], "--backend", "llama.cpp")
    assert ran.code == 2
    assert "not a GGUF" in ran.err


class Program:
    """A program of the user's that plays llama-server, and the command lines it was given."""

    def __init__(self, folder: Path, build: str) -> None:
        script = folder / "play.py"
        script.write_bytes(Path(__file__).with_name("play_llama_server.py").read_bytes())
        self.path = folder / "llama-server"
        self.path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" {build} "$@"\n')
        self.path.chmod(0o755)
        self._log = folder / f"{build}.log"

    @property
    def lines(self) -> list[str]:
        return self._log.read_text().splitlines()


@pytest.fixture
def program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Program:
    found = Program(tmp_path, getattr(request, "param", "new"))
    monkeypatch.setenv("DRAFTCHECK_LLAMA_SERVER", str(found.path))
    return found


@pytest.fixture
def few(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    file.write_text("one\ntwo\nthree\n")
    return file


@pytest.mark.parametrize(
    ("program", "spelt"),
    [
        ("old", "--draft-max 4 --draft-min 0 --draft-p-min 0.0"),
        ("new", "--spec-type draft-simple --spec-draft-n-max 4 --spec-draft-n-min 0"),
    ],
    indirect=["program"],
)
def test_options_are_spelt_as_the_build_knows_them(
    run: Run, program: Program, few: Path, spelt: str
) -> None:
    common = ("trial", *PAIR, "--prompts", few, "--tokens", "40", "--format", "json")
    ran = run(*common, "--verify")
    assert ran.code == 0, ran.err
    assert ran.json["backend"] == "llama.cpp"
    assert ran.json["device"] == "CUDA0 (Toy GPU)"
    assert ran.json["cost"]["target_step_s"] == pytest.approx(PASS / 1000)
    found = ran.json["verified"]
    assert found["tokens_per_pass"] == found["predicted_tokens_per_pass"] > 1.3
    assert found["identical_output"] is True
    assert spelt in program.lines[-1]
    assert "-ngl 99" in program.lines[0] and "-md" not in program.lines[0]


@pytest.mark.parametrize("free", ["0", "512"])
def test_a_draft_is_worth_what_llama_servers_passes_take(
    run: Run, program: Program, few: Path, monkeypatch: pytest.MonkeyPatch, free: str
) -> None:
    """Servers side by side where the GPU has memory for all, one after the other else."""
    monkeypatch.setenv("TOY_FREE", free)
    ran = run("trial", *PAIR, "--prompts", few, "--tokens", "40", "--format", "json")
    assert ran.code == 0, ran.err
    for row in ran.json["lengths"][1:12]:
        tokens, drafted = row["tokens_per_pass"], row["drafted_per_pass"]
        real = tokens * PASS / (PASS + DRAFTED * drafted)
        assert row["speedup"] == pytest.approx(real, rel=1e-4)
    copied = ran.json["ngram"][0]
    assert copied["speedup"] == pytest.approx(copied["tokens_per_pass"])  # no draft to wait for
    assert ran.json["cost"]["how"] == "passes of llama-server"
    whose = {"engine": "llama.cpp", "version": "toy-1", "source": "measured"}
    assert ran.json["costs"].items() >= whose.items()
    assert ran.json["costs"]["spread"] == pytest.approx(0, abs=1e-9)
    for g in (1, 2, 4, 8):
        assert sum(f"--spec-draft-n-max {g} " in line for line in program.lines) == 1


def interrupted_at(call: int, whole: Callable[..., Any]) -> Callable[..., Any]:
    """The same; Ctrl-C comes at its n-th call."""
    calls = []

    def count(*args: Any) -> Any:
        calls.append(None)
        if len(calls) == call:
            raise KeyboardInterrupt
        return whole(*args)

    return count


def test_ctrl_c_keeps_the_text_under_way_of_a_server(
    run: Run, program: Program, few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By pieces of an answer: the first is there when Ctrl-C comes in the second."""
    asked = ("--prompts", few, "--tokens", "80", "--no-cost", "--format", "json")
    whole = run("trial", *PAIR, *asked)
    assert whole.code == 0 and whole.json["tokens"] == 3 * 80, whole.err
    # Pieces of 32, 32 and 16, then the second prompt's.
    body = staticmethod(interrupted_at(5, LlamaServer._body))
    monkeypatch.setattr(LlamaServer, "_body", body)
    ran = run("trial", *PAIR, *asked)
    assert ran.code == 130, ran.err
    assert ran.json["incomplete"] == "interrupted"
    assert (ran.json["prompts"], ran.json["tokens"]) == (2, 80 + 32)


def test_ctrl_c_keeps_the_text_under_way_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """llama_decode is played: each token is the place that it stands at."""

    def decode(ids: list[int], at: int, wanted: int) -> Any:
        scores = numpy.zeros((wanted, 64))
        scores[:, at + 1] = 1.0
        return scores

    model = object.__new__(library.LlamaLibrary)
    model.device = model.dtype = "cpu"
    model.rows, model.context = 64, 64
    played = {
        "_api": SimpleNamespace(llama_vocab_is_eog=lambda *_: False),
        "_vocab": None,
        "_begin_with": lambda *_: None,
        "_decode": interrupted_at(20 + 9, decode),
        "encode": lambda *_: [1, 2, 3],
    }
    for name, value in played.items():
        monkeypatch.setattr(model, name, value, raising=False)
    sides = Sides("llama.cpp", model, NoDraft(), "")
    written = sides.generate([Prompt("chat", ()), Prompt("code", ())], TrialOptions(tokens=20))
    assert next(iter(written)).tokens.tolist() == [*range(3, 23)]
    with pytest.raises(StoppedWriting) as stopped:
        next(written)
    [text] = stopped.value.texts
    assert (text.category, text.tokens.tolist()) == ("code", [*range(3, 11)])


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C goes other ways there")
def test_engines_that_are_started_do_not_get_ctrl_c(tmp_path: Path) -> None:
    """They set a handler of their own, as vLLM's processes do; the program is interrupted."""
    child = (
        "import signal, sys; signal.signal(signal.SIGINT, lambda *_: sys.exit(7));"
        "print('ready', flush=True); sys.stdin.readline()"
    )
    code = (
        "import os, signal, subprocess, sys\n"
        f"from {ctrl_c.__name__} import kept_from_children\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "started = []\n"
        "def start():\n"
        "    pipes = {'stdin': -1, 'stdout': -1}\n"
        "    started.append(subprocess.Popen([sys.executable, '-c', sys.argv[1]], **pipes))\n"
        "    started[-1].stdout.readline()\n"
        "def interrupt():\n"
        "    for one in started: os.kill(one.pid, signal.SIGINT)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    while True: pass\n"
        "try:\n"
        "    with kept_from_children():\n"
        "        start(); interrupt()\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "start()\n"
        "try: interrupt()\n"
        "except KeyboardInterrupt: print('again')\n"
        "print([one.communicate(b'x') and one.returncode for one in started])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, child], capture_output=True, text=True, check=False, timeout=60
    )
    # The second was started plainly: that one ends by it.
    assert done.stdout.splitlines() == ["interrupted", "again", "[0, 7]"], done.stderr


def test_offload_is_what_the_environment_says(
    run: Run, program: Program, few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_N_GPU_LAYERS", "12")
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "64")
    ran = run("trial", *PAIR, "--prompts", few, "--tokens", "40", "--no-cost")
    assert ran.code == 0, ran.err
    assert not any("-ngl" in line for line in program.lines)
    assert all("LLAMA_ARG_N_GPU_LAYERS=12" in line for line in program.lines)
    assert not any("LLAMA_ARG_CTX_SIZE" in line for line in program.lines)


@pytest.mark.parametrize("drafts", [False, True])
def test_a_server_that_runs_is_timed_unless_it_speculates(
    run: Run, program: Program, few: Path, drafts: bool
) -> None:
    """Its draft reads along in every pass: what it takes then is no step of the target."""
    more = ["-md", str(PAIR[1]), "--spec-type", "draft-simple", "--spec-draft-n-max", "2"]
    toy = llama_program.LlamaProgram(program.path)
    target = llama_program.RunningServer(toy, ["-m", str(PAIR[0]), *(more if drafts else ())])
    draft = llama_program.RunningServer(toy, ["-m", str(PAIR[1])])
    try:
        for one in (target, draft):
            one.wait()
        common = ("--prompts", few, "--tokens", "40", "--format", "json")
        urls = ("--target-url", target.base.url, "--draft-url", draft.base.url)
        ran = run("trial", *PAIR, *common, *urls)
    finally:
        target.close()
        draft.close()
    assert ran.code == 0, ran.err
    said = " ".join(ran.json["notes"])
    assert ("speculates already" in said) is drafts
    assert (ran.json["cost"] is None) is drafts
    assert ("only if they are one" in said) is not drafts
    if not drafts:  # a pass waits for a step of the draft and for its second reading
        row = ran.json["lengths"][3]
        seconds = READ["target"] + READ["draft"] * (row["drafted_per_pass"] + 1)
        assert row["speedup"] == pytest.approx(row["tokens_per_pass"] * READ["target"] / seconds)


@pytest.fixture
def head(tmp_path: Path) -> Path:
    return head_gguf.write(FIXTURES / "pair" / "heads" / "eagle3", tmp_path / "eagle3.gguf")


def test_a_head_is_measured_by_what_llama_server_counts(
    run: Run, program: Program, head: Path, tmp_path: Path
) -> None:
    """The toy's head drafts what its draft does: every length must come to the same."""
    enough = tmp_path / "enough.txt"
    enough.write_text("".join(f"prompt {i}\n" for i in range(17)))
    common = ("--prompts", enough, "--precision", "0.5")
    common += ("--tokens", "20", "--no-cost", "--format", "json")
    draft = run("trial", *PAIR, *common).json
    ran = run("trial", PAIR[0], head, *common, "--verify")
    assert ran.code == 0, ran.err
    lengths = {row["draft_tokens"]: row for row in ran.json["lengths"]}
    assert list(lengths) == [1, 2, 3, 4, 6, 8]
    for g, ours in lengths.items():
        theirs = draft["lengths"][g - 1]
        assert ours["tokens_per_pass"] == theirs["tokens_per_pass"] > 1.3
        assert ours["draft_efficiency"] == theirs["draft_efficiency"]
    assert ran.json["prompts"] == 16 and "is known to within" in ran.json["stopped"]
    assert ran.json["stopped"] == draft["stopped"]
    assert ran.json["head"] == {
        "kind": "eagle3", "engine": "llama.cpp", "version": "toy-1", "layers": [2, 2, 1],
    }  # fmt: skip
    found = ran.json["verified"]
    assert found["tokens_per_pass"] == found["predicted_tokens_per_pass"] > 1.3
    assert any("with drafts of 1, 2, 3, 4, 6, 8 tokens" in note for note in ran.json["notes"])
    assert f"-md {head} --spec-type draft-eagle3" in program.lines[-1]
    assert ran.json["best"] is None, "nothing was timed"


def test_a_head_in_gguf_is_worth_what_llama_server_took(
    run: Run, program: Program, few: Path, head: Path, tmp_path: Path
) -> None:
    """And nothing is said of thresholds and trees: choices and confidences are not known."""
    (tmp_path / "tree.json").write_text("[[0], [1]]")
    common = ("trial", PAIR[0], head, "--prompts", few, "--tokens", "40")
    ran = run(*common, "--tree", tmp_path / "tree.json", "--format", "json")
    assert ran.code == 0, ran.err
    for row in ran.json["lengths"]:
        tokens, drafted = row["tokens_per_pass"], row["drafted_per_pass"]
        real = tokens * PASS / (PASS + DRAFTED * drafted)
        assert row["speedup"] == pytest.approx(real, rel=1e-4)
    best = max(ran.json["lengths"], key=lambda row: row["speedup"])
    assert ran.json["best"]["draft_tokens"] == ran.json["length"] == best["draft_tokens"]
    assert ran.json["figures"]["token_rate_ratio"] == best["speedup"] > 1
    assert ran.json["figures"]["token_rate_ratio_is"] == "measured"
    assert ran.json["cost"] is None
    assert (ran.json["thresholds"], ran.json["trees"]) == ([], [])
    assert result.parse({**ran.json}, "").pays
    told = run(*common).out
    whose = {"engine": "llama.cpp", "version": "toy-1", "source": "measured"}
    assert ran.json["costs"] == {**whose, "spread": None, "warning": None}
    assert best["break_even_tokens_per_pass"] == best["tokens_per_pass"] / best["speedup"]
    assert f"{best['speedup']:.2f}x in llama.cpp toy-1 with drafts of" in told
    assert "tokens/pass  speed-up\n" in told
    assert "speed-ups are measured" in told and "no thresholds and trees" in told
    assert "p_min" not in told and "best of" not in told


def test_a_target_alone_drafts_with_mtp_layers_of_its_own(
    run: Run, program: Program, few: Path, tmp_path: Path
) -> None:
    own = head_gguf.write(FIXTURES / "pair" / "heads" / "target-mtp", tmp_path / "target.gguf")
    ran = run("trial", own, "--prompts", few, "--tokens", "40", "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["head"]["kind"] == "mtp"
    assert ran.json["draft"]["ref"] == ran.json["target"]["ref"]
    common = ("--prompts", few, "--tokens", "40", "--format", "json", "--no-cost")
    draft = run("trial", *PAIR, *common).json
    rates = {row["draft_tokens"]: row["tokens_per_pass"] for row in draft["lengths"]}
    assert all(row["tokens_per_pass"] == rates[row["draft_tokens"]] for row in ran.json["lengths"])
    runs = [line for line in program.lines if "--spec-type" in line]
    assert runs and all("draft-mtp" in line and "-md" not in line for line in runs)


def test_a_target_alone_without_mtp_layers_copies(run: Run, program: Program, few: Path) -> None:
    ran = run("trial", PAIR[0], "--prompts", few, "--tokens", "40", "--format", "json", "--verify")
    assert ran.code == 0, ran.err
    assert ran.json["backend"] == "llama.cpp" and "head" not in ran.json
    assert (ran.json["lengths"], ran.json["thresholds"], ran.json["trees"]) == ([], [], [])
    assert all(row["speedup"] for row in ran.json["ngram"])
    assert ran.json["cost"]["draft_step_s"] == 0.0
    assert any("copied drafts alone were measured" in note for note in ran.json["notes"])
    assert any("not verified: there is no draft" in note for note in ran.json["notes"])
    assert not any("--spec-type" in line for line in program.lines)


def test_a_target_alone_that_cannot_be_measured_is_one_line(
    run: Run, program: Program, head: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "a head writes no text" in run("trial", head).err
    assert "needs a draft" in run("trial", PAIR[0], "--draft-url", "http://127.0.0.1:1").err
    own = head_gguf.write(FIXTURES / "pair" / "heads" / "target-mtp", tmp_path / "target.gguf")
    monkeypatch.setattr(library, "missing", lambda: None)
    monkeypatch.setattr(llama_program, "find", lambda: None)
    ran = run("trial", own)
    assert ran.code == 2
    assert "a trial of a head in GGUF needs llama-server" in ran.err


@pytest.mark.parametrize("program", ["old"], indirect=True)
def test_a_head_needs_a_build_that_knows_it(
    run: Run, program: Program, few: Path, head: Path
) -> None:
    ran = run("trial", PAIR[0], head, "--prompts", few, "--no-cost")
    assert ran.code == 3
    assert "has no --spec-type draft-eagle3" in ran.err


def test_a_draft_that_llama_server_drops_is_not_called_verified(
    run: Run, program: Program, few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_program.LlamaProgram, "method", lambda self, kind: [])
    ran = run("trial", *PAIR, "--prompts", few, "--tokens", "20", "--format", "json", "--verify")
    assert ran.code == 0, ran.err
    assert ran.json["verified"] is None
    assert any("llama-server drops this draft" in note for note in ran.json["notes"])


def test_last_words_of_a_server_that_does_not_start(
    run: Run, program: Program, few: Path, tmp_path: Path
) -> None:
    refused = tmp_path / "refused.gguf"
    refused.write_bytes(PAIR[1].read_bytes())
    ran = run("trial", PAIR[0], refused, "--prompts", few, "--no-cost")
    assert ran.code == 3
    assert "llama-server ended with code 1: error: failed to load model" in ran.err


def test_a_server_ends_with_the_program_that_started_it(program: Program, tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("asks the kernel of Linux")
    code = (
        "import os, sys; from pathlib import Path;"
        f"from {llama_program.__name__} import LlamaProgram, RunningServer;"
        "r = RunningServer(LlamaProgram(Path(sys.argv[1])), ['-m', 'x']); r.wait();"
        "print(r._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(program.path)], capture_output=True, text=True, check=False
    )
    pid = int(done.stdout)
    patience = time.monotonic() + 5
    while (lives := alive(pid)) and time.monotonic() < patience:
        time.sleep(0.05)
    if lives:
        os.kill(pid, 9)
    assert not lives, "it lives on"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] not in ("Z", "X")
    except OSError:
        return False


def test_models_of_ollamas_store_and_of_the_hub(
    run: Run, program: Program, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "models"
    monkeypatch.setenv("OLLAMA_MODELS", str(store))
    (store / "blobs").mkdir(parents=True)
    test_ollama.manifest(store, "big", test_ollama.layer(store, "model", test_ollama.TARGET))
    with Hub() as hub:
        hub.add_repo("org/small-GGUF", {"sub/draft-F16.gguf": PAIR[1].read_bytes()})
        done = subprocess.run(
            [sys.executable, "-m", "draftcheck", "trial", "ollama:big", "org/small-GGUF:F16",
             "--prompts", str(few), "--tokens", "20", "--no-cost", "--format", "json"],
            capture_output=True, text=True, check=False, cwd=ROOT,
            env={**hub.env(tmp_path), "OLLAMA_MODELS": str(store), "PATH": os.environ["PATH"],
                 "DRAFTCHECK_LLAMA_SERVER": str(program.path)},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["backend"] == "llama.cpp"
    assert "blobs/sha256-" in program.lines[0]
    assert "draft-F16.gguf" in program.lines[1]


@server
@pytest.mark.parametrize("way", ["server", "library"])
def test_nan_is_a_broken_draft_and_an_unmeasured_target(
    run: Run, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "library":
        if LIBRARY is not None:
            pytest.skip(f"llama-cpp-python: {LIBRARY}")
        monkeypatch.delenv("DRAFTCHECK_LLAMA_SERVER")
    common = ("--prompts", few, "--tokens", "8", "--no-cost")
    ran = run("trial", PAIR[0], nan(PAIR[1], tmp_path), *common)
    assert ran.code == 1
    assert "the draft's logits are not numbers" in ran.out
    ran = run("trial", nan(PAIR[0], tmp_path), PAIR[1], *common)
    assert ran.code == 3
    assert "the target's logits are not numbers" in ran.err


def nan(file: Path, folder: Path) -> Path:
    """The same model with a last norm of NaN."""
    [norm] = [t for t in gguf.GGUFReader(file).tensors if t.name == "output_norm.weight"]
    raw = bytearray(file.read_bytes())
    raw[norm.data_offset : norm.data_offset + norm.n_bytes] = b"\xff" * int(norm.n_bytes)
    (folder / file.name).write_bytes(raw)
    return folder / file.name


def test_the_rehearsal_loads_and_runs_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process must end well: any other end but a signal is taken for that."""
    calls: list[object] = []

    class Loaded:
        def __init__(self, *arguments: object) -> None:
            calls.append(arguments)

        def step(self, context: int, width: int) -> None:
            calls.append((context, width))

    monkeypatch.setattr(library, "LlamaLibrary", Loaded)
    monkeypatch.setattr(sys, "argv", ["-c", "a.gguf", "cpu"])
    exec(library.REHEARSAL, {})
    assert calls == [(Path("a.gguf"), 64, TrialOptions(device="cpu")), (8, 2)]


@needs_library
def test_a_file_on_which_llama_cpp_aborts_is_an_error_not_a_crash(
    run: Run, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRAFTCHECK_LLAMA_SERVER", raising=False)
    if LIBRARY_PATH is not None:
        monkeypatch.setenv("LLAMA_CPP_LIB_PATH", LIBRARY_PATH)
    fields = gguf.GGUFReader(PAIR[1]).fields
    tokens = [text.encode() for text in fields["tokenizer.ggml.tokens"].contents()]
    one, other = [text for text in tokens if len(text) == 5][:2]
    twice = tmp_path / "draft.gguf"
    size = struct.pack("<Q", 5)
    twice.write_bytes(PAIR[1].read_bytes().replace(size + one, size + other, 1))
    ran = run("trial", PAIR[0], twice, "--prompts", few, "--no-cost")
    assert ran.code == 3
    assert f"{twice}: llama.cpp was ended by SIGABRT" in ran.err
