"""Real runs of a head (--verify): by transformers itself, or by vLLM with the texts from here.

What an engine does with a head is in the rulebook: its method for the pair, and the setup that
switches it on. transformers has three such methods (generation/candidate_generator.py, 5.22.2),
none of which drafts in the pass that reads the prompt:

    use_mtp            layers of the target's own, each of which makes one draft
    gemma4_assistant   a model that reads the target's states and keys; any number of drafts
    dflash             a block head that transformers has a class for; always the whole block
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import transformers
from msgspec import structs
from transformers import AutoModel, AutoModelForCausalLM, GenerationConfig

from draftcheck.errors import ReadError, UsageError
from draftcheck.models import read as facts
from draftcheck.models import refs
from draftcheck.trial import setups
from draftcheck.trial.backends.backend import (
    BrokenDraft,
    CannotVerify,
    TargetText,
    TrialOptions,
    missing,
)
from draftcheck.trial.backends.transformers import loading
from draftcheck.trial.backends.transformers.target import TransformersTarget
from draftcheck.trial.backends.vllm.engines import VllmEngines, sampling
from draftcheck.trial.model_places import ModelPlace
from draftcheck.trial.result import VerifiedRun
from draftcheck.values.facts import ModelFacts


@dataclass(frozen=True, slots=True)
class RealRun:
    """What is to be run: a target and its head, these texts once more, drafts of g tokens."""

    backend: TransformersTarget
    target: ModelPlace
    head: ModelPlace | None
    """None: layers of the target's own."""
    texts: Sequence[TargetText]
    g: int
    options: TrialOptions

    @property
    def models(self) -> Sequence[ModelFacts]:
        named = [place.ref for place in (self.target, self.head) if place is not None]
        return facts.read_all(*map(refs.parse, named))


GenerateArguments = tuple[int, Mapping[str, Any]]
"""Drafts of a pass, and what generate must be told for them."""


def by_transformers(run: RealRun) -> VerifiedRun:
    """With g drafts, or as many as transformers makes with this head whatever is asked."""
    method = setups.method("transformers", transformers.__version__, run.models)
    start = METHODS.get(method.id) if method is not None else None
    told = start(run) if start is not None else None
    if told is None:
        others = [name for name in RUNS if RUNS[name] is not by_transformers]
        able = [name for name in setups.engines_for(run.models) if name in others]
        raise CannotVerify(
            "transformers itself cannot run this head"
            + "".join(f"; {name} can, where it is installed: --engine {name}" for name in able)
        )
    made, arguments = told
    longest = run.backend.limits().longest
    if made > longest:
        raise CannotVerify(f"transformers makes {made} drafts with it, and {longest} were read")
    return run.backend.speculate(run.texts, made, run.options, first=1, **arguments)


def _own_layers(run: RealRun) -> GenerateArguments | None:
    made = getattr(run.backend.target.config.get_text_config(), "num_mtp_layers", None)
    return (int(made), {"use_mtp": True}) if made else None


def _assistant(run: RealRun) -> GenerateArguments | None:
    model = _loaded(run, AutoModelForCausalLM, "shared_kv_states")
    if model is None:
        return None
    model.generation_config = GenerationConfig(num_assistant_tokens=run.g)
    return run.g, {"assistant_model": model}


def _block(run: RealRun) -> GenerateArguments | None:
    model = _loaded(run, AutoModel, "context_hidden_states")
    if model is None:
        return None
    arguments = {"assistant_model": model, "speculation_type": "dflash"}
    return model.config.block_size - 1, arguments


METHODS: Mapping[str, Callable[[RealRun], GenerateArguments | None]] = {
    "use_mtp": _own_layers,
    "gemma4_assistant": _assistant,
    "dflash": _block,
}
"""By their names in rules/engines/transformers.toml."""


def _loaded(run: RealRun, auto: Any, reads: str) -> Any:
    """The head as transformers loads it; reads: what such a head is told of the target's pass.

    None: its files say that they are some other model of the library, as those of many heads do.
    """
    place, backend = run.head or run.target, run.backend
    try:
        model = loading.model(place, backend.device, run.options, like=backend.target, auto=auto)
    except (ReadError, BrokenDraft):
        return None
    return model if reads in inspect.signature(model.forward).parameters else None


def by_vllm(run: RealRun) -> VerifiedRun:
    """The texts once more in vLLM, without and with the head."""
    run.backend.close()  # vLLM needs the room
    models, target, texts = run.models, run.target.ref, run.texts
    prompts = [len(text.prompt) for text in texts]
    settings = {**sampling(run.options), "stop_token_ids": run.backend.ends, "ignore_eos": True}
    try:
        engines = VllmEngines(run.options, models[:1], run.backend.dtype, max(prompts))
        engine = engines.start(target)
        plain = engines.plainly(target, engine, texts, settings)
        del engine
        gc.collect()
        draft = None if run.head is None else run.head.ref
        return engines.speculate(models, (target, draft), texts, run.g, settings, plain)
    except (ReadError, UsageError) as error:
        raise CannotVerify(error.message) from error


RUNS = {"vllm": by_vllm, "transformers": by_transformers}
"""Engines that can be run from here, by their names in rules/engines; the usual one first."""


def verify(run: RealRun) -> VerifiedRun:
    """By the engine that was asked for; without one by the first that is here."""
    engine = run.options.engine
    if engine is not None and engine not in RUNS:
        raise CannotVerify(
            f"{engine} is not started from here; a server of it: draftcheck probe URL"
        )
    asked = RUNS if engine is None else (engine,)
    why = {name: missing(name) for name in asked}
    here = next((name for name in asked if why[name] is None), None)
    if here is None:
        raise CannotVerify("; ".join(str(reason) for reason in why.values()))
    return structs.replace(RUNS[here](run), engine=here)
