"""What passes take in llama-server itself: plain ones, and with drafts of each length.

A pass of llama-server (common/speculative.cpp, tools/server/server-context.cpp, b11312): the draft
makes g tokens, one step each; the target checks g + 1; the draft, wound back, reads those g + 1
once more; tokens are chosen. Its own clock times them.

CUDA keeps a graph for a shape of pass that was seen twice (ggml-cuda.cu, b11312), and what that
gains depends on the shape. So each length has a server of its own, as it is served, and the first
passes of an answer are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from statistics import fmean

from msgspec import structs

from draftcheck.trial.backends.llamacpp.server import LlamaServer
from draftcheck.trial.backends.llamacpp.speculation import Speculation
from draftcheck.trial.backends.rounds import middle
from draftcheck.trial.backends.sides import ServerLost
from draftcheck.trial.speedup import Costs, spread

PLAIN = 0
LENGTHS = (1, 2, 4, 8)
PASSES = 8
"""That are counted of an answer."""
UNSETTLED = 2
"""Passes of one shape before its graph is kept."""
FEW = 3
"""Passes that are too few to count: the answer has to be longer where much is accepted."""
LONGEST = 256
ROUNDS = range(5, 13)
"""As many as it takes until SURE, or until there are enough."""
SURE = 0.03


class PassTimer:
    """llama-servers without and with drafts of each length, asked in turns where they all fit."""

    def __init__(self, speculation: Speculation, context: int) -> None:
        self._speculation, self._context = speculation, context
        self._tokens = {g: UNSETTLED + PASSES + g + 1 for g in (PLAIN, *LENGTHS)}
        """Of an answer."""
        self.version = ""

    def costs(self, steps: Costs) -> Costs:
        """Costs with which a pass takes as long as llama-server took for it.

        steps: of both models, timed one by one; they say how a pass is made up.
        """
        in_turns = self._speculation.servers >= len(self._tokens)
        rounds = self._in_turns(steps) if in_turns else self._one_by_one()
        return structs.replace(
            _made_up(middle(rounds), steps),
            how="passes of llama-server",
            version=self.version,
            spread=spread([_made_up(one, steps) for one in rounds]),
        )

    def _in_turns(self, steps: Costs) -> list[dict[int, float]]:
        """Drafted tokens -> seconds of such a pass, in each round."""
        rounds: list[dict[int, float]] = []
        with ExitStack() as stack:
            servers = {g: stack.enter_context(self._server(g)) for g in self._tokens}
            for turn in range(ROUNDS.stop):
                if turn >= ROUNDS.start and spread([_made_up(r, steps) for r in rounds]) <= SURE:
                    break
                rounds.append({g: self._a_pass(server, g) for g, server in servers.items()})
        return rounds

    def _one_by_one(self) -> list[dict[int, float]]:
        """Each is loaded once."""
        timed = {}
        for g in self._tokens:
            with self._server(g) as server:
                timed[g] = [self._a_pass(server, g) for _ in range(ROUNDS.start)]
        return [{g: seconds[i] for g, seconds in timed.items()} for i in range(ROUNDS.start)]

    @contextmanager
    def _server(self, g: int) -> Iterator[LlamaServer]:
        with self._speculation.server(g or None) as server:
            self.version = server.version
            # Reads the prompt, makes what is made once.
            server.passes(self._context, self._tokens[g])
            yield server

    def _a_pass(self, server: LlamaServer, g: int) -> float:
        """Seconds."""
        while True:
            told = server.passes(self._context, self._tokens[g])
            whole = [seconds for drafted, seconds in told if drafted == g]
            if len(whole) >= UNSETTLED + FEW or self._tokens[g] >= LONGEST:
                break
            self._tokens[g] *= 2
        if not whole:
            raise ServerLost("llama-server tells no times of its passes")
        return fmean(whole[UNSETTLED:] or whole)


def _made_up(passes: Mapping[int, float], steps: Costs) -> Costs:
    """Steps take what they took, as far as the passes leave room; the rest is overhead.

    The check comes first: a draft step that took its room would leave wide checks cheaper than
    narrow ones, which costs do not believe, and the pass would come out longer than it was.
    """
    plain = structs.replace(steps, target_step=passes[PLAIN])
    drafting = {g: seconds for g, seconds in passes.items() if g != PLAIN}
    check: dict[int, float] = {}
    for g in sorted(drafting, reverse=True):
        check[g] = min(plain.verify_step(g + 1), drafting[g], *check.values())
    room = [(seconds - check[g]) / g for g, seconds in drafting.items()]
    draft = min(steps.draft_step, *room)
    return structs.replace(
        plain,
        draft_step=draft,
        verify={g + 1: seconds for g, seconds in check.items()},
        overhead={g + 1: drafting[g] - g * draft - seconds for g, seconds in check.items()},
    )
