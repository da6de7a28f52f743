"""Repos that may not be read: each its own words, its own way out, exit 3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.hub import Hub, models
from tests.hub.process import Draftcheck, assert_calm, assert_discreet, reason

pytest.importorskip("huggingface_hub")
TOKEN = "hf_" + "T0kenOfTheTests" * 2


@pytest.fixture
def files(hub: Hub) -> Mapping[str, object]:
    """A sound model, and the same as a public repo to pair with."""
    found = models.small_checkpoint()
    hub.add_repo("org/open", found)
    return found


def hint(err: str) -> str:
    return " ".join(line for line in err.splitlines() if line.startswith("hint: "))


def assert_silent_about(token: str, *texts: str) -> None:
    assert not any(token in text for text in texts)


def test_gated_without_a_token(hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck) -> None:
    hub.add_repo("org/gated", {**files, "tokenizer.json": b"{}"}, gated="manual")
    ran = draftcheck("pair", "org/gated", "org/open", "--engine", "vllm")
    text = ran.out + ran.err
    assert_calm(ran)
    assert ran.code == 3 and "gated" in text and "org/gated" in text
    assert f"{hub.url}/org/gated" in text and "HF_TOKEN" in text, text


def test_gated_with_a_token_that_is_not_on_the_list(
    hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck
) -> None:
    hub.add_token(TOKEN)
    hub.add_repo("org/gated", {**files, "tokenizer.json": b"{}"}, gated="manual")
    draftcheck.token = TOKEN
    ran = draftcheck("pair", "org/gated", "org/open", "--engine", "vllm")
    text = ran.out + ran.err
    assert_calm(ran)
    assert ran.code == 3 and "gated" in text and f"{hub.url}/org/gated" in text, text
    assert "HF_TOKEN" not in text, "somebody with a token needs access, not a token"
    assert_silent_about(TOKEN, ran.out, ran.err)
    assert_discreet(hub, "org/gated", "org/open")


def test_gated_and_opened_by_the_token(
    hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck
) -> None:
    hub.add_token(TOKEN, repos={"org/gated"})
    hub.add_repo("org/gated", files, gated="auto")
    draftcheck.token = TOKEN
    ran = draftcheck("pair", "org/gated", "org/open", "--format", "json")
    assert_calm(ran)
    assert ran.code == 0 and ran.json["verdict"] == "compatible"
    assert_silent_about(TOKEN, ran.out, ran.err)
    assert_discreet(hub, "org/gated", "org/open")
    assert any(entry.origin == "cdn" for entry in hub.log)
    assert ran.json["target"]["facts"]["gated"] is True
    assert "gated" not in ran.json["draft"]["facts"]
    warm = draftcheck("pair", "org/gated", "org/open", "--offline")
    [line] = [line for line in warm.out.splitlines() if line.startswith("  target ")]
    assert line.endswith(", gated: whoever serves it needs access")
    best = draftcheck("recommend", "org/open", "--candidate", "org/gated", "--format", "json")
    told = best.json["candidates"] + best.json["rejected"]
    assert told and all("gated" in str(row) for row in told), best.out
    store = ("--store", draftcheck.home / "s.db", "--quiet")
    night = draftcheck("scan", "--pin", "org/open", "org/gated", *store)
    assert "pinned org/open + org/gated (gated): " in night.out, night.out + night.err
    again = draftcheck("scan", "--pin", "org/open", "org/gated", *store, "--format", "json")
    assert again.json["pins"][0]["gated"] is True and again.json["targets"][0]["gated"] is False


def test_a_gated_target_is_compared_as_far_as_its_listing_goes(
    hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck
) -> None:
    """Its tokenizer is the draft's own, byte by byte: the digests say so."""
    hub.add_repo("org/gated", files, gated="manual")
    ran = draftcheck("pair", "org/gated", "org/open", "--format", "json")
    assert_calm(ran)
    assert ran.code == 3 and "gated" in ran.err, ran.err
    assert ran.json["vocabulary"]["relation"] in ("identical", "padded", "unknown")
    assert ran.json["vocabulary"]["differing_ids"] == 0, ran.json["vocabulary"]
    refused = [entry for entry in hub.log if entry.status == 401]
    assert refused and all(e.file and e.file.startswith("org/gated/") for e in refused)


def test_missing_or_private(hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck) -> None:
    hub.add_repo("org/private", files, private=True)
    for name in ("org/private", "org/nothing"):
        for codes in (True, False):
            hub.error_codes = codes
            ran = draftcheck("pair", name, "org/open")
            assert name in reason(ran) and "private" in reason(ran)
            assert "HF_TOKEN" in hint(ran.err)
    hub.add_token(TOKEN)
    ran = draftcheck("pair", "org/nothing", "org/open", HF_TOKEN=TOKEN)
    assert "org/nothing" in reason(ran)
    hub.add_token(TOKEN, repos={"org/private"})
    ran = draftcheck("pair", "org/private", "org/open", HF_TOKEN=TOKEN)
    assert ran.code == 0, ran.err
    assert_discreet(hub, "org/private", "org/open")


def test_a_token_that_is_not_valid(
    hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck
) -> None:
    ran = draftcheck("pair", "org/open", "org/open", HF_TOKEN=TOKEN)
    assert "token" in reason(ran) and "HF_TOKEN" in hint(ran.err)
    assert_silent_about(TOKEN, ran.out, ran.err)
    assert len(hub.log) <= 2, hub.story()


def test_disabled(hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck) -> None:
    hub.add_repo("org/off", files, disabled=True)
    ran = draftcheck("pair", "org/open", "org/off")
    assert "disabled" in reason(ran) and "org/off" in reason(ran)


def test_renamed(hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck) -> None:
    hub.add_repo("old-org/old-name", files)
    hub.rename("old-org/old-name", "new-org/new-name")
    ran = draftcheck("pair", "old-org/old-name", "org/open", "--format", "json")
    assert_calm(ran)
    assert ran.code == 0 and "new-org/new-name" in ran.out + ran.err
    assert ran.json["target"]["ref"] == "old-org/old-name"
    assert_discreet(hub, "old-org/old-name", "new-org/new-name", "org/open")


def test_no_such_revision(hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck) -> None:
    for revision in ("nope", "0" * 40, "refs/pr/7"):
        ran = draftcheck("pair", f"org/open@{revision}", "org/open")
        assert revision[:12] in reason(ran), ran.err


def test_no_such_file_or_tag(hub: Hub, draftcheck: Draftcheck) -> None:
    hub.add_repo("org/gguf", {"m-Q4_K_M.gguf": models.small_gguf(), "m-Q8_0.gguf": b"GGUF"})
    for reference in ("org/gguf/none.gguf", "org/gguf:Q2_K", "org/gguf"):
        ran = draftcheck("pair", reference, "org/gguf:Q4_K_M")
        assert_calm(ran)
        assert ran.code in (2, 3), ran.err
        assert "Q4_K_M" in ran.err and "Q8_0" in ran.err, "the choices are listed"
    assert not [entry for entry in hub.log if entry.origin == "cdn"]


def test_a_revision_is_resolved_once(
    hub: Hub, files: dict[str, bytes], draftcheck: Draftcheck
) -> None:
    repo = hub.repos["org/open"]
    branch = repo.commit({**files, "config.json": b"not even JSON"}, branch="broken")
    ran = draftcheck("pair", "org/open", "org/open", "--format", "json")
    assert ran.code == 0 and ran.json["target"]["revision"] == repo.sha
    ran = draftcheck("pair", "org/open@broken", "org/open")
    assert "config.json" in reason(ran)
    addresses = [entry.path for entry in hub.log if "/resolve" in entry.path]
    assert addresses and all(repo.sha in path or branch in path for path in addresses)


def test_another_endpoint_under_a_path(hub: Hub, tmp_path: Path) -> None:
    """HF_ENDPOINT with a slash at its end is the same endpoint."""
    hub.add_repo("org/open", models.small_checkpoint())
    ran = Draftcheck(hub, tmp_path)("pair", "org/open", "org/open", HF_ENDPOINT=hub.url + "/")
    assert ran.code == 0, ran.err
    assert "//" not in "".join(entry.path for entry in hub.log)


@pytest.mark.parametrize("endpoint", ["nonsense", "ftp://x/y", "http://", "http://[::1"])
def test_an_endpoint_that_is_none(endpoint: str, hub: Hub, draftcheck: Draftcheck) -> None:
    ran = draftcheck("pair", "org/a", "org/b", HF_ENDPOINT=endpoint)
    assert_calm(ran)
    assert ran.code in (2, 3) and "HF_ENDPOINT" in ran.err
