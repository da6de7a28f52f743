"""Charts by matplotlib as SVG that takes its colours from the page, so that dark mode fits them."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from draftcheck.report.safe import safe
from draftcheck.report.site.data import ORDER
from draftcheck.values.words import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"
XLINK = "{http://www.w3.org/1999/xlink}href"
# Stand-ins that matplotlib draws with; each becomes a colour of the style sheet.
INK, FAINT, GRID = "#000001", "#000002", "#000003"
SERIES = ("#000011", "#000012", "#000013", "#000014", "#000015", "#000016")
VERDICTS = {
    Verdict.COMPATIBLE: "#000021",
    Verdict.DEGRADED: "#000022",
    Verdict.UNDECIDED: "#000023",
    Verdict.INCOMPATIBLE: "#000024",
}
COLOURS = {
    INK: "var(--ink)", FAINT: "var(--muted)", GRID: "var(--line)",
    **{colour: f"var(--s{number})" for number, colour in enumerate(SERIES, 1)},
    **{colour: f"var(--{verdict})" for verdict, colour in VERDICTS.items()},
}  # fmt: skip
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
"""Lines differ by dashes too, not by colour alone."""
WIDTH, HEIGHT = 4.7, 2.7
LINE = 0.2
"""What a line of the legend adds to the height."""
LEGEND: dict[str, Any] = {
    "frameon": False, "fontsize": 9.5, "labelcolor": INK, "borderpad": 0.1, "borderaxespad": 0.1,
}  # fmt: skip
_NUMBER = re.compile(r"-?\d+\.\d+")


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One draft's curve."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@cache
def available() -> bool:
    return find_spec("matplotlib") is not None


def curves(lines: Sequence[ChartLine], title: str, below: str, beside: str, *, one: bool) -> str:
    """Up to six curves over small whole numbers; one: mark where nothing is gained."""
    figure, axes = _figure(HEIGHT, LINE * len(lines), 0.52)
    if one:
        axes.axhline(1, color=FAINT, linewidth=1, linestyle=(0, (3, 3)))
    for line, colour, dash in zip(lines, SERIES, DASHES, strict=False):
        name = safe(line.name, 40).replace("$", r"\$")  # a dollar would start a formula
        axes.plot(line.x, line.y, color=colour, linestyle=dash, linewidth=1.8, label=name)
    _dress(axes, title, below, beside)
    axes.set_ylim(bottom=0)
    axes.set_xlim(1, max((line.x[-1] for line in lines), default=2))
    figure.legend(loc="lower left", handlelength=2.6, **LEGEND)
    return _inline(figure, f"{title}: {beside} over {below}, {len(lines)} drafts")


def verdicts(counts: Mapping[str, Mapping[Verdict, int]], title: str) -> str:
    """A bar per engine: how many pairs got which verdict."""
    names = list(counts)[::-1]
    widest = max(map(len, names), default=0)
    figure, axes = _figure(0.8 + 0.3 * len(names), LINE, 0.2 + 0.085 * widest)
    left = [0] * len(names)
    for verdict in ORDER:
        widths = [counts[name].get(verdict, 0) for name in names]
        axes.barh(
            names, widths, left=left, height=0.68, label=str(verdict), color=VERDICTS[verdict]
        )
        left = [start + width for start, width in zip(left, widths, strict=True)]
    _dress(axes, title, "pairs", "")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_xlim(left=0)
    figure.legend(loc="lower center", ncols=4, handlelength=1.2, columnspacing=1.2, **LEGEND)
    return _inline(figure, f"{title}, by verdict, for {len(names)} engines")


def _figure(height: float, legend: float, left: float) -> tuple[Figure, Axes]:
    """Fixed margins in inches: a layout worked out anew would take most of the time."""
    from matplotlib.figure import Figure

    whole = height + legend
    figure = Figure(figsize=(WIDTH, whole), facecolor="none")
    margins = {"left": left / WIDTH, "right": 1 - 0.25 / WIDTH}
    figure.subplots_adjust(bottom=(0.52 + legend) / whole, top=1 - 0.3 / whole, **margins)
    return figure, figure.add_subplot(facecolor="none")


def _dress(axes: Axes, title: str, below: str, beside: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, loc="left", fontsize=12, color=INK, fontweight="bold")
    axes.set_xlabel(below, fontsize=10, color=FAINT)
    axes.set_ylabel(beside, fontsize=10, color=FAINT)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=10, labelcolor=FAINT, color=GRID)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=True))
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)


def _inline(figure: Figure, label: str) -> str:
    """The figure as an element for a page: no styles of its own, no ids that could clash."""
    import matplotlib as mpl

    ElementTree.register_namespace("", SVG)
    out = io.BytesIO()
    nothing: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "draftcheck"}):
        figure.savefig(out, format="svg", metadata=nothing)
    root = ElementTree.fromstring(out.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{SVG}}}metadata" or _is_style(child):
                parent.remove(child)
    for element in root.iter():
        _plain(element)
    _own_ids(root)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("class", "chart")
    root.set("role", "img")
    root.set("aria-label", label)
    root.set("stroke-linejoin", "round")
    return ElementTree.tostring(root, encoding="unicode")


def _is_style(element: ElementTree.Element) -> bool:
    return any(child.tag == f"{{{SVG}}}style" for child in element)


def _plain(element: ElementTree.Element) -> None:
    """Styles become attributes (the page forbids inline styles), stand-ins become colours."""
    if element.tag != f"{{{SVG}}}text" and not (element.text or "").strip():
        element.text = None
    element.tail = None
    for item in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in item.partition(":"))
        if name == "font":  # older matplotlib: one shorthand
            element.set("font-size", next(w for w in value.split() if w.endswith("px")))
        elif name and name != "font-family":  # the page's own
            element.set(name, COLOURS.get(value, value))
    for name in ("d", "x", "y", "points", "transform"):
        if name in element.attrib:
            element.set(name, _NUMBER.sub(_short, element.attrib[name]).strip())
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if XLINK in element.attrib:
        element.set("href", element.attrib.pop(XLINK))


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _own_ids(root: ElementTree.Element) -> None:
    """Only ids that something points to stay, made the chart's own by a digest of it."""
    prefix = "c" + sha256(ElementTree.tostring(root)).hexdigest()[:8]
    used = {
        value.partition("#")[2].rstrip(")")
        for element in root.iter()
        for name, value in element.attrib.items()
        if name in ("href", "clip-path") and "#" in value
    }
    for element in root.iter():
        if (name := element.get("id")) is not None:
            del element.attrib["id"]
            if name in used:
                element.set("id", f"{prefix}-{name}")
        for key in ("href", "clip-path"):
            if "#" in (value := element.get(key, "")):
                element.set(key, value.replace("#", f"#{prefix}-", 1))
