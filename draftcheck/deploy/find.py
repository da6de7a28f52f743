"""Commands and documents of a file -> the engines that they start, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from draftcheck.deploy import leftovers
from draftcheck.deploy.deployment import Command, Contents, Deployment, Document, FileTrouble
from draftcheck.deploy.discover import Neighbours
from draftcheck.deploy.file_versions import KnownVersion, Versions
from draftcheck.deploy.kinds import DOCUMENTS, LANGUAGES, is_test
from draftcheck.deploy.options import checks, given, programs
from draftcheck.deploy.options.given import ENV, KEY, GivenOption, GivenOptions, parts
from draftcheck.deploy.options.tables import OptionTable, load, view
from draftcheck.deploy.text import Word
from draftcheck.rulebook import book
from draftcheck.values.findings import FilePlace, Finding

NUMBERS = {
    **dict.fromkeys(("context", "sequences"), 2**40),
    **dict.fromkeys(("tensor_parallel", "draft_tensor_parallel", "pipeline_parallel"), 2**16),
    **dict.fromkeys(("data_parallel", "attention_groups"), 2**16),
    **dict.fromkeys(("draft_tokens", "dflash_block"), 2**20),
}
"""What is counted, and the largest that is reckoned with."""
HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")
SCALE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
TOGETHER = ("FIL007", "FIL009", "FIL010", "FIL011")
MOST_NAMED = 3
PROGRAMS = (".py", ".ipynb", *LANGUAGES)
ASKS = ("draft", "draft_repo", "method", "speculative_config", "preset", "lookup", "flag",
        "early_exit")  # fmt: skip


def find(
    contents: Contents, beside: Neighbours, versions: Versions | None = None
) -> list[Deployment]:
    """Every engine that the file starts, with or without speculation."""
    versions = versions or Versions(contents, beside)
    made = []
    understood = set[int]()
    for command in contents.commands:
        start = programs.start(command)
        if start is not None:
            made.append(_of_command(command, *start, versions, beside, contents))
            if made[-1].speculates or any(programs.is_sign(word.text) for word in command.words):
                understood |= leftovers.lines_of(command)
            if made[-1].speculates:
                understood |= leftovers.lines_of_words(command.env.values())
    # Options that a command of the same script names are judged with it; alone they name no target.
    named = {name for deployment in made for name in deployment.configs}
    parts_of_commands = {
        id(document) for name in named for document in contents.written.get(name, ())
    }
    for document in contents.documents:
        row = programs.document(document)
        for part in given.sections(document, row) if row is not None else ():
            one = _of_document(part, row, versions) if row is not None else None
            if one is not None and one.target is None and id(document) in parts_of_commands:
                one = replace(one, speculates=False, unknown=())
            if one is not None:
                made.append(one)
                understood |= leftovers.lines_of(document)
    if any(deployment.speculates for deployment in made):
        understood |= leftovers.lines_of_words(contents.replaced)
    owners = {each.place: at for at, each in enumerate(made)} if contents.stray else {}
    for after, command in contents.stray:
        owner = owners.get(after)
        if owner is None:
            contents.loose.append(command)
            continue
        understood |= leftovers.lines_of(command)
        options = " ".join(word.text for word in command.words if programs.is_sign(word.text))
        saw = f"{options}: the command in line {after.line} ends before it"
        cut = checks.found("FIL016", command.place, saw, source="the shell's grammar")
        if all(each.rule != cut.rule for each in made[owner].findings):
            made[owner] = replace(made[owner], findings=(*made[owner].findings, cut))
    name = contents.source.name.lower() if contents.source is not None else ""
    tests = is_test(name)
    for command in contents.loose if not tests else ():
        signs = [word for word in command.words if programs.is_sign(word.text)]
        start = programs.start(command)
        if start is not None and not leftovers.lines_of_words(signs) <= understood:
            made.append(_of_command(command, *start, versions, beside, contents))
            understood |= leftovers.lines_of(command)
    code = name.endswith(LANGUAGES)  # its tests are mentioned
    if contents.source is not None and (code or not tests) and not name.endswith(DOCUMENTS):
        seen, contents.mentions = leftovers.find(contents.source, understood | contents.spoken)
        made += [_of_seen(each, versions) for each in seen]
    elif contents.source is not None and not name.endswith(DOCUMENTS):  # a test, or called like one
        contents.mentions = programs.signed(contents.source.text.encode(errors="replace"))
    return _different(made)


def _different(made: list[Deployment]) -> list[Deployment]:
    """Each once: ways through a script may lead to the same command, or to it without a draft."""
    speculating = {deployment.place for deployment in made if deployment.speculates}
    found: dict[tuple[object, ...], Deployment] = {}
    for each in made:
        models = (word.text if word is not None else "" for word in (each.target, each.draft))
        if each.speculates or each.place not in speculating:
            key = (each.place, each.engine, each.method, each.speculates, *models)
            found.setdefault(key, each)
    return list(found.values())


def _of_command(
    command: Command,
    row: programs.StartRow,
    words: Sequence[Word],
    versions: Versions,
    beside: Neighbours,
    contents: Contents,
) -> Deployment:
    table = load(row.table)
    told = versions.tell(table, command)
    setting = _setting(table, told, row.letter)
    setting.python_arguments, setting.speculates_always = row.open, row.always
    setting.may_hold_more, setting.engine_guessed = row.part, row.guessed
    # Whoever runs an image adds options.
    base = command.place.file.rpartition("/")[2].lower()
    setting.entry_point = isinstance(row, programs.ImageRow) or "dockerfile" in base
    prefix = table.head.env
    for name, word in command.env.items() if prefix else ():
        if name.startswith(prefix):
            # The variable's name stands before its value; only its line is sure.
            named = Word(name, word.place, word.view.vague(name, 0, 0))
            setting.add(GivenOption(name, named, word, ENV, option=setting.view.option(name)))
    given.read_words(setting, words, row.positional)
    setting.entries = [entry for entry in setting.entries if entry.name not in row.own]
    if row.part:  # whose the other words are is not sure
        known = setting.entries
        setting.entries = [e for e in known if e.option or checks.SPECULATION.search(e.name)]
    _config_files(setting, beside, contents.written)
    given.objects(setting)
    made = _deployment(setting, told, command.place, table.file.programs.get(row.letter, ""))
    signs = [word.text.partition("=")[0] for word in words if programs.is_sign(word.text)]
    if row.guessed and signs and not setting.has(ASKS):  # what switches it on stands elsewhere
        shown = ", ".join(signs[:MOST_NAMED])
        made = replace(made, speculates=True, seen=shown, unknown=(), findings=())
    program = [word.text for word in command.words[: len(command.words) - len(words)]]
    fork, told_by = versions.fork(table, command, program)
    return made.as_fork(fork, told_by) if fork else made


def _of_seen(seen: leftovers.SeenOptions, versions: Versions) -> Deployment:
    """Only its options tell the engine; what they are given is worked out elsewhere."""
    table = load(seen.table)
    told = versions.tell(table, None)
    made = Deployment(
        place=seen.place,
        engine=table.head.engine,
        version=told.version,
        version_from=told.how,
        version_note=told.note,
        speculates=True,
        seen=", ".join(seen.names[:MOST_NAMED]),
    )
    fork, told_by = versions.fork(table, Command((), seen.place), ())
    return made.as_fork(fork, told_by) if fork else made


def _setting(table: OptionTable, told: KnownVersion, letter: str) -> GivenOptions:
    return GivenOptions(view(table, told.version, letter))


def _config_files(
    setting: GivenOptions, beside: Neighbours, written: Mapping[str, Sequence[Document]]
) -> None:
    """Keys of a file that the command names; it is checked on its own.

    It stands beside the command, or the script that holds the command has written it.
    """
    # Imported here: most commands name no such file.
    from draftcheck.deploy.kinds import choose

    for entry in list(setting.all("config_file")):
        name = entry.text.rpartition("/")[2]
        title, documents = name, written.get(name, ())
        data = beside.read(name) if name and name in beside.names and not documents else None
        if data is not None:
            title = beside.path(name)
            contents = choose.read(data, title)
            documents = contents.documents if contents else ()
        for document in documents:
            row = programs.config_of(setting.view.table.name, document)
            if row is not None:
                setting.configs[title] = entry.word
                given.read_keys(setting, document, row)


def _of_document(
    document: Document, row: programs.KeysReading, versions: Versions
) -> Deployment | None:
    table = load(row.table)
    told = versions.tell(table, None)
    setting = _setting(table, told, row.letter)
    setting.python_arguments = document.kind == "python-call" or row.arguments
    setting.options_file = row.partial
    setting.engine_guessed = document.kind == "options-inside"
    given.read_keys(setting, document, row)
    if document.kind == "options-inside":  # names that the engine does not have are its owner's
        entries = [e for e in setting.entries if e.option or "." in e.name]
        setting.entries = [
            e for e in entries
            if "." in e.name or setting.view.now(e.name) or (e.option and e.option.object)
        ]  # fmt: skip
        if not _is_the_engines(setting):
            return None
    if document.kind == "options" and _mostly_unknown(setting):
        return None
    given.objects(setting)
    if document.kind == "python-call" and not setting.has(ASKS):
        return None  # generate() is the name of many functions
    made = _deployment(setting, told, document.place, row.method)
    if made.target is None:  # a command, or whoever calls, names it
        unknown = tuple(each for each in made.unknown if each.place != made.place)
        made = replace(made, part=True, unknown=unknown)
    if document.kind == "options-inside" and made.speculates and made.target is None:
        names = (entry.name for entry in setting.entries if entry.means in ASKS)
        asked = list(dict.fromkeys(name.removesuffix(".__call__") for name in names))
        made = replace(made, seen=", ".join(asked[:MOST_NAMED]), unknown=())
    return made


def _is_the_engines(setting: GivenOptions) -> bool:
    """Whether a mapping is the engine's own, not one of another program under the same name.

    One that only names a method of the engine is handed on by that program, under its own keys.
    """
    inside = [e for e in setting.entries if "." in e.name]
    objects = [e for e in setting.entries if e.option is not None and e.option.object]
    if not inside:  # the text of a JSON object, or what is not known
        return all(e.value is None or e.value.unknown or "{" in e.text for e in objects)
    if not any(setting.view.now(e.name) for e in inside):
        setting.entries = [e for e in setting.entries if e not in inside]
        setting.may_hold_more = True
        return any(e.text in setting.view.table.head.ids for e in inside)
    return True


def _mostly_unknown(setting: GivenOptions) -> bool:
    """Whether most keys of a file are none of the engine's: it is another program's."""
    keys = [e.name for e in setting.entries if "." not in e.name]
    return 2 * sum(setting.view.ever(name) is not None for name in keys) < len(keys)


def _deployment(
    setting: GivenOptions, told: KnownVersion, place: FilePlace, fallback: str
) -> Deployment:
    target, draft = given.side(setting, "target"), given.side(setting, "draft")
    # A key stands over the same key of what all sections share; words of a command line may come
    # from two branches.
    named = next((e for e in reversed(setting.entries) if e.means == "method"), None)
    over = named if named is not None and named.kind == KEY else None
    off = over is not None and over.option is not None and over.text in over.option.off
    speculates = (draft is not None and not off) or any(
        entry.option and entry.text not in entry.option.off and entry.on and not entry.unset
        for entry in setting.entries
        if entry.means in ASKS
        and (entry.means != "draft" or (entry.option and entry.text in entry.option.not_a_model))
        and (entry.means != "method" or over in (None, entry))
    )
    method, trouble = _method(setting, draft, fallback)
    unknown = [*setting.troubles, *trouble]
    for what, word in (("target", target), ("draft", draft)):
        if word is not None and word.unknown:
            unknown.append(
                FileTrouble(word.place, f"the {what} is {word.text}, which is not known")
            )
    part = _is_part(setting, place, target)
    if speculates and target is None and not part:
        unknown.append(FileTrouble(place, "no target is named here"))
    circumstances = _circumstances(setting, unknown)
    source = f"{setting.view.table.head.engine}: json.loads at start-up"
    found = [
        checks.found("FIL008", why.place, f"{entry.word.text}: {why.text}", source=source)
        for entry, why in setting.broken_json
    ]
    found = [checks.held(setting, each) for each in found]
    found += checks.check(setting, speculates=speculates)
    findings = tuple(_of_this_file(setting, place.file, found))
    if setting.broken_json or any(finding.rule == "FIL010" for finding in findings):
        # Nothing to judge without a draft: what is wrong is said already.
        speculates = speculates and draft is not None
    return Deployment(
        place=place,
        engine=setting.view.table.head.engine,
        version=told.version,
        version_from=told.how,
        version_note=told.note,
        target=target,
        draft=draft,
        method=method,
        speculates=speculates,
        configs=tuple(setting.configs),
        circumstances=circumstances,
        findings=findings,
        unknown=tuple(unknown) if speculates else (),
        part=part,
    )


def _is_part(setting: GivenOptions, place: FilePlace, target: Word | None) -> bool:
    """Whether something else completes it: another file, or whoever runs the program."""
    if target is None:
        unsure = setting.may_hold_more or setting.hidden_arguments
        return unsure or setting.engine_guessed or setting.entry_point
    models = map(setting.last, ("target|target_repo", "draft|draft_repo"))
    given = (entry.value for entry in models if entry is not None)
    return place.file.lower().endswith(PROGRAMS) and any(word and word.unknown for word in given)


def _of_this_file(setting: GivenOptions, file: str, findings: list[Finding]) -> Iterator[Finding]:
    """A file of options is checked on its own, but for what only the whole command shows."""
    for finding in findings:
        if finding.place.file == file:
            yield finding
        elif finding.rule in TOGETHER and finding.place.file in setting.configs:
            named = setting.configs[finding.place.file].place
            saw = f"{finding.saw} ({finding.place.file}:{finding.place.line})"
            yield replace(finding, place=named, saw=saw, changes=())


def _method(
    setting: GivenOptions, draft: Word | None, fallback: str
) -> tuple[str | None, list[FileTrouble]]:
    """The method that is asked for, as the rulebook names it; None: the engine's own choice."""
    table, named = setting.view.table, setting.last("method")
    for entry in setting.entries if named is None else ():
        # Beside a draft, a switch that may be off does not take its place.
        maybe = draft is not None and entry.value is not None and entry.value.unknown
        if entry.option and entry.option.method and entry.on and not entry.unset and not maybe:
            return entry.option.method, []
    if named is None or not named.text:
        lookup = setting.last("draft")
        if lookup is not None and lookup.option and lookup.text in lookup.option.not_a_model:
            return _in_rulebook(lookup.text, table), []
        return (_turned(setting, fallback) or None), []
    if named.value is not None and named.value.unknown:
        return None, [
            FileTrouble(named.value.place, f"the method is {named.text}, which is not known")
        ]
    off = named.option.off if named.option else ()
    words = [_in_rulebook(w, table) for w in parts(named) if w not in off]
    words = [w.upper() if table.head.upper else w for w in words]
    if draft is None:
        words = [table.file.alone.get(word, word) for word in words]
    fitting = [word for word in words if word in table.head.ids]
    if draft is not None and len(fitting) > 1:  # of a list, the one that uses the draft
        draftless = {row.id for row in book.load(table.head.engine).methods if "none" in row.drafts}
        fitting.sort(key=draftless.__contains__)
    if fitting:
        return _turned(setting, fitting[0]), []
    if words and not setting.view.choices(named.name):
        return None, [FileTrouble(named.word.place, f"the rulebook knows no method {named.text}")]
    return None, []


def _in_rulebook(word: str, table: OptionTable) -> str:
    """A method as the rulebook calls it; [methods] of the table may say *_mtp."""
    for spelling, method in table.file.methods.items():
        if word == spelling or fnmatchcase(word, spelling.replace("[", "[[]")):
            return method
    return word


def _turned(setting: GivenOptions, method: str) -> str:
    """The method that a switch beside it makes of it."""
    for entry in setting.entries:
        if entry.option is not None and entry.option.turns and entry.on:
            method = entry.option.turns.get(method, method)
    return method


def _circumstances(setting: GivenOptions, unknown: list[FileTrouble]) -> dict[str, Any]:
    """The circumstances that the file names, where they are plain; what is past all measure is
    unknown."""
    plain: dict[str, Any] = {}
    for name, largest in NUMBERS.items():
        entry = setting.last(name)
        if entry is not None and entry.value is not None and not entry.value.unknown:
            match = HUMAN.fullmatch(entry.text.strip())
            number = float(match[1]) * SCALE[match[2]] if match else 0
            if number > largest:
                text = f"{entry.word.text} {entry.text[:40]} is more than is reckoned with"
                unknown.append(FileTrouble(entry.at, text))
            elif number >= 1:
                plain[name] = int(number)
    groups, inside = plain.pop("data_parallel", 1), plain.pop("attention_groups", None)
    grouped = inside is not None or setting.last("dp_attention") is not None
    if grouped and "tensor_parallel" in plain:
        # Each group has the draft's attention whole.
        plain["draft_tensor_parallel"] = max(plain["tensor_parallel"] // (inside or groups), 1)
    method, block = setting.last("method"), plain.pop("dflash_block", None)
    if method is not None and method.text.upper() == "DFLASH" and block is not None:
        plain["draft_tokens"] = block
    if method is not None and method.text.upper() == "DSPARK" and setting.last("dspark_block"):
        plain.pop("draft_tokens", None)  # the block of the file goes before the drafter's own
    for name in ("dtype", "kv_dtype"):
        entry = setting.last(name)
        if entry is None or entry.value is None or entry.value.unknown is not None:
            continue
        if entry.text in ("", "auto"):
            continue
        choices = setting.view.choices(entry.name)
        if not choices or entry.text in choices:
            plain[name] = entry.text.removeprefix("torch.")
    fraction = setting.last("memory_fraction")
    if fraction is not None and re.fullmatch(r"0?\.\d+|1(\.0*)?", fraction.text.strip()):
        plain["memory_fraction"] = float(fraction.text)
    if setting.view.table.head.shared_context and {"context", "sequences"} <= set(plain):
        plain["context"] = max(plain["context"] // plain["sequences"], 1)
    return plain
