"""Nights over all text-generation models of a Hub of millions, on loopback, lists only.

python -m benchmarks.million [ROWS …] (default 100000 300000 1000000); prints JSON. For each size a
first night and the next one, when one repo in a hundred has a new commit; then a smaller night with
candidates, for what each of them costs. CPU and memory are those of the scan, never of the Hub,
which makes its rows up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.scan import SCAN
from tests.hub.many import STRANGER, TASK, ManyRepos
from tests.scan.world import TARGET, checkpoint

SIZES = (100_000, 300_000, 1_000_000)
WITH_CANDIDATES = (60_000, 6)
"""Rows, and how many of them there are to a candidate."""


def night(hub: ManyRepos, home: Path, store: Path) -> dict[str, Any]:
    """One scan: what it asked, and what it cost."""
    hub.reset()
    arguments = ["scan", "--target", TARGET, "--filter", TASK, "--limit", "all", "--workers", "1"]
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", SCAN, *arguments, "--store", str(store), "--quiet"],
        env={**hub.env(home), "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=True,
    )
    wall = time.monotonic() - start
    code, cpu, peak = done.stderr.splitlines()[-1].split()
    if code != "0":
        raise SystemExit(done.stderr)
    pages = sum(entry.path == "/api/models" for entry in hub.log)
    figures = {
        "requests": hub.requests,
        "pages": pages,
        "received_MB": round(hub.body_bytes / 1e6, 1),
        "cpu_s": round(float(cpu), 1),
        "wall_s": round(wall, 1),
        "peak_MB": round(int(peak) / 1024, 1),
        "store_bytes": sum(path.stat().st_size for path in store.parent.glob(f"{store.name}*")),
    }
    print(f"{done.stdout.splitlines()[0]}; {figures}", file=sys.stderr)  # it may take an hour
    return figures


def nights(rows: int, candidate_every: int = 0) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, ManyRepos(rows, candidate_every) as hub:
        home = Path(folder) / "home"
        home.mkdir()
        hub.add_repo(TARGET, checkpoint(large=True))
        hub.add_repo("org/draft", checkpoint())
        hub.add_repo(STRANGER, checkpoint(seed=1))
        store = Path(folder) / "scan.db"
        first = night(hub, home, store)
        hub.change()
        following = night(hub, home, store)
    return {
        "rows": rows,
        "candidates": rows // candidate_every if candidate_every else 0,
        "first_night": first,
        "next_night": following,
        "next_night_share": {
            name: round(following[name] / first[name], 4) for name in ("requests", "cpu_s")
        },
        "store_bytes_per_row": round(first["store_bytes"] / rows),
    }


def main() -> int:
    sizes = [int(word) for word in sys.argv[1:]]
    found = [nights(rows) for rows in sizes or SIZES]
    if not sizes:
        found.append(nights(*WITH_CANDIDATES))
    print(json.dumps({"task": TASK, "nights": found}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
