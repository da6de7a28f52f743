"""Keys of a configuration file, or arguments of a call -> what is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftcheck.gate.given import KEY, Given, Setting
from draftcheck.gate.model import Document, Tree, Trouble, Word
from draftcheck.gate.options import View


def read(setting: Setting, found: Document, row: Mapping[str, Any]) -> None:
    """Add every key that the engine's table may know."""
    positional = row.get("positional", [])
    as_options = row.get("keys") == "options"
    for key, tree in found.tree.entries or ():
        if key.text.isdigit() and found.kind == "python-call":
            at = int(key.text)
            if at < len(positional):
                _means(setting, positional[at], key, tree)
        elif as_options:
            option(setting, key, tree)
        else:
            _plain(setting, key.text, key, tree)


def _means(setting: Setting, means: str, key: Word, tree: Tree) -> None:
    named = next((o for o in setting.view.table.options.values() if o.means == means), None)
    if named is not None and tree.word is not None:
        setting.add(Given(named.names[0], tree.word, tree.word, KEY, option=named))


def option(setting: Setting, key: Word, tree: Tree) -> None:
    """A key that is an option without its dashes."""
    view = setting.view
    name = _option_name(view, key.text)
    row = view.meant(name)
    if row is not None and row.object:
        entry = Given(name, key, tree.word, KEY, tree, row)
        setting.add(entry)
        if tree.entries is not None:
            inner(setting, view.table.head["objects"][0], tree)
        return
    if tree.entries is not None and tree.word is None:
        setting.add(Given(name, key, None, KEY, tree, row, "?"))
        return
    setting.add(Given(name, key, tree.word, KEY, tree, row))


def _option_name(view: View, key: str) -> str:
    dashed = key.replace("_", "-")
    for name in (f"--{dashed}", f"-{key}", key):
        if view.ever(name) or view.option(name) or view.change(name):
            return name
    return f"--{dashed}"


def inner(setting: Setting, part: str, tree: Tree) -> None:
    """The keys of an object, such as --speculative-config's."""
    for key, value in tree.entries or ():
        name = f"{part}.{key.text.replace('-', '_')}"
        setting.add(Given(name, key, value.word, KEY, value, setting.view.meant(name)))


def _plain(setting: Setting, name: str, key: Word, tree: Tree) -> None:
    """A key by its own name; those of sections have the section's before them."""
    row = setting.view.meant(name)
    if tree.entries is None:
        setting.add(Given(name, key, tree.word, KEY, tree, row))
        return
    if row is not None or setting.view.change(name) is not None:
        setting.add(Given(name, key, tree.word, KEY, tree, row))
    for inside, value in tree.entries:
        if name.count(".") < 2:
            _plain(setting, f"{name}.{inside.text}", inside, value)


def objects(setting: Setting) -> None:
    """Take apart the JSON that options of a command line hold."""
    # Imported here: most commands hold no JSON.
    from draftcheck.gate.files import json_places

    for at, entry in enumerate(list(setting.entries)):
        word = entry.value
        if entry.option is None or not entry.option.object or word is None or entry.tree:
            continue
        if word.unknown and word.text.strip() == word.unknown.strip():
            setting.opaque = True
            setting.troubles.append(
                Trouble(word.place, f"{entry.word.text}: {word.unknown} is not known")
            )
            continue
        tree = json_places.parse(word)
        if isinstance(tree, Trouble):
            setting.broken.append((entry, tree))
            setting.opaque = True
            continue
        setting.entries[at] = Given(entry.name, entry.word, word, entry.kind, tree, entry.option)
        inner(setting, setting.view.table.head["objects"][0], tree)
