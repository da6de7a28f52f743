"""What takes input from outside, and how each is attacked.

A surface prepares sound files once, then makes cases of them: one file damaged, and the commands
that read it. Surfaces know file formats and command lines, nothing of the code behind them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import Any, ClassVar

from draftcheck.cli import main
from draftcheck.gate.lock.format import digest
from draftcheck.models.sources.hub.client import HubClient
from tests.conftest import FIXTURES
from tests.fuzz import mutate
from tests.fuzz.harness import Case, Command, Done
from tests.hub import Hub
from tests.hub.answers import Answer
from tests.hub.blobs import Data
from tests.hub.log import Entry
from tests.probe import answers
from tests.probe.server import Fake, answer
from tests.scan.world import TARGET as HUB_TARGET
from tests.scan.world import populate

PAIR = FIXTURES / "pair"
TARGET, DRAFT = str(PAIR / "target"), str(PAIR / "draft")
TESTS = Path(__file__).parent.parent
ENGINES = (
    "vllm",
    "vllm@0.15.1",
    "llama.cpp",
    "llama.cpp@b9990",
    "sglang",
    "transformers",
    "ollama",
)
FORMS = ("text", "json", "markdown")
GATE_ENGINES = (
    "vllm@0.15.1",
    "vllm@0.32.0",
    "llama.cpp@b9990",
    "llama.cpp@b11312",
    "sglang@0.5.20",
)
GATE_FORMS = (*FORMS, "sarif", "junit", "github")


def command(*words: object, writes: Sequence[str] = (), raw: bool = False) -> Command:
    return Command(tuple(map(str, words)), frozenset(writes), raw)


def quietly(*words: object) -> int:
    """A command that prepares something."""
    streams = [io.TextIOWrapper(io.BytesIO()) for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        return main([str(word) for word in words])


class Surface:
    """Cases of one kind; `folder` is a place for what they share."""

    name: ClassVar[str]
    suite: ClassVar[int] = 40
    """Cases in a run of the whole test suite."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, rng: random.Random) -> Case:
        raise NotImplementedError


def circumstances(rng: random.Random) -> list[str]:
    """Options with ordinary and with enormous numbers."""
    found: list[str] = []
    if rng.random() < 0.7:
        found += ["--gpu", rng.choice(["h200", "2x rtx-4090", "24GiB", "8x h100", "t4"])]
    counts = ["1", "2", "8", "1000", "30000000", str(2**40)]
    names = ("context", "sequences", "tensor-parallel", "pipeline-parallel", "draft-tokens")
    for name in names:
        if rng.random() < 0.25:
            found += [f"--{name}", rng.choice(counts)]
    return found


# Deploy files


class DeployFiles(Surface):
    """Fixtures of every kind, damaged as texts, in many encodings; checked, shown and fixed."""

    name = "deploy"
    suite = 80

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.bases = sorted(
            path
            for path in (FIXTURES / "deploy").rglob("*")
            if path.is_file() and path.name != "expected.toml"
        )

    def make(self, rng: random.Random) -> Case:
        base = rng.choice(self.bases)
        text = base.read_bytes().decode("utf-8", "replace")
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            text = mutate.damaged_text(text, rng)
        data = mutate.encoded(text, rng)
        if rng.random() < 0.1:
            data = mutate.damaged_bytes(data, rng)
        name = base.name
        files = {name: data}
        if name != "draftcheck.toml":
            files["draftcheck.toml"] = settings_file(rng)
        engines = [word for engine in rng.sample(GATE_ENGINES, 2) for word in ("--engine", engine)]
        if rng.random() < 0.5:
            engines = []
        return Case(
            files,
            (
                command("gate", "--format", rng.choice(GATE_FORMS), *engines, name),
                command("gate", "--format", "json", *engines, name),
                command("gate", "--diff", *engines, name, raw=True),
                command("gate", "--fix", *engines, name, writes=[escape(name)]),
                command("gate", "--format", "json", *engines, name),
                command("gate", "--fix", *engines, name),
            ),
            damaged=name,
            check=fix_is_sound,
        )


def settings_file(rng: random.Random) -> bytes:
    lines = ["[paths]"]
    for name in ("target", "draft", "target.gguf", "draft.gguf"):
        lines.append(f'"/models/{name}" = "{PAIR / name}"')
    if rng.random() < 0.5:
        lines.append('[gate]\ngpu = "h200"')
    return "\n".join(lines).encode()


def fix_is_sound(done: Sequence[Done], folder: Path) -> str | None:
    """No new finding, and exactly what --diff had shown."""
    _, before, shown, fixed, after, _ = done
    if fixed.before == fixed.after:
        return None
    if before.out and after.out:
        old, new = (_rules(json.loads(one.out)) for one in (before, after))
        worse = [rule for rule in new if new.count(rule) > old.count(rule)]
        if worse:
            return f"--fix brought new findings: {worse}"
    names = [name for name, data in fixed.before.items() if fixed.after.get(name) != data]
    data = fixed.before[names[0]]
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return _patch_differs(shown.out, names[0], data, fixed.after[names[0]], folder)


def _rules(report: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in report["findings"] if not finding.get("ignored")]


def _patch_differs(patch: str, name: str, old: bytes, new: bytes, folder: Path) -> str | None:
    """Whether git makes something else of the patch than --fix made of the file."""
    work = folder / "work"
    work.mkdir()
    (work / name).write_bytes(old)
    done = subprocess.run(
        ["git", "apply", "--unsafe-paths", "--whitespace=nowarn", "-"],
        input=patch.encode("utf-8", "surrogateescape"), cwd=work, capture_output=True, check=False,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder), "GIT_DIR": str(work / "no")},
    )  # fmt: skip
    if done.returncode:
        return f"git cannot apply the patch: {done.stderr[-300:]!r}"
    return None if (work / name).read_bytes() == new else "--fix and --diff disagree"


class FileNames(Surface):
    """Sound files under hostile names, and names that look like options."""

    name = "names"
    suite = 40

    def make(self, rng: random.Random) -> Case:
        word = rng.choice([w for w in mutate.WORDS if 0 < len(w) < 60]).replace("/", "_")
        word = word.replace("\0", "_").encode("utf-8", "replace").decode()
        base = FIXTURES / "deploy" / "shell" / "llama-appended.sh"
        name = rng.choice(["", "run ", "-"]) + word + ".sh"
        body = b"llama-server -m a.gguf --model-draft b.gguf --draft-max 16 --draft-min 5\n"
        body = body if rng.random() < 0.5 else base.read_bytes()
        model = json.dumps({"model_type": "llama", "vocab_size": 5}).encode()
        return Case(
            {name: body, f"{word}.model/config.json": model},
            (
                command("gate", "--format", rng.choice(GATE_FORMS), "--verbose", "--", name),
                command("gate", "--diff", "--engine", "llama.cpp@b9990", "--", name, raw=True),
                command(
                    "gate", "--fix", "--engine", "llama.cpp@b9990", "--", name, writes=["*.sh"]
                ),
                command("gate", "--fix", "--engine", "llama.cpp@b9990", "--", name),
                command("inspect", "--format", rng.choice(FORMS), "--", f"./{word}.model"),
                command("pair", "--format", rng.choice(FORMS), "--", f"./{word}.model", DRAFT),
            ),
            check=names_are_quoted,
        )


def names_are_quoted(done: Sequence[Done], _folder: Path) -> str | None:
    for line in done[1].out.splitlines():
        line = line.removesuffix("\t")  # git ends a name with spaces in this way
        if line.startswith(("--- ", "+++ ", "diff ")) and not line.isprintable():
            return f"a name stands raw in the patch: {line!r}"
    return None


class Settings(Surface):
    """draftcheck.toml and lists of a scan: any value at any key."""

    name = "settings"

    MANIFEST = """
[gate]
gpu = "h200"
include = ["*.sh"]
exclude = ["x/*"]
versions = {{vllm = "0.15.1"}}
[paths]
"/models/target" = "{pair}/target"
[[pair]]
name = "one"
target = "{pair}/target"
draft = "{pair}/draft"
engine = "vllm"
version = "0.32.0"
context = 4096
sequences = 8
tensor_parallel = 2
memory_fraction = 0.9
trial = "trial.json"
min_speedup = 1.2
[[ignore]]
rule = "GAT015"
file = "run.sh"
reason = "x"
"""
    LIST = """
engines = ["vllm", "llama.cpp@b10586"]
gpu = "h200"
context = 8192
sequences = 4
memory_fraction = 0.9
tensor_parallel = 2
[[target]]
ref = "{pair}/target"
pins = ["{pair}/draft"]
engines = ["vllm"]
[[candidates]]
refs = ["{pair}/draft"]
[trial]
per_target = 0
"""

    def make(self, rng: random.Random) -> Case:
        manifest = rng.random() < 0.5
        text = (self.MANIFEST if manifest else self.LIST).format(pair=PAIR)
        lines = text.splitlines()
        for _ in range(rng.choice([1, 1, 2, 3])):
            at = rng.randrange(len(lines))
            key, equals, _ = lines[at].partition(" = ")
            if equals and rng.random() < 0.7:
                lines[at] = f"{key} = {self._value(rng)}"
            else:
                lines[at] = mutate.damaged_text(lines[at], rng)
        name = "draftcheck.toml" if manifest else "targets.toml"
        data = "\n".join(lines).encode("utf-8", "replace")
        files = {name: data, "trial.json": (TESTS / "trial" / "data" / "trial.json").read_bytes()}
        runs = command("gate", "--format", rng.choice(GATE_FORMS), name)
        if not manifest:
            writes = ["s.db*", ".s.db*"]
            runs = command("scan", name, "--store", "s.db", "--quiet", writes=writes)
        return Case(files, (runs,), damaged=name)

    @staticmethod
    def _value(rng: random.Random) -> str:
        numbers = ["nan", "inf", "-inf", "0", "-1", "1e400", "9" * 400, "9" * 5000, "0.0", "2.5"]
        others = ["[]", "{}", "true", '""', '"x"', "1979-05-27", '["a", 1]', "[[1]]", str(2**40)]
        return rng.choice(numbers + others)


# Models


class ModelFiles(Surface):
    """Every file of a checkpoint, and GGUFs."""

    name = "models"
    suite = 80

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sound = {path.name: path.read_bytes() for path in Path(TARGET).iterdir()}

    def make(self, rng: random.Random) -> Case:
        if rng.random() < 0.3:
            name = "m/model.gguf"
            files = {name: mutate.damaged_bytes((PAIR / "target.gguf").read_bytes(), rng)}
            model = name
        else:
            part = rng.choice(sorted(self.sound))
            data = self.sound[part]
            if part.endswith(".json") and rng.random() < 0.7:
                data = mutate.as_json(mutate.damaged_json(json.loads(data), rng), rng)
            else:
                # The weights themselves are never read: damage that matters is in the header.
                head = data[:4096] if part.endswith(".safetensors") else data
                data = mutate.damaged_bytes(head, rng) + data[len(head) :]
            files = {f"m/{file}": body for file, body in self.sound.items()}
            files[f"m/{part}"] = data
            name, model = f"m/{part}", "m"
        other = DRAFT if rng.random() < 0.5 else str(PAIR / "draft.gguf")
        sides = [model, other] if rng.random() < 0.5 else [other, model]
        options = circumstances(rng)
        return Case(
            files,
            (
                command("inspect", model, "--format", rng.choice(FORMS)),
                command("pair", *sides, "--format", rng.choice(FORMS), *options),
            ),
            damaged=name,
        )


class SavedFacts(Surface):
    """What `inspect --output` wrote."""

    name = "facts"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sound = []
        for name in ("target", "target.gguf"):
            file = folder / f"{name}.facts.json"
            assert quietly("inspect", PAIR / name, "--output", file) == 0
            self.sound.append(file.read_bytes())

    def make(self, rng: random.Random) -> Case:
        data = rng.choice(self.sound)
        if rng.random() < 0.8:
            data = mutate.as_json(mutate.damaged_json(json.loads(data), rng), rng)
        else:
            data = mutate.damaged_bytes(data, rng)
        sides = ["x.facts.json", DRAFT]
        rng.shuffle(sides)
        return Case(
            {"x.facts.json": data},
            (
                command("inspect", "x.facts.json", "--format", rng.choice(FORMS)),
                command("pair", *sides, "--format", rng.choice(FORMS), *circumstances(rng)),
            ),
            damaged="x.facts.json",
        )


# What we keep ourselves


class Stores(Surface):
    """Any cell of a scan's store, and its bytes."""

    name = "store"
    suite = 60

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = folder / "base.db"
        with Hub() as hub:
            populate(hub, drafts=2)
            os.environ.pop("HF_HUB_OFFLINE", None)
            os.environ.update(hub.env(folder / "home"))
            pins = ("--pin", HUB_TARGET, "org/draft-0", "--gpu", "h200", "--engine", "vllm")
            words = ("scan", "--target", HUB_TARGET, "--store", self.store, "--quiet", *pins)
            for _ in range(2):
                assert quietly(*words, "--engine", "llama.cpp") in (0, 1)
                hub.add_repo("org/draft-0", {"README.md": "gone"})
            for name in hub.env(folder / "home"):
                os.environ.pop(name, None)
            os.environ["HF_HUB_OFFLINE"] = "1"
        with contextlib.closing(sqlite3.connect(self.store)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("PRAGMA journal_mode=DELETE")

    def make(self, rng: random.Random) -> Case:
        copy = self.folder / "copy.db"
        shutil.copyfile(self.store, copy)
        if rng.random() < 0.85:
            with contextlib.closing(sqlite3.connect(copy)) as db:
                for _ in range(rng.choice([1, 1, 2])):
                    with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                        self._damage(db, rng)
                        db.commit()
            data = copy.read_bytes()
        else:
            data = mutate.damaged_bytes(copy.read_bytes(), rng)
        writes = ["s.db*", ".s.db*", "out"]
        report = command("report", "--store", "s.db", "--output", "out", writes=writes)
        scan = command(
            "scan", "--target", HUB_TARGET, "--store", "s.db", "--offline", "--quiet",
            "--format", rng.choice(FORMS), "--engine", "vllm", writes=writes,
        )  # fmt: skip
        runs = (report, scan) if rng.random() < 0.5 else (scan, report)
        return Case({"s.db": data}, runs)

    @staticmethod
    def _damage(db: sqlite3.Connection, rng: random.Random) -> None:
        tables = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        table = rng.choice(sorted(tables))
        columns = [(row[1], row[5]) for row in db.execute(f'PRAGMA table_info("{table}")')]
        (rows,) = db.execute(f'SELECT count(*) FROM "{table}"').fetchone()
        if not rows:
            return
        column = rng.choice(columns)[0]
        keys = [name for name, key in columns if key] or [columns[0][0]]
        at = rng.randrange(rows)
        names = ", ".join(f'"{name}"' for name in keys)
        row = db.execute(
            f'SELECT {names}, "{column}" FROM "{table}" LIMIT 1 OFFSET {at}'
        ).fetchone()
        wanted = " AND ".join(f'"{name}" IS ?' for name in keys)
        put = _cell(row[-1], rng)
        if rng.random() < 0.05:
            db.execute(f'DELETE FROM "{table}" WHERE {wanted}', row[:-1])
        elif rng.random() < 0.03:
            db.execute(f'DROP TABLE "{table}"')
        else:
            db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {wanted}', (put, *row[:-1]))


def _cell(old: Any, rng: random.Random) -> Any:
    if isinstance(old, str) and rng.random() < 0.6:
        with contextlib.suppress(ValueError):
            return mutate.as_json(mutate.damaged_json(json.loads(old), rng), rng).decode(
                "utf-8", "replace"
            )
    put = mutate.value(rng)
    if isinstance(put, list | dict):
        return json.dumps(put)
    if isinstance(put, int) and abs(put) >= 2**63:
        return str(put)
    return rng.choice([put, put, b"\x00\xff", rng.randbytes(20)])


class Locks(Surface):
    """draftcheck.lock, with digests made right again so that readers see what is inside."""

    name = "lock"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.script = (
            f"vllm serve {TARGET} --speculative-config "
            f"""'{{"method": "draft_model", "model": "{DRAFT}", "num_speculative_tokens": 4}}'\n"""
        ).encode()
        work = folder / "work"
        work.mkdir()
        (work / "run.sh").write_bytes(self.script)
        back = Path.cwd()
        os.chdir(work)
        try:
            assert quietly("lock", "run.sh") == 0
        finally:
            os.chdir(back)
        self.lock = (work / "draftcheck.lock").read_bytes()

    def make(self, rng: random.Random) -> Case:
        data = self.lock
        if rng.random() < 0.8:
            body = mutate.damaged_json(json.loads(data), rng)
            if rng.random() < 0.9:
                _sign(body)
            data = mutate.as_json(body, rng)
        else:
            data = mutate.damaged_bytes(data, rng)
        return Case(
            {"run.sh": self.script, "draftcheck.lock": data},
            (
                command("gate", "--format", rng.choice(GATE_FORMS), "run.sh"),
                command("lock", "--check", "run.sh"),
                command("lock", "run.sh", writes=["draftcheck.lock"]),
            ),
            damaged="draftcheck.lock",
        )


def _sign(body: Any) -> None:
    for kind, entries in body.items() if isinstance(body, dict) else ():
        for key, entry in entries.items() if isinstance(entries, dict) else ():
            if isinstance(entry, dict):
                with contextlib.suppress(TypeError, ValueError, RecursionError):
                    entry["digest"] = digest(kind, key, entry)


class SavedTrials(Surface):
    """The JSON of a trial, wherever a command takes one."""

    name = "trials"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sound = json.loads((TESTS / "trial" / "data" / "trial.json").read_bytes())
        self.sound["target"] |= {"ref": TARGET} if isinstance(self.sound["target"], dict) else {}

    def make(self, rng: random.Random) -> Case:
        data = mutate.as_json(mutate.damaged_json(self.sound, rng), rng)
        if rng.random() < 0.2:
            data = mutate.damaged_bytes(data, rng)
        manifest = (
            f'[[pair]]\nname = "one"\ntarget = "{TARGET}"\ndraft = "{DRAFT}"\nengine = "vllm"\n'
            'trial = "trials/x.json"\nmin_speedup = 1.2\n'
        )
        return Case(
            {"trials/x.json": data, "draftcheck.toml": manifest.encode()},
            (
                command("pair", TARGET, DRAFT, "--trial-from", "trials/x.json",
                        "--format", rng.choice(FORMS)),
                command("recommend", TARGET, "--candidate", DRAFT, "--trials", "trials",
                        "--offline", "--format", rng.choice(FORMS)),
                command("gate", "draftcheck.toml", "--format", rng.choice(GATE_FORMS)),
            ),
            damaged="trials/x.json",
        )  # fmt: skip


class Logs(Surface):
    """Logs of engines, for `why`."""

    name = "logs"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.bases = sorted((FIXTURES / "logs").iterdir())

    def make(self, rng: random.Random) -> Case:
        text = rng.choice(self.bases).read_text(errors="replace")
        data = mutate.encoded(mutate.damaged_text(text, rng), rng)
        if rng.random() < 0.3:
            data = mutate.damaged_bytes(data, rng) * rng.choice([1, 1, 30])
        return Case(
            {"x.log": data},
            (command("why", "x.log", "--format", rng.choice(FORMS)),),
            damaged="x.log",
        )


class Options(Surface):
    """Words and numbers on the command line."""

    name = "options"
    suite = 60

    TAKING: ClassVar[dict[str, tuple[str, ...]]] = {
        "pair": (
            "--context", "--sequences", "--tensor-parallel", "--pipeline-parallel", "--gpu",
            "--memory-fraction", "--draft-gpu", "--draft-tensor-parallel", "--draft-tokens",
            "--engine", "--method", "--dtype", "--kv-dtype", "--format",
        ),
        "gate": ("--engine", "--format", "--lock", "--diff-base"),
        "probe": ("--interval", "--timeout", "--prompt", "--model"),
        "recommend": ("--limit", "--max-size", "--gpu", "--context", "--engine", "--tag"),
        "inspect": ("--format",),
        "rules": ("--format", "--engine"),
        "why": ("--engine",),
    }  # fmt: skip
    FIRST: ClassVar[dict[str, tuple[str, ...]]] = {
        "pair": (TARGET, DRAFT),
        "gate": ("run.sh",),
        "probe": ("http://127.0.0.1:9",),
        "recommend": (TARGET, "--candidate", DRAFT, "--offline"),
        "inspect": (TARGET,),
        "why": ("run.sh",),
    }

    def make(self, rng: random.Random) -> Case:
        name = rng.choice(sorted(self.TAKING))
        words = list(self.FIRST.get(name, ()))
        for _ in range(rng.choice([1, 1, 2, 3])):
            words += [rng.choice(self.TAKING[name]), self._word(rng)]
        if rng.random() < 0.15:
            words[0] = self._word(rng) if words else "x"
        # No system passes NUL, and bytes that are no text arrive as low surrogates.
        words = [word.replace("\0", "?").replace("\ud800", "\udcff") for word in words]
        return Case({"run.sh": b"vllm serve a/b\n"}, (command(name, *words),))

    @staticmethod
    def _word(rng: random.Random) -> str:
        kind = rng.randrange(4)
        if kind == 0:
            return mutate.number_text(rng)
        if kind == 1:
            return rng.choice(mutate.WORDS)
        if kind == 2:
            return f"{rng.choice(ENGINES).split('@')[0]}@{mutate.number_text(rng)}"
        return rng.choice(["h200", "vllm@0.15.1", "8B", "json", "fp8", "4", "0.9", "2x h100"])


# Servers


class ModelServers(Surface):
    """Answers of model servers, for `probe`: any value in bodies and headers."""

    name = "servers"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        recorded = json.loads((TESTS / "probe" / "recorded" / "llama_server.json").read_text())
        self.bases: list[dict[str, Any]] = [
            answers.vllm(
                answers.vllm_metrics(10, 40, 20, (10, 6, 3, 1), 60),
                answers.vllm_metrics(20, 80, 40, (20, 12, 6, 2), 120),
            ),
            answers.sglang(answers.STANDALONE, answers.sglang_metrics(10, 40, 2)),
            answers.tabby({"model_name": "small"}),
            answers.ollama("FROM x\nDRAFT y\n", nextn=1),
            answers.lm_studio({"accepted_draft_tokens_count": 3, "total_draft_tokens_count": 6}),
            *(
                routes
                for routes in recorded.values()
                if isinstance(routes, dict) and "/props" in routes
            ),
        ]

    def make(self, rng: random.Random) -> Case:
        routes = dict(rng.choice(self.bases))
        for path in rng.sample(sorted(routes), rng.choice([1, 1, 2])):
            routes[path] = self._damaged(routes[path], rng)

        @contextlib.contextmanager
        def serve() -> Iterator[str]:
            fake = Fake(routes)
            try:
                yield fake.url
            finally:
                fake.close()

        options = ["--prompt", "x"] if rng.random() < 0.5 else ["--interval", "0.1"]
        words = ("probe", "$URL", "--timeout", "2", "--format", rng.choice(FORMS))
        return Case({}, (command(*words, *options),), server=serve)

    def _damaged(self, old: Any, rng: random.Random) -> Any:
        if isinstance(old, list):
            return [self._damaged(one, rng) if rng.random() < 0.7 else one for one in old]
        if isinstance(old, str) or callable(old):
            old = answer(old if isinstance(old, str) else "x")
        body = old["body"]
        if isinstance(body, str):
            with contextlib.suppress(ValueError):
                body = json.loads(body)
        if isinstance(body, str):
            body = mutate.damaged_text(body, rng).encode("utf-8", "replace")
        elif rng.random() < 0.85:
            body = mutate.as_json(mutate.damaged_json(body, rng), rng)
        else:
            body = mutate.damaged_bytes(json.dumps(body).encode(), rng)
        status = old["status"] if rng.random() < 0.8 else rng.choice([204, 301, 401, 429, 500, 503])
        headers = {}
        if rng.random() < 0.3:
            headers[rng.choice(["Retry-After", "Server", "Location", "Content-Type"])] = header(rng)
        return {"status": status, "headers": headers, "body": body}


def header(rng: random.Random) -> str:
    """A value of a header: one line of Latin-1, as servers can send."""
    words = [
        "nan", "inf", "-1", "0", "1e400", "9" * 400, "Wed, 21 Oct 2099 07:28:00 GMT", "x", "",
        "http://user:secret@127.0.0.1:9/x", "\x1b[2J", "bytes 0-9/99999999999999999999",
    ]  # fmt: skip
    return rng.choice(words) if rng.random() < 0.7 else mutate.number_text(rng)


class DamagingHub(Hub):
    """A Hub whose answers are damaged on their way, now and then."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.often = rng.choice([0.05, 0.2, 0.5])

    def _spoil(self, entry: Entry, answer: Answer) -> None:
        if self.rng.random() > self.often:
            return
        kind = self.rng.randrange(5)
        headers = ["Retry-After", "RateLimit", "Content-Range", "Link", "Location", "ETag",
                   "X-Linked-Size", "X-Repo-Commit", "Content-Length", "Age"]  # fmt: skip
        if kind == 0:
            answer.headers[self.rng.choice(headers[:-2])] = header(self.rng)
        elif kind == 1:
            answer.status = self.rng.choice([204, 301, 308, 401, 403, 404, 416, 429, 500, 503])
            answer.headers["Retry-After"] = header(self.rng)
        elif answer.body.size < 10**6:
            data = answer.body.read(0, answer.body.size)
            with contextlib.suppress(ValueError):
                if kind < 4:
                    data = mutate.as_json(mutate.damaged_json(json.loads(data), self.rng), self.rng)
            answer.body = Data(data if kind < 4 else mutate.damaged_bytes(data, self.rng))


class HubAnswers(Surface):
    """The Hub's lists, files, redirects and headers."""

    name = "hub"
    suite = 20

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        HubClient._sleep = lambda *_: time.sleep(0.01)  # waiting is not what is tried here
        wait = threading.Event.wait
        threading.Event.wait = lambda event, seconds=None: wait(  # type: ignore[method-assign]
            event, seconds and min(seconds, 0.01)
        )

    def make(self, rng: random.Random) -> Case:
        seed = rng.random()
        home = self.folder / "home"

        @contextlib.contextmanager
        def serve() -> Iterator[str]:
            shutil.rmtree(home, ignore_errors=True)
            hub = DamagingHub(random.Random(seed))
            with hub:
                populate(hub, drafts=2)
                variables = hub.env(home)
                os.environ.pop("HF_HUB_OFFLINE", None)
                os.environ.update(variables)
                try:
                    yield hub.url
                finally:
                    for name in variables:
                        os.environ.pop(name, None)
                    os.environ["HF_HUB_OFFLINE"] = "1"
                    hub.errors.clear()  # of clients that hung up

        words: Callable[[], tuple[Any, ...]] = rng.choice(
            [
                lambda: ("pair", HUB_TARGET, "org/draft-0"),
                lambda: ("inspect", "org/draft-1"),
                lambda: ("recommend", HUB_TARGET, "--limit", "3"),
            ]
        )
        runs = [command(*words(), "--format", rng.choice(FORMS))]
        if rng.random() < 0.3:
            writes = ["s.db*", ".s.db*"]
            scan = (
                "scan",
                "--target",
                HUB_TARGET,
                "--store",
                "s.db",
                "--quiet",
                "--engine",
                "vllm",
            )
            runs = [command(*scan, writes=writes), command(*scan, writes=writes)]
        return Case({}, tuple(runs), server=serve)


SURFACES: dict[str, type[Surface]] = {
    kind.name: kind
    for kind in (
        DeployFiles, FileNames, Settings, ModelFiles, SavedFacts, Stores, Locks, SavedTrials, Logs,
        Options, ModelServers, HubAnswers,
    )
}  # fmt: skip
