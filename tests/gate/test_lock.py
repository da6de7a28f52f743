"""draftcheck.lock: the gate without models and network, and a lock that cannot be believed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftcheck.gate.lock import format as locks
from tests import make
from tests.conftest import ROOT, Run
from tests.gate.conftest import Repo
from tests.hub import Hub, models
from tests.hub.process import Draftcheck
from tests.test_house import HEAVY

BIG, SMALL = "models/big", "models/small"


def heart(report: dict[str, Any]) -> Any:
    """What must not depend on where the facts come from."""
    return [
        [s[k] for k in ("engine", "version", "method", "reaction", "verdict")]
        for s in report["setups"]
    ], [(f["rule"], f["line"], f["saw"]) for f in report["findings"]]


@pytest.fixture
def locked(good: Repo) -> Repo:
    """A good and a bad pair, locked; the models are gone."""
    good.model("models/other", tokenizer_json=make.tokenizer(added=("<x>", "<y>", "<z>", "<w>")))
    good.serve("bad.sh", BIG, "models/other")
    ran = good.lock()
    assert ran.code == 0, ran.err
    return good


def test_the_lock_stands_for_the_models(locked: Repo) -> None:
    whole = locked.json()
    shutil.rmtree(locked.path / "models")
    without = locked.json()
    assert heart(without) == heart(whole)
    assert without["lock"] == "draftcheck.lock"
    assert {setup["verdict"] for setup in without["setups"]} >= {"compatible"}


def test_a_target_named_as_its_own_draft_means_its_own_layers(repo: Repo) -> None:
    """With the models, and with the lock alone; as without a draft, but that one is named."""
    repo.model(BIG)
    repo.write("requirements.txt", "vllm==0.15.1\n")
    for name, more in (("once.sh", {}), ("twice.sh", {"model": BIG})):
        config = json.dumps({"method": "mtp", "num_speculative_tokens": 1, **more})
        repo.write(name, f"vllm serve {BIG} --speculative-config '{config}'\n")
    whole = repo.json()
    once, twice = whole["setups"]
    assert (once["draft"], twice["draft"]) == (None, BIG)
    for field in ("method", "reaction", "verdict"):
        assert twice[field] == once[field]
    assert once["verdict"] == "incompatible", "it has no such layers"
    saw = [
        {(f["rule"], f["saw"]) for f in whole["findings"] if f["file"] == name}
        for name in ("once.sh", "twice.sh")
    ]
    assert saw[0] and saw[0] == saw[1]
    assert repo.lock().code == 0
    shutil.rmtree(repo.path / "models")
    assert heart(repo.json()) == heart(whole)


def test_a_few_kilobytes_per_model_in_stable_order(locked: Repo) -> None:
    path = locked.path / "draftcheck.lock"
    text = path.read_text(encoding="ascii")
    assert len(text) < 3 * 8000
    assert list(locked.locked["models"]) == sorted(locked.locked["models"])
    again = locked.lock()
    assert "unchanged" in again.out
    assert path.read_text(encoding="ascii") == text
    locked.lock("--update")
    assert path.read_text(encoding="ascii") == text
    assert str(locked.path) not in text  # nothing of the machine that wrote it


def test_without_lock_and_models_what_is_missing_is_said(good: Repo) -> None:
    shutil.rmtree(good.path / "models")
    ran = good.gate("--format", "json")
    assert ran.code == 3
    assert ran.json["missing"] == [BIG, SMALL]
    assert {f["rule"] for f in ran.json["findings"] if f["severity"] != "note"} == {"GAT002"}
    assert "draftcheck lock" in good.gate().out


def test_unused_models_are_dropped_and_new_ones_added(locked: Repo) -> None:
    (locked.path / "bad.sh").unlink()
    locked.model("models/third")
    locked.serve("third.sh", BIG, "models/third")
    ran = locked.lock()
    assert "dropped models/other" in ran.out
    assert "added models/third" in ran.out
    assert set(locked.locked["models"]) == {BIG, SMALL, "models/third"}
    locked.lock("serve.sh")  # only some files: nothing is dropped
    assert set(locked.locked["models"]) == {BIG, SMALL, "models/third"}


def test_check_writes_nothing(good: Repo) -> None:
    assert good.lock("--check").code == 1
    assert not (good.path / "draftcheck.lock").exists()
    good.lock()
    assert good.lock("--check").code == 0


def test_nothing_to_lock_is_said(repo: Repo) -> None:
    ran = repo.lock()
    assert (ran.code, "nothing to lock" in ran.out) == (0, True)
    assert not (repo.path / "draftcheck.lock").exists()


def test_a_model_that_changed_on_disk_is_noticed(locked: Repo) -> None:
    config = {**make.CONFIG, "num_hidden_layers": 3}
    shutil.rmtree(locked.path / SMALL)
    locked.model(SMALL, config=config)
    ran = locked.gate("serve.sh", "--format", "json")
    assert ran.code == 3
    [finding] = [f for f in ran.json["findings"] if f["outcome"] == "unknown"]
    assert (finding["rule"], finding["file"], finding["line"]) == ("GAT003", "serve.sh", 3)
    assert SMALL in finding["saw"]
    ran = locked.lock()  # what does not hold any more is read again, asked for or not
    assert f"refreshed {SMALL}" in ran.out
    assert locked.gate("serve.sh").code == 0


def edit(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(lock: dict[str, Any]) -> None:
        at = lock
        for name in path[:-1]:
            at = at[name]
        assert at[path[-1]] != to
        at[path[-1]] = to

    return change


def swap(lock: dict[str, Any]) -> None:
    found = lock["models"]
    found[BIG], found[SMALL] = found[SMALL], found[BIG]


def borrow(lock: dict[str, Any]) -> None:
    """Notes of a good pair put under the name of a bad one."""
    found = lock["pairs"]
    found[f"{BIG} + models/other"] = found[f"{BIG} + {SMALL}"]


def without_digest(lock: dict[str, Any]) -> None:
    del lock["models"][SMALL]["digest"]


def without_model(lock: dict[str, Any]) -> None:
    del lock["models"][SMALL]


def other_notes(lock: dict[str, Any]) -> None:
    """A pair whose entry is sound, but was made for other contents."""
    key = f"{BIG} + models/other"
    entry = {**lock["pairs"][key], "of": ["sha256:0", "sha256:1"]}
    lock["pairs"][key] = locks.sign("pairs", key, locks.LockedPair(**entry)).body


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a fact": (edit("models", SMALL, "facts", "config", "vocab_size", to=1), "GAT004"),
    "the table": (edit("models", "models/other", "facts", "table", to={}), "GAT004"),
    "the revision": (edit("models", SMALL, "revision", to="f" * 40), "GAT004"),
    "the contents": (edit("models", SMALL, "content", to="sha256:0"), "GAT004"),
    "the digest": (edit("models", SMALL, "digest", to="sha256:" + "0" * 64), "GAT004"),
    "no digest": (without_digest, "GAT004"),
    "an entry that is no table": (edit("models", SMALL, to=1), "GAT004"),
    "two entries swapped": (swap, "GAT004"),
    "notes": (edit("pairs", f"{BIG} + models/other", "notes", to={"x": 1}), "GAT004"),
    "notes of another pair": (borrow, "GAT004"),
    "notes on other contents": (other_notes, "GAT003"),
    "a model less": (without_model, "GAT002"),
    "a newer format": (edit("draftcheck_lock", to=2), "GAT003"),
    "no format": (edit("draftcheck_lock", to="x"), "GAT004"),
    "another part": (edit("models", to=[]), "GAT004"),
    "a part less": (lambda lock: lock.pop("trials"), "GAT004"),
    "a part more": (lambda lock: lock.update(more={}), "GAT004"),
}


@pytest.mark.parametrize("name", list(TAMPERED))
def test_tampering_is_noticed(name: str, locked: Repo) -> None:
    shutil.rmtree(locked.path / "models")
    change, rule = TAMPERED[name]
    lock = locked.locked
    change(lock)
    locked.write("draftcheck.lock", json.dumps(lock, indent=2))
    ran = locked.gate("--format", "json")
    found = ran.json["findings"]
    assert rule in {f["rule"] for f in found}, found
    assert ran.code == 3, found


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda text: text[: len(text) // 2], "not JSON any more"),
        (lambda text: "<<<<<<< HEAD\n" + text + "=======\n" + text, "a merge left both sides"),
        (lambda text: text.replace('"kind"', '"kind": "x",\n"kind"', 1), "twice"),
        (lambda text: "[" * 100_000, "not a lock"),
        (lambda text: "", "not JSON any more"),
        (lambda text: "\x00\x01", "not JSON any more"),
    ],
)
def test_a_spoilt_lock_is_not_believed(
    spoil: Callable[[str], str], said: str, locked: Repo
) -> None:
    shutil.rmtree(locked.path / "models")
    text = (locked.path / "draftcheck.lock").read_text(encoding="ascii")
    locked.write("draftcheck.lock", spoil(text))
    ran = locked.gate("serve.sh", "--format", "json")
    assert ran.code == 3, ran.out
    assert any(f["file"] == "draftcheck.lock" and said in f["saw"] for f in ran.json["findings"])


def unknown_field(entry: dict[str, Any]) -> None:
    entry["more"] = 1


def wrong_type(entry: dict[str, Any]) -> None:
    entry["checks"] = "all"


def no_notes(entry: dict[str, Any]) -> None:
    del entry["notes"]


@pytest.mark.parametrize("spoil", [unknown_field, wrong_type, no_notes])
def test_an_entry_that_no_version_writes_is_named(
    spoil: Callable[[dict[str, Any]], None], locked: Repo
) -> None:
    """Its digest is right, so somebody made it on purpose: it is named with its key."""
    shutil.rmtree(locked.path / "models")
    lock, key = locked.locked, f"{BIG} + models/other"
    entry = lock["pairs"][key]
    spoil(entry)
    entry["digest"] = locks.digest("pairs", key, entry)
    locked.write("draftcheck.lock", json.dumps(lock, indent=2))
    ran = locked.gate("--format", "json")
    [flaw] = [f for f in ran.json["findings"] if f["file"] == "draftcheck.lock"]
    assert (flaw["rule"], ran.code) == ("GAT004", 3)
    assert f"pairs: the entry {key!r} is none that this version writes" in flaw["saw"]


def test_locks_of_earlier_versions_keep_working(repo: Repo) -> None:
    """format1.lock was written by 0.1.0; nothing else is here, not even the models."""
    text = (Path(__file__).parent / "format1.lock").read_text(encoding="ascii")
    lock = locks.parse(text.encode())
    assert (lock.flaws, locks.dumps(lock)) == ({}, text)
    repo.write("draftcheck.lock", text)
    repo.write(
        "draftcheck.toml",
        '[[pair]]\nname = "chat"\ntarget = "models/big"\ndraft = "models/small"\n'
        'engine = "vllm@0.15.1"\nmin_acceptance = 0.6\ntrial = "trial.json"\n',
    )
    ran = repo.gate("--format", "json")
    [setup] = ran.json["setups"]
    assert (ran.code, setup["verdict"]) == (0, "compatible"), ran.out
    assert (setup["trial"]["speedup"], setup["trial"]["lengths"][0]) == (1.9, [2, 0.8, 1.5])


def test_locking_again_mends_what_was_edited(locked: Repo) -> None:
    text = (locked.path / "draftcheck.lock").read_text(encoding="ascii")
    locked.write("draftcheck.lock", text.replace('"vocab_size": 260', '"vocab_size": 300'))
    ran = locked.lock()
    assert "does not match its digest" in ran.err
    assert (locked.path / "draftcheck.lock").read_text(encoding="ascii") == text


def test_models_of_the_hub(hub_repo: tuple[Path, Hub, Draftcheck]) -> None:
    path, hub, draftcheck = hub_repo
    ran = draftcheck("lock")
    assert ran.code == 0, ran.err
    entry = json.loads((path / "draftcheck.lock").read_bytes())["models"]["org/big"]
    assert entry["revision"] == hub.repos["org/big"].sha
    asked = hub.requests
    ran = draftcheck("gate", "--format", "json")
    assert (ran.code, hub.requests) == (0, asked), ran.out
    assert ran.json["setups"][0]["verdict"] == "compatible"
    # The branch moves on: the lock stays where it is until it is asked to follow.
    hub.repos["org/big"].commit({**models.small_checkpoint(), "more.txt": b"x"})
    draftcheck("lock")
    entry = json.loads((path / "draftcheck.lock").read_bytes())["models"]["org/big"]
    assert entry["revision"] != hub.repos["org/big"].sha
    ran = draftcheck("lock", "--update", "--model", "org/big")
    assert "refreshed org/big" in ran.out
    entry = json.loads((path / "draftcheck.lock").read_bytes())["models"]["org/big"]
    assert entry["revision"] == hub.repos["org/big"].sha


def test_another_revision_is_not_covered(hub_repo: tuple[Path, Hub, Draftcheck]) -> None:
    path, _, draftcheck = hub_repo
    draftcheck("lock")
    script = path / "serve.sh"
    script.write_text(
        script.read_text(encoding="utf-8").replace("serve org/big", "serve org/big --revision v2"),
        encoding="utf-8",
    )
    ran = draftcheck("gate", "--format", "json")
    assert ran.code == 3
    [finding] = [f for f in ran.json["findings"] if f["rule"] == "GAT002"]
    assert "org/big@v2 is not in draftcheck.lock, which has org/big" in finding["saw"]
    online = draftcheck("gate", "--online", "--format", "json")  # v2 does not exist there
    assert online.code == 3
    assert {f["rule"] for f in online.json["findings"]} >= {"GAT005"}


def test_a_tag_that_only_the_engine_tries_first(hub_repo: tuple[Path, Hub, Draftcheck]) -> None:
    """llama.cpp looks for Q4_K_M, and takes the file that is there when there is none."""
    path, hub, draftcheck = hub_repo
    hub.add_repo("org/gguf", {"big-Q8_0.gguf": models.small_gguf(4000)})
    hub.add_repo("org/tiny", {"small-Q8_0.gguf": models.small_gguf(4000)})
    words = "llama-server -hf org/gguf -hfd org/tiny{} --spec-type draft-simple\n"
    (path / "serve.sh").write_text(words.format(""), encoding="utf-8")
    assert draftcheck("lock").code == 0
    assert {s["verdict"] for s in draftcheck("gate", "--format", "json").json["setups"]} != {
        "undecided"
    }
    (path / "serve.sh").write_text(words.format(":Q4_K_M"), encoding="utf-8")
    (path / "draftcheck.lock").unlink()
    ran = draftcheck("lock")
    assert ran.code == 3 and "no GGUF with this tag" in ran.err


def test_online_reads_what_the_lock_lacks(hub_repo: tuple[Path, Hub, Draftcheck]) -> None:
    _, hub, draftcheck = hub_repo
    assert draftcheck("gate").code == 3
    assert hub.requests == 0
    assert draftcheck("gate", "--online").code == 0


def test_a_model_that_cannot_be_read_is_named(hub_repo: tuple[Path, Hub, Draftcheck]) -> None:
    path, hub, draftcheck = hub_repo
    del hub.repos["org/small"]
    ran = draftcheck("lock")
    assert ran.code == 3
    assert "org/small" in ran.err
    assert set(json.loads((path / "draftcheck.lock").read_bytes())["models"]) == {"org/big"}


@pytest.fixture
def hub_repo(tmp_path: Path, run: Run) -> Any:
    with Hub() as hub:
        hub.add_repo("org/big", models.small_checkpoint())
        hub.add_repo("org/small", models.small_checkpoint())
        home = tmp_path / "home"
        home.mkdir()
        Repo(home, run).serve("serve.sh", "org/big", "org/small")
        (home / "draftcheck.toml").write_text('[gate]\nexclude = ["cache/*"]\n')
        yield home, hub, Draftcheck(hub, home)


def test_the_gate_imports_nothing_heavy_and_opens_no_connection(locked: Repo) -> None:
    shutil.rmtree(locked.path / "models")
    code = (
        "import sys, json, socket; socket.socket.connect = None; from draftcheck.cli import main;"
        "main(['gate', '--quiet']); print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=locked.path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(json.loads(done.stdout.splitlines()[-1])) & set(HEAVY)


def test_models_that_could_not_be_read_are_named_once_each(repo: Repo) -> None:
    start = "llama-server --spec-type draft-simple -m /models/{}.gguf -md /models/{}.gguf\n"
    pairs = (("a", "b"), ("a", "c"), ("d", "c"))
    repo.write("serve.sh", "".join(start.format(*pair) for pair in pairs))
    ran = repo.lock("--offline")
    assert ran.code == 3
    assert "4 models could not be read" in ran.out
    lines = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 4 and all(line.count(".gguf") == 1 for line in lines)
    assert ran.err.count("[paths]") == 1
