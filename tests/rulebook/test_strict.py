"""Every file of rules/ has a strict loader: faults are made in each file and must be refused.

The faults are generated from the files themselves: for the first table and for one row of every
array of tables an unknown field, a dropped required field and a value of another type. A new file
without an entry in `loader` fails the first test.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect
import pytest

from draftcheck.deploy.kinds import shell
from draftcheck.deploy.options import forks, programs
from draftcheck.deploy.options import tables as options
from draftcheck.errors import RuleError
from draftcheck.evidence import usual
from draftcheck.judge import installed
from draftcheck.memory import gpus, profiles
from draftcheck.models.readers.weights import families
from draftcheck.probe.run import ProbeFile
from draftcheck.rulebook import anchors, book, file_rules, files, tables
from draftcheck.trial import offered_ways, prompts
from draftcheck.trial.backends.llamacpp import program
from draftcheck.trial.backends.transformers.heads import ways
from draftcheck.trial.engine_speed import table as engine_speed
from draftcheck.why import messages
from tests.conftest import ROOT

TYPES: dict[str, Any] = {
    "anchors/*": anchors.AnchorFile,
    "engines/*": book.EngineFile,
    "options/*-names": options.NamesFile,
    "options/*": options.OptionFile,
    "tables/config-defaults": profiles.ConfigDefaults,
    "tables/head-ways": ways.HeadWaysFile,
    "tables/llama-server": program.Spellings,
    "tables/memory": profiles.MemoryFile,
    "tables/parameters": families.ParameterFile,
    "tables/speculation-ways": offered_ways.EngineWaysFile,
    "tables/engine-speed": engine_speed.EngineSpeedFile,
    **{f"tables/{name}": kind for name, kind in tables.TYPES.items()},
    "evidence/causes": usual.LowCauses,
    "files": file_rules.FileRules,
    "forks": forks.ForkFile,
    "gate": file_rules.GateRules,
    "gpus": gpus.GpuFile,
    "installed": installed.InstalledFile,
    "messages": messages.MessageFile,
    "probes": ProbeFile,
    "programs": programs.ProgramFile,
    "prompts": prompts.PromptFile,
    "publish": file_rules.FileRules,
    "truth": book.TruthFile,
    "wrappers": shell.WrapperFile,
}
RULES = files.folder()
NAMES = sorted(path.relative_to(RULES).with_suffix("").as_posix() for path in RULES.rglob("*.toml"))
Place = tuple[str | int, ...]


def loader(name: str) -> Any:
    return next((kind for glob, kind in TYPES.items() if fnmatch.fnmatch(name, glob)), None)


@cache
def _parsed(name: str) -> bytes:
    return msgspec.json.encode(files.parse(RULES / f"{name}.toml"))


def read(name: str) -> dict[str, Any]:
    """A copy of its own for every fault."""
    data: dict[str, Any] = msgspec.json.decode(_parsed(name))
    return data


def at(data: Any, place: Place) -> Any:
    for step in place:
        data = data[step]
    return data


def places(name: str) -> Iterator[Place]:
    """The file itself, its first table, and one row of every array of tables."""
    data = read(name)
    yield ()
    inner = [key for key, value in data.items() if isinstance(value, dict)]
    yield from ((key,) for key in inner[:1])
    for key, value in data.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield (key, len(value) - 1)


def type_at(kind: Any, place: Place) -> Any:
    found: Any = msgspec.inspect.type_info(kind)
    for step in place:
        if isinstance(found, msgspec.inspect.StructType):
            found = next(field.type for field in found.fields if field.encode_name == step)
        elif isinstance(found, msgspec.inspect.DictType):
            found = found.value_type
        else:
            found = found.item_type
    return found


def refused(name: str, place: Place, change: Callable[[Any], Any]) -> str:
    data = read(name)
    change(at(data, place))
    with pytest.raises(RuleError) as caught:
        files.typed(data, loader(name), f"{name}.toml")
    assert caught.value.message.startswith(f"{name}.toml")
    if place:
        assert str(place[0]) in caught.value.message.removeprefix(f"{name}.toml")
    return caught.value.message


@pytest.mark.parametrize("name", NAMES)
def test_every_file_has_a_loader_that_takes_it(name: str) -> None:
    assert loader(name) is not None, f"rules/{name}.toml has no strict loader"
    files.typed(read(name), loader(name), f"{name}.toml")


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_field_is_refused(name: str) -> None:
    for place in places(name):
        # The values of a table of free names have a type instead.
        free = isinstance(type_at(loader(name), place), msgspec.inspect.DictType)
        value = [[[]]] if free else 1
        said = refused(name, place, lambda table, v=value: table.update({"zz_no_such": v}))
        assert "zz_no_such" in said


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_field_is_refused(name: str) -> None:
    for place in places(name):
        kind, table = type_at(loader(name), place), at(read(name), place)
        for field in getattr(kind, "fields", ()):
            if field.required and field.encode_name in table:
                said = refused(name, place, lambda t, key=field.encode_name: t.pop(key))
                assert f"'{field.encode_name}' is missing" in said


@pytest.mark.parametrize("name", NAMES)
def test_a_value_of_another_type_is_refused(name: str) -> None:
    for place in places(name):
        for key in at(read(name), place):
            if key != "params":  # held against the check's own signature, in judge/bind.py
                said = refused(name, place, lambda t, key=key: t.update({key: [[[[]]]]}))
                assert key in said


def texts(name: str, place: Place) -> Iterator[str]:
    kind = type_at(loader(name), place)
    for field in getattr(kind, "fields", ()):
        if field.required and isinstance(field.type, msgspec.inspect.StrType):
            yield field.encode_name


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_text_is_refused(name: str) -> None:
    """Where a text must say something: all that are required, but for plain bounds."""
    for place in places(name):
        for key in texts(name, place):
            said = refused(name, place, lambda t, key=key: t.update({key: " "}))
            assert f"'{key}'" in said


@pytest.mark.parametrize("engine", profiles.table().engine)
def test_every_profile_is_whole(engine: str) -> None:
    """Fields of a profile may come from changes and from another engine, so they are held late."""
    from draftcheck.versions import ORDERS

    known = book.load(engine)
    for version in (known.oldest, known.checked):
        assert profiles.load(engine, version, ORDERS[known.versions]) is not None


def test_a_misspelt_habit_is_refused_wherever_it_stands() -> None:
    data = read("tables/memory")
    data["engine"]["vllm"]["change"][0]["fracton"] = 0.5
    with pytest.raises(RuleError) as caught:
        files.typed(data, profiles.MemoryFile, "memory.toml")
    message = caught.value.message
    assert message == "memory.toml [[engine.vllm.change]] 0.8.0: unknown field 'fracton'"


def test_the_misspelling_that_was_once_taken(tmp_path: Path) -> None:
    text = (RULES / "programs.toml").read_text(encoding="utf-8")
    path = tmp_path / "programs.toml"
    path.write_text(text.replace('positional = "target"', 'postional = "target"', 1))
    with pytest.raises(RuleError) as caught:
        files.typed(files.parse(path), programs.ProgramFile, path.name)
    assert caught.value.message == "programs.toml [[program]] vllm: unknown field 'postional'"


def test_the_page_about_rule_files_names_code_that_exists() -> None:
    """Types by file, parsers by function; and every rule file has its line."""
    page = (ROOT / "docs" / "rules-format.md").read_text(encoding="utf-8")
    package = ROOT / "draftcheck"
    modules = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", page)
    assert len(modules) > 12
    for name in modules:
        assert (package / name).is_file() or (ROOT / name).is_file(), name
    parsers = re.findall(r"\| `([a-z_/]+)\.(\w+)(?:\.(\w+))?`", page)
    assert len(parsers) > 9
    for module, *symbols in parsers:
        if symbols[0] in ("py", "toml"):
            continue
        code = (package / f"{module}.py").read_text(encoding="utf-8")
        for symbol in filter(None, symbols):
            assert re.search(rf"(def|class) {symbol}\b", code), (module, symbol)
    for name in NAMES:
        globs = re.findall(r"`([a-z*/-]+)\.toml`", page)
        assert any(fnmatch.fnmatch(name, glob) for glob in globs), name
