"""What an engine is told to load -> references that draftcheck understands, where they stand."""

from __future__ import annotations

import re
from dataclasses import replace

from draftcheck.deploy.deployment import Word
from draftcheck.deploy.options.given import GivenOption, GivenOptions

URL = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/"
    r"(?P<repo>[\w.-]+/[\w.-]+)(?:/(?:resolve|blob|tree)/(?P<revision>[^/?#]+))?"
    r"(?:/(?P<file>[^?#]+))?(?:[?#].*)?$"
)
REPO = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*")


def side(setting: GivenOptions, which: str) -> Word | None:
    """The target or the draft, as a word whose text is a reference."""
    named = setting.last(which)
    if named is not None and named.option is not None and named.text in named.option.not_a_model:
        return None
    repo = setting.last(f"{which}_repo")
    if repo is not None and repo.value is not None:
        return _of_repo(setting, which, repo, named)
    if named is None or named.value is None:
        return None
    word, form = named.value, named.option.form if named.option else ""
    if word.unknown:
        return word
    if form == "served":  # a name that only the server can resolve
        return replace(word, unknown=word.text)
    text = _written(setting, named, form)
    revision = setting.last(f"{which}_revision")
    if revision is not None and revision.text and REPO.fullmatch(text) and "@" not in text:
        text = f"{text}@{revision.text}"
    return replace(word, text=text) if text != word.text else word


def _of_repo(
    setting: GivenOptions, which: str, repo: GivenOption, named: GivenOption | None
) -> Word | None:
    """A repo of the Hub, and one GGUF of it: by name, by tag, or the one the engine takes."""
    word = repo.value
    if word is None or word.unknown:
        return word
    file = setting.last(f"{which}_file") or (named if which == "draft" else None)
    text = word.text
    if file is not None and file.text and file.text.endswith(".gguf"):
        text = f"{text.partition(':')[0]}/{file.text.removeprefix('./')}"
    elif ":" not in text and repo.option is not None and repo.option.default_tag:
        text = f"{text}:{repo.option.default_tag}"
    return replace(word, text=text)


def _written(setting: GivenOptions, named: GivenOption, form: str) -> str:
    text = named.text
    if form == "url":
        return _of_url(text)
    if form == "ollama":
        return _of_ollama(text)
    if form == "folder" and named.option is not None:
        folder = setting.last(named.option.folder)
        below = folder.text if folder is not None and folder.text else "models"
        text = text if text.startswith("/") else f"{below.rstrip('/')}/{text}"
        return _local(text)
    if form == "path":
        return _local(text)
    return _of_url(text) if URL.match(text) else text


def _local(text: str) -> str:
    """A path that no one takes for a repo of the Hub."""
    if text.startswith(("/", "./", "../", "~")) or re.match(r"[A-Za-z]:[\\/]", text):
        return text
    return f"./{text}"


def _of_url(text: str) -> str:
    match = URL.match(text)
    if match is None:
        return text
    revision = f"@{match['revision']}" if match["revision"] not in (None, "main") else ""
    file = f"/{match['file']}" if match["file"] else ""
    return f"{match['repo']}{file}{revision}"


def _of_ollama(text: str) -> str:
    """FROM: a file or folder, a repo of the Hub, or a model of Ollama's own store."""
    if text.startswith(("/", "./", "../", "~")) or text.endswith((".gguf", ".safetensors")):
        return _local(text)
    if text.startswith(("hf.co/", "huggingface.co/")):
        return text.partition("/")[2]
    return f"ollama:{text}"
