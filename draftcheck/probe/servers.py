"""The kinds of servers: how each is recognised, what it tells without a prompt, how it is asked.

A kind is told by its answers, never by its port. What it does not offer is left to ServerKind:
most tell their version at one address, and many answers to a prompt would say nothing of drafts.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any
from urllib.parse import quote

from draftcheck.probe.client import MODELS, ProbedServer, ServerAnswer, count, number, part, text
from draftcheck.probe.readings import (
    CompletionReply,
    ServerCounts,
    ServerReading,
    SpeculationSwitch,
)

MOST_TOKENS = 48
PROMPT_SECONDS = 60.0
"""A completion waits for other requests, a question about the state does not."""
LONGEST_MODELFILE = 1 << 20
_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+\S+)?[ \t\r]*")
_POSITION = re.compile(r"[0-9]{1,3}")
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """Counters and gauges in Prometheus' text format; none in an answer that is no good one."""

    def __init__(self, answer: ServerAnswer, prefix: str) -> None:
        """prefix: with which the names start that are looked at."""
        self._prefix = prefix
        self.samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        """Name -> labels and value of each sample."""
        self.declared: set[str] = set()
        for line in answer.text.split("\n") if answer.ok else ():
            if line.startswith(f"# TYPE {prefix}"):
                self.declared.add(line[7:].split(" ", 1)[0])
            elif line.startswith(prefix) and (match := _LINE.fullmatch(line)) is not None:
                with contextlib.suppress(ValueError):
                    value = float(match[3])
                    if 0 <= value < 2**63:
                        labels = dict(_LABEL.findall(match[2] or ""))
                        self.samples.setdefault(match[1], []).append((labels, value))

    def counter(self, name: str) -> int | None:
        """Sum a counter over all engines of one process; with or without the ending _total."""
        values = [value for _, value in self._of(name)]
        return round(sum(values)) if values else None

    def mean(self, name: str) -> float | None:
        """Average a gauge over all ranks."""
        values = [value for _, value in self.samples.get(name, [])]
        return sum(values) / len(values) if values else None

    def positions(self, name: str) -> tuple[int, ...]:
        """Sum a counter with a position label by position."""
        sums: dict[int, float] = {}
        for labels, value in self._of(name):
            position = labels.get("position", "")
            if _POSITION.fullmatch(position):
                sums[int(position)] = sums.get(int(position), 0) + value
        return tuple(round(sums.get(position, 0)) for position in range(max(sums, default=-1) + 1))

    def speculation(self, generated: str) -> ServerCounts:
        """Count by the names that vLLM and llama.cpp share; generated: what they call that."""
        name = f"{self._prefix}spec_decode_num_"
        return ServerCounts(
            self.counter(name + "drafts"),
            self.counter(name + "draft_tokens"),
            self.counter(name + "accepted_tokens"),
            self.counter(self._prefix + generated),
            self.positions(name + "accepted_tokens_per_pos"),
        )

    def _of(self, name: str) -> list[tuple[Mapping[str, str], float]]:
        return self.samples.get(f"{name}_total") or self.samples.get(name) or []


class PromptFailed(Exception):
    """A completion gave nothing; the text says why."""


class ServerKind:
    engine: str
    owners: frozenset[str] = frozenset()
    """What it writes as owner of its models in /v1/models."""
    version_at: tuple[str, str] | None = None
    """Address and key of its version; None: not told."""

    def looks_like(self, server: ProbedServer) -> str | None:
        """By what else than the owner it can be told, or None."""
        return None

    def version(self, server: ProbedServer) -> str | None:
        if self.version_at is None:
            return None
        path, key = self.version_at
        return text(server.get(path).object().get(key))

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        """Ask for what it tells about speculation, without a prompt."""
        raise NotImplementedError

    def ask(self, server: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
        """Send the prompt; None: nothing was sent, because the answer would not tell."""
        return None


def recognise(server: ProbedServer) -> tuple[ServerKind, str] | None:
    """Find the kind of server, and by what: its models' owner first, that is one question."""
    listed = [entry.get("owned_by") for entry in server.models()]
    owners = {owner for owner in listed if isinstance(owner, str)}
    for kind in KINDS:
        if owners & kind.owners:
            return kind, f"owned_by {min(owners & kind.owners)} in {MODELS}"
    for kind in KINDS:
        if (seen := kind.looks_like(server)) is not None:
            return kind, seen
    return None


def _complete(server: ProbedServer, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one short completion at temperature 0."""
    answer = server.post(path, body, max(PROMPT_SECONDS, server.seconds))
    if answer.fault is not None:
        raise PromptFailed(answer.fault)
    if answer.status != 200:
        raise PromptFailed(f"HTTP {answer.status}")
    if not (found := answer.object()):
        raise PromptFailed("the answer is not a JSON object")
    return found


def _part(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object in an answer that holds the draft's figures."""
    found = answer.get(name)
    if not isinstance(found, Mapping):
        raise PromptFailed(f"no {name}")
    return found


def _figures(drafted: int | None, accepted: int | None, generated: int | None) -> ServerCounts:
    """Count what one answer tells; tokens per pass follow: the first token needs no pass.

    How many of the passes held a draft is not told.
    """
    taken = accepted or 0
    passes = 0 if generated is None else generated - 1 - taken
    length = 1 + taken / passes if drafted and passes > 0 else None
    return ServerCounts(
        drafted=drafted or 0, accepted=taken, generated=generated, told_length=length
    )


class LlamaServerKind(ServerKind):
    """/slots says whether it speculates, /metrics how well, timings per request."""

    engine = "llama.cpp"
    owners = frozenset({"llamacpp"})
    version_at = ("/props", "build_info")

    def looks_like(self, server: ProbedServer) -> str | None:
        """Its Server header, also when it refuses or still loads."""
        if server.get(MODELS).headers.get("server") == "llama.cpp":
            return "the header Server: llama.cpp"
        return "the answer to /props" if "build_info" in server.get("/props").object() else None

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        """Ask for the slots and the counters, but never wake or load a model for it."""
        if server.get("/props").status == 503:
            return ServerReading(cause="loading")
        props = server.get("/props").object()
        query = ""
        if props.get("role") == "router":
            loaded = self._loaded(server)
            name = model if model is not None else loaded[0] if len(loaded) == 1 else None
            if name not in loaded or name is None:
                note = f"loaded: {', '.join(loaded[:20]) or 'none'}"
                return ServerReading(cause="router", notes=(note,))
            query, model = f"?model={quote(name, safe='')}&autoload=false", name
            props = server.get("/props" + query).object()
        model = model or text(props.get("model_alias")) or server.first_model()
        if props.get("is_sleeping") is True:
            return ServerReading(cause="sleeping", model=model)
        return self._slots(server, query, model)

    def _loaded(self, server: ProbedServer) -> list[str]:
        """Names of the models that a router keeps loaded."""
        listed = server.models()
        loaded = [entry for entry in listed if part(entry, "status").get("value") == "loaded"]
        return [text(entry.get("id")) or "" for entry in loaded]

    def _slots(self, server: ProbedServer, query: str, model: str | None) -> ServerReading:
        answer = server.get("/slots" + query)
        slots = answer.rows()
        flags = [s["speculative"] for s in slots if isinstance(s.get("speculative"), bool)]
        metrics = Metrics(server.get("/metrics" + query), "llamacpp:")
        told = metrics.speculation("tokens_predicted")
        counts = told if told.drafts is not None else None
        if not flags:
            cause = None if counts is not None else "needs-key" if answer.refused else "slots-off"
            return ServerReading(counts=counts, model=model, cause=cause)
        asked = self._types(slots)
        among = f"{sum(flags) or len(flags)} of {len(flags)} slots"
        says = f"speculative: {str(any(flags)).lower()} in {among}"
        says += f", asked for: {asked or 'nothing'} (/slots)" if asked is not None else " (/slots)"
        if any(flags):
            hint = "acceptance is counted only with --metrics, or with --prompt"
            notes = () if counts else (hint,)
            return ServerReading(
                SpeculationSwitch.ON, says, counts, method=asked or None, model=model, notes=notes
            )
        cause = "off" if asked is None else "dropped" if asked else "not-asked"
        return ServerReading(SpeculationSwitch.OFF, says, counts, model=model, cause=cause)

    def _types(self, slots: list[dict[str, Any]]) -> str | None:
        """The types of speculation asked for at start-up; told once a slot served a request."""
        for slot in slots:
            if (types := text(part(slot, "params").get("speculative.types"))) is not None:
                return ",".join(name for name in types.split(",") if name not in ("", "none"))
        return None

    def ask(self, server: ProbedServer, model: str | None, prompt: str) -> CompletionReply:
        """Its timings hold the draft's figures when a draft was made."""
        body: dict[str, Any] = {"prompt": prompt, "n_predict": MOST_TOKENS, "temperature": 0}
        path = "/completion"
        if server.get("/props").object().get("role") == "router":
            path, body["model"] = "/completion?autoload=false", model
        timings = _part(_complete(server, path, body), "timings")
        names = ("draft_n", "draft_n_accepted", "predicted_n")
        return CompletionReply(_figures(*(count(timings.get(name)) for name in names)))


class VllmKind(ServerKind):
    """Counters in /metrics, there from the start when speculation is set up."""

    engine = "vllm"
    owners = frozenset({"vllm"})
    version_at = ("/version", "version")
    # Declared by the first engine (V0) whether it speculates or not; filled by the first draft.
    old_rate = "vllm:spec_decode_draft_acceptance_rate"

    def looks_like(self, server: ProbedServer) -> str | None:
        """Its metrics need no key."""
        named = Metrics(server.get("/metrics"), "vllm:").samples
        return "the counters vllm:… in /metrics" if named else None

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        name = model or server.first_model()
        answer = server.get("/metrics")
        metrics = Metrics(answer, "vllm:")
        if not metrics.samples:
            kept_off = answer.ok and "# TYPE " in answer.text
            cause = "stats-off" if kept_off else "needs-key" if answer.refused else "no-metrics"
            return ServerReading(model=name, cause=cause)
        counts = metrics.speculation("generation_tokens")
        if counts.drafts is None and counts.drafted is None:
            if self.old_rate in metrics.declared:
                return ServerReading(model=name, cause="no-evidence")
            says = "no spec_decode counters (/metrics)"
            return ServerReading(SpeculationSwitch.OFF, says, model=name, cause="off")
        counts = replace(counts, told_rate=metrics.mean(self.old_rate))
        says = "spec_decode counters are there (/metrics)"
        return ServerReading(SpeculationSwitch.SET, says, counts, model=name)

    def ask(self, server: ProbedServer, model: str | None, prompt: str) -> CompletionReply:
        """Most servers show its effect only in the counters.

        The figures of --per-request-spec-decode-metrics came with 0.29.0.
        """
        body = {"prompt": prompt, "max_tokens": MOST_TOKENS, "temperature": 0}
        answer = _complete(server, "/v1/completions", {"model": model, **body} if model else body)
        figures = part(answer, "metrics").get("speculative_decoding")
        if not isinstance(figures, Mapping):
            return CompletionReply()
        histogram = figures.get("acceptance_histogram")
        steps = [count(n) or 0 for n in histogram] if isinstance(histogram, list) else []
        at_least = [*accumulate(reversed(steps))][::-1]
        names = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
        drafts, drafted, accepted = (count(figures.get(name)) for name in names)
        by_position = tuple(at_least[1:257])
        return CompletionReply(ServerCounts(drafts, drafted, accepted, by_position=by_position))


class SglangKind(ServerKind):
    """/server_info names the algorithm and the mean accepted length since start."""

    engine = "sglang"
    owners = frozenset({"sglang"})

    def looks_like(self, server: ProbedServer) -> str | None:
        if Metrics(server.get("/metrics"), "sglang:").samples:
            return "the counters sglang:… in /metrics"
        settings = self._info(server).object()
        return "the answer to /server_info" if "speculative_algorithm" in settings else None

    def _info(self, server: ProbedServer) -> ServerAnswer:
        """The settings; the address without a verb came at the end of 2025."""
        answer = server.get("/server_info")
        return answer if answer.status != 404 else server.get("/get_server_info")

    def version(self, server: ProbedServer) -> str | None:
        return text(self._info(server).object().get("version"))

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        """Only what concerns speculation is taken out: the settings also hold keys."""
        answer = self._info(server)
        info = answer.object()
        name = model or text(info.get("served_model_name")) or server.first_model()
        if "speculative_algorithm" not in info:
            cause = "needs-key" if answer.refused else "no-info"
            return ServerReading(counts=self._counts(server, None, None), model=name, cause=cause)
        algorithm = text(info["speculative_algorithm"])
        if algorithm is None:
            says = "speculative_algorithm: none (/server_info)"
            return ServerReading(SpeculationSwitch.OFF, says, model=name, cause="off")
        width = count(info.get("speculative_num_draft_tokens"))
        return ServerReading(
            SpeculationSwitch.SET,
            f"speculative_algorithm: {algorithm} (/server_info)",
            self._counts(server, self._mean_length(info), width),
            method=algorithm,
            draft=text(info.get("speculative_draft_model_path")),
            model=name,
        )

    def _mean_length(self, info: Mapping[str, Any]) -> float | None:
        """Since start, over all ranks that have drafted."""
        states = info.get("internal_states")
        states = states if isinstance(states, list) else [states]
        told = [number(s.get("avg_spec_accept_length")) for s in states if isinstance(s, dict)]
        lengths = [length for length in told if length is not None]
        return sum(lengths) / len(lengths) if lengths else None

    def _counts(
        self, server: ProbedServer, length: float | None, width: int | None
    ) -> ServerCounts | None:
        """Counters need --enable-metrics; accepted tokens follow from them."""
        metrics = Metrics(server.get("/metrics"), "sglang:")
        passes = metrics.counter("sglang:spec_verify_calls")
        generated = metrics.counter("sglang:generation_tokens")
        requests = metrics.counter("sglang:num_requests")
        accepted = drafted = rate = None
        if passes is not None and generated is not None and requests is not None:
            # Each request gets its first token from the prompt's pass, and one from each later one.
            accepted = max(0, generated - requests - passes)
        if length is None and passes is None:
            length = metrics.mean("sglang:spec_accept_length") or None  # of the last batches logged
        if width is not None and width > 1:
            drafted = passes * (width - 1) if passes is not None else None
            rate = max(0.0, length - 1) / (width - 1) if length is not None else None
        if length is None and passes is None and generated is None:
            return None
        return ServerCounts(
            passes, drafted, accepted, generated, told_length=length, told_rate=rate
        )

    def ask(self, server: ProbedServer, model: str | None, prompt: str) -> CompletionReply:
        """The native endpoint: its meta_info holds the figures of this request."""
        sampling = {"max_new_tokens": MOST_TOKENS, "temperature": 0}
        answer = _complete(server, "/generate", {"text": prompt, "sampling_params": sampling})
        meta = _part(answer, "meta_info")
        passes, generated = (count(meta.get(k)) for k in ("spec_verify_ct", "completion_tokens"))
        accepted = count(meta.get("spec_num_correct_drafts", meta.get("spec_accepted_drafts")))
        drafted = count(meta.get("spec_num_proposed_drafts", meta.get("spec_proposed_drafts")))
        if accepted is None and passes and generated:
            accepted = max(0, generated - 1 - passes)
        return CompletionReply(ServerCounts(passes or 0, drafted, accepted, generated))


class TabbyKind(ServerKind):
    """Tells at most which draft is loaded; acceptance only in its log."""

    engine = "tabbyapi"
    owners = frozenset({"tabbyAPI"})

    def looks_like(self, server: ProbedServer) -> str | None:
        """Its service description needs no key."""
        told = part(server.get("/.well-known/serviceinfo").object(), "software").get("name")
        return "the answer to /.well-known/serviceinfo" if told == "TabbyAPI" else None

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        """The model's card named its draft while ExLlamaV2 ran it; the draft list does now."""
        answer = server.get("/v1/model")
        card = answer.object()
        name = model or text(card.get("id"))
        if not card:
            return ServerReading(model=name, cause="needs-key" if answer.refused else "no-model")
        draft = self._name(part(card, "parameters").get("draft"))
        if draft is not None:
            return self._loaded(draft, "/v1/model", name)
        # An admin's key lists every draft on the disk instead of the loaded one.
        if server.get("/v1/auth/permission").object().get("permission") != "api":
            return ServerReading(model=name, cause="admin-key")
        listed = server.get("/v1/model/draft/list").object().get("data")
        draft = self._name(listed[0]) if isinstance(listed, list) and listed else None
        if draft is not None:
            return self._loaded(draft, "/v1/model/draft/list", name)
        cause = "no-draft" if isinstance(listed, list) else "admin-key"
        return ServerReading(model=name, cause=cause)

    def _loaded(self, draft: str, path: str, model: str | None) -> ServerReading:
        says = f"draft model {draft} is loaded ({path})"
        return ServerReading(
            SpeculationSwitch.SET, says, draft=draft, model=model, cause="log-only"
        )

    def _name(self, card: Any) -> str | None:
        return text(card.get("id")) if isinstance(card, Mapping) else None


class OllamaKind(ServerKind):
    """The loaded model's Modelfile says whether it has a draft; acceptance is not told."""

    engine = "ollama"
    owners = frozenset({"library"})
    version_at = ("/api/version", "version")
    draft_line = re.compile(r"^DRAFT\s", re.MULTILINE | re.IGNORECASE)
    length_line = re.compile(r"^draft_num_predict\s+(\d{1,9})\s*$", re.MULTILINE)

    def looks_like(self, server: ProbedServer) -> str | None:
        running = server.get("/").text.strip() == "Ollama is running"
        return "the greeting at /" if running else None

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        """Look at one loaded model, by default the first."""
        entries = server.get("/api/ps").rows("models")
        named = [text(entry.get("model")) or text(entry.get("name")) for entry in entries]
        loaded = [name for name in named if name is not None]
        name = model or next(iter(loaded), None)
        if name is None:
            return ServerReading(cause="no-model")
        shown = server.post("/api/show", {"model": name}, server.seconds)
        body = shown.object()
        if not body:
            return ServerReading(model=name, cause="no-model" if shown.status == 404 else "no-info")
        notes = () if name in loaded else ("the model is not loaded now",)
        draft = self.draft_line.search(text(body.get("modelfile"), LONGEST_MODELFILE) or "")
        found = self.length_line.search(text(body.get("parameters"), LONGEST_MODELFILE) or "")
        length = int(found[1]) if found else None
        built_in = any(
            str(key).endswith(".nextn_predict_layers") and count(value)
            for key, value in part(body, "model_info").items()
        )
        if length == 0:
            switch, says, cause = SpeculationSwitch.OFF, "draft_num_predict 0", "zero"
        elif draft or (built_in and length):
            switch, cause = SpeculationSwitch.SET, "not-told"
            says = "DRAFT in the Modelfile" if draft else f"MTP layers, draft_num_predict {length}"
        else:
            switch, says = SpeculationSwitch.OFF, "no DRAFT in the Modelfile"
            cause = "mtp-unused" if built_in else "off"
        return ServerReading(switch, f"{says} (/api/show)", model=name, cause=cause, notes=notes)


class LmStudioKind(ServerKind):
    """Drafts are chosen by request or by the model's defaults; only an answer tells."""

    engine = "lm-studio"
    owners = frozenset({"organization_owner"})

    def looks_like(self, server: ProbedServer) -> str | None:
        """Its own list of models says how each is quantised and whether it is loaded."""
        listed = server.get("/api/v0/models").rows("data")
        named = any("compatibility_type" in entry and "state" in entry for entry in listed)
        return "the answer to /api/v0/models" if named else None

    def _loaded(self, server: ProbedServer) -> list[str]:
        listed = server.get("/api/v0/models").rows("data")
        entries = [entry for entry in listed if entry.get("state") == "loaded"]
        named = [text(e.get("id")) for e in entries if e.get("type") != "embeddings"]
        return [name for name in named if name is not None]

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        """Only which model is loaded can be told without a prompt."""
        name = model or next(iter(self._loaded(server)), None)
        return ServerReading(model=name, cause="only-by-request" if name else "no-model")

    def ask(self, server: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
        """stats names the draft model and its tokens when there was one."""
        if model not in self._loaded(server):
            return None  # the request would load it
        body = {"model": model, "prompt": prompt, "max_tokens": MOST_TOKENS, "temperature": 0}
        answer = _complete(server, "/api/v0/completions", body)
        stats = _part(answer, "stats")
        generated = count(part(answer, "usage").get("completion_tokens"))
        drafted = count(stats.get("total_draft_tokens_count"))
        accepted = count(stats.get("accepted_draft_tokens_count"))
        counts = _figures(drafted, accepted, generated)
        return CompletionReply(counts, draftless=counts.none_drafted and "draft_model" not in stats)


class MlxLmKind(ServerKind):
    """mlx_lm.server: neither its addresses nor its answers say anything about drafts."""

    engine = "mlx-lm"

    def looks_like(self, server: ProbedServer) -> str | None:
        """Python's plain HTTP server, and models without an owner."""
        plain = server.get(MODELS).headers.get("server", "").startswith("BaseHTTP/")
        listed = server.models()
        bare = bool(listed) and all(set(entry) == {"id", "object", "created"} for entry in listed)
        return "the form of /v1/models" if plain and bare else None

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        return ServerReading(model=model, cause="not-told")


class TensorRtLlmKind(ServerKind):
    """trtllm-serve: recognised by its owner alone.

    Not read, because reading /metrics takes the rows from others.
    """

    engine = "tensorrt-llm"
    owners = frozenset({"tensorrt_llm"})
    version_at = ("/version", "version")

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        return ServerReading(model=model or server.first_model(), cause="not-read")


KINDS: tuple[ServerKind, ...] = (
    LlamaServerKind(),
    VllmKind(),
    SglangKind(),
    TabbyKind(),
    OllamaKind(),
    LmStudioKind(),
    MlxLmKind(),
    TensorRtLlmKind(),
)
