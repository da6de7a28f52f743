"""`draftcheck trial` on the embedded pair, against transformers' own assisted generation."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import FIXTURES, Run
from tests.trial import drafts

pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")
pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]

PAIR = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    rows = [{"prompt": f"Once there were {n} birds and", "category": "tale"} for n in range(2, 6)]
    rows += [{"messages": [{"role": "user", "content": f"Add {n} and 3."}]} for n in range(2)]
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return file


def trial(run: Run, prompts: Path, *more: object) -> dict[str, object]:
    ran = run(
        "trial", *PAIR, "--prompts", prompts, "--tokens", "24", "--device", "cpu",
        "--format", "json", *more,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    return ran.json


def test_json_has_every_field_of_the_contract(run: Run, prompts: Path) -> None:
    body = trial(run, prompts)
    wanted = {
        "backend", "device", "dtype", "temperature", "seed", "prompts", "tokens", "seconds",
        "acceptance_rate", "acceptance_by_position", "lengths", "thresholds", "trees", "ngram",
        "best", "cost", "verified",
    }  # fmt: skip
    assert wanted <= set(body)
    assert [row["draft_tokens"] for row in body["lengths"]] == list(range(1, 25))
    assert any((row["p_min"], row["draft_tokens"]) == (0.75, 16) for row in body["thresholds"])
    assert body["cost"]["target_step_s"] > 0
    assert {"tale", "prompts"} == set(body["categories"])
    passes = [row["tokens_per_pass"] for row in body["lengths"]]
    assert passes == sorted(passes)
    assert passes[0] > 1.2


def test_prediction_is_what_a_real_run_counts(prompts: Path) -> None:
    """In float32 greedy speculation is exact: the same text, the same number of passes."""
    from draftcheck.trial.backends.backend import TrialOptions, open_backend
    from draftcheck.trial.prompts import load
    from draftcheck.trial.simulate import passes as simulate
    from draftcheck.trial.simulate.traces import line_up

    options = TrialOptions(tokens=24, device="cpu")
    backend = open_backend("transformers", *map(str, PAIR), options)
    texts = backend.generate(load(prompts)[:4], options)
    told = simulate.lengths(line_up(backend.read(texts, options), first=0))
    for g in range(1, 9):
        run = backend.verify(texts, g, options)
        assert run.identical_output
        assert run.tokens_per_pass == pytest.approx(told[g].tokens_per_pass, rel=0.01), g


def test_sampled_prediction_is_what_real_runs_come_to(prompts: Path) -> None:
    """transformers samples its draft too: the mean of many runs lies within the interval."""
    from draftcheck.trial.backends.backend import TrialOptions, open_backend
    from draftcheck.trial.prompts import load
    from draftcheck.trial.simulate import answers, passes

    options = TrialOptions(tokens=24, device="cpu", temperature=0.8)
    backend = open_backend("transformers", *map(str, PAIR), options)
    traces, real = [], []
    for seed in range(3):
        seeded = replace(options, seed=seed)
        texts = backend.generate(load(prompts), seeded)
        traces += backend.read(texts, seeded)
        real.append(backend.verify(texts, 3, seeded).tokens_per_pass)
    told = passes.sampled_lengths(traces, 3, first=0)[3]
    low, high = answers.interval(told.tokens, told.passes) or (0.0, 0.0)
    assert low * 0.95 <= sum(real) / len(real) <= high * 1.05


def test_long_texts_are_read_in_pieces(
    prompts: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However little fits at a time, the figures stay the same; also with rows for nobody."""
    import numpy as np

    from draftcheck.trial.backends.backend import TrialOptions, open_backend
    from draftcheck.trial.backends.transformers import draft_logits
    from draftcheck.trial.prompts import load

    options = TrialOptions(tokens=24, device="cpu", temperature=0.8)
    padded = drafts.copy(tmp_path / "padded")
    drafts.set_rows(padded, [*range(1000), *[0] * 500])
    backend = open_backend("transformers", str(PAIR[0]), str(padded), options)
    texts = backend.generate(load(prompts), options)
    whole = backend.read(texts, options)
    monkeypatch.setattr(draft_logits, "CHUNK_BYTES", 12_000)
    for size in (40_000, 400_000):  # some places of one text; some texts at once
        monkeypatch.setattr(draft_logits, "LOGITS_BYTES", size)
        for one, other in zip(whole, backend.read(texts, options), strict=True):
            assert (one.rank == other.rank).all()
            assert one.accept is not None
            assert other.accept is not None
            assert np.allclose(one.accept, other.accept, atol=1e-4)
            assert np.allclose(one.confidence, other.confidence, atol=1e-4)


def test_verify_compares_with_the_prediction(run: Run, prompts: Path) -> None:
    found = trial(run, prompts, "--verify", "--no-cost")["verified"]
    assert found["identical_output"] is True
    assert found["tokens_per_pass"] == pytest.approx(found["predicted_tokens_per_pass"], rel=0.01)


def test_without_costs_nothing_is_guessed(run: Run, prompts: Path) -> None:
    body = trial(run, prompts, "--no-cost")
    assert body["best"] is None
    assert body["cost"] is None
    assert all(row["speedup"] is None for row in body["lengths"])


def test_a_temperature_gives_overlap_and_less_acceptance(run: Run, prompts: Path) -> None:
    greedy = trial(run, prompts, "--no-cost")
    warm = trial(run, prompts, "--no-cost", "--temperature", "1.0")
    assert 0 < warm["overlap"] < 1
    assert warm["lengths"][3]["tokens_per_pass"] < greedy["lengths"][3]["tokens_per_pass"]


def test_settings_that_a_model_brings_along_do_not_count(
    run: Run, prompts: Path, tmp_path: Path
) -> None:
    """Qwen's penalty on repetition, for one: the draft knows nothing of it."""
    folder = tmp_path / "target"
    shutil.copytree(PAIR[0], folder)
    drafts.edit(folder / "generation_config.json", repetition_penalty=1.5, do_sample=True,
                top_k=3, temperature=0.5, suppress_tokens=[11, 12, 13])  # fmt: skip
    common = ("--prompts", prompts, "--tokens", "24", "--device", "cpu", "--no-cost",
              "--format", "json")  # fmt: skip
    for temperature in ("0", "0.8"):
        more = (*common, "--temperature", temperature)
        plain, with_settings = (run("trial", t, PAIR[1], *more).json for t in (PAIR[0], folder))
        assert with_settings["lengths"] == plain["lengths"]


def test_texts_are_kept_and_used_again(run: Run, prompts: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.json"
    first = trial(run, prompts, "--no-cost", "--reuse", file)
    assert file.exists()
    again = trial(run, prompts, "--no-cost", "--reuse", file)
    assert again["lengths"] == first["lengths"]
    other = run("trial", *PAIR, "--prompts", prompts, "--tokens", "9", "--reuse", file)
    assert other.code == 3
    assert "was made with tokens 24, not 9" in other.err
    body = json.loads(file.read_text(encoding="utf-8"))
    for change, place in (
        ({"prompt": []}, "texts[0].prompt: "),
        ({"tokens": [-1]}, "texts[0].tokens[0]: "),
        ({"temperature": 0.5}, "texts[0].temperature: "),
        ({"temperature": float("nan")}, "NaN is not a number"),
        ({"prompt": [[1]]}, "texts[0].prompt[0]: "),
        ({"prompt": [1.5]}, "texts[0].prompt[0]: "),
        ({"more": 1}, "unknown field more"),
    ):
        file.write_text(
            json.dumps({**body, "texts": [{**body["texts"][0], **change}]}), encoding="utf-8"
        )
        ran = run("trial", *PAIR, "--prompts", prompts, "--tokens", "24", "--reuse", file)
        assert (ran.code, len(ran.err.splitlines())) == (3, 2)
        assert f"{file}: not a file of texts: " in ran.err
        assert place in ran.err


def test_a_draft_of_noise_is_called_broken(run: Run, prompts: Path, tmp_path: Path) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(PAIR[1])
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "noise")
    ran = run("trial", PAIR[0], tmp_path / "noise", "--prompts", prompts, "--tokens", "24",
              "--no-cost", "--device", "cpu", "--format", "json")  # fmt: skip
    assert ran.code == 1
    assert "nearly every draft is rejected" in ran.json["broken"]
    one = tmp_path / "one.txt"
    one.write_text("Once there were birds")
    ran = run("trial", PAIR[0], tmp_path / "noise", "--prompts", one, "--tokens", "4",
              "--no-cost", "--device", "cpu", "--format", "json")  # fmt: skip
    assert (ran.code, ran.json["broken"]) == (0, None)
    assert "too few to call the pair broken" in ran.json["notes"][0]


def test_nan_is_a_broken_draft_and_an_unmeasured_target(
    run: Run, prompts: Path, tmp_path: Path
) -> None:
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(PAIR[1])
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    model.save_pretrained(tmp_path / "nan")
    (tmp_path / "nan" / "tokenizer.json").write_bytes((PAIR[1] / "tokenizer.json").read_bytes())
    common = ("--prompts", prompts, "--tokens", "8", "--no-cost", "--device", "cpu")
    ran = run("trial", PAIR[0], tmp_path / "nan", *common)
    assert ran.code == 1
    assert "not numbers" in ran.out
    ran = run("trial", tmp_path / "nan", PAIR[1], *common)
    assert ran.code == 3
    assert "target's logits are not numbers" in ran.err


def _without_renderer(run: Run, prompts: Path, tmp_path: Path) -> str:
    """What is said when a PNG is asked for and nothing can draw one; before anything is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("draftcheck.report.plot.find_spec", lambda name: None)
        ran = run("trial", "no/target", "no/draft", "--prompts", prompts, "--plot",
                  tmp_path / "curve.png")  # fmt: skip
    assert ran.code == 2 and not (tmp_path / "curve.png").exists()
    return ran.err


def test_text_and_picture(run: Run, prompts: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    ran = run("trial", *PAIR, "--prompts", prompts, "--tokens", "16", "--plot", picture)
    assert ran.code == 0, ran.err
    assert "tokens/pass" in ran.out
    assert "accepted by position" in ran.out
    root = ElementTree.parse(picture).getroot()
    assert root.tag.endswith("svg")
    words = " ".join("".join(element.itertext()) for element in root)
    for title in ("Accepted by position", "Accepted by kind of text", "95 % within", "everything"):
        assert title in words
    assert "prefers-color-scheme: dark" in words and "var(--" not in picture.read_text("utf-8")
    width = float(root.attrib["width"])
    for element in root.iter():
        places = (element.get("x"), element.get("cx"))
        assert all(0 <= float(place) <= width for place in places if place is not None)
    png = run("trial", *PAIR, "--prompts", prompts, "--tokens", "4", "--no-cost", "--plot",
              tmp_path / "curve.txt")  # fmt: skip
    assert (png.code, "an .svg or a .png" in png.err) == (2, True)
    assert "pip install" in _without_renderer(run, prompts, tmp_path)
    assert run("trial", *PAIR, "--prompts", prompts, "--tokens", "16", "--no-cost",
               "--format", "markdown").out.startswith("### draftcheck trial")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no prompts"),
        ('{"messages": [{"role": 1}]}', "a message needs a role"),
        ('{"nothing": 1}', "neither messages nor"),
        ("{", "not JSON"),
        ("[1]", "a prompt is a text or an object"),
    ],
)
def test_wrong_prompts_are_named(run: Run, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(text, encoding="utf-8")
    ran = run("trial", *PAIR, "--prompts", file)
    assert ran.code in (2, 3)
    assert words in ran.err


def test_wrong_models_and_settings_are_named(run: Run, prompts: Path, tmp_path: Path) -> None:
    assert run("trial", tmp_path / "none", PAIR[1], "--prompts", prompts).code == 3
    assert run("trial", *PAIR, "--dtype", "nothing", "--prompts", prompts).code == 2
    assert run("trial", *PAIR, "--backend", "abacus", "--prompts", prompts).code == 2
    tree = tmp_path / "tree.json"
    tree.write_text("[[-1]]", encoding="utf-8")
    ran = run("trial", *PAIR, "--prompts", prompts, "--tokens", "4", "--no-cost", "--tree", tree)
    assert ran.code == 3
    assert "rank must be" in ran.err
    for text, place in (('[[0], ["0"]]', "[1][0]"), ("[[]]", "[0]"), ("{}", "list of rank paths")):
        tree.write_text(text, encoding="utf-8")
        ran = run("trial", *PAIR, "--prompts", prompts, "--tree", tree)
        assert (ran.code, len(ran.err.splitlines())) == (3, 1)
        assert f"{tree}: not a tree: " in ran.err
        assert place in ran.err


def test_our_own_prompts_are_many_and_mixed() -> None:
    from draftcheck.trial.prompts import load

    found = load()
    assert len(found) >= 40
    assert len({prompt.text for prompt in found}) == len(found)
    assert len({prompt.category for prompt in found[:6]}) == 6
