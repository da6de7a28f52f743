"""Shell scripts: simple commands, variables with plain values, here-documents. Nothing is run.

Commands that start other commands (sudo, env, bash -c, docker run, kubectl run …) are wrappers:
rules/wrappers.toml says which programs do so and where the inner command begins. A wrapper is taken
off, what is left may be another one, until the program itself stands first. A script inside quotes
is read like a file of its own.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from draftcheck.deploy.deployment import TOO_MUCH, Command, Contents
from draftcheck.deploy.options.programs import (
    hinted,
    is_options,
    is_sign,
    speculates,
    starts_engine,
)
from draftcheck.deploy.syntax.shell_words import Lexer, Operator, RawWord, WordPart
from draftcheck.deploy.syntax.templates import HOLE, TOO_LONG
from draftcheck.deploy.syntax.variables import MAX_DOCUMENT, Variables, VariableValue, filled
from draftcheck.deploy.text import TextView, Word, joined
from draftcheck.rulebook import files as rulefiles
from draftcheck.rulebook.files import Names, RuleRow
from draftcheck.values.findings import FilePlace

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=")
_ARGUMENT = re.compile(r"\$\{?(?:\d|OPTARG\b|(?:i|arg|opt)\b)")
_OPENING = {"if", "while", "until", "for", "select"}
_TESTS = ("[", "[[", "test")
_CLOSING = {"fi", "done", "esac"}
_NEXT_PATTERN = (";;", ";&", ";;&")
_BETWEEN = {"then", "else", "elif", "do", "!", "{", "}", "time", "coproc"}
STATEMENT, WORD = 100, 50
"""What they cost of the file's budget: some 30,000 commands, or twice as many words."""
_TALKS = re.compile(
    r"echo|printf|e?grep|sed|awk|log\w*|warn\w*|die|fail\w*|info|error|usage|help|print"
    r"|assert\w*|check\w*|expect\w*"
)
_DECLARING = {"export", "declare", "local", "readonly", "typeset"}
_FUNCTION = re.compile(r"^[ \t]*(?:function[ \t]+)?(?P<name>[\w-]+)[ \t]*(?:\(\))?[ \t]*\{", re.M)
_ARGUMENT = re.compile(r"\S+")
_CLOSES = re.compile(r"^[ \t]*\}", re.M)
_USED = re.compile(r"(?:\$\(|`)[ \t]*([\w-]+)|^[ \t]*([\w-]+)\b[^\n;|>]*[|>]", re.M)
_KEYED = re.compile(r"\[[^\]=]+\]=")
_SPEECH = re.compile(r"[A-Z][a-z]|\S*:\s")


def read(view: TextView, contents: Contents) -> None:
    ShellScript(view, contents).run()


def inside(
    view: TextView,
    contents: Contents,
    variables: Variables | None = None,
    image: Word | None = None,
    env: Mapping[str, Word] | None = None,
    printed: bool = False,
) -> None:
    """Collect the commands of a script that stands in another file."""
    variables = variables or Variables()
    if contents.deeper(view, len(variables.values)):
        ShellScript(view, contents, variables, image, env or {}, printed=printed).run()
        contents.depth -= 1


@dataclass(slots=True)
class Fork:
    """An `if` or a `case`: what stands in its branches, and where it ends, as tokens."""

    case: bool
    bodies: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    body: int = -1
    """Where the branch begins that is being read; -1: none is."""
    closed: bool = False
    """One of its branches is taken, whatever holds."""
    options: bool = False
    """Its patterns are options of the script itself."""


def forks(tokens: Sequence[RawWord | Operator]) -> dict[int, Fork]:
    """Every `if` and `case` by the token that it begins with."""
    found, open_ = dict[int, Fork](), list[tuple[int, Fork]]()
    first = True
    for at, token in enumerate(tokens):
        fork = open_[-1][1] if open_ else None
        pattern = fork is not None and fork.case and fork.body < 0
        if isinstance(token, Operator):
            if fork is not None and pattern and token.text == ")":
                fork.body = at + 1
            elif fork is not None and fork.case and token.text in _NEXT_PATTERN:
                fork.bodies.append((fork.body, at))
                fork.body = -1
            first = not token.redirects
            continue
        bare = token.bare
        if fork is not None and (first or pattern) and bare in ("fi", "esac", "elif", "else"):
            if fork.body >= 0:
                fork.bodies.append((fork.body, at))
            fork.body = at + 1 if bare == "else" else -1
            fork.closed = fork.closed or bare == "else"
            if bare in ("fi", "esac"):
                start, fork = open_.pop()
                fork.end = at + 1
                found[start] = fork
        elif fork is not None and pattern:
            fork.closed = fork.closed or bare == "*"
            fork.options = fork.options or (bare or "").startswith("-")
        elif fork is not None and first and bare == "then" and not fork.case:
            fork.body = at + 1
        elif first and bare in ("if", "case"):
            open_.append((at, Fork(bare == "case")))
        first = first and (bare in _BETWEEN or bare in _OPENING)
    return found


@dataclass(slots=True)
class ShellScript:
    """A walk through a script, top to bottom, every branch taken.

    Where branches set speculation up in different ways, each is a script of its own from there on.
    """

    view: TextView
    contents: Contents
    variables: Variables = field(default_factory=Variables)
    image: Word | None = None
    env: Mapping[str, Word] = field(default_factory=dict)
    _tokens: list[RawWord | Operator] = field(default_factory=list)
    _forks: Mapping[int, Fork] = field(default_factory=dict)
    _words: list[RawWord] = field(default_factory=list)
    _written: list[tuple[str, RawWord | None, RawWord | None]] = field(default_factory=list)
    _branches: int = 0
    _parens: int = 0
    _cases: int = 0
    _pattern: bool = False
    """Whether the pattern of a case is being read: it runs nothing."""
    _parted: bool = False
    """This is one of several ways through the script."""
    _skipped: bool = False
    """Behind a test that fails: what follows does not happen."""
    _tested: bool = False
    """Behind `[ … ] &&`: what follows depends on it."""
    printed: bool = False
    """It is run for its output: what it echoes goes into a command."""
    _captures: list[tuple[int, int]] | None = None
    """Bodies of functions whose output is used."""
    _last: tuple[FilePlace, int] | None = None
    """The last command, and where it (or what was meant to belong to it) ends."""

    def run(self) -> None:
        for name, word in self.env.items():
            if word.unknown is None and word.place.file == self.view.source.name:
                value = VariableValue(word.view)
                self.variables.values.setdefault(name, value)
        lexer = Lexer(self.view)
        self._tokens = lexer.tokens()
        self._forks = forks(self._tokens)
        self._walk([(0, len(self._tokens), 0)])
        for start, end in lexer.comments:
            self._swallowed(start, end)
        for start, text in lexer.troubles:
            self.contents.trouble(self.view.place(start, start + 1), text)

    def _walk(self, ranges: list[tuple[int, int, int]]) -> None:
        """Go through these ranges of tokens; with each so many branches more (or less) are open."""
        tokens = self._tokens
        for number, (start, stop, branches) in enumerate(ranges):
            self._branches += branches
            at = start
            while at < stop:
                fork = self._forks.get(at)
                ways = self._ways(at, fork) if fork is not None and not self._pattern else []
                if fork is not None and ways:
                    self._flush()
                    rest = [(fork.end, stop, 0), *ranges[number + 1 :]]
                    for way in ways:
                        copy = replace(self, variables=self.variables.copy(), _words=[])
                        copy._parted = True
                        copy._walk([*way, *rest])
                    return
                token = tokens[at]
                at += 1
                if self.contents.left < 0:
                    self.contents.cut_at(self.view.place(token.start, token.end), TOO_MUCH)
                    return
                at = self._token(token, tokens, at)
            self._flush()
        self.contents.replaced += self.variables.replaced

    def _token(self, token: RawWord | Operator, tokens: list[RawWord | Operator], at: int) -> int:
        if self._pattern:
            self._in_pattern(token)
        elif isinstance(token, RawWord):
            self._words.append(token)
            if token.bare == "in" and len(self._words) > 2 and self._words[-3].bare == "case":
                self._words.clear()
                self._cases += 1
                self._branches += 1
                self._pattern = True
        elif token.redirects or token.body is not None or "<<" in token.text:
            following = tokens[at] if at < len(tokens) else None
            target = following if isinstance(following, RawWord) else None
            self._written.append((token.text, target, token.body))
            at += target is not None
        elif token.text == "(":
            at = self._paren(tokens, at, token)
        else:
            self._parens = max(self._parens - (token.text == ")"), 0)
            tested = self._tested or (bool(self._words) and self._tests())
            fails = token.text == "&&" and self._fails(self._words)
            self._flush()
            self._skipped = fails
            self._tested = tested and token.text in ("&&", "||")
            self._pattern = self._cases > 0 and token.text in _NEXT_PATTERN
        return at

    def _statement(self, at: int) -> list[RawWord]:
        words = itertools.takewhile(
            lambda token: isinstance(token, RawWord), self._tokens[at : at + 6]
        )
        return [word for word in words if isinstance(word, RawWord)]

    def _fails(self, words: list[RawWord]) -> bool:
        """Whether it is asked for a value that this way leaves empty: [ -n "$X" ], [ "$X" ]."""
        asked = [word for word in words if word.bare not in ("]", "]]", "-n", *_BETWEEN)]
        if len(asked) != 2 or asked[0].bare not in _TESTS:
            return False
        parts = [part for part in asked[1].parts if part.name or not part.known or part.view.text]
        value = self.variables.values.get(parts[0].name or "") if len(parts) == 1 else None
        return value is not None and value.empty and not value.branch

    def _tests(self) -> bool:
        return next((w.bare for w in self._words if w.bare not in _BETWEEN), None) in _TESTS

    def _ways(self, at: int, fork: Fork) -> list[list[tuple[int, int, int]]]:
        """The branches that set speculation up, and all others as one; empty: no need to part."""
        if not fork.case and len(fork.bodies) < 3 and self._fails(self._statement(at + 1)):
            return [[(*body, 0) for body in fork.bodies[1:]]]
        self.contents.branch_tokens -= sum(end - start for start, end in fork.bodies)
        if fork.options or self.contents.ways <= 0 or self.contents.branch_tokens < 0:
            return []
        told = {body: self._assigns(body) for body in fork.bodies}
        speak = [body for body in fork.bodies if told[body] and self._speaks(body)]
        others = [body for body in fork.bodies if told[body] and body not in speak]
        if len(speak) == 1 and self._speculates(told[speak[0]]):  # a second method, if asked for
            return [[]] if self._parted else [[(*speak[0], 0)], [(*body, 0) for body in others]]
        if not speak or (len(speak) < 2 and not (fork.case and others)):
            return []
        if not fork.case and not set[str].intersection(*(told[body] for body in speak)):
            return []
        ways = [[(*body, 0)] for body in speak]
        if others:
            several = int(len(others) > 1)
            ways.append([(0, 0, several), *((*body, 0) for body in others), (0, 0, -several)])
        elif not fork.closed:
            ways.append([])
        if len(ways) > self.contents.ways:
            return []
        self.contents.ways -= len(ways) - 1
        return ways

    def _speculates(self, names: set[str]) -> bool:
        """Whether one of these variables holds options of speculation already."""
        values = [self.variables.values.get(name) for name in names]
        return any(
            is_sign(text)
            for value in values
            if value is not None
            for word in value.items or value.words
            for text in word.text.split()
        )

    def _assigns(self, body: tuple[int, int]) -> set[str]:
        words = (word for word in self._tokens[slice(*body)] if isinstance(word, RawWord))
        return {match[1] for word in words if (match := self._assignment(word)) is not None}

    def _speaks(self, body: tuple[int, int]) -> bool:
        first, last = self._tokens[body[0]], self._tokens[body[1] - 1]
        return speculates(self.view.text[first.start : last.end])

    def _in_pattern(self, token: RawWord | Operator) -> None:
        if isinstance(token, RawWord) and token.bare == "esac":
            self._cases -= 1
            self._branches = max(self._branches - 1, 0)
            self._pattern = False
        elif isinstance(token, Operator) and token.text == ")":
            self._pattern = False

    def _paren(self, tokens: list[RawWord | Operator], at: int, token: Operator) -> int:
        """An array, a function, or a group."""
        last = self._words[-1] if self._words else None
        if last is not None and last.end == token.start:
            array = _ASSIGNMENT.fullmatch(last.bare or "")
            if array:
                self._words.pop()
                return self._array(array, tokens, at)
            self.contents.functions.add(self._words.pop().bare or "")  # NAME() begins a function
            after = tokens[at] if at < len(tokens) else None
            return at + (isinstance(after, Operator) and after.text == ")")
        self._flush()
        self._parens += 1
        return at

    @property
    def _in_branch(self) -> bool:
        return self._branches > 0 or self._tested

    def _array(self, match: re.Match[str], tokens: list[RawWord | Operator], at: int) -> int:
        items, begin = list[Word](), at
        branch = self.variables.guarded = self._in_branch
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if isinstance(token, RawWord) and self.contents.spend(WORD):
                items.extend(self.variables.expand(token, self.view))
            elif isinstance(token, Operator) and token.text == ")":
                break
        if branch:
            items = [replace(item, maybe=True) for item in items]
        value = VariableValue(items=items, branch=branch)
        if self._skipped:
            return at
        for item in items:  # [name]="--options": each may be a setup
            keyed = _KEYED.match(item.view.text)
            if keyed and is_options(item.view.text[keyed.end() :]):
                text = item.view.slice(keyed.end(), len(item.view.text))
                self.contents.loose_options(text, self.image)
        if any(is_sign(item.text) for item in items):  # where nothing here uses them
            place = self.view.place(tokens[begin].start, tokens[at - 1].end)
            self.contents.loose.append(Command(tuple(items), place, self.image))
        (self.variables.append if match[3] else self.variables.assign)(match[1], value)
        return at

    def _flush(self) -> None:
        self.contents.spend(STATEMENT)
        words, self._words = self._words, []
        written, self._written = self._written, []
        words = self._structure(words)
        self.variables.guarded = self._in_branch
        if self._skipped or (words and words[0].bare in _TESTS):
            return
        bodies = [body for _, _, body in written if body is not None]
        for part in (part for word in (*words, *bodies) for part in word.parts):
            self._substituted(part)
        assigned = list[tuple[re.Match[str], RawWord]]()
        while words and (match := self._assignment(words[0])):
            assigned.append((match, words.pop(0)))
        if words and assigned and self._line_of_options(assigned[-1], words[-1]):
            return
        if words:
            before = {match[1]: self._assigned(match, word) for match, word in assigned}
            env = {name: value.view.word() for name, value in before.items() if value.view}
            self._command(words, env, written)
            return
        for match, word in assigned:
            self._assign(match, word)

    def _line_of_options(self, assigned: tuple[re.Match[str], RawWord], last: RawWord) -> bool:
        """ARGS=--one 1 --two 2, as a .env file has it: the rest of the line is the value."""
        match, word = assigned
        value = self.view.slice(word.start + match.end(), last.end)
        if value.text.startswith("-") and is_options(value.text):
            self.contents.loose_options(value, self.image)
            return True
        return False

    def _substituted(self, part: WordPart) -> None:
        """$(docker run …): what is run for its output."""
        text = part.view.text
        if part.known or not text.startswith("$("):
            return
        words = [word.strip("\"'") for word in text[2:-1].split()]
        if any(map(is_sign, words)) or self.contents.functions.intersection(words[:1]):
            script = part.view.slice(2, len(text) - 1)
            inside(script, self.contents, self.variables.copy(), self.image, self.env, True)

    def _structure(self, words: list[RawWord]) -> list[RawWord]:
        """Take off if, then, do …; a loop's variable becomes unknown."""
        while words and (bare := words[0].bare) is not None:
            if bare in ("for", "select") and len(words) > 1:
                self._branches += 1
                self.variables.values[words[1].bare or ""] = VariableValue()
                return []
            if bare == "function":
                self.contents.functions.update(word.bare or "" for word in words[1:2])
                return []
            if bare in _OPENING:
                self._branches += 1
            elif bare in _CLOSING:
                self._branches = max(self._branches - 1, 0)
                self._cases -= bare == "esac" and self._cases > 0
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
        branch = self._in_branch
        if unknown and (unknown == TOO_LONG or not text.text.replace(HOLE, "").strip()):
            argument = bool(_ARGUMENT.match(unknown))
            return VariableValue(branch=branch, argument=argument, cut=unknown == TOO_LONG)
        return VariableValue(text, branch=branch)

    def _assign(self, match: re.Match[str], word: RawWord) -> None:
        value = self._assigned(match, word)
        if value.view is not None and is_options(value.view.text):
            self.contents.loose_options(value.view, self.image)  # where nothing here uses them
        if match[2]:
            value = VariableValue()
        (self.variables.append if match[3] else self.variables.assign)(match[1], value)

    def _command(
        self,
        words: list[RawWord],
        env: dict[str, Word],
        written: list[tuple[str, RawWord | None, RawWord | None]],
    ) -> None:
        bare = words[0].bare
        if bare in _DECLARING:
            exports = bare == "export" or any(word.bare == "-x" for word in words)
            for word in words[1:]:
                match = self._assignment(word)
                if match:
                    self._assign(match, word)
                name = match[1] if match else word.bare
                if exports and name:
                    self.variables.export(name)
            return
        if bare in ("unset", "read", "mapfile", "readarray"):
            for word in words[1:]:
                self.variables.values.pop(word.bare or "", None)
            body = next((body for _, _, body in written if body is not None), None)
            if body is not None and bare == "read":  # read -r -d '' NAME <<EOF
                text, _, _ = self.variables.text(body, self.view)
                self.variables.assign(words[-1].bare or "", VariableValue(text))
            return
        if bare == "alias":
            for word in words[1:]:
                if match := self._assignment(word):
                    self._script_in(self._assigned(match, word).view)
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
        if self._stray(args, place, words):
            return
        self._last = place, words[-1].end
        given = (*args[1:], *env.values())  # to a function, or a script that reads a variable
        telling = [arg for arg in given if " " in arg.text and any(map(is_sign, arg.text.split()))]
        if telling and (not _TALKS.fullmatch(base(args[0])) or self._captured(words[0].start)):
            for arg in telling:
                if is_options(arg.view.text):
                    self.contents.loose_options(arg.view, self.image)
                elif base(args[0]) not in rows() and not _SPEECH.match(arg.text):
                    self._script_in(arg.view)
        options = next((n for n, arg in enumerate(args) if arg.text.startswith("-")), 0)
        talks = _TALKS.fullmatch(base(args[0])) is not None
        if bare in self.contents.functions and not talks and any(is_sign(a.text) for a in args):
            self.contents.loose.append(Command(tuple(args[options:]), place, self.image))
        env = {**self.env, **self.variables.environment(), **env}
        if not self._bodies(args, written):
            Unwrapping(self.contents, self.variables, place, self.image, env).emit(args)

    def _script_in(self, view: TextView | None) -> None:
        """Read a text as a script where it is an engine's command with options of speculation."""
        if view is None or " " not in view.text or not starts_engine(view.text):
            return
        if any(map(is_sign, view.text.split())):
            inside(view, self.contents, self.variables.copy(), self.image, self.env)

    def _captured(self, at: int) -> bool:
        """Whether this stands in a function whose output is used: $(name …), name > file."""
        if self.printed:
            return True
        if self._captures is None:
            text = self.view.text
            used = {name for found in _USED.finditer(text) for name in found.groups() if name}
            ends = [found.start() for found in _CLOSES.finditer(text)]
            bodies = ((found["name"], found.end()) for found in _FUNCTION.finditer(text))
            spans = ((start, bisect(ends, start)) for name, start in bodies if name in used)
            self._captures = [(start, ends[end]) for start, end in spans if end < len(ends)]
        return any(start <= at < end for start, end in self._captures)

    def _stray(self, args: list[Word], place: FilePlace, words: list[RawWord]) -> bool:
        """Whether these are options of the command above, which a comment or a line's end cut."""
        if self._last is None or not args[0].text.startswith("-") or self.contents.depth:
            return False  # a text inside another file may be cut into words by another program
        after, end = self._last
        lines = self.view.text[end : words[0].start].splitlines()
        if not all(line.strip(" \t\\;&")[:1] in ("", "#") for line in lines):
            return False
        if any(is_sign(arg.text) for arg in args):
            self.contents.stray.append((after, Command(tuple(args), place)))
        self._last = after, words[-1].end
        return True

    def _swallowed(self, start: int, end: int) -> None:
        """Options in a comment that YAML folded from several lines: the command lacks them."""
        place = self.view.place(start, end)
        if self._last is None or place.line == place.end_line or self._last[1] > start:
            return
        cut = (
            self.view.slice(*found.span())
            for found in _ARGUMENT.finditer(self.view.text, start, end)
        )
        words = tuple(view.word(view.place(), view.text) for view in cut)
        if any(is_sign(word.text) for word in words):
            self.contents.stray.append((self._last[0], Command(words, place)))

    def _bodies(
        self, args: list[Word], written: list[tuple[str, RawWord | None, RawWord | None]]
    ) -> bool:
        """Read here-documents as the files or programs they become; True: that was all."""
        body = next((body for _, _, body in written if body is not None), None)
        files = [target for how, target, _ in written if ">" in how and target is not None]
        names = [self.variables.text(target, self.view)[0].text for target in files]
        names = [name for name in names if name != "/dev/null"]
        if body is not None:
            text, _, _ = self.variables.text(body, self.view, MAX_DOCUMENT)
            read = heredoc(args, text, names, self.contents)
            rest = self.view.text[self.view.text.rfind("\n", 0, body.start - 1) + 1 : body.start]
            if not read and base(args[0]) == "cat" and self._captured(body.start):
                file_inside(text, "", self.contents)
            elif not read and base(args[0]) == "cat" and "|" not in rest:
                lines = range(self.view.place(body.start).line, self.view.place(body.end).line + 1)
                self.contents.spoken.update(lines)
            return read
        return bool(names) and echoed(args, names[-1], self.contents)


# ---- wrappers ----

MOST_WRAPPERS = 100
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
_CLUSTER_C = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")
_NEWLINE = re.compile(r"\\n")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_NO_CONTAINER = ("compose", "build", "pull", "service", "stack")
"""Subcommands of a container program behind which `run` means something else."""


class Wrapper(RuleRow, frozen=True):
    """A row of rules/wrappers.toml: how a program names the command that it starts."""

    names: Names
    form: Literal["command", "shell", "eval", "quoted", "env", "container", "kubectl", "image"] = (
        "command"
    )
    subcommands: Names = ()
    options: Names = ()
    flags: Names = ()
    skip: int = 0

    def takes_value(self, option: str) -> bool:
        """Whether the next word belongs to an option of a container program: -it does not."""
        letters = {flag[1:] for flag in self.flags}
        cluster = len(option) > 1 and set(option[1:]) <= letters
        return option not in self.flags and not cluster


class WrapperFile(RuleRow, frozen=True):
    """rules/wrappers.toml."""

    wrapper: tuple[Wrapper, ...]


@cache
def rows() -> Mapping[str, Wrapper]:
    listed = rulefiles.read("wrappers", WrapperFile).wrapper
    return {name: row for row in listed for name in row.names}


def _form(name: str) -> str:
    return rows()[name].form if name in rows() else ""


@dataclass(slots=True)
class Unwrapping:
    """Takes wrappers off a command until the program itself is left."""

    contents: Contents
    variables: Variables = field(default_factory=Variables)
    place: FilePlace | None = None
    image: Word | None = None
    env: Mapping[str, Word] = field(default_factory=dict)

    def emit(self, args: list[Word]) -> None:
        """Add the command, or the commands of the script that it runs."""
        for _ in range(MOST_WRAPPERS):
            if not args or args[0].unknown:
                break
            name = base(args[0])
            row = rows().get(name)
            if row is None:
                if _PYTHON.fullmatch(name) and len(args) > 2 and args[1].text == "-c":
                    file_inside(args[2].view, "-c.py", self.contents)
                inner = self._of_function(args)
                if inner is None:
                    break
                args = inner
                continue
            rest = FORMS[row.form](self, row, args)
            if rest is None:  # it was read in another way
                return
            if rest is args:
                break
            args = rest
        else:
            self.contents.cut_at(args[0].place, TOO_MUCH)
        self.contents.command(args, self.place, self.image, self.env)

    def _of_function(self, args: list[Word]) -> list[Word] | None:
        """What a function or a program of one's own is given to run: … bash -c 'script'."""
        for at in range(1, min(len(args) - 2, 8)):
            if _form(base(args[at])) == "shell" and _CLUSTER_C.fullmatch(args[at + 1].text):
                return None if _TALKS.fullmatch(base(args[0])) else args[at:]
        return None

    def _command(self, row: Wrapper, args: list[Word]) -> list[Word]:
        at = 1
        if row.subcommands:
            if len(args) < 2 or args[1].text not in row.subcommands:
                return args
            at = 2
        return args[_first(args, at, row.options) + row.skip :]

    def _eval(self, row: Wrapper, args: list[Word]) -> list[Word] | None:
        if len(args) < 2:
            return args
        self._script(joined([view for arg in args[1:] for view in (arg.view, _space(arg.view))]))
        return None

    def _shell(self, row: Wrapper, args: list[Word]) -> list[Word] | None:
        for at, arg in enumerate(args[1:-1], start=1):
            if _CLUSTER_C.fullmatch(arg.text):
                self._script(args[at + 1].view, args[at + 2 :])
                return None
            if not arg.text.startswith(("-", "+")) and args[at - 1].text != "-o":
                break
        return args

    def _script(self, view: TextView, positional: list[Word] | None = None) -> None:
        values = dict(self.variables.values)
        if positional:
            values["@"] = VariableValue(items=positional[1:])
        variables = Variables(values, set(self.variables.exported))
        inside(view, self.contents, variables, self.image, self.env)

    def _env(self, row: Wrapper, args: list[Word]) -> list[Word]:
        at = _first(args, 1, row.options)
        env = dict(self.env)
        while at < len(args) and (match := _ASSIGNED.match(args[at].text)):
            view = args[at].view
            env[match[0][:-1]] = view.slice(match.end(), len(view.text)).word()
            at += 1
        self.env = env
        return args[at:]

    def _quoted(self, row: Wrapper, args: list[Word]) -> list[Word] | None:
        long = (arg for arg in reversed(args[1:]) if re.search(r"\s", arg.view.text))
        if (script := next(long, None)) is not None:
            self._script(script.view)
            return None
        return args[_first(args, 1, row.options) :] if row.options else args

    def _container(self, row: Wrapper, args: list[Word]) -> list[Word]:
        at = 1
        while at < len(args) and args[at].text not in row.subcommands:
            if args[at].text in _NO_CONTAINER:
                return args
            at += 1
        if at >= len(args):
            return args
        runs = args[at].text != "exec"
        at += 1
        entry, env = list[Word](), dict[str, Word]()
        while at < len(args) and (args[at].text.startswith("-") or _may_be_empty(args[at])):
            view = args[at].view
            name, equals, _ = view.text.partition("=")
            value = view.slice(len(name) + 1, len(view.text)) if equals else None
            at += 1
            if name.startswith(HOLE):
                continue
            if value is None and row.takes_value(name):
                value = args[at].view if at < len(args) else None
                at += 1
            if value is not None and name == "--entrypoint":
                entry = [value.word()] if value.text else []
            elif value is not None and name in ("-e", "--env") and "=" in value.text:
                key = value.text.partition("=")[0]
                env[key] = value.slice(len(key) + 1, len(value.text)).word()
        if at >= len(args):
            return args
        if not runs:
            return args[at + 1 :]
        self.image, self.env = args[at], env
        return [*entry, *args[at + 1 :]]

    def _image_file(self, row: Wrapper, args: list[Word]) -> list[Word]:
        if len(args) < 3 or args[1].text not in row.subcommands:
            return args
        at = _first(args, 2, row.options)
        if at < len(args) and args[at].text.startswith("docker://"):
            view = args[at].view
            self.image = view.slice(len("docker://"), len(view.text)).word()
        return args[at + 1 :]

    def _kubectl(self, row: Wrapper, args: list[Word]) -> list[Word]:
        if len(args) < 3 or args[1].text not in row.subcommands:
            return args
        end = next((i for i, arg in enumerate(args) if arg.text == "--"), len(args))
        for at, arg in enumerate(args[:end]):
            if arg.text.startswith("--image="):
                self.image = arg.view.slice(len("--image="), len(arg.view.text)).word()
            elif arg.text == "--image" and at + 1 < end:
                self.image = args[at + 1]
        return args[end + 1 :] if self.image is not None and end < len(args) else args


FORMS: Mapping[str, Callable[[Unwrapping, Wrapper, list[Word]], list[Word] | None]] = {
    "command": Unwrapping._command,
    "shell": Unwrapping._shell,
    "eval": Unwrapping._eval,
    "quoted": Unwrapping._quoted,
    "env": Unwrapping._env,
    "container": Unwrapping._container,
    "kubectl": Unwrapping._kubectl,
    "image": Unwrapping._image_file,
}


def _may_be_empty(arg: Word) -> bool:
    """${EXTRA:-} and the like: more options of the container, if any; no image is called so."""
    return (arg.unknown or "").endswith("-}") and not arg.view.text.strip(HOLE)


def base(arg: Word) -> str:
    return arg.text.rsplit("/", 1)[-1]


def heredoc(args: list[Word], text: TextView, files: list[str], contents: Contents) -> bool:
    """Read a here-document as what it becomes; False: the command itself still counts."""
    names = [base(arg) for arg in args if not arg.text.startswith("-")]
    program = names[0] if names else ""
    runs = _PYTHON.fullmatch(program) or _form(program) == "shell"
    if files and not runs:
        file_inside(text, files[-1], contents)
    elif "tee" in names and len(names) > names.index("tee") + 1:
        file_inside(text, names[names.index("tee") + 1], contents)
    elif any(_form(name) == "shell" for name in names) or program == "ssh":
        file_inside(text, "stdin.sh", contents)
    elif any(_PYTHON.fullmatch(name) for name in names):
        file_inside(text, "stdin.py", contents)
    elif _form(program) in ("kubectl", "container"):
        file_inside(text, "stdin.yaml", contents)
    else:
        return False
    return True


def echoed(args: list[Word], name: str, contents: Contents) -> bool:
    """Read what echo or printf writes to a script; False: they do not."""
    if base(args[0]) not in ("echo", "printf") or len(args) < 2:
        return False
    if not name.endswith(".sh") and not any("#!" in arg.view.text for arg in args[1:3]):
        return False
    parts = list[TextView]()
    for arg in args[1:]:
        if arg.text in ("-e", "-n", "-ne", "-en"):
            continue
        parts += [_with_breaks(arg.view), _space(arg.view)]
    if parts:
        file_inside(joined(parts), name, contents)
    return True


def file_inside(view: TextView, name: str, contents: Contents) -> None:
    """Read a file that stands inside another."""
    if hinted(view.text) and contents.deeper(view):
        before = len(contents.documents)
        contents.read_file(view, name, contents)
        contents.depth -= 1
        if len(contents.documents) > before:
            contents.written[name.rpartition("/")[2]] = contents.documents[before:]


def _first(args: list[Word], at: int, options: tuple[str, ...]) -> int:
    """The index of the first word that is no option and no option's value."""
    while at < len(args) and args[at].text.startswith("-"):
        text = args[at].text
        at += 1
        if text == "--":
            break
        if text in options:
            at += 1
    return at


def _with_breaks(view: TextView) -> TextView:
    return filled(view, _NEWLINE, lambda match: view.instead("\n", *match.span()))


def _space(view: TextView) -> TextView:
    """A blank behind it."""
    return view.blank(max(len(view.text) - 1, 0))
