"""What the gate saw and did not understand is said; documents are read for notes."""

from __future__ import annotations

import json

import pytest

from tests.gate.conftest import Repo

BROKEN = "llama-server -m a.gguf -md b.gguf --spec-type draft-simple --draft-max=8"


def test_an_option_in_no_setup_is_not_nothing_to_check(repo: Repo) -> None:
    repo.write("env.sh", "./mine --speculative-algorithm EAGLE3\n")
    ran = repo.gate("--format", "json")
    (finding,) = ran.json["findings"]
    (setup,) = ran.json["setups"]
    assert (ran.code, ran.json["nothing_to_check"], setup["verdict"]) == (0, False, "undecided")
    assert (finding["rule"], finding["line"], finding["severity"]) == ("GAT017", 1, "note")
    assert (setup["engine"], setup["target"], setup["draft"]) == ("sglang", None, None)
    assert "--speculative-algorithm" in finding["saw"]
    assert "in 1 setup, 1 of them only seen" in repo.gate().out


PARTS = {
    "a variable for another script": ("env.sh", 'export X="--spec-type draft-mtp"\n'),
    "a list that a function is given": ("a.sh", "arm on --speculative-algorithm NGRAM\n"),
    "a file of options": ("serve.yaml", "speculative-algorithm: NGRAM\ntp-size: 2\n"),
    "values of a chart": (
        "values.yaml",
        "image: {repository: vllm/vllm-openai, tag: v0.15.1}\nmodel: a/b\n"
        'extraArgs: [\'--speculative-config={"method":"ngram","num_speculative_tokens":3}\']\n',
    ),
    "options that another list goes on": (
        "run.sh", 'llama-server "${MORE[@]}" --spec-type draft-mtp\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(PARTS))
def test_what_another_file_completes_is_no_warning(name: str, repo: Repo) -> None:
    repo.write(*PARTS[name])
    ran = repo.gate("--format", "json")
    assert ran.code == 0 and len(ran.json["setups"]) == 1
    assert {(f["rule"], f["severity"]) for f in ran.json["findings"]} == {("GAT017", "note")}


def test_a_whole_command_whose_model_comes_from_outside_is_not_checked(repo: Repo) -> None:
    repo.write("run.sh", "vllm serve $MODEL --speculative-config.method ngram\n")
    ran = repo.gate("--format", "json")
    assert ran.code == 3
    assert [(f["rule"], f["severity"]) for f in ran.json["findings"]] == [("GAT001", "warning")]


def test_a_text_for_people_may_be_broken_yaml(repo: Repo) -> None:
    repo.write("build.yaml", "role: a tier (M-083: done)\nnotes: with --spec-type draft-mtp\n")
    ran = repo.gate("--format", "json")
    assert (ran.code, ran.json["setups"]) == (0, [])
    assert [(f["rule"], f["severity"]) for f in ran.json["findings"]] == [("GAT001", "note")]


def test_other_texts_that_hold_one_are_named_in_one_note(repo: Repo) -> None:
    for name in ("notes.txt", "main.go"):
        repo.write(name, "run it with --spec-type draft-mtp\n")
    repo.write("picture.png", b"--spec-type \x00")
    ran = repo.gate("--format", "json")
    (finding,) = ran.json["findings"]
    assert (ran.code, ran.json["nothing_to_check"]) == (0, False)
    assert (finding["rule"], finding["severity"]) == ("GAT018", "note")
    assert finding["saw"] == "main.go, notes.txt"
    assert "main.go, notes.txt" in repo.gate().out


def test_what_a_program_in_another_language_only_speaks_of_is_mentioned(repo: Repo) -> None:
    repo.write("build.ts", "if (args.includes('--model-draft')) go(draft);\n")
    repo.write("shows.js", "console.log('llama-server -m a.gguf --spec-type draft-mtp');\n")
    repo.write("knows.mjs", "const OURS = ['--spec-type', '--model-draft'];\n")
    repo.write("build.test.ts", "expect(argv).toEqual(['--spec-type', 'draft-mtp']);\n")
    report = repo.json()
    (finding,) = report["findings"]
    assert (finding["rule"], report["setups"]) == ("GAT018", [])
    assert finding["saw"] == "build.test.ts, build.ts, knows.mjs, shows.js"
    repo.write(
        "build.ts", "spawn('llama-server', ['-m', 'a.gguf', '--draft-max=4', '-md', 'b']);\n"
    )
    assert ("FIL013", "build.ts", 1) in repo.rules()


def test_options_of_programs_that_nobody_knows_are_named(repo: Repo) -> None:
    """Also keys of other tools' files; not those of git's and Python's own kind of draft."""
    repo.write("ds.sh", 'ds4-server -m big.gguf --mtp "$HEAD" --mtp-draft 2\n')
    repo.write("bench.yaml", "model: org/big\nspec_decoding:\n  draft_model: org/small\n")
    repo.write("wrap.py", 'argv += ["-md", draft, "-ngld", "99"]\n')
    repo.write("models.env", "IMAGE=vllm\nSPECULATIVE_METHOD=mtp\nSPECULATIVE_TOKENS=0\n")
    repo.write("none.env", "IMAGE=vllm\nSPECULATIVE_TOKENS=0\nDRAFT_MODEL=\n")
    field = {"key": "llm.prediction.speculativeDecoding.draftModel", "value": "org/small"}
    repo.write("fast.preset.json", json.dumps({"operation": {"fields": [field]}}))
    repo.write("pr.sh", "gh pr create --draft --title x  # vllm\n")
    repo.write("talk.sh", "echo 'use vllm --draft-model'  # --draft-model\n")
    repo.write("train.py", "parser.add_argument('--draft-model')  # speculative\n")
    report = repo.json()
    (finding,) = report["findings"]
    assert (finding["rule"], finding["saw"]) == (
        "GAT018",
        "bench.yaml, ds.sh, fast.preset.json, models.env, wrap.py",
    )
    assert (report["setups"], report["nothing_to_check"]) == ([], False)


def test_a_script_of_another_kind_may_be_broken(repo: Repo) -> None:
    repo.write("train.yaml", "run: |\n  python train.py --engine vllm --draft 'x\n")
    assert repo.gate("--format", "json").json["findings"] == []


@pytest.mark.parametrize(
    ("setting", "code", "severity", "setups", "shown"),
    [("", 0, "note", 0, 1), ("true", 1, "error", 1, 0), ("false", 0, None, 0, 0)],
)
def test_markdown_is_read_for_notes_unless_it_is_said(
    repo: Repo, setting: str, code: int, severity: str | None, setups: int, shown: int
) -> None:
    repo.write("README.md", f"# Use\n\n```bash\n$ {BROKEN}\n```\n")
    repo.write("draftcheck.toml", f"[gate]\nmarkdown = {setting}\n" if setting else "")
    ran = repo.gate("--format", "json")
    assert ran.code == code
    found = [f for f in ran.json["findings"] if f["rule"] == "FIL013"]
    assert [f["severity"] for f in found] == ([severity] if severity else [])
    assert [f["line"] for f in found] == ([4] if severity else [])
    assert (len(ran.json["setups"]), ran.json["setups_in_markdown"]) == (setups, shown)


def test_the_models_of_a_document_need_no_lock(repo: Repo) -> None:
    repo.write("README.md", "```\nvllm serve a/b --speculative-config.method ngram\n```\n")
    ran = repo.gate("--format", "json")
    assert (ran.code, ran.json["missing"], ran.json["setups_in_markdown"]) == (0, [], 1)
    assert "nothing to lock" in repo.lock().out


def test_a_long_file_without_a_word_of_speculation_is_not_parsed(repo: Repo) -> None:
    """It is not YAML, and nobody says so: words of other matters do not make it a deploy file."""
    repo.write("large.yaml", "a: [llama, vllm, draft, lookup\n" + "b: spec-1\n" * 2000)
    repo.write("small.yaml", "a: [llama, vllm, --draft-max\n")
    files = {finding["file"] for finding in repo.gate("--format", "json").json["findings"]}
    assert files == {"small.yaml"}


def test_a_program_in_a_newer_python_is_no_warning(repo: Repo) -> None:
    repo.write("watch.py", "import subprocess  # vllm speculative\nprint(f'{d['a']}' if else)\n")
    ran = repo.gate("--format", "json")
    assert (ran.code, [f["severity"] for f in ran.json["findings"]]) == (0, ["note"])


def test_an_image_that_starts_without_a_model_gets_one_when_it_is_run(repo: Repo) -> None:
    repo.write(
        "Dockerfile",
        'FROM ubuntu\nENTRYPOINT ["llama-server"]\nCMD ["--spec-type", "draft-mtp"]\n',
    )
    ran = repo.gate("--format", "json")
    assert (ran.code, [f["rule"] for f in ran.json["findings"]]) == (0, ["GAT017"])


def test_options_in_a_list_of_models_are_seen(repo: Repo) -> None:
    repo.write(
        "menu.sh",
        "# llama-server [--draft|--spec-type TYPE]\n"
        'declare -A MODELS=(\n  ["a"]="a.gguf|4096|--spec-type draft-mtp"\n)\n',
    )
    assert [(f["rule"], f["line"]) for f in repo.json()["findings"]] == [("GAT017", 3)]
