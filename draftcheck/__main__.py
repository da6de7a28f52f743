"""python -m draftcheck, and the draftcheck command."""

import gc
import sys

from draftcheck.cli import main, streams

OBJECTS = 50_000
"""New objects between two looks for cycles: most commands are done before one would pay."""


def run() -> None:
    gc.set_threshold(OBJECTS)
    streams.guard()
    code = main()
    gc.freeze()  # else the interpreter looks through everything again on its way out
    sys.exit(code)


if __name__ == "__main__":
    run()
