"""Terminal text: the answer first, a line per engine, findings, what was not checked, the setup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from draftcheck.evidence.matching import ModelNames
from draftcheck.report import memory
from draftcheck.report.json import picked
from draftcheck.report.layout import figure, indented, padded, wrapped
from draftcheck.report.safe import safe
from draftcheck.rulebook import book, files
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import HeadFacts, ModelFacts
from draftcheck.values.findings import Finding
from draftcheck.values.sizes import byte_size, short_count
from draftcheck.values.verdicts import TO_TRY, EngineVerdict, PairVerdict, Repair
from draftcheck.values.words import Outcome, Reaction, Relation, Severity, Verdict

if TYPE_CHECKING:
    from draftcheck.evidence.published import PublishedFigure

NOT_APPLICABLE = "not applicable"
NO_ENGINE = "no engine of the rulebook takes these files"
LONGEST_REASON = 240
NOT_FOR_ALL = (
    "verifier", "made from", "experts", "sliding window", "quantisation", "multimodal",
    "eos ids of generation", "architectures", "base size",
)  # fmt: skip
"""Facts that many models do not have: left out where their config was read and names none."""
SEVERAL = 4
"""Engines named one by one."""
DETAILS = 4
"""Findings told at length when every engine was asked; the rest get a line."""
COLOURS = {
    Verdict.COMPATIBLE: "green",
    Verdict.DEGRADED: "yellow",
    Verdict.INCOMPATIBLE: "red",
    Verdict.UNDECIDED: "magenta",
}
ANSWERS = {
    Verdict.COMPATIBLE: "{draft} can speculate for {target}",
    Verdict.DEGRADED: "{draft} can speculate for {target}, with losses",
    Verdict.INCOMPATIBLE: "{draft} cannot speculate for {target}",
    Verdict.UNDECIDED: "it cannot be told whether {draft} can speculate for {target}",
}
ALONE = {
    Verdict.COMPATIBLE: "{target} can speculate without a draft model",
    Verdict.DEGRADED: "{target} can speculate without a draft model, with losses",
    Verdict.INCOMPATIBLE: "{target} cannot speculate without a draft model",
    Verdict.UNDECIDED: "it cannot be told how {target} can speculate by itself",
}
REACTIONS = {
    Reaction.RUNS: "runs it",
    Reaction.REFUSES: "refuses to start",
    Reaction.CRASHES: "crashes",
    Reaction.FALLS_BACK: "falls back to translating",
    Reaction.IGNORES_DRAFT: "silently ignores the draft",
    Reaction.UNKNOWN: "unknown",
}
RELATIONS = {
    Relation.IDENTICAL: "identical",
    Relation.PADDED: "the same tokens, padded to different sizes",
    Relation.SPECIALS_DIFFER: "same ordinary tokens, other special ones",
    Relation.DIFFERS: "different",
    Relation.UNKNOWN: "not read on both sides",
}
Shown = list[tuple[Finding, list[str]]]
SEVERITY_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def pair(
    verdict: PairVerdict,
    *,
    verbose: bool = False,
    explicit: bool = False,
    switch_on: bool = True,
    measured: str | None = None,
) -> str:
    """explicit: the user named the engines, so everything about them is of interest.

    switch_on: the command that does it is of use. measured: what a trial says of the pair.
    """
    word = click.style(answer_word(verdict), fg=COLOURS[verdict.verdict], bold=True)
    told = [answer(verdict, safe)] if switch_on or measured is None else []
    blocks = [f"{word}: {'; '.join([*told, *([safe(measured)] if measured else [])])}"]
    blocks += [_vocabulary(verdict.comparison), _engines(verdict.engines)]
    shown = group(verdict.engines)
    detailed = failed = [
        row for row in shown if row[0].outcome is Outcome.FAIL or row[0].not_found_out
    ]
    works = verdict.verdict in (Verdict.COMPATIBLE, Verdict.DEGRADED)
    brief = not (explicit or verbose)
    if brief:  # what one engine does is for those who run it, where others take the pair
        telling = [
            row
            for row in failed
            if len(row[1]) > 1 or not (works or row[0].severity is Severity.NOTE)
        ]
        detailed = telling[:DETAILS]
    blocks += [_finding(*row, detailed=True) for row in detailed]
    blocks.append(
        "\n".join(_finding(*row, detailed=False) for row in failed if row not in detailed)
    )
    repairs = [] if brief and works else ways_out(verdict.engines)
    blocks += [_repair(*row) for row in repairs if row[0].id != TO_TRY]
    blocks.append("\n".join(_not_checked(shown, verdict.engines)))
    if verbose:
        passed = (
            f"ok[{finding.rule} {finding.slug}] {safe(finding.saw)} ({', '.join(names)})"
            for finding, names in shown
            if finding.outcome is Outcome.OK
        )
        blocks.append("\n".join(passed))
    blocks.append(memory.text(verdict.engines, verbose))
    blocks += [_repair(*row) for row in repairs if row[0].id == TO_TRY]
    if switch_on:
        blocks += _setups(verdict.engines, explicit)
    return "\n\n".join(block for block in blocks if block)


def _repair(repair: Repair, names: Sequence[str]) -> str:
    head = click.style("way out", fg="green", bold=True)
    title = (
        safe(repair.title)
        if repair.id == TO_TRY
        else f"{head} ({', '.join(names)}): {safe(repair.title)}"
    )
    return f"{title}\n{indented(repair.text)}" if repair.text else title


def group(engines: Sequence[EngineVerdict]) -> Shown:
    """Findings with the same words, once each, the worst first; with the engines they hold for."""
    alike: dict[tuple[str, str, str], tuple[Finding, list[str]]] = {}
    for entry in engines:
        for item in entry.findings:
            key = (item.rule, item.saw, item.outcome)
            alike.setdefault(key, (item, []))[1].append(f"{entry.engine} {entry.version}")
    order = list(Severity)
    return sorted(alike.values(), key=lambda row: order.index(row[0].severity))


def ways_out(engines: Sequence[EngineVerdict]) -> list[tuple[Repair, list[str]]]:
    """Repairs with the same words, once each."""
    alike: dict[tuple[str, str], tuple[Repair, list[str]]] = {}
    for entry in engines:
        for item in entry.repairs:
            alike.setdefault((item.title, item.text), (item, []))[1].append(entry.engine)
    return list(alike.values())


def verdict_word(entry: EngineVerdict) -> str:
    return str(entry.verdict) if entry.applies else NOT_APPLICABLE


def answer_word(verdict: PairVerdict) -> str:
    """The pair's verdict; another word where no rule could be held against such files."""
    applies = any(entry.applies for entry in verdict.engines)
    return str(verdict.verdict) if applies else NOT_APPLICABLE


def answer(verdict: PairVerdict, escape: Callable[[str], str]) -> str:
    """The verdict in a sentence."""
    comparison = verdict.comparison
    target = escape(comparison.target.ref)
    if (first := _headline(verdict)) is not None:
        return first
    if not verdict.engines:
        return NO_ENGINE
    reasons = (
        escape(entry.reason or "")[:LONGEST_REASON]
        for entry in verdict.engines
        if entry.verdict is verdict.verdict is Verdict.UNDECIDED
    )
    reason = next(reasons, "")
    if answer_word(verdict) == NOT_APPLICABLE:
        return reason
    words = ALONE if comparison.draft is None else ANSWERS
    draft = "" if comparison.draft is None else escape(comparison.draft.ref)
    told = words[verdict.verdict].format(target=target, draft=draft)
    return f"{told}: {reason}" if reason else told


def _headline(verdict: PairVerdict) -> str | None:
    """What outweighs every other word: models that were swapped, or that do not fit the GPU."""
    failed = {
        finding.slug: entry
        for entry in reversed(verdict.engines)
        for finding in entry.findings
        if finding.outcome is Outcome.FAIL and finding.severity is not Severity.NOTE
    }
    sizes = [facts.weights.parameters for _, facts in verdict.comparison.sides]
    if "swapped" in failed and len(sizes) == 2 and sizes[0] and sizes[1]:
        return f"swapped? the draft is {sizes[1] / sizes[0]:,.3g} times the target's size"
    twice = verdict.comparison.draft is not None and verdict.comparison.one_model
    own = any(book.uses_own_layers(entry.engine, entry.method) for entry in verdict.engines)
    if twice and not own and verdict.verdict in (Verdict.COMPATIBLE, Verdict.DEGRADED):
        return "the draft is the target itself: it runs, and cannot be faster than no draft"
    entry = failed.get("does-not-fit")
    if entry is None or entry.verdict is not verdict.verdict or not entry.memory:
        return None
    others = {
        finding.rule
        for finding in entry.findings
        if finding.severity is Severity.ERROR and finding.outcome is Outcome.FAIL
    }
    fit, device = entry.memory, entry.memory.fullest
    if device is None or others - {entry.decided_by}:
        return None
    need = f"{byte_size(device.required)} needed of {byte_size(device.available)}"
    each = " on each GPU" if len(fit.devices) > 1 else ""
    told = f"does not fit {safe(fit.machine, 60)} with {entry.engine}: {need}{each}"
    return f"{told}; fits with: {safe(fit.changes[0], 80)}" if fit.changes else told


def _vocabulary(comparison: Comparison) -> str:
    vocabulary = comparison.vocabulary
    words = RELATIONS[vocabulary.relation]
    if vocabulary.relation is Relation.UNKNOWN and vocabulary.differing_ids == 0:
        words = "the same texts; embedding rows not read on both sides"
    if vocabulary.relation is Relation.UNKNOWN and _is_head(comparison.drafter):
        words = "the target's: a head has no tokenizer of its own"
    sizes = " / ".join(figure(n) for n in (vocabulary.target_size, vocabulary.draft_size))
    differing = ""
    if vocabulary.differing_ids:
        first = vocabulary.differences[0].id
        differing = f", {vocabulary.differing_ids:,} ids differ from {first} on"
    lines = [f"  target      {_model(comparison.target)}"]
    if comparison.draft is not None:
        lines.insert(0, f"  vocabulary  {words} (rows {sizes}{differing})")
        lines.append(f"  draft       {_model(comparison.draft)}")
    if (row := published(comparison)) is not None:
        lines.append(wrapped("  published   ", f"{row.words} ({row.source})"))
    return "\n".join(lines)


def published(comparison: Comparison) -> PublishedFigure | None:
    """What others measured of this pair, or of the target's own layers."""
    draft = None if comparison.draft is None else ModelNames.of(comparison.draft)
    return published_of(ModelNames.of(comparison.target), draft)


def published_of(target: ModelNames, draft: ModelNames | None) -> PublishedFigure | None:
    # Most pairs are not in the tables, and pay nothing for what reads them: org/name, org/by_name.
    if not files.holds("evidence/acceptance", *(f"{at}{s}" for s in target.stems for at in "/_")):
        return None
    from draftcheck.evidence import published as rows

    return rows.best(rows.figures_of(target, draft))


def _is_head(facts: ModelFacts) -> bool:
    return facts.role not in (None, "full")


def _model(facts: ModelFacts) -> str:
    config = facts.config
    parts = [safe(config.model_type or "model type not read", 40)]
    if facts.weights.parameters:
        parts.append(f"{short_count(facts.weights.parameters)} parameters")
    if facts.tokenizer.kind or not _is_head(facts):
        parts.append(safe(facts.tokenizer.kind or "tokenizer not read", 40))
    if config.scaled_context:
        parts.append(f"context {config.scaled_context:,}")
    if _is_head(facts):
        parts.append(f"role {safe(str(facts.role), 40)}")
    if facts.gated:
        parts.append("gated: whoever serves it needs access")
    return ", ".join(parts)


def _engines(engines: Sequence[EngineVerdict]) -> str:
    rows = []
    for entry in engines:
        version = entry.version + ("" if entry.version_checked else " (not verified)")
        documented = " (documented)" if entry.basis == "documented" else ""
        reaction = REACTIONS[entry.reaction] + documented
        rows.append((entry.engine, version, entry.method or "-", reaction))
    if not rows:
        return ""
    words = [click.style(verdict_word(entry), fg=COLOURS[entry.verdict]) for entry in engines]
    lines = zip(padded(rows), words, strict=True)
    return "\n".join(f"  {'  '.join(cells)}  {word}" for cells, word in lines)


def _finding(finding: Finding, engines: Sequence[str], *, detailed: bool) -> str:
    name = f"{finding.rule} {finding.slug}" if detailed else finding.rule
    colour = SEVERITY_COLOURS[finding.severity]
    word = "unknown" if finding.not_found_out else finding.severity
    head = click.style(f"{word}[{name}]", fg=colour, bold=detailed or None)
    few = engines if len(engines) <= SEVERAL else engines[: SEVERAL - 1]
    more = f" and {len(engines) - len(few)} more" if len(few) < len(engines) else ""
    title = f"{head} {finding.title} ({', '.join(few)}{more})"
    if not detailed:
        return title
    fields = {"saw": finding.saw, "why": finding.why, "fix": finding.fix}
    if finding.engine_says and finding.severity is not Severity.NOTE:
        fields = {"saw": finding.saw, "says": finding.engine_says, **fields}
    told = [wrapped(f"  {name.ljust(5)}", safe(value, 1000)) for name, value in fields.items()]
    return "\n".join([title, *told])


def _not_checked(shown: Shown, engines: Sequence[EngineVerdict]) -> Iterator[str]:
    """What was missing, once, with the rules that wanted it."""
    reasons: dict[str, list[str]] = {}
    for finding, _ in shown:
        doubtful = finding.outcome is Outcome.UNKNOWN and not finding.not_found_out
        if doubtful and finding.severity is not Severity.NOTE:
            reasons.setdefault(finding.saw, []).append(finding.rule)
    for reason, rules in reasons.items():
        yield f"not checked ({', '.join(rules)}): {safe(reason)}"
    for entry in engines:
        for note in entry.notes:
            yield f"note ({entry.engine}): {safe(note)}"


def _setups(engines: Sequence[EngineVerdict], every: bool) -> list[str]:
    ready = [entry for entry in engines if entry.setup is not None]
    # The shortest way: an engine that takes the files as they are before one that converts them.
    shown = ready if every else sorted(ready, key=lambda one: (one.setup or "").count("\n"))[:1]
    blocks = []
    for entry in shown:
        where = f"{entry.engine} {entry.version}, {entry.method}"
        blocks.append(f"to switch it on ({where}):\n{indented(entry.setup or '')}")
    switched = {entry.engine for entry in shown}
    rest = dict.fromkeys(entry.engine for entry in ready if entry.engine not in switched)
    if rest:
        blocks.append(f"for another engine: --engine {' | '.join(rest)}")
    return blocks


def inspect(facts: ModelFacts) -> str:
    """Facts of one model, group by group; what was not read says so."""
    from draftcheck.judge.llama.loaded import loaded  # only this report asks for it

    tokenizer, config, weights = facts.tokenizer, facts.config, facts.weights
    sections: dict[str, dict[str, object]] = {
        "model": {
            "reference": facts.ref,
            "role": facts.role,
            "type": config.model_type,
            "architectures": ", ".join(config.architectures or ()) or None,
            "verifier": facts.verifier,
            "made from": ", ".join(
                f"{repo} ({how or 'how is not said'})" for repo, how in facts.bases.items()
            )
            or None,
        },
        "tokenizer": {
            **picked(tokenizer, "kind", "pre-tokenizer=pre", "base size=base_size", "length"),
            "embedding rows": facts.rows,
            "bos": _token(facts, tokenizer.bos_id),
            "eos": _token(facts, tokenizer.eos_id),
            "eos ids of generation": config.generation_eos_ids,
            "pad": _token(facts, tokenizer.pad_id),
            "unk": _token(facts, tokenizer.unk_id),
            **picked(tokenizer, "add bos=add_bos", "add eos=add_eos"),
            "added tokens": len(tokenizer.added),
            "special tokens": len(tokenizer.special),
            "chat template": tokenizer.chat_template and f"sha256 {tokenizer.chat_template[:16]}",
            "merges": tokenizer.merges and f"sha256 {tokenizer.merges[:16]}",
        },
        "architecture": {
            **picked(
                config, "layers", "hidden", "heads", "kv heads=kv_heads", "head size=head_dim",
                "context", "with rope scaling=scaled_context", "sliding window=sliding_window",
                "experts", "tied embeddings=tied", "dtype",
            ),
            "quantisation": config.quantization and str(dict(config.quantization)),
            "multimodal": config.multimodal,
        },
        "weights": {
            "files": len(weights.files) if weights.files is not None else None,
            "tensors": len(weights.tensors) if weights.tensors is not None else None,
            **picked(weights, "parameters", "bytes=nbytes", "held against the class=class_known"),
            "faults": weights.faults if weights.faults is None else len(weights.faults),
        },
    }  # fmt: skip
    sections |= _head_section(facts.head)
    if (by_llama := loaded(facts)) is not None:
        sections["as llama.cpp loads it"] = dict(by_llama)
    read = config.model_type is not None
    lines = [safe(f"{facts.ref}: {_model(facts)}")]
    for name, values in sections.items():
        lines.append(click.style(name, bold=True))
        for key, value in values.items():
            if value is not None or not (read and key in NOT_FOR_ALL):
                lines.append(f"  {key.ljust(22)} {_value(value)}")
    lines += [f"note: {safe(note)}" for note in facts.notes]
    return "\n".join(lines)


def _head_section(head: HeadFacts | None) -> dict[str, dict[str, object]]:
    """What a head needs of its target; fields that were not read are left out."""
    if head is None:
        return {}
    table = None if head.d2t_fault is None else head.d2t_fault or "sound"
    rows: dict[str, object] = {
        "format": " ".join(filter(None, (head.form, head.form_version))) or None,
        **picked(head, "width of the target=target_hidden", "layers it reads=aux_layers"),
        "fc": f"{head.fc_in:,} -> {head.fc_out:,}" if head.fc_in and head.fc_out else None,
        "draft vocabulary": head.draft_vocab,
        "ids in d2t": head.d2t,
        "d2t": table,
        **picked(
            head, "lm_head", "mask token=mask_token_id", "block size=block_size",
            "MTP layers promised=mtp_promised", "MTP layers present=mtp_present",
            "Medusa heads=medusa_heads",
        ),
        "made for": ", ".join(head.verifier_architectures or ()) or None,
    }  # fmt: skip
    return {"head": {name: value for name, value in rows.items() if value is not None}}


def _token(facts: ModelFacts, number: int | None) -> str | None:
    if number is None:
        return None
    tokens = facts.tokenizer.tokens or ()
    if number < 0:
        return "none"
    text = tokens[number] if number < len(tokens) else None
    return f"{number} {text.decode('utf-8', 'backslashreplace')!r}" if text else str(number)


def _value(value: object) -> str:
    if value is None:
        return click.style("not read", dim=True)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return safe(str(value))
