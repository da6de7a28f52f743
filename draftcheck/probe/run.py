"""Ask a running server whether it is speculating now, and how well.

    client     one GET at a time, with limits; each address is asked once per reading
    servers    which kind of server it is: by its models' owner, else by an address of its own;
               its addresses -> a ServerReading (switch, counters, a cause)
    judge      readings -> a state; the newest figures that say something decide; the likely cause

Sends no prompt unless one is given, changes no setting, loads no model. With a prompt or an
interval the server is read twice, and what the counters gained decides. The words of causes and the
limits are data, in rules/probes.toml.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from draftcheck import versions
from draftcheck.errors import ReadError, RuleError, UsageError
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
from draftcheck.rulebook import files
from draftcheck.rulebook.files import RuleRow

FILE = "probes"
Verdict = tuple[ProbeState, str | None]
"""The state and the id of the cause, if one is to be named."""


class ProbeLimits(RuleRow, frozen=True):
    """From where on numbers say something."""

    broken_length: float
    broken_rate: float
    enough_drafts: int
    enough_drafted: int
    enough_tokens: int
    some_tokens: int


class ProbeFile(RuleRow, frozen=True):
    """rules/probes.toml."""

    limits: ProbeLimits
    builds: Mapping[str, str]
    """Engine -> the first build; its servers may tell versions of another kind."""
    cause: tuple[ProbeCause, ...]


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    url: str
    key: str | None = None
    model: str | None = None
    prompt: str | None = None
    interval: float | None = None
    seconds: float = 10.0


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


def watch(request: ProbeRequest, interval: float) -> Iterator[ProbeResult]:
    """Read the server again and again; each result tells what happened since the one before.

    A server that goes away, or comes back as another one, is told like any other news.
    """
    first = probe(request)  # one that is not there at all is an error
    before, began = first.reading, time.monotonic()
    yield first
    while True:
        time.sleep(interval)
        server = ProbedServer(parse(request.url), request.key, request.seconds)
        recognised = recognise(server) if server.get(MODELS).reached else None
        now, reading = time.monotonic(), None
        if recognised is None:
            yield _stranger(server)
        else:
            run = _ProbeRun(request, server, *recognised)
            reading = run.read()
            gained = None if before is None else _gained(reading, before)
            yield run.result(reading, interval=gained, seconds=now - began)
        before, began = reading, now


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
            after = self._read_again()
            result = self.result(after, notes=(f"the prompt failed: {fault}",))
            if result.state is ProbeState.NOT_SPECULATING or after.cause is not None:
                return result
            return replace(result, state=ProbeState.UNKNOWN, causes=self._causes("prompt-failed"))
        if reply is None:
            note = "the prompt was not sent: the answer would not tell, or no such model is loaded"
            return self.result(before, notes=(note,))
        after = self._read_again()
        for pause in (0.3, 1.0) if reply.counts is None else ():
            if after.counts != before.counts:
                break
            time.sleep(pause)  # counters may follow the answer by a moment
            after = self._read_again()
        if reply.draftless:
            after = replace(after, switch=SpeculationSwitch.OFF, cause="never-drafts")
        if reply.counts is not None:
            return self.result(after, prompt=reply.counts)
        note = "other requests that ran at the same time are counted too"
        return self.result(after, prompt=_gained(after, before), notes=(note,))

    def _read_again(self) -> ServerReading:
        self._server.again()
        return self.read()

    def with_interval(self, before: ServerReading, interval: float) -> ProbeResult:
        """Read it again after a while, and tell what happened between."""
        if before.counts is None:
            note = "one reading only: this server gives no counters to compare"
            return self.result(before, notes=(note,))
        start = time.monotonic()
        time.sleep(interval)
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
        state, cause = judge(reading, prompt, interval)
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
        return find_causes(cause, self._identity.engine, self._identity.version)


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
        causes=find_causes(cause, None, None),
        notes=notes,
        asked=tuple(server.asked),
    )


def _table() -> ProbeFile:
    return files.read(FILE, ProbeFile)


def find_causes(cause: str, engine: str | None, version: str | None) -> tuple[ProbeCause, ...]:
    """The rows of a cause that hold for this engine and version, likeliest first."""
    rows = [row for row in _table().cause if row.id == cause]
    own = [row for row in rows if row.engine == engine]
    chosen = own or [row for row in rows if row.engine is None]
    if not chosen:
        raise RuleError(f"{FILE}.toml: no cause {cause!r} for {engine}")
    return tuple(row for row in chosen if _holds(row, engine, version))


def _holds(row: ProbeCause, engine: str | None, version: str | None) -> bool:
    """Whether a row's window covers the version; one that cannot be placed excludes nothing."""
    numbered = _table().builds.get(engine or "", "")
    order = versions.ORDERS["build" if numbered else "pep440"]
    known = (version or "").partition("-")[0] if numbered else version
    try:
        if not known or (numbered and order(known) < versions.build(numbered)):
            return True
        return versions.covers(order, known, row.since, row.until)
    except UsageError:
        return True


def judge(reading: ServerReading, *latest: ServerCounts | None) -> Verdict:
    """Decide by the newest figures that say something; the server's own word comes after."""
    if reading.switch is SpeculationSwitch.OFF:
        return ProbeState.NOT_SPECULATING, reading.cause or "off"
    untold = reading.switch is SpeculationSwitch.UNTOLD
    in_vain = 0
    for counts in (*latest, reading.counts):
        if counts is not None and not counts.says_nothing:
            return _weigh(counts)
        if counts is not None and counts.none_drafted:
            in_vain = max(in_vain, counts.generated or 0)
        if in_vain >= _table().limits.enough_tokens:
            return ProbeState.NOT_SPECULATING, "off" if untold else "never-drafts"
    if untold:
        return ProbeState.UNKNOWN, reading.cause or "no-evidence"
    if in_vain >= _table().limits.some_tokens:
        return ProbeState.CONFIGURED, "never-drafts"
    if reading.switch is SpeculationSwitch.ON:
        return ProbeState.SPECULATING, None
    return ProbeState.CONFIGURED, reading.cause or "no-request"


def _weigh(counts: ServerCounts) -> Verdict:
    """Drafts were made: are they accepted?"""
    length, rate = counts.mean_length, counts.acceptance_rate
    by_tokens = counts.drafts is None and counts.drafted is not None
    if by_tokens and rate is not None:
        # Passes without a draft may be among them: the mean length would blame the draft.
        accepting = rate > _table().limits.broken_rate
    elif length is not None:
        accepting = length > _table().limits.broken_length
    else:
        return ProbeState.UNKNOWN, "no-figures"
    if accepting:
        return ProbeState.SPECULATING, None
    if counts.drafts is not None:
        enough = counts.drafts >= _table().limits.enough_drafts
    else:
        enough = counts.drafted is None or counts.drafted >= _table().limits.enough_drafted
    if enough:
        return ProbeState.NOT_ACCEPTING, "rejected"
    return ProbeState.UNKNOWN, "few-drafts"
