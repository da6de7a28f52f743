"""Whether the weights of a whole model are complete: names, shapes and quantisation together.

The tensors of a checkpoint are held against the parameters that its class asks for. Where the
class is not known, or the file spells the model in another way that is known to exist, nothing
is claimed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from draftcheck.models.readers import config as configs
from draftcheck.models.readers.heads import SIGNS
from draftcheck.models.readers.weights import families, quantised
from draftcheck.models.readers.weights.families import ExpectedParameters, ParameterPattern, Shape
from draftcheck.models.readers.weights.quantised import BESIDE, PLAIN
from draftcheck.values.facts import Fault, Tensor, WeightFacts

LONGEST = 300
MOST_FAULTS = 20
MODULE = ".weight"
ASIDE = frozenset({*BESIDE, "bias", "biases"})
"""Last parts of names that never hold the weight itself."""


@dataclass(slots=True)
class NameSearch:
    """What the class asks for, and what came of asking for it."""

    tensors: Mapping[str, Tensor]
    model: ExpectedParameters
    prefix: str
    """What stands before the names of the body."""
    who: str
    inside: re.Pattern[str]
    """A name among the layers, with the layer's number."""
    asked: set[str] = field(default_factory=set)
    missing: list[tuple[str, Shape]] = field(default_factory=list)
    misshapen: list[tuple[str, Shape]] = field(default_factory=list)

    def ask(self, name: str, shape: Shape) -> None:
        self.asked.add(name)
        tensor = self.tensors.get(name)
        if tensor is None:
            self.missing.append((name, shape))
        elif tensor.shape != shape and shape is not None and tensor.dtype in PLAIN:
            self.misshapen.append((name, shape))


def look(weights: WeightFacts, raw: Mapping[str, Any], files: Sequence[str]) -> WeightFacts:
    """The same facts with the faults that only the config can show."""
    tensors = weights.tensors
    if not tensors or weights.faults is None or weights.nbytes is None:
        return weights  # a file is missing or unreadable: what it held is not known
    found = compare(raw, tensors, weights.origin.get("format", ""))
    faults = [*weights.faults, *quantised.compare(raw, tensors, files), *(found or ())]
    known = None if found is None else "table"
    return replace(weights, faults=promises(faults, raw, found), class_known=known)


def promises(
    faults: Iterable[Fault], raw: Mapping[str, Any], found: Iterable[Fault] | None
) -> tuple[Fault, ...]:
    """A tensor that only the index knows matters where the class asks for it."""
    wanted = {fault.tensor for fault in found or ()}
    untied = any(p.get("tie_word_embeddings") is False for p in (configs.text_config(raw), raw))
    kept = []
    for fault in faults:
        if fault.kind != "not-stored":
            kept.append(fault)
        elif fault.tensor in wanted:
            continue  # said already, with its shape
        elif found is not None or ("lm_head" in (fault.tensor or "") and not untied):
            kept.append(replace(fault, kind="not-needed"))
        else:
            kept.append(fault)
    return tuple(kept)


def compare(
    raw: Mapping[str, Any], tensors: Mapping[str, Tensor], stored_as: str
) -> list[Fault] | None:
    """Faults of names and shapes; None where the table does not know this class.

    stored_as: the format named in the files' own metadata.
    """
    part = configs.text_config(raw)
    model = families.model(part, raw)
    classes = raw.get("architectures")
    if model is None or not tensors or not isinstance(classes, list) or not classes:
        return None
    native = any(name in model.classes for name in classes)
    if (part is raw and not native) or ("auto_map" in raw and not native):
        return None
    if any(families.elsewhere().match(name[:LONGEST]) for name in tensors):
        return None
    prefix = _prefix(model, tensors)
    stack = f"{prefix}{model.stack}."
    if not native and (prefix is None or not any(name.startswith(stack) for name in tensors)):
        return None  # a class around it that calls its parts something else
    if prefix is None:
        if stored_as == "mlx":
            return None
        wanted, there = model.prefixes[0] + model.root[0].before, sorted(tensors)[:3]
        says = f"none of the parameters of {str(classes[0])[:80]} is stored ({wanted!r} …)"
        says += f"; the files hold {', '.join(repr(name[:80]) for name in there)}"
        return [Fault("other-names", "", says)]
    who = str(classes[0])[:80]
    look = NameSearch(tensors, model, prefix, who, re.compile(re.escape(stack) + r"(\d{1,6})\."))
    for line in model.root:
        look.ask(prefix + line.before, line.shape)
    for number in range(model.layers):
        _layer(look, number)
    within, beyond = _left_over(look)
    other = [] if stored_as == "mlx" else within  # mlx-lm stacks experts, joins projections
    faults = [fault for fault in _missing(look, within) if fault.kind != "unfamiliar" or other]
    faults += _shapes(look)
    if not part.get("num_nextn_predict_layers"):
        faults += _extra_layers(model, beyond)
    if native:
        faults += _head(look)
    if other and not any(fault.kind == "unfamiliar" for fault in faults):
        says = f"tensor {other[0][:120]!r} is stored, {who} does not have it{more(other)}"
        faults.append(Fault("left-over", tensors[other[0]].file, says, other[0]))
    return faults


def _prefix(model: ExpectedParameters, tensors: Mapping[str, Tensor]) -> str | None:
    """What stands before the names of the body; None where no name of it is found."""
    probes = [line.before for line in model.root]
    for number in {0, model.layers - 1, model.layers // 2}:
        for group in model.of_layer(number):
            lines = [line for choice in group for line in choice]
            probes += [f"{model.stack}.{number}.{name}" for name in _firsts(lines)]
    best = max(model.prefixes, key=lambda prefix: sum(prefix + p in tensors for p in probes))
    return best if any(best + probe in tensors for probe in probes) else None


def _firsts(lines: Iterable[ParameterPattern]) -> list[str]:
    return [line.before if line.after is None else f"{line.before}0{line.after}" for line in lines]


def _layer(look: NameSearch, number: int) -> None:
    model, tensors, asked = look.model, look.tensors, look.asked
    base = f"{look.prefix}{model.stack}.{number}."
    for group in model.of_layer(number):
        lines = group[0]
        for choice in group[1:]:
            if choice and base + _firsts(choice)[0] in tensors:
                lines = choice
        for line in lines:
            if line.after is None:
                look.ask(base + line.before, line.shape)
                continue
            before, after, shape = base + line.before, line.after, line.shape
            for expert in range(model.experts):  # tens of thousands of them
                name = f"{before}{expert}{after}"
                tensor = tensors.get(name)
                if tensor is not None and tensor.shape == shape:
                    asked.add(name)
                else:
                    look.ask(name, shape)


def packed_modules(tensors: Mapping[str, Tensor]) -> set[str]:
    """Modules with something stored that may be their weight, whatever it is called."""
    found = set()
    for name in tensors:
        module, _, leaf = name.rpartition(".")
        if leaf not in ASIDE:
            found.add(module)
    return found


def _left_over(look: NameSearch) -> tuple[list[str], dict[int, list[str]]]:
    """Names that the class does not ask for: of its own layers, and of those behind them."""
    stack = f"{look.prefix}{look.model.stack}."
    beside = families.beside()
    within: list[str] = []
    beyond: dict[int, list[str]] = {}
    for name in sorted(look.tensors.keys() - look.asked):
        if not name.startswith(stack) or beside.search(name[-LONGEST:]):
            continue
        weight = name[: name.rfind(".")] + MODULE
        if weight in look.asked and weight not in look.tensors:
            continue  # a part of a module in its quantised form
        match = look.inside.match(name)
        number = int(match[1]) if match else 0
        (beyond.setdefault(number, []) if number >= look.model.layers else within).append(name)
    return within, beyond


def _by_kind(rows: Iterable[tuple[str, Shape]]) -> dict[str, list[tuple[str, Shape]]]:
    """The same parameter of all layers and experts together."""
    kinds: dict[str, list[tuple[str, Shape]]] = {}
    for name, shape in rows:
        kind = re.sub(r"\.\d+\.", ".#.", re.sub(r"\.\d+\.", ".#.", name[:LONGEST]))
        kinds.setdefault(kind, []).append((name, shape))
    return kinds


def _missing(look: NameSearch, left: Sequence[str]) -> list[Fault]:
    """One fault for whole layers, else one for each kind of parameter."""
    model, inside = look.model, look.inside
    packed = packed_modules(look.tensors) if look.missing else set()
    missing = [  # less the modules that are stored in a quantised form
        (name, shape)
        for name, shape in look.missing
        if not (name.endswith(MODULE) and name.removesuffix(MODULE) in packed)
    ]
    layers = Counter(int(match[1]) for name, _ in missing if (match := inside.match(name)))
    stored = {int(match[1]) for name in left if (match := inside.match(name))}
    gone = {n for n, count in layers.items() if count == _count(model, n)} - stored
    faults = []
    if gone:
        says = f"no tensor of layer {min(gone)} is stored, {look.who} has {model.layers} layers"
        faults.append(Fault("missing-parameter", "", says + more(sorted(gone), "layers")))
    others = [name for name in left if not name.endswith(".bias")]
    for kind, found in _by_kind(missing).items():
        rest = [e for e in found if not ((m := inside.match(e[0])) and int(m[1]) in gone)]
        if not rest:
            continue
        everywhere = "#" in kind and len(found) >= model.layers
        name, shape = rest[0]
        says = f"{look.who} needs tensor {name[:120]!r}{_sides(shape)}"
        says += f", which is not stored{more(rest)}"
        if everywhere and others:
            says += f"; the files hold {others[0][:120]!r}, which it does not know"
        word = "unfamiliar" if everywhere and others else "missing-parameter"
        faults.append(Fault(word, "", says, name))
    return faults[:MOST_FAULTS]


def _count(model: ExpectedParameters, number: int) -> int:
    """Parameters of one layer in the first spelling."""
    return sum(
        1 if line.after is None else model.experts
        for group in model.of_layer(number)
        for line in group[0]
    )


def _shapes(look: NameSearch) -> list[Fault]:
    faults: list[Fault] = []
    model = look.model
    for found in _by_kind(look.misshapen).values():
        name, shape = found[0]
        tensor = look.tensors[name]
        if name == look.prefix + model.root[0].before and tensor.shape[1:] == (shape or ())[1:]:
            says = _rows(name, tensor, model)
            faults.append(Fault("embedding-rows", tensor.file, says, name))
            continue
        says = f"{name[:120]!r} is{_sides(tensor.shape)}, {look.who} with this config needs"
        faults.append(Fault("shape", tensor.file, says + _sides(shape) + more(found), name))
    return faults[:MOST_FAULTS]


def _rows(name: str, tensor: Tensor, model: ExpectedParameters) -> str:
    return f"{name!r} has {tensor.shape[0]:,} rows, config.json says {model.vocab:,}"


def _extra_layers(model: ExpectedParameters, beyond: Mapping[int, Sequence[str]]) -> list[Fault]:
    """Layers behind the last one that the config counts; the ones for several tokens excepted."""
    signs = (*SIGNS, "shared_head", "hnorm")
    plain = sorted(
        number
        for number, names in beyond.items()
        if not any(sign in name for name in names for sign in signs)
    )
    if not plain:
        return []
    says = f"layer {plain[0]} is stored, config.json counts {model.layers} layers"
    return [Fault("extra-layers", "", says + more(plain, "layers"))]


def _head(look: NameSearch) -> list[Fault]:
    """The output layer: there unless it is the embedding itself, and of the right shape."""
    faults = []
    model, tensors, who = look.model, look.tensors, look.who
    for number, line in enumerate(model.head):
        name = line.before
        tensor = tensors.get(name)
        if tensor is None:
            packed = name.removesuffix(MODULE) in packed_modules(tensors)
            if (number == 0 and model.tied) or (packed and name.endswith(MODULE)):
                continue
            says = f"{who} needs tensor {name!r}{_sides(line.shape)}, which is not stored"
            if number == 0:
                says += "; config.json does not tie it to the embedding"
            faults.append(Fault("missing-head", "", says, name))
        elif tensor.shape != line.shape and tensor.dtype in PLAIN:
            kind = "tied-head" if model.tied else "shape"
            says = f"{name!r} is{_sides(tensor.shape)}, {who} with this config needs"
            says += _sides(line.shape)
            if kind == "shape" and tensor.shape[1:] == (line.shape or ())[1:]:
                kind, says = "embedding-rows", _rows(name, tensor, model)
            faults.append(Fault(kind, tensor.file, says, name))
    return faults


def _sides(shape: Shape) -> str:
    return "" if shape is None else f" [{', '.join(map(str, shape[:8]))}]"


def more(found: Sequence[object], what: str = "") -> str:
    """How many were found beside the one that a message names."""
    return f" (and {len(found) - 1:,} more{' ' * bool(what)}{what})" if len(found) > 1 else ""
