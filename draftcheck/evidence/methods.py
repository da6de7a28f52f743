"""What the ways of speculating are called, whatever the engine's own word for them is."""

from __future__ import annotations

from draftcheck.evidence.published import NO_DRAFT, OWN

NAMES = {
    "full": "draft model", "draft_model": "draft model", "pard": "PARD",
    "eagle": "EAGLE", "eagle3": "EAGLE-3", "p-eagle": "P-EAGLE", "peagle": "P-EAGLE",
    "mtp": "MTP head", "dflash": "DFlash", "dflash2": "DFlash 2", "dfly": "DFly",
    "dspark": "DSpark", "domino": "Domino", "medusa": "Medusa", "hydra": "Hydra",
    "mlp_speculator": "MLP speculator",
}  # fmt: skip
"""By the kind of draft, or the method that a source names."""
NGRAM = "n-gram"
"""Everything that looks into the text so far and needs no model."""
LAYERS = {"dspark": "DSpark", "eagle": "EAGLE", "eagle3": "EAGLE-3"}
"""What layers inside a target are, where they are no MTP layers."""


def called(kind: str, draft: str) -> str:
    """kind: of the draft, or a source's method; draft: a repo, or "own" or "none"."""
    if draft == NO_DRAFT:
        return NGRAM
    if draft == OWN:
        return f"{LAYERS.get(kind, 'MTP')} of its own"
    if kind == "mtp" and "assistant" in draft.rpartition("/")[2].lower():
        return "assistant"
    return NAMES.get(kind, kind)
