"""The sizes of documents that are not encoded yet, and of what defaults add to them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.load.size_class import (
    HUGE_BYTES,
    LARGE_BYTES,
    SizeClass,
    size_class_of_defaults,
    size_class_of_document,
)


def document(size_bytes: int) -> dict[str, Any]:
    """A document that has so many bytes when it is encoded."""
    return {"a": "x" * (size_bytes - len(b'{"a":""}'))}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


SIZES: Final = {
    "nothing": ({}, SizeClass.SMALL),
    "as much as is small": (document(LARGE_BYTES), SizeClass.SMALL),
    "more": (document(LARGE_BYTES + 1), SizeClass.LARGE),
    "as much as is large": (document(HUGE_BYTES), SizeClass.LARGE),
    "more than that": (document(HUGE_BYTES + 1), SizeClass.HUGE),
    "many short values": ({"a": [0] * HUGE_BYTES}, SizeClass.HUGE),
    "what cannot be encoded": (nested(1_000), SizeClass.HUGE),
}


@pytest.mark.parametrize(("given", "size"), SIZES.values(), ids=SIZES)
def test_the_size_of_a_document(given: dict[str, Any], size: SizeClass) -> None:
    assert size_class_of_document(given) is size


# What is sent, what defaults add to each object or null in it, and how large that is.
DEFAULTS: Final[dict[str, tuple[bytes, int, SizeClass]]] = {
    "none": (b'{"a":[{},{}]}', 0, SizeClass.SMALL),
    "those of a usual object": (b'{"a":%b}' % (b"{}" * 100), 1_000, SizeClass.SMALL),
    "of many objects": (b'{"a":%b}' % (b"{}" * 400), 1_000, SizeClass.LARGE),
    "of many nulls": (b'{"a":%b}' % (b"null," * 400), 1_000, SizeClass.LARGE),
    "megabytes": (b'{"a":%b}' % (b"{}" * 400), 10_000, SizeClass.HUGE),
    "of a single object": (b"{}", 1 << 1_000, SizeClass.HUGE),
}


@pytest.mark.parametrize(("text", "default_bytes", "size"), DEFAULTS.values(), ids=DEFAULTS)
def test_the_size_of_defaults(text: bytes, default_bytes: int, size: SizeClass) -> None:
    assert size_class_of_defaults(text, default_bytes) is size


def test_other_formats_than_json_may_have_an_object_in_each_byte() -> None:
    assert size_class_of_defaults(b"a:\n" * 100, 1_000) is SizeClass.LARGE
