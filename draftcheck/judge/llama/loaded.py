"""What `draftcheck inspect` shows of a GGUF: its vocabulary as the engine holds it once loaded."""

from __future__ import annotations

from collections.abc import Mapping

from draftcheck.judge import bind
from draftcheck.judge.checks import llama
from draftcheck.judge.decide import cut, setup_for
from draftcheck.judge.llama.vocab import LlamaVocab
from draftcheck.rulebook import book
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import ModelFacts


def loaded(facts: ModelFacts) -> Mapping[str, object] | None:
    """The vocabulary in the newest version read; None for what is no GGUF."""
    if facts.gguf is None:
        return None
    # The engine whose format GGUF is: the first that converts folders into it.
    engines = map(book.load, book.engine_files())
    name = next(e.id for e in engines if any(method.convert for method in e.methods))
    engine = bind.engine(name)
    setup = setup_for(engine, engine.checked, engine.methods[0], Circumstances())
    view = llama.load(facts, setup)
    if not isinstance(view, LlamaVocab):
        return {"build": engine.checked, "does not load": cut(str(view))}
    special = {name: getattr(view, name) for name in ("bos", "eos", "add_bos", "add_eos")}
    return {"build": engine.checked, "type": view.type, "tokens": view.n, **special}
