"""Python, notebooks, Dockerfiles, and the documents of engines; what cannot be read is said."""

from __future__ import annotations

import json

import pytest

from draftcheck.deploy.kinds import choose
from tests.deploy.reading import lines, only, plain, read, texts


def test_calls_are_read_with_their_names_and_values() -> None:
    found = read(
        """\
        import os
        import sglang as sgl
        from vllm import LLM
        from transformers import AutoModelForCausalLM as A

        MODEL = "org/big"
        SPEC = {"method": "draft_model", "model": os.environ.get("DRAFT", "org/small"), "n": 5}
        llm = LLM(MODEL, speculative_config=SPEC, tensor_parallel_size=2)

        def main(path, draft="org/z"):
            model = A.from_pretrained(MODEL, device_map="auto")
            helper = A.from_pretrained("org/y").to("cuda")
            model.generate(**inputs, assistant_model=helper, do_sample=False)
            sgl.Engine(model_path=path, speculative_draft_model_path=draft)
        """,
        "a.py",
    )
    llm, generate, engine = found.documents
    assert [d.name for d in found.documents] == ["vllm.LLM", "model.generate", "sglang.Engine"]
    assert plain(llm.tree) == {
        "0": "org/big",
        "speculative_config": {"method": "draft_model", "model": "org/small", "n": "5"},
        "tensor_parallel_size": "2",
    }
    draft = llm.tree.get("speculative_config", "model")
    assert draft is not None and (draft.place.line, draft.place.column) == (7, 67)
    assert plain(generate.tree) == {
        "**": "inputs",
        "assistant_model": "org/y",
        "do_sample": "false",
        "self": "org/big",
    }
    path = engine.tree.get("model_path")
    assert path is not None and path.word is not None and path.word.unknown == "path"
    assert plain(engine.tree.get("speculative_draft_model_path")) == "org/z"


@pytest.mark.parametrize(
    "expression",
    [
        "pick()",
        "MODELS[0]",
        "'a' if x else 'b'",
        "f'{x}/y'",
        "twice",
        "looped",
        "args.model",
    ],
)
def test_a_value_that_only_running_would_tell_is_unknown(expression: str) -> None:
    text = f"twice = 'a'\ntwice = 'b'\nfor looped in z: pass\nLLM(model={expression})\n"
    model = read(text, "a.py").documents[0].tree.get("model")
    assert model is not None and model.word is not None and model.word.unknown


def test_settings_that_are_put_together() -> None:
    found = read(
        """\
        import argparse
        p = argparse.ArgumentParser()
        p.add_argument("--draft-model", default="org/d")
        args = p.parse_args()
        kw = dict(model="org/k")
        kw["speculative_config"] = {"model": args.draft_model}
        llm = LLM(**kw, **{"seed": 1})
        """,
        "a.py",
    )
    assert plain(found.documents[0].tree) == {
        "model": "org/k",
        "speculative_config": {"model": "org/d"},
        "seed": "1",
    }


def test_programs_that_python_starts() -> None:
    found = read(
        """\
        import json, subprocess
        spec = {"model": "org/d"}
        cmd = ["vllm", "serve", "org/x", "--speculative-config", json.dumps(spec)]
        cmd += ["--port", str(8000)]
        subprocess.Popen(cmd)
        subprocess.run(
            "llama-server -m x.gguf "
            f"--port {port} "  # why
            "--draft-max 16",
            shell=True,
        )
        """,
        "a.py",
    )
    listed, shell = found.commands
    assert texts(listed) == [
        "vllm", "serve", "org/x", "--speculative-config", '{"model": "org/d"}', "--port", "8000",
    ]  # fmt: skip
    assert texts(shell) == [
        "llama-server", "-m", "x.gguf", "--port", "{port}", "--draft-max", "16",
    ]  # fmt: skip
    assert shell.words[4].unknown == "{port}"
    assert lines(shell)[5] == (9, 6)


def test_python_that_is_none_is_said() -> None:
    [trouble] = read("LLM('org/x')\nprint 'x'\n", "a.py").troubles
    assert trouble.place.line == 2
    assert "not Python 3" in trouble.text


def test_nothing_is_executed(tmp_path: object) -> None:
    mark = f"{tmp_path}/ran"
    for name, text in {
        "a.py": f"from vllm import LLM\nopen({mark!r}, 'w')\n",
        "a.sh": f"vllm serve $(touch {mark})\ntouch {mark}\n",
        "a.yaml": f"vllm: !!python/object/apply:os.system ['touch {mark}']\n",
    }.items():
        read(text, name)
    from pathlib import Path

    assert not Path(mark).exists()


def test_notebook_cells() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["!vllm serve no"]},
        {"cell_type": "code", "source": ["!vllm serve a \\\n", "  --port 1\n", "x = 'é'\n"]},
        {"cell_type": "code", "source": ["if x:\n", "    %pip install y\n", "LLM('org/m')\n"]},
        {"cell_type": "code", "source": "%%bash\nvllm serve b"},
    ]
    found = read(json.dumps({"cells": cells}, indent=1, ensure_ascii=False), "n.ipynb")
    assert [texts(c) for c in found.commands] == [
        ["vllm", "serve", "a", "--port", "1"],
        ["vllm", "serve", "b"],
    ]
    assert [plain(d.tree) for d in found.documents] == [{"0": "org/m"}]


def test_dockerfile_stages() -> None:
    found = read(
        """\
        ARG V=v0.15.1
        FROM python:3.12 AS build
        RUN pip install "vllm==0.8.3" && \\
            # a comment
            git checkout b9109
        FROM vllm/vllm-openai:${V} AS base
        ENV MODEL=org/x
        COPY <<EOF /start.sh
        #!/bin/sh
        vllm serve org/s
        EOF
        FROM base
        ENTRYPOINT ["python3", "-m", \\
          "vllm.entrypoints.openai.api_server"]
        CMD ["--speculative-config", "{\\"model\\": \\"d\\"}"]
        """,
        "Dockerfile",
    )
    assert [texts(c) for c in found.commands] == [
        ["pip", "install", "vllm==0.8.3"],
        ["git", "checkout", "b9109"],
        ["vllm", "serve", "org/s"],
        ["python3", "-m", "vllm.entrypoints.openai.api_server", "--speculative-config",
         '{"model": "d"}'],
    ]  # fmt: skip
    last = found.commands[-1]
    assert last.image is not None and last.image.text == "vllm/vllm-openai:v0.15.1"
    assert last.env["MODEL"].text == "org/x"


def test_dockerfile_shell_form_uses_its_environment() -> None:
    text = "FROM vllm/vllm-openai\nENV M=org/x\nCMD vllm serve $M --port ${PORT:-80} --x $Y\n"
    command = only(read(text, "deploy/Dockerfile.gpu"))
    assert texts(command) == ["vllm", "serve", "org/x", "--port", "80", "--x", "$Y"]


def test_modelfile() -> None:
    text = 'FROM gemma:27b\ndraft ./d.gguf\nPARAMETER num_ctx 4096\nSYSTEM """a\nFROM b"""\n'
    [document] = read(text, "Modelfile").documents
    assert document.kind == "modelfile"
    keys = [key.text for key, _ in document.tree.entries or ()]
    assert keys == ["FROM", "DRAFT", "PARAMETER", "SYSTEM"]
    assert plain(document.tree.get("PARAMETER")) == {"num_ctx": "4096"}
    assert plain(document.tree.get("DRAFT")) == "./d.gguf"


def test_pbtxt() -> None:
    text = (
        'backend: "vllm"  # c\ninstance_group [ { count: 1 kind: KIND_MODEL } ]\n'
        'parameters { key: "x" value: { string_value: "{\\"a\\": 1}" } }\n'
    )
    [document] = read(text, "m/config.pbtxt").documents
    assert plain(document.tree) == {
        "backend": "vllm",
        "instance_group": [{"count": "1", "kind": "KIND_MODEL"}],
        "parameters": {"key": "x", "value": {"string_value": '{"a": 1}'}},
    }


def test_triton_model_json() -> None:
    text = '{"model": "org/x", "speculative_config": {"model": "org/y"}, "a": true}'
    [document] = read(text, "m/1/model.json").documents
    assert document.kind == "triton-model"
    assert plain(document.tree.get("speculative_config", "model")) == "org/y"


def test_presets() -> None:
    [document] = read(
        "version = 1\n[*]\nc = 8\n[org/x:Q8_0]\nmodel-draft = /d\n", "m.ini"
    ).documents
    assert document.kind == "llama-preset"
    assert plain(document.tree.get("org/x:Q8_0")) == {"model-draft": "/d"}


def test_manifest_places() -> None:
    [document] = read(
        """\
        gpu = "h200"
        [[pair]]
        name = "a"  # first
        min.acceptance = 0.5
        [[pair]]
        name = 'b'
        engine = [
          "vllm@0.15.1",
        ]
        [paths]
        "/m/x.gguf" = "org/x:Q4"
        """,
        "draftcheck.toml",
    ).documents
    assert plain(document.tree) == {
        "gpu": "h200",
        "pair": [
            {"name": "a", "min": {"acceptance": "0.5"}},
            {"name": "b", "engine": ["vllm@0.15.1"]},
        ],
        "paths": {"/m/x.gguf": "org/x:Q4"},
    }
    second = (document.tree.get("pair") or document.tree).items[1]  # type: ignore[index]
    name = second.get("name")
    assert name is not None and (name.place.line, name.place.column) == (6, 8)


def test_a_manifest_that_is_no_toml_is_said() -> None:
    [trouble] = read("a = 1\nb = \n", "draftcheck.toml").troubles
    assert (trouble.place.line, trouble.place.column) == (2, 5)


def test_files_that_cannot_be_read_are_said() -> None:
    assert "larger than" in read(b"vllm " * 500_000, "x.sh").troubles[0].text
    assert "binary" in read(b"vllm\0", "x.sh").troubles[0].text
    [trouble] = read(b"# caf\xe9\nvllm serve x\n", "x.sh").troubles
    assert "not UTF-8" in trouble.text and trouble.place.column == 6
    assert texts(only(read("vllm serve é".encode("utf-8-sig"), "x.sh")))[2] == "é"
    assert texts(only(read("vllm serve x\r\n".encode("utf-16"), "x.bat")))[2] == "x"


def test_which_files_are_looked_at() -> None:
    assert choose.read(b"vllm serve x", "notes.txt") is None
    assert choose.read(b"vllm serve x", "binary") is None
    assert choose.read(b"#!/bin/sh\nvllm serve x", "start") is not None
    assert choose.could("a/b/docker-compose.yml") and not choose.could("a/b.o")
    assert choose.might(b"vllm serve x", "a.sh") and not choose.might(b"ls", "a.sh")
    assert not choose.might(b"vllm serve x", "a.txt")
