"""The best pairs of each target are measured, once for each pair of commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from draftcheck.models.refs import ModelRef
from draftcheck.models.sources.hub.client import RetryableError
from draftcheck.scan import stages, tasks
from draftcheck.scan.night import ScanNight
from draftcheck.scan.plan import FULL, CardedModel
from draftcheck.scan.rows import ModelRow, TrialRow
from draftcheck.scan.store import digest_of
from draftcheck.scan.targets import ScanTrials

PATTERNS = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
RANK = {"compatible": 0, "degraded": 1}


@dataclass(frozen=True, slots=True)
class TrialTask:
    """A pair to measure, at these commits."""

    key: str
    target: tasks.ModelTask
    draft: tasks.ModelTask
    how: ScanTrials


def try_best(night: ScanNight, sides: Mapping[str, CardedModel]) -> None:
    """As many drafts of each target as the job asks for."""
    how = night.job.trials
    if not how.per_target:
        return
    known = {
        (row.target, row.draft, row.key)
        for row in night.store.read(TrialRow)
        if row.state == "done" or not night.retry
    }
    todo = []
    for target in night.targets:
        for draft in _best(night, sides, target.ref)[: how.per_target]:
            ours, theirs = sides[target.ref].model, sides[draft].model
            key = _key(ours, theirs, how)
            if (target.ref, draft, key) not in known:
                target_task = stages.stored_task(night, ours)
                todo.append(TrialTask(key, target_task, stages.stored_task(night, theirs), how))
    for task, result in night.run("trials", measure, todo, kind="gpu", share=1.0):
        if isinstance(result, tasks.TaskProblem) and result.passing:
            continue
        row = TrialRow(
            target=task.target.ref.text,
            draft=task.draft.ref.text,
            target_revision=sides[task.target.ref.text].model.revision,
            draft_revision=sides[task.draft.ref.text].model.revision,
            backend=how.backend,
            state="done",
            key=task.key,
        )
        if isinstance(result, tasks.TaskProblem):
            row = replace(row, state="failed", problem=result.says)
        else:
            row = replace(row, body=result)
        night.writer.trial(row)
        night.counts["trials"] += 1


def _best(night: ScanNight, sides: Mapping[str, CardedModel], target: str) -> list[str]:
    """Drafts that some engine takes: the better verdict first, then the smaller model."""
    ranks: dict[str, int] = {}
    for verdict in night.store.verdicts(target=target):
        rank, draft = RANK.get(verdict.verdict), verdict.draft or ""
        if rank is not None and draft in sides and sides[draft].model.role in FULL:
            ranks[draft] = min(rank, ranks.get(draft, rank))
    sizes = {ref: sides[ref].model.parameters or 0 for ref in ranks}
    return sorted(ranks, key=lambda ref: (ranks[ref], sizes[ref], ref))


def _key(target: ModelRow, draft: ModelRow, how: ScanTrials) -> str:
    parts = [target.revision, target.facts, draft.revision, draft.facts]
    parts += [how.backend, str(how.tokens), str(how.prompts), str(how.device)]
    return digest_of(parts)


def measure(task: TrialTask) -> dict[str, Any] | tasks.TaskProblem:
    """Load both models and measure; needs the trial extra, and a GPU to be of use."""

    def work() -> dict[str, Any]:
        from draftcheck.trial.api import trial
        from draftcheck.trial.prompts import load

        how = task.how
        return trial(
            _folder(task.target.ref),
            _folder(task.draft.ref),
            prompts=load()[: how.prompts],
            backend=how.backend,
            tokens=how.tokens,
            device=how.device,
            budget=how.budget,
        ).to_dict()

    return tasks.tried(work)


def _folder(ref: ModelRef) -> str:
    """Where the model lies; one of the Hub is fetched at its commit."""
    if ref.kind != "hub":
        return str(ref.path)
    from huggingface_hub import snapshot_download

    try:
        return str(
            snapshot_download(ref.repo, revision=ref.revision, allow_patterns=list(PATTERNS))
        )
    except (OSError, ValueError) as error:
        raise RetryableError(f"{ref.text}: cannot be fetched: {error!s:.200}") from None
