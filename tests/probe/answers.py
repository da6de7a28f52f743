"""Answers written after the engines' sources, with figures from real runs where there are some."""

from __future__ import annotations

from typing import Any

from tests.probe.server import answer


def models(owner: str | None, name: str = "org/model") -> dict[str, Any]:
    entry = {"id": name, "object": "model", "created": 1}
    return answer({"object": "list", "data": [entry | ({"owned_by": owner} if owner else {})]})


def vllm_metrics(
    drafts: int | None = None,
    drafted: int = 0,
    accepted: int = 0,
    positions: tuple[int, ...] = (),
    generated: int = 0,
    engine: int = 0,
) -> str:
    """vLLM's /metrics; without drafts as it is when speculation is not set up."""
    label = f'engine="{engine}",model_name="org/model"'
    lines = ['python_info{version="3.12"} 1.0', f"vllm:num_requests_running{{{label}}} 0.0"]
    lines.append(f"vllm:generation_tokens_total{{{label}}} {float(generated)}")
    if drafts is not None:
        for name, value in (
            ("num_drafts", drafts),
            ("num_draft_tokens", drafted),
            ("num_accepted_tokens", accepted),
        ):
            lines.append(f"# TYPE vllm:spec_decode_{name}_total counter")
            lines.append(f"vllm:spec_decode_{name}_total{{{label}}} {float(value)}")
            lines.append(f"# TYPE vllm:spec_decode_{name}_created gauge")
            lines.append(f"vllm:spec_decode_{name}_created{{{label}}} 1.7630000000e+09")
        for at, value in enumerate(positions):
            name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            lines.append(f'{name}{{{label},position="{at}"}} {float(value)}')
    return "\n".join(lines) + "\n"


def vllm(*metrics: str, version: str = "0.32.0") -> dict[str, Any]:
    """A vLLM server whose metrics change from question to question."""
    return {
        "/v1/models": models("vllm"),
        "/version": answer({"version": version}),
        "/metrics": [answer(text) for text in metrics],
        "POST /v1/completions": answer({"choices": [{"text": "x"}], "usage": {}}),
    }


def sglang(info: dict[str, Any], metrics: str | None = None) -> dict[str, Any]:
    routes = {
        "/v1/models": models("sglang"),
        "/server_info": answer({"version": "0.5.23", "served_model_name": "org/model", **info}),
    }
    return routes | ({"/metrics": answer(metrics)} if metrics is not None else {})


STANDALONE = {
    "speculative_algorithm": "STANDALONE",
    "speculative_draft_model_path": "org/small",
    "speculative_num_draft_tokens": 4,
    "api_key": "sk-of-the-server",
    "internal_states": [{"avg_spec_accept_length": 2.5}],
}


def sglang_metrics(calls: int, generated: int, requests: int) -> str:
    return (
        f'sglang:spec_verify_calls_total{{model_name="m"}} {calls}.0\n'
        f'sglang:generation_tokens_total{{is_streaming="true",model_name="m"}} {generated - 10}.0\n'
        'sglang:generation_tokens_total{is_streaming="false",model_name="m"} 10.0\n'
        f'sglang:num_requests_total{{model_name="m"}} {requests}.0\n'
    )


def tabby(draft: Any = None, permission: str = "api", listed: list[Any] | None = None) -> Any:
    card = {"id": "big-exl3", "parameters": {"max_seq_len": 4096, "draft": draft}}
    return {
        "/v1/models": models("tabbyAPI", "big-exl3"),
        "/v1/model": answer(card),
        "/v1/auth/permission": answer({"permission": permission}),
        "/v1/model/draft/list": answer({"object": "list", "data": listed or []}),
    }


def ollama(modelfile: str = "", parameters: str = "", nextn: int = 0) -> dict[str, Any]:
    info = {"general.architecture": "qwen35", "qwen35.nextn_predict_layers": nextn}
    return {
        "/v1/models": models("library", "qwen3.5:latest"),
        "/api/version": answer({"version": "0.33.0"}),
        "/api/ps": answer({"models": [{"name": "qwen3.5:latest", "model": "qwen3.5:latest"}]}),
        "POST /api/show": answer(
            {"modelfile": modelfile, "parameters": parameters, "model_info": info}
        ),
    }


def lm_studio(stats: dict[str, Any] | None = None) -> dict[str, Any]:
    entry = {"id": "big", "type": "llm", "compatibility_type": "gguf", "state": "loaded"}
    other = {"id": "idle", "type": "llm", "compatibility_type": "mlx", "state": "not-loaded"}
    completion = {"usage": {"completion_tokens": 48}, "stats": stats}
    return {
        "/v1/models": models("organization_owner", "idle"),
        "/api/v0/models": answer({"object": "list", "data": [other, entry]}),
        "POST /api/v0/completions": answer(completion),
        "*": answer({"error": "Unexpected endpoint or method."}),
    }
