"""Candidates from a Hub: by card, name, author, family and tags; rows of the list, no files.

What a card says is a reason to look at a model, never a proof: the base model of a draft is
mostly its donor, and anybody can write any tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from draftcheck.errors import DraftcheckError, ReadError
from draftcheck.models import bases, names
from draftcheck.models.sources.hub.listing import COMMIT, HubQuery
from draftcheck.models.sources.hub.repos import Hub
from draftcheck.models.sources.hub.transport import OfflineError, RetryableError
from draftcheck.recommend.candidates import Candidate, Rejection
from draftcheck.values.facts import ModelFacts
from draftcheck.values.words import Verdict

REPO = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
LIGHT = (
    "sha", "gated", "disabled", "tags", "safetensors", "baseModels", "siblings", "downloads",
    "likes", "pipeline_tag",
)  # fmt: skip
"""Fields that cost little in a list of a thousand; config and gguf bring chat templates along."""
RICH = (*LIGHT, "config", "gguf")
NEAR, FAR = 100, 500
"""Rows of a question about the target, and of one about its family."""
FEW = 40
"""When fewer were found, the Hub is small or the target unknown: then everything is looked at."""
HEAD_TAGS = ("speculators", "speculative-decoding", "eagle3")
PACKED = {"awq", "gptq", "fp8", "4-bit", "8-bit", "compressed-tensors", "bitsandbytes", "nvfp4"}
"""Tags of quantised models."""
WHOLE = {"F32", "F16", "BF16", "F64", "BOOL", "I64"}
MOST_FILES = 2000
LONGEST = 200


@dataclass(frozen=True, slots=True)
class DraftSearch:
    """What to search by: all of it known from the target's facts, or said by the user."""

    repo: str | None = None
    names: tuple[str, ...] = ()
    """Short names of the target."""
    family: str = ""
    author: str = ""
    model_type: str | None = None
    parameters: int | None = None
    gguf: bool = False
    tags: tuple[str, ...] = ()
    largest: int | None = None
    """Parameters that a draft may have at most."""


def wanted(
    target: ModelFacts, *, tags: tuple[str, ...] = (), largest: int | None = None
) -> DraftSearch:
    """Read from the facts of a target where its drafts may be."""
    parts = target.called.partition("@")[0].partition(":")[0].split("/")
    # A checkpoint of the Hub, or a file of a repo.
    repo = "/".join(parts[:2]) if target.kind == "hub" and len(parts) >= 2 else None
    inside = _named_inside(target)
    called = [*inside, *([repo] if repo else [])]
    if not repo and target.kind != "ollama":  # its file has no name of its own
        called.append(target.called)
    shorts = dict.fromkeys(names.short(name) for name in called)
    owner = next((name for name in called if REPO.fullmatch(name)), "")
    return DraftSearch(
        repo=repo,
        names=tuple(name for name in shorts if len(name) >= names.SHORTEST),
        family=names.family(called[0]) if called else "",
        author=owner.partition("/")[0] if inside or repo else "",
        model_type=target.config.outer_type or target.config.model_type,
        parameters=target.weights.parameters,
        gguf=target.gguf is not None,
        tags=tags,
        largest=largest,
    )


def search(
    hub: Hub, wanted: DraftSearch, failures: list[ReadError] | None = None
) -> Iterator[Candidate | Rejection]:
    """Ask for every listed model that may be of use, once each, the nearest questions first.

    failures: questions that were not answered; an error when there was no answer at all.
    """
    seen: set[str] = set()
    failed: list[ReadError] = [] if failures is None else failures
    everything = HubQuery(fields=LIGHT, rows=1000)
    for question in (*questions(wanted), everything):
        if question is everything and len(seen) >= FEW:
            break
        try:
            for row in map(candidate, hub.search(question)):
                name = row.ref if isinstance(row, Candidate) else row.draft
                if name not in seen:
                    seen.add(name)
                    yield row
        except OfflineError:
            raise
        except ReadError as error:
            failed.append(error)
            if isinstance(error, RetryableError):  # the network: other questions would fail too
                break
    if failed and not seen:
        raise ReadError(
            f"the Hub could not be searched: {failed[0].message}",
            hint="--candidate names drafts to look at; --local looks at the models on this disk.",
        )


def questions(wanted: DraftSearch) -> list[HubQuery]:
    """Say what is asked of the list, in this order."""
    form = ("gguf",) if wanted.gguf else ()
    near = HubQuery(fields=RICH, rows=NEAR)
    far = HubQuery(fields=LIGHT, rows=FAR)
    queries = [replace(near, filters=(f"base_model:{wanted.repo}",))] if wanted.repo else []
    queries += [replace(near, search=name) for name in wanted.names]
    if wanted.author:
        queries.append(replace(far, author=wanted.author, filters=form))
    if wanted.family and wanted.family not in wanted.names:
        queries.append(replace(far, search=wanted.family, filters=form))
    if wanted.model_type:
        most = wanted.largest or (wanted.parameters or 0) // 2
        queries.append(replace(far, filters=(wanted.model_type, *form), largest=most or None))
    heads = HEAD_TAGS if wanted.family else ()
    queries += [replace(far, filters=(tag,), search=wanted.family) for tag in heads]
    queries += [replace(far, filters=(tag,)) for tag in wanted.tags]
    return queries


def candidate(row: Mapping[str, Any]) -> Candidate | Rejection:
    """Read one row of the list; a name that no repo can have is turned away here."""
    name = str(row.get("id") or row.get("modelId"))
    if REPO.fullmatch(name) is None or ".." in name or "--" in name:
        return Rejection(name[:LONGEST], "listing", "not a name that a repo can have")
    config, tensors, gguf = (_object(row.get(key)) for key in ("config", "safetensors", "gguf"))
    sha = row.get("sha")
    tags = _texts(row.get("tags"))
    total = tensors.get("total", gguf.get("total"))
    odd_types = _object(tensors.get("parameters")).keys() - WHOLE
    packed = _object(config.get("quantization_config")) or PACKED & {tag.lower() for tag in tags}
    return Candidate(
        ref=name,
        revision=sha if isinstance(sha, str) and COMMIT.fullmatch(sha) else None,
        parameters=total if type(total) is int and 0 < total < 1 << 60 else None,
        files=_files(row.get("siblings")),
        model_type=_text(config.get("model_type")) or _text(gguf.get("architecture")),
        architectures=_texts(config.get("architectures")),
        packed=bool(packed or odd_types),
        tags=tags,
        base_models=_bases(row, tags),
        task=_text(row.get("pipeline_tag")),
        downloads=_count(row.get("downloads")),
        likes=_count(row.get("likes")),
        gated=row.get("gated") not in (None, False),
        disabled=row.get("disabled") is True,
    )


def unread(row: Candidate, error: DraftcheckError) -> Rejection:
    """Reject a model that vanished, is closed, or does not make sense."""
    return row.reject("read", error.message, Verdict.UNDECIDED)


def _named_inside(target: ModelFacts) -> list[str]:
    """What a model says it is packed from; what a GGUF was converted from, or is called."""
    inside = list(bases.packed(target.bases))
    keys = target.gguf.keys if target.gguf is not None else {}
    source = "/".join(bases.text(keys, "general.source.repo_url").rstrip("/").split("/")[-2:])
    inside += [source] if REPO.fullmatch(source) else []
    *called, tuning = (
        bases.text(keys, f"general.{key}") for key in ("basename", "size_label", "finetune")
    )
    if all(called):
        inside.append("-".join(filter(None, (*called, tuning)))[:LONGEST])
    return inside


def _bases(row: Mapping[str, Any], tags: tuple[str, ...]) -> tuple[str, ...]:
    rows = _object(row.get("baseModels")).get("models")
    rows = rows[:50] if isinstance(rows, list) else []
    found = [entry.get("id") for entry in rows if isinstance(entry, dict)]
    found += [tag.rpartition(":")[2] for tag in tags if tag.startswith("base_model:")]
    return tuple(dict.fromkeys(n for n in found if isinstance(n, str) and REPO.fullmatch(n)))


def _files(rows: Any) -> tuple[str, ...] | None:
    if not isinstance(rows, list):
        return None
    entries = (row.get("rfilename") for row in rows[:MOST_FILES] if isinstance(row, dict))
    return tuple(name for name in entries if isinstance(name, str))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value[:LONGEST] if isinstance(value, str) and value else None


def _texts(value: Any) -> tuple[str, ...]:
    rows = value if isinstance(value, list) else []
    return tuple(text[:LONGEST] for text in rows[:500] if isinstance(text, str))


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 60 else 0
