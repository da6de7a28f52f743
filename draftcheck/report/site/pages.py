"""The pages as text, and how they come to lie in a folder."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftcheck.report import badge, rules
from draftcheck.report.layout import KNOWN_BY
from draftcheck.report.site import tables, views, words, written
from draftcheck.report.site.data import ORDER, SiteData, SitePair, reasons, word
from draftcheck.rulebook import book
from draftcheck.scan.rows import ModelRow

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent / "templates"
OURS = re.compile(
    r"(index|matrix|changes|rules|target-[a-z0-9-]+|rules-[a-z0-9-]+)\.html"
    r"|api/pairs/[\w.-]+/[\w.-]+\.json|badges/[\w.-]+/[\w.-]+/[\w.-]+\.svg",
    re.ASCII,
)
REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
"""Names that are fit for files: a dot never comes first."""
RANKED = 25
"""Drafts in the table of a target's page."""
MOST_NAMES = 200
"""Of one cause on a target's page."""


def write(site: SiteData, folder: Path, *, checker: bool = False) -> list[str]:
    """Write the site; checker: its pages lead to the checker that lies beside them."""
    pages = render(site, checker=checker)
    written.put(folder, {name: partial(_encoded, text) for name, text in pages.items()}, OURS)
    return list(pages)


def _encoded(text: Callable[[], str]) -> bytes:
    return text().encode()


def render(site: SiteData, *, checker: bool = False) -> dict[str, Callable[[], str]]:
    """File name -> what makes its text, so that one page at a time is held."""
    pages = SitePages(site, checker=checker)
    drafts = {model.ref: model for model in site.drafts}
    rule_pages = rules.index()
    return {
        "index.html": pages.index,
        "changes.html": pages.changes,
        "matrix.html": pages.matrix,
        **{words.target_page(t.ref): partial(pages.target, t, drafts) for t in site.targets},
        "rules.html": partial(pages.page, "rules", "rules.html", {"index": rule_pages}, "sort.js"),
        **{
            words.rules_page(page.id): partial(pages.page, "rules", "engine.html", {"page": page})
            for page in rule_pages
        },
        "data.json": lambda: tables.as_json(site) + "\n",
        "pairs.csv": lambda: tables.as_csv(site),
        **{
            f"api/pairs/{target.ref}.json": partial(tables.target_json, site, target)
            for target in site.targets
            if REPO.fullmatch(target.ref)
        },
        **{
            badge_file(pair): partial(_badge, pair)
            for target in site.targets
            for pair in site.pairs.get(target.ref, ())[:RANKED]
            if REPO.fullmatch(pair.target) and REPO.fullmatch(pair.draft)
        },
    }


def badge_file(pair: SitePair) -> str:
    return f"badges/{pair.target}/{pair.draft.replace('/', '--')}.svg"


def _badge(pair: SitePair) -> str:
    found = [(a.engine, a.version) for a in pair.answers if a.verdict == pair.verdict]
    return badge.svg(pair.target, pair.draft, pair.verdict, found)


class SitePages:
    """One site's pages, with what they share."""

    def __init__(self, site: SiteData, *, checker: bool = False) -> None:
        self.site = site
        self.environment = _environment()
        self.shared: dict[str, Any] = {
            "site": site,
            "verdict_words": [str(verdict) for verdict in ORDER],
            "judged": {(pair.target, pair.draft) for pair in site.every()},
            "rule_pages": words.rule_pages(),
            "target_pages": {model.ref: words.target_page(model.ref) for model in site.targets},
            "engine_pages": {name: words.rules_page(name) for name in book.engine_files()},
            "most": MOST_NAMES,
            "ranked": RANKED,
            "checker": checker,
        }

    def page(self, here: str, template: str, values: dict[str, Any], *scripts: str) -> str:
        style = asset("site.css") + (asset("matrix.css") if here == "matrix" else "")
        texts = [asset(name) for name in scripts]
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
        return self.page("index", "index.html", views.overview(self.site), "sort.js")

    def changes(self) -> str:
        earlier = [(scan, views.changes(found)) for scan, found in self.site.earlier]
        now = views.changes(self.site.changes)
        return self.page("changes", "changes.html", {"groups": now, "earlier": earlier})

    def matrix(self) -> str:
        data = _markup(tables.script(tables.matrix(self.site)))
        return self.page("matrix", "matrix.html", {"data": data}, "matrix.js")

    def target(self, model: ModelRow, drafts: dict[str, ModelRow]) -> str:
        values = views.target(self.site, model, drafts)
        values["charts"] = [_markup(chart) for chart in values["charts"]]
        values["memory"] = values["memory"] and _markup(values["memory"])
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
    found.filters.update(words.FILTERS, by_verdict=views.by_verdict, word=word, reasons=reasons)
    found.globals["in_matrix"] = views.in_matrix
    found.filters.update(
        window=rules.window, takes=rules.takes, known_by=lambda row: KNOWN_BY[row.basis]
    )
    return found


def _markup(text: str) -> Any:
    """Our own text that goes in as it is; nothing from a model comes this way unescaped."""
    from markupsafe import Markup

    return Markup(text)


@cache
def asset(name: str) -> str:
    """A style sheet or a script of these pages."""
    return (FOLDER / name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    """What the page's policy lets through: this text and no other."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
