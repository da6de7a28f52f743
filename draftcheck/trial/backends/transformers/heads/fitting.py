"""Whether a head can belong to a target, from their files: said before anything is loaded.

The checks are those of the engines' rules; here what all engines would come to grief over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from draftcheck.judge.checks import heads as checks
from draftcheck.judge.checks.outcomes import Settled
from draftcheck.judge.compare import compare
from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome

Check = Callable[[JudgedPair], CheckOutcome]
EVERY: tuple[Check, ...] = (
    checks.head_width,
    checks.head_ids_mapped,
    checks.head_output_present,
    checks.head_table_sound,
    partial(checks.head_layers_in_range, beyond=1),
    checks.head_mask_in_vocabulary,
    checks.mtp_layers_present,
)
OF_KIND: dict[str, tuple[Check, ...]] = {"eagle3": (checks.head_fc,)}


def check(target: ModelFacts, head: ModelFacts) -> None:
    """Raises BrokenDraft with what was seen."""
    nobody = EngineSetup(engine="", version="", method="", order=str, checked="")
    pair = JudgedPair.of(compare(target, head), nobody)
    for one in (*EVERY, *OF_KIND.get(head.role or "", ())):
        try:
            outcome = one(pair)
        except Settled as settled:
            outcome = settled.outcome
        if outcome.outcome is Outcome.FAIL:
            raise BrokenDraft(f"the head does not fit: {outcome.saw}")
