"""How each kind of deploy file is read; choose.py knows them all and says which reads a file.

shell.py also takes sudo, env, docker run … off the commands that all kinds hold.
"""

import re

DOCUMENTS = (".md", ".markdown", ".mdx")
"""What they show is a note at most."""
LANGUAGES = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".nix",
             ".tf", ".hcl", ".nomad", ".toml", ".plist")  # fmt: skip
"""Of programs that are read only where something stands in them literally."""

_TEST_FILE = re.compile(
    r"(?:^|/)(?:(?:self)?test[-_][^/]*|[^/]*[-_]test|conftest)\.(?:py|sh|bash)$"
)


def is_test(name: str) -> bool:
    """Whether a program of this path tests others."""
    return _TEST_FILE.search(name) is not None
