"""Numbers, names and file names as the pages write them.

Everything from a model is made visible first. Names of files stay the same night after night,
whatever a model is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from markupsafe import Markup, escape

from draftcheck.report.rules import TRUTH
from draftcheck.report.safe import safe, safe_block
from draftcheck.report.text import REACTIONS
from draftcheck.rulebook import book
from draftcheck.scan.rows import ModelRow
from draftcheck.settings import endpoint
from draftcheck.values.sizes import byte_size, short_count
from draftcheck.values.words import Reaction

LONGEST = 60
REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_ODD = re.compile(r"[^a-z0-9]+")
SHORT = 96
"""Letters of a name in a table; the Hub's own limit for one."""


def name(text: str, longest: int = SHORT) -> str:
    return safe(text, longest)


def _unless_unknown(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """A figure as text; nothing where there is none."""
    return lambda value: "" if value is None else write(value)


num = _unless_unknown("{:,}".format)
count = _unless_unknown(short_count)
"""A number of parameters."""
times = _unless_unknown("{:.2f}×".format)
decimal = _unless_unknown("{:.2f}".format)
percent = _unless_unknown(lambda value: f"{value:.0%}".replace("%", "\u00a0%"))
size = _unless_unknown(lambda value: byte_size(value).replace(" ", "\u00a0"))


def accepted(trial: Mapping[str, Any] | None) -> str:
    rate = (trial or {}).get("acceptance_rate")
    return percent(rate.get("value")) if isinstance(rate, Mapping) else ""


def moment(text: str | None, after: str | None = None) -> str:
    """A time stamp to the minute; after: without the day where it is the same."""
    if not text:
        return ""
    shown = safe(text.replace("T", " ")[:16], SHORT)
    if after and after[:10] == text[:10]:
        return shown[11:] + " UTC"
    return shown + " UTC"


def reaction(word: str) -> str:
    return REACTIONS[Reaction(word)] if word in set(Reaction) else safe(word, SHORT)


def words(text: str) -> str:
    """does-not-fit -> does not fit"""
    return safe(text.replace("-", " "), SHORT)


def sentence(text: str) -> str:
    """Starts with a capital, ends with a stop."""
    shown = safe(text)
    return shown[:1].upper() + shown[1:] + ("" if shown.endswith((".", "…")) else ".")


_UNBROKEN = Markup('<span class="w">{}</span>')
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\S)+""")


def command(text: str) -> Markup:
    """Lines of a shell; a narrow window breaks them between options, and never inside a word."""
    lines = []
    for line in safe_block(text).splitlines():
        options: list[list[Markup]] = []
        for match in _WORD.finditer(line):
            if match[0].startswith("-") or not options:
                options.append([])
            options[-1] += [_UNBROKEN.format(part) for part in match[0].split(" ")]
        told = (_UNBROKEN.format(Markup(" ").join(option)) for option in options)
        indent = escape(line[: len(line) - len(line.lstrip())])
        lines.append(
            Markup('<span class="command">{}{}</span>').format(indent, Markup(" ").join(told))
        )
    return Markup("").join(lines)


# ---- files and links ----


def ref_digest(ref: str) -> str:
    return sha256(ref.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def target_page(ref: str) -> str:
    """A target's page: readable letters of its name, and a digest that makes it its own."""
    slug = _ODD.sub("-", ref.lower())[:LONGEST].strip("-")
    return f"target-{slug}-{ref_digest(ref)}.html" if slug else f"target-{ref_digest(ref)}.html"


def hub_url(model: ModelRow) -> str | None:
    """Where people look at its files; only for a link."""
    at_hub = model.kind == "hub" and REPO.fullmatch(model.ref)
    return f"{endpoint()}/{model.ref}" if at_hub else None


def rules_page(engine: str) -> str:
    """An engine's rule page; engine names are ours."""
    return f"rules-{_ODD.sub('-', engine.lower())}.html"


@cache
def rule_pages() -> dict[str, str]:
    """Rule -> the page that explains it."""
    found = {rule.id: rules_page(TRUTH) for rule in book.truth()}
    for engine in book.engine_files():
        found |= {rule.id: rules_page(engine) for rule in book.load(engine).rules}
    return found


FILTERS = {
    "name": name, "text": safe, "num": num, "count": count, "times": times,
    "decimal": decimal, "percent": percent, "size": size, "accepted": accepted, "moment": moment,
    "reaction": reaction, "words": words, "sentence": sentence, "command": command,
    "rule_page": rules_page, "url": hub_url,
}  # fmt: skip
