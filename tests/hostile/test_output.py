"""Texts of models on a terminal, in Markdown and in JSON: shown, never obeyed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftcheck.report.safe import LONGEST, safe, safe_block
from draftcheck.report.safe import md as markdown
from tests import make
from tests.conftest import ROOT, Run
from tests.hostile.support import ANY, LONG, assert_calm, examine, strict_json, unseen, write

FORMS = ("json", "text", "markdown")
NASTY = {
    "title": "\x1b]0;pwned\x07",
    "clear": "\x1b[2J\x1b[H",
    "link": "\x1b]8;;http://example.org\x1b\\x\x1b]8;;\x1b\\",
    "C1": "\x9b31m\x85\x90",
    "overwrite": "bad\rgood",
    "lines": "a\nerror: b\n::error::c",
    "bell and delete": "\x07\x08\x7f",
    "bidi": "\u202egnp\u202c \u2066x\u2069 \u061c",
    "zero width": "a\u200bb\u200cc\u200dd\ufeffe\u2060f\u00ad",
    "separators": "a\u2028b\u2029c",
    "tags": "a\U000e0041\U000e007f",
    "annotation": "\ufff9a\ufffab\ufffb",
    "fillers": "a\u3164b\u115f\u034f",
    "zeros": "a\0b",
    "table": "a|b`c`<script>alert(1)</script>![x](http://example.org/x.png)@all #1",
    "workflow": "::error file=x::y",
    "long": "x" * 100_000,
    "marks": "e" + "\u0301" * 500,
}


@pytest.mark.parametrize("name", NASTY)
def test_texts_of_a_folder(run: Run, good: Path, tmp_path: Path, name: str) -> None:
    text = NASTY[name]
    tokenizer = make.tokenizer({**make.byte_vocabulary(), text: 256}, added=(text + "+", "</s>"))
    folder = make.folder(
        tmp_path / "m",
        tokenizer_json=tokenizer,
        tokenizer_config={"bos_token": text + "+", "eos_token": text, "chat_template": text},
        vocab_size=260,
        model_type=text,
        architectures=[text, text],
        dtype=text,
        quantization_config={"quant_method": text, "bits": text},
        layer_types=[text, "full_attention"],
        rope_scaling={"rope_type": text, "factor": 2},
        speculators_config={"verifier": {"name_or_path": text}},
    )
    for model in (folder, None):
        if model is None:  # a head of that kind
            config = json.loads((folder / "config.json").read_text())
            config["speculators_model_type"] = text
            make.write_json(folder / "config.json", config)
        examine(run, folder, ANY, good, FORMS)
    for form in ("text", "markdown"):
        shown = run("pair", folder, good, "--format", form, "--verbose")
        assert max(map(len, shown.out.splitlines())) < 4000


@pytest.mark.parametrize("name", NASTY)
def test_texts_of_a_gguf(run: Run, good_gguf: Path, tmp_path: Path, name: str) -> None:
    text = NASTY[name]
    tokens = [text, *(text + str(i) for i in range(297)), "<s>", "</s>"]
    keys = {
        "general.name": ("string", text),
        "tokenizer.ggml.pre": ("string", text),
        "tokenizer.chat_template": ("string", text),
        text: ("string", text),
        f"{text}2": ("array[string]", [text]),
    }
    if name == "long":
        tokens = [text, *make.gguf_tokens(299)]
    examine(run, make.gguf(tmp_path / "m.gguf", tokens, keys=keys), ANY, good_gguf, FORMS)
    keys["general.architecture"] = keys["tokenizer.ggml.model"] = ("string", text)
    examine(run, make.gguf(tmp_path / "n.gguf", tokens, keys=keys), ANY, good_gguf, FORMS)


@pytest.mark.parametrize("name", [n for n in NASTY if n not in ("zeros", "long", "marks")])
def test_names_of_files(run: Run, tmp_path: Path, name: str) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    text = NASTY[name].replace("/", "_")[:80]
    write(folder / f"pytorch_model{text}.bin", b"")
    ran = examine(run, folder, ANY, folder)
    assert "never opened" in ran.err
    folder.rename(tmp_path / f"m{text}")
    examine(run, tmp_path / f"m{text}", ANY, tmp_path / f"m{text}")
    write(tmp_path / f"m{text}" / "config.json", "{")
    assert run("inspect", tmp_path / f"m{text}").err.count("\n") == 1


def test_json_is_plain_ascii(run: Run, tmp_path: Path) -> None:
    tokens = [*NASTY.values(), *make.gguf_tokens(100)]
    model = make.gguf(
        tmp_path / "m.gguf", tokens, keys={"general.name": ("string", "".join(NASTY.values()))}
    )
    other = make.gguf(tmp_path / "n.gguf", [b"x%d" % i for i in range(len(tokens))])
    for arguments in (("inspect", model), ("pair", model, other)):
        out = run(*arguments, "--format", "json").out
        assert out.isascii()
        assert not unseen(out), sorted(unseen(out))
        strict_json(out)


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_no_text_makes_the_report_long(
    run: Run, good_gguf: Path, tmp_path: Path, form: str
) -> None:
    """Tokens of 4 MB, on every place that a report shows, in every format."""
    long = "x" * 2**22
    keys = {"tokenizer.ggml.pre": ("string", long), "general.name": ("string", long)}
    model = make.gguf(
        tmp_path / "m.gguf", [long + "1", long + "1", *make.gguf_tokens(298)], keys=keys
    )
    for code, command in ((0, ("inspect", model)), (1, ("pair", model, good_gguf))):
        ran = run(*command, "--format", form)
        assert_calm(ran)
        assert ran.code == code
        assert len(ran.out) < 200_000


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_texts_that_the_terminal_cannot_show(tmp_path: Path, encoding: str) -> None:
    """Redirected output on Windows is cp1252."""
    model = make.gguf(tmp_path / "a.gguf", [f"\u4f60{i}" for i in range(300)])
    other = make.gguf(tmp_path / "b\u00f6.gguf")
    done = subprocess.run(
        [sys.executable, "-m", "draftcheck", "pair", model, other],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 1, done.stderr


@given(st.text())
@settings(max_examples=int(100 * LONG), deadline=None)
def test_safe_shows_everything_and_obeys_nothing(text: str) -> None:
    for shown in (safe(text), markdown(text)):
        assert not unseen(shown)
        assert "\n" not in shown
    assert len(safe(text)) <= 10 * LONGEST
    assert not unseen(safe_block(text))


@given(st.text(alphabet=st.sampled_from("ab\\`*_{}[]<>()#|!@~\n\r\x1b&")))
@settings(max_examples=int(100 * LONG), deadline=None)
def test_markdown_cannot_be_broken_out_of(text: str) -> None:
    """Outside of escapes nothing remains that Markdown or HTML would act on."""
    rest = re.sub(r"\\.", "", markdown(text))
    assert not set(rest) & set("`*_{}[]<>()#|!@~\\\n")


def test_every_character_of_the_bad_categories_is_escaped() -> None:
    bad = [
        chr(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]
    for start in range(0, len(bad), LONGEST - 1):
        assert safe("".join(bad[start : start + LONGEST - 1])).isascii()
