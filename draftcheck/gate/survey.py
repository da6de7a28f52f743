"""Files -> what is set up in them; the first step of `gate` and of `lock`. Judges nothing.

take() finds the root, reads its manifest, lists the files (all, named ones, or changed ones), and
looks into each that may be about an engine. Manifests of folders below the root add to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from draftcheck.deploy import discover, file_versions, leftovers
from draftcheck.deploy import find as deployments
from draftcheck.deploy.deployment import Contents, Deployment
from draftcheck.deploy.discover import KnownFolders
from draftcheck.deploy.file_versions import ImageLists, Versions
from draftcheck.deploy.kinds import DOCUMENTS, LANGUAGES, choose, is_test
from draftcheck.deploy.options import programs
from draftcheck.deploy.text import SourceText, decoded, searchable
from draftcheck.errors import ReadError
from draftcheck.gate import ignores, manifest
from draftcheck.gate.ignores import IgnoreComment
from draftcheck.gate.lock import format as locks
from draftcheck.gate.manifest import GateManifest, IgnoreTable
from draftcheck.gate.minimums import TrialDemand
from draftcheck.gate.results import gate_finding
from draftcheck.rulebook import file_rules
from draftcheck.values.findings import FilePlace, Finding
from draftcheck.values.words import Severity

NOT_TEXT = (
    ".png", ".jpg", ".jpeg", ".gif", ".webp", ".ico", ".pdf", ".svg", ".mp4", ".mp3", ".wav",
    ".zip", ".gz", ".xz", ".bz2", ".zst", ".whl", ".so", ".dll", ".exe", ".o", ".a", ".bin", ".pt",
    ".pth", ".safetensors", ".gguf", ".onnx", ".npy", ".npz", ".parquet", ".arrow", ".ttf",
    ".woff", ".woff2", ".csv", ".tsv", ".patch", ".diff", ".lock", ".map",
)  # fmt: skip
PROGRAMS = (".py", ".ipynb", *DOCUMENTS)
"""Reading these costs most, and without a word of speculation there is nothing in them."""


@dataclass(slots=True)
class SurveyedDeployment:
    """A deployment and what is asked of it."""

    deployment: Deployment
    paths: Mapping[str, str]
    versions: Mapping[str, str]
    gpu: str | None = None
    wanted: TrialDemand = field(default_factory=TrialDemand)


@dataclass(slots=True)
class SurveyedFile:
    """One file that is about an engine."""

    name: str
    data: bytes
    setups: list[SurveyedDeployment] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    ignores: list[IgnoreComment] = field(default_factory=list)
    recipes: int = 0
    """Of a document: the setups that it shows."""
    mentions: bool = False
    """Of a program in another language: it speaks of options that are in none of its setups."""
    manifest: GateManifest | None = None
    """Where it is one."""


@dataclass(slots=True)
class DeploySurvey:
    """What all files hold."""

    root: Path
    read: Callable[[str, bytes], SurveyedFile | None]
    """Reads a file once more, with other bytes than those on the disk."""
    looked_at: int = 0
    """Files in all."""
    files: list[SurveyedFile] = field(default_factory=list)
    """Those that are about an engine."""
    ignores: list[tuple[FilePlace, IgnoreTable]] = field(default_factory=list)
    """Of the manifests, whether they were looked at themselves or not."""
    unresolved: str | None = None
    """What the manifest at the root wants of what could not be checked: warn or fail."""


class Manifests:
    """The manifest of the root, and those of folders below it, which add to it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[Path, GateManifest] = {}
        self._near: dict[Path, tuple[GateManifest, ...]] = {}

    def of(self, folder: Path) -> tuple[GateManifest, ...]:
        """The nearest first."""
        if folder not in self._near:
            here = folder.resolve()
            above = [here, *here.parents]
            if self._root in above:
                above = above[: above.index(self._root) + 1]
            found = [place for place in above if (place / manifest.NAME).is_file()]
            self._near[folder] = tuple(self._load(place) for place in found)
        return self._near[folder]

    def root(self) -> GateManifest:
        inside = (self._root / manifest.NAME).is_file()
        return self._load(self._root) if inside else GateManifest()

    def _load(self, folder: Path) -> GateManifest:
        if folder not in self._known:
            name = discover.shown(folder / manifest.NAME)
            data = discover.read(str(folder / manifest.NAME), follow=True) or b""
            found = manifest.interpret(choose.read(data, name))
            paths = {path: self._from(folder, text) for path, text in found.paths.items()}
            self._known[folder] = replace(found, paths=paths)
        return self._known[folder]

    def _from(self, folder: Path, text: str) -> str:
        """What a path means is told from where the manifest stands."""
        there = text.startswith("../") or os.path.exists(folder / text)  # noqa: PTH110
        if folder == self._root or not there:
            return text
        return Path(os.path.relpath(folder / text, self._root)).as_posix()

    def paths(self, folder: Path) -> Mapping[str, str]:
        return {k: v for each in reversed(self.of(folder)) for k, v in each.paths.items()}

    def versions(self, folder: Path) -> Mapping[str, str]:
        return {k: v for each in reversed(self.of(folder)) for k, v in each.gate.versions.items()}

    def gpu(self, folder: Path) -> str | None:
        return next((each.gate.gpu for each in self.of(folder) if each.gate.gpu), None)


def take(
    paths: Sequence[str], diff_base: str | None, versions: Mapping[str, str] | None = None
) -> DeploySurvey:
    """Look at these files, or at all that are here."""
    root = _root(paths)
    manifests, folders = Manifests(root), KnownFolders(root)
    names = _names(paths, diff_base, root, manifests.root())
    lists = cache(lambda: ImageLists.at(root))
    survey = DeploySurvey(
        root,
        lambda name, data: _file(name, data, folders, manifests, versions or {}, lists),
        ignores=list(manifests.root().ignores),
        unresolved=manifests.root().gate.unresolved,
    )
    explicit = {discover.shown(Path(path)) for path in paths}
    whole = discover.shown(root / manifest.NAME)
    if whole not in names and manifests.root().findings:  # it is read, so it must be right
        survey.files.append(SurveyedFile(whole, b"", findings=list(manifests.root().findings)))
    for name in names:
        file = _look(name, name in explicit, survey)
        if file is not None:
            survey.files.append(file)
            own = file.manifest.ignores if file.manifest is not None else ()
            survey.ignores += [entry for entry in own if entry not in survey.ignores]
    # A file of options that a command names is judged with it; alone it names no target.
    named = {name for f in survey.files for setup in f.setups for name in setup.deployment.configs}
    for setup in (setup for f in survey.files if f.name in named for setup in f.setups):
        if setup.deployment.target is None:
            setup.deployment = replace(setup.deployment, speculates=False, unknown=())
    return survey


def file_times(paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    """When each file was written that a run may look at, and its size."""
    root = _root(paths)
    names = {
        *discover.here(Path()),
        *discover.named([path for path in paths if Path(path).exists()]),
    }
    names |= {discover.shown(root / name) for name in (manifest.NAME, locks.NAME)}
    found = {}
    for name in names:
        with suppress(OSError):
            info = Path(name).stat()
            found[name] = (info.st_mtime_ns, info.st_size)
    return found


def _root(paths: Sequence[str]) -> Path:
    """Of the current folder, or of the first file where that lies elsewhere."""
    root = discover.root(Path())
    if not paths:
        return root
    try:
        place = Path(paths[0]).resolve()
    except (OSError, RuntimeError):  # a link that leads to itself
        return root
    if place.is_relative_to(root):
        return root
    return discover.root(place if place.is_dir() else place.parent)


def _names(
    paths: Sequence[str], diff_base: str | None, root: Path, found: GateManifest
) -> list[str]:
    """The manifest and the lock are about everything: who names one of them means all files."""
    names = discover.named(paths) if paths else None
    if diff_base is not None:
        changed = set(discover.changed(diff_base))
        # Files that a requirements, lock or .env file above them says something about count too.
        folders = {
            folder
            for folder, _, base in (name.rpartition("/") for name in changed)
            if base in (discover.ENV_FILE, *file_versions.LOCKS)
            or file_versions.REQUIREMENTS.fullmatch(base)
        }
        for name in discover.here(Path()) if folders else ():
            if any(not folder or name.startswith(f"{folder}/") for folder in folders):
                changed.add(name)
        names = sorted(changed if names is None else changed & set(names))
    if names is not None and not paths and _about_all(names):
        names = None
    if names is not None and paths and _about_all(paths):
        names = list(dict.fromkeys([*names, *discover.here(Path())]))
    if names is None:
        names = discover.here(Path())
    return list(discover.wanted(names, root, found.gate.include, found.gate.exclude))


def _about_all(names: Sequence[str]) -> bool:
    return bool({manifest.NAME, locks.NAME} & {discover.shown(Path(name)) for name in names})


def _look(name: str, explicit: bool, survey: DeploySurvey) -> SurveyedFile | None:
    if not choose.could(name):
        survey.looked_at += 1
        told = None if name.lower().endswith(NOT_TEXT) else _of_no_kind(name)
        return survey.read(name, told) if told is not None else None
    try:
        data = discover.read(name, follow=explicit)
    except ReadError as error:
        place = FilePlace(name, 1)
        survey.looked_at += 1
        return SurveyedFile(name, b"", findings=[gate_finding("GAT001", place, error.message)])
    if data is None:
        return None
    survey.looked_at += 1
    return survey.read(name, data)


def _of_no_kind(name: str) -> bytes | None:
    """A text that is of no kind and holds an option that one engine alone has."""
    try:
        data = discover.read(name, follow=False) or b""
    except ReadError:
        return None
    return data if programs.signed(data) and b"\0" not in data[:1024] else None


def _speaks(name: str, data: bytes) -> bool:
    """Whether a file without a setup has options of drafts that no engine here is known by."""
    return (
        not name.lower().endswith((*DOCUMENTS, *LANGUAGES, ".ipynb"))
        and not is_test(name.lower())
        and programs.spoken(searchable(data))
        and b"\0" not in data[:1024]
        and leftovers.speaks(SourceText(name, decoded(data).text))
    )


def _file(
    name: str,
    data: bytes,
    folders: KnownFolders,
    manifests: Manifests,
    said: Mapping[str, str],
    lists: Callable[[], ImageLists],
) -> SurveyedFile | None:
    """What a file of these bytes holds; None: nothing about an engine."""
    if not choose.might(data, name) or (name.endswith(PROGRAMS) and not _speculates(data)):
        return None
    contents = choose.read(data, name, discover.variables(name, folders))
    if contents is None:  # of no kind, though its name could be one's
        speaks = programs.signed(searchable(data)) and b"\0" not in data[:1024]
        return SurveyedFile(name, data, mentions=True) if speaks or _speaks(name, data) else None
    marked = ignores.MARK in searchable(data)
    if contents.empty and not marked and not programs.signed(searchable(data)):
        return SurveyedFile(name, data, mentions=True) if _speaks(name, data) else None
    file = SurveyedFile(name, data)
    folder = Path(name).parent
    paths, versions = manifests.paths(folder), {**manifests.versions(folder), **said}
    gpu = manifests.gpu(folder)
    beside = folders.beside(name)
    around = Versions(contents, beside, name, data, versions, lists)
    found_here = deployments.find(contents, beside, around)
    if name.lower().endswith(DOCUMENTS) and not manifests.root().gate.markdown:
        # What a document shows is a note at most, and its models need not be locked.
        shown = manifests.root().gate.markdown is None
        about = [f for each in found_here for f in each.findings if shown]
        file.findings += [replace(f, severity=Severity.NOTE) for f in about]
        file.recipes = sum(each.speculates for each in found_here) if shown else 0
        return file
    for deployment in found_here:
        known = _named_in_manifest(deployment, paths)
        file.setups.append(SurveyedDeployment(known, paths, versions, gpu))
    if Path(name).name == manifest.NAME:
        found = file.manifest = manifest.interpret(contents)
        file.findings += found.findings
        versions, gpu = {**found.gate.versions, **said}, found.gate.gpu or gpu
        for deployment, wanted in found.pairs:
            file.setups.append(SurveyedDeployment(deployment, paths, versions, gpu, wanted))
    elif _troubled(file, contents):
        about = [gate_finding("GAT001", each.place, each.text) for each in contents.troubles]
        speaks = name.endswith(PROGRAMS) or programs.signed(searchable(data))
        if not file.setups and speaks:  # of options; or a newer Python was meant
            about = [replace(finding, severity=Severity.NOTE) for finding in about]
        file.findings += about
    file.mentions = contents.mentions or (
        not any(each.speculates or each.findings for each in found_here) and _speaks(name, data)
    )
    if marked:
        file.ignores = ignores.find(decoded(data).text, name)
    return file


def _named_in_manifest(deployment: Deployment, paths: Mapping[str, str]) -> Deployment:
    """The same; names that only a server resolves are known where [paths] says what they mean."""
    words = {"target": deployment.target, "draft": deployment.draft}
    told = {
        side: word for side, word in words.items() if word and word.unknown and word.text in paths
    }
    places = {word.place for word in told.values()}
    unknown = tuple(each for each in deployment.unknown if each.place not in places)
    sides: dict[str, Any] = {side: replace(word, unknown=None) for side, word in told.items()}
    return replace(deployment, unknown=unknown, **sides) if told else deployment


def _troubled(file: SurveyedFile, contents: Contents) -> bool:
    """Whether what was not understood may be about speculation, not a script of any other kind."""
    if not contents.troubles:
        return False
    if contents.commands and not file.setups and not contents.documents:
        return programs.signed(searchable(file.data))
    return _speculates(file.data)


def _speculates(data: bytes) -> bool:
    return any(map(searchable(data).lower().__contains__, _speculation_words()))


@cache
def _speculation_words() -> tuple[bytes, ...]:
    """Words without which a file has nothing to do with speculation."""
    return tuple(word.encode() for word in file_rules.speculation_words())
