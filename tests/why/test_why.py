"""draftcheck why: every message with an example, whole logs, bad input, all through the CLI.

A new row in rules/messages.toml needs no code here: its example is run by itself. A rule's
`engine_says` is one too.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import shlex
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from draftcheck.cli import COMMANDS, cli
from draftcheck.errors import RuleError
from draftcheck.rulebook import book as rulebook
from draftcheck.rulebook import files
from draftcheck.why import explain as why
from draftcheck.why import messages, patterns, scan
from tests.conftest import FIXTURES, ROOT, Ran, Run

LOGS = FIXTURES / "logs"
BOOK = messages.load()
BY_ID = {message.id: message for message in BOOK.messages}
OWN = [message for message in BOOK.messages if message.id.startswith("WHY")]
MASKED = "ValueError: could not determine the shape of object type 'torch.storage.UntypedStorage'"


def parse(data: dict[str, Any]) -> messages.MessageBook:
    """The messages of another file."""
    return messages.from_file(files.typed(data, messages.MessageFile, "messages.toml"))


def explain(run: Run, tmp_path: Path, text: str | bytes, *options: str) -> Ran:
    log = tmp_path / "engine.log"
    log.write_bytes(text if isinstance(text, bytes) else text.encode())
    return run("why", log, "--format", "json", *options)


def ids(ran: Ran) -> list[str]:
    return [entry["id"] for entry in ran.json["messages"]]


def entry(ran: Ran, message_id: str) -> dict[str, Any]:
    return next(found for found in ran.json["messages"] if found["id"] == message_id)


# ---- every message ----


def quiet(message_id: str) -> set[str]:
    """Rows that an example may bring up besides: rules that quote the same line."""
    return {other.id for other in BOOK.messages if not other.id.startswith("WHY")} - {message_id}


@pytest.mark.parametrize("message", OWN, ids=lambda message: message.id)
def test_each_row_explains_its_example_and_no_other_does(
    run: Run, tmp_path: Path, message: messages.Message
) -> None:
    line = patterns.plain(message.example)
    assert message.match(line) is not None
    text = "\n".join([BY_ID[other].example for other in message.needs] + [message.example])
    if message.kind == "sign":
        return
    ran = explain(run, tmp_path, text)
    if message.id == "WHY801":  # needs a second line that tells of the end
        ran = explain(run, tmp_path, f"{text}\n{text.replace('61', '0')}")
    found = set(ids(ran))
    instead = (other for other in found if scan.says_more(BY_ID[other], message))
    assert message.id in found or any(instead), found
    needed = {other for other in message.needs if BY_ID[other].kind != "sign"}
    assert found - quiet(message.id) <= {message.id, *message.also, *needed}, found
    assert ran.code == 0


def test_each_row_is_complete() -> None:
    for message in OWN:
        for text in (message.meaning, *message.next, *(cause.says for cause in message.causes)):
            assert not re.search(r"\s\s|^\s|\s$", text), text
        if message.kind in ("cause", "masks", "measured"):
            assert message.next or message.rules, f"{message.id}: a cause without a next step"
        assert message.kind != "masks" or len(message.causes) > 1, message.id
        assert not any("  " in pattern.text for pattern in message.patterns), message.id


def quotes() -> Iterator[tuple[str, rulebook.Rule]]:
    for name in rulebook.engine_files():
        for rule in rulebook.load(name).rules:
            if rule.engine_says:
                yield name, rule


OWNERS: dict[tuple[str, str], set[str]] = {}
"""Engine and what rules quote -> those that do."""
for _engine, quoting in quotes():
    OWNERS.setdefault((_engine, quoting.engine_says or ""), set()).add(quoting.id)
VAGUE = {vague.partition(":")[0] for vague in BOOK.vague}
"""Rules whose quotes would be found in any log."""


@pytest.mark.parametrize(
    ("engine", "text"),
    sorted(quote for quote, owners in OWNERS.items() if not owners & VAGUE),
    ids=lambda text: text[:60],
)
def test_every_quote_of_the_rulebook_is_explained(
    run: Run, tmp_path: Path, engine: str, text: str
) -> None:
    """Without a word of its own in messages.toml: what a rule quotes is found in a log.

    Of several wordings a log holds one, and some of them are other rules' too.
    """
    owners = OWNERS[engine, text]
    message = next(m for m in BOOK.messages if owners & {rule.id for rule in m.rules})
    said = text if message.match(patterns.plain(text)) is not None else message.example
    for wording in said.split(messages.ONE_OF):
        if not messages.quoted(wording):
            continue
        log = f"12:00:01 E some_function: {wording.replace('…', '7')}"
        ran = explain(run, tmp_path, log, "--engine", engine)
        assert ran.code == 0
        causes = (cause for found in ran.json["messages"] for cause in found["causes"])
        named = {rule for cause in causes for rule in cause["rules"]}
        assert owners & {*named, *(name.partition("-")[0] for name in ids(ran))}, wording


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("draft model vocab type must match target model to use speculation", "WHY001"),
        ("the target and draft vocabs are not compatible", "WHY010"),
        ("tokens will be translated", "WHY008"),
        ("failed to load draft model", "WHY017"),
        ("unknown pre-tokenizer type", "LCP113"),
        (
            "illegal split file idx: 1 (file: b.gguf), model must be loaded with the first split",
            "LCP109",
        ),
        ("invalid model: tensor 'token_embd.weight' is duplicated", "LCP109"),
        ("missing key split.no in GGUF split b.gguf", "LCP160"),
        (
            'GGML_ASSERT(cparams.n_ubatch >= n_tokens && "encoder requires n_ubatch >= n_tokens")',
            "LCP141",
        ),
        ("GGML_ASSERT(id_to_token.size() == token_to_id.size())", "WHY029"),
        ("speculative decoding not supported by this context", "WHY020"),
        ("Speculative decoding with draft model is not supported yet", "WHY105"),
        ("Target and draft model should have the same vocabulary size", "WHY106"),
        ("Unknown quantization method: exl2", "WHY120"),
        (
            "Total number of attention heads (14) must be divisible by tensor parallel size",
            "WHY114",
        ),
        ("SafetensorError: Error while deserializing header: HeaderTooLarge", "WHY400"),
    ],
)
def test_parts_that_people_paste(run: Run, tmp_path: Path, text: str, expected: str) -> None:
    assert ids(explain(run, tmp_path, text)) == [expected]


def test_quotes_that_would_be_found_anywhere_are_few() -> None:
    """Quote more of the message if your rule shows up here."""
    assert {vague.partition(":")[0] for vague in BOOK.vague} <= {"TRF102"}


def test_a_wording_belongs_to_one_message_only() -> None:
    """A row and a rule with the same words are one message, never two."""
    for engine, rule in quotes():
        for wording in (rule.engine_says or "").split(messages.ONE_OF):
            owners = [
                message.id
                for message in BOOK.messages
                if engine in message.engines and wording in message.example.split(messages.ONE_OF)
            ]
            assert len(owners) <= 1, (rule.id, owners)
        owned = any(rule in message.rules for message in BOOK.messages)
        vague = any(text.endswith(f": {rule.engine_says}") for text in BOOK.vague)
        assert owned != vague, rule.id


def commands() -> Iterator[tuple[str, str]]:
    for message in BOOK.messages:
        for step in (*message.next, *BOOK.unknown):
            if step.startswith("$ draftcheck "):
                yield message.id, step.removeprefix("$ draftcheck ").replace("{engine}", "")


def test_commands_to_run_next_exist() -> None:
    for message_id, line in commands():
        name, *arguments = shlex.split(line)
        assert name in COMMANDS, message_id
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        arguments = ["4" if word == "N" else word for word in arguments]
        command.make_parser(click.Context(command)).parse_args(arguments)


# ---- whole logs ----

EXPECTED = {
    "llamacpp-bos": ["WHY003", "WHY001"],
    "llamacpp-eos": ["WHY004", "WHY001"],
    "llamacpp-type": ["WHY002", "WHY001"],
    "llamacpp-size-debug": ["WHY005", "WHY001"],
    "llamacpp-text-debug": ["WHY006", "WHY001"],
    "llamacpp-no-reason": ["WHY001"],
    "llamacpp-md-alone": ["WHY034"],
    "llamacpp-md-alone-verbose": ["WHY031"],
    "llamacpp-working": ["WHY033", "WHY803"],
    "llamacpp-pre-tokenizer": ["LCP113", "WHY018", "WHY017"],
    "llamacpp-duplicate": ["WHY029"],
    "llamacpp-translated": ["WHY008", "WHY803"],
    "llamacpp-removed-flag": ["WHY011"],
    "vllm-untyped-storage": ["WHY100", "WHY140"],
    "vllm-teardown": ["WHY420", "WHY100", "WHY140", "WHY141"],
    "vllm-vocabulary": ["WHY106"],
    "vllm-method-none": ["WHY103"],
    "vllm-broken-pair": ["WHY800"],
    "vllm-fell-silent": ["WHY801"],
    "vllm-no-statistics": ["WHY142"],
    "sglang-context": ["WHY201", "WHY210"],
    "files-lfs-pointer": ["WHY400", "WHY140"],
    "nothing": [],
}


@pytest.mark.parametrize("name", sorted(path.stem for path in LOGS.glob("*.log")))
def test_whole_logs_in_order(run: Run, name: str) -> None:
    ran = run("why", LOGS / f"{name}.log", "--format", "json")
    assert ids(ran) == EXPECTED[name]
    assert ran.code == (0 if EXPECTED[name] else 3)
    assert ran.json["explained"] is bool(EXPECTED[name])


@pytest.mark.parametrize(
    ("name", "rule", "line"),
    [
        ("bos", "LCP002", 5),
        ("eos", "LCP005", 5),
        ("type", "LCP001", 5),
        ("size-debug", "LCP003", 7),
        ("text-debug", "LCP004", 5),
    ],
)
def test_the_misleading_message_names_its_true_cause(
    run: Run, name: str, rule: str, line: int
) -> None:
    ran = run("why", LOGS / f"llamacpp-{name}.log", "--format", "json")
    masked = entry(ran, "WHY001")
    assert [cause["rules"] for cause in masked["causes"]] == [[rule]]
    assert masked["follows_from"]["line"] == line
    assert f"--engine {ran.json['log']['engine']}" in masked["next"][0]["text"]
    assert "pair big.gguf small.gguf" in masked["next"][0]["text"]


def test_without_the_line_before_all_five_causes_stand(run: Run) -> None:
    """Warnings would be there: what is logged at debug level only comes first."""
    masked = entry(run("why", LOGS / "llamacpp-no-reason.log", "--format", "json"), "WHY001")
    rules = [cause["rules"][0] for cause in masked["causes"]]
    assert set(rules[:2]) == {"LCP003", "LCP004"}
    assert set(rules) == {"LCP001", "LCP002", "LCP003", "LCP004", "LCP005"}


def test_md_alone_says_how_to_ask_the_server(run: Run) -> None:
    ran = run("why", LOGS / "llamacpp-md-alone.log")
    assert ran.code == 0 and "/slots" in ran.out and "--spec-type" in ran.out


def test_md_alone_in_a_command_line(run: Run, tmp_path: Path) -> None:
    line = "$ llama-server -m big.gguf -md small.gguf -ngl 99"
    assert ids(explain(run, tmp_path, line)) == ["WHY032"]
    assert explain(run, tmp_path, f"{line} --spec-type draft-simple").code == 3


NOTE = f"""# Speculative Decoding Attempt with llama-160m
**vLLM Version**: 0.15.1
SPEC_CONFIG='{{"method": "draft_model", "model": "JackFram/llama-160m", "max_model_len": 2048}}'
python -m vllm.entrypoints.openai.api_server \\
  --model TheBloke/Llama-2-7B-AWQ \\
  --quantization awq \\
```
{MASKED}
```
The process didn't complete initialization within the timeout period.
"""


def test_the_case_this_project_began_with(run: Run, tmp_path: Path) -> None:
    """Neither AWQ nor the draft's weight format: something stopped the server."""
    ran = explain(run, tmp_path, NOTE)
    first = ran.json["messages"][0]
    assert first["id"] == "WHY100" and first["kind"] == "masks"
    assert "neither the draft's weight format nor AWQ" in first["meaning"]
    assert "told to stop" in first["causes"][0]["says"]
    assert first["causes"][0]["seen"]["line"] == 10
    assert not first["causes"][0]["proved"]
    steps = [step["text"] for step in first["next"]]
    pair = "draftcheck pair TheBloke/Llama-2-7B-AWQ JackFram/llama-160m --engine vllm@0.15.1"
    assert pair in steps and any("timeout" in step for step in steps)
    assert not any("safetensors" in cause["says"] for cause in first["causes"])


def test_the_bare_error_line_is_enough(run: Run, tmp_path: Path) -> None:
    assert ids(explain(run, tmp_path, MASKED)) == ["WHY100"]


def test_a_masked_line_after_another_ranks_error_is_its_consequence(run: Run) -> None:
    ran = run("why", LOGS / "vllm-teardown.log", "--format", "json")
    masked = entry(ran, "WHY100")
    assert masked["follows_from"]["line"] == 1 and masked["count"] == 2
    assert ["memory" in cause["says"] for cause in masked["causes"]] == [True]
    assert all(entry(ran, name)["follows_from"]["line"] == 1 for name in ("WHY140", "WHY141"))


def test_consequences_alone_are_said_to_be_that(run: Run, tmp_path: Path) -> None:
    text = "RuntimeError: Engine core initialization failed. See root cause above."
    assert explain(run, tmp_path, text).json["messages"][0]["follows_from"] is None
    ran = run("why", tmp_path / "engine.log")
    assert "the cause itself is not in this text" in ran.out
    assert "look further up" in ran.out and ran.code == 0


def test_numbers_are_extracted(run: Run) -> None:
    values = entry(run("why", LOGS / "vllm-vocabulary.log", "--format", "json"), "WHY106")["values"]
    assert values == {"target vocab_size": "152064", "draft vocab_size": "151936"}
    values = entry(run("why", LOGS / "sglang-context.log", "--format", "json"), "WHY201")["values"]
    assert values == {"served length": "131072", "draft length": "2048"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("draft acceptance rate = 0.00000 (    0 accepted /   99 generated)", "WHY800"),
        ("draft acceptance = 0.60000 (  60 accepted / 100 generated), mean len = 2.80", "WHY803"),
        ("Decode batch, accept len: 1.00, accept rate: 0.00, cuda graph: True", "WHY800"),
        ("Decode batch, accept len: 1.20, accept rate: 0.07, cuda graph: True", "WHY802"),
        ("Decode batch, accept len: 2.31, cuda graph: True", "WHY803"),
        (
            "Speculative metrics: Draft acceptance rate: 0.000, System efficiency: 0.167, Number of"
            " speculative tokens: 5, Number of accepted tokens: 0.",
            "WHY800",
        ),
        (
            "SpecDecoding metrics: Draft acceptance rate: 0.0%, Accepted: 0 tokens, Drafted: 500"
            " tokens",
            "WHY800",
        ),
        ("Draft: 300 / 400 tokens accepted (75.00%)", "WHY803"),
    ],
)  # fmt: skip
def test_acceptance_of_every_engine(run: Run, tmp_path: Path, line: str, expected: str) -> None:
    assert ids(explain(run, tmp_path, line)) == [expected]


def test_the_version_in_the_log_chooses_the_rule_rows(run: Run, tmp_path: Path) -> None:
    """One message, two rules: only one of them is there in this build."""
    said = (
        "llama_model_load: error loading model: error loading model vocabulary: "
        "basic_string::substr: __pos (which is 3) > this->size() (which is 2)"
    )
    both = explain(run, tmp_path, said)
    old = explain(run, tmp_path, f"build: 8000 (abc) with cc for x86_64\n{said}")
    assert len(both.json["messages"][0]["causes"]) == 2
    assert len(old.json["messages"][0]["causes"]) == 1
    assert old.json["log"]["version"] == "b8000"
    asked = explain(run, tmp_path, said, "--engine", "llama.cpp@b8000")
    assert asked.json["log"]["version"] == "b8000"
    assert len(asked.json["messages"][0]["causes"]) == 1
    from_source = explain(
        run, tmp_path, f"common_params_print_info: build 1 (0c1e570) with\n{said}"
    )
    assert from_source.json["log"]["version"] is None


def test_engine_narrows_the_search(run: Run, tmp_path: Path) -> None:
    both = f"{MASKED}\nerror: invalid argument: -cd\n"
    assert ids(explain(run, tmp_path, both)) == ["WHY012", "WHY100"]
    assert ids(explain(run, tmp_path, both, "--engine", "llama.cpp")) == ["WHY012"]


@pytest.mark.parametrize(
    "options",
    [["--engine", "nope"], ["--engine", "vllm@x"], ["--engine", "tabbyapi@"], ["--format", "x"]],
)
def test_wrong_options_are_usage_errors(run: Run, tmp_path: Path, options: list[str]) -> None:
    assert explain(run, tmp_path, MASKED, *options).code == 2


# ---- forms ----


def test_json_keys(run: Run) -> None:
    body = run("why", LOGS / "llamacpp-bos.log", "--format", "json").json
    assert list(body) == [
        "schema_version", "draftcheck_version", "log", "explained", "messages", "next",
    ]  # fmt: skip
    assert body["schema_version"] == 1
    assert list(body["log"]) == [
        "name", "bytes", "lines", "complete", "engine", "version", "target", "draft",
    ]  # fmt: skip
    assert list(body["messages"][0]) == [
        "id", "kind", "engines", "count", "evidence", "values", "meaning", "follows_from",
        "causes", "next", "since", "until", "source", "basis",
    ]  # fmt: skip
    assert list(body["messages"][0]["causes"][0]) == ["says", "rules", "seen", "proved"]
    assert {step["kind"] for step in body["messages"][0]["next"]} == {"command", "step"}


def test_text_and_markdown(run: Run, tmp_path: Path) -> None:
    text = run("why", LOGS / "llamacpp-bos.log").out
    for part in (
        "cause[WHY003] line 5",
        "says",
        "saw ",
        "means",
        "next",
        "source",
        "from   line 5",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) < 420
    page = run("why", LOGS / "llamacpp-bos.log", "--format", "markdown").out
    assert page.startswith("### draftcheck why: explained")
    assert "`draftcheck pair big.gguf small.gguf --engine llama.cpp`" in page
    out = tmp_path / "report.md"
    ran = run("why", LOGS / "llamacpp-bos.log", "--format", "markdown", "--output", out)
    assert ran.out == "" and out.read_text(encoding="utf-8") == page
    assert run("why", LOGS / "nothing.log", "--format", "markdown").code == 3


def test_help_names_the_exit_codes(run: Run) -> None:
    assert "0 explained" in run("why", "--help").out.replace("\n", " ")


# ---- nothing recognised, bad input ----


def test_nothing_recognised_is_said(run: Run, tmp_path: Path) -> None:
    ran = explain(run, tmp_path, "all is well\n")
    assert ran.code == 3 and ran.json["messages"] == [] and ran.json["next"]
    ran = run("why", tmp_path / "engine.log")
    assert ran.out.startswith("not recognised: none of the ")
    assert "first error with fifty lines before it" in re.sub(r"\s+", " ", ran.out)


def test_an_empty_log(run: Run, tmp_path: Path) -> None:
    assert explain(run, tmp_path, "").code == 3
    assert "the log is empty" in run("why", tmp_path / "engine.log").out


def test_missing_and_unreadable(run: Run, tmp_path: Path) -> None:
    ran = run("why", tmp_path / "none.log")
    assert ran.code == 3 and "none.log" in ran.err and ran.out == ""
    ran = run("why", tmp_path)
    assert ran.code == 3 and "is a folder" in ran.err
    assert run("why", tmp_path / "a\0b").code == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(MASKED.encode()))
    writer.start()
    assert ids(run("why", pipe, "--format", "json")) == ["WHY100"]
    writer.join()
    monkeypatch.setattr(scan, "PATIENCE", 0.05)
    ran = run("why", pipe)
    assert ran.code == 3 and "nobody opened this pipe" in ran.err


def test_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["-"], []):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MASKED.encode())))
        assert ids(run("why", *arguments, "--format", "json")) == ["WHY100"]


def test_a_terminal_is_not_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    ran = run("why")
    assert ran.code == 2 and "no log was named" in ran.err


def test_a_real_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "draftcheck", "why", "-"],
        input=MASKED.encode(), capture_output=True, check=True, cwd=ROOT,
    )  # fmt: skip
    assert b"WHY100" in done.stdout


def test_a_closed_reader_is_no_bug() -> None:
    line = f"{sys.executable} -m draftcheck why {LOGS}/vllm-teardown.log | head -c 5"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, cwd=ROOT)
    assert b"Traceback" not in done.stderr


ESCAPES = (
    b"\x1b[31mValueError\x1b[0m: \x1b]0;owned\x07could not determine the shape of object type"
    b" 'torch.storage.UntypedStorage'\x1b[2J\x9b31m\xe2\x80\xae \xff\xfe\x00 `id` | <b>"
)


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_escape_sequences_are_shown_not_sent(run: Run, tmp_path: Path, form: str) -> None:
    explain(run, tmp_path, ESCAPES)
    ran = run("why", tmp_path / "engine.log", "--format", form)
    assert ran.code == 0 and "WHY100" in ran.out
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", ran.out)
    if form == "markdown":
        assert "<b>" not in ran.out.replace("\\<b\\>", "")


def test_colours_inside_a_message(run: Run, tmp_path: Path) -> None:
    coloured = MASKED.replace("shape", "\x1b[1;31mshape\x1b[0m")
    assert ids(explain(run, tmp_path, coloured)) == ["WHY100"]


def test_names_from_a_log_cannot_become_options_or_commands(run: Run, tmp_path: Path) -> None:
    text = (LOGS / "llamacpp-no-reason.log").read_text(encoding="utf-8")
    for name, shown in (
        ("--output=/etc/x", "TARGET"),
        ("a; rm -rf ~", "'a; rm -rf ~'"),
        ("$(id)", "'$(id)'"),
        ("x\u202ey", "TARGET"),
        ("n" * 300, "TARGET"),
    ):
        ran = explain(run, tmp_path, text.replace("big.gguf", name))
        assert f"pair {shown} small.gguf" in ran.json["messages"][0]["next"][0]["text"]


@pytest.mark.parametrize("quotes", ['"', "`", '\\"', "\u2018"])
def test_quotes_of_any_kind(run: Run, tmp_path: Path, quotes: str) -> None:
    assert ids(explain(run, tmp_path, MASKED.replace("'", quotes))) == ["WHY100"]


def test_utf16_as_windows_writes_it(run: Run, tmp_path: Path) -> None:
    for bom, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        text = bom + f"line one\r\n{MASKED}\r\n".encode(name)
        ran = explain(run, tmp_path, text)
        assert ids(ran) == ["WHY100"] and ran.json["messages"][0]["evidence"][0]["line"] == 2


def test_carriage_returns(run: Run, tmp_path: Path) -> None:
    text = f"shards: 10%\rshards: 90%\r{MASKED}\rshards: 100%\r\n{MASKED}\r\n"
    found = explain(run, tmp_path, text).json["messages"][0]
    assert [hit["line"] for hit in found["evidence"]] == [1, 2]
    assert found["evidence"][0]["text"] == MASKED


@pytest.mark.parametrize("before", [0, 3000, 8100, 70_000, 262_100, 300_000])
def test_a_message_anywhere_in_an_endless_line(run: Run, tmp_path: Path, before: int) -> None:
    ran = explain(run, tmp_path, "x" * before + " " + MASKED + " " + "y" * 400_000)
    found = ran.json["messages"][0]
    assert found["id"] == "WHY100" and found["count"] == 1 and ran.json["log"]["lines"] == 1
    assert MASKED in found["evidence"][0]["text"]


@pytest.mark.parametrize("junk", [b"\0" * 300_000, bytes(range(256)) * 2000, b"\x1f\x8b\x08" * 99])
def test_binary_input(run: Run, tmp_path: Path, junk: bytes) -> None:
    ran = explain(run, tmp_path, junk)
    assert ran.code == 3 and ran.json["messages"] == []
    ran = explain(run, tmp_path, junk + b"\n" + MASKED.encode() + b"\n" + junk)
    assert ids(ran) == ["WHY100"]


def test_lines_are_counted_across_blocks(run: Run, tmp_path: Path) -> None:
    lines = [f"line {number} of an ordinary log" for number in range(30_000)]
    lines[9_999] = lines[29_999] = MASKED
    ran = explain(run, tmp_path, "\n".join(lines))
    assert [hit["line"] for hit in ran.json["messages"][0]["evidence"]] == [10_000, 30_000]
    assert ran.json["log"]["lines"] == 30_000


def test_a_line_like_a_harmless_one_is_still_seen(run: Run, tmp_path: Path) -> None:
    """Only digits and signs differ; the first must not hide the second."""
    text = "container finished with exit code 0\n" * 3 + "container finished with exit code 137\n"
    assert ids(explain(run, tmp_path, text)) == ["WHY426"]


def test_only_so_much_is_read(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MOST_BYTES", 1000)
    ran = explain(run, tmp_path, "x" * 999 + "\n" + MASKED)
    assert ran.code == 3 and ran.json["log"]["complete"] is False
    assert "only the first 1,000 bytes were read" in run("why", tmp_path / "engine.log").out
    assert explain(run, tmp_path, "x" * 1000).json["log"]["complete"] is True


def test_memory_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that are all different, then one endless line: nothing piles up."""
    monkeypatch.setattr(scan, "KNOWN_SHAPES", 100)
    size = 128 * 1024

    def blocks() -> Iterator[bytes]:
        for number in range(24):
            line = f"{'abcdefghijklmnopqrstuvwx'[number] * 400} Unsupported thing\n"
            yield (line * (size // len(line))).encode()
        for _ in range(100):
            yield b"A" * size

    tracemalloc.start()
    scanned = scan.scan(blocks(), BOOK.messages)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert scanned.nbytes > 120 * size
    assert peak < 12 * size


def test_the_work_grows_with_the_log_and_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the words of every message, and then nothing but carriage returns."""
    words = {pattern.word.decode() for message in BOOK.messages for pattern in message.patterns}
    everything = " ".join([*sorted(words), *(message.example for message in OWN)])
    line = everything.replace("\n", " ").encode() + b"\r" * 200_000 + b"x\r" * 100_000
    tried: list[str] = []
    real = messages.Message.match

    def match(self: messages.Message, text: str) -> dict[str, str] | None:
        tried.append(self.id)
        return real(self, text)

    monkeypatch.setattr(messages.Message, "match", match)
    scanned = scan.scan([line[at : at + 65536] for at in range(0, len(line), 65536)], BOOK.messages)
    assert len(scanned.seen) > 20
    assert len(tried) < 100_000


def test_what_repeats_is_counted_and_kept_short(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MOST_PER_MESSAGE", 50)
    ran = explain(run, tmp_path, f"{MASKED}\n" * 200 + "error: invalid argument: -cd\n")
    assert ids(ran) == ["WHY012", "WHY100"]
    found = entry(ran, "WHY100")
    assert found["count"] == 50 and len(found["evidence"]) == scan.KEPT


# ---- patterns and rows ----


def test_gaps_hold_anything_even_nothing() -> None:
    pattern = patterns.compile_text("Decoding with draft models … does not support")
    assert pattern.match("Decoding with draft models does not support") == {}
    assert pattern.match("Decoding with draft models or others does not support") == {}
    assert pattern.match("Decoding with drafts does not support") is None
    named = patterns.compile_text("sizes …{one} and …{two} differ")
    assert named.match("sizes of sizes 2 and 3 differ") == {"one": "2", "two": "3"}
    assert named.match("sizes and 3 differ") is None


def test_a_shape_never_hides_a_match() -> None:
    for message in BOOK.messages:
        raw = message.example.encode()
        kind = patterns.shape(raw)
        words = set(kind.split())
        fitting = [
            p for p in message.patterns if p.match(patterns.plain(message.example)) is not None
        ]
        assert fitting, message.id
        for pattern in fitting:
            assert pattern.word in words and pattern.fits(kind), pattern.text


@pytest.mark.parametrize(
    "text", ["…begins with a gap", "two gaps ……in a row of words", "a b c", "… …"]
)
def test_patterns_that_cannot_be_looked_for(text: str) -> None:
    with pytest.raises(RuleError):
        patterns.compile_text(text)


ROW = {
    "id": "WHY001", "kind": "cause", "pattern": "something unlikely happened", "meaning": "M",
    "source": "s", "basis": "read", "example": "something unlikely happened",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "LCP1"}, "'id' must match"),
        ({"kind": "guess"}, "'kind' 'guess' is not one of cause, masks, measured"),
        ({"basis": "hearsay"}, "'basis' 'hearsay' is not one of"),
        ({"colour": "red"}, "unknown field 'colour'"),
        ({"source": None}, "'source' is missing"),
        ({"source": " "}, "'source' is empty"),
        ({"meaning": None}, "'meaning' is missing"),
        ({"pattern": None}, "no pattern"),
        ({"pattern": "a b"}, "no word of"),
        ({"engine": "nobody"}, "engine 'nobody' is not in [names]"),
        ({"engine": "vllm", "says_of": ["VLL999"]}, "no rule row quotes a message as 'VLL999'"),
        ({"since": "1.0"}, "'since' needs exactly one engine"),
        ({"engine": "vllm", "since": "new"}, "'new' is not a version"),
        ({"needs": ["WHY999"]}, "there is no message 'WHY999'"),
        ({"causes": [{"says": "x", "rules": ["ABC001"]}]}, "there is no rule 'ABC001'"),
        ({"causes": [{"rules": []}]}, "[[causes]] 1: 'says' is missing"),
        ({"when": [{"stat": "mode"}]}, "[[when]] mode: 'stat' 'mode' is not one of last, mean"),
        ({"when": [{"stat": "mean", "x": [0, 1]}]}, "[[when]] mean: unknown field 'x'"),
        ({"like": "WHY900"}, "does not stand before it"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_row_is_refused_with_its_id(change: dict[str, Any], words: str) -> None:
    row = {key: value for key, value in {**ROW, **change}.items() if value is not None}
    with pytest.raises(RuleError) as caught:
        parse({"names": {"vllm": "vLLM"}, "message": [row]})
    assert words in caught.value.message
    assert caught.value.message.startswith("messages.toml")


def test_the_same_id_twice_and_unknown_tables() -> None:
    with pytest.raises(RuleError, match="the id stands twice"):
        parse({"message": [ROW, ROW]})
    with pytest.raises(RuleError, match="unknown table 'rule'"):
        parse({"rule": []})


def test_a_row_with_a_rules_own_words_takes_the_rule_in() -> None:
    """When a rule comes to quote what a row already has, they become one message."""
    rule = next(rule for _, rule in quotes() if rule.id == "VLL013")
    row = {**ROW, "engine": "vllm", "pattern": rule.engine_says, "example": rule.engine_says}
    book = parse({"names": {"vllm": "vLLM"}, "message": [row]})
    assert {r.id for r in book.messages[0].rules} == {"VLL013"}
    assert "VLL013" not in {message.id for message in book.messages}


def test_messages_are_no_engine() -> None:
    assert messages.FILE in files.names("")
    assert messages.FILE not in rulebook.engine_files().values()
    assert set(rulebook.engine_files()) <= set(BOOK.names)


def test_the_python_call(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(MASKED, encoding="utf-8")
    assert [item.id for item in why.read(str(log)).items] == ["WHY100"]


def test_a_message_can_be_given_instead_of_a_file(run: Run) -> None:
    """Both spellings of vLLM's message; the first line is what it means."""
    for word in ("model's", "models's"):
        ran = run("why", f"ValueError: To serve at least one request with the {word} max seq len")
        assert ran.code == 0
        first = ran.out.splitlines()[0]
        assert first.startswith("explained: One request of full length does not fit into the cache")
    ran = run("why", "no such file.log or message")
    assert ran.code == 3 and ran.out.startswith("not recognised: ")
    ran = run("why", "kaputt")
    assert ran.code == 3 and ran.out.startswith("not recognised: "), "one word is a text too"
    for name in ("no-such-file.log", "logs/vllm"):
        ran = run("why", name)
        assert ran.err.startswith(f"error: {name}: No such file"), "this was meant as a file"
        assert "put it in quotes" in ran.err
