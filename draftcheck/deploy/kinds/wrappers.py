"""Commands that start other commands: sudo, env, bash -c, docker run, kubectl run …"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from draftcheck.deploy.deployment import Word
from draftcheck.deploy.gathered import ContentsBuilder
from draftcheck.deploy.hints import hinted
from draftcheck.deploy.syntax.variables import Variables, VariableValue, filled
from draftcheck.deploy.text import CommandArgument, TextView, joined
from draftcheck.values.findings import FilePlace

SHELLS = {"sh", "bash", "zsh", "dash", "ash", "ksh"}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
_CLUSTER_C = re.compile(r"-[a-zA-Z]*c")
_NEWLINE = re.compile(r"\\n")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
# Options of a wrapper that take a value of their own, and how many words come before the command.
_WRAPPERS: dict[str, tuple[frozenset[str], int]] = {
    name: (frozenset(options.split()), skip)
    for name, options, skip in (
        ("exec", "-a", 0),
        ("command", "", 0),
        ("builtin", "", 0),
        ("nohup", "", 0),
        ("setsid", "", 0),
        ("time", "-f -o", 0),
        ("nice", "-n", 0),
        ("ionice", "-c -n", 0),
        ("stdbuf", "-i -o -e", 0),
        ("unbuffer", "", 0),
        ("timeout", "-k -s --kill-after --signal", 1),
        ("numactl", "-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave", 0),
        ("taskset", "", 1),
        ("chrt", "", 1),
        ("sudo", "-u -g -h -p -C -r -t -U --user --group", 0),
        ("doas", "-u -C", 0),
        ("gosu", "", 1),
        ("su-exec", "", 1),
        ("tini", "-p", 0),
        ("dumb-init", "", 0),
        ("catchsegv", "", 0),
        ("systemd-inhibit", "", 0),
        ("caffeinate", "-t -w", 0),
    )
}
# name and subcommand; options with values are too many to list: the first likely word starts it.
_RUNNERS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    name: (tuple(subcommands.split()), frozenset(options.split()))
    for name, subcommands, options in (
        ("uv", "run", "--with --python -p --project --directory --extra --group --index-url"),
        ("poetry", "run", ""),
        ("pipenv", "run", ""),
        ("pdm", "run", ""),
        ("hatch", "run", ""),
        ("pixi", "run", "-e --environment"),
        ("conda", "run", "-n --name -p --prefix"),
        ("mamba", "run", "-n --name -p --prefix"),
        ("micromamba", "run", "-n --name -p --prefix"),
        ("op", "run", "--env-file"),
        ("doppler", "run", ""),
        ("accelerate", "launch", "--config_file --num_processes"),
        ("srun", "", "-N -n -w -p -A -J -c -t -o -e -G --nodes --ntasks --partition"),
        ("mpirun", "", "-n -np -H -hostfile --hostfile -x"),
        ("systemd-run", "", "-p -u -E --unit --slice"),
        ("nsys", "profile", "-o -t --output --trace"),
        ("xvfb-run", "", "-n -s"),
    )
}
_SCREEN = frozenset(["-S", "-dmS", "-DmS", "-c", "-e", "-h", "-s", "-t", "-T", "-Logfile"])
_APPTAINER = frozenset(
    ["-B", "--bind", "-H", "--home", "-W", "--workdir", "--env", "--env-file", "--pwd", "--overlay"]
)
_CONTAINERS = {"docker", "podman", "nerdctl", "docker.exe"}
_FLAGS = {
    "-d", "-i", "-t", "-P", "-q", "--detach", "--interactive", "--tty", "--rm", "--init",
    "--privileged", "--publish-all", "--read-only", "--no-healthcheck", "--oom-kill-disable",
    "--sig-proxy", "--quiet", "--replace", "--rmi", "--disable-content-trust", "--no-hosts",
    "--no-hostname", "--systemd", "--tls-verify",
}  # fmt: skip
_SINGLE_LETTERS = re.compile(r"-[ditPq]+")


@dataclass(slots=True)
class Unwrapping:
    """Takes wrappers off a command until the program itself is left."""

    gathered: ContentsBuilder
    variables: Variables = field(default_factory=Variables)
    place: FilePlace | None = None
    image: Word | None = None
    env: Mapping[str, Word] = field(default_factory=dict)

    def emit(self, args: list[CommandArgument]) -> None:
        """Add the command, or the commands of the script that it runs."""
        for _ in range(20):
            if not args or args[0].word.unknown:
                break
            rest = self._inner(base(args[0]), args)
            if rest is None:
                return
            if rest is args:
                break
            args = rest
        self.gathered.command(args, self.place, self.image, self.env)

    def _inner(self, name: str, args: list[CommandArgument]) -> list[CommandArgument] | None:
        """The command inside; the same: none; None: it was read in another way."""
        if name in SHELLS:
            return self._shell(args)
        if name == "env":
            return self._env(args)
        if name in _WRAPPERS:
            options, skip = _WRAPPERS[name]
            return args[_first(args, 1, options) + skip :]
        if name in _RUNNERS:
            return self._runner(name, args)
        if name in _CONTAINERS:
            return self._container(args)
        if name in ("kubectl", "oc") and len(args) > 2 and args[1].word.text == "run":
            return self._kubectl(args)
        if name == "eval" and len(args) > 1:
            parts = [view for arg in args[1:] for view in (arg.view, _space(arg.view))]
            self._script(joined(parts))
            return None
        if name in ("ssh", "tmux", "screen", "su", "script", "watch"):
            rest = self._quoted(args)
            plain = name == "screen" and rest is args
            return args[_first(args, 1, _SCREEN) :] if plain else rest
        if name in ("apptainer", "singularity"):
            return self._image_file(args)
        if _PYTHON.fullmatch(name) and len(args) > 2 and args[1].word.text == "-c":
            inside(args[2].view, "-c.py", self.gathered)
        return args

    def _shell(self, args: list[CommandArgument]) -> list[CommandArgument] | None:
        for at, arg in enumerate(args[1:-1], start=1):
            if _CLUSTER_C.fullmatch(arg.word.text):
                self._script(args[at + 1].view, args[at + 2 :])
                return None
            if not arg.word.text.startswith(("-", "+")) and args[at - 1].word.text != "-o":
                break
        return args

    def _script(self, view: TextView, positional: list[CommandArgument] | None = None) -> None:
        values = dict(self.variables.values)
        if positional:
            values["@"] = VariableValue(items=positional[1:])
        variables = Variables(values, set(self.variables.exported))
        self.gathered.embedded.script(view, self.gathered, variables, self.image, self.env)

    def _env(self, args: list[CommandArgument]) -> list[CommandArgument]:
        at = _first(args, 1, frozenset(("-u", "-C", "--unset", "--chdir")))
        env = dict(self.env)
        while at < len(args) and (match := _ASSIGNED.match(args[at].word.text)):
            view = args[at].view
            env[match[0][:-1]] = view.slice(match.end(), len(view.text)).word()
            at += 1
        self.env = env
        return args[at:]

    def _runner(self, name: str, args: list[CommandArgument]) -> list[CommandArgument]:
        subcommands, options = _RUNNERS[name]
        at = 1
        if subcommands:
            if len(args) < 2 or args[1].word.text not in subcommands:
                return args
            at = 2
        return args[_first(args, at, options) :]

    def _quoted(self, args: list[CommandArgument]) -> list[CommandArgument] | None:
        last = args[-1]
        if len(args) > 1 and re.search(r"\s", last.view.text):
            self._script(last.view)
            return None
        return args

    def _container(self, args: list[CommandArgument]) -> list[CommandArgument]:
        at = 1
        while at < len(args) and args[at].word.text not in ("run", "create", "exec"):
            if args[at].word.text in ("compose", "build", "pull", "service", "stack"):
                return args
            at += 1
        if at >= len(args):
            return args
        runs = args[at].word.text != "exec"
        at, entry, env = self._container_options(args, at + 1)
        if at >= len(args):
            return args
        if not runs:
            return args[at + 1 :]
        self.image, self.env = args[at].word, env
        inner = [*entry, *args[at + 1 :]]
        if not inner:
            self.gathered.command([], self.place, self.image, env)
        return inner

    def _image_file(self, args: list[CommandArgument]) -> list[CommandArgument]:
        """apptainer exec [options] docker://image command"""
        if len(args) < 3 or args[1].word.text not in ("exec", "run"):
            return args
        at = _first(args, 2, _APPTAINER)
        if at < len(args) and args[at].word.text.startswith("docker://"):
            view = args[at].view
            self.image = view.slice(len("docker://"), len(view.text)).word()
        return args[at + 1 :]

    def _container_options(
        self, args: list[CommandArgument], at: int
    ) -> tuple[int, list[CommandArgument], dict[str, Word]]:
        entry, env = list[CommandArgument](), dict[str, Word]()
        while at < len(args) and args[at].word.text.startswith("-"):
            view = args[at].view
            name, equals, _ = view.text.partition("=")
            value = view.slice(len(name) + 1, len(view.text)) if equals else None
            at += 1
            if value is None and name not in _FLAGS and not _SINGLE_LETTERS.fullmatch(name):
                value = args[at].view if at < len(args) else None
                at += 1
            if value is None:
                continue
            if name == "--entrypoint":
                entry = [CommandArgument.of(value)] if value.text else []
            elif name in ("-e", "--env") and "=" in value.text:
                key = value.text.partition("=")[0]
                env[key] = value.slice(len(key) + 1, len(value.text)).word()
        return at, entry, env

    def _kubectl(self, args: list[CommandArgument]) -> list[CommandArgument]:
        end = next((i for i, arg in enumerate(args) if arg.word.text == "--"), len(args))
        for at, arg in enumerate(args[:end]):
            if arg.word.text.startswith("--image="):
                self.image = arg.view.slice(len("--image="), len(arg.view.text)).word()
            elif arg.word.text == "--image" and at + 1 < end:
                self.image = args[at + 1].word
        return args[end + 1 :] if self.image is not None and end < len(args) else args


def base(arg: CommandArgument) -> str:
    """The name of a program without its folder."""
    return arg.word.text.rsplit("/", 1)[-1]


def heredoc(
    args: list[CommandArgument], text: TextView, choose: list[str], gathered: ContentsBuilder
) -> bool:
    """Read a here-document as what it becomes; False: the command itself still counts."""
    names = [base(arg) for arg in args if not arg.word.text.startswith("-")]
    program = names[0] if names else ""
    if choose:
        inside(text, choose[-1], gathered)
    elif "tee" in names and len(names) > names.index("tee") + 1:
        inside(text, names[names.index("tee") + 1], gathered)
    elif any(name in SHELLS for name in names) or program == "ssh":
        inside(text, "stdin.sh", gathered)
    elif any(_PYTHON.fullmatch(name) for name in names):
        inside(text, "stdin.py", gathered)
    elif program in ("kubectl", "oc", *_CONTAINERS):
        inside(text, "stdin.yaml", gathered)
    else:
        return False
    return True


def echoed(args: list[CommandArgument], name: str, gathered: ContentsBuilder) -> bool:
    """Read what echo or printf writes to a script; False: they do not."""
    if base(args[0]) not in ("echo", "printf") or len(args) < 2:
        return False
    if not name.endswith(".sh") and not any("#!" in arg.view.text for arg in args[1:3]):
        return False
    parts = list[TextView]()
    for arg in args[1:]:
        if arg.word.text in ("-e", "-n", "-ne", "-en"):
            continue
        parts += [filled(arg.view, _NEWLINE, partial(_newline, arg.view)), _space(arg.view)]
    if parts:
        inside(joined(parts), name, gathered)
    return True


def _newline(view: TextView, match: re.Match[str]) -> TextView:
    return view.instead("\n", *match.span())


def inside(view: TextView, name: str, gathered: ContentsBuilder) -> None:
    """Read a file that stands inside another."""
    if hinted(view.text) and gathered.deeper(len(view.text)):
        gathered.embedded.file(view, name, gathered)
        gathered.depth -= 1


def _first(args: list[CommandArgument], at: int, options: frozenset[str]) -> int:
    """The index of the first word that is no option and no option's value."""
    while at < len(args) and args[at].word.text.startswith("-"):
        text = args[at].word.text
        at += 1
        if text == "--":
            break
        if text in options:
            at += 1
    return at


def _space(view: TextView) -> TextView:
    """A blank behind it."""
    return view.blank(max(len(view.text) - 1, 0))
