"""The checker in a real browser: files, faults, tabs, looks. What it says: test_same_answers.py."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from draftcheck.report import badge
from draftcheck.values.words import Verdict
from tests import make
from tests.chromium import DESK, PHONE, sideways
from tests.conftest import FIXTURES, Run
from tests.hostile.test_json import BROKEN
from tests.hub import models
from tests.web.conftest import EARLY, PARTS, CheckerPage
from tests.web.test_same_answers import LOG, as_in_a_page, spent, without_tokenizers

pytestmark = pytest.mark.browser
PAIR = FIXTURES / "pair"
BIG = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 12,
       "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
TOKEN = "hf_only_for_the_hub"


MEMORY = "caches.match(new URL('memory', location).href).then((found) => found.arrayBuffer())"
ORDER = (
    "a.skip", "a.home", "#tab-pair", "#target", "#target-files", "#draft", "#draft-files",
    "#engine", "#gpu", "#context", "#sequences", ".access summary", "#panel-pair button.main",
)  # fmt: skip


def files(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


def test_a_question_before_python_is_there_is_answered_and_not_kept(page: CheckerPage) -> None:
    """The memory that later visits begin with is older than any question."""
    assert page.early["code"] == 0 and page.early["first"].startswith("1 message explained")
    assert page.start == "again"
    word = EARLY.split()[0]
    assert page.page.evaluate(
        f"{MEMORY}.then((found) => new TextDecoder('latin1').decode(found)).then((text) =>"
        f" ['draftcheck.web.answers', '{word}'].map((name) => text.includes(name)))"
    ) == [True, False]


@pytest.mark.parametrize("pair", [("target", "draft"), ("target.gguf", "draft.gguf")])
def test_dropped_files_get_the_commands_json(
    pair: tuple[str, str], page: CheckerPage, run: Run, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As from a folder that holds the same files under the same names."""
    names = []
    for side, name in zip(("target", "draft"), pair, strict=True):
        given = files(PAIR / name)
        page.give(**{side: given})
        (tmp_path / side).mkdir()
        for file in given:
            shutil.copy(file, tmp_path / side)
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
    hub.add_repo("page/big", models.checkpoint(BIG, words=5000, count=3))
    hub.add_repo("page/small", models.checkpoint({**BIG, "num_hidden_layers": 4}, words=5000))
    wanted = without_tokenizers(hub, tmp_path)("pair", "page/big", "page/small", "--format", "json")
    cost = spent(hub)
    hub.reset()
    found = page.ask(target="page/big", draft="page/small")
    assert found["code"] == wanted.code and found["json"]["engines"] == wanted.json["engines"]
    assert cost == spent(hub) > 100_000, hub.story()
    assert {hub.url, hub.cdn_url} <= page.asked, "else nobody looks at what the worker asks"


def test_the_stack_of_a_browser_holds_what_lies_deep(page: CheckerPage, tmp_path: Path) -> None:
    """It is another one than Node's; the page lives on."""
    model = make.folder(tmp_path / "model")
    deep = [data for data, says in BROKEN.values() if "deeply" in says]
    for data in (*deep, BROKEN["nested 500 deep"][0]):
        (model / "config.json").write_bytes(data)
        page.give(target=files(model))
        found = page.ask(engine="vllm")
        assert found["code"] == 3 and "config.json: " in found["first"], found


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
    hub.add_repo("weather/huge", {"config.json": b" " * 40_000_000})
    huge = page.ask(target="weather/huge")
    assert huge["code"] == 3 and "config.json" in huge["first"], huge
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
    assert page.page.locator(f'#answer a[href="{hub.url}/org/gated"]').count() == 1
    page.page.fill("#token", TOKEN)
    assert page.ask(target="org/gated", engine="vllm")["json"]["target"]["facts"]["weights"]
    assert any(entry.had_token for entry in hub.log) and not hub.leaks, hub.story()
    page.page.fill("#token", "")
    page.page.click(".access summary")
    kept = page.page.evaluate(
        "[location.href, ...Object.values(localStorage), ...Object.values(sessionStorage)].join()"
    )
    assert TOKEN not in kept + page.page.inner_text("body")


def test_the_other_tabs(page: CheckerPage) -> None:
    found = page.ask("gate", name="start.sh", text="vllm serve org/big --speculative-confg x\n")
    assert found["first"] == "degraded 1 finding", found
    assert " ways known" in page.ask("known", target="Qwen/Qwen3-8B")["first"]
    assert page.ask("why", text=LOG)["code"] == 0
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


def test_what_can_be_taken_along(page: CheckerPage, tmp_path: Path) -> None:
    """The command, the JSON, the badge, and a link that asks the same again."""
    hub, tab = page.site.hub, page.page
    hub.add_repo("along/big", models.small_checkpoint(num_hidden_layers=8))
    hub.add_repo("along/small", models.small_checkpoint())
    words = {"engine": "vllm@0.20.0", "gpu": "24GiB", "context": "256"}
    found = page.ask(target="along/big", draft="along/small", **words)["json"]
    tab.locator("#answer [data-copy]").first.click()
    assert clipboard(page) == found["engines"][0]["setup"]
    assert tab.inner_text("#status") == "Copied"
    command = without_tokenizers(hub, tmp_path)
    options = [word for name, value in words.items() for word in (f"--{name}", value)]
    wanted = command("pair", "along/big", "along/small", *options, "--format", "json")
    name, content = download(page, "JSON")
    assert (name, content) == ("draftcheck.json", as_in_a_page(wanted.out, tmp_path))
    name, content = download(page, "Badge")
    engines = [(row["engine"], row["version"]) for row in found["engines"]]
    assert (name, content) == (
        "draftcheck.svg", badge.svg("along/big", "along/small", Verdict(found["verdict"]), engines)
    )  # fmt: skip
    tab.click("#answer >> text=Copy link")
    link = clipboard(page)
    assert link == (
        f"{page.site.url}?target=along/big&draft=along/small"
        "&engine=vllm@0.20.0&gpu=24GiB&context=256"
    )
    tab.goto(link)
    assert page.answer()["json"] == found


def clipboard(page: CheckerPage) -> str:
    found: str = page.page.evaluate("navigator.clipboard.readText()")
    return found


def download(page: CheckerPage, label: str) -> tuple[str, str]:
    with page.page.expect_download() as waited:
        page.page.click(f"#answer a[download]:text-is('{label}')")
    return waited.value.suggested_filename, waited.value.path().read_text(encoding="utf-8")


def test_without_a_mouse_and_without_a_screen(page: CheckerPage) -> None:
    tab, keys = page.page, page.page.keyboard
    page.site.hub.add_repo("keys/model", models.small_checkpoint())
    page.fill("pair")
    tab.locator("a.skip").focus()
    for place in ORDER:
        assert tab.locator(place).evaluate("(found) => found === document.activeElement"), place
        keys.press("Tab")
    tab.locator("#target").focus()
    keys.type("keys/model")
    keys.press("Enter")
    found = page.answer()
    assert tab.evaluate("document.activeElement.className") == "first", "read from there on"
    assert tab.inner_text("#status") == found["json"]["verdict"] + ": " + tab.evaluate(
        "document.activeElement.lastChild.textContent.trim()"
    )
    tree = tab.locator("body").aria_snapshot().replace("'", "")
    for line in (
        'heading "Can this draft speculate for this target?" [level=1]',
        'tab "Pair" [selected]', 'combobox "Target the model that serves"',
        'combobox "Engine empty: all"', 'textbox "Context"', 'button "Check"', "status:",
        'region "Answer"', 'table "Engine by engine"', 'group "Setup for llama.cpp"',
        'button "Copy: Setup for llama.cpp"',
    ):  # fmt: skip
        assert f"- {line}" in tree, tree
    tab.locator("#tab-pair").focus()
    keys.press("ArrowLeft")
    assert tab.locator("#panel-known").is_visible() and not tab.locator("#panel-pair").is_visible()
    keys.press("ArrowRight")
    assert tab.evaluate("document.activeElement.id") == "tab-pair"


def test_a_second_visit_needs_no_network_and_every_width_fits(page: CheckerPage) -> None:
    page.context.set_offline(True)
    try:
        page.page.goto(page.site.url)
        assert page.ready().start == "again"
        away = page.ask(target="org/far")
        assert away["code"] == 3 and "cannot reach" in away["first"], away
        page.complaints[:] = [text for text in page.complaints if "DISCONNECTED" not in text]
        page.give(target=[PAIR / "target.gguf"], draft=[PAIR / "draft.gguf"])
        assert page.ask(gpu="24GiB", context="256")["code"] == 0
    finally:
        page.context.set_offline(False)
    for box in page.page.locator("#answer details").all():
        box.evaluate("(found) => { found.open = true; }")
    for width in (PHONE, {"width": 768, "height": 900}, DESK, {"width": 1600, "height": 900}):
        page.page.set_viewport_size(width)
        for scheme in ("light", "dark"):
            page.page.emulate_media(color_scheme=scheme)
            assert sideways(page.page) <= 0, (width, scheme)
    page.page.set_viewport_size(DESK)


def test_axe_finds_nothing(page: CheckerPage) -> None:
    axe = PARTS / "package" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("no axe-core: make web-runtime")
    page.page.evaluate(f"() => {{ {axe.read_text(encoding='utf-8')} }}")  # past the page's policy
    page.give(target=[PAIR / "target.gguf"], draft=[PAIR / "draft.gguf"])
    page.ask(gpu="24GiB")
    for tab in ("pair", "gate"):
        for scheme in ("light", "dark"):
            page.page.emulate_media(color_scheme=scheme)
            found = page.page.evaluate("axe.run()")["violations"]
            assert not found, [f"{row['id']}: {row['nodes'][0]['html']}" for row in found]
        if tab == "pair":
            page.page.click("#tab-gate")


def test_cancel_and_go_on(page: CheckerPage) -> None:
    """The question is in the address, and asking goes on with a new worker.

    The last one: the Hub waits for an answer that nobody takes any more.
    """
    hub = page.site.hub
    hub.add_repo("org/slow", models.small_checkpoint(num_hidden_layers=3))
    hub.fault("hang", file="org/slow/config.json")
    page.fill("pair", target="org/slow", engine="vllm")
    page.page.click("#panel-pair button.main")
    page.page.locator("#cancel").wait_for()
    page.page.click("#cancel")
    assert not page.page.locator("#cancel").is_visible()
    assert page.page.inner_text("#status") == "Cancelled"
    hub.reset()
    assert page.ask("why", text=LOG)["code"] == 0
    assert page.page.url.endswith("?target=org/slow&engine=vllm")
    # What was kept is damaged: it is made anew, and the question is answered all the same.
    page.page.evaluate(
        "caches.keys().then(([name]) => caches.open(name)).then((cache) => cache.put("
        "new URL('memory', location).href, new Response(new Uint8Array(4096),"
        " {headers: {'x-browser': navigator.userAgent}})))"
    )
    page.page.goto(page.page.url)
    assert page.answer()["json"]["target"]["ref"] == "org/slow"
    assert page.start == "first"
    page.kept()
    assert page.page.evaluate(f"{MEMORY}.then((found) => found.byteLength)") > 20_000_000
