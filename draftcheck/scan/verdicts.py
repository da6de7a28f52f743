"""The second half of a night: pairs, what their vocabularies say together, verdicts and trials.

A pair is judged again only when its basis changes: the digest of both models' facts, of the
settings, of the engines' rules, and of the notes about its two vocabularies. The best pairs of each
target are measured, once for each pair of commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.models.refs import ModelRef
from draftcheck.models.sources.hub.transport import RetryableError
from draftcheck.scan import judging, plan, stages, tasks
from draftcheck.scan.judging import JudgeTask, StoredModel
from draftcheck.scan.night import ScanNight
from draftcheck.scan.plan import FULL, CardedModel, PlannedPairs
from draftcheck.scan.rows import ALONE, ModelRow, NotesRow, PairRow, TrialRow
from draftcheck.scan.rules_digest import rules_digest
from draftcheck.scan.store import digest_of, stable_json
from draftcheck.scan.targets import ScanTrials
from draftcheck.scan.writing import JudgeAgain
from draftcheck.trial.backends.backend import HEADS

BATCH = 24
"""Drafts of one target that are judged together."""
PATTERNS = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
RANK = {"compatible": 0, "degraded": 1}
Notes = dict[tuple[str, str] | None, Mapping[str, Any]]
"""By both vocabularies; None, where there is nothing to note, has no entry."""


def pair_up(night: ScanNight, sides: Mapping[str, CardedModel]) -> PlannedPairs:
    """Decide who is held against whom; everybody else keeps a reason."""
    pairs = plan.pairs([target.ref for target in night.targets], sides, night.job.pins)
    rejected = {plan.repo_of(ref): why for ref, why in pairs.rejected.items()}
    known = {repo.name: repo.why for repo in night.store.open_repos(0, "stage = 'header'")}
    night.writer.reopen(known.keys() - rejected.keys())
    new = {name: why for name, why in rejected.items() if known.get(name) != why[:300]}
    night.writer.reject("header", new)
    night.counts["pairs"] = len(pairs)
    return pairs


def take_notes(night: ScanNight, pairs: PlannedPairs, sides: Mapping[str, CardedModel]) -> None:
    """Hold vocabularies that differ side by side, once for all who have them."""
    known = set(_notes(night))
    todo: dict[tuple[str, str], tuple[str, str]] = {}
    for target, draft in pairs:
        key = _key(sides, target, draft)
        if key is not None and key not in known:
            todo.setdefault(key, (target, draft))
    work = (
        tasks.PairNotesTask(key, *(stages.stored_task(night, sides[ref].model) for ref in pair))
        for key, pair in todo.items()
    )
    for task, done in night.run("notes", tasks.note_pair, work, len(todo), kind="cpu"):
        if isinstance(done, tasks.TaskProblem):
            night.counts["unnoted"] += 1
        else:
            night.writer.notes(task.key, done)


def _key(sides: Mapping[str, CardedModel], target: str, draft: str) -> tuple[str, str] | None:
    """The two vocabularies, where only their texts side by side tell how they differ."""
    if draft == ALONE:
        return None
    models = sides[target].model, sides[draft].model
    ours, theirs = (model.tokenizer_fingerprint or "" for model in models)
    unread = any(model.fingerprint is None for model in models)
    return None if unread or ours == theirs else (ours, theirs)


def _notes(night: ScanNight) -> Notes:
    return {(row.target, row.draft): row.body for row in night.store.read(NotesRow)}


def judge_all(night: ScanNight, pairs: PlannedPairs, sides: Mapping[str, CardedModel]) -> None:
    """Judge every pair whose facts, rules or settings are not those of its verdicts."""
    job = night.job
    questions = judging.ask(job.engines, job.said)
    asked = tuple(questions)
    rules = {name: rules_digest(q.engine) for name, q in questions.items()}
    settings = digest_of([dict(job.said), list(asked), bool(job.engines)])
    notes = _notes(night)
    texts = {key: stable_json(body) for key, body in notes.items()}
    bases = {(pair.target, pair.draft): pair.basis for pair in night.store.read(PairRow)}
    todo: dict[str, list[str]] = {}
    fresh: dict[tuple[str, str], PairRow] = {}
    for target, draft in pairs:
        digests = (_facts(sides, target), _facts(sides, draft), settings)
        key = _key(sides, target, draft)
        basis = digest_of([*digests, rules, texts.get(key)])
        if bases.get((target, draft)) != basis:
            todo.setdefault(target, []).append(draft)
            fresh[target, draft] = PairRow(target, draft, basis, *digests)

    def work() -> Iterator[JudgeTask]:
        for target, drafts in todo.items():
            stored = _stored(night, sides[target].model)
            for first in range(0, len(drafts), BATCH):
                batch = drafts[first : first + BATCH]
                sent = tuple(
                    None if draft == ALONE
                    else _stored(night, sides[draft].model, notes.get(_key(sides, target, draft)))
                    for draft in batch
                )  # fmt: skip
                yield JudgeTask(stored, sent, asked, dict(job.said), bool(job.engines))

    total = sum(-(-len(drafts) // BATCH) for drafts in todo.values())
    for task, results in night.run(
        "verdicts", judging.judge_pairs, work(), total, kind="cpu", share=1.0
    ):
        for draft, rows in results:
            pair = task.target.ref, draft
            whole = [replace(row, rules=rules[row.asked]) for row in rows]
            gated = any(sides[ref].model.status == "gated" for ref in pair if ref != ALONE)
            again = _judge_again(night, task, draft)
            night.writer.verdicts(fresh[pair], whole, again, gated)
            night.counts["verdicts"] += len(rows)


def _judge_again(night: ScanNight, task: JudgeTask, draft: str) -> JudgeAgain:
    """The same pair with the files that it had before; their facts stay until a scan ends."""

    def judge(target_facts: str, draft_facts: str) -> dict[tuple[str, str], str]:
        try:
            target = replace(task.target, facts=night.store.facts(target_facts))
            alone = draft == ALONE
            known = None if alone else StoredModel(draft, night.store.facts(draft_facts))
            old = replace(task, target=target, drafts=(known,))
            [(_, rows)] = judging.judge_pairs(old)
        except ReadError:
            return {}
        return {(row.asked, row.slot): row.verdict for row in rows}

    return judge


def _facts(sides: Mapping[str, CardedModel], ref: str) -> str:
    return "" if ref == ALONE else sides[ref].model.facts or ""


def _stored(
    night: ScanNight, model: ModelRow, notes: Mapping[str, Any] | None = None
) -> StoredModel:
    facts = night.store.facts(model.facts or "")
    return StoredModel(model.ref, facts, model.revision, notes)


# ---- trials ----


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
            parts = [ours.revision, ours.facts, theirs.revision, theirs.facts]
            key = digest_of(
                [*parts, how.backend, str(how.tokens), str(how.prompts), str(how.device)]
            )
            if (target.ref, draft, key) not in known:
                target_task = stages.stored_task(night, ours)
                todo.append(TrialTask(key, target_task, stages.stored_task(night, theirs), how))
    for task, result in night.run("trials", measure, todo, kind="gpu", share=1.0):
        if isinstance(result, tasks.TaskProblem) and result.passing:
            continue
        pair = task.target.ref.text, task.draft.ref.text
        commits = sides[pair[0]].model.revision, sides[pair[1]].model.revision
        row = TrialRow(*pair, *commits, how.backend, state="done", key=task.key)
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
        if rank is not None and draft in sides and sides[draft].model.role in (*FULL, *HEADS):
            ranks[draft] = min(rank, ranks.get(draft, rank))
    sizes = {ref: sides[ref].model.parameters or 0 for ref in ranks}
    return sorted(ranks, key=lambda ref: (ranks[ref], sizes[ref], ref))


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
