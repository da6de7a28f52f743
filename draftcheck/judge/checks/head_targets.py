"""Checks on what a head needs of its target: MTP layers, a known class, the named verifier."""

from __future__ import annotations

import re

from draftcheck.judge.checks.heads import NO_HEAD
from draftcheck.judge.checks.outcomes import UNTOLD, fail, not_applicable, ok, unknown
from draftcheck.values.comparison import Comparison
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)")


def mtp_layers_present(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the draft's config promises MTP layers that its weights do not have."""
    head, role = comparison.drafter.head, comparison.drafter.role
    if head is None and role is None:
        return unknown("the draft's MTP layers were not read")
    if head is None or not head.mtp_promised:
        return not_applicable("no MTP layers promised")
    if head.mtp_present is None:
        return unknown("MTP layers could not be counted among the tensor names")
    words = f"{head.mtp_promised} MTP layers promised, {head.mtp_present} in the weights"
    return fail(words) if head.mtp_present < head.mtp_promised else ok(words)


def mtp_layers_exist(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when a whole model without any MTP layer is given for its MTP layers."""
    role, head = comparison.drafter.role, comparison.drafter.head
    if role is None:
        return unknown(UNTOLD)
    if role == "mtp" or (role == "full" and head is not None and head.mtp_promised):
        return ok("the draft has MTP layers")
    return fail(f"the draft is: {role}, without MTP layers")


def head_verifier(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the head names another target than the one given."""
    draft, target = comparison.drafter, comparison.target
    if draft.role in NO_HEAD:
        return not_applicable(f"the draft is no head: {draft.role}")
    theirs = draft.head.verifier_architectures if draft.head else None
    ours = target.config.architectures
    if theirs and ours and not set(theirs) & set(ours):
        return fail(f"the head was made for {theirs[0]}, the target is a {ours[0]}")
    if draft.verifier is None:
        known = draft.head is not None and draft.head.declared is not None
        return not_applicable("no verifier named") if known else unknown("verifier was not read")
    if REPOSITORY.fullmatch(draft.verifier) is None:
        return unknown(f"the head names {draft.verifier[:200]!r}, which is no public name")
    return _same_name(draft.verifier[:200], target.called[-200:])


def _same_name(verifier: str, called: str) -> CheckOutcome:
    cached = CACHED.search(called)
    name = f"{cached[1]}/{cached[2]}" if cached else called.rstrip("/\\")
    wanted, given = (text.replace("\\", "/").split("/")[-1].casefold() for text in (verifier, name))
    words = f"the head was made for {verifier}, the target is {name}"
    if wanted in given or given in wanted:
        return ok(words)
    return fail(words) if REPOSITORY.fullmatch(name) else unknown(f"{words}: not comparable")
