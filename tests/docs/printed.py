"""What README, docs and the notebook show is what is printed: run it, compare it, write it anew.

A block of commands behind `<!-- run -->` shows everything that they print, behind `<!-- run 9 -->`
nine lines of each. They run in a folder with a few models and files, as a reader may have them.
`python -m tests.docs.printed` writes what is out of date.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from shutil import copy, copytree
from typing import Any

from draftcheck.cli import main
from draftcheck.memory import gpus
from tests import make

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
BLOCK = re.compile(r"(<!-- run ?(\d*) -->\n```console\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)
PAIR = ROOT / "fixtures" / "pair"
RENAMED = ("\u0120neighbours".encode(), b"<|tool_use|>")
"""A token of the draft, and what a fine-tune made of it; equally long: the file stays sound."""
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 5e5,
    "torch_dtype": "bfloat16", "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
    "num_key_value_heads": 8,
}  # fmt: skip
SIZES: dict[str, dict[str, Any]] = {
    "Llama-3.3-70B-Instruct": {
        "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
        "num_attention_heads": 64, "head_dim": 128,
    },
    "Llama-3.2-1B-Instruct": {
        "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "head_dim": 64, "tie_word_embeddings": True,
    },
}  # fmt: skip
COMPOSE = """\
services:
  chat:
    image: ghcr.io/ggml-org/llama.cpp:server-b9500
    command: -m big.gguf -md small.gguf --draft-max 16 -ngl all
"""
LOG = """\
srv    load_model: loading model 'big.gguf'
common_speculative_are_compatible: draft model vocab type must match target model to use speculation
srv    load_model: speculative decoding will use checkpoints
main: server is listening on http://127.0.0.1:8080
"""


def fill(folder: Path) -> None:
    """Models and files of a reader: two GGUFs that fit, one that does not, a 70B, a deploy file."""
    copy(PAIR / "target.gguf", folder / "big.gguf")
    copy(PAIR / "draft.gguf", folder / "small.gguf")
    data, (old, new) = (PAIR / "draft.gguf").read_bytes(), RENAMED
    head = len(old).to_bytes(8, "little")
    assert data.count(head + old) == 1 and len(old) == len(new)
    (folder / "tuned.gguf").write_bytes(data.replace(head + old, head + new))
    for name, shape in SIZES.items():
        (folder / "meta-llama").mkdir(exist_ok=True)
        make.folder(folder / "meta-llama" / name, config={**LLAMA, **shape})
    copytree(PAIR / "target", folder / "target")
    copytree(PAIR / "heads" / "eagle3", folder / "eagle3-head")
    (folder / "compose.yaml").write_text(COMPOSE, encoding="utf-8")
    (folder / "server.log").write_text(LOG, encoding="utf-8")


def printed(line: str, folder: Path) -> list[str]:
    """What a command of draftcheck says there."""
    program, *words = shlex.split(line, comments=True)
    assert program == "draftcheck", f"only draftcheck is run: {line}"
    with chdir(folder), redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        main(words)
    return (out.getvalue() or err.getvalue()).rstrip().splitlines()


def shown(block: str, most: int, folder: Path) -> Iterator[str]:
    """The block as it should be."""
    for line in block.splitlines():
        if line.startswith("$ "):
            yield line
            lines = printed(line[2:], folder)
            yield from lines[: most or None]
            if most and len(lines) > most:
                yield "…"


def refreshed(text: str, folder: Path) -> str:
    """A page with what its commands print now."""

    def anew(found: re.Match[str]) -> str:
        lines = shown(found[3], int(found[2] or 0), folder)
        return found[1] + "".join(f"{line}\n" for line in lines) + found[4]

    return BLOCK.sub(anew, text)


def run_cells(text: str) -> str:
    """A notebook with what its cells show now; they are run one after the other."""
    book, names = json.loads(text), {"__name__": "__main__"}
    with chdir(ROOT):
        for cell in book["cells"]:
            if cell["cell_type"] != "code":
                continue
            body = ast.parse("".join(cell["source"])).body
            last = body.pop() if isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), "cell", "exec"), names)
            cell["outputs"] = []
            if isinstance(last, ast.Expr):
                found = repr(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
                plain = {"text/plain": found.splitlines(keepends=True)}
                cell["outputs"] = [
                    {"output_type": "execute_result", "execution_count": None, "metadata": {},
                     "data": plain}
                ]  # fmt: skip
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    os.environ |= {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "COLUMNS": "100"}
    gpus.present = lambda: False
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = f"{scratch}/cache"
        work = Path(scratch, "work")
        work.mkdir()
        fill(work)
        for page in PAGES:
            page.write_text(refreshed(page.read_text("utf-8"), work), "utf-8")
        NOTEBOOK.write_text(run_cells(NOTEBOOK.read_text("utf-8")), "utf-8")
