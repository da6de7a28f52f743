"""Inside the browser: a question of the page -> the command line that asks it -> the answer.

The worker calls `answer` with the command line's own entry, so the page says what the commands say:
the same JSON, the same errors, the same exit code. Nothing here decides anything.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Run = Callable[[Sequence[str]], int]
DROPPED = Path("/dropped")
"""Files that were given to the page: a folder for each side."""
NOTHING = Path("/nothing")
"""An empty folder: no name of the Hub is a path here."""
PASTED = Path("/pasted")
MODELS = (".gguf", ".facts.json")
"""A file of these is a model; other files are one together."""
FIELDS = ("gpu", "context", "sequences")
FOUND = 8
"""Names that are offered while somebody types."""


def prepare() -> None:
    """Load what judges a pair, before the page is ready."""
    import draftcheck.judge.questions
    import draftcheck.judge.repairs
    import draftcheck.memory.gpus
    import draftcheck.models.read
    import draftcheck.models.sources.progress
    import draftcheck.report.pair  # noqa: F401


def prepare_answer() -> None:
    """Load what the first answer needs besides, while somebody reads the page."""
    from draftcheck.rulebook import book
    from draftcheck.web import render

    for engine in book.engine_files():
        book.load(engine)
    render.template("pair")


def answer(run: Run, question: str, token: str = "") -> str:
    """A question and its answer as JSON: html, json (the command's own), code, first, badge."""
    asked: dict[str, str] = json.loads(question)
    if asked["kind"] == "search":
        return json.dumps({"names": search(asked["text"])})
    from draftcheck.web import render  # here: the page can be used before it is loaded

    with _token(token):
        words = WORDS[asked["kind"]](asked)
        code, out, lines = _ran(run, [*words[:1], "--format", "json", *words[1:]])
    shown = render.answer(asked["kind"], out, code, lines)
    return json.dumps({**shown, "code": code, "json": out, "command": words})


def search(text: str) -> list[str]:
    """Models of the Hub that are called so; none where nobody can be asked."""
    from draftcheck.errors import DraftcheckError
    from draftcheck.models.sources.hub.listing import HubQuery
    from draftcheck.models.sources.hub.repos import Hub

    try:
        rows = list(Hub().search(HubQuery(search=text, rows=FOUND)))
    except DraftcheckError:
        return []
    return [name for row in rows if isinstance(name := row.get("id"), str)]


def _pair(asked: Mapping[str, str]) -> list[str]:
    words = ["pair"]
    for engine in re.split(r"[\s,]+", asked.get("engine", "").strip()):
        words += ["--engine", engine] if engine else []
    for name in FIELDS:
        if value := asked.get(name, "").strip():
            words += [f"--{name}", value]
    given = [_reference(side) for side in ("target", "draft")]
    sides = [
        name or asked.get(side, "").strip()
        for name, side in zip(given, ("target", "draft"), strict=True)
    ]
    NOTHING.mkdir(exist_ok=True)
    os.chdir(DROPPED if any(given) else NOTHING)
    return [*words, "--", *(sides if sides[1] else sides[:1])]


def _reference(side: str) -> str:
    """What was dropped for this side, as a command line would name it."""
    folder = DROPPED / side
    names = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208
    if not names:
        return ""
    return f"{side}/{names[0]}" if names[0].endswith(MODELS) and not names[1:] else side


def _why(asked: Mapping[str, str]) -> list[str]:
    engine = asked.get("engine", "").strip()
    return ["why", *(["--engine", engine] if engine else []), "--", _pasted("log.txt", asked)]


def _gate(asked: Mapping[str, str]) -> list[str]:
    name = re.sub(r"[^\w.-]", "_", asked.get("name") or "compose.yaml")
    return ["gate", "--", _pasted(name, asked)]


def _pasted(name: str, asked: Mapping[str, str]) -> str:
    """The text as the only file of a folder; the folder is where we are."""
    PASTED.mkdir(exist_ok=True)
    for old in PASTED.iterdir():
        old.unlink()
    (PASTED / name).write_text(asked.get("text", ""), encoding="utf-8", errors="surrogatepass")
    os.chdir(PASTED)
    return name


WORDS: Mapping[str, Callable[[Mapping[str, str]], list[str]]] = {
    "pair": _pair,
    "why": _why,
    "gate": _gate,
    "known": lambda asked: ["known", "--", asked.get("target", "").strip()],
    "rule": lambda asked: ["rules", "--", asked.get("rule", "")],
}
"""Kind of question -> its command line."""


def _ran(run: Run, words: Sequence[str]) -> tuple[int, str, list[str]]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    return code, out.getvalue(), err.getvalue().splitlines()


@contextlib.contextmanager
def _token(token: str) -> Iterator[None]:
    """The Hub's token, for as long as the question takes; it is in no variable before or after."""
    if token:
        os.environ["HF_TOKEN"] = token
    try:
        yield
    finally:
        os.environ.pop("HF_TOKEN", None)


def listen(tell: Callable[[str, int, float], Any]) -> None:
    """Have the page told of bytes as they come."""
    from draftcheck.models.sources import progress

    progress.listen(tell)
