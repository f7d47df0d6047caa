"""Decides which responses are compressed by gzip, and compresses them (row D20).

Source: k8s.io/apiserver, pkg/endpoints/handlers/responsewriters/writers.go.
"""

from __future__ import annotations

import gzip
import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NewType

from apiserver.endpoints.representation.lists import Slice, WorkAhead

# Shorter bodies are not worth it.
GZIP_BODY_BYTES_MIN: Final = 128 * 1024
# What is compressed for each response: level 1 is most of what can be had, at a third of the time.
_RESPONSE_LEVEL: Final = 1
# What is compressed once and sent to many: beyond this level more time saves little.
_CACHED_LEVEL: Final = 6
_GZIP_WBITS: Final = 31
CONTENT_ENCODING: Final[Mapping[str, str]] = MappingProxyType({"Content-Encoding": "gzip"})

# A body that is compressed by gzip.
GzipBytes = NewType("GzipBytes", bytes)


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Returns whether a client accepts gzip; as in Kubernetes only the bare word counts, not one with a
    weight.

    accept_encoding: the Accept-Encoding header, if there is one.
    """
    if accept_encoding is None:
        return False
    return any(token.strip() == "gzip" for token in accept_encoding.split(","))


def compress(body: bytes) -> GzipBytes:
    """Compress a body that is cached; equal bodies are compressed to equal bytes."""
    return GzipBytes(gzip.compress(body, _CACHED_LEVEL, mtime=0))


def decompress(body: GzipBytes) -> bytes:
    return gzip.decompress(body)


# How much is compressed at a time: a millisecond's worth.
_GZIP_SLICE_BYTES: Final = 64 * 1024


class BodySlices:
    """The slices of a response body, which can be sent once.

    gzip: whether to compress them, if there are more than `bytes_min` of them. Empty slices stay empty.
    is_gzipped: whether the slices are compressed; known once the first non-empty slice has been made.
    """

    def __init__(
        self, slices: Iterable[Slice], *, gzip: bool = False, bytes_min: int = GZIP_BODY_BYTES_MIN
    ) -> None:
        self.is_gzipped = False
        self._gzip, self._bytes_min = gzip, bytes_min
        self._slices = slices

    def __iter__(self) -> Iterator[Slice]:
        return self._gzipped() if self._gzip else iter(self._slices)

    def _gzipped(self) -> Iterator[Slice]:
        pieces: list[bytes] = []
        size = 0
        remaining = iter(self._slices)
        for piece in remaining:
            if not piece or isinstance(piece, WorkAhead):
                yield piece
                continue
            pieces.append(piece)
            size += len(piece)
            if size > self._bytes_min:
                self.is_gzipped = True
                return (yield from _compressed(itertools.chain(pieces, remaining)))
            yield b""
        yield from pieces


def _compressed(slices: Iterable[Slice]) -> Iterator[Slice]:
    compressor = zlib.compressobj(_RESPONSE_LEVEL, wbits=_GZIP_WBITS)
    for piece in slices:
        if not piece or isinstance(piece, WorkAhead):
            yield piece
            continue
        for at in range(0, len(piece), _GZIP_SLICE_BYTES):
            yield compressor.compress(piece[at : at + _GZIP_SLICE_BYTES])
    yield compressor.flush()
