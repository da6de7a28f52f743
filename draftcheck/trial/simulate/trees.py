"""Static trees: several guesses per place, checked in one pass.

A node is a path of ranks: (0, 2) is the draft's third choice after its first. A pass accepts
the longest path in the tree along which the target's tokens have those ranks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from draftcheck.errors import ReadError
from draftcheck.trial import strict_json
from draftcheck.trial.simulate.passes import Drafts
from draftcheck.trial.simulate.traces import Ints, JoinedTraces
from draftcheck.trial.speedup import LONGEST

MAX_NODES = 512
MAX_RANK = 64
"""Ranks are told apart up to here."""

MAX_BYTES = 1 << 20
WHAT = "a tree: a list of rank paths, such as [[0], [0, 0], [1]]"

Rank = tuple[int, ...]
TreeFile = list[Annotated[list[int], Meta(min_length=1)]]


@dataclass(frozen=True, slots=True)
class DraftTree:
    name: str
    paths: tuple[Rank, ...]

    @property
    def nodes(self) -> int:
        return len(self.paths)

    @property
    def levels(self) -> int:
        return max((len(path) for path in self.paths), default=0)


def make(name: str, paths: Iterable[Sequence[int]]) -> DraftTree:
    """A sound tree: every path's beginnings are in it too."""
    closed: set[Rank] = set()
    for path in paths:
        if len(path) > LONGEST:
            raise ReadError(f"{name}: a path has more than {LONGEST} levels")
        if any(not 0 <= rank < MAX_RANK for rank in path):
            raise ReadError(f"{name}: a rank must be from 0 to {MAX_RANK - 1}")
        closed |= {tuple(path[:end]) for end in range(1, len(path) + 1)}
    if not 0 < len(closed) <= MAX_NODES:
        raise ReadError(f"{name}: {len(closed):,} nodes; 1 to {MAX_NODES} work")
    return DraftTree(name, tuple(sorted(closed, key=lambda path: (len(path), path))))


def load(file: Path) -> DraftTree:
    """A user's tree: a JSON list of rank paths, as Medusa's mc_sim trees are written."""
    found = strict_json.load(file, WHAT, MAX_BYTES)
    return make(file.stem, strict_json.convert(found, TreeFile, str(file), WHAT))


def drafts(line: JoinedTraces, tree: DraftTree) -> Drafts:
    accepted = np.minimum(depth(line.rank, tree), line.room)
    return Drafts(accepted, np.where(line.room > 0, tree.nodes, 0), tree.levels)


def depth(rank: Ints, tree: DraftTree) -> Ints:
    """At each place, how far the ranks of a draft from there on follow a path of the tree."""
    # Node x rank -> child node, or -1; node 0 is the root.
    numbers = {(): 0, **{path: i + 1 for i, path in enumerate(tree.paths)}}
    children = np.full((len(numbers), MAX_RANK), -1, dtype=np.int64)
    for path in tree.paths:
        children[numbers[path[:-1]], path[-1]] = numbers[path]
    reached = np.zeros(len(rank), dtype=np.int64)
    here = np.arange(len(rank))  # places that are still on a path
    node = np.zeros(len(rank), dtype=np.int64)
    for level in range(tree.levels):
        ranks = rank[here, level]
        node = np.where(ranks < MAX_RANK, children[node, np.minimum(ranks, MAX_RANK - 1)], -1)
        here, node = here[node >= 0], node[node >= 0]
        reached[here] = level + 1
    return reached


def best_of_each(line: JoinedTraces, budgets: Sequence[int]) -> list[DraftTree]:
    """For each number of nodes the tree that accepts most, over all places of the traces.

    A tree accepts, on average, the sum over its nodes of how often the target takes their path;
    a path is never taken more often than its beginning, so the most frequent paths are a tree.
    """
    order = _most_frequent(line, min(max(budgets), MAX_NODES)) or [(0,)]
    return [make(f"best of {nodes}", order[:nodes]) for nodes in budgets]


def _most_frequent(line: JoinedTraces, count: int) -> list[Rank]:
    """The paths that the target takes most often, the most frequent first."""
    heap: list[tuple[int, Rank]] = []
    # Nothing is drafted at the first token.
    places: dict[Rank, Ints] = {(): np.delete(np.arange(len(line.rank)), line.begins - 1)}

    def offer(path: Rank) -> None:
        """Put the children of a path up for choice."""
        here = places.pop(path)
        ahead = np.where(line.room[here] > len(path), line.rank[here, len(path)], MAX_RANK)
        counts = np.bincount(ahead[ahead < MAX_RANK], minlength=1)
        for rank in np.flatnonzero(counts):
            child = (*path, int(rank))
            places[child] = here[ahead == rank]
            heapq.heappush(heap, (-int(counts[rank]), child))

    offer(())
    chosen: list[Rank] = []
    while heap and len(chosen) < count:
        _, path = heapq.heappop(heap)
        chosen.append(path)
        if len(path) < LONGEST:
            offer(path)
    return chosen
