"""A made-up scan in plain values: families, all engines, trials, changes, hostile names."""

from __future__ import annotations

import random
from collections.abc import Sequence

from draftcheck.report.site.data import (
    EngineColumn,
    SiteAnswer,
    SiteChange,
    SiteData,
    SiteMemory,
    SiteModel,
    SitePair,
    SitePart,
    SitePin,
    SiteReason,
    SiteScan,
)
from draftcheck.rulebook import book
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
FAMILIES = ("qwen3", "llama3", "gemma3", "mistral", "phi4", "olmo2")
REASONS = {
    "tokens": SiteReason(
        "LCP004", "token-text-differs", "Token texts differ from id 5 on", "fail",
        "token 151665 is '[PAD151665]' in the target, '<tool_response>' in the draft (4 differ)",
        "Use a draft of the same family, converted by the same publisher.",
    ),
    "gap": SiteReason(
        "LCP003", "vocab-size-gap", "Vocabulary sizes differ by more than 128", "fail",
        "152,064 and 151,552 tokens, gap 512, limit 128", "Use a draft of the same family.",
    ),
    "unread": SiteReason(
        "LCP005", "special-tokens", "The special tokens differ", "unknown",
        "the tokenizer of the draft was not read",
    ),
}  # fmt: skip


def models(count: int, sizes: Sequence[float], word: str, seed: int) -> list[SiteModel]:
    chance = random.Random(seed)
    found = []
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        size = sizes[number // len(FAMILIES) % len(sizes)]
        head = word == "draft" and number % 11 == 10
        name = f"lab-{number % 7}/{family}-{size:g}b-{word}-{number}"
        found.append(
            SiteModel(
                ref=name,
                revision=f"{chance.getrandbits(160):040x}",
                kind="eagle3" if head else "full",
                family=f"sha256:{family}",
                architecture=family,
                parameters=int(size * 1e9),
                nbytes=int(size * 2e9),
                context=32768,
                rows=151936 if family == "qwen3" else 128256,
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
    }  # fmt: skip


def answers(
    same: bool, draft: SiteModel, memory: SiteMemory | None, chance: random.Random
) -> tuple[SiteAnswer, ...]:
    kind = draft.kind
    found = []
    for place, name in enumerate(book.engine_files()):
        engine = book.load(name)
        verdict, reaction, reasons = Verdict.COMPATIBLE, "runs", ()
        if not same:
            verdict = Verdict.INCOMPATIBLE
            reaction = ("ignores-draft", "refuses", "runs", "crashes")[place % 4]
            reasons = (REASONS["tokens" if place % 2 else "gap"],)
        elif kind != "full" and place % 3:
            verdict, reaction = Verdict.INCOMPATIBLE, "refuses"
            reasons = (REASONS["gap"],)
        elif chance.random() < 0.06:
            verdict, reaction, reasons = Verdict.UNDECIDED, "unknown", (REASONS["unread"],)
        elif chance.random() < 0.15:
            verdict, reaction, reasons = Verdict.DEGRADED, "falls-back", (REASONS["tokens"],)
        setup = None
        if verdict is Verdict.COMPATIBLE:
            setup = f"{name} serve target \\\n  --speculative-model '{draft.ref}' --draft-tokens 4"
        method = "draft_model" if kind == "full" else kind
        found.append(
            SiteAnswer(
                name,
                name,
                engine.checked,
                verdict,
                reaction,
                method,
                place != 5,
                tuple(reasons),
                setup,
                memory,
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
        big[:2] = [_renamed(big[0], HOSTILE[0]), _renamed(big[1], HOSTILE[3])]
        small[: len(HOSTILE)] = [
            _renamed(model, name) for model, name in zip(small, HOSTILE, strict=False)
        ]
    pairs = {
        target.ref: _pairs(number, target, small, dense, chance)
        for number, target in enumerate(big)
    }
    changes = _changes(big, small)
    counts = {"listed": 30000, "candidates": 412, "models": drafts, "requests": 1234}
    before = SiteScan(11, "2026-11-14T02:00:00+00:00", "2026-11-14T02:39:00+00:00", "0.1.0")
    return SiteData(
        title="Nightly drafts",
        targets=big,
        drafts=small,
        columns=[EngineColumn(name, name, book.load(name).checked) for name in book.engine_files()],
        alone={
            big[-1].ref: [SiteAnswer("vllm", "vllm", "0.32.0", Verdict.COMPATIBLE, "runs", "ngram")]
        },
        pairs=pairs,
        scan=SiteScan(
            12, "2026-11-15T02:00:00+00:00", "2026-11-15T02:41:07+00:00", "0.1.0", counts=counts
        ),
        previous=before,
        changes=changes,
        earlier=[(before, changes[:2])],
        pins=_pins(changes[1], pairs[big[-1].ref]),
        unread=[SiteModel("lab/gated-<i>", kind="full", unread="gated: ask its <b>owner</b>")],
    )


def _pins(change: SiteChange, pairs: Sequence[SitePair]) -> list[SitePin]:
    """One on two engines, a good one, and one that no engine takes."""
    found = [SitePin(change.target, change.draft or "", ("vllm", "llama.cpp"))]
    found += [SitePin(pair.target, pair.draft) for pair in (pairs[0], pairs[-1])]
    return list({(pin.target, pin.draft): pin for pin in found}.values())


def _renamed(model: SiteModel, ref: str) -> SiteModel:
    fields = {name: getattr(model, name) for name in SiteModel.__slots__}
    return SiteModel(**{**fields, "ref": ref})


def _pairs(
    number: int, target: SiteModel, drafts: Sequence[SiteModel], dense: bool, chance: random.Random
) -> list[SitePair]:
    found = []
    for draft in drafts:
        same = draft.architecture == target.architecture
        if not (same or dense):
            continue
        usable = same and draft.kind == "full"
        measured = trial(2.0, chance) if usable and number % 2 == 0 and len(found) % 5 < 2 else None
        best = measured and measured["best"]
        ratio = (draft.parameters or 0) / (target.parameters or 1)
        found.append(
            SitePair(
                target=target.ref,
                draft=draft.ref,
                answers=answers(same, draft, _memory(target, draft) if same else None, chance),
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


def _memory(target: SiteModel, draft: SiteModel) -> SiteMemory:
    parts = (
        SitePart("target", "weights", target.nbytes or 0),
        SitePart("target", "kv", 4 << 30),
        SitePart("draft", "weights", draft.nbytes or 0),
        SitePart("draft", "kv", 1 << 30),
        SitePart("engine", "overhead", 1 << 30),
    )
    required = sum(part.nbytes for part in parts)
    available = 79 << 30
    answer = "fits" if required < available else "does-not-fit"
    return SiteMemory(
        "h100", answer, required, available, 65536 if answer == "fits" else None, parts
    )


def _changes(targets: Sequence[SiteModel], drafts: Sequence[SiteModel]) -> list[SiteChange]:
    def big(number: int) -> str:
        return targets[number % len(targets)].ref

    def small(number: int) -> str:
        return drafts[number % len(drafts)].ref

    return [
        SiteChange("new", big(0), small(0), "vllm", None, "compatible", "new-model"),
        SiteChange(
            "broke", big(1), small(1), "llama.cpp", "compatible", "incompatible",
            "draft-files", "tokenizer.json changed in commit 1f2e3d4", True,
        ),
        SiteChange(
            "broke", big(2), small(14), "sglang", "compatible", "degraded",
            "engine-version", "sglang 0.5.22 became 0.5.23",
        ),
        SiteChange(
            "works", big(3), small(15), "transformers", "incompatible", "compatible",
            "rule", "VLM007 has a new row",
        ),
        SiteChange("gone", big(4), small(16), "ollama", "compatible", None, "vanished"),
    ]  # fmt: skip
