"""One GGUF model in this process, through llama-cpp-python.

The draft reads the target's text in one pass, a few hundred rows of logits at a time.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from draftcheck.errors import ReadError
from draftcheck.trial.backends.backend import (
    TargetText,
    TrialOptions,
    check_rows,
    draft_not_numbers,
    target_not_numbers,
)
from draftcheck.trial.backends.llamacpp.program import how_it_ended
from draftcheck.trial.backends.sides import DraftReader, TargetWriter
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.simulate.traces import CONFIDENCE_TOP, Floats, Ints

CHUNK_BYTES = 64 << 20
"""Logits in float32 at a time."""
BATCH = 512
REPEATS = 2
"""In a round."""
NEEDED = (
    "llama_model_load_from_file", "llama_init_from_model", "llama_get_memory",
    "llama_memory_seq_rm", "llama_memory_clear", "llama_vocab_is_eog", "llama_vocab_get_text",
)  # fmt: skip
"""Younger than the rest of what is called here: llama-cpp-python 0.3.10 has them."""
REHEARSAL = (
    "import sys; from pathlib import Path;"
    f"from {TrialOptions.__module__} import TrialOptions;"
    f"from {__name__} import LlamaLibrary;"
    "options = TrialOptions(device=sys.argv[2] or None);"
    "LlamaLibrary(Path(sys.argv[1]), 64, options).step(8, 2)"
)


def missing() -> str | None:
    """Why it cannot be used here; None: it can."""
    try:
        library = importlib.import_module("llama_cpp")
    except ImportError:
        return "llama-cpp-python is not installed (pip install llama-cpp-python)"
    except (OSError, RuntimeError) as error:  # its shared library does not load
        return f"llama-cpp-python does not load: {' '.join(str(error).split())[:200]}"
    if not all(hasattr(library, name) for name in NEEDED):
        return "llama-cpp-python is too old (pip install -U llama-cpp-python)"
    return None


def rehearse(file: Path, options: TrialOptions) -> None:
    """Load and run the model in a process of its own first: llama.cpp aborts on some files."""
    command = [sys.executable, "-c", REHEARSAL, str(file), options.device or ""]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode < 0:  # any other trouble shows, in words, when it is loaded here
        lines = done.stderr.decode("utf-8", "replace").split("\n")
        said = next((line.strip() for line in lines if "ASSERT" in line or "error" in line), "")
        words = f"llama.cpp {how_it_ended(done.returncode)}"
        raise ReadError(f"{file}: {words}" + (f": {said[:200]}" if said else ""))


class LlamaLibrary(TargetWriter, DraftReader):
    """A model and its context, loaded once."""

    rows: int
    context: int

    def __init__(self, file: Path, context: int, options: TrialOptions) -> None:
        self._api: Any = importlib.import_module("llama_cpp")
        self._file = file
        self._quiet = self._api.llama_log_callback(_nothing)
        self._api.llama_log_set(self._quiet, ctypes.c_void_p(0))
        offload = self._api.llama_supports_gpu_offload() and options.device != "cpu"
        settings = self._api.llama_model_default_params()
        settings.n_gpu_layers = 999 if offload else 0
        if number := (options.device or "").partition(":")[2]:
            settings.split_mode, settings.main_gpu = 0, int(number)  # one GPU, this one
        self._model = self._api.llama_model_load_from_file(str(file).encode(), settings)
        if not self._model:
            raise ReadError(f"{file}: llama.cpp cannot load it")
        self._vocab = self._api.llama_model_get_vocab(self._model)
        self.rows = int(self._api.llama_vocab_n_tokens(self._vocab))
        trained = int(self._api.llama_model_n_ctx_train(self._model))
        self.context = min(context, trained) if trained > 0 else context
        self._chunk = max(1, min(BATCH, CHUNK_BYTES // (4 * self.rows)))
        limits = self._api.llama_context_default_params()
        limits.n_ctx, limits.n_batch, limits.n_ubatch = self.context, BATCH, BATCH
        limits.n_threads = limits.n_threads_batch = _threads()
        self._context = self._api.llama_init_from_model(self._model, limits)
        if not self._context:
            raise ReadError(f"{self._file}: no memory for a context of {self.context:,} tokens")
        self._memory = self._api.llama_get_memory(self._context)
        self._batch = self._api.llama_batch_init(BATCH, 0, 1)
        self.engine, self.version = "llama.cpp", f"llama-cpp-python {self._api.__version__}"
        self._ready = 0
        """Tokens that a step left in the cache to stand behind."""
        self.device = "gpu" if offload else "cpu"
        description = ctypes.create_string_buffer(256)
        self._api.llama_model_desc(self._model, description, len(description))
        self.dtype = description.value.decode("utf-8", "replace") or "as in the file"

    def close(self) -> None:
        if self._model:
            self._api.llama_batch_free(self._batch)
            self._api.llama_free(self._context)
            self._api.llama_model_free(self._model)
            self._model = None

    # ---- running it ----

    def _decode(self, ids: Sequence[int], at: int, wanted: int) -> np.ndarray[Any, Any]:
        """Read tokens from place `at` on; logits behind the last `wanted` of them."""
        batch = self._batch
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i] = token, at + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = i >= len(ids) - wanted
        code = self._api.llama_decode(self._context, batch)
        if code != 0:
            raise ReadError(f"{self._file}: llama_decode fails with {code}")
        rows = [
            np.ctypeslib.as_array(self._api.llama_get_logits_ith(self._context, i), (self.rows,))
            for i in range(len(ids) - wanted, len(ids))
        ]
        return np.stack(rows) if rows else np.zeros((0, self.rows), dtype=np.float32)

    def _begin_with(self, ids: Sequence[int], count: int) -> None:
        self._ready = 0
        self._api.llama_memory_clear(self._memory, True)
        for at in range(0, count, BATCH):
            self._decode(ids[at : min(at + BATCH, count)], at, 0)

    # ---- the target's text ----

    def encode(self, prompt: Prompt, options: TrialOptions) -> list[int]:
        template = self._api.llama_model_chat_template(self._model, None)
        if not template:
            return self.spell(prompt.text, special=True)
        start = self._piece(self._api.llama_vocab_bos(self._vocab))
        end = self._piece(self._api.llama_vocab_eos(self._vocab))
        formats = importlib.import_module("llama_cpp.llama_chat_format")
        try:
            text = formats.Jinja2ChatFormatter(template.decode("utf-8", "replace"), end, start)(
                messages=[dict(message) for message in prompt.messages],
                enable_thinking=options.thinking,
            ).prompt
        except Exception as error:  # a template may fail in any way that Jinja knows
            words = " ".join(str(error).split())[:200]
            raise ReadError(f"{self._file}: its chat template fails: {words}") from error
        return self.spell(text, special=not (start and text.startswith(start)))

    @property
    def end(self) -> int | None:
        found = int(self._api.llama_vocab_eos(self._vocab))
        return found if found >= 0 else None

    def _piece(self, token: int) -> str:
        if not 0 <= token < self.rows:
            return ""
        text = self._api.llama_vocab_get_text(self._vocab, token)
        return text.decode("utf-8", "replace") if text else ""

    def spell(self, text: str, *, special: bool = False) -> list[int]:
        """special: add what the vocabulary wants at the ends."""
        raw = text.encode("utf-8", "replace")
        size = len(raw) + 8
        found = (ctypes.c_int32 * size)()
        count = self._api.llama_tokenize(self._vocab, raw, len(raw), found, size, special, True)
        if count < 0:
            raise ReadError(f"{self._file}: a prompt of {len(raw):,} bytes cannot be tokenised")
        return list(found[:count])

    def write(self, prompt: Prompt, options: TrialOptions) -> TargetText | None:
        ids = self.encode(prompt, options)
        if not ids or len(ids) + options.tokens > self.context:
            return None
        draw = np.random.default_rng(options.seed)
        deadline = time.perf_counter() + (options.seconds or math.inf)
        self._begin_with(ids, len(ids) - 1)
        tokens: list[int] = []
        options.begun(ids, tokens)
        last, at = ids[-1], len(ids) - 1
        while len(tokens) < options.tokens and time.perf_counter() < deadline:
            [scores] = self._decode([last], at, 1)
            if not np.isfinite(scores).any() or np.isnan(scores).any():
                raise target_not_numbers(self._file)
            last, at = _choose(scores, options.temperature, draw), at + 1
            tokens.append(last)
            if self._api.llama_vocab_is_eog(self._vocab, last):
                break
        return TargetText(prompt.category, np.array(ids), np.array(tokens, dtype=np.int64))

    # ---- the draft's choices ----

    def read(self, text: TargetText) -> tuple[Ints, Floats]:
        rank = np.full(len(text.tokens), self.rows, dtype=np.int64)
        confidence = np.zeros(len(text.tokens))
        before = len(text.prompt)
        ids = np.concatenate([text.prompt, text.tokens])[: self.context].tolist()
        check_rows(text, self.rows)
        self._begin_with(ids[:-1], before - 1)
        for at in range(before - 1, len(ids) - 1, self._chunk):
            read = ids[at : min(at + self._chunk, len(ids) - 1)]
            scores = self._decode(read, at, len(read))
            part = slice(at - before + 1, at - before + 1 + len(scores))
            rank[part], confidence[part] = rank_and_confidence(scores, text.tokens[part])
        return rank, confidence

    # ---- seconds ----

    def step(self, context: int, width: int) -> float | None:
        context = min(context, self.context - width)
        if context < 1 or width > BATCH:
            return None
        if self._ready != context:
            self._begin_with([1 + i % max(1, self.rows - 1) for i in range(context)], context)
        seconds = []
        for _ in range(REPEATS + 1):
            began = time.perf_counter()
            self._decode([1] * width, context, width)
            seconds.append(time.perf_counter() - began)
            if not self._api.llama_memory_seq_rm(self._memory, 0, context, -1):
                return None  # a state that cannot be wound back: recurrent models
        self._ready = context
        return statistics.median(seconds[1:])


def rank_and_confidence(scores: np.ndarray[Any, Any], tokens: Ints) -> tuple[Ints, Floats]:
    """Rank of each token in its row of logits, and how sure the row is of its first choice."""
    if np.isnan(scores).any():
        raise draft_not_numbers()
    own = np.take_along_axis(scores, tokens[:, None], axis=1)
    first = scores.argmax(axis=1)
    ahead = (scores > own).sum(axis=1)
    # Of equal scores only one is the first choice.
    rank = np.where(first == tokens, 0, np.maximum(ahead, 1))
    count = min(CONFIDENCE_TOP, scores.shape[1])
    best = np.partition(scores, -count, axis=1)[:, -count:].astype(np.float64)
    best = np.exp(best - best.max(axis=1, keepdims=True))
    return rank.astype(np.int64), 1.0 / best.sum(axis=1)


def _choose(scores: np.ndarray[Any, Any], temperature: float, draw: np.random.Generator) -> int:
    if temperature <= 0:
        return int(scores.argmax())
    chances = np.exp((scores.astype(np.float64) - scores.max()) / temperature)
    return int(draw.choice(len(chances), p=chances / chances.sum()))


def _threads() -> int:
    """llama.cpp's own setting, or one per core: its threads wait by spinning."""
    told = os.environ.get("LLAMA_ARG_THREADS", "")
    known = int(told) if re.fullmatch(r"[0-9]{1,4}", told) else 0
    return known or max(1, (os.cpu_count() or 1) // 2)


def _nothing(level: int, text: bytes, data: Any) -> None:
    """llama.cpp's log has no place in ours."""
