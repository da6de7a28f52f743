"""Files that engines read themselves: YAML of options, Ollama's Modelfiles, Triton's pbtxt."""

from __future__ import annotations

import re
from dataclasses import replace

from draftcheck.deploy.deployment import Contents, Document, DocumentTree
from draftcheck.deploy.kinds import containers
from draftcheck.deploy.options import programs
from draftcheck.deploy.syntax import json_places
from draftcheck.deploy.syntax.variables import filled
from draftcheck.deploy.syntax.yaml_tree import parse
from draftcheck.deploy.text import TextView, Word
from draftcheck.values.findings import FilePlace

_TABBY = re.compile(
    r"^(network|logging|model|draft_model|draft|lora|embeddings|sampling|developer|memory):"
    r"[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_TABBY_KEY = re.compile(
    r"^[ \t]+(?:inline_model_loading|use_dummy_models|draft_model_name|draft_model_dir"
    r"|draft_mode|draft_num_tokens|draft_cache_mode|cache_mode|gpu_split_auto|autosplit_reserve):",
    re.MULTILINE,
)
_LLM_API = re.compile(
    r"^[\"']?speculative_config[\"']?:[^\n]*\n(?:[ \t]+[^\n]*\n)*?[ \t]+[\"']?decoding_type[\"']?:"
    r"|^(?:kv_cache_config|cuda_graph_config):",
    re.MULTILINE,
)
_OPTIONS = re.compile(
    r"^[ ]?[\"']?(?:model|model[-_]path|speculative[-_][\w-]+|draft[-_]model[\w-]*"
    r"|served[-_]model[-_]name|tensor[-_]parallel[-_]size)[\"']?[ \t]*:",
    re.MULTILINE,
)
_OTHER = re.compile(
    r"^(?:apiVersion|services|image|backend|parameters|jobs|stages|on|trainer|dataset\w*|entrypoint"
    r"|(?:start_|server_)?(?:command|cmd)):",
    re.MULTILINE,
)
_CHART = re.compile(
    r"^[ \t]+-?[ \t]*(?:image|repository|\w*[aA]rgs|command|resources|replicas|engine_kwargs):",
    re.M,
)
"""Values of a chart: options stand deeper in it."""
_SCALAR_MODEL = re.compile(r"^[\"']?model[\"']?[ \t]*:[ \t]*(?:#.*)?$", re.MULTILINE)


def is_engine_yaml(name: str, text: str) -> bool:
    return _kind(name, text) is not None


def _kind(name: str, text: str) -> str | None:
    if re.fullmatch(r"tabby_config\.ya?ml", name):
        return "tabbyapi-model"
    if _OTHER.search(text):
        return None
    if _LLM_API.search(text):
        return "trtllm"
    sections = set(_TABBY.findall(text))
    if sections & {"model", "draft_model"} and _TABBY_KEY.search(text):
        return "tabbyapi"
    if _OPTIONS.search(text) and not _SCALAR_MODEL.search(text) and not _CHART.search(text):
        return "options"
    return None


def read_engine_yaml(view: TextView, contents: Contents) -> None:
    """TabbyAPI's settings, options by name, options of the LLM API."""
    kind = _kind(view.name, view.text)
    for tree in parse(view, contents):
        if tree.entries is not None and kind is not None:
            if kind != "options" or programs.document(Document(kind, tree, tree.place)):
                contents.document(kind, tree)
            else:  # a file of another program, with a key of that name
                containers.walk(containers.ContainerReader(contents), tree)


_LINE = re.compile(r"[ \t]*([A-Za-z_]+)[ \t]+")
_QUOTES = '"""'


def read_modelfile(view: TextView, contents: Contents) -> None:
    """One document: an entry per instruction, its name in capitals."""
    entries, skip = list[tuple[Word, DocumentTree]](), 0
    for line, end in view.lines():
        match = _LINE.match(view.text, line, end)
        if line < skip or not match or view.text[line:end].lstrip().startswith("#"):
            continue
        quotes = view.text.find(_QUOTES, match.end(), end)
        if quotes >= 0:
            closing = view.text.find(_QUOTES, quotes + 3)
            skip = len(view.text) if closing < 0 else closing + 3
            if closing < 0:
                contents.trouble(view.place(quotes, quotes + 3), "a quote is never closed")
        key = view.slice(*match.span(1))
        upper = key.text.upper()
        name = Word(upper, key.place(), replace(key, text=upper), raw=key.raw())
        last = match.end() + len(view.text[match.end() : end].rstrip())
        start, tree = match.end(), _scalar(view, match.end(), last)
        parts = view.text[start:last].split(maxsplit=1) if upper == "PARAMETER" else []
        if len(parts) == 2:
            at = view.text.index(parts[1], start + len(parts[0]), last)
            inner = view.slice(start, start + len(parts[0])).word()
            tree = DocumentTree(tree.place, entries=((inner, _scalar(view, at, last)),))
        entries.append((name, tree))
    if entries:
        contents.document("modelfile", DocumentTree(view.place(0, 0), entries=tuple(entries)))


def _scalar(view: TextView, start: int, end: int) -> DocumentTree:
    """A value, with or without quotes."""
    quoted = end - start >= 2 and view.text[start] == view.text[end - 1] == '"'
    inner = view.slice(start + quoted, end - quoted)
    return DocumentTree.of(inner.word(view.place(start, end), view.raw(start, end)))


MAX_DEPTH = 60
_ESCAPE = re.compile(r"\\(.)")
_TOKEN = re.compile(
    r"(?P<blank>[\s,;]+|\#[^\n]*)|(?P<name>[A-Za-z_][\w.]*)|(?P<number>[-+]?\.?\d[\w.+-]*)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[:{}\[\]<>])"
)


def read_pbtxt(view: TextView, contents: Contents) -> None:
    """Triton's config.pbtxt -> a tree; a field that repeats is there again."""
    tokens, at = list[tuple[str, int, int]](), 0
    while match := _TOKEN.match(view.text, at):
        if match.lastgroup and match.lastgroup != "blank":
            tokens.append((match.lastgroup, *match.span()))
        at = match.end()
    if at < len(view.text):
        contents.trouble(view.place(at, at + 1), "not text of a protocol buffer")
    reader = _PbtxtReader(view, tokens)
    tree = DocumentTree(view.place(0, 0), entries=tuple(reader.fields(0)))
    if reader.trouble is not None:
        contents.trouble(view.place(reader.trouble, reader.trouble), "nested too deeply")
    if tree.entries:
        contents.document("triton-pbtxt", tree)


class _PbtxtReader:
    def __init__(self, view: TextView, tokens: list[tuple[str, int, int]]) -> None:
        self.view, self.tokens, self.at = view, tokens, 0
        self.trouble: int | None = None

    def peek(self) -> str:
        if self.at >= len(self.tokens):
            return ""
        kind, start, end = self.tokens[self.at]
        return self.view.text[start:end] if kind == "mark" else kind

    def fields(self, depth: int) -> list[tuple[Word, DocumentTree]]:
        found = list[tuple[Word, DocumentTree]]()
        while self.peek() and self.peek() not in ("}", ">"):
            kind, start, end = self.tokens[self.at]
            self.at += 1
            if kind != "name":
                continue
            if self.peek() == ":":
                self.at += 1
            value = self.value(depth)
            if value is not None:
                found.append((self.view.slice(start, end).word(), value))
        return found

    def value(self, depth: int) -> DocumentTree | None:
        what = self.peek()
        if not what or what in ("}", ">", "]", ":"):
            return None
        _, start, end = self.tokens[self.at]
        self.at += 1
        if depth > MAX_DEPTH:
            self.trouble = start
            return None
        if what in ("{", "<"):
            entries = self.fields(depth + 1)
            return DocumentTree(self.close(start), entries=tuple(entries))
        if what == "[":
            items = list[DocumentTree]()
            while self.peek() not in ("]", "", "}"):
                item = self.value(depth + 1)
                if item is None:
                    self.at += 1
                else:
                    items.append(item)
            return DocumentTree(self.close(start), items=tuple(items))
        return self.scalar(what, start, end)

    def close(self, start: int) -> FilePlace:
        end = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.view.text)
        self.at += 1
        return self.view.place(start, end)

    def scalar(self, what: str, start: int, end: int) -> DocumentTree:
        text = self.view.text[start:end]
        kind = "bool" if text in ("true", "false") else "str"
        if what == "number":
            kind = "int" if re.fullmatch(r"[-+]?(?:0x[0-9a-fA-F]+|\d+)", text) else "float"
        quote = what == "string"
        inner = self.view.slice(start + quote, end - quote)

        def letter(escape: re.Match[str]) -> TextView:
            known = {"n": "\n", "t": "\t"}.get(escape[1], escape[1])
            return inner.instead(known, *escape.span(1))

        unescaped = filled(inner, _ESCAPE, letter) if quote else inner
        return DocumentTree.of(
            unescaped.word(self.view.place(start, end), self.view.raw(start, end), kind)
        )


def read_kcpps(view: TextView, contents: Contents) -> None:
    """Settings that koboldcpp saves: its options without dashes, in JSON."""
    tree = json_places.parse_view(view, contents, "JSON")
    if tree is not None:
        reader = containers.ContainerReader(contents)
        named = [tree.get(key) for key in ("model_param", "model", "draftmodel")]
        first, other, draft = (reader.word(each) if each is not None else None for each in named)
        model = first if first is not None and first.text else other
        containers.as_command(reader, "koboldcpp", {"-m": model, "-md": draft})
