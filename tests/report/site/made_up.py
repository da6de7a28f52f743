"""A made-up scan in plain values: families, all engines, trials, changes, hostile names."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from draftcheck.report.site.data import EngineColumn, SiteData, SitePair
from draftcheck.rulebook import book
from draftcheck.scan.rows import (
    ChangeRow,
    FailedRuleRow,
    MemoryRow,
    ModelRow,
    PinRow,
    ScanRow,
    VerdictRow,
)
from draftcheck.values.words import Verdict

HOSTILE = (
    "evil/<script>window.hit=1</script>",
    "evil/\"onmouseover='window.hit=1'",
    "evil/</script><img src=x onerror=window.hit=1>",
    "evil/\u202egpj.exe\u2066rtl",
    '=HYPERLINK("http://example.invalid")/a',
    "evil/{{7*7}}${7*7}<%=7*7%>",
    "long/" + "x" * 300,
    "long/" + "\U0001f9ea" * 90,
)
GGUF = "lab-2/phi4-1.7b-draft-16"
"""A file that the rules of two engines do not cover."""
GATED = "lab-1/mistral-1.7b-draft-15"
FAMILIES = ("qwen3", "llama3", "gemma3", "mistral", "phi4", "olmo2")
REASONS = {
    "tokens": FailedRuleRow(
        "LCP004", "fail", "error", "",
        "token 151665 is '[PAD151665]' in the target, '<tool_response>' in the draft (4 differ)",
        "token-text-differs", "Token texts differ from id 5 on",
        "Use a draft of the same family, converted by the same publisher.",
    ),
    "gap": FailedRuleRow(
        "LCP003", "fail", "error", "", "152,064 and 151,552 tokens, gap 512, limit 128",
        "vocab-size-gap", "Vocabulary sizes differ by more than 128",
        "Use a draft of the same family.",
    ),
    "unread": FailedRuleRow(
        "LCP005", "unknown", "error", "", "the tokenizer of the draft was not read",
        "special-tokens", "The special tokens differ",
    ),
}  # fmt: skip


def models(count: int, sizes: Sequence[float], word: str, seed: int) -> list[ModelRow]:
    chance = random.Random(seed)
    found = []
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        size = sizes[number // len(FAMILIES) % len(sizes)]
        head = word == "draft" and number % 11 == 10
        name = f"lab-{number % 7}/{family}-{size:g}b-{word}-{number}"
        found.append(
            ModelRow(
                ref=name,
                kind="hub",
                revision=f"{chance.getrandbits(160):040x}",
                status="read",
                role="eagle3" if head else "full",
                family=f"sha256:{family}",
                architecture=family,
                parameters=int(size * 1e9),
                nbytes=int(size * 2e9),
                context=32768,
                downloads=chance.randrange(10, 2_000_000),
            )
        )
    return found


def trial(top: float, chance: random.Random) -> dict[str, object]:
    rate = 0.5 + 0.4 * chance.random()
    cost = 0.02 + 0.1 * chance.random()
    lengths = []
    for g in range(1, 25):
        tokens = (1 - rate ** (g + 1)) / (1 - rate)
        gain = tokens / (cost * g + 1 + 0.01 * g)
        lengths.append(
            {
                "draft_tokens": g,
                "tokens_per_pass": tokens,
                "draft_efficiency": (tokens - 1) / g,
                "speedup": gain,
            }
        )
    best = max(lengths, key=lambda row: row["speedup"])
    return {
        "backend": "transformers", "device": "cuda:0", "dtype": "bfloat16", "temperature": 0.0,
        "seed": 0, "prompts": 32, "tokens": 4096, "seconds": 41.5, "length": best["draft_tokens"],
        "acceptance_rate": {"value": rate, "ci95": [rate - 0.02, rate + 0.02]},
        "acceptance_by_position": [rate ** (i + 1) for i in range(16)],
        "lengths": lengths,
        "best": {
            "method": "draft_model", "name": f"{best['draft_tokens']} tokens",
            "draft_tokens": best["draft_tokens"], "tokens_per_pass": best["tokens_per_pass"],
            "speedup": best["speedup"],
        },
        "broke": None,
        "speeds": [
            {
                "engine": "vllm", "version": "0.32.0",
                "loads": [
                    {"sequences": 2**n, "speedup": best["speedup"] * 0.9**n} for n in range(9)
                ],
            }
        ],
    }  # fmt: skip


def answers(
    same: bool, target: str, draft: ModelRow, memory: MemoryRow | None, chance: random.Random
) -> tuple[VerdictRow, ...]:
    kind = draft.draft_kind
    found = []
    for place, name in enumerate(book.engine_files()):
        verdict, reaction, reasons = Verdict.COMPATIBLE, "runs", ()
        if not same:
            verdict = Verdict.INCOMPATIBLE
            reaction = ("ignores-draft", "refuses", "runs", "crashes")[place % 4]
            reasons = (REASONS["tokens" if place % 2 else "gap"],)
        elif draft.ref == GGUF and place in (1, 2):
            verdict, reaction = Verdict.UNDECIDED, "unknown"
        elif kind != "full" and place % 3:
            verdict, reaction = Verdict.INCOMPATIBLE, "refuses"
            reasons = (REASONS["gap"],)
        elif chance.random() < 0.06:
            verdict, reaction, reasons = Verdict.UNDECIDED, "unknown", (REASONS["unread"],)
        elif chance.random() < 0.15:
            verdict, reaction, reasons = Verdict.DEGRADED, "falls-back", (REASONS["tokens"],)
        setup, notes = None, ()
        if verdict is Verdict.UNDECIDED and not reasons:
            notes = (f"the rulebook does not cover gguf files with {name}",)
        if verdict is Verdict.COMPATIBLE:
            setup = (
                f"hf download target --local-dir target\n{name} serve target --max-model-len 8192"
                f""" --speculative-config '{{"model": "{draft.ref}", "num_tokens": 4}}'"""
                " --spec-draft-n-max 16 --spec-draft-p-min 0.75"
            )
        found.append(
            VerdictRow(
                target=target,
                draft=draft.ref,
                asked=name,
                engine=name,
                version=book.load(name).checked,
                version_checked=place != 5,
                method=None if notes else "draft_model" if kind == "full" else kind,
                reaction=reaction,
                verdict=verdict,
                findings=reasons,
                relation="identical" if same else "differs",
                setup=setup,
                memory=memory,
                notes=notes,
            )
        )
    return tuple(found)


def make(
    targets: int = 60, drafts: int = 300, *, dense: bool = True, hostile: bool = True
) -> SiteData:
    """A site of that size; dense: every draft was held against every target."""
    chance = random.Random(7)
    big = models(targets, (8, 14, 32, 70), "target", 1)
    small = models(drafts, (0.5, 1, 1.7, 3), "draft", 2)
    if hostile:
        big[:2] = [replace(big[0], ref=HOSTILE[0]), replace(big[1], ref=HOSTILE[3])]
        small[: len(HOSTILE)] = [
            replace(model, ref=name) for model, name in zip(small, HOSTILE, strict=False)
        ]
    pairs = {
        target.ref: _pairs(number, target, small, dense, chance)
        for number, target in enumerate(big)
    }
    changes = _changes(big, small)
    counts = {"listed": 30000, "candidates": 412, "models": drafts, "requests": 1234}
    before = _scan(11, "2026-11-14T02:00:00+00:00", "2026-11-14T02:39:00+00:00", {})
    ways = {
        "llama.cpp": ("ngram-cache", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-simple")
    }
    alone = [
        VerdictRow(big[-1].ref, None, name, name, "1", True, method, "runs", Verdict.COMPATIBLE)
        for name, methods in {**ways, "vllm": ["ngram"]}.items()
        for method in methods
    ]
    alone.append(
        VerdictRow(
            big[-1].ref, None, "sglang", "sglang", "1", True, None, "unknown", Verdict.UNDECIDED,
            notes=("no such files",),
        )
    )  # fmt: skip
    return SiteData(
        title="Nightly drafts",
        targets=big,
        drafts=small,
        columns=[EngineColumn(name, name, book.load(name).checked) for name in book.engine_files()],
        alone={big[-1].ref: alone},
        pairs=pairs,
        scan=_scan(12, "2026-11-15T02:00:00+00:00", "2026-11-15T02:41:07+00:00", counts),
        previous=before,
        changes=changes,
        earlier=[(before, changes[:2])],
        pins=_pins(changes[1], pairs[big[-1].ref]),
        gated=frozenset({GATED}),
        unread=[ModelRow("lab/gated-<i>", "hub", None, "gated", "gated: ask its <b>owner</b>")],
    )


def _scan(number: int, started: str, finished: str, counts: dict[str, int]) -> ScanRow:
    return ScanRow(number, "complete", started, finished, "0.1.0", {}, counts)


def _pins(change: ChangeRow, pairs: Sequence[SitePair]) -> list[PinRow]:
    """One on two engines, a good one, and one that no engine takes."""
    found = [PinRow(change.target, change.draft or "", ("vllm", "llama.cpp"))]
    found += [PinRow(pair.target, pair.draft) for pair in (pairs[0], pairs[-1])]
    return list({(pin.target, pin.draft): pin for pin in found}.values())


def _pairs(
    number: int, target: ModelRow, drafts: Sequence[ModelRow], dense: bool, chance: random.Random
) -> list[SitePair]:
    found = []
    for draft in drafts:
        same = draft.architecture == target.architecture
        if not (same or dense):
            continue
        usable = same and draft.draft_kind == "full"
        measured = trial(2.0, chance) if usable and number % 2 == 0 and len(found) % 5 < 2 else None
        best = measured and measured["best"]
        ratio = (draft.parameters or 0) / (target.parameters or 1)
        found.append(
            SitePair(
                target=target.ref,
                draft=draft.ref,
                answers=answers(
                    same, target.ref, draft, _memory(target, draft) if same else None, chance
                ),
                relation="identical" if same else "differs",
                why="Same vocabulary; a step costs a tenth of the target's." if same else "",
                speedup=best["speedup"] if isinstance(best, dict) else None,
                break_even=0.2 + ratio if same else None,
                at_best=len(found) % 4 == 0,
                size_ratio=ratio,
                trial=measured,
            )
        )
    return sorted(found, key=lambda pair: (pair.relation != "identical", -(pair.speedup or 0)))


def _memory(target: ModelRow, draft: ModelRow) -> MemoryRow:
    sides = (target.nbytes or 0) + (4 << 30), (draft.nbytes or 0) + (1 << 30)
    required, available = sum(sides) + (1 << 30), 79 << 30
    answer = "fits" if required < available else "does-not-fit"
    longest = 65536 if answer == "fits" else None
    return MemoryRow("h100", answer, required, available, longest, *sides)


def _changes(targets: Sequence[ModelRow], drafts: Sequence[ModelRow]) -> list[ChangeRow]:
    def big(number: int) -> str:
        return targets[number % len(targets)].ref

    def small(number: int) -> str:
        return drafts[number % len(drafts)].ref

    def change(
        kind: str, number: int, draft: int, engine: str, before: str | None, after: str | None,
        cause: str, why: str = "", pinned: bool = False,
    ) -> ChangeRow:  # fmt: skip
        return ChangeRow(
            12, kind, big(number), small(draft), engine, engine, "1", None, before, after, cause,
            why, pinned,
        )  # fmt: skip

    return [
        change("new", 0, 0, "vllm", None, "compatible", "new-model"),
        change(
            "broke", 1, 1, "llama.cpp", "compatible", "incompatible",
            "draft-files", "tokenizer.json changed in commit 1f2e3d4", True,
        ),
        change(
            "broke", 2, 14, "sglang", "compatible", "degraded",
            "engine-version", "sglang 0.5.22 became 0.5.23",
        ),
        change(
            "works", 3, 15, "transformers", "incompatible", "compatible",
            "rule", "VLM007 has a new row",
        ),
        change("gone", 4, 16, "ollama", "compatible", None, "vanished"),
    ]  # fmt: skip
