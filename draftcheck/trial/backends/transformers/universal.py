"""Drafts of another vocabulary, for engines that translate.

Two ways are known. vLLM (use_heterogeneous_vocab) hands tokens over by their text: the draft
reads the target's tokens as its own tokens of the same text, and may only propose such. That is
one reading, as for any draft. transformers (two tokenizers) decodes the target's text, encodes it
for the draft, and encodes what the draft wrote for the target: there a draft is worth the
target's tokens that its text covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from draftcheck.trial.backends.backend import BrokenDraft, TargetText
from draftcheck.trial.backends.transformers import draft_logits
from draftcheck.trial.simulate.passes import Drafts, walk
from draftcheck.trial.simulate.traces import Bools, Ints, PassCounts, Trace, line_up

SPACES = ("\u0120", "\u2581")
"""How byte-level BPE and SentencePiece write a space before a word."""


class Translation:
    """Token ids of two vocabularies, matched by text."""

    def __init__(self, target: Any, draft: Any, model: Any) -> None:
        self.tokenizer, self.model = draft, model
        ours, theirs = _by_text(target), _by_text(draft)
        rows = model.get_input_embeddings().weight.shape[0]
        common = {text: id for text, id in theirs.items() if text in ours and id < rows}
        if not common:
            raise BrokenDraft("the vocabularies share no token at all")
        unknown = draft.unk_token_id if draft.unk_token_id is not None else draft.eos_token_id
        if unknown is None:
            raise BrokenDraft("the draft's tokenizer has neither an unknown nor an end token")
        self._to_draft = torch.full((max(ours.values()) + 1,), -1)
        for text, id in common.items():
            self._to_draft[ours[text]] = id
        self._allowed = torch.zeros(rows, dtype=torch.bool)
        self._allowed[list(common.values())] = True
        self._unknown = int(unknown)
        self.shared = len(common) / len(ours)
        """Of the target's token texts."""

    def _mapped(self, ids: torch.Tensor) -> torch.Tensor:
        table = self._to_draft.to(ids.device)
        inside = ids < len(table)
        return torch.where(inside, table[torch.where(inside, ids, 0)], -1)

    def to_draft(self, ids: torch.Tensor) -> torch.Tensor:
        """What the draft is given to read; tokens that it has not become its unknown one."""
        mapped = self._mapped(ids)
        return torch.where(mapped < 0, self._unknown, mapped)

    def constrain(
        self, logits: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The draft's choices among shared tokens, and the target's tokens as it would say them."""
        allowed = torch.nn.functional.pad(
            self._allowed, (0, logits.shape[-1] - len(self._allowed))
        ).to(logits.device)
        mapped = self._mapped(tokens)
        said = torch.where(mapped < 0, logits.shape[-1], mapped)
        return logits.masked_fill(~allowed, -torch.inf), said


def _by_text(tokenizer: Any) -> dict[str, int]:
    """Ids by text, with one sign for the space before a word; of equal texts the first id."""
    # As vLLM finds it: what stands before the letter when " a" is encoded.
    ids = tokenizer.encode(" a", add_special_tokens=False)
    start = tokenizer.convert_ids_to_tokens(ids[0]) if ids else ""
    known = isinstance(start, str) and len(start) > 1 and start.endswith("a")
    signs = (start[:-1],) if known and start[0] not in " \t" else SPACES
    found: dict[str, int] = {}
    for token, id in tokenizer.get_vocab().items():
        sign = next((sign for sign in signs if token.startswith(sign)), "")
        found.setdefault(" " + token[len(sign) :] if sign else token, id)
    return found


def difference(ours: Mapping[str, int], theirs: Mapping[str, int]) -> str:
    """How the vocabularies of a pair that accepts nothing differ."""
    texts = {id: text for text, id in ours.items()}
    other = sum(texts.get(id, text) != text for text, id in theirs.items())
    if other:
        return (
            f"{other:,} of the draft's {len(theirs):,} tokens are another text in the target's"
            " vocabulary: most likely the draft speaks another vocabulary (--universal measures it"
            " for engines that translate)"
        )
    return "the vocabularies agree: most likely the draft's weights are broken"


# ---- transformers: text encoded anew ----


def reencoded(
    translation: Translation, tokenizer: Any, texts: Sequence[TargetText], longest: int, first: int
) -> dict[int, PassCounts]:
    """Lengths in the draft's tokens, accepted tokens in the target's.

    An estimate: a text is taken to be cut by the draft's tokenizer as the whole of it is cut,
    except for the last word, which a pass may find unfinished.
    """
    traces = [
        Trace(t.prompt, t.tokens, np.zeros(len(t.tokens), int), np.ones(len(t.tokens)))
        for t in texts
    ]
    line = line_up(traces, first)
    covered = [_Aligned(translation, tokenizer, text).covered(longest) for text in texts]
    ways = []
    for g in range(1, longest + 1):
        accepted = np.minimum(np.concatenate([each[g - 1] for each in covered]), line.room)
        drafted = np.where(line.room > 0, g, 0)
        ways.append(Drafts(accepted, drafted, int(accepted.max(initial=g))))
    return dict(enumerate(walk(line, ways), start=1))


class _Aligned:
    """One text as both tokenizers cut it, and what the draft would go on with where."""

    def __init__(self, translation: Translation, tokenizer: Any, text: TargetText) -> None:
        self._model, self._tokenizer = translation.model, translation.tokenizer
        whole = np.concatenate([text.prompt, text.tokens]).tolist()
        ends = range(len(text.prompt), len(whole) + 1)
        prefixes = [_decoded(tokenizer, whole[:end]) for end in ends]
        self._whole = prefixes[-1]
        # Half a character is no text yet: such a place counts as the end of the one before it.
        self._ours = np.maximum.accumulate([self._length(prefix) for prefix in prefixes])
        self._prefixes = prefixes
        self._draft_ids = self._encoded(self._whole)
        ends = range(len(self._draft_ids) + 1)
        told = [_decoded(self._tokenizer, self._draft_ids[:end]) for end in ends]
        self._theirs = np.maximum.accumulate([self._length(prefix) for prefix in told])
        # Whether the draft's first choice is the next token of its own cut of the text.
        ids = torch.tensor(self._draft_ids, device=self._model.device)
        firsts = [logits[0].argmax(1) for logits in draft_logits.read(self._model, [ids], 0)]
        hits = torch.cat(firsts)[:-1] == ids[1:]
        self._run = _runs(np.concatenate([[False], hits.cpu().numpy(), [False]]))

    def _length(self, prefix: str) -> int:
        return len(prefix) if self._whole.startswith(prefix) else 0

    def _encoded(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=True)["input_ids"])

    def covered(self, longest: int) -> list[Ints]:
        """For each length, at each token: how many of the target's tokens a draft covers."""
        places = np.arange(len(self._ours) - 1)
        start = np.searchsorted(self._theirs, self._ours[:-1], side="right") - 1
        aligned = self._theirs[start] == self._ours[:-1]
        used = np.zeros_like(places)  # draft tokens spent on finishing a word
        for place, end in zip(*self._finished(places[~aligned]), strict=True):
            begin = int(np.searchsorted(self._theirs, end, side="right")) - 1
            if end > self._ours[place] and self._theirs[begin] == end:
                start[place], used[place], aligned[place] = begin, 1, True
        found = []
        for g in range(1, longest + 1):
            reach = self._theirs[start + np.minimum(self._run[start], g - used)]
            upto = np.searchsorted(self._ours, reach, side="right") - 1
            found.append(np.where(aligned, np.maximum(upto - places, 0), 0))
        return found

    def _finished(self, places: Ints) -> tuple[list[int], list[int]]:
        """Where the draft is in the middle of a token of its own: how far its next one leads."""
        encoded = [self._encoded(self._prefixes[place]) for place in places]
        sizes = [(max(len(ids), 1), 0) for ids in encoded]
        vocabulary = int(self._model.get_input_embeddings().weight.shape[0])
        ends: list[int] = []
        for part in draft_logits.groups(sizes, vocabulary, self._model.dtype.itemsize):
            rows = [torch.tensor(ids, device=self._model.device) for ids in encoded[part]]
            begin = min(len(row) for row in rows) - 1
            logits = torch.cat(list(draft_logits.read(self._model, rows, begin)), dim=1)
            for row, scores in zip(rows, logits, strict=True):
                first = int(scores[len(row) - 1 - begin].argmax())
                ends.append(self._length(_decoded(self._tokenizer, [*row.tolist(), first])))
        return places.tolist(), ends


def _decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    """As transformers decodes what it hands from one model to the other."""
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=True))


def _runs(hit: Bools) -> Ints:
    """At each place, how many hits follow one another from there on."""
    places = np.arange(len(hit))
    misses = np.where(hit, len(hit), places)
    next_miss = np.minimum.accumulate(misses[::-1])[::-1]
    return np.asarray(next_miss - places, dtype=np.int64)
