"""A model of the Hub and the same files in a folder get the same verdict, rule by rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran
from tests.hub import Hub, Virtual, models
from tests.hub.process import Draftcheck, assert_calm

WORDS = 20_000
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
BIG = {**SHAPE, "num_hidden_layers": 12}


def on_disk(folder: Path, files: models.Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Virtual):
            with path.open("wb") as file:
                for offset, part in content.blob.parts:  # type: ignore[attr-defined]
                    file.seek(offset)
                    file.write(part)
                file.truncate(content.size)
        else:
            assert isinstance(content, bytes | str)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def config(files: models.Files, name: str, **changes: Any) -> models.Files:
    content = files[name]
    assert isinstance(content, str)
    return {**files, name: json.dumps({**json.loads(content), **changes})}


def drafts() -> dict[str, models.Files]:
    same = models.checkpoint(SHAPE, words=WORDS)
    return {
        "same": same,
        "padded": models.checkpoint({**SHAPE, "vocab_size": 20_608}, words=WORDS),
        "too few rows": models.checkpoint({**SHAPE, "vocab_size": 20_001}, words=WORDS),
        "other eos": config(same, "tokenizer_config.json", eos_token="<|user|>"),
        "adds bos": config(same, "tokenizer_config.json", add_bos_token=True),
        "no tokenizer config": {k: v for k, v in same.items() if k != "tokenizer_config.json"},
        "other tokens": models.checkpoint(SHAPE, words=WORDS, seed=3),
        "one more token": models.checkpoint(SHAPE, words=WORDS + 1),
    }


def told(ran: Ran) -> Any:
    assert_calm(ran)
    found = ran.json
    engines = [
        [row[key] for key in ("engine", "method", "reaction", "verdict", "decided_by")]
        + [(finding["rule"], finding["outcome"]) for finding in row["findings"]]
        for row in found["engines"]
    ]
    return ran.code, found["verdict"], found["vocabulary"]["relation"], engines


@pytest.mark.parametrize("name", list(drafts()))
def test_hub_and_folder_agree(name: str, hub: Hub, tmp_path: Path) -> None:
    big, small = models.checkpoint(BIG, words=WORDS, count=3), drafts()[name]
    hub.add_repo("org/big", big)
    hub.add_repo("org/small", small)
    draftcheck = Draftcheck(hub, tmp_path / "home")
    remote = draftcheck("pair", "org/big", "org/small", "--format", "json")
    folders = on_disk(tmp_path / "big", big), on_disk(tmp_path / "small", small)
    assert told(remote) == told(draftcheck("pair", *folders, "--format", "json"))
    shared = hub.asked("org/small/tokenizer.json") == []
    assert shared is (name not in ("other tokens", "one more token")), hub.story()


def test_gguf_of_a_repo_and_of_a_folder_agree(hub: Hub, tmp_path: Path) -> None:
    files: models.Files = {
        "big-Q8_0.gguf": models.small_gguf(4000),
        "small-Q4_0.gguf": models.small_gguf(3990),
    }
    hub.add_repo("org/gguf", files)
    folder = on_disk(tmp_path / "gguf", files)
    draftcheck = Draftcheck(hub, tmp_path / "home")
    remote = draftcheck("pair", "org/gguf:Q8_0", "org/gguf:Q4_0", "--format", "json")
    local = draftcheck("pair", *(folder / name for name in files), "--format", "json")
    assert told(remote) == told(local)
    revision = hub.repos["org/gguf"].sha
    assert {remote.json[side]["revision"] for side in ("target", "draft")} == {revision}
    assert {remote.json[side]["kind"] for side in ("target", "draft")} == {"hub"}


def test_what_is_pasted_works_for_a_model_that_is_far_away(hub: Hub, tmp_path: Path) -> None:
    hub.add_repo("org/big", models.small_checkpoint())
    hub.add_repo("org/small", models.small_checkpoint())
    draftcheck = Draftcheck(hub, tmp_path)
    asked = ("--engine", "vllm", "--engine", "llama.cpp", "--format", "json")
    ran = draftcheck("pair", "org/big", "org/small", *asked)
    assert "vllm serve org/big " in ran.engine("vllm")["setup"]
    lines = ran.engine("llama.cpp")["setup"].splitlines()
    assert lines[0] == "hf download org/big --local-dir big"
    assert lines[1] == "python convert_hf_to_gguf.py big --outfile big.gguf"
    ran = draftcheck("pair", "org/big@main", "org/small", *asked)
    lines = ran.engine("vllm")["setup"].splitlines()
    assert lines[0] == "hf download org/big --revision main --local-dir big"
    assert lines[1].startswith("vllm serve big ")


def test_a_tokenizer_on_this_disk_is_not_downloaded(hub: Hub, tmp_path: Path) -> None:
    files = models.checkpoint(SHAPE, words=WORDS)
    hub.add_repo("org/small", files)
    big = on_disk(tmp_path / "big", models.checkpoint(BIG, words=WORDS))
    ran = Draftcheck(hub, tmp_path / "home")("pair", big, "org/small", "--format", "json")
    assert_calm(ran)
    assert ran.json["vocabulary"]["relation"] == "identical" and ran.code == 0
    assert not hub.asked("org/small/tokenizer.json"), hub.story()
