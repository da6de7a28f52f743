"""The dearest stage: a trial of each of the best candidates. Loads models; off unless asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from draftcheck.errors import ReadError, UsageError
from draftcheck.recommend import records
from draftcheck.recommend.records import TrialRecord

SECONDS = 300.0
"""For the prompts of one draft."""


def run(
    target: str, drafts: Sequence[str], say: Callable[[str], None]
) -> Iterator[tuple[str, TrialRecord | str]]:
    """Each draft with what was measured, or the reason why nothing was.

    The target writes its texts once; every draft reads the same.
    """
    from draftcheck.trial.api import trial

    with tempfile.TemporaryDirectory(prefix="draftcheck-") as folder:
        for number, draft in enumerate(drafts, 1):

            def tell(text: str, number: int = number) -> None:
                say(f"trial {number} of {len(drafts)}: {text}")

            try:
                kept = Path(folder) / "texts.json"
                measured = trial(target, draft, budget=SECONDS, reuse=kept, say=tell)
                yield draft, records.of(measured)
            except (ReadError, UsageError) as error:
                yield draft, error.message
