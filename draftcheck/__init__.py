"""draftcheck: can this draft model speculate for this target, on this engine and version?

>>> import draftcheck
>>> verdict = draftcheck.check("fixtures/pair/target", "fixtures/pair/draft")
>>> str(verdict.verdict)
'compatible'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from draftcheck.settings import __version__

if TYPE_CHECKING:
    from draftcheck.judge.decide import Question
    from draftcheck.values.circumstances import Circumstances
    from draftcheck.values.comparison import Comparison
    from draftcheck.values.verdicts import PairVerdict

__all__ = ["__version__", "check", "decide"]


def check(
    target: str,
    draft: str | None = None,
    *,
    engines: Sequence[str] = (),
    method: str | None = None,
    circumstances: Circumstances | None = None,
    offline: bool = False,
    deep: bool = False,
    **said: Any,
) -> PairVerdict:
    """Read both models and judge the pair; engines are texts such as "vllm@0.15.1".

    Without a draft: what the target can do by itself (MTP layers, n-grams). Circumstances
    (context, sequences, tensor_parallel, dtype, gpu …) may be given by name. offline: models
    of the Hub are read from caches only. deep: weights are held against transformers' own
    classes (imports torch; reads no weights).
    """
    # Imported here so that `import draftcheck` and --version stay instant.
    from draftcheck.judge import questions
    from draftcheck.judge.compare import compare
    from draftcheck.models.read import read_all
    from draftcheck.models.refs import parse

    given = _given(circumstances, **said)
    asked = questions.ask(engines, method=method, circumstances=given)
    refs = [parse(target)] if draft is None else [parse(target), parse(draft)]
    facts = read_all(*refs, offline=offline, deep=deep)
    comparison = compare(facts[0], facts[1] if draft is not None else None)
    return _judged(comparison, asked, explicit=bool(engines))


def decide(
    comparison: Comparison,
    *,
    engines: Sequence[str] = (),
    method: str | None = None,
    circumstances: Circumstances | None = None,
    **said: Any,
) -> PairVerdict:
    """Judge models that are read already, perhaps under other circumstances than before."""
    from draftcheck.judge import questions

    given = _given(circumstances, **said)
    asked = questions.ask(engines, method=method, circumstances=given)
    return _judged(comparison, asked, explicit=bool(engines))


def _judged(comparison: Comparison, asked: Sequence[Question], *, explicit: bool) -> PairVerdict:
    from draftcheck.judge import repairs
    from draftcheck.judge.decide import judge

    return repairs.add(judge(comparison, asked, explicit=explicit), asked, explicit=explicit)


def _given(circumstances: Circumstances | None, **said: Any) -> Circumstances:
    """What the user said, with the devices that it names."""
    from dataclasses import replace

    from draftcheck.judge import questions
    from draftcheck.values.circumstances import Circumstances

    return questions.settle(replace(circumstances or Circumstances(), **said))
