"""The pages as text, and how they come to lie in a folder."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftcheck import atomic
from draftcheck.errors import ReadError
from draftcheck.report import rules
from draftcheck.report.layout import KNOWN_BY
from draftcheck.report.site import badges, tables, views, words
from draftcheck.report.site.data import ORDER, SiteData, SitePair
from draftcheck.rulebook import book
from draftcheck.scan.rows import ModelRow

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent / "templates"
MANIFEST = "files.json"
OURS = re.compile(
    r"(index|matrix|changes|rules|target-[a-z0-9-]+|rules-[a-z0-9-]+)\.html"
    r"|api/pairs/[\w.-]+/[\w.-]+\.json|badges/[\w.-]+/[\w.-]+/[\w.-]+\.svg",
    re.ASCII,
)
REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
"""Names that are fit for files: a dot never comes first."""
LONGEST = 16 << 20
FOREIGN = "Move it away, or name another --output."
RANKED = 25
"""Drafts in the table of a target's page."""
MOST_NAMES = 200
"""Of one cause on a target's page."""


def write(site: SiteData, folder: Path) -> list[str]:
    """Write the site; pages of an earlier night are replaced, or taken away. Other files are not.

    The list of pages is written before them and after them: a night that is killed in between
    leaves none that the next one would not know for its own.
    """
    pages = render(site)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = _earlier(folder)
        for name in (*pages, MANIFEST):
            if name not in before and os.path.lexists(folder / name):
                raise ReadError(f"{folder / name}: not a file of draftcheck report", hint=FOREIGN)
        _list(folder, before | set(pages))
        for name, text in pages.items():
            _inside(folder, name)
            atomic.write(folder / name, text().encode())
        for name in sorted(before - set(pages)):
            if OURS.fullmatch(name):  # a list is a file like any other
                _inside(folder, name)
                (folder / name).unlink(missing_ok=True)
        _list(folder, set(pages))
    except OSError as error:
        where = error.filename or folder
        raise ReadError(f"{where}: cannot be written: {error.strerror}") from error
    return list(pages)


def _inside(folder: Path, name: str) -> None:
    """Make the folders of a file; a link among them would lead elsewhere."""
    here = folder
    for part in name.split("/")[:-1]:
        here /= part
        if here.is_symlink():
            raise ReadError(f"{here}: a link, not a folder of draftcheck report", hint=FOREIGN)
        here.mkdir(exist_ok=True)


def _list(folder: Path, names: set[str]) -> None:
    manifest = json.dumps({"files": sorted(names - {MANIFEST})}, indent=1) + "\n"
    atomic.write(folder / MANIFEST, manifest.encode())


def _earlier(folder: Path) -> set[str]:
    """Files that an earlier run says it wrote, the list of them included."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            found = json.loads(file.read(LONGEST))["files"]
        return {MANIFEST, *(name for name in found if isinstance(name, str))}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()


def render(site: SiteData) -> dict[str, Callable[[], str]]:
    """File name -> what makes its text, so that one page at a time is held."""
    pages = SitePages(site)
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
            badge_file(pair): partial(badges.badge, pair)
            for target in site.targets
            for pair in site.pairs.get(target.ref, ())[:RANKED]
            if REPO.fullmatch(pair.target) and REPO.fullmatch(pair.draft)
        },
    }


def badge_file(pair: SitePair) -> str:
    return f"badges/{pair.target}/{pair.draft.replace('/', '--')}.svg"


class SitePages:
    """One site's pages, with what they share."""

    def __init__(self, site: SiteData) -> None:
        self.site = site
        self.environment = _environment()
        self.shared: dict[str, Any] = {
            "site": site,
            "verdict_words": [str(verdict) for verdict in ORDER],
            "rule_pages": words.rule_pages(),
            "target_pages": {model.ref: words.target_page(model.ref) for model in site.targets},
            "engine_pages": {name: words.rules_page(name) for name in book.engine_files()},
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
        data = _markup(tables.script(tables.matrix(self.site)))
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
    found.filters.update(words.FILTERS, told=views.told)
    found.filters.update(
        window=rules.window, takes=rules.takes, known_by=lambda row: KNOWN_BY[row.basis]
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
