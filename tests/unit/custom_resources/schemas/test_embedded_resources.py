"""The types and the metadata of resources that custom resources embed."""

from __future__ import annotations

from typing import Any, Final

import pytest

from .samples import KEEPS_UNKNOWN, RESOURCE, field, problems_of

GOOD: Final = {"apiVersion": "a.example/v1", "kind": "A", "metadata": {"name": "a"}}
KIND_TEXT: Final = "may have mixed case, but should otherwise match: a DNS-1035 label must consist of"
RESOURCES: Final[dict[str, tuple[dict[str, Any], list[tuple[str, str, str]]]]] = {
    "a good one": (GOOD, []),
    "no metadata": ({"apiVersion": "v1", "kind": "A"}, []),
    "no name": (GOOD | {"metadata": {}}, []),
    "no type": ({}, [("v.apiVersion", "Required", ""), ("v.kind", "Required", "")]),
    "an empty type": (GOOD | {"kind": ""}, [("v.kind", "Required", "")]),
    "a version with too many parts": (
        GOOD | {"apiVersion": "a/b/c"},
        [("v.apiVersion", "Invalid", "unexpected GroupVersion string: a/b/c")],
    ),
    "a kind that cannot be one": (GOOD | {"kind": "A b"}, [("v.kind", "Invalid", KIND_TEXT)]),
    "a kind that is no text": (GOOD | {"kind": 5}, [("v.kind", "Invalid", "must be a string")]),
    "a name that fits into no path": (
        GOOD | {"metadata": {"name": "a/b"}},
        [("v.metadata.name", "Invalid", "may not contain '/'")],
    ),
    "labels": (
        GOOD | {"metadata": {"labels": {"a b": "x"}}},
        [("v.metadata.labels", "Invalid", "must consist of alphanumeric characters")],
    ),
}


@pytest.mark.parametrize(("resource", "expected"), RESOURCES.values(), ids=RESOURCES)
def test_the_errors_of_embedded_resources(
    resource: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    found = problems_of(field(RESOURCE | KEEPS_UNKNOWN).validate({"v": resource}))
    assert [(at, reason) for at, reason, _ in found] == [(at, reason) for at, reason, _ in expected]
    for (_, _, message), (_, _, part) in zip(found, expected, strict=True):
        assert part in message
