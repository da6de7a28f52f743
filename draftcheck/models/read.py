"""Bytes -> facts: what the files of one model say, without opinion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from draftcheck.errors import GatedError, ReadError, UsageError
from draftcheck.models import stored
from draftcheck.models.opening import OpenedModel, Opener
from draftcheck.models.readers import config, conversion, heads, jsonfile
from draftcheck.models.readers.gguf import facts as gguf
from draftcheck.models.readers.tokenizer import files as tokenizer
from draftcheck.models.readers.weights import beside, quantised, soundness
from draftcheck.models.readers.weights import files as weights
from draftcheck.models.refs import ModelRef, parse
from draftcheck.values.facts import ModelFacts

SMALL_FILES = ("tokenizer_config.json", weights.INDEX)
"""Read in every run, so a remote source may get them together."""
SMALL = 1 << 20
UNREAD = (
    "pointer", "cut-off", "trailing", "header", "span", "missing-shard", "index", "not-stored",
)  # fmt: skip
"""Faults that a server can bring about: what it sends in ranges is held against no digest."""


def read(ref: ModelRef, *, offline: bool = False, deep: bool = False) -> ModelFacts:
    """Read everything that the files of one model say.

    deep: hold the weights against transformers' own class, which imports it, and the headers
    against the libraries that own the formats.
    """
    return read_all(ref, offline=offline, whole=True, deep=deep)[0]


def read_all(
    *refs: ModelRef, offline: bool = False, deep: bool = False, whole: bool = False
) -> tuple[ModelFacts, ...]:
    """Read what a verdict on these models needs (whole: everything); the same reference once."""
    opener = Opener(offline=offline)
    names = [replace(ref, text="") for ref in refs]  # ./a and a are the same model
    opened: dict[ModelRef, OpenedModel] = {}
    done: dict[ModelRef, ModelFacts] = {}
    closed: dict[ModelRef, GatedError] = {}
    try:
        for name, ref in zip(names, refs, strict=True):
            if ref.kind == "facts":
                done[name] = done.get(name) or stored.load(ref.path, ref.text)
            elif name not in opened:
                opened[name] = opener.open(ref)
        _share([*opened.values()])
        lean = not (whole or done) and _one_tokenizer([*opened.values()])
        for name, model in opened.items():
            try:
                done[name] = _read(model, whole=whole, lean=lean, deep=deep)
            except GatedError as error:
                closed[name] = error
        for name, refusal in closed.items():  # last: others may have read the same contents
            done[name] = _read_closed(opened[name], refusal)
    finally:
        opener.close()
    return tuple(done[name] for name in names)


def read_opened(model: OpenedModel) -> ModelFacts:
    """Read what a verdict needs of a model that somebody else opened; gated ones by listing."""
    try:
        return _read(model, whole=False, lean=False, deep=False)
    except GatedError as error:
        return _read_closed(model, error)


def known_bases(text: str) -> Mapping[str, str]:
    """What a model says it was made from, as far as it is on this disk; nothing where it is not."""
    opener = Opener(offline=True)
    try:
        ref = parse(text)
        if ref.kind == "facts":
            return stored.load(ref.path, ref.text).bases
        model = opener.open(ref)
        if model.gguf is not None and not model.remote:
            return gguf.read(model.source, model.gguf, text).bases
        return model.source.bases()
    except (ReadError, UsageError):
        return {}
    finally:
        opener.close()


def _share(models: list[OpenedModel]) -> None:
    """A tokenizer file that one side has on this disk is not downloaded for another."""
    here = [model.source for model in models if model.kind == "folder"]
    for model in models:
        name = tokenizer.main_file(model.source) if model.remote and model.gguf is None else None
        for source in here if name else ():
            if name is not None and source.files().get(name) == model.source.files()[name]:
                model.source.offer(name, source.read(name, jsonfile.MAX_TOKENIZER))


def _one_tokenizer(models: list[OpenedModel]) -> bool:
    """Whether all sides are remote and have the same tokenizer file, so nobody reads it."""
    digests = set()
    for model in models:
        name = tokenizer.main_file(model.source)
        digest = model.source.digest(name) if name and model.gguf is None else None
        if digest is None:
            return False
        digests.add((name, digest))
    return len(digests) == 1


def _read(model: OpenedModel, *, whole: bool, lean: bool, deep: bool) -> ModelFacts:
    try:
        facts = _read_files(model, whole=whole, lean=lean, deep=deep)
    except ReadError as error:
        model.settle(error)
        raise
    model.settle(None)
    return facts


def _read_files(model: OpenedModel, *, whole: bool, lean: bool, deep: bool) -> ModelFacts:
    text = model.ref.text
    if model.gguf is not None:
        facts = gguf.read(model.source, model.gguf, text)
        facts = replace(facts, origin={**facts.origin, **model.about})
    else:
        facts = _read_checkpoint(model, whole=whole or not model.remote, lean=lean, deep=deep)
    if deep:
        from draftcheck.models.readers import second_opinion

        notes = second_opinion.notes(facts, model.source)
        facts = replace(facts, notes=(*facts.notes, *notes))
    return replace(
        facts,
        kind=model.kind,
        name=model.name,
        revision=model.source.revision,
        bases={**model.source.bases(), **facts.bases},
        notes=(*model.notes, *facts.notes),
        download=model.download,
        downloaded=model.downloaded,
        gated=model.gated,
    )


def _read_checkpoint(model: OpenedModel, *, whole: bool, lean: bool, deep: bool) -> ModelFacts:
    source, text = model.source, model.ref.text
    facts, raw = config.read(source, generation=whole)
    source.expect({n: s for n, s in source.files().items() if n in SMALL_FILES and s < SMALL})
    facts = heads.layer_config(facts, raw, f"{text}/config.json")
    files = tokenizer.read(source, whole=whole, lean=lean, rows=facts.vocab_size)
    weight = weights.read(source)
    # Files that came over the network and make no sense were not read, rather than broken.
    for fault in (weight.faults or ()) if model.remote else ():
        if fault.kind in UNREAD:
            raise ReadError(f"{text}/{fault}" if fault.file else f"{text}: {fault}")
    if weight.nbytes is not None:
        weight = replace(
            weight, parameters=quantised.count_parameters(weight.tensors, facts.quantization)
        )
    notes = list(weight.problems)
    if facts.model_type is None and not raw:
        notes.append(f"{text}: no config.json")
    if tokenizer.main_file(source) is None and not raw and weight.tensors is None:
        for fault in weight.faults or ():
            raise ReadError(f"{text}/{fault.file}: {fault.says}")
        raise ReadError(
            f"{text}: no model here (no config.json, tokenizer, safetensors or GGUF file)"
        )
    pickles = [file.size for file in weight.files or () if file.format == "pickle"]
    pickled = sum(pickles) if pickles and weight.tensors is None else None
    role = heads.role(facts, raw, weight.tensors, pickled)
    if tokenizer.main_file(source) is None and role == heads.FULL:  # heads have none
        notes.append(f"{text}: no tokenizer file")
    if role == heads.FULL:
        look = soundness.look
        if deep:
            from draftcheck.models.readers.weights.deep import look
        weight = look(weight, raw, tuple(source.files()))
    head = heads.read(role, facts, raw, weight.tensors, source)
    return ModelFacts(
        ref=text,
        kind="folder",
        role=role,
        verifier=heads.verifier(raw),
        tokenizer=files.facts,
        config=facts,
        weights=weight,
        conversion=conversion.predict(files, facts, raw),
        head=beside.look(head, weight.tensors, facts.layers, source),
        notes=tuple(notes),
        origin={"*": text if model.remote else str(model.ref.path)},
    )


def _read_closed(model: OpenedModel, error: GatedError) -> ModelFacts:
    """A gated repo: what its public listing tells, and contents that others share with it."""
    from draftcheck.models.sources.hub.reader import HubSource

    source = model.source
    assert isinstance(source, HubSource)
    note = f"{error.message}. {error.hint}"
    closed = ModelFacts(
        ref=model.ref.text,
        kind=model.kind,
        revision=source.revision,
        notes=(*model.notes, note),
        refused=error.message,
        gated=True,
    )
    if model.gguf is not None:
        return replace(closed, weights=weights.listed(source, gguf.parts(model.gguf)))
    known = source.readable()
    shared = tokenizer.main_file(known) is not None
    return replace(
        closed,
        tokenizer=tokenizer.read(known).facts if shared else tokenizer.listed(source),
        weights=weights.listed(source, tuple(source.files())),
        origin={"*": model.ref.text},
    )
