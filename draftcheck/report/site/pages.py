"""The pages as text, and how they come to lie in a folder."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftcheck import atomic
from draftcheck.errors import ReadError
from draftcheck.report import rulepages, rules
from draftcheck.report.layout import KNOWN_BY
from draftcheck.report.site import matrix, names, tables, views, words
from draftcheck.report.site.data import ORDER, SiteData
from draftcheck.rulebook import book
from draftcheck.scan.rows import ModelRow

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent / "templates"
MANIFEST = "files.json"
OURS = re.compile(r"(index|matrix|changes|rules|target-[a-z0-9-]+|rules-[a-z0-9-]+)\.html")
RANKED = 25
"""Drafts in the table of a target's page."""
MOST_NAMES = 200
"""Of one cause on a target's page."""


def write(site: SiteData, folder: Path) -> list[str]:
    """Write the site; pages of an earlier night that no longer exist are taken away."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = _earlier(folder)
        for name, text in render(site):
            atomic.write(folder / name, text.encode())
            written.append(name)
        for name in sorted(before - set(written)):
            (folder / name).unlink(missing_ok=True)
        manifest = json.dumps({"files": sorted(written)}, indent=1) + "\n"
        atomic.write(folder / MANIFEST, manifest.encode())
    except OSError as error:
        where = error.filename or folder
        raise ReadError(f"{where}: cannot be written: {error.strerror}") from error
    return written


def _earlier(folder: Path) -> set[str]:
    """Pages that an earlier run says it wrote; names that are not a page's are not believed."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {name for name in found if isinstance(name, str) and OURS.fullmatch(name)}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()


def render(site: SiteData) -> Iterator[tuple[str, str]]:
    """File name -> text, one page at a time."""
    pages = SitePages(site)
    yield "index.html", pages.index()
    yield "changes.html", pages.changes()
    yield "matrix.html", pages.matrix()
    drafts = {model.ref: model for model in site.drafts}
    for target in site.targets:
        yield names.page(target.ref), pages.target(target, drafts)
    rule_pages = rulepages.index()
    yield "rules.html", pages.page("rules", "rules.html", {"index": rule_pages}, "sort.js")
    for page in rule_pages:
        yield names.rules(page.id), pages.page("rules", "engine.html", {"page": page})
    yield "data.json", tables.as_json(site) + "\n"
    yield "pairs.csv", tables.as_csv(site)


class SitePages:
    """One site's pages, with what they share."""

    def __init__(self, site: SiteData) -> None:
        self.site = site
        self.environment = _environment()
        self.shared: dict[str, Any] = {
            "site": site,
            "verdict_words": [str(verdict) for verdict in ORDER],
            "rule_pages": names.rule_pages(),
            "target_pages": {model.ref: names.page(model.ref) for model in site.targets},
            "engine_pages": {name: names.rules(name) for name in book.engine_files()},
            "most": MOST_NAMES,
            "ranked": RANKED,
        }

    def page(self, here: str, template: str, values: dict[str, Any], *scripts: str) -> str:
        style = _asset("site.css") + (_asset("matrix.css") if here == "matrix" else "")
        texts = [_asset(name) for name in scripts]
        return self.environment.get_template(template).render(
            **self.shared,
            **values,
            here=here,
            style=_markup(style),
            style_hash=_markup(_hash(style)),
            scripts=[_markup(text) for text in texts],
            script_hashes=[_markup(_hash(text)) for text in texts],
        )

    def index(self) -> str:
        values = views.overview(self.site)
        values["chart"] = values["chart"] and _markup(values["chart"])
        return self.page("index", "index.html", values, "sort.js")

    def changes(self) -> str:
        earlier = [(scan, views.changes(found)) for scan, found in self.site.earlier]
        now = views.changes(self.site.changes)
        return self.page("changes", "changes.html", {"groups": now, "earlier": earlier})

    def matrix(self) -> str:
        data = _markup(matrix.script(matrix.data(self.site)))
        return self.page("matrix", "matrix.html", {"data": data}, "matrix.js")

    def target(self, model: ModelRow, drafts: dict[str, ModelRow]) -> str:
        values = views.target(self.site, model, drafts)
        values["charts"] = [_markup(chart) for chart in values["charts"]]
        return self.page("target", "target.html", values, "sort.js")


@cache
def _environment() -> Environment:
    # Imported here: only this command needs it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(words.FILTERS, told=views.told, rule_page=names.rules, url=names.hub_url)
    found.filters.update(
        window=rules.window, takes=rulepages.takes, known_by=lambda row: KNOWN_BY[row.basis]
    )
    return found


def _markup(text: str) -> Any:
    """Our own text that goes in as it is; nothing from a model comes this way unescaped."""
    from markupsafe import Markup

    return Markup(text)


@cache
def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    """What the page's policy lets through: this text and no other."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
