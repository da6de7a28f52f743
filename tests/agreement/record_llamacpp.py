"""Record what a real llama-server does with every pair of `mutate.CASES`.

    DRAFTCHECK_REALDATA=folder python record_llamacpp.py --server path/to/llama-server

Writes llamacpp.jsonl next to this file: a header line, then one line a case. A run that was
interrupted goes on where it stopped; a case whose definition changed is recorded again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import NamedTuple

from mutate import CASES, Case, available, write

RECORDING = Path(__file__).with_name("llamacpp.jsonl")
# -nr: special weight layouts of some CPUs change what a model without tokens does
BASIC = ["-c", "256", "-np", "1", "-fit", "off", "-nr", "-lv", "5"]
SPECULATIVE = ["--spec-type", "draft-simple"]
LIMIT_SECONDS = 60
LINE_LENGTH = 150

SPEC_REASONS = {
    "type": r"draft model vocab type must match target model to use speculation but",
    "bos": r"draft model bos tokens must match",
    "eos": r"draft model eos tokens must match",
    "size": r"draft model vocab must closely match",
    "text": r"draft model vocab must match target model to use speculation but token",
    "context": r"speculative decoding not supported by this context",
    "other": r"failed to initialize speculative decoding context",
}
EXIT_REASONS = {
    "load-draft": r"failed to load draft model",
    "load-target": r"failed to load model,",
    "context-draft": r"failed to create MTP context",
    "context-target": r"failed to create_context",
    "template": r"chat template parsing error",
}
ABORT = r"\.(?:c|cpp|h):\d+: |terminate called|what\(\):"


class Run(NamedTuple):
    """How one start of the server ended."""

    exit: int | None
    speculative: bool | None
    request: str | None
    log: list[str]


def fetch(url: str, body: dict | None = None) -> tuple[int, str]:
    """Status and text of a request; status 0 if there was no answer."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(url, data, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_ready(process: subprocess.Popen, url: str) -> bool:
    """Wait until the server is healthy; false if it ended or took too long."""
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if fetch(url + "/health")[0] == 200:
            return True
        time.sleep(0.02)
    return False


def first_request(process: subprocess.Popen, url: str, prompt: str | list[int]) -> str | None:
    """Ask for two tokens; says what went wrong, if anything did."""
    status, _ = fetch(url + "/completion", {"prompt": prompt, "n_predict": 2})
    if status == 200:
        return None
    time.sleep(0.1)
    return "crashes" if process.poll() is not None else "fails"


def start(
    server: Path,
    arguments: list[str],
    folder: Path,
    ask: bool = True,
    prompt: str | list[int] = "Hello",
) -> Run:
    """Start the server, look at it, and stop it."""
    port, log = free_port(), folder / "log"
    command = [str(server), *arguments, *BASIC, "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    speculative = request = exit_code = None
    with log.open("wb") as out:
        env = os.environ | {"GGML_NO_BACKTRACE": "1"}
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=folder)
        try:
            if wait_ready(process, url):
                if ask:
                    speculative = json.loads(fetch(url + "/slots")[1])[0]["speculative"]
                    request = first_request(process, url, prompt)
            elif process.poll() is not None:
                exit_code = process.returncode
            else:
                raise TimeoutError(f"no answer in {LIMIT_SECONDS} s: {command}")
        finally:
            stop(process)
    text = log.read_bytes().decode("utf-8", "replace")
    return Run(exit_code, speculative, request, text.splitlines())


def stop(process: subprocess.Popen) -> None:
    """End the server, politely first so that it writes its whole log."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def find(log: list[str], expression: str) -> str | None:
    """The first line that contains this."""
    return next((line for line in log if re.search(expression, line)), None)


def first_reason(log: list[str], reasons: dict[str, str]) -> tuple[str, str | None]:
    """The first reason that the log gives, with its line."""
    for reason, expression in reasons.items():
        line = find(log, expression)
        if line is not None:
            return reason, line
    return "unknown", None


def load_error(log: list[str]) -> str | None:
    """The line that says why a file was not loaded."""
    general = find(log, r"error loading model: ")
    if general is None or re.search(r"failed to load (model|GGUF split) from", general):
        return find(log, r"gguf_init\w*: ") or general
    return general


def clean(line: str | None) -> str | None:
    """A log line without time, paths and control characters, not too long."""
    if line is None:
        return None
    line = re.sub(r"^\d+\.\d+\.\d+\.\d+ [A-Z] ", "", line)
    line = re.sub(r"(?:/[^/\s':]+)+/([^/\s':]+)", r"\1", line)
    line = re.sub(r"^.*?error loading model: ", "", line)
    line = re.sub(r"^spec +\w+: ", "", line)
    line = "".join(c if c.isprintable() else "?" for c in line).strip()
    return line[:LINE_LENGTH]


def dies_alone(server: Path, path: Path, folder: Path) -> bool:
    """Whether the server also crashes with this file as its only model."""
    code = start(server, ["-m", str(path)], folder, ask=False).exit
    return code is not None and code < 0


def explain_crash(server: Path, paths: tuple[Path, Path], folder: Path) -> str:
    """Which file makes the server crash."""
    if dies_alone(server, paths[0], folder):
        return "abort-target"
    return "abort-draft" if dies_alone(server, paths[1], folder) else "abort-pair"


def observe(server: Path, case: Case, folder: Path) -> dict:
    """What the server does with one case."""
    paths = write(case, folder)
    models = ["-m", str(paths[0]), "-md", str(paths[1])]
    run = start(server, models + SPECULATIVE, folder)
    found: dict = {"name": case.name, "id": identity(case), "reaction": "runs", "reason": None}
    line = None
    if run.exit is None and not run.speculative:
        found["reaction"] = "ignores-draft"
        found["reason"], line = first_reason(run.log, SPEC_REASONS)
        token = re.search(r"but token (\d+) content differs", line or "")
        if token:
            found["token"] = int(token.group(1))
    elif run.exit is not None and run.exit < 0:
        found |= {"reaction": "crashes", "signal": -run.exit}
        line = find(run.log, ABORT)
        found["reason"] = explain_crash(server, paths, folder)
    elif run.exit is not None:
        found["reaction"] = "refuses"
        found["reason"], line = first_reason(run.log, EXIT_REASONS)
        if found["reason"].startswith("load"):
            line = load_error(run.log) or line
    found |= {"request": run.request, "line": clean(line)}
    return {key: value for key, value in found.items() if value is not None or key == "reason"}


def identity(case: Case) -> str:
    """A short mark of what the case does, to notice when that changes."""
    return f"{zlib.crc32(repr(case[1:]).encode()):08x}"


def version(server: Path) -> str:
    """What the server says it is."""
    done = subprocess.run([server, "--version"], capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).splitlines()[0].removeprefix("version: ")


def read_recording(header: dict) -> dict[str, dict]:
    """The recorded cases by name, if they come from this version."""
    if not RECORDING.exists():
        return {}
    lines = [json.loads(line) for line in RECORDING.read_text().splitlines()]
    if not lines or lines[0] != header:
        raise SystemExit(f"{RECORDING.name} is of another version; remove it first")
    return {line["name"]: line for line in lines[1:]}


def save(header: dict, found: dict[str, dict]) -> None:
    """Write the recording in the order of the cases."""
    rows = [header, *(found[case.name] for case in CASES if case.name in found)]
    text = "".join(
        json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows
    )
    RECORDING.write_text(text)


def main() -> None:
    """Record what is not yet recorded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--only", default="", help="regular expression of the names to do again")
    options = parser.parse_args()
    server = options.server.resolve()
    header = {"engine": "llama.cpp", "version": version(server), "arguments": BASIC + SPECULATIVE}
    found = read_recording(header)
    wanted = [case for case in CASES if available(case)]
    for number, case in enumerate(wanted, 1):
        known = found.get(case.name, {}).get("id") == identity(case)
        if known and not (options.only and re.search(options.only, case.name)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found[case.name] = observe(server, case, Path(folder))
        print(f"{number}/{len(wanted)} {found[case.name]}", flush=True)
        if number % 25 == 0:
            save(header, found)
    save(header, found)


if __name__ == "__main__":
    main()
