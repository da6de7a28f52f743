"""The first half of a night: what there is now, who is worth reading, and reading them.

list_hub, find_named and find_missing bring the list up to date (one request a page, one for each
model that no page had); read_targets reads what was named; screen turns the others away by what
is cheapest to know (listing, then files, then the vocabulary's digest) and reads who is left.
Offline, recall takes the last scan's list instead. Nothing is read twice: the store knows the
commit that each repo and model was last read at.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from draftcheck.models.readers.tokenizer import files as tokenizer_files
from draftcheck.models.refs import ModelRef, parse
from draftcheck.models.sources.hub.listing import COMMIT, HubQuery
from draftcheck.models.sources.hub.repos import Hub
from draftcheck.recommend import screen as recommend_screen
from draftcheck.recommend import search as hub_search
from draftcheck.recommend.candidates import Candidate, Rejection
from draftcheck.recommend.search import DraftSearch
from draftcheck.scan import plan, tasks
from draftcheck.scan.night import READING, ScanNight, settings
from draftcheck.scan.plan import CardedModel, ScanAim
from draftcheck.scan.rows import ModelRow, PairRow, RepoRow, TargetRow
from draftcheck.scan.store import DAMAGED, StoreError, unpack
from draftcheck.scan.targets import HubSearch
from draftcheck.scan.writing import FORMAT

GIVERS = 5
"""Repos that are tried for one vocabulary file."""


def list_hub(night: ScanNight) -> None:
    """Ask for every page of the list, and for targets that were described rather than named."""
    hub = night.session.opener.hub
    for search in night.job.candidates:
        for page in _pages(hub, search):
            night.writer.page(page)
            night.counts["listed"] += len(page)
            night.step("listing", night.counts["listed"], None)
            if night.clock.over(READING):
                night.clock.cut = True
                return
    for search in night.job.searches:
        for page in _pages(hub, search):
            night.writer.page(page)
            night.searched += [
                repo.name
                for repo in page
                if repo.kind == "full" and repo.refused is None
                and (repo.parameters or 0) >= (search.min_parameters or 0)
            ]  # fmt: skip


def _pages(source: Hub, search: HubSearch) -> Iterator[list[RepoRow]]:
    """Ask for one part of the list, page by page; names that no repo can have are left out."""
    question = HubQuery(
        filters=search.filters,
        search=search.search,
        author=search.author,
        smallest=search.min_parameters,
        largest=search.max_parameters,
        fields=hub_search.LIGHT,
        rows=search.limit,
    )
    for page in source.pages(question):
        rows = (hub_search.candidate(row) for row in page)
        yield [_repo(row) for row in rows if not isinstance(row, Rejection)]


def _repo(row: Candidate) -> RepoRow:
    # Heads mostly come without a vocabulary; whose they are, the targets tell.
    bare = row.files is not None and not set(row.files) & set(tokenizer_files.FILES)
    refused = None
    if row.revision is None:
        refused = "its listing names no commit"
    elif against := recommend_screen.by_listing(row, DraftSearch(gguf=row.kind == "gguf")):
        refused = against.saw
    return RepoRow(
        name=row.ref,
        sha=row.revision or "",
        kind="bare" if row.kind == "full" and bare else row.kind,
        parameters=row.parameters,
        packed=row.packed,
        gated=row.gated,
        bases=row.base_models,
        downloads=row.downloads,
        likes=row.likes,
        refused=refused,
    )


def find_named(night: ScanNight) -> None:
    """Find the commits of models that were named, where no page of the list had them."""
    listed = {repo.name: repo for repo in repos(night)}
    todo = []
    for text in night.job.refs():
        ref = parse(text)
        if ref.kind != "hub" or (ref.revision is not None and COMMIT.fullmatch(ref.revision)):
            night.named[text] = ref
        elif ref.revision is None and ref.repo in listed:
            night.named[text] = replace(ref, revision=listed[ref.repo].sha)
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
        if ref.revision is None:
            night.writer.page([RepoRow(ref.repo, commit, "full")])


def find_missing(night: ScanNight) -> None:
    """Look for models with verdicts that no page had: gone, or overlooked between two pages."""
    before = night.writer.before
    if before is None or before.get("candidates") != settings(night.job)["candidates"]:
        return  # the last scan looked at another part of the Hub
    if night.clock.cut:
        return
    wanted = {plan.repo_of(pair.draft) for pair in night.store.read(PairRow)}
    unseen = night.store.query("SELECT name FROM repos WHERE seen < ?", night.writer.number)
    names = sorted({row[0] for row in unseen} & wanted)
    todo = [ModelRef(name, "hub", repo=name) for name in names]
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


def repos(night: ScanNight) -> Iterator[RepoRow]:
    return night.store.read(RepoRow, "seen = ?", night.writer.number)


def read_targets(night: ScanNight) -> None:
    """Read targets and all else that was named, before anybody is compared with them."""
    listed = {repo.name: repo for repo in repos(night)}
    for name in night.searched:
        night.named.setdefault(name, ModelRef(name, "hub", repo=name, revision=listed[name].sha))
    plain = [ref for text, ref in night.named.items() if _plain(ref)]
    _files(night, [listed[ref.repo] for ref in plain if ref.repo in listed])
    fresh = {repo.name: repo for repo in repos(night)}
    models = [(ref, fresh.get(ref.repo) if _plain(ref) else None) for ref in night.named.values()]
    _read(night, "targets", models)
    _name_targets(night)


def _name_targets(night: ScanNight) -> None:
    chosen = dict.fromkeys((*night.job.all_targets(), *night.searched))
    problems: dict[str, str | None] = dict.fromkeys(chosen, "not read yet")
    problems |= {model.ref: model.problem for model in night.store.models()}
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
    left = _turn_away(night, "listing", repos(night), lambda repo: plan.by_listing(repo, aim))
    night.counts["candidates"] += len(left)
    _files(night, left)
    wanted = {repo.name for repo in left}
    looked = [repo for repo in repos(night) if repo.name in wanted]
    night.writer.reject((r.name, "files", r.problem) for r in looked if r.problem is not None)
    left = [repo for repo in looked if repo.files_sha == repo.sha and repo.problem is None]
    _vocabularies(night, left)
    aim = _aim(night)
    families = night.families()
    left = _turn_away(night, "digest", left, lambda repo: plan.by_vocabulary(repo, aim, families))
    # Side by side, so that a vocabulary is parsed once for all who have it.
    left.sort(key=lambda repo: (repo.tokenizer or "", repo.name))
    ready = [r for r in left if r.kind in plan.UNSEEN or r.tokenizer in families]
    _read(night, "models", [(ref_of(repo), repo) for repo in ready if repo.name not in night.named])


def ref_of(repo: RepoRow) -> ModelRef:
    """Name the model that stands for a repo."""
    if repo.kind == "gguf" and repo.gguf:
        text = f"{repo.name}/{repo.gguf}"
        return ModelRef(text, "hub", repo=repo.name, revision=repo.sha, file=repo.gguf)
    return ModelRef(repo.name, "hub", repo=repo.name, revision=repo.sha)


def _aim(night: ScanNight) -> ScanAim:
    sides = {model.ref: model for model in night.store.models()}
    targets = [sides[target.ref] for target in night.targets if target.ref in sides]
    families = night.families()
    files = {repo.name: repo.tokenizer for repo in repos(night)} if families else {}
    kin = [families.get(files.get(target.ref) or "") for target in targets]
    return plan.aim(targets, kin, [ref.repo for ref in night.named.values() if ref.kind == "hub"])


def _turn_away(
    night: ScanNight,
    stage: str,
    listed: Iterable[RepoRow],
    against: Callable[[RepoRow], str | None],
) -> list[RepoRow]:
    """Those that nothing speaks against; the others keep the reason."""
    reasons = [(repo, against(repo)) for repo in listed]
    turned_away = {repo.name: why for repo, why in reasons if why is not None}
    night.writer.reject((name, stage, why) for name, why in turned_away.items())
    night.turned_away.update(turned_away)
    return [repo for repo, why in reasons if why is None]


def _files(night: ScanNight, listed: list[RepoRow]) -> None:
    todo = [
        ModelRef(repo.name, "hub", repo=repo.name, revision=repo.sha)
        for repo in listed
        if repo.files_sha != repo.sha
    ]
    for ref, done in night.read("files", tasks.list_files, todo):
        night.writer.files(ref, done)
        if isinstance(done, tasks.TaskProblem) and done.missing:
            night.vanished[ref.repo] = done.says


def _vocabularies(night: ScanNight, listed: list[RepoRow]) -> None:
    known = night.families()
    givers: dict[str, list[RepoRow]] = {}
    for repo in listed:
        if repo.tokenizer is not None and repo.tokenizer not in known:
            givers.setdefault(repo.tokenizer, []).append(repo)
    todo = (
        tasks.VocabularyTask(digest, tuple(model_task(night, ref_of(repo)) for repo in some))
        for digest, rows in sorted(givers.items())
        for some in [sorted(rows, key=lambda repo: (repo.gated, repo.name))[:GIVERS]]
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
    before = night.writer.number - (not night.writer.resumed)
    night.writer.recall(before)
    known = {model.ref: model for model in night.store.models()}
    night.searched += [row.ref for row in night.store.targets() if row.source == "search"]
    for text in (*night.job.refs(), *night.searched):
        ref = parse(text)
        revision = known[text].revision if text in known else None
        night.named[text] = replace(ref, revision=revision) if ref.kind == "hub" else ref
    for row in night.store.rejected():
        if row.stage in ("listing", "digest"):
            night.turned_away[row.repo] = row.why
    _name_targets(night)


def sides(night: ScanNight) -> dict[str, CardedModel]:
    """List the models of this scan: listed now, or named."""
    families = night.families()
    listed: dict[str, RepoRow | None] = {}
    for repo in repos(night):
        listed[ref_of(repo).text] = repo
        listed[repo.name] = repo
    models = {}
    for model in night.store.models():
        source = listed.get(model.ref)
        if source and source.name in night.vanished:
            continue
        if model.ref not in night.named and (
            source is None or model.ref in night.lost or source.name in night.turned_away
        ):
            continue
        family = model.family or families.get((source.tokenizer if source else None) or "")
        models[model.ref] = CardedModel(model, family, source.bases if source else ())
    return models
