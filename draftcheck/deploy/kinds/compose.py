"""Compose files: services with image, entrypoint, command and environment."""

from __future__ import annotations

import re

from draftcheck.deploy.contents import ContentsBuilder
from draftcheck.deploy.kinds.containers import ContainerReader
from draftcheck.deploy.syntax.variables import interpolated
from draftcheck.deploy.syntax.yaml_tree import parse
from draftcheck.deploy.text import TextView

NAMES = re.compile(r".+\.ya?ml")


def claims(name: str, text: str) -> bool:
    """Whether this is a compose file."""
    return "compose" in name or ("\nservices:" in f"\n{text}" and "image:" in text)


def read(view: TextView, contents: ContentsBuilder) -> None:
    """Collect the services' commands."""
    parsed = parse(view, contents)
    reader = ContainerReader(
        parsed, contents, lambda text: interpolated(text, None, contents.outside)
    )
    for tree in parsed.trees:
        services = tree.get("services")
        for _, service in (services.entries or ()) if services else ():
            env = reader.environment(service.get("environment"))
            args = reader.args(service.get("entrypoint")) + reader.args(service.get("command"))
            reader.emit(args, reader.image(service.get("image")), env)
            inline = service.get("build", "dockerfile_inline")
            if inline is not None:
                reader.file(inline, "Dockerfile")
        configs = tree.get("configs")
        for key, config in (configs.entries or ()) if configs else ():
            content = config.get("content")
            if content is not None:
                reader.file(content, key.text)
