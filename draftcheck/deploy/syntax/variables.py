"""Variables that a file gives values to itself; everything else stays unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from draftcheck.deploy.syntax.shell_words import RawWord, WordPart
from draftcheck.deploy.syntax.templates import CUT, HOLE, TOO_LONG
from draftcheck.deploy.text import TextView, Word, joined

MAX_VALUE, MAX_DOCUMENT = 1 << 14, 1 << 20
_OFF = ("0", "off", "none", "false", "no")
"""Values that switch something off."""
MAX_EXPORTED = 200
_INNER = r"[^{}]*"
for _ in range(3):  # ${A:-${B:-${C:-x}}}
    _INNER = rf"(?:[^{{}}]|\$\{{{_INNER}\}})*"
_BRACED = re.compile(
    r"\$(?:\$|(?P<name>[A-Za-z_]\w*)"
    rf"|\{{(?P<braced>[A-Za-z_]\w*)(?:(?P<how>:?[-?+])(?P<rest>{_INNER}))?\}})"
)


@dataclass(slots=True)
class VariableValue:
    """What a variable holds: a text, or the words of an array; neither: it cannot be told."""

    view: TextView | None = None
    items: list[Word] | None = None
    branch: bool = False
    """Given inside a condition or a loop."""
    argument: bool = False
    """Given on the command line of the script: unknown, but not instead of a default."""
    cut: bool = False
    """Too long to be kept."""

    @property
    def off(self) -> bool:
        return self.view is not None and self.view.text.lower() in _OFF

    @property
    def empty(self) -> bool:
        return self.view is not None and not self.view.text

    @property
    def words(self) -> list[Word]:
        return [self.view.word()] if self.view is not None and self.view.text else []

    def same(self, other: VariableValue) -> bool:
        mine, theirs = self.view, other.view
        if mine is None or theirs is None:
            return mine is theirs and self.items is None and other.items is None
        return mine.text == theirs.text


def _either(old: VariableValue, new: VariableValue) -> VariableValue:
    """What a variable holds that a condition may change: what the file says, if it says one thing.

    An argument ($2) may replace a default, and options that may be switched on stand in the file.
    Of two lists of words the last that is not empty is taken: its words are marked as uncertain.
    """
    if new.argument:
        return VariableValue(branch=True) if old.off or old.empty else old
    if old.items is not None and new.items is not None:
        return new if new.items else old
    if old.view is not None and new.view is not None:
        if new.view.text.startswith(old.view.text):  # ARGS="$ARGS --more"
            return new
        for value, other in ((old, new), (new, old)):
            if value.off or (value.view is not None and not value.view.text.strip()):
                return other
        if HOLE in old.view.text:  # ARGS=${ARGS:-}, and here something is put into it
            return new
    return VariableValue(branch=True)


@dataclass(slots=True)
class Variables:
    """Names and their values at one point of a script."""

    values: dict[str, VariableValue] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    replaced: list[Word] = field(default_factory=list)
    """Words that one way through the script uses, and the way that is followed does not."""
    guarded: bool = False
    """Inside a condition: what is switched off elsewhere may well be on here."""
    _environment: dict[str, Word] | None = None

    def copy(self) -> Variables:
        """The same values, to go another way with."""
        values = {
            name: replace(value, items=None if value.items is None else [*value.items])
            for name, value in self.values.items()
        }
        return Variables(values, set(self.exported), [], self.guarded)

    def assign(self, name: str, value: VariableValue) -> None:
        """Give a value; two different ones on different ways leave it unknown."""
        self._environment = None
        old = self.values.get(name)
        if value.branch and old is not None and not old.same(value):
            ways = (old, value)
            value = _either(old, value)
            lost = (way for way in ways if way is not value)
            self.replaced += [word for way in lost for word in way.items or way.words]
        elif value.branch and value.off:
            value = VariableValue(branch=True)
        if value.view is not None and len(value.view.text) > MAX_VALUE:
            value = VariableValue(cut=True)
        self.values[name] = value

    def append(self, name: str, value: VariableValue) -> None:
        """Add to a text or an array."""
        self._environment = None
        old = self.values.get(name)
        if old is None:
            self.values[name] = value
        elif old.items is not None and value.items is not None:
            if len(old.items) + len(value.items) <= MAX_VALUE:
                old.items.extend(value.items)
            else:
                self.values[name] = VariableValue(cut=True)
        elif old.view is not None and value.view is not None:
            self.values[name] = VariableValue(cut=True)
            if len(old.view.text) + len(value.view.text) <= MAX_VALUE:
                self.values[name] = VariableValue(joined([old.view, value.view]))
        else:
            self.values[name] = VariableValue(cut=old.cut or value.cut)

    def export(self, name: str) -> None:
        """Hand a variable on to programs."""
        self._environment = None
        self.exported.add(name)

    def environment(self) -> dict[str, Word]:
        """What a program that is started here gets."""
        if self._environment is None:
            names = sorted(self.exported)[:MAX_EXPORTED]
            views = ((name, self.values.get(name)) for name in names)
            found = {name: value.view.word() for name, value in views if value and value.view}
            self._environment = found
        return self._environment

    def expand(self, raw: RawWord, view: TextView) -> list[Word]:
        """The words that a raw word becomes: one, none, or many where a variable is split."""
        telling = [part for part in raw.parts if part.name or not part.known or part.view.text]
        if len(telling) == 1 and telling[0].name and telling[0].known:
            found = self._alone(telling[0])
            if found is not None:
                return found
        text, unknown, borrowed = self.text(raw, view)
        place = view.place(raw.start, raw.end)
        spelled = None if borrowed else view.raw(raw.start, raw.end)
        word = text.word(place, spelled)
        return [replace(word, unknown=unknown) if unknown else word]

    def text(
        self, raw: RawWord, view: TextView, most: int = MAX_VALUE
    ) -> tuple[TextView, str | None, bool]:
        """The text of a raw word, what in it is unknown, and whether a variable gave some of it."""
        views, unknown, borrowed, length = list[TextView](), None, False, 0
        for part in raw.parts:
            piece: TextView | None = part.view
            if part.name or not part.known:
                borrowed = True
                piece = self._value(part)
                if piece is None:
                    held = self.values.get(part.name or "")
                    unknown = TOO_LONG if held and held.cut else unknown or part.view.text
                    piece = part.view.hole(0, len(part.view.text))
            if piece is not None and length + len(piece.text) <= most:
                length += len(piece.text)
                views.append(piece)
            else:
                unknown = TOO_LONG
        text = joined(views) if views else view.slice(raw.start, raw.start)
        return text, unknown, borrowed

    def _alone(self, part: WordPart) -> list[Word] | None:
        """The words of a variable that is a word of its own; None: not known."""
        value = self.values.get(part.name or "")
        if part.operator.endswith("+") and part.default is not None:
            off = value is not None and value.empty and not value.branch
            return [] if off else self._if_set(part.default, part)
        if value is not None and value.items is not None and part.operator in ("", "[@]", "[*]"):
            return list(value.items) if part.operator or part.name == "@" else value.items[:1]
        view = self._value(part)
        if view is None:
            return None
        if part.quoted:
            return [view.word()]
        maybe = value is not None and value.branch
        found = (view.slice(*match.span()).word() for match in re.finditer(r"\S+", view.text))
        return [replace(word, maybe=True) if maybe else word for word in found]

    def _if_set(self, default: RawWord, part: WordPart) -> list[Word]:
        """${X:+--option "$X"}: words that are given where X is."""
        pieces = list[list[WordPart]]([[]])
        for each in default.parts:
            blank = not each.quoted and each.known and not each.name and each.view.text.isspace()
            if blank and not part.quoted:
                pieces.append([])
            else:
                pieces[-1].append(each)
        found = list[Word]()
        for piece in filter(None, pieces):
            text, unknown, _ = self.text(RawWord(piece, 0, 0), part.view)
            word = replace(text.word(), raw=None, maybe=True)
            found.append(replace(word, unknown=unknown) if unknown else word)
        return found

    def _value(self, part: WordPart) -> TextView | None:
        if part.name is None:
            return None
        value = self.values.get(part.name)
        operator = part.operator
        if operator.endswith("+"):
            return None  # depends on whether it is set when the script runs
        view_ = value.view if value is not None else None
        # ${X:-default}, where all that is known of X is that it comes from outside
        outside = view_ is not None and operator.endswith("-") and not view_.text.strip(HOLE)
        given = part.default is not None and part.default.end > part.default.start
        nothing = value is None or (value.view is None and value.items is None)
        if value is None or nothing or (outside and given):
            if operator.endswith(("-", "=")) and part.default is not None:
                view, unknown, _ = self.text(part.default, part.view)
                if part.default.start == part.default.end:  # ${X:-}: it comes from outside
                    view = part.view.hole(0, len(part.view.text))
                if unknown is None:
                    if operator.endswith("="):
                        self.values[part.name] = VariableValue(view)
                    return view
            return None
        if value.items is not None:
            texts = [item.view for item in value.items[:1]]
            return texts[0] if texts and not operator.startswith("[") else None
        return None if self.guarded and (value.off or value.empty) else value.view


def interpolated(
    view: TextView,
    values: Mapping[str, TextView] | None = None,
    outside: Mapping[str, str] | None = None,
) -> TextView:
    """The text with $X and ${X:-default} filled in from values and defaults; $$ is a dollar.

    outside: values that stand in another file.
    """

    def value(match: re.Match[str]) -> TextView | None:
        name = match["name"] or match["braced"]
        known = (values or {}).get(name)
        told = (outside or {}).get(name)
        if known is None and told is not None and (told or match["how"] != ":-"):
            return view.instead(told, *match.span())
        if known is None and match["how"] in (":-", "-") and match["rest"]:
            return interpolated(view.slice(*match.span("rest")), values, outside)
        return known

    return filled(view, _BRACED, value)


def filled(
    view: TextView, pattern: re.Pattern[str], value: Callable[[re.Match[str]], TextView | None]
) -> TextView:
    """The text with each match replaced by its value; where there is none, a hole is left.

    A match of $$ is a dollar.
    """
    parts, at, length = list[TextView](), 0, 0
    for match in pattern.finditer(view.text):
        dollar = match[0] == "$$"
        known = view.slice(match.start(), match.start() + 1) if dollar else value(match)
        parts.append(view.slice(at, match.start()))
        at = match.end()
        if known is not None and length + len(known.text) <= MAX_VALUE:
            length += len(known.text)
            parts.append(known)
        else:
            parts.append(view.hole(*match.span(), HOLE if known is None else CUT))
    return joined([*parts, view.slice(at, len(view.text))]) if parts else view
