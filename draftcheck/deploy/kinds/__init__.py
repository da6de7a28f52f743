"""How each kind of deploy file is read; choose.py knows them all and says which reads a file.

shell.py also takes sudo, env, docker run … off the commands that all kinds hold.
"""

import re

from draftcheck.deploy.syntax import code_talk

DOCUMENTS = (".md", ".markdown", ".mdx")
"""What they show is a note at most."""
LANGUAGES = (*code_talk.SOURCES, *code_talk.SCRIPTS, ".toml", ".plist")
"""Of programs that are read only where something stands in them literally."""

_TEST_FILE = re.compile(
    r"(?:^|/)(?:(?:self)?test[-_][^/]*|[^/]*[-_]test|conftest)\.(?:py|sh|bash)$"
)
_TEST_SOURCE = re.compile(
    r"(?:^|/)(?:tests?|__tests__|testing|test_[^/]*)(?:/|\.\w+$)|[._-](?:test|spec)s?\.\w+$"
)


def is_test(name: str) -> bool:
    """Whether a program of this path tests others."""
    if name.endswith(code_talk.SOURCES + code_talk.SCRIPTS):
        return _TEST_SOURCE.search(name) is not None
    return _TEST_FILE.search(name) is not None
