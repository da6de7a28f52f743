"""Repos for scans, and what a store holds in a form that can be compared."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from draftcheck.scan.rows import TrialRow
from draftcheck.scan.store import ScanStore
from tests.hub import Hub, models
from tests.hub.models import Files
from tests.hub.words import SPECIALS

WORDS = 300
LARGE = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8,
         "num_attention_heads": 8, "num_key_value_heads": 2}  # fmt: skip
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
TARGET = "org/large"


@lru_cache(maxsize=32)
def _checkpoint(large: bool, seed: int, special: str, layers: int) -> Files:
    shape = {**(LARGE if large else SMALL)}
    shape["num_hidden_layers"] = layers or shape["num_hidden_layers"]
    files = models.checkpoint(shape, words=WORDS, seed=seed)
    if special:
        data = files["tokenizer.json"]
        assert isinstance(data, bytes)
        files["tokenizer.json"] = data.replace(SPECIALS[-1].encode(), special.encode())
    return files


def checkpoint(large: bool = False, seed: int = 0, special: str = "", layers: int = 0) -> Files:
    """special: another text for the last special token."""
    return dict(_checkpoint(large, seed, special, layers))


def populate(hub: Hub, drafts: int = 4) -> None:
    """A target, drafts of its family, one with another special token, strangers, and rubbish."""
    hub.add_repo(TARGET, checkpoint(large=True), downloads=1000)
    for number in range(drafts):
        hub.add_repo(f"org/draft-{number}", checkpoint(layers=number + 1), downloads=number)
    hub.add_repo("org/tuned", checkpoint(special="<|tuned|>"))
    hub.add_repo("other/large", checkpoint(large=True, seed=1))
    hub.add_repo("other/small", checkpoint(seed=1))
    hub.add_repo("junk/readme", {"README.md": "# nothing\n"})
    hub.add_repo("junk/adapter", {"adapter_config.json": "{}", "adapter_model.safetensors": b"x"})
    hub.add_repo("junk/picture", checkpoint(seed=2), extra={"pipeline_tag": "text-to-image"})


def results(path: Path) -> dict[str, Any]:
    """Everything that a scan found out, without times and without what it cost."""
    with ScanStore.open(path, readonly=True) as store:
        latest = store.latest()
        return {
            "scans": [(scan.number, scan.state) for scan in store.scans()],
            "targets": store.targets(),
            "models": list(store.models()),
            "facts": {m.ref: json.dumps(store.facts(m.facts).facts, sort_keys=True)
                      for m in store.models() if m.facts},
            "verdicts": list(store.verdicts()),
            "trials": list(store.read(TrialRow)),
            "changes": store.changes(latest.number if latest else 0),
            "rejected": list(store.rejected()),
        }  # fmt: skip


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Result by result, so that a difference is named."""
    assert one.keys() == other.keys()
    for name, rows in one.items():
        others = other[name]
        if isinstance(rows, list):
            for left, right in zip(rows, others, strict=False):
                assert left == right, name
            assert len(rows) == len(others), name
        assert rows == others, name
