"""python -m draftcheck, and the draftcheck command."""

import sys

from draftcheck.cli import main


def run() -> None:
    sys.exit(main())


if __name__ == "__main__":
    run()
