"""Shell scripts and what is like them: which commands they start, and where each word stands."""

from __future__ import annotations

import pytest

from tests.deploy.reading import lines, only, read, texts


def test_words_of_a_continued_line_have_their_own_places() -> None:
    command = only(
        read(
            """\
            #!/bin/sh
            # vllm serve is only mentioned here
            vllm serve Qwen/Qwen3-32B \\
              --speculative-config '{"model": "Qwen/Qwen3-0.6B"}' \\
              --port 8000
            """,
            "start.sh",
        )
    )
    assert texts(command) == [
        "vllm", "serve", "Qwen/Qwen3-32B", "--speculative-config",
        '{"model": "Qwen/Qwen3-0.6B"}', "--port", "8000",
    ]  # fmt: skip
    assert lines(command) == [(3, 1), (3, 6), (3, 12), (4, 3), (4, 24), (5, 3), (5, 10)]
    assert command.words[4].raw == '\'{"model": "Qwen/Qwen3-0.6B"}\''
    assert (command.place.line, command.place.end_line) == (3, 5)


def test_values_of_variables_stand_where_they_are_defined() -> None:
    command = only(
        read(
            """\
            MODEL=${MODEL:-org/big}
            DRAFT="org/small"
            EXTRA="--draft-max 16  --draft-min 4"
            export ARGS=(--a b)
            ARGS+=(
              -md "$DRAFT"   # the draft
            )
            llama-server -m "$MODEL" "${ARGS[@]}" $EXTRA --port $PORT --dir=$HOME/x
            """,
            "start.sh",
        )
    )
    assert texts(command) == [
        "llama-server", "-m", "org/big", "--a", "b", "-md", "org/small", "--draft-max", "16",
        "--draft-min", "4", "--port", "$PORT", "--dir=$HOME/x",
    ]  # fmt: skip
    where = dict(zip(texts(command), lines(command), strict=True))
    assert where["org/big"] == (1, 16)
    assert where["--draft-max"] == (3, 8)
    assert where["-md"] == (6, 3)
    unknown = [word.text for word in command.words if word.unknown]
    assert unknown == ["$PORT", "--dir=$HOME/x"]


@pytest.mark.parametrize(
    "script",
    [
        "if x; then M=a; else M=b; fi\nvllm serve $M",
        "for M in a b; do\n vllm serve $M\ndone",
        "M=$(pick)\nvllm serve $M",
        "M=`pick`\nvllm serve $M",
        "read M\nvllm serve $M",
        "vllm serve ${M:?say which}",
        "vllm serve ${M%/}",
        "M=a\nM=${M/a/b}\nvllm serve $M",
    ],
)
def test_a_value_that_cannot_be_told_is_unknown(script: str) -> None:
    [command] = [c for c in read(script, "x.sh").commands if texts(c)[0] == "vllm"]
    assert command.words[2].unknown


def test_what_is_known_of_a_value_is_read_around_what_is_not() -> None:
    found = read(
        """\
        EXTRA=""
        if [ -n "$DRAFT" ]; then
          EXTRA="--model-draft $DRAFT --draft-max 16"
        fi
        exec llama-server -m x $EXTRA
        """,
        "x.sh",
    )
    command = only(found)
    assert texts(command)[3:] == ["--model-draft", "$DRAFT", "--draft-max", "16"]
    assert [word.unknown for word in command.words[3:]] == [None, "$DRAFT", None, None]
    assert lines(command)[5] == (3, 31)


def test_a_default_in_a_branch_is_the_value() -> None:
    found = read('if [ -z "$M" ]; then\n  M=org/x\nfi\nvllm serve "$M"\n', "x.sh")
    assert texts(only(found)) == ["vllm", "serve", "org/x"]


@pytest.mark.parametrize(
    "script",
    [
        "M=org/x\nwhile [ $# -gt 0 ]; do case $1 in\n --model) M=$2; shift ;;\nesac; done",
        "M=org/x\nfor i in $@; do case $i in --m=*) M=${i#*=} ;; esac; done",
        "M=org/x\nwhile getopts m: o; do M=$OPTARG; done",
        "M=\nif [ $BIG ]; then M=org/x; fi",
        "if [ $BIG ]; then M=org/x; else M=''; fi",
    ],
)
def test_what_a_script_says_by_default_is_taken(script: str) -> None:
    found = [texts(command) for command in read(f"{script}\nvllm serve $M\n", "x.sh").commands]
    assert found[-1] == ["vllm", "serve", "org/x"]


@pytest.mark.parametrize(
    "line",
    [
        "exec vllm serve x",
        "nohup vllm serve x > log 2>&1 &",
        "sudo -u me -E vllm serve x",
        "env -u Z A=b vllm serve x",
        "A=b vllm serve x",
        "timeout -k 5 3h vllm serve x",
        "numactl -N 0 -m 0 vllm serve x | tee log",
        "uv run --with foo vllm serve x",
        "bash -lc 'vllm serve x'",
        'sh -c "vllm serve x"',
        "eval vllm 'serve x'",
        "CMD='vllm serve x'; $CMD",
        "if true; then vllm serve x; fi",
        "start() { vllm serve x; }",
        "case $1 in a) vllm serve x ;; esac",
        "(cd y && vllm serve x)",
        'ssh host "vllm serve x"',
        "tmux new-session -d -s s 'vllm serve x'",
        "bash <<EOF\nvllm serve x\nEOF",
        "cat > run.sh <<'EOF'\nvllm serve x\nEOF",
        "tee run.sh <<-EOF\n\tvllm serve x\n\tEOF",
        "echo 'vllm serve x' > run.sh",
        'set -- vllm serve\nset -- "$@" x\nexec "$@"',
    ],
)
def test_wrappers_are_taken_off(line: str) -> None:
    found = [texts(command) for command in read(line, "x.sh").commands]
    assert ["vllm", "serve", "x"] in found


def test_what_is_only_said_is_no_command() -> None:
    found = read("echo vllm serve x\n# vllm serve y\n: 'vllm serve z'\n", "x.sh")
    assert [texts(command)[0] for command in found.commands] == ["echo", ":"]


def test_docker_run_has_image_arguments_and_environment() -> None:
    command = only(
        read(
            """\
            TAG=v0.15.1
            docker run -d --gpus all --ipc=host -p 8000:8000 \\
              -e HF_TOKEN=abc --env "A=b c" -v ~/.cache:/root/.cache --rm -it \\
              vllm/vllm-openai:$TAG --model org/x
            """,
            "x.sh",
        )
    )
    assert command.image is not None
    assert command.image.text == "vllm/vllm-openai:v0.15.1"
    assert texts(command) == ["--model", "org/x"]
    assert {name: word.text for name, word in command.env.items()} == {
        "HF_TOKEN": "abc",
        "A": "b c",
    }


def test_an_entrypoint_comes_first() -> None:
    line = "podman run --entrypoint python3 lmsysorg/sglang:v0.5.2 -m sglang.launch_server"
    command = only(read(line, "x.sh"))
    assert texts(command) == ["python3", "-m", "sglang.launch_server"]


def test_kubectl_run() -> None:
    command = only(read("kubectl run v --image=vllm/vllm-openai:v0.9.1 -- --model x", "x.sh"))
    assert command.image is not None and command.image.text == "vllm/vllm-openai:v0.9.1"
    assert texts(command) == ["--model", "x"]


def test_quotes_that_never_close_are_said() -> None:
    found = read("vllm serve x --y 'abc\nls\n", "x.sh")
    assert [(t.place.line, t.place.column, t.text) for t in found.troubles] == [
        (1, 18, "a quote is never closed")
    ]


def test_windows_line_ends_change_nothing() -> None:
    command = only(read(b"vllm serve x \\\r\n  --port 1\r\n", "x.sh"))
    assert texts(command) == ["vllm", "serve", "x", "--port", "1"]


def test_exported_variables_reach_the_program() -> None:
    command = only(read("export LLAMA_ARG_MODEL=/m/x.gguf\nB=2\nllama-server\n", "x.sh"))
    assert {name: word.text for name, word in command.env.items()} == {
        "LLAMA_ARG_MODEL": "/m/x.gguf"
    }


def test_a_variable_that_grows_without_end_is_unknown() -> None:
    found = read("A=xxxxxxxxxx\n" + "A=$A$A\n" * 40 + "vllm serve $A\n", "x.sh")
    assert only(found).words[-1].unknown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Makefile", "M ?= org/x # which\nserve:\n\t@vllm serve $(M) \\\n\t  --port $$PORT\n"),
        ("justfile", 'm := "org/x"\nserve:\n  vllm serve {{m}} --port $PORT\n'),
        ("Procfile", "web: vllm serve org/x --port $PORT\n"),
        ("run.bat", 'set "M=org/x"\r\nstart "" vllm.exe serve %M% ^\r\n --port %PORT%\r\n'),
        ("run.ps1", '$m = "org/x"\nvllm serve $m `\n --port $env:PORT\n'),
        (
            "v.service",
            "[Service]\nEnvironment=M=org/x\nExecStart=/opt/vllm serve ${M} \\\n --port %i\n",
        ),
        ("v.conf", "[program:v]\ncommand=vllm serve org/x --port %(ENV_PORT)s\n"),
    ],
)
def test_other_files_that_hold_command_lines(name: str, text: str) -> None:
    command = only(read(text, name))
    assert [texts(command)[0].rsplit("/", 1)[-1], *texts(command)[1:4]] == [
        "vllm", "serve", "org/x", "--port",
    ]  # fmt: skip
    assert command.words[4].unknown


def test_a_quadlet_has_an_image() -> None:
    text = "[Container]\nImage=vllm/vllm-openai:v0.9.1\nExec=--model x\nEnvironment=A=b\n"
    command = only(read(text, "v.container"))
    assert command.image is not None and command.image.text == "vllm/vllm-openai:v0.9.1"
    assert texts(command) == ["--model", "x"]
    assert command.env["A"].text == "b"


def test_a_container_without_words_is_started_once() -> None:
    found = read("docker run --gpus all vllm/vllm-openai:v0.15.1\n", "x.sh")
    assert only(found).words == ()
