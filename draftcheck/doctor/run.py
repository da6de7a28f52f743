"""Some harmless questions to the endpoint, each about one thing that draftcheck takes for granted.

They are asked as the other commands ask them (same client, same redirects, same token), but the
answers are looked at here: a command that copes with a change says nothing about it. What a server
may do either way is no assumption. Reads a few kilobytes, writes nothing, keeps nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from draftcheck import settings
from draftcheck.doctor.findings import (
    Assumption,
    AssumptionCheck,
    AssumptionState,
    DoctorReport,
)
from draftcheck.errors import ReadError, UsageError
from draftcheck.models.sources.hub import addresses, listing
from draftcheck.models.sources.hub.addresses import origin
from draftcheck.models.sources.hub.budget import QUOTA, limits
from draftcheck.models.sources.hub.cache import digest_of
from draftcheck.models.sources.hub.client import (
    BAD_TOKEN,
    BUSY,
    ByteSpan,
    HttpAnswer,
    HubClient,
    refuse,
)
from draftcheck.models.sources.hub.listing import COMMIT, REPO, HubQuery, ListedFile
from draftcheck.models.sources.hub.transport import OfflineError, RetryableError
from draftcheck.recommend.search import RICH

MODEL = "openai-community/gpt2"
"""Public, small, old: it will stay."""
MISSING = "draftcheck-doctor/there-is-no-such-model"
NO_REVISION = "draftcheck-doctor-no-such-revision"
NO_FILE = "draftcheck-doctor-no-such-file.json"
MOST = 4 << 20
SMALL = 1 << 20
PART = 8
LIGHT_BODY = 2000
"""Bytes of an answer that names a commit and nothing else, with room."""
SIZE = 10**9
LONGEST_WINDOW = 330
WINDOW = re.compile(r";\s*w=(\d{1,9})")


class UnmetAssumption(Exception):
    """An answer is not as it should be; the text says what it is."""


class NothingToAsk(Exception):
    """A question makes no sense here; the text says why."""


class TokenRefused(ReadError):
    """The token is not valid: every answer would say so."""


class HubExamination:
    """The questions, and what earlier answers are needed for later ones."""

    def __init__(self, web: HubClient, model: str) -> None:
        self._web, self._model = web, model
        self._info: dict[str, Any] = {}
        self._files: dict[str, ListedFile] = {}
        self._rows: list[Any] = []
        self._listed: HttpAnswer | None = None
        self._api_answers: list[HttpAnswer] = []
        self.asked = ""
        """The last question."""
        self.status: int | None = None
        self.leads_to: str | None = None

    def _get(
        self, path: str, *, span: ByteSpan | None = None, same_host: bool = True
    ) -> tuple[HttpAnswer, bytes]:
        what = f"the answer to {path[:100]}"
        self.asked, self.status = path, None

        def attempt() -> tuple[HttpAnswer, bytes]:
            sink = bytearray()
            url = f"{self._web.endpoint}{path}"
            answer = self._web.get(url, sink, MOST + 1, what, span=span, same_host=same_host)
            self.status = answer.status
            if answer.status in BUSY:
                refuse(self._web, answer, "doctor", what)
            return answer, bytes(sink)

        answer, body = self._web.retry(attempt, lambda: 0)
        if origin(answer.url) != origin(self._web.endpoint) and self._web.is_hub(answer.url):
            parts = urlsplit(answer.url)
            self.leads_to = f"{parts.scheme}://{parts.netloc}"
        if path.startswith("/api/"):
            self._api_answers.append(answer)
        if answer.status == 401 and BAD_TOKEN in answer.words.lower():
            raise TokenRefused(
                f"the token is not valid: {answer.words}",
                hint="Log in again (hf auth login), or correct or unset HF_TOKEN.",
            )
        if len(body) > MOST:
            raise UnmetAssumption(f"more than {MOST:,} bytes")
        return answer, body

    def _json(self, path: str) -> Any:
        answer, body = self._get(path)
        self._status(answer, 200)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise UnmetAssumption(f"not JSON but {_kind(answer)}") from None

    def _status(self, answer: HttpAnswer, *wanted: int, code: str = "") -> None:
        said = answer.headers.get("x-error-code", "")
        if answer.status not in wanted or (code and said != code):
            words = f": {answer.words}" if answer.words else ""
            named = f" {said[:40]}" if said else (" without a code" if code else "")
            raise UnmetAssumption(f"{answer.status}{named}, {_kind(answer)}{words}")

    def _of_model(self, rest: str = "") -> str:
        return f"/api/models/{quote(self._model)}{rest}"

    def _sha(self) -> str:
        if not self._info:
            raise NothingToAsk("the model could not be read")
        return str(self._info["sha"])

    def model_info(self) -> None:
        info = self._json(self._of_model("?blobs=true"))
        if not isinstance(info, dict):
            raise UnmetAssumption("JSON, but no object")
        sha, name = info.get("sha"), info.get("id")
        if not isinstance(sha, str) or not COMMIT.fullmatch(sha):
            raise UnmetAssumption("no commit in it (sha)")
        if not isinstance(name, str) or not REPO.fullmatch(name):
            raise UnmetAssumption("no name in it (id)")
        self._info, self._model = info, name

    def files_with_digests(self) -> None:
        self._sha()
        rows = self._info.get("siblings")
        if not isinstance(rows, list) or not rows:
            raise UnmetAssumption("no files in it (siblings)")
        found = dict(filter(None, map(listing.sibling_entry, rows)))
        lacking = [name for name, file in found.items() if file is None or file.digest is None]
        self._files = {name: file for name, file in found.items() if file is not None}
        if lacking or not found:
            raise UnmetAssumption(f"{len(lacking)} of {len(rows)} files without size or digest")

    def commit_alone(self) -> None:
        sha = self._sha()
        body = self._json(self._of_model("?expand=sha"))
        if not isinstance(body, dict) or body.get("sha") != sha:
            raise UnmetAssumption("another commit, or none")
        if len(json.dumps(body)) > LIGHT_BODY:
            raise UnmetAssumption(f"{len(body)} fields, not the one asked for")

    def fixed_revision(self) -> None:
        sha = self._sha()
        body = self._json(self._of_model(f"/revision/{sha}?expand=sha"))
        if not isinstance(body, dict) or body.get("sha") != sha:
            raise UnmetAssumption("another commit than the one asked for")

    def unknown_revision(self) -> None:
        self._sha()
        answer, _ = self._get(self._of_model(f"/revision/{NO_REVISION}"))
        self._status(answer, 404, code="RevisionNotFound")

    def unknown_repo(self) -> None:
        answer, _ = self._get(f"/api/models/{MISSING}")
        self._status(answer, 401, 404)
        if "html" in answer.headers.get("content-type", ""):
            raise UnmetAssumption(f"{answer.status}, {_kind(answer)}")

    def tree(self) -> None:
        rows = self._json(self._of_model(f"/tree/{self._sha()}?recursive=true"))
        if not isinstance(rows, list):
            raise UnmetAssumption("no list")
        files = [row for row in rows if isinstance(row, dict) and row.get("type") == "file"]
        entries = (listing.file_entry(row.get("path"), row, row.get("oid")) for row in files)
        found = dict(filter(None, entries))
        bare = [name for name, file in found.items() if file is None or file.digest is None]
        if bare or not found:
            raise UnmetAssumption(f"{len(bare)} of {len(rows)} rows without size or digest")
        other = [name for name, file in found.items() if self._files.get(name, file) != file]
        self._files = {**{name: file for name, file in found.items() if file}, **self._files}
        if other:
            raise UnmetAssumption(f"another size or digest of {other[0]} than in the model's list")

    def _small(self) -> tuple[str, ListedFile]:
        self._sha()
        small = {n: f for n, f in self._files.items() if 0 < f.size <= SMALL and f.digest}
        if not small:
            raise NothingToAsk("no small file with a digest was listed")
        name = "config.json" if "config.json" in small else min(small)
        return name, small[name]

    def _resolve(self, name: str) -> str:
        return addresses.resolve("", self._model, self._sha(), name)

    def small_file(self) -> None:
        name, file = self._small()
        answer, body = self._get(self._resolve(name), same_host=False)
        self._status(answer, 200)
        if file.digest and digest_of(body, file.digest) != file.digest:
            raise UnmetAssumption(f"{len(body):,} bytes with another digest than was listed")
        self._of_commit(answer)

    def _of_commit(self, answer: HttpAnswer) -> None:
        for step in (*answer.hops, answer):
            commit = step.headers.get("x-repo-commit", self._sha())
            if commit != self._sha():
                raise UnmetAssumption(f"a file of commit {commit[:12]}")

    def byte_range(self) -> None:
        name, file = self._small()
        span = ByteSpan(0, 1, file.size)
        answer, body = self._get(self._resolve(name), span=span, same_host=False)
        self._status(answer, 206)
        if len(body) != 1:
            raise UnmetAssumption(f"{len(body):,} bytes instead of one")

    def missing_file(self) -> None:
        answer, _ = self._get(self._resolve(NO_FILE), same_host=False)
        self._status(answer, 404, code="EntryNotFound")

    def large_file(self) -> None:
        self._sha()
        large = sorted(
            (file.size, name)
            for name, file in self._files.items()
            if (file.digest or "").startswith("sha256:") and file.size > PART
        )
        if not large:
            raise NothingToAsk("this model has no large file; --model names another one")
        size, name = large[-1]
        digest = str(self._files[name].digest).removeprefix("sha256:")
        span = ByteSpan(size - PART, size, size)
        answer, body = self._get(self._resolve(name), span=span, same_host=False)
        self._status(answer, 206)
        if len(body) != PART:
            raise UnmetAssumption(f"{len(body):,} bytes instead of {PART}")
        for hop in answer.hops:
            linked = hop.headers.get("x-linked-size", str(size))
            tag = hop.headers.get("x-linked-etag", digest).removeprefix("W/").strip('"')
            if (linked, tag) != (str(size), digest):
                raise UnmetAssumption(f"X-Linked-Size {linked[:20]}, X-Linked-ETag {tag[:20]}")
        self._of_commit(answer)

    def _list(self, question: HubQuery) -> list[Any]:
        rows = self._json(question.address("/api/models"))
        if not isinstance(rows, list):
            raise UnmetAssumption("no list")
        if not rows:
            raise NothingToAsk("no models were listed")
        return rows

    def list_of_models(self) -> None:
        rows = self._list(HubQuery(fields=("sha", "downloads", "siblings"), rows=2))
        if len(rows) > 2:
            raise UnmetAssumption(f"{len(rows)} rows instead of two")
        self._rows, self._listed = rows, self._api_answers[-1]
        for row in rows:
            fields = row if isinstance(row, dict) else {}
            sha = str(fields.get("sha"))
            if not isinstance(fields.get("id"), str) or not COMMIT.fullmatch(sha):
                raise UnmetAssumption("a row without id or sha")
            if not isinstance(fields.get("siblings"), list):
                raise UnmetAssumption("a row without its files (siblings)")

    def list_order(self) -> None:
        if len(self._rows) < 2:
            raise NothingToAsk("fewer than two models were listed")
        counts = [row.get("downloads") for row in self._rows]
        if not all(type(count) is int for count in counts) or counts[0] < counts[1]:
            raise UnmetAssumption(f"downloads {str(counts)[:60]}")

    def next_page(self) -> None:
        if len(self._rows) < 2 or self._listed is None:
            raise NothingToAsk("fewer than two models were listed")
        base = f"{self._web.endpoint}/api/models"
        following = listing.next_page(self._web, self._listed, base)
        if following is None:
            raise UnmetAssumption("no Link to a next page")
        if not following.startswith(f"{base}?"):
            raise UnmetAssumption(f"a Link that leads elsewhere: {following[:120]}")
        rows = self._json(following.removeprefix(self._web.endpoint))
        if not isinstance(rows, list):
            raise UnmetAssumption("a next page that is no list")
        known = {row["id"] for row in self._rows}
        if not rows or any(isinstance(row, dict) and row.get("id") in known for row in rows):
            raise UnmetAssumption("a next page that is empty, or the first one again")

    def list_fields(self) -> None:
        rows = self._list(HubQuery(fields=RICH, rows=1))
        if not isinstance(rows[0], dict) or "tags" not in rows[0]:
            raise UnmetAssumption("a row without the fields asked for")

    def list_size(self) -> None:
        rows = self._list(HubQuery(fields=("safetensors", "gguf"), largest=SIZE, rows=20))
        asked = HubQuery(largest=SIZE)
        beyond = [row for row in rows if isinstance(row, dict) and not asked.fits(row)]
        if beyond:
            raise UnmetAssumption(f"{beyond[0].get('id')!s:.80} with more parameters than asked")

    def rate_limits(self) -> None:
        if not self._api_answers:
            raise NothingToAsk("nothing was answered")
        answer = next(
            (one for one in self._api_answers if limits(one.headers)), self._api_answers[0]
        )
        if limits(answer.headers) is None:
            raise UnmetAssumption(f"RateLimit: {answer.headers.get('ratelimit', 'none')[:80]}")
        policy = answer.headers.get("ratelimit-policy", "")
        window = WINDOW.search(policy)
        if QUOTA.search(policy) is None or window is None or int(window[1]) > LONGEST_WINDOW:
            raise UnmetAssumption(f"RateLimit-Policy: {policy[:80] or 'none'}")


CHECKS: tuple[tuple[Assumption, Callable[[HubExamination], None]], ...] = (
    (
        Assumption(
            "model-info",
            "a model is described in JSON, with its name and its commit",
            "No model of the Hub can be read.",
        ),
        HubExamination.model_info,
    ),
    (
        Assumption(
            "files-with-digests",
            "its files come along with sizes and digests",
            "The tree of files is asked for as well; without digests equal files are read twice.",
            copes=True,
        ),
        HubExamination.files_with_digests,
    ),
    (
        Assumption(
            "commit-alone",
            "the commit can be asked for alone",
            "Whether a model has changed costs its whole list of files.",
            copes=True,
        ),
        HubExamination.commit_alone,
    ),
    (
        Assumption(
            "fixed-revision",
            "a commit that was asked for is the one that answers",
            "Models at a revision cannot be read.",
        ),
        HubExamination.fixed_revision,
    ),
    (
        Assumption(
            "unknown-revision",
            "an unknown revision is 404 RevisionNotFound",
            "A mistyped revision is called a missing repo.",
            copes=True,
        ),
        HubExamination.unknown_revision,
    ),
    (
        Assumption(
            "unknown-repo",
            "an unknown repo is 401 or 404, and no web page",
            "A mistyped name is not told from trouble with the network.",
        ),
        HubExamination.unknown_repo,
    ),
    (
        Assumption(
            "tree",
            "the tree lists the same files, sizes and digests",
            "Servers that give no digests with a model cannot be read.",
            copes=True,
        ),
        HubExamination.tree,
    ),
    (
        Assumption(
            "small-file",
            "a small file has the digest that was listed",
            "Configs and tokenizers cannot be read.",
        ),
        HubExamination.small_file,
    ),
    (
        Assumption(
            "byte-range",
            "one byte of a file can be asked for",
            "Files are read from their beginning.",
            copes=True,
        ),
        HubExamination.byte_range,
    ),
    (
        Assumption(
            "missing-file",
            "a missing file is 404 EntryNotFound",
            "A file that is gone is called a missing repo.",
            copes=True,
        ),
        HubExamination.missing_file,
    ),
    (
        Assumption(
            "large-file",
            "the end of a large file can be read, of the size and digest that were listed",
            "Headers of weights cannot be read.",
        ),
        HubExamination.large_file,
    ),
    (
        Assumption(
            "list-of-models",
            "models are listed, with the fields asked for",
            "recommend and scan find no drafts.",
        ),
        HubExamination.list_of_models,
    ),
    (
        Assumption(
            "list-order",
            "the list begins with what was downloaded most",
            "recommend and scan look at other models first.",
            copes=True,
        ),
        HubExamination.list_order,
    ),
    (
        Assumption(
            "next-page",
            "a list says where it goes on, and goes on there",
            "scan sees the first page of the list only.",
        ),
        HubExamination.next_page,
    ),
    (
        Assumption(
            "list-fields",
            "all fields that draftcheck asks for are known in lists",
            "The field is left out; each list costs more requests.",
            copes=True,
        ),
        HubExamination.list_fields,
    ),
    (
        Assumption(
            "list-size",
            "a list can be limited by the number of parameters",
            "Rows beyond the size are read and left out here.",
            copes=True,
        ),
        HubExamination.list_size,
    ),
    (
        Assumption(
            "rate-limits",
            "answers say how much may still be asked, in windows of five minutes",
            "Scans learn of the limit when they are told 429.",
            copes=True,
        ),
        HubExamination.rate_limits,
    ),
)


def examine(model: str | None = None) -> DoctorReport:
    """Ask the endpoint; nothing is kept."""
    named = model or MODEL
    if REPO.fullmatch(named) is None:
        raise UsageError(f"{named[:80]!r} is no name of a repo", hint="--model ORG/NAME")
    if settings.offline():
        raise OfflineError("doctor needs the network", hint="Unset HF_HUB_OFFLINE.")
    web = HubClient(settings.endpoint(), settings.token(), settings.timeout())
    exam = HubExamination(web, named)
    checks: list[AssumptionCheck] = []
    lost: ReadError | None = None
    for assumption, ask in CHECKS:
        if lost is not None:
            unasked = AssumptionState.UNKNOWN
            checks.append(AssumptionCheck(assumption, unasked, saw="not asked any more"))
            continue
        try:
            checks.append(_check(exam, assumption, ask))
        except (RetryableError, TokenRefused) as error:  # the others would fare no better
            lost = error
            checks.append(
                AssumptionCheck(assumption, AssumptionState.UNKNOWN, exam.asked, saw=error.message)
            )
    step = _next_step(web, named, checks, lost, exam)
    return DoctorReport(web.endpoint, named, web.has_token, exam.leads_to, tuple(checks), step)


def _check(
    exam: HubExamination, assumption: Assumption, ask: Callable[[HubExamination], None]
) -> AssumptionCheck:
    exam.asked, exam.status = "", None
    state, saw = AssumptionState.HOLDS, ""
    try:
        ask(exam)
    except NothingToAsk as error:
        state, saw = AssumptionState.UNKNOWN, str(error)
    except UnmetAssumption as error:
        state, saw = AssumptionState.FAILS, str(error)
    except (RetryableError, OfflineError, TokenRefused):
        raise
    except ReadError as error:
        state, saw = AssumptionState.FAILS, error.message
    if state is AssumptionState.FAILS and assumption.copes:
        state = AssumptionState.DIFFERS
    if assumption.name == "model-info" and exam.status in (401, 404):
        # A server of one's own may lack this model.
        state = AssumptionState.UNKNOWN
    return AssumptionCheck(assumption, state, exam.asked, exam.status, saw)


def _next_step(
    web: HubClient,
    model: str,
    checks: list[AssumptionCheck],
    lost: ReadError | None,
    exam: HubExamination,
) -> str:
    if lost is not None:
        return lost.hint or f"Try again; if {web.endpoint} is a mirror, unset HF_ENDPOINT."
    by_name = {check.assumption.name: check for check in checks}
    first = by_name["model-info"]
    if first.state is AssumptionState.UNKNOWN:
        return f"{model} is not to be seen here: draftcheck doctor --model ORG/NAME"
    if any(check.state is AssumptionState.FAILS for check in checks):
        mirror = web.endpoint != settings.ENDPOINT
        other = f" If HF_ENDPOINT={settings.ENDPOINT} does better, it is the mirror." * mirror
        return f"Report these lines as an issue of draftcheck.{other}"
    if exam.leads_to is not None:
        return f"HF_ENDPOINT={exam.leads_to} saves half of the requests, and gets the token."
    return "Nothing to do: what goes wrong elsewhere is not the Hub's way of answering."


def _kind(answer: HttpAnswer) -> str:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    return "a web page" if "html" in kind else (kind[:40] or "no type")
