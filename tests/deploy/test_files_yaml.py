"""YAML: compose files, Kubernetes objects, Helm, llama-swap, and bad YAML."""

from __future__ import annotations

import pytest

from draftcheck.deploy.deployment import DocumentTree, FileTrouble
from draftcheck.deploy.syntax import json_places
from tests.deploy.reading import between, lines, only, plain, read, texts


def test_compose_strings_lists_and_defaults() -> None:
    found = read(
        """\
        x-gpu: &gpu
          environment: {HF_TOKEN: "${HF_TOKEN}", A: b}
        services:
          vllm:
            <<: *gpu
            image: vllm/vllm-openai:${TAG:-v0.15.1}
            command: >
              --model org/x
              --speculative-config '{"model": "org/y"}'
              --max-model-len ${LEN}
          llama:
            image: ghcr.io/ggml-org/llama.cpp:server-cuda-b9109
            environment:
              - LLAMA_ARG_MODEL_DRAFT=/m/d.gguf
            command: ["-m", "/m/t.gguf", '--draft-max', "16"]
          shell:
            image: lmsysorg/sglang:v0.5.2
            entrypoint: ["/bin/bash", "-c"]
            command:
              - |
                python3 -m sglang.launch_server \\
                  --model-path $$MODEL
            environment: {MODEL: org/z}
        """,
        "docker-compose.yml",
    )
    vllm, llama, shell = found.commands
    assert vllm.image is not None and vllm.image.text == "vllm/vllm-openai:v0.15.1"
    assert texts(vllm)[:4] == ["--model", "org/x", "--speculative-config", '{"model": "org/y"}']
    assert lines(vllm)[:4] == [(8, 7), (8, 15), (9, 7), (9, 28)]
    assert vllm.words[5].unknown == "${LEN}"
    assert vllm.env["A"].text == "b" and vllm.env["HF_TOKEN"].unknown
    assert texts(llama) == ["-m", "/m/t.gguf", "--draft-max", "16"]
    assert llama.words[2].raw == "'--draft-max'"
    assert llama.env["LLAMA_ARG_MODEL_DRAFT"].text == "/m/d.gguf"
    assert texts(shell) == ["python3", "-m", "sglang.launch_server", "--model-path", "org/z"]
    assert lines(shell)[3:] == [(22, 11), (23, 26)]
    assert not found.troubles


def test_kubernetes_containers_and_files_in_config_maps() -> None:
    found = read(
        """\
        apiVersion: v1
        kind: ConfigMap
        data:
          start.sh: |
            #!/bin/sh
            exec vllm serve org/a --draft 1
          config.yml: |
            model:
              model_name: x
            draft_model:
              draft_model_name: y
        ---
        apiVersion: apps/v1
        kind: StatefulSet
        spec:
          template:
            spec:
              containers:
                - image: "vllm/vllm-openai:v0.8.5"
                  env:
                    - {name: MODEL, value: org/b}
                    - name: SECRET
                      valueFrom: {secretKeyRef: {name: s, key: k}}
                  command: [/bin/sh, -c]
                  args:
                    - >-
                      vllm serve $MODEL
                      --speculative_model org/d
                  # and another
                - image: vllm/vllm-openai:v0.8.5
                  args: ["--model=$(MODEL)", --port, "80"]
        """,
        "deploy.yaml",
    )
    script, shell, args = found.commands
    assert texts(script) == ["vllm", "serve", "org/a", "--draft", "1"]
    assert lines(script)[3] == (6, 27)
    assert texts(shell) == ["vllm", "serve", "org/b", "--speculative_model", "org/d"]
    assert lines(shell)[3] == (28, 15)
    assert shell.image is not None and shell.image.text == "vllm/vllm-openai:v0.8.5"
    assert args.words[0].unknown == "$(MODEL)"
    [document] = found.documents
    assert document.kind == "tabbyapi"
    assert document.tree.get("draft_model", "draft_model_name").place.line == 11  # type: ignore[union-attr]


def test_variables_from_a_config_map_of_the_same_file() -> None:
    found = read(
        """\
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: settings}
        data:
          SPEC: '{"model": "org/y"}'
          MODEL: org/x
        ---
        apiVersion: v1
        kind: Pod
        spec:
          containers:
            - image: vllm/vllm-openai:v0.15.1
              envFrom: [{configMapRef: {name: settings}}]
              env:
                - name: CONFIG
                  valueFrom: {configMapKeyRef: {name: settings, key: SPEC}}
                - name: ELSEWHERE
                  valueFrom: {configMapKeyRef: {name: other, key: X}}
              args: [--model, $(MODEL), --speculative-config=$(CONFIG), $(ELSEWHERE)]
        """,
        "pod.yaml",
    )
    command = only(found)
    assert texts(command)[:3] == [
        "--model", "org/x", '--speculative-config={"model": "org/y"}',
    ]  # fmt: skip
    assert command.words[3].unknown == "$(ELSEWHERE)"
    tree = json_places.parse(command.words[2].tail(len("--speculative-config=")))
    assert isinstance(tree, DocumentTree)
    assert (tree.place.line, tree.place.column) == (5, 10)


@pytest.mark.parametrize(
    ("name", "text", "program"),
    [
        (
            "isvc.yaml",
            """\
            apiVersion: serving.kserve.io/v1beta1
            kind: InferenceService
            spec:
              predictor:
                model:
                  modelFormat: {name: huggingface}
                  args: [--model_id=org/x, --draft]
            """,
            ["huggingfaceserver", "--model_id=org/x", "--draft"],
        ),
        (
            "model.yaml",
            """\
            apiVersion: kubeai.org/v1
            kind: Model
            spec:
              engine: VLLM
              url: hf://org/x
              args: [--draft]
            """,
            ["vllm", "serve", "org/x", "--draft"],
        ),
        (
            "values.yaml",
            """\
            modelArtifacts: {uri: "hf://org/x"}
            decode:
              containers:
                - image: vllm/vllm-openai:v0.9.1
                  modelCommand: vllmServe
                  args: [--draft]
            """,
            ["vllm", "serve", "org/x", "--draft"],
        ),
    ],
)
def test_runtimes_that_are_named_instead_of_a_command(
    name: str, text: str, program: list[str]
) -> None:
    assert texts(only(read(text, name))) == program


def test_helm_values() -> None:
    found = read(
        """\
        image:
          repository: ghcr.io/ggml-org/llama.cpp
          tag: server-b9000
        extraArgs: "--draft-max 4"
        servingEngineSpec:
          modelSpec:
            - repository: vllm/vllm-openai
              tag: v0.8.5
              modelURL: org/x
              vllmConfig:
                maxModelLen: 4096
                extraArgs: [--speculative-config, '{"model": "y"}']
        """,
        "values.yaml",
    )
    llama, vllm = found.commands
    assert llama.image is not None
    assert llama.image.text == "ghcr.io/ggml-org/llama.cpp:server-b9000"
    assert texts(llama) == ["--draft-max", "4"]
    assert vllm.image is not None and vllm.image.text == "vllm/vllm-openai:v0.8.5"
    assert texts(vllm) == [
        "--model", "org/x", "--max-model-len", "4096", "--speculative-config", '{"model": "y"}',
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["__ARGS__", "    @ARGS@", "${ARGS}"])
def test_a_line_that_a_script_fills_in_is_not_broken_yaml(line: str) -> None:
    text = (
        f"spec:\n  containers:\n  - image: vllm/vllm-openai\n    args:\n    - --model=a/b\n{line}\n"
    )
    found = read(text + "    env:\n    - {name: A, value: b}\n", "pod.yaml")
    assert found.troubles == [] and texts(found.commands[0]) == ["--model=a/b"]
    assert read(text.replace(line, "no key here"), "pod.yaml").troubles


def test_a_helm_template_is_said_and_its_plain_parts_are_read() -> None:
    found = read(
        """\
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: {{ include "x" . }}
        spec:
          containers:
            - image: "{{ .Values.image }}:{{ .Values.tag }}"
              {{- with .Values.env }}
              env: {{ toYaml . | nindent 10 }}
              {{- end }}
              args:
                - --model
                - {{ .Values.model | quote }}
                - --draft-max
                - "16"
        """,
        "templates/deploy.yaml",
    )
    command = only(found)
    assert texts(command) == ["--model", "{{ .Values.model | quote }}", "--draft-max", "16"]
    assert [word.unknown for word in command.words] == [
        None, "{{ .Values.model | quote }}", None, None,
    ]  # fmt: skip
    assert command.image is not None and command.image.unknown == "{{ .Values.image }}"
    assert found.troubles == []  # a template is not broken YAML


def test_llama_swap_macros() -> None:
    command = only(
        read(
            """\
            macros:
              server: /usr/bin/llama-server --port ${PORT}
              draft: |
                -md /m/d.gguf
                --draft-max 8
            models:
              "qwen":
                cmd: |
                  ${server}
                  # a comment
                  -m /m/q.gguf ${draft}
            """,
            "config.yaml",
        )
    )
    assert texts(command) == [
        "/usr/bin/llama-server", "--port", "${PORT}", "-m", "/m/q.gguf", "-md", "/m/d.gguf",
        "--draft-max", "8",
    ]  # fmt: skip
    assert command.words[2].unknown == "${PORT}"
    assert lines(command)[7] == (5, 5)
    assert command.place.line == 8


def test_steps_of_a_workflow() -> None:
    command = only(
        read(
            """\
            on: push
            jobs:
              a:
                container: vllm/vllm-openai:v0.9.0
                steps:
                  - run: vllm serve ${{ inputs.model }} --port 1
            """,
            ".github/workflows/x.yml",
        )
    )
    assert texts(command) == ["vllm", "serve", "${{ inputs.model }}", "--port", "1"]
    assert command.words[2].unknown == "${{ inputs.model }}"
    assert command.image is not None and command.image.text == "vllm/vllm-openai:v0.9.0"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("config.yml", "model:\n  model_name: x\n  cache_mode: Q5\n", "tabbyapi"),
        ("config.yml", "network:\n  port: 1\ndraft_model:\n  draft_model_name: x\n", "tabbyapi"),
        ("m/tabby_config.yml", "max_seq_len: 1\n", "tabbyapi-model"),
        ("extra.yaml", "speculative_config:\n  decoding_type: Eagle\n", "trtllm"),
        ("vllm.yaml", "model: org/x\nspeculative-config: '{}'\n", "options"),
        ("sglang.yaml", "model-path: org/x\nspeculative-algorithm: EAGLE\n", "options"),
    ],
)
def test_files_of_engines(name: str, text: str, kind: str) -> None:
    found = read(text, name)
    assert [document.kind for document in found.documents] == [kind]
    assert not found.commands


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("a: [1, 2\nb: }\n", 2, 2, "not YAML"),
        ("a: &a [*a]\n", 1, 8, "the anchor a contains itself"),
        ("a: *b\n", 1, 4, "not defined"),
        ("a: " + "[" * 500, 1, 103, "nested too deeply"),
        ("a: b\n\tc: d\n", 2, 1, "not YAML"),
        ("a: 'b\n", 1, 4, "not YAML"),
        ("a: \x01vllm\n", 1, 1, "not YAML"),
    ],
)
def test_what_is_no_yaml_is_said(text: str, line: int, column: int, says: str) -> None:
    [trouble] = read(text, "x.yaml").troubles
    assert says in trouble.text
    assert trouble.place.line == line


def test_an_alias_bomb_is_stopped() -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)]
    found = read("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(levels), "x.yaml")
    assert "too large" in found.troubles[0].text


@pytest.mark.parametrize("style", ["'{}'", '"{}"', "{}", "|\n      {}\n", ">-\n      {}\n"])
def test_words_stand_at_their_places_in_every_style_of_scalar(style: str) -> None:
    text = (
        "services:\n  a:\n    image: x\n    command: " + style.format("--draft-max 16 -m x") + "\n"
    )
    command = only(read(text, "compose.yaml"))
    assert texts(command) == ["--draft-max", "16", "-m", "x"]
    assert all(between(text.split("\n"), word.place) == word.text for word in command.words)


def test_json_in_a_flag_has_places() -> None:
    text = """\
        services:
          a:
            image: x
            command:
              - --speculative-config
              - |
                {"model": "org/y",
                 "num_speculative_tokens": 5}
        """
    word = only(read(text, "compose.yaml")).words[1]
    tree = json_places.parse(word)
    assert isinstance(tree, DocumentTree)
    assert plain(tree) == {"model": "org/y", "num_speculative_tokens": "5"}
    [(_, model), (key, number)] = tree.entries or ()
    assert (model.place.line, model.place.column) == (7, 19)
    assert (key.place.line, key.place.column) == (8, 10)
    assert number.word is not None and number.word.kind == "int"


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ('{"a": }', 17, "a value should stand here"),
        ("{model: 1}", 12, "a name in double quotes"),
        ('{"a": 1,}', 18, "a comma before }"),
        ('{"a": 1} x', 20, "something follows"),
        ('{"a": "b', 17, "unterminated"),
        ('{"a" 1}', 16, "a colon"),
        ("", 10, "it ends"),
        ("[" * 100, 72, "nested"),
    ],
)
def test_what_is_no_json_is_said_with_its_position(text: str, column: int, says: str) -> None:
    word = only(read(f"vllm --x '{text}'\n", "x.sh")).words[2]
    trouble = json_places.parse(word)
    assert isinstance(trouble, FileTrouble)
    assert says in trouble.text
    assert (trouble.place.line, trouble.place.column) == (1, column)
