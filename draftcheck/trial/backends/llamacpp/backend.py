"""The trial with llama.cpp: GGUF pairs, through llama-cpp-python or llama-server.

llama-cpp-python reads a text in one pass; llama-server is a program of its own, asked over
loopback, and the one that speculates for real (--verify). Steps are timed for one sequence at a
time. At a temperature the draft proposes its first choice, as llama.cpp's drafts do. It cannot
translate vocabularies, and there is no type to choose: the file says what is computed in.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from draftcheck.errors import ReadError, UsageError
from draftcheck.models.readers.gguf import facts as gguf
from draftcheck.models.readers.heads import FULL
from draftcheck.models.sources.folder import FolderSource
from draftcheck.probe import client
from draftcheck.trial import model_places
from draftcheck.trial.backends.asking import ServerAsker
from draftcheck.trial.backends.backend import CannotVerify, TrialOptions
from draftcheck.trial.backends.llamacpp import library
from draftcheck.trial.backends.llamacpp import program as llama_program
from draftcheck.trial.backends.llamacpp.head import HeadSides, LlamaHead
from draftcheck.trial.backends.llamacpp.pass_times import PassTimer
from draftcheck.trial.backends.llamacpp.program import LlamaProgram, RunningServer
from draftcheck.trial.backends.llamacpp.server import LlamaServer
from draftcheck.trial.backends.llamacpp.speculation import Speculation
from draftcheck.trial.backends.sides import NoDraft, ServerLost, Sides
from draftcheck.trial.speedup import Costs
from draftcheck.values.facts import HeadFacts, ModelFacts

DEVICE = re.compile(r"cpu|mps|cuda(:[0-9]{1,3})?")
LONGEST_PROMPT = 4096
"""Tokens of context beside the new ones: a model's own context may take all memory there is."""

Model = library.LlamaLibrary | LlamaServer


def available() -> str | None:
    """Why no GGUF can be run here; None: it can."""
    why = library.missing()
    if why is None or llama_program.find() is not None:
        return None
    return f"{why}; {no_program()}"


def no_program() -> str:
    spelling = llama_program.spellings()
    name, program = spelling.environment, spelling.program
    named = os.environ.get(name)
    if named:
        return f"{name} names {named}, which is not a program"
    return f"no {program} on PATH, and {name} names none"


def open(target: str, draft: str | None, options: TrialOptions) -> Sides:
    """Both models, the same way; the draft may be served already. None: the target alone."""
    check(options)
    mine = model_places.locate_gguf(target)
    if draft is None:
        return open_alone(mine, options)
    theirs = model_places.locate_gguf(draft) if options.draft_url is None else None
    if theirs is not None and (head := head_of(mine, theirs)) is not None:
        return open_head(mine, theirs, head, options)
    big = model(mine, options)
    try:
        small = model(theirs, options) if theirs else at(options.draft_url or "")
    except BaseException:
        big.close()
        raise
    sides = LlamaPair("llama.cpp", big, small, how_timed(big, small))
    path = llama_program.find()
    if path is None:
        sides.speculation = f"llama.cpp's own speculation needs llama-server: {no_program()}"
    elif theirs is None:
        sides.speculation = "llama.cpp's own speculation needs the draft's file, not a server of it"
    else:
        program = LlamaProgram(path)
        settings = arguments(program, options)
        servers = how_many(program, options, mine, theirs)
        sides.real = Speculation(program, mine, theirs, settings, sides.close, servers=servers)
        sides.speculation = sides.real.verify
    return sides


class LlamaPair(Sides):
    """A target and a draft model."""

    real: Speculation | None = None
    """How llama-server runs them together."""

    def costs(self, sequences: int, context: int) -> Costs | None:
        """Of passes that llama-server made; of steps where there is none."""
        self.reads_again = True
        steps = super().costs(sequences, context)
        if steps is None or self.real is None:
            return steps
        self.close()
        try:
            return PassTimer(self.real, context).costs(steps)
        except (ServerLost, CannotVerify, ReadError) as error:
            self.remarks.append(f"steps were timed one by one: {error}")
            return steps


def how_many(program: LlamaProgram, options: TrialOptions, *files: Path) -> int:
    """Servers that fit at once, by the memory that can be asked for; half of it is for caches."""
    size = sum(facts(file).weights.nbytes or 0 for file in files)
    memory = program.room()
    if options.device == "cpu" or program.device() == "cpu":
        try:
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):  # not everywhere
            return 1
    return max(1, memory // (2 * size)) if size else 1


def open_alone(target: Path, options: TrialOptions) -> Sides:
    """What a target brings along: MTP layers of its own, or nothing but copied text."""
    if facts(target).role != FULL:
        raise UsageError(f"{target}: a head writes no text", hint="Name its target before it.")
    if (head := head_of(target, target)) is not None:
        return open_head(target, target, head, options)
    big = model(target, options)
    sides = Sides("llama.cpp", big, NoDraft(), how_timed(big))
    sides.remarks.append("the target has no MTP layers: copied drafts alone were measured")
    sides.speculation = "there is no draft to run"
    return sides


def how_timed(*models: Model) -> str:
    server = any(isinstance(one, LlamaServer) for one in models)
    return "plain timing by llama-server" if server else "plain timing of llama_decode"


def head_of(target: Path, draft: Path) -> HeadFacts | None:
    """The head that the draft is; the target named twice means MTP layers of its own."""
    found = facts(draft)
    if found.role == FULL and (draft != target or not (found.head and found.head.mtp_present)):
        return None
    if found.role == FULL and found.head is not None:
        return replace(found.head, kind="mtp")
    return found.head


def open_head(target: Path, file: Path, head: HeadFacts, options: TrialOptions) -> Sides:
    """A head runs in llama-server alone: llama-cpp-python has no speculation with heads."""
    path = llama_program.find()
    if path is None:
        raise UsageError(
            f"a trial of a head in GGUF needs llama-server: {no_program()}",
            hint="Put llama-server on PATH.",
        )
    program = LlamaProgram(path)
    own = None if file == target else file
    device = "cpu" if options.device == "cpu" else program.device()
    speculation = Speculation(
        program,
        target,
        own,
        arguments(program, options),
        kind=head.kind or FULL,
        template=facts(target).tokenizer.chat_template is not None,
        servers=how_many(program, options, target, file),
    )
    return HeadSides(LlamaHead(speculation, head, device))


def check(options: TrialOptions) -> None:
    if options.dtype is not None:
        raise UsageError(
            "--dtype does not apply to GGUF: the file says what it is computed in",
            hint="Name another file of the model.",
        )
    if options.device is not None and not DEVICE.fullmatch(options.device):
        raise UsageError(f"--device {options.device}: llama.cpp takes cpu, mps, cuda or cuda:N")


def model(file: Path, options: TrialOptions) -> Model:
    """One GGUF, loaded; a llama-server that the user names comes before llama-cpp-python."""
    named = os.environ.get(llama_program.spellings().environment)
    if not named and library.missing() is None:
        library.rehearse(file, options)
        return library.LlamaLibrary(file, options.tokens + LONGEST_PROMPT, options)
    path = llama_program.find()
    if path is None:
        raise UsageError(
            f"a trial of GGUF files needs llama.cpp: {available()}",
            hint="pip install 'draftcheck-llm[llama]', or put llama-server on PATH.",
        )
    program = LlamaProgram(path)
    running = RunningServer(program, ["-m", str(file), *arguments(program, options)])
    try:
        running.wait()
        device = "cpu" if options.device == "cpu" else program.device()
        # llama-server makes a chat template up where the file has none.
        template = facts(file).tokenizer.chat_template is not None
        asker = ServerAsker(running.base, running.key)
        return LlamaServer(asker, running=running, template=template, device=device)
    except ServerLost as error:
        running.close()
        raise ReadError(f"{file}: {error}") from error
    except BaseException:
        running.close()
        raise


def facts(file: Path) -> ModelFacts:
    source = FolderSource(file.parent, only=gguf.parts(file.name), named=True)
    return gguf.read(source, file.name, str(file))


def arguments(program: LlamaProgram, options: TrialOptions) -> list[str]:
    """One sequence, a bounded context, no prompts kept in memory, the device asked for."""
    found = ["-c", str(options.tokens + LONGEST_PROMPT), "-np", "1"]
    found += program.if_known("prompt_cache", "0")
    if options.device == "cpu":
        return [*found, "-ngl", "0", "-dev", "none"]
    if not os.environ.get(llama_program.spellings().offload):
        found += ["-ngl", "99"]
    number = (options.device or "").partition(":")[2]
    return [*found, *(["-dev", f"CUDA{number}"] if number else [])]


def at(url: str, key: str | None = None) -> LlamaServer:
    """A llama-server that runs already."""
    asker = ServerAsker(client.parse(url), key)
    first = asker.get("/health")
    if not first.reached:
        raise ReadError(f"{asker.base.url}: {first.fault}", hint="Is llama-server running?")
    try:
        return LlamaServer(asker)
    except ServerLost as error:
        raise ReadError(f"{asker.base.url}: {error}") from error
