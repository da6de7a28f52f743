"""A pair, or one model, in the forms that a report about it comes in.

text.py has the text for terminals; the JSON of the contract and the Markdown for a pull request or
a job summary, in which all model text is escaped, stand here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from draftcheck.judge.llama.loaded import loaded
from draftcheck.models import stored
from draftcheck.report import memory, text
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.layout import fenced, figure
from draftcheck.report.safe import md
from draftcheck.report.text import REACTIONS, answer, answer_word, group, verdict_word, ways_out
from draftcheck.values.comparison import Comparison, VocabularyComparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineVerdict, PairVerdict
from draftcheck.values.words import Outcome, Severity

if TYPE_CHECKING:
    from draftcheck.trial.result import Trial

LONGEST = 1000
FINDING = (
    "rule", "slug", "title", "severity", "outcome", "reaction", "saw", "engine_says", "why", "fix",
    "source", "basis",
)  # fmt: skip


# ---- JSON ----


def _published(comparison: Comparison) -> dict[str, Any] | None:
    row = text.published(comparison)
    if row is None:
        return None
    from draftcheck.report import known

    return known.figure_json(row)


def pair_json(verdict: PairVerdict, trial: Trial | None = None) -> str:
    comparison, fits = verdict.comparison, memory.shown(verdict.engines)
    body = {
        **HEAD,
        "target": model(comparison.target),
        "draft": None if comparison.draft is None else model(comparison.draft),
        "vocabulary": vocabulary(comparison.vocabulary),
        "special_tokens": [
            {
                "name": token.name,
                "target": {"id": token.target_id, "text": _token(token.target_text)},
                "draft": {"id": token.draft_id, "text": _token(token.draft_text)},
            }
            for token in comparison.specials
        ],
        "tokenization": picked(comparison.behaviour, "same", "detail"),
        "engines": [engine(entry) for entry in verdict.engines],
        "memory": memory.body(fits[0]) if fits else None,
        "published": _published(comparison),
        "trial": trial.to_dict() if trial is not None else None,
        "verdict": str(verdict.verdict),
    }
    return dumps(body)


def model(facts: ModelFacts) -> dict[str, Any]:
    return {**picked(facts, "ref", "kind", "revision"), "facts": facts_object(facts)}


def facts_object(facts: ModelFacts) -> dict[str, Any]:
    """The facts without the big tables."""
    body = stored.dump(facts, whole=False)
    for key in ("ref", "kind", "revision"):
        body.pop(key, None)
    return body


def inspect_json(facts: ModelFacts) -> str:
    return dumps({**HEAD, **model(facts), "llama_cpp": loaded(facts)})


def vocabulary(comparison: VocabularyComparison) -> dict[str, Any]:
    differences = [
        {"id": entry.id, "target": _token(entry.target), "draft": _token(entry.draft)}
        for entry in comparison.differences
    ]
    return {
        **picked(comparison, "relation", "target_size", "draft_size", "size_gap", "differing_ids"),
        "first_difference": differences[0] if differences else None,
        "differences": differences,
        "overlap": comparison.overlap,
    }


def _token(raw: bytes | None) -> str | None:
    """A token's text, cut where nobody would read on."""
    return None if raw is None else raw[:LONGEST].decode("utf-8", "backslashreplace")


def engine(entry: EngineVerdict) -> dict[str, Any]:
    return {
        **picked(
            entry, "engine", "version", "version_checked", "method", "reaction", "verdict",
            "decided_by", "basis", "applies", "reason",
        ),
        "findings": [picked(item, *FINDING) for item in entry.findings],
        "setup": entry.setup,
        "memory": entry.memory and memory.body(entry.memory),
        "repairs": [picked(item, "id", "title", "text", "source") for item in entry.repairs],
        "notes": entry.notes,
    }  # fmt: skip


# ---- Markdown ----


def pair_markdown(verdict: PairVerdict, *, switch_on: bool = True) -> str:
    comparison = verdict.comparison
    vocabulary = comparison.vocabulary
    lines = [
        f"### draftcheck: {answer_word(verdict)}",
        "",
        answer(verdict, md) + ".",
        "",
        f"Vocabulary: {vocabulary.relation}, rows {figure(vocabulary.target_size)} and"
        f" {figure(vocabulary.draft_size)}, differing ids {figure(vocabulary.differing_ids)}.",
        "",
        "| engine | version | method | reaction | verdict |",
        "|---|---|---|---|---|",
    ]
    for entry in verdict.engines:
        checked = "" if entry.version_checked else " (not verified)"
        lines.append(
            f"| {md(entry.engine)} | {md(entry.version)}{checked} | {md(entry.method or '-')}"
            f" | {REACTIONS[entry.reaction]} | {verdict_word(entry)} |"
        )
    lines += ["", *_findings(verdict)]
    repairs = ways_out(verdict.engines)
    for item, names in repairs:
        lines.append(f"- way out ({md(', '.join(names))}): {md(item.title)}")
        lines += ["", fenced(item.text), ""] if item.text else []
    lines += [*([""] if repairs else []), *memory.markdown(verdict.engines)]
    ready = next((entry for entry in verdict.engines if entry.setup), None)
    if ready and switch_on:
        where = f"{md(ready.engine)} {md(ready.version)}"
        lines += [f"To switch it on ({where}):", "", fenced(ready.setup or "")]
    return "\n".join(lines).rstrip()


def _findings(verdict: PairVerdict) -> list[str]:
    lines = []
    for finding, engines in group(verdict.engines):
        where = md(", ".join(engines))
        if finding.outcome is Outcome.FAIL or finding.not_found_out:
            word = "unknown" if finding.not_found_out else finding.severity
            lines += [
                f"- **{word} {finding.rule} {finding.slug}** ({where}): {md(finding.title)}",
                f"  - saw: {md(finding.saw)}",
                f"  - why: {md(finding.why)}",
                f"  - fix: {md(finding.fix)}",
            ]
        elif finding.outcome is Outcome.UNKNOWN and finding.severity is not Severity.NOTE:
            lines.append(
                f"- not checked {finding.rule} {finding.slug} ({where}): {md(finding.saw)}"
            )
    return [*lines, ""] if lines else []


def inspect_markdown(facts: ModelFacts) -> str:
    lines = [f"### {md(facts.ref)}", "", "| fact | value |", "|---|---|"]
    for group_name, value in facts_object(facts).items():
        entries = value.items() if isinstance(value, dict) else [("", value)]
        for key, entry in entries:
            if key not in ("origin", "keys", "files"):
                lines.append(f"| {md(f'{group_name} {key}'.strip())} | {md(str(entry))} |")
    return "\n".join(lines)


# ---- forms ----


def _useful(trial: Trial | None) -> bool:
    """A pair that a trial found not worth it is not to be switched on."""
    return trial is None or not trial.worthless


def _measured(trial: Trial | None) -> str | None:
    if trial is None:
        return None
    from draftcheck.report import trial as measured  # numpy comes with it

    return measured.answer(trial)


def _with_trial(form: str, report: str, trial: Trial | None) -> str:
    if trial is None:
        return report
    from draftcheck.report import trial as measured  # numpy comes with it

    told = measured.short(trial) if form == "text" else measured.FORMATS[form](trial)
    return f"{report}\n\n{told}"


PAIR: Mapping[str, Callable[[PairVerdict, Trial | None, bool, bool], str]] = {
    "text": lambda verdict, trial, verbose, explicit: _with_trial(
        "text",
        text.pair(
            verdict,
            verbose=verbose,
            explicit=explicit,
            switch_on=_useful(trial),
            measured=_measured(trial),
        ),
        trial,
    ),
    "json": lambda verdict, trial, *_: pair_json(verdict, trial),
    "markdown": lambda verdict, trial, *_: _with_trial(
        "markdown", pair_markdown(verdict, switch_on=_useful(trial)), trial
    ),
}
"""Form -> a verdict with its trial; verbose, and explicit: the user named the engines."""
INSPECT: Mapping[str, Callable[[ModelFacts], str]] = {
    "text": text.inspect,
    "json": inspect_json,
    "markdown": inspect_markdown,
}
"""Form -> the facts of one model."""
