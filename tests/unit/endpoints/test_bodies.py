"""How much work there may be with a body decides where it is parsed."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.endpoints.bodies import size_class_of
from apiserver.load.size_class import SizeClass

YAML: Final = "application/yaml"
APPLY: Final = "application/apply-patch+yaml"
SIZES: Final = {
    "little JSON": (b'{"a": "&b"}', "application/json", SizeClass.SMALL),
    "16 KB of JSON": (b'{"a": "%b"}' % (b"b" * 16_400), "application/json", SizeClass.LARGE),
    "500 objects in 1.5 KB": (b"[%b]" % b",".join([b"{}"] * 500), "application/json", SizeClass.SMALL),
    "501 objects in 1.5 KB": (b"[%b]" % b",".join([b"{}"] * 501), "application/json", SizeClass.LARGE),
    "little YAML": (b"a: b", YAML, SizeClass.SMALL),
    "1 KB of YAML": (b"a: %b" % (b"b" * 1_100), YAML, SizeClass.LARGE),
    "YAML that may have aliases, which stand for any number of values": (b"a: &b c", YAML, SizeClass.LARGE),
    "an apply in YAML that may have aliases": (b"a: &b c", APPLY, SizeClass.LARGE),
    "an apply in JSON, which has none": (b'{"a": "&b"}', APPLY, SizeClass.SMALL),
}


@pytest.mark.parametrize(("body", "media_type", "size"), SIZES.values(), ids=SIZES)
def test_size_classes(body: bytes, media_type: str, size: SizeClass) -> None:
    assert size_class_of(body, media_type) is size
