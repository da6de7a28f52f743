"""The other ways of reading two vocabularies: a command each, or None where one is missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from benchmarks.measure import Command

WHY = {
    "AutoTokenizer": "transformers is not installed (extra `trial`)",
    "GGUFReader": "gguf is not installed (extra `deep`)",
    "llama.cpp": "llama-cpp-python is not installed",
}

AUTO = """
import sys
from transformers import AutoTokenizer
one, two = (AutoTokenizer.from_pretrained(path).get_vocab() for path in sys.argv[1:])
print(one == two)
"""
READER = """
import sys
from gguf import GGUFReader
tokens = [GGUFReader(path).fields["tokenizer.ggml.tokens"].contents() for path in sys.argv[1:]]
print(tokens[0] == tokens[1])
"""
LLAMA = """
import sys
import llama_cpp.llama_cpp as llama_cpp
llama_cpp.llama_backend_init()
parameters = llama_cpp.llama_model_default_params()
parameters.vocab_only = True
texts = []
for path in sys.argv[1:]:
    model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
    assert model, path
    vocab = llama_cpp.llama_model_get_vocab(model)
    texts.append(llama_cpp.llama_vocab_n_tokens(vocab))
print(texts)
"""


def _command(module: str, code: str, paths: tuple[Path, ...]) -> Command | None:
    if importlib.util.find_spec(module) is None:
        return None
    return Command(sys.executable, "-c", code, *paths)


def auto_tokenizer(*paths: Path) -> Command | None:
    return _command("transformers", AUTO, paths)


def gguf_reader(*paths: Path) -> Command | None:
    return _command("gguf", READER, paths)


def llama_cpp(*paths: Path) -> Command | None:
    """Reads both vocabularies and compares nothing: less than what we do."""
    return _command("llama_cpp", LLAMA, paths)
