"""Ask a running server whether it is speculating now, and how well.

Sends no prompt unless one is given, changes no setting, loads no model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from draftcheck.errors import ReadError
from draftcheck.probe import causes, verdict
from draftcheck.probe.client import ProbedServer, ServerAnswer, parse
from draftcheck.probe.kinds import ServerKind, recognise
from draftcheck.probe.readings import (
    CompletionReply,
    ProbeResult,
    ProbeState,
    ServerCounts,
    ServerIdentity,
    ServerReading,
    SpeculationSwitch,
    since,
)
from draftcheck.probe.servers import openai

__all__ = ["ProbeRequest", "probe"]


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What to ask, and how."""

    url: str
    key: str | None = None
    model: str | None = None
    prompt: str | None = None
    interval: float | None = None
    seconds: float = 10.0
    sleep: Callable[[float], None] = time.sleep


def probe(question: ProbeRequest) -> ProbeResult:
    """Recognise the server, read it, and judge what it tells."""
    site = ProbedServer(parse(question.url), question.key, question.seconds)
    first = site.get(openai.MODELS)
    if not first.reached:
        hint = "Is the server running, and is this its address?"
        raise ReadError(f"{site.base.url}: {first.fault}", hint=hint)
    found = recognise(site)
    if found is None:
        return _stranger(site)
    kind, seen = found
    server = ServerIdentity(kind.ENGINE, kind.version(site), seen)
    reading = kind.read(site, question.model)
    if question.prompt is not None:
        return _with_prompt(site, kind, server, reading, question)
    if question.interval is not None:
        return _with_interval(site, kind, server, reading, question)
    return _result(site, server, reading)


def _with_prompt(
    site: ProbedServer,
    kind: ServerKind,
    server: ServerIdentity,
    before: ServerReading,
    question: ProbeRequest,
) -> ProbeResult:
    """One completion: its own figures, or what the counters gained meanwhile."""
    reply = kind.ask(site, question.model or before.model, question.prompt or "")
    if reply is None:
        note = "the prompt was not sent: the answer would not tell, or no such model is loaded"
        return _result(site, server, before, notes=(note,))
    after = _settled(site, kind, question, before, reply)
    if reply.fault is not None:
        return _failed(site, server, after, reply.fault)
    if reply.draftless:
        after = replace(after, switch=SpeculationSwitch.OFF, cause="never-drafts")
    if reply.counts is not None:
        return _result(site, server, after, prompt=reply.counts)
    note = "other requests that ran at the same time are counted too"
    return _result(site, server, after, prompt=_gained(after, before), notes=(note,))


def _settled(
    site: ProbedServer,
    kind: ServerKind,
    question: ProbeRequest,
    before: ServerReading,
    reply: CompletionReply,
) -> ServerReading:
    """A second reading; counters may follow the answer by a moment."""
    for pause in (0.0, 0.3, 1.0):
        question.sleep(pause)
        site.again()
        after = kind.read(site, question.model)
        if reply.counts is not None or reply.fault is not None or after.counts != before.counts:
            break
    return after


def _failed(
    site: ProbedServer, server: ServerIdentity, reading: ServerReading, fault: str
) -> ProbeResult:
    probe = _result(site, server, reading, notes=(f"the prompt failed: {fault}",))
    if probe.state is ProbeState.NOT_SPECULATING or reading.cause is not None:
        return probe
    named = causes.find("prompt-failed", server.engine, server.version)
    return replace(probe, state=ProbeState.UNKNOWN, causes=named)


def _with_interval(
    site: ProbedServer,
    kind: ServerKind,
    server: ServerIdentity,
    before: ServerReading,
    question: ProbeRequest,
) -> ProbeResult:
    """Two readings, and what happened between them."""
    if before.counts is None:
        note = "one reading only: this server gives no counters to compare"
        return _result(site, server, before, notes=(note,))
    start = time.monotonic()
    question.sleep(question.interval or 0)
    seconds = time.monotonic() - start
    site.again()
    after = kind.read(site, question.model)
    gained = _gained(after, before)
    notes: tuple[str, ...] = ()
    if gained is None:
        notes = ("no rates for the interval: the counters went back or away (a restart?)",)
    elif gained.says_nothing:
        notes = ("nothing was drafted in the interval",)
    return _result(site, server, after, interval=gained, seconds=seconds, notes=notes)


def _gained(after: ServerReading, before: ServerReading) -> ServerCounts | None:
    if after.counts is None or before.counts is None:
        return None
    return since(after.counts, before.counts)


def _result(
    site: ProbedServer,
    server: ServerIdentity,
    reading: ServerReading,
    *,
    prompt: ServerCounts | None = None,
    interval: ServerCounts | None = None,
    seconds: float | None = None,
    notes: tuple[str, ...] = (),
) -> ProbeResult:
    state, cause = verdict.judge(reading, prompt, interval)
    if cause == "needs-key" and site.has_key:
        cause = "key-refused"
    named = causes.find(cause, server.engine, server.version) if cause is not None else ()
    return ProbeResult(
        site.base.url,
        state,
        server,
        reading,
        reading.counts,
        interval,
        seconds,
        prompt,
        named,
        (*reading.notes, *notes),
        tuple(site.asked),
    )


def _stranger(site: ProbedServer) -> ProbeResult:
    """No kind was recognised: say what stood in the way."""
    first = site.get(openai.MODELS)
    cause, notes = _obstacle(site, first)
    named = causes.find(cause, None, None)
    asked = tuple(site.asked)
    return ProbeResult(site.base.url, ProbeState.UNKNOWN, causes=named, notes=notes, asked=asked)


def _obstacle(site: ProbedServer, first: ServerAnswer) -> tuple[str, tuple[str, ...]]:
    if first.refused:
        return ("key-refused" if site.has_key else "needs-key"), ()
    if first.fault is not None:
        return "no-answer", (f"{first.path}: {first.fault}",)
    if first.status >= 500:
        return "server-error", (f"{first.path}: HTTP {first.status}",)
    if first.text.lstrip()[:1] == "<":
        return "web-page", ()
    return "stranger", ()
