"""draftcheck cache"""

from __future__ import annotations

from dataclasses import dataclass

import click

from draftcheck.cli.help import HelpCommand
from draftcheck.cli.options import ReportOptions, emit, parsed_into, report_options


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRequest:
    """What `draftcheck cache` is asked."""

    clear: bool
    as_json: bool
    report: ReportOptions


@click.command("cache", cls=HelpCommand)
@click.option("--clear", is_flag=True, help="Remove everything that is in it.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@report_options("text", "json")
@parsed_into(CacheRequest)
def command(request: CacheRequest) -> int:
    """Look at what draftcheck keeps of models on the Hub, or clear it.

    It is kept by content in the user's cache folder (DRAFTCHECK_CACHE names another one), up to
    4 GiB (DRAFTCHECK_CACHE_LIMIT); what was not used for longest goes first.
    """
    from draftcheck import settings
    from draftcheck.models.sources.hub.cache import HubCache
    from draftcheck.report import cache as report

    store = HubCache(settings.cache(), settings.cache_limit())
    cleared = store.clear() if request.clear else None
    contents = report.survey(store, cleared)
    form = "json" if request.as_json else request.report.form
    emit(report.FORMATS[form](contents), request.report.output)
    return 0
