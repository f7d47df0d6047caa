"""Which responses are compressed by gzip. Row D20."""

from __future__ import annotations

import gzip
from typing import Final

import pytest

from apiserver.endpoints.compression import (
    GZIP_BODY_BYTES_MIN,
    BodySlices,
    accepts_gzip,
    compress,
    decompress,
)
from tests.support.body_slices import sent

ACCEPTED: Final[dict[str | None, bool]] = {
    None: False,
    "": False,
    "gzip": True,
    "deflate, gzip ,br": True,
    "gzip;q=1": False,
    "gzip;q=0": False,
    "*": False,
    "GZIP": False,
}


@pytest.mark.parametrize(("header", "is_accepted"), ACCEPTED.items(), ids=map(repr, ACCEPTED))
def test_only_the_bare_word_gzip_is_accepted(header: str | None, is_accepted: bool) -> None:
    assert accepts_gzip(header) is is_accepted


SIZES: Final = {
    "nothing": (0, False),
    "as much as is not worth it": (GZIP_BODY_BYTES_MIN, False),
    "a byte more": (GZIP_BODY_BYTES_MIN + 1, True),
}


@pytest.mark.parametrize(("size", "is_gzipped"), SIZES.values(), ids=SIZES)
def test_long_bodies_are_compressed(size: int, is_gzipped: bool) -> None:
    whole = b"x" * size
    slices = [whole[at : at + 1000] for at in range(0, size, 1000)]
    body = BodySlices(slices, gzip=True)
    body_bytes = sent(body)
    assert body.is_gzipped is is_gzipped
    assert (gzip.decompress(body_bytes) if is_gzipped else body_bytes) == whole
    assert sent(BodySlices(slices)) == whole, "the client does not accept gzip"


def test_whether_a_body_is_compressed_is_known_with_its_first_bytes() -> None:
    body = BodySlices([b"x" * GZIP_BODY_BYTES_MIN, b"y", b"z"], gzip=True)
    assert next(filter(None, body))
    assert body.is_gzipped


def test_a_body_that_begins_like_gzip_is_sent_as_it_is() -> None:
    body = BodySlices([b"\x1f\x8b", b"x"], gzip=True)
    assert sent(body) == b"\x1f\x8bx"
    assert not body.is_gzipped


def test_equal_bodies_are_compressed_to_equal_bytes() -> None:
    """A cached document may be built again, on another replica, and has the same ETag."""
    assert compress(b"document") == compress(b"document")
    assert decompress(compress(b"document")) == b"document"
