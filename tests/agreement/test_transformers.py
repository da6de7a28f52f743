"""Our verdict against what the installed transformers really does with tiny models.

Each case is one pair and method: transformers is run, and its reaction, with the words of its
error, must be the one that we predict for this very version.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftcheck import check
from draftcheck.why.messages import ONE_OF
from tests import make

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
transformers = pytest.importorskip("transformers", reason="the trial extra is not installed")

from tests import tiny  # noqa: E402

pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]
VERSION = transformers.__version__
TEXT = "the cat sat on the cat"
DRAFTING = {
    "prompt_lookup": {"prompt_lookup_num_tokens": 3},
    "use_mtp": {"use_mtp": True},
    "early_exit": {"assistant_early_exit": 1},
    "dflash": {"speculation_type": "dflash"},
}


def real(target: Path, draft: Path | None, method: str, tokens: int) -> str:
    """What transformers does: "runs", or the error's text; greedy output must be the target's."""
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        try:
            if method == "pipeline":
                pipe = transformers.pipeline(
                    "text-generation", model=str(target), assistant_model=str(draft)
                )
                pipe(TEXT, max_new_tokens=tokens, do_sample=False)
            else:
                generate(target, draft, method, tokens)
        except Exception as error:  # whatever it is, it is the reaction
            return f"{type(error).__name__}: {error}"
    return "runs"


def generate(target: Path, draft: Path | None, method: str, tokens: int) -> None:
    load = transformers.AutoModelForCausalLM.from_pretrained
    tokenizer = transformers.AutoTokenizer.from_pretrained(target)
    model = load(target)
    inputs = tokenizer(TEXT, return_tensors="pt")
    said: dict[str, Any] = dict(DRAFTING.get(method, {}))
    if draft is not None:
        kind = transformers.AutoModel if method == "dflash" else transformers.AutoModelForCausalLM
        said["assistant_model"] = kind.from_pretrained(draft)
    if method in ("UAD", "USD"):
        said["tokenizer"] = tokenizer
        said["assistant_tokenizer"] = transformers.AutoTokenizer.from_pretrained(draft)
    sample = method == "USD"
    out = model.generate(**inputs, max_new_tokens=tokens, do_sample=sample, **said)
    if not sample:
        alone = load(target).generate(**inputs, max_new_tokens=tokens, do_sample=False)
        assert torch.equal(out, alone), "greedy output is not the target's own"


def predicted(
    target: Path, draft: Path | None, method: str, context: int | None = None
) -> tuple[str, str]:
    """Our reaction, and the engine's words that we promise."""
    models = [str(target)] if draft is None else [str(target), str(draft)]
    engine = f"transformers@{VERSION}"
    [verdict] = check(*models, engines=[engine], method=method, context=context).engines
    says = next((f.engine_says or "" for f in verdict.findings if f.rule == verdict.decided_by), "")
    return str(verdict.reaction), says


def matches(says: str, text: str) -> bool:
    """Whether the error holds one of the messages; "…" stands for anything."""
    said = [".*".join(map(re.escape, one.split("…"))) for one in says.split(ONE_OF)]
    return any(re.search(one, text, re.DOTALL) for one in said)


Make = Callable[[Path], Path]


def plain(**changes: Any) -> Make:
    return lambda path: tiny.llama(path, **changes)


def kind(config: str, **changes: Any) -> Make:
    return lambda path: tiny.save(path, config, **{**tiny.BASE, **changes})


TARGET = plain(num_hidden_layers=2)
LONGER = plain(num_hidden_layers=2, vocab_size=261)
MERGED = plain(tokenizer=tiny.merged_tokenizer(), vocab_size=266)
MAMBA: Make = lambda path: tiny.save(  # noqa: E731
    path, "MambaConfig", vocab_size=260, hidden_size=16, num_hidden_layers=1, state_size=4
)
MAMBA2: Make = lambda path: tiny.save(  # noqa: E731
    path, "Mamba2Config", vocab_size=260, hidden_size=16, num_hidden_layers=1, state_size=4,
    num_heads=4, head_dim=8, expand=2, n_groups=1,
)  # fmt: skip
RWKV: Make = lambda path: tiny.save(  # noqa: E731
    path, "RwkvConfig", vocab_size=260, hidden_size=32, num_hidden_layers=2,
    attention_hidden_size=32, intermediate_size=32, context_length=128,
)  # fmt: skip
GPT2: Make = lambda path: tiny.save(  # noqa: E731
    path, "GPT2Config", vocab_size=260, n_embd=32, n_layer=1, n_head=2, n_positions=24,
    bos_token_id=256, eos_token_id=257, pad_token_id=258,
)  # fmt: skip
T5: Make = lambda path: tiny.save(  # noqa: E731
    path, "T5Config", None, "T5ForConditionalGeneration", vocab_size=260, d_model=32, d_kv=16,
    d_ff=32, num_layers=1, num_heads=2,
)  # fmt: skip
QWEN3_NEXT = kind(
    "Qwen3NextConfig", **tiny.LINEAR, num_experts=2, num_experts_per_tok=1,
    moe_intermediate_size=16, shared_expert_intermediate_size=16,
)  # fmt: skip
QWEN3_5 = kind("Qwen3_5TextConfig", **tiny.LINEAR)
LFM2 = kind(
    "Lfm2Config", layer_types=["conv", "full_attention"], num_hidden_layers=2,
    block_auto_adjust_ff_dim=False,
)  # fmt: skip
MIXTRAL = kind("MixtralConfig", num_local_experts=2, num_experts_per_tok=1)
GEMMA2 = kind("Gemma2Config", head_dim=16, sliding_window=8)
MISTRAL = kind("MistralConfig", sliding_window=8)
BLOCKS: Make = tiny.block_drafter
BIG_TARGET = plain(num_hidden_layers=2, max_position_embeddings=24)

# name -> target, draft, methods
PAIRS: dict[str, tuple[Make, Make | None, str]] = {
    "same": (TARGET, plain(), "generate pipeline UAD USD"),
    "tied": (TARGET, plain(tie_word_embeddings=True), "generate pipeline"),
    "half precision": (TARGET, plain(dtype="bfloat16"), "generate"),
    "64 rows more": (TARGET, plain(vocab_size=324), "generate pipeline UAD USD"),
    "one row more": (TARGET, plain(vocab_size=261), "generate pipeline UAD USD"),
    "one row less": (LONGER, plain(), "generate pipeline UAD USD"),
    "tied and padded": (TARGET, plain(vocab_size=324, tie_word_embeddings=True), "UAD USD"),
    "draft has more tokens": (TARGET, MERGED, "generate pipeline UAD USD"),
    "draft has fewer tokens": (MERGED, plain(), "generate pipeline UAD USD"),
    "other eos": (TARGET, plain(eos_token_id=[257, 5]), "generate pipeline"),
    "other pad": (TARGET, plain(pad_token_id=0), "generate pipeline"),
    "mamba target": (MAMBA, plain(), "generate pipeline"),
    "mamba draft": (TARGET, MAMBA, "generate"),
    "mamba draft, translated": (LONGER, MAMBA, "UAD"),
    "mamba2 draft": (TARGET, MAMBA2, "generate"),
    "rwkv target": (RWKV, plain(), "generate"),
    "qwen3-next target": (QWEN3_NEXT, plain(), "generate"),
    "qwen3-next draft": (TARGET, QWEN3_NEXT, "generate"),
    "qwen3.5 target": (QWEN3_5, plain(), "generate"),
    "qwen3.5 draft": (TARGET, QWEN3_5, "generate"),
    "lfm2 both": (LFM2, LFM2, "generate"),
    "experts": (MIXTRAL, MIXTRAL, "generate"),
    "sliding target": (GEMMA2, plain(), "generate"),
    "sliding draft": (TARGET, GEMMA2, "generate"),
    "short learned positions": (TARGET, GPT2, "generate"),
    "short learned positions, within": (BIG_TARGET, GPT2, "generate"),
    "t5 target": (T5, plain(), "generate"),
    "alone": (TARGET, None, "prompt_lookup early_exit use_mtp"),
    "mamba alone": (MAMBA, None, "prompt_lookup early_exit"),
    "qwen3-next alone": (QWEN3_NEXT, None, "prompt_lookup"),
    "sliding alone": (MISTRAL, None, "prompt_lookup"),
    "named mtp layers": (
        lambda path: tiny.edit(tiny.llama(path), num_mtp_layers=1), None, "use_mtp"),
    "mtp at a depth nobody published": (lambda path: tiny.with_mtp(path, 4), None, "use_mtp"),
    "mtp weights left out": (lambda path: tiny.with_mtp(path, 46, weights=False), None, "use_mtp"),
    "blocks": (TARGET, BLOCKS, "dflash"),
    "blocks for a padded target": (plain(num_hidden_layers=2, vocab_size=324), BLOCKS, "dflash"),
    "blocks of a deeper target": (
        TARGET, lambda path: tiny.block_drafter(path, target_layer_ids=[0, 2]), "dflash"),
    "blocks of a wider target": (
        TARGET, lambda path: tiny.block_drafter(path, hidden_size=64), "dflash"),
    "blocks with a foreign mask": (
        TARGET, lambda path: tiny.block_drafter(path, mask_token_id=260), "dflash"),
    "assistant": (tiny.gemma4, tiny.assistant, "gemma4_assistant"),
    "assistant of another target": (TARGET, tiny.assistant, "gemma4_assistant"),
    "mtp at a published depth": (lambda path: tiny.with_mtp(path, 46), None, "use_mtp"),
    "blocks from a llama": (TARGET, plain(), "dflash"),
}  # fmt: skip
CASES = [(name, method) for name, (_, _, methods) in PAIRS.items() for method in methods.split()]
SHORT = {"short learned positions, within"}
# One rule speaks of the class that our setup loads, where the reason lies with another.
OTHER_WORDS = {("named mtp layers", "use_mtp")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make], Path]:
    """Models are made once for all the pairs that they are in."""
    there: dict[int, Path] = {}

    def path(make_it: Make) -> Path:
        if id(make_it) not in there:
            there[id(make_it)] = make_it(tmp_path_factory.mktemp("models") / "model")
        return there[id(make_it)]

    return path


@pytest.mark.parametrize(("name", "method"), CASES, ids=lambda word: word.replace(" ", "-"))
def test_reaction(name: str, method: str, made: Callable[[Make], Path]) -> None:
    make_target, make_draft, _ = PAIRS[name]
    target, draft = made(make_target), made(make_draft) if make_draft else None
    tokens = 1 if name in SHORT else 12
    reaction, says = predicted(target, draft, method, context=24 if name in SHORT else None)
    done = real(target, draft, method, tokens)
    if reaction in ("runs", "falls-back"):
        assert done == "runs"
    else:
        assert reaction in ("refuses", "crashes"), (reaction, done)
        assert done != "runs"
        assert (name, method) in OTHER_WORDS or matches(says, done), (says, done)


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 55
    assert {method for _, method in CASES} >= {
        "generate", "pipeline", "UAD", "USD", "prompt_lookup", "early_exit", "use_mtp", "dflash",
        "gemma4_assistant",
    }  # fmt: skip


def test_sampling_in_pipeline_crashes_as_we_say(made: Callable[[Make], Path]) -> None:
    target, draft = made(TARGET), made(PAIRS["64 rows more"][1] or TARGET)
    [verdict] = check(
        str(target), str(draft), engines=[f"transformers@{VERSION}"], method="pipeline"
    ).engines
    said = next(f for f in verdict.findings if f.rule == "TRF021")
    assert str(said.outcome) == "fail"
    pipe = transformers.pipeline("text-generation", model=str(target), assistant_model=str(draft))
    with pytest.raises(AttributeError, match="AssistantToTargetTranslator"):
        pipe(TEXT, max_new_tokens=8)


def test_an_unknown_quantisation_is_skipped_as_we_say(tmp_path: Path) -> None:
    target, draft = tiny.llama(tmp_path / "t", num_hidden_layers=2), tiny.llama(tmp_path / "d")
    tiny.edit(draft, quantization_config={"quant_method": "exl3", "bits": 4})
    [verdict] = check(str(target), str(draft), engines=[f"transformers@{VERSION}"]).engines
    assert (str(verdict.reaction), str(verdict.verdict)) == ("runs", "incompatible")
    assert real(target, draft, "generate", 8) == "runs"


def test_the_tokenizer_of_the_cases_is_ours(made: Callable[[Make], Path]) -> None:
    """The real tokenizer numbers the tokens as our reader does."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(made(MERGED))
    assert tokenizer.get_vocab()["th"] == 256
    assert len(tokenizer) == len(make.byte_vocabulary()) + len(tiny.MERGES) + len(make.SPECIALS)
