"""Ollama's local store: manifests name layers, layers are blobs. Nothing is downloaded."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from draftcheck.errors import ReadError
from draftcheck.models.sources.folder import FolderSource

REGISTRY, NAMESPACE = "registry.ollama.ai", "library"
MAX_MANIFEST = 4 * 1024 * 1024
MAX_LAYERS = 10_000
MEDIA = "application/vnd.ollama.image."
SYSTEM = Path("/usr/share/ollama/.ollama/models")
"""Where the Linux service keeps its models."""


class OllamaLayer(msgspec.Struct, frozen=True):
    media: str = msgspec.field(name="mediaType")
    digest: Annotated[str, Meta(pattern=r"^sha256[:-][0-9a-f]{64}\Z")]
    size: Annotated[int, Meta(ge=0)]

    @property
    def kind(self) -> str:
        """model, draft, template, params, projector, adapter, system, license …"""
        return self.media.removeprefix(MEDIA)

    @property
    def blob(self) -> str:
        return f"sha256-{self.digest[7:]}"


msgspec.json.Decoder(OllamaLayer)  # now: msgspec crashes where two threads meet a type first


@dataclass(frozen=True, slots=True)
class OllamaManifest:
    label: str
    store: Path
    digest: str
    layers: tuple[OllamaLayer, ...]

    def layer(self, kind: str) -> OllamaLayer | None:
        """The only layer of that kind; None where there is none."""
        found = [layer for layer in self.layers if layer.kind == kind]
        if len(found) > 1:
            raise ReadError(f"{self.label}: {len(found)} layers of kind {kind}; one can be read")
        return found[0] if found else None

    def source(self, layer: OllamaLayer) -> FolderSource:
        """The layer's blob, held against the size that the manifest promises."""
        source = FolderSource(self.store / "blobs", only=(layer.blob,))
        source.revision = self.digest
        size = source.files().get(layer.blob)
        if size is None:
            raise ReadError(
                f"{self.label}: its {layer.kind} layer ({layer.blob[:19]}…) is not in the store",
                hint=f"Fetch it again: ollama pull {self.label.removeprefix('ollama:')}.",
            )
        if size != layer.size:
            raise ReadError(
                f"{self.label}: its {layer.kind} layer has {size:,} bytes,"
                f" {layer.size:,} in the manifest"
            )
        return source

    def text(self, kind: str, limit: int = 1 << 20) -> bytes | None:
        layer = self.layer(kind)
        return self.source(layer).read(layer.blob, limit) if layer else None


def about(manifest: OllamaManifest) -> dict[str, str]:
    """Its layers, its template's digest and its parameters, in words."""
    kinds = list(dict.fromkeys(layer.kind for layer in manifest.layers))
    found = {"layers": ", ".join(kinds)[:400]}
    if template := manifest.text("template"):
        found["template"] = f"sha256 {hashlib.sha256(template).hexdigest()}"
    params = manifest.text("params")
    if params is not None and (body := _object(params, f"{manifest.label}: params")):
        found["params"] = json.dumps(body, sort_keys=True)[:1000]
    return found


def stores() -> list[Path]:
    """OLLAMA_MODELS, else the places where Ollama keeps models."""
    if named := os.environ.get("OLLAMA_MODELS"):
        return [Path(named).expanduser()]
    return [Path("~/.ollama/models").expanduser(), SYSTEM]


def open_model(name: str, tag: str, label: str) -> OllamaManifest:
    """The manifest of a model; an error names where it was looked for."""
    parts = name.split("/")
    host = parts[0] if len(parts) > 2 else REGISTRY
    middle = parts[1:-1] if len(parts) > 2 else parts[:-1] or [NAMESPACE]
    looked = []
    for store in stores():
        folder = store.joinpath("manifests", host, *middle, parts[-1])
        looked.append(str(store))
        if _is_file(folder / tag):
            return _manifest(store, folder, tag, label)
    here = next((found for found in map(names, stores()) if found), [])
    raise ReadError(
        f"{label}: not in Ollama's store ({', '.join(looked)})",
        hint=f"There: {', '.join(here[:8])}{' …' if len(here) > 8 else ''}."
        if here
        else "Set OLLAMA_MODELS when the store is elsewhere.",
    )


def _manifest(store: Path, folder: Path, tag: str, label: str) -> OllamaManifest:
    data = FolderSource(folder, only=(tag,)).read(tag, MAX_MANIFEST)
    body = _object(data, f"{label}: manifest")
    rows = body.get("layers")
    if not isinstance(rows, list) or len(rows) > MAX_LAYERS:
        raise ReadError(f"{label}: manifest without a list of layers")
    try:
        layers = msgspec.convert(rows, tuple[OllamaLayer, ...])
    except msgspec.ValidationError:
        raise ReadError(
            f"{label}: manifest with a layer that has no kind, sha256 or size"
        ) from None
    return OllamaManifest(label, store, hashlib.sha256(data).hexdigest(), layers)


def _object(data: bytes, where: str) -> dict[str, Any]:
    try:
        body = json.loads(str(data, "utf-8"))
    except (ValueError, RecursionError, MemoryError):
        raise ReadError(f"{where}: not valid JSON") from None
    if not isinstance(body, dict):
        raise ReadError(f"{where}: a {type(body).__name__}, not an object")
    return body


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def names(store: Path) -> list[str]:
    """The models of a store, as a reference writes them."""
    root = store / "manifests"
    found = []
    try:
        for path in sorted(root.glob("*/*/*/*"))[:1000]:
            host, space, name, tag = path.relative_to(root).parts
            prefix = [] if (host, space) == (REGISTRY, NAMESPACE) else [space]
            prefix = [host, *prefix] if host != REGISTRY else prefix
            found.append(f"ollama:{'/'.join([*prefix, name])}:{tag}")
    except OSError:
        return []
    return found
