"""Commands that start other commands: sudo, env, bash -c, docker run, kubectl run …

rules/wrappers.toml says which programs do so and where the inner command begins. A wrapper is taken
off, what is left may be another one, until the program itself stands first. A script inside quotes
is read like a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Literal

from draftcheck.deploy.deployment import TOO_MUCH, ContentsBuilder
from draftcheck.deploy.options.programs import hinted
from draftcheck.deploy.syntax.variables import Variables, VariableValue, filled
from draftcheck.deploy.text import TextView, Word, joined
from draftcheck.rulebook import files as rulefiles
from draftcheck.rulebook.files import Names, RuleRow
from draftcheck.values.findings import FilePlace

MOST_WRAPPERS = 100
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
_CLUSTER_C = re.compile(r"-[a-zA-Z]*c")
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

    contents: ContentsBuilder
    variables: Variables = field(default_factory=Variables)
    place: FilePlace | None = None
    image: Word | None = None
    env: Mapping[str, Word] = field(default_factory=dict)

    def emit(self, args: list[Word]) -> None:
        """Add the command, or the commands of the script that it runs."""
        for _ in range(MOST_WRAPPERS):
            if not args or args[0].unknown:
                break
            rest = self._inner(base(args[0]), args)
            if rest is None:
                return
            if rest is args:
                break
            args = rest
        else:
            self.contents.cut_at(args[0].place, TOO_MUCH)
        self.contents.command(args, self.place, self.image, self.env)

    def _inner(self, name: str, args: list[Word]) -> list[Word] | None:
        """The command inside; the same: none; None: it was read in another way."""
        row = rows().get(name)
        if row is not None:
            return FORMS[row.form](self, row, args)
        if _PYTHON.fullmatch(name) and len(args) > 2 and args[1].text == "-c":
            inside(args[2].view, "-c.py", self.contents)
        return args

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
        self.contents.read_script(view, self.contents, variables, self.image, self.env)

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
        last = args[-1]
        if len(args) > 1 and re.search(r"\s", last.view.text):
            self._script(last.view)
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
        at, entry, env = self._container_options(row, args, at + 1)
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

    def _container_options(
        self, row: Wrapper, args: list[Word], at: int
    ) -> tuple[int, list[Word], dict[str, Word]]:
        entry, env = list[Word](), dict[str, Word]()
        while at < len(args) and args[at].text.startswith("-"):
            view = args[at].view
            name, equals, _ = view.text.partition("=")
            value = view.slice(len(name) + 1, len(view.text)) if equals else None
            at += 1
            if value is None and row.takes_value(name):
                value = args[at].view if at < len(args) else None
                at += 1
            if value is None:
                continue
            if name == "--entrypoint":
                entry = [value.word()] if value.text else []
            elif name in ("-e", "--env") and "=" in value.text:
                key = value.text.partition("=")[0]
                env[key] = value.slice(len(key) + 1, len(value.text)).word()
        return at, entry, env

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


def base(arg: Word) -> str:
    return arg.text.rsplit("/", 1)[-1]


def heredoc(args: list[Word], text: TextView, files: list[str], contents: ContentsBuilder) -> bool:
    """Read a here-document as what it becomes; False: the command itself still counts."""
    names = [base(arg) for arg in args if not arg.text.startswith("-")]
    program = names[0] if names else ""
    if files:
        inside(text, files[-1], contents)
    elif "tee" in names and len(names) > names.index("tee") + 1:
        inside(text, names[names.index("tee") + 1], contents)
    elif any(_form(name) == "shell" for name in names) or program == "ssh":
        inside(text, "stdin.sh", contents)
    elif any(_PYTHON.fullmatch(name) for name in names):
        inside(text, "stdin.py", contents)
    elif _form(program) in ("kubectl", "container"):
        inside(text, "stdin.yaml", contents)
    else:
        return False
    return True


def echoed(args: list[Word], name: str, contents: ContentsBuilder) -> bool:
    """Read what echo or printf writes to a script; False: they do not."""
    if base(args[0]) not in ("echo", "printf") or len(args) < 2:
        return False
    if not name.endswith(".sh") and not any("#!" in arg.view.text for arg in args[1:3]):
        return False
    parts = list[TextView]()
    for arg in args[1:]:
        if arg.text in ("-e", "-n", "-ne", "-en"):
            continue
        parts += [filled(arg.view, _NEWLINE, partial(_newline, arg.view)), _space(arg.view)]
    if parts:
        inside(joined(parts), name, contents)
    return True


def _newline(view: TextView, match: re.Match[str]) -> TextView:
    return view.instead("\n", *match.span())


def inside(view: TextView, name: str, contents: ContentsBuilder) -> None:
    """Read a file that stands inside another."""
    if hinted(view.text) and contents.deeper(view):
        contents.read_file(view, name, contents)
        contents.depth -= 1


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


def _space(view: TextView) -> TextView:
    """A blank behind it."""
    return view.blank(max(len(view.text) - 1, 0))
