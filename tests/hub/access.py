"""Who may see what, answered in the Hub's own codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hub.answers import Answer, error
from tests.hub.blobs import Data

if TYPE_CHECKING:
    from tests.hub.hub import Hub
    from tests.hub.repos import Commit, Repo
    from tests.hub.requests import Request

NO_RIGHT = (
    "Please enable access to public gated repositories in your fine-grained token settings to view"
    " this repository."
)


def repo_not_found(hub: Hub, request: Request) -> Answer:
    """Missing and private look alike: a bare 401 to the unknown, 404 to a known user."""
    if request.token is None:
        code = "RepoNotFound" if hub.error_codes else None
        return error(401, "Invalid username or password.", code)
    return error(404, "Repository not found", "RepoNotFound")


def may_see(hub: Hub, request: Request, repo: Repo) -> Answer | None:
    """None when the repo's listing may be seen, else the refusal."""
    if repo.private and not (request.token and request.token.opens(repo)):
        return repo_not_found(hub, request)
    return None


def may_read(hub: Hub, request: Request, repo: Repo) -> Answer | None:
    """None when the repo's files may be read, else the refusal."""
    refused = may_see(hub, request, repo)
    if refused is None and repo.disabled:
        return error(403, "Access to this resource is disabled.")
    if refused is not None or not repo.gated:
        return refused
    restricted = f"Access to model {repo.id} is restricted"
    if request.token is None:
        text = f"{restricted}. You must have access to it and be authenticated to access it."
        return error(401, f"{text} Please log in.", "GatedRepo")
    if not request.token.reads_gated:
        return error(403, NO_RIGHT)
    if not request.token.opens(repo):
        text = f"{restricted} and you are not in the authorized list."
        return error(403, f"{text} Visit {hub.url}/{repo.id} to ask for access.", "GatedRepo")
    return None


def no_revision(revision: str) -> Answer:
    return error(404, f"Invalid rev id: {revision}", "RevisionNotFound")


def no_entry(commit: Commit) -> Answer:
    """No such file: in plain text, unlike other refusals."""
    answer = error(404, "Entry not found", "EntryNotFound", X_Repo_Commit=commit.sha)
    answer.headers |= {"Content-Type": "text/plain; charset=utf-8", "Accept-Ranges": "bytes"}
    answer.body = Data(b"Entry not found")
    return answer


def no_folder(revision: str, path: str) -> Answer:
    return error(404, f'{path} does not exist on "{revision}"', "EntryNotFound")
