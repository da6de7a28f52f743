"""What a log means, as text, JSON and Markdown; every quoted line is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.layout import KNOWN_BY, plural, version_window, wrapped
from draftcheck.report.safe import md, safe
from draftcheck.why.explain import Explanation, LikelyCause, RecognisedMessage
from draftcheck.why.messages import load
from draftcheck.why.scan import LogMatch

KINDS = {
    "cause": "cause",
    "masks": "hides its cause",
    "measured": "measured",
    "note": "note",
    "follows": "consequence",
}
COLOURS = {"cause": "red", "masks": "red", "measured": "yellow", "note": "cyan", "follows": "white"}
COMMAND = "$ "
QUOTED = 400


# ---- words that all forms share ----


def _answer(explanation: Explanation) -> str:
    """The first line, after the first word."""
    kinds = [item.kind for item in explanation.items]
    size = f"{explanation.lines:,} {plural(explanation.lines, 'line')}"
    if not kinds:
        nothing = f"none of the {explanation.known} messages that draftcheck knows is in this log"
        if not explanation.nbytes:
            nothing = "the log is empty"
        elif explanation.binary:
            nothing = "this looks like a binary or compressed file, not a log"
        return f"{nothing} ({size}, {explanation.nbytes:,} bytes)"
    first = _first(explanation)
    more = [kind for kind in kinds if kind != "follows"][1:]
    parts = [first, *([f"and {len(more)} more"] if more else [])]
    if set(kinds) == {"follows"}:
        parts.append("the cause itself is not in this text")
    engine, version = explanation.run.engine, explanation.run.version
    if engine is not None:
        name = load().names.get(engine, engine)
        parts.append(f"{name} {version}" if version else name)
    return f"{', '.join(parts)} ({size})"


def _first(explanation: Explanation) -> str:
    """What the first message means, or the one cause that the log itself names."""
    item = explanation.items[0]
    proved = [reason.says for reason in item.reasons if reason.proved]
    text = proved[0] if len(proved) == 1 else item.meaning
    return text.partition(". ")[0].rstrip(".")


def _limits(explanation: Explanation) -> Iterator[str]:
    if not explanation.complete:
        yield (
            f"only the first {explanation.nbytes:,} bytes were read: cut out the part around the"
            " first error (head, tail, grep -n)"
        )


def _quote(hit: LogMatch) -> str:
    return safe(hit.text, QUOTED)


def _where(item: RecognisedMessage) -> str:
    lines = ", ".join(f"{hit.line:,}" for hit in item.hits)
    word = plural(len(item.hits), "line")
    more = f" and {item.count - len(item.hits):,} more" if item.count > len(item.hits) else ""
    return f"{word} {lines}{more}"


def _because(item: RecognisedMessage) -> str | None:
    if item.because is not None:
        return f"line {item.because.line:,}: {_quote(item.because)}"
    return "an error that is not in this text: look further up" if item.kind == "follows" else None


def _reason(reason: LikelyCause) -> str:
    rules = f" [{', '.join(reason.rules)}]" if reason.rules else ""
    if reason.seen is None:
        return f"{reason.says}{rules}"
    word = "said in" if reason.proved else "see"
    return f"{reason.says}{rules} ({word} line {reason.seen.line:,})"


def _told(item: RecognisedMessage) -> tuple[LikelyCause, ...]:
    """The causes, less a single one that the meaning already names."""
    named = len(item.reasons) == 1 and item.meaning.startswith(item.reasons[0].says)
    return () if named else item.reasons


def _engines(item: RecognisedMessage) -> str:
    names = load().names
    return ", ".join(names.get(name, name) for name in item.engines) or "any engine"


# ---- text ----


def _text(explanation: Explanation) -> str:
    known = bool(explanation.items)
    word = click.style(
        "explained" if known else "not recognised", fg="green" if known else "magenta", bold=True
    )
    blocks = [f"{word}: {_answer(explanation)}"]
    blocks += [f"note: {safe(text)}" for text in _limits(explanation)]
    blocks += [_block(number, item) for number, item in enumerate(explanation.items, 1)]
    if explanation.send:
        blocks.append("\n".join(_steps("next", explanation.send)))
    return "\n\n".join(blocks)


def _block(number: int, item: RecognisedMessage) -> str:
    label = click.style(f"{KINDS[item.kind]}[{item.id}]", fg=COLOURS[item.kind], bold=True)
    lines = [f"{number}. {label} {_where(item)} ({_engines(item)})"]
    lines.append(_field("says", _quote(item.hits[0]), wrap=False))
    if item.values:
        seen = [f"{name}: {safe(value)}" for name, value in item.values.items()]
        lines.append(_field("saw", "; ".join(seen)))
    lines.append(_field("means", item.meaning))
    if because := _because(item):
        lines.append(_field("from", because))
    for place, reason in enumerate(_told(item), 1):
        lines.append(_field("cause" if place == 1 else "", f"{place}. {_reason(reason)}", hang=3))
    lines += _steps("next", item.next)
    if window := version_window(item.since, item.until):
        lines.append(_field("since" if item.since else "until", window))
    lines.append(_field("source", f"{item.source} (known by {KNOWN_BY[item.basis]})"))
    return "\n".join(lines)


def _steps(name: str, steps: tuple[str, ...]) -> Iterator[str]:
    for place, step in enumerate(steps):
        label = name if place == 0 else ""
        yield _field(label, safe(step, 1000), wrap=not step.startswith(COMMAND))


def _field(name: str, value: str, *, wrap: bool = True, hang: int = 0) -> str:
    head = f"   {name.ljust(7)}"
    return wrapped(head, value, hang=hang) if wrap else head + value


# ---- markdown ----


def _markdown(explanation: Explanation) -> str:
    word = "explained" if explanation.items else "not recognised"
    lines = [f"### draftcheck why: {word}", "", f"{md(_answer(explanation))}.", ""]
    lines += [f"Note: {md(text)}." for text in _limits(explanation)]
    for number, item in enumerate(explanation.items, 1):
        lines += [*_section(number, item), ""]
    lines += [f"- {_md_step(step)}" for step in explanation.send]
    return "\n".join(lines).rstrip()


def _section(number: int, item: RecognisedMessage) -> Iterator[str]:
    yield f"{number}. **{KINDS[item.kind]} {item.id}** ({md(_engines(item))}), {_where(item)}"
    yield f"   - says: {md(_quote(item.hits[0]))}"
    for name, value in item.values.items():
        yield f"   - {md(name)}: {md(value)}"
    yield f"   - means: {md(item.meaning)}"
    if because := _because(item):
        yield f"   - follows from {md(because)}"
    for reason in _told(item):
        yield f"   - cause: {md(_reason(reason))}"
    for step in item.next:
        yield f"   - next: {_md_step(step)}"


def _md_step(step: str) -> str:
    if not step.startswith(COMMAND):
        return md(step)
    code = safe(step.removeprefix(COMMAND), 1000).replace("`", "'")
    return f"`{code}`"


# ---- JSON ----


def _object(explanation: Explanation) -> dict[str, Any]:
    return {
        **HEAD,
        "log": {
            **picked(explanation, "name", "bytes=nbytes", "lines", "complete"),
            **picked(explanation.run, "engine", "version", "target", "draft"),
        },
        "explained": bool(explanation.items),
        "messages": [_item(item) for item in explanation.items],
        "next": [_step(step) for step in explanation.send],
    }


def _item(item: RecognisedMessage) -> dict[str, Any]:
    return {
        **picked(item, "id", "kind", "engines", "count"),
        "evidence": [_hit(hit) for hit in item.hits],
        "values": {name: safe(value) for name, value in item.values.items()},
        "meaning": item.meaning,
        "follows_from": _hit(item.because),
        "causes": [
            {**picked(reason, "says", "rules"), "seen": _hit(reason.seen), "proved": reason.proved}
            for reason in item.reasons
        ],
        "next": [_step(step) for step in item.next],
        **picked(item, "since", "until", "source", "basis"),
    }


def _hit(hit: LogMatch | None) -> dict[str, Any] | None:
    return None if hit is None else {"line": hit.line, "text": _quote(hit)}


def _step(step: str) -> Mapping[str, str]:
    kind = "command" if step.startswith(COMMAND) else "step"
    return {"kind": kind, "text": step.removeprefix(COMMAND)}


FORMATS: Mapping[str, Callable[[Explanation], str]] = {
    "text": _text,
    "json": lambda explanation: dumps(_object(explanation)),
    "markdown": _markdown,
}
