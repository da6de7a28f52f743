"""A head's readings of one text as a table of what it would draft, held against a drafter."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from transformers import DynamicCache

from draftcheck.trial.backends.transformers.heads.readings import Head, SlotTokens, TargetStates
from tests.trial.heads.naive import Drafter

LENGTHS = (1, 2, 3, 5)


def states(head: Head, target: Any, ids: torch.Tensor) -> TargetStates:
    """What the target leaves for this head at every place."""
    decoder = target.get_decoder()
    entries = [*decoder.layers, decoder.norm]
    caught: dict[int, torch.Tensor] = {}
    with ExitStack() as hooks:
        for number in set(head.layers_read):
            made = entries[number].register_forward_pre_hook(
                lambda _, inputs, number=number: caught.__setitem__(number, inputs[0])
            )
            hooks.callback(made.remove)
        cache = DynamicCache() if head.shares_cache else None
        out = decoder(ids, past_key_values=cache, use_cache=cache is not None)
    read = [caught[number] for number in head.layers_read] or [out.last_hidden_state]
    return TargetStates(torch.cat(read, dim=-1), cache)


@torch.inference_mode()
def table(head: Head, target: Any, text: list[int], begin: int, count: int) -> list[list[int]]:
    """Slots from begin on x readings: the target's ids that the head would draft.

    The text is the second of a batch, beside the same one backwards.
    """
    ids = torch.tensor([text[::-1], text])
    columns = []
    for reading, hidden in enumerate(
        head.readings(SlotTokens(ids, begin), states(head, target, ids), count), start=1
    ):
        choices = head.logits(hidden[1], reading).argmax(-1)
        choices = choices if head.to_target is None else head.to_target[choices]
        columns.append(choices.tolist())
    return [list(row) for row in zip(*columns, strict=True)]


@torch.inference_mode()
def agree(head: Head, target: Any, draft: Drafter, seed: int, vocabulary: int = 40) -> int:
    """Asserts that both draft the same for all lengths; how many drafts were compared.

    Drafts count as long as those before them are the text's own. On a text of random tokens that
    ends soon, so texts that go on with the drafter's own drafts come first: every depth counts.
    """
    head.step(2, 6)()  # what is timed can be run
    random = torch.Generator().manual_seed(seed)
    text = torch.randint(0, vocabulary, (12,), generator=random).tolist()
    lengths = [length for length in LENGTHS if length <= head.longest]
    ends = [*((length, 3 + length) for length in lengths), (lengths[-1], 3)]
    for length, end in ends:
        own = draft(text[:end], length)
        assert table(head, target, [*text[:end], *own, 0], 1, length)[end - 3] == own
    rows = table(head, target, text, 1, length)
    for end in (4, 7):
        own, hits = draft(text[:end], length), 0
        while hits < min(length, len(text) - end) and own[hits] == text[end + hits]:
            hits += 1
        assert rows[end - 3][: hits + 1] == own[: hits + 1]
    return sum(length for length, _ in ends)
