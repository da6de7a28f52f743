"""tokenizer.json files that make the tokenizers library panic, abort or fill the memory.

The library runs only when the digests of two tokenizers differ; what it does to itself then
must not become our exit code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.hostile.support import bounded

TWICE = {"type": "Replace", "pattern": {"Regex": "."}, "content": "xx"}
PADDED = {
    "strategy": {"Fixed": 10**10},
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 0,
    "pad_type_id": 0,
    "pad_token": "x",
}
HOSTILE: dict[str, dict[str, Any]] = {
    "panic": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "regular expression without end": {
        "normalizer": TWICE,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "(x+x+)+y"},
            "behavior": "Isolated",
            "invert": False,
        },
    },
    "text that grows": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{**TWICE, "content": "x" * 100} for _ in range(8)],
        },
    },
    "padding to ten thousand million": {"normalizer": {"type": "NFC"}, "padding": PADDED},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_library_may_die(good: Path, tmp_path: Path, name: str) -> None:
    folder = make.folder(tmp_path / "m", tokenizer_json=make.tokenizer(**HOSTILE[name]))
    found = bounded("pair", folder, good, "--format", "json", memory=2 << 30)
    assert found.ran.code in (0, 1, 3)
    assert found.ran.json["tokenization"]["same"] is None
    assert found.seconds < 15
