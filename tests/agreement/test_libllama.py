"""What `inspect` says llama.cpp makes of a vocabulary, against llama.cpp's own library.

The library comes prebuilt from a package registry (`make llama-library`), or is named by
DRAFTCHECK_LIBLLAMA. It loads vocabularies only, so cases that damage weights or the file itself
are left to the recording of a whole server (test_agreement_llamacpp.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from draftcheck.judge.llama.loaded import loaded
from draftcheck.judge.llama.vocab import TYPES, fix_texts
from draftcheck.models.read import read
from draftcheck.models.refs import parse
from tests.conftest import ROOT, Run

AGREEMENT = Path(__file__).parent
sys.path.insert(0, str(AGREEMENT))
import libllama  # noqa: E402
import mutate  # noqa: E402
from mutate_ops import NONE, bases  # noqa: E402

FETCHED = ROOT / ".llama" / "package" / "bins"
WHOLE_FILE = {"body", "no_tensor", "tensor", "no_tensors", "broken", "raw_key", "split"}
# A walk through the charsmap's trie is not predicted; glm5 is newer than the packaged library.
# The rest fails where the weights are looked at, which the library does not do here.
EXCEPT = ("/charsmap-one-node/", "/pre-glm5", "/only-0/", "/model-no", "/tokens-none/")

pytestmark = pytest.mark.libllama


@pytest.fixture(scope="module")
def library() -> Path:
    named = os.environ.get("DRAFTCHECK_LIBLLAMA")
    found = [Path(named)] if named else sorted(FETCHED.glob("*/libllama.*"))
    if not found or not found[0].is_file():
        pytest.skip("no libllama: make llama-library fetches one, DRAFTCHECK_LIBLLAMA names one")
    return found[0]


def ask(library: Path, files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """One answer a file; a file that aborts the child gets {"crashes": True}."""
    left, found = [str(file) for file in files], {}
    while left:
        child = [sys.executable, str(AGREEMENT / "libllama.py"), str(library), *left]
        env = os.environ | {"GGML_NO_BACKTRACE": "1"}
        done = subprocess.run(child, capture_output=True, env=env, timeout=600)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        found |= {row["file"]: row for row in rows}
        left = left[len(rows) :]
        if done.returncode > 0:
            pytest.skip(f"the library cannot be used: {done.stderr.decode()[-200:]}")
        if left and done.returncode < 0:
            found[left.pop(0)] = {"crashes": True}
    return found


def cases(small: bool) -> list[mutate.Case]:
    """Each changed vocabulary once; of the real ones only the unchanged."""
    found: dict[object, mutate.Case] = {}
    for case in mutate.CASES:
        if "|" in case.base or any(part in case.name for part in EXCEPT):
            continue
        if small != all(base.startswith("small-") for base in bases(case)):
            continue
        if any(op[0] in WHOLE_FILE or "." in str(op[1:2]) for op in case.draft):
            continue
        if not small and case.draft != NONE:
            continue
        found.setdefault((case.base, repr(case.draft)), case)
    return list(found.values())


def disagreement(run: Run, file: Path, theirs: dict[str, Any]) -> str | None:
    ran = run("inspect", file, "--format", "json")
    ours = ran.json["llama_cpp"] if ran.code == 0 else {"does not load": ran.err}
    if "does not load" in ours:
        return None if not theirs.get("loads") else f"{file.parent.name}: {ours}"
    if not theirs.get("loads"):
        return f"{file.parent.name}: the engine does not load it, we say {ours}"
    names = ("type", "n_tokens", "bos", "eos", "get_add_bos", "get_add_eos")
    mine = (TYPES[ours["type"]], *(ours[n] for n in ("tokens", "bos", "eos", "add_bos", "add_eos")))
    if mine != tuple(theirs[name] for name in names):
        return f"{file.parent.name}: the engine has {theirs}, we say {ours}"
    return None


def test_small_vocabularies_agree(library: Path, tmp_path: Path, run: Run) -> None:
    files = {}
    for number, case in enumerate(cases(small=True)):
        folder = tmp_path / f"{number:03d}-{case.name.replace('/', '-')}"
        folder.mkdir()
        files[case.name] = mutate.write(case, folder)[1]
    answers = ask(library, files.values())
    found = [disagreement(run, file, answers[str(file)]) for file in files.values()]
    assert not list(filter(None, found)), "\n".join(filter(None, found))
    assert len(files) > 600
    assert sum("crashes" in answer for answer in answers.values()) > 5
    assert sum(answer.get("loads") is False for answer in answers.values()) > 50


@pytest.mark.realdata
def test_real_vocabularies_agree(library: Path, tmp_path: Path, realdata: Path, run: Run) -> None:
    for case in cases(small=False):
        folder = tmp_path / case.base
        folder.mkdir()
        file = mutate.write(case, folder)[1]
        answer = ask(library, [file])[str(file)]
        assert disagreement(run, file, answer) is None
        tokens = [text or b"" for text in read(parse(str(file))).tokenizer.tokens or ()]
        assert libllama.digest(list(fix_texts(tokens))) == answer["texts"]


def test_texts_agree(library: Path, tmp_path: Path) -> None:
    """NUL bytes, empty texts and bytes that are not UTF-8, byte for byte."""
    wanted = [
        c for c in cases(small=True) if "nul" in c.name or "empty" in c.name or "utf" in c.name
    ]
    assert wanted
    for number, case in enumerate(wanted):
        (tmp_path / str(number)).mkdir()
        file = mutate.write(case, tmp_path / str(number))[1]
        answer = ask(library, [file])[str(file)]
        facts = read(parse(str(file)))
        if answer.get("loads") and "does not load" not in (loaded(facts) or {}):
            tokens = [text or b"" for text in facts.tokenizer.tokens or ()]
            assert libllama.digest(list(fix_texts(tokens))) == answer["texts"], case.name
