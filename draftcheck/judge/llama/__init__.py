"""llama.cpp's loader, step by step: from the facts of a file to the vocabulary it ends up with.

The steps and their order are code; names, defaults, builds and which failure exists in which
build are data (rules/engines/llamacpp.toml, rules/tables/llamacpp-*.toml).
"""
