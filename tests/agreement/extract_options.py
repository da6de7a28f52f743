"""Write ../llamacpp_options.json: in which builds llama-server takes which option.

    python extract_options.py --clone CLONE --newest SOURCE --newest-build b11312

--clone is a git clone with its whole history. Every commit that touches common/arg.cpp is read;
its build is `git rev-list --count COMMIT`, as in llama.cpp's release tags. An option counts from
the first build whose add_opt(common_arg({"-x", "--long", …)) names it for the server, until one
that does not, or whose handler only says that it was removed. Values of --spec-type are read in
the same way: names in common/speculative.cpp from b9109 on, comparisons in the handler before.
--newest is a source tree that is newer than the clone. Options that no setup needs are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

TABLE = Path(__file__).with_name("llamacpp_options.json")
OLDEST, LINEAR = 4164, 4600
WANTED = (
    "-m", "-md", "-ngl", "-ngld", "-np", "-c", "-ctk", "-ctv", "-ctkd", "-ctvd",
    "--draft-max", "--draft-min", "--spec-type",
    "--spec-draft-n-max", "--spec-draft-p-min", "--spec-ngram-size-n", "--spec-default",
    "--spec-ngram-simple-size-m", "--spec-ngram-map-k-size-m", "--spec-ngram-map-k4v-size-m",
    "--spec-ngram-mod-n-match", "--spec-ngram-mod-n-min", "--spec-ngram-mod-n-max",
)  # fmt: skip
CONVERTER = ("--outfile", "--target-model-dir")
REMOVED = re.compile(r"arg_removed\(|the argument has been removed")
NAMES = re.compile(r'\s*\{\s*((?:"-[^"]+",?\s*)+)\}')


def git(clone: Path, *arguments: str) -> str:
    command = ["git", "-C", str(clone), *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace").stdout


def versions(clone: Path, *paths: str) -> Iterator[tuple[int, str]]:
    """Build and commit of every change to the files, oldest first."""
    total = int(git(clone, "rev-list", "--count", "HEAD"))
    line = git(clone, "rev-list", "--first-parent", "HEAD").split()
    behind = {commit: number for number, commit in enumerate(line)}
    log = git(clone, "log", "--first-parent", "--reverse", "--format=%H", "--", *paths)
    for commit in log.split():
        build = total - behind[commit]
        if build < LINEAR:  # the last merge of two histories lies before
            build = int(git(clone, "rev-list", "--count", commit))
        yield build, commit


def options(source: str) -> set[str]:
    """The options of llama-server; for -ngl and -ngld also with the word `all`."""
    found = set()
    for block in source.split("add_opt(common_arg(")[1:]:
        names = NAMES.match(block)
        programs = re.search(r"\.set_examples\(\{([^}]*)\}", block)
        served = programs is None or re.search("EXAMPLE_(SERVER|COMMON)", programs[1])
        if names is None or not served or REMOVED.search(block):
            continue
        found |= set(re.findall(r'"([^"]+)"', names[1]))
        if "'all'" in block:
            found |= {f"{name} all" for name in re.findall(r'"([^"]+)"', names[1])}
    return found


def spec_types(arguments: str, speculative: str) -> set[str]:
    start = arguments.find('{"--spec-type"}')
    if start < 0:
        return set()
    handler = arguments[start:].split("add_opt(", maxsplit=1)[0]
    names = set(re.findall(r'value == "([\w-]+)"', handler))
    listed = re.search(r"type_from_name_map\s*=\s*\{(.*?)\};", speculative, re.S)
    if not names and listed:
        names = set(re.findall(r'\{"([\w-]+)"', listed[1]))
    return {f"--spec-type {name}" for name in names}


def read(show: Callable[[str], str]) -> set[str]:
    """Everything that one version takes."""
    text = show("common/arg.cpp")
    found = {name for name in options(text) if name.split()[0] in WANTED}
    found |= spec_types(text, show("common/speculative.cpp"))
    converter = show("convert_hf_to_gguf.py")
    return found | {name for name in CONVERTER if f'"{name}"' in converter}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--clone", "--newest", "--newest-build"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    clone, newest = Path(given.clone), Path(given.newest)
    found: dict[str, list[list[str | None]]] = {}
    paths = ("common/arg.cpp", "common/speculative.cpp", "convert_hf_to_gguf.py")
    every = list(versions(clone, *paths))
    before = set()
    history = [(build, commit) for build, commit in every if build > OLDEST]
    oldest = [commit for build, commit in every if build <= OLDEST][-1]
    for build, commit in [(OLDEST, oldest), *history, (int(given.newest_build[1:]), None)]:

        def show(path: str, commit: str | None = commit) -> str:
            if commit is None:
                return (newest / path).read_text(encoding="utf-8")
            return git(clone, "show", f"{commit}:{path}")

        there = read(show)
        for name in there - before:
            found.setdefault(name, []).append([f"b{build}", None])
        for name in before - there:
            found[name][-1][1] = f"b{build}"
        before = there
    rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    TABLE.write_text("{\n" + rows + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
