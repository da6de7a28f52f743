"""Pairs of a tiny target and a tiny head, each wrong in one way, to compare with real engines.

`CASES` lists them; `write(case, folder)` writes the files and gives the paths of target and draft
(no draft: the target's own layers, or none at all). Shapes are those that llama.cpp b11312 asks
for in src/models/eagle3.cpp, dflash.cpp and glm4-moe.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import mutate_bases
from mutate_gguf import F16, F32, I64, Body, value, write_model

Shape = tuple[int, ...]
WIDTH = 32
BASE = "small-bpe"


@dataclass
class Parts(Body):
    """A body whose keys and tensors are given one by one."""

    more: dict[str, tuple[str, object]] = field(default_factory=dict)
    table: dict[str, tuple[Shape, int]] = field(default_factory=dict)
    without: frozenset[str] = frozenset()

    def keys(self) -> dict[str, bytes]:
        found = super().keys()
        found |= {f"{self.arch}.{name}": value(*content) for name, content in self.more.items()}
        return {name: content for name, content in found.items() if name not in self.without}

    def tensors(self, n_tokens: int) -> list[tuple[str, Shape, int]]:
        return [
            (name, shape, kind)
            for name, (shape, kind) in self.table.items()
            if name not in self.without
        ]


@dataclass(frozen=True)
class Head:
    """What to change of a head that fits; the defaults fit."""

    kind: str
    width: int = WIDTH
    target_width: int = WIDTH
    layers: tuple[int, ...] = (1, 2, 3)
    blocks: int = 1
    fc: Shape | None = None
    tokens: int = 0
    texts: bool = True
    d2t: int = 0
    embedding: bool = True
    block_size: int | None = 8
    without: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Mtp:
    """A GLM-4-MoE model with multi-token-prediction layers; its own target, or a sidecar."""

    width: int = WIDTH
    layers: int = 2
    promised: int = 1
    present: int = 1
    trunk: bool = True
    arch: str = "glm4moe"
    tokens: int = 0


@dataclass(frozen=True)
class Plain:
    """An ordinary model, of an architecture with the tensors of llama."""

    width: int = WIDTH
    layers: int = 4
    arch: str = "llama"


Spec = Head | Mtp | Plain


@dataclass(frozen=True)
class Case:
    name: str
    method: str
    target: Spec
    draft: Spec | None
    """None: no -md."""


def attention(n: int, inputs: int, layer: int) -> dict[str, tuple[Shape, int]]:
    square = {"attn_q": (inputs, n), "attn_k": (inputs, n), "attn_v": (inputs, n)}
    square |= {"attn_output": (n, n), "ffn_gate": (n, n), "ffn_up": (n, n), "ffn_down": (n, n)}
    norms = {"attn_norm": (n,), "ffn_norm": (n,)}
    both = {**norms, **square}
    return {f"blk.{layer}.{name}.weight": (shape, F32) for name, shape in both.items()}


def head_body(head: Head, n_tokens: int) -> Parts:
    arch = "eagle3" if head.kind == "eagle3" else "dflash"
    n = head.width
    more: dict[str, tuple[str, object]] = {"target_layers": ("[i32]", list(head.layers))}
    sources = head.target_width if arch == "eagle3" else n
    table: dict[str, tuple[Shape, int]] = {
        "fc.weight": (head.fc or (len(head.layers) * sources, n), F32),
        "output_norm.weight": ((n,), F32),
    }
    if head.embedding:
        table["token_embd.weight"] = ((n, n_tokens), F16)
    if head.d2t:
        table["d2t"] = ((head.d2t,), I64)
        table["output.weight"] = ((n, head.d2t), F16)
    for layer in range(head.blocks):
        table |= attention(n, 2 * n if arch == "eagle3" else n, layer)
    if arch == "eagle3":
        more["target_hidden_size"] = ("u32", head.target_width)
        table |= {f"blk.{i}.attn_norm_2.weight": ((n,), F32) for i in range(head.blocks)}
    else:
        if head.block_size is not None:
            more["block_size"] = ("u32", head.block_size)
        table["enc.output_norm.weight"] = ((n,), F32)
        for name in ("attn_q_norm", "attn_k_norm"):
            table |= {f"blk.{i}.{name}.weight": ((n // 2,), F32) for i in range(head.blocks)}
    if head.kind == "dspark":
        table["markov_w1.weight"] = ((8, n_tokens), F32)
        table["markov_w2.weight"] = ((8, head.d2t or n_tokens), F32)
    body = Parts(arch=arch, n_embd=n, n_layer=head.blocks, more=more, table=table)
    return replace(body, without=head.without)


def mtp_body(model: Mtp, n_tokens: int) -> Parts:
    n, whole = model.width, model.layers + model.promised
    more: dict[str, tuple[str, object]] = {"nextn_predict_layers": ("u32", model.promised)}
    if model.arch == "glm4moe":
        more |= {
            "leading_dense_block_count": ("u32", model.layers),
            "expert_count": ("u32", 2),
            "expert_used_count": ("u32", 1),
            "expert_shared_count": ("u32", 1),
            "expert_feed_forward_length": ("u32", n),
        }
    table: dict[str, tuple[Shape, int]] = {
        "token_embd.weight": ((n, n_tokens), F16),
        "output_norm.weight": ((n,), F32),
    }
    trunk = range(model.layers) if model.trunk else range(0)
    for layer in (*trunk, *range(model.layers, model.layers + model.present)):
        table |= block(model, layer)
    return Parts(arch=model.arch, n_embd=n, n_layer=whole, more=more, table=table)


def block(model: Mtp, layer: int) -> dict[str, tuple[Shape, int]]:
    n, name = model.width, f"blk.{layer}."
    found = attention(n, n, layer)
    found[name + "post_attention_norm.weight"] = ((n,), F32)
    if model.arch == "glm4":
        found[name + "post_ffw_norm.weight"] = ((n,), F32)
        found[name + "ffn_up.weight"] = ((n, 2 * n), F32)
        del found[name + "ffn_gate.weight"]
    else:
        del found[name + "ffn_norm.weight"]
    if layer < model.layers:
        return found
    if model.arch == "glm4moe":
        found = {key: shape for key, shape in found.items() if ".ffn_" not in key}
        found[name + "ffn_gate_inp.weight"] = ((n, 2), F32)
        found[name + "exp_probs_b.bias"] = ((2,), F32)
        for part in ("gate", "up", "down"):
            found[name + f"ffn_{part}_exps.weight"] = ((n, n, 2), F32)
            found[name + f"ffn_{part}_shexp.weight"] = ((n, n), F32)
    found[name + "nextn.eh_proj.weight"] = ((2 * n, n), F32)
    found |= {name + f"nextn.{norm}.weight": ((n,), F32) for norm in ("enorm", "hnorm")}
    return found


def write(case: Case, folder: Path) -> tuple[Path, Path | None]:
    target = write_one(case.target, folder, "target")
    return target, None if case.draft is None else write_one(case.draft, folder, "draft")


def write_one(spec: Spec, folder: Path, name: str) -> Path:
    model = mutate_bases.load(BASE).copy()
    if isinstance(spec, Plain):
        model.body = Body(arch=spec.arch, n_embd=spec.width, n_layer=spec.layers)
        return write_model(model, folder, name)
    if spec.tokens:
        model.tokens = model.tokens[: spec.tokens]
        model.types = (model.types or [])[: spec.tokens]
    if isinstance(spec, Head) and not spec.texts:
        model.tokens = [*model.tokens[:300], *reversed(model.tokens[300:])]
    if isinstance(spec, Head) and arch(spec) == "dflash":
        model.kv["tokenizer.ggml.mask_token_id"] = value("u32", 9)
    model.blob = None
    body = mtp_body if isinstance(spec, Mtp) else head_body
    model.body = body(spec, len(model.tokens))
    return write_model(model, folder, name)


PLAIN = Plain()
E3, DF, DS = Head("eagle3"), Head("dflash"), Head("dspark")
GLM = Mtp()


def of_kind(method: str, head: Head) -> list[Case]:
    """What can be wrong with a head of any of the three kinds."""
    changes = {
        "fits": head,
        "for-a-wider-target": replace(head, target_width=64),
        "wider-itself": replace(head, width=64, target_width=WIDTH),
        "wider-for-a-wider": replace(head, width=64, target_width=64),
        "last-layer": replace(head, layers=(0, 2, 3)),
        "layer-4-of-4": replace(head, layers=(1, 2, 4)),
        "layer-5-of-4": replace(head, layers=(1, 2, 5)),
        "two-layers": replace(head, layers=(1, 2)),
        "four-layers": replace(head, layers=(0, 1, 2, 3)),
        "no-layers": replace(head, without=frozenset({f"{arch(head)}.target_layers"})),
        "narrow-fc": replace(head, fc=(64, WIDTH)),
        "fc-of-another-output": replace(head, fc=(96, 64)),
        "no-fc": replace(head, without=frozenset({"fc.weight"})),
        "two-blocks": replace(head, blocks=2),
        "fewer-tokens": replace(head, tokens=400),
        "other-texts": replace(head, texts=False),
        "own-vocabulary": replace(head, d2t=100),
        "wider-with-own-output": replace(head, width=64, target_width=WIDTH, d2t=100),
        "wider-with-nothing-own": replace(head, width=64, target_width=WIDTH, embedding=False),
        "borrows-the-embedding": replace(head, embedding=False),
        "no-norm": replace(head, without=frozenset({"output_norm.weight"})),
    }
    if head.kind == "eagle3":
        changes["no-width"] = replace(head, without=frozenset({"eagle3.target_hidden_size"}))
    else:
        changes["no-block-size"] = replace(head, block_size=None)
    return [Case(f"{head.kind}/{name}", method, PLAIN, draft) for name, draft in changes.items()]


def arch(head: Head) -> str:
    return "eagle3" if head.kind == "eagle3" else "dflash"


def mtp_cases() -> list[Case]:
    sidecar = replace(GLM, trunk=False)
    pairs: dict[str, tuple[Spec, Spec | None]] = {
        "own-layer": (GLM, None),
        "no-layer": (PLAIN, None),
        "own-layer-missing": (replace(GLM, present=0), None),
        "two-promised-two-there": (replace(GLM, promised=2, present=2), None),
        "two-promised-one-there": (replace(GLM, promised=2, present=1), None),
        "no-graph": (replace(GLM, arch="glm4"), None),
        "sidecar": (GLM, sidecar),
        "sidecar-for-a-target-without": (replace(GLM, promised=0, present=0), sidecar),
        "sidecar-for-another-architecture": (PLAIN, sidecar),
        "sidecar-of-another-width": (GLM, replace(sidecar, width=64)),
        "sidecar-with-fewer-tokens": (GLM, replace(sidecar, tokens=400)),
        "whole-model-as-sidecar": (GLM, GLM),
        "plain-model-as-sidecar": (GLM, PLAIN),
        "sidecar-without-its-layer": (GLM, replace(GLM, present=0)),
    }
    return [Case(f"mtp/{name}", "draft-mtp", *pair) for name, pair in pairs.items()]


def mixed_cases() -> list[Case]:
    """A file of one kind, a method of another; and methods that need no file."""
    drafts: dict[str, Spec] = {"plain": PLAIN, "eagle3": E3, "dflash": DF, "dspark": DS}
    found = [
        Case(f"as-{method}/{name}", method, PLAIN, draft)
        for method in ("draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark", "none")
        for name, draft in drafts.items()
        if method != f"draft-{name}"
    ]
    for method, head in (("draft-eagle3", E3), ("draft-dflash", DF), ("draft-dspark", DS)):
        for arch_ in ("qwen2", "smollm3"):
            found.append(Case(f"{head.kind}/for-{arch_}", method, replace(PLAIN, arch=arch_), head))
    found.append(Case("as-none/mtp", "none", GLM, replace(GLM, trunk=False)))
    for method in ("simple", "map-k", "map-k4v", "mod", "cache"):
        found.append(Case(f"ngram/{method}", f"ngram-{method}", PLAIN, None))
        found.append(Case(f"ngram/{method}-with-draft", f"ngram-{method}", PLAIN, PLAIN))
    return found


CASES: list[Case] = [
    *of_kind("draft-eagle3", E3),
    *of_kind("draft-dflash", DF),
    *of_kind("draft-dspark", DS),
    *mtp_cases(),
    *mixed_cases(),
]
