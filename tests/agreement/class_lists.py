"""Lists of classes in the rulebook, held against the class tree of an engine's source.

    python -m tests.agreement.class_lists vllm 0.32.0=path/to/vllm 0.31.0=path/to/other/vllm
    python -m tests.agreement.class_lists sglang 0.5.23=path/to/sglang

Each folder is the package of one release, unpacked; nothing of it is imported. Classes and their
bases are read from the syntax trees, and for every list below each difference between the rulebook
and that release is a line. Exit code 1 where there is one. Run it for a new release, and for the
releases on both sides of each edge of a list.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from draftcheck import versions
from draftcheck.rulebook import book

Names = set[str]


@dataclass
class ClassTree:
    """Every class below some folders of a package, with its bases by name."""

    package: Path
    classes: dict[str, dict[Path, ast.ClassDef]] = field(default_factory=dict)
    modules: dict[Path, ast.Module] = field(default_factory=dict)

    @classmethod
    def of(cls, package: Path, *folders: str) -> ClassTree:
        tree = cls(package)
        for folder in folders:
            for path in sorted((package / folder).rglob("*.py")):
                module = ast.parse(path.read_bytes())
                tree.modules[path] = module
                for node in module.body:
                    if isinstance(node, ast.ClassDef):
                        tree.classes.setdefault(node.name, {})[path] = node
        return tree

    def ancestors(self, name: str, module: Path | None = None) -> Iterator[ast.ClassDef]:
        """The class, then its bases, nearest first.

        Of several with one name the one of the same module counts; where none is there, all do.
        """
        waiting: list[tuple[str, Path | None]] = [(name, module)]
        seen = set[tuple[str, Path | None]]()
        while waiting:
            if (entry := waiting.pop(0)) in seen:
                continue
            seen.add(entry)
            there = self.classes.get(entry[0], {})
            own = entry[1] is not None and entry[1] in there
            for path, node in there.items():
                if own and path != entry[1]:
                    continue
                yield node
                waiting += [(base, path) for base in map(_last_name, node.bases) if base]

    def inherits(self, name: str, base: str, module: Path | None = None) -> bool:
        return any(
            node.name == base or base in map(_last_name, node.bases)
            for node in self.ancestors(name, module)
        )

    def defines(self, name: str, *methods: str) -> bool:
        """Whether the class or a base has one of these methods."""
        return any(
            isinstance(entry, ast.FunctionDef) and entry.name in methods
            for node in self.ancestors(name)
            for entry in node.body
        )

    def flag(self, name: str, attribute: str, module: Path | None = None) -> bool | None:
        """A constant of the class; the nearest ancestor that sets it tells."""
        for node in self.ancestors(name, module):
            for entry in node.body:
                targets = entry.targets if isinstance(entry, ast.Assign) else ()
                if attribute in map(_last_name, targets) and isinstance(entry, ast.Assign):
                    return bool(ast.literal_eval(entry.value))
        return None

    def built_as(self, name: str, attribute: str, module: Path | None = None) -> str | None:
        """The class that `self.ATTRIBUTE = Class(…)` makes, through _init_model where used."""
        for node in self.ancestors(name, module):
            for call in ast.walk(node):
                if not isinstance(call, ast.Assign) or not isinstance(call.value, ast.Call):
                    continue
                if attribute not in map(_last_name, call.targets):
                    continue
                made = _last_name(call.value.func)
                return self._returned(name, made, module) if made == "_init_model" else made
        return None

    def _returned(self, name: str, method: str, module: Path | None) -> str | None:
        for node in self.ancestors(name, module):
            for entry in node.body:
                if isinstance(entry, ast.FunctionDef) and entry.name == method:
                    for step in ast.walk(entry):
                        if isinstance(step, ast.Return) and isinstance(step.value, ast.Call):
                            return _last_name(step.value.func)
        return None


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Subscript):
        node = node.value
    return getattr(node, "attr", None) or getattr(node, "id", None)


# ---- vLLM ----


@cache
def _vllm(package: Path) -> ClassTree:
    return ClassTree.of(package, "model_executor/models", "models")


SERVED = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS")


def _vllm_registry(package: Path, *tables: str) -> dict[str, tuple[Path, str]]:
    """architecture -> module and class, of these tables of the registry; of all without any."""
    found: dict[str, tuple[Path, str]] = {}
    folder = package / "model_executor/models"
    for node in _vllm(package).modules[folder / "registry.py"].body:
        value = getattr(node, "value", None)
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if not isinstance(value, ast.Dict) or targets[0] is None:
            continue
        if tables and _last_name(targets[0]) not in tables:
            continue
        for key, entry in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(entry, ast.Tuple):
                module, name = (str(getattr(part, "value", "")) for part in entry.elts[-2:])
                found[str(key.value)] = (folder / f"{module}.py", name)
    return found


def vllm_gives_states(package: Path) -> Names:
    """Architectures whose class hands its hidden states to a head."""
    tree, served = _vllm(package), _vllm_registry(package, *SERVED)
    return {a for a, (path, name) in served.items() if tree.inherits(name, "SupportsEagle3", path)}


def vllm_states_over_stages(package: Path) -> Names:
    """Of those, the ones whose layers pass the states from one pipeline stage to the next."""
    tree, found = _vllm(package), set[str]()
    served = _vllm_registry(package, *SERVED)
    for architecture in vllm_gives_states(package):
        path, name = served[architecture]
        inner = tree.built_as(name, "model", path)
        if inner and tree.flag(inner, "supports_aux_hidden_states_over_pp", path):
            found.add(architecture)
    return found


def vllm_drafts(package: Path) -> Names:
    """What the registry builds for a draft."""
    return set(_vllm_registry(package, "_SPECULATIVE_DECODING_MODELS"))


def vllm_known(package: Path) -> Names:
    """Every architecture that the registry names, those that were taken out too."""
    registry = package / "model_executor/models/registry.py"
    return {
        str(key.value)
        for node in ast.walk(_vllm(package).modules[registry])
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }


# ---- SGLang ----


@cache
def _sglang(package: Path) -> ClassTree:
    return ClassTree.of(package, "srt/models")


def sglang_entries(package: Path) -> Names:
    """Classes that the registry finds: EntryClass of each module."""
    found: Names = set()
    for module in _sglang(package).modules.values():
        for node in module.body:
            if isinstance(node, ast.Assign) and "EntryClass" in map(_last_name, node.targets):
                value = node.value
                entries = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
                found |= {name for name in map(_last_name, entries) if name}
    return found


DRAFTS = ("Eagle", "Eagle3", "NextN", "MTP", "AssistantForCausalLM", "DSpark", "DraftModel")
"""Ends of the names of heads, which are no targets."""
WRITES = (
    "CausalLM", "ForConditionalGeneration", "LMHeadModel", "ChatModel", "ChatGLMModel",
    "ForBlockDiffusion", "MiniCPMO", "MiniCPMV", "Nano_VL_V2", "Reasoning_V3",
)  # fmt: skip
"""Ends of the names of models that write text."""
UNNAMED = ("DFlash", "Quant", "TorchNative", "Transformers", "Whisper")
"""Starts of the names of classes that no target's config names, or that speak of something else."""


def sglang_gives_states(package: Path) -> Names:
    return _sglang_targets(package, "set_eagle3_layers_to_capture")


def sglang_gives_dflash_states(package: Path) -> Names:
    return _sglang_targets(package, "set_dflash_layers_to_capture")


def sglang_gives_block_states(package: Path) -> Names:
    block = ("set_dspark_layers_to_capture", "set_dflash_layers_to_capture")
    return _sglang_targets(package, *block)


def _sglang_targets(package: Path, *methods: str) -> Names:
    """Targets whose class has one of these methods."""
    tree = _sglang(package)
    targets = (name for name in sglang_entries(package) if not name.endswith(DRAFTS))
    return {name for name in targets if tree.defines(name, *methods)}


def sglang_renamed(package: Path) -> dict[str, str]:
    """Architectures that a config class turns into another: by .remove("…"), .append("…")."""
    found = {}
    for path in sorted((package / "srt/configs").glob("*.py")):
        said = {}
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and "architectures" in ast.dump(node.func):
                [value] = node.args[:1] or [None]
                if isinstance(value, ast.Constant):
                    said[_last_name(node.func)] = str(value.value)
        if "remove" in said and "append" in said:
            found[said["remove"]] = said["append"]
    return found


def sglang_keeps_embedding(package: Path) -> Names:
    """Targets whose class does not hand out its embedding.

    One that asks its language model for what it lacks (__getattr__, Mistral 3) is named all the
    same: read on.
    """
    tree = _sglang(package)
    named = {name for name in sglang_entries(package) if not name.startswith(UNNAMED)}
    targets = {n for n in named if n.endswith(WRITES) and not n.endswith(DRAFTS)}
    found = {name for name in targets if not tree.defines(name, "get_embed_and_head")}
    return found | {old for old, new in sglang_renamed(package).items() if new in found}


def sglang_mtp(package: Path) -> Names:
    """Architectures that become the MTP class of their family when they are a draft."""
    module = ast.parse((package / "srt/configs/model_config.py").read_bytes())
    found: Names = set()
    constants = {
        name: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for name in map(_last_name, node.targets)
    }
    for node in ast.walk(module):
        # self.hf_config.architectures[0] == "…" (or in […]) inside a branch for drafts
        if not isinstance(node, ast.Compare) or "architectures" not in ast.dump(node.left):
            continue
        for value in node.comparators:
            value = constants.get(getattr(value, "id", ""), value)
            found |= {
                str(part.value)
                for part in ast.walk(value)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
    return found


@dataclass(frozen=True)
class ClassList:
    """One list of the rulebook, and the function that reads it from a source.

    whole: the list has every name that there is; otherwise only its own names are looked up.
    method: only rows of this method.
    """

    rule: str
    params: str
    read: Callable[[Path], Names]
    whole: bool = True
    method: str | None = None


LISTS: Mapping[str, tuple[ClassList, ...]] = {
    "vllm": (
        ClassList("VLL104", "able", vllm_gives_states),
        ClassList("VLL158", "able", vllm_states_over_stages),
        ClassList("VLL155", "known", vllm_drafts, whole=False),
        ClassList("VLL159", "known", vllm_drafts, whole=False),
        ClassList("VLL460", "classes", vllm_known, whole=False),
    ),
    "sglang": (
        ClassList("SGL118", "able", sglang_gives_states),
        ClassList("SGL119", "able", sglang_gives_dflash_states, method="DFLASH"),
        ClassList("SGL119", "able", sglang_gives_block_states, method="DSPARK"),
        ClassList("SGL140", "architectures", sglang_keeps_embedding, method="NEXTN"),
        ClassList("SGL126", "known", sglang_entries, whole=False),
        ClassList("SGL116", "able", sglang_mtp, whole=False),
    ),
}


def differences(engine_name: str, version: str, package: Path) -> Iterator[str]:
    """What the rulebook says otherwise than this release, a line each."""
    engine = book.load(engine_name)
    for entry in LISTS[engine_name]:
        rows = [
            row
            for row in engine.rules
            if row.id == entry.rule
            and entry.params in row.params
            and (entry.method is None or entry.method in row.methods)
            and versions.covers(engine.order, version, row.since, row.until)
        ]
        for row in rows:
            table: Mapping[str, str] = row.params[entry.params]
            ours = {n for n, w in table.items() if versions.in_window(engine.order, version, w)}
            theirs = entry.read(package)
            for name in sorted(ours - theirs):
                yield f"{entry.rule} {version}: {name} is in the row, not in the source"
            strange = theirs - ours if entry.whole else (theirs & set(table)) - ours
            for name in sorted(strange):
                yield f"{entry.rule} {version}: {name} is in the source, not in the row"


def main(arguments: list[str]) -> int:
    engine, *releases = arguments
    found = []
    for release in releases:
        version, _, folder = release.partition("=")
        lines = list(differences(engine, version, Path(folder)))
        print(f"{engine} {version}: {len(lines)} differences", *lines, sep="\n  ")
        found += lines
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
