"""draftcheck cache"""

from __future__ import annotations

from pathlib import Path

import click

from draftcheck.cli.options import emit, report_options


@click.command("cache")
@click.option("--clear", is_flag=True, help="Remove everything that is in it.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@report_options("text", "json")
def command(clear: bool, as_json: bool, form: str, output: Path | None) -> int:
    """Look at what draftcheck keeps of models on the Hub, or clear it.

    It is kept by content in the user's cache folder (DRAFTCHECK_CACHE names another one), up to
    4 GiB (DRAFTCHECK_CACHE_LIMIT); what was not used for longest goes first.
    """
    from draftcheck import settings
    from draftcheck.models.sources.hub.cache import HubCache
    from draftcheck.report import cache as report

    store = HubCache(settings.cache(), settings.cache_limit())
    cleared = store.clear() if clear else None
    found = report.survey(store, cleared)
    emit(report.FORMATS["json" if as_json else form](found), output)
    return 0
