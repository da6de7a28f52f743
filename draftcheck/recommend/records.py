"""What trials say of a pair: reports of `draftcheck trial`, read back, or trials that are made now.

A trial loads models: the dearest stage by far, and off unless it is asked for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftcheck.errors import ReadError, UsageError
from draftcheck.trial import strict_json

if TYPE_CHECKING:
    from draftcheck.trial.result import Trial

MAX_BYTES = 16 * 1024 * 1024
WHAT = "a trial's report"
MOST = 10_000
SECONDS = 300.0
"""For the prompts of one draft that is measured."""


@dataclass(frozen=True, slots=True)
class TrialRecord:
    target: str
    draft: str
    speedup: float | None
    """Of a real run, else of its best length; None where no costs were measured."""
    acceptance: float | None = None
    where: str = ""
    """Device, type, and the engine whose speed it is."""
    broken: str | None = None
    length: int | None = None
    real: bool = False
    """A real run gave that speed-up."""
    tokens_per_pass: Mapping[int, float] = field(default_factory=dict)
    """By draft length: what an engine's speed-up follows from."""

    @property
    def longest(self) -> float:
        """Most tokens per pass; 0: none was measured."""
        return max(self.tokens_per_pass.values(), default=0.0)


def load(paths: Iterable[Path]) -> dict[tuple[str, str], TrialRecord]:
    """Read reports in files and folders; of several about one pair, the last by name counts."""
    records: dict[tuple[str, str], TrialRecord] = {}
    for path in paths:
        for file in _files(path):
            record = _read(file, strict=file == path)
            if record is not None:
                records[record.target, record.draft] = record
    return records


def of(trial: Trial) -> TrialRecord:
    """Keep of a trial that was just measured what counts here."""
    speeds = [row.speedup for row in trial.lengths if row.speedup is not None]
    real = None if trial.verified is None else trial.verified.speedup
    return TrialRecord(
        trial.target,
        trial.draft,
        real if real is not None else max(speeds, default=None),
        trial.acceptance,
        _where(trial.device, trial.dtype, str(trial.costs_origin or "")),
        trial.broken,
        trial.length,
        real is not None,
        {row.draft_tokens or 0: row.tokens_per_pass for row in trial.lengths},
    )


def measure(
    target: str, drafts: Sequence[str], say: Callable[[str], None]
) -> Iterator[tuple[str, TrialRecord | str]]:
    """Each draft with what was measured, or the reason why nothing was.

    The target writes its texts once; every draft reads the same.
    """
    from draftcheck.trial.api import trial

    with tempfile.TemporaryDirectory(prefix="draftcheck-") as folder:
        for number, draft in enumerate(drafts, 1):

            def tell(text: str, number: int = number) -> None:
                say(f"trial {number} of {len(drafts)}: {text}")

            try:
                kept = Path(folder) / "texts.json"
                measured = trial(target, draft, budget=SECONDS, reuse=kept, say=tell)
                yield draft, of(measured)
            except (ReadError, UsageError) as error:
                yield draft, error.message


def parse(body: Mapping[str, Any]) -> TrialRecord:
    """Read the JSON report of `draftcheck trial`."""
    lengths, whose = body.get("lengths"), body.get("costs")
    rows = lengths[:1000] if isinstance(lengths, list) else ()
    speeds = [_number(row, "speedup") for row in rows]
    passes = [(_number(row, "draft_tokens"), _number(row, "tokens_per_pass")) for row in rows]
    real, broken = _number(body.get("verified"), "speedup"), body.get("broken")
    engine = ""
    if isinstance(whose, dict):
        engine = f"{str(whose.get('engine'))[:40]} {str(whose.get('version') or '')[:40]}".strip()
    return TrialRecord(
        str(body["target"]["ref"]),
        str(body["draft"]["ref"]),
        real if real is not None else max((s for s in speeds if s is not None), default=None),
        _number(body.get("acceptance_rate"), "value"),
        _where(str(body.get("device"))[:60], str(body.get("dtype"))[:20], engine),
        str(broken)[:400] if broken else None,
        real=real is not None,
        tokens_per_pass={int(g): tokens for g, tokens in passes if g and tokens is not None},
    )


def _where(device: str, dtype: str, engine: str) -> str:
    return f"{device}, {dtype}" + (f", {engine}" if engine else "")


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        found = list(islice(path.rglob("*.json"), MOST + 1))
        if len(found) > MOST:
            raise ReadError(f"{path}: more than {MOST:,} JSON files: not a folder of trials")
        yield from (file for file in sorted(found) if file.is_file())
    elif path.exists():
        yield path
    else:
        raise ReadError(f"{path}: no such file or folder of trials")


def _read(file: Path, *, strict: bool) -> TrialRecord | None:
    """The report in a file; in a folder, other files are passed over."""
    try:
        body = strict_json.load(file, WHAT, MAX_BYTES)
        if not isinstance(body, dict) or "lengths" not in body:
            raise ReadError(f"{file}: not {WHAT}, as draftcheck trial --format json writes it")
        return parse(body)
    except ReadError:
        if strict:
            raise
    except (KeyError, TypeError, RecursionError) as error:
        if strict:
            raise ReadError(f"{file}: not {WHAT}: {str(error)[:120]}") from None
    return None


def _number(row: Any, name: str) -> float | None:
    """A figure of a row; what is none tells nothing."""
    value: Any = row.get(name) if isinstance(row, dict) else None
    return float(value) if type(value) in (int, float) and 0 <= value < 1e6 else None
