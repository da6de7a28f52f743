"""The options that a deployment gives an engine: on a command line, by environment, as keys.

read_words() and read_keys() fill a GivenOptions in the order of the file; checks.py and find.py
then ask it by meaning ("draft") or by name ("--model-draft"), and side() for the models that they
name. Where an option is given twice, the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from draftcheck.deploy.deployment import Document, DocumentTree, FileTrouble
from draftcheck.deploy.options.programs import KeysReading
from draftcheck.deploy.options.tables import EngineOption, OptionsAtVersion, VersionWindow
from draftcheck.deploy.text import Word
from draftcheck.values.findings import FilePlace

KEY = "key"
OPTION = "option"
ENV = "env"


@dataclass(frozen=True, slots=True)
class GivenOption:
    """One option, variable or key, and its value."""

    name: str
    """As the engine's table spells it."""
    word: Word
    """As the file spells it."""
    value: Word | None = None
    kind: str = OPTION
    tree: DocumentTree | None = None
    """The value of a key, where it is no scalar."""
    option: EngineOption | None = None

    @property
    def means(self) -> str:
        return self.option.means if self.option else ""

    @property
    def text(self) -> str:
        """The value's text; empty where there is none."""
        return self.value.text if self.value else ""

    @property
    def at(self) -> FilePlace:
        """Where the value stands; the option itself where it has none."""
        return self.value.place if self.value else self.word.place

    @property
    def on(self) -> bool:
        """Whether a switch is on: given without a value, or with one that says yes."""
        if self.option is not None and self.option.on:
            return self.text in self.option.on
        return self.value is None or self.text.lower() not in ("false", "0", "off", "no", "null")

    @property
    def unset(self) -> bool:
        """A key that is there and says nothing (null, empty)."""
        return self.kind == KEY and self.value is not None and (
            self.value.kind == "null" or (not self.value.text and not self.value.unknown)
        )  # fmt: skip


@dataclass(slots=True)
class GivenOptions:
    """Everything that is given to one engine, in order."""

    view: OptionsAtVersion
    entries: list[GivenOption] = field(default_factory=list)
    may_hold_more: bool = False
    """A variable that nothing defines may hold options: what is missing here may be there."""
    options_file: bool = False
    """These are the keys of a file; the command that names it may give more options."""
    python_arguments: bool = False
    """Keys are arguments of Python: there may be more of them than the command line has."""
    hidden_arguments: bool = False
    """A call has **others that the program does not spell out: none is said to be missing."""
    entry_point: bool = False
    """A container's own program gets them: a chart, or its environment, may name the model."""
    engine_guessed: bool = False
    """Only options tell which engine takes them."""
    speculates_always: bool = False
    """The program does nothing but speculate, so no option need ask for it."""
    configs: dict[str, Word] = field(default_factory=dict)
    """Files of options that were read with the command -> where it names them."""
    troubles: list[FileTrouble] = field(default_factory=list)
    broken_json: list[tuple[GivenOption, FileTrouble]] = field(default_factory=list)
    """Options whose JSON could not be read."""
    unsplit: list[GivenOption] = field(default_factory=list)
    """--option=value where the engine does not take it apart."""
    without_value: list[GivenOption] = field(default_factory=list)
    """Options at the end of the line whose value is missing."""
    spelling_searches: int = 0
    """Unknown names so far for which the nearest known one was looked for."""

    def add(self, entry: GivenOption) -> None:
        self.entries.append(entry)

    def all(self, names: str) -> Iterator[GivenOption]:
        """What is given under a meaning or a name; several are separated by |."""
        wanted = names.split("|")
        for entry in self.entries:
            if not entry.unset and (entry.means in wanted or entry.name in wanted):
                yield entry

    def last(self, names: str) -> GivenOption | None:
        """The one that counts: the last; the environment is read before the command line."""
        return next(iter([*self.all(names)][::-1]), None)

    def has(self, names: Iterable[str]) -> bool:
        return any(self.last(name) for name in names)


def parts(entry: GivenOption) -> list[str]:
    """The values of an option: several where it takes a list."""
    split = entry.option.split if entry.option else ""
    if not split:
        return [entry.text]
    return [part for part in entry.text.split(split) if part]


# ---- words of a command line, split as the engine's own parser would ----

NEGATIVE = re.compile(r"-\d+(\.\d+)?$")
HELP = VersionWindow("option", "0", "", "", "", "")


def read_words(setting: GivenOptions, words: Sequence[Word], positional: str = "") -> None:
    """Add every option of the command; a word without a dash is the positional argument."""
    style = setting.view.table.head.style
    at = 0
    taken = not positional or setting.last(positional) is not None
    while at < len(words):
        word = words[at]
        if not _dashed(word.text) or word.text == "-":
            if word.unknown and word.unknown in word.text and (taken or at > 0):
                setting.may_hold_more = True
            elif not taken:
                taken = True
                _means(setting, positional, word, OPTION)
            at += 1
            continue
        at += (_one_word if style == "plain" else _argparse)(setting, words, at)


def _dashed(text: str) -> bool:
    """Whether a word looks like an option, not like a value."""
    return text.startswith("-") and not NEGATIVE.match(text)


def _add(setting: GivenOptions, name: str, word: Word, values: Sequence[Word], takes: str) -> None:
    value = values[0] if values else None
    option = setting.view.meant(name)
    entry = GivenOption(name, word, value, option=option)
    if takes == "1" and value is None:
        setting.without_value.append(entry)
    setting.add(entry)


def _one_word(setting: GivenOptions, words: Sequence[Word], at: int) -> int:
    """Every option is one word; as many words follow as it takes, whatever they look like."""
    word, view = words[at], setting.view
    name = word.text.replace("_", "-") if word.text.startswith("--") else word.text
    head, equals, _ = name.partition("=")
    if equals and view.ever(name) is None and (view.ever(head) or view.change(head)):
        value = word.tail(len(head) + 1)
        setting.unsplit.append(GivenOption(head, word, value, option=view.meant(head)))
        setting.add(setting.unsplit[-1])
        return 1
    span = view.now(name) or view.ever(name)
    if span is None:
        return 1 + _guess(setting, name, words, at)
    count = {"0": 0, "2": 2}.get(span.takes, 1)
    # -fa takes a word since b6325: an option behind it was not meant as its value.
    switch = any(once.takes == "0" for once in view.table.spans.get(name, ()))
    if count == 1 and switch and all(view.ever(w.text) for w in words[at + 1 : at + 2]):
        _add(setting, name, word, [], "1")
        return 1
    _add(setting, name, word, words[at + 1 : at + 1 + count], span.takes)
    return 1 + count


def _guess(setting: GivenOptions, name: str, words: Sequence[Word], at: int) -> int:
    """An option that nobody knows: the next word is its value unless it looks like an option."""
    values = [word for word in words[at + 1 : at + 2] if not _dashed(word.text)]
    _add(setting, name, words[at], values, "?")
    return len(values)


def _argparse(setting: GivenOptions, words: Sequence[Word], at: int) -> int:
    """--option value, --option=value, unambiguous beginnings, and --option.key for objects."""
    word, view = words[at], setting.view
    typed, equals, _ = word.text.partition("=")
    rest = word.tail(len(typed) + 1)
    base, dot, key = typed.partition(".")
    name = _full(view, base if dot and view.now(typed) is None else typed)
    span = HELP if name in ("-h", "--help") else view.now(name) or view.ever(name)
    option = view.option(name)
    if dot and option is not None and option.object:
        inner = f"{view.table.head.objects[0]}.{key.replace('-', '_').rstrip('+')}"
        following = words[at + 1] if at + 1 < len(words) else None
        value = rest if equals else following
        setting.add(GivenOption(inner, word, value, option=view.meant(inner)))
        return 1 if equals else 2
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


def _full(view: OptionsAtVersion, typed: str) -> str:
    """The option that is meant: dashes as the table has them, beginnings made whole."""
    name = typed
    if typed.startswith("--") and view.table.head.same_dashes:
        name = typed.replace("_", "-")
    if view.now(name) or view.option(name) or view.change(name) or not name.startswith("--"):
        return name
    longer = view.beginning_with(name)
    return longer.pop() if len(longer) == 1 else name


# ---- keys of a configuration file, arguments of a call ----


def read_keys(setting: GivenOptions, found: Document, row: KeysReading) -> None:
    """Add every key of a configuration file, or argument of a call, that the table may know."""
    if row.pairs:  # parameters { key: "x" value { string_value: "y" } }, as Triton writes them
        for name, pair in found.tree.entries or ():
            named, value = pair.get("key"), pair.get("value", "string_value")
            if name.text == row.pairs and named is not None and named.word and value is not None:
                _named_key(setting, named.word.text, named.word, value)
        return
    positional = {str(at): means for at, means in enumerate(row.positional)}
    for path in row.target:
        target = found.tree.get(*path.split("."))
        if target is not None and target.word is not None:
            _means(setting, "target", target.word, KEY)
            break
    if row.inside:
        found = replace(
            found, tree=found.tree.get(row.inside) or DocumentTree(found.place, entries=())
        )
    as_options = row.keys == "options"
    for key, tree in found.tree.entries or ():
        if key.text == "**":
            setting.hidden_arguments = True
        elif key.text.isdigit() and found.kind == "python-call":
            if key.text in positional and tree.word is not None:
                _means(setting, positional[key.text], tree.word, KEY)
        elif as_options:
            option(setting, key, tree)
        else:
            _named_key(setting, key.text, key, tree)


def sections(found: Document, row: KeysReading) -> list[Document]:
    """One document per section, each with what holds for all; others are one as they are."""
    if not row.sections:
        return [found]
    common = found.tree.get(row.sections)
    shared = (common.entries or ()) if common is not None else ()
    made = []
    for name, tree in found.tree.entries or ():
        if tree.entries and name.text and name.text != row.sections:
            own = replace(tree, entries=(*shared, *tree.entries))
            end = tree.entries[-1][0].place
            place = replace(name.place, end_line=end.line, end_column=None)
            made.append(replace(found, tree=own, place=place, name=name.text))
    if not made and common is not None and shared:  # the sections stand elsewhere
        place = replace(common.place, end_line=shared[-1][0].place.line, end_column=None)
        made.append(replace(found, tree=common, place=place, name=row.sections))
    return made


def _means(setting: GivenOptions, means: str, word: Word, kind: str) -> None:
    """Add a word that is told by where it stands."""
    named = next((o for o in setting.view.table.options.values() if o.means == means), None)
    if named is not None:
        setting.add(GivenOption(named.names[0], word, word, kind, option=named))


def option(setting: GivenOptions, key: Word, tree: DocumentTree) -> None:
    """A key that is an option without its dashes."""
    view = setting.view
    dashed = f"--{key.text.replace('_', '-')}"
    spellings = (dashed, f"-{key.text}", key.text)
    known = (n for n in spellings if view.ever(n) or view.option(n) or view.change(n))
    name = next(known, None) or _full(view, dashed)  # it becomes a word of the command line
    row = view.meant(name)
    owner = view.table.head.objects[0] if row is not None and row.object else ""
    # What a call returns is not known, unless the engine's own classes are.
    if owner and tree.get("__call__") is not None and view.option(f"{owner}.__call__") is None:
        setting.may_hold_more = True
        setting.add(GivenOption(name, key, tree.word, KEY, DocumentTree(tree.place), row))
        setting.troubles.append(FileTrouble(tree.place, f"{key.text} is made by a call"))
        return
    setting.add(GivenOption(name, key, tree.word, KEY, tree, row))
    if owner:
        inner(setting, owner, tree)


def inner(setting: GivenOptions, part: str, tree: DocumentTree) -> None:
    """The keys of an object, such as --speculative-config's."""
    for key, value in tree.entries or ():
        name = f"{part}.{key.text.replace('-', '_')}"
        setting.add(GivenOption(name, key, value.word, KEY, value, setting.view.meant(name)))


def _named_key(setting: GivenOptions, name: str, key: Word, tree: DocumentTree) -> None:
    """A key by its own name; those of sections have the section's before them."""
    row = setting.view.meant(name)
    if tree.entries is None or row is not None or setting.view.change(name) is not None:
        setting.add(GivenOption(name, key, tree.word, KEY, tree, row))
    for inside, value in tree.entries or ():
        if name.count(".") < 2:
            _named_key(setting, f"{name}.{inside.text}", inside, value)


def objects(setting: GivenOptions) -> None:
    """Take apart the JSON that options of a command line hold."""
    # Imported here: most commands hold no JSON.
    from draftcheck.deploy.syntax import json_places

    for at, entry in enumerate(list(setting.entries)):
        word = entry.value
        if entry.option is None or not entry.option.object or word is None:
            continue
        if entry.tree is not None and entry.tree.entries is not None:
            continue
        tree = json_places.parse(word)
        if not isinstance(tree, FileTrouble) and tree.entries is None:
            tree = FileTrouble(word.place, "not a JSON object")
        if isinstance(tree, FileTrouble):
            setting.may_hold_more = True
            if word.unknown:
                text = f"{entry.word.text}: {word.unknown} is not known"
                setting.troubles.append(FileTrouble(word.place, text))
            else:
                setting.broken_json.append((entry, tree))
            continue
        setting.entries[at] = replace(entry, tree=tree)
        inner(setting, setting.view.table.head.objects[0], tree)


# ---- what an engine is told to load, as a reference that draftcheck understands ----

URL = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/"
    r"(?P<repo>[\w.-]+/[\w.-]+)(?:/(?:resolve|blob|tree)/(?P<revision>[^/?#]+))?"
    r"(?:/(?P<file>[^?#]+))?(?:[?#].*)?$"
)
TO_BE_FILLED_IN = re.compile(r"\{\w*\}|<[^<>]+>|…|\.\.\.|__[A-Z][A-Z0-9_]*__")
"""What a template or a document has in the place of a name."""
REPO = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*")


def side(setting: GivenOptions, which: str) -> Word | None:
    """The target or the draft, as a word whose text is a reference."""
    named = setting.last(which)
    if named is not None and named.option is not None and named.text in named.option.not_a_model:
        return None
    repo = setting.last(f"{which}_repo")
    if repo is not None and repo.value is not None:
        return _of_repo(setting, which, repo, named)
    if named is None or named.value is None:
        return None
    word, form = named.value, named.option.form if named.option else ""
    if word.unknown:
        return word
    if not word.text:
        return None
    if (blank := TO_BE_FILLED_IN.search(word.text)) is not None:
        return replace(word, unknown=blank[0])
    if form == "served":  # a name that only the server can resolve
        return replace(word, unknown=word.text)
    text = _written(setting, named, form)
    revision = setting.last(f"{which}_revision")
    if revision is not None and revision.text and REPO.fullmatch(text) and "@" not in text:
        text = f"{text}@{revision.text}"
        blank = TO_BE_FILLED_IN.search(revision.text)
        unknown = revision.value.unknown if revision.value is not None else None
        if unknown or blank is not None:
            return replace(word, text=text, unknown=unknown or revision.text)
    return replace(word, text=text) if text != word.text else word


def _of_repo(
    setting: GivenOptions, which: str, repo: GivenOption, named: GivenOption | None
) -> Word | None:
    """A repo of the Hub, and one GGUF of it: by name, by tag, or the one the engine takes."""
    word = repo.value
    if word is None or word.unknown:
        return word
    file = setting.last(f"{which}_file") or (named if which == "draft" else None)
    text = word.text
    if file is not None and file.text.endswith(".gguf") and not file.text.startswith("/"):
        text = f"{text.partition(':')[0]}/{file.text.removeprefix('./')}"
    elif ":" not in text and repo.option is not None and repo.option.default_tag:
        text = f"{text}:{repo.option.default_tag}"
    return replace(word, text=text)


def _written(setting: GivenOptions, named: GivenOption, form: str) -> str:
    text = named.text
    if form == "url":
        return _of_url(text)
    if form == "ollama":  # a file or folder, a repo of the Hub, or a model of its own store
        if text.startswith(("/", "./", "../", "~")) or text.endswith((".gguf", ".safetensors")):
            return _local(text)
        hub = text.startswith(("hf.co/", "huggingface.co/"))
        return text.partition("/")[2] if hub else f"ollama:{text}"
    if form == "folder" and named.option is not None:
        folder = setting.last(named.option.folder)
        below = folder.text if folder is not None and folder.text else "models"
        return _local(text if text.startswith("/") else f"{below.rstrip('/')}/{text}")
    if form == "path":
        return _local(text)
    return _of_url(text) if URL.match(text) else text


def _local(text: str) -> str:
    """A path that no one takes for a repo of the Hub."""
    if text.startswith(("/", "./", "../", "~")) or re.match(r"[A-Za-z]:[\\/]", text):
        return text
    return f"./{text}"


def _of_url(text: str) -> str:
    match = URL.match(text)
    if match is None:
        return text
    revision = f"@{match['revision']}" if match["revision"] not in (None, "main") else ""
    file = f"/{match['file']}" if match["file"] else ""
    return f"{match['repo']}{file}{revision}"
