"""draftcheck: can this draft model speculate for this target, on this engine and version?

>>> import draftcheck
>>> verdict = draftcheck.check("fixtures/pair/target", "fixtures/pair/draft", engines=["vllm"])
>>> str(verdict.verdict)
'compatible'
>>> verdict.to_dict()["engines"][0]["reaction"]
'runs'

check, decide, inspect, trial, recommend, gate and probe are the commands as functions. What they
return has a short repr, and to_dict() is the JSON that the command prints; a notebook shows its
report. Errors that a user can act on are draftcheck.errors.DraftcheckError. Everything else is
imported when a function is called, so that `import draftcheck` stays instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# These packages share their names with functions below. They are loaded first (they hold only a
# docstring): loading one later would put the package in the function's place.
import draftcheck.gate
import draftcheck.probe
import draftcheck.recommend
import draftcheck.trial  # noqa: F401
from draftcheck.settings import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Unpack

    from draftcheck.gate.results import GateReport
    from draftcheck.judge.decide import Question
    from draftcheck.probe.readings import ProbeResult
    from draftcheck.recommend.run import Recommendation
    from draftcheck.trial.result import Trial
    from draftcheck.values.circumstances import Circumstances, CircumstanceWords
    from draftcheck.values.comparison import Comparison
    from draftcheck.values.facts import ModelFacts
    from draftcheck.values.verdicts import PairVerdict

__all__ = ["__version__", "check", "decide", "gate", "inspect", "probe", "recommend", "trial"]


def check(
    target: str,
    draft: str | None = None,
    *,
    engines: Sequence[str] = (),
    method: str | None = None,
    circumstances: Circumstances | None = None,
    offline: bool = False,
    deep: bool = False,
    **words: Unpack[CircumstanceWords],
) -> PairVerdict:
    """Read both models and judge the pair; engines are texts such as "vllm@0.15.1".

    Without a draft: what the target can do by itself (MTP layers, n-grams). Circumstances may be
    given by name: context, sequences, tensor_parallel, draft_tensor_parallel, pipeline_parallel,
    dtype, kv_dtype, draft_tokens, memory_fraction, gpu, draft_gpu. offline: models of the Hub are
    read from caches only. deep: weights are held against transformers' own classes (imports torch;
    reads no weights).
    """
    from draftcheck.judge.compare import compare
    from draftcheck.models.read import read_all
    from draftcheck.models.refs import parse

    asked = _questions(engines, method, _circumstances(circumstances, words))
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
    **words: Unpack[CircumstanceWords],
) -> PairVerdict:
    """Judge models that are read already, perhaps under other circumstances than before."""
    asked = _questions(engines, method, _circumstances(circumstances, words))
    return _judged(comparison, asked, explicit=bool(engines))


def inspect(model: str, *, offline: bool = False, deep: bool = False) -> ModelFacts:
    """Read what the files of a model say, without opinion."""
    from draftcheck.models.read import read
    from draftcheck.models.refs import parse

    return read(parse(model), offline=offline, deep=deep)


def trial(
    target: str,
    draft: str,
    *,
    prompts: Path | None = None,
    tokens: int = 128,
    temperature: float = 0.0,
    budget: float | None = 600.0,
    backend: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    verify: bool = False,
) -> Trial:
    """Measure what the draft is worth to the target; loads both models.

    prompts: a file of your own; tokens: new ones per prompt; budget: seconds after which no more
    is measured; verify: also speculate for real and compare.
    """
    from draftcheck.trial.api import trial

    return trial(
        target,
        draft,
        prompts=prompts,
        tokens=tokens,
        temperature=temperature,
        budget=budget,
        backend=backend,
        device=device,
        dtype=dtype,
        verify=verify,
    )


def recommend(
    target: str,
    *,
    engines: Sequence[str] = (),
    method: str | None = None,
    circumstances: Circumstances | None = None,
    limit: int = 10,
    max_size: int | None = None,
    tags: Sequence[str] = (),
    candidates: Sequence[str] = (),
    local: bool = False,
    folders: Sequence[Path] = (),
    trials: Sequence[Path] = (),
    offline: bool = False,
    **words: Unpack[CircumstanceWords],
) -> Recommendation:
    """Name the best drafts for a target: from the Hub, or from the models on this disk.

    max_size: parameters that a draft may have; candidates: look at these, and search nowhere;
    local: look at the models on this disk, or in folders; trials: reports to rank by.
    Circumstances may be given by name, as for check.
    """
    from draftcheck import settings
    from draftcheck.recommend import run
    from draftcheck.recommend.records import load

    request = run.RecommendRequest(
        engines=tuple(engines),
        method=method,
        circumstances=_circumstances(circumstances, words),
        limit=limit,
        largest=max_size,
        tags=tuple(tags),
        named=tuple(candidates),
        local=local or bool(folders),
        folders=tuple(folders),
        offline=offline or settings.offline(),
        records=load(tuple(trials)),
    )
    return run.recommend(target, request)


def gate(
    *files: str | Path,
    diff_base: str | None = None,
    online: bool = False,
    lock: Path | None = None,
    versions: Mapping[str, str] | None = None,
) -> GateReport:
    """Check the speculation setups in deploy files; without files, in all that git has here.

    versions: engine -> version to judge by where no file tells it. online: models that the lock
    does not have are read from the Hub.
    """
    from draftcheck.gate.run import GateRequest, run
    from draftcheck.rulebook import book

    known = {name: book.load(name).version(text) for name, text in (versions or {}).items()}
    return run(GateRequest(tuple(map(str, files)), diff_base, online, lock, known)).report


def probe(
    url: str,
    *,
    interval: float | None = None,
    prompt: str | None = None,
    model: str | None = None,
    key: str | None = None,
    timeout: float = 10.0,
) -> ProbeResult:
    """Ask a running server whether it is speculating now, and how well.

    interval: read twice, so many seconds apart; prompt: send this for one short completion;
    model: which, where the server has several; key: of the server, which goes nowhere else.
    """
    from draftcheck.probe.run import ProbeRequest, probe

    return probe(ProbeRequest(url, key, model, prompt, interval, timeout))


def _circumstances(circumstances: Circumstances | None, words: CircumstanceWords) -> Circumstances:
    """What the user said as an object, and then by name; an unknown name is a TypeError."""
    from dataclasses import replace

    from draftcheck.values.circumstances import Circumstances
    from draftcheck.values.dtypes import SHORT

    said = replace(circumstances or Circumstances(), **words)
    return replace(said, dtype=SHORT.get(said.dtype or "", said.dtype))


def _questions(
    engines: Sequence[str], method: str | None, circumstances: Circumstances
) -> list[Question]:
    """One question per engine, with the devices that the circumstances name."""
    from draftcheck.judge import questions

    given = questions.settle(circumstances)
    return questions.ask(engines, method=method, circumstances=given)


def _judged(comparison: Comparison, asked: Sequence[Question], *, explicit: bool) -> PairVerdict:
    from draftcheck.judge import repairs
    from draftcheck.judge.decide import judge

    return repairs.add(judge(comparison, asked, explicit=explicit), asked, explicit=explicit)
