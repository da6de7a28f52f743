"""No file crashes the readers or makes them hang, whatever is done to it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftcheck.deploy.kinds import choose
from draftcheck.deploy.syntax import json_places
from draftcheck.values.findings import FilePlace
from tests.deploy.reading import all_words

SAMPLES = {
    "x.sh": """#!/bin/bash
M=${M:-org/x}; A=(--a "b c" $'d\\n') ; A+=(-md y)
if [[ -z "$X" ]]; then export E="1 2"; else E=$(f "$(g)"); fi
exec env Q=1 vllm serve "$M" \\
  --speculative-config '{"model": "org/y", "n": [1, 2.5, null]}' "${A[@]}" $E > log 2>&1 &
cat > config.yml <<END
model:
  model_name: $M
END
docker run --rm -e A=b vllm/vllm-openai:v0.9.1 --model x | tee y
case $1 in a) bash -c "llama-server -m \\"z\\"" ;; esac
""",
    "docker-compose.yml": """x: &x {environment: {A: b}}
services:
  v:
    <<: *x
    image: vllm/vllm-openai:${T:-v1}
    command: >-
      --model a
        --b 'c d'
      e
    entrypoint: ["sh", "-c", "vllm \\"q\\" \\
      r"]
""",
    "k8s.yaml": """apiVersion: v1
kind: Pod
spec:
  containers:
    - image: 'vllm/it''s'
      args: [--model=$(M), '{"a": 1}', "{{ .x }}"]
      env: [{name: M, value: org/x}]
---
kind: ConfigMap
apiVersion: v1
data:
  a.sh: |2
      vllm serve x
     y
""",
    "values.yaml": "image: {repository: vllm/vllm, tag: v1}\nvllmConfig:\n  maxModelLen: 4\n",
    "swap.yaml": "macros: {a: llama-server x}\nmodels:\n  m:\n    cmd: |\n      ${a}\n      # c\n",
    "x.py": """import subprocess, vllm as v
S = {"model": f"{d}/x" "y", **o}
l = v.LLM("a", speculative_config=S, n=-1)
c = ["vllm", *z]; c += ["b"]; c.append(str(1))
subprocess.run(" ".join(c), shell=True)
m.generate(assistant_model=A.from_pretrained('é'))
""",
    "n.ipynb": '{"cells": [{"cell_type": "code", "source": ["!vllm \\\\\\n", " x\\n", "LLM(1)"]}]}',
    "Dockerfile": """ARG V=1
FROM vllm/vllm-openai:$V AS b
ENV A=b C="d e"
RUN pip install vllm==1 \\
 # c
 && x <<END
END
FROM b
ENTRYPOINT ["vllm", "serve"]
CMD ["a", "$B"]
""",
    "x.service": "[Service]\nEnvironment=A=b\nExecStart=-/bin/vllm ${A} \\\n # c\n %i 'x y'\n",
    "x.container": "[Container]\nImage=vllm\nExec=a b\n",
    "x.ini": "v = 1\n[*]\nc = 2\n[org/llama]\nmodel-draft = x\n",
    "Makefile": "A ?= b # c\nx: y\n\t@vllm $(A) \\\n\t  $$B\n",
    "justfile": 'a := "b"\nx:\n  vllm {{a}} {{b}}\n',
    "Procfile": "web: vllm serve $X\n",
    "Modelfile": 'FROM llama\nPARAMETER num_ctx 4\nSYSTEM """a\nb"""\nDRAFT "x y"\n',
    "config.pbtxt": 'backend: "vllm"\na [ { b: 1.5 c: X }, "d" ]\ne < f: true > # g\n',
    "model.json": '{"model": "vllm", "a": {"b": [1, true, null, "\\u00e9\\n"]}} // c',
    "draftcheck.toml": '[[pair]]\nname = "llama"\na.b = 1 # c\n[x]\ny = [1,\n"z"]\nw = """q\n"""',
    "config.yml": "model:\n  model_name: x\ndraft_model:\n  draft_model_name: y\n",
    "x.bat": 'set "A=b c"\r\nstart "" llama-server.exe %A% ^\r\n --x "{\\"a\\": 1}" %Q%\r\n',
    "x.ps1": "$a = \"b\"\nllama-server $a `\n $env:B 'c'\n",
}
PIECES = [
    "'", '"', "\\", "$(", "${", "}", "{{", "}}", "`", "<<END\n", "\n", "\r\n", "\t", "[", "]", "{",
    "(", ")", ":", "- ", "*a", "&a ", "|", ">", "#", "$X", "é", "\u2028", "\x85", "\ue000", "\x00",
    "!", "%", "=", ",", "<<: ", "---\n", "\ufeff", "f'{", '"""', "\x0c", "\r", "FROM ", "\x1b",
]  # fmt: skip


def run(data: bytes, name: str) -> None:
    """Read; every place must lie in the file."""
    found = choose.read(data, name)
    if found is None:
        return
    count = data.count(b"\n") + data.count(b"\r") + 2
    for word in all_words(found):
        assert_inside(word.place, count)
        for start in (0, len(word.text) // 2):
            assert_inside(word.part(start, len(word.text)), count)
        if "{" in word.text:
            json_places.parse(word)
    for trouble in found.troubles:
        assert_inside(trouble.place, count)
        assert trouble.text


def assert_inside(place: FilePlace, count: int) -> None:
    assert 1 <= place.line <= count
    assert place.column >= 1
    assert place.end_line is None or place.end_line >= 1


@pytest.mark.parametrize("name", SAMPLES)
def test_mutated_files_never_crash(name: str) -> None:
    random_ = random.Random(name)
    text = SAMPLES[name]
    assert choose.might(text.encode(), name)
    for _ in range(120):
        mutant = text
        for _ in range(random_.randint(1, 6)):
            at = random_.randrange(len(mutant) + 1)
            size = random_.choice((0, 0, 1, 3, 20))
            mutant = mutant[:at] + random_.choice(PIECES) + mutant[at + size :]
        run(mutant.encode(), name)
        run(mutant.encode()[: random_.randrange(len(mutant) + 1)], name)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.lists(st.sampled_from(PIECES), max_size=30))
def test_heaps_of_special_characters_never_crash(name: str, pieces: list[str]) -> None:
    run("".join(pieces).encode(), name)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.binary(max_size=200))
def test_bytes_never_crash(name: str, data: bytes) -> None:
    run(data, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.js", "--spec-type\n" + "[" * 20_000),
        ("x.js", "--spec-type\n" + "/*" * 20_000),
        ("x.js", "'--spec-type " + "\\'" * 20_000),
        ("x.nix", '"--spec-type ' + "${a} " * 20_000),
        ("x.sh", "$(" * 5000),
        ("x.sh", '"${a:-' * 5000),
        ("x.sh", "A=x\n" + "A=$A$A\n" * 3000 + "vllm $A\n"),
        ("x.sh", "X='" + 'eval "$X";' * 60 + '\'\neval "$X"\n'),
        ("x.sh", "bash -c '" * 3000),
        ("x.yaml", "{{" * 5000),
        ("x.yaml", "[" * 20000),
        ("x.yaml", "a: &a {b: 1}\n" + "c: {<<: *a}\n" * 1000),
        ("x.yaml", "vllm: " + "'" * 5001),
        ("x.py", "LLM(" * 3000),
        ("x.py", "x='a'\nLLM(" + "x+" * 3000 + "x)"),
        ("x.py", "".join(f"a{n}=a{n - 1}+a{n - 1}\n" for n in range(1, 300)) + "LLM(a299)"),
        ("model.json", '{"a":' * 5000),
        ("x.bat", '"' + '\\"' * 9000),
        ("x.ini", "a" + " " * 20000 + "\n[llama]\n"),
        ("Makefile", "A=$(A)$(A)x\n" * 1000 + "x:\n\tvllm $(A)\n"),
        ("config.pbtxt", "a{" * 5000),
        ("draftcheck.toml", "a = [" * 5000),
    ],
)
def test_bombs_are_defused(name: str, text: str) -> None:
    run(text.encode(), name)


def test_a_script_that_calls_itself_ends() -> None:
    found = choose.read(b'X=\'vllm serve a; eval "$X"\'\neval "$X"\n', "x.sh")
    assert found is not None
    assert 1 <= len(found.commands) <= 10
