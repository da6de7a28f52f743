"""What a draft costs beside its target, names, and the order of drafts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from draftcheck.judge.compare import compare
from draftcheck.memory import gpus
from draftcheck.models import names
from draftcheck.models.read import read
from draftcheck.models.refs import parse
from draftcheck.recommend import costs, ranking, screen, search
from draftcheck.recommend.candidates import Candidate
from draftcheck.recommend.costs import DraftPrice
from draftcheck.recommend.records import TrialRecord
from draftcheck.recommend.screen import JudgedCandidate
from draftcheck.trial import speedup
from draftcheck.trial.engine_speed import work
from draftcheck.trial.speedup import Costs
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import HeadFacts, ModelFacts
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Reaction, Relation, Verdict
from tests import make

LONG = Circumstances(context=32768)
SHORT = Circumstances(context=1)


def facts(path: Path, **changes: object) -> ModelFacts:
    return read(parse(str(make.folder(path, **changes))))  # type: ignore[arg-type]


@pytest.fixture
def pair(tmp_path: Path) -> Comparison:
    target = facts(tmp_path / "big", hidden_size=512, intermediate_size=1024, layers=8)
    return compare(target, facts(tmp_path / "small"))


def by_hand(config: dict[str, int], rows: int = 260) -> int:
    """Bytes of a llama in bfloat16, the looked-up table left out."""
    wide, deep, kv = config["wide"], config["deep"], config["kv"]
    layer = 2 * wide * wide + 2 * kv * wide + 3 * wide * deep + 2 * wide
    return 2 * (config["layers"] * layer + wide + rows * wide)


def test_the_cost_is_the_ratio_of_what_is_read(pair: Comparison) -> None:
    small = by_hand({"wide": 64, "deep": 128, "kv": 32, "layers": 2})
    big = by_hand({"wide": 512, "deep": 1024, "kv": 256, "layers": 8})
    kept = 2 * 2 * 32 * 2, 8 * 2 * 256 * 2  # layers, keys and values, elements, bytes
    for said in (SHORT, LONG):
        found = costs.price(pair, said)
        wanted = (small + said.context * kept[0]) / (big + said.context * kept[1])  # type: ignore[operator]
        assert found.ratio == pytest.approx(wanted)
        # One draft token, accepted with chance a: 1 + a tokens for the price of 1 + c.
        assert found.break_even == pytest.approx(wanted, abs=1e-3)
        assert found.kv_per_token == kept[0]


def test_cache_weighs_more_than_parameters(tmp_path: Path, pair: Comparison) -> None:
    """As large on disk or smaller, but eight times the cache of a token."""
    wide = facts(tmp_path / "wide", num_key_value_heads=4, layers=4, intermediate_size=16)
    lean = pair.draft
    assert (wide.weights.parameters or 0) < 1.1 * (lean.weights.parameters or 0)
    dear, cheap = (
        costs.price(compare(pair.target, draft), LONG).break_even or 1 for draft in (wide, lean)
    )
    assert dear > 2 * cheap


def test_a_window_caps_the_cache(tmp_path: Path, pair: Comparison) -> None:
    said = {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    narrow = facts(tmp_path / "narrow", config=said, sliding_window=1024)
    assert work.cache_bytes(narrow, 32768) == work.cache_bytes(narrow, 1024)
    assert work.cache_bytes(pair.draft, 32768) == 32 * (work.cache_bytes(pair.draft, 1024) or 0)


def test_a_token_reads_some_of_many_experts(tmp_path: Path) -> None:
    said = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"]}
    many = {"num_local_experts": 8, "num_experts_per_tok": 2}
    found = work.of_model(facts(tmp_path / "moe", config=said, **many), 1)
    assert found is not None
    assert found.experts == 8 * 2 * 3 * 64 * 128 * 2  # experts, layers, matrices, bytes
    one, many_tokens = (found.read(tokens) - found.weights for tokens in (1, 50))
    assert one == found.experts / 4 and many_tokens == pytest.approx(found.experts)
    assert work.of_model(facts(tmp_path / "odd", config=said, num_local_experts=8), 1) is None


def test_a_head_without_output_layer_reads_the_targets(pair: Comparison) -> None:
    own = HeadFacts(kind="eagle", lm_head=True)
    with_one = replace(pair.draft, role="eagle", head=own)
    without = replace(with_one, head=replace(own, lm_head=False))
    dear, cheap = (costs.price(replace(pair, draft=head), SHORT) for head in (without, with_one))
    assert dear.ratio is not None and cheap.ratio is not None
    step = work.of_model(pair.target, 1)
    assert step is not None
    assert dear.ratio - cheap.ratio == pytest.approx(260 * 512 * 2 / step.nbytes)


def test_a_draft_on_a_slower_card(pair: Comparison) -> None:
    here = costs.price(pair, SHORT).ratio
    machine = gpus.parse("h200 + t4")
    fast, slow = (gpu.bandwidth for gpu in machine.devices)
    there = costs.price(pair, replace(SHORT, machine=machine, draft_gpu=1)).ratio
    assert here and there and fast and slow
    assert there == pytest.approx(here * fast / slow)


def test_no_acceptance_pays_for_a_draft_as_dear_as_its_target(pair: Comparison) -> None:
    assert costs.price(replace(pair, draft=replace(pair.target)), SHORT).hopeless
    assert not costs.price(pair, SHORT).hopeless
    unread = replace(pair.draft, weights=replace(pair.draft.weights, tensors=None))
    found = costs.price(replace(pair, draft=unread), SHORT)
    assert found.ratio is None and found.break_even is None and not found.hopeless


def test_a_measured_acceptance_counts_by_the_engine_s_passes(tmp_path: Path) -> None:
    """Deep drafts are launched layer by layer in vLLM 0.22.1: what transformers gained is lost."""
    said = {"vocab_size": 128_256, "num_attention_heads": 32, "num_key_value_heads": 8}
    sizes = {"big": (4096, 14336, 32), "deep": (2048, 8192, 16), "shallow": (3584, 18944, 4)}
    made = {
        name: facts(
            tmp_path / name, **said, rows=128_256,
            hidden_size=wide, intermediate_size=inner, layers=layers,
        )
        for name, (wide, inner, layers) in sizes.items()
    }  # fmt: skip
    there = gpus.placed(Circumstances(gpu="h200"))
    entries, records = [], {}
    for name in ("deep", "shallow"):
        engine = EngineVerdict(
            "vllm", "0.22.1", True, "draft_model", Reaction.RUNS, Verdict.COMPATIBLE
        )
        price = costs.price(compare(made["big"], made[name]), there, engine)
        assert price.where == "vllm 0.22.1 on h200"
        entries.append(replace(judged(name), engine=engine, price=price))
        tokens = {g: speedup.expected_tokens(0.75, g) for g in range(1, 5)}
        gain = {"deep": 1.9, "shallow": 1.5}[name]
        records["t", name] = TrialRecord("t", name, gain, 0.75, tokens_per_pass=tokens)
    first, second = ranking.rank(entries, "t", records)
    assert first.judged.candidate.ref == "shallow" and (second.speedup or 2) < 1.2
    assert "in vllm 0.22.1 on h200, modelled with the acceptance that was measured" in first.why
    real = {("t", "deep"): replace(records["t", "deep"], real=True)}
    assert ranking.rank(entries[:1], "t", real)[0].speedup == 1.9


def test_heads_that_draft_all_tokens_at_once_pay_sooner() -> None:
    made = Costs(draft_step=0.3, target_step=1.0, verify={})
    each, once = speedup.break_even(made), speedup.break_even(structs.replace(made, at_once=True))
    assert each == pytest.approx(0.3, abs=1e-3)
    # 1 / (1 - a) tokens for 1.3 steps
    assert once == pytest.approx(1 - 1 / 1.3, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "short", "family"),
    [
        ("Qwen/Qwen3-32B", "Qwen3-32B", "Qwen3"),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "Qwen2.5-72B-Instruct", "Qwen2"),
        ("bartowski/Llama-3.3-70B-Instruct-GGUF", "Llama-3.3-70B-Instruct", "Llama-3"),
        ("bartowski/Qwen_Qwen3-8B-GGUF", "Qwen3-8B", "Qwen3"),
        ("models/Qwen3-32B-Q4_K_M.gguf", "Qwen3-32B", "Qwen3"),
        ("openai/gpt-oss-120b", "gpt-oss-120b", "gpt-oss"),
        ("Qwen/Qwen3-30B-A3B-FP8", "Qwen3-30B-A3B", "Qwen3"),
        ("google/gemma-3-27b-it", "gemma-3-27b-it", "gemma-3"),
        ("org/big", "big", "big"),
    ],
)
def test_names_to_search_by(name: str, short: str, family: str) -> None:
    assert names.short(name) == short
    assert names.family(name) == family


def test_a_name_is_found_as_a_word() -> None:
    assert names.mentions("RedHatAI/Qwen3-8B-speculator.eagle3", "Qwen3-8B")
    assert names.mentions("x/eagle3_qwen3_8b", "Qwen3-8B")
    assert not names.mentions("x/Qwen3-8B0-eagle3", "Qwen3-8B")
    assert not names.mentions("x/MyQwen3-8B", "Qwen3-8B")
    assert not names.mentions("x/anything", "x")


def test_rows_of_a_list_may_hold_anything() -> None:
    rows = [
        {"id": "a/b", "siblings": 3, "safetensors": [], "config": "x", "tags": {"a": 1}},
        {"id": "a/b", "downloads": -1, "likes": "many", "baseModels": {"models": 7}},
        {"id": "a/b", "safetensors": {"total": 1e30}, "sha": "../../etc", "gated": "manual"},
        {"id": "a/b", "siblings": [{"rfilename": 1}, None, {"rfilename": "x.gguf"}]},
    ]
    for row in rows:
        found = search.candidate(row)
        assert isinstance(found, Candidate) and found.revision is None
        assert found.parameters is None and found.downloads == 0 and found.base_models == ()
    for name in ("a", "../b", "a/b/c", "a/b\n", "a/..", "-a/b", "a/" + "b" * 97, ""):
        assert not isinstance(search.candidate({"id": name}), Candidate)


def judged(ref: str, **changes: object) -> JudgedCandidate:
    verdict = changes.pop("verdict", Verdict.COMPATIBLE)
    assert isinstance(verdict, Verdict)
    engine = EngineVerdict("vllm", "0.32.0", True, "draft_model", Reaction.RUNS, verdict)
    told = {"downloads": changes.pop("downloads", 0), "likes": changes.pop("likes", 0)}
    candidate = Candidate(ref, **told)  # type: ignore[arg-type]
    usual: dict[str, object] = {
        "relation": Relation.IDENTICAL,
        "price": DraftPrice(0.1, 0.1, 100),
        **changes,
    }
    return JudgedCandidate(candidate, "full", verdict, engine, ("vllm",), **usual)  # type: ignore[arg-type]


def test_each_thing_that_is_known_decides_in_turn() -> None:
    """Each row is better than the one before in one thing only; names would say the reverse."""
    bad = {"price": DraftPrice(0.5, 0.5, 900), "relation": Relation.SPECIALS_DIFFER}
    rows = [
        judged("a", verdict=Verdict.DEGRADED, **{**bad, "price": DraftPrice(None, None, None)}),
        judged("b", verdict=Verdict.DEGRADED, **bad),
        judged("c", **bad),
        judged("d", **{**bad, "price": DraftPrice(0.2, 0.2, 900)}),
        judged("e", **{**bad, "price": DraftPrice(0.2, 0.2, 500)}),
        judged("f", price=DraftPrice(0.2, 0.2, 500)),
        judged("g", price=DraftPrice(0.2, 0.2, 500), downloads=5),
        judged("h", price=DraftPrice(0.2, 0.2, 500), downloads=5, likes=1),
    ]
    for order in (rows, rows[::-1], rows[3:] + rows[:3]):
        found = ranking.rank(order, "t", {})
        assert [row.judged.candidate.ref for row in found] == list("hgfedcba")


def test_measured_ones_stand_before_and_behind_the_others() -> None:
    rows = [judged(ref) for ref in "abcd"]
    measured = {("t", ref): TrialRecord("t", ref, speed) for ref, speed in (("c", 0.9), ("d", 1.4))}
    found = ranking.rank(rows, "t", measured)
    assert [row.judged.candidate.ref for row in found] == ["d", "a", "b", "c"]
    broken = {("t", "a"): TrialRecord("t", "a", None, broken="it never agrees")}
    assert [r.judged.candidate.ref for r in ranking.rank(rows, "t", broken)] == ["b", "c", "d"]


def test_published_ones_stand_behind_measured_and_before_unknown_ones() -> None:
    """A published figure is of the very pair, and never beats a measurement of one's own."""
    target = "Qwen/Qwen3-8B"
    first, second = "z-lab/Qwen3-8B-DFlash-b16", "RedHatAI/Qwen3-8B-speculator.eagle3"
    rows = [judged(ref) for ref in ("cheap", second, first, "measured")]
    mine = {(target, "measured"): TrialRecord(target, "measured", 1.01)}
    found = ranking.rank(rows, target, mine)
    assert [r.judged.candidate.ref for r in found] == ["measured", first, second, "cheap"]
    assert found[1].why.startswith("published: 6.54 tokens per pass on GSM8K with 16 drafted, ")
    mine[(target, first)] = TrialRecord(target, first, 0.8)  # it did not pay here
    found = ranking.rank(rows, target, mine)
    assert [r.judged.candidate.ref for r in found] == ["measured", second, "cheap", first]
    assert found[-1].published is None


def test_popularity_never_beats_knowledge() -> None:
    rows = [judged("loved", price=DraftPrice(0.3, 0.3, 1), downloads=10**9), judged("cheap")]
    assert ranking.rank(rows, "t", {})[0].judged.candidate.ref == "cheap"


def test_the_list_alone_turns_away_what_is_too_large() -> None:
    what = search.DraftSearch(repo="a/target", parameters=1000)
    whole = Candidate("a/b", parameters=950, files=("config.json", "model.safetensors"))
    refused = screen.by_listing(whole, what)
    assert refused is not None and refused.rule == "TRU004" and "95%" in refused.saw
    assert screen.by_listing(replace(whole, parameters=100), what) is None
    # Packed weights have fewer elements than parameters: only their config can tell.
    assert screen.by_listing(replace(whole, parameters=130, packed=True), what) is None
