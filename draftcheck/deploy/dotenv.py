"""The .env beside a compose file: docker compose fills its variables in, so we do."""

from __future__ import annotations

import re
from collections.abc import Mapping

from draftcheck.deploy.neighbours import Neighbours
from draftcheck.deploy.text import decoded

NAME = ".env"
MOST = 1 << 14
"""Characters of a value."""
_LINE = re.compile(
    r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*"
    r"(?:'(?P<plain>[^'\n]*)'|\"(?P<quoted>[^\"\\\n]*)\"|(?P<bare>[^'\"\n][^\n]*|))[ \t]*(?:#.*)?"
)
_COMMENT = re.compile(r"(?:^|[ \t])#.*")


def beside(name: str, near: Neighbours) -> Mapping[str, str]:
    """The variables for a compose file, from the .env in its own folder."""
    if "compose" not in name.rpartition("/")[2].lower():
        return {}
    if NAME not in near.names or near.far(NAME):
        return {}
    return values(near.read(NAME) or b"")


def values(data: bytes) -> Mapping[str, str]:
    """Names and values; one that is made of other variables is left out: it is not known."""
    found: dict[str, str] = {}
    for line in decoded(data).text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        plain = match["plain"]
        text = plain if plain is not None else match["quoted"]
        if text is None:
            text = _COMMENT.sub("", match["bare"]).strip()
        if len(text) > MOST or (plain is None and "$" in text):
            found.pop(match["name"], None)
        else:
            found[match["name"]] = text
    return found
