"""What is not understood is said with its place; nothing crashes, hangs, or is run by a shell."""

from __future__ import annotations

import functools
import os
import random
import shlex
import sys
from pathlib import Path

import pytest

from draftcheck.deploy import deployment
from draftcheck.deploy.syntax import python_values
from draftcheck.gate.run import GateRequest, run
from draftcheck.report import gate as reports
from tests.conftest import FIXTURES
from tests.gate.conftest import Repo

VLLM = "    image: vllm/vllm-openai:v0.15.1\n"
SPEC = """--speculative-config '{"method": "draft_model", "model": "a/b", """
SPEC += """"num_speculative_tokens": 4}\'"""
CASES: dict[str, tuple[str, bytes, tuple[str, int] | None]] = {
    "a template that is not YAML": (
        "pod.yaml",
        b"kind: Pod\nspec:\n  {{- if .Values.x }}\n  image: vllm/vllm-openai:v0.15.1\n"
        b"  args: [{{ .Values.speculative }}\n",
        None,
    ),
    "YAML that ends early": (
        "compose.yml",
        b"services:\n  vllm:\n    command: [--speculative-config, 'x\n",
        ("GAT001", 3),
    ),
    "an anchor that contains itself": (
        "compose.yml",
        b"services: &a\n  vllm:\n" + VLLM.encode() + b"    x: *a\n    command: --spec-x\n",
        ("GAT001", 4),
    ),
    "JSON that is none": (
        "run.sh",
        b"vllm serve a/b --speculative-config '{\"method\": ngram}'\n",
        ("FIL008", 1),
    ),
    "a variable that nobody defines": (
        "run.sh",
        b'vllm serve a/b --speculative-config "{\\"model\\": \\"$DRAFT\\"}"\n',
        ("GAT001", 1),
    ),
    "a quote that is not closed": ("run.sh", b"vllm serve a/b --speculative-config '{\n", None),
    "Python that does not parse": (
        "run.py",
        b"from vllm import LLM\nLLM(model='a', speculative_config={\n",
        ("GAT001", 2),
    ),
    "a file that is too large": (
        "run.sh",
        b"# vllm speculative\n" + b"echo x\n" * 400_000,
        ("GAT001", 1),
    ),
    "TOML of ours that is none": ("draftcheck.toml", b"[[pair]\n", ("GAT001", 1)),
    "a binary file": ("run.sh", b"\x7fELF\0vllm serve --speculative-config\0", None),
    "no UTF-8": ("run.sh", f"# caf\xe9\nvllm serve a/b {SPEC}\n".encode("latin-1"), ("GAT002", 2)),
    "a command substitution": (
        "run.sh",
        b"vllm serve $(touch pwned) --speculative-model `touch pwned`\n",
        ("GAT001", 1),
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_it_is_said_where(name: str, repo: Repo) -> None:
    file, data, wanted = CASES[name]
    repo.write(file, data)
    ran = repo.gate(file, "--format", "json")
    assert ran.code in (0, 1, 3), ran.err
    assert "Traceback" not in ran.err
    found = [(f["rule"], f["line"]) for f in ran.json["findings"] if f["file"] == file]
    if wanted is None:
        return
    assert wanted in found, found
    assert ran.code in (1, 3)
    assert not (repo.path / "pwned").exists()


def bomb() -> bytes:
    """Nine anchors, each nine times in the next."""
    lines = ["a0: &a0 [vllm, speculative]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    return "\n".join([*lines, "services:", "  x:", VLLM.rstrip(), "    command: *a11"]).encode()


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("compose.yml", bomb()),
        ("compose.yml", b"vllm speculative: " + b"[" * 50_000),
        ("compose.yml", b"services:\n" + b" - " * 50_000 + b"vllm speculative"),
        ("model.json", b'{"speculative_model": ' + b'{"model": ' * 50_000),
        ("draftcheck.toml", b"x = " + b"[" * 50_000),
        ("run.py", b"from vllm import LLM\nLLM(speculative_config=" + b"(" * 50_000),
        ("run.py", b"import vllm\nspeculative = " + b"-" * 50_000 + b"1"),
        ("run.sh", b"vllm serve --speculative-config " + b"'" * 100_001),
        ("run.sh", b"vllm serve --speculative-config " + b"$(" * 50_000),
        ("run.sh", b"vllm serve --speculative-config " + b"${A:-" * 20_000),
        ("run.sh", b"A=speculative\n" + b'A="$A$A"\n' * 60 + b"vllm serve $A\n"),
        ("run.sh", b"vllm serve --speculative-config " + b"\\\n" * 100_000),
        ("run.sh", b"cat <<A\n" * 5_000 + b"vllm serve --speculative-model x\n"),
        ("run.sh", b"vllm serve --speculative-config '" + b'{"a":' * 50_000 + b"'"),
        ("Dockerfile", b"FROM vllm/vllm-openai\n" + b"ENV A=$A$A speculative\n" * 5_000),
        ("config.pbtxt", b"parameters { speculative " * 10_000),
        ("run.sh", b"vllm serve a/b --speculative-config x\n" * 2_000),
        ("run.sh", ("vllm serve " + "speculative " * 30_000).encode()),
    ],
)
def test_what_is_meant_to_hurt(file: str, data: bytes, repo: Repo) -> None:
    repo.write(file, data)
    ran = repo.gate(file)
    assert ran.code in (0, 1, 3), ran.err
    assert "Traceback" not in ran.err


SERVE = f"vllm serve a/c {SPEC}"
MANY = "--x y " * 35_000
JSON = '{"model": "a/b"}'
TOO_MUCH: dict[str, tuple[str, str]] = {
    "a number of 400 digits": ("run.sh", f"{SERVE} --max-model-len {'9' * 400}\n"),
    "more devices than there are": ("run.sh", f"{SERVE} --tensor-parallel-size 30000000\n"),
    "a version of 5,000 digits": ("run.sh", f"pip install vllm==0.{'9' * 5000}\n{SERVE}\n"),
    "a command of 70,000 words": ("run.sh", f"vllm serve a/c {MANY}{SPEC}\n"),
    "the same in a Makefile": ("Makefile", f"all:\n\tvllm serve a/c {MANY}{SPEC}\n"),
    "the same in an array": ("run.sh", f'A=({MANY}{SPEC})\nvllm serve a/c "${{A[@]}}"\n'),
    "an array that grows": (
        "run.sh",
        "A=(a)\n" + f"A+=({'--x y ' * 9_000})\n" * 2 + f'A+=({SPEC})\nvllm serve a/c "${{A[@]}}"\n',
    ),
    "a variable that is too long": (
        "run.sh",
        f'A="{"--x y " * 4_000}--speculative-model b"\nvllm serve a/c $A\n',
    ),
    "the same in a Makefile's variable": (
        "Makefile",
        f"A = {'--x y ' * 4_000}--speculative-model b\nall:\n\tvllm serve a/c $(A)\n",
    ),
    "the same in a notebook": (
        "run.ipynb",
        f'{{"cells":[{{"cell_type":"code","source":"!vllm serve a/c {MANY}--spec-model x"}}]}}',
    ),
    "7,000 words in Python": (
        "run.py",
        "import subprocess\nsubprocess.run(['vllm', 'serve', 'a/c', "
        + "'--x', 'y', " * 3_500
        + f"'--speculative-config', '{JSON}'])\n",
    ),
    "a sum in Python": (
        "run.py",
        "import subprocess\nsubprocess.run(['vllm', 'serve', 'a/c'] + "
        + "['--x', 'y'] + " * 40
        + """['--speculative-config', '{"model": "a/b", "num_speculative_tokens": 3}'])\n""",
    ),
    "3,000 commands": (
        "values.yaml",
        "a:\n" + "- args: [vllm, serve, a/c, --speculative-model, b]\n" * 3_000,
    ),
    "a number in hexadecimal": (
        "run.py",
        "from vllm import LLM\nLLM(model='a/b', speculative_config={'model': 'c/d', "
        f"'num_speculative_tokens': 0x{'f' * 20_000}}})\n",
    ),
    "arguments called by digits that are none": (
        "run.py",
        f"from vllm import LLM\nLLM(model='a/b', **{{'²': 1, '{'9' * 5_000}': 1}}, "
        "speculative_config={'model': 'c/d', 'num_speculative_tokens': 4})\n",
    ),
    "scripts inside scripts": (
        "run.sh",
        functools.reduce(lambda inner, _: f"bash -c {shlex.quote(inner)}", range(10), SERVE) + "\n",
    ),
}


@pytest.mark.parametrize("name", list(TOO_MUCH))
def test_past_a_limit_nothing_is_said_to_be_fine(
    name: str, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "MAX_FOUND", deployment.MAX_FOUND // 10)
    monkeypatch.setattr(python_values, "MAX_STEPS", python_values.MAX_STEPS // 10)
    file, text = TOO_MUCH[name]
    repo.write(file, text)
    ran = repo.gate(file, "--format", "json")
    assert ran.code == 3, ran.err
    assert any(f["outcome"] == "unknown" for f in ran.json["findings"])
    if name in ("7,000 words in Python", "3,000 commands"):
        assert "too much to read" in ran.out


def test_the_manifest_has_no_more_devices_than_there_are(repo: Repo) -> None:
    pair = '[[pair]]\nname = "x"\ntarget = "a"\nengine = "vllm"\ntensor_parallel = 30000000\n'
    repo.write("draftcheck.toml", pair)
    assert "'tensor_parallel' must be a whole number from 1 to 65,536" in repo.gate().out


def test_a_path_that_no_disk_could_have(repo: Repo) -> None:
    repo.write("below/draftcheck.toml", f'[paths]\n"/m" = "{"x" * 5_000}"\n"/n" = "a\\u0000b"\n')
    repo.write("below/run.sh", f"vllm serve /m/{'y' * 5_000} {SPEC}\n")
    ran = repo.gate("below/run.sh")
    assert ran.code == 3 and "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("", "# draftcheck: ignore[FIL001] because x\n"),
        ("llama-server -m a.gguf -md b.gguf ", "--draft-max=8 "),
        ("llama-server -m a.gguf -md b.gguf ", "--draft-max 8 "),
        ("vllm serve a/b --speculative-model c/d ", "--dtype auto "),
    ],
)
def test_work_grows_with_the_file_not_with_its_square(text: str, again: str, repo: Repo) -> None:
    # The first run reads the rules; the others differ by the length of the file alone.
    _, half, whole = (_effort(repo, text + again * count) for count in (10, 400, 800))
    assert whole < 2.5 * half


def _effort(repo: Repo, text: str) -> int:
    """How many calls it takes to look at a script."""
    repo.write("run.sh", f"{text}\nvllm serve a --speculative-model b\n")
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event.endswith("call")

    sys.setprofile(count)
    try:
        run(GateRequest(("run.sh",)))
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps the current folder")
def test_the_current_folder_is_gone(repo: Repo) -> None:
    folder = repo.path / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    for ran in (repo.gate(), repo.lock(), repo.gate(repo.path / "draftcheck.toml")):
        assert ran.code == 3
        assert ran.err.startswith("error: the current folder does not exist any more")


def test_utf_16_is_read_like_any_other(repo: Repo) -> None:
    text = f"# draftcheck: ignore[GAT015] because of x\n{SERVE}\n"
    repo.write("run.sh", f"\ufeff{text}".encode("utf-16-le"))
    wide = repo.json("run.sh")
    repo.write("run.sh", text)
    assert wide == repo.json("run.sh")
    repo.write("run.py", "from vllm import LLM\nLLM('a', speculative_config={".encode("utf-16"))
    assert ("GAT001", "run.py", 2) in repo.rules("run.py")
    repo.write("requirements.txt", "\ufeffvllm==0.15.1\n".encode("utf-16-le"))
    assert repo.json("run.sh")["setups"][0]["version"] == "0.15.1"


@pytest.mark.skipif(os.name == "nt", reason="names that Windows does not have")
def test_names_of_files(repo: Repo) -> None:
    names = [b"a\nb.sh", b"c d.sh", b"\xff.sh", b"-rf.sh", "é.sh".encode(), b"$(touch pwned).sh"]
    for name in names:
        path = Path(os.fsdecode(name))
        path.write_text("llama-server -m a.gguf --draft-model b.gguf\n", encoding="utf-8")
    repo.git("init")
    for form in reports.FORMATS:
        ran = repo.gate("--format", form)
        assert ran.code == 1, ran.err
        ran.out.encode("utf-8")
    assert len(repo.json()["setups"]) == len(names)
    assert not (repo.path / "pwned").exists()


def test_mutations_of_deploy_files_never_crash(repo: Repo) -> None:
    """A few hundred of them, the same every time."""
    dice = random.Random(7)
    bits = [
        b"'", b'"', b"\\", b"{", b"}", b"[", b"]", b"${", b"$(", b"`", b"\n", b"\t", b"- ", b": ",
        b"&a ", b"*a", b"<<: ", b"|\n", b"#", b"--", b"=", b"\0", b"\xff", b"{{", b"<<E\n",
    ]  # fmt: skip
    files = [path for path in (FIXTURES / "deploy").rglob("*") if path.is_file()]
    files = sorted(path for path in files if path.name not in ("expected.toml", "draftcheck.toml"))
    for _ in range(150):
        path = dice.choice(files)
        data = bytearray(path.read_bytes())
        for _ in range(dice.randint(1, 5)):
            at = dice.randrange(len(data) + 1)
            data[at : at + dice.choice((0, 0, 5))] = dice.choice(bits) * dice.choice((1, 1, 50))
        repo.write(path.name, bytes(data))
        report = run(GateRequest((path.name,))).report
        for form in reports.FORMATS:
            reports.FORMATS[form](report, True)
        Path(path.name).unlink()
