"""llama.cpp's own speculation, counted: a llama-server with the target and its draft or head.

Its counters (tools/server/server-context.cpp, b10586): draft_n adds the length of every draft that
is left after n_min, draft_n_accepted what the target took of it; the first token comes out of the
prompt's pass, where nothing is drafted; a draft never reaches beyond the tokens that are still to
be predicted, less one. So for a text of known length passes = predicted_n - 1 - draft_n_accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from draftcheck.models.readers.heads import FULL
from draftcheck.probe import client
from draftcheck.trial.backends.asking import ServerAsker
from draftcheck.trial.backends.backend import CannotVerify, TargetText, TrialOptions
from draftcheck.trial.backends.llamacpp.program import LlamaProgram, RunningServer
from draftcheck.trial.backends.llamacpp.server import LlamaServer
from draftcheck.trial.result import VerifiedRun


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
    """What a llama-server is started with."""

    program: LlamaProgram
    target: Path
    draft: Path | None
    """None: MTP layers of the target itself."""
    arguments: Sequence[str]
    """Context and devices: the same for both runs."""
    free: Callable[[], None] = lambda: None
    """Gives back what is loaded: the pair is loaded once more for this."""
    kind: str = FULL
    """What the draft is: a model, or which head."""
    template: bool = True
    """The target has a chat template."""
    servers: int = 1
    """As many fit into memory at once."""

    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        """The same texts without and with the draft; in turns, where both can be loaded."""
        self.free()
        if self.servers > 1:
            with self.server() as one, self.server(g) as other:
                both = [(_one(one, text, options), _one(other, text, options)) for text in texts]
            plain, fast = map(_sum, zip(*both, strict=True))
        else:
            plain, fast = self.count(texts, options), self.count(texts, options, g)
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
        with self.server(g, p_min, fewest) as server:
            return _sum([_one(server, text, options) for text in texts])

    @contextmanager
    def server(
        self, g: int | None = None, p_min: float = 0.0, fewest: int = 0
    ) -> Iterator[LlamaServer]:
        """One that runs as long as it is needed; g: None for one without the draft."""
        arguments = [*self.arguments, "-m", str(self.target)]
        if g is not None:
            if self.draft is not None:
                arguments += self.program.option("draft_model", str(self.draft))
            arguments += self.program.method(self.kind)
            arguments += self.program.option("draft_tokens", str(g))
            arguments += self.program.option("fewest", str(fewest))
            arguments += self.program.option("p_min", str(p_min))
        running = RunningServer(self.program, arguments)
        try:
            running.wait()
            asker = ServerAsker(running.base, running.key)
            # llama-server stays healthy when it drops a draft: that must not count as a run.
            told = [slot.get("speculative") for slot in asker.get("/slots").rows()]
            if g is not None and told and not any(told):
                raise CannotVerify(f"llama-server drops this draft: {running.last_words()}")
            yield LlamaServer(asker, running=running, template=self.template)
        finally:
            running.close()


def _sum(counts: Sequence[SpeculationCount]) -> SpeculationCount:
    tokens, drafted, accepted, seconds, same = map(sum, zip(*counts, strict=True))
    return SpeculationCount(tokens, drafted, accepted, seconds, same == len(counts))


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
