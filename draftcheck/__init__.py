"""draftcheck: can this draft model speculate for this target, on this engine and version?

>>> import draftcheck
>>> verdict = draftcheck.check("fixtures/pair/target", "fixtures/pair/draft")
>>> str(verdict.verdict)
'compatible'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftcheck.types import PairVerdict

__version__ = "0.1.0"
__all__ = ["__version__", "check"]


def check(
    target: str,
    draft: str,
    *,
    engines: Sequence[str] = (),
    method: str | None = None,
    context: int | None = None,
    tensor_parallel: int | None = None,
    draft_tensor_parallel: int | None = None,
) -> PairVerdict:
    """Read both models and judge the pair; engines are texts such as "vllm@0.15.1"."""
    # Imported here so that `import draftcheck` and --version stay instant.
    from draftcheck import questions
    from draftcheck.compare import compare
    from draftcheck.facts import read_all
    from draftcheck.judge import judge
    from draftcheck.refs import parse

    asked = questions.ask(
        engines,
        method=method,
        context=context,
        tensor_parallel=tensor_parallel,
        draft_tensor_parallel=draft_tensor_parallel,
    )
    comparison = compare(*read_all(parse(target), parse(draft)))
    return judge(comparison, asked, explicit=bool(engines))
