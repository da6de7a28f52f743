"""Facts against the libraries that own the formats."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftcheck.errors import ReadError
from draftcheck.models import read as facts
from draftcheck.models import refs, stored
from draftcheck.models.readers.gguf.header import TENSOR_TYPES
from draftcheck.models.readers.tokenizer import tokenizer_json
from draftcheck.models.readers.tokenizer.vocabulary import byte_level
from draftcheck.values.facts import NO_TOKEN, ConfigFacts, ModelFacts
from tests import make
from tests.conftest import FIXTURES, Run


def read(path: Path) -> ModelFacts:
    return facts.read(refs.parse(str(path)))


def texts(found: ModelFacts) -> dict[str, int]:
    tokens = found.tokenizer.tokens or ()
    return {text.decode(): i for i, text in enumerate(tokens) if text is not None}


TOKENIZERS = [FIXTURES / "pair/target", "llama2", "llama3_1", "qwen2_5", "qwen3", "yi"]


@pytest.mark.realdata
@pytest.mark.parametrize("name", TOKENIZERS, ids=str)
def test_tokenizer_json_equals_the_tokenizers_library(name: str | Path, realdata: Path) -> None:
    from tokenizers import Tokenizer

    folder = realdata / "tokenizers" / name
    found = read(folder)
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert texts(found) == theirs.get_vocab(with_added_tokens=True)
    assert found.tokenizer.base_size == theirs.get_vocab_size(with_added_tokens=False)


def test_fixture_tokenizer_equals_the_tokenizers_library() -> None:
    from tokenizers import Tokenizer

    found = read(FIXTURES / "pair/target")
    theirs = Tokenizer.from_file(str(FIXTURES / "pair/target/tokenizer.json"))
    assert texts(found) == theirs.get_vocab(with_added_tokens=True)
    assert found.tokenizer.kind == "byte-bpe"
    assert found.tokenizer.files.keys() == {"tokenizer.json"}


def test_merges_have_one_digest_in_both_spellings(tmp_path: Path) -> None:
    pairs = [["a", "b"], ["c d", "e"], ["\u0120", "t"]]
    old = ["a b", "c\u0120d e", "\u0120 t"]
    one = make.folder(tmp_path / "a", tokenizer_json=make.tokenizer(merges=pairs))
    two = make.folder(tmp_path / "b", tokenizer_json=make.tokenizer(merges=old))
    other = make.folder(tmp_path / "c", tokenizer_json=make.tokenizer(merges=old[:2]))
    assert read(one).tokenizer.merges == read(two).tokenizer.merges
    assert read(one).tokenizer.merges != read(other).tokenizer.merges


def test_long_merges_have_one_digest_in_every_layout(tmp_path: Path) -> None:
    """Text inside tokens that looks like JSON must not matter."""
    nasty = ['],["', '", "', '\\"', '"],', "[[", "\\", '\\\\",', "\u0120x"]
    pairs = [[nasty[i % 8], nasty[(i // 8) % 8] + str(i)] for i in range(120_000)]
    compact = make.tokenizer(merges=pairs)
    one = make.folder(tmp_path / "a", tokenizer_json=compact)
    two = make.folder(tmp_path / "b")
    (two / "tokenizer.json").write_text(json.dumps(compact, indent=1), encoding="utf-8")
    three = make.folder(tmp_path / "c")
    last = {"model": compact["model"], **{k: v for k, v in compact.items() if k != "model"}}
    (three / "tokenizer.json").write_text(json.dumps(last), encoding="utf-8")  # other layout
    four = make.folder(tmp_path / "d")
    compact["model"]["merges"] = [
        " ".join(part.replace(" ", "\u0120") for part in pair) for pair in pairs
    ]
    (four / "tokenizer.json").write_text(json.dumps(compact, indent=2), encoding="utf-8")
    digests = {read(folder).tokenizer.merges for folder in (one, two, three, four)}
    assert len(digests) == 1


LAYOUTS: tuple[dict[str, Any], ...] = ({}, {"indent": 2}, {"separators": (",", ":")})
PARTS = st.text(alphabet=st.sampled_from('a "\\],[\n\0\u0120é\ud800'), max_size=6)


@given(
    st.lists(st.tuples(PARTS, PARTS)) | st.lists(PARTS),
    st.sampled_from(LAYOUTS),
    st.booleans(),
)
def test_merges_flattened_are_the_decoded_ones(
    entries: list[Any], layout: dict[str, Any], ascii_only: bool
) -> None:
    raw = json.dumps(entries, ensure_ascii=ascii_only, **layout).encode("utf-8", "surrogatepass")
    flat = tokenizer_json.flatten(raw)
    if entries and isinstance(entries[0], str):
        lines = "\n".join(entries).replace(" ", "\n")
    else:
        lines = "\n".join(part for pair in entries for part in pair).replace(" ", "\u0120")
    # None: it is left to the parser.
    assert flat in (None, lines.encode("utf-8", "surrogatepass"))


def test_usual_merges_are_flattened() -> None:
    """Else the property above could hold by giving every file to the parser."""
    for entries in ([["a", 'b"'], ["c", "d"]] * 9_000, ["a b", "c\\ d"] * 9_000):
        for layout in LAYOUTS:
            assert tokenizer_json.flatten(json.dumps(entries, **layout).encode()) is not None


def test_families_share_a_decoded_vocabulary(tmp_path: Path) -> None:
    """Files that differ elsewhere share the token texts, and added tokens stay each one's own."""
    one, two = make.tokenizer(), make.tokenizer()
    two["added_tokens"][0]["content"] = "<other>"
    first = read(make.folder(tmp_path / "a", tokenizer_json=one)).tokenizer.tokens
    second = read(make.folder(tmp_path / "b", tokenizer_json=two)).tokenizer.tokens
    assert first is not None and second is not None
    assert first[33] is second[33]
    assert (first[256], second[256]) == (b"<s>", b"<other>")


def test_vocabulary_and_merges_are_the_models_own(tmp_path: Path) -> None:
    """Others of these names stand before the model, and texts like our marks in their place."""
    decoy = {"vocab": {"decoy": 0}, "merges": []}
    body = {"version": decoy, **{k: v for k, v in make.tokenizer().items() if k != "version"}}
    found = read(make.folder(tmp_path / "a", tokenizer_json=body)).tokenizer
    assert found.base_size == 256 and b"decoy" not in (found.tokens or ())
    body["model"] |= {"vocab": "cut out here", "merges": "cut out here"}
    with pytest.raises(ReadError, match="no vocabulary"):
        read(make.folder(tmp_path / "b", tokenizer_json=body))


def test_special_tokens_know_their_file(tmp_path: Path) -> None:
    folder = make.folder(
        tmp_path / "a",
        tokenizer_config={
            "bos_token": None,
            "eos_token": {"content": "</s>"},
            "add_bos_token": True,
        },
        generation={"eos_token_id": [257, 5]},
    )
    make.write_json(folder / "special_tokens_map.json", {"pad_token": "<pad>"})
    make.write_json(folder / "generation_config.json", {"eos_token_id": [257, 5]})
    found = read(folder)
    tokenizer = found.tokenizer
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (NO_TOKEN, 257, 258)
    assert tokenizer.origin["eos_id"] == "tokenizer_config.json eos_token"
    assert tokenizer.origin["pad_id"] == "special_tokens_map.json pad_token"
    assert tokenizer.add_bos is True and tokenizer.add_eos is None
    assert found.config.generation_eos_ids == (257, 5)


def read_configs(
    folder: Path, config: dict[str, Any], generation: dict[str, Any] | None
) -> ConfigFacts:
    make.write_json(folder / "config.json", {"model_type": "llama", "vocab_size": 4, **config})
    if generation is not None:
        make.write_json(folder / "generation_config.json", generation)
    return read(folder).config


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [
        ({}, None, True),
        ({"use_cache": False}, None, False),
        ({"use_cache": False}, {}, True),
        ({}, {"use_cache": False}, False),
        ({"text_config": {"model_type": "llama", "use_cache": False}}, None, None),
    ],
)
def test_what_generate_starts_from(
    tmp_path: Path, config: dict[str, Any], generation: dict[str, Any] | None, expected: bool | None
) -> None:
    found = read_configs(tmp_path, config, generation)
    assert found.use_cache is expected
    assert found.vocab_size_outside is (True if "text_config" in config else None)


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [
        ({}, None, ("unset", "unset", None)),
        ({"cache_implementation": "hybrid"}, {}, ("hybrid", "unset", None)),
        (
            {"text_config": {"model_type": "gemma3_text", "cache_implementation": "hybrid"}},
            {"cache_implementation": "static", "transformers_version": "4.50.0.dev0"},
            ("hybrid", "static", "4.50.0.dev0"),
        ),
        ({"cache_implementation": 3}, None, (None, "unset", None)),
    ],
)
def test_the_cache_that_the_files_ask_for(
    tmp_path: Path,
    config: dict[str, Any],
    generation: dict[str, Any] | None,
    expected: tuple[str | None, ...],
) -> None:
    found = read_configs(tmp_path, config, generation)
    assert (found.cache_kind, found.generation_cache_kind, found.generation_version) == expected


def test_older_bitsandbytes_checkpoints_say_how_they_are_packed(tmp_path: Path) -> None:
    said = {"load_in_8bit": True, "llm_int8_threshold": 6.0}
    found = read_configs(tmp_path, {"quantization_config": said}, None)
    assert found.quantization == {"load_in_8bit": True}


def test_older_mlx_checkpoints_have_their_own_key_alone(tmp_path: Path) -> None:
    said = {"bits": 4, "group_size": 64}
    found = read_configs(tmp_path, {"quantization": said}, None)
    assert found.quantization == {**said, "mlx_key_alone": True}
    both = {"quantization": said, "quantization_config": said}
    assert read_configs(tmp_path, both, None).quantization == said


def test_older_compressed_tensors_checkpoints_have_another_key(tmp_path: Path) -> None:
    said = {"quant_method": "compressed-tensors", "format": "int-quantized"}
    found = read_configs(tmp_path, {"compression_config": said}, None)
    assert found.quantization == {**said, "compression_config_alone": True}
    both = {"compression_config": said, "quantization_config": {"quant_method": "fp8"}}
    assert read_configs(tmp_path, both, None).quantization == {"quant_method": "fp8"}


def test_a_quantisation_in_the_text_part_is_marked(tmp_path: Path) -> None:
    said = {"quant_method": "awq", "bits": 4}
    part = {"model_type": "llama", "quantization_config": said}
    found = read_configs(tmp_path, {"text_config": part}, None)
    assert found.quantization == {**said, "in_text_part": True}
    both = {"text_config": part, "quantization_config": said}
    assert read_configs(tmp_path, both, None).quantization == said


def test_missing_facts_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    make.write_json(folder / "tokenizer.json", make.tokenizer())
    found = read(folder)
    config = found.config
    assert (config.vocab_size, config.context, config.heads, config.tied) == (None,) * 4
    assert found.weights.tensors is None and found.tokenizer.chat_template is None
    assert found.role is None


def test_sentencepiece_equals_the_library(tmp_path: Path) -> None:
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    text = tmp_path / "text.txt"
    text.write_text(
        "\n".join(f"the {i} quick brown foxes jump over {i * i} dogs" for i in range(400))
    )
    for kind, ours in (("bpe", "spm-bpe"), ("unigram", "unigram")):
        folder = tmp_path / kind
        folder.mkdir()
        spm.SentencePieceTrainer.train(
            input=str(text), model_prefix=str(folder / "tokenizer"), vocab_size=330,
            model_type=kind, byte_fallback=True, minloglevel=2,
            user_defined_symbols=["<tool>"],
        )  # fmt: skip
        theirs = spm.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        make.write_json(folder / "config.json", make.CONFIG)
        make.write_json(folder / "added_tokens.json", {"<extra>": 330})
        found = read(folder)
        tokens = found.tokenizer.tokens or ()
        pieces = [theirs.id_to_piece(i).encode() for i in range(theirs.vocab_size())]
        assert list(tokens[:330]) == pieces
        assert tokens[330] == b"<extra>"
        assert found.tokenizer.kind == ours
        assert found.tokenizer.bos_id == theirs.bos_id()
        assert len(found.tokenizer.byte_tokens) == 256


def test_tiktoken_ranks(tmp_path: Path) -> None:
    ranks = [bytes([i]) for i in range(256)] + [b" the", "ü".encode()]
    lines = b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(ranks))
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "tokenizer.model").write_bytes(lines)
    found = read(folder)
    assert found.tokenizer.kind == "byte-bpe"
    assert (found.tokenizer.tokens or [])[256] == "Ġthe".encode()
    assert found.tokenizer.length is None, "special tokens are not in the file"
    assert (folder / "tokenizer.model").rename(folder / "qwen.tiktoken")
    assert texts(read(folder)) == texts(found)


def test_tekken(tmp_path: Path) -> None:
    vocab = [
        {"rank": i, "token_bytes": base64.b64encode(bytes([i])).decode(), "token_str": None}
        for i in range(256)
    ]
    body = {
        "config": {
            "pattern": ".",
            "num_vocab_tokens": 256,
            "default_vocab_size": 250,
            "default_num_special_tokens": 20,
            "version": "v3",
        },
        "vocab": vocab,
    }
    folder = tmp_path / "a"
    folder.mkdir()
    make.write_json(folder / "tekken.json", body)
    found = read(folder)
    tokens = found.tokenizer.tokens or ()
    assert len(tokens) == 250
    assert tokens[:3] == [b"<unk>", b"<s>", b"</s>"] and tokens[19] == b"<SPECIAL_19>"
    assert tokens[20 + 65] == b"A"
    assert (found.tokenizer.bos_id, found.tokenizer.eos_id) == (1, 2)
    body["special_tokens"] = [{"rank": 4, "token_str": "[NEW]", "is_control": True}]
    make.write_json(folder / "tekken.json", body)
    assert (read(folder).tokenizer.tokens or ())[4] == b"[NEW]"


def test_byte_level_alphabet_is_gpt2s() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    assert {byte_level(bytes([b])).decode() for b in range(256)} == set(ByteLevel.alphabet())
    assert byte_level(b" a\n") == "ĠaĊ".encode()


def test_gguf_equals_the_gguf_library(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = FIXTURES / "pair/target.gguf"
    found = read(path)
    reader = gguf.GGUFReader(path)
    field = reader.fields["tokenizer.ggml.tokens"]
    assert list(found.tokenizer.tokens or ()) == [bytes(field.parts[i]) for i in field.data]
    theirs = {t.name: (t.tensor_type.name, t.n_bytes) for t in reader.tensors}
    ours = {name: (t.dtype, t.nbytes) for name, t in (found.weights.tensors or {}).items()}
    assert ours == theirs
    assert found.gguf is not None and found.gguf.tensor_fault is None


def test_table_of_ggml_types_equals_the_gguf_library() -> None:
    constants = pytest.importorskip("gguf.constants")
    for kind, (block, size) in constants.GGML_QUANT_SIZES.items():
        assert TENSOR_TYPES[int(kind)] == (kind.name, block, size)


def test_split_gguf_is_one_model(tmp_path: Path, run: Run) -> None:
    first = tmp_path / "m-00001-of-00002.gguf"
    make.gguf(first, keys={"split.count": ("uint16", 2), "split.no": ("uint16", 0)})
    make.write_gguf(tmp_path / "m-00002-of-00002.gguf", {"split.no": ("uint16", 1)}, {"x": (4, 4)})
    found = read(first)
    assert {"token_embd.weight", "x"} <= set(found.weights.tensors or ())
    assert found.gguf is not None and found.gguf.splits == 2
    ran = run("inspect", tmp_path / "m-00002-of-00002.gguf")
    assert ran.code == 2 and "m-00001-of-00002.gguf" in ran.err
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    ran = run("inspect", first)
    assert ran.code == 0 and "part m-00002-of-00002.gguf of 2 is not there" in ran.err
    ran = run("pair", first, first)
    assert ran.code == 1 and "part m-00002-of-00002.gguf of 2 is not there" in ran.out


@pytest.mark.parametrize("keys", [{}, {"split.count": ("uint16", 1)}])
def test_a_name_alone_makes_no_part(tmp_path: Path, run: Run, keys: dict[str, Any]) -> None:
    """llama.cpp asks split.count, not the name: such a file is whole without a second part."""
    only = make.gguf(tmp_path / "m-00001-of-00002.gguf", keys=keys)
    found = read(only)
    assert found.gguf is not None and (found.gguf.splits, found.gguf.split_fault) == (1, None)
    make.write_gguf(tmp_path / "m-00002-of-00002.gguf", {}, {"x": (4, 4)})
    assert "x" not in (read(only).weights.tensors or ())
    assert "LCP109" not in run("pair", only, only, "--engine", "llama.cpp").out


def test_folder_with_one_gguf_means_that_model(tmp_path: Path, run: Run) -> None:
    make.gguf(tmp_path / "a.gguf")
    assert read(tmp_path).kind == "gguf"
    make.gguf(tmp_path / "b.gguf")
    ran = run("inspect", tmp_path)
    assert ran.code == 2 and "a.gguf, b.gguf" in ran.err


@pytest.mark.parametrize("name", ["target", "target.gguf"])
def test_saved_facts_stand_for_the_model(name: str, tmp_path: Path, run: Run) -> None:
    model, file = FIXTURES / "pair" / name, tmp_path / "t.facts.json"
    assert run("inspect", model, "--output", file).code == 0
    draft = FIXTURES / "pair" / name.replace("target", "draft")
    one = run("pair", model, draft, "--format", "json").json
    two = run("pair", file, draft, "--format", "json").json
    assert one["engines"] == two["engines"]
    assert two["target"]["ref"] == str(file)
    assert one["vocabulary"] == two["vocabulary"]
    assert str(FIXTURES) not in file.read_text().replace(str(model), "")


def test_saved_facts_keep_every_byte(tmp_path: Path) -> None:
    nasty = [b"\xff\xfe", b"\x00a", "\ud800".encode("utf-8", "surrogatepass"), b"[EMPTY]", b""]
    path = make.gguf(tmp_path / "a.gguf", [*nasty, *make.gguf_tokens()])
    found = read(path)
    stored.save(found, tmp_path / "a.facts.json")
    again = read(tmp_path / "a.facts.json")
    assert list(again.tokenizer.tokens or ()) == list(found.tokenizer.tokens or ())
    assert found.gguf is not None and again.gguf is not None
    assert again.gguf.keys.keys() == found.gguf.keys.keys()


ROLES = [
    ({"architectures": ["PEagleDraftModel"]}, {}, "peagle"),
    ({"architectures": ["LlamaForCausalLMEagle3"], "ptd_token_id": 7}, {}, "peagle"),
    ({"architectures": ["LlamaForCausalLMEagle3"]}, {"mask_hidden": ("BF16", [1, 4])}, "peagle"),
    ({"architectures": ["LlamaForCausalLM"]}, {}, "full"),
    ({"architectures": ["LlamaForCausalLMEagle3"]}, {}, "eagle3"),
    ({"architectures": ["LlamaForCausalLM"]}, {"fc.weight": ("F32", (64, 128))}, "eagle"),
    ({"architectures": ["LlamaForCausalLM"]}, {"d2t": ("I64", (8,))}, "eagle3"),
    ({"architectures": ["MedusaModel"], "model_type": "medusa"}, {}, "medusa"),
    ({"architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator"}, {},
     "mlp_speculator"),
    ({"architectures": ["DFlashDraftModel"]}, {}, "dflash"),
    ({"architectures": ["Qwen3DSparkModel"]}, {}, "dspark"),
    ({"architectures": ["Qwen3NextMTP"], "model_type": "qwen3_next_mtp"}, {}, "mtp"),
    ({"speculators_model_type": "eagle3", "architectures": ["X"]}, {}, "eagle3"),
    ({"architectures": ["BertModel"]}, {}, "encoder"),
    (
        {
            "architectures": ["NemotronH_Omni_Reasoning_V3"],
            "text_config": {"model_type": "nemotron_h", "num_nextn_predict_layers": 1},
        },
        {},
        "full",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "tensors", "role"), ROLES)
def test_kind_of_model(config: dict, tensors: dict, role: str, tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "a", config=config)
    if tensors:
        make.safetensors(folder / "model.safetensors", tensors)
    assert read(folder).role == role


@pytest.mark.parametrize("bias", [True, False])
def test_a_bias_of_an_eagle_head_is_seen(bias: bool, tmp_path: Path) -> None:
    folder = make.folder(tmp_path / "a", config={"architectures": ["LlamaForCausalLM"]})
    tensors = {"fc.weight": ("F32", (64, 128))} | ({"fc.bias": ("F32", (64,))} if bias else {})
    make.safetensors(folder / "model.safetensors", tensors)
    head = read(folder).head
    assert head is not None and head.fc_bias is bias


SPECULATORS = [
    ({"emb_dim": 96, "inner_dim": 32}, 96),
    ({"emb_dim": "96", "inner_dim": "32", "input_hidden_dim": 64}, 64),
]


@pytest.mark.parametrize(("sizes", "width"), SPECULATORS, ids=["ibm", "arctic"])
def test_the_states_that_an_mlp_speculator_reads(sizes: dict, width: int, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mlp_speculator", **sizes}))
    head = read(tmp_path).head
    assert head is not None and head.hidden == width


def test_a_head_names_its_verifier(tmp_path: Path, run: Run) -> None:
    config = {
        "speculators_model_type": "eagle3",
        "speculators_config": {"verifier": {"name_or_path": "org/big", "architectures": []}},
    }
    folder = make.folder(tmp_path / "a", config=config)
    assert read(folder).verifier == "org/big"
    ran = run("pair", make.folder(tmp_path / "b"), folder, "--engine", "transformers")
    assert ran.code == 1, "transformers has no method for such a head"
    assert "kind eagle3" in ran.out


CONTEXTS = [
    ({}, 2048),
    ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, 8192),
    ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 2048),
    (
        {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}},
        4096,
    ),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 1.0}}, 2048),
]


@pytest.mark.parametrize(("change", "context"), CONTEXTS)
def test_context_with_rope_scaling(change: dict, context: int, tmp_path: Path) -> None:
    assert read(make.folder(tmp_path / "a", config=change)).config.scaled_context == context


@pytest.mark.parametrize(
    ("section", "mrope"), [("mrope_section", True), ("xdrope_section", None), ("factor", False)]
)
def test_a_section_under_its_older_name_is_not_called_mrope(
    section: str, mrope: bool | None, tmp_path: Path
) -> None:
    config = {"rope_scaling": {"type": "dynamic", section: [16, 24, 24]}}
    assert read(make.folder(tmp_path / "a", config=config)).config.mrope is mrope


@pytest.mark.parametrize(
    ("part", "layers"), [({"num_nextn_predict_layers": 2}, 2), ({}, None), ([1], None)]
)
def test_a_number_of_mtp_layers_in_a_part_of_its_own(
    part: object, layers: int | None, tmp_path: Path
) -> None:
    config = {"mtp_config": part}
    assert read(make.folder(tmp_path / "a", config=config)).config.mtp_layers == layers


def test_text_config_wins_in_multimodal_models(tmp_path: Path) -> None:
    inner = {"vocab_size": 999, "model_type": "gemma3_text", "num_attention_heads": 8}
    inner["architectures"] = ["InnerForCausalLM"]
    config = {"text_config": inner, "vision_config": {}, "model_type": "gemma3"}
    found = read(make.folder(tmp_path / "a", config=config)).config
    assert (found.vocab_size, found.model_type, found.heads) == (999, "gemma3_text", 8)
    assert found.multimodal is True
    assert found.text_architectures == ("InnerForCausalLM",)
    assert read(make.folder(tmp_path / "b", config={})).config.text_architectures is None


@pytest.mark.parametrize(
    "config",
    [
        {
            "thinker_config": {
                "text_config": {"model_type": "qwen3_omni_moe_text"},
                "vision_config": {},
            }
        },
        {"model_type": "phi4mm", "embd_layer": {"embedding_cls": "image_audio"}},
        {"model_type": "chameleon", "vq_config": {}},
        {"model_type": "ovis", "llm_config": {}, "visual_tokenizer_config": {}},
        {"model_type": "granite_speech", "text_config": {}, "projector_config": {}},
        {"model_type": "midashenglm", "text_config": {}, "audio_encoder_config": {}},
        {"model_type": "molmo"},
        {"model_type": "ultravox", "audio_model_id": "openai/whisper-large-v3-turbo"},
        {"model_type": "fuyu", "text_config": {"model_type": "persimmon"}},
        {"model_type": "minicpmv", "vision_encoder": "vit_so400m"},
    ],
)
def test_other_parts_make_a_model_multimodal(tmp_path: Path, config: dict[str, Any]) -> None:
    assert read(make.folder(tmp_path / "a", config=config)).config.multimodal is True


@pytest.mark.parametrize("model_type", ["minimax_m1", "bailing_hybrid", "jet_nemotron"])
def test_linear_attention_is_a_recurrent_state(tmp_path: Path, model_type: str) -> None:
    config = {"model_type": model_type}
    assert read(make.folder(tmp_path / "a", config=config)).config.recurrent is True


@pytest.mark.parametrize(("kinds", "recurrent"), [([1, 1, 1], False), ([0, 0, 1], True)])
def test_minimax_of_attention_alone_has_no_recurrent_state(
    tmp_path: Path, kinds: list[int], recurrent: bool
) -> None:
    config = {"model_type": "minimax", "attn_type_list": kinds}
    assert read(make.folder(tmp_path / "a", config=config)).config.recurrent is recurrent


@pytest.mark.parametrize(
    ("config", "size", "role"),
    [
        ({"num_hidden_layers": 1}, 10**8, None),
        ({"num_hidden_layers": 1, "draft_vocab_size": 100}, 10**8, "eagle3"),
        ({"num_hidden_layers": 40, "hidden_size": 512, "intermediate_size": 2048}, 10**7, None),
        ({"num_hidden_layers": 2}, 10**6, "full"),
    ],
)
def test_a_pickled_head_with_the_class_of_its_target_is_no_whole_model(
    tmp_path: Path, config: dict[str, Any], size: int, role: str | None
) -> None:
    folder = make.folder(tmp_path / "EAGLE-Llama", config=config)
    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        file.truncate(size)
    assert read(folder).role == role


def test_inspect_prints_text_json_and_markdown(run: Run) -> None:
    model = FIXTURES / "pair/target.gguf"
    text = run("inspect", model).out
    assert "as llama.cpp loads it" in text and "byte-bpe" in text
    body = run("inspect", model, "--format", "json").json
    assert body["facts"]["tokenizer"]["kind"] == "byte-bpe"
    assert body["llama_cpp"]["type"] == "BPE"
    assert run("inspect", model, "--format", "markdown").out.startswith("### ")


def test_inspect_saves_only_under_its_own_suffix(run: Run, tmp_path: Path) -> None:
    ran = run("inspect", FIXTURES / "pair/target", "--output", tmp_path / "x.json")
    assert ran.code == 2 and ".facts.json" in ran.err


def test_hub_cache_snapshot_is_a_folder(tmp_path: Path) -> None:
    repo = tmp_path / "models--org--name"
    snapshot = repo / "snapshots" / ("a" * 40)
    real = make.folder(tmp_path / "real")
    (repo / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for file in real.iterdir():
        file.rename(repo / "blobs" / file.name)
        (snapshot / file.name).symlink_to(f"../../blobs/{file.name}")
    assert read(snapshot).tokenizer.length == 260


@pytest.mark.parametrize(("kind", "positions"), [("gpt2", "learned"), ("xglm", "sinusoidal")])
def test_only_learned_positions_end(kind: str, positions: str, tmp_path: Path, run: Run) -> None:
    target = make.folder(tmp_path / "target", max_position_embeddings=4096)
    draft = make.folder(tmp_path / "draft", model_type=kind, max_position_embeddings=32)
    assert read(draft).config.positions == positions
    said = run("pair", target, draft, "--engine", "transformers@5.22.2", "--method", "generate")
    assert ("TRF006" in said.out) is (kind == "gpt2")
