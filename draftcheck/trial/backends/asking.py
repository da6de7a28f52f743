"""Questions to a model server: patient with a busy one, short about a broken one."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from draftcheck.probe.client import ProbedServer, ServerAnswer
from draftcheck.trial.backends.sides import ServerLost

SECONDS = 600.0
"""For one answer: a long text from a large model."""
TRIES = 4
PAUSE = 2.0
LONGEST_PAUSE = 30.0
BUSY = (429, 503)
RETRY_AFTER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
EVENT = "data:"
SAID = 200
"""Characters of a server's own words that are repeated."""


class ServerAsker(ProbedServer):
    """One server and the key that only it gets."""

    def ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer's object; a busy server is asked again, any other fault is ServerLost."""
        found = self._ask(path, body).json()
        if not isinstance(found, dict):
            raise ServerLost(f"{path}: the answer is not a JSON object")
        return found

    def stream(self, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The objects of an answer that comes token by token, when all of them are there."""
        found = []
        for line in self._ask(path, {**body, "stream": True}).text.splitlines():
            if line.startswith(EVENT) and line[len(EVENT) :].strip() != "[DONE]":
                try:
                    event = json.loads(line[len(EVENT) :])
                except (ValueError, RecursionError) as error:
                    raise ServerLost(f"{path}: an event is not JSON") from error
                found.append(event if isinstance(event, dict) else {})
        return found

    def _ask(self, path: str, body: Mapping[str, Any]) -> ServerAnswer:
        for turn in range(TRIES):
            answer = self.post(path, body, SECONDS)
            if answer.status not in BUSY or turn == TRIES - 1:
                break
            asked = answer.headers.get("retry-after", "")  # a date or nonsense says nothing
            seconds = float(asked) if RETRY_AFTER.fullmatch(asked) else PAUSE * 2**turn
            time.sleep(min(seconds, LONGEST_PAUSE))
        if answer.fault is not None:
            raise ServerLost(f"{path}: {answer.fault}")
        if answer.status != 200:
            words = f"{path}: HTTP {answer.status}"
            if answer.refused and self.has_key:
                words += ", the key was refused"
            elif answer.refused:
                words += ", it wants a key (set OPENAI_API_KEY)"
            elif answer.status in BUSY:
                words += f", still busy after {TRIES} tries"
            said = _said(answer.text)
            raise ServerLost(f"{words}: {said}" if said else words, answer.status)
        return answer


def is_token_ids(found: Any) -> bool:
    """Whether a server's answer is a list of token ids and nothing else."""
    return isinstance(found, list) and all(
        type(token) is int and 0 <= token < 1 << 31 for token in found
    )


def _said(text: str) -> str:
    """The message in an error's body, in one line."""
    try:
        body: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(body, dict) and name in body:
            body = body[name]
    if isinstance(body, dict):
        body = body.get("message")
    return " ".join(body.split())[:SAID] if isinstance(body, str) else ""
