"""Write rules/options/ENGINE-names.toml: every option of every version, read from the sources.

    python option_names.py llamacpp --clone CLONE --newest SOURCE --newest-version b11312
    python option_names.py vllm     --clone CLONE --newest 0.28.0=SOURCE --newest 0.29.0=SOURCE …
    python option_names.py sglang   --clone CLONE --newest 0.5.19=SOURCE …
    python option_names.py mlx-lm   --clone CLONE --newest 0.32.2=SOURCE

--clone is a git clone with its whole history (vLLM and SGLang: its release tags are read);
--newest names source trees that are newer than it. Nothing is imported or run. llama.cpp:
add_opt(common_arg({…})) in common/arg.cpp at every commit that touches it. vLLM and SGLang:
add_argument("--x"), and the fields of the classes that their parsers are made from.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from extract_options import NAMES, REMOVED, git, spec_types, versions

from draftcheck.watch.python_options import Found, Show, Under, mlx_names, sglang_names, vllm_names
from draftcheck.watch.update import names_table

RULES = Path(__file__).parents[2] / "rules" / "options"
OLDEST = 4164
PROGRAMS = {"s": ("SERVER",), "c": ("CLI", "MAIN"), "p": ("SPECULATIVE",)}  # llama-…
LAMBDA = re.compile(r"\[\]\s*\(\s*(?:struct )?common_params\s*&[^,)]*(?:,\s*(.*?))?\)\s*\{", re.S)
ENV = re.compile(r'\.set_env\("(LLAMA_[A-Z0-9_]+)"\)')

Names = Callable[[Show, Under], Found]


def takes(block: str) -> str:
    match = LAMBDA.search(block)
    if match is None:
        return "1"
    arguments = re.sub(r"/\*.*?\*/", "", match[1] or "")
    if not arguments or arguments.lstrip().startswith("bool"):
        return "0"
    return "2" if arguments.count("std::string") == 2 else "1"


def listed(block: str) -> list[str]:
    """The names at the head of a block: {"-a", "--all"}, and {"--no-all"} behind them."""
    found: list[str] = []
    while match := NAMES.match(block):
        found += re.findall(r'"(-[^"]+)"', match[1])
        block = block[match.end() :].lstrip(" ,\n")
    return found


def llama_names(show: Callable[[str], str]) -> Found:
    """Options, environment variables and values of --spec-type that one version has."""
    source, found = show("common/arg.cpp"), {}
    for block in re.sub(r"(?m)^\s*//.*\n", "", source).split("add_opt(common_arg(")[1:]:
        names = listed(block)
        given = re.search(r"\.set_examples\(\{([^}]*)\}", block)
        barred = re.search(r"\.set_excludes\(\{([^}]*)\}", block)
        programs = "".join(
            letter
            for letter, words in PROGRAMS.items()
            if (given is None or re.search(rf"EXAMPLE_({'|'.join(words)}|COMMON)\b", given[1]))
            and not (barred and re.search(rf"EXAMPLE_({'|'.join(words)})\b", barred[1]))
        )
        if not names or not programs:
            continue
        removed = REMOVED.search(block)
        kind = "removed" if removed else "option"
        for name in names:
            found[kind, name] = (takes(block), programs)
        if (env := ENV.search(block)) and not removed:
            found["env", env[1]] = ("1", programs)
    for name in spec_types(source, show("common/speculative.cpp")):
        found["value", name.replace(" ", "=")] = ("1", "scp")
    return found


def windows(history: Iterable[tuple[str, Found]]) -> dict[tuple[str, ...], list[str]]:
    """(kind, takes, programs, since, until) -> names; an empty bound is open."""
    before: Found = {}
    since: dict[tuple[str, str], str] = {}
    groups: dict[tuple[str, ...], list[str]] = {}

    def close(entry: tuple[str, str], until: str) -> None:
        groups.setdefault((entry[0], *before[entry], since[entry], until), []).append(entry[1])

    first = True
    for version, there in history:
        for entry in [e for e in before if there.get(e) != before[e]]:
            close(entry, version)
        for entry in there:
            if there[entry] != before.get(entry):
                since[entry] = "" if first else version
        before, first = there, False
    for entry in before:
        close(entry, "")
    return groups


def llama_history(clone: Path, newest: Path, version: str) -> Iterator[tuple[str, Found]]:
    every = list(versions(clone, "common/arg.cpp", "common/speculative.cpp"))
    start = [commit for build, commit in every if build <= OLDEST][-1]
    later = [(build, commit) for build, commit in every if build > OLDEST]
    for build, commit in [(OLDEST, start), *later]:
        yield f"b{build}", llama_names(lambda path, at=commit: git(clone, "show", f"{at}:{path}"))
    yield version, llama_names(lambda path: (newest / path).read_text(encoding="utf-8"))


def python_history(
    clone: Path, oldest: str, trees: Mapping[str, Path], names: Names, root: str
) -> Iterator[tuple[str, Found]]:
    """Release tags of the clone from the oldest on, and the source trees, in order."""
    from packaging.version import InvalidVersion, Version

    every: dict[Version, str | Path] = {Version(text): path for text, path in trees.items()}
    for tag in git(clone, "tag").split():
        try:
            version = Version(tag)
        except InvalidVersion:
            continue
        if not version.is_prerelease and version >= Version(oldest):
            every.setdefault(version, tag)
    for version in sorted(every):
        source = every[version]
        files = of_tree(source) if isinstance(source, Path) else of_tag(clone, source, root)
        yield str(version), names(*files)


def of_tag(clone: Path, tag: str, root: str) -> tuple[Show, Under]:
    def under(path: str) -> list[str]:
        listing = git(clone, "ls-tree", "-r", "--name-only", tag, f"{root}{path}")
        return [name.removeprefix(root) for name in listing.split()]

    return lambda path: git(clone, "show", f"{tag}:{root}{path}"), under


def of_tree(folder: Path) -> tuple[Show, Under]:
    def show(path: str) -> str:
        file = folder / path
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    return show, lambda path: [str(f.relative_to(folder)) for f in (folder / path).rglob("*.py")]


def write(engine: str, head: str, groups: Mapping[tuple[str, ...], list[str]]) -> None:
    """One row per window: kind, words it takes, programs, since, until, names."""
    lines = [f"# {head}", "# Made by tests/agreement/option_names.py; not to be edited by hand."]
    lines += ["# Rows: kind, words taken, programs, since, until, names.", "", names_table(groups)]
    (RULES / f"{engine}-names.toml").write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=("llamacpp", "vllm", "sglang", "mlx-lm"))
    parser.add_argument("--clone", required=True, type=Path)
    parser.add_argument("--newest", required=True, action="append")
    parser.add_argument("--newest-version")
    given = parser.parse_args()
    if given.engine == "llamacpp":
        groups = windows(llama_history(given.clone, Path(given.newest[0]), given.newest_version))
        span = f"b{OLDEST} to {given.newest_version}"
        head = f"{span}: s llama-server, c llama-cli, p llama-speculative."
        write("llamacpp", head, groups)
        return
    trees = {name: Path(path) for name, _, path in (n.partition("=") for n in given.newest)}
    oldest, names, root = {
        "vllm": ("0.4.1", vllm_names, "vllm/"),
        "sglang": ("0.5.2", sglang_names, "python/sglang/"),
        "mlx-lm": ("0.21.0", mlx_names, "mlx_lm/"),
    }[given.engine]
    groups = windows(python_history(given.clone, oldest, trees, names, root))
    write(given.engine, f"Options of {given.engine}, {oldest} to {list(trees)[-1]}.", groups)


if __name__ == "__main__":
    main()
