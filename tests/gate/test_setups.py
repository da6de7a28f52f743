"""What draftcheck prints as a setup passes its own gate, in the versions it is printed for."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftcheck import versions
from draftcheck.deploy import file_versions
from draftcheck.deploy import find as deployments
from draftcheck.deploy.discover import Neighbours
from draftcheck.deploy.file_versions import KnownVersion
from draftcheck.deploy.kinds import choose
from draftcheck.judge import commands
from draftcheck.judge.compare import compare
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Engine, Method
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import ModelFacts

FIRST = {  # rows without a since: the first version that takes the method at all
    "draft-eagle3": "b9606", "draft-dflash": "b9831", "draft-dspark": "b10163",
    "draft-mtp": "b9180", "ngram-simple": "b7864", "ngram-map-k": "b7864",
    "ngram-map-k4v": "b7864", "ngram-mod": "b7888", "ngram-cache": "b7864",
    "eagle3": "0.9.1", "dflash": "0.20.0", "dspark": "0.25.0", "DFLASH": "0.5.11",
    "DSPARK": "0.5.16", "medusa": "0.4.1", "mlp_speculator": "0.5.1",
}  # fmt: skip
SAID = Circumstances(context=4096, sequences=2, draft_tokens=4)
CASES = [
    (book.load(name), method)
    for name in ("llama.cpp", "vllm", "sglang", "mlx-lm", "tabbyapi", "transformers")
    for method in book.load(name).methods
    if method.id != "none"  # -md without --spec-type: what is printed instead is draft-simple
]


LAST = {"medusa": "0.32.0", "mlp_speculator": "0.32.0"}
"""Methods whose rows go on, so that a rule says what newer versions answer."""


def window(engine: Engine, method: Method) -> list[str]:
    """The first version of a row, and the newest if it is still there."""
    low = FIRST.get(method.id)
    starts = [text for text in (method.since, low, engine.oldest) if text]
    first = max(starts, key=engine.order)
    until = method.until
    if until is not None and engine.order(first) >= engine.order(until):
        return []
    last = LAST.get(method.id, engine.checked)
    return [first, *([last] if until is None else [])]


def name_of(engine: Engine, text: str) -> str:
    if "import " in text:
        return "app.py"
    return "config.yml" if text.startswith("# config.yml") else "run.sh"


@pytest.mark.parametrize(
    ("engine", "method"), CASES, ids=[f"{e.id}-{m.id}-{m.since}-{m.drafts[0]}" for e, m in CASES]
)
def test_a_setup_passes(engine: Engine, method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = compare(ModelFacts("org/big", "folder"), ModelFacts("org/small", "folder"))
    for version in window(engine, method):
        assert versions.covers(engine.order, version, method.since, method.until)
        monkeypatch.setattr(
            file_versions.Versions, "tell", lambda *_, at=version: KnownVersion(at, "test")
        )
        for said in (Circumstances(), SAID):
            text = commands.render(method.setup, pair, said, method)
            contents = choose.read(f"{text}\n".encode(), name_of(engine, text))
            assert contents is not None and not contents.troubles
            found = [
                d
                for d in deployments.find(contents, Neighbours({}, Path()))
                if d.engine == engine.id
            ]
            assert found, text
            assert not [(f.rule, f.saw) for d in found for f in d.findings], text
            (one,) = [d for d in found if d.speculates]
            assert one.method in (method.id, None), text
            assert one.target is not None
            assert one.target.text.endswith(("org/big", "big.gguf")), text
            needs = not set(method.drafts) <= {"itself", "none"}
            assert (one.draft is not None) or not needs, text
