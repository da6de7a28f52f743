"""The site in a real browser: renders, filters, sorts, keys, both colour schemes, hostile names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from draftcheck.report.site import data, words
from draftcheck.values.words import Verdict
from tests.chromium import DESK, PHONE, axe_violations, sideways
from tests.report.site.conftest import Written
from tests.report.site.made_up import GATED, HOSTILE

pytestmark = pytest.mark.browser
Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Open a page; at the end nothing was logged, failed or asked of the network."""
    contexts, complaints = [], []

    def open_page(written: Written, name: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": DESK, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url)
                if not request.url.startswith(("file:", "data:")) else None)  # fmt: skip
        file, _, anchor = name.partition("#")
        page.goto((written.folder / file).as_uri() + (f"#{anchor}" if anchor else ""))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints


@pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "dark"), (DESK, "light")], ids=["phone-dark", "desk-light"]
)  # colours do not move anything
def test_every_page_renders_without_a_complaint_or_sideways_scrolling(
    small: Written, opened: Open, size: dict[str, int], scheme: str
) -> None:
    page = opened(small, "index.html", viewport=size, color_scheme=scheme)
    for path in small.pages():
        page.goto(path.as_uri())
        assert page.locator("h1").inner_text().strip()
        assert sideways(page) <= 0, path.name
        for closed in page.locator("details:not([open]) > summary").all()[:3]:
            closed.click()
        assert sideways(page) <= 0, path.name
    for view in ("grid", "list"):
        page.goto((small.folder / "matrix.html").as_uri() + f"#view={view}")
        page.reload()
        assert page.locator(f"table.{view} tbody tr").count() > 0
        assert sideways(page) <= 0, view


OUTSIDE = """() => {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const holder = node.parentElement, away = ".skip, .stack thead, .frame, script, noscript";
    if (!node.data.trim() || holder.closest(away)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.left < -0.5 || box.right > innerWidth + 0.5) found.push(node.data.trim());
    }
    for (let up = holder; up !== document.body; up = up.parentElement) {
      const style = getComputedStyle(up);
      const hides = style.overflowX !== "visible" && up.scrollWidth > up.clientWidth + 1;
      if (hides && style.display !== "inline") found.push(`cut: ${node.data.trim()}`);
    }
  }
  const torn = [...document.querySelectorAll("th.brief, .engines b, .tag")].filter(
    (cell) => cell.checkVisibility() && cell.getClientRects().length > 1
      || cell.clientWidth && cell.clientWidth < 15);
  const empty = [...document.querySelectorAll("td.zero")];
  torn.push(...empty.filter((cell) => cell.checkVisibility()));
  return [...found, ...torn.map((cell) => `torn: ${cell.textContent}`)];
}"""
"""Texts that stand outside the window, are cut by a box, or are broken where they are names."""


def test_nothing_is_cut_on_a_phone(small: Written, opened: Open) -> None:
    page = opened(small, "index.html", viewport=PHONE)
    for path in small.pages():
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        assert page.evaluate(OUTSIDE) == [], path.name
        assert sideways(page) <= 0, path.name
    page.goto((small.folder / "matrix.html").as_uri() + "#view=list")
    page.reload()
    page.locator("table.list tbody th a").first.click()
    page.locator("#pair").wait_for(state="visible")
    assert page.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(small: Written, opened: Open, scheme: str) -> None:
    page = opened(small, "index.html", color_scheme=scheme)
    target = words.target_page(small.site.targets[4].ref)
    for name in ("index.html", target, "changes.html", "matrix.html", "rules-mlx-lm.html"):
        page.goto((small.folder / name).as_uri())
        assert axe_violations(page) == [], name


def test_a_command_breaks_between_options_and_is_copied_whole(small: Written, opened: Open) -> None:
    target = small.site.targets[4]
    page = opened(small, words.target_page(target.ref), viewport=PHONE)
    shown = page.locator(".answer pre").first
    asked = {answer.asked: answer for answer in small.site.pairs[target.ref][0].answers}
    first = next(a for a in asked.values() if a.setup)
    copied = shown.evaluate(
        "(node) => { getSelection().selectAllChildren(node); return getSelection().toString(); }"
    )
    assert copied.strip() == first.setup
    lines = shown.evaluate(
        """(node) => [...node.querySelectorAll(".w .w")].map((word) =>
             [word.textContent, word.getBoundingClientRect().height])"""
    )
    assert "--spec-draft-n-max" in [word for word, _ in lines]
    assert len({height for word, height in lines if len(word) < 24}) == 1


def test_hostile_names_stay_text(small: Written, opened: Open) -> None:
    page = opened(small, words.target_page(HOSTILE[0]))
    assert page.locator("h1").inner_text() == HOSTILE[0]
    page.goto((small.folder / "matrix.html").as_uri() + "#view=list")
    page.reload()
    page.fill("#q", "evil/")
    # Rows are made anew when the search is done: a click before that is lost.
    matching(page, expected(small, None, {str(v) for v in Verdict}, "evil/"))
    shown = set(page.locator("table.list tbody th").all_inner_texts())
    assert {HOSTILE[0], HOSTILE[1], HOSTILE[2]} <= shown
    for row in page.locator("table.list tbody tr").all()[:8]:
        row.locator("th a").click()
        page.locator("#pair").wait_for(state="visible")
        page.keyboard.press("Escape")
        page.locator("#pair").wait_for(state="hidden")
    assert page.evaluate("window.hit") is None
    assert page.locator("script").count() == 2 and page.locator("img").count() == 0


def expected(small: Written, asked: str | None, words: set[str], text: str = "") -> int:
    """How many pairs should match, worked out without the page."""
    found = 0
    for pair in small.site.every():
        verdict = pair.verdict
        if asked is not None:
            verdict = next(a.verdict for a in pair.answers if a.asked == asked)
        named = text in pair.target.lower() or text in pair.draft.lower()
        found += str(verdict) in words and named
    return found


def matching(page: Any, number: int) -> None:
    """Wait until the page says that so many pairs match."""
    page.locator("#status", has_text=re.compile(rf"\({number:,} of ")).wait_for(timeout=5000)


def test_filters(small: Written, opened: Open) -> None:
    every = {str(verdict) for verdict in Verdict}
    page = opened(small, "matrix.html#view=list")
    matching(page, len(small.site.every()))
    page.fill("#q", GATED)
    matching(page, expected(small, None, every, GATED))
    assert page.locator("table.list tbody th .tag").count() == len(small.site.targets)
    page.fill("#q", "gemma3-1b")
    matching(page, expected(small, None, every, "gemma3-1b"))
    page.fill("#q", "")
    page.select_option("#engine", label=page.locator("#engine option").nth(2).inner_text())
    asked = small.site.columns[1].asked
    matching(page, len(small.site.every()))
    page.get_by_label("incompatible", exact=True).uncheck()
    number = expected(small, asked, every - {"incompatible"})
    matching(page, number)
    assert 0 < number < len(small.site.every())
    page.get_by_label("compatible", exact=True).uncheck()
    rest = expected(small, asked, {"degraded", "undecided"})
    matching(page, rest)
    shown = page.locator("table.list tbody td:nth-child(3)").all_inner_texts()
    assert len(shown) == min(rest, len(shown))
    assert set(shown) <= {"degraded", "undecided", "not applicable"}
    page.reload()  # the address keeps it
    matching(page, rest)
    assert not page.get_by_label("compatible", exact=True).is_checked()
    page.fill("#q", "no such model")
    matching(page, 0)
    page.click("#reset")
    matching(page, len(small.site.every()))


def test_the_list_sorts(small: Written, opened: Open) -> None:
    page = opened(small, "matrix.html#view=list")
    head = page.locator("th", has=page.get_by_role("button", name="Speed-up"))
    page.get_by_role("button", name="Speed-up").click()
    assert head.get_attribute("aria-sort") == "descending"
    gains = [float(text[:-1]) for text in _column(page, 6) if text]
    assert len(gains) > 3 and gains == sorted(gains, reverse=True)
    page.keyboard.press("Enter")  # the focus stays on the heading
    assert head.get_attribute("aria-sort") == "ascending"
    gains = [float(text[:-1]) for text in _column(page, 6) if text]
    assert gains == sorted(gains)
    page.get_by_role("button", name="Draft", exact=True).click()
    drafts = page.locator("table.list tbody th").all_inner_texts()
    assert drafts == sorted(drafts, key=str.lower)
    assert page.locator("th[aria-sort]").count() == 1


def _column(page: Any, place: int) -> list[str]:
    found: list[str] = page.locator(f"table.list tbody tr > :nth-child({place})").all_inner_texts()
    return found


def test_plain_tables_sort_by_number_and_by_name(small: Written, opened: Open) -> None:
    page = opened(small, "index.html")
    table = page.locator("table[data-sort]").first
    table.get_by_role("button", name="Usable drafts").click()
    cells = table.locator("tbody td:last-child").all_inner_texts()
    counts = [int(cell.split()[0]) for cell in cells]
    assert counts == sorted(counts, reverse=True)
    table.get_by_role("button", name="Target").click()
    shown = [text.lower() for text in table.locator("tbody th").all_inner_texts()]
    assert shown == sorted(shown)
    assert table.locator("th[aria-sort=ascending]").inner_text().startswith("Target")


def test_the_grid_by_keyboard(small: Written, opened: Open) -> None:
    page = opened(small, "matrix.html#view=grid")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "TD":
            break
    assert page.evaluate("document.activeElement.cellIndex") == 1
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert page.evaluate("document.activeElement.parentElement.rowIndex") == 3
    assert page.locator("table.grid td[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    assert page.locator("#pair-title").inner_text() == label.rsplit(": ", 1)[0]
    assert page.locator("#pair tbody tr").count() == len(small.site.columns)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == label
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_a_pair_can_be_linked(small: Written, opened: Open) -> None:
    target = small.site.targets[2]
    pair = small.site.pairs[target.ref][0]
    key = f"pair={words.ref_digest(target.ref)}.{words.ref_digest(pair.draft)}"
    page = opened(small, f"matrix.html#{key}")
    assert page.locator("#pair-title").inner_text() == f"{pair.draft} for {target.ref}"
    said = page.locator("#pair tbody .v").all_inner_texts()
    assert said == [data.word(answer) for answer in pair.answers]


def test_rows_are_made_while_scrolling(large: Written, opened: Open) -> None:
    page = opened(large, "matrix.html#view=grid")
    matching(page, 5_400)
    rows = page.locator("table.grid tbody tr")
    first = rows.count()
    assert 0 < first <= 120
    for _ in range(12):
        page.evaluate("document.getElementById('frame').scrollTop = 1e7")
        page.wait_for_timeout(50)
    page.locator("table.grid tbody tr").nth(299).wait_for(state="attached", timeout=5000)
    assert rows.count() == 300
    page.check("input[value=list]")
    assert page.locator("table.list tbody tr").count() <= 120
    page.fill("#q", "qwen3-0.5b olmo2")
    matching(page, expected(large, None, {str(v) for v in Verdict}, "qwen3-0.5b-draft") // 6)


CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((value) => Number(value) / 255);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (text) => {
    const [r, g, b] = rgb(text).map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = light(getComputedStyle(document.body).backgroundColor);
  const kinds = ["p", "a", "th", "td", ".v", "h1", ".muted", "svg.chart text"];
  const low = [];
  for (const node of document.querySelectorAll(kinds.map((kind) => `main ${kind}`).join())) {
    const style = getComputedStyle(node);
    const front = light(node.tagName === "text" ? style.fill : style.color);
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) low.push([node.tagName, node.textContent.slice(0, 20), ratio]);
  }
  return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_charts_can_be_read(small: Written, opened: Open, scheme: str) -> None:
    page = opened(small, "index.html", color_scheme=scheme)
    assert page.evaluate(CONTRAST) == []
    page.goto((small.folder / words.target_page(small.site.targets[2].ref)).as_uri())
    assert page.evaluate(CONTRAST) == []
    red, *_ = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")
    assert (int(red) > 128) == (scheme == "light")


def test_marks_differ_by_shape(small: Written, opened: Open) -> None:
    page = opened(small, "index.html")
    shapes = page.evaluate(
        """() => [...document.querySelectorAll(".legend .v")].map((node) => {
          const s = getComputedStyle(node, "::before");
          const filled = s.backgroundImage !== "none";
          return [s.clipPath, s.borderRadius, s.borderTopWidth, s.height, filled].join();
        })"""
    )
    assert len(shapes) == len(set(shapes)) == len(Verdict) + 1


def test_nothing_moves_by_itself(small: Written, opened: Open) -> None:
    page = opened(small, "matrix.html")
    moving = """[...document.querySelectorAll("*")].map((node) => getComputedStyle(node)).filter(
      (s) => s.transitionDuration !== "0s" || s.animationName !== "none").length"""
    assert page.evaluate(moving) == 0
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_without_javascript_the_figures_are_there(small: Written, opened: Open) -> None:
    target = small.site.targets[2]
    page = opened(small, words.target_page(target.ref), java_script_enabled=False)
    assert page.locator("#drafts").is_visible()
    page.goto((small.folder / "matrix.html").as_uri())
    assert page.locator("noscript p").is_visible() and not page.locator("#controls").is_visible()
