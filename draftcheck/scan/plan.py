"""What has to be done, from what is listed and stored. No I/O.

Work grows with models, not with pairs of them: a repo is turned away by its listing, then by the
digest of its vocabulary file; only members of a target's family are read, and pairs are formed
only inside families.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from draftcheck.models import names
from draftcheck.recommend.screen import LARGEST
from draftcheck.scan.rows import ALONE, ModelRow, PinRow, RepoRow
from draftcheck.values.sizes import short_count

FULL = (None, "full")
NO_DRAFT = ("encoder",)
READABLE = ("read", "gated")
"""States of models that have facts, if only those that a closed repo shows."""
UNSEEN = ("gguf", "head", "bare")
"""Kinds whose vocabulary no digest of a file tells."""


@dataclass(frozen=True, slots=True)
class ScanAim:
    """What the targets of a scan have in common: enough to turn most repos away."""

    largest: int | None
    """Parameters of the largest target; None: not known of one of them."""
    ggufs: bool
    checkpoints: bool
    families: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    """Repos that somebody named: never turned away unread."""
    targets: tuple[str, ...] = ()
    """Repos of the targets."""


def aim(
    targets: Iterable[ModelRow], families: Iterable[str | None], named: Iterable[str]
) -> ScanAim:
    """Sum the targets up; families: of their vocabulary files, as read by themselves."""
    models = [model for model in targets if model.status in READABLE]
    known = [model.parameters for model in models if model.parameters is not None]
    kin = {model.family for model in models} | set(families)
    return ScanAim(
        largest=max(known) if known and len(known) == len(models) else None,
        ggufs=any(model.kind == "gguf" for model in models),
        checkpoints=any(model.kind != "gguf" for model in models),
        families=frozenset(family for family in kin if family),
        named=frozenset(named),
        targets=tuple(dict.fromkeys(repo_of(model.ref) for model in models)),
    )


def repo_of(ref: str) -> str:
    """Cut org/name out of org/name@revision, org/name:tag and org/name/file.gguf."""
    return "/".join(ref.partition("@")[0].partition(":")[0].split("/")[:2])


def by_listing(repo: RepoRow, aim: ScanAim) -> str | None:
    """Say what the listing speaks against, for every target; None: it has to be looked at."""
    if repo.name in aim.named:
        return None
    if repo.refused is not None:
        return repo.refused
    if repo.kind == "gguf" and not aim.ggufs:
        return "GGUF files only; no target is one"
    if repo.kind != "gguf" and not aim.checkpoints:
        return "no GGUF file; every target is one"
    if repo.kind == "bare" and not any(_claims(repo.name, repo.bases, t) for t in aim.targets):
        return "no vocabulary file"
    too_large = aim.largest is not None and (repo.parameters or 0) > LARGEST * aim.largest
    if too_large and repo.kind not in ("head", "bare"):
        size, largest = short_count(repo.parameters or 0), short_count(aim.largest or 0)
        return f"{size} parameters; the largest target has {largest}"
    return None


def by_vocabulary(
    repo: RepoRow, aim: ScanAim, vocabularies: Mapping[str, str | None]
) -> str | None:
    """Say what the digest of the vocabulary file speaks against.

    vocabularies: family by digest; None: the file could not be read.
    """
    if repo.name in aim.named or repo.kind in UNSEEN:
        return None
    if repo.tokenizer is None:
        return "no vocabulary file"
    if repo.tokenizer not in vocabularies:
        return None
    family = vocabularies[repo.tokenizer]
    if family is None:
        return "its vocabulary file could not be read"
    return None if family in aim.families else "the vocabulary of no target"


@dataclass(frozen=True, slots=True)
class CardedModel:
    """A model that was read, with what its repo's card says."""

    model: ModelRow
    family: str | None
    bases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedPairs:
    """Which drafts belong to which target, and who belongs to none."""

    drafts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Target -> drafts by name; "" is the target by itself."""
    rejected: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for target, drafts in self.drafts.items():
            for draft in drafts:
                yield target, draft

    def __len__(self) -> int:
        return sum(map(len, self.drafts.values()))


def pairs(
    targets: Sequence[str], sides: Mapping[str, CardedModel], pins: Iterable[PinRow]
) -> PlannedPairs:
    """Pair targets with the smaller members of their family, heads made for them, and pins."""
    members: dict[tuple[str, str], list[CardedModel]] = {}
    heads: list[CardedModel] = []
    for side in sides.values():
        if side.model.status not in READABLE:
            continue
        if side.model.role in FULL and side.family is not None:
            members.setdefault((side.model.kind, side.family), []).append(side)
        elif side.model.role not in (*FULL, *NO_DRAFT):
            heads.append(side)
    pinned: dict[str, list[str]] = {}
    for pin in pins:
        if pin.draft in sides and sides[pin.draft].model.facts is not None:
            pinned.setdefault(pin.target, []).append(pin.draft)
    drafts = {}
    for ref in targets:
        target = sides.get(ref)
        if target is None or target.model.status not in READABLE:
            continue
        near = members.get((target.model.kind, target.family or ""), [])
        refs = [side.model.ref for side in near if smaller(side.model, target.model)]
        refs += [side.model.ref for side in heads if tied(side, target.model)]
        drafts[ref] = (ALONE, *sorted({*refs, *pinned.get(ref, [])} - {ref}))
    taken = {draft for refs in drafts.values() for draft in refs} | set(targets)
    rejected = {ref: _why(side, targets) for ref, side in sides.items() if ref not in taken}
    return PlannedPairs(drafts, rejected)


def smaller(draft: ModelRow, target: ModelRow) -> bool:
    """Whether a draft is small enough for a look: one hardly smaller saves nothing."""
    if draft.ref == target.ref:
        return False
    if draft.parameters is None or target.parameters is None:
        return True
    return draft.parameters <= LARGEST * target.parameters


def tied(head: CardedModel, target: ModelRow) -> bool:
    """Whether a head says, in whatever way, that it was made for this target.

    Its own config counts first: a card names the donor as often as the target.
    """
    repo = repo_of(target.ref)
    if head.model.verifier:
        named = head.model.verifier.rstrip("/")
        short = names.short(repo).lower()
        return named.lower() == repo.lower() or names.short(named).lower() == short
    return _claims(head.model.ref, head.bases, repo)


def _claims(name: str, bases: Collection[str], target: str) -> bool:
    """Whether a repo's name or card speaks of a target."""
    return names.mentions(name.rpartition("/")[2], names.short(target)) or target in bases


def _why(side: CardedModel, targets: Collection[str]) -> str:
    model = side.model
    if model.status not in READABLE:
        return model.problem or model.status
    if model.role in NO_DRAFT:
        return "no language model that writes text"
    if model.role not in FULL:
        made = f"made for {model.verifier}" if model.verifier else "it names no target"
        return f"a head ({model.role}), {made}"[:300]
    if side.family is None:
        return "its vocabulary was not read"
    return "not smaller than any target of its family, or of no target's family"
