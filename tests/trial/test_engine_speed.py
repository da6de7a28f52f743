"""Modelled passes against passes that were timed in vLLM 0.22.1 and 0.32.0 on an H200."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from msgspec import structs

from benchmarks import fit_engine_speed
from draftcheck.memory import gpus
from draftcheck.report import plot
from draftcheck.report import trial as report
from draftcheck.trial import result
from draftcheck.trial.backends.llamacpp import pass_times as llama_pass_times
from draftcheck.trial.backends.vllm import pass_times
from draftcheck.trial.backends.vllm.engines import VllmEngines
from draftcheck.trial.engine_speed import serving, table
from draftcheck.trial.engine_speed.passes import EnginePasses
from draftcheck.trial.engine_speed.work import ModelWork
from draftcheck.trial.result import (
    CostsOrigin,
    MeasuredModel,
    SpeculationFigures,
    Trial,
    VllmCounters,
)
from draftcheck.trial.speedup import Costs, expected_tokens
from tests import make
from tests.conftest import Run
from tests.trial.test_saved import trial

PASSES = Path(fit_engine_speed.__file__).parent / "passes"
H200 = gpus.parse("h200").devices[0]
WORDS = 128_256


def llama(hidden: int, inner: int, layers: int, kv: int, words: int = WORDS) -> ModelWork:
    """Bytes in bfloat16; kv: width of keys."""
    each = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * inner
    cache = 300 * layers * 4 * kv
    return ModelWork(2 * (layers * each + hidden * words), cache=cache, layers=layers)


BIG = llama(4096, 14336, 32, 1024)
DRAFTS = {
    "draft_model": {"shallow": llama(4096, 14336, 4, 1024), "deep": llama(2048, 8192, 16, 512)},
    "eagle3": {"head": llama(4096, 18432, 1, 1024, 32_000)},
}


def passes(method: str, name: str, version: str = "0.22.1") -> EnginePasses:
    rows = table.rows("vllm", version, method)
    assert rows is not None
    return EnginePasses("vllm", version, *rows, H200, BIG, DRAFTS[method][name])


def rows(acceptance: float) -> list[SpeculationFigures]:
    return [
        SpeculationFigures(
            name=str(g), method="draft_model", draft_tokens=g, draft_efficiency=acceptance,
            tokens_per_pass=expected_tokens(acceptance, g), drafted_per_pass=g,
            counters=VllmCounters(100, 100 * g, 100 * g * acceptance, (100.0 * acceptance,)),
            interval=(expected_tokens(acceptance - 0.02, g), expected_tokens(acceptance + 0.02, g)),
        )
        for g in range(1, 9)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "name", "length", "milliseconds"),
    [
        ("eagle3", "head", 0, 4.83),
        ("eagle3", "head", 3, 5.95),
        ("draft_model", "shallow", 2, 8.4),
        ("draft_model", "shallow", 4, 10.6),
        ("draft_model", "deep", 1, 8.0),
    ],
)
def test_passes_take_what_they_took(
    method: str, name: str, length: int, milliseconds: float
) -> None:
    """Timed in the engine on an H200; drafts that the CPU launches differ from day to day."""
    found = passes(method, name)
    seconds = found.speculating(1, length) if length else found.plain(1)
    within = 0.14 if method == "draft_model" else 0.07
    assert seconds * 1e3 == pytest.approx(milliseconds, rel=within)
    costs = found.costs(1)
    if length:
        parts = length * costs.draft_step + costs.verify_step(length + 1)
        assert parts == pytest.approx(seconds)


def test_a_deep_draft_hardly_pays_where_its_layers_are_launched_one_by_one() -> None:
    before = serving.of_engine(passes("draft_model", "deep"), rows(0.7))
    assert before.draft_tokens == 1 and before.break_even_tokens_per_pass > 1.5
    assert before.measured == "0.22.1" and before.schedule is None
    after = serving.of_engine(passes("draft_model", "deep", "0.32.0"), rows(0.7))
    assert after.measured == "0.32.0" and after.speedup < before.speedup + 0.1
    head = serving.of_engine(passes("eagle3", "head", "0.32.0"), rows(0.7))
    assert head.speedup > after.speedup + 0.5


def test_cells_that_were_timed_in_the_newest_version() -> None:
    """Heads run in one graph; draft models hang on the CPU, and their interval says so."""
    model = fit_engine_speed.EngineModel("0.32.0", "h200")
    found = fit_engine_speed.cells([PASSES / "vllm-0.32.0-h200.jsonl"])
    off = {cell: model.seconds(cell) / cell.seconds - 1 for cell in found}
    plain = [off[cell] for cell in found if cell.draft == "-"]
    heads = [off[cell] for cell in found if cell.draft in ("eagle3", "head14b")]
    drafts = [
        (off[cell], model.spread(cell)) for cell in found if cell.draft in DRAFTS["draft_model"]
    ]
    unfitted = [off[cell] for cell in found if cell.draft == "thin"]
    assert len(plain) == 8 and len(heads) == 28 and len(drafts) == 32 and len(unfitted) == 8
    assert max(map(abs, plain)) < 0.05
    assert max(map(abs, heads)) < 0.17 and sum(abs(one) < 0.1 for one in heads) >= 26
    assert all(abs(one) <= min(0.15, spread) for one, spread in drafts)
    assert sum(abs(one) <= 0.15 for one in unfitted) >= 7


def test_cells_that_were_timed_in_the_older_runner() -> None:
    """And what a trial in vLLM measured in the same minutes."""
    files = [PASSES / "vllm-0.22.1-h200.jsonl"]
    model = fit_engine_speed.EngineModel("0.22.1", "h200")
    off = [model.seconds(cell) / cell.seconds - 1 for cell in fit_engine_speed.cells(files)]
    assert len(off) == 52 and max(map(abs, off)) <= 0.15
    own = [int(line.rpartition(" ")[2].strip("%")) for line in fit_engine_speed.own(files, model)]
    assert len(own) == 48 and max(map(abs, own)) <= 5


def test_the_schedule_follows_the_load() -> None:
    found = serving.of_engine(passes("eagle3", "head", "0.32.0"), rows(0.6))
    assert found.schedule is not None
    name, _, ranges = found.schedule.partition(": ")
    assert name == '"num_speculative_tokens_per_batch_size"'
    parts = json.loads(ranges)
    assert parts[0][0] == 1 and parts[-1][1] == 256
    assert all(before[1] + 1 == after[0] for before, after in pairwise(parts))
    lengths = [part[2] for part in parts]
    assert lengths == sorted(lengths, reverse=True) and len(set(lengths)) > 1
    by_load = {load.sequences: load for load in found.loads}
    assert by_load[1].speedup > by_load[64].speedup
    assert by_load[64].tokens_per_s > by_load[1].tokens_per_s
    low, high = found.speedup_ci95 or (0, 0)
    assert low < found.speedup < high


def test_engines_that_were_not_read_are_not_modelled() -> None:
    assert table.rows("sglang", "0.5.23", "EAGLE3") is None
    assert table.rows("vllm", "0.22.1", "medusa") is None
    assert table.rows("vllm", "0.10.0", "eagle3") is None


def unserved(target: Path, draft: Path, acceptance: float) -> Trial:
    models = {"target_model": MeasuredModel(str(target)), "draft_model": MeasuredModel(str(draft))}
    figures = {"lengths": tuple(rows(acceptance)), "length": 1, "verified": None}
    steps = CostsOrigin("transformers", "5.22.2", "steps", 0.05)
    return trial(**models, **figures, costs_origin=steps)


def served(folder: Path, acceptance: float, engine: str | None, **sizes: int) -> Trial:
    """A trial of an 8B target whose files are only headers, on a machine that has no GPU."""
    said = {"vocab_size": WORDS, "num_attention_heads": 32, "num_key_value_heads": 8}
    big = make.folder(
        folder / "big", **said, hidden_size=4096, intermediate_size=14336, layers=32, rows=WORDS
    )
    small = make.folder(folder / "small", **said, rows=WORDS, **sizes)
    bare = unserved(big, small, acceptance)
    speeds, unknown = serving.of_trial(bare, engine, "h200", 1)
    return structs.replace(bare, speeds=speeds, speeds_unknown=unknown)


def test_each_engine_has_its_answer_or_is_said_to_be_unknown(tmp_path: Path) -> None:
    found = served(tmp_path, 0.8, None, hidden_size=3584, intermediate_size=18944, layers=4)
    [one] = found.speeds
    assert (one.engine, one.source) == ("vllm", "modelled")
    assert any(name.startswith("sglang ") for name in found.speeds_unknown)
    told = click.unstyle(report.FORMATS["text"](found))
    assert told.startswith(f"{one.speedup:.2f}x (") and f"in vllm {one.version} on h200" in told
    assert "not known, neither timed nor modelled here: " in told
    assert f"--engine vllm@{one.version} --draft-tokens {one.draft_tokens}" in told.splitlines()[-1]
    body = found.to_dict()
    assert body["speeds"][0]["loads"][0]["by_length"]["1"] > 0
    assert result.parse(json.loads(json.dumps(body)), "here").speeds == found.speeds
    picture = plot.draw(found)
    assert "Speed-up by load, vllm" in picture and "8 draft tokens" in picture


def test_a_draft_that_does_not_pay_in_the_engine_is_not_switched_on(
    tmp_path: Path, run: Run
) -> None:
    found = served(
        tmp_path, 0.5, "vllm@0.22.1", hidden_size=2048, intermediate_size=8192, layers=16
    )
    told = click.unstyle(report.FORMATS["text"](found))
    assert told.startswith("not worth it in vllm 0.22.1 on h200: ")
    assert "to switch it on" not in told and found.worthless
    file = tmp_path / "trial.json"
    file.write_text(json.dumps(found.to_dict()))
    pair = ("pair", tmp_path / "big", tmp_path / "small", "--engine", "vllm")
    assert "to switch it on" in run(*pair).out
    for form in ("text", "markdown"):
        ran = run(*pair, "--trial-from", file, "--format", form)
        assert "not worth it in vllm" in ran.out, ran.err
        assert "to switch it on" not in ran.out.lower()
        if form == "text":
            assert ran.out.startswith("compatible: not worth it in vllm 0.22.1 on h200: ")


def test_what_hangs_on_the_cpu_is_known_less_well(tmp_path: Path) -> None:
    by_gpu, by_cpu = passes("eagle3", "head"), passes("draft_model", "deep")
    assert by_cpu.spread(1, 4) > 2 * by_gpu.spread(1, 4)
    rows = table.rows("vllm", "0.32.0", "mtp")
    assert rows is not None
    read_only = dataclasses.replace(passes("eagle3", "head"), drafting=rows[1])
    assert read_only.spread(1, 4) > by_gpu.spread(1, 4)


def test_models_smaller_than_any_that_was_timed_are_not_modelled(tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "tiny")
    speeds, unknown = serving.of_trial(unserved(folder, folder, 0.7), "vllm", "h200", 1)
    assert speeds == () and unknown[0].startswith("vllm ")


@pytest.mark.parametrize(
    "passes_ms",
    [
        (4.8, 5.1, 5.4, 5.8, 6.6),
        (4.78, 7.09, 8.03, 9.94, 16.34),  # beyond the largest graph, vLLM 0.22.1
        (6.0, 8.1, 8.6, 11.2, 19.1),
        (5.0, 4.9, 5.0, 5.1, 5.2),
    ],
)
def test_passes_timed_in_vllm_are_given_back(passes_ms: tuple[float, ...]) -> None:
    """Also where checking more tokens, not drafting them, makes longer drafts dear."""
    timed = {g: {64: [ms, ms]} for g, ms in zip((0, *pass_times.LENGTHS), passes_ms, strict=True)}
    noise = passes_ms[1] < passes_ms[0]
    for shape in (None,) if noise else (None, passes("eagle3", "head").speculating):
        costs = pass_times.costs(timed, "0.32.0", shape)[64]
        for g, ms in zip(pass_times.LENGTHS, passes_ms[1:], strict=True):
            assert costs.pass_step(g, g) == pytest.approx(max(ms, passes_ms[0]), rel=5e-3)


def test_passes_end_by_the_clock_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs wait where this process is held up; an engine without counters has no clock."""
    stamps = [1.0, 1.5, 2.0, 2.5]

    class Core:
        def __init__(self, metrics: bool) -> None:
            self.left, self.metrics = list(stamps), metrics

        def add_request(self, *_: object) -> None: ...

        def has_unfinished_requests(self) -> bool:
            return bool(self.left)

        def step(self) -> list[Any]:
            stats = SimpleNamespace(last_token_ts=self.left.pop(0))
            return [SimpleNamespace(metrics=stats if self.metrics else None)]

    monkeypatch.setitem(sys.modules, "vllm", cast(Any, SimpleNamespace(SamplingParams=dict)))
    engines = cast(Any, SimpleNamespace())
    for metrics in (True, False):
        engine = SimpleNamespace(llm_engine=Core(metrics))
        ends = VllmEngines.pass_ends(engines, "m", engine, [[1, 2]], {})
        assert (ends == stamps) is metrics and len(ends) == len(stamps)


@pytest.mark.parametrize("ms", [5, 12, 48, 150])
def test_of_a_busy_machine_the_calm_moments_count(ms: float) -> None:
    """Half of the time each pass takes twice as long; short passes gain nothing by being short."""
    ends, now, period = [0.0], 0.0, max(0.4, 8e-3 * ms)
    while len(ends) < 46:
        now += ms / 1e3 * (2 if now % period < period / 2 else 1)
        ends.append(now)
    assert pass_times.calmest(ends) == pytest.approx(ms / 1e3)
    jitter = [end + (i % 2) * 1e-3 for i, end in enumerate(ends)]
    assert pass_times.calmest(jitter) == pytest.approx(ms / 1e3, rel=0.02)


def test_lengths_that_were_not_timed_in_vllm_follow_the_model(tmp_path: Path) -> None:
    """An engine whose passes all take a third longer: drafts beyond its graphs are no line."""
    made = passes("eagle3", "head")

    def took(g: int) -> float:
        return 1.3 * (made.speculating(64, g) if g else made.plain(64))

    timed = {g: {64: [took(g)] * 2} for g in (pass_times.PLAIN, *pass_times.LENGTHS)}
    (bent,) = pass_times.costs(timed, "0.32.0", made.speculating).values()
    (line,) = pass_times.costs(timed, "0.32.0").values()
    for g in (1, 2, 4, 7, 8, 12):
        assert bent.pass_step(g, g) == pytest.approx(took(g), rel=1e-6)
    assert line.pass_step(7, 7) > 1.05 * took(7)


class SettlingServer:
    """Passes of a new shape take longer twice, as under CUDA before a graph is kept."""

    version = "b11312"
    extra, step, drafted = 1e-3, 1e-3, 0.5e-3

    def __init__(self, most: int) -> None:
        self.most = most

    def passes(self, context: int, count: int) -> list[tuple[int, float]]:
        lengths = [min(self.most, count - 2 - i) for i in range(count - 1)] if self.most else []
        shapes = [g for g in lengths if g >= 0] or [0] * (count - 1)
        new = [shapes[max(i - 1, 0) : i].count(g) == 0 for i, g in enumerate(shapes)]
        slow = [fresh or new[i - 1] for i, fresh in enumerate(new)]
        return [
            (g, 5 * self.step + g * self.drafted + self.extra * late)
            for g, late in zip(shapes, slow, strict=True)
        ]


@pytest.mark.parametrize("servers", [1, 8])
def test_passes_of_llama_server_are_those_of_a_long_answer(servers: int) -> None:
    class Servers:
        loaded = 0

        def __init__(self) -> None:
            self.servers = servers

        @contextmanager
        def server(self, g: int | None = None) -> Iterator[SettlingServer]:
            self.loaded += 1
            assert servers > 1 or self.loaded == 1
            yield SettlingServer(g or 0)
            self.loaded -= 1

    steps = Costs(0.4e-3, 5e-3, {2: 5e-3}, "timed", engine="llama.cpp")
    costs = llama_pass_times.PassTimer(cast(Any, Servers()), 64).costs(steps)
    assert costs.target_step == pytest.approx(5e-3)
    for g in (1, 2, 4, 8):
        assert costs.pass_step(g, g) == pytest.approx(5e-3 + g * 0.5e-3)


def test_a_draft_step_leaves_room_for_the_check() -> None:
    """A pass takes what it took, whatever its steps took one by one: here much longer."""

    class Sublinear(SettlingServer):
        def passes(self, context: int, count: int) -> list[tuple[int, float]]:
            told = super().passes(context, count)
            return [(g, 5e-3 + (2e-3 + g * 0.3e-3) * bool(g)) for g, _ in told]

    class Servers:
        servers = 8

        @contextmanager
        def server(self, g: int | None = None) -> Iterator[Sublinear]:
            yield Sublinear(g or 0)

    for draft, verify in ((1.2e-3, {2: 5.2e-3, 5: 6e-3, 9: 6.5e-3}), (0.1e-3, {9: 20e-3})):
        steps = Costs(draft, 5e-3, verify, "timed", engine="llama.cpp")
        costs = llama_pass_times.PassTimer(cast(Any, Servers()), 64).costs(steps)
        for g in (1, 2, 4, 8):
            assert costs.pass_step(g, g) == pytest.approx(7e-3 + g * 0.3e-3)
        assert costs.draft_step >= 0
        assert min(costs.overhead.values()) >= -1e-12


def test_answers_are_long_enough_where_all_is_accepted() -> None:
    class Accepting(SettlingServer):
        def passes(self, context: int, count: int) -> list[tuple[int, float]]:
            return super().passes(context, count)[: count // (self.most + 1)]

    class Servers:
        servers = 8

        @contextmanager
        def server(self, g: int | None = None) -> Iterator[Accepting]:
            yield Accepting(g or 0)

    steps = Costs(0.4e-3, 5e-3, {2: 5e-3}, "timed", engine="llama.cpp")
    costs = llama_pass_times.PassTimer(cast(Any, Servers()), 64).costs(steps)
    assert costs.pass_step(8, 8) == pytest.approx(9e-3)
