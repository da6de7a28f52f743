"""Inline ignores: with a reason they silence, without one they are findings, unused ones too."""

from __future__ import annotations

import pytest

from tests.gate.conftest import Repo

BAD = "llama-server -m big.gguf -md small.gguf --spec-type draft-simple --draft-model small.gguf"


def write(repo: Repo, *lines: str, name: str = "serve.sh") -> None:
    repo.write(name, "\n".join(("#!/bin/sh", *lines, "")))


def flag(repo: Repo) -> dict[str, object]:
    """The finding about --draft-model."""
    found = [f for f in repo.json("serve.sh")["findings"] if "--draft-model" in f["saw"]]
    assert len(found) == 1, found
    one: dict[str, object] = found[0]
    return one


@pytest.fixture
def rule(repo: Repo) -> str:
    write(repo, BAD)
    return str(flag(repo)["rule"])


@pytest.mark.parametrize(
    "comment",
    [
        "because the wrapper translates it",
        "the wrapper translates it",
        ": the wrapper translates it",
        "-- the wrapper translates it",
    ],
)
def test_on_the_same_line_and_above(comment: str, rule: str, repo: Repo) -> None:
    write(repo, f"{BAD}  # draftcheck: ignore[{rule}] {comment}")
    assert flag(repo)["ignored"] == "the wrapper translates it"
    write(repo, f"# draftcheck: ignore[{rule}] {comment}", "", "# and more", BAD)
    assert flag(repo)["ignored"] == "the wrapper translates it"


def test_above_a_command_of_several_lines(rule: str, repo: Repo) -> None:
    lines = BAD.replace(" --draft-model", " \\\n  --draft-model")
    write(repo, f"# draftcheck: ignore[{rule}] because of the wrapper", lines)
    found = flag(repo)
    assert (found["ignored"], found["line"]) == ("of the wrapper", 4)


def test_only_what_is_named(rule: str, repo: Repo) -> None:
    write(repo, f"# draftcheck: ignore[ABC001, {rule.lower()}] because of the wrapper", BAD)
    assert flag(repo)["ignored"] == "of the wrapper"
    assert ("GAT013", "serve.sh", 2) in repo.rules("serve.sh")
    write(repo, "# draftcheck: ignore[ABC001] because of the wrapper", BAD)
    assert flag(repo)["ignored"] is None
    write(repo, f"# draftcheck: ignore[{rule}] because of the wrapper", "true", BAD)
    assert flag(repo)["ignored"] is None


@pytest.mark.parametrize(
    "text", ["ignore[{rule}]", "ignore[{rule}] because", "ignore", "ignroe[{rule}] x"]
)
def test_without_reason_or_rule_it_is_a_finding(text: str, rule: str, repo: Repo) -> None:
    write(repo, "# draftcheck: " + text.format(rule=rule), BAD)
    assert flag(repo)["ignored"] is None
    assert ("GAT012", "serve.sh", 2) in repo.rules("serve.sh")


def test_an_unused_ignore_is_a_warning(good: Repo) -> None:
    script = (good.path / "serve.sh").read_text(encoding="utf-8")
    good.write(
        "serve.sh", script.replace("vllm serve", "# draftcheck: ignore[VLL001] because\nx", 0)
    )
    good.write("serve.sh", script + "# draftcheck: ignore[VLL001] because of something\n")
    ran = good.gate("serve.sh")
    assert ran.code == 0
    assert "GAT013 unused-ignore" in ran.out
    assert good.gate("serve.sh", "--strict").code == 1


def test_other_comments(repo: Repo, rule: str) -> None:
    """The signs of the kinds of files that there are."""
    from draftcheck.gate import ignores

    for line in (
        "# draftcheck: ignore[LCP003] because x",
        "// draftcheck: ignore[LCP003] because x",
        "-- draftcheck: ignore[LCP003] because x",
        "; draftcheck: ignore[LCP003] because x",
        "<!-- draftcheck: ignore[LCP003] because x -->",
        "/* draftcheck: ignore[LCP003] because x */",
        "key: value # draftcheck:ignore[LCP003]: x\r",
    ):
        [found] = ignores.find(line, "f")
        assert (found.rules, found.reason) == (frozenset({"lcp003"}), "x"), line
    assert not ignores.find('say "draftcheck: ignore[LCP003] x"', "f")


COMPOSE = """services:
  llm:{service}
    image: ghcr.io/ggml-org/llama.cpp:server-b9500
    command: >-{key}
      -m /m/big.gguf -md /m/small.gguf
      --spec-type draft-simple --draft-max 8
"""
ARGS = """services:
  llm:
    image: ghcr.io/ggml-org/llama.cpp:server-b9500
    {above}
    command:
      {first}
      - -m
      - /m/big.gguf
      - -md
      - /m/small.gguf
      - --spec-type
      - draft-simple
      {item}
      - --draft-max{end}
      - "8"
"""
COMMENT = "# draftcheck: ignore[FIL001] because our image is patched"


@pytest.mark.parametrize(
    ("text", "places"),
    [(COMPOSE, ("service", "key")), (ARGS, ("above", "item", "end"))],
)
def test_wherever_yaml_takes_a_comment(text: str, places: tuple[str, ...], repo: Repo) -> None:
    """On and above a key, behind the sign of a block scalar, above and behind an item."""
    empty = dict.fromkeys(("service", "key", "above", "first", "item", "end"), "")

    def gone() -> list[str | None]:
        found = repo.json("compose.yml")["findings"]
        return [f["ignored"] for f in found if f["rule"] == "FIL001"]

    repo.write("compose.yml", text.format(**empty))
    assert gone() == [None]
    for place in places:
        behind = place in ("service", "key", "end")
        written = text.format(**{**empty, place: f"  {COMMENT}" if behind else COMMENT})
        repo.write("compose.yml", written)
        assert gone() == ["our image is patched"], place
        assert "GAT013" not in [rule for rule, _, _ in repo.rules("compose.yml")], place


def test_in_yaml_a_comment_is_about_what_stands_below_it_only(repo: Repo) -> None:
    other = COMPOSE.format(service="", key="").replace("services:\n  llm:", "  other:")
    repo.write("compose.yml", COMPOSE.format(service=f"  {COMMENT}", key="") + other)
    found = [f for f in repo.json("compose.yml")["findings"] if f["rule"] == "FIL001"]
    assert [f["ignored"] for f in found] == ["our image is patched", None]


def test_a_comment_behind_an_option_of_a_list_is_about_its_value_too(repo: Repo) -> None:
    spoilt = COMMENT.replace("FIL001", "FIL006")
    empty = dict.fromkeys(("above", "first", "item"), "")
    text = ARGS.replace("--draft-max", "--spec-draft-n-max").replace('"8"', "eight")
    repo.write("compose.yml", text.format(**empty, end=""))
    (found,) = [f for f in repo.json("compose.yml")["findings"] if f["rule"] == "FIL006"]
    assert found["ignored"] is None
    repo.write("compose.yml", text.format(**empty, end=f"  {spoilt}"))
    (found,) = [f for f in repo.json("compose.yml")["findings"] if f["rule"] == "FIL006"]
    assert found["ignored"] == "our image is patched"
