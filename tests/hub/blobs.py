"""What a file of a repo is made of: bytes, or a few bytes and a size; and its digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property

PIECE = 64 * 1024
ZEROS = bytes(PIECE)
LFS_FROM = 10_000_000
"""From this size on the Hub takes files as LFS only."""
LFS_NAMES = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".h5", ".onnx", ".model", ".npy")


class Blob:
    """A body of known size, or an endless one (size None)."""

    size: int | None

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        raise NotImplementedError


class Data(Blob):
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size: int = len(data)

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        stop = self.size if stop is None else min(stop, self.size)
        view = memoryview(self.data)
        for at in range(start, stop, PIECE):
            yield bytes(view[at : min(at + PIECE, stop)])


class Endless(Blob):
    """The same piece for ever."""

    def __init__(self, piece: bytes = ZEROS) -> None:
        self.piece = piece
        self.size = None

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        while True:
            yield self.piece


class Part(Blob):
    """A range of another blob."""

    def __init__(self, whole: Blob, start: int, stop: int) -> None:
        self.whole, self.start, self.stop = whole, start, stop
        self.size: int = stop - start

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        stop = self.size if stop is None else min(stop, self.size)
        return self.whole.pieces(self.start + start, self.start + stop)


class File:
    """A file of a repo: a blob and how the Hub keeps it."""

    lfs: bool
    blob: Blob

    @property
    def size(self) -> int:
        assert self.blob.size is not None
        return self.blob.size

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for piece in self.blob.pieces():
            digest.update(piece)
        return digest.hexdigest()

    @cached_property
    def pointer(self) -> bytes:
        """What git keeps in place of an LFS file."""
        return (
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\n"
            f"size {self.size}\n"
        ).encode()

    @cached_property
    def oid(self) -> str:
        """git's own digest: of the content, or of the pointer when the file is LFS."""
        content = self.pointer if self.lfs else b"".join(self.blob.pieces())
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    @property
    def etag(self) -> str:
        """The digest that the Hub gives as ETag: sha256 for LFS files, else git's."""
        return self.sha256 if self.lfs else self.oid

    @cached_property
    def xet(self) -> str:
        """A hash of a third kind, of no use to anybody here."""
        return hashlib.sha256(b"xet" + self.sha256.encode()).hexdigest()


class Plain(File):
    """A file that git keeps itself."""

    lfs = False

    def __init__(self, data: bytes) -> None:
        self.blob = Data(data)


class LFS(File):
    """A file whose content is on the CDN."""

    lfs = True

    def __init__(self, data: bytes) -> None:
        self.blob = Data(data)


class _Sparse(Blob):
    def __init__(self, parts: Mapping[int, bytes], size: int) -> None:
        self.parts = sorted(parts.items())
        self.size: int = size

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        stop = self.size if stop is None else min(stop, self.size)
        for at in range(start, stop, PIECE):
            end = min(at + PIECE, stop)
            here = [(o, p) for o, p in self.parts if o < end and o + len(p) > at]
            if not here:
                yield ZEROS[: end - at]
                continue
            piece = bytearray(end - at)
            for offset, part in here:
                low, high = max(offset, at), min(offset + len(part), end)
                piece[low - at : high - at] = part[low - offset : high - offset]
            yield bytes(piece)


class Virtual(File):
    """A file of any size that costs nothing: its head, zeros behind, more bytes where named.

    Its sha256 is not that of the content (which nobody reads whole), but as stable.
    """

    lfs = True

    def __init__(self, head: bytes, size: int, more: Mapping[int, bytes] | None = None) -> None:
        self.head = head
        self.blob = _Sparse({0: head, **(more or {})}, size)

    @cached_property
    def sha256(self) -> str:
        assert isinstance(self.blob, _Sparse)
        digest = hashlib.sha256(f"virtual {self.size}".encode())
        for offset, part in self.blob.parts:
            digest.update(f"{offset} {len(part)}".encode() + part)
        return digest.hexdigest()


def as_file(name: str, content: bytes | str | File) -> File:
    """Bytes become LFS or plain as the Hub would have it: by name, and by size."""
    if isinstance(content, File):
        return content
    data = content.encode() if isinstance(content, str) else content
    return LFS(data) if name.endswith(LFS_NAMES) or len(data) >= LFS_FROM else Plain(data)
