"""What we predict a conversion would write, against what the converter's own library finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftcheck.models import read as facts
from draftcheck.models import refs
from tests import make

TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
    "pair": [],
    "special_tokens": {},
}
END = {**TEMPLATE, "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}]}
OTHER = {**TEMPLATE, "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<pad>"}}]}
ROBERTA = {"type": "RobertaProcessing", "sep": ["</s>", 257], "cls": ["<s>", 256]}
BYTES = {"type": "ByteLevel", "add_prefix_space": True}
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}

VARIANTS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    # post-processor, tokenizer_config, changes of config.json
    "byte level": (BYTES, NAMES, {}),
    "template": (TEMPLATE, NAMES, {}),
    "template at the end": (END, NAMES, {}),
    "template with another end": (OTHER, NAMES, {}),
    "both": ({"type": "Sequence", "processors": [BYTES, TEMPLATE]}, NAMES, {}),
    "roberta": (ROBERTA, NAMES, {}),
    "flags in the config only": (
        None,
        {**NAMES, "add_bos_token": True, "add_eos_token": False},
        {},
    ),
    "flags against the template": (TEMPLATE, {**NAMES, "add_bos_token": False}, {}),
    "no names": (None, {}, {}),
    "bos is null": (BYTES, {"bos_token": None, "eos_token": "</s>"}, {}),
    "names as objects": (
        BYTES,
        {"bos_token": {"content": "<s>"}, "eos_token": {"content": "</s>"}},
        {},
    ),
    "eos is a list": (BYTES, {}, {"eos_token_id": [257, 258]}),
    "ids are null": (BYTES, {}, {"eos_token_id": None, "bos_token_id": None}),
    "cls and sep": (TEMPLATE, {"cls_token": "<s>", "sep_token": "</s>"}, {}),
    "ids in text_config": (BYTES, {}, {"bos_token_id": None, "text_config": {"bos_token_id": 3}}),
    "template without bos": (TEMPLATE, {"eos_token": "</s>"}, {}),
}


# bos id, eos id, add_bos, add_eos (None: the key is not written), by gguf-py of b11312.
EXPECTED = {
    "byte level": (256, 257, False, False),
    "template": (256, 257, True, None),
    "template at the end": (256, 257, None, True),
    "template with another end": (256, 258, None, True),
    "both": (256, 257, True, False),
    "roberta": (256, 257, True, True),
    "flags in the config only": (256, 257, True, False),
    "flags against the template": (256, 257, True, None),
    "no names": (256, 257, None, None),
    "bos is null": (256, 257, False, False),
    "names as objects": (256, 257, False, False),
    "eos is a list": (256, None, False, False),
    "ids are null": (None, None, False, False),
    "cls and sep": (256, 257, True, None),
    "ids in text_config": (3, 257, False, False),
    "template without bos": (256, 257, True, None),
}
REAL = {
    "llama2": (1, 2, True, False),
    "llama3_1": (128000, 128009, True, False),
    "llama3_2": (128000, 128009, True, False),
    "mistral_nemo": (1, 2, True, False),
    "qwen2_5": (None, 151645, False, False),
    "qwen3": (None, 151645, False, False),
    "yi": (1, 2, False, False),
}


def predicted(folder: Path) -> tuple[int | None, int | None, bool | None, bool | None]:
    found = facts.read(refs.parse(str(folder))).conversion
    assert found is not None
    return found.bos_id, found.eos_id, found.add_bos, found.add_eos


@pytest.mark.parametrize("name", VARIANTS)
def test_special_tokens(name: str, tmp_path: Path) -> None:
    post_processor, tokenizer_config, changes = VARIANTS[name]
    body = make.tokenizer(post_processor=post_processor)
    folder = make.folder(
        tmp_path / "a", tokenizer_json=body, tokenizer_config=tokenizer_config, config=changes
    )
    assert predicted(folder) == EXPECTED[name]


@pytest.mark.realdata
@pytest.mark.parametrize("name", REAL)
def test_special_tokens_of_real_tokenizers(name: str, realdata: Path) -> None:
    assert predicted(realdata / "tokenizers" / name) == REAL[name]


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("llama2", "llama"),
        ("llama3_1", "gpt2"),
        ("qwen3", "gpt2"),
        ("mistral_nemo", "gpt2"),
        ("yi", "llama"),
    ],
)
def test_tokenizer_model(name: str, model: str, realdata: Path) -> None:
    found = facts.read(refs.parse(str(realdata / "tokenizers" / name))).conversion
    assert found is not None and found.model == model
