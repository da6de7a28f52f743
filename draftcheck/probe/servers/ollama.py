"""Ollama: the loaded model's Modelfile says whether it has a draft; acceptance is not told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from draftcheck.probe.client import ProbedServer
from draftcheck.probe.readings import CompletionReply, ServerReading, SpeculationSwitch
from draftcheck.probe.servers import openai

ENGINE = "ollama"
OWNERS = frozenset({"library"})
LONGEST = 1 << 20
_DRAFT = re.compile(r"^DRAFT\s", re.MULTILINE | re.IGNORECASE)
_LENGTH = re.compile(r"^draft_num_predict\s+(\d{1,9})\s*$", re.MULTILINE)


def looks_like(server: ProbedServer) -> str | None:
    """Its greeting."""
    running = server.get("/").text.strip() == "Ollama is running"
    return "the greeting at /" if running else None


def version(server: ProbedServer) -> str | None:
    """Ask for its version."""
    return openai.text(server.get("/api/version").object().get("version"))


def read(server: ProbedServer, model: str | None) -> ServerReading:
    """Look at one loaded model, by default the first."""
    loaded = _names(server.get("/api/ps").object().get("models"))
    name = model or next(iter(loaded), None)
    if name is None:
        return ServerReading(cause="no-model")
    shown = server.post("/api/show", {"model": name}, server.seconds)
    body = shown.object()
    if not body:
        return ServerReading(model=name, cause="no-model" if shown.status == 404 else "no-info")
    note = () if name in loaded else ("the model is not loaded now",)
    modelfile, parameters = (openai.text(body.get(k), LONGEST) for k in ("modelfile", "parameters"))
    draft = bool(_DRAFT.search(modelfile or ""))
    length = _LENGTH.search(parameters or "")
    return _judged(body, name, draft, int(length[1]) if length else None, note)


def _judged(
    body: Mapping[str, Any], name: str, draft: bool, length: int | None, notes: tuple[str, ...]
) -> ServerReading:
    info = body.get("model_info")
    keys = info if isinstance(info, Mapping) else {}
    built_in = any(
        str(key).endswith(".nextn_predict_layers") and openai.count(value)
        for key, value in keys.items()
    )
    if length == 0:
        says = "draft_num_predict 0 (/api/show)"
        return ServerReading(SpeculationSwitch.OFF, says, model=name, cause="zero", notes=notes)
    if draft or (built_in and length):
        says = "DRAFT in the Modelfile" if draft else f"MTP layers, draft_num_predict {length}"
        return ServerReading(
            SpeculationSwitch.SET, f"{says} (/api/show)", model=name, cause="not-told", notes=notes
        )
    says = "no DRAFT in the Modelfile (/api/show)"
    cause = "mtp-unused" if built_in else "off"
    return ServerReading(SpeculationSwitch.OFF, says, model=name, cause=cause, notes=notes)


def _names(models: Any) -> list[str]:
    entries = models if isinstance(models, list) else []
    known = [entry for entry in entries if isinstance(entry, Mapping)]
    found = [openai.text(entry.get("model")) or openai.text(entry.get("name")) for entry in known]
    return [name for name in found if name is not None]


def ask(server: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
    """Not sent: its answers hold no draft figures."""
    return None
