"""Which of an engine's methods speak for a pair, or the reason why none does.

An engine has several methods, and a method several forms: one row of the rulebook each, with the
versions that have it, the files it loads and the kinds of draft it takes. A pair offers a kind of
draft: what the draft is (full, eagle3, mtp …), the target's own layers (itself), or none. Some
engines take a whole model's GGUF file for the MTP layers in it (holds-mtp), or layers in a layout
of their own (unstated-itself).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from draftcheck import versions
from draftcheck.errors import UsageError, did_you_mean
from draftcheck.models.readers.heads import STAGE_LAYERS, stages_for, unstated_mtp
from draftcheck.rulebook.book import Engine, Method
from draftcheck.values.comparison import Comparison

FORMATS = {"folder": "checkpoints", "gguf": "GGUF files"}
NO_DRAFT = frozenset({"itself", "unstated-itself", "none"})


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """Methods, the engine's first choice first, and what is to be said; or none, and why."""

    methods: tuple[Method, ...]
    note: str = ""
    impossible: bool = False
    """The engine has no such method: not a gap in the rulebook."""
    applies: bool = True
    """False: none of its methods that the rulebook knows loads such files."""


def needs_no_draft(method: Method) -> bool:
    """Whether the target's own layers draft, or no model at all does."""
    return set(method.drafts) <= NO_DRAFT


def formats(comparison: Comparison) -> set[str]:
    """Which kinds of files the pair is made of."""
    return {"gguf" if facts.gguf is not None else "folder" for _, facts in comparison.sides}


def takes_format(comparison: Comparison, engine: Engine) -> bool:
    """Whether a method that is chosen without being asked for loads such files."""
    return any(formats(comparison) <= set(m.formats) for m in engine.methods if m.automatic)


def choose(
    comparison: Comparison, engine: Engine, version: str, wanted: str | None
) -> MethodChoice:
    """The methods to judge: one for a draft, every one that needs none when there is no draft."""
    known = tuple(dict.fromkeys(method.id for method in engine.methods))
    if wanted is not None and wanted not in known:
        raise UsageError(f"{engine.id} has no method {wanted!r}", hint=did_you_mean(wanted, known))
    offered = in_version(engine, version, wanted)
    if not offered:
        return _absent(engine, version, wanted)
    fitting = tuple(method for method in offered if formats(comparison) <= set(method.formats))
    if not fitting:
        covered = {name for method in offered for name in method.formats}
        taken = " and ".join(FORMATS[name] for name in sorted(covered))
        files = " with ".join(FORMATS[name] for name in sorted(formats(comparison)))
        note = f"{engine.name}'s rules here cover {taken} only, not {files}"
        return MethodChoice((), note, applies=False)
    if wanted is not None:
        chosen = _wanted(comparison, engine, fitting)
        if instead := _runs_as(comparison, engine, version, chosen.methods[0]):
            note = f"{engine.name} {version} runs this draft by method {instead}, not {wanted}"
            return replace(choose(comparison, engine, version, instead), note=note)
        return chosen
    kinds = roles(comparison)
    # Where no method for such files is chosen by itself, the engine was named for another one.
    any_automatic = any(method.automatic for method in fitting)
    methods = tuple(
        method
        for kind in (*_held(comparison), *kinds)
        for method in fitting
        if (method.automatic or not any_automatic) and kind in method.drafts
    )
    if methods:
        first = methods if comparison.draft is None else methods[:1]
        others = [_runs_as(comparison, engine, version, method) for method in first]
        return MethodChoice(
            tuple(
                choose(comparison, engine, version, other).methods[0] if other else method
                for method, other in zip(first, others, strict=True)
            )
        )
    which = "that needs no draft" if "none" in kinds else f"for a draft of kind {', '.join(kinds)}"
    what = f"method of {engine.name} {which}"
    if not engine.complete:
        return MethodChoice((), f"the rulebook knows no {what}")
    other = [m for m in engine.methods if set(kinds) & set(m.drafts) and m.automatic]
    since = ", ".join(dict.fromkeys(f"{m.id} from {m.since}" for m in other if m.since))
    note = f"there is no {what}" + (f" in {version}" if other else "")
    return MethodChoice((), note + (f" ({since})" if since else ""), True)


def roles(comparison: Comparison) -> tuple[str, ...]:
    """The kinds of draft that the pair offers, the best first."""
    target = comparison.target
    own = target.head if target.role == "full" else None
    itself = ("unstated-itself",) if unstated_mtp(target) else ()
    if own and (own.mtp_promised or own.mtp_present):
        itself = ("itself",)
    if comparison.draft is None:
        return (*itself, "none")
    return (*(itself if comparison.one_model else ()), comparison.draft.role or "full")


def _held(comparison: Comparison) -> tuple[str, ...]:
    """What a draft of kind full may be taken for instead."""
    draft = comparison.draft
    if draft is None or draft.role != "full" or comparison.one_model:
        return ()
    if draft.gguf is None:
        return ("holds-dspark",) if stages_for(comparison.target, draft) else ()
    layers = draft.head is not None and (draft.head.mtp_promised or draft.head.mtp_present)
    return ("holds-mtp",) if layers or unstated_mtp(draft) else ()


def in_version(engine: Engine, version: str, wanted: str | None = None) -> tuple[Method, ...]:
    """The methods that this version has, of those that were read; wanted: only that one's forms."""
    return tuple(
        method
        for method in engine.methods
        if versions.covers(engine.order, version, method.since or engine.oldest, method.until)
        and (wanted is None or method.id == wanted)
    )


def _wanted(comparison: Comparison, engine: Engine, fitting: tuple[Method, ...]) -> MethodChoice:
    """The method asked for, in the form that takes what the pair offers.

    The target named a second time as its draft means the target's own layers, where the method
    has such a form.
    """
    offered = (*_held(comparison), *roles(comparison))
    forms = [method for method in fitting if comparison.one_model and needs_no_draft(method)]
    forms += [method for method in fitting if set(offered) & set(method.drafts)]
    if forms:
        return MethodChoice((forms[0],))
    method = fitting[0]
    if comparison.draft is None:
        raise UsageError(
            f"{engine.id}'s {method.id} needs a draft",
            hint="Name it after the target: draftcheck pair TARGET DRAFT.",
        )
    return MethodChoice((method,))


def _runs_as(comparison: Comparison, engine: Engine, version: str, method: Method) -> str | None:
    """The method that this version takes for such a draft in place of the one asked for."""
    drafter = comparison.drafter
    instead = method.runs_as.get(drafter.config.outer_type or drafter.config.model_type or "")
    if drafter.head is not None and drafter.head.aux_key == STAGE_LAYERS:
        called = drafter.called.lower()
        by_name = (text for name, text in method.runs_as.items() if fnmatchcase(called, name))
        instead = next(by_name, instead)
    if instead is None:
        return None
    other, since = instead.split()
    return other if versions.covers(engine.order, version, since, None) else None


def _absent(engine: Engine, version: str, wanted: str | None) -> MethodChoice:
    """Nothing in this version: too old for the rulebook, or the engine had no such method."""
    what = wanted or "speculation"
    if engine.order(version) < engine.order(engine.oldest):
        return MethodChoice((), f"{what} in {engine.name} {version}: older than what was read"
                      f" ({engine.oldest})")  # fmt: skip
    windows = ", ".join(
        " ".join(filter(None, (m.since and f"from {m.since}", m.until and f"before {m.until}")))
        for m in engine.methods
        if m.id == wanted
    )
    return MethodChoice(
        (), f"{engine.name} {version} has no {what}; it is there {windows or 'in none'}", True
    )
