"""JavaScript, Go, Rust, C++, Nix, HCL …: what stands in them literally; nothing is run.

A text that is an engine's command is read as one, and so is a list of texts that holds options
which one engine alone has. Lists that are joined, pushed to or handed to a program go together; a
name that is bound once to a text stands for it. All else that speaks of options is only mentioned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice, pairwise

from draftcheck.deploy.deployment import Command, Contents, DocumentTree, around
from draftcheck.deploy.kinds import containers, is_test, shell
from draftcheck.deploy.options.programs import is_options, is_sign, starts_engine
from draftcheck.deploy.syntax import code_talk
from draftcheck.deploy.syntax.templates import HOLE
from draftcheck.deploy.syntax.variables import Variables, filled
from draftcheck.deploy.text import TextView, Word

MOST_ARGUMENTS = 40
"""Tokens before a text among which the function is looked for that it is given to."""
MOST_JOINED = 400
"""Tokens before a list among which the name is looked for that it is bound to."""
LONGEST = 500_000
"""Characters: what is longer was made by a program."""
# A text that is never closed goes to the end of its line, or of the file: nothing is read twice.
_SCRIPT = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<text>'(?:[^'\\\n]++|\\.)*+(?:'|$)|\"(?:[^\"\\\n]++|\\.)*+(?:\"|$)"
    r"|`(?:[^`\\$]++|\\.|\$(?!\{)|\$\{[^{}]*+\})*+(?:`|\Z))"
    r"|(?P<sign>[][(),;=])|(?P<bare>[^\s'\"`\[\](),;=/]+|/)",
    re.DOTALL | re.MULTILINE,
)
_NIX = re.compile(
    r"(?P<comment>#[^\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<text>\"(?:[^\"\\$]++|\\.|\$(?!\{)|\$\{[^{}]*+\})*+(?:\"|\Z)"
    r"|''(?:[^'$]++|''['$\\]|'(?!')|\$(?!\{)|\$\{[^{}]*+\})*+(?:''|\Z))"
    r"|(?P<sign>[][();=])|(?P<bare>[^\s\"\[\]();=/]+|/)",
    re.DOTALL,
)
_HCL = re.compile(
    r"(?P<comment>#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<text>\"(?:[^\"\\\n]++|\\.)*+(?:\"|$))"
    r"|(?P<sign>[][(),;=])|(?P<bare>[^\s'\"\[\](),;=/]+|['/])",
    re.DOTALL | re.MULTILINE,
)
_DOCUMENT = re.compile(r"<<[-~]?(?P<end>[A-Z_]+)\r?\n")
MOST_DOCUMENTS = 200
"""Of HCL: each may be looked for to the end of the file."""
_SOURCE = re.compile(_SCRIPT.pattern.replace(r"'(?:[^'\\\n]++|\\.)*+(?:'|$)|", ""), _SCRIPT.flags)
"""In Go, Rust, C++ … a ' begins a character, or nothing."""
_GRAMMARS = {
    "nix": _NIX,
    **dict.fromkeys(("tf", "tfvars", "hcl", "nomad"), _HCL),
    **dict.fromkeys((suffix[1:] for suffix in code_talk.SOURCES), _SOURCE),
}
_FILLED_IN = re.compile(r"\$?\$\{[^{}]*\}")
"""By Terraform, or by who reads the text later."""
_HOLE = re.compile(r"\$\{([^{}]*)\}")
_ESCAPE = re.compile(r"\\(?:\r?\n|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}
_STARTS = re.compile(r"(?:.*\.)?(?:spawn\w*|exec\w*|fork|Command|run\w*)")
_GROWS = re.compile(r"(?P<name>[\w.]+)\.(?:push|unshift)")


@dataclass(slots=True)
class LiteralToken:
    """A text without its quotes, a sign, or anything else."""

    kind: str
    view: TextView
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.view.text

    @property
    def sign(self) -> str:
        return self.view.text if self.kind == "sign" else ""


@dataclass(slots=True)
class LiteralReader:
    """Goes through the tokens of one file."""

    view: TextView
    contents: Contents
    grammar: re.Pattern[str] = _SCRIPT
    tokens: list[LiteralToken] = field(default_factory=list)
    names: dict[str, TextView | None] = field(default_factory=dict)
    """Names that are bound to a text; None: to more than one."""
    lists: dict[str, list[Word]] = field(default_factory=dict)
    """Words of a list, by the name that holds them."""
    whole: set[str] = field(default_factory=set)
    """Lists whose beginning is known."""
    programs: dict[str, LiteralToken] = field(default_factory=dict)
    """What a list of that name is handed to."""

    @property
    def nix(self) -> bool:
        return self.grammar is _NIX

    @property
    def plain(self) -> bool:
        """Names are keys of their block, and bind nothing."""
        return self.grammar is _HCL

    def run(self) -> None:
        behind = self._documents() if self.plain else {}
        skipped = 0
        for match in self.grammar.finditer(self.view.text):
            kind, (start, end) = match.lastgroup or "", match.span()
            skipped = max(skipped, behind.get(start, 0))
            if start < skipped:
                continue
            quote = 2 if kind == "text" and match[0].startswith("''") and self.nix else 1
            inner = (start + quote, end - quote) if kind == "text" else (start, end)
            if kind != "comment":
                token = LiteralToken(kind, self.view.slice(*inner), start, end)
                self.tokens.append(token)
        for at, token in enumerate(self.tokens[:-1]):
            if token.sign == "=" and at and self.tokens[at + 1].kind == "text":
                name, view = self._bound(at), self.tokens[at + 1].view
                old = self.names.get(name, view)
                self.names[name] = view if old is not None and old.text == view.text else None
        at = 0
        while at < len(self.tokens) and self.contents.left > 0:
            at = self._token(at)
        for name, words in self.lists.items():
            program = self.programs.get(name) if name in self.whole else None
            self._emit(([self._word(program)] if program is not None else []) + words)

    def _documents(self) -> dict[int, int]:
        """Read the here-documents of HCL, which are scripts; where each begins and ends."""
        found, last = dict[int, int](), 0
        for opening in islice(_DOCUMENT.finditer(self.view.text), MOST_DOCUMENTS):
            closing = re.compile(rf"^[ \t]*{opening['end']}[ \t]*\r?$", re.MULTILINE)
            end = closing.search(self.view.text, opening.end())
            if end is not None and opening.start() >= last:
                script = self.view.slice(opening.end(), end.start())
                shell.file_inside(filled(script, _FILLED_IN, lambda _: None), "", self.contents)
                found[opening.start()] = last = end.end()
        return found

    def _bound(self, at: int) -> str:
        """The name before this = sign; a type may stand between."""
        for place in range(at - 2, max(at - MOST_ARGUMENTS, -1), -1) if not self.plain else ():
            word = self.tokens[place]
            if word.sign == ";":
                break
            if word.text in ("const", "let", "var"):
                return self.tokens[place + 1].text.rstrip(":")
        return self.tokens[at - 1].text

    def _token(self, at: int) -> int:
        """Read what begins here; where to go on."""
        token, before = self.tokens[at], self.tokens[at - 1] if at else None
        if token.kind == "text" and "--" in token.text and not self._talks(at):
            self._command(self._word(token))
        elif token.sign == "[" and (before is None or before.sign or before.end < token.start):
            words, end = self._list(at)
            signed = any(is_sign(word.text) for word in words)
            if words and not self._talks(at) and self._place(at, words, signed) and signed:
                return end
        elif token.kind == "bare" and (grows := _GROWS.fullmatch(token.text)) is not None:
            words, end = self._list(at + 1)
            if any(is_sign(word.text) for word in words) or grows["name"] in self.lists:
                self.lists.setdefault(grows["name"], []).extend(words)
                return end
        elif token.kind == "bare" and _STARTS.fullmatch(token.text):
            called = self.tokens[at + 1 : at + 5]
            if len(called) == 4 and (called[0].sign, called[2].sign) == ("(", ","):
                self.programs.setdefault(called[3].text, called[1])
        return at + 1

    def _talks(self, at: int) -> bool:
        """Whether this is an argument of something that prints, compares or declares."""
        first = max(at - MOST_ARGUMENTS, 0)
        while at > first and self.tokens[at - 1].sign not in (";", "=", ")", "]"):
            at -= 1
            if self.tokens[at].sign == "(" and at and self.tokens[at - 1].kind == "bare":
                return code_talk.TALKS.fullmatch(self.tokens[at - 1].text) is not None
        return False

    def _command(self, word: Word) -> None:
        if not any(map(is_sign, word.text.split())):
            return
        if is_options(word.view.text):
            self.contents.loose_options(word.view)
        elif starts_engine(word.text) or word.view.text.lstrip()[:1] == HOLE:
            containers.ContainerReader(self.contents).script(DocumentTree.of(word))

    def _list(self, at: int) -> tuple[list[Word], int]:
        """The words between this bracket and the one that closes it, and where that is."""
        depth, end = 0, at
        if at >= len(self.tokens) or self.tokens[at].sign not in ("[", "("):
            return [], at
        parts: list[list[LiteralToken]] = [[]]
        while end < len(self.tokens) and self.contents.spend(4):
            token = self.tokens[end]
            depth += (token.sign in ("[", "(")) - (token.sign in ("]", ")"))
            end += 1
            if depth == 0:
                break
            if end - 1 > at and (depth > 1 or token.sign != ","):
                parts[-1].append(token)
            if depth == 1 and (self.nix or token.sign == ","):
                parts.append([])
        return [word for part in parts if part for word in self._element(part)], end

    def _element(self, part: list[LiteralToken]) -> list[Word]:
        if len(part) == 1 and part[0].text.removeprefix("...") in self.lists:
            return self.lists.pop(part[0].text.removeprefix("..."))
        if len(part) == 1:
            return [self._word(part[0])]
        start, end = part[0].start, part[-1].end
        return [self.view.hole(start, end).word(self.view.place(start, end))]

    def _word(self, token: LiteralToken) -> Word:
        place = self.view.place(token.start, token.end)
        if token.kind != "text":
            known = self.names.get(token.text)
            if known is not None:
                return known.word()
            return self.view.hole(token.start, token.end).word(place)
        view, quote = token.view, self.view.text[token.start]
        if "${" in view.text and (self.nix or quote == "`"):
            view = filled(view, _HOLE, lambda match: self.names.get(match[1].strip()))
        if "\\" in view.text and not self.view.text.startswith("''", token.start):
            escaped = view
            view = filled(
                escaped, _ESCAPE,
                lambda m: escaped.instead(_LETTERS.get(m[1] or "", m[1] or ""), *m.span()),
            )  # fmt: skip
        same = view is token.view
        return view.word(place, self.view.raw(token.start, token.end) if same else None)

    def _place(self, at: int, words: list[Word], signed: bool) -> bool:
        """Words of a list: by the name that it is bound to, or behind the program before it."""
        start, first = at, max(at - MOST_JOINED, 0)
        while start > first and self.tokens[start - 1].sign not in (";", "=", "(", ","):
            start -= 1
        sign = self.tokens[start - 1].sign if start else ""
        if sign == "=" and start > 1 and not self.plain:
            name = self._bound(start - 1)
            self.whole.add(name)
            self.lists.setdefault(name, []).extend(words)
            return True
        program = self.tokens[start - 2] if sign == "," and start > 1 else None
        callee = self.tokens[start - 4].text if start > 3 else ""
        named = program is not None and not program.sign and _STARTS.fullmatch(callee)
        if signed:
            self._emit([self._word(program), *words] if named and program else words)
        return signed

    def _emit(self, words: list[Word]) -> None:
        values = [value for option, value in pairwise(words) if is_sign(option.text)]
        if all(is_sign(v.text) or (v.unknown and not self.plain) for v in values):
            return  # made elsewhere, or names of options without values
        if words[0].text.startswith("-"):
            self.contents.loose.append(Command(tuple(words), around(words)))
        else:
            shell.Unwrapping(self.contents, Variables(), around(words)).emit(words)


def read(view: TextView, contents: Contents) -> None:
    """Collect the commands that stand in it; the program of a test starts nothing."""
    if not is_test(view.source.name.lower()) and len(view.text) <= LONGEST:
        grammar = _GRAMMARS.get(view.name.rpartition(".")[2], _SCRIPT)
        LiteralReader(view, contents, grammar).run()
    contents.troubles.clear()


_STRING = re.compile(r"<string>([^<]*)</string>")
_ARGUMENTS = re.compile(r"<key>ProgramArguments</key>\s*<array>")


def read_plist(view: TextView, contents: Contents) -> None:
    """What launchd runs."""
    listed = _ARGUMENTS.search(view.text)  # a file describes one job
    end = view.text.find("</array>", listed.end()) if listed is not None else -1
    if listed is not None and end >= 0:
        found = _STRING.finditer(view.text, listed.end(), end)
        words = [view.slice(*match.span(1)).word() for match in found]
        shell.Unwrapping(contents, Variables(), view.place(listed.start(), end)).emit(words)
