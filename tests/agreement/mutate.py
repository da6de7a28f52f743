"""Target/draft pairs of deterministically changed vocabularies, to compare with real engines.

`CASES` lists the pairs; `write(case, folder)` writes the two files of one and gives their paths;
`available(case)` says whether its vocabularies are here (real ones: folder DRAFTCHECK_REALDATA).
"""

from __future__ import annotations

import random

import mutate_bases
from mutate_bases import BYTE, REAL
from mutate_gguf import MERGES, SCORES, TOKENS, TYPES, value
from mutate_ops import NONE, Case, Mutation, Operation, available, write

__all__ = ["CASES", "Case", "available", "write"]


def sides(name: str, base: str, mutation: Mutation, other: Mutation = NONE) -> list[Case]:
    """The same mutation on the draft, and on the target."""
    return [
        Case(f"{base}/{name}/draft", base, other, mutation),
        Case(f"{base}/{name}/target", base, mutation, other),
    ]


def both(name: str, base: str, mutation: Mutation) -> Case:
    """The same mutation on both sides."""
    return Case(f"{base}/{name}/both", base, mutation, mutation)


def draft(name: str, base: str, *mutation: Operation) -> Case:
    """A mutation of the draft only."""
    return Case(f"{base}/{name}/draft", base, NONE, mutation)


def size_cases() -> list[Case]:
    """Vocabularies of different sizes."""
    found = []
    for base in ("small-bpe", "small-spm", "small-wpm", "small-ugm", "small-rwkv", "qwen2"):
        for gap in (127, 128, 129):
            found += sides(f"size+{gap}", base, (("grow", gap),))
    for base in ("small-bpe", "llama-spm", "qwen2"):
        for gap in (-128, -129):
            found += sides(f"size{gap}", base, (("grow", gap),))
    for size in (0, 1, 2, 3, 4, 5, 6, 11, 12, 100):
        for base in ("small-bpe", "small-spm", "small-wpm", "small-ugm"):
            found.append(both(f"only-{size}", base, (("shrink", size),)))
    for size in (0, 12, 100):
        found.append(both(f"only-{size}", "small-rwkv", (("shrink", size),)))
    return found


def text_cases() -> list[Case]:
    """One text differs, or only looks different."""
    found = []
    other = b"<|something else|>"
    for base in ("small-bpe", "small-spm", "small-wpm", "small-ugm", "qwen2", "llama-spm", "phi-3"):
        for token in (0, 4, 5, 300, -1):
            found.append(draft(f"text{token}", base, ("text", token, other)))
    for base in ("small-bpe", "small-spm", "qwen2"):
        mutation = (("text", -1, other), ("grow", 100))
        found += sides("text-last-common", base, mutation)
        found += sides("text-beyond", base, (("grow", 100), ("text", -1, other)))
    for base in ("small-bpe", "small-spm", "small-wpm"):
        found += odd_text_cases(base)
    found.append(draft("swap", "small-bpe", ("swap", 300, 301)))
    found.append(draft("swap-low", "small-bpe", ("swap", 0, 4)))
    found.append(draft("swap-across", "small-bpe", ("swap", 4, 5)))
    return found


def odd_text_cases(base: str) -> list[Case]:
    """Empty texts, NUL bytes, bytes that are not UTF-8."""
    at = 300
    pairs = {
        "empty-vs-name": (b"", b"[EMPTY_300]"),
        "empty-vs-other-name": (b"", b"[EMPTY_301]"),
        "empty-both": (b"", b""),
        "nul-same-start": (b"zzqq\0a", b"zzqq\0b"),
        "nul-vs-cut": (b"zzqq\0a", b"zzqq"),
        "nul-vs-other": (b"zzqq\0a", b"zzqqa"),
        "nul-first-vs-empty": (b"\0abc", b""),
        "nul-first-vs-name": (b"\0abc", b"[EMPTY_300]"),
        "invalid-utf8-same": (b"zz\xff\xfe", b"zz\xff\xfe"),
        "invalid-utf8-differs": (b"zz\xff\xfe", b"zz\xff\xfd"),
        "invalid-utf8-vs-replacement": (b"zz\xff", b"zz\xef\xbf\xbd"),
        "overlong": (b"zz\xc1\xa1", b"zz\xc1\xa1"),
        "surrogate": (b"zz\xed\xa0\x80", b"zz\xed\xa0\x80"),
        "codepoint-too-large": (b"zz\xf4\x90\x80\x80", b"zz\xf4\x90\x80\x80"),
        "space-vs-mark": (b"zz\xc4\xa0", b"zz "),
        "long": (b"z" * 70000, b"z" * 70000),
        "long-differs": (b"z" * 70000, b"z" * 69999),
        "newline": (b"zz\nzz", b"zz\nzy"),
    }
    return [
        Case(f"{base}/{name}", base, (("text", at, one),), (("text", at, two),))
        for name, (one, two) in pairs.items()
    ]


def duplicate_cases() -> list[Case]:
    """Two tokens with one text."""
    found = []
    for base in ("small-bpe", "small-spm", "small-wpm", "small-ugm", "small-rwkv", "qwen2"):
        found += sides("duplicate", base, (("same", 300, 301),))
    for base in ("small-bpe", "small-spm", "llama-spm"):
        found += sides("duplicate-low", base, (("same", 0, 3),))
        found.append(both("duplicate", base, (("same", 300, 301),)))
        found.append(draft("duplicate-last", base, ("same", -1, 300)))
        found.append(draft("duplicate-nul", base, ("text", 300, b"zq\0a"), ("text", 301, b"zq\0b")))
        found.append(draft("duplicate-nul-cut", base, ("text", 300, b"zq"), ("text", 7, b"zq\0")))
        found.append(draft("two-empty", base, ("text", 300, b""), ("text", 301, b"")))
        empty = (("text", 300, b""), ("text", 301, b"[EMPTY_300]"))
        found.append(Case(f"{base}/duplicate-empty-name/draft", base, NONE, empty))
        free = (("text", 300, b""), ("text", 301, b"[EMPTY_301]"))
        found.append(Case(f"{base}/empty-name-no-duplicate/both", base, free, free))
    return found


def flag_cases() -> list[Case]:
    """Beginning and end of sequence: flags times ids."""
    found = []
    ids = {
        "equal": (("put", "{}_token_id", "u32", 300), ("put", "{}_token_id", "u32", 300)),
        "other": (("put", "{}_token_id", "u32", 300), ("put", "{}_token_id", "u32", 301)),
        "out": (("put", "{}_token_id", "u32", 300), ("put", "{}_token_id", "u32", 99999)),
        "absent": (("put", "{}_token_id", "u32", 300), ("drop", "{}_token_id")),
    }
    for which in ("bos", "eos"):
        for one in (None, True, False):
            for two in (None, True, False):
                for how, (first, second) in ids.items():
                    name = f"small-bpe/{which}-{how}-{one}-{two}"
                    target = (named(first, which), *flag(which, one))
                    other = (named(second, which), *flag(which, two))
                    found.append(Case(name, "small-bpe", target, other))
    return found + more_flag_cases()


def named(op: Operation, which: str) -> Operation:
    """The operation with bos or eos filled in."""
    return (op[0], op[1].format(which), *op[2:])


def flag(which: str, state: bool | None) -> Mutation:
    """Set a flag, or leave it out."""
    name = f"add_{which}_token"
    return (("drop", name),) if state is None else (("put", name, "bool", state),)


def more_flag_cases() -> list[Case]:
    """Flags and ids of the other kinds of tokenizer, and of real ones."""
    found = []
    others = (
        "small-spm",
        "small-wpm",
        "small-ugm",
        "small-rwkv",
        "llama-spm",
        "qwen2",
        "llama-bpe",
    )
    for base in others:
        for which in ("bos", "eos"):
            key = f"{which}_token_id"
            found.append(draft(f"{which}-absent", base, ("drop", key)))
            found.append(draft(f"{which}-zero", base, ("put", key, "u32", 0)))
            found.append(draft(f"{which}-last", base, ("put", key, "u32", 599)))
            found.append(draft(f"{which}-size", base, ("put", key, "u32", 600)))
            found.append(draft(f"{which}-max", base, ("put", key, "u32", 2**32 - 1)))
            for state in (True, False):
                found.append(draft(f"add-{which}-{state}", base, *flag(which, state)))
        keys = ("bos_token_id", "eos_token_id", "add_bos_token", "add_eos_token")
        found += sides("no-ids-no-flags", base, tuple(("drop", key) for key in keys))
    both_flags = (*flag("bos", True), *flag("eos", True))
    found.append(both("no-bos-but-add", "small-ugm", (("drop", "bos_token_id"), *both_flags)))
    found.append(both("no-eos-but-add", "small-wpm", (("drop", "eos_token_id"), *both_flags)))
    few = (("shrink", 8), ("drop", "bos_token_id"), ("drop", "eos_token_id"), *both_flags)
    found.append(both("defaults-out-of-range", "small-bpe", few))
    found.append(draft("defaults-out-of-range", "small-bpe", *few))
    return found


ID_KEYS = ("eos", "eot", "eom", "unknown", "seperator", "padding", "mask", "cls", "fim_pre")
ID_KEYS += ("fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep", "prefix", "suffix", "middle")
WRONG = {"u8": 1, "i8": 1, "u16": 1, "i16": 1, "i32": 1, "u64": 1, "i64": 1, "f32": 1.0, "f64": 1.0}
WRONG |= {"bool": True, "str": "1", "[u32]": [1]}


def type_cases() -> list[Case]:
    """Keys whose GGUF type is not the one that is asked for."""
    base, found = "small-bpe", []
    for kind, content in WRONG.items():
        found.append(draft(f"bos-as-{kind}", base, ("put", "bos_token_id", kind, content)))
    for key in ID_KEYS:
        found.append(draft(f"{key}-as-i32", base, ("put", f"{key}_token_id", "i32", 1)))
        found.append(draft(f"{key}-out", base, ("put", f"{key}_token_id", "u32", 99999)))
    flags = ("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix")
    flags += ("remove_extra_whitespaces", "normalizer.lowercase", "normalizer.strip_accents")
    for key in flags:
        for kind, content in (("u8", 1), ("u32", 1), ("str", "true"), ("[bool]", [True])):
            full = f"tokenizer.ggml.{key}"
            found.append(draft(f"{key}-as-{kind}", base, ("put", full, kind, content)))
    others = {
        "model": (("i32", 1), ("[str]", ["gpt2"])),
        "pre": (("i32", 1), ("[str]", ["qwen2"])),
        "token_type_count": (("i32", 2), ("u64", 2)),
        "suppress_tokens": (("[i32]", [1, -5, 99999]), ("[u32]", [1]), ("i32", 1)),
        "general.name": (("i32", 1), ("[str]", ["a"])),
        "general.architecture": (("i32", 1), ("[str]", ["llama"])),
        "general.file_type": (("i32", 1), ("u32", 999)),
        "chat_template": (("i32", 1),),
    }
    for key, kinds in others.items():
        for kind, content in kinds:
            found.append(draft(f"{key}-as-{kind}", base, ("put", key, kind, content)))
    found += sides("bos-as-i32-other-base", "qwen2", (("put", "bos_token_id", "i32", 151643),))
    two = ("raw_key", b"tokenizer.ggml.add_bos_token", b"\7\0\0\0\2")
    found.append(draft("bool-as-two", base, two))
    return found


MODELS = ("llama", "gpt2", "bert", "t5", "rwkv", "plamo2", "gemma4", "hybriddna", "whitespace")
MODELS += ("test", "none", "no_vocab", "", "GPT2", "unheard-of", "gpt2\0tail", "mistral")


def model_cases() -> list[Case]:
    """Every tokenizer model, on one side and on both."""
    found = []
    for base in ("small-bpe", "small-spm"):
        for model in MODELS:
            op = (("put", "model", "str", model),)
            label = model.replace("\0", "0") or "empty"
            found += sides(f"model-{label}", base, op)
            found.append(both(f"model-{label}", base, op))
        found += sides("model-missing", base, (("drop", "model"),))
    for base in ("small-wpm", "small-ugm", "small-rwkv"):
        for model in ("llama", "none", "plamo2"):
            found.append(draft(f"model-{model}", base, ("put", "model", "str", model)))
            found.append(both(f"model-{model}", base, (("put", "model", "str", model),)))
    found += sides("model-llama", "qwen2", (("put", "model", "str", "llama"),))
    flags = (("put", "model", "str", "llama"), *flag("bos", False), *flag("eos", False))
    found.append(Case("qwen2/model-llama-flags", "qwen2", flags[1:], flags))
    found += sides("model-gpt2", "llama-spm", (("put", "model", "str", "gpt2"),))
    return found + no_vocab_cases()


def no_vocab_cases() -> list[Case]:
    """No vocabulary, with and without a size."""
    base, none = "small-bpe", ("put", "model", "str", "no_vocab")
    sized = (none, ("put", "llama.vocab_size", "u32", 600))
    empty = (none, ("body", "rows", 0))
    found = [both("no-vocab-sized", base, sized), both("no-vocab-empty", base, empty)]
    found += sides("no-vocab-sized", base, sized)
    found += sides("no-vocab-empty", base, empty)
    larger = (("put", "llama.vocab_size", "u32", 700),)
    found += sides("vocab-size-key", base, larger)
    found.append(draft("vocab-size-key-rows", base, *larger, ("body", "rows", 700)))
    found.append(draft("vocab-size-i32", base, ("put", "llama.vocab_size", "i32", 600)))
    return found


PRE_NAMES = """default llama3 llama-v3 llama-bpe deepseek-llm deepseek-coder falcon mpt starcoder
gpt-2 refact command-r olmo dbrx qwen2 jina-es jina-de jina-v2-es jina-v2-de stablelm2 smaug-bpe
jina-v2-code poro-chat viking jais phi-2 chatglm-bpe tekken smollm codeshell bloom gpt3-finnish
exaone chameleon jina-v1-en minerva-7b gigachat falcon3 roberta-bpe megrez deepseek-v3
deepseek-r1-qwen gpt-4o superbpe trillion bailingmoe llama4 glm4 pixtral seed-coder hunyuan
falcon-h1 a.x-4.0 midm-2.0 lfm2 kimi-k2 exaone4 hunyuan-dense mellum grok-2 llada-moe
granite-docling bailingmoe2 minimax-m2 afmoe kormo modern-bert solar-open youtu exaone-moe qwen35
tiny_aya joyai-llm jais-2 kanana2 jina-v5-nano f2llmv2 gemma4 sarvam-moe talkie minicpm5
whitespace granite-embed-multi-97m granite-embed-multi-311m mellum2 cohere2moe laguna glm5 hy_v4
spark2_5 ufakzeka"""
PRES = tuple(PRE_NAMES.split())
ODD_PRES = ("", "QWEN2", "qwen3", "my-new-pre", "qwen2\0tail", "qwen2 ", "jina-v2")


def pre_cases() -> list[Case]:
    """Every pre-tokenizer the engine knows, and some it does not."""
    base, found = "small-bpe", []
    for name in (*PRES, *ODD_PRES):
        label = name.replace("\0", "0") or "empty"
        found.append(draft(f"pre-{label}", base, ("put", "pre", "str", name)))
    found += sides("pre-missing", base, (("drop", "pre"),))
    bare = (("drop", "bos_token_id"), ("drop", "eos_token_id"))
    chosen = ("default", "llama-bpe", "tekken", "glm4", "chatglm-bpe", "glm5", "gemma4", "qwen35")
    for name in chosen:
        op = ("put", "pre", "str", name)
        found.append(draft(f"pre-{name}-no-ids", base, op, *bare))
        found.append(both(f"pre-{name}-no-ids", base, (op, *bare)))
        for state in (True, False):
            flags = (*flag("bos", state), *flag("eos", state))
            found.append(Case(f"{base}/pre-{name}-add-{state}", base, flags, (op, *flags)))
            full = (op, *bare, *flags)
            found.append(Case(f"{base}/pre-{name}-no-ids-add-{state}", base, flags, full))
    for other in ("small-spm", "small-wpm", "small-ugm"):
        found.append(draft("pre-my-new-pre", other, ("put", "pre", "str", "my-new-pre")))
    for name in ("default", "llama-bpe", "gemma4", "glm4", "my-new-pre"):
        found += sides(f"pre-{name}", "qwen2", (("put", "pre", "str", name),))
    found += gemma4_cases()
    return found


def gemma4_cases() -> list[Case]:
    """The tokenizer model that forces its own pre-tokenizer and a flag."""
    base, model = "small-bpe", ("put", "model", "str", "gemma4")
    off = flag("bos", False)
    found = [both("gemma4-off", base, (model, *off))]
    found += sides("gemma4-off", base, (model, *off), off)
    found.append(both("gemma4-unknown-pre", base, (model, ("put", "pre", "str", "my-new-pre"))))
    found.append(both("gemma4-no-merges", base, (model, ("without", "merges"))))
    bare = (("drop", "bos_token_id"), ("drop", "eos_token_id"))
    found.append(both("gemma4-no-ids", base, (model, *bare)))
    found.append(draft("gemma4-vs-pre", base, model))
    only_pre = (("put", "pre", "str", "gemma4"),)
    found.append(Case(f"{base}/gemma4-vs-gpt2-pre", base, only_pre, (model,)))
    return found


def array_cases() -> list[Case]:
    """Tokens, merges, types and scores that are missing, short or of another type."""
    found = []
    kinds = ("[i32]", "[u32]", "[f32]", "[f64]", "[i8]", "[i64]", "[str]", "i32", "f32")
    for base in ("small-bpe", "small-spm"):
        for which in ("types", "scores", "tokens", "merges"):
            found.append(draft(f"no-{which}", base, ("without", which)))
        for which in ("types", "scores"):
            for kind in kinds:
                found.append(draft(f"{which}-{kind}", base, ("numbers", which, kind, 0)))
            own = "[i32]" if which == "types" else "[f32]"
            found.append(draft(f"{which}-short", base, ("numbers", which, own, -1)))
            found.append(draft(f"{which}-long", base, ("numbers", which, own, 50)))
            found.append(draft(f"{which}-empty", base, ("put", key_of(which), own, [])))
        found.append(draft("scores-i32-short", base, ("numbers", "scores", "[i32]", -1)))
    found.append(draft("no-merges", "qwen2", ("without", "merges")))
    return found + merge_cases() + token_list_cases()


def key_of(which: str) -> str:
    """The full key of token types or scores."""
    return TYPES if which == "types" else SCORES


def merge_cases() -> list[Case]:
    """Merges that are not pairs."""
    base, kimi = "small-bpe", ("put", "pre", "str", "kimi-k2")
    return [
        draft("merges-nospace", base, ("merges", b"ba", b"b a")),
        draft("merges-empty-entry", base, ("merges", b"", b"b a")),
        draft("merges-twice", base, ("merges", b"b a", b"b a")),
        draft("merges-space-first", base, ("merges", b" ba", b"b  a", b"b a c")),
        draft("merges-none-left", base, ("merges",)),
        draft("merges-unknown-tokens", base, ("merges", b"qqqq wwww")),
        draft("merges-i32", base, ("put", MERGES, "[i32]", [1, 2])),
        draft("merges-scalar", base, ("put", MERGES, "str", "b a")),
        draft("merges-pairs-i64", base, ("put", MERGES, "[i64]", [1, 2])),
        draft("merges-kimi", base, kimi, ("without", "merges")),
        draft("merges-kimi-i32", base, kimi, ("put", MERGES, "[i32]", [1])),
    ]


def token_list_cases() -> list[Case]:
    """A token list that is not an array of strings."""
    found = []
    for base in ("small-bpe", "small-wpm"):
        found.append(draft("tokens-i32", base, ("put", TOKENS, "[i32]", [1] * 600)))
        found.append(draft("tokens-scalar", base, ("put", TOKENS, "str", "a")))
        found.append(draft("tokens-none", base, ("put", TOKENS, "[str]", [])))
        found += sides("tokens-missing", base, (("without", "tokens"),))
    return found


def token_type_cases() -> list[Case]:
    """Types of single tokens."""
    found = []
    for base in ("small-bpe", "small-spm", "small-wpm", "small-ugm", "small-rwkv"):
        for kind in (-1, 0, 2, 3, 4, 5, BYTE, 7, 1000):
            found.append(draft(f"type-{kind}", base, ("kind_of", 300, kind)))
        for content in (b"q", b"qz", b"qzx", b"<0xZZ>", b"<0x41"):
            ops = (("text", 300, content), ("kind_of", 300, BYTE))
            found.append(both(f"byte-{content.decode()}", base, ops))
        ops = (("text", 300, b"<|im_end|>x"), ("kind_of", 300, BYTE))
        found.append(both("byte-long", base, ops))
        ops = (("text", 300, b"<|eot_id|>"), ("kind_of", 300, BYTE))
        found.append(both("byte-eot", base, ops))
        found.append(both("byte-empty", base, (("text", 300, b""), ("kind_of", 300, BYTE))))
    large = (("text", 300, b"zz\xf4\x90\x80\x80"), ("kind_of", 300, 3))
    found.append(both("control-codepoint-too-large", "small-bpe", large))
    return found


def special_model_cases() -> list[Case]:
    """What single kinds of tokenizer ask for."""
    spm, plamo = "small-spm", ("put", "model", "str", "plamo2")
    newline = ("text", 3 + 10, b"<0xzz>")
    found = [
        draft("no-newline", spm, newline),
        both("no-newline", spm, (newline,)),
        both("no-bytes", spm, (("text", 3 + 65, b"<0xyy>"),)),
        both("plamo2-missing-byte", spm, (plamo, ("text", 3 + 65, b"<0xyy>"))),
        both("plamo2-byte-not-typed", spm, (plamo, ("kind_of", 3 + 65, 1))),
        both("plamo2-byte-at-zero", spm, (plamo, ("swap", 0, 68), ("kind_of", 0, 6))),
        both("plamo2-lower-case", spm, (plamo, ("text", 3 + 171, b"<0xab>"))),
        both("plamo2-large-codepoint", spm, (plamo, ("text", 300, b"zz\xf4\x90\x80\x80"))),
        both("no-newline", "small-bpe", (("text", 10, b"<|no newline|>"),)),
        both("no-newline", "small-rwkv", (("text", 11, b"<no newline>"),)),
    ]
    name = ("put", "general.name", "str", "My Phi-3 mini")
    found.append(draft("phi-3-name", "small-bpe", name))
    found.append(both("phi-3-name", spm, (name,)))
    complete = (name, ("text", 300, b"<|endoftext|>"))
    found.append(both("phi-3-name-complete", spm, complete))
    for label in ("jina-v2-de", "modern-bert"):
        found.append(draft(f"name-{label}", "small-bpe", ("put", "general.name", "str", label)))
    return found + charsmap_cases() + dna_cases()


def charsmap_cases() -> list[Case]:
    """The character map of a unigram tokenizer."""
    base, key = "small-ugm", "precompiled_charsmap"
    maps = {
        "empty": ("[u8]", []),
        "three-bytes": ("[u8]", [0, 0, 0]),
        "four-bytes": ("[u8]", [0, 0, 0, 0]),
        "five-bytes": ("[u8]", [0, 0, 0, 0, 0]),
        "signed": ("[i8]", [0, 0, 0, 0, 0]),
        "size-too-large": ("[u8]", [100, 0, 0, 0, 0, 0]),
        "one-node": ("[u8]", [4, 0, 0, 0, 0, 0, 0, 0, 0]),
        "u16": ("[u16]", [0, 0, 0]),
        "string": ("str", "abcdef"),
    }
    return [draft(f"charsmap-{name}", base, ("put", key, *rest)) for name, rest in maps.items()]


def dna_cases() -> list[Case]:
    """The tokenizer whose texts lose a mark after loading."""
    base, model = "small-bpe", ("put", "model", "str", "hybriddna")
    mark = "\ue000".encode()
    oov = ("text", 299, b"<oov>")
    plain, marked = ("text", 300, b"CCCCCC"), ("text", 300, b"CCCCCC" + mark)
    before, bare = ("text", 298, b"CCCCCC" + mark), ("text", 298, b"CCCCCC")
    return [
        Case(f"{base}/dna-mark", base, (model, oov, marked), (model, oov, plain)),
        Case(f"{base}/dna-mark-no-oov", base, (model, marked), (model, plain)),
        Case(f"{base}/dna-mark-before", base, (model, oov, before), (model, oov, bare)),
        Case(f"{base}/dna-mark-gpt2", base, (oov, marked), (oov, plain)),
        both("dna-two", base, (model, oov, marked, ("text", 301, b"CCCCCC"))),
        Case(f"{base}/dna-mark-only", base, (model, oov, ("text", 300, mark)), (model, oov, plain)),
    ]


def body_cases() -> list[Case]:
    """Weights that do not go with the vocabulary, or are not there."""
    base, found = "small-bpe", []
    for rows in (0, 599, 601, 728):
        found += sides(f"rows-{rows}", base, (("body", "rows", rows),))
        found.append(draft(f"output-rows-{rows}", base, ("body", "output_rows", rows)))
    found.append(draft("output-rows-600", base, ("body", "output_rows", 600)))
    for name in ("token_embd", "output_norm", "blk.0.attn_q", "blk.0.ffn_down"):
        found.append(draft(f"no-{name}", base, ("no_tensor", f"{name}.weight")))
    found += sides("no-tensors", base, (("no_tensors",),))
    found.append(draft("extra-tensor", base, ("tensor", "something.weight", 32)))
    found.append(draft("extra-bias", base, ("tensor", "blk.0.attn_q.bias", 32)))
    for name in ("context_length", "embedding_length", "block_count", "feed_forward_length"):
        found.append(draft(f"no-{name}", base, ("drop", f"llama.{name}")))
    for name in ("attention.head_count", "attention.head_count_kv", "rope.dimension_count"):
        found.append(draft(f"no-{name}", base, ("drop", f"llama.{name}")))
    found.append(draft("no-eps", base, ("drop", "llama.attention.layer_norm_rms_epsilon")))
    found.append(draft("block-count-0", base, ("put", "llama.block_count", "u32", 0)))
    found.append(draft("block-count-2", base, ("put", "llama.block_count", "u32", 2)))
    found.append(draft("context-i32", base, ("put", "llama.context_length", "i32", 512)))
    found.append(draft("context-u64", base, ("put", "llama.context_length", "u64", 512)))
    found.append(draft("context-0", base, ("body", "n_ctx", 0)))
    found += shape_cases()
    return found + architecture_cases()


def shape_cases() -> list[Case]:
    """Drafts that are only smaller or larger."""
    found = []
    for base in ("small-bpe", "small-spm", "qwen2"):
        found += sides("n-embd-64", base, (("body", "n_embd", 64),))
        found += sides("layers-3", base, (("body", "n_layer", 3),))
        found += sides("context-128", base, (("body", "n_ctx", 128),))
        found.append(draft("all-smaller", base, ("body", "n_embd", 16), ("body", "n_ctx", 64)))
    return found


def architecture_cases() -> list[Case]:
    """Architectures."""
    base, found = "small-bpe", []
    found += sides("arch-unknown", base, (("body", "arch", "llama99"),))
    found += sides("arch-missing", base, (("drop", "general.architecture"),))
    found += sides("arch-empty", base, (("put", "general.architecture", "str", ""),))
    found.append(draft("arch-upper", base, ("put", "general.architecture", "str", "LLAMA")))
    found.append(draft("arch-other-keys", base, ("put", "general.architecture", "str", "qwen2")))
    found.append(draft("arch-clip", base, ("body", "arch", "clip")))
    found.append(draft("arch-nul", base, ("put", "general.architecture", "str", "llama\0x")))
    return found


def file_cases() -> list[Case]:
    """Files that are damaged."""
    base, found = "small-bpe", []
    for cut in (0, 3, 4, 20, 24, 30, 0.5, 0.9, 1.0, -1, -4096):
        found.append(draft(f"cut-{cut}", base, ("broken", "cut", cut)))
    found += sides("cut-half", "small-spm", (("broken", "cut", 0.5),))
    found += sides("cut-last", "qwen2", (("broken", "cut", -1),))
    found.append(draft("tail", base, ("broken", "tail", 100)))
    for version in (0, 1, 2, 4, 0x30000, 0x03000000):
        found.append(draft(f"version-{version}", base, ("broken", "version", version)))
    found += sides("magic", base, (("broken", "magic", b"GGML"),))
    found.append(draft("offset", base, ("broken", "shift", 32)))
    found.append(draft("offset-odd", base, ("broken", "shift", 1)))
    found.append(draft("tensor-type", base, ("broken", "type_id", 99)))
    found.append(draft("tensor-type-removed", base, ("broken", "type_id", 4)))
    found.append(draft("tensor-dims", base, ("broken", "dims", 5)))
    found.append(draft("tensor-twice", base, ("tensor", "output_norm.weight", 32)))
    found.append(draft("tensor-name-63", base, ("tensor", "x" * 63, 32)))
    found.append(draft("tensor-name-64", base, ("tensor", "x" * 64, 32)))
    found.append(draft("one-key-more", base, ("broken", "count", 1)))
    found.append(draft("one-key-less", base, ("broken", "count", -1)))
    found += [draft(f"split-{mode}", base, ("split", mode)) for mode in SPLITS]
    return found + key_cases() + alignment_cases()


SPLITS = ("good", "missing", "tensor-count", "second-first", "same-number", "name", "three")
SPLITS += ("count-u32",)


def key_cases() -> list[Case]:
    """Keys a reader may refuse."""
    base = "small-bpe"
    eos = b"tokenizer.ggml.eos_token_id"
    nested = value("[u32]", [])[:4] + value("u32", 9)[4:] + (1).to_bytes(8, "little")
    keys = {
        "duplicate-same": (eos, value("u32", 592)),
        "duplicate-other": (eos, value("u32", 1)),
        "duplicate-unused": (b"general.architecture", value("str", "llama")),
        "empty-key": (b"", value("u32", 1)),
        "unknown-key": (b"some.other.key", value("u32", 1)),
        "key-not-utf8": (b"some.\xff.key", value("u32", 1)),
        "nul-key": (b"tokenizer.ggml.add_eos_token\0x", value("bool", True)),
        "long-key": (b"k" * 70000, value("u32", 1)),
        "bad-type": (b"some.key", (99).to_bytes(4, "little")),
        "nested-array": (b"some.key", nested),
        "empty-array": (b"some.key", value("[str]", [])),
        "array-too-long": (b"some.key", value("[u8]", [])[:8] + (1 << 40).to_bytes(8, "little")),
        "string-too-long": (b"some.key", value("str", "")[:4] + (1 << 40).to_bytes(8, "little")),
        "value-not-utf8": (b"some.key", value("str", b"\xff\xfe")),
    }
    return [draft(f"key-{name}", base, ("raw_key", *pair)) for name, pair in keys.items()]


def alignment_cases() -> list[Case]:
    """The alignment of the tensor data."""
    base, key, found = "small-bpe", "general.alignment", []
    for content in (0, 3, 16, 32, 64, 1):
        found.append(draft(f"alignment-{content}", base, ("put", key, "u32", content)))
    for content in (64, 16):
        ops = (("put", key, "u32", content), ("broken", "alignment", content))
        found.append(draft(f"alignment-{content}-true", base, *ops))
    found.append(draft("alignment-u64", base, ("put", key, "u64", 32)))
    return found


def real_cases() -> list[Case]:
    """Real vocabularies with themselves and with each other."""
    found = [Case(f"{base}/same", base, NONE, NONE) for base in (*mutate_bases.SMALL, *REAL)]
    pairs = [("phi-3", "llama-spm"), ("starcoder", "refact"), ("gpt-2", "mpt")]
    pairs += [("llama-bpe", "qwen2"), ("deepseek-coder", "qwen2"), ("qwen2", "llama-spm")]
    pairs += [
        ("gpt-2", "starcoder"),
        ("deepseek-coder", "llama-spm"),
        ("refact", "gpt-2"),
        ("mpt", "llama-spm"),
    ]
    pairs += [("small-bpe", "small-spm"), ("small-bpe", "small-wpm"), ("small-spm", "small-ugm")]
    pairs += [("small-wpm", "small-rwkv"), ("small-bpe", "gpt-2"), ("small-spm", "llama-spm")]
    for one, two in pairs:
        found.append(Case(f"{one}|{two}", f"{one}|{two}", NONE, NONE))
        found.append(Case(f"{two}|{one}", f"{two}|{one}", NONE, NONE))
    return found


def random_operation(rng: random.Random) -> Mutation:
    """One or two operations that belong together."""
    token, which = rng.randrange(0, 500), rng.choice(("bos", "eos"))
    free = bytes(rng.choice(b"QWXZ") for _ in range(6))
    choices: list[Mutation] = [
        (("grow", rng.choice((-200, -129, -128, -1, 1, 64, 128, 129))),),
        (("text", token, free),),
        (("text", rng.choice((0, 3, 4, 5, 6)), free),),
        (("text", token, b""),),
        (("text", token, free + b"\0" + free),),
        (("text", token, free + b"\xff"),),
        (("same", token, rng.randrange(0, 500)),),
        (("swap", token, rng.randrange(0, 500)),),
        (("kind_of", token, rng.choice((0, 1, 2, 3, 4, 5, 6, 9))),),
        flag(which, rng.choice((True, False, None))),
        (*flag(which, True), ("put", f"{which}_token_id", "u32", token)),
        (("put", f"{which}_token_id", "u32", rng.choice((token, 0, 599, 600, 5000))),),
        (("drop", f"{which}_token_id"),),
        (("put", f"{which}_token_id", rng.choice(("i32", "u64", "u16")), token),),
        (("put", "pre", "str", rng.choice((*PRES, *ODD_PRES))),),
        (("put", "model", "str", rng.choice(("gpt2", "llama", "bert", "t5", "gemma4", "plamo2"))),),
        (("numbers", rng.choice(("types", "scores")), rng.choice(("[i32]", "[f32]", "[u32]")), 0),),
        (("without", rng.choice(("types", "scores", "merges"))),),
        (("body", "n_layer", 2),),
        (("body", "rows", rng.choice((599, 600, 601))),),
    ]
    return rng.choice(choices)


def random_cases(count: int = 200) -> list[Case]:
    """Two or three operations, on one side or on both, always the same ones."""
    rng = random.Random(20240607)
    small = ("small-bpe", "small-bpe", "small-spm", "small-wpm", "small-ugm")
    found = []
    for index in range(count):
        target: Mutation = ()
        other: Mutation = ()
        for _ in range(rng.choice((2, 2, 3))):
            ops = random_operation(rng)
            side = rng.choice(("target", "draft", "draft", "both", "both"))
            target += ops if side != "draft" else ()
            other += ops if side != "target" else ()
        base = rng.choice(small)
        found.append(Case(f"random/{index:03d}-{base}", base, target, other))
    return found


CASES: list[Case] = [
    *real_cases(),
    *size_cases(),
    *text_cases(),
    *duplicate_cases(),
    *flag_cases(),
    *type_cases(),
    *model_cases(),
    *pre_cases(),
    *array_cases(),
    *token_type_cases(),
    *special_model_cases(),
    *body_cases(),
    *file_cases(),
    *random_cases(),
]
