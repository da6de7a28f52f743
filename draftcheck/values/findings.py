"""One finding: a rule held against something, whoever held it. No I/O.

Rules about a pair stand in the engines' files, rules about a deploy file in files.toml, rules of
the gate itself in gate.toml. All three share the words of `RuleText`, and what comes of them is
one `Finding`: the rule's words, what was seen, and, where a file is concerned, the place in it
and the changes that would mend it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from draftcheck.values.words import Outcome, Reaction, Severity


@dataclass(frozen=True, slots=True, order=True)
class FilePlace:
    """Where something stands; lines and columns count from 1, columns in characters."""

    file: str
    line: int
    column: int = 1
    end_line: int | None = None
    end_column: int | None = None
    """Exclusive: the column behind the last character."""


NOWHERE = FilePlace("", 0)
"""The place of a finding about two models that no file names."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of the file: the text between two places becomes another."""

    place: FilePlace
    text: str
    safe: bool = False
    """--fix applies it: the engine does the same afterwards, or what was meant."""


class RuleText(Protocol):
    """The words that every rule has, whatever it is about."""

    @property
    def id(self) -> str: ...
    @property
    def slug(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def why(self) -> str: ...
    @property
    def fix(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule held against a pair, a deploy file or the gate's own files."""

    rule: str
    slug: str
    title: str
    severity: Severity
    outcome: Outcome
    saw: str
    why: str
    fix: str
    source: str = ""
    reaction: Reaction = Reaction.UNKNOWN
    """What the engine does about it; files and the gate have nothing to say to that."""
    basis: str = ""
    """How the reaction is known: run, read or documented."""
    engine_says: str | None = None
    unread: bool = False
    """Unknown because nobody found out what the engine does, not because a fact is missing."""
    place: FilePlace = NOWHERE
    changes: tuple[Fix, ...] = ()
    """What would mend it."""
    setup: int | None = None
    """Number of the gate's deployment that it is about."""
    ignored: str | None = None
    """The reason that somebody gave for ignoring it."""

    @classmethod
    def of(cls, rule: RuleText, outcome: Outcome, saw: str, **more: Any) -> Finding:
        """What was seen, in the words of its rule; more: fields that no rule text has."""
        words = rule.id, rule.slug, rule.title, rule.severity
        return cls(*words, outcome, saw, rule.why, rule.fix, **more)

    @property
    def not_found_out(self) -> bool:
        """Its words hold, though they only say that it is not known."""
        known = self.outcome is not Outcome.UNKNOWN or self.severity is Severity.NOTE
        return self.unread and not known

    @property
    def fixable(self) -> bool:
        return bool(self.changes) and all(change.safe for change in self.changes)

    @property
    def counts(self) -> bool:
        """Whether it can change the gate's verdict."""
        return self.ignored is None and self.severity is not Severity.NOTE


class JudgedRule(Protocol):
    """What a finding has wherever it is kept."""

    @property
    def rule(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def outcome(self) -> Outcome: ...


AnyFinding = TypeVar("AnyFinding", bound=JudgedRule)


def most_telling(findings: Iterable[AnyFinding], decided_by: str | None) -> AnyFinding | None:
    """The finding that explains a verdict best: what failed, else what is unknown."""
    telling = (
        entry
        for entry in findings
        if entry.severity is not Severity.NOTE and entry.outcome in (Outcome.FAIL, Outcome.UNKNOWN)
    )
    return min(
        telling,
        key=lambda entry: (
            entry.rule != decided_by,
            entry.outcome is not Outcome.FAIL,
            entry.severity is not Severity.ERROR,
        ),
        default=None,
    )
