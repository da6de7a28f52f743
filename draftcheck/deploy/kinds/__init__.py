"""How each kind of deploy file is read; choose.py knows them all and says which reads a file.

shell.py also takes sudo, env, docker run … off the commands that all kinds hold.
"""

DOCUMENTS = (".md", ".markdown", ".mdx")
"""What they show is a note at most."""
LANGUAGES = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".nix",
             ".tf", ".hcl", ".nomad", ".toml", ".plist")  # fmt: skip
"""Of programs that are read only where something stands in them literally."""
