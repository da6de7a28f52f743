"""The trial with transformers: any device that torch knows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging

from draftcheck.errors import ReadError, UsageError
from draftcheck.trial import steps
from draftcheck.trial.backend import BrokenDraft, Options, Text, Verified
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.speedup import Costs
from draftcheck.trial.traces import Trace

BATCH = 16
CHUNK_BYTES = 64 << 20
"""Logits in float32 at a time."""
TOP = 10
"""llama.cpp's draft sampler keeps so many."""


def open(target: str, draft: str, options: Options) -> TransformersBackend:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    device = options.device or _device()
    big = _model(target, device, options)
    small = _model(draft, device, options, like=big)
    return TransformersBackend(target, big, small, _tokenizer(target, options), device)


def _device() -> str:
    if torch.cuda.is_available():
        return "cuda:0"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _model(ref: str, device: str, options: Options, like: Any = None) -> Any:
    """A model on its device; nothing of the repo is executed unless the user allows it."""
    where, arguments = _place(ref)
    try:
        config = AutoConfig.from_pretrained(
            where, trust_remote_code=options.trust_remote_code, **arguments
        )
    except (OSError, ValueError) as error:
        raise _refused(ref, error) from error
    name = options.dtype or ("float32" if device == "cpu" else "auto")
    dtype = like.dtype if like is not None else (name if name == "auto" else _dtype(name))
    try:
        model = AutoModelForCausalLM.from_pretrained(
            where,
            config=config,
            dtype=dtype,
            device_map=device,
            trust_remote_code=options.trust_remote_code,
            **arguments,
        )
    except torch.cuda.OutOfMemoryError as error:
        raise _memory(ref, error) from error
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        raise _refused(ref, error) from error
    return model.eval()


def _place(ref: str) -> tuple[str, dict[str, Any]]:
    path = Path(ref)
    if path.suffix == ".gguf" and path.is_file():
        return str(path.parent), {"gguf_file": path.name}
    return ref, {}


def _dtype(name: str) -> torch.dtype:
    found = getattr(
        torch, {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}.get(name, name), None
    )
    if not isinstance(found, torch.dtype):
        raise UsageError(f"--dtype {name!r} is not a type of torch", hint="For example bfloat16.")
    return found


def _refused(ref: str, error: Exception) -> ReadError:
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return ReadError(
            f"{ref}: the model needs code from its repository",
            hint="draftcheck runs none unless you say --trust-remote-code.",
        )
    return ReadError(f"{ref}: transformers cannot load it: {text[:300]}")


def _memory(ref: str, error: Exception) -> ReadError:
    return ReadError(
        f"{ref}: out of GPU memory: {' '.join(str(error).split())[:200]}",
        hint="Use --dtype bfloat16, a smaller draft, fewer --tokens, or --device cpu.",
    )


def _tokenizer(ref: str, options: Options) -> Any:
    where, arguments = _place(ref)
    try:
        return AutoTokenizer.from_pretrained(
            where, trust_remote_code=options.trust_remote_code, **arguments
        )
    except (OSError, ValueError, KeyError) as error:
        raise _refused(ref, error) from error


class TransformersBackend:
    """Target and draft in this process."""

    name = "transformers"

    def __init__(self, ref: str, target: Any, draft: Any, tokenizer: Any, device: str) -> None:
        self._ref = ref
        self.target = target
        self.draft = draft
        self.tokenizer = tokenizer
        self.device = device
        self.dtype = str(target.dtype).removeprefix("torch.")
        ends = target.generation_config.eos_token_id
        self._ends = [ends] if isinstance(ends, int) else list(ends or [])

    def limits(self) -> Mapping[str, Any]:
        sides = {"target": self.target, "draft": self.draft}
        return {
            f"{name}_{what}": found
            for name, model in sides.items()
            for what, found in (
                ("rows", model.get_input_embeddings().weight.shape[0]),
                ("context", _context(model)),
            )
        }

    # ---- the target's text ----

    def encode(self, prompt: Prompt, options: Options) -> list[int]:
        if getattr(self.tokenizer, "chat_template", None):
            found = self.tokenizer.apply_chat_template(
                [dict(message) for message in prompt.messages],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                enable_thinking=options.thinking,
            )
            return list(found["input_ids"])
        return list(self.tokenizer(prompt.text)["input_ids"])

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Prompt], options: Options) -> list[Text]:
        limit = _context(self.target)
        encoded = []
        for prompt in prompts:
            ids = self.encode(prompt, options)
            if limit is None or len(ids) + options.tokens <= limit:
                encoded.append((prompt.category, ids))
        # Prompts of like length share a batch: less padding.
        encoded.sort(key=lambda entry: len(entry[1]))
        found = []
        for at in range(0, len(encoded), BATCH):
            found += self._batch(encoded[at : at + BATCH], options)
        return found

    def _batch(self, rows: Sequence[tuple[str, list[int]]], options: Options) -> list[Text]:
        longest = max(len(ids) for _, ids in rows)
        pad = self._ends[0] if self._ends else 0
        ids = torch.full((len(rows), longest), pad, device=self.device)
        mask = torch.zeros_like(ids)
        for i, (_, row) in enumerate(rows):
            ids[i, longest - len(row) :] = torch.tensor(row, device=self.device)
            mask[i, longest - len(row) :] = 1
        torch.manual_seed(options.seed)
        try:
            out = self.target.generate(
                input_ids=ids, attention_mask=mask, generation_config=self._config(pad, options)
            )
        except torch.cuda.OutOfMemoryError as error:
            raise _memory(self._ref, error) from error
        return [
            Text(category, np.array(row), self._cut(out[i, longest:].cpu().numpy()))
            for i, (category, row) in enumerate(rows)
        ]

    def _config(self, pad: int, options: Options) -> GenerationConfig:
        sampling = options.temperature > 0
        more = {"temperature": options.temperature, "top_k": 0, "top_p": 1.0} if sampling else {}
        return GenerationConfig(
            max_new_tokens=options.tokens,
            do_sample=sampling,
            eos_token_id=self._ends or None,
            pad_token_id=pad,
            **more,
        )

    def _cut(self, tokens: Any) -> Any:
        """Up to the first end token."""
        ends = np.flatnonzero(np.isin(tokens, self._ends))
        return tokens[: ends[0] + 1] if len(ends) else tokens

    # ---- what the draft thinks of it ----

    @torch.inference_mode()
    def read(self, texts: Sequence[Text], options: Options) -> list[Trace]:
        if texts:  # once: a target of NaN still "generates"
            whole = np.concatenate([texts[0].prompt, texts[0].tokens])
            self._logits(self.target, torch.tensor(whole, device=self.device)[None], 1)
        return [self._read(text, options) for text in texts if len(text.tokens)]

    def _read(self, text: Text, options: Options) -> Trace:
        tokens = torch.tensor(text.tokens, device=self.device)
        ids = torch.cat([torch.tensor(text.prompt, device=self.device), tokens])[None]
        draft = self._logits(self.draft, ids, len(tokens))
        target = self._logits(self.target, ids, len(tokens)) if options.temperature > 0 else None
        columns: dict[str, list[Any]] = {}
        size = max(1, CHUNK_BYTES // (4 * draft.shape[-1]))
        for at in range(0, len(tokens), size):
            part = slice(at, at + size)
            for name, values in _thoughts(draft[part], tokens[part]).items():
                columns.setdefault(name, []).append(values.cpu().numpy())
            if target is not None:
                both = _sampled(target[part], draft[part], tokens[part], options.temperature)
                for name, values in both.items():
                    columns.setdefault(name, []).append(values.cpu().numpy())
        arrays = {name: np.concatenate(parts) for name, parts in columns.items()}
        return Trace(prompt=text.prompt, tokens=text.tokens, category=text.category, **arrays)

    def _logits(self, model: Any, ids: torch.Tensor, count: int) -> torch.Tensor:
        """Logits that predict the last `count` tokens, in the model's own type."""
        rows = model.get_input_embeddings().weight.shape[0]
        known = torch.where(ids < rows, ids, torch.zeros_like(ids))  # ids it has no row for
        out: torch.Tensor = model(known, logits_to_keep=count + 1, use_cache=False).logits[0, :-1]
        if not torch.isfinite(out).all():
            if model is self.draft:
                raise BrokenDraft("the draft's logits are not numbers (NaN or inf)")
            raise ReadError(f"{self._ref}: the target's logits are not numbers (NaN or inf)")
        return out

    # ---- seconds ----

    def costs(self, sequences: int, context: int) -> Costs | None:
        return steps.measure(self.target, self.draft, self.device, sequences, context)

    def floor(self) -> Costs | None:
        return steps.floor(self.target, self.draft, self.device)

    # ---- for real ----

    def verify(self, texts: Sequence[Text], g: int, options: Options) -> Verified:
        """transformers' own assisted generation with a fixed draft length."""
        settings = self.draft.generation_config
        settings.num_assistant_tokens = g
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0.0
        passes = tokens = 0
        same = True
        plain_s = fast_s = 0.0
        pad = self._ends[0] if self._ends else 0
        config = self._config(pad, options)
        for text in texts:
            ids = torch.tensor(text.prompt, device=self.device)[None]
            with torch.inference_mode(), _Counter(self.target) as counter:
                before = time.perf_counter()
                out = self.target.generate(
                    ids, assistant_model=self.draft, generation_config=config
                )
                fast_s += time.perf_counter() - before
            found = self._cut(out[0, ids.shape[1] :].cpu().numpy())
            same &= len(found) == len(text.tokens) and bool((found == text.tokens).all())
            # The first pass reads the prompt together with the first drafts.
            passes += counter.calls
            tokens += len(found)
            with torch.inference_mode():
                before = time.perf_counter()
                self.target.generate(ids, generation_config=config)
                plain_s += time.perf_counter() - before
        return Verified(g, tokens / max(passes, 1), plain_s / fast_s if fast_s else None, same)


class _Counter:
    """Counts the passes of a model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.calls = 0

    def __enter__(self) -> _Counter:
        self._hook = self._model.register_forward_hook(self._count)
        return self

    def _count(self, *_: Any) -> None:
        self.calls += 1

    def __exit__(self, *_: object) -> None:
        self._hook.remove()


def _context(model: Any) -> int | None:
    found = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return found if isinstance(found, int) else None


def _thoughts(logits: torch.Tensor, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """Rank of the target's token, and how sure the draft is of its first choice."""
    scores = logits.float()
    rows = scores.shape[-1]
    inside = tokens < rows
    own = scores.gather(1, torch.where(inside, tokens, torch.zeros_like(tokens))[:, None])
    places = torch.arange(rows, device=scores.device)
    # Of equal scores the lower id is chosen.
    ahead = (scores > own) | ((scores == own) & (places < tokens[:, None]))
    rank = torch.where(inside, ahead.sum(1), torch.full_like(tokens, rows))
    best = scores.topk(min(TOP, rows), dim=1).values
    return {"rank": rank, "confidence": torch.softmax(best, dim=1)[:, 0].double()}


def _sampled(
    target: torch.Tensor, draft: torch.Tensor, tokens: torch.Tensor, temperature: float
) -> dict[str, torch.Tensor]:
    """How the rejection rule would have fared here."""
    p = torch.softmax(target.float() / temperature, dim=1)
    q = torch.softmax(draft.float() / temperature, dim=1)
    width = min(p.shape[1], q.shape[1])
    first = q.argmax(1)
    ours = p.gather(1, tokens[:, None])[:, 0]
    theirs = torch.where(
        tokens < width, q.gather(1, tokens.clamp(max=width - 1)[:, None])[:, 0], 0.0
    )
    agree = torch.where(first < width, p.gather(1, first.clamp(max=width - 1)[:, None])[:, 0], 0.0)
    return {
        "accept": (theirs / ours).clamp(max=1.0).double(),
        "overlap": torch.minimum(p[:, :width], q[:, :width]).sum(1).double(),
        "agree": agree.double(),
    }
