"""The target behind an HTTP server; only the draft is loaded here.

vLLM (from 0.10.2) and SGLang (from 0.5.17) tell the ids of prompt and answer when asked for
return_token_ids, llama-server does at an address of its own: there a trial is as exact as one in
this process. From any other server only text comes back, and it is encoded anew.

It can measure acceptance. Speed is told by llama-server alone, whose answers hold its own times,
and only where it does not speculate yet: otherwise its draft reads along in every pass, and no
request can ask for plain ones (b11312; ggml-org/llama.cpp#23052). What a server speculates by
itself says draftcheck probe.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from draftcheck.errors import ReadError, UsageError
from draftcheck.probe.client import MODELS, key_exposed, parse, part, text
from draftcheck.probe.servers import LlamaServerKind, ServerKind, recognise
from draftcheck.trial import model_places
from draftcheck.trial.backends.asking import ServerAsker, is_token_ids
from draftcheck.trial.backends.backend import TargetText, TrialOptions, missing
from draftcheck.trial.backends.llamacpp import backend as llamacpp
from draftcheck.trial.backends.llamacpp.server import LlamaServer
from draftcheck.trial.backends.sides import DraftReader, ServerLost, Sides, TargetWriter
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.speedup import Costs

if TYPE_CHECKING:  # torch is loaded when the draft or a tokenizer is
    from draftcheck.trial.backends.transformers.backend import Spelling

    Speller = llamacpp.Model | Spelling

CHAT = "/v1/chat/completions"
KEY = "OPENAI_API_KEY"
SHOWN = 8
THINKING = ("reasoning", "reasoning_content")
"""Where servers put what a model thought before it answered."""
SEEN = 4
"""Tokens in which a server that speculates drafts at least once."""
SPECULATES = (
    "the server speculates already, so its plain steps cannot be timed: ask draftcheck probe what"
    " it accepts, or name a server without a draft"
)
TOO_LONG = re.compile(r"context|too long|maximum.{0,20}length", re.IGNORECASE)


def open(target: str, draft: str, options: TrialOptions) -> Sides:
    """A server for the target, a reader for the draft."""
    if options.target_url is None:
        raise UsageError("--backend endpoint needs --target-url URL")
    if options.universal:
        raise UsageError("--universal needs both models here, not one behind --target-url")
    asker = ServerAsker(parse(options.target_url), key())
    spelling = _Spelling(target, options)
    writer = _writer(asker, spelling, options)
    reader = spelling.reader = _reader(draft, options)
    sides = ServedSides("endpoint", writer, reader, "steps of llama-server")
    if (warning := key_exposed(options.target_url, key())) is not None:
        sides.remarks.append(warning)
    sides.speculation = "the target runs elsewhere; ask its server with draftcheck probe"
    return sides


class ServedSides(Sides):
    """A target that is served, and a draft that may run anywhere."""

    def costs(self, sequences: int, context: int) -> Costs | None:
        if isinstance(self.target, LlamaServer):
            self.reads_again = True
            try:
                drafts = any(drafted for drafted, _ in self.target.passes(context, SEEN))
            except ServerLost:
                drafts = False  # timing will meet it, and say so
            if drafts:
                self.remarks.append(SPECULATES)
                return None
        found = super().costs(sequences, context)
        if found is not None and self.target.device != self.draft.device:
            self.remarks.append(
                f"the target's steps were timed at {self.target.device}, the draft's at"
                f" {self.draft.device}: the speed-up is that of one machine only if they are one"
            )
        return found


def _writer(asker: ServerAsker, spelling: _Spelling, options: TrialOptions) -> TargetWriter:
    """Asked before the draft is loaded: a wrong address should not cost that."""
    where = asker.base.url
    try:
        if isinstance(_recognise(asker), LlamaServerKind):
            return LlamaServer(asker)
        return Endpoint(asker, _model(asker, options), spelling)
    except ServerLost as error:
        failure = ReadError(f"{where}: {error}")
    except ReadError as error:
        failure = error
    if not options.kept:
        raise failure
    return SilentEndpoint(where, failure.message)


def key() -> str | None:
    """The user's key, for the target's server alone."""
    found = os.environ.get(KEY, "").strip()
    if found and not re.fullmatch(r"[\x21-\x7e]+", found):
        raise UsageError(f"{KEY} does not hold a key: printable ASCII without spaces")
    return found or None


def _recognise(asker: ServerAsker) -> ServerKind | None:
    """The kind of server; None: none that we know, so the common ground has to do."""
    first = asker.get(MODELS)
    where = asker.base.url
    if not first.reached:
        raise ReadError(f"{where}: {first.fault}", hint="Is the server running, is it the address?")
    if first.refused:
        words = "the key was refused" if asker.has_key else f"it wants a key (set {KEY})"
        raise ReadError(f"{where}: HTTP {first.status}, {words}")
    found = recognise(asker)
    return found[0] if found else None


def _model(asker: ServerAsker, options: TrialOptions) -> str:
    """What the server calls the target."""
    if options.target_model is not None:
        return options.target_model
    names = [name for entry in asker.models() if (name := text(entry.get("id")))]
    if len(names) == 1:
        return names[0]
    hint = f"Name one with --target-model. Listed: {', '.join(names[:SHOWN]) or 'none'}."
    raise UsageError(f"{asker.base.url} lists {len(names)} models", hint=hint)


def _reader(draft: str, options: TrialOptions) -> DraftReader:
    if options.draft_url is not None:
        ours, theirs = parse(options.target_url or ""), parse(options.draft_url)
        return llamacpp.at(options.draft_url, key() if ours.origin == theirs.origin else None)
    if model_places.is_gguf(draft) and llamacpp.available() is None:
        llamacpp.check(options)
        return llamacpp.model(model_places.locate_gguf(draft), options)
    if (why := missing("transformers")) is not None:
        hint = "pip install 'draftcheck-llm[trial]'"
        raise UsageError(f"the draft cannot be loaded: {why}", hint=hint)
    from draftcheck.trial.backends.transformers.backend import TransformersDraft

    return TransformersDraft(draft, options)


class _Spelling:
    """What makes ids of text, where the server tells none.

    Loaded when the first answer comes without ids: most servers for deployments tell them.
    """

    def __init__(self, target: str, options: TrialOptions) -> None:
        self._target, self._options = target, options
        self.reader: DraftReader | None = None
        self._found: Speller | None = None
        self._lock = threading.Lock()

    def get(self) -> Speller:
        with self._lock:
            if self._found is None and isinstance(self.reader, llamacpp.Model):
                self._found = self.reader  # a draft's vocabulary is its target's
            if self._found is None:
                from draftcheck.trial.backends.transformers.backend import Spelling

                self._found = Spelling(self._target, self._options)
            return self._found


class Endpoint(TargetWriter):
    """An OpenAI-compatible server as the target; its steps cannot be timed from outside."""

    at_once = 8
    dtype = "as served"

    def __init__(self, asker: ServerAsker, model: str, spelling: _Spelling) -> None:
        self._asker, self._model, self._spelling = asker, model, spelling
        self.device = asker.base.url
        self._plain = False
        self._encoded = self._odd = self._thought = 0

    @property
    def notes(self) -> list[str]:
        if not self._encoded:
            return []
        encoded = (
            f"the server tells no token ids: {self._encoded} texts were encoded anew, which cuts a"
            " few tokens otherwise than the target wrote them"
        )
        if self._odd:
            encoded += f" ({self._odd} have another number of tokens than it counted)"
        if not self._thought:
            return [encoded]
        return [
            encoded,
            f"{self._thought} answers came without their thinking, which the draft would read too:"
            " switch it off at the server, or ask one that tells token ids",
        ]

    def write(self, prompt: Prompt, options: TrialOptions) -> TargetText | None:
        answer = self._ask(prompt, options)
        if answer is None:
            return None
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping):
            raise ServerLost(f"{CHAT}: the answer holds no choices")
        # vLLM has the ids of the prompt beside the choices, SGLang inside.
        ids = choice.get("prompt_token_ids", answer.get("prompt_token_ids"))
        tokens = choice.get("token_ids", choice.get("response_token_ids"))
        if not is_token_ids(tokens) or not is_token_ids(ids) or not ids:
            ids, tokens = self._encode(prompt, answer, choice, options)
        return TargetText(prompt.category, np.array(ids), np.array(tokens, dtype=np.int64))

    def _ask(self, prompt: Prompt, options: TrialOptions) -> dict[str, Any] | None:
        """One answer; a server that knows only OpenAI's own fields is asked without the others."""
        body = {
            "model": self._model,
            "messages": [dict(message) for message in prompt.messages],
            "max_tokens": options.tokens,
            "temperature": options.temperature,
            "top_p": 1.0,
            "seed": options.seed % (1 << 31),
        }
        more = {
            "return_token_ids": True,
            "chat_template_kwargs": {"enable_thinking": options.thinking},
            # Defaults that a model's generation_config may set: they would bend the text.
            "repetition_penalty": 1.0,
            "top_k": -1,
        }
        plain = self._plain
        try:
            return self._asker.ask(CHAT, body if plain else {**body, **more})
        except ServerLost as error:
            if error.status == 400 and TOO_LONG.search(str(error)):
                return None
            if error.status not in (400, 422) or plain:
                raise
        self._plain = True
        return self._asker.ask(CHAT, body)

    def _encode(
        self,
        prompt: Prompt,
        answer: Mapping[str, Any],
        choice: Mapping[str, Any],
        options: TrialOptions,
    ) -> tuple[list[int], list[int]]:
        """Ids from text, by the target's tokenizer."""
        message = part(choice, "message")
        content = message.get("content")
        if not isinstance(content, str):
            raise ServerLost(f"{CHAT}: the answer holds neither text nor token ids")
        self._thought += any(message.get(name) for name in THINKING)
        speller = self._spelling.get()
        tokens = speller.spell(content)
        counted = part(answer, "usage").get("completion_tokens")
        ended = choice.get("finish_reason") == "stop" and speller.end is not None
        if ended and speller.end is not None:
            tokens.append(speller.end)
        self._encoded += 1
        self._odd += counted not in (None, len(tokens), len(tokens) - ended)
        return speller.encode(prompt, options), tokens


class SilentEndpoint(TargetWriter):
    """A server that does not answer, where its texts are at hand."""

    dtype = "as served"

    def __init__(self, where: str, why: str) -> None:
        self.device, self._why = where, why

    @property
    def notes(self) -> tuple[str]:
        return (f"only the texts at hand were used: {self._why}",)

    def write(self, prompt: Prompt, options: TrialOptions) -> TargetText | None:
        raise ServerLost(self._why)
