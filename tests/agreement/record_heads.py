"""Record what a real llama-server does with every pair of `head_cases.CASES`.

    python record_heads.py --server path/to/llama-server

Writes llamacpp-heads.jsonl next to this file: a header line, then one line a case.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from head_cases import CASES, Case, write
from record_llamacpp import ABORT, BASIC, clean, find, load_error, start, version

RECORDING = Path(__file__).with_name("llamacpp-heads.jsonl")
PROMPT = [101, 450, 599]
"""The last ids are those that a head with fewer tokens does not have."""
WHY_NOT = r"failed to initialize speculative|not eagle3|MTP requested|requires a draft context"


def arguments(case: Case, target: Path, draft: Path | None) -> list[str]:
    models = ["-m", str(target), *(["-md", str(draft)] if draft else [])]
    return models if case.method == "none" else [*models, "--spec-type", case.method]


def observe(server: Path, case: Case, folder: Path) -> dict:
    """Started, asked once, stopped: what became of it."""
    files = write(case, folder)
    run = start(server, arguments(case, *files), folder, prompt=PROMPT)
    found: dict = {"name": case.name, "reaction": "runs"}
    line = None
    if run.exit is not None:
        found["reaction"] = "crashes" if run.exit < 0 else "refuses"
        line = find(run.log, ABORT) if run.exit < 0 else load_error(run.log)
        line = line or find(run.log, WHY_NOT)
    elif not run.speculative:
        found["reaction"] = "ignores-draft"
        line = find(run.log, WHY_NOT)
    if run.request:
        found["request"] = run.request
        line = line or find(run.log, ABORT)
    if line:
        found["line"] = clean(line)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=Path, required=True)
    server = parser.parse_args().server.resolve()
    rows = [{"engine": "llama.cpp", "version": version(server), "arguments": BASIC}]
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(observe(server, case, Path(folder)))
        print(rows[-1], flush=True)
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    RECORDING.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
