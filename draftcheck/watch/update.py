"""Write a release that no rule contradicts into the rulebook: `checked`, options, lists.

For a checkout of draftcheck: the files of rules/ are changed in place, to be read and committed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from draftcheck import atomic
from draftcheck.anchors import compare
from draftcheck.anchors.trees import SourceTree
from draftcheck.errors import UsageError
from draftcheck.rulebook import anchors, book, files
from draftcheck.rulebook.anchors import MESSAGES, AnchorFile
from draftcheck.watch.run import WatchReport, option_rows

ROWS = re.compile(r"(?ms)^names = \[\n.*?^\]\n")


def write(file: AnchorFile, tree: SourceTree, report: WatchReport, said: str | None) -> list[str]:
    """Change the rulebook; the files that were written, or an error that says why not."""
    engine = book.load(file.engine)
    version = engine.version(report.version or said) if report.version or said else None
    if version is None:
        raise UsageError("--update needs the version", hint="Name it: draftcheck watch ENGINE 1.2.")
    if report.changes or report.unread:
        count = len(report.changes)
        what = f"{count} place{' is' if count == 1 else 's are'} not the code that was read"
        raise UsageError(
            f"not written: {what if count else report.unread[0]}",
            hint="Read the rules again, correct them, and make the anchors anew.",
        )
    if engine.order(version) < engine.order(engine.checked):
        raise UsageError(f"not written: {version} is older than {engine.checked}, which was read")
    name = book.engine_files()[engine.id]
    short = name.rpartition("/")[2]
    day = datetime.now(UTC).date().isoformat()
    told = [_set(files.folder() / f"{name}.toml", {"checked": f'"{version}"', "checked_on": day})]
    table = files.folder() / "options" / f"{short}.toml"
    if table.is_file():
        told.append(_set(table, {"checked": f'"{version}"'}))
    if report.options:
        told.append(_options(table.with_name(f"{short}-names.toml"), report, version))
    ask = compare.asking(tree)
    lists = {what: " ".join(compare.names(file, tree, ask, what)) for what in file.lists}
    lists[MESSAGES] = " ".join(sorted(compare.messages(file, tree)))
    path = files.folder() / f"{anchors.name(engine.id)}.toml"
    anchors.write(path, msgspec.structs.replace(file, version=version, names=lists))
    return [*told, f"wrote {path}"]


def _set(path: Path, values: dict[str, str]) -> str:
    """Change the first line of each key."""
    text = path.read_text(encoding="utf-8")
    for key, value in values.items():
        text = re.sub(rf"(?m)^{key} = [^#\n]*?(?=\s*(?:#|$))", f"{key} = {value}", text, count=1)
    atomic.write(path, text.encode())
    return f"wrote {path}"


def _options(path: Path, report: WatchReport, version: str) -> str:
    """The table of option names, with the windows that this version opens and closes."""
    groups: dict[tuple[str, ...], list[str]] = {}
    known = set()
    for row in option_rows(book.load(report.engine)):
        for name in row.names.split():
            until = row.until
            now = report.options.get((row.kind, name))
            if not until and now == (row.takes, row.programs):
                known.add((row.kind, name))
            elif not until:
                until = version
            key = (row.kind, row.takes, row.programs, row.since, until)
            groups.setdefault(key, []).append(name)
    for entry, (takes, programs) in report.options.items():
        if entry not in known:
            groups.setdefault((entry[0], takes, programs, version, ""), []).append(entry[1])
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"\A(# .* to )\S+?(?=[.:]\s)", rf"\g<1>{version}", text)
    atomic.write(path, ROWS.sub(lambda _: names_table(groups), text).encode())
    return f"wrote {path}"


def names_table(groups: Mapping[tuple[str, ...], Iterable[str]]) -> str:
    """A table of option names: kind, words it takes, programs, since, until -> names."""
    lines = []
    for key, names in sorted(groups.items()):
        fields = ", ".join(f'"{field}"' for field in (*key, " ".join(sorted(names))))
        lines.append(f"  [{fields}],")
    return "\n".join(["names = [", *lines, "]", ""])
