"""The simulations against a slow reference that really runs the accept/reject loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy", reason="numpy comes with the trial extra")

from draftcheck.trial.simulate import answers, ngram, trees
from draftcheck.trial.simulate import passes as simulate
from draftcheck.trial.simulate.traces import JoinedTraces, PassCounts, Trace, line_up

ranks = st.lists(st.sampled_from([0, 0, 0, 1, 2, 9]), min_size=1, max_size=40)


def trace(rank: list[int], confidence: list[float] | None = None, prompt: int = 3) -> Trace:
    n = len(rank)
    return Trace(
        prompt=np.arange(prompt),
        tokens=np.arange(n) % 7,
        rank=np.array(rank),
        confidence=np.array(confidence or [1.0] * n),
    )


def threshold(line: JoinedTraces, p_min: float, g: int, n_min: int = 0) -> PassCounts:
    return simulate.walk(line, [simulate.stop_when_unsure(line, p_min, g, n_min)])[0]


def of_tree(line: JoinedTraces, tree: trees.DraftTree) -> PassCounts:
    return simulate.walk(line, [trees.drafts(line, tree)])[0]


def of_rule(traces: list[Trace], rule: ngram.NgramLookup) -> PassCounts:
    line = line_up(traces)
    return simulate.walk(line, [ngram.drafts(line, ngram.NgramTexts(traces), rule)])[0]


def speculate(rank: list[int], g: int, sure: list[bool] | None = None) -> dict[str, int]:
    """Draft by draft, token by token, as an engine does it."""
    i, passes, drafted, accepted = 1, 0, 0, 0
    while i < len(rank):
        passes += 1
        k = 0
        while k < g and i + k < len(rank) - 1:
            if sure is not None and not sure[i + k]:
                break
            drafted += 1
            if rank[i + k] != 0:
                drafted += min(g, len(rank) - 1 - i) - k - 1 if sure is None else 0
                break
            k += 1
        accepted += k
        i += k + 1
    return {"passes": passes, "drafted": drafted, "accepted": accepted}


@given(ranks, st.integers(1, 24))
def test_every_length_is_what_the_loop_counts(rank: list[int], g: int) -> None:
    counts = simulate.lengths(line_up([trace(rank)]))[g]
    told = speculate(rank, g)
    assert {name: int(getattr(counts, name)[0]) for name in told} == told
    assert counts.tokens[0] == len(rank) - 1
    assert counts.histogram.sum() == counts.drafts[0]
    assert counts.accepted[0] == (counts.histogram * np.arange(g + 1)).sum()


@given(st.lists(st.tuples(st.sampled_from([0, 0, 1]), st.floats(0, 1)), min_size=1, max_size=40),
       st.floats(0, 1), st.integers(1, 24))  # fmt: skip
def test_a_threshold_accepts_what_the_loop_accepts(
    rows: list[tuple[int, float]], p_min: float, g: int
) -> None:
    rank, confidence = [r for r, _ in rows], [c for _, c in rows]
    counts = threshold(line_up([trace(rank, confidence)]), p_min, g)
    told = speculate(rank, g, [c >= p_min for c in confidence])
    assert (counts.passes[0], counts.accepted[0]) == (told["passes"], told["accepted"])
    assert counts.drafted[0] >= told["drafted"] - 1e-9


def test_no_threshold_is_the_plain_length() -> None:
    one = line_up([trace([0, 0, 1, 0, 0, 0, 2, 0, 0], [0.3] * 9)])
    plain, open_ = simulate.lengths(one)[4], threshold(one, 0.0, 4)
    assert open_.drafted[0] == plain.drafted[0]
    assert (open_.histogram == plain.histogram).all()


@given(st.lists(st.tuples(st.just(0), st.floats(0, 1)), min_size=1, max_size=40),
       st.floats(0, 1), st.integers(1, 24), st.integers(0, 5))  # fmt: skip
def test_short_drafts_are_thrown_away_as_the_loop_does(
    rows: list[tuple[int, float]], p_min: float, g: int, n_min: int
) -> None:
    """Where the draft never errs, its length is known: then n_min is exact too."""
    rank, confidence = [r for r, _ in rows], [c for _, c in rows]
    counts = threshold(line_up([trace(rank, confidence)]), p_min, g, n_min)
    i, passes, accepted = 1, 0, 0
    while i < len(rank):
        k = 0
        while k < g and i + k < len(rank) - 1 and confidence[i + k] >= p_min:
            k += 1
        k = k if k >= n_min else 0
        passes, accepted, i = passes + 1, accepted + k, i + k + 1
    assert (counts.passes[0], counts.accepted[0]) == (passes, accepted)


@given(ranks, st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=9))
def test_a_tree_is_counted_as_the_loop_counts(rank: list[int], paths: list[list[int]]) -> None:
    tree = trees.make("t", paths)
    counts = of_tree(line_up([trace(rank)]), tree)
    i, passes, accepted = 1, 0, 0
    while i < len(rank):
        fits = [len(p) for p in tree.paths if tuple(rank[i : i + len(p)]) == p]
        k = min(max(fits, default=0), len(rank) - 1 - i)
        passes, accepted, i = passes + 1, accepted + k, i + k + 1
    assert (counts.passes[0], counts.accepted[0]) == (passes, accepted)


@given(ranks, st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=9))
def test_a_tree_accepts_its_longest_path(rank: list[int], paths: list[list[int]]) -> None:
    tree = trees.make("t", paths)
    reached = trees.depth(line_up([trace(rank)]).rank, tree)
    for i in range(len(rank)):
        fits = [len(p) for p in tree.paths if tuple(rank[i : i + len(p)]) == p]
        assert reached[i] == max(fits, default=0)


@given(ranks, st.integers(1, 24))
def test_a_chain_is_a_tree(rank: list[int], g: int) -> None:
    chain = trees.make("chain", [[0] * g])
    one = line_up([trace(rank)])
    assert of_tree(one, chain).passes[0] == simulate.lengths(one)[g].passes[0]


@settings(deadline=None)
@given(st.lists(ranks, min_size=1, max_size=3), st.integers(1, 6))
def test_no_tree_of_that_size_takes_more_places(rows: list[list[int]], nodes: int) -> None:
    """Against every tree that could be made of the paths that occur."""
    traces = [trace(row) for row in rows]

    def taken(tree: trees.DraftTree) -> int:
        cut = [trace(list(one.rank[1:-1])) for one in traces if len(one.rank) > 2]
        return sum(int(trees.depth(line_up([one]).rank, tree).sum()) for one in cut)

    [best] = trees.best_of_each(line_up(traces), (nodes,))
    assert best.nodes <= nodes
    chain = trees.make("chain", [[0] * nodes])
    wide = trees.make("wide", [[rank] for rank in range(nodes)])
    assert taken(best) >= max(taken(chain), taken(wide))


def accept_loop(accept: list[float], g: int, draws: np.ndarray) -> tuple[int, int]:
    """One run of the rejection rule over a fixed text."""
    i, passes, accepted = 1, 0, 0
    while i < len(accept):
        passes += 1
        k = 0
        while k < g and i + k < len(accept) - 1 and draws[i + k] < accept[i + k]:
            k += 1
        accepted += k
        i += k + 1
    return passes, accepted


def test_sampled_expectation_is_the_mean_of_many_runs() -> None:
    rng = np.random.default_rng(7)
    accept = rng.random(30)
    one = Trace(np.arange(2), np.zeros(30, int), np.zeros(30, int), np.ones(30), accept=accept)
    for g in (1, 3, 8):
        counts = simulate.sampled_lengths([one])[g]
        told = [accept_loop(accept.tolist(), g, rng.random(30)) for _ in range(20_000)]
        passes, accepted = np.mean(told, axis=0)
        assert counts.passes[0] == pytest.approx(passes, rel=0.01)
        assert counts.accepted[0] == pytest.approx(accepted, rel=0.02)
        assert counts.passes[0] + counts.accepted[0] == pytest.approx(29)


def rejection_loop(
    p: np.ndarray, q: np.ndarray, g: int, rng: np.random.Generator, greedy: bool, size: int
) -> tuple[list[int], int]:
    """Speculative sampling itself, with a draft that samples or proposes its first choice.

    p and q: next-token distributions of target and draft by the token before. Returns the text
    and the number of passes after the prefill.
    """
    text, passes = [int(rng.choice(len(p), p=p[0]))], 0
    while len(text) < size:
        passes += 1
        last, drafts = text[-1], []
        for _ in range(min(g, size - 1 - len(text))):
            chances = np.eye(len(q))[q[last].argmax()] if greedy else q[last]
            last = int(rng.choice(len(q), p=chances))
            drafts.append((last, chances))
        for token, chances in drafts:
            if rng.random() < min(1.0, p[text[-1]][token] / chances[token]):
                text.append(token)
                continue
            rest = np.maximum(p[text[-1]] - chances, 0)
            text.append(int(rng.choice(len(p), p=rest / rest.sum())))
            break
        else:
            text.append(int(rng.choice(len(p), p=p[text[-1]])))
    return text, passes


@pytest.mark.parametrize("greedy", [False, True], ids=["sampled draft", "greedy draft"])
@pytest.mark.parametrize("g", [1, 4])
def test_tokens_per_pass_of_real_speculative_sampling(greedy: bool, g: int) -> None:
    """Texts of the target alone predict what the loop with a draft comes to."""
    rng = np.random.default_rng(3)
    p, q = (rng.dirichlet(np.full(5, 0.5), 5) for _ in range(2))
    q = 0.6 * p + 0.4 * q
    size, runs = 24, 1000
    passes = [rejection_loop(p, q, g, rng, greedy, size)[1] for _ in range(runs)]
    traces = []
    for _ in range(runs):
        text = [int(rng.choice(5, p=p[0]))]
        while len(text) < size:
            text.append(int(rng.choice(5, p=p[text[-1]])))
        before = [0, *text[:-1]]
        ours, theirs = p[before, text], q[before, text]
        rank = (q[before] > theirs[:, None]).sum(1)
        traces.append(Trace(np.zeros(1, int), np.array(text), rank, np.ones(size),
                            accept=np.minimum(1, theirs / ours), temperature=1.0))  # fmt: skip
    by_length = (
        simulate.lengths(line_up(traces), g) if greedy else simulate.sampled_lengths(traces, g)
    )
    counts = by_length[g]
    assert counts.tokens_per_pass == pytest.approx((size - 1) * runs / sum(passes), rel=0.02)


def test_a_mixed_workload_is_both_of_its_parts() -> None:
    rng = np.random.default_rng(5)
    cold = [trace([int(r) for r in rng.integers(0, 2, 30)]) for _ in range(3)]
    warm = [
        Trace(t.prompt, t.tokens, t.rank, t.confidence, accept=rng.random(30), temperature=1.0)
        for t in cold
    ]
    found = answers.answer([*cold, *warm], None)
    alone = [simulate.lengths(line_up(cold))[3], simulate.sampled_lengths(warm)[3]]
    assert found.by_length[3].passes.sum() == pytest.approx(sum(c.passes.sum() for c in alone))
    assert len(found.greedy_lengths) == len(found.lengths) == 24


@settings(deadline=None)
@given(st.lists(ranks, min_size=1, max_size=3), st.integers(1, 24))
def test_certain_chances_are_the_greedy_case(rows: list[list[int]], g: int) -> None:
    plain = [trace(row) for row in rows]
    sure = [
        Trace(t.prompt, t.tokens, t.rank, t.confidence, accept=(t.rank == 0).astype(float))
        for t in plain
    ]
    ours, theirs = simulate.sampled_lengths(sure)[g], simulate.lengths(line_up(plain))[g]
    for name in ("passes", "drafted", "accepted", "drafts", "tokens", "histogram"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name)), name


# ---- n-grams: the engines' own words, slowly ----


def vllm_lookup(text: list[int], low: int, high: int, k: int) -> list[int]:
    for n in range(min(high, len(text)), low - 1, -1):
        for start in range(len(text) - n):
            if text[start : start + n] == text[-n:]:
                return text[start + n : start + n + k]
    return []


def llama_simple(text: list[int], n: int, m: int) -> list[int]:
    tokens, cur = text[:-1], len(text) - 1
    if cur <= n + m + 1:
        return []
    pattern = [*tokens[cur - n + 1 :], text[-1]]
    for j in range(cur - n - 1, 0, -1):
        if tokens[j : j + n] == pattern:
            size = min(m, cur - (j + n))
            return tokens[j + n : j + n + size] if size >= n else []
    return []


texts = st.lists(st.integers(0, 3), min_size=2, max_size=50)


def several(*rows: list[int]) -> ngram.NgramTexts:
    none = np.zeros(0, int)
    return ngram.NgramTexts([Trace(np.array(row), none, none, none.astype(float)) for row in rows])


def copied(rule: ngram.NgramLookup | ngram.SimpleNgram, *rows: list[int]) -> list[list[list[int]]]:
    """What a rule copies at each place of each text."""
    together = several(*rows)
    starts, sizes = rule.copies(together)
    flat = [
        together.tokens[s : s + n].tolist() if n else []
        for s, n in zip(starts.tolist(), sizes.tolist(), strict=True)
    ]
    found = []
    for row in rows:
        found.append(flat[: len(row)])
        flat = flat[len(row) :]
    return found


@given(texts, texts, st.integers(1, 2), st.integers(0, 3), st.integers(1, 6))
def test_lookup_copies_what_vllm_copies(
    one: list[int], two: list[int], low: int, more: int, k: int
) -> None:
    for text, copies in zip((one, two), copied(ngram.NgramLookup(low, low + more, k), one, two),
                            strict=True):  # fmt: skip
        told = [vllm_lookup(text[:place], low, low + more, k) for place in range(len(text))]
        assert copies == told


@given(texts, texts, st.integers(1, 3), st.integers(1, 6))
def test_simple_copies_what_llama_cpp_copies(
    one: list[int], two: list[int], n: int, m: int
) -> None:
    for text, copies in zip((one, two), copied(ngram.SimpleNgram(n, m), one, two), strict=True):
        told = [llama_simple(text[:place], n, m) if place else [] for place in range(len(text))]
        assert copies == told


@settings(deadline=None, max_examples=30)
@given(texts, st.integers(1, 4), st.integers(1, 6))
def test_lookup_copies_what_transformers_copies(text: list[int], most: int, k: int) -> None:
    """Against its own class."""
    torch = pytest.importorskip("torch", reason="the trial extra is not installed")
    pytest.importorskip("transformers", reason="the trial extra is not installed")
    from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

    lookup = PromptLookupCandidateGenerator(None, k, most, max_length=1000)
    [ours] = copied(ngram.NgramLookup(1, most, k), text)
    for place in range(1, len(text)):
        out, _ = lookup.get_candidates(torch.tensor([text[:place]]))
        assert ours[place] == out[0, place:].tolist()


@given(texts, texts, st.integers(1, 6))
def test_copies_are_counted_as_the_loop_counts(
    prompt: list[int], tokens: list[int], k: int
) -> None:
    """Token by token over the continuation, with the engine's own words."""
    n = len(tokens)
    one = Trace(np.array(prompt), np.array(tokens), np.ones(n, int), np.ones(n))
    counts = of_rule([one], ngram.NgramLookup(1, 3, k))
    i, passes, accepted, drafted = 1, 0, 0, 0
    while i < n:
        copy = vllm_lookup(prompt + tokens[:i], 1, 3, k)[: n - 1 - i]
        taken = next((j for j, x in enumerate(copy) if x != tokens[i + j]), len(copy))
        passes, accepted, drafted = passes + 1, accepted + taken, drafted + len(copy)
        i += taken + 1
    assert (counts.passes[0], counts.accepted[0], counts.drafted[0]) == (passes, accepted, drafted)


def test_repeated_text_is_drafted_by_lookup() -> None:
    one = Trace(np.arange(10), np.tile(np.arange(5), 8), np.ones(40, int), np.ones(40))
    counts = of_rule([one], ngram.NgramLookup(2, 4, 5))
    assert counts.tokens_per_pass > 3.5


# ---- figures ----


def test_figures_by_position() -> None:
    counts = simulate.lengths(line_up([trace([0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0])]))[2]
    told = answers.counters(counts)
    shares = told.by_position
    assert shares == sorted(shares, reverse=True)
    assert told.by_position_given_the_last[0] == shares[0]
    assert told.histogram == counts.histogram.tolist()
    assert sum(told.num_accepted_tokens_per_pos) == told.num_accepted_tokens
    assert counts.tokens_per_pass == pytest.approx(10 / counts.passes[0])
    # vLLM's mean acceptance length, from its own counters
    assert 1 + told.num_accepted_tokens / told.num_drafts == pytest.approx(
        1 + counts.accepted.sum() / counts.drafts.sum()
    )


@given(st.lists(ranks, min_size=2, max_size=6), st.integers(1, 24))
def test_parts_add_up_to_the_whole(rows: list[list[int]], g: int) -> None:
    traces = [trace(row) for row in rows]
    counts = simulate.lengths(line_up(traces))
    parts = answers.parts([str(i % 2) for i in range(len(rows))], counts, g, None)
    assert sum(part.prompts for part in parts.values()) == len(rows)
    assert sum(part.tokens for part in parts.values()) == counts[g].tokens.sum()
    inside = [part.acceptance for part in parts.values()]
    assert min(inside) - 1e-9 <= counts[g].draft_efficiency <= max(inside) + 1e-9 or (
        0.0 in inside  # a part without drafts
    )


def test_the_interval_holds_the_truth() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for seed in range(200):
        hits = rng.binomial(50, 0.7, 40).astype(float)
        low, high = answers.interval(hits, np.full(40, 50.0), seed) or (1, 0)
        inside += low <= 0.7 <= high
    assert inside >= 180


def test_one_prompt_gives_no_interval() -> None:
    assert answers.interval(np.array([1.0]), np.array([2.0])) is None


def as_table(row: Any, readings: int, beyond: float) -> Any:
    """A row of an ordinary draft as a head would give it: from each place on."""
    line = np.concatenate([row, np.full(readings, beyond)])
    return np.stack([line[i : i + readings] for i in range(len(row))]).astype(row.dtype)


def test_an_ordinary_draft_is_a_table_of_one_row() -> None:
    rng = np.random.default_rng(3)
    rows = [trace(rng.integers(0, 3, 40).tolist(), rng.random(40).tolist()) for _ in range(5)]
    tables = [
        Trace(t.prompt, t.tokens, as_table(t.rank, 24, 99), as_table(t.confidence, 24, 0.0))
        for t in rows
    ]
    ours, theirs = line_up(rows), line_up(tables)
    for g in (1, 3, 24):
        a, b = simulate.lengths(ours)[g], simulate.lengths(theirs)[g]
        assert (a.passes == b.passes).all() and (a.histogram == b.histogram).all()
    for nodes in (4, 16):
        assert trees.best_of_each(ours, (nodes,)) == trees.best_of_each(theirs, (nodes,))
    ways = [simulate.stop_when_unsure(line, 0.4, 8) for line in (ours, theirs)]
    assert (ways[0].accepted == ways[1].accepted).all()


def test_a_pass_takes_the_row_where_it_began() -> None:
    """Hits along the text are not hits of one pass."""
    rank = np.array([[9, 9], [0, 1], [0, 0], [0, 1], [1, 0], [0, 0], [9, 9]])
    one = Trace(np.array([1]), np.arange(7), rank, np.ones((7, 2)))
    counts = simulate.lengths(line_up([one]), 2)[2]
    # From 1: one hit, on to 3. From 3: one hit, on to 5. From 5: the last token is the target's.
    assert counts.histogram.tolist() == [0.0, 3.0, 0.0] and counts.passes[0] == 3


def test_sampled_tables_come_to_the_mean_of_many_walks() -> None:
    rng = np.random.default_rng(5)
    size, g = 30, 3
    chance = rng.random((size, g))
    one = Trace(
        np.array([1]), np.arange(size), np.zeros((size, g), dtype=np.int64), np.ones((size, g)),
        accept=chance, temperature=1.0,
    )  # fmt: skip
    found = simulate.sampled_lengths([one], g)[g]
    passes = accepted = 0
    walks = 4000
    for _ in range(walks):
        at = 1
        while at < size:
            room = min(g, size - 1 - at)
            k = 0
            while k < room and rng.random() < chance[at, k]:
                k += 1
            passes, accepted, at = passes + 1, accepted + k, at + k + 1
    assert found.passes[0] == pytest.approx(passes / walks, rel=0.02)
    assert found.accepted[0] == pytest.approx(accepted / walks, rel=0.02)
