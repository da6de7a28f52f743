"""Which texts of a program in a language with braces hand an option on to another program.

Go, Rust, C++, Java, JavaScript, Nix, HCL … are not read as programs: a text counts where it is
added to a list or given to what starts a program, or where a value stands behind it. Comparisons,
patterns, declarations, lists of bare names and what is only printed do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SOURCES = (
    ".go", ".rs", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".java", ".kt", ".kts",
    ".scala", ".swift", ".cs", ".dart", ".zig", ".php", ".groovy",
)  # fmt: skip
"""Of programs in which a ' begins a character, or nothing."""
SCRIPTS = (
    ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".nix", ".tf", ".tfvars", ".hcl",
    ".nomad", ".json5", ".jsonnet", ".libsonnet", ".cue", ".lua", ".rb", ".vue", ".svelte",
)  # fmt: skip
_TOKEN = (
    r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z){hash})"
    r"|(?P<text>\"(?:[^\"\\\n]++|\\.)*+(?:\"|$)|`(?:[^`\\]++|\\.)*+(?:`|\Z){single})"
    r"|(?P<sign>[][(){{}},;:]|[=!<>]=|=>|:=|=)|(?P<bare>[\w.$!?&*@-]+|\S)"
)
_SINGLE = r"|'(?:[^'\\\n]++|\\.)*+(?:'|$)"
_CODE = re.compile(_TOKEN.format(hash="", single=""), re.DOTALL | re.MULTILINE)
_SCRIPT = re.compile(_TOKEN.format(hash="", single=_SINGLE), re.DOTALL | re.MULTILINE)
_HASHED = re.compile(_TOKEN.format(hash=r"|\#[^\n]*", single=""), re.DOTALL | re.MULTILINE)
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_ADDS = re.compile(
    r"(?i)(?:.*[.:>])?(?:append|push\w*|emplace\w*|extend|insert|unshift|concat|add_?args?|add|args?"
    r"|with_?args?|put|command\w*|exec\w*|spawn\w*|start\w*|launch\w*|run\w*|popen|start_?process"
    r"|set_?args?|set_?flag|push_?flag|\w*_?arg|vec!?|of|aslist|listof|arrayof)[!?]?"
)
TALKS = re.compile(
    r"(?i)(?:.*[.:>])?(?:log\w*|info|warn\w*|error\w*|debug|fatal\w*|trace|print\w*|panic|throw"
    r"|contains\w*|includes|indexof|has\w*|starts_?with|expect\w*|assert\w*|require\w*|equals?\w*"
    r"|match\w*|replace\w*|describe|it|option|flag\w*|stringvar|cut\w*|trim\w*|find\w*|filter|some"
    r"|every|set|new_?set|regexp?|must_?compile|remove\w*|erase|delete|take\w*|\w*reserved\w*|help"
    r"|add_?option|add_?argument|deep_?equal\w*|to_?(?:be|equal|contain|match|have|throw)\w*|test|long|arg!|get\w*|compare|count|index)[!?]?"
)
"""What is called with a text that it prints, compares or declares."""
_PROSE = re.compile(r"(?:[A-Za-z]{2,}[,:;.]? ){3,}|^[A-Z][a-z]+ [a-z]")
_MOST_BACK = 200
"""Tokens before a text among which the bracket is looked for that it stands in."""


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    start: int


def telling(text: str, name: str, is_sign: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """The texts that give one of these options to another program: where each begins and ends."""
    if name.endswith(SOURCES):
        grammar = _CODE
    else:
        grammar = (
            _HASHED if name.endswith((".nix", ".tf", ".tfvars", ".hcl", ".nomad")) else _SCRIPT
        )
    found = (_Token(m.lastgroup or "", m[0], m.start()) for m in grammar.finditer(text))
    tokens = [token for token in found if token.kind != "comment"]
    for at, token in enumerate(tokens):
        if token.kind != "text" or "--" not in token.text:
            continue
        words = token.text.strip("\"'`").split()
        if any(is_sign(word.strip("\"'`(")) for word in words) and _given(tokens, at, words):
            yield token.start, token.start + len(token.text)


def _given(tokens: list[_Token], at: int, words: list[str]) -> bool:
    before = tokens[at - 1] if at else None
    if before is not None and before.text in ("==", "!=", "case", "=>", "in"):
        return False
    after = [token.text for token in tokens[at + 1 : at + 4]] + [""] * 3
    if after[0] in ("==", "!=", "=>"):
        return False
    called, bracket = _inside(tokens, at)
    if bracket == "(" and TALKS.fullmatch(called):
        return False
    joined = " ".join(words)
    if not joined.startswith("-"):  # a whole command, or a sentence about one
        return len(words) > 3 and _PROSE.search(joined) is None
    if not _OPTION.fullmatch(joined):  # --option value, --option=value, "--option " + value
        return _PROSE.search(joined) is None
    if after[0] == ":":  # a key: of its value, or of a table of names
        return after[1][:1] in "\"'`" and not _OPTION.fullmatch(after[1].strip("\"'`"))
    if bracket == "(" and _ADDS.fullmatch(called):
        return not (after[0] == "," and _is_name(after[1]))
    if after[0] == ",":
        value = after[1]
        return not (value in ("]", ")", "}", "") or _is_name(value) or value in ("true", "false"))
    return before is not None and before.kind == "text" and after[0][:1] in ('"', "`", "$")


def _is_name(text: str) -> bool:
    """Whether this is another option, or says what one is for."""
    inner = text.strip("\"'`")
    quoted = text[:1] in ('"', "'", "`")
    return quoted and (bool(_OPTION.fullmatch(inner)) or re.match(r"[A-Z]\S* ", inner) is not None)


def _inside(tokens: list[_Token], at: int) -> tuple[str, str]:
    """What is called with this text, and the bracket that it stands in."""
    depth = 0
    for place in range(at - 1, max(at - _MOST_BACK, -1), -1):
        sign = tokens[place].text if tokens[place].kind == "sign" else ""
        if sign in (")", "]", "}"):
            depth += 1
        elif sign in ("(", "[", "{") and depth:
            depth -= 1
        elif sign in ("(", "[", "{"):
            return tokens[place - 1].text if place else "", sign
        elif sign == ";" and not depth:
            break
    return "", ""
