"""python -m tests.fuzz: see the package."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.harness import CODES_SEEN, Case, generator, limit_process, run, shrunk
from tests.fuzz.surfaces import SURFACES

HANGS = 300
"""Wall seconds without a word from a worker: it hangs in code that no signal reaches."""


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("surfaces", nargs="*", metavar="SURFACE", help=", ".join(SURFACES))
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", type=int, default=None, help="only this one, with its input")
    parser.add_argument("--cases", type=int, default=None, help="of each surface")
    parser.add_argument("--minutes", type=float, default=None, help="over all surfaces")
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    found = parser.parse_args(words)
    for name in found.surfaces:
        if name not in SURFACES:
            parser.error(f"no surface {name}: {', '.join(SURFACES)}")
    return found


def main() -> int:
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    asked = parsed()
    names = asked.surfaces or list(SURFACES)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
    if asked.worker:
        return work(names[0], seed, asked.start, asked.cases, asked.until)
    if asked.case is not None:
        return show(names[0], seed, asked.case)
    print(f"seed {seed}", flush=True)
    failures = total = 0
    for name in names:
        share = asked.minutes * 60 / len(names) if asked.minutes else None
        cases = asked.cases or (10**9 if share else SURFACES[name].suite)
        done, wrong, codes = attack(name, seed, cases, share)
        seen = ", ".join(f"{how} x {count:,}" for how, count in sorted(codes.items()))
        print(f"{name}: {done:,} cases, {len(wrong)} failures ({seen})", flush=True)
        total += done
        failures += len(wrong)
    print(f"{total:,} cases, {failures} failures, seed {seed}")
    return 1 if failures else 0


def attack(
    name: str, seed: int, cases: int, seconds: float | None
) -> tuple[int, list[str], Counter[str]]:
    """Cases of a surface in processes of their own; one that dies is a failure, and goes on."""
    wrong: list[str] = []
    codes: Counter[str] = Counter()
    until = time.time() + seconds if seconds else None
    at = 0
    while at < cases and (until is None or time.time() < until):
        words = [sys.executable, "-m", "tests.fuzz", name, "--worker", f"--seed={seed}"]
        words += [f"--start={at}", f"--cases={cases}", f"--until={until or 0}"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in _lines(process):
                word, _, rest = line.partition(" ")
                if word == "case":
                    at = int(rest)
                elif word == "codes":
                    codes.update(json.loads(rest))
                elif word == "wrong":
                    wrong.append(rest)
                    print(f"  {name} --seed {seed} --case {at}: {json.loads(rest)}", flush=True)
        if process.returncode == 0:
            return at + 1, wrong, codes
        said = f"the process died with {process.returncode}"
        wrong.append(said)
        print(f"  {name} --seed {seed} --case {at}: {said}", flush=True)
        at += 1
    return at, wrong, codes


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    import threading

    assert process.stdout is not None
    timer = threading.Timer(HANGS, process.kill)
    timer.start()
    for line in process.stdout:
        timer.cancel()
        timer = threading.Timer(HANGS, process.kill)
        timer.start()
        yield line.rstrip("\n")
    timer.cancel()


def work(name: str, seed: int, start: int, cases: int, until: float | None) -> int:
    """Say each case before it is run, and what is wrong with it after."""
    with prepared() as folder:
        surface = SURFACES[name](folder / "shared")
        for number in range(start, cases):
            if until and time.time() > until:
                break
            print(f"case {number}", flush=True)
            case = surface.make(generator(name, seed, number))
            if found := run(case, folder / "case"):
                small, found = shrunk(case, folder / "case", found)
                text = f"{found}\n{described(small)}"
                print(f"wrong {json.dumps(text)}", flush=True)
        print(f"codes {json.dumps(CODES_SEEN)}", flush=True)
    return 0


def show(name: str, seed: int, number: int) -> int:
    with prepared() as folder:
        case = SURFACES[name](folder / "shared").make(generator(name, seed, number))
        found = run(case, folder / "case")
        if found:
            case, found = shrunk(case, folder / "case", found, tries=600)
        for command in case.commands:
            print("draftcheck", *command.arguments)
        print(found or "nothing wrong", described(case), sep="\n")
    return 1 if found else 0


def described(case: Case) -> str:
    data = case.files.get(case.damaged)
    return f"{case.damaged} of {len(data):,} bytes: {data[:1500]!r}" if data is not None else ""


@contextlib.contextmanager
def prepared() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name).resolve()
        (folder / "shared").mkdir()
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        limit_process()
        # Waiting is not what is tried here.
        time.sleep = _short(time.sleep)  # type: ignore[assignment]
        yield folder


def _short(sleep: object) -> object:
    def call(seconds: float) -> None:
        if not 0 <= seconds < 1e6:
            raise ValueError(f"a wait of {seconds} seconds")
        sleep(min(seconds, 0.01))  # type: ignore[operator]

    return call


if __name__ == "__main__":
    sys.exit(main())
