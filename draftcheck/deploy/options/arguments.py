"""Words of a command line -> what is given, as the engine's own parser would split them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from draftcheck.deploy.deployment import Word
from draftcheck.deploy.options.given import GivenOption, GivenOptions, tail
from draftcheck.deploy.options.tables import OptionsAtVersion, VersionWindow

NEGATIVE = re.compile(r"-\d+(\.\d+)?$")
HELP = VersionWindow("option", "0", "", "", "", "")


def read(setting: GivenOptions, words: Sequence[Word], positional: str = "") -> None:
    """Add every option of the command; a word without a dash is the positional argument."""
    style = setting.view.table.style
    at = 0
    taken = not positional or setting.last(positional) is not None
    while at < len(words):
        word = words[at]
        if not _dashed(word.text) or word.text == "-":
            if word.unknown and word.unknown in word.text and (taken or at > 0):
                setting.may_hold_more = True
            elif not taken:
                taken = _positional(setting, word, positional)
            at += 1
            continue
        at += (_plain if style == "plain" else _argparse)(setting, words, at)


def _dashed(text: str) -> bool:
    """Whether a word looks like an option, not like a value."""
    return text.startswith("-") and not NEGATIVE.match(text)


def _positional(setting: GivenOptions, word: Word, means: str) -> bool:
    named = next((o for o in setting.view.table.options.values() if o.means == means), None)
    if named is not None:
        setting.add(GivenOption(named.names[0], word, word, option=named))
    return True


def _add(setting: GivenOptions, name: str, word: Word, values: Sequence[Word], takes: str) -> None:
    value = values[0] if values else None
    option = setting.view.meant(name)
    entry = GivenOption(name, word, value, option=option, takes=takes)
    if takes == "1" and value is None:
        setting.without_value.append(entry)
    setting.add(entry)


def _plain(setting: GivenOptions, words: Sequence[Word], at: int) -> int:
    """Every option is one word; as many words follow as it takes, whatever they look like."""
    word, view = words[at], setting.view
    name = word.text.replace("_", "-") if word.text.startswith("--") else word.text
    head, equals, _ = name.partition("=")
    if equals and view.ever(name) is None and (view.ever(head) or view.change(head)):
        value = tail(word, len(head) + 1)
        setting.unsplit.append(GivenOption(head, word, value, option=view.meant(head)))
        setting.add(setting.unsplit[-1])
        return 1
    span = view.now(name) or view.ever(name)
    if span is None:
        return 1 + _guess(setting, name, words, at)
    count = {"0": 0, "2": 2}.get(span.takes, 1)
    if count == 1 and _was_a_switch(view, name, words[at + 1 : at + 2]):
        _add(setting, name, word, [], "1")
        return 1
    _add(setting, name, word, words[at + 1 : at + 1 + count], span.takes)
    return 1 + count


def _was_a_switch(view: OptionsAtVersion, name: str, following: Sequence[Word]) -> bool:
    """-fa takes a word since b6325: an option behind it was not meant as its value."""
    once = any(span.takes == "0" for span in view.table.spans.get(name, ()))
    return once and all(view.ever(word.text) is not None for word in following)


def _guess(setting: GivenOptions, name: str, words: Sequence[Word], at: int) -> int:
    """An option that nobody knows: the next word is its value unless it looks like an option."""
    values = [word for word in words[at + 1 : at + 2] if not _dashed(word.text)]
    _add(setting, name, words[at], values, "?")
    return len(values)


def _argparse(setting: GivenOptions, words: Sequence[Word], at: int) -> int:
    """--option value, --option=value, unambiguous beginnings, and --option.key for objects."""
    word, view = words[at], setting.view
    typed, equals, _ = word.text.partition("=")
    rest = tail(word, len(typed) + 1)
    base, dot, key = typed.partition(".")
    name = _full(view, base if dot and view.now(typed) is None else typed)
    span = HELP if name in ("-h", "--help") else view.now(name) or view.ever(name)
    option = view.option(name)
    if dot and option is not None and option.object:
        inner = f"{view.table.head.objects[0]}.{key.replace('-', '_').rstrip('+')}"
        return _inner(setting, inner, words, at, rest if equals else None)
    if equals:
        _add(setting, name, word, [rest], "1")
        return 1
    if span is None:
        return 1 + _guess(setting, name, words, at)
    most = {"0": 0, "1": 1, "?": 1, "2": 2}.get(span.takes, len(words))
    end = at + 1
    while end < len(words) and end - at <= most and not _dashed(words[end].text):
        end += 1
    _add(setting, name, word, words[at + 1 : end], span.takes)
    return end - at


def _inner(
    setting: GivenOptions, name: str, words: Sequence[Word], at: int, glued: Word | None
) -> int:
    """--speculative-config.method eagle3"""
    word = words[at]
    option = setting.view.meant(name)
    if glued is not None:
        setting.add(GivenOption(name, word, glued, option=option))
        return 1
    value = words[at + 1] if at + 1 < len(words) else None
    setting.add(GivenOption(name, word, value, option=option))
    return 2


def _full(view: OptionsAtVersion, typed: str) -> str:
    """The option that is meant: dashes as the table has them, beginnings made whole."""
    name = typed
    if typed.startswith("--") and view.table.head.same_dashes:
        name = typed.replace("_", "-")
    if view.now(name) or view.option(name) or view.change(name) or not name.startswith("--"):
        return name
    longer = {other for other in view.names("option") if other.startswith(name)}
    return longer.pop() if len(longer) == 1 else name
