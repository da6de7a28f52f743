"""Hubs of other kinds: mirrors, old servers, new headers. The same verdict from all of them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.hub import Hub
from tests.hub.process import Draftcheck, assert_calm, assert_discreet, verdict
from tests.models.hub.test_weather import GGUFS, PAIR, repos

pytest.importorskip("huggingface_hub")


def without(*names: str) -> Callable[[Hub], None]:
    def change(hub: Hub) -> None:
        hub.fault("headers", times=None, set=dict.fromkeys(names))

    return change


def no_sizes(hub: Hub) -> None:
    """blobs=true means nothing to it; the tree says sizes and digests."""

    def edit(body: bytes) -> bytes:
        answer = json.loads(body)
        if isinstance(answer, dict) and "siblings" in answer:
            answer["siblings"] = [{"rfilename": row["rfilename"]} for row in answer["siblings"]]
        return json.dumps(answer).encode()

    hub.fault("edit", path="/api/models/*", times=None, do=edit)


def no_digests(hub: Hub) -> None:
    """Sizes, but neither oids nor LFS entries."""

    def edit(body: bytes) -> bytes:
        answer = json.loads(body)
        for row in answer.get("siblings", []) if isinstance(answer, dict) else []:
            row.pop("lfs", None)
            row.pop("blobId", None)
        return json.dumps(answer).encode()

    hub.fault("edit", path="/api/models/*", times=None, do=edit)


def setting(name: str, value: object) -> Callable[[Hub], None]:
    return lambda hub: setattr(hub, name, value)


KINDS: dict[str, Callable[[Hub], None]] = {
    "small files direct": setting("small_files", "direct"),
    "large files direct": setting("lfs_files", "direct"),
    "Xet": setting("xet", True),
    "no expand": setting("expands", False),
    "no sizes": no_sizes,
    "tree in small pages": lambda hub: (setattr(hub, "tree_page", 2), no_sizes(hub))[1],
    "no digests": no_digests,
    "no commit header": without("X-Repo-Commit"),
    "no linked headers": without("X-Linked-ETag", "X-Linked-Size"),
    "no tags and limits": without("ETag", "RateLimit", "RateLimit-Policy", "Accept-Ranges"),
    "no types": without("Content-Type"),
    "gone in a minute": setting("link_seconds", 60),
}


@pytest.mark.parametrize("command", [PAIR, GGUFS], ids=["checkpoints", "GGUF"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_verdict(
    kind: str, command: tuple[str, ...], hub: Hub, draftcheck: Draftcheck
) -> None:
    repos(hub)
    KINDS[kind](hub)
    ran = draftcheck(*command)
    assert_calm(ran)
    assert ran.code == 0, ran.err + hub.story()
    assert ran.json["verdict"] in ("compatible", "degraded")
    assert hub.bytes < 1_000_000, hub.story()
    assert_discreet(hub, "org/big", "org/small", "org/gguf")
    assert not [entry for entry in hub.log if "xet" in entry.path]
    hub.log_book.clear()
    again = draftcheck(*command)
    assert verdict(again) == verdict(ran)
    assert hub.requests <= 4 or kind == "no digests", hub.story()


def test_letters_of_a_name(hub: Hub, draftcheck: Draftcheck) -> None:
    """The Hub leads Org/BIG to org/big."""
    repos(hub)
    ran = draftcheck("pair", "Org/BIG", "org/small", *PAIR[3:])
    assert_calm(ran)
    assert ran.code == 0, ran.err
