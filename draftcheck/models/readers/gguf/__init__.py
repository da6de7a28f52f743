"""GGUF files: header, tensor table, and the facts in them."""
