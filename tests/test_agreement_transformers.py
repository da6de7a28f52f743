"""Our verdict against what the installed transformers really does with tiny models."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from draftcheck import check
from tests import make

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
transformers = pytest.importorskip("transformers", reason="the trial extra is not installed")

pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]


def model(path: Path, rows: int = 260, **changes: Any) -> Path:
    """A tiny random Llama with our tokenizer beside it."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=rows, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=128,
        bos_token_id=256, eos_token_id=257, pad_token_id=258, **changes,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    make.write_json(path / "tokenizer.json", make.tokenizer())
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    make.write_json(
        path / "tokenizer_config.json", {**names, "tokenizer_class": "PreTrainedTokenizerFast"}
    )
    return path


def generate(target: Path, draft: Path) -> str:
    """What generate(assistant_model=…) does: "runs", or the error's text."""
    load = transformers.AutoModelForCausalLM.from_pretrained
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ours, theirs = load(target), load(draft)
            prompt = torch.tensor([[5, 6, 7]])
            ours.generate(prompt, assistant_model=theirs, max_new_tokens=8, do_sample=False)
        except ValueError as error:
            return str(error)
    return "runs"


def pipeline(target: Path, draft: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipe = transformers.pipeline(
                "text-generation", model=str(target), assistant_model=str(draft)
            )
            pipe("abc", max_new_tokens=8, do_sample=False)
        except ValueError as error:
            return str(error)
    return "runs"


def predicted(target: Path, draft: Path, method: str = "generate") -> tuple[str, str]:
    engine = f"transformers@{transformers.__version__}"
    [verdict] = check(str(target), str(draft), engines=[engine], method=method).engines
    says = next((f.engine_says or "" for f in verdict.findings if f.rule == verdict.decided_by), "")
    return str(verdict.reaction), says.split("…")[0].strip()


CASES: dict[str, dict[str, Any]] = {
    "same": {},
    "padded": {"rows": 324},
    "one row more": {"rows": 261},
    "tied": {"tie_word_embeddings": True},
}


@pytest.mark.parametrize("name", CASES)
def test_generate(name: str, tmp_path: Path) -> None:
    target, draft = model(tmp_path / "t"), model(tmp_path / "d", **CASES[name])
    reaction, says = predicted(target, draft)
    real = generate(target, draft)
    if reaction == "runs":
        assert real == "runs"
    else:
        assert reaction == "refuses" and real.startswith(says[:60]), (reaction, real)


def test_pipeline_refuses_other_special_ids(tmp_path: Path) -> None:
    target, draft = model(tmp_path / "t"), model(tmp_path / "d")
    assert predicted(target, draft, "pipeline")[0] == "runs"
    assert pipeline(target, draft) == "runs"
    config = draft / "config.json"
    config.write_text(config.read_text().replace('"eos_token_id": 257', '"eos_token_id": [257, 5]'))
    reaction, says = predicted(target, draft, "pipeline")
    assert reaction == "refuses"
    assert pipeline(target, draft).startswith(says[:60])
    assert predicted(target, draft)[0] == generate(target, draft) == "runs"


def test_pipeline_translates_other_sizes(tmp_path: Path) -> None:
    target, draft = model(tmp_path / "t"), model(tmp_path / "d", rows=324)
    assert predicted(target, draft, "pipeline")[0] == "falls-back"
    assert pipeline(target, draft) == "runs"


def test_stateful_models(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.MambaConfig(
        vocab_size=260, hidden_size=16, num_hidden_layers=1, state_size=4
    )
    mamba = tmp_path / "m"
    transformers.MambaForCausalLM(config).save_pretrained(mamba)
    make.write_json(mamba / "tokenizer.json", make.tokenizer())
    plain = model(tmp_path / "t")
    reaction, says = predicted(mamba, plain)
    assert reaction == "refuses" and generate(mamba, plain).startswith(says[:60])
    assert predicted(plain, mamba)[0] == "crashes"
    assert generate(plain, mamba) != "runs"
