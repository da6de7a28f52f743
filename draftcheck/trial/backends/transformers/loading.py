"""References -> models and tokenizers of transformers, with what can go wrong in one line each.

Whether both are models, and fit where they are to run, is asked before anything is loaded.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from draftcheck.errors import ReadError, UsageError
from draftcheck.memory import fit as memory
from draftcheck.models import read as facts
from draftcheck.models import refs
from draftcheck.trial import setups
from draftcheck.trial.backends.backend import HEADS, BrokenDraft, TrialOptions
from draftcheck.trial.backends.transformers.heads import fitting
from draftcheck.trial.model_places import ModelPlace
from draftcheck.trial.prompts import Prompt
from draftcheck.values import dtypes
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import ModelFacts
from draftcheck.values.memory import Gpu, Machine
from draftcheck.versions import ORDERS

GIB = 1 << 30
FULL, OWN = "full", "own"
"""What drafts: a model, the target itself."""
SEQUENCES = 4
"""Continuations at once that must have room; more are tried and given up again."""


def device(options: TrialOptions) -> str:
    """Where the models go: cuda:0, cpu, mps; auto spreads them over all GPUs."""
    name = options.device
    if name is None:
        if torch.cuda.is_available():
            return "cuda:0"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "auto":
        return name
    try:
        kind = torch.device(name).type
    except RuntimeError as error:
        raise UsageError(f"--device {name!r}: no such device: {_line(error, 100)}") from error
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": bool(torch.backends.mps.is_available()),
    }
    if not there.get(kind, True):
        raise UsageError(f"--device {name}: torch finds no {kind} device here")
    return name


def dtype_name(options: TrialOptions, where: str) -> str:
    """The type to compute in; auto: what the files say."""
    return options.dtype or ("float32" if where == "cpu" else "auto")


def _dtype(name: str) -> torch.dtype | str:
    if name == "auto":
        return name
    found = getattr(torch, dtypes.dtype_name(name), None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"--dtype {name!r} is not a type of torch", hint="For example bfloat16.")
    return found


def model(
    place: ModelPlace,
    where: str,
    options: TrialOptions,
    *,
    like: Any = None,
    auto: Any = AutoModelForCausalLM,
) -> Any:
    """A model on its device; nothing of the repo is executed unless the user allows it.

    like: the target, when this is the draft: it computes in the same type. auto: who makes it.
    """
    trust = options.trust_remote_code
    dtype = like.dtype if like is not None else _dtype(dtype_name(options, where))
    quiet = contextlib.redirect_stderr(io.StringIO())  # bars of loaders that ask nobody
    try:
        with quiet:
            config = AutoConfig.from_pretrained(
                place.name, trust_remote_code=trust, **place.arguments
            )
            loaded: Any = auto.from_pretrained(
                place.name,
                config=config,
                dtype=dtype,
                device_map=where,
                trust_remote_code=trust,
                output_loading_info=True,
                # Pickles are only opened for those who trust the repo with code anyway.
                use_safetensors=None if trust or "gguf_file" in place.arguments else True,
                **place.arguments,
            )
    except torch.OutOfMemoryError as error:
        raise out_of_memory(place.ref, error) from error
    except Exception as error:  # each loader, quantiser and file format has errors of its own
        raise refused(place.ref, error) from error
    ready, info = loaded
    lost = sorted({*info["missing_keys"], *(str(row[0]) for row in info["mismatched_keys"])})
    if lost:
        words = f"{len(lost)} tensors are missing from the weights ({', '.join(lost[:3])} …)"
        if like is not None:
            raise BrokenDraft(f"{words}: transformers would draft with random numbers")
        raise ReadError(f"{place.ref}: {words}")
    return ready.eval()


def rows(model: Any) -> int:
    """Tokens that the model has an embedding for."""
    return int(model.get_input_embeddings().weight.shape[0])


def context(model: Any) -> int | None:
    found = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return found if isinstance(found, int) else None


@contextlib.contextmanager
def growing() -> Iterator[None]:
    """Without cuDNN's attention, which builds a plan for every new length: 7 ms on an H200."""
    backends = torch.backends.cuda
    before = backends.cudnn_sdp_enabled()
    backends.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        backends.enable_cudnn_sdp(before)


def tokenizer(place: ModelPlace, options: TrialOptions) -> Any:
    try:
        return AutoTokenizer.from_pretrained(
            place.name, trust_remote_code=options.trust_remote_code, **place.arguments
        )
    except Exception as error:
        raise refused(place.ref, error) from error


def encode(tokenizer: Any, prompt: Prompt, options: TrialOptions) -> list[int]:
    """A prompt as the model's chat template has it; as plain text where there is none."""
    if not getattr(tokenizer, "chat_template", None):
        return list(tokenizer(prompt.text)["input_ids"])
    encoded = tokenizer.apply_chat_template(
        [dict(message) for message in prompt.messages],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        enable_thinking=options.thinking,
    )
    return list(encoded["input_ids"])


def refused(ref: str, error: Exception) -> ReadError:
    text = _line(error, 300)
    if "trust_remote_code" in str(error):
        return ReadError(
            f"{ref}: the model needs code from its repository",
            hint="draftcheck runs none unless you say --trust-remote-code.",
        )
    return ReadError(f"{ref}: transformers cannot load it: {text or type(error).__name__}")


def failed(ref: str, what: str, error: Exception) -> ReadError:
    words = _line(error, 300) or type(error).__name__
    return ReadError(f"{ref}: transformers failed at {what}: {words}")


def out_of_memory(ref: str, error: Exception) -> ReadError:
    return ReadError(
        f"{ref}: out of memory on the device: {_line(error, 200)}",
        hint="Try --dtype bfloat16, fewer --tokens, shorter --prompts, --device auto (several"
        " GPUs) or --device cpu.",
    )


def _line(error: Exception, most: int) -> str:
    return " ".join(str(error).split())[:most]


def check_room(target: str, draft: str | None, where: str, options: TrialOptions) -> str:
    """What drafts: FULL, OWN, or a kind of head.

    Refuses what cannot fit, with what was needed, what there is, and a smaller plan.
    """
    try:
        refs_ = [refs.parse(name) for name in (target, draft) if name is not None]
        ours, *rest = facts.read_all(*refs_)
    except ReadError:
        return FULL if draft is not None else OWN  # loading it will say more
    theirs = rest[0] if rest else None
    if ours.role not in (None, FULL):
        raise UsageError(f"{target}: not a model that writes text by itself ({ours.role})")
    kind = OWN if theirs is None else theirs.role or FULL
    if kind not in (OWN, FULL, *HEADS):
        raise UsageError(
            f"{draft}: {kind} cannot be measured by itself",
            hint="It is measured in the engine that serves it: draftcheck probe URL.",
        )
    if kind in HEADS and theirs is not None:
        fitting.check(ours, theirs)
    _check_free(target, draft, ours, theirs, where, options)
    return kind


def _check_free(
    target: str,
    draft: str | None,
    ours: ModelFacts,
    theirs: ModelFacts | None,
    where: str,
    options: TrialOptions,
) -> None:
    dtype = dtype_name(options, where)
    free_bytes = free(where)
    need = needed(ours, theirs, dtype, options)
    if free_bytes is None or need is None or need <= free_bytes:
        return
    plans = ["--device auto spreads them over several GPUs", "--device cpu uses main memory"]
    half = None
    if dtypes.dtype_bytes(dtype) != 2:
        half = needed(ours, theirs, "bfloat16", options)
    if half is not None and half <= free_bytes:
        plans.insert(0, f"--dtype bfloat16 needs {half / GIB:.1f} GiB")
    both = target if draft is None else f"{target} and {draft}"
    raise ReadError(
        f"{both} need{'s' * (draft is None)} {need / GIB:.1f} GiB in {dtype}, and {where} has"
        f" {free_bytes / GIB:.1f} GiB free",
        hint="; ".join(plans) + "; or take smaller models.",
    )


def needed(
    ours: ModelFacts, theirs: ModelFacts | None, dtype: str, options: TrialOptions
) -> int | None:
    """Bytes of weights and caches of both models; None where the files do not tell."""
    pair = setups.side_by_side([ours] if theirs is None else [ours, theirs])
    context = max(options.tokens * 2, 256)
    limit = ours.config.scaled_context or ours.config.context
    circumstances = Circumstances(
        context=min(context, limit) if limit else context,
        sequences=SEQUENCES,
        dtype=None if dtype == "auto" else dtype,
    )
    machine = Machine("here", (Gpu("here", 1 << 50),))
    fit = memory.fit(
        pair, circumstances, machine, engine="transformers", version=transformers.__version__,
        order=ORDERS["pep440"],
    )  # fmt: skip
    if fit is None or not fit.devices:
        return None
    parts = fit.devices[0].parts
    return sum(part.low for part in parts if part.owner in ("target", "draft"))


def free(where: str) -> int | None:
    """Bytes that are free there; None where nobody tells."""
    if where.startswith("cuda"):
        return int(torch.cuda.mem_get_info(where)[0])
    if where == "auto":
        gpus = range(torch.cuda.device_count())
        return sum(torch.cuda.mem_get_info(i)[0] for i in gpus) if gpus else _main_memory()
    return _main_memory() if where == "cpu" else None


def _main_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
