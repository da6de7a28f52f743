"""Logits of the draft (and of the target) -> the columns of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from draftcheck.trial.backends.backend import NotNumbers
from draftcheck.trial.simulate.traces import CONFIDENCE_TOP

LOGITS_BYTES = 256 << 20
"""Logits of one forward pass, in the model's own type."""
CHUNK_BYTES = 64 << 20
"""Of those, looked at together; some of it in float32."""

GROUP = 256
"""Neighbours in a row of logits whose maximum is looked at first."""

Columns = dict[str, torch.Tensor]


def groups(sizes: Sequence[tuple[int, int]], vocabulary: int, width: int) -> Iterator[slice]:
    """Texts that one pass may read together: (prompt, continuation) lengths, logits bounded.

    Texts are padded behind their end, where no token of theirs looks: no mask, nothing changes.
    """
    begin = 0
    for end in range(1, len(sizes) + 1):
        rows = sizes[begin : end + 1]
        kept = max(sum(row) for row in rows) - min(row[0] for row in rows) + 1
        if end == len(sizes) or len(rows) * kept * vocabulary * width > LOGITS_BYTES:
            yield slice(begin, end)
            begin = end


def read(
    model: Any, texts: Sequence[torch.Tensor], begin: int, widest: int = 0
) -> Iterator[torch.Tensor]:
    """Logits of every place from `begin` on, a bounded number of places at a time.

    The texts stand in one batch; a long one goes through the model in pieces, with a cache.
    widest: the larger vocabulary of two models whose pieces have to be the same.
    """
    longest = max(len(text) for text in texts)
    ids = torch.zeros((len(texts), longest), dtype=torch.long, device=texts[0].device)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = text
    rows = model.get_input_embeddings().weight.shape[0]
    ids = torch.where(ids < rows, ids, torch.zeros_like(ids))  # ids it has no row for
    # A quantised head does not show in its shape how many logits a place has.
    told = int(getattr(model.config.get_text_config(), "vocab_size", 0) or 0)
    each = len(texts) * max(rows, told, widest) * model.dtype.itemsize
    step = max(1, LOGITS_BYTES // each)
    cache = None
    start, stop = 0, min(begin + step, longest)  # takes everything before `begin` along
    while start < longest:
        arguments: dict[str, Any] = {"use_cache": stop < longest or cache is not None}
        if cache is not None:
            arguments["past_key_values"] = cache
        wanted = stop - max(start, begin)
        if model._supports_logits_to_keep():
            arguments["logits_to_keep"] = wanted
        out = model(ids[:, start:stop], **arguments)
        cache = out.past_key_values if arguments["use_cache"] else None
        logits = out.logits[:, -wanted:]
        if not are_numbers(logits):
            raise NotNumbers
        yield logits
        start, stop = stop, min(stop + step, longest)


def are_numbers(logits: torch.Tensor) -> bool:
    """Neither NaN, which a maximum passes on, nor above all; minus infinity is a choice."""
    highest = logits.amax(-1)
    return not bool(torch.isnan(highest).any() | (highest == torch.inf).any())


def in_chunks(function: Callable[..., Columns], *arguments: torch.Tensor) -> dict[str, Any]:
    """Apply a function to some places at a time: float32 stays small, results are on the CPU.

    They come there all at once: a GPU that is asked in between waits for every answer.
    """
    first = arguments[0]
    size = max(1, CHUNK_BYTES // (first.element_size() * first.shape[-1]))
    parts: dict[str, list[torch.Tensor]] = {}
    for at in range(0, len(arguments[0]), size):
        for name, values in function(*(a[at : at + size] for a in arguments)).items():
            parts.setdefault(name, []).append(values)
    return {name: torch.cat(values).cpu() for name, values in parts.items()}


def of_draft(logits: torch.Tensor, tokens: torch.Tensor) -> Columns:
    """Rank of the target's token, the draft's first choice, and how sure it is of that."""
    rows = logits.shape[-1]
    inside = tokens < rows
    own = logits.gather(1, torch.where(inside, tokens, torch.zeros_like(tokens))[:, None])
    best = highest(logits, min(CONFIDENCE_TOP, rows)).float()
    first = logits.argmax(1)
    places = torch.arange(rows, device=logits.device)
    ahead = (logits > own) | ((logits == own) & (places < tokens[:, None]))
    # Of equal scores only one is the first choice: the one that generating takes.
    rank = torch.where(tokens == first, 0, ahead.sum(1).clamp(min=1))
    return {
        "rank": torch.where(inside, rank, torch.full_like(tokens, rows)),
        "first": first,
        "confidence": torch.softmax(best, dim=1)[:, 0],
    }


def highest(scores: torch.Tensor, count: int) -> torch.Tensor:
    """The highest scores of each row, falling: topk, which is slow over a whole vocabulary.

    They are in the groups whose maxima are the highest; the rest behind the last group joins them.
    """
    rows, width = scores.shape
    whole = width - width % GROUP
    if whole < 2 * GROUP * count:
        return scores.topk(count, dim=1).values
    grouped = scores[:, :whole].view(rows, -1, GROUP)
    chosen = grouped.amax(2).topk(count, dim=1).indices
    held = grouped.gather(1, chosen[:, :, None].expand(-1, -1, GROUP)).flatten(1)
    return torch.cat([held, scores[:, whole:]], dim=1).topk(count, dim=1).values


def hits_of_draft(logits: torch.Tensor, tokens: torch.Tensor) -> Columns:
    """Only whether the target's token is the first choice: rank 0, or 1 for any other."""
    first = logits.argmax(1)
    return {"rank": (first != tokens).long(), "first": first}


def of_both(
    temperature: float, target: torch.Tensor, draft: torch.Tensor, tokens: torch.Tensor
) -> Columns:
    """How the rejection rule would have fared: p is the target's, q the draft's."""
    p = torch.softmax(target.float() / temperature, dim=1)
    q = torch.softmax(draft.float() / temperature, dim=1)
    width = min(p.shape[1], q.shape[1])
    first = q.argmax(1)
    ours = p.gather(1, tokens[:, None])[:, 0]
    theirs = torch.where(
        tokens < width, q.gather(1, tokens.clamp(max=width - 1)[:, None])[:, 0], 0.0
    )
    agree = torch.where(first < width, p.gather(1, first.clamp(max=width - 1)[:, None])[:, 0], 0.0)
    return {
        "accept": (theirs / ours).clamp(max=1.0),
        "overlap": torch.minimum(p[:, :width], q[:, :width]).sum(1),
        "agree": agree,
    }
