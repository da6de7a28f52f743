"""rules/anchors/*.toml: the places in an engine's code that its rules rest on.

A place is `path::symbol`: a function, class or constant of a file below the engine's package, or
`path::*`, the whole file, where a rule's words name no more. Its
stored text is the digest of the whole, then four characters per statement, from which a changed
place can say which statements are new without the old code at hand. `names WHAT` stands for one
of the lists in `[lists]`, such as the classes with an interface.

A tool makes the file from the source of one version; `[lists]`, `[hints]` and `[elsewhere]` are
written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from draftcheck import atomic
from draftcheck.rulebook import book, files
from draftcheck.rulebook.files import Names, RuleRow, Text

FOLDER = "anchors"
NAMES = "names "
"""How a place starts that is one of the file's lists."""
MESSAGES = "messages"
MADE = "# ---- made by tests/agreement/make_anchors.py, not to be edited by hand ----"


class AnchorFile(RuleRow, frozen=True):
    """The places of one engine."""

    engine: Text
    version: Text
    """The version that was read."""
    package: str = ""
    """The folder of a wheel or checkout that paths start from; the first that is there."""
    lists: Mapping[str, Names] = {}
    """What is listed -> where its names stand: `path::symbol`, `path::*` (all that a file
    defines), `folder/*.py` (files), `*.py::(Word)` (classes with this base, method or field)."""
    tied: Names = ()
    """Lists that a rule rests on as soon as its parameters name one of their names."""
    messages: Names = ()
    """Files whose error messages are watched."""
    options: str = ""
    """Which reader finds the engine's options in its code."""
    hints: Mapping[str, Names] = {}
    """Rule id -> its places, where its own words do not name them."""
    elsewhere: Mapping[str, Text] = {}
    """Rule id -> what it rests on that is not the engine's code."""
    rules: Mapping[str, Names] = {}
    """Rule id -> its places."""
    places: Mapping[str, Text] = {}
    names: Mapping[str, str] = {}
    """What is listed -> its names; for `messages`, eight characters for each error message."""

    def __post_init__(self) -> None:
        for rule, places in self.rules.items():
            for place in places:
                kept = place.removeprefix(NAMES)
                if kept not in (self.places if kept == place else self.lists):
                    raise ValueError(f"{rule} rests on {place}, which has no digest")
        if other := set(self.tied) - set(self.lists):
            raise ValueError(f"tied names {min(other)}, which is no list")


def name(engine: str) -> str:
    """The engine's file below rules/, without suffix."""
    return f"{FOLDER}/{book.engine_files()[engine].rpartition('/')[2]}"


def load(engine: str) -> AnchorFile | None:
    """The places of an engine's rules; None where nobody wrote them down."""
    if (files.folder() / f"{name(engine)}.toml").is_file():
        return files.read(name(engine), AnchorFile)
    return None


def by_hand(path: Path) -> AnchorFile:
    """What people wrote into a file, without what the tool makes of it."""
    data = files.parse(path)
    made = ("rules", "places", "names")
    kept = {key: value for key, value in data.items() if key not in made}
    return files.typed(kept, AnchorFile, path.name)


def write(path: Path, file: AnchorFile) -> None:
    """The file with the parts that are made anew; what was written by hand stays as it is."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    text = text.partition(MADE)[0].rstrip()
    text = re.sub(r'(?m)^version = ".*"$', f'version = "{file.version}"', text, count=1)
    lines = [text, "", MADE, "", "[rules]"]
    lines += [
        f"{rule} = [{', '.join(map(_quoted, places))}]" for rule, places in file.rules.items()
    ]
    for title, table in (("places", file.places), ("names", file.names)):
        lines += ["", f"[{title}]", *(f"{_quoted(k)} = {_quoted(v)}" for k, v in table.items())]
    atomic.write(path, ("\n".join(lines) + "\n").encode())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
