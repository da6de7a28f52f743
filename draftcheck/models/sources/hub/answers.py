"""What a Hub's answers mean when they are not the file: one message and one hint each."""

from __future__ import annotations

from typing import NoReturn
from urllib.parse import urlsplit

from draftcheck.errors import GatedError, ReadError
from draftcheck.models.sources.hub.client import (
    BUSY,
    HttpAnswer,
    HubClient,
    RetryableError,
    asked_wait,
)

DISABLED = "access to this resource is disabled"
BAD_TOKEN = "invalid credentials"


class NotOnHub(ReadError):
    """No such repo, revision or file."""


def refuse(
    web: HubClient, answer: HttpAnswer, repo: str, what: str, revision: str | None = None
) -> NoReturn:
    """Raise what an answer without content means; what names the file or the list of files."""
    code = answer.headers.get("x-error-code", "")
    said = answer.headers.get("x-error-message", "")[:200]
    status = answer.status
    where = f"{what} answered {status}{' ' + code[:40] if code else ''}"
    page = f"{web.endpoint}/{repo}"
    host = urlsplit(answer.url).netloc
    if status in BUSY:
        cause = "too many requests" if status == 429 else f"{host} is in trouble"
        raise RetryableError(
            f"{repo}: {where}: {cause}", "Try again later.", wait=asked_wait(answer)
        )
    if DISABLED in said.lower():
        raise ReadError(
            f"{repo}: disabled: {where}",
            hint="The Hub has closed this repo; nobody can read it. Look for another copy.",
        )
    if code == "GatedRepo":
        raise GatedError(f"{repo}: gated: {where}", hint=_access(web, page))
    if BAD_TOKEN in said.lower():
        raise ReadError(
            f"{repo}: the token is not valid: {where}",
            hint="Log in again (hf auth login), or correct or unset HF_TOKEN.",
        )
    if code == "RevisionNotFound":
        raise NotOnHub(
            f"{repo}: no revision {revision or 'main'!r}: {where}",
            hint=f"Branches, tags and commits: {page}/commits.",
        )
    if code == "EntryNotFound":
        raise NotOnHub(f"{repo}: no such file: {where}")
    if code == "RepoNotFound" or status in (401, 404):
        raise NotOnHub(f"{repo}: no such repo, or a private one: {where}", hint=_unseen(web))
    if status == 403:
        raise ReadError(f"{repo}: not allowed: {where}", hint=_access(web, page))
    tail = f": {said}" if said else ""
    raise ReadError(f"{repo}: {where} from {host}{tail}")


def _access(web: HubClient, page: str) -> str:
    if web.has_token:
        return f"Your token has no access: ask for it at {page}, then try again."
    return f"Ask for access at {page}, then log in (hf auth login) or set HF_TOKEN."


def _unseen(web: HubClient) -> str:
    if web.has_token:
        return "Check the name (there is no such local path either), or whether your token sees it."
    return (
        "Check the name (there is no such local path either);"
        " for a private repo log in (hf auth login) or set HF_TOKEN."
    )
