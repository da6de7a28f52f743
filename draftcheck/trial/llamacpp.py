"""The trial with llama.cpp: GGUF pairs, through llama-cpp-python or llama-server.

llama-cpp-python reads a text in one pass; llama-server is a program of its own, asked over
loopback, and the one that speculates for real.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from draftcheck import rulefiles
from draftcheck.errors import ReadError, UsageError
from draftcheck.facts import gguf
from draftcheck.probing.web import parse
from draftcheck.sources.folder import FolderSource
from draftcheck.trial import gguf_files, llama_library, llama_program
from draftcheck.trial.asking import Asker
from draftcheck.trial.backend import Options
from draftcheck.trial.llama_program import Program, Running
from draftcheck.trial.llama_server import Server
from draftcheck.trial.llama_speculation import Speculation
from draftcheck.trial.sides import Lost, Sides, Verify

NAME = "llama.cpp"
DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")
LONGEST_PROMPT = 4096
"""Tokens of context beside the new ones: a model's own context may take all memory there is."""

Model = llama_library.Library | Server


def available() -> str | None:
    """Why no GGUF can be run here; None: it can."""
    why = llama_library.missing()
    if why is None or llama_program.find() is not None:
        return None
    return f"{why}; {no_program()}"


def no_program() -> str:
    settings = rulefiles.load(llama_program.FILE)
    name, program = settings["environment"], settings["program"]
    named = os.environ.get(name)
    if named:
        return f"{name} names {named}, which is not a program"
    return f"no {program} on PATH, and {name} names none"


def open(target: str, draft: str, options: Options) -> Sides:
    """Both models, the same way; the draft may be served already."""
    check(options)
    mine = gguf_files.locate(target)
    theirs = gguf_files.locate(draft) if options.draft_url is None else None
    big = model(mine, options)
    try:
        small = model(theirs, options) if theirs else at(options.draft_url or "")
    except BaseException:
        big.close()
        raise
    server = isinstance(big, Server) or isinstance(small, Server)
    how = "plain timing by llama-server" if server else "plain timing of llama_decode"
    sides = Sides(NAME, big, small, how)
    sides.speculation = speculation(mine, theirs, options, sides)
    return sides


def check(options: Options) -> None:
    if options.dtype is not None:
        raise UsageError(
            "--dtype does not apply to GGUF: the file says what it is computed in",
            hint="Name another file of the model.",
        )
    if options.device is not None and not DEVICE.fullmatch(options.device):
        raise UsageError(f"--device {options.device}: llama.cpp takes cpu, mps, cuda or cuda:N")


def model(file: Path, options: Options) -> Model:
    """One GGUF, loaded; a llama-server that the user names comes before llama-cpp-python."""
    named = os.environ.get(rulefiles.load(llama_program.FILE)["environment"])
    if not named and llama_library.missing() is None:
        llama_library.rehearse(file, options)
        return llama_library.Library(file, options.tokens + LONGEST_PROMPT, options)
    path = llama_program.find()
    if path is None:
        raise UsageError(
            f"a trial of GGUF files needs llama.cpp: {available()}",
            hint="pip install 'draftcheck-llm[llama]', or put llama-server on PATH.",
        )
    program = Program(path)
    running = Running(program, ["-m", str(file), *arguments(program, options)])
    try:
        running.wait()
        device = "cpu" if options.device == "cpu" else program.device()
        asker = Asker(running.base, running.key)
        return Server(asker, running=running, template=_has_template(file), device=device)
    except Lost as error:
        running.close()
        raise ReadError(f"{file}: {error}") from error
    except BaseException:
        running.close()
        raise


def arguments(program: Program, options: Options) -> list[str]:
    """One sequence, a bounded context, no prompts kept in memory, the device asked for."""
    found = ["-c", str(options.tokens + LONGEST_PROMPT), "-np", "1"]
    found += program.if_known("prompt_cache", "0")
    if options.device == "cpu":
        return [*found, "-ngl", "0", "-dev", "none"]
    number = (options.device or "").partition(":")[2]
    return [*found, "-ngl", "99", *(["-dev", f"CUDA{number}"] if number else [])]


def at(url: str, key: str | None = None) -> Server:
    """A llama-server that runs already."""
    asker = Asker(parse(url), key)
    first = asker.site.get("/health")
    if not first.reached:
        raise ReadError(f"{asker.site.base.url}: {first.fault}", hint="Is llama-server running?")
    try:
        return Server(asker)
    except Lost as error:
        raise ReadError(f"{asker.site.base.url}: {error}") from error


def speculation(target: Path, draft: Path | None, options: Options, sides: Sides) -> Verify | str:
    """How to speculate for real, or why that is not possible."""
    path = llama_program.find()
    if path is None:
        return f"llama.cpp's own speculation needs llama-server: {no_program()}"
    if draft is None:
        return "llama.cpp's own speculation needs the draft's file, not a server of it"
    program = Program(path)
    return Speculation(program, target, draft, arguments(program, options), sides.close).verify


def _has_template(file: Path) -> bool:
    """Whether the file has a chat template: llama-server makes one up where there is none."""
    source = FolderSource(file.parent, only=gguf.parts(file.name), named=True)
    facts = gguf.read(source, file.name, str(file))
    return facts.tokenizer.chat_template is not None
