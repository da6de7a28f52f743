"""The first half of a night: what there is now, who is worth reading, and reading them.

After the walk along the Hub's list (hub_list.py) find_named and find_missing ask for models that
no page had; read_targets reads what was named; screen turns the others away by what is cheapest to
know (listing, then files, then the vocabulary's digest) and reads who is left. Offline, recall
takes the last scan's list instead. Nothing is read twice: the store knows the commit that each
repo and model was last read at. Repos are never all held at once: they may be millions.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from draftcheck.models.refs import ModelRef, parse
from draftcheck.models.sources.hub.listing import COMMIT
from draftcheck.scan import plan, tasks
from draftcheck.scan.night import ScanNight, settings
from draftcheck.scan.plan import CardedModel, ScanAim
from draftcheck.scan.rows import ModelRow, PairRow, RepoRow, TargetRow
from draftcheck.scan.schema import OPEN
from draftcheck.scan.store import DAMAGED, PART, StoreError, digest_of, unpack
from draftcheck.scan.writing import FORMAT

GIVERS = 5
"""Repos that are tried for one vocabulary file."""
NEW = "files_sha IS NOT sha"
"""Repos whose files are not known at the commit that was listed."""
LOOKED_AT = "files_sha = sha AND problem IS NULL"


def find_named(night: ScanNight) -> None:
    """Find the commits of models that were named, where no page of this scan had them."""
    todo = []
    for text in night.job.refs():
        ref = parse(text)
        if ref.kind != "hub" or (ref.revision is not None and COMMIT.fullmatch(ref.revision)):
            night.named[text] = ref
        elif ref.revision is None and (sha := _seen_now(night, ref.repo)):
            night.named[text] = replace(ref, revision=sha)
        else:
            todo.append(ref)
    for ref, result in night.read("commits", tasks.find_commit, todo):
        if isinstance(result, tasks.TaskProblem):
            night.lost[ref.text] = result
            before = night.store.model(ref.text)
            if result.passing and before is not None and before.revision is not None:
                # What was read at the last commit that could be asked for stays.
                night.named[ref.text] = replace(ref, revision=before.revision)
                if ref.revision is None:
                    night.writer.mark_seen(ref.repo, None)
            continue
        _, commit = result
        night.named[ref.text] = replace(ref, revision=commit)
        if ref.revision is None and night.repo(ref.repo):
            night.writer.mark_seen(ref.repo, commit)
        elif ref.revision is None:
            night.writer.page([RepoRow(ref.repo, commit, "full")])


def _seen_now(night: ScanNight, name: str) -> str | None:
    """The commit of a repo that this scan listed."""
    repo = next(night.store.read(RepoRow, "name = ? AND seen = ?", name, night.writer.number), None)
    return repo.sha if repo else None


def find_missing(night: ScanNight) -> None:
    """Look for models with verdicts that no page had: gone, or overlooked between two pages."""
    before = night.writer.before
    if before is None or before.get("candidates") != settings(night.job)["candidates"]:
        return  # the last scan looked at another part of the Hub
    if night.clock.cut or night.base < night.writer.number:
        return  # what was not listed is not held to be gone
    wanted = sorted({plan.repo_of(pair.draft) for pair in night.store.read(PairRow)})
    unseen = [name for name in wanted if night.store.repo(name) and not night.repo(name)]
    todo = [ModelRef(name, "hub", repo=name) for name in unseen]
    for ref, result in night.read("missing", tasks.find_commit, todo):
        repo = ref.repo
        if not isinstance(result, tasks.TaskProblem):
            name, commit = result
            if name == repo or repo in night.job.refs():
                night.writer.mark_seen(repo, commit)
            else:
                night.vanished[repo] = f"{repo} is called {name} now"
        elif result.missing:
            night.vanished[repo] = result.says
        else:
            night.writer.mark_seen(repo, None)


def read_targets(night: ScanNight) -> None:
    """Read targets and all else that was named, before anybody is compared with them."""
    for name in night.searched:
        ref = ModelRef(name, "hub", repo=name, revision=_seen_now(night, name))
        night.named.setdefault(name, ref)
    named = night.named.values()
    listed = [repo for ref in named if _plain(ref) and (repo := night.repo(ref.repo))]
    todo = [repo for repo in listed if repo.files_sha != repo.sha]
    _files(night, todo, len(todo))
    models = [(ref, night.repo(ref.repo) if _plain(ref) else None) for ref in named]
    _read(night, "targets", models)
    _name_targets(night)


def _name_targets(night: ScanNight) -> None:
    chosen = dict.fromkeys((*night.job.all_targets(), *night.searched))
    problems: dict[str, str | None] = dict.fromkeys(chosen, "not read yet")
    problems |= {model.ref: model.problem for model in map(night.store.model, chosen) if model}
    problems |= {text: problem.says for text, problem in night.lost.items()}
    named = night.job.all_targets()
    night.targets = [
        TargetRow(text, "named" if text in named else "search", problems[text]) for text in chosen
    ]
    night.writer.targets(night.targets, night.job.pins)


def _plain(ref: ModelRef) -> bool:
    return ref.kind == "hub" and ref.file is None and ref.tag is None and ref.text == ref.repo


def screen(night: ScanNight) -> None:
    """Turn repos away, the cheapest reason first, and read those that are left."""
    aim = _aim(night)
    named = map(night.repo, aim.named)
    night.writer.reopen([repo.name for repo in named if repo and repo.turned_away])
    by_listing = digest_of([aim.largest, aim.ggufs, aim.checkpoints, sorted(aim.targets)])
    if night.writer.standing.by_listing != by_listing:
        night.writer.reopen_listing()
    listed = night.store.open_repos(night.base)
    for _ in _turn_away(night, "listing", listed, lambda repo: plan.by_listing(repo, aim)):
        night.counts["candidates"] += 1
    night.writer.stand(replace(night.writer.standing, by_listing=by_listing))
    query = f"SELECT count(*) FROM repos WHERE {OPEN} AND seen >= ? AND {NEW}"
    [[total]] = night.store.query(query, night.base)
    _files(night, night.store.open_repos(night.base, NEW), total)
    unlisted = night.store.open_repos(night.base, "problem IS NOT NULL AND stage IS NOT 'files'")
    night.writer.reject("files", {repo.name: repo.problem or "" for repo in unlisted})
    _vocabularies(night, night.store.open_repos(night.base, LOOKED_AT))
    aim, families = _aim(night), night.families()
    by_digest = digest_of(sorted(aim.families))
    if night.writer.standing.by_digest != by_digest:
        night.writer.reopen_digest()
    looked = night.store.open_repos(night.base, LOOKED_AT)
    left = _turn_away(night, "digest", looked, lambda r: plan.by_vocabulary(r, aim, families))
    ready = [
        repo
        for repo in left
        if (repo.kind in plan.UNSEEN or repo.tokenizer in families) and repo.name not in night.named
    ]
    night.writer.stand(replace(night.writer.standing, by_digest=by_digest))
    # Side by side, so that a vocabulary is parsed once for all who have it.
    ready.sort(key=lambda repo: (repo.tokenizer or "", repo.name))
    _read(night, "models", [(ref_of(repo), repo) for repo in ready])


def ref_of(repo: RepoRow) -> ModelRef:
    """Name the model that stands for a repo."""
    if repo.kind == "gguf" and repo.gguf:
        text = f"{repo.name}/{repo.gguf}"
        return ModelRef(text, "hub", repo=repo.name, revision=repo.sha, file=repo.gguf)
    return ModelRef(repo.name, "hub", repo=repo.name, revision=repo.sha)


def _aim(night: ScanNight) -> ScanAim:
    read = (night.store.model(target.ref) for target in night.targets)
    targets = [model for model in read if model is not None]
    families = night.families()
    listed = (night.repo(target.ref) for target in targets)
    kin = [families.get((repo.tokenizer if repo else None) or "") for repo in listed]
    return plan.aim(targets, kin, [ref.repo for ref in night.named.values() if ref.kind == "hub"])


def _turn_away(
    night: ScanNight,
    stage: str,
    listed: Iterable[RepoRow],
    against: Callable[[RepoRow], str | None],
) -> Iterator[RepoRow]:
    """Those that nothing speaks against; the others keep the reason."""
    reasons: dict[str, str] = {}
    for repo in listed:
        why = against(repo)
        if why is None:
            yield repo
            continue
        reasons[repo.name] = why
        if len(reasons) == PART:
            night.writer.reject(stage, reasons)
            reasons = {}
    night.writer.reject(stage, reasons)


def _files(night: ScanNight, listed: Iterable[RepoRow], total: int) -> None:
    todo = (ModelRef(repo.name, "hub", repo=repo.name, revision=repo.sha) for repo in listed)
    for ref, done in night.read("files", tasks.list_files, todo, total):
        night.writer.files(ref, done)
        if isinstance(done, tasks.TaskProblem) and done.missing:
            night.vanished[ref.repo] = done.says


def _vocabularies(night: ScanNight, listed: Iterable[RepoRow]) -> None:
    known = night.families()
    givers: dict[str, list[RepoRow]] = {}
    for repo in listed:
        if repo.tokenizer is not None and repo.tokenizer not in known:
            some = [*givers.get(repo.tokenizer, ()), repo]
            givers[repo.tokenizer] = sorted(some, key=lambda r: (r.gated, r.name))[:GIVERS]
    todo = (
        tasks.VocabularyTask(digest, tuple(model_task(night, ref_of(repo)) for repo in some))
        for digest, some in sorted(givers.items())
    )
    for task, done in night.read("vocabularies", tasks.read_vocabulary, todo, len(givers)):
        night.writer.vocabulary(task.digest, done)
        night.counts["vocabularies"] += 1


def _read(night: ScanNight, stage: str, models: list[tuple[ModelRef, RepoRow | None]]) -> None:
    known = {row.ref: row for row in night.store.models()}
    todo = {}
    for ref, repo in models:
        row = known.get(ref.text)
        sha = ref.revision if ref.kind == "hub" else None
        done = row is not None and sha is not None and row.tried == sha and not row.passing
        if row is not None and row.facts is not None:
            done = done and row.facts.startswith(FORMAT)
        if done and not (night.retry and row is not None and row.status != "read"):
            continue
        todo[ref.text] = (ref, repo)
    work = (model_task(night, ref) for ref, _ in todo.values())
    for task, result in night.read(stage, tasks.read_model, work, len(todo)):
        ref, repo = todo[task.ref.text]
        night.writer.model(ref.text, ref.revision, result, repo)
        night.counts["unreadable" if isinstance(result, tasks.TaskProblem) else "read"] += 1


def model_task(night: ScanNight, ref: ModelRef) -> tasks.ModelTask:
    """Make a task with the list of files, where the store has it for this commit."""
    if ref.kind != "hub":
        return tasks.ModelTask(ref)
    query = "SELECT files FROM repos WHERE name = ? AND files_sha = ? AND files IS NOT NULL"
    row = next(night.store.query(query, ref.repo, ref.revision), None)
    try:
        return tasks.ModelTask(ref, None if row is None else unpack(row[0]))
    except (ValueError, TypeError, RecursionError, zlib.error) as error:
        where = f"{night.store.path}: table repos, row {ref.repo!r}"
        raise StoreError(f"{where}: files: damaged: {error}", hint=DAMAGED) from None


def stored_task(night: ScanNight, model: ModelRow) -> tasks.ModelTask:
    """Make a task for a model of the store, at the commit that its facts are of."""
    ref = night.named.get(model.ref)
    if ref is None:
        repo = "/".join(model.ref.split("/")[:2])
        ref = ModelRef(model.ref, "hub", repo=repo, file=model.ref[len(repo) + 1 :] or None)
    return model_task(night, replace(ref, revision=model.revision) if ref.kind == "hub" else ref)


def recall(night: ScanNight) -> None:
    """Go by what the last scan saw, without the network."""
    night.base = night.writer.standing.base
    known = {model.ref: model for model in night.store.models()}
    night.searched += [row.ref for row in night.store.targets() if row.source == "search"]
    for text in (*night.job.refs(), *night.searched):
        ref = parse(text)
        revision = known[text].revision if text in known else None
        night.named[text] = replace(ref, revision=revision) if ref.kind == "hub" else ref
    _name_targets(night)


def sides(night: ScanNight) -> dict[str, CardedModel]:
    """List the models of this scan: listed now, or named."""
    families = night.families()
    models = {}
    for model in night.store.models():
        source = night.repo("/".join(model.ref.split("/")[:2]))
        if source and model.ref not in (source.name, ref_of(source).text):
            source = None
        if source and source.name in night.vanished:
            continue
        if model.ref not in night.named and (
            source is None or model.ref in night.lost or source.turned_away
        ):
            continue
        family = model.family or families.get((source.tokenizer if source else None) or "")
        models[model.ref] = CardedModel(model, family, source.bases if source else ())
    return models
