"""A target and a head in this process: the target's states by hooks, the head's readings of them.

The target writes its texts as for any draft. Then it reads each text once more in one pass, which
leaves its hidden states; the head makes its readings of those. Without a head, a target is measured
for what it brings along: MTP layers of its own, or nothing but copied text.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from draftcheck.trial.backends.backend import (
    BackendLimits,
    BrokenDraft,
    CannotVerify,
    TargetText,
    TrialOptions,
    check_rows,
    draft_not_numbers,
    target_not_numbers,
)
from draftcheck.trial.backends.transformers import draft_logits, loading, steps
from draftcheck.trial.backends.transformers.heads import files, real_runs, ways
from draftcheck.trial.backends.transformers.heads.families import FAMILIES
from draftcheck.trial.backends.transformers.heads.readings import (
    Head,
    HeadSource,
    SlotTokens,
    TargetStates,
)
from draftcheck.trial.backends.transformers.target import TransformersTarget
from draftcheck.trial.model_places import ModelPlace
from draftcheck.trial.result import HeadRun, VerifiedRun
from draftcheck.trial.simulate.traces import NEVER, Trace
from draftcheck.trial.speedup import LONGEST, Costs

READINGS = 8
"""Drafts in a row that are read of heads that make one after the other."""
TOKENS = 1 << 14
"""Of texts that go through the target together."""


@dataclass(frozen=True, slots=True)
class LoadedHead:
    head: Head
    run: HeadRun
    remarks: tuple[str, ...]
    """What the user should know about how it is run."""


def load(
    kind: str, places: tuple[ModelPlace, ModelPlace], target: Any, options: TrialOptions
) -> LoadedHead:
    """A head from files of its own."""
    where = files.folder(places[1], options.trust_remote_code)
    raw = files.config(places[1], where)
    weights = files.tensors(places[1], where, options.trust_remote_code)
    return made(kind, HeadSource(raw, weights, target, ways.way(options.engine)))


def load_own(place: ModelPlace, target: Any, options: TrialOptions) -> LoadedHead | None:
    """The target's own MTP layers; None: it has none."""
    where = files.folder(place, options.trust_remote_code)
    behind = target.config.get_text_config().num_hidden_layers
    wanted = partial(_is_mtp, behind)
    weights = files.tensors(place, where, options.trust_remote_code, wanted)
    if not weights:
        return None
    source = HeadSource(files.config(place, where), weights, target, ways.way(options.engine))
    return made("mtp", source)


def made(kind: str, source: HeadSource) -> LoadedHead:
    way = source.way
    try:
        with torch.inference_mode():
            head = FAMILIES[kind](source)
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise BrokenDraft(f"the head's files do not fit together: {words}") from error
    remarks = [f"the head was run as {way.engine} {way.version} runs it"]
    mine = head.choices(source)
    if mine != head.choices(replace(source, way=ways.way(way.engine))):
        remarks = ["the head was run as its files say"]
    for other in ways.others(way):
        theirs = head.choices(replace(source, way=other))
        if differing := [name for name in mine if mine[name] != theirs[name]]:
            words = ", ".join(f"{name}: {theirs[name]}, not {mine[name]}" for name in differing)
            remarks.append(f"{other.engine} runs it otherwise ({words}): --engine {other.engine}")
    run = HeadRun(kind, way.engine, way.version, head.layers_read)
    return LoadedHead(head, run, tuple(remarks))


class HeadBackend(TransformersTarget):
    """A target and its head; None: the target alone."""

    def __init__(
        self,
        places: tuple[ModelPlace, ModelPlace],
        target: Any,
        loaded: LoadedHead | None,
        tokenizer: Any,
        where: str,
    ) -> None:
        super().__init__(places, target, tokenizer, where)
        self.head = None if loaded is None else loaded.head
        if loaded is None:
            self.remarks.append("the target has no MTP layers: copied drafts alone were measured")
        else:
            self.head_run = loaded.run
            self.remarks += loaded.remarks

    def limits(self) -> BackendLimits:
        rows, context = loading.rows(self.target), loading.context(self.target)
        longest = 0
        if self.head is not None:
            longest = min(self.head.longest, LONGEST if self.head.at_once else READINGS)
        return BackendLimits(rows, context, rows, context, longest)

    @torch.inference_mode()
    def read(self, texts: Sequence[TargetText], options: TrialOptions) -> list[Trace]:
        texts = [text for text in texts if len(text.tokens)]
        if self.head is None:
            return [_nothing(text) for text in texts]
        rows = loading.rows(self.target)
        for text in texts:
            check_rows(text, rows)
        traces: list[Trace] = []
        width = self.target.dtype.itemsize
        try:
            for part in _groups(texts, 0 if self.head.by_spans else rows * width):
                traces += self._read(self.head, part, options)
        except torch.OutOfMemoryError as error:
            raise loading.out_of_memory(self._places[1].ref, error) from error
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise loading.failed(self._places[1].ref, "reading", error) from error
        return traces

    def _read(self, head: Head, texts: Sequence[TargetText], options: TrialOptions) -> list[Trace]:
        longest = max(len(text.prompt) + len(text.tokens) for text in texts)
        ids = torch.zeros((len(texts), longest), dtype=torch.long)
        for row, text in zip(ids, texts, strict=True):
            whole = np.concatenate([text.prompt, text.tokens])
            row[: len(whole)] = torch.from_numpy(whole)
        ids = ids.to(self.target.device)
        spans = [
            range(len(text.prompt) - 1, len(text.prompt) + max(len(text.tokens) - 2, 0))
            for text in texts
        ]
        seen, last = target_states(self.target, ids, head)
        if not bool(torch.isfinite(last).all()):
            raise target_not_numbers(self._places[0].ref)
        slots = SlotTokens(ids, min(span.start for span in spans), spans)
        longest = self.limits().longest
        counts = (longest,) if head.leads else (*range(1, min(longest, READINGS + 1)), longest)
        read = slots, seen, last
        try:
            found = {
                count: self._table(head, texts, read, count, options, count == longest)
                for count in counts
            }
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError) or "CUDA" in str(error):
                raise
            words = " ".join(str(error).split())[:200]
            raise BrokenDraft(f"the head's tensors do not fit the target: {words}") from error
        traces = found.pop(longest)
        return [
            replace(trace, of_length={count: rows[i] for count, rows in found.items()})
            for i, trace in enumerate(traces)
        ]

    def _table(
        self,
        head: Head,
        texts: Sequence[TargetText],
        read: tuple[SlotTokens, TargetStates, torch.Tensor],
        count: int,
        options: TrialOptions,
        ranked: bool,
    ) -> list[Trace]:
        """Traces of passes with so many drafts; read: the texts, and the target's states.

        ranked: ranks and confidences too; else only hits, and of a greedy target only those in a
        row: behind a miss no draft counts.
        """
        slots, seen, last = read
        sizes = [len(text.tokens) for text in texts]
        row = np.repeat(np.arange(len(texts)), sizes)
        token = np.concatenate([np.arange(size) for size in sizes])
        room = np.repeat(sizes, sizes) - token
        place = np.repeat([len(text.prompt) for text in texts], sizes) + token
        each = loading.rows(self.target) * last.element_size()
        most = max(1, draft_logits.LOGITS_BYTES // each)
        chosen = np.flatnonzero(token)  # token 0 comes out of the prefill
        table: dict[str, Any] = {
            "rank": np.full((len(row), count), NEVER),
            "confidence": np.zeros((len(row), count)),
        }
        for reading, hidden in enumerate(head.readings(slots, seen, count), start=1):
            chosen = chosen[room[chosen] >= reading]
            if not len(chosen):
                break
            hits = []
            for part in np.split(chosen, range(most, len(chosen), most)):
                # A pass that begins with this token drafts from the slot two places before it.
                rows, places = (
                    torch.from_numpy(all_of[part]).to(hidden.device) for all_of in (row, place)
                )
                tokens = slots.ids[rows, places + reading - 1]
                before = last[rows, places + reading - 2]
                logits = head.logits(hidden[rows, places - 2 - slots.begin], reading)
                columns = self._columns(head, logits, tokens, before, options.temperature, ranked)
                for name, column in columns.items():
                    held = table.setdefault(name, np.zeros((len(row), count)))
                    held[part, reading - 1] = column
                hits.append(columns["rank"] == 0)
            if not ranked and options.temperature == 0:
                chosen = chosen[np.concatenate(hits)]
        own = (row == i for i in range(len(texts)))
        return [
            Trace(
                text.prompt,
                text.tokens,
                category=text.category,
                **{name: held[mine] for name, held in table.items()},
            )
            for text, mine in zip(texts, own, strict=True)
        ]

    def _columns(
        self,
        head: Head,
        logits: torch.Tensor,
        tokens: torch.Tensor,
        before: torch.Tensor,
        temperature: float,
        ranked: bool,
    ) -> dict[str, Any]:
        """before: the target's last states at the places before these tokens."""
        if not draft_logits.are_numbers(logits):
            raise draft_not_numbers()
        own = tokens
        if head.to_target is not None:
            rows = loading.rows(self.target)
            known = head.to_target < rows
            places = torch.arange(len(head.to_target), device=tokens.device)
            back = torch.full((rows,), logits.shape[-1], device=tokens.device)  # no id of its own
            back[head.to_target[known]] = places[known]
            own = back[tokens]
        look = draft_logits.of_draft if ranked else draft_logits.hits_of_draft
        found = draft_logits.in_chunks(look, logits, own)
        first = found.pop("first").to(tokens.device)
        if head.to_target is not None:
            first = head.to_target[first]
        if len(first) and int(first.max()) >= loading.rows(self.target):
            raise BrokenDraft(
                f"the head proposes token {int(first.max())}, and the target has"
                f" {loading.rows(self.target):,} rows: the target cannot check it"
            )
        if temperature > 0:
            ours = self.target.get_output_embeddings()(before)
            theirs = logits
            if head.to_target is not None:
                theirs = torch.full_like(ours, -torch.inf)
                theirs[:, head.to_target] = logits.to(theirs.dtype)
            both = partial(draft_logits.of_both, temperature)
            found |= draft_logits.in_chunks(both, ours, theirs, tokens)
        found["rank"] = found["rank"].long()
        return {
            name: column.numpy() if name == "rank" else column.double().numpy()
            for name, column in found.items()
        }

    def cause(self) -> str | None:
        table = None if self.head is None else self.head.to_target
        if table is not None and not bool((table.diff() > 0).all()):
            return "the target ids in its d2t do not rise: the table is permuted"
        return "most likely it was made for another target, or its layers are others"

    def costs(self, sequences: int, context: int) -> Costs | None:
        step = None if self.head is None else partial(self.head.step, sequences, context)
        at_once = self.head is not None and self.head.at_once
        try:
            return steps.measure_head(
                self.target, step, self.device, sequences, context, at_once=at_once
            )
        except Exception as error:  # caches that cannot be rewound, kernels that cannot be captured
            words = " ".join(str(error).split())[:200] or type(error).__name__
            self.remarks.append(f"steps of {sequences} sequences could not be timed: {words}")
            return None

    def verify(self, texts: Sequence[TargetText], g: int, options: TrialOptions) -> VerifiedRun:
        if self.head is None:
            raise CannotVerify("nothing drafts but copies of the text")
        target, head = self._places
        own = None if head is target else head
        return real_runs.verify(real_runs.RealRun(self, target, own, texts, g, options))

    def close(self) -> None:
        self.target = self.head = None
        gc.collect()
        torch.cuda.empty_cache()


def target_states(target: Any, ids: torch.Tensor, head: Head) -> tuple[TargetStates, torch.Tensor]:
    """What the head reads of the target, and the target's last states behind its norm."""
    decoder = target.get_decoder()
    captured: dict[int, torch.Tensor] = {}

    def capture(number: int) -> Any:
        def hook(module: Any, arguments: Any, named: Any) -> None:
            captured[number] = arguments[0] if arguments else named["hidden_states"]

        return hook

    hooks = []
    for number in head.layers_read:
        layer = decoder.layers[number] if number < len(decoder.layers) else decoder.norm
        hooks.append(layer.register_forward_pre_hook(capture(number), with_kwargs=True))
    try:
        # Not the target's own kind of cache: that of sliding layers forgets.
        cache = DynamicCache() if head.shares_cache else None
        out = decoder(input_ids=ids, past_key_values=cache, use_cache=cache is not None)
    finally:
        for hook in hooks:
            hook.remove()
    last = out.last_hidden_state
    hidden = last
    if head.layers_read:
        hidden = torch.cat([captured[number].to(last.device) for number in head.layers_read], -1)
    return TargetStates(hidden, cache), last


def _groups(texts: Sequence[TargetText], logits: int) -> Iterator[Sequence[TargetText]]:
    """Texts that go through together: places and, of so many bytes each, logits are bounded."""
    sizes = [(len(text.prompt), len(text.tokens)) for text in texts]
    for part in draft_logits.groups(sizes, logits, 1):
        longest = max(sum(size) for size in sizes[part])
        most = max(1, TOKENS // longest)
        chosen = texts[part]
        for at in range(0, len(chosen), most):
            yield chosen[at : at + most]


def _nothing(text: TargetText) -> Trace:
    size = len(text.tokens)
    return Trace(
        text.prompt, text.tokens, np.full(size, NEVER), np.zeros(size), category=text.category
    )


def _is_mtp(behind: int, name: str) -> bool:
    """Whether a tensor belongs to layers behind the target's last one."""
    from draftcheck.models.readers.heads import LAYER, MTP

    if name.startswith("mtp.") or MTP.fullmatch(name):
        return True
    layer = LAYER.match(name)
    return layer is not None and int(layer[1]) >= behind
