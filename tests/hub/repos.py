"""Repos, their commits and branches, and who may see them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.hub.blobs import File, as_file

Content = bytes | str | File
SHORT_SHA = re.compile(r"[0-9a-f]{7,39}")
DATE = "2026-11-01T12:00:00.000Z"


@dataclass(frozen=True)
class Commit:
    sha: str
    files: Mapping[str, File]
    title: str = "Upload"
    parent: str | None = None


@dataclass
class Repo:
    """A model repo; fields that are not about files are answered as they stand."""

    id: str
    gated: bool | str = False
    private: bool = False
    disabled: bool = False
    tags: tuple[str, ...] = ()
    downloads: int = 0
    likes: int = 0
    last_modified: str = DATE
    created_at: str = DATE
    extra: dict[str, Any] = field(default_factory=dict)
    """More fields of the info answer: config, gguf, safetensors, baseModels, pipeline_tag …"""
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    """Branch, tag or refs/pr/N -> commit."""

    @property
    def author(self) -> str:
        return self.id.split("/")[0]

    @property
    def sha(self) -> str:
        return self.refs["main"]

    @property
    def files(self) -> Mapping[str, File]:
        return self.commits[self.sha].files

    def commit(
        self,
        files: Mapping[str, Content],
        *,
        branch: str = "main",
        sha: str | None = None,
        keep: bool = False,
        remove: Iterable[str] = (),
    ) -> str:
        """A new commit on a branch (made when it is not there); keep: on top of the old files."""
        parent = self.refs.get(branch)
        new: dict[str, File] = dict(self.commits[parent].files) if keep and parent else {}
        new.update({name: as_file(name, content) for name, content in files.items()})
        for name in remove:
            new.pop(name, None)
        if sha is None:
            text = [self.id, branch, parent or "", str(len(self.commits))]
            text += [f"{name} {new[name].etag}" for name in sorted(new)]
            sha = hashlib.sha1("\n".join(text).encode()).hexdigest()
        self.commits[sha] = Commit(sha, new, parent=parent)
        self.refs[branch] = sha
        return sha

    def find(self, revision: str) -> Commit | None:
        """The commit of a branch, tag, refs/… name or sha, which may be cut short."""
        known = self.refs.get(revision.removeprefix("refs/heads/"), revision)
        if known not in self.commits and SHORT_SHA.fullmatch(known):
            known = next((sha for sha in self.commits if sha.startswith(known)), known)
        return self.commits.get(known)


@dataclass(frozen=True)
class Token:
    user: str
    repos: frozenset[str]
    """Gated and private repos that it opens; "*" opens all."""
    reads_gated: bool = True
    """Whether it has the right to public gated repos: fine-grained ones may lack it."""

    def opens(self, repo: Repo) -> bool:
        return "*" in self.repos or repo.id in self.repos or repo.author == self.user
