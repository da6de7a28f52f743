"""draftcheck web FOLDER"""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from draftcheck.cli.help import HelpCommand
from draftcheck.cli.options import runtime_options


@click.command("web", cls=HelpCommand)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@runtime_options
def command(folder: Path, runtime: Path | None, storage: tuple[str, ...]) -> int:
    """Write the checker as a static site into FOLDER: the same answers in a browser.

    Any static host will do, below any path. Python, this package and the rules lie in the folder
    (15 MB); the page asks nobody but its own host and the Hub (HF_ENDPOINT, when it is written).
    """
    from draftcheck.report.safe import safe
    from draftcheck.values.sizes import byte_size
    from draftcheck.web import site
    from draftcheck.web.runtime import load

    size = site.write(folder, load(runtime), storage=storage)
    look = f"python -m http.server -d {shlex.quote(str(folder))}"
    click.echo(f"{byte_size(size)}; to look at it: {safe(look)}", err=True)
    click.echo(safe(str(folder / "index.html")))
    return 0
