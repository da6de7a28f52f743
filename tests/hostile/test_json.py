"""config.json, tokenizer.json and their companions: broken JSON, and sound JSON of nonsense."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.conftest import Run
from tests.hostile.support import (
    ANY,
    READ,
    assert_calm,
    bounded,
    examine,
    some,
    sparse,
    strict_json,
    write,
)

NAMES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "model.safetensors.index.json", "chat_template.json",
    "hf_quant_config.json",
)  # fmt: skip
DEEP = "[" * 100_000 + "]" * 100_000
BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not valid JSON"),
    "spaces": (b" \n\t ", "not valid JSON"),
    "half": (b'{"model_type": "lla', "not valid JSON"),
    "two values": (b"{} {}", "not valid JSON"),
    "comma at the end": (b'{"a": 1,}', "not valid JSON"),
    "single quotes": (b"{'a': 1}", "not valid JSON"),
    "comment": (b"// x\n{}", "not valid JSON"),
    "HTML": (b"<!DOCTYPE html><html>404</html>", "not valid JSON"),
    "zeros": (bytes(100), "not valid JSON"),
    "BOM": (b"\xef\xbb\xbf{}", "not valid JSON"),
    "UTF-16": ("{}".encode("utf-16"), "not UTF-8"),
    "UTF-16 without mark": ("{}".encode("utf-16-le"), "not valid JSON"),
    "UTF-32": ("{}".encode("utf-32"), "not UTF-8"),
    "Latin-1": (b'{"a": "\xe9"}', "not UTF-8"),
    "encoded surrogate": (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
    "control character": (b'{"a": "\x1b"}', "not valid JSON"),
    "nested 100,000 deep": (DEEP.encode(), "nested too deeply"),
    "nested in an object": (f'{{"a": {DEEP}}}'.encode(), "nested too deeply"),
    "nested objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    "nested and open": (b"[" * 100_000, "nested too deeply"),
    "nested 500 deep": (b'{"a":' * 500 + b"1" + b"}" * 500, ""),
    "integer of 10,000 digits": (b'{"a": ' + b"9" * 10_000 + b"}", "not usable JSON"),
    "a list": (b"[]", ""),
    "a text": (b'"{}"', ""),
    "null": (b"null", ""),
    "NaN": (b"NaN", ""),
    "gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "not UTF-8"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_json(run: Run, good: Path, tmp_path: Path, fault: str) -> None:
    data, says = BROKEN[fault]
    folder = make.folder(tmp_path / "m")
    for name in NAMES:
        before = (folder / name).read_bytes() if (folder / name).exists() else None
        write(folder / name, data)
        if name == "config.json":
            examine(run, folder, READ, good)
        ran = run("inspect", folder)
        assert_calm(ran)
        if name == "model.safetensors.index.json":  # the whole model lies beside it
            assert ran.code == 0 and f"warning: {name}: " in ran.err
        else:
            assert (ran.code, ran.out) == (3, ""), name
            assert f"m/{name}: " in ran.err
        assert says in ran.err
        if before is None:
            (folder / name).unlink()
        else:
            write(folder / name, before)


def text(value: Any) -> str:
    return json.dumps(value)


NONSENSE = [
    "null", "true", "0", "-1", "1.5", "1e999", "NaN", "10" * 2000, "1099511627775",
    "9223372036854775808", '""', '"152k"', '"\\ud800\\u001b[2J\\u0000"', "[]", "{}", "[null]",
    "[1, -1, true, NaN]", '["\\ud800", "a"]', '{"content": 5}', '{"type": [null], "factor": NaN}',
    "[" * 40 + "]" * 40, '{"quant_method": {"a": []}, "bits": 1e999, "verifier": 5}',
]  # fmt: skip
CONFIG_KEYS = (
    "vocab_size", "architectures", "model_type", "hidden_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "max_position_embeddings", "rope_scaling", "rope_parameters", "sliding_window",
    "use_sliding_window", "layer_types", "num_experts", "tie_word_embeddings", "dtype",
    "torch_dtype", "quantization_config", "bos_token_id", "eos_token_id", "pad_token_id",
    "text_config", "llm_config", "vision_config", "auto_map", "speculators_model_type",
    "speculators_config", "dflash_config", "num_nextn_predict_layers",
)  # fmt: skip


def one_changed(path: Path, key: str, value: str) -> None:
    """Write the file again with a raw JSON text for one key."""
    found = json.loads(path.read_text()) if path.exists() else {}
    found.pop(key, None)
    rest = json.dumps(found)[1:-1]
    path.write_text(f'{{{rest}{", " if rest else ""}"{key}": {value}}}')


@pytest.mark.parametrize("key", CONFIG_KEYS)
def test_every_key_of_a_config_with_every_kind_of_value(
    run: Run, good: Path, tmp_path: Path, key: str
) -> None:
    folder = make.folder(tmp_path / "m")
    whole = (folder / "config.json").read_text()
    for value in some(NONSENSE, key):
        (folder / "config.json").write_text(whole)
        one_changed(folder / "config.json", key, value)
        assert_light(run, folder, good, f"{key}: {value[:80]}")


def assert_light(run: Run, model: Path, good: Path, what: str) -> None:
    """Fewer runs than examine(): there are many values."""
    commands = [("inspect", model, "--format", "json"), ("inspect", model)]
    commands += [("pair", model, good, "--format", "json"), commands[0]]
    for command in {commands[0], commands[zlib.crc32(what.encode()) % 4]}:
        ran = run(*command)
        assert ran.code in ANY, (what, ran.err)
        assert_calm(ran)
        if not ran.out:
            assert "m/" in ran.err and ran.code == 3, (what, ran.err)
        elif "json" in command:
            strict_json(ran.out)


@pytest.mark.parametrize("value", ['"152k"', "1e30", "true", "-1", "1e999", "10" * 2000, "2097153"])
def test_vocab_sizes(run: Run, good: Path, tmp_path: Path, value: str) -> None:
    """Tables get padded to vocab_size, so one of a million millions must not get that far."""
    for part in ("vocab_size", "text_config"):
        folder = make.folder(tmp_path / part)
        inner = value if part == "vocab_size" else f'{{"vocab_size": {value}}}'
        one_changed(folder / "config.json", part, inner)
        ran = examine(run, folder, READ, good)
        assert "config.json: vocab_size is " in ran.err


def test_a_large_vocab_size_is_bounded(tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m", rows=260, vocab_size=2_097_152)
    found = bounded("pair", folder, folder, "--engine", "llama.cpp", seconds=40)
    assert found.ran.code in ANY
    assert found.peak < 10**9


@pytest.mark.parametrize("scaling", [
    {"rope_type": "linear", "factor": "NUMBER"},
    {"type": "yarn", "factor": "NUMBER", "original_max_position_embeddings": 4096},
    {"type": "yarn", "factor": 2, "original_max_position_embeddings": "NUMBER"},
    {"rope_type": "llama3", "factor": "NUMBER"},
])  # fmt: skip
def test_rope_scaling(run: Run, good: Path, tmp_path: Path, scaling: dict[str, Any]) -> None:
    folder = make.folder(tmp_path / "m")
    whole = (folder / "config.json").read_text()
    for number in (
        "NaN",
        "Infinity",
        "-Infinity",
        "1e300",
        "-1",
        "0",
        "true",
        "9" * 4000,
        "1e-320",
    ):
        (folder / "config.json").write_text(whole)
        value = json.dumps(scaling).replace('"NUMBER"', number)
        one_changed(folder / "config.json", "rope_scaling", value)
        assert_light(run, folder, good, value)


def tokenizer_with(folder: Path, old: str, new: str) -> Path:
    path = folder / "tokenizer.json"
    whole = path.read_text()
    assert whole.count(old) >= 1, old
    path.write_text(whole.replace(old, new, 1))
    return folder


IDS = {
    "negative": "-1", "boolean": "true", "text": '"5"', "float": "5.0", "null": "null",
    "10^12": "1000000000000", "2^63": "9223372036854775808", "4,000 digits": "9" * 4000,
    "NaN": "NaN", "list": "[5]", "deep list": "[" * 400 + "]" * 400, "object": "{}",
    "2,097,152": "2097152", "far away": "100000",
}  # fmt: skip


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_a_vocabulary(run: Run, good: Path, tmp_path: Path, kind: str) -> None:
    folder = tokenizer_with(make.folder(tmp_path / "m"), '"!": 33,', f'"!": {IDS[kind]},')
    ran = examine(run, folder, READ, good)
    assert "m/tokenizer.json" in ran.err and "id" in ran.err


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_added_tokens(run: Run, good: Path, tmp_path: Path, kind: str) -> None:
    folder = tokenizer_with(make.folder(tmp_path / "m"), '"id": 256,', f'"id": {IDS[kind]},')
    ran = examine(run, folder, READ, good)
    assert "m/tokenizer.json" in ran.err


@pytest.mark.parametrize("change", [
    ('"!": 33,', '"!": 34,'),  # an id twice
    ('"!": 33,', '"!": 33, "!": 33,'),  # a text twice
    ('"!": 33,', '"!": 33, "!": 20000,'),
    ('"!": 33,', '"\\ud800": 33,'),
    ('"!": 33,', '"\\u001b[2J\\u202e\\u0000": 33,'),
    ('"!": 33,', '"": 33,'),
    ('"!": 33,', '"' + "x" * 10**6 + '": 33,'),
    ('"!": 33,', '"!": 60000,'),
    ('"content": "<s>"', '"content": "\\ud800"'),
    ('"content": "<s>"', '"content": "</s>"'),
    ('"content": "<s>"', '"content": ""'),
    ('"id": 257', '"id": 256'),
    ('"id": 257', '"id": 0'),
    ('"id": 257', '"id": 65000'),
    ('"special": true', '"special": "yes"'),
    ('"normalized": false', '"normalized": [null]'),
    ('"type": "BPE"', '"type": ["BPE"]'),
    ('"type": "BPE"', '"type": null'),
    ('"type": "BPE"', '"type": "Unigram"'),
    ('"type": "BPE"', '"unk_token": 5'),
    ('"type": "BPE"', '"unk_token": {"a": []}, "byte_fallback": "x", "ignore_merges": []'),
    ('"type": "ByteLevel"', '"type": {}'),
    ('"type": "ByteLevel"', '"type": "Sequence", "pretokenizers": [5, null, {"type": []}]'),
    ('"normalizer": null', '"normalizer": [[[[1e999, NaN]]]]'),
    ('"normalizer": null', '"normalizer": "\\ud800"'),
    ('"merges": []', '"merges": null'),
    ('"merges": []', '"merges": {}'),
    ('"merges": []', '"merges": ["", " ", "a", "a b c", "\\ud800 x"]'),
    ('"merges": []', '"merges": [[], ["a"], ["a", "b", "c"]]'),
    ('"version": "1.0"', '"version": {"merges": [1, 2], "vocab": {"a": 0}}'),
    ('"version": "1.0"', '"model": 5'),
])  # fmt: skip
def test_odd_but_legal_tokenizers(
    run: Run, good: Path, tmp_path: Path, change: tuple[str, str]
) -> None:
    examine(run, tokenizer_with(make.folder(tmp_path / "m"), *change), ANY, good)


@pytest.mark.parametrize("change", [
    ('"merges": []', '"merges": [{"a": "b"}]'),
    ('"vocab": {', '"vocab": [], "other": {'),
])  # fmt: skip
def test_nonsense_in_a_tokenizer_that_does_no_harm(
    run: Run, tmp_path: Path, change: tuple[str, str]
) -> None:
    examine(run, tokenizer_with(make.folder(tmp_path / "m"), *change), ANY)


@pytest.mark.parametrize(("change", "says"), [
    (('"merges": []', '"merges": 5'), "model.merges is not a list of pairs"),
    (('"merges": []', '"merges": [5]'), "model.merges is not a list of pairs"),
    (('"merges": []', '"merges": [null]'), "model.merges is not a list of pairs"),
    (('"merges": []', '"merges": [[1, 2]]'), "model.merges is not a list of pairs"),
    (('"merges": []', '"merges": [["a", ["b"]]]'), "model.merges is not a list of pairs"),
    (('"vocab": {', '"vocab": null, "other": {'), "no vocabulary"),
    (('"vocab": {', '"vocab": 5, "other": {'), "no vocabulary"),
    (('"vocab": {', '"vocab": [5], "other": {'), "pairs"),
    (('"vocab": {', '"vocab": [[]], "other": {'), "pairs"),
    (('"vocab": {', '"vocab": [[null, 1]], "other": {'), "pairs"),
    (('"vocab": {', '"vocab": [["a", 0], {"b": 1}], "other": {'), "pairs"),
    (('"vocab": {', '"vocab": [[["a"], 0]], "other": {'), "pairs"),
    (('"model": {', '"model": [], "other": {'), "has no model"),
    (('"model": {', '"model": null, "other": {'), "has no model"),
    (('"model": {', '"other": {'), "has no model"),
    (('"added_tokens": [', '"added_tokens": {}, "other": ['), "added_tokens is not a list"),
    (('"added_tokens": [', '"added_tokens": [5, '), "without id and content"),
    (('"added_tokens": [', '"added_tokens": [null, '), "without id and content"),
    (('"added_tokens": [', '"added_tokens": [[], '), "without id and content"),
    (('"added_tokens": [', '"added_tokens": ["<s>", '), "without id and content"),
    (('"added_tokens": [', '"added_tokens": [{}, '), "without id and content"),
    (('"content": "<s>"', '"content": 5'), "without id and content"),
    (('"content": "<s>"', '"content": null'), "without id and content"),
    (('"content": "<s>"', '"content": ["<s>"]'), "without id and content"),
    (('"normalizer": null', '"normalizer": ' + "[" * 300 + "]" * 300), "nested too deeply"),
    (('"merges": []', '"merges": [], "x": ' + "[" * 300 + "]" * 300), "nested too deeply"),
])  # fmt: skip
def test_tokenizers_that_cannot_be_read(
    run: Run, good: Path, tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    ran = examine(run, tokenizer_with(make.folder(tmp_path / "m"), *change), READ, good)
    assert "m/tokenizer.json" in ran.err
    assert says in ran.err


def test_a_tokenizer_cut_off_anywhere(run: Run, good: Path, tmp_path: Path) -> None:
    folder = make.folder(
        tmp_path / "m", tokenizer_json=make.tokenizer(merges=[["a", "b"], ["c", "d"], ["ab", "cd"]])
    )
    whole = (folder / "tokenizer.json").read_bytes()
    assert run("inspect", folder).code == 0
    tail = len(whole) - whole.index(b'"merges"') + 20
    for cut in [*range(0, len(whole) - tail, 131), *range(len(whole) - tail, len(whole))]:
        write(folder / "tokenizer.json", whole[:cut])
        ran = run("inspect", folder)
        assert ran.code == 3, cut
        assert "m/tokenizer.json: not valid JSON" in ran.err
        assert ran.err.count("\n") == 1


@pytest.mark.parametrize("key", [
    "bos_token", "eos_token", "pad_token", "unk_token", "cls_token", "add_bos_token",
    "added_tokens_decoder", "chat_template", "auto_map", "tokenizer_class",
])  # fmt: skip
def test_every_key_of_a_tokenizer_config(run: Run, good: Path, tmp_path: Path, key: str) -> None:
    folder = make.folder(tmp_path / "m", tokenizer_config={})
    for value in some(NONSENSE, key):
        write(folder / "tokenizer_config.json", "{}")
        one_changed(folder / "tokenizer_config.json", key, value)
        assert_light(run, folder, good, f"{key}: {value[:80]}")


TEMPLATES = [
    '[{"name": "default", "template": "x"}]', '{"default": "x"}', "[[[[]]]]",
    text("{{ 'a' * 10**9 }}{% for i in range(10**9) %}{% endfor %}"),
    text("{{ ''.__class__.__mro__ }}{{ '%0900000000d' % 1 }}"), text("(" * 100_000), text("\ud800"),
]  # fmt: skip


@pytest.mark.parametrize("template", TEMPLATES, ids=range(len(TEMPLATES)))
def test_chat_templates_are_never_rendered(
    run: Run, good: Path, tmp_path: Path, template: str
) -> None:
    folder = make.folder(tmp_path / "m", tokenizer_config={})
    one_changed(folder / "tokenizer_config.json", "chat_template", template)
    examine(run, folder, ANY, good)
    write(folder / "chat_template.json", f'{{"chat_template": {template}}}')
    write(folder / "tokenizer_config.json", "{}")
    examine(run, folder, ANY, good)
    write(folder / "chat_template.jinja", template.encode() + b"\xff\xfe\x00")
    examine(run, folder, ANY, good)


def test_a_huge_chat_template(run: Run, tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    write(folder / "chat_template.jinja", b"x" * 15_000_000)
    examine(run, folder, ANY)
    sparse(folder / "chat_template.jinja", 10**10)
    assert "chat_template.jinja: 10,000,000,000 bytes" in examine(run, folder, READ).err


DECODERS = [
    {"x": {"content": "a"}}, {"-1": {"content": "a"}}, {"\u0665": {"content": "a"}},
    {"5": "a"}, {"5": {"content": 5}}, {"5": {"content": None}}, {"300": {"content": "\ud800"}},
    {"9" * 5000: {"content": "a"}}, {"1" * 9: {"content": "a"}}, {"00300": {"content": "a"}},
]  # fmt: skip


@pytest.mark.parametrize("decoder", DECODERS, ids=range(len(DECODERS)))
def test_added_tokens_beside_a_vocabulary(
    run: Run, good: Path, tmp_path: Path, decoder: dict[str, Any]
) -> None:
    folder = make.folder(tmp_path / "m", tokenizer_config={"added_tokens_decoder": decoder})
    (folder / "tokenizer.json").rename(folder / "unused")
    make.write_json(folder / "vocab.json", make.byte_vocabulary())
    ran = run("inspect", folder)
    examine(run, folder, ANY if ran.code == 0 else READ, good)


def test_added_tokens_json(run: Run, good: Path, tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    (folder / "tokenizer.json").rename(folder / "unused")
    make.write_json(folder / "vocab.json", make.byte_vocabulary())
    write(folder / "merges.txt", b"#version: 0.2\na b\n\xff \xfe\n\n \n")
    for value in NONSENSE:
        write(folder / "added_tokens.json", f'{{"<x>": {value}}}')
        assert_light(run, folder, good, value[:80])


@pytest.mark.parametrize(
    ("name", "filling"),
    [
        ("tokenizer.json", "[],"),
        ("config.json", '"ab",'),
    ],
)
def test_small_text_of_many_objects(tmp_path: Path, name: str, filling: str) -> None:
    """64 MB of brackets would be several gigabytes of lists."""
    folder = make.folder(tmp_path / "m")
    size = 15_000_000 if name == "config.json" else 60_000_000
    body = filling * (size // len(filling.encode()))
    body = f"{{{body}" if ":" in filling else f'{{"model": [{body}'
    write(folder / name, body + ('"b": 0}' if ":" in filling else "0]}"))
    found = bounded("inspect", folder)
    assert found.ran.code in (0, 3), found.ran.err
    assert found.peak < 10**9


def test_sixty_megabytes_of_spaces(tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "m")
    write(folder / "tokenizer.json", '{"model": {"vocab": {' + " " * 60_000_000 + "}}}")
    found = bounded("inspect", folder)
    assert found.ran.code == 0


@pytest.mark.parametrize("part", ["],[", '\\",\\"'])
def test_merges_that_look_like_json(tmp_path: Path, part: str) -> None:
    """Searching for the ends of strings must not take quadratic time, or memory."""
    folder = make.folder(tmp_path / "m")
    whole = (folder / "tokenizer.json").read_text()
    pair = f'"{part * (8_000_000 // len(part))}"' if '"' not in part else f'"{part * 10**6}"'
    write(folder / "tokenizer.json", whole.replace('"merges": []', f'"merges": [[{pair}, "x"]]'))
    found = bounded("inspect", folder)
    assert found.ran.code in (0, 3), found.ran.err
    assert found.peak < 10**9
