"""draftcheck known TARGET [DRAFT]"""

from __future__ import annotations

from pathlib import Path

import click

from draftcheck.cli.help import ENGINE, HelpCommand, cached_models
from draftcheck.cli.options import FILE, emit, report_options


@click.command("known", cls=HelpCommand)
@click.argument("target", required=False, shell_complete=cached_models)
@click.argument("draft", required=False, shell_complete=cached_models)
@click.option(
    "--for",
    "work",
    type=click.Choice(["code", "maths", "chat", "long"]),
    help="Best first for this kind of work.",
)
@click.option(
    "--engine", type=ENGINE, metavar="NAME", help="Only what was named or measured for this engine."
)
@click.option("--left-out", is_flag=True, help="List collected rows that are not used, and why.")
@click.option("--check", is_flag=True, help="Check every row of rules/evidence; exit 1 on faults.")
@click.option("--profile", type=FILE, help="Write the best figure by position to this profile.")
@report_options("text", "json", "markdown")
def command(
    target: str | None,
    draft: str | None,
    work: str | None,
    engine: str | None,
    left_out: bool,
    check: bool,
    profile: Path | None,
    form: str,
    output: Path | None,
) -> int:
    """Show published acceptance and publishers' pairs for TARGET, with their sources.

    Nothing is read but draftcheck's own tables: names match across quantisations, no model is
    opened and nobody is asked. TARGET may also be a speculation_profile.json: what it says, and
    how to try an engine with a draft of that acceptance before there is one.
    """
    from draftcheck.evidence import check as rows
    from draftcheck.evidence import known, profiles, published
    from draftcheck.report import known as report

    if check:
        faults = list(rows.faults())
        count = len(published.figures()) + len(published.pairs())
        emit("\n".join([f"{len(faults)} faults in {count} rows", *faults]), output)
        return int(bool(faults))
    if left_out:
        emit(report.left_out(published.left_out()), output)
        return 0
    if not target:
        raise click.UsageError("Missing argument 'TARGET'.")
    if target.endswith(".json"):
        read = profiles.load(Path(target))
        emit(report.PROFILE[form](read, target), output)
        return 0
    ways = known.ways(target, draft, work=work, engine=engine)
    if profile is not None:
        known.profile(ways).write(profile)
    emit(report.FORMATS[form](report.KnownAnswer(target, draft, work, ways)), output)
    return 0 if ways else 3
