"""Constants of rules/tables/engine-speed.toml from passes that benchmarks.vllm_speed timed.

    python -m benchmarks.fit_engine_speed PASSES.jsonl… [--leave TARGET] [--keep] [--version 0.22.1]

Every constant is moved up and down as long as the passes of all cells come closer to the timed
ones (squares of relative errors). Cells of a target that is left out are compared, not fitted;
--keep fits nothing. A cell's figures are the quiet ones of passes and launches, on the calmest day
that it was timed: what others do on the machine makes passes longer, never shorter.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from benchmarks.vllm_speed import METHODS, PROMPT, SHAPES, TOKENS
from draftcheck.memory import gpus
from draftcheck.trial.backends.vllm import pass_times
from draftcheck.trial.engine_speed import table
from draftcheck.trial.engine_speed.passes import EnginePasses
from draftcheck.trial.engine_speed.table import DraftingRow, PassRow
from draftcheck.trial.engine_speed.work import ModelWork

LAUNCH_US = 6.0
"""Of the machine whose CPU constants these are."""
OF_PASSES = ("bandwidth", "flops", "layer_us", "pass_us", "token_us", "eager_layer_us")
OF_DRAFTING = ("gap_us", "waits_us", "cpu_us", "step_us", "layer_us")
ROUNDS = 60
RATES = (0.5, 0.65, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class TimedCell:
    target: str
    draft: str
    length: int
    sequences: int
    seconds: float
    launch: float


def work(name: str) -> ModelWork:
    shape = SHAPES[name]
    hidden, layers = shape["hidden_size"], shape["num_hidden_layers"]
    heads, kv = (
        shape[f"num_{kind}_heads"] * shape["head_dim"] for kind in ("attention", "key_value")
    )
    count = layers * (
        2 * hidden * heads + 2 * hidden * kv + 3 * hidden * shape["intermediate_size"]
    )
    output = hidden * shape.get("draft_vocab_size", shape["vocab_size"])
    count += output
    if name in METHODS:  # a head: its layer reads two vectors, three of the target are joined
        count += hidden * heads + 2 * hidden * kv + 3 * hidden * hidden
    cache = 4 * kv * layers * (PROMPT + TOKENS // 2)
    return ModelWork(2 * count, cache=cache, layers=layers, output=2 * output)


def cells(files: Iterable[Path]) -> list[TimedCell]:
    found: dict[tuple[str, str, int, int], TimedCell] = {}
    for line in (line for file in files for line in file.read_text().splitlines()):
        row = json.loads(line)
        for sequences, load in row["loads"].items():
            place = (row["target"], row["draft"], row["length"], int(sequences))
            launch = min(load["launch_us"]) / LAUNCH_US
            cell = TimedCell(*place, load["quiet_ms"] / 1e3, launch)
            if place not in found or cell.seconds < found[place].seconds:
                found[place] = cell
    return list(found.values())


def own(files: Sequence[Path], model: EngineModel) -> Iterator[str]:
    """Passes that a trial in vLLM would expect, also of lengths that it does not time.

    A length that was timed by the benchmark alone stands in where a trial times it.
    """
    quiet = {(one.target, one.draft, one.length, one.sequences): one for one in cells(files)}
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    for pair in dict.fromkeys((row["target"], row["draft"]) for row in rows if row["length"]):
        mine = {
            row["length"]: row for row in rows
            if row["target"] == pair[0] and row["draft"] in ("-", pair[1])
        }  # fmt: skip
        wanted = {pass_times.PLAIN, *pass_times.LENGTHS}
        if not wanted <= mine.keys():
            continue
        timed = {
            g: {int(n): mine[g].get("own_s", {}).get(n) or [load["quiet_ms"] / 1e3] * 2
                for n, load in mine[g]["loads"].items()}
            for g in wanted
        }  # fmt: skip
        for sequences, costs in pass_times.costs(timed, "", model.passes_of(*pair)).items():
            for g in sorted(mine.keys() - {pass_times.PLAIN}):
                took = quiet[(*pair, g, sequences)].seconds * 1e3
                off = costs.pass_step(g, g) * 1e3 / took - 1
                yield f"{pair[0]} {pair[1]} {g} x{sequences}: {took:.2f} ms, a trial's {off:+.0%}"


class EngineModel:
    """Constants that are looked for, in place of the table's."""

    def __init__(self, version: str, gpu: str) -> None:
        self.version, self.gpu = version, gpus.parse(gpu).devices[0]
        self.drafting: dict[str, DraftingRow] = {}
        for method in ("draft_model", "eagle3"):
            rows = table.rows("vllm", version, method)
            assert rows is not None
            self.passes, self.drafting[method] = rows

    def _made(self, cell: TimedCell) -> EnginePasses:
        method = METHODS.get(cell.draft, "draft_model")
        draft = work(cell.target if cell.draft == "-" else cell.draft)
        return EnginePasses("vllm", self.version, self.passes, self.drafting[method], self.gpu,
                            work(cell.target), draft, launch=cell.launch)  # fmt: skip

    def seconds(self, cell: TimedCell) -> float:
        made = self._made(cell)
        if cell.draft == "-":
            return made.plain(cell.sequences)
        return made.speculating(cell.sequences, cell.length)

    def passes_of(self, target: str, draft: str) -> pass_times.Modelled:
        return self._made(TimedCell(target, draft, 0, 1, 0.0, 1.0)).speculating

    def spread(self, cell: TimedCell) -> float:
        """Half the interval that is printed with a speed-up."""
        return self._made(cell).spread(cell.sequences, cell.length)

    def error(self, found: list[TimedCell]) -> float:
        return sum(math.log(self.seconds(cell) / cell.seconds) ** 2 for cell in found)

    def fit(self, found: list[TimedCell]) -> None:
        step = 0.2
        for _ in range(ROUNDS):
            moved = [self._moved(found, where, name, step) for where, name in self._names()]
            step = step if any(moved) else step / 2

    def _names(self) -> Iterable[tuple[str, str]]:
        yield from (("", name) for name in OF_PASSES)
        yield from ((method, name) for method in self.drafting for name in OF_DRAFTING)

    def _moved(self, found: list[TimedCell], where: str, name: str, step: float) -> bool:
        before, now = self._row(where), self.error(found)
        for factor in (1 + step, 1 / (1 + step)):
            self._put(where, structs.replace(before, **{name: getattr(before, name) * factor}))
            if self.error(found) < now - 1e-9:
                return True
        self._put(where, before)
        return False

    def _row(self, where: str) -> Any:
        return self.drafting[where] if where else self.passes

    def _put(self, where: str, row: Any) -> None:
        if where:
            self.drafting[where] = row
        else:
            self.passes = row

    def constants(self) -> str:
        def said(row: PassRow | DraftingRow, names: Iterable[str]) -> str:
            return ", ".join(f"{name} = {getattr(row, name):.3g}" for name in names)

        return "\n".join([said(self.passes, OF_PASSES),
                          *(f"{method}: {said(row, OF_DRAFTING)}"
                            for method, row in self.drafting.items())])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument(
        "--leave", action="append", default=[], help="a target or draft that is not fitted"
    )
    parser.add_argument("--keep", action="store_true", help="the table's constants, nothing fitted")
    parser.add_argument("--version", default="0.22.1")
    parser.add_argument("--gpu", default="h200")
    said = parser.parse_args()
    found = cells(said.files)
    fitted = [cell for cell in found if not {cell.target, cell.draft} & set(said.leave)]
    model = EngineModel(said.version, said.gpu)
    if not said.keep:
        model.fit(fitted)
        print(model.constants())
    plain = {(cell.target, cell.sequences): cell for cell in found if cell.draft == "-"}
    costs, gains, covered, signs = [], [], [], []
    for cell in found:
        off = model.seconds(cell) / cell.seconds - 1
        costs.append(abs(off))
        words = f"{cell.target} {cell.draft} {cell.length} x{cell.sequences}: "
        words += f"{cell.seconds * 1e3:.2f} ms, modelled {off:+.0%}"
        beside = plain.get((cell.target, cell.sequences))
        if beside is not None and cell is not beside:
            ratio = model.seconds(beside) / model.seconds(cell) / (beside.seconds / cell.seconds)
            gains.append(abs(ratio - 1))
            covered.append(abs(ratio - 1) <= model.spread(cell))
            for rate in RATES:
                tokens = sum(rate**i for i in range(cell.length + 1))
                real = tokens * beside.seconds / cell.seconds
                if abs(real - 1) > 0.05:
                    signs.append((real > 1) == (real * ratio > 1))
            words += f", speed-up {ratio - 1:+.0%}"
        print(words + ("" if cell in fitted else "  (not fitted)"))
    print(*own(said.files, model), sep="\n")
    print(f"passes within 15 %: {sum(x <= 0.15 for x in costs)} of {len(costs)};"
          f" speed-ups within 10 %: {sum(x <= 0.1 for x in gains)} of {len(gains)},"
          f" within the interval printed: {sum(covered)};"
          f" pays or not, at rates {RATES}: {sum(signs)} of {len(signs)} right")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
