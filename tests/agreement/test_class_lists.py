"""The reader of class trees, held against small trees with the shapes that engines use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agreement import class_lists

REGISTRY = """
_TEXT_GENERATION_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    "CousinForCausalLM": ("cousin", "CousinForCausalLM"),
    "PlainForCausalLM": ("plain", "PlainForCausalLM"),
}
_SPECULATIVE_DECODING_MODELS = {"DFlashDraftModel": ("draft", "Drafter")}
"""
LLAMA = """
class LlamaModel(nn.Module):
    supports_aux_hidden_states_over_pp = True

class LlamaForCausalLM(nn.Module, SupportsEagle3):
    def __init__(self):
        self.model = self._init_model()

    def _init_model(self):
        return LlamaModel()
"""
COUSIN = """
class LlamaModel(nn.Module):
    supports_aux_hidden_states_over_pp = False

class CousinForCausalLM(LlamaForCausalLM):
    def _init_model(self):
        return LlamaModel()
"""
ENTRIES = """
class BaseForCausalLM:
    def set_eagle3_layers_to_capture(self): ...

class ChildForCausalLM(BaseForCausalLM): ...

class ChildForCausalLMNextN(BaseForCausalLM): ...

EntryClass = [ChildForCausalLM, ChildForCausalLMNextN]
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def vllm(tmp_path: Path) -> Path:
    files = {"registry": REGISTRY, "llama": LLAMA, "cousin": COUSIN, "plain": "class A: ..."}
    return write(tmp_path, {f"model_executor/models/{n}.py": text for n, text in files.items()})


def test_inherited_interfaces_and_what_a_model_is_built_of(vllm: Path) -> None:
    """A class of the same module counts before one of the same name elsewhere."""
    assert class_lists.vllm_gives_states(vllm) == {"LlamaForCausalLM", "CousinForCausalLM"}
    assert class_lists.vllm_states_over_stages(vllm) == {"LlamaForCausalLM"}
    assert class_lists.vllm_drafts(vllm) == {"DFlashDraftModel"}


def test_entries_and_inherited_methods(tmp_path: Path) -> None:
    write(tmp_path, {"srt/models/child.py": ENTRIES})
    assert class_lists.sglang_gives_states(tmp_path) == {"ChildForCausalLM"}


def test_a_renamed_architecture_counts_as_its_class(tmp_path: Path) -> None:
    config = """
class NewConfig:
    def __init__(self, **kwargs):
        kwargs["architectures"].remove("NewForCausalLM")
        kwargs["architectures"].append("ChildForCausalLM")
"""
    write(tmp_path, {"srt/models/child.py": ENTRIES, "srt/configs/new.py": config})
    found = class_lists.sglang_keeps_embedding(tmp_path)
    assert found == {"ChildForCausalLM", "NewForCausalLM"}


def test_differences_are_named(vllm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert class_lists.main(["vllm", f"0.32.0={vllm}"]) == 1
    told = capsys.readouterr().out
    assert "VLL104 0.32.0: CousinForCausalLM is in the source, not in the row" in told
    assert "VLL104 0.32.0: Qwen3ForCausalLM is in the row, not in the source" in told
    assert "VLL104 0.32.0: LlamaForCausalLM" not in told
