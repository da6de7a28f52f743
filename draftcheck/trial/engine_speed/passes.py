"""Work and an engine's constants -> the seconds of its passes.

    forward(n)     = reading and multiplying, smoothly the longer one, + cache + layers
    checked(n)     = forward(target, n tokens, padded to a graph) + pass + n choices of a token
    plain step     = checked(B)
    speculating    = waits + the longer of
                       GPU: checked(B (g + 1)) + g draft steps
                       CPU: what it takes to launch all that no graph holds
    draft step     = forward(draft, B tokens) + gap; the first of a pass reads B (g + 1) tokens

B: sequences at once, g: drafted tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from draftcheck.trial.engine_speed.table import DraftingRow, PassRow
from draftcheck.trial.engine_speed.work import ModelWork
from draftcheck.trial.speedup import LONGEST, Costs
from draftcheck.values.memory import Gpu

USUAL = 4
"""Drafted tokens."""


@dataclass(frozen=True, slots=True)
class EnginePasses:
    """An engine of some version on a GPU, with a target and what drafts for it."""

    engine: str
    version: str
    passes: PassRow
    drafting: DraftingRow
    gpu: Gpu
    target: ModelWork
    draft: ModelWork
    ranks: int = 1
    launch: float = 1.0
    """How long this machine's CPU takes to launch a kernel, beside the one that was timed."""

    @property
    def known(self) -> bool:
        """Whether its steps are as long as those that were timed."""
        return self.plain(1) * 1e6 >= self.passes.shortest_us

    def costs(self, sequences: int, longest: int = LONGEST) -> Costs:
        """Of every length up to `longest`."""
        step = self._draft_step(sequences, sequences)
        at_once = self.drafting.at_once
        verify = {
            g + 1: self.speculating(sequences, g) - (1 if at_once else g) * step
            for g in range(1, longest + 1)
        }
        return Costs(
            draft_step=step,
            target_step=self.plain(sequences),
            verify=verify,
            how="modelled",
            at_once=at_once,
            engine=self.engine,
            version=self.version,
            source="modelled",
            spread=self.spread(sequences, min(longest, USUAL)),
            sequences=sequences,
        )

    def plain(self, sequences: int) -> float:
        """Seconds of a step without drafts."""
        return self._checked(sequences, 1)

    def speculating(self, sequences: int, g: int) -> float:
        """Seconds of a pass that drafts and checks g tokens for each sequence."""
        gpu, cpu, waits = self._parts(sequences, g)
        return max(gpu, cpu) + waits

    def spread(self, sequences: int, g: int) -> float:
        """How far the model may be off: the more a pass hangs on its machine's CPU, the more."""
        gpu, cpu, waits = self._parts(sequences, g)
        by_cpu = (waits + max(cpu - gpu, 0)) / (waits + max(gpu, cpu))
        within = self.drafting.within or self.passes.within
        return within + by_cpu * self.passes.cpu_within

    def _parts(self, sequences: int, g: int) -> tuple[float, float, float]:
        """Seconds of a speculating pass: the GPU's, the CPU's beside it, what both wait for."""
        drafting, tokens = self.drafting, sequences * (g + 1)
        steps = 1 if drafting.at_once else g
        gpu = self._checked(sequences, g + 1) + self._draft_step(sequences, tokens)
        gpu += (steps - 1) * self._draft_step(sequences, sequences)
        launched = drafting.step_us + drafting.layer_us * self.draft.layers
        checking = drafting.layer_us * self.target.layers if self._eager(tokens) else 0
        cpu = (drafting.cpu_us + checking + steps * launched) * self.launch / 1e6
        return gpu, cpu, drafting.waits_us * self.launch / 1e6

    def _checked(self, sequences: int, each: int) -> float:
        tokens = sequences * each
        chosen = (self.passes.pass_us + self.passes.token_us * tokens) / 1e6
        padded = self._padded(tokens, each)
        return self._forward(self.target, sequences, padded, padded) + chosen

    def _draft_step(self, sequences: int, tokens: int) -> float:
        padded = self._padded(tokens, 1)
        chosen = min(self._padded(sequences, 1), padded)
        return self._forward(self.draft, sequences, padded, chosen) + self.drafting.gap_us / 1e6

    def _forward(self, model: ModelWork, sequences: int, tokens: int, chosen: int) -> float:
        bandwidth = (self.gpu.bandwidth or 0) * self.passes.bandwidth * self.ranks
        flops = (self.gpu.flops or 0) * self.passes.flops * self.ranks
        reading = model.read(tokens) / bandwidth
        # Of a draft's first step, which reads what was checked, one token of a sequence is chosen.
        skipped = model.output / model.bytes_each * (tokens - chosen)
        multiplying = 2 * (model.parameters * tokens - skipped) / flops
        both = math.hypot(reading, multiplying)  # where they are close, both count
        layer_us = self.passes.layer_us
        if self._eager(tokens):
            layer_us += self.passes.eager_layer_us * self.launch
        return both + model.layers * layer_us / 1e6 + sequences * model.cache / bandwidth

    def _eager(self, tokens: int) -> bool:
        """Whether no graph is large enough."""
        return tokens > self.passes.graphs[-1][0]

    def _padded(self, tokens: int, multiple: int) -> int:
        """To the next size that a graph was made for, all of them whole passes."""
        return next(
            (size for size in _sizes(self.passes.graphs, multiple) if size >= tokens), tokens
        )


def _sizes(steps: Sequence[tuple[int, int]], multiple: int) -> Sequence[int]:
    sizes, last = [], 0
    for up_to, step in steps:
        while last + step <= up_to:
            last += step
            sizes.append(last)
    whole = (-(-size // multiple) * multiple for size in sizes)
    return [size for size in whole if size <= steps[-1][0]]
