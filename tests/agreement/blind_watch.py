"""Hold releases back and see whether the watch names the rules that they changed.

    python -m tests.agreement.blind_watch vllm 0.29.0=FOLDER 0.30.0=FOLDER 0.31.0=FOLDER …

Anchors are made from the first folder, with the rows that held then; the watch reads each of the
others. What a release changed is what the rulebook says today: rows whose window, or a version in
their parameters, begins or ends in a release after the first.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from draftcheck.anchors.trees import FolderTree
from draftcheck.rulebook import anchors, book, files
from draftcheck.rulebook.anchors import NAMES, AnchorFile
from draftcheck.rulebook.book import Engine, Rule
from draftcheck.watch.run import WatchReport, watch
from tests.agreement.make_anchors import Resolver, named_words, resolve, squash


def changed(engine: Engine, releases: list[str]) -> dict[str, tuple[str, Rule]]:
    """Rule id -> the first of these releases that changed it, and the row that says so."""
    found: dict[str, tuple[str, Rule]] = {}
    for release in releases:
        for rule in engine.rules:
            if release in (rule.since, rule.until, *named_words(dict(rule.params))):
                found.setdefault(rule.id, (release, rule))
    return found


def told(rule: Rule, report: WatchReport, tree: FolderTree, given: AnchorFile, version: str) -> str:
    """How the report leads to a rule; empty when it does not."""
    if rule.id in report.read_again:
        return "to read again"
    words = squash(rule.engine_says or "")
    if words and any(squash(text)[:40] in words or words[:25] in squash(text)
                     for _, _, text in report.messages):  # fmt: skip
        return "a new message"
    if rule.id not in given.rules:  # new: where it is going to rest
        places = {*given.hints.get(rule.id, ()), *Resolver(tree, version).places(rule)}
        lists = {f"{NAMES}{entry.what}" for entry in report.names}
        if places & {*lists, *(change.place for change in report.changes)}:
            return "a changed place"
    fresh = {name for entry in report.names for name in (*entry.new, *entry.gone)}
    fresh |= {part for name in fresh for part in re.split(r"[=.]", name)}
    if fresh & {*named_words(dict(rule.params)), *rule.methods}:
        return "a new name"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine")
    parser.add_argument("trees", nargs="+", metavar="VERSION=FOLDER")
    given = parser.parse_args()
    engine = book.load(given.engine)
    trees = {v: Path(p) for v, _, p in (text.partition("=") for text in given.trees)}
    first, *later = trees
    hand = anchors.by_hand(files.folder() / f"{anchors.name(engine.id)}.toml")
    base, lost = resolve(engine, FolderTree(trees[first], hand.package), first, hand)
    print(f"{first}: {len(base.rules)} rules on {len(base.places)} places, {len(lost)} rows lost")
    without = {rule.id for rule in lost} - base.rules.keys()
    missed = ("MISSED", "missed: the row had no place")
    for number, version in enumerate(later, 1):
        tree = FolderTree(trees[version], hand.package, version)
        report = watch(base, tree)
        truth = changed(engine, later[:number])
        how = {i: told(rule, report, tree, base, version) for i, (_, rule) in truth.items()}
        hit = [i for i in how if how[i]]
        extra = set(report.read_again) - truth.keys()
        print(f"{version}: {report.unchanged} of {report.places} places unchanged;"
              f" {len(report.read_again)} of {len(base.rules)} rules to read again;"
              f" found {len(hit)} of {len(truth)} changed; {len(extra)} named that did not change;"
              f" {len(report.messages)} new messages,"
              f" {sum(len(e.new) + len(e.gone) for e in report.names)} names")  # fmt: skip
        for rule_id, words in how.items():
            print(f"    {rule_id} ({truth[rule_id][0]}): {words or missed[rule_id in without]}")


if __name__ == "__main__":
    main()
