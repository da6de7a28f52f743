"""The same tasks on a Ray cluster. Workers compute; only this process writes to the store."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from draftcheck.errors import ReadError, UsageError
from draftcheck.models.sources import progress
from draftcheck.scan import tasks
from draftcheck.settings import __version__

A = TypeVar("A")
R = TypeVar("R")
SETTINGS = ("HF_ENDPOINT", "HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_DISABLE_TELEMETRY")
"""What workers are told. No token: it would be kept by the cluster; workers log in themselves."""
NEEDS: dict[str, dict[str, float]] = {
    "io": {"num_cpus": 0.25},
    "cpu": {"num_cpus": 1},
    "gpu": {"num_cpus": 1, "num_gpus": 1},
}
RETRIES = 3
"""Workers that may die under one task before it counts as its fault."""
PATIENCE = 10.0


def open_cluster(
    address: str | None, connections: int = tasks.CONNECTIONS, workers: int | None = None
) -> Cluster:
    """Connect to a cluster, or start one of so many workers on this machine."""
    try:
        import ray
    except ImportError:
        raise UsageError(
            "--executor ray needs Ray", hint="pip install 'draftcheck-llm[ray]'"
        ) from None
    return Cluster(ray, address, connections, workers)


def count_requests(work: Callable[[A], R], item: A) -> tuple[R, int, int]:
    """Do a task in a worker; its result, and what it asked of the network."""
    tally = progress.NetworkTally
    requests, nbytes = tally.requests, tally.nbytes
    result = work(item)
    return result, tally.requests - requests, tally.nbytes - nbytes


def version() -> str:
    return __version__


def _answers(address: str | None) -> None:
    """Ray itself would wait for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise ReadError(
            f"no Ray cluster at {address}: {error!s:.200}",
            hint="ray start --head prints the address; ray alone starts one on this machine.",
        ) from None


class Cluster:
    """Tasks on workers; one that dies is replaced, and its task done by another."""

    def __init__(
        self, ray: Any, address: str | None, connections: int, workers: int | None
    ) -> None:
        self._ray = ray
        self.session = tasks.start(connections)
        environment = {name: os.environ[name] for name in SETTINGS if name in os.environ}
        _answers(address)
        try:
            ray.init(
                address=address or "local",
                include_dashboard=None if address else False,
                num_cpus=None if address else workers,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": environment} if environment else None,
            )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise ReadError(
                f"no Ray cluster at {address or 'this machine'}: {error!s:.200}"
            ) from error
        self._cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        remote_version = ray.get(ray.remote(num_cpus=0.25)(version).remote())
        if remote_version != __version__:
            self.close()
            raise UsageError(f"the cluster has draftcheck {remote_version}, this is {__version__}")

    def run(
        self, work: Callable[[A], R], items: Iterable[A], kind: str, over: Callable[[], bool]
    ) -> Iterator[tuple[A, R]]:
        """Some tasks ahead of what was asked for, each with what its kind needs."""
        needs = dict(NEEDS[kind])
        if "GPU" not in self._ray.cluster_resources():
            needs.pop("num_gpus", None)  # it would wait for ever
        remote = self._ray.remote(max_retries=RETRIES, **needs)(count_requests)
        ahead = 2 * int(self._cpus / NEEDS[kind]["num_cpus"])
        source = iter(items)
        jobs: dict[Any, A] = {}
        try:
            while True:
                while len(jobs) < ahead and not over() and (item := next(source, None)) is not None:
                    jobs[remote.remote(work, item)] = item
                if not jobs or over():
                    return
                ready, _ = self._ray.wait(list(jobs), timeout=0.5)
                for job in ready:
                    item = jobs.pop(job)
                    yield item, self._result(job, work, item)
        finally:
            for job in jobs:
                with suppress(Exception):
                    self._ray.cancel(job, force=True)

    def _result(self, job: Any, work: Callable[[A], R], item: A) -> R:
        errors = self._ray.exceptions
        try:
            result, requests, nbytes = self._ray.get(job)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError):
            return work(item)  # every worker died under it: here at least one sees why
        progress.NetworkTally.requests += requests
        progress.NetworkTally.nbytes += nbytes
        return result  # type: ignore[no-any-return]

    def close(self) -> None:
        self._ray.shutdown()
