"""Shell scripts: simple commands, variables with plain values, here-documents. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from draftcheck.deploy.deployment import TOO_MUCH, ContentsBuilder
from draftcheck.deploy.kinds import wrappers
from draftcheck.deploy.syntax.shell_words import Lexer, Operator, RawWord
from draftcheck.deploy.syntax.templates import HOLE, TOO_LONG
from draftcheck.deploy.syntax.variables import Variables, VariableValue
from draftcheck.deploy.text import TextView, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=")
_ARGUMENT = re.compile(r"\$\{?(?:\d|OPTARG\b|(?:i|arg|opt)\b)")
_OPENING = {"if", "while", "until", "for", "case", "select"}
_CLOSING = {"fi", "done", "esac"}
_BETWEEN = {"then", "else", "elif", "do", "!", "{", "}", "time", "coproc"}
STATEMENT, WORD = 100, 50
"""What they cost of the file's budget: some 30,000 commands, or twice as many words."""
_DECLARING = {"export", "declare", "local", "readonly", "typeset"}


def read(view: TextView, contents: ContentsBuilder) -> None:
    ShellScript(view, contents).run()


def inside(
    view: TextView,
    contents: ContentsBuilder,
    variables: Variables | None = None,
    image: Word | None = None,
    env: Mapping[str, Word] | None = None,
) -> None:
    """Collect the commands of a script that stands in another file."""
    variables = variables or Variables()
    if contents.deeper(view, len(variables.values)):
        ShellScript(view, contents, variables, image, env or {}).run()
        contents.depth -= 1


@dataclass(slots=True)
class ShellScript:
    """A walk through a script, top to bottom, every branch taken."""

    view: TextView
    contents: ContentsBuilder
    variables: Variables = field(default_factory=Variables)
    image: Word | None = None
    env: Mapping[str, Word] = field(default_factory=dict)
    _words: list[RawWord] = field(default_factory=list)
    _written: list[tuple[str, RawWord | None, RawWord | None]] = field(default_factory=list)
    _branches: int = 0
    _parens: int = 0

    def run(self) -> None:
        for name, word in self.env.items():
            if word.unknown is None and word.place.file == self.view.source.name:
                value = VariableValue(word.view)
                self.variables.values.setdefault(name, value)
        lexer = Lexer(self.view)
        tokens = lexer.tokens()
        at = 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if self.contents.left < 0:
                self.contents.cut_at(self.view.place(token.start, token.end), TOO_MUCH)
                return
            if isinstance(token, RawWord):
                self._words.append(token)
            elif token.redirects or token.body is not None or "<<" in token.text:
                following = tokens[at] if at < len(tokens) else None
                target = following if isinstance(following, RawWord) else None
                self._written.append((token.text, target, token.body))
                at += target is not None
            elif token.text == "(":
                at = self._paren(tokens, at, token)
            elif token.text == ")":
                self._close()
            else:
                self._flush()
        self._flush()
        for start, text in lexer.troubles:
            self.contents.trouble(self.view.place(start, start + 1), text)

    def _paren(self, tokens: list[RawWord | Operator], at: int, token: Operator) -> int:
        """An array, a function, or a group."""
        last = self._words[-1] if self._words else None
        if last is not None and last.end == token.start:
            array = _ASSIGNMENT.fullmatch(last.bare or "")
            if array:
                self._words.pop()
                return self._array(array, tokens, at)
            self._words.pop()  # NAME() begins a function
            after = tokens[at] if at < len(tokens) else None
            return at + (isinstance(after, Operator) and after.text == ")")
        self._flush()
        self._parens += 1
        return at

    def _array(self, match: re.Match[str], tokens: list[RawWord | Operator], at: int) -> int:
        items = list[Word]()
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if isinstance(token, RawWord) and self.contents.spend(WORD):
                items.extend(self.variables.expand(token, self.view))
            elif isinstance(token, Operator) and token.text == ")":
                break
        value = VariableValue(items=items)
        if match[3]:
            self.variables.append(match[1], value)
        else:
            self.variables.assign(match[1], value)
        return at

    def _close(self) -> None:
        if self._parens:
            self._parens -= 1
            self._flush()
        else:
            self._words.clear()  # the pattern of a case

    def _flush(self) -> None:
        self.contents.spend(STATEMENT)
        words, self._words = self._words, []
        written, self._written = self._written, []
        words = self._structure(words)
        if words and words[0].bare in ("[", "[[", "test"):
            return
        assigned = list[tuple[re.Match[str], RawWord]]()
        while words and (match := self._assignment(words[0])):
            assigned.append((match, words.pop(0)))
        if words:
            before = {match[1]: self._assigned(match, word) for match, word in assigned}
            env = {name: value.view.word() for name, value in before.items() if value.view}
            self._command(words, env, written)
            return
        for match, word in assigned:
            self._assign(match, word)

    def _structure(self, words: list[RawWord]) -> list[RawWord]:
        """Take off if, then, do …; a loop's variable becomes unknown."""
        while words and (bare := words[0].bare) is not None:
            if bare in ("for", "select") and len(words) > 1:
                self._branches += 1
                self.variables.values[words[1].bare or ""] = VariableValue()
                return []
            if bare == "case":
                self._branches += 1
                return []
            if bare == "function":
                return []
            if bare in _OPENING:
                self._branches += 1
            elif bare in _CLOSING:
                self._branches = max(self._branches - 1, 0)
            elif bare not in _BETWEEN:
                break
            words = words[1:]
        return words

    def _assignment(self, word: RawWord) -> re.Match[str] | None:
        first = word.parts[0] if word.parts else None
        if first is None or first.quoted or first.name or not first.known:
            return None
        return _ASSIGNMENT.match(first.view.text)

    def _assigned(self, match: re.Match[str], word: RawWord) -> VariableValue:
        first = word.parts[0]
        rest = first.view.slice(match.end(), len(first.view.text))
        start = word.start + match.end()
        value = RawWord([type(first)(rest), *word.parts[1:]], start, word.end)
        text, unknown, _ = self.variables.text(value, self.view)
        branch = self._branches > 0
        if unknown and (unknown == TOO_LONG or not text.text.replace(HOLE, "").strip()):
            argument = bool(_ARGUMENT.match(unknown))
            return VariableValue(branch=branch, argument=argument, cut=unknown == TOO_LONG)
        return VariableValue(text, branch=branch)

    def _assign(self, match: re.Match[str], word: RawWord) -> None:
        value = self._assigned(match, word)
        if match[2]:
            value = VariableValue()
        if match[3]:
            self.variables.append(match[1], value)
        else:
            self.variables.assign(match[1], value)

    def _command(
        self,
        words: list[RawWord],
        env: dict[str, Word],
        written: list[tuple[str, RawWord | None, RawWord | None]],
    ) -> None:
        bare = words[0].bare
        if bare in _DECLARING:
            self._declare(words)
            return
        if bare in ("unset", "read", "mapfile", "readarray"):
            for word in words[1:]:
                self.variables.values.pop(word.bare or "", None)
            return
        args, before = list[Word](), 0
        place = self.view.place(words[0].start, words[-1].end)
        for word in words:
            args.extend(self.variables.expand(word, self.view))
            if not self.contents.spend(WORD * (len(args) - before)):
                self.contents.cut_at(place, TOO_MUCH)
                return
            before = len(args)
        if bare == "set" and len(args) > 1 and args[1].text == "--":
            self.variables.values["@"] = VariableValue(items=args[2:])
            return
        env = {**self.env, **self.variables.environment(), **env}
        if not self._bodies(args, written):
            wrappers.Unwrapping(self.contents, self.variables, place, self.image, env).emit(args)

    def _declare(self, words: list[RawWord]) -> None:
        exports = words[0].bare == "export" or any(word.bare == "-x" for word in words)
        for word in words[1:]:
            match = self._assignment(word)
            if match:
                self._assign(match, word)
            name = match[1] if match else word.bare
            if exports and name:
                self.variables.export(name)

    def _bodies(
        self, args: list[Word], written: list[tuple[str, RawWord | None, RawWord | None]]
    ) -> bool:
        """Read here-documents as the files or programs they become; True: that was all."""
        body = next((body for _, _, body in written if body is not None), None)
        files = [target for how, target, _ in written if ">" in how and target is not None]
        names = [self.variables.text(target, self.view)[0].text for target in files]
        if body is not None:
            text, _, _ = self.variables.text(body, self.view)
            return wrappers.heredoc(args, text, names, self.contents)
        return bool(names) and wrappers.echoed(args, names[-1], self.contents)
