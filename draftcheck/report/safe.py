"""Text from models made harmless for a terminal, a table and a CI log."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 400
_ORDINARY = re.compile(r"[\x20-\x7e]*")
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u3164\uffa0")
"""Letters and marks that show nothing: fillers and joiners outside the categories below."""


def safe(text: str, longest: int = LONGEST) -> str:
    """Control, format and bidi characters become visible escapes; long text is cut."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    if _ORDINARY.fullmatch(cut):
        return cut
    return "".join(_visible(character) for character in cut)


def _visible(character: str) -> str:
    # Cc control, Cf format and bidi, Cs surrogates, Zl/Zp line breaks, Co private use
    unseen = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    if not unseen and character not in _BLANK:
        return character
    if character.isascii():
        return f"\\x{ord(character):02x}"
    return character.encode("ascii", "backslashreplace").decode()


def safe_block(text: str) -> str:
    """The same for a text of several lines of our own making (a setup)."""
    return "\n".join(safe(line, 2000) for line in text.splitlines())


def md(text: str) -> str:
    """Markdown: safe inside a Markdown table cell or sentence."""
    return re.sub(r"([\\`*_{}\[\]<>()#|!@~])", r"\\\1", safe(text))
