"""Two nights over 30,000 listed repos, against a Hub on loopback: requests, memory, time.

python -m benchmarks.scan [REPOS]; counts are of the server, times are CPU seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.rows import Row, show
from draftcheck.scan.judging import JudgeTask, StoredModel, judge_pairs
from draftcheck.scan.store import ScanStore
from tests.hub import Hub, Virtual, models
from tests.hub.blobs import File, as_file
from tests.hub.words import tokenizer_json

LISTED, MODELS, DIGESTS, TARGETS = 30_000, 3_000, 200, 8
WORDS = 400
DELAY = 0.1
"""Seconds that the server takes to answer, on the first night."""
LARGE = {"hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 12,
         "num_attention_heads": 16, "num_key_value_heads": 4}  # fmt: skip
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
SCAN = """
import resource, sys
from draftcheck.cli import main
code = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(code, used.ru_utime + used.ru_stime, peak, file=sys.stderr)
"""


SHARED = {
    name: as_file(name, content)
    for name, content in models.checkpoint(SMALL, words=WORDS).items()
    if name not in ("config.json", "model.safetensors", "tokenizer.json")
}


def _files(shape: dict[str, int], number: int) -> dict[str, File]:
    """A model with files of its own, but for what everybody copies."""
    config = models.config(WORDS, **shape, _name_or_path=f"model {number}")
    rows = {**models.tensors(config), f"extra.{number}": ("F32", (1,))}
    return {
        **SHARED,
        "config.json": as_file("config.json", json.dumps(config)),
        "model.safetensors": models.safetensors(rows),
    }


class World:
    """A Hub of so many repos; one in ten has a vocabulary, and many share one."""

    def __init__(self, hub: Hub, listed: int) -> None:
        self.hub = hub
        hub.quotas.set(300.0, api=10**6, resolvers=10**6)  # else the scan would keep to them
        self.models = listed * MODELS // LISTED
        self.digests = max(2, listed * DIGESTS // LISTED)
        self.targets = [f"org/target-{number}" for number in range(min(TARGETS, self.digests))]
        vocabularies = [
            as_file("tokenizer.json", tokenizer_json(WORDS, seed)) for seed in range(self.digests)
        ]
        for number, name in enumerate(self.targets):
            files = {**_files(LARGE, number), "tokenizer.json": vocabularies[number]}
            hub.add_repo(name, files, downloads=10**6)
        for number in range(self.models - len(self.targets)):
            files = {**_files(SMALL, number), "tokenizer.json": vocabularies[number % self.digests]}
            hub.add_repo(f"org/model-{number}", files, downloads=number)
        readme = as_file("README.md", "# Not a language model\n")
        for number in range(listed - self.models):
            hub.add_repo(f"junk/repo-{number}", {"README.md": readme})

    @property
    def survivors(self) -> int:
        """Models that have the vocabulary of a target."""
        families = {repo.files["tokenizer.json"].etag for repo in self._of(self.targets)}
        names = [name for name in self.hub.repos if name.startswith("org/")]
        return sum(repo.files["tokenizer.json"].etag in families for repo in self._of(names))

    def _of(self, names: list[str]) -> list:  # type: ignore[type-arg]
        return [self.hub.repos[name] for name in names]

    def change(self) -> int:
        """One repo in a hundred gets a new commit; of models, every fifth new weights."""
        changed = 0
        config = models.config(WORDS, **{**SMALL, "num_hidden_layers": 3})
        weights = models.safetensors(models.tensors(config))
        for number, repo in enumerate(self.hub.repos.values()):
            if number % 100 == 50:
                new = {"README.md": f"# New words {number}\n"}
                if number % 500 == 50 and repo.id.startswith("org/model"):
                    new["model.safetensors"] = weights  # type: ignore[assignment]
                repo.commit(new, keep=True)
                changed += 1
        return changed


class Night:
    """One scan: what it cost the server and itself."""

    def __init__(self, world: World, home: Path, store: Path, delay: float = 0.0) -> None:
        world.hub.reset()
        if delay:
            world.hub.fault("delay", times=None, seconds=delay)
        named = [word for name in world.targets for word in ("--target", name)]
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", SCAN, "scan", *named, "--store", str(store), "--quiet"],
            env={**world.hub.env(home), "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            text=True,
            check=True,
        )
        self.wall = time.monotonic() - start
        code, cpu, peak = done.stderr.splitlines()[-1].split()
        if code != "0":
            raise SystemExit(done.stderr)
        print(done.stdout.splitlines()[0], file=sys.stderr)
        self.cpu, self.peak = float(cpu), int(peak) / 1024
        self.requests = world.hub.requests
        log = world.hub.log
        self.pages = sum(entry.path == "/api/models" for entry in log)
        self.files = sum("/revision/" in entry.path for entry in log)
        self.vocabularies = sum((entry.file or "").endswith("tokenizer.json") for entry in log)


def nights(listed: int, work: Path) -> list[Row]:
    store = work / "store.db"
    with Hub() as hub:
        world = World(hub, listed)
        home = work / "home"
        home.mkdir()
        one = Night(world, home, store, delay=DELAY)
        idle = Night(world, home, store)
        world.change()
        two = Night(world, home, store)
        heads = 5 * world.survivors  # config, tokenizer_config, address, two parts of a header
        allowed = listed / 1000 + world.models + 2 * world.digests + heads
    print(
        f"first night: {one.requests:,} requests ({one.pages} pages, {one.files:,} lists of files,"
        f" {one.vocabularies} vocabularies), {one.wall:.0f} s; second: {two.requests}",
        file=sys.stderr,
    )
    return [
        Row("requests, first night / what is allowed", one.requests, allowed, 1.0, ""),
        Row("lists of files / models", one.files, world.models, 1.0, ""),
        Row("vocabulary requests / distinct digests", one.vocabularies, world.digests, 1.02, ""),
        Row("requests, nothing new / pages of the list", idle.requests, one.pages, 1.0, ""),
        Row("requests, 1 % changed / first night", two.requests, one.requests, 0.02, ""),
        Row("peak memory, first night / 500 MB", one.peak, 500, 1.0, "MB"),
        Row(f"CPU / time, {DELAY * 1000:.0f} ms an answer", one.cpu, one.wall, 0.5, "s"),
        *judging(store),
    ]


def judging(path: Path) -> list[Row]:
    """Verdicts from stored facts on one core; the limit is seconds for a thousand."""
    with ScanStore.open(path, readonly=True) as store:
        pairs = [(v.target, v.draft) for v in store.verdicts() if v.draft is not None]
        known = {
            model.ref: StoredModel(model.ref, store.facts(model.facts))
            for model in store.models()
            if model.facts is not None
        }
    drafts: dict[str, list[str]] = {}
    for target, draft in dict.fromkeys(pairs):
        drafts.setdefault(target, []).append(draft or "")
    from draftcheck.rulebook import book

    asked = tuple(book.engine_files())
    tasks = [
        JudgeTask(known[target], tuple(known[d] for d in found), asked, {}, False)
        for target, found in drafts.items()
    ]
    judge_pairs(tasks[0])  # rules are read once
    start = time.process_time()
    count = sum(len(rows) for task in tasks for _, rows in judge_pairs(task))
    spent = time.process_time() - start
    return [Row(f"{count} verdicts from facts / 1,000 a second", spent, count / 1000, 1.0, "s")]


def folders(work: Path) -> tuple[Path, Path]:
    """A large model and a small one on this disk; weights take no room."""
    for name, shape in (("large", LARGE), ("small", SMALL)):
        for file, content in models.checkpoint(shape, words=WORDS).items():
            path = work / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Virtual):
                path.write_bytes(content.head)
                os.truncate(path, content.size)
            else:
                path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return work / "large", work / "small"


def main() -> int:
    listed = int(sys.argv[1]) if len(sys.argv) > 1 else LISTED
    with tempfile.TemporaryDirectory() as folder:
        return show(nights(listed, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
