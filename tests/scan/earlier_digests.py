"""Write scan/rules_digest.EARLIER anew: python -m tests.scan.earlier_digests CHECKOUT

CHECKOUT is a working tree of version 0.1.0. For every engine: the digest of today's rules and
code, and the one that a store of that version holds. To be run when today's verdicts are still
those of that version (tests/scan/test_golden_verdicts.py), and not later.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from draftcheck.rulebook import book
from draftcheck.scan import rules_digest

CODE = """
import json, sys
try:
    from draftcheck.scan.judging import rules_digest
except ImportError:
    from draftcheck.scan.rules_digest import rules_digest
print(json.dumps({name: rules_digest(name) for name in sys.argv[1:]}))
"""
TABLE = re.compile(r"^EARLIER: dict\[str, str\] = \{\n(?:    .*\n)*\}", re.MULTILINE)


def earlier(checkout: Path, engines: list[str]) -> dict[str, str]:
    """Engine -> the digest by the code of that checkout."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *engines],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    engines = list(book.engine_files())
    old = earlier(Path(sys.argv[1]), engines)
    rules_digest.EARLIER.clear()
    new = {name: rules_digest.rules_digest(name) for name in engines}
    rows = [f'    "{new[name]}": "{old[name]}",\n' for name in engines]
    path = Path(rules_digest.__file__)
    text = path.read_text(encoding="utf-8")
    table = f"EARLIER: dict[str, str] = {{\n{''.join(rows)}}}"
    path.write_text(TABLE.sub(lambda _: table, text, count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
