"""Look for every row's quoted words in every release of its window, and for the options it names.

    make quotes SOURCES="vllm=CLONE vllm=FOLDER sglang=FOLDER"

Sources are those of `make audit`. A row is printed with the releases whose source does not hold a
part of its words, or that lack an option. Words of Python or of another library are printed too:
what is printed is to be read, and is not always wrong.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from draftcheck.anchors.trees import SourceTree
from draftcheck.deploy.options import tables
from draftcheck.errors import RuleError
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Rule
from draftcheck.why.patterns import plain
from tests.agreement.audit import Releases, by_engine

BETWEEN_LITERALS = re.compile(r"""["']\s*\\?\n\s*(?:\+\s*)?[fr]{0,2}["']""")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
OURS = {"--draft-tokens", "--context"}
SHORTEST = 6


def code_of(tree: SourceTree) -> str:
    """All source of a tree, where a message over several lines is one text."""
    whole = "\n".join(tree.text(name) or "" for name in tree.names)
    return plain(BETWEEN_LITERALS.sub("", whole.replace("{{", "{").replace("}}", "}")))


def parts(rule: Rule) -> list[str]:
    """The literal parts of what the engine says; what stands in quotes is mostly a value."""
    found = re.split(r"…| \| |['\[\]{}=]", plain(rule.engine_says or ""))
    return [part for part in found if len(part.strip()) >= SHORTEST]


def options_missing(engine: str, rule: Rule, releases: list[str]) -> Iterator[tuple[str, str]]:
    try:
        table = tables.load(engine)
    except RuleError:
        return
    for name in sorted(set(OPTION.findall(f"{rule.fix} {rule.why}")) - OURS):
        spans = [span for span in table.spans.get(name, ()) if span.kind != "removed"]
        for release in releases:
            if not any(table.covers(release, span.since, span.until) for span in spans):
                yield name, release


def missing(releases: Releases) -> dict[int, dict[str, list[str]]]:
    """By the number of the row: what is missing, and where."""
    rules = releases.engine.rules
    windows = [releases.around(rule)[1] for rule in rules]
    found: dict[int, dict[str, list[str]]] = {}
    for release in releases.order:
        code = code_of(releases.tree(release))
        releases.tree.cache_clear()  # a tree is large
        for number, rule in enumerate(rules):
            for part in parts(rule) if release in windows[number] else ():
                if part not in code:
                    found.setdefault(number, {}).setdefault(part, []).append(release)
    for number, rule in enumerate(rules):
        for name, release in options_missing(releases.engine.id, rule, windows[number]):
            found.setdefault(number, {}).setdefault(name, []).append(release)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", metavar="ENGINE=PATH")
    for name, paths in by_engine(parser.parse_args().sources):
        releases = Releases(book.load(name), paths)
        for number, lacks in sorted(missing(releases).items()):
            rule = releases.engine.rules[number]
            print(f"{rule.id} {rule.since or ''}-{rule.until or ''} {' '.join(rule.methods)}")
            for text, where in lacks.items():
                of = len(releases.around(rule)[1])
                print(f"  {text!r}: {len(where)} of {of} releases, {where[0]} to {where[-1]}")


if __name__ == "__main__":
    main()
