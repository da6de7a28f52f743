"""Keys of a configuration file, or arguments of a call -> what is given."""

from __future__ import annotations

import re
from dataclasses import replace

from draftcheck.deploy.deployment import Document, DocumentTree, FileTrouble, Word
from draftcheck.deploy.options.given import KEY, GivenOption, GivenOptions
from draftcheck.deploy.options.programs import KeysReading
from draftcheck.deploy.options.tables import OptionsAtVersion

VARIABLE = re.compile(r"\$\{[^{}]*\}|\$\w+|\{\{[^{}]*\}\}")
STAND_IN = re.compile(r"1{4,}")


def read(setting: GivenOptions, found: Document, row: KeysReading) -> None:
    """Add every key that the engine's table may know."""
    if row.pairs:
        _pairs(setting, found.tree, row.pairs)
        return
    positional = {str(at): means for at, means in enumerate(row.positional)}
    for path in row.target:
        named = found.tree.get(*path.split("."))
        if named is not None and named.word is not None:
            _means(setting, "target", named.word, named)
            break
    if row.inside:
        found = replace(
            found, tree=found.tree.get(row.inside) or DocumentTree(found.place, entries=())
        )
    as_options = row.keys == "options"
    for key, tree in found.tree.entries or ():
        if key.text.isdigit() and found.kind == "python-call":
            if key.text in positional:
                _means(setting, positional[key.text], key, tree)
        elif as_options:
            option(setting, key, tree)
        else:
            _plain(setting, key.text, key, tree)


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
    return made


def _pairs(setting: GivenOptions, tree: DocumentTree, part: str) -> None:
    """parameters { key: "x" value { string_value: "y" } }, as Triton writes them."""
    for name, pair in tree.entries or ():
        key, value = pair.get("key"), pair.get("value", "string_value")
        if name.text == part and key is not None and key.word is not None and value is not None:
            _plain(setting, key.word.text, key.word, value)


def _means(setting: GivenOptions, means: str, key: Word, tree: DocumentTree) -> None:
    named = next((o for o in setting.view.table.options.values() if o.means == means), None)
    if named is not None and tree.word is not None:
        setting.add(GivenOption(named.names[0], tree.word, tree.word, KEY, option=named))


def option(setting: GivenOptions, key: Word, tree: DocumentTree) -> None:
    """A key that is an option without its dashes."""
    view = setting.view
    name = _option_name(view, key.text)
    row = view.meant(name)
    if row is not None and row.object and _made_elsewhere(view, tree):
        setting.may_hold_more = True
        setting.add(GivenOption(name, key, tree.word, KEY, DocumentTree(tree.place), row))
        setting.troubles.append(FileTrouble(tree.place, f"{key.text} is made by a call"))
        return
    if row is not None and row.object:
        entry = GivenOption(name, key, tree.word, KEY, tree, row)
        setting.add(entry)
        if tree.entries is not None:
            inner(setting, view.table.head.objects[0], tree)
        return
    if tree.entries is not None and tree.word is None:
        setting.add(GivenOption(name, key, None, KEY, tree, row, "?"))
        return
    setting.add(GivenOption(name, key, tree.word, KEY, tree, row))


def _made_elsewhere(view: OptionsAtVersion, tree: DocumentTree) -> bool:
    """What a call returns, unless the engine's own classes are known: nothing is known of it."""
    owner = view.table.head.objects[0]
    return tree.get("__call__") is not None and view.option(f"{owner}.__call__") is None


def _option_name(view: OptionsAtVersion, key: str) -> str:
    dashed = key.replace("_", "-")
    for name in (f"--{dashed}", f"-{key}", key):
        if view.ever(name) or view.option(name) or view.change(name):
            return name
    return f"--{dashed}"


def inner(setting: GivenOptions, part: str, tree: DocumentTree) -> None:
    """The keys of an object, such as --speculative-config's."""
    for key, value in tree.entries or ():
        name = f"{part}.{key.text.replace('-', '_')}"
        word = value.word
        if word is not None and word.kind == "int" and STAND_IN.fullmatch(word.text):
            word = replace(word, unknown="a variable")
        setting.add(GivenOption(name, key, word, KEY, value, setting.view.meant(name)))


def _plain(setting: GivenOptions, name: str, key: Word, tree: DocumentTree) -> None:
    """A key by its own name; those of sections have the section's before them."""
    row = setting.view.meant(name)
    if tree.entries is None:
        setting.add(GivenOption(name, key, tree.word, KEY, tree, row))
        return
    if row is not None or setting.view.change(name) is not None:
        setting.add(GivenOption(name, key, tree.word, KEY, tree, row))
    for inside, value in tree.entries:
        if name.count(".") < 2:
            _plain(setting, f"{name}.{inside.text}", inside, value)


def _without_variables(word: Word) -> Word:
    """A number where a variable stands, so that the rest can be read: {"k": ${TOKENS}}."""
    return replace(word, text=VARIABLE.sub(lambda match: "1" * len(match[0]), word.text))


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
        if isinstance(tree, FileTrouble) and word.unknown:
            tree = json_places.parse(_without_variables(word))
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
        setting.entries[at] = GivenOption(
            entry.name, entry.word, word, entry.kind, tree, entry.option
        )
        inner(setting, setting.view.table.head.objects[0], tree)
