"""The checker in a real browser: the command line's answers, files, faults, tabs, looks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftcheck.judge.tokenizers_agree import NOT_RUN
from tests import make
from tests.chromium import DESK, PHONE, sideways
from tests.conftest import FIXTURES, ROOT, Run
from tests.hostile.test_gguf import UNREADABLE
from tests.hostile.test_json import BROKEN
from tests.hub import Hub, models
from tests.hub.process import Draftcheck
from tests.models.hub.test_same_verdict import BIG, WORDS, drafts
from tests.web.conftest import PARTS, CheckerPage

pytestmark = pytest.mark.browser
PAIR = FIXTURES / "pair"
HEADS = ("dflash", "eagle3", "medusa")
NOT_HERE = "a browser cannot run the tokenizers library: draftcheck pair can"
TOKEN = "hf_only_for_the_hub"


def files(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("target", "draft"),
        ("target.gguf", "draft.gguf"),
        *(("target", f"heads/{name}") for name in HEADS),
        ("heads/target-mtp", None),
    ],
)
def test_dropped_files_get_the_commands_json(
    target: str, draft: str | None, page: CheckerPage, run: Run, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As from a folder that holds the same files under the same names."""
    names = []
    for side, name in (("target", target), ("draft", draft)):
        given = files(PAIR / name) if name else []
        page.give(**{side: given})
        for file in given:
            (tmp_path / side).mkdir(exist_ok=True)
            shutil.copy(file, tmp_path / side)
        if name:
            names.append(f"{side}/{name}" if name.endswith(".gguf") else side)
    found = page.ask(gpu="24GiB", context="256")
    monkeypatch.chdir(tmp_path)
    wanted = run("pair", *names, "--gpu", "24GiB", "--context", 256, "--format", "json")
    assert found["json"] == wanted.json
    assert found["code"] == wanted.code
    assert found["first"].startswith(wanted.json["verdict"])
    assert not page.site.hub.requests, "files of the user's are nobody else's business"


def test_models_of_the_hub_get_the_commands_json_and_cost_the_same_bytes(
    page: CheckerPage, tmp_path: Path
) -> None:
    hub = page.site.hub
    hub.add_repo("org/big", models.checkpoint(BIG, words=WORDS, count=3))
    pairs = [("org/big", f"org/small-{at}") for at in range(len(drafts()))]
    for (_, name), made in zip(pairs, drafts().values(), strict=True):
        hub.add_repo(name, made)
    hub.add_repo(
        "org/gguf",
        {"big-Q8_0.gguf": models.small_gguf(4000), "small-Q4_0.gguf": models.small_gguf(3990)},
    )
    pairs += [("org/gguf:Q8_0", "org/gguf:Q4_0"), ("org/big@main", "")]
    # A browser has no tokenizers library; a command line that has none knows as much.
    (tmp_path / "without").mkdir()
    (tmp_path / "without/tokenizers.py").write_text("raise ImportError", encoding="utf-8")
    draftcheck = Draftcheck(hub, tmp_path, PYTHONPATH=f"{tmp_path}/without:{ROOT}")
    read = 0
    for target, draft in pairs:
        hub.reset()
        wanted = draftcheck("pair", target, *([draft] if draft else []), "--format", "json")
        cost = spent(hub)
        hub.reset()
        found = page.ask(target=target, draft=draft)
        assert spent(hub) == cost, f"{target} {draft}\n{hub.story()}"
        # The cache where a tokenizer came to lie is another one, and so is the reason.
        there = wanted.out.replace(f"{tmp_path}/cache", "/home/pyodide/.cache")
        there = there.replace(NOT_RUN, NOT_HERE)
        assert found["json"] == json.loads(there), (target, draft)
        assert found["code"] == wanted.code
        read += cost
    assert read > 300_000
    assert {hub.url, hub.cdn_url} <= page.asked, "else nobody looks at what the worker asks"


def spent(hub: Hub) -> int:
    """Bytes of answers, less redirects' own lines, and answers to names that are being typed."""
    told = (entry for entry in hub.log if "search=" not in entry.query)
    return sum(entry.body for entry in told if entry.status < 300)


def hostile(folder: Path) -> Iterator[Path]:
    """Files that lie, one after the other, in the folder of a sound checkpoint or alone."""
    for data, _ in list(UNREADABLE.values())[::6]:
        (folder / "bad.gguf").write_bytes(data)
        yield folder / "bad.gguf"
    (folder / "bad.gguf").unlink()
    make.folder(folder / "model")
    for start, name in enumerate(("config.json", "tokenizer.json")):
        sound = (folder / "model" / name).read_bytes()
        for data, _ in list(BROKEN.values())[start::2]:
            (folder / "model" / name).write_bytes(data)
            yield folder / "model"
        (folder / "model" / name).write_bytes(sound)


def test_hostile_files_end_the_same_way_and_the_page_lives(
    page: CheckerPage, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    for bad in hostile(tmp_path / "here"):
        target = tmp_path / "target"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for file in files(bad):
            shutil.copy(file, target)
        wanted = run(
            "pair", f"target/{bad.name}" if bad.is_file() else target.name, "--format", "json"
        )
        page.give(target=files(bad))
        found = page.ask()
        where = f"{bad}: {wanted.err} {found}"
        assert found["code"] == wanted.code, where
        assert found["json"] == (wanted.json if wanted.out else None), where
        if not wanted.out:
            says = wanted.err.splitlines()[0].removeprefix("error: ")
            # What json says of a fault is another sentence in another Python.
            assert says.partition(" JSON: ")[0] in found["first"], where


def test_weather_between_the_page_and_the_hub(page: CheckerPage) -> None:
    hub = page.site.hub
    hub.add_repo("weather/big", models.small_checkpoint(num_hidden_layers=8))
    hub.add_repo("weather/small", models.small_checkpoint())
    hub.fault("status", path="/api/models/weather/big*", code=503, headers={"Retry-After": "0"})
    hub.fault("drop", file="weather/small/config.json")
    hub.fault("corrupt", file="weather/big/tokenizer_config.json", origin="api")
    found = page.ask(target="weather/big", draft="weather/small", engine="vllm")
    assert found["code"] == 0 and found["json"]["verdict"] == "compatible", found
    gone = page.ask(target="weather/none", draft="weather/small")
    assert gone["code"] == 3 and "weather/none: no such repo" in gone["first"]
    hub.cors = False
    try:
        closed = page.ask(target="weather/closed")
    finally:
        hub.cors = True
    assert closed["code"] == 3 and "does not let this page read it" in closed["first"]
    assert page.ask(target="weather/big", draft="weather/small", engine="vllm")["code"] == 0


def test_the_page_lets_nobody_lead_it_elsewhere(page: CheckerPage) -> None:
    """Its policy holds in the worker, too: the request is not even sent."""
    hub = page.site.hub
    hub.add_repo("led/astray", models.small_checkpoint(num_hidden_layers=6))
    hub.fault("redirect", file="led/astray/config.json", times=None, to=f"{hub.elsewhere_url}/x")
    assert page.ask(target="led/astray", engine="vllm")["code"] == 3
    assert hub.asked("led/astray/config.json")
    assert not [entry for entry in hub.log if entry.origin == "elsewhere"], hub.story()
    page.complaints[:] = [text for text in page.complaints if "Content Security" not in text]
    page.asked.discard(hub.elsewhere_url)  # the browser tells of it, and refuses it


def test_a_token_goes_to_the_hub_alone_and_is_kept_nowhere(page: CheckerPage) -> None:
    hub = page.site.hub
    hub.add_repo("org/gated", models.checkpoint(BIG, words=700), gated="manual")
    hub.add_token(TOKEN, repos=["org/gated"])
    refused = page.ask(target="org/gated", engine="vllm")
    assert refused["code"] == 3 and "gated" in page.page.inner_text("#answer")
    page.page.click(".access summary")
    page.page.fill("#token", TOKEN)
    assert page.ask(target="org/gated", engine="vllm")["json"]["target"]["facts"]["weights"]
    assert any(entry.had_token for entry in hub.log) and not hub.leaks, hub.story()
    page.page.fill("#token", "")
    page.page.click(".access summary")
    kept = page.page.evaluate(
        "[location.href, ...Object.values(localStorage), ...Object.values(sessionStorage)].join()"
    )
    assert TOKEN not in kept + page.page.inner_text("body")


def test_the_other_tabs_say_what_the_commands_say(
    page: CheckerPage, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = "draft model vocab type must match target model to use speculation"
    (tmp_path / "log.txt").write_text(log, encoding="utf-8")
    assert page.ask("why", text=log)["json"] == run("why", "log.txt", "--format", "json").json
    script = 'vllm serve org/big --speculative-confg \'{"model": "org/small"}\'\n'
    (tmp_path / "start.sh").write_text(script, encoding="utf-8")
    found = page.ask("gate", name="start.sh", text=script)
    wanted = run("gate", "start.sh", "--format", "json")
    assert found["json"] == wanted.json and found["code"] == wanted.code
    found = page.ask("known", target="Qwen/Qwen3-8B")
    assert found["json"] == run("known", "Qwen/Qwen3-8B", "--format", "json").json
    page.page.click("#tab-why")
    assert page.ask("why", text=log)["code"] == 0
    page.page.locator("#answer a[data-rule]").first.click()
    page.page.locator("#rule[open] h2").first.wait_for()
    assert "LCP004" in page.page.inner_text("#rule")
    page.page.keyboard.press("Escape")


def test_completion_from_the_hub(page: CheckerPage) -> None:
    page.site.hub.add_repo("findable/some-model", models.small_checkpoint())
    page.page.click("#tab-pair")
    page.page.fill("#target", "")
    page.page.locator("#target").press_sequentially("findable")
    page.page.locator('#names option[value="findable/some-model"]').wait_for(state="attached")
    page.page.fill("#target", "")


def test_a_second_visit_needs_no_network_and_every_width_fits(page: CheckerPage) -> None:
    page.page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    page.context.set_offline(True)
    try:
        page.page.goto(page.site.url)
        page.ready()
        log = "draft model vocab type must match target model to use speculation"
        assert page.ask("why", text=log)["code"] == 0
    finally:
        page.context.set_offline(False)
    for width in (PHONE, DESK, {"width": 1600, "height": 900}):
        page.page.set_viewport_size(width)
        for scheme in ("light", "dark"):
            page.page.emulate_media(color_scheme=scheme)
            assert sideways(page.page) <= 0, (width, scheme)
    page.page.set_viewport_size(DESK)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(scheme: str, page: CheckerPage) -> None:
    axe = PARTS / "package" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("no axe-core: make web-runtime")
    page.page.emulate_media(color_scheme=scheme)
    page.give(target=[PAIR / "target.gguf"], draft=[PAIR / "draft.gguf"])
    page.ask(gpu="24GiB")
    assert violations(page.page, axe) == []
    page.page.click("#tab-gate")
    assert violations(page.page, axe) == []


def violations(page: Any, axe: Path) -> list[str]:
    """What axe-core finds; it is evaluated from outside, past the page's policy."""
    page.evaluate(f"() => {{ {axe.read_text(encoding='utf-8')} }}")
    found = page.evaluate("axe.run()")["violations"]
    return [f"{row['id']}: {row['nodes'][0]['html']}" for row in found]


def test_cancel_and_go_on(page: CheckerPage) -> None:
    """The question is in the address, and asking goes on with a new worker.

    The last one: the Hub waits for an answer that nobody takes any more.
    """
    hub = page.site.hub
    hub.add_repo("org/slow", models.small_checkpoint(num_hidden_layers=3))
    hub.fault("hang", file="org/slow/config.json")
    page.page.goto(page.site.url)  # without what tests before have filled in
    page.ready().page.click("#tab-pair")
    page.page.fill("#target", "org/slow")
    page.page.fill("#engine", "vllm")
    page.page.click("#panel-pair button.main")
    page.page.locator("#cancel").wait_for()
    page.page.click("#cancel")
    assert not page.page.locator("#cancel").is_visible()
    hub.reset()
    assert page.page.url.endswith("?target=org/slow&engine=vllm")
    page.page.goto(page.page.url)
    assert page.answer()["json"]["target"]["ref"] == "org/slow"
