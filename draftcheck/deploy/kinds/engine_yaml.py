"""YAML files that an engine reads itself: TabbyAPI's settings, options by name, LLM API options."""

from __future__ import annotations

import re

from draftcheck.deploy.contents import ContentsBuilder
from draftcheck.deploy.syntax.yaml_tree import parse
from draftcheck.deploy.text import TextView

NAMES = re.compile(r".+\.ya?ml")
_TABBY = re.compile(
    r"^(network|logging|model|draft_model|draft|lora|embeddings|sampling|developer|memory):"
    r"[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_TABBY_KEY = re.compile(
    r"^[ \t]+(model_name|model_dir|inline_model_loading|use_dummy_models|draft_model_name"
    r"|draft_model_dir|cache_mode|max_seq_len):",
    re.MULTILINE,
)
_LLM_API = re.compile(
    r"^[ \t]+[\"']?decoding_type[\"']?:|^(?:kv_cache_config|cuda_graph_config):", re.M
)
_OPTIONS = re.compile(
    r"^[\"']?(?:model|model[-_]path|speculative[-_][\w-]+|draft[-_]model[\w-]*"
    r"|served[-_]model[-_]name|tensor[-_]parallel[-_]size)[\"']?[ \t]*:",
    re.MULTILINE,
)
_OTHER = re.compile(
    r"^(?:apiVersion|services|image|jobs|stages|on|trainer|dataset\w*):", re.MULTILINE
)
_CHART = re.compile(
    r"^[ \t]+-?[ \t]*(?:image|repository|\w*[aA]rgs|command|resources|replicas|engine_kwargs):",
    re.M,
)
"""Values of a chart: options stand deeper in it."""
_SCALAR_MODEL = re.compile(r"^[\"']?model[\"']?[ \t]*:[ \t]*(?:#.*)?$", re.MULTILINE)


def claims(name: str, text: str) -> bool:
    """Whether this is such a file."""
    return _kind(name, text) is not None


def _kind(name: str, text: str) -> str | None:
    if re.fullmatch(r"tabby_config\.ya?ml", name):
        return "tabbyapi-model"
    if _OTHER.search(text):
        return None
    if _LLM_API.search(text):
        return "trtllm"
    sections = set(_TABBY.findall(text))
    if "draft_model" in sections or ({"model"} <= sections and _TABBY_KEY.search(text)):
        return "tabbyapi"
    if _OPTIONS.search(text) and not _SCALAR_MODEL.search(text) and not _CHART.search(text):
        return "options"
    return None


def read(view: TextView, contents: ContentsBuilder) -> None:
    """One document per YAML document."""
    kind = _kind(view.name, view.text)
    for tree in parse(view, contents).trees:
        if tree.entries is not None and kind is not None:
            contents.document(kind, tree)
