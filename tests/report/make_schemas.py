"""JSON Schemas of all reports from what the commands print in the tests.

    DRAFTCHECK_JSON_SHAPES=FOLDER pytest …        # every --format json leaves its shape there
    python -m tests.report.make_schemas FOLDER     # draftcheck/report/schemas

A key is required when no report lacks it; more keys may come. A mapping whose keys are names of
things (files, tensors, categories …) has one schema for all its values.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from draftcheck.report.json import SCHEMA_VERSION
from draftcheck.report.schema import FOLDER
from draftcheck.values.words import Outcome, Reaction, Relation, Severity, Verdict

Shape = dict[str, Any]
SHAPES = os.environ.get("DRAFTCHECK_JSON_SHAPES")
MOST_KEYS = 12
"""A mapping without any common key and with more than that is one of names."""
KEY = re.compile(r"[a-z][a-z0-9_]*")
WORDS = {
    "verdict": Verdict, "reaction": Reaction, "severity": Severity, "outcome": Outcome,
    "relation": Relation,
}  # fmt: skip
MEANS = {
    "schema_version": "Changes when a key goes or changes its meaning; new keys do not change it.",
    "verdict": "What draftcheck says: compatible, degraded, incompatible, or undecided.",
    "reaction": "What the engine does.",
    "setup": "Commands or code to paste; null where it would not work.",
    "engine_says": "Words of the engine's own message.",
    "acceptance_rate": "Accepted over drafted tokens.",
    "tokens_per_pass": "Tokens per pass of the target, its own token included.",
    "speedup": "Tokens per second over those without speculation, in the engine that costs name.",
}
SUBJECTS = (
    "cache", "doctor", "gate", "inspect", "known", "pair", "probe", "publish", "recommend", "rules",
    "scan", "trial", "watch", "why",
)  # fmt: skip


def shape_of(value: Any) -> Shape:
    if isinstance(value, dict):
        found = {key: shape_of(entry) for key, entry in value.items()}
        return {"type": ["object"], "properties": found, "required": sorted(value)}
    if isinstance(value, list):
        return {"type": ["array"], "items": merged([shape_of(entry) for entry in value])}
    kinds = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": [kinds[type(value)]]}


def merged(shapes: list[Shape]) -> Shape:
    """What all of them are."""
    found: Shape = {}
    for shape in shapes:
        _into(found, shape)
    return found


def _into(found: Shape, shape: Shape) -> None:
    kinds = {*found.get("type", []), *shape.get("type", [])}
    if kinds:
        found["type"] = sorted(kinds - {"integer"} if "number" in kinds else kinds)
    if "items" in shape:
        _into(found.setdefault("items", {}), shape["items"])
    if "properties" in shape:
        before = found.get("required")
        names = set(shape["required"])
        found["required"] = sorted(names if before is None else names & set(before))
        for key, entry in shape["properties"].items():
            _into(found.setdefault("properties", {}).setdefault(key, {}), entry)


def written(shape: Shape, key: str = "") -> Shape:
    """As a schema: one type alone, mappings of names, words that are known."""
    found: Shape = {}
    if key in MEANS:
        found["description"] = MEANS[key]
    kinds = shape.get("type", [])
    if kinds:
        found["type"] = kinds[0] if len(kinds) == 1 else kinds
    if key in WORDS and kinds and set(kinds) <= {"string", "null"}:
        words: list[str | None] = [str(word) for word in WORDS[key]]
        found["enum"] = [*words, *([None] if "null" in kinds else [])]
    if shape.get("items"):
        found["items"] = written(shape["items"])
    if "properties" in shape:
        parts, needed = shape["properties"], shape["required"]
        names = not needed and len(parts) > MOST_KEYS
        if names or not all(KEY.fullmatch(name) for name in parts):
            found["additionalProperties"] = written(merged(list(parts.values())))
        else:
            found["properties"] = {name: written(parts[name], name) for name in parts}
            if needed:
                found["required"] = needed
    return found


def remember(name: str, body: Any) -> None:
    """The shape of a report, for make_schemas."""
    if SHAPES is None or name not in SUBJECTS or not isinstance(body, dict):
        return
    text = json.dumps(shape_of(body), sort_keys=True)
    folder = Path(SHAPES) / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json").write_text(text)


def main(folder: Path) -> None:
    FOLDER.mkdir(exist_ok=True)
    for place in sorted(folder.iterdir()):
        shapes = [json.loads(file.read_text()) for file in sorted(place.iterdir())]
        body = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"draftcheck {place.name} --format json, version {SCHEMA_VERSION}",
            **written(merged(shapes)),
        }
        text = json.dumps(body, indent=1, sort_keys=False)
        (FOLDER / f"{place.name}.json").write_text(text + "\n", encoding="utf-8")
        print(place.name, len(shapes), "shapes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
