"""What passes take in llama-server itself: plain ones, and with drafts of each length.

A pass of llama-server (common/speculative.cpp, tools/server/server-context.cpp, b11312): the draft
makes g tokens, one step each; the target checks g + 1; the draft, wound back, reads those g + 1
once more; tokens are chosen. A draft never reaches beyond the tokens that are still to be
predicted, less one: so one server with long drafts makes passes of every length, and an answer of
g + 2 tokens begins with g drafted ones. Its own clock times them.

A long answer repeats one shape of pass, for which CUDA keeps a graph once it was seen twice
(ggml-cuda.cu, b11312). The short answers here never get that far: what a plain pass gains by it is
taken off them. On a CPU there is nothing to gain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from statistics import fmean

from msgspec import structs

from draftcheck.trial.backends.llamacpp.server import LlamaServer
from draftcheck.trial.backends.llamacpp.speculation import Speculation
from draftcheck.trial.backends.rounds import middle
from draftcheck.trial.backends.sides import ServerLost
from draftcheck.trial.speedup import Costs, spread

PLAIN = 0
LENGTHS = (12, 8, 6, 4, 3, 2, 1)
"""Drafts that are timed, longest first: where little is accepted, one answer has them all."""
PLAIN_PASSES = 10
UNSETTLED = 2
"""Passes of one shape before its graph is kept."""
ROUNDS = range(5, 21)
"""As many as it takes until SURE, or until there are enough."""
SURE = 0.03
APART = 3
"""Rounds where each loads the models anew."""


class PassTimer:
    """Two llama-servers, with and without the draft, asked in turns."""

    def __init__(self, speculation: Speculation, context: int) -> None:
        self._speculation, self._context = speculation, context
        self._open = ExitStack()
        self._held: dict[int, LlamaServer] = {}
        self.version = ""

    def costs(self, steps: Costs) -> Costs:
        """Costs with which a pass takes as long as llama-server took for it.

        steps: of both models, timed one by one; they say how a pass is made up.
        """
        rounds: list[dict[int, float]] = []
        each: list[Costs] = []
        together = self._speculation.together
        few, many = (ROUNDS.start, ROUNDS.stop) if together else (APART, APART)
        with self._open:
            for turn in range(many):
                if turn >= few and spread(each) <= SURE:
                    break
                rounds.append(self._round())
                each.append(_made_up(rounds[-1], steps))
        return structs.replace(
            _made_up(middle(rounds), steps),
            how="passes of llama-server",
            version=self.version,
            spread=spread(each),
        )

    def _round(self) -> dict[int, float]:
        """Drafted tokens -> seconds of such a pass."""
        seen: dict[int, list[float]] = defaultdict(list)
        plain = self._server(PLAIN)
        self.version = plain.version
        alone = [seconds for _, seconds in plain.passes(self._context, PLAIN_PASSES + 1)]
        seen[PLAIN] += alone[UNSETTLED:] or alone
        gain = fmean(alone[:UNSETTLED]) - fmean(seen[PLAIN]) if alone else 0.0
        fast = self._server(LENGTHS[0])
        for g in LENGTHS:
            if g not in seen:
                for drafted, seconds in fast.passes(self._context, g + 2):
                    if drafted in LENGTHS:  # not 0: that pass waits for the draft too
                        seen[drafted].append(seconds - gain)
        if not seen[PLAIN] or len(seen) == 1:
            raise ServerLost("llama-server tells no times of its passes")
        return {drafted: fmean(seconds) for drafted, seconds in sorted(seen.items())}

    def _server(self, g: int) -> LlamaServer:
        """The one with drafts of up to g tokens."""
        if g not in self._held:
            if not self._speculation.together:
                self._open.close()
                self._held.clear()
            server = self._speculation.server(g or None)
            self._held[g] = self._open.enter_context(server)
            self._held[g].passes(self._context, 4)  # reads the prompt, makes what is made once
        return self._held[g]


def _made_up(passes: Mapping[int, float], steps: Costs) -> Costs:
    """Steps take what they took, as far as the passes leave room; the rest is overhead."""
    plain = structs.replace(steps, target_step=passes[PLAIN])
    drafting = {g: seconds for g, seconds in passes.items() if g != PLAIN}
    room = [(seconds - plain.target_step) / g for g, seconds in drafting.items()]
    draft = max(min(steps.draft_step, *room), 0.0)
    check = {g: min(plain.verify_step(g + 1), s - g * draft) for g, s in drafting.items()}
    return structs.replace(
        plain,
        draft_step=draft,
        verify={g + 1: seconds for g, seconds in check.items()},
        overhead={g + 1: drafting[g] - g * draft - seconds for g, seconds in check.items()},
    )
