"""sdist -> wheel -> an empty environment without extras -> a verdict there."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXTRAS = {"gguf", "numpy", "safetensors", "torch", "transformers"}
"""What only extras bring."""


def run(*command: object) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run(sys.executable, "-m", "build", "--outdir", work / "dist", ROOT)  # wheel from the sdist
        [wheel] = (work / "dist").glob("*.whl")
        venv.create(work / "env", with_pip=True)
        python = work / "env" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel)
        installed = run(python, "-m", "pip", "list", "--format", "freeze").lower().splitlines()
        if heavy := {line.split("==")[0] for line in installed} & EXTRAS:
            raise SystemExit(f"the core install pulled {', '.join(sorted(heavy))}")
        command = work / "env" / "bin" / "draftcheck"
        pair = ROOT / "fixtures" / "pair"
        for target, draft in (("target", "draft"), ("target.gguf", "draft.gguf")):
            out = run(command, "pair", pair / target, pair / draft)
            if not out.startswith("compatible: "):
                raise SystemExit(f"unexpected answer: {out}")
        run(command, "rules", "LCP003")
        trial = subprocess.run(
            [command, "trial", pair / "target", pair / "draft"], capture_output=True, text=True
        )
        if trial.returncode != 2 or trial.stderr.count("\n") > 2:
            raise SystemExit(f"a trial without its extra: {trial.stderr}")
    print("wheel: installed without extras, both fixture pairs compatible")


if __name__ == "__main__":
    main()
