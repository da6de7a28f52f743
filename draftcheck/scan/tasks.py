"""The tasks of a scan: each is a function of plain values and may be done twice.

Arguments and results can be pickled, so a task runs in a thread, a process or on a cluster. None
writes to the store. What cannot be read is a result, not an exception.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from draftcheck import settings
from draftcheck.errors import DraftcheckError, ReadError, UsageError
from draftcheck.judge.condensed import facts as condensed
from draftcheck.judge.condensed import pairs as condensed_pairs
from draftcheck.models import choose_gguf
from draftcheck.models.opening import OpenedModel, Opener
from draftcheck.models.read import read_opened
from draftcheck.models.readers.tokenizer import files as tokenizer
from draftcheck.models.refs import ModelRef
from draftcheck.models.sources.hub import listing
from draftcheck.models.sources.hub.budget import RequestBudget
from draftcheck.models.sources.hub.client import NotOnHub
from draftcheck.models.sources.hub.transport import OfflineError, RetryableError
from draftcheck.scan.rows import MOST, ModelRow, VocabularyRow
from draftcheck.scan.store import digest_of
from draftcheck.values.facts import ModelFacts, TokenizerFacts

CONNECTIONS = 8
LONGEST_WAIT = 330.0
"""Seconds: Hubs count requests in windows of five minutes."""
TOKENIZER_FIELDS = ("kind", "pre", "merges", "behaviour", "length", "base_size")
"""Facts of a tokenizer that its fingerprint is made of, besides its table of tokens."""

HEAVY = threading.Lock()
"""Whole vocabularies are worked on one at a time: threads would only multiply the memory."""

T = TypeVar("T")


class ScanStopped(Exception):
    """The scan ends: there is no result."""


@dataclass(frozen=True, slots=True)
class TaskProblem:
    """Why there is no result; passing: another try may succeed."""

    says: str
    passing: bool = False
    missing: bool = False


@dataclass(frozen=True, slots=True)
class FilesDone:
    """The files of a repo, and which of them matter."""

    body: dict[str, Any]
    tokenizer: str | None
    gguf: str | None
    """The GGUF that stands for the repo, where it has one."""


@dataclass(frozen=True, slots=True)
class ModelTask:
    """A model to read: hub models at a commit, with their list of files where it is known."""

    ref: ModelRef
    files: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class VocabularyTask:
    """A vocabulary file to read, and repos that have it."""

    digest: str
    models: tuple[ModelTask, ...]


@dataclass(frozen=True, slots=True)
class ModelDone:
    """What was read of a model."""

    body: dict[str, Any]
    """The fields of a FactsRow, without its digest."""
    row: ModelRow


@dataclass(frozen=True, slots=True)
class PairNotesTask:
    """Two models whose vocabularies have to be held side by side."""

    key: tuple[str, str]
    target: ModelTask
    draft: ModelTask


class TaskSession:
    """What the tasks of one process share: connections, allowances, cache."""

    def __init__(self, connections: int = CONNECTIONS) -> None:
        patience = settings.patience()
        self.budget = RequestBudget(
            longest=LONGEST_WAIT if patience is None else patience,
            altogether=float("inf"),
            connections=connections,
        )
        self.opener = Opener(offline=False, budget=self.budget)


_session: list[TaskSession] = []


def session() -> TaskSession:
    if not _session:
        _session.append(TaskSession())
    return _session[0]


def start(connections: int = CONNECTIONS) -> TaskSession:
    """Begin a fresh session for this process."""
    _session[:] = [TaskSession(connections)]
    _ = _session[0].opener.hub  # made once, before threads want it
    return _session[0]


def find_commit(ref: ModelRef) -> tuple[str, str] | TaskProblem:
    """Ask for the name and the commit that a repo has now."""
    return tried(lambda: session().opener.hub.commit(ref.repo, ref.revision))


def list_files(ref: ModelRef) -> FilesDone | TaskProblem:
    """List the files of a repo at a commit, by one request."""

    def work() -> FilesDone:
        listed = session().opener.hub.listing(ref.repo, ref.revision or "")
        digest = None
        if any("/" not in name and not name.endswith(".gguf") for name in listed.files):
            source = session().opener.hub.open(ref.repo, ref.revision, known=listed).folder()
            name = tokenizer.main_file(source)
            digest = source.digest(name) if name else None
            digest = f"{name}:{digest}" if digest else None
        return FilesDone(dict(listed.dump()), digest, choose_gguf.usual(listed.files))

    return tried(work)


def read_vocabulary(task: VocabularyTask) -> VocabularyRow | TaskProblem:
    """Read a vocabulary file once, from the first repo that gives it."""
    done: VocabularyRow | TaskProblem
    done = TaskProblem(f"no repo gives {task.digest[:80]}", passing=True)
    for model in task.models:
        done = tried(lambda model=model: _vocabulary(_open(model), task.digest))  # type: ignore[misc]
        if not isinstance(done, TaskProblem):
            break
    return done


def _vocabulary(opened: OpenedModel, digest: str) -> VocabularyRow:
    name = tokenizer.main_file(opened.source)
    if name is None or f"{name}:{opened.source.digest(name)}" != digest:
        raise ReadError(f"{opened.ref.text}: no longer has {digest[:80]}")
    opened.source.expect({name: opened.source.files()[name]})
    with HEAVY:
        facts = ModelFacts("", "hub", tokenizer=tokenizer.alone(opened.source) or TokenizerFacts())
        size = len(facts.tokenizer.tokens or ())
        return VocabularyRow(digest, condensed.fingerprint(facts), condensed.family(facts), size)


def read_model(task: ModelTask) -> ModelDone | TaskProblem:
    """Read everything that a verdict needs of one model."""

    def work() -> ModelDone:
        facts = _facts(task)
        with HEAVY:
            entry = condensed.condense(facts)
        entry.pop("revision", None)  # a new commit with the same files changes nothing
        download = facts.download
        if download is not None and "@" not in task.ref.text:
            # As for somebody who names no commit, unless the user did.
            download = download.replace(f" --revision {task.ref.revision}", "")
        body = {"facts": entry, "download": [download, facts.downloaded]}
        return ModelDone(body, _row(task.ref, facts, entry))

    return tried(work)


def _facts(task: ModelTask) -> ModelFacts:
    if task.ref.kind == "facts":
        from draftcheck.models import stored

        return stored.load(task.ref.path, task.ref.text)
    return read_opened(_open(task))


def _open(task: ModelTask) -> OpenedModel:
    known = listing.load(task.files) if task.files is not None else None
    return session().opener.open(task.ref, known=known)


def _row(ref: ModelRef, facts: ModelFacts, entry: Mapping[str, Any]) -> ModelRow:
    table: Mapping[str, Any] = entry.get("table", {})
    architecture = (facts.config.architectures or (facts.config.model_type,))[0]
    # All that two vocabularies are compared by; see ModelRow.
    parts: list[Any] = [{name: getattr(facts.tokenizer, name) for name in TOKENIZER_FIELDS}]
    parts += [entry.get("table"), entry.get("ids"), facts.rows]
    if facts.tokenizer.tokens is None:  # else the texts count, not the file that they stand in
        parts.append(dict(facts.tokenizer.files))
    return ModelRow(
        ref=ref.text,
        kind="gguf" if facts.gguf is not None else "folder",
        revision=facts.revision or ref.revision,
        status="gated" if facts.refused else "read",
        problem=facts.refused,
        role=facts.role,
        verifier=facts.verifier,
        fingerprint=table.get("digest"),
        family=table.get("family", table.get("digest")),
        tokenizer_fingerprint=digest_of(parts),
        parameters=_counted(facts.weights.parameters),
        nbytes=_counted(facts.weights.nbytes),
        architecture=architecture,
        context=_counted(facts.config.context),
    )


def _counted(number: int | None) -> int | None:
    """A number from a model's files; None where it is none that a store takes."""
    return number if number is not None and 0 <= number <= MOST else None


def note_pair(task: PairNotesTask) -> dict[str, Any] | TaskProblem:
    """Hold two vocabularies side by side, and note what only both together tell."""

    def work() -> dict[str, Any]:
        from draftcheck.judge.compare import compare

        target, draft = _facts(task.target), _facts(task.draft)
        return condensed_pairs.pair_notes(compare(target, draft))

    return tried(work)


def tried(work: Callable[[], T]) -> T | TaskProblem:
    """Do some work; the reason where it fails."""
    try:
        return work()
    except (RetryableError, OfflineError) as error:
        problem = TaskProblem(error.message, passing=True)
    except NotOnHub as error:
        problem = TaskProblem(error.message, missing=True)
    except (ReadError, UsageError) as error:
        problem = TaskProblem(error.message)
    except MemoryError:
        problem = TaskProblem("not enough memory to read it", passing=True)
    except (DraftcheckError, Exception) as error:  # one model must not end the night
        problem = TaskProblem(f"a bug of draftcheck: {type(error).__name__}: {error!s:.200}")
    if session().budget.stopped.is_set():
        raise ScanStopped
    return problem
