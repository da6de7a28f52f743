"""Reads candidates one by one, several at a time, and drops each as early as its files allow."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace

from draftcheck import rulebook
from draftcheck.candidates import Candidate, Rejection, screen
from draftcheck.candidates.hub import Wanted, unread
from draftcheck.candidates.screen import Judged
from draftcheck.checks import CHECKS
from draftcheck.compare import compare, compare_vocabularies
from draftcheck.errors import DraftcheckError, GatedError, ReadError, UsageError
from draftcheck.facts import config, heads, jsonfile, read_opened, tokenizer
from draftcheck.facts.opening import Opened, Opener
from draftcheck.judge import Question, setup_for
from draftcheck.refs import ModelRef, parse
from draftcheck.types import (
    Behaviour,
    Circumstances,
    Comparison,
    ModelFacts,
    Outcome,
    Setup,
    Verdict,
)

WORKERS = 6
OTHER_TEXTS = "TRU001"
MOST_TOKENIZERS = 24
"""Distinct tokenizers that are read for one target; a file of 10 MB each."""
PREFERRED = ("q4_k_m", "q8_0", "q5_k_m", "q6_k", "q4_k_s", "q4_0", "iq4_xs", "bf16", "f16")
"""Quantisations of a draft, the usual ones first."""
PART = re.compile(r"-(\d{5})-of-\d{5}\.gguf$")
ASIDE = ("mmproj", "imatrix")

Result = Judged | Rejection


@dataclass(frozen=True, slots=True)
class Asked:
    """What every candidate is held against."""

    target: ModelFacts
    questions: Sequence[Question]
    explicit: bool
    what: Wanted
    lineage: frozenset[str] = frozenset()
    tokenizer: bytes | None = None
    """The target's tokenizer file, where it lies on this disk: not to be downloaded again."""


@dataclass
class Known:
    """What is known of one tokenizer file, by its digest."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    read: bool = False
    against: str | None = None
    """What speaks against it as the tokenizer of a draft."""


class Reading:
    """Models of one run: they share connections, cache, and what is known of tokenizers."""

    def __init__(self, *, offline: bool) -> None:
        self.opener = Opener(offline=offline)
        self.offline = offline
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()

    def target(self, ref: ModelRef) -> ModelFacts:
        """The facts of the target; what cannot be read is an error here."""
        if ref.kind == "facts":
            from draftcheck.facts import saved

            return saved.load(ref.path, ref.text)
        facts = read_opened(self.opener.open(ref))
        if facts.refused:
            raise GatedError(facts.refused, hint=" ".join(facts.notes)[:400])
        return facts

    def all(
        self, found: Iterable[Candidate], asked: Asked, say: Callable[[int], None] = lambda _: None
    ) -> Iterator[Result]:
        """What becomes of each candidate, in the order in which it is known."""
        rows = list(found)
        if rows and rows[0].source == "hub":
            _ = self.opener.hub  # made once, before threads want it
        pool = ThreadPoolExecutor(WORKERS)
        jobs = {pool.submit(self.one, row, asked): row for row in rows}
        try:
            for done, job in enumerate(as_completed(jobs), 1):
                say(done)
                yield job.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def one(self, found: Candidate, asked: Asked) -> Result:
        """Open it, drop it as soon as something speaks against it, else judge it."""
        try:
            facts = self._facts(found, asked)
            if isinstance(facts, Rejection):
                return facts
            comparison = compare(asked.target, facts)
            found = replace(found, ref=facts.ref)
            return screen.judge(
                found,
                comparison,
                asked.questions,
                explicit=asked.explicit,
                what=asked.what,
                lineage=asked.lineage,
            )
        except ReadError as error:
            return unread(found, error)
        except UsageError as error:
            return Rejection(found.ref, "read", error.message, Verdict.UNDECIDED, found.revision)

    def _facts(self, found: Candidate, asked: Asked) -> ModelFacts | Rejection:
        if found.source not in ("hub", "named"):
            return local_facts(found)
        model = self.opener.open(reference(found))
        if asked.tokenizer is not None and model.remote:
            _offer(model, asked.tokenizer)
        if model.gguf is None and not found.gated and model.ref.kind == "hub":
            refused = self._early(found, model, asked)
            if refused is not None:
                return refused
        return read_opened(model)

    def _early(self, found: Candidate, model: Opened, asked: Asked) -> Rejection | None:
        """config.json, then the tokenizer: before any header is read."""
        about, raw = config.read(model.source, generation=False)
        role = heads.role(about, raw, None)
        if role not in screen.NO_HEAD or found.looks_like_a_head:
            return None
        refused = screen.by_config(found, about, role, asked.target)
        if refused is not None or any(question.method for question in asked.questions):
            return refused  # a method that was asked for may translate between vocabularies
        name = tokenizer.main_file(model.source)
        digest = model.source.digest(name) if name else None
        if digest is None:
            return None
        with self._lock:
            if digest not in self._known and len(self._known) >= MOST_TOKENIZERS:
                words = f"its tokenizer is another one, and {MOST_TOKENIZERS} others were read"
                return Rejection(found.ref, "tokenizer", words, Verdict.UNDECIDED, found.revision)
            known = self._known.setdefault(digest, Known())
        with known.lock:  # the same file is downloaded by one of them, and taken from the cache
            if not known.read:
                known.against = _against(model, asked.target)
                known.read = True
        if known.against is not None:
            return Rejection(found.ref, OTHER_TEXTS, known.against, revision=found.revision)
        return None

    def close(self) -> None:
        self.opener.close()


def reference(found: Candidate) -> ModelRef:
    """What to open: a candidate of a list is pinned to the commit that was listed."""
    if found.source != "hub":
        return parse(found.ref)
    ggufs = [name for name in found.files or () if _is_model(name)]
    if found.kind != "gguf" or not ggufs:
        return ModelRef(found.ref, "hub", repo=found.ref, revision=found.revision)
    file = pick(ggufs)
    text = found.ref if len(ggufs) == 1 else f"{found.ref}/{file}"
    return ModelRef(text, "hub", repo=found.ref, revision=found.revision, file=file)


def pick(files: Sequence[str]) -> str:
    """Of the quantisations of one model, the one that a draft is mostly used in."""
    for tag in PREFERRED:
        for name in sorted(files):
            if re.search(rf"(?:^|[-._/]){tag}[.-]", name.lower()) and "ud-" not in name.lower():
                return name
    return min(files)


def _is_model(name: str) -> bool:
    part = PART.search(name)
    last = name.rpartition("/")[2].lower()
    first = part is None or int(part[1]) == 1
    return name.endswith(".gguf") and first and not any(sign in last for sign in ASIDE)


def local_facts(found: Candidate) -> ModelFacts:
    """A model on this disk, under the name that the user knows."""
    from draftcheck.facts import read_all

    [facts] = read_all(parse(found.path or found.ref), offline=True)
    if found.path is None:
        return facts
    # Engines take the name of a repo, but a GGUF only by its path.
    name = found.path if facts.gguf is not None else None
    return replace(facts, ref=found.ref, name=name, revision=found.revision or facts.revision)


def _offer(model: Opened, data: bytes) -> None:
    name = tokenizer.main_file(model.source)
    if name is not None and model.source.files().get(name) == len(data):
        model.source.offer(name, data)


def own_tokenizer(ref: ModelRef) -> bytes | None:
    """The tokenizer file of a folder on this disk."""
    if ref.kind != "folder":
        return None
    from draftcheck.sources.folder import FolderSource

    try:
        source = FolderSource(ref.path)
        name = tokenizer.main_file(source)
        return source.read(name, jsonfile.MAX_TOKENIZER) if name else None
    except DraftcheckError:
        return None


def _against(model: Opened, target: ModelFacts) -> str | None:
    """What the rule about other texts says to this tokenizer alone."""
    rule = next(rule for rule in rulebook.truth() if rule.id == OTHER_TEXTS)
    facts = ModelFacts(model.ref.text, "hub", tokenizer=tokenizer.read(model.source).facts)
    vocabulary = compare_vocabularies(target, facts)
    comparison = Comparison(target, facts, vocabulary, (), Behaviour(None, ""))
    seen = CHECKS[rule.check](comparison, _setup(), **rule.params)
    return seen.saw if seen.outcome is Outcome.FAIL else None


def _setup() -> Setup:
    """Rules that hold everywhere ask nothing of it."""
    engine = rulebook.load(next(iter(rulebook.engine_files())))
    return setup_for(engine, engine.checked, engine.methods[0], Circumstances())
