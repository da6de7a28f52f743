"""Who may see what, answered in the Hub's own codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hub.answers import Answer, error

if TYPE_CHECKING:
    from tests.hub.hub import Hub
    from tests.hub.repos import Commit, Repo
    from tests.hub.requests import Request


def repo_not_found(hub: Hub, request: Request) -> Answer:
    """Missing and private look alike: 401 to the unknown, 404 to a known user."""
    if request.token is None:
        code = "RepoNotFound" if hub.error_codes else None
        return error(401, "Invalid username or password.", code)
    return error(404, "Repository not found", "RepoNotFound" if hub.error_codes else None)


def may_see(hub: Hub, request: Request, repo: Repo) -> Answer | None:
    """None when the repo's listing may be seen, else the refusal."""
    if repo.disabled:
        return error(403, "Access to this resource is disabled.")
    if repo.private and not (request.token and request.token.opens(repo)):
        return repo_not_found(hub, request)
    return None


def may_read(hub: Hub, request: Request, repo: Repo) -> Answer | None:
    """None when the repo's files may be read, else the refusal."""
    refused = may_see(hub, request, repo)
    if refused is not None or not repo.gated:
        return refused
    if request.token is None:
        text = f"Access to model {repo.id} is restricted: log in with an account that has access."
        return error(401, text, "GatedRepo")
    if not request.token.opens(repo):
        text = f"Access to model {repo.id} is restricted and this account is not on its list."
        return error(403, text, "GatedRepo")
    return None


def no_revision(revision: str) -> Answer:
    return error(404, f"Invalid rev id: {revision}", "RevisionNotFound")


def no_entry(commit: Commit) -> Answer:
    return error(404, "Entry not found", "EntryNotFound", X_Repo_Commit=commit.sha)
