"""doctor: what changes at a Hub is named, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from draftcheck.doctor.run import CHECKS, MISSING, MODEL, NO_FILE, NO_REVISION
from draftcheck.report import schema
from tests.hub import Hub, models
from tests.hub.process import Draftcheck, assert_calm, reason

pytest.importorskip("huggingface_hub")
SHAPE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
INFO = f"/api/models/{MODEL}"
HTML = {"Content-Type": "text/html"}
NAMES = [assumption.name for assumption, _ in CHECKS]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as made:
        small, large = ({"safetensors": {"total": count}} for count in (10**8, 10**10))
        made.add_repo(MODEL, models.checkpoint(SHAPE, words=300), downloads=9, extra=small)
        for number in range(4):
            made.add_repo(f"org/m{number}", {"config.json": b"{}"}, downloads=number, extra=large)
        yield made


@pytest.fixture
def draftcheck(hub: Hub, tmp_path: Path) -> Draftcheck:
    return Draftcheck(hub, tmp_path / "home").skip_waits()


def edited(path: str, change: Callable[[Any], Any]) -> Callable[[Hub], object]:
    """JSON answers at these addresses are changed."""

    def do(body: bytes) -> bytes:
        answer = json.loads(body)
        made = change(answer)
        return json.dumps(answer if made is None else made).encode()

    return lambda hub: hub.fault("edit", path=path, times=None, do=do)


def answered(path: str, code: int, **headers: str) -> Callable[[Hub], object]:
    return lambda hub: hub.fault("status", path=path, code=code, times=None, headers=headers)


def without(path: str, *names: str, **others: str) -> Callable[[Hub], object]:
    """Headers are gone, or others."""
    wanted = {**dict.fromkeys(names), **{n.replace("_", "-"): v for n, v in others.items()}}
    return lambda hub: hub.fault("headers", path=path, times=None, set=wanted)


def no_sizes(answer: dict[str, Any]) -> None:
    for row in answer.get("siblings", ()):
        row.pop("size", None)


def ascending(hub: Hub) -> None:
    for number, repo in enumerate(hub.repos.values()):
        repo.downloads = number
    edited("/api/models", lambda rows: rows[::-1])(hub)


def size_ignored(hub: Hub) -> None:
    """The list is filtered by what is said to be small, and says then how large it is."""
    hub.repos["org/m3"].extra["safetensors"] = {"total": 5}

    def grow(rows: Any) -> None:
        for row in rows:
            if row.get("safetensors") == {"total": 5}:
                row["safetensors"] = {"total": 10**12}

    edited("/api/models", grow)(hub)


CHANGES: dict[str, tuple[Callable[[Hub], object], int, set[str]]] = {
    "no commit in a model's description": (
        edited(INFO, lambda answer: answer.pop("sha") and None), 1, {"model-info"},
    ),
    "a web page for a description": (answered(INFO, 200, **HTML), 1, {"model-info"}),
    "files without sizes": (edited(INFO, no_sizes), 0, {"files-with-digests"}),
    "expand gives everything": (
        edited(INFO, lambda answer: {**answer, "more": "x" * 3000}), 0, {"commit-alone"},
    ),
    "another commit than asked for": (
        edited(f"{INFO}/revision/*", lambda answer: {**answer, "sha": "1" * 40}),
        1, {"fixed-revision"},
    ),
    "an unknown revision has no code": (
        answered(f"{INFO}/revision/{NO_REVISION}", 404), 0, {"unknown-revision"},
    ),
    "an unknown repo is there": (
        lambda hub: hub.add_repo(MISSING, {"x": b""}), 1, {"unknown-repo"},
    ),
    "an unknown repo is a web page": (
        answered(f"/api/models/{MISSING}", 404, **HTML), 1, {"unknown-repo"},
    ),
    "a tree without digests": (
        edited(f"{INFO}/tree/*", lambda rows: [row.pop("oid") and None for row in rows] and None),
        0, {"tree"},
    ),
    "a small file is another one": (
        lambda hub: hub.fault("corrupt", file=f"{MODEL}/config.json", times=None),
        1, {"small-file"},
    ),
    "a file of another commit": (
        without("*/resolve/*/config.json", X_Repo_Commit="2" * 40), 1, {"small-file"},
    ),
    "Range is ignored": (
        lambda hub: hub.fault("ignore_range", path="/api/resolve-cache/*", times=None),
        0, {"byte-range"},
    ),
    "a missing file is no error": (
        lambda hub: hub.fault("html", path=f"*/{NO_FILE}", times=None), 0, {"missing-file"},
    ),
    "the storage sends other bytes": (
        lambda hub: hub.fault("wrong_range", origin="cdn", times=None), 1, {"large-file"},
    ),
    "another size of a large file": (
        without("*/resolve/*/original/*", X_Linked_Size="5"), 1, {"large-file"},
    ),
    "rows without their commit": (
        edited("/api/models", lambda rows: [row.pop("sha", None) for row in rows] and None),
        1, {"list-of-models"},
    ),
    "the list is upside down": (ascending, 0, {"list-order"}),
    "no next page": (without("/api/models", "Link"), 1, {"next-page"}),
    "the next page is elsewhere": (
        without("/api/models", Link='<https://huggingface.co/api/datasets?c=1>; rel="next"'),
        1, {"next-page"},
    ),
    "a field is refused in lists": (
        lambda hub: hub.not_in_lists.add("baseModels"), 0, {"list-fields"},
    ),
    "the size is ignored": (size_ignored, 0, {"list-size"}),
    "no limits": (without("*", "RateLimit", "RateLimit-Policy"), 0, {"rate-limits"}),
    "windows of an hour": (
        without("*", RateLimit_Policy='"fixed window";"api";q=500;w=3600'), 0, {"rate-limits"},
    ),
}  # fmt: skip


def changed(report: dict[str, Any]) -> set[str]:
    return {check["name"] for check in report["checks"] if check["state"] in ("fails", "differs")}


def test_a_hub_as_recorded(hub: Hub, draftcheck: Draftcheck) -> None:
    ran = draftcheck("doctor")
    assert ran.code == 0 and not ran.err, ran.err
    first, *_, last = ran.out.splitlines()
    assert first == f"all {len(NAMES)} assumptions about {hub.url} hold"
    assert last.startswith("next  Nothing to do")
    assert len(NAMES) >= 12 and all(name in ran.out for name in NAMES)
    assert hub.requests <= 30 and hub.body_bytes < 20_000 and not hub.leaks
    assert not list(draftcheck.home.rglob("listings/*")), "nothing is kept"


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_named(change: str, hub: Hub, draftcheck: Draftcheck) -> None:
    make, code, names = CHANGES[change]
    make(hub)
    ran = draftcheck("doctor", "--format", "json")
    assert_calm(ran)
    jsonschema.validate(ran.json, schema.load("doctor"))
    assert changed(ran.json) == names, json.dumps(ran.json["checks"], indent=1)
    assert ran.code == code, ran.json["summary"]
    assert code != 1 or names <= set(ran.json["summary"].replace(",", "").split())
    assert ran.json["usable"] is {0: True, 1: False, 3: None}[code]


def test_a_report_to_paste(hub: Hub, draftcheck: Draftcheck) -> None:
    CHANGES["rows without their commit"][0](hub)
    ran = draftcheck("doctor", HF_TOKEN="hf_secret")
    assert "hf_secret" not in ran.out + ran.err
    ran = draftcheck("doctor")
    lines = ran.out.splitlines()
    assert lines[0].endswith("does not hold: list-of-models") and ran.code == 1
    assert any("saw" in line and "a row without id or sha" in line for line in lines)
    assert any("then" in line and "recommend and scan" in line for line in lines)
    assert lines[-1].startswith("next  Report these lines")


def test_through_a_mirror(hub: Hub, draftcheck: Draftcheck) -> None:
    hub.add_token("hf_good")
    ran = draftcheck("doctor", HF_ENDPOINT=hub.mirror_url, HF_TOKEN="hf_good")
    assert ran.code == 0, ran.out
    assert f"which leads to {hub.url}, with a token" in ran.out
    assert f"next  HF_ENDPOINT={hub.url}" in ran.out
    assert not [entry for entry in hub.log if entry.had_token and entry.origin != "mirror"]


def test_a_server_without_the_model(hub: Hub, draftcheck: Draftcheck) -> None:
    del hub.repos[MODEL]
    ran = draftcheck("doctor")
    assert ran.code == 3 and ran.out.startswith("cannot tell: ")
    assert "draftcheck doctor --model ORG/NAME" in ran.out.splitlines()[-1]
    assert draftcheck("doctor", "--model", "org/m1").code == 3, "it has no large file"
    for name in ("org", "../..", "a/b/c"):
        ran = draftcheck("doctor", "--model", name)
        assert ran.code == 2 and "no name of a repo" in ran.err


def test_a_token_that_is_not_valid(hub: Hub, draftcheck: Draftcheck) -> None:
    ran = draftcheck("doctor", HF_TOKEN="hf_wrong")
    assert ran.code == 3 and ran.out.splitlines()[-1].startswith("next  Log in again")


HOSTILE: dict[str, Callable[[Hub], object]] = {
    "endless": lambda hub: hub.fault("endless", path="/api/*", piece=b" " * 65536, times=None),
    "bomb": lambda hub: hub.fault("gzip", path="/api/*", bomb=1 << 30, times=None),
    "loop": lambda hub: hub.fault("loop", times=None),
    "pages": lambda hub: hub.fault("html", times=None),
    "not JSON": lambda hub: hub.fault("cut_json", path="/api/*", times=None),
    "deep": lambda hub: hub.fault("replace", path="/api/*", body=b"[" * 100_000, times=None),
    "another type": edited("/api/*", lambda answer: 7),
    "odd rows": edited("/api/*", lambda answer: [7, None, {"id": 5, "sha": []}]),
    "inside": lambda hub: hub.fault("redirect", to="http://169.254.169.254/x", times=None),
    "to a file": lambda hub: hub.fault("redirect", to="file:///etc/passwd", times=None),
    "escapes": answered("*", 418, **{"X-Error-Message": "\x9b2J \x1b]0;x\x07"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_endpoint(name: str, hub: Hub, draftcheck: Draftcheck) -> None:
    HOSTILE[name](hub)
    ran = draftcheck("doctor")
    assert_calm(ran)
    assert ran.code == 1 and "do not hold: model-info" in ran.out.splitlines()[0], ran.out
    assert "\x9b" not in ran.out and "elsewhere" not in {entry.origin for entry in hub.log}


def test_nobody_answers(hub: Hub, draftcheck: Draftcheck) -> None:
    hub.fault("status", code=503, times=None, headers=HTML)
    ran = draftcheck("doctor")
    assert ran.code == 3 and "could not be asked" in ran.out and hub.requests <= 6
    ran = draftcheck("doctor", HF_ENDPOINT="http://127.0.0.1:9")
    assert ran.code == 3 and "cannot reach" in " ".join(ran.out.split()), ran.out
    assert "network" in reason(draftcheck("doctor", HF_HUB_OFFLINE="1"))
