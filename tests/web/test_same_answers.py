"""What the page says is what the command line says: its worker, under Node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from draftcheck.judge.tokenizers_agree import NOT_RUN
from tests import make
from tests.conftest import FIXTURES, Run
from tests.hostile import test_gguf as ggufs
from tests.hostile import test_json as jsons
from tests.hostile import test_safetensors as weights
from tests.hostile import test_tokenizer_files as tokenizers
from tests.hostile.support import some, write
from tests.hub import Hub, models
from tests.hub.process import Draftcheck
from tests.models.hub.test_kinds import KINDS
from tests.models.hub.test_recorded import RECORDED, SETUPS, add_world, filled
from tests.models.hub.test_same_verdict import BIG, WORDS, drafts
from tests.models.hub.test_weather import repos as weather_repos
from tests.web.conftest import CheckerSite, Dropped, NodeWorker

PAIR = FIXTURES / "pair"
FOLDERS = ("target", "draft", "heads/target-mtp")
HEADS = ("heads/dflash", "heads/eagle3", "heads/medusa")
NOT_HERE = "a browser cannot run the tokenizers library: draftcheck pair can"
LOG = "draft model vocab type must match target model to use speculation"


@pytest.mark.parametrize(
    "pair",
    [
        *((target, draft) for target in FOLDERS for draft in (*FOLDERS, *HEADS)),
        *((name,) for name in (*FOLDERS, *HEADS, "target.gguf")),
        ("target.gguf", "draft.gguf"), ("draft.gguf", "target.gguf"), ("target", "draft.gguf"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_pair_of_the_embedded_models(
    pair: tuple[str, ...], dropped: Dropped, checker: CheckerSite
) -> None:
    checker.hub.reset()
    found = dropped.assert_same(*(PAIR / name for name in pair), gpu="24GiB", context="256")
    assert found["first"].startswith(found["json"]["verdict"])
    assert not checker.hub.requests, "files of the user's are nobody else's business"


def test_of_files_only_slices_are_read(worker: NodeWorker, tmp_path: Path) -> None:
    big = tmp_path / "big.gguf"
    big.write_bytes((PAIR / "target.gguf").read_bytes())
    with big.open("r+b") as file:
        file.truncate(50_000_000_000)
    found = worker.ask(files={"target": [big]}, engine="llama.cpp")
    assert found["code"] in (0, 1) and found["sliced"] < 2_000_000
    assert worker.start == "again", "all this is asked of memory that was put back"


def without_tokenizers(hub: Hub, home: Path) -> Draftcheck:
    """A browser has no tokenizers library; a command line that has none knows as much."""
    made = Draftcheck(hub, home)
    made.first += (
        "import draftcheck.models.limited\n"
        "draftcheck.models.limited.run = lambda *words, **options: None\n"
    )
    return made


def as_in_a_page(text: str, home: Path) -> str:
    """The cache where a tokenizer came to lie is another one there, and so is the reason."""
    there = text.replace(f"{home}/cache/draftcheck", "/draftcheck/cache")
    return there.replace(NOT_RUN, NOT_HERE)


class BothAskers:
    """The same questions to the page's worker and to a command line, with the same Hub."""

    def __init__(self, hub: Hub, worker: NodeWorker, home: Path) -> None:
        self.hub, self.worker, self.home, self.read = hub, worker, home, 0
        self.command = without_tokenizers(hub, home)

    def ask(
        self, arrange: Callable[[Hub], object], target: str, draft: str = "", token: str = "",
        engine: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        """The page's answer; JSON, exit code and bytes are those of the command line."""
        words = [*(["--engine", engine] if engine else []), target, *([draft] if draft else [])]
        self.command.token = token or None
        with arranged(self.hub, arrange):
            wanted = self.command("pair", "--format", "json", *words)
            cost = spent(self.hub)
        with arranged(self.hub, arrange):
            found = self.worker.ask(target=target, draft=draft, engine=engine, token=token)
            assert spent(self.hub) == cost, f"{words}\n{self.hub.story()}"
        there = as_in_a_page(wanted.out, self.home)
        assert found["json"] == (json.loads(there) if there else None), (words, wanted.err)
        assert found["code"] == wanted.code, words
        if not there:
            says = wanted.err.splitlines()[0].removeprefix("error: ")
            assert says in found["first"], words
        self.read += cost
        return found


@contextmanager
def arranged(hub: Hub, arrange: Callable[[Hub], object]) -> Iterator[None]:
    """The Hub with its log empty and this weather, for a while."""
    before = dict(vars(hub))
    hub.reset()
    arrange(hub)
    yield
    vars(hub).update(before)
    hub.reset()


def fair(hub: Hub) -> None:
    """Nothing is the matter."""


def spent(hub: Hub) -> int:
    """Bytes of answers, less redirects' own lines, and answers to names that are being typed."""
    told = (entry for entry in hub.log if "search=" not in entry.query)
    return sum(entry.body for entry in told if entry.status < 300)


@pytest.fixture(scope="module")
def both(
    checker: CheckerSite, worker: NodeWorker, tmp_path_factory: pytest.TempPathFactory
) -> BothAskers:
    return BothAskers(checker.hub, worker, tmp_path_factory.mktemp("home"))


def test_every_kind_of_repo(both: BothAskers) -> None:
    hub = both.hub
    hub.add_repo("kind/big", models.checkpoint(BIG, words=WORDS, count=3))
    found = drafts()
    for number, files in enumerate(found.values()):
        hub.add_repo(f"kind/small-{number}", files)
    hub.add_repo("kind/head", models.head("kind/big", words=WORDS, own=2000))
    quants = {"big-Q8_0.gguf": models.small_gguf(4000), "small-Q4_0.gguf": models.small_gguf(3990)}
    hub.add_repo("kind/gguf", quants)
    hub.add_repo("kind/split", models.split_gguf("m-Q4_K", words=5000))
    hub.add_repo("kind/whole", {"m-Q4_K.gguf": models.gguf(words=5000)})
    hub.add_repo("kind/tiny", models.small_checkpoint())
    checkpoints = [f"kind/small-{number}" for number in range(len(found))]
    for draft in (*checkpoints, "kind/head", "kind/tiny", "kind/gguf:Q4_0", ""):
        both.ask(fair, "kind/big", draft)
    for target, draft in (
        ("kind/gguf:Q8_0", "kind/gguf:Q4_0"), ("kind/split", "kind/whole"), ("kind/whole", ""),
        ("kind/split", "kind/gguf:Q4_0"), ("kind/gguf", ""), ("kind/big@main", "kind/gguf/x.gguf"),
        ("kind/tiny", "kind/head"), ("kind/head", "kind/big"),
    ):  # fmt: skip
        both.ask(fair, target, draft)
    assert both.read > 500_000


@pytest.mark.parametrize("kind", KINDS)
def test_hubs_of_every_kind(kind: str, both: BothAskers) -> None:
    weather_repos(both.hub)
    both.ask(KINDS[kind], "org/big", "org/small", engine="vllm")
    if kind in some(list(KINDS), "GGUF"):
        both.ask(KINDS[kind], "org/gguf:Q4_K_M", "org/gguf:Q8_0", engine="llama.cpp")


def test_every_recorded_answer(both: BothAskers) -> None:
    add_world(both.hub)
    entries = [row for row in RECORDED if row.get("run", [""])[0] == "pair" and "at" not in row]
    assert len(entries) > 20
    for entry in entries:
        row = filled(entry, both.hub)
        _, target, draft, *engine = row["run"]
        found = both.ask(
            partial(arrange_all, row.get("setup", ())),
            target, draft, row.get("token", ""), "".join(engine[1:]),
        )  # fmt: skip
        assert found["code"] == row["exit"], row


def test_who_may_not_read_a_model_is_told_what_a_page_can_do(both: BothAskers) -> None:
    """On the command line the same hints name a command and a variable."""
    hub, field = both.hub, "the field Gated or private models"
    hub.add_repo("closed/model", models.small_checkpoint(num_hidden_layers=5), gated="manual")
    gated = both.ask(fair, "closed/model")["html"]
    assert f'<a href="{hub.url}/closed/model"' in gated and field in gated
    assert field in both.ask(fair, "closed/none")["html"]
    assert (
        "Correct the token, or empty it"
        in both.ask(fair, "closed/model", token="hf_unknown")["html"]
    )


def arrange_all(names: Sequence[str], hub: Hub) -> None:
    for name in names:
        SETUPS[name](hub)


def hostile(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files that lie, alone or in a sound checkpoint, and the engine to ask about."""
    bad = folder / "bad.gguf"
    for data, _ in ggufs.UNREADABLE.values():
        yield write(bad, data), "llama.cpp"
    for fault in some(list(ggufs.VOCABULARIES), "page"):
        keys = {f"tokenizer.ggml.{k}": value for k, value in ggufs.VOCABULARIES[fault].items()}
        yield make.gguf(bad, keys=keys), "llama.cpp"
    model = make.folder(folder / "model")
    sound = {path.name: path.read_bytes() for path in model.iterdir()}
    files: list[tuple[str, bytes]] = [
        (jsons.NAMES[number % len(jsons.NAMES)], data)
        for number, (data, _) in enumerate(jsons.BROKEN.values())
    ]
    some_weights = some(list(weights.FILES), "page")
    files += [("model.safetensors", weights.FILES[name][0]) for name in some_weights]
    for names in (tokenizers.SENTENCEPIECE_BROKEN, tokenizers.TIKTOKEN_BROKEN):
        files += [("tokenizer.model", data) for data, _ in names.values()]
    bodies = [json.dumps(body).encode() for body in tokenizers.TEKKEN_BROKEN]
    files += [("tekken.json", body) for body in some(bodies, "page")]
    for name, data in files:
        if name in ("tokenizer.model", "tekken.json"):
            (model / "tokenizer.json").unlink()
        write(model / name, data)
        yield model, "vllm"
        (model / name).unlink()
        for other, content in sound.items():
            write(model / other, content)


def test_hostile_files_end_the_same_way(dropped: Dropped, tmp_path: Path) -> None:
    asked = 0
    for model, engine in hostile(tmp_path):
        dropped.assert_same(model, engine=engine)
        asked += 1
    assert asked > 150


def test_the_other_questions(
    worker: NodeWorker, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.txt").write_text(LOG, encoding="utf-8")
    assert worker.ask("why", text=LOG)["json"] == run("why", "log.txt", "--format", "json").json
    script = 'vllm serve org/big --speculative-confg \'{"model": "org/small"}\'\n'
    (tmp_path / "start.sh").write_text(script, encoding="utf-8")
    found = worker.ask("gate", name="start.sh", text=script)
    wanted = run("gate", "start.sh", "--format", "json")
    assert found["json"] == wanted.json and found["code"] == wanted.code
    found = worker.ask("known", target="Qwen/Qwen3-8B")
    assert found["json"] == run("known", "Qwen/Qwen3-8B", "--format", "json").json
