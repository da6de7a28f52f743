"""Ask a running server whether it is speculating now, and how well.

    client     one GET at a time, with limits; each address is asked once per reading
    servers    which kind of server it is: by its models' owner, else by an address of its own;
               its addresses -> a ServerReading (switch, counters, a cause)
    verdict    readings -> a state; the newest figures that say something decide; the likely cause

Sends no prompt unless one is given, changes no setting, loads no model. With a prompt or an
interval the server is read twice, and what the counters gained decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from draftcheck.errors import ReadError
from draftcheck.probe import verdict
from draftcheck.probe.client import MODELS, ProbedServer, parse
from draftcheck.probe.readings import (
    ProbeCause,
    ProbeResult,
    ProbeState,
    ServerCounts,
    ServerIdentity,
    ServerReading,
    SpeculationSwitch,
    since,
)
from draftcheck.probe.servers import PromptFailed, ServerKind, recognise


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


def probe(request: ProbeRequest) -> ProbeResult:
    """Recognise the server, read it, and judge what it tells."""
    server = ProbedServer(parse(request.url), request.key, request.seconds)
    first = server.get(MODELS)
    if not first.reached:
        hint = "Is the server running, and is this its address?"
        raise ReadError(f"{server.base.url}: {first.fault}", hint=hint)
    recognised = recognise(server)
    if recognised is None:
        return _stranger(server)
    run = _ProbeRun(request, server, *recognised)
    reading = run.read()
    if request.prompt is not None:
        return run.with_prompt(reading, request.prompt)
    if request.interval is not None:
        return run.with_interval(reading, request.interval)
    return run.result(reading)


class _ProbeRun:
    """One server of a known kind, asked once or twice."""

    def __init__(
        self, request: ProbeRequest, server: ProbedServer, kind: ServerKind, seen: str
    ) -> None:
        self._request, self._server, self._kind = request, server, kind
        self._identity = ServerIdentity(kind.engine, kind.version(server), seen)

    def read(self) -> ServerReading:
        return self._kind.read(self._server, self._request.model)

    def with_prompt(self, before: ServerReading, prompt: str) -> ProbeResult:
        """Send one completion: its own figures, or what the counters gained meanwhile."""
        try:
            reply = self._kind.ask(self._server, self._request.model or before.model, prompt)
        except PromptFailed as fault:
            return self._failed(self._read_again(), str(fault))
        if reply is None:
            note = "the prompt was not sent: the answer would not tell, or no such model is loaded"
            return self.result(before, notes=(note,))
        after = self._read_again() if reply.counts is not None else self._settled(before)
        if reply.draftless:
            after = replace(after, switch=SpeculationSwitch.OFF, cause="never-drafts")
        if reply.counts is not None:
            return self.result(after, prompt=reply.counts)
        note = "other requests that ran at the same time are counted too"
        return self.result(after, prompt=_gained(after, before), notes=(note,))

    def _read_again(self) -> ServerReading:
        self._server.again()
        return self.read()

    def _settled(self, before: ServerReading) -> ServerReading:
        """A second reading; counters may follow the answer by a moment."""
        for pause in (0.0, 0.3, 1.0):
            self._request.sleep(pause)
            after = self._read_again()
            if after.counts != before.counts:
                break
        return after

    def _failed(self, reading: ServerReading, fault: str) -> ProbeResult:
        result = self.result(reading, notes=(f"the prompt failed: {fault}",))
        if result.state is ProbeState.NOT_SPECULATING or reading.cause is not None:
            return result
        return replace(result, state=ProbeState.UNKNOWN, causes=self._causes("prompt-failed"))

    def with_interval(self, before: ServerReading, interval: float) -> ProbeResult:
        """Read it again after a while, and tell what happened between."""
        if before.counts is None:
            note = "one reading only: this server gives no counters to compare"
            return self.result(before, notes=(note,))
        start = time.monotonic()
        self._request.sleep(interval)
        seconds = time.monotonic() - start
        after = self._read_again()
        gained = _gained(after, before)
        notes: tuple[str, ...] = ()
        if gained is None:
            notes = ("no rates for the interval: the counters went back or away (a restart?)",)
        elif gained.says_nothing:
            notes = ("nothing was drafted in the interval",)
        return self.result(after, interval=gained, seconds=seconds, notes=notes)

    def result(
        self,
        reading: ServerReading,
        *,
        prompt: ServerCounts | None = None,
        interval: ServerCounts | None = None,
        seconds: float | None = None,
        notes: tuple[str, ...] = (),
    ) -> ProbeResult:
        """Judge a reading and the figures that came with it."""
        state, cause = verdict.judge(reading, prompt, interval)
        if cause == "needs-key" and self._server.has_key:
            cause = "key-refused"
        return ProbeResult(
            self._server.base.url,
            state,
            self._identity,
            reading,
            reading.counts,
            interval,
            seconds,
            prompt,
            self._causes(cause) if cause is not None else (),
            (*reading.notes, *notes),
            tuple(self._server.asked),
        )

    def _causes(self, cause: str) -> tuple[ProbeCause, ...]:
        return verdict.find_causes(cause, self._identity.engine, self._identity.version)


def _gained(after: ServerReading, before: ServerReading) -> ServerCounts | None:
    if after.counts is None or before.counts is None:
        return None
    return since(after.counts, before.counts)


def _stranger(server: ProbedServer) -> ProbeResult:
    """No kind was recognised: say what stood in the way."""
    first = server.get(MODELS)
    cause = "web-page" if first.text.lstrip()[:1] == "<" else "stranger"
    notes: tuple[str, ...] = ()
    if first.refused:
        cause = "key-refused" if server.has_key else "needs-key"
    elif first.fault is not None:
        cause, notes = "no-answer", (f"{first.path}: {first.fault}",)
    elif first.status >= 500:
        cause, notes = "server-error", (f"{first.path}: HTTP {first.status}",)
    return ProbeResult(
        server.base.url,
        ProbeState.UNKNOWN,
        causes=verdict.find_causes(cause, None, None),
        notes=notes,
        asked=tuple(server.asked),
    )
