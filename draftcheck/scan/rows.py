"""What the store holds, as plain values. Nothing here reads or decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ALONE = ""
"""In the store: the draft of a target that speculates by itself (MTP layers, n-grams)."""


@dataclass(frozen=True, slots=True)
class ScanRow:
    """One night. Scans are ordered by number, never by their clock."""

    number: int
    state: str
    """running (or killed), partial (--max-time, interrupted) or complete."""
    started: str
    finished: str | None
    draftcheck: str
    settings: Mapping[str, Any]
    counts: Mapping[str, int]
    """listed, candidates, models, unreadable, pairs, verdicts, trials, requests …"""
    seconds: float | None = None

    @property
    def complete(self) -> bool:
        return self.state == "complete"


@dataclass(frozen=True, slots=True)
class TargetRow:
    """A model that drafts are looked for, in the order of the list."""

    ref: str
    source: str
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
    parameters: int | None = None
    packed: bool = False
    gated: bool = False
    bases: tuple[str, ...] = ()
    """What its card names."""
    downloads: int = 0
    likes: int = 0
    refused: str | None = None
    """What its listing alone speaks against, whatever the target."""
    files_sha: str | None = None
    """The commit whose list of files is known."""
    tokenizer: str | None = None
    """Name and digest of its vocabulary file."""
    gguf: str | None = None
    problem: str | None = None
    """Why its files could not be listed at that commit."""


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
    status: str
    """read, gated, unreadable or gone."""
    problem: str | None = None
    role: str | None = None
    verifier: str | None = None
    fingerprint: str | None = None
    """Equal: the same token texts at the same ids."""
    family: str | None = None
    """Equal: the same vocabulary apart from added tokens. Pairs are formed inside a family."""
    tokenizer_fingerprint: str | None = None
    """Of everything that a pair's vocabularies are compared by: the token texts of two models with
    the same one need not be held side by side."""
    parameters: int | None = None
    nbytes: int | None = None
    architecture: str | None = None
    context: int | None = None
    downloads: int | None = None
    likes: int | None = None
    facts: str | None = None
    """Digest of the condensed facts."""
    since: int = 0
    """The scan that read these facts."""

    @property
    def draft_kind(self) -> str:
        """full, or the kind of head."""
        return self.role or "full"

    @property
    def unread(self) -> str | None:
        """Why its files could not be read."""
        return None if self.status == "read" else self.problem


@dataclass(frozen=True, slots=True)
class FailedRuleRow:
    """A rule that did not pass; words of the rulebook are not kept, who shows it adds them."""

    rule: str
    outcome: str
    severity: str
    reaction: str
    saw: str
    slug: str = ""
    title: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Whether a pair fits the machine that the scan was told of."""

    gpu: str
    answer: str
    required_bytes: int | None = None
    available_bytes: int | None = None
    max_context: int | None = None
    target_bytes: int | None = None
    """Weights and cache of the target on the fullest device; draft_bytes likewise."""
    draft_bytes: int | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any] | None) -> MemoryRow | None:
        """From the JSON of the store, which may hold more than is told here."""
        if not body:
            return None
        values: dict[str, Any] = {name: body.get(name) for name in cls.__dataclass_fields__}
        return cls(**{**values, "gpu": str(body["gpu"]), "answer": str(body["answer"])})


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
    reaction: str
    verdict: str
    decided_by: str | None = None
    basis: str | None = None
    relation: str | None = None
    findings: tuple[FailedRuleRow, ...] = ()
    passed: int = 0
    """How many rules passed."""
    setup: str | None = None
    memory: MemoryRow | None = None
    """None: no GPU was named."""
    notes: tuple[str, ...] = ()
    since: int = 0
    """The scan in which this verdict was first said."""


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A measurement, at these revisions."""

    target: str
    draft: str
    target_revision: str | None
    draft_revision: str | None
    backend: str
    state: str
    """done or failed."""
    problem: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    """The contract's JSON of a trial."""
    since: int = 0


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One difference between a scan and the one before it."""

    scan: int
    kind: str
    """new, works, better, worse, unclear (no longer decided), broke or gone."""
    target: str
    draft: str | None
    asked: str
    engine: str
    version: str
    method: str | None
    before: str | None
    """The verdict of the scan before; None: there was none."""
    after: str | None
    cause: str
    """new-model, new-target, newly-asked, target-files, draft-files, engine-version, rule,
    settings, several, vanished, gated, unreadable, left-list or not-asked."""
    why: str
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
