"""What the store holds, as plain values. Nothing here reads or decides.

Types and bounds are meant: store.py holds every row against them when it reads one, because a
store is a file like any other and may hold anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from draftcheck.values.words import Outcome, Reaction, Relation, Severity, Verdict

ALONE = ""
"""In the store: the draft of a target that speculates by itself (MTP layers, n-grams)."""
MOST = 1 << 60
Count = Annotated[int, Meta(ge=0, le=MOST)]
"""A number of things; SQLite and JSON could hold others."""
Bytes = Annotated[int, Meta(ge=-MOST, le=MOST)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
ChangeKind = Literal["new", "works", "better", "worse", "unclear", "broke", "gone"]


@dataclass(frozen=True, slots=True)
class ScanRow:
    """One night. Scans are ordered by number, never by their clock."""

    number: Count
    state: Literal["running", "partial", "complete"]
    """running (or killed), partial (--max-time, interrupted) or complete."""
    started: str
    finished: str | None
    draftcheck: str
    settings: Mapping[str, Any]
    counts: Mapping[str, Count]
    """listed, candidates, models, unreadable, pairs, verdicts, trials, requests …"""
    seconds: Seconds | None = None

    @property
    def complete(self) -> bool:
        return self.state == "complete"


@dataclass(frozen=True, slots=True)
class TargetRow:
    """A model that drafts are looked for, in the order of the list."""

    ref: str
    source: Literal["named", "search"]
    """named, or search: found on the Hub by the list's filters."""
    problem: str | None = None
    """Why it could not be read; then it has no new verdicts."""


@dataclass(frozen=True, slots=True)
class RepoRow:
    """One repo as the Hub lists it, and how far it was looked at."""

    name: str
    sha: str
    kind: str
    """full, head, gguf or bare (a checkpoint without a vocabulary), by its listing."""
    parameters: Count | None = None
    packed: bool = False
    gated: bool = False
    bases: tuple[str, ...] = ()
    """What its card names."""
    downloads: Count = 0
    likes: Count = 0
    refused: str | None = None
    """What its listing alone speaks against, whatever the target."""
    files_sha: str | None = None
    """The commit whose list of files is known."""
    tokenizer: str | None = None
    """Name and digest of its vocabulary file."""
    gguf: str | None = None
    problem: str | None = None
    """Why its files could not be listed at that commit."""
    stage: str | None = None
    """Where something spoke against it: listing, files, digest or header."""
    why: str | None = None

    @property
    def turned_away(self) -> bool:
        """Whether it is no candidate; what files and headers say is looked at again."""
        return self.stage in ("listing", "digest")


@dataclass(frozen=True, slots=True)
class HubWalkRow:
    """How far the Hub's list was walked for one question."""

    question: str
    scan: Count
    """The scan that walked last."""
    listed: Count
    """Rows of that walk so far."""
    following: str | None = None
    """The address where that walk goes on; None: it came to its end."""
    newest: str | None = None
    """When the first row of that walk was changed."""
    until: str | None = None
    """The walk may end at rows older than this; None: it goes through the whole list."""
    known: str | None = None
    """The newest of the last walk that came to its end."""
    whole: Count | None = None
    """The last scan that saw the whole list."""


@dataclass(frozen=True, slots=True)
class StandingRow:
    """What holds for the rows of repos that a night does not list again."""

    base: Count = 0
    """Repos seen since this scan are there now."""
    by_listing: str | None = None
    """Digest of what repos were turned away by at the stage listing; None: not by one thing."""
    by_digest: str | None = None


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A listed repo that is no candidate for any target, and why."""

    repo: str
    stage: str
    """listing, digest or header."""
    why: str


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model whose files were read, or that could not be read."""

    ref: str
    kind: str
    revision: str | None
    """The commit that the facts are of."""
    status: Literal["read", "gated", "unreadable", "gone"]
    problem: str | None = None
    tried: str | None = None
    """The commit that was last asked for."""
    passing: bool = False
    """The problem may be gone at another try."""
    role: str | None = None
    verifier: str | None = None
    fingerprint: str | None = None
    """Equal: the same token texts at the same ids."""
    family: str | None = None
    """Equal: the same vocabulary apart from added tokens. Pairs are formed inside a family."""
    tokenizer_fingerprint: str | None = None
    """Of everything that a pair's vocabularies are compared by: the token texts of two models with
    the same one need not be held side by side."""
    parameters: Count | None = None
    nbytes: Count | None = None
    architecture: str | None = None
    context: Count | None = None
    downloads: Count | None = None
    likes: Count | None = None
    facts: str | None = None
    """Digest of the condensed facts."""
    since: Count = 0
    """The scan that read these facts."""

    @property
    def draft_kind(self) -> str:
        """full, or the kind of head."""
        return self.role or "full"

    @property
    def unread(self) -> str | None:
        """Why its files could not be read."""
        return None if self.status == "read" else self.problem


class FailedRuleRow(Struct, frozen=True, array_like=True):
    """A rule that did not pass; words of the rulebook are not kept, who shows it adds them."""

    rule: str
    outcome: Outcome
    severity: Severity
    reaction: Reaction
    saw: str
    slug: str = ""
    title: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Whether a pair fits the machine that the scan was told of."""

    gpu: str
    answer: str
    required_bytes: Bytes | None = None
    available_bytes: Bytes | None = None
    max_context: Count | None = None
    target_bytes: Bytes | None = None
    """Weights and cache of the target on the fullest device; draft_bytes likewise."""
    draft_bytes: Bytes | None = None
    kv_per_token: tuple[Bytes, ...] = ()
    """Bytes of the cache for one token: the target's, the draft's."""


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """What one engine makes of one pair."""

    target: str
    draft: str | None
    """None: the target by itself."""
    asked: str
    """The question: an engine, or engine@version where the list pins one."""
    engine: str
    version: str
    version_checked: bool
    method: str | None
    reaction: Reaction
    verdict: Verdict
    decided_by: str | None = None
    basis: str | None = None
    relation: Relation | None = None
    findings: tuple[FailedRuleRow, ...] = ()
    passed: Count = 0
    setup: str | None = None
    memory: MemoryRow | None = None
    """None: no GPU was named."""
    notes: tuple[str, ...] = ()
    since: Count = 0
    """The scan in which this verdict was first said."""
    slot: str = ""
    """Tells the answers to one question apart: the method of a target by itself."""
    rules: str = ""
    """Digest of the engine's rules."""


@dataclass(frozen=True, slots=True)
class PairRow:
    """What the verdicts of a pair were made from: while it stays the same, so do they."""

    target: str
    draft: str
    basis: str
    """Digest of all that follows, of the rules, and of the notes on both vocabularies."""
    target_facts: str
    draft_facts: str
    settings: str
    since: Count = 0


@dataclass(frozen=True, slots=True)
class VocabularyRow:
    """A vocabulary file, whoever has it; without a family: why it cannot be read."""

    digest: str
    fingerprint: str | None = None
    family: str | None = None
    size: Count | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FactsRow:
    """What is kept of a model's files."""

    digest: str
    facts: Mapping[str, Any]
    """Condensed (judge/condensed)."""
    download: tuple[str | None, str | None] = (None, None)
    """How to fetch the files, and where they then lie."""


@dataclass(frozen=True, slots=True)
class NotesRow:
    """What only two vocabularies side by side tell; they are named by their fingerprints."""

    target: str
    draft: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A measurement, at these revisions."""

    target: str
    draft: str
    target_revision: str | None
    draft_revision: str | None
    backend: str
    state: Literal["done", "failed"]
    problem: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    """The contract's JSON of a trial."""
    since: Count = 0
    key: str = ""
    """Digest of what was measured, and how."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One difference between a scan and the one before it."""

    scan: Count
    kind: ChangeKind
    """unclear: no longer decided."""
    target: str
    draft: str | None
    asked: str
    engine: str
    version: str
    method: str | None
    before: Verdict | None
    """The verdict of the scan before; None: there was none."""
    after: Verdict | None
    cause: str
    """new-model, new-target, newly-asked, target-files, draft-files, engine-version, rule,
    settings, several, vanished, gated, unreadable, left-list or not-asked."""
    why: str
    slot: str = ""
    pinned: bool = False

    @property
    def where(self) -> str:
        """Engine and version; of a target by itself also the method."""
        place = f"{self.engine} {self.version}"
        return f"{place} {self.method}" if self.method and not self.draft else place


@dataclass(frozen=True, slots=True)
class PinRow:
    """A pair that somebody relies on."""

    target: str
    draft: str
    engines: tuple[str, ...] = ()
    """Questions that count; empty: at least one engine must take the pair."""
