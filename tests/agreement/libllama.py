"""What llama.cpp's own library makes of vocabularies, one JSON line a file.

    python libllama.py LIBRARY FILE…

LIBRARY is a libllama shared library, as in the npm packages @node-llama-cpp/linux-x64 and its
sisters. Only the vocabulary is loaded (vocab_only), so no backend is needed. Run it as a child:
some files abort the process, and the line of the file that did so is missing.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
from pathlib import Path


class ModelParams(ctypes.Structure):
    """llama_model_params as include/llama.h has it from v0.5.0 on."""

    _fields_ = (
        ("devices", ctypes.c_void_p),
        ("tensor_buft_overrides", ctypes.c_void_p),
        ("n_gpu_layers", ctypes.c_int32),
        ("split_mode", ctypes.c_int),
        ("load_mode", ctypes.c_int),
        ("lazy_mode", ctypes.c_int),
        ("main_gpu", ctypes.c_int32),
        ("tensor_split", ctypes.c_void_p),
        ("progress_callback", ctypes.c_void_p),
        ("progress_callback_user_data", ctypes.c_void_p),
        ("kv_overrides", ctypes.c_void_p),
        ("vocab_only", ctypes.c_bool),
        ("check_tensors", ctypes.c_bool),
        ("use_extra_bufts", ctypes.c_bool),
        ("no_host", ctypes.c_bool),
        ("no_alloc", ctypes.c_bool),
        ("load_mtp", ctypes.c_bool),
        ("spare", ctypes.c_char * 64),
    )


NUMBERS = ("type", "n_tokens", "bos", "eos", "get_add_bos", "get_add_eos")


def open_library(path: Path) -> ctypes.CDLL:
    """Its neighbours first, so that it finds them; then the functions that are called."""
    neighbours = [*path.parent.glob("libggml-base*"), *path.parent.glob("libggml.*")]
    for neighbour in neighbours:
        ctypes.CDLL(str(neighbour), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    library.llama_model_default_params.restype = ModelParams
    library.llama_model_load_from_file.argtypes = (ctypes.c_char_p, ModelParams)
    library.llama_model_load_from_file.restype = ctypes.c_void_p
    library.llama_model_free.argtypes = (ctypes.c_void_p,)
    library.llama_model_get_vocab.argtypes = (ctypes.c_void_p,)
    library.llama_model_get_vocab.restype = ctypes.c_void_p
    for name in NUMBERS:
        function = getattr(library, f"llama_vocab_{name}")
        function.argtypes = (ctypes.c_void_p,)
        function.restype = ctypes.c_bool if name.startswith("get_add") else ctypes.c_int32
    library.llama_vocab_get_text.argtypes = (ctypes.c_void_p, ctypes.c_int32)
    library.llama_vocab_get_text.restype = ctypes.c_char_p
    return library


def parameters(library: ctypes.CDLL) -> ModelParams:
    found = library.llama_model_default_params()
    if (found.n_gpu_layers, found.vocab_only, found.use_extra_bufts) != (-1, False, True):
        raise SystemExit("llama_model_params of this library has another layout")
    found.vocab_only = True
    return found


def digest(texts: list[bytes]) -> str:
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def describe(library: ctypes.CDLL, path: str) -> dict[str, object]:
    model = library.llama_model_load_from_file(path.encode(), parameters(library))
    if not model:
        return {"file": path, "loads": False}
    vocab = library.llama_model_get_vocab(model)
    found = {name: getattr(library, f"llama_vocab_{name}")(vocab) for name in NUMBERS}
    texts = None
    if found["type"]:  # without a vocabulary, reading a text aborts
        count = int(found["n_tokens"])
        texts = digest([library.llama_vocab_get_text(vocab, i) for i in range(count)])
    library.llama_model_free(model)
    return {"file": path, "loads": True, **found, "texts": texts}


def main() -> None:
    library = open_library(Path(sys.argv[1]))
    for path in sys.argv[2:]:
        print(json.dumps(describe(library, path)), flush=True)


if __name__ == "__main__":
    main()
