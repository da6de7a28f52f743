"""vLLM, SGLang, TabbyAPI, Ollama, LM Studio, mlx_lm.server, trtllm-serve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.probe import answers
from tests.probe.conftest import Ask, Serve
from tests.probe.server import answer

# Counted by vLLM 0.32.0 with random tiny models, four draft tokens.
SAME = answers.vllm_metrics(52, 208, 208, (52, 52, 52, 52), 256)
FOREIGN = answers.vllm_metrics(251, 1004, 1, (1, 0, 0, 0), 256)
MAPPED = answers.vllm_metrics(170, 680, 82, (49, 15, 9, 9), 256)


def found(ran: Any) -> tuple[int, str, list[str]]:
    """Exit code, state and causes."""
    body = ran.json
    return ran.code, body["state"], [cause["id"] for cause in body["causes"]]


def test_vllm_at_work(ask: Ask) -> None:
    ran = ask(answers.vllm(MAPPED))
    assert found(ran) == (0, "speculating", [])
    assert (ran.json["engine"], ran.json["version"]) == ("vllm", "0.32.0")
    since = ran.json["since_start"]
    assert since["mean_accepted_length"] == pytest.approx(1.482, abs=0.001)
    assert since["acceptance_rate"] == pytest.approx(82 / 680)
    assert since["conditional_by_position"] == pytest.approx([49 / 170, 15 / 49, 9 / 15, 1])
    assert ask(answers.vllm(SAME)).json["since_start"]["mean_accepted_length"] == 5


def test_vllm_with_another_vocabulary(ask: Ask) -> None:
    ran = ask(answers.vllm(FOREIGN))
    assert found(ran) == (1, "not-accepting", ["rejected"])
    assert "draftcheck pair" in ran.json["causes"][0]["fix"]


def test_vllm_off_idle_or_silent(ask: Ask) -> None:
    off = answers.vllm(answers.vllm_metrics())
    assert found(ask(off)) == (1, "not-speculating", ["off"])
    idle = answers.vllm(answers.vllm_metrics(0, 0, 0, (0, 0), 0))
    assert found(ask(idle)) == (3, "configured", ["no-request"])
    silent = answers.vllm('# TYPE python_info gauge\npython_info{version="3.12"} 1.0\n')
    assert found(ask(silent)) == (3, "unknown", ["stats-off"])
    few = answers.vllm(answers.vllm_metrics(6, 24, 0, (0, 0), 7))
    assert found(ask(few)) == (3, "unknown", ["few-drafts"])
    vain = answers.vllm(answers.vllm_metrics(0, 0, 0, (0, 0), 4000))
    assert found(ask(vain)) == (1, "not-speculating", ["never-drafts"])


def test_vllm_metrics_not_forwarded(ask: Ask) -> None:
    routes = {"/v1/models": answers.models("vllm")}
    assert found(ask(routes)) == (3, "unknown", ["no-metrics"])
    page = answer("<html>a gateway</html>")
    assert found(ask(routes | {"/metrics": page})) == (3, "unknown", ["no-metrics"])


def test_vllm_of_the_first_engine(ask: Ask) -> None:
    """V0 declared its gauges always and filled them at the first draft."""
    declared = (
        "# TYPE vllm:spec_decode_draft_acceptance_rate gauge\n"
        'vllm:num_requests_running{model_name="m"} 0.0\n'
    )
    assert found(ask(answers.vllm(declared, version="0.6.2"))) == (3, "unknown", ["no-evidence"])
    filled = (
        declared + 'vllm:spec_decode_draft_acceptance_rate{model_name="m"} 0.6\n'
        'vllm:spec_decode_num_accepted_tokens_total{model_name="m"} 600.0\n'
        'vllm:spec_decode_num_draft_tokens_total{model_name="m"} 1000.0\n'
    )
    ran = ask(answers.vllm(filled, version="0.6.2"))
    assert ran.code == 0 and ran.json["since_start"]["acceptance_rate"] == 0.6


def test_vllm_sums_its_engines(ask: Ask) -> None:
    both = MAPPED + answers.vllm_metrics(30, 120, 60, (30, 30, 0, 0), 90, engine=1)
    since = ask(answers.vllm(both)).json["since_start"]
    assert (since["drafts"], since["accepted_tokens"], since["generated_tokens"]) == (200, 142, 346)
    assert since["acceptance_by_position"] == pytest.approx([79 / 200, 45 / 200, 9 / 200, 9 / 200])


def test_vllm_needs_no_key_for_its_metrics(ask: Ask) -> None:
    routes = answers.vllm(MAPPED) | {"/v1/models": answer({"error": "Unauthorized"}, 401)}
    ran = ask(routes)
    assert ran.code == 0 and "/metrics" in ran.json["recognised_by"]


def test_vllm_follows_its_own_redirect(ask: Ask) -> None:
    """Older ones send /metrics to /metrics/."""
    routes = answers.vllm() | {
        "/metrics": answer("", 307, Location="/metrics/"),
        "/metrics/": answer(MAPPED),
    }
    assert ask(routes).code == 0


def test_vllm_interval(ask: Ask) -> None:
    """Good since start, broken now."""
    worse = answers.vllm_metrics(270, 1080, 83, (50, 15, 9, 9), 356)
    ran = ask(answers.vllm(MAPPED, worse), "--interval", "0.1")
    assert found(ran) == (1, "not-accepting", ["rejected"])
    assert ran.json["interval"]["mean_accepted_length"] == pytest.approx(1.01)
    assert ran.json["since_start"]["mean_accepted_length"] > 1.05


def test_vllm_prompt_by_its_counters(run: Run, serve: Serve) -> None:
    """They may follow the answer by a moment."""
    after = answers.vllm_metrics(182, 728, 117, (61, 24, 16, 16), 304)
    fake = serve(answers.vllm(MAPPED, MAPPED, after))
    ran = run("probe", fake.url, "--format", "json", "--prompt", "hello")
    assert found(ran) == (0, "speculating", [])
    assert (ran.json["prompt"]["drafts"], ran.json["prompt"]["accepted_tokens"]) == (12, 35)
    assert fake.bodies == [
        {"model": "org/model", "prompt": "hello", "max_tokens": 48, "temperature": 0}
    ]


def test_vllm_prompt_by_its_answer(ask: Ask) -> None:
    told = {
        "acceptance_histogram": [4, 1, 1, 1, 5],
        "num_spec_steps": 12,
        "num_draft_tokens": 48,
        "num_accepted_draft_tokens": 26,
    }
    body = {"metrics": {"speculative_decoding": told}}
    routes = answers.vllm(MAPPED) | {"POST /v1/completions": answer(body)}
    prompt = ask(routes, "--prompt", "hello").json["prompt"]
    assert prompt["acceptance_by_position"] == pytest.approx([8 / 12, 7 / 12, 6 / 12, 5 / 12])
    assert prompt["acceptance_rate"] == pytest.approx(26 / 48)


def test_sglang_at_work(ask: Ask) -> None:
    ran = ask(answers.sglang(answers.STANDALONE))
    assert found(ran) == (0, "speculating", [])
    assert (ran.json["engine"], ran.json["version"]) == ("sglang", "0.5.23")
    assert (ran.json["method"], ran.json["draft"]) == ("STANDALONE", "org/small")
    assert ran.json["since_start"]["mean_accepted_length"] == 2.5
    assert ran.json["since_start"]["acceptance_rate"] == pytest.approx(0.5)
    assert "sk-of-the-server" not in ran.out


def test_sglang_off_idle_or_rejecting(ask: Ask) -> None:
    assert found(ask(answers.sglang({"speculative_algorithm": None}))) == (
        1,
        "not-speculating",
        ["off"],
    )
    idle = answers.STANDALONE | {"internal_states": [{}]}
    assert found(ask(answers.sglang(idle))) == (3, "configured", ["no-request"])
    broken = answers.STANDALONE | {"internal_states": [{"avg_spec_accept_length": 1.01}]}
    assert found(ask(answers.sglang(broken))) == (1, "not-accepting", ["rejected"])
    assert found(ask({"/v1/models": answers.models("sglang")})) == (3, "unknown", ["no-info"])


def test_sglang_by_its_older_address(ask: Ask) -> None:
    routes = answers.sglang(answers.STANDALONE)
    routes["/get_server_info"] = routes.pop("/server_info")
    assert ask(routes).code == 0


def test_sglang_interval_by_its_counters(ask: Ask) -> None:
    """The first token of each request comes without a draft and is not counted as accepted."""
    routes = answers.sglang(answers.STANDALONE)
    before, after = answers.sglang_metrics(100, 270, 20), answers.sglang_metrics(200, 390, 40)
    routes["/metrics"] = [answer(before), answer(after)]
    ran = ask(routes, "--interval", "0.1")
    assert found(ran) == (1, "not-accepting", ["rejected"])
    between = ran.json["interval"]
    assert (between["drafts"], between["drafted_tokens"], between["accepted_tokens"]) == (
        100,
        300,
        0,
    )


def test_sglang_gauge_when_nothing_else_tells(ask: Ask) -> None:
    info = answers.STANDALONE | {"internal_states": [{}]}
    ran = ask(answers.sglang(info, 'sglang:spec_accept_length{tp_rank="0"} 3.1\n'))
    assert ran.code == 0 and ran.json["since_start"]["mean_accepted_length"] == 3.1


def test_sglang_prompt(run: Run, serve: Serve) -> None:
    meta = {
        "completion_tokens": 48,
        "spec_verify_ct": 20,
        "spec_num_correct_drafts": 27,
        "spec_num_proposed_drafts": 60,
    }
    routes = answers.sglang(answers.STANDALONE)
    fake = serve(routes | {"POST /generate": answer({"text": "x", "meta_info": meta})})
    prompt = run("probe", fake.url, "--format", "json", "--prompt", "hello").json["prompt"]
    assert (prompt["drafts"], prompt["accepted_tokens"]) == (20, 27)
    assert fake.bodies[0]["sampling_params"] == {"max_new_tokens": 48, "temperature": 0}


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        (answers.tabby({"id": "small-exl2"}), (3, "configured", ["log-only"])),
        (answers.tabby(listed=[{"id": "small-exl3"}]), (3, "configured", ["log-only"])),
        (answers.tabby(), (3, "unknown", ["no-draft"])),
        (answers.tabby(permission="admin"), (3, "unknown", ["admin-key"])),
        (answers.tabby() | {"/v1/model": answer({}, 503)}, (3, "unknown", ["no-model"])),
        (answers.tabby() | {"/v1/model": answer({}, 401)}, (3, "unknown", ["needs-key"])),
    ],
)
def test_tabbyapi(ask: Ask, routes: Any, expected: Any) -> None:
    ran = ask(routes)
    assert found(ran) == expected and ran.json["engine"] == "tabbyapi"


def test_tabbyapi_is_told_without_a_key(ask: Ask) -> None:
    about = answer({"version": 0.1, "software": {"name": "TabbyAPI"}})
    denied = answer({"detail": "Please provide an API key"}, 401)
    ran = ask({"/.well-known/serviceinfo": about, "*": denied})
    assert found(ran) == (3, "unknown", ["needs-key"]) and ran.json["engine"] == "tabbyapi"


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        (answers.ollama("FROM a\nDRAFT /blobs/x\n"), (3, "configured", ["not-told"])),
        (answers.ollama("FROM a\n"), (1, "not-speculating", ["off"])),
        (answers.ollama(nextn=1), (1, "not-speculating", ["mtp-unused"])),
        (
            answers.ollama(parameters="draft_num_predict    4", nextn=1),
            (3, "configured", ["not-told"]),
        ),
        (
            answers.ollama("FROM a\nDRAFT b\n", "draft_num_predict 0"),
            (1, "not-speculating", ["zero"]),
        ),
        (answers.ollama() | {"/api/ps": answer({"models": []})}, (3, "unknown", ["no-model"])),
        (answers.ollama() | {"POST /api/show": answer({}, 404)}, (3, "unknown", ["no-model"])),
    ],
)
def test_ollama(ask: Ask, routes: Any, expected: Any) -> None:
    ran = ask(routes)
    assert found(ran) == expected
    assert (ran.json["engine"], ran.json["version"]) == ("ollama", "0.33.0")


def test_ollama_without_models_is_told_by_its_greeting(ask: Ask) -> None:
    routes = {"/": answer("Ollama is running"), "/v1/models": answer({"data": None})}
    assert ask(routes).json["engine"] == "ollama"


def test_lm_studio_tells_only_in_an_answer(ask: Ask) -> None:
    ran = ask(answers.lm_studio())
    assert found(ran) == (3, "unknown", ["only-by-request"])
    assert (ran.json["engine"], ran.json["model"]) == ("lm-studio", "big")
    stats = {
        "draft_model": "small",
        "total_draft_tokens_count": 40,
        "accepted_draft_tokens_count": 30,
    }
    ran = ask(answers.lm_studio(stats), "--prompt", "hello")
    assert found(ran) == (0, "speculating", [])
    assert ran.json["prompt"]["acceptance_rate"] == 0.75
    ran = ask(answers.lm_studio({"tokens_per_second": 9.0}), "--prompt", "hello")
    assert found(ran) == (1, "not-speculating", ["never-drafts"])


def test_lm_studio_is_not_made_to_load_a_model(run: Run, serve: Serve) -> None:
    fake = serve(answers.lm_studio({}))
    ran = run("probe", fake.url, "--format", "json", "--prompt", "hello", "--model", "idle")
    assert found(ran) == (3, "unknown", ["only-by-request"]) and fake.bodies == []


def test_servers_that_tell_nothing(ask: Ask) -> None:
    plain = answers.models(None)
    plain["headers"] = {"Server": "BaseHTTP/0.6 Python/3.12.4"}
    ran = ask({"/v1/models": plain})
    assert (ran.json["engine"], *found(ran)) == ("mlx-lm", 3, "unknown", ["not-told"])
    ran = ask({"/v1/models": answers.models("tensorrt_llm")})
    assert (ran.json["engine"], *found(ran)) == ("tensorrt-llm", 3, "unknown", ["not-read"])


def test_a_prompt_is_not_sent_where_it_would_not_tell(run: Run, serve: Serve) -> None:
    for routes in (answers.ollama("FROM a\nDRAFT b\n"), answers.tabby({"id": "small"})):
        fake = serve(routes)
        ran = run("probe", fake.url, "--format", "json", "--prompt", "hello")
        assert any("not sent" in note for note in ran.json["notes"])
        assert all("hello" not in str(body) for body in fake.bodies)


def test_reading_trtllm_takes_no_metrics_away(run: Run, serve: Serve) -> None:
    fake = serve({"/v1/models": answers.models("tensorrt_llm"), "/metrics": answer([])})
    run("probe", fake.url)
    assert ("GET", "/metrics") not in fake.asked


def test_what_a_server_accepted_becomes_a_profile(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "speculation_profile.json"
    ran = ask(answers.vllm(answers.vllm_metrics(40, 120, 60, (30, 20, 10), 99)), "--profile", file)
    assert ran.code == 0, ran.err
    body = json.loads(file.read_text())
    assert body["marginal_accept_rates"] == [0.75, 0.5, 0.25]
    assert (body["mean_accept_length"], body["measurement_conditions"]["num_drafts"]) == (2.5, 40)
    untold = ask(answers.vllm(answers.vllm_metrics(40, 120, 60, (), 99)), "--profile", file)
    assert untold.code == 2 and "does not tell by position" in untold.err
