"""Who does the tasks: threads for what waits, processes for what computes. Ray is in ray.py."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol, TypeVar

from draftcheck.scan import tasks

A = TypeVar("A")
R = TypeVar("R")
Over = Callable[[], bool]
FEW = 8
"""Batches that are computed here rather than by processes that would have to start."""


class Runner(Protocol):
    """Does tasks, some at a time, and gives the results as they come."""

    def run(
        self, work: Callable[[A], R], items: Iterable[A], kind: str, over: Over
    ) -> Iterator[tuple[A, R]]:
        """kind: io, cpu or gpu; over: when it says so, no new task is begun."""
        ...

    def close(self) -> None:
        """End what was started for it."""


class LocalRunner:
    """Threads and processes of this machine."""

    def __init__(self, workers: int | None = None, connections: int = tasks.CONNECTIONS) -> None:
        self._cpus = workers or _cpus()
        self._connections = connections
        self.session = tasks.start(connections)
        self._pool: futures.ProcessPoolExecutor | None = None

    def run(
        self, work: Callable[[A], R], items: Iterable[A], kind: str, over: Over
    ) -> Iterator[tuple[A, R]]:
        """Waiting tasks in threads, a few computing ones here, many in processes."""
        source = iter(items)
        if kind == "io":
            with futures.ThreadPoolExecutor(self._connections) as threads:
                yield from self._results(threads, work, source, self._connections * 2, over)
            return
        first = list(islice(source, FEW)) if kind == "cpu" and self._cpus > 1 else []
        following = next(source, None) if len(first) == FEW else None
        if following is None:
            for item in first or source:
                if over():
                    return
                yield item, work(item)
            return
        rest = (item for part in (first, [following], source) for item in part)
        if self._pool is None:
            # Not forked: threads are running, and the store's lock must stay with this process.
            context = multiprocessing.get_context("spawn")
            self._pool = futures.ProcessPoolExecutor(self._cpus, context, initializer=_watch_parent)
        yield from self._results(self._pool, work, rest, self._cpus * 2, over)

    def _results(
        self, pool: Executor, work: Callable[[A], R], items: Iterator[A], ahead: int, over: Over
    ) -> Iterator[tuple[A, R]]:
        """As they come; never more than a few tasks ahead of what was asked for."""
        jobs: dict[futures.Future[R], A] = {}
        try:
            while True:
                while len(jobs) < ahead and not over() and (item := next(items, None)) is not None:
                    jobs[pool.submit(work, item)] = item
                if not jobs:
                    return
                done, _ = futures.wait(jobs, timeout=0.5, return_when=futures.FIRST_COMPLETED)
                if over():
                    self.session.budget.stopped.set()
                for job in done:
                    try:
                        result = job.result()
                    except tasks.ScanStopped:
                        del jobs[job]
                        continue
                    yield jobs.pop(job), result
        except BrokenProcessPool:
            # A worker died (killed, out of memory): its task is done here, where we can see why.
            self._pool = None
            for item in [*jobs.values(), *items]:
                if over():
                    return
                yield item, work(item)
        finally:
            for job in jobs:
                job.cancel()
            if jobs:
                self.session.budget.stopped.set()

    def close(self) -> None:
        """End the processes, without waiting for them."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _cpus() -> int:
    with suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _watch_parent() -> None:
    """A worker whose scan was killed ends, too."""
    parent = multiprocessing.parent_process()

    def watch(process: Any) -> None:
        process.join()
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, args=(parent,), daemon=True).start()
