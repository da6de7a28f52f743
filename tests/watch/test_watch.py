"""draftcheck watch: a release against the anchors, from a folder, a wheel or an index."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import msgspec
import pytest

from draftcheck.anchors.trees import FolderTree
from draftcheck.rulebook import anchors, book, files
from draftcheck.versions import covers
from tests.agreement import make_anchors
from tests.conftest import Ran, Run
from tests.watch.conftest import ENGINE, SOURCE, forget, write_source, write_wheel

STEP = SOURCE["generate.py"]


def watched(run: Run, source: Path, *more: object) -> Ran:
    return run("watch", ENGINE, "--source", source, *more)


def test_the_same_code_leaves_nothing_to_do(run: Run, rules: Path, tmp_path: Path) -> None:
    ran = watched(run, write_source(tmp_path / "new"))
    assert ran.code == 0
    first, second, *_ = ran.out.splitlines()
    assert first == "mlx-lm: nothing to do, all 6 rules are confirmed"
    assert "7 of 7 places are the code that was read in 0.32.2" in second


def test_what_does_nothing_is_no_change(run: Run, rules: Path, tmp_path: Path) -> None:
    """Comments, docstrings, types beside arguments, line breaks, quotes."""
    text = STEP.replace("# Caches that", "# Some caches that").replace("Draft and verify.", "Run.")
    text = text.replace("prompt: str, caches: list", "prompt: 'object', caches: 'tuple'")
    text = text.replace("-> int", "-> object").replace(
        "kinds = [type(cache) for cache in caches]",
        "kinds = [\n            type(cache)\n            for cache in caches  # all\n        ]",
    )
    assert text != STEP
    ran = watched(run, write_source(tmp_path / "new", generate=text))
    assert ran.code == 0, ran.out


@pytest.mark.parametrize(
    ("file", "old", "new", "again"),
    [
        ("generate", "if not all(", "if not any(", ["MLX003"]),
        ("generate", "return len(prompt)", "return len(prompt) + 1", ["MLX003"]),
        ("generate", "if not all(cache.trims", "if prompt and not all(cache.trims", ["MLX003"]),
        ("server", "except OSError", "except ValueError", ["MLX007"]),
        ("server", "draft=None", "draft=()", ["MLX007"]),
        ("utils", '"llama"', '"llama", "phi": "llama"', ["MLX001", "MLX240"]),
    ],
)
def test_what_does_something_is_to_be_read_again(
    run: Run, rules: Path, tmp_path: Path, file: str, old: str, new: str, again: list[str]
) -> None:
    text = SOURCE[f"{file}.py"].replace(old, new)
    ran = watched(run, write_source(tmp_path / "new", **{file: text}), "--format", "json")
    assert ran.code == 1
    assert ran.json["read_again"] == again
    assert not {*again} & {*ran.json["confirmed"]}
    changes = [c for c in ran.json["changes"] if not c["place"].startswith("names ")]
    assert {change["state"] for change in changes} == {"changed"}
    line = changes[0]["new"][0]["line"]
    assert new.split(",", maxsplit=1)[0] in text.splitlines()[line - 1]


def test_the_first_line_is_the_answer_and_new_statements_are_shown(
    run: Run, rules: Path, tmp_path: Path
) -> None:
    text = STEP.replace("    return len(prompt)", "    caches.clear()\n    return len(prompt)")
    ran = watched(run, write_source(tmp_path / "new", generate=text))
    assert ran.code == 1
    assert ran.out.startswith("mlx-lm: 1 rule to read again, 5 confirmed\n")
    assert "generate.py::step changed: 1 new, 0 gone" in ran.out
    assert "caches.clear()" in ran.out


def test_a_statement_that_moves_into_the_else_is_a_change(
    run: Run, rules: Path, tmp_path: Path
) -> None:
    body = "class Provider:\n    def load(self, path):\n        for x in path:\n            x()\n"
    anchor = write_source(
        tmp_path / "a", server=body + "        else:\n            path.a()\n            path.b()\n"
    )
    other = write_source(
        tmp_path / "b", server=body + "            path.a()\n        else:\n            path.b()\n"
    )
    digests = []
    for source in (anchor, other):
        ran = watched(run, source, "--format", "json")
        digests.append([c["new"] for c in ran.json["changes"]])
    assert digests[0] != digests[1]


def test_gone_and_moved_places_are_told_apart(run: Run, rules: Path, tmp_path: Path) -> None:
    moved = write_source(tmp_path / "moved", server=None, provider=SOURCE["server.py"])
    [change] = watched(run, moved, "--format", "json").json["changes"]
    assert (change["state"], change["moved_to"]) == ("gone", "provider.py::Provider.load")
    gone = write_source(tmp_path / "gone", server="class Provider:\n    pass\n")
    ran = watched(run, gone, "--format", "json")
    assert ran.json["changes"][0]["moved_to"] is None
    assert ran.json["read_again"] == ["MLX007"]


def test_a_file_that_is_not_parsed_confirms_nothing(run: Run, rules: Path, tmp_path: Path) -> None:
    ran = watched(run, write_source(tmp_path / "new", server="def ("), "--format", "json")
    assert ran.code == 1
    assert ran.json["changes"][0]["state"] == "unread"
    assert ran.json["read_again"] == ["MLX007"]
    assert "options could not be read" in ran.json["unread"][0]


def test_new_names_messages_and_options(run: Run, rules: Path, tmp_path: Path) -> None:
    text = STEP.replace('"--draft-model"', '"--drafter"') + (
        "\n\ndef other(size):\n    raise ValueError(f'A draft of {size} is ' 'too large')\n"
        "\n\ndef quiet(log):\n    log.info('hello')\n"
        "    log.warning('The draft of %s is left out', 1)\n"
    )
    mamba = "class Mamba(Base):\n    def is_trimmable(self):\n        return False\n"
    source = write_source(tmp_path / "new", generate=text, models__mamba=mamba)
    ran = watched(run, source, "--format", "json")
    assert ran.code == 1
    names = {entry["what"]: (entry["new"], entry["gone"]) for entry in ran.json["names"]}
    assert names["options"] == (["--drafter"], ["--draft-model"])
    assert names["model-types"] == (["mamba"], [])
    assert names["trimmable"] == (["Mamba"], [])
    told = {(message["file"], message["text"]) for message in ran.json["messages"]["new"]}
    words = ("A draft of … is too large", "The draft of %s is left out")
    assert told == {("generate.py", text) for text in words}, "errors and warnings"
    assert ran.json["read_again"] == ["MLX001", "MLX004"], "both rest on lists that grew"


def test_a_wheel_is_read_as_text(run: Run, rules: Path, tmp_path: Path) -> None:
    bad = SOURCE["server.py"] + "\n__import__('os').abort()\n"
    source = write_source(tmp_path / "new", server=bad)
    wheel = write_wheel(tmp_path / "x.whl", source, "0.33.0")
    ran = run("watch", ENGINE, "--wheel", wheel)
    assert ran.code == 0
    assert ran.out.startswith("mlx-lm 0.33.0: nothing to do")


def test_the_release_comes_from_the_users_index(
    run: Run, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    for version in ("0.33.0", "0.34.0"):
        source = write_source(tmp_path / version)
        write_wheel(links / f"mlx_lm-{version}-py3-none-any.whl", source, version)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    assert run("watch", ENGINE, "0.33.0").out.startswith("mlx-lm 0.33.0: nothing to do")
    assert run("watch", ENGINE).out.startswith("mlx-lm 0.34.0: nothing to do")
    ran = run("watch", ENGINE, "0.99.0")
    assert (ran.code, ran.out) == (3, "")
    assert "mlx-lm==0.99.0: pip download failed" in ran.err


@pytest.mark.parametrize("kind", ["no zip", "no file", "another package", "no folder", "too large"])
def test_what_cannot_be_read_is_exit_3(
    run: Run, rules: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "x.whl"
    if kind == "no zip":
        wheel.write_bytes(b"PK\x03\x04 and no more")
    elif kind in ("another package", "too large"):
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("other/__init__.py", "")
            if kind == "too large":
                for name in SOURCE:
                    made.writestr(f"mlx_lm/{name}", b"#" * (5 << 20))
    given = ("--source", tmp_path / "none") if kind == "no folder" else ("--wheel", wheel)
    ran = run("watch", ENGINE, *given)
    assert (ran.code, ran.out) == (3, "")
    assert len(ran.err.splitlines()) <= 2
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nobody"], "unknown engine"),
        (["ollama"], "no anchors for ollama"),
        ([ENGINE, "--installed", "--source", "."], "exclude each other"),
        ([ENGINE, "--source", ".", "--update", "--installed"], "exclude each other"),
    ],
)
def test_usage(run: Run, rules: Path, arguments: list[str], says: str) -> None:
    ran = run("watch", *arguments)
    assert ran.code == 2
    assert says in ran.err


def test_an_engine_without_a_package_asks_for_its_source(run: Run) -> None:
    ran = run("watch", "llama.cpp")
    assert ran.code == 3
    assert "--source" in ran.err


def test_update_writes_the_version_and_its_options(run: Run, rules: Path, tmp_path: Path) -> None:
    text = STEP.replace('"--draft-model"', '"--drafter"')
    source = write_source(tmp_path / "new", generate=text)
    ran = run("watch", ENGINE, "0.33.0", "--source", source, "--update")
    assert ran.code == 1, "somebody should look at the options"
    forget()
    engine = book.load(ENGINE)
    assert engine.checked == "0.33.0"
    assert 'checked = "0.33.0"' in (rules / "options" / "mlx-lm.toml").read_text(encoding="utf-8")
    table = (rules / "options" / "mlx-lm-names.toml").read_text(encoding="utf-8")
    assert table.partition("\n")[0].endswith(" to 0.33.0.")
    assert '["option", "1", "g", "", "", "--model"]' in table
    assert '["option", "1", "g", "", "0.33.0", "--draft-model"]' in table
    assert '["option", "1", "g", "0.33.0", "", "--drafter"]' in table
    assert anchors.load(ENGINE).version == "0.33.0"  # type: ignore[union-attr]
    again = run("watch", ENGINE, "0.33.0", "--source", source)
    assert again.code == 0, again.out


def test_update_writes_nothing_over_changed_code(run: Run, rules: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in rules.rglob("*.toml")}
    text = STEP.replace("if not all(", "if not any(")
    source = write_source(tmp_path / "new", generate=text)
    ran = run("watch", ENGINE, "0.33.0", "--source", source, "--update")
    assert ran.code == 2
    assert "not written: 1 place is not the code that was read" in ran.err
    for version in ("0.1.0", None):
        asked = [version] if version else []
        ran = run("watch", ENGINE, *asked, "--source", write_source(tmp_path / "new"), "--update")
        assert ran.code == 2
    assert before == {path: path.read_bytes() for path in rules.rglob("*.toml")}


def test_a_rule_that_names_one_of_a_tied_list_rests_on_the_list(
    rules: Path, tmp_path: Path
) -> None:
    given = anchors.load(ENGINE)
    assert given is not None
    engine = book.load(ENGINE)
    naming = next(r for r in engine.rules if r.params and not r.until and r.id in given.rules)
    word = next(iter(make_anchors.named_words(dict(naming.params))))
    source = write_source(tmp_path / "new", utils=f"HEADS = {{{word!r}: 1}}\n")
    bare = {"hints": {}, "rules": {}, "places": {}, "names": {}}
    listed = msgspec.structs.replace(given, lists={"heads": ("utils.py::HEADS",)}, **bare)
    tree = FolderTree(source, "mlx_lm", engine.checked)
    for tied in ((), ("heads",)):
        asked = msgspec.structs.replace(listed, tied=tied)
        made, _ = make_anchors.resolve(engine, tree, engine.checked, asked)
        assert ("names heads" in made.rules.get(naming.id, ())) == bool(tied)


ANCHORED = [name for name in book.engine_files() if anchors.load(name)]


@pytest.mark.parametrize("name", ANCHORED)
def test_every_rule_that_holds_now_has_its_places(name: str) -> None:
    engine, file = book.load(name), anchors.load(name)
    assert file is not None
    now = {r.id for r in engine.rules if covers(engine.order, engine.checked, r.since, r.until)}
    known = {rule.id for rule in engine.rules}
    assert now <= {*file.rules, *file.elsewhere}, "run tests/agreement/make_anchors.py"
    assert not set(file.rules) & set(file.elsewhere)
    assert {*file.rules, *file.elsewhere, *file.hints} <= known
    for rule, places in file.hints.items():
        assert set(places) <= {*file.rules.get(rule, ())}, f"{rule}: a hint that leads nowhere"


def test_the_installed_transformers_is_the_code_that_was_read(run: Run) -> None:
    transformers = pytest.importorskip("importlib.metadata").version("transformers")
    if transformers != book.load("transformers").checked:
        pytest.skip(f"transformers {transformers} is installed")
    ran = run("watch", "transformers", "--installed")
    assert ran.code == 0, ran.out


def test_json_is_an_object_of_the_contract(run: Run, rules: Path, tmp_path: Path) -> None:
    body = json.loads(watched(run, write_source(tmp_path / "new"), "--format", "json").out)
    assert list(body) == [
        "schema_version", "draftcheck_version", "engine", "version", "source", "read", "places",
        "unchanged", "nothing_to_do", "confirmed", "read_again", "elsewhere", "changes", "names",
        "messages", "unread",
    ]  # fmt: skip
    assert body["nothing_to_do"] is True
    assert files.folder() == rules
