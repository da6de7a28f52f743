"""Numbers, files and servers that mean no good: one line each, and no work without end."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from draftcheck.errors import ReadError, UsageError
from draftcheck.trial import result
from draftcheck.trial.api import trial
from tests.conftest import FIXTURES, Run
from tests.probe.server import Fake, answer

pytest.importorskip("numpy", reason="the trial extra is not installed")

from draftcheck.trial.simulate import trees

TARGET, DRAFT = FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft"
DATA = Path(__file__).parent / "data"
TEXTS = json.loads((DATA / "texts.json").read_text(encoding="utf-8"))
CIRCUMSTANCES = ("--tokens", "12", "--temperature", "0.7", "--greedy-share", "0.5")
NO_NUMBERS = ("nan", "inf", "-inf", "-1", "1e400", "9" * 400)


# ---- numbers of the command line ----


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("option", ["--temperature", "--precision", "--budget", "--tokens"])
def test_an_option_that_is_no_number_is_refused(run: Run, option: str, value: str) -> None:
    ran = run("trial", TARGET, DRAFT, option, value)
    assert ran.code == 2, ran.err
    assert ran.err.splitlines()[-1].startswith(f"error: Invalid value for '{option}': ")


@pytest.mark.parametrize("seed", ["-1", str(1 << 31), "9" * 400, "nan"])
def test_a_seed_that_no_engine_takes_is_refused(run: Run, seed: str) -> None:
    assert run("trial", TARGET, DRAFT, "--seed", seed).code == 2


@pytest.mark.parametrize(
    "wishes",
    [
        *({name: value} for name in ("temperature", "budget", "precision", "greedy_share")
          for value in (math.nan, math.inf, -1.0)),
        {"tokens": 1 << 40}, {"tokens": 1}, {"seed": -1}, {"seed": 10**400},
    ],
)  # fmt: skip
def test_the_function_refuses_them_too(wishes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        trial(str(TARGET), str(DRAFT), **wishes)


@pytest.mark.parametrize("number", ["9" * 5000, "99999", "\u0663", "-1"])
def test_numbers_of_devices_and_threads_are_bounded(
    monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    from draftcheck.trial.backends.backend import TrialOptions
    from draftcheck.trial.backends.llamacpp import backend, library

    with pytest.raises(UsageError, match=r"llama\.cpp takes cpu, mps, cuda or cuda:N"):
        backend.check(TrialOptions(device=f"cuda:{number}"))
    monkeypatch.setenv("LLAMA_ARG_THREADS", number)
    assert 0 < library._threads() < 10_000


# ---- files ----


def test_a_tree_of_endless_paths_is_refused_at_once(tmp_path: Path) -> None:
    """The beginnings of a path are as many as it is long: half a million would fill the memory."""
    file = tmp_path / "tree.json"
    file.write_text(json.dumps([[0] * 300_000]), encoding="utf-8")
    with pytest.raises(ReadError, match="more than 24 levels"):
        trees.load(file)
    file.write_text(json.dumps([[10**300]]), encoding="utf-8")
    with pytest.raises(ReadError, match="a rank must be from 0 to 63"):
        trees.load(file)
    file.write_text(json.dumps([[i // 64, i % 64] for i in range(4096)]), encoding="utf-8")
    with pytest.raises(ReadError, match="4,160 nodes"):
        trees.load(file)


def test_a_category_without_end_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps({"prompt": "x", "category": "c" * 5000}), encoding="utf-8")
    ran = run("trial", TARGET, DRAFT, "--prompts", file)
    assert (ran.code, len(ran.err.splitlines())) == (3, 1), ran.err
    assert "prompts.jsonl:1: a category of more than 4,096 characters" in ran.err


@pytest.mark.parametrize("row", ['{"prompt": "\\ud800"}', '{"prompt": "x", "category": "\\ud800"}'])
def test_half_a_character_is_refused(run: Run, tmp_path: Path, row: str) -> None:
    """JSON can write what no encoding can: it would end the program when it is printed."""
    file = tmp_path / "prompts.jsonl"
    file.write_text(row, encoding="utf-8")
    ran = run("trial", TARGET, DRAFT, "--prompts", file)
    assert (ran.code, len(ran.err.splitlines())) == (3, 1), ran.err
    assert "prompts.jsonl:1: not JSON: " in ran.err
    body = {**json.loads((DATA / "trial.json").read_text(encoding="utf-8")), "device": "\ud800"}
    file.write_text(json.dumps(body), encoding="utf-8")
    assert run("pair", TARGET, DRAFT, "--trial-from", file).code == 3


def test_figures_that_come_to_infinity_are_refused() -> None:
    body = json.loads((DATA / "trial.json").read_text(encoding="utf-8"))
    row = copy.deepcopy(body["lengths"][0])
    row["counters"] |= {"num_drafts": 1e-300, "num_accepted_tokens_per_pos": [1e15]}
    with pytest.raises(ReadError, match=r"acceptance_by_position\[0\]: no number comes"):
        result.parse({**body, "lengths": [row, *body["lengths"][1:]]}, "t.json")
    cost = {**body["cost"], "target_step_s": 5e-324, "draft_step_s": 1e15}
    with pytest.raises(ReadError, match=r"cost\.ratio: no number"):
        result.parse({**body, "cost": cost}, "t.json")


NONSENSE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 10**15, 1 << 31, 1 << 62, 10**400, 0.5, -0.0, 1e308, math.nan, math.inf,
    "", "x", "x" * 5000, "\ud800", "\x1b[31m", [], [[]], [-1], [1 << 31], [1.5], {}, {"a": {}},
)  # fmt: skip


def mutant(chance: random.Random) -> Any:
    """The file with one cell changed, added, doubled or taken away."""
    body = copy.deepcopy(TEXTS)
    place: Any = body
    for _ in range(chance.randrange(4)):
        inner = list(place.values()) if isinstance(place, dict) else list(place)
        inner = [value for value in inner if isinstance(value, dict | list) and value]
        if not inner:
            break
        place = chance.choice(inner)
    key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
    how = chance.randrange(4)
    if how == 0:
        del place[key]
    elif how == 1 and isinstance(place, list):
        place.insert(key, chance.choice(NONSENSE))
    elif how == 1:
        place[str(chance.choice(NONSENSE))[:50]] = chance.choice(NONSENSE)
    else:
        place[key] = chance.choice(NONSENSE)
    return body


@pytest.fixture
def reused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """A trial of texts in a file; the models are loaded once."""
    pytest.importorskip("torch", reason="the trial extra is not installed")
    pytest.importorskip("transformers", reason="the trial extra is not installed")
    from draftcheck.trial import measure
    from draftcheck.trial.backends.backend import TrialOptions, open_backend

    options = TrialOptions(tokens=12, device="cpu", kept=True)
    backend = open_backend("transformers", str(TARGET), str(DRAFT), options)
    monkeypatch.setattr(measure, "open_backend", lambda *_: backend)
    monkeypatch.chdir(FIXTURES.parent)
    file = tmp_path / "texts.json"

    def call(text: str) -> Any:
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        pair = ("fixtures/pair/target", "fixtures/pair/draft")
        return run("trial", *pair, *CIRCUMSTANCES, "--reuse", file, "--no-cost", "--format", "json")

    yield call


@pytest.mark.transformers
@pytest.mark.filterwarnings("ignore")
def test_texts_with_a_wrong_cell_are_refused_or_used(reused: Callable[..., Any]) -> None:
    assert reused(json.dumps(TEXTS)).code == 0
    chance = random.Random(5)
    for number in range(250):  # tests/fuzz goes on from here
        body = mutant(chance)
        ran = reused(json.dumps(body, ensure_ascii=number % 2 == 0))
        assert ran.code in (0, 1, 3), (body, ran.err)
        if ran.code == 3:
            assert len(ran.err.splitlines()) <= 3 and len(ran.err) < 1000, ran.err
        else:
            json.loads(ran.out, parse_constant=pytest.fail)


@pytest.mark.transformers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": "x" * 100_000}, "target: expected str of length <= 4096"),
        ({"target": "x" * 4000}, "was made with target 'xxx"),
        ({"seed": 10**400}, "seed: expected int <= "),
        ({"texts": [{**TEXTS["texts"][0], "prompt": [1 << 31]}]}, "prompt[0]: expected int <= "),
        ({"texts": [{**TEXTS["texts"][0], "category": "c" * 5000}]}, "category: expected str of"),
        ({"texts": [{**TEXTS["texts"][0], "tokens": []}]}, "nothing to measure"),
    ],
)
def test_a_wrong_cell_of_texts_is_named(
    reused: Callable[..., Any], change: dict[str, Any], words: str
) -> None:
    ran = reused(json.dumps({**TEXTS, **change}))
    assert ran.code == 3 and words in ran.err, ran.err
    assert len(ran.err) < 1000


@pytest.mark.transformers
@pytest.mark.filterwarnings("ignore")
def test_a_text_without_tokens_is_left_out(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="the trial extra is not installed")
    monkeypatch.chdir(FIXTURES.parent)
    file = tmp_path / "texts.json"
    empty = {**TEXTS["texts"][0], "tokens": []}
    file.write_text(json.dumps({**TEXTS, "texts": [empty, *TEXTS["texts"]]}), encoding="utf-8")
    words = ("--target-url", "http://127.0.0.1:1", "--reuse", file, "--device", "cpu")
    pair = ("fixtures/pair/target", "fixtures/pair/draft")
    ran = run("trial", *pair, *CIRCUMSTANCES, *words, "--format", "json")
    assert ran.code == 0, ran.err
    assert ran.json["prompts"] == 2


def test_texts_are_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from draftcheck.trial.backends.backend import TrialOptions
    from draftcheck.trial.plan import TrialPlan, load_texts, save_texts

    file = tmp_path / "texts.json"
    options = TrialOptions(tokens=12, temperature=0.7)
    plan = TrialPlan(target=TEXTS["target"], draft="", prompts=[], options=options,
                     greedy_share=0.5)  # fmt: skip
    texts = load_texts(DATA / "texts.json", plan)
    assert texts is not None
    save_texts(file, plan, texts)
    assert file.read_text(encoding="utf-8").strip() == (DATA / "texts.json").read_text().strip()

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ReadError, match=r"texts\.json: cannot be written: No space left on device"):
        save_texts(file, plan, texts[:1])
    assert file.read_text(encoding="utf-8").strip() == (DATA / "texts.json").read_text().strip()
    assert list(tmp_path.iterdir()) == [file]


# ---- servers ----


def toy(logprobs: list[Any], timings: Any = None) -> dict[str, Any]:
    """A llama-server that says these log-probabilities of tokens 0, 1, 2 … at every place."""
    top = [{"id": number, "logprob": value} for number, value in enumerate(logprobs)]
    completion = {"tokens": [0, 1, 0, 1], "completion_probabilities": [{"top_logprobs": top}]}
    return {
        "/health": answer({"status": "ok"}),
        "/props": answer({"default_generation_settings": {"n_ctx": 10**400}, "build_info": "b1"}),
        "/v1/models": answer(
            {"data": [{"id": "toy", "owned_by": "llamacpp", "meta": {"n_vocab": 10**400}}]}
        ),
        "POST /apply-template": answer({"prompt": "x"}),
        "POST /tokenize": answer({"tokens": [1, 2, 3]}),
        "POST /completion": answer({**completion, "timings": timings}),
    }


@pytest.mark.parametrize(
    ("logprobs", "code"),
    [
        ([-0.1, -3.0], 0),
        ([1e18, -3.0], 0),
        ([-1e18, -1e18], 0),
        ([9e18, -9e18], 0),
        ([10**400, -3.0], 3),
        ([None, -3.0], 3),
        ([math.nan, 0.0], 3),
        ([math.inf, 0.0], 3),
        (["x", 0.0], 3),
    ],
)
@pytest.mark.parametrize(
    "timings",
    [None, {"prompt_n": 1, "prompt_ms": -1.0}, {"prompt_n": 1, "prompt_ms": 1e-300},
     {"prompt_n": 10**400, "prompt_ms": 10**400}, {"prompt_n": math.nan, "prompt_ms": math.nan}],
)  # fmt: skip
def test_log_probabilities_and_times_beyond_all_bounds(
    run: Run, logprobs: list[Any], timings: Any, code: int
) -> None:
    fake = Fake(toy(logprobs, timings))
    words = ("--target-url", fake.url, "--draft-url", fake.url, "--tokens", "4", "--format", "json")
    ran = run("trial", "big", "small", *words)
    fake.close()
    assert ran.code == code, ran.err
    assert len(ran.err.splitlines()) <= 3, "what measures, an error, a hint"
    if code == 0:
        body = json.loads(ran.out, parse_constant=pytest.fail)
        assert body["cost"] is None and body["lengths"]


@pytest.mark.parametrize("option", ["--target-url", "--draft-url"])
@pytest.mark.parametrize(
    "url",
    ["http://user:hunter2@127.0.0.1:1/v1", "http://127.0.0.1:1/v1?key=hunter2",
     "127.0.0.1:1/v1?key=hunter2", "user:hunter2@127.0.0.1", "http://127.0.0.1:1/#hunter2"],
)  # fmt: skip
def test_what_an_address_holds_beside_the_address_is_never_shown(
    run: Run, option: str, url: str
) -> None:
    ran = run("trial", TARGET.with_suffix(".gguf"), DRAFT.with_suffix(".gguf"), option, url,
              "--backend", "endpoint" if option == "--target-url" else "llama.cpp")  # fmt: skip
    assert ran.code == 2, ran.err
    assert "hunter2" not in ran.out + ran.err
