"""Reads candidates, several at a time, and drops each as early as its files allow.

For one candidate, the cheapest first: the list of its files (one request; the digest of its
tokenizer comes with it), config.json, its tokenizer (once for all who have the same file, and at
most twelve different ones), the headers of its weights. screen.py says what speaks against it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Any

from draftcheck.errors import DraftcheckError, GatedError, ReadError, UsageError
from draftcheck.judge.checks import see
from draftcheck.judge.compare import compare, compare_vocabularies
from draftcheck.judge.decide import Question, setup_for
from draftcheck.models import choose_gguf, stored
from draftcheck.models.opening import OpenedModel, Opener
from draftcheck.models.read import read_all, read_opened
from draftcheck.models.readers import config, heads, jsonfile
from draftcheck.models.readers.tokenizer import files as tokenizer
from draftcheck.models.refs import ModelRef, parse
from draftcheck.models.sources.folder import FolderSource
from draftcheck.models.sources.hub.cache import digest_of
from draftcheck.models.sources.hub.reader import HubSource
from draftcheck.recommend import screen
from draftcheck.recommend.candidates import Candidate, Rejection
from draftcheck.recommend.screen import JudgedCandidate
from draftcheck.recommend.search import DraftSearch, unread
from draftcheck.rulebook import book
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Behaviour, Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import JudgedPair
from draftcheck.values.words import Outcome, Verdict

WORKERS = 6
OTHER_TEXTS = "TRU001"
MOST_TOKENIZERS = 12
"""Distinct tokenizers that are read for one target; a file of 10 MB each."""

Result = JudgedCandidate | Rejection
Say = Callable[[str], None]


def quiet(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class CandidateContext:
    """What every candidate is held against."""

    target: ModelFacts
    questions: Sequence[Question]
    explicit: bool
    search: DraftSearch
    lineage: frozenset[str] = frozenset()
    tokenizer: bytes | None = None
    """The target's tokenizer file, where it lies on this disk: not to be downloaded again."""
    shared: bool = True
    """No engine that is asked translates between vocabularies."""


@dataclass
class KnownTokenizer:
    """What is known of one tokenizer file, by its digest."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    read: bool = False
    against: str | None = None
    """What speaks against it as the tokenizer of a draft."""


class CandidateReader:
    """Models of one run: they share connections, cache, and what is known of tokenizers."""

    def __init__(self, *, offline: bool) -> None:
        self.opener = Opener(offline=offline)
        self.offline = offline
        self.digests: frozenset[str] = frozenset()
        """Of the target's tokenizer, in every way of writing it."""
        self.gguf = False
        self.beside: tuple[Candidate, ...] = ()
        """Heads in the target's own repo."""
        self._known: dict[str, KnownTokenizer] = {}
        self._lock = threading.Lock()

    def target(self, ref: ModelRef) -> ModelFacts:
        """Read the target; what cannot be read is an error here."""
        if ref.kind == "facts":
            return stored.load(ref.path, ref.text)
        model = self.opener.open(ref)
        facts = read_opened(model)
        self.gguf = facts.gguf is not None
        if facts.refused:
            raise GatedError(facts.refused, hint=" ".join(facts.notes)[:400])
        name = tokenizer.main_file(model.source) if model.gguf is None else None
        if name is not None:
            self.digests = _digests(model, name)
        if model.gguf is not None and model.repo is not None:
            paths = choose_gguf.heads(model.repo.paths)
            self.beside = tuple(Candidate(f"{ref.repo}/{path}", "beside") for path in paths)
        return facts

    def open(self, candidates: Sequence[Candidate], say: Say) -> list[Candidate | Rejection]:
        """List the files of each: one request, unless it is known; digests come with it."""
        self.opener.hub.prepare()
        return self._each(self._open, candidates, say)

    def judge(self, rows: Sequence[Candidate], context: CandidateContext, say: Say) -> list[Result]:
        return self._each(lambda row: self._judge(row, context), rows, say)

    def known(self, candidate: Candidate) -> Rejection | None:
        """Reject by what another model with the same tokenizer has shown; heads have none."""
        for digest in candidate.digests.values():
            known = self._known.get(digest)
            if known is not None and known.against is not None and not candidate.looks_like_a_head:
                return candidate.reject(OTHER_TEXTS, known.against)
        return None

    def _each(self, work: Callable[[Any], Any], rows: Sequence[Any], say: Say) -> list[Any]:
        """Some at a time, in the order of the rows; an interruption stops what is being read."""
        pool = ThreadPoolExecutor(WORKERS)
        jobs = [pool.submit(work, row) for row in rows]
        try:
            for done, _ in enumerate(as_completed(jobs), 1):
                say(f"{done} of {len(jobs)} models")
            return [job.result() for job in jobs]
        except BaseException:
            self.opener.hub.stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _open(self, candidate: Candidate) -> Candidate | Rejection:
        try:
            ref = reference(candidate, gguf=self.gguf)
            if ref.kind != "hub":
                return candidate
            model = self.opener.open(ref)
        except (ReadError, UsageError) as error:
            return unread(candidate, error)
        name = tokenizer.main_file(model.source) if model.gguf is None else None
        digest = model.source.digest(name) if name else None
        digests = {name: digest} if name and digest else {}
        return replace(candidate, digests=digests, opened=model)

    def _judge(self, candidate: Candidate, context: CandidateContext) -> Result:
        """Drop it as soon as something speaks against it, else hold it against the rules."""
        try:
            facts = self._facts(candidate, context)
            if isinstance(facts, Rejection):
                return facts
            return screen.judge(
                replace(candidate, ref=facts.ref, opened=None),
                compare(context.target, facts),
                context.questions,
                explicit=context.explicit,
                search=context.search,
                lineage=context.lineage,
            )
        except (ReadError, UsageError) as error:
            return unread(candidate, error)
        finally:  # a tokenizer is ten megabytes, and there are many candidates
            if candidate.opened is not None and candidate.opened.repo is not None:
                candidate.opened.repo.forget()

    def _facts(self, candidate: Candidate, context: CandidateContext) -> ModelFacts | Rejection:
        model = candidate.opened
        if model is None:
            return local_facts(candidate)
        if context.tokenizer is not None and model.remote:
            name = tokenizer.main_file(model.source)
            if name is not None and model.source.files().get(name) == len(context.tokenizer):
                model.source.offer(name, context.tokenizer)
        if candidate.gated and isinstance(model.source, HubSource):
            try:
                model.source.probe()
            except GatedError as error:
                same = not self.digests.isdisjoint(candidate.digests.values())
                hint = "; its tokenizer is the target's: worth asking for access" if same else ""
                return candidate.reject("read", error.message + hint, Verdict.UNDECIDED)
        if model.gguf is None and model.remote:
            refused = self.known(candidate) or self._early(candidate, model, context)
            if refused is not None:
                model.settle(None)  # it was read as far as was needed
                return refused
        return read_opened(model)

    def _early(
        self, candidate: Candidate, model: OpenedModel, context: CandidateContext
    ) -> Rejection | None:
        """config.json, then the tokenizer: before any header is read."""
        about, raw = config.read(model.source, generation=False)
        role = heads.role(about, raw, None)
        if role not in screen.NO_HEAD or candidate.looks_like_a_head:
            return None
        refused = screen.by_config(candidate, about, role, context.target, shared=context.shared)
        if refused is not None or not context.shared:
            return refused
        name = tokenizer.main_file(model.source)
        digest = model.source.digest(name) if name else None
        if digest is None:
            return None
        with self._lock:
            if digest not in self._known and len(self._known) >= MOST_TOKENIZERS:
                words = f"its tokenizer is another one, and {MOST_TOKENIZERS} others were read"
                return candidate.reject("tokenizer", words, Verdict.UNDECIDED)
            known = self._known.setdefault(digest, KnownTokenizer())
        with known.lock:  # the same file is downloaded by one of them, and taken from the cache
            if not known.read:
                known.against = _against(model, context.target)
                known.read = True
        return None if known.against is None else candidate.reject(OTHER_TEXTS, known.against)


def reference(candidate: Candidate, *, gguf: bool = False) -> ModelRef:
    """Say what to open: a candidate of a list is pinned to the commit that was listed.

    gguf: of a repo with a checkpoint and GGUF files, the latter.
    """
    if candidate.source != "hub":
        return parse(candidate.ref)
    ggufs = choose_gguf.models(candidate.files or ())
    if not ggufs or not (gguf or candidate.kind == "gguf"):
        return ModelRef(candidate.ref, "hub", repo=candidate.ref, revision=candidate.revision)
    file = choose_gguf.usual(ggufs)
    alone = len(ggufs) == 1 and candidate.kind == "gguf"
    text = candidate.ref if alone else f"{candidate.ref}/{file}"
    return ModelRef(text, "hub", repo=candidate.ref, revision=candidate.revision, file=file)


def local_facts(candidate: Candidate) -> ModelFacts:
    """Read a model on this disk, under the name that the user knows."""
    [facts] = read_all(parse(candidate.path or candidate.ref), offline=True)
    if candidate.path is None:
        return facts
    # Engines take the name of a repo, but a GGUF only by its path.
    name = candidate.path if facts.gguf is not None else None
    revision = candidate.revision or facts.revision
    return replace(facts, ref=candidate.ref, name=name, revision=revision)


def _digests(model: OpenedModel, name: str) -> frozenset[str]:
    known = model.source.digest(name)
    if known is not None:
        return frozenset({known})
    try:
        data = model.source.read(name, jsonfile.MAX_TOKENIZER)
    except ReadError:
        return frozenset()
    return frozenset(digest_of(data, like) for like in ("git-sha1:", "sha256:"))


def own_tokenizer(ref: ModelRef) -> bytes | None:
    """Read the tokenizer file of a folder on this disk."""
    if ref.kind != "folder":
        return None
    try:
        source = FolderSource(ref.path)
        name = tokenizer.main_file(source)
        return source.read(name, jsonfile.MAX_TOKENIZER) if name else None
    except DraftcheckError:
        return None


def _against(model: OpenedModel, target: ModelFacts) -> str | None:
    """What the rule about other texts says to this tokenizer alone."""
    rule = next(rule for rule in book.truth() if rule.id == OTHER_TEXTS)
    facts = ModelFacts(model.ref.text, "hub", tokenizer=tokenizer.read(model.source).facts)
    vocabulary = compare_vocabularies(target, facts)
    comparison = Comparison(target, facts, vocabulary, (), Behaviour(None, ""))
    # Rules that hold everywhere ask nothing of the setup.
    engine = book.load(next(iter(book.engine_files())))
    setup = setup_for(engine, engine.checked, engine.methods[0], Circumstances())
    seen = see(rule.check, JudgedPair.of(comparison, setup), rule.params)
    return seen.saw if seen.outcome is Outcome.FAIL else None
