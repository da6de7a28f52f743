"""tokenizer.json files that make the tokenizers library panic, abort or fill the memory.

The library runs only when the digests of two tokenizers differ; what it does to itself then
must not become our exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.conftest import ROOT, Run
from tests.hostile.support import bounded, write

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
            "normalizers": [{**TWICE, "content": "x" * 1000} for _ in range(8)],
        },
    },
    "padding to ten thousand million": {"normalizer": {"type": "NFC"}, "padding": PADDED},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_library_may_die(good: Path, tmp_path: Path, name: str) -> None:
    folder = make.folder(tmp_path / "m", tokenizer_json=make.tokenizer(**HOSTILE[name]))
    found = bounded("pair", folder, good, "--format", "json", memory=1 << 30)
    assert found.ran.code in (0, 1, 3)
    assert found.ran.json["tokenization"]["same"] in (None, True)


def test_truncation_in_the_files_hides_nothing(run: Run, tmp_path: Path) -> None:
    """Two tokenizers that keep one token of a text are not the same for that."""
    cut = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    vocab = {**make.byte_vocabulary(), "th": 256, "he": 257}
    models = [
        make.folder(
            tmp_path / merges[0][0],
            tokenizer_json=make.tokenizer(vocab, merges=merges, truncation=cut),
            vocab_size=262,
        )
        for merges in ([["t", "h"], ["h", "e"]], [["h", "e"], ["t", "h"]])
    ]
    assert run("pair", *models, "--format", "json").json["tokenization"]["same"] is not True


def test_modules_in_the_folder_are_not_imported(good: Path, tmp_path: Path) -> None:
    """Neither by us nor by a process that we start, even from inside the folder."""
    folder = make.folder(tmp_path / "m", tokenizer_json=make.tokenizer(normalizer={"type": "NFC"}))
    for name in ("tokenizers", "json", "resource", "struct", "click", "sitecustomize"):
        write(folder / f"{name}.py", f"open({str(tmp_path / 'trace')!r}, 'w')\nraise SystemExit(9)")
    code = "import sys; from draftcheck.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "pair", ".", str(good)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "trace").exists()
