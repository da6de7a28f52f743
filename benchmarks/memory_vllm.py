"""The recorded layouts against vLLM's own planner; needs vLLM (its CPU build will do).

python -m benchmarks.memory_vllm
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace as Given
from typing import Any

CASES = Path(__file__).parents[1] / "fixtures" / "memory" / "vllm-0.32.0.json"


def circumstances(case: dict[str, Any]) -> Any:
    """As much of a VllmConfig as the planner looks at."""
    layout = Given(is_block_outermost=False)
    return Given(
        model_config=Given(max_model_len=case["context"]),
        parallel_config=Given(decode_context_parallel_size=1, pipeline_parallel_size=1),
        scheduler_config=Given(disable_hybrid_kv_cache_manager=False),
        max_in_flight_tokens=2 * case["batched"],
        cache_config=Given(mamba_cache_mode="align", get_resolved_kv_cache_layout=lambda: layout),
        speculative_config=None,
        num_speculative_tokens=case["spec"],
    )


def state(layer: dict[str, Any], spec: int) -> tuple[Any, Any]:
    import torch

    shapes, types = [], []
    if layer.get("conv"):
        extra = 0 if layer["state_kind"] == "mamba-1" else spec
        shapes.append((layer["kernel"] - 1 + extra, layer["conv"]))
        types.append(torch.bfloat16)
    if layer.get("state"):
        shapes.append((layer["state"],))
        types.append(torch.float32 if layer["state_kind"] == "kda" else torch.bfloat16)
    return tuple(shapes), tuple(types)


def specs(case: dict[str, Any]) -> dict[str, Any]:
    """The specs that vLLM's layers would hand in, with its block size for hybrids."""
    import torch
    from vllm.v1 import kv_cache_interface as kinds

    first = [layer for _, layer in case["models"][0]]
    attention = [layer for layer in first if layer.get("k")]
    states = [layer for layer in first if layer.get("state_kind")]
    block, padded = 16, None
    if attention and states:
        page = max(
            kinds.MambaSpec(block_size=-1, shapes=s, dtypes=t).page_size_bytes
            for s, t in (state(layer, case["spec"]) for layer in states)
        )
        token = max(2 * _width(layer) for layer in attention)
        step = 128 if any(layer.get("kind") == "mla" for layer in attention) else 16
        block = max(16, step * -(-page // (step * token)))
        padded = block * token
    found: dict[str, Any] = {}
    for at, rows in enumerate(case["models"]):
        for row, (count, layer) in enumerate(rows):
            for number in range(count):
                name = f"{at}.{row}.{number}"
                if layer.get("k"):
                    found[name] = _attention(kinds, layer, block, torch.bfloat16)
                if layer.get("state_kind"):
                    shapes, types = state(layer, case["spec"])
                    found[f"{name}.state"] = kinds.MambaSpec(
                        block_size=block, shapes=shapes, dtypes=types, page_size_padded=padded,
                        mamba_cache_mode="align", num_speculative_blocks=case["spec"],
                    )  # fmt: skip
    return found


def _width(layer: dict[str, Any]) -> int:
    if layer.get("kind") == "mla":
        return int(layer["k"])
    return int(layer["kv_heads"] * (layer["k"] + layer["v"]))


def _attention(kinds: Any, layer: dict[str, Any], block: int, dtype: Any) -> Any:
    if layer.get("kind") == "mla":
        return kinds.MLAAttentionSpec(
            block_size=block, num_kv_heads=1, head_size=layer["k"], dtype=dtype
        )
    common = {
        "block_size": block, "num_kv_heads": layer["kv_heads"], "head_size": layer["k"],
        "head_size_v": layer["v"], "dtype": dtype,
    }  # fmt: skip
    if layer.get("kind") == "sliding":
        return kinds.SlidingWindowSpec(sliding_window=layer["window"], **common)
    if layer.get("kind") == "chunked":
        return kinds.ChunkedLocalAttentionSpec(attention_chunk_size=layer["window"], **common)
    return kinds.FullAttentionSpec(**common)


def main() -> int:
    from vllm.v1.core import kv_cache_utils as planner

    # Asked of the whole deployment elsewhere; they do not change the layout.
    planner.get_hisparse_kv_cache_groups = lambda *_: None
    planner._annotate_eagle_groups = lambda *_, **__: None
    planner._warn_if_unannotated_eagle_mamba = lambda *_, **__: None
    planner._uses_trailing_mtp_layers = lambda *_: False
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    different = 0
    for case in cases:
        given = circumstances(case)
        try:
            groups = planner.get_kv_cache_groups(given, specs(case))
            real = planner._max_memory_usage_bytes_from_groups(given, groups)
        except (NotImplementedError, AssertionError):
            real = None
        if real != case["bytes"]:
            different += 1
            print(f"{case['name']}: vLLM {real}, recorded {case['bytes']}")
    print(f"{len(cases) - different} of {len(cases)} equal")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
