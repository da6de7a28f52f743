"""Markdown: fenced blocks are read as the scripts and files that they show; prose is not."""

from __future__ import annotations

import re

from draftcheck.deploy.deployment import Contents
from draftcheck.deploy.kinds import shell
from draftcheck.deploy.syntax.variables import filled
from draftcheck.deploy.text import TextView

_FENCE = re.compile(
    r"^(?P<indent>[ \t>]*)(?P<mark>`{3,}|~{3,})[ \t]*\{?\.?(?P<language>[\w+-]*)[^\n`]*\n"
    r"(?P<body>.*?)^[ \t>]*(?P=mark)",
    re.MULTILINE | re.DOTALL,
)
_PROMPT = re.compile(r"^[ \t]*[$>#%][ \t]+(?=\w)", re.MULTILINE)
_NAMES = {
    **dict.fromkeys(("", "sh", "bash", "shell", "zsh", "console", "terminal", "text"), "block.sh"),
    **dict.fromkeys(("shellsession", "shell-session", "bash-session", "cmd-session"), "block.sh"),
    **dict.fromkeys(("yaml", "yml", "docker-compose"), "block.yaml"),
    **dict.fromkeys(("python", "py", "python3"), "block.py"),
    **dict.fromkeys(("powershell", "ps1", "pwsh"), "block.ps1"),
    **dict.fromkeys(("bat", "batch", "cmd", "dos"), "block.bat"),
    **dict.fromkeys(("dockerfile", "docker"), "Dockerfile"),
    **dict.fromkeys(("js", "javascript", "ts", "typescript"), "block.js"), "nix": "block.nix",
    "json": "block.json", "ini": "block.ini", "systemd": "block.service", "make": "Makefile",
}  # fmt: skip


def read(view: TextView, contents: Contents) -> None:
    """Collect what each block starts; what is not understood in one is a matter of its author."""
    for fence in _FENCE.finditer(view.text):
        name = _NAMES.get(fence["language"].lower())
        if name is None or not fence["body"].strip():
            continue
        body = view.slice(*fence.span("body"))
        if name == "block.sh":
            body = _without_prompts(body)
        if name == "block.yaml":
            name = "compose.yaml" if "services:" in body.text else name
        shell.file_inside(body, name, contents)
    contents.troubles.clear()


def _without_prompts(body: TextView) -> TextView:
    return filled(body, _PROMPT, lambda prompt: body.slice(prompt.end(), prompt.end()))
