"""The options of one command or file against the engine's table at its version.

For each option in the order of the file: does this version have the name (if not, is it gone, too
new, or misspelt), and does it take the value. Then the table's [[check]] rows: options that need
each other, or exclude each other. Every finding is a row of rules/files.toml at a place, with the
changes that would mend it.

Where the version is not known, the newest that was read is looked at, and what is wrong there may
be right in the version that runs: such a finding is a note that says for which versions it holds
(_unless_certain). What is wrong in every version that has the option stays what it is.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from draftcheck.deploy.deployment import DocumentTree
from draftcheck.deploy.options.given import ENV, KEY, OPTION, GivenOption, GivenOptions, parts
from draftcheck.deploy.options.tables import (
    OptionChange,
    OptionRule,
    OptionsAtVersion,
    ValueChange,
    VersionWindow,
    matches,
    near,
)
from draftcheck.deploy.text import Word
from draftcheck.rulebook import file_rules
from draftcheck.rulebook.files import Names
from draftcheck.values.findings import FilePlace, Finding, Fix
from draftcheck.values.words import Outcome, Severity

LONGEST = 300
"""Characters of what a finding quotes from a file."""


def found(
    rule: str,
    place: FilePlace,
    saw: str,
    *,
    why: str = "",
    fix: str = "",
    source: str = "",
    severity: str = "",
    changes: tuple[Fix, ...] = (),
) -> Finding:
    """A rule seen at a place; what is not said comes from the rule."""
    row = file_rules.load(file_rules.FILES)[rule]
    shown = saw if len(saw) <= LONGEST else saw[: LONGEST - 1] + "…"
    finding = Finding.of(row, Outcome.FAIL, shown, source=source, place=place, changes=changes)
    return replace(
        finding,
        why=why or row.why,
        fix=fix or row.fix,
        severity=Severity(severity) if severity else row.severity,
    )


TYPO = 0.9
"""How alike a name must be to one of the engine's to be its misspelling in any version."""


def _unless_certain(
    view: OptionsAtVersion, finding: Finding, since: str, until: str = "", exists: str = ""
) -> Finding:
    """The same, as a note where the version is not known and the finding is not about all of them.

    since, until: the versions that it holds for; exists: the first that has what it is about.
    """
    order = view.table.order
    always = not since or (bool(exists) and order(since) <= order(exists))
    if view.told or (always and not until):
        return finding
    engine = view.table.head.engine
    versions = f"{engine} before {until}" if until and always else f"{engine} from {since} on"
    if until and not always:
        versions = f"{engine} from {since} until {until}"
    return _as_note(view, finding, f"holds for {versions}")


def _as_note(view: OptionsAtVersion, finding: Finding, when: str) -> Finding:
    """Another version may want it as it is."""
    saw = finding.saw.removesuffix(f" in {view.title}")
    return _noted(replace(finding, saw=saw), f"{when}; which version runs here is not said")


def _noted(finding: Finding, why: str) -> Finding:
    """Nothing stops for it, and nothing is mended."""
    return replace(
        finding,
        severity=Severity.NOTE,
        saw=f"{finding.saw}: {why}",
        changes=tuple(replace(change, safe=False) for change in finding.changes),
    )


RULES = {
    "gone": "FIL001", "too-new": "FIL002", "never": "FIL003", "ignored": "FIL004",
    "deprecated": "FIL005", "old-layout": "FIL014", "means-other": "FIL015",
}  # fmt: skip
ONCE = ("target", "target_repo", "draft", "draft_repo", "draft_tokens", "context", "sequences",
        "tensor_parallel", "speculative_config")  # fmt: skip
MOST_SEARCHED = 50
"""Unknown names of one command for which the nearest known one is looked for."""
ABOUT = ("draft", "draft_repo", "method", "draft_tokens", "speculative_config", "preset")


SPECULATION = re.compile(r"spec|draft|assistant|ngram|lookup|eagle|medusa|mtp|nextn", re.IGNORECASE)


def check(setting: GivenOptions, *, speculates: bool) -> list[Finding]:
    """Everything that is wrong with what is given, in the order of the file."""
    seen: list[Finding] = []
    view = setting.view
    read = view.table.order(view.version) >= view.table.order(view.table.head.oldest)
    inner = _knows_keys(setting)
    given = {name for e in setting.entries if not e.unset for name in (e.means, e.name)}
    unsplit, without = {id(e) for e in setting.unsplit}, {id(e) for e in setting.without_value}
    for at, entry in enumerate(setting.entries):
        about = bool(entry.means in ABOUT or SPECULATION.search(entry.name))
        if not speculates and not about:
            continue
        beside = setting.entries[max(at - 1, 0) : at + 2]
        found_here = [_unsplit(view, entry, beside)] if id(entry) in unsplit else []
        if read and id(entry) not in unsplit:
            found_here += _name(setting, entry, inner, given)
        if id(entry) in without and not setting.may_hold_more:
            missing = found(
                "FIL006", entry.word.place, f"{entry.word.text} without a value",
                why="The engine expects a value behind it, and stops.",
                fix="Give it a value, or leave it out.",
            )  # fmt: skip
            # -fa was a switch once: where it takes a value since is where this is wrong.
            switch = any(span.takes == "0" for span in view.table.spans.get(entry.name, ()))
            span = view.now(entry.name) if switch else None
            found_here.append(_unless_certain(view, missing, span.since if span else ""))
        found_here += _value(view, entry)
        if not speculates:  # a name that resembles none of the engine's is a fork's own
            found_here = [f for f in found_here if f.rule != "FIL003" or f.changes]
        seen.extend(found_here)
    seen.extend(_twice(setting) if speculates else ())
    for row in view.table.file.check:
        seen.extend(_together(setting, row))
    seen = [held(setting, finding) for finding in seen]
    return sorted(seen, key=lambda finding: (finding.place, finding.rule))


def held(setting: GivenOptions, finding: Finding) -> Finding:
    """The same; a note where the engine, or what its version does, is not certain.

    The one gate that every error about a file passes: the engine must be told by more than its
    options, and the version by the file; _unless_certain lets through what is so in all versions.
    """
    view = setting.view
    if finding.severity is Severity.NOTE:
        return finding
    if setting.engine_guessed:
        return _noted(finding, f"if {view.table.head.engine} gets it: its options alone tell that")
    if view.told and not view.sure and finding.severity is Severity.ERROR:
        return _noted(finding, "a newer version runs here, which was not read")
    return finding


def _unsplit(view: OptionsAtVersion, entry: GivenOption, beside: list[GivenOption]) -> Finding:
    change = view.change(entry.name)
    name = change.becomes if change and change.becomes else entry.name
    return found(
        "FIL013", entry.word.place, entry.word.text,
        fix=f"Write {name} {entry.text}.",
        changes=apart(entry, name, beside),
        source=f"{view.table.head.engine}: its parser looks up the whole word",
    )  # fmt: skip


# ---- names ----


def _name(
    setting: GivenOptions, entry: GivenOption, inner: bool, given: set[str]
) -> Iterator[Finding]:
    """inner: whether keys of objects are to be looked at; given: meanings and names of all."""
    view = setting.view
    change = view.change(entry.name)
    if change is not None and entry.unset and change.effect == "ignored":
        return
    if change is not None and all(given & set(other.split("|")) for other in change.given):
        becomes = _as_key(entry, change.becomes)
        old = entry.word.text.partition("=")[0]
        finding = found(
            RULES[change.effect], entry.word.place, f"{entry.word.text} in {view.title}",
            why=change.why, fix=change.fix or (f"Use {becomes}." if becomes else ""),
            source=change.source, severity=change.severity,
            changes=swap(entry.word, old, becomes, safe=change.safe) if becomes else (),
        )  # fmt: skip
        exists, _ = view.window(entry.name)
        since, until = _same_effect(view, entry.name, change)
        yield _unless_certain(view, finding, since, until, exists)
        return
    if view.now(entry.name) or entry.name in ("-h", "--help"):
        return
    span = view.ever(entry.name)
    if not inner and entry.name.rpartition(".")[0] in view.table.head.objects:
        return
    if entry.kind == ENV:
        yield from _variable(view, entry, span)
        return
    if span is None:
        yield from _unknown(setting, entry)
        return
    order, fix = view.table.order, ""
    if span.until and order(view.version) >= order(span.until):
        rule, fix = "FIL001", "Leave it out, or use what has taken its place."
        why = f"It was there until {span.until}: the engine no longer knows it, and stops."
    elif span.since and order(view.version) < order(span.since):
        rule = "FIL002"
        fix = f"Use {view.table.head.engine} {span.since} or newer, or leave it out."
        why = f"It came with {span.since}: the engine does not know it, and stops."
    elif view.letter and span.programs and view.letter not in span.programs:
        rule = "FIL003"
        why = "Another program of this engine has it; this one does not know it, and stops."
    else:
        return
    saw = f"{entry.word.text} in {view.title}"
    finding = found(rule, entry.word.place, saw, why=why, fix=fix, source=view.source)
    yield _unless_certain(view, finding, span.until) if rule == "FIL001" else finding


def _same_effect(view: OptionsAtVersion, name: str, change: OptionChange) -> tuple[str, str]:
    """The versions for which something like this is said of a name, other fixes included."""
    rows = [
        row for row in view.table.file.change if name in row.names and row.effect == change.effect
    ]
    since, until = change.since, change.until
    for _ in rows:
        since = next((row.since for row in rows if row.until and row.until == since), since)
        until = next((row.until for row in rows if row.since and row.since == until), until)
    return since, until


def _knows_keys(setting: GivenOptions) -> bool:
    """Not those of an object that this version does not take (said already), or of a plug-in."""
    named = setting.last("method")
    if named is not None and named.text in setting.view.table.head.plugins:
        return False
    owner = next((e for e in setting.entries if e.option and e.option.object), None)
    return owner is None or not owner.name.startswith("-") or bool(setting.view.now(owner.name))


def _as_key(entry: GivenOption, name: str) -> str:
    """An option as a key of a file is spelt: without dashes, with underscores if the others are."""
    if entry.kind != KEY or not name.startswith("--"):
        return name
    if "." in name:  # a key of an object: no file has it by this name
        return ""
    bare = name.removeprefix("--")
    return bare if "-" in entry.word.text else bare.replace("-", "_")


def _variable(
    view: OptionsAtVersion, entry: GivenOption, span: VersionWindow | None
) -> Iterator[Finding]:
    """A variable that nothing reads is no error to the engine."""
    meant = near(entry.name, view.names(ENV)) if span is None else None
    if span is None and meant is None:
        return
    finding = found(
        "FIL004", entry.word.place, f"{entry.name} in {view.title}",
        why="This version reads no such variable, and does not say so.",
        fix=f"Did you mean {meant}?" if meant else "Give the option on the command line.",
        source=view.source,
    )  # fmt: skip
    yield _unless_certain(view, finding, span.until) if span and span.until else finding


def _unknown(setting: GivenOptions, entry: GivenOption) -> Iterator[Finding]:
    view = setting.view
    part, dot, last = entry.name.rpartition(".") if entry.kind == KEY else ("", "", entry.name)
    listed = view.names("option")
    if entry.kind == KEY and (part or not entry.name.startswith("-")):
        before = f"{part}." if part else ""
        keys = (n for n in view.names(KEY) if n.startswith(before))
        listed = [n for n in keys if "." not in n[len(before) :]]
    by_last = {other[len(part) + 1 if dot else 0 :]: other for other in listed}
    setting.spelling_searches += 1
    shown = near(last, by_last) if setting.spelling_searches <= MOST_SEARCHED else None
    meant = by_last[shown] if shown else None
    speculative = re.search(r"spec|draft|assistant", entry.name) is not None
    if not listed or (meant is None and not view.table.head.complete and not speculative):
        return
    if setting.python_arguments and not part and not (speculative and meant):
        return
    silent = view.table.head.refuses is None
    severity = "warning" if silent or not view.sure else ""
    typo = shown is not None and near(last, [shown], TYPO) is not None
    if shown and entry.kind == KEY:
        last, shown = entry.word.text, _as_key(entry, shown)
    changes = swap(entry.word, last, shown, safe=False) if shown else ()
    several = entry.kind != KEY and bool(view.beginning_with(entry.name))
    why = "The engine passes over keys that it does not know, without a word." if silent else ""
    finding = found(
        "FIL003", entry.word.place, f"{entry.word.text} in {view.title}",
        why="Several options begin so, and the engine asks which one is meant." if several else why,
        fix=f"Did you mean {shown}?" if shown else "", severity=severity, changes=changes,
        source=view.source,
    )  # fmt: skip
    if not view.told and not typo:  # it may well be an option of a newer version, or of a fork
        held = "where several options begin so, as in" if several else "all versions up to"
        finding = _as_note(view, finding, f"holds for {held} {view.version}")
    elif not shown and not several and view.sure and entry.kind != KEY:
        finding = _noted(finding, "like none of the engine's: somebody's own build may have it")
    yield finding


# ---- what goes together ----


def _twice(setting: GivenOptions) -> Iterator[Finding]:
    for means in ONCE:
        # A key of a file may stand over one that is merged in, or give way to the command line.
        entries = [e for e in setting.all(means) if e.kind == OPTION and e.value is not None]
        by_name: dict[str, GivenOption] = {}
        for entry in entries:
            before = by_name.get(entry.name)
            if before is not None and before.text != entry.text and _both_hold(before, entry):
                yield found(
                    "FIL012", entry.word.place,
                    f"{before.text} on line {before.word.place.line}, {entry.text} here",
                )  # fmt: skip
            by_name[entry.name] = entry


def _both_hold(first: GivenOption, second: GivenOption) -> bool:
    """Whether both are sure to be given: what stands further up comes from a variable, which may
    hold it under a condition, and what is not known may be nothing."""
    values = (first.value, second.value)
    known = all(value is not None and not value.unknown for value in values)
    known = known and not (first.word.maybe or second.word.maybe)
    return known and first.word.place <= second.word.place


def _together(setting: GivenOptions, row: OptionRule) -> Iterator[Finding]:
    view = setting.view
    if not view.holds(row) or not all(setting.last(name) for name in row.given):
        return
    unsure = setting.may_hold_more or setting.hidden_arguments
    if row.missing and (unsure or setting.has(row.missing)):
        return
    if setting.speculates_always and "method" in row.missing:
        return
    if row.missing and setting.options_file and not set(row.given) & set(view.table.head.objects):
        return
    if not all(_among(setting, name, values, row.whole) for name, values in row.where.items()):
        return
    if any(_among(setting, name, values, False) for name, values in row.unless.items()):
        return
    # Some kinds of draft are told by their name alone, by engines too.
    draft = setting.last("draft|draft_repo")
    if draft is not None and row.unless_draft and matches(row.unless_draft, draft.text):
        return
    hidden = draft is not None and draft.value is not None and draft.value.unknown
    if hidden and row.draft_told:
        return
    if draft is not None and row.if_draft and not matches(row.if_draft, draft.text):
        return
    entry = setting.last(row.at)
    change = view.change(entry.name) if entry is not None else None
    if entry is None or (change is not None and change.effect == "ignored"):  # said already
        return
    place = entry.at if entry.option is not None and entry.option.object else entry.word.place
    changes = behind(entry, row.insert, safe=row.safe) if row.insert else ()
    if row.insert_key and not row.insert:
        changes = insert_key(entry.value, entry.tree, row.insert_key, safe=row.safe)
    finding = found(
        row.rule, place, _filled(setting, entry, row.saw), why=row.why, fix=row.fix,
        source=row.source, severity=row.severity, changes=changes,
    )  # fmt: skip
    yield _unless_certain(view, finding, row.since, row.until, _first_with(setting, row.given))


def _first_with(setting: GivenOptions, given: Names) -> str:
    """The first version that has all of these options, and the values that they are given."""
    view, found_since = setting.view, ""
    for entry in filter(None, (setting.last(name) for name in given)):
        names = entry.option.names if entry.option else ()
        keys = [entry.name, *(f"={name}={part}" for name in names for part in parts(entry))]
        for since in (view.window(key)[0] for key in keys):
            if since and (
                not found_since or view.table.order(since) > view.table.order(found_since)
            ):
                found_since = since
    return found_since


def _among(setting: GivenOptions, name: str, values: Names, whole: bool) -> bool:
    """Whether an option has one of the values of a check; "=name": the value of that option."""
    entry = setting.last(name)
    if entry is None or (entry.value is not None and entry.value.unknown):
        return False
    others = [setting.last(value[1:]) for value in values if value.startswith("=")]
    path = posixpath.normpath(entry.text)
    if any(other is not None and posixpath.normpath(other.text) == path for other in others):
        return True
    upper = setting.view.table.head.upper
    hits = [_fits(part.upper() if upper else part, values) for part in parts(entry)]
    return bool(hits) and (all(hits) if whole else any(hits))


def _filled(setting: GivenOptions, entry: GivenOption, saw: str) -> str:
    words = {"at": f"{entry.word.text} {entry.text}".strip()}
    for name in ("method", "draft"):
        other = setting.last(name)
        words[name] = other.text if other else ""
    return re.sub(r"\{(\w+)\}", lambda match: words.get(match[1], match[0]), saw)


NUMBERS = {"int": re.compile(r"[+-]?\d+"), "float": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")}


# ---- values ----


def _fits(text: str, values: Iterable[str]) -> bool:
    """Whether a value is one that a check names: ">3" (a number above), a glob, or plain text."""
    for value in values:
        if value.startswith(">"):
            number = NUMBERS["float"].match(text)
            if number is not None and float(number[0]) > float(value[1:]):
                return True
        elif value == text or fnmatch.fnmatchcase(text, value.replace("[", "[[]")):
            return True
    return False


def _value(view: OptionsAtVersion, entry: GivenOption) -> Iterator[Finding]:
    """What is wrong with the value of one option."""
    option, value = entry.option, entry.value
    if option is None or value is None or value.unknown or entry.unset:
        return
    kind, above, _ = option.number.partition(">")
    number = NUMBERS[kind].match(entry.text.strip()) if kind else None
    if kind and (number is None or (above and float(number[0]) <= 0)):
        wanted = {"int": "a whole number", "float": "a number"}[kind]
        yield found(
            "FIL006", entry.at, f"{entry.word.text} {entry.text}",
            why="The engine stops when it reads the value.",
            fix=f"Give {wanted}{' above 0' if above else ''}.",
        )  # fmt: skip
    changes = [c for c in view.table.file.value if c.option in option.names and view.holds(c)]
    for part in parts(entry):
        text = part.upper() if view.table.head.upper else part
        for row in changes:
            if row.value == text or (row.pattern and re.fullmatch(row.pattern, text)):
                yield _other_value(view, entry, part, row)
                break
        else:
            yield from _choice(view, entry, part)


def _other_value(
    view: OptionsAtVersion, entry: GivenOption, part: str, row: ValueChange
) -> Finding:
    changes = swap(entry.value, part, row.becomes, safe=row.safe) if row.becomes else ()
    why = f"{view.title} does not take {part}."
    if row.deprecated:
        why = f"The engine takes it as {row.becomes} and logs that it is deprecated."
    finding = found(
        "FIL005" if row.deprecated else "FIL006", entry.at, f"{entry.word.text} {entry.text}",
        why=why, fix=row.fix or f"Write {row.becomes}.", source=row.source, changes=changes,
    )  # fmt: skip
    return finding if row.deprecated else _unless_certain(view, finding, row.since, row.until)


def _choice(view: OptionsAtVersion, entry: GivenOption, part: str) -> Iterator[Finding]:
    option = entry.option
    choices = view.choices(entry.name)
    if option is None or not choices or (option.also and matches(option.also, part)):
        return
    if option.checked_since and not view.table.covers(view.version, option.checked_since, ""):
        return
    text, known = part.strip(), choices
    if not option.exact:
        text, known = text.lower(), [choice.lower() for choice in choices]
    if text in known:
        return
    when = _when(view, option.names, part)
    meant = near(text, known)
    shown = choices[known.index(meant)] if meant else None
    changes = swap(entry.value, part, shown, safe=False) if shown else ()
    listed = ", ".join(choices[:14]) + (" …" if len(choices) > 14 else "")
    finding = found(
        "FIL006", entry.at, f"{entry.word.text} {entry.text} in {view.title}",
        why=when or f"The engine stops: it knows {listed}.",
        fix=f"Did you mean {shown}?" if shown else f"Give one of {listed}.",
        changes=changes, source=view.source,
    )  # fmt: skip
    if not view.told and (when or near(text, known, TYPO) is None):
        told = when.removesuffix(".") or f"holds for all versions up to {view.version}"
        finding = _as_note(view, finding, told)
    yield finding


def _when(view: OptionsAtVersion, names: tuple[str, ...], part: str) -> str:
    """Which versions take a value that this one does not."""
    for name in names:
        span = view.ever(f"={name}={part}")
        if span is not None and span.until and view.now(f"={name}={part}") is None:
            return f"{part} is a value from {span.since} until {span.until}."
        if span is not None and span.since:
            return f"{part} is a value from {span.since} on."
    return ""


# ---- changes that mend a finding: only where the file spells the word as it is ----


def swap(word: Word | None, old: str, new: str, *, safe: bool) -> tuple[Fix, ...]:
    """One part of a word becomes another; quotes around it stay."""
    if word is None or word.raw is None or word.raw.count(old) != 1:
        return ()
    if word.place.end_column is None or any(letter in new for letter in "\"'\\$` "):
        return ()
    return (Fix(word.place, word.raw.replace(old, new), safe),)


def apart(entry: GivenOption, name: str, others: Iterable[GivenOption]) -> tuple[Fix, ...]:
    """--option=value becomes --option value, where a space divides it from another word."""
    word = entry.word
    if word.raw is None or word.raw != word.text or word.place.end_column is None:
        return ()
    words = (each for other in others for each in (other.word, other.value) if each is not None)
    if not any(_beside(word, each) or _beside(each, word) for each in words):
        return ()
    return (Fix(word.place, f"{name} {entry.text}", True),)


def _beside(one: Word, other: Word) -> bool:
    """Whether one letter, a space, stands between two words; in a list it is more than that."""
    place = other.place
    return one.place.end_line == place.line and one.place.end_column == place.column - 1


def behind(entry: GivenOption, text: str, *, safe: bool) -> tuple[Fix, ...]:
    """Words behind an option and its value, where a space divides words."""
    word, value = entry.word, entry.value
    if value is None or word.raw != word.text or value.raw is None:
        return ()
    end = value.place
    if end.end_line is None or end.end_column is None:
        return ()
    # In a list of a YAML or JSON file a space divides nothing: there, something else stands
    # between two words, or a line ends.
    if not _beside(word, value):
        return ()
    at = FilePlace(end.file, end.end_line, end.end_column, end.end_line, end.end_column)
    return (Fix(at, text, safe),)


def insert_key(
    word: Word | None, tree: DocumentTree | None, text: str, *, safe: bool
) -> tuple[Fix, ...]:
    """A key at the beginning of a JSON object that a word holds as it is."""
    if word is None or tree is None or not word.exact or word.raw is None:
        return ()
    if word.text not in word.raw or not word.text.lstrip().startswith("{"):
        return ()
    start = tree.place
    at = FilePlace(start.file, start.line, start.column + 1, start.line, start.column + 1)
    comma = ", " if tree.entries else ""
    if ": " not in word.text:  # as its neighbours; in plain YAML a colon and a space end a key
        text, comma = text.replace(": ", ":"), comma.strip()
    return (Fix(at, text + comma, safe),)
