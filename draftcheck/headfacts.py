"""What the files of a head say about the target that it needs: a frozen dataclass, no I/O.

Travels inside ModelFacts. ``None`` always means "not read".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """What a head (or the MTP layers of a whole model) needs of its target."""

    kind: str | None = None
    """eagle, eagle3, mtp, medusa, mlp_speculator, dflash, dspark …; full for a whole model."""
    form: str | None = None
    """speculators, checkpoint or gguf."""
    form_version: str | None = None
    layer_type: str | None = None
    """model_type of the head's own layers, where the speculators format names it."""
    declared: tuple[str, ...] | None = None
    """Fields of this record that the config states; the weights say the rest."""
    hidden: int | None = None
    target_hidden: int | None = None
    """Width of the target's hidden states, where the config names it."""
    layers: int | None = None
    aux_layers: tuple[int, ...] | None = None
    """Target layers whose states the head reads, as numbered in the file."""
    aux_place: str | None = None
    """The part of the config that lists them: root, eagle_config, dflash_config."""
    aux_key: str | None = None
    """The name that the list has there."""
    aux_count: int | None = None
    fc_in: int | None = None
    fc_out: int | None = None
    vocab: int | None = None
    """Vocabulary of the target that it was made for."""
    draft_vocab: int | None = None
    d2t: int | None = None
    """Entries of the table from its own ids to the target's; 0: there is no such table."""
    d2t_fault: str | None = None
    """First fault in the table, empty when there is none."""
    d2t_sorted: bool | None = None
    d2t_last: int | None = None
    """Highest target id in the table."""
    t2d: int | None = None
    lm_head: bool | None = None
    lm_head_rows: int | None = None
    embed_tokens: bool | None = None
    mask_token_id: int | None = None
    block_size: int | None = None
    mtp_promised: int | None = None
    mtp_present: int | None = None
    """Multi-token-prediction layers among the tensor names."""
    medusa_heads: int | None = None
    norm_before_fc: bool | None = None
    norm_before_residual: bool | None = None
    verifier_architectures: tuple[str, ...] | None = None
    origin: Mapping[str, str] = field(default_factory=dict)
