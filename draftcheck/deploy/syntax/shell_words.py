"""Shell text -> words and operators with places. Nothing is expanded here, nothing executed.

A script is cut into RawWords and Operators; a word is a row of WordParts: plain text, a variable,
or something that only a shell could work out. In plain mode a text is split as programs split a
string (systemd, compose): quotes count, nothing else does.

By hand, though tree-sitter-bash 0.25 was tried: of 182 scripts of the tests it parses all but one
(an open quote) without an error, and fast (0.02 s to import, then a third of our time). But it has
no wheel for Pyodide, where the gate must run too; plain mode and its quoting rules would stay here;
and its nodes would have to be turned into the same parts, with bytes counted back to characters.
That would save some 90 of these lines and shell.py's, not the lexer. What lies inside $(…) is cut
by the same lexer: quotes, here-documents and case patterns in it end where a shell ends them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from draftcheck.deploy.text import TextView

_PLAIN = re.compile(r"""[^\s\\'"$`;&|<>()]+""")
_QUOTED = re.compile(r"""[^\\"$`]+""")
_BODY = re.compile(r"""[^\\$`]+""")
_BLANK = re.compile(r"(?:[ \t\r\f\v]|\\\r?\n)+")
_HOLE = re.compile(r"<[A-Za-z][\w.:/-]*>(?=[\s\"'/.,;)-]|$)")
"""What a recipe has in the place of a name: no script reads <a> and writes to the next word."""
_OPERATOR = re.compile(
    rf"(?!{_HOLE.pattern})"
    r"(?:&&|\|\||;;&|;;|;&|\|&|\d*<<<|\d*<<-?|&>>|&>|\d*>>|\d*>&|\d*<&|\d*>\||\d*<>|\d*[<>]|[;&|()\n])"
)
_PRINTED = re.compile(
    r"\$\([ \t]*cat[ \t]*<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[ \t]*\n"
    r"(?P<body>(?:(?![ \t]*(?P=end)[ \t]*\n).*\n){0,200}?)[ \t]*(?P=end)[ \t]*\n[ \t]*\)"
)
_PRINTF = re.compile(r"\$\([ \t]*printf[ \t]+'(?P<format>[^'\\]*)'")
_PLACE = re.compile(r"%[sdg]")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_REDIRECTS = re.compile(r"\d*(<<<|>>|>&|<&|>\||<>|[<>])|&>>?")
_HEREDOC = re.compile(r"\d*<<-?")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f"}
_ARITHMETIC = re.compile(r"\(\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\)\)")
_BACKTICK = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL)
MAX_NESTING = 4
MAX_OPEN = 20


@dataclass(slots=True)
class WordPart:
    """A piece of a word: text, a variable, or something only a shell could work out."""

    view: TextView
    """Text: what it says. Otherwise: how it is spelled."""
    name: str | None = None
    operator: str = ""
    """Of a variable: :- = :+ … ; [@] for a whole array; ? where it is not understood."""
    default: RawWord | None = None
    quoted: bool = False
    known: bool = True
    """False: a command substitution, arithmetic …"""


@dataclass(slots=True)
class RawWord:
    """A word as the shell would see it before expansion."""

    parts: list[WordPart]
    start: int
    end: int

    @property
    def bare(self) -> str | None:
        """Its text, where nothing in it is quoted or expanded."""
        plain = all(part.name is None and part.known and not part.quoted for part in self.parts)
        return "".join(part.view.text for part in self.parts) if plain else None


@dataclass(slots=True)
class Operator:
    """; && | ( ) a redirection, a new line …"""

    text: str
    start: int
    end: int
    body: RawWord | None = None
    """Of a here-document: its text."""

    @property
    def redirects(self) -> bool:
        """Whether the next word is a file (or a word for the standard input)."""
        return bool(_REDIRECTS.fullmatch(self.text))


@dataclass(slots=True)
class Lexer:
    """Cuts a view into words and operators."""

    view: TextView
    plain: bool = False
    """No operators, no comments, no variables: how programs split a string into words."""
    troubles: list[tuple[int, str]] = field(default_factory=list)
    comments: list[tuple[int, int]] = field(default_factory=list)
    _ends: dict[int, int] = field(default_factory=dict)
    """Where a $(…), ${…} or `…` ends, by where it begins."""
    _open: int = 0
    """How many of them are being looked through."""

    def tokens(self) -> list[RawWord | Operator]:
        return self._tokens(0, len(self.view.text), inside=False)[0]

    def _tokens(self, at: int, stop: int, *, inside: bool) -> tuple[list[RawWord | Operator], int]:
        """Words and operators up to stop, or to the ) that closes what they stand inside of."""
        text, found = self.view.text, list[RawWord | Operator]()
        pending = list[tuple[Operator, str, bool, bool]]()
        parens = cases = 0
        while at < stop:
            blank = _BLANK.match(text, at)
            if blank:
                at = blank.end()
                continue
            if text[at] == "#" and not self.plain:
                end = text.find("\n", at)
                end = len(text) if end < 0 else end
                self.comments.append((at, end))
                at = end
                continue
            operator = None if self.plain else _OPERATOR.match(text, at)
            sums = None if self.plain else _ARITHMETIC.match(text, at, stop)
            if self.plain and text[at] == "\n":
                at += 1
            elif sums and (not found or found[-1].end < at):
                at = sums.end()
            elif operator:
                if operator[0] == ")" and inside and not parens and not cases:
                    return found, operator.end()
                parens += (operator[0] == "(") - (operator[0] == ")" and parens > 0)
                found.append(Operator(operator[0], at, operator.end()))
                at = operator.end()
                if operator[0] == "\n":
                    for each in pending:
                        at = self._heredoc(*each, at)
                    pending.clear()
            else:
                word = self.word(at, until=None if stop == len(text) else stop, whole=False)
                last = found[-1] if found else None
                if isinstance(last, Operator) and _HEREDOC.fullmatch(last.text):
                    mark = "".join(part.view.text for part in word.parts)
                    pending.append((last, mark, word.bare is None, last.text.endswith("-")))
                elif inside and word.bare in ("case", "esac"):
                    cases = max(cases + (1 if word.bare == "case" else -1), 0)
                found.append(word)
                at = max(word.end, at + 1)
        return found, stop

    def _heredoc(
        self, operator: Operator, delimiter: str, literal: bool, tabs: bool, at: int
    ) -> int:
        text, start = self.view.text, at
        while at < len(text):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            line = text[at:end].rstrip("\r")
            if (line.lstrip("\t") if tabs else line) == delimiter:
                break
            at = end + 1
        else:
            self.troubles.append((operator.start, f"the here-document {delimiter} never ends"))
            at = end = len(text)
        parts = [WordPart(self.view.slice(start, at), quoted=True)]
        if not literal:
            parts = self._inside(start, at, _BODY, '"', 0)
        operator.body = RawWord(parts, start, at)
        return min(end + 1, len(text))

    def word(
        self, at: int, depth: int = 0, until: int | None = None, whole: bool = True
    ) -> RawWord:
        """One word from here on; until: it ends there at last, and is all up to there if whole."""
        text, start, parts = self.view.text, at, list[WordPart]()
        stop = len(text) if until is None else until
        while at < stop:
            letter = text[at]
            plain = _PLAIN.match(text, at, stop)
            if plain:
                parts.append(WordPart(self.view.slice(at, plain.end())))
                at = plain.end()
            elif letter == "\\":
                at = self._escape(at, stop, parts)
            elif letter == "'":
                end = text.find("'", at + 1, stop)
                if end < 0:
                    self.troubles.append((at, "a quote is never closed"))
                    end = stop
                parts.append(WordPart(self.view.slice(at + 1, end), quoted=True))
                at = min(end + 1, stop)
            elif letter == '"':
                end = self._closing(at + 1, stop)
                parts.extend(self._inside(at + 1, end, _QUOTED, '"', depth))
                parts.append(WordPart(self.view.slice(end, end), quoted=True))
                at = min(end + 1, stop)
            elif letter in "$`" and not self.plain:
                at = self._dollar(at, stop, parts, False, depth)
            elif letter == "<" and (hole := _HOLE.match(text, at, stop)):
                parts.append(WordPart(self.view.slice(*hole.span())))
                at = hole.end()
            elif (
                (until is not None and whole)
                or letter == "$"
                or (self.plain and not letter.isspace())
            ):
                parts.append(WordPart(self.view.slice(at, at + 1)))
                at += 1
            else:
                break
        return RawWord(parts, start, at)

    def _escape(self, at: int, stop: int, parts: list[WordPart]) -> int:
        text = self.view.text
        if text.startswith("\n", at + 1):
            return at + 2
        if text.startswith("\r\n", at + 1):
            return at + 3
        if at + 1 < stop:
            parts.append(WordPart(self.view.slice(at + 1, at + 2), quoted=True))
        return min(at + 2, stop)

    def _closing(self, at: int, stop: int, *, said: bool = True) -> int:
        """The end of a double-quoted text."""
        text, start = self.view.text, at
        while at < stop and text[at] != '"':
            if text[at] == "\\":
                at += 2
            elif text.startswith(("$(", "${", "`"), at) and not self.plain:
                at = self._skip(at, stop)
            else:
                at += 1
        if at >= stop and said:
            self.troubles.append((start - 1, "a quote is never closed"))
        return min(at, stop)

    def _inside(
        self, at: int, stop: int, run: re.Pattern[str], quote: str, depth: int
    ) -> list[WordPart]:
        """The parts of a double-quoted text or of a here-document."""
        text, parts = self.view.text, list[WordPart]()
        while at < stop:
            some = run.match(text, at, stop)
            if some:
                parts.append(WordPart(self.view.slice(at, some.end()), quoted=True))
                at = some.end()
            elif text[at] == "\\":
                if text.startswith(("\n", "\r\n"), at + 1):
                    at += 2 if text[at + 1] == "\n" else 3
                    continue
                special = "\\" + quote if self.plain else '$`\\"'
                skip = 1 if at + 1 < stop and text[at + 1] in special else 0
                end = min(at + 1 + skip, stop)
                parts.append(WordPart(self.view.slice(at + skip, end), quoted=True))
                at = end
            elif self.plain or text[at] == '"':
                parts.append(WordPart(self.view.slice(at, at + 1), quoted=True))
                at += 1
            else:
                at = self._dollar(at, stop, parts, True, depth)
        return parts

    def _dollar(self, at: int, stop: int, parts: list[WordPart], quoted: bool, depth: int) -> int:
        text = self.view.text
        if text.startswith("$'", at) and not quoted:
            return self._ansi(at, stop, parts)
        if text.startswith('$"', at) and not quoted:
            return at + 1
        name = _NAME.match(text, at + 1, stop) if text[at] == "$" else None
        if name:
            view = self.view.slice(at, name.end())
            parts.append(WordPart(view, name=name[0], quoted=quoted))
            return name.end()
        printed = _PRINTED.match(text, at, stop) if text.startswith("$(", at) else None
        if printed and depth < MAX_NESTING and (printed["quote"] or "\\" not in printed["body"]):
            self._document(printed, parts, depth)
            return printed.end()
        formatted = _PRINTF.match(text, at, stop) if text.startswith("$(", at) else None
        if formatted and self._open < MAX_NESTING:
            end = self._skip(at, stop, quoted)
            self._formatted(formatted, end - 1, parts)
            return end
        if text.startswith(("$(", "${"), at) or text[at] == "`":
            end = self._skip(at, stop, quoted)
            part = WordPart(self.view.slice(at, end), quoted=quoted, known=False)
            if text[at + 1 : at + 2] == "{" and depth < MAX_NESTING:
                self._braces(at + 2, end - 1, part, depth)
            parts.append(part)
            return end
        parts.append(WordPart(self.view.slice(at, at + 1), quoted=quoted))
        return at + 1

    def _document(self, printed: re.Match[str], parts: list[WordPart], depth: int) -> None:
        """$(cat <<END …): the lines as they are, variables filled in unless END is quoted."""
        at, end = printed.span("body")
        while not printed["quote"]:
            dollar = self.view.text.find("$", at, end)
            if dollar < 0:
                break
            parts.append(WordPart(self.view.slice(at, dollar), quoted=True))
            at = self._dollar(dollar, end, parts, True, depth + 1)
        parts.append(WordPart(self.view.slice(at, end), quoted=True))

    def _formatted(self, printed: re.Match[str], end: int, parts: list[WordPart]) -> None:
        """$(printf 'text %s' word …): the text, with the words in their places."""
        aside = Lexer(self.view, _ends=self._ends, _open=self._open + 1)
        tokens, _ = aside._tokens(printed.end(), end, inside=False)
        words = iter([token for token in tokens if isinstance(token, RawWord)])
        at, last = printed.span("format")
        for place in _PLACE.finditer(self.view.text, at, last):
            parts.append(WordPart(self.view.slice(at, place.start()), quoted=True))
            unknown = WordPart(self.view.slice(*place.span()), quoted=True, known=False)
            word = next(words, None)
            parts += word.parts if word is not None else [unknown]
            at = place.end()
        parts.append(WordPart(self.view.slice(at, last), quoted=True))

    def _ansi(self, at: int, stop: int, parts: list[WordPart]) -> int:
        end = at + 2
        while end < stop and self.view.text[end] != "'":
            end += 2 if self.view.text[end] == "\\" else 1
        end = min(end, stop)
        inner = self.view.text[at + 2 : end]
        text = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inner, flags=re.DOTALL)
        same = text == inner
        view = self.view.slice(at + 2, end) if same else self.view.vague(text, at, end)
        parts.append(WordPart(view, quoted=True))
        return min(end + 1, stop)

    def _braces(self, at: int, end: int, part: WordPart, depth: int) -> None:
        """Read NAME and what follows it between ${ and }."""
        text = self.view.text
        name = _NAME.match(text, at, end)
        if not name:
            return
        rest = text[name.end() : end]
        operator = re.match(r"\[[@*]\]|:?[-=+?]", rest)
        if rest and not operator:
            return
        part.name, part.known = name[0], True
        if operator:
            part.operator = operator[0]
            start = name.end() + operator.end()
            given = text[start:end].lstrip(":")
            if part.operator[0] == "[" and start != end and not given.startswith(("+", "-")):
                part.name, part.known = None, False  # "${A[@]+"${A[@]}"}" is "${A[@]}", if any
            elif part.operator[-1] in "-=+":
                part.default = self.word(start, depth + 1, end)

    def _skip(self, at: int, stop: int, quoted: bool = True) -> int:
        """Behind a $(…), ${…} or `…` that begins here."""
        if at not in self._ends:
            self._open += 1
            self._ends[at] = self._end(at, stop, quoted)
            self._open -= 1
        return min(self._ends[at], stop)

    def _end(self, at: int, stop: int, quoted: bool) -> int:
        text = self.view.text
        if text[at] == "`":
            end = _BACKTICK.match(text, at, stop)
            return end.end() if end else stop
        if text.startswith("$(", at) and not text.startswith("$((", at) and self._open < MAX_OPEN:
            aside = Lexer(self.view, _ends=self._ends, _open=self._open)
            return aside._tokens(at + 2, stop, inside=True)[1]
        closing = {"(": ")", "{": "}"}
        stack = [closing[text[at + 1]]]
        at += 2
        while at < stop and stack:
            letter = text[at]
            if letter == "\\":
                at += 1
            elif letter == '"' and self._open < MAX_OPEN and stack[-1] == "}":
                at = self._closing(at + 1, stop, said=False)
            elif letter == "'" and not quoted:
                end_quote = text.find("'", at + 1, stop)
                at = end_quote if end_quote >= 0 else stop
            elif letter == stack[-1]:
                stack.pop()
            elif letter in closing and (letter == "(" or text[at - 1] == "$"):
                stack.append(closing[letter])
            at += 1
        return min(at, stop)
