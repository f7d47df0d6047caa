"""Field validation of patches: duplicate and unknown members. Rows E07-E09."""

from __future__ import annotations

from typing import Final

import orjson
import pytest

from apiserver.registry.patch import field_validation

JSON_PATCHES: Final = {
    # recorded: fieldvalidation/patch-json-default
    "a value with a member twice": (
        b'[{"op":"add","path":"/bogus","value":1},{"op":"add","path":"/data","value":{"k":"1","k":"2"}}]',
        ['json patch duplicate field "[1].value.k"', 'duplicate field "data.k"'],
    ),
    "an operation with a member twice, and one too many": (
        b'[{"op":"add","path":"/metadata/labels","value":{"x":"1"},"extra":1,"op":"add"}]',
        ['json patch unknown field "[0].extra"', 'json patch duplicate field "[0].op"'],
    ),
    "items of lists": (
        b'[{"op":"replace","path":"/spec/containers/0","value":{"env":[{"name":"a","name":"b"}]}}]',
        [
            'json patch duplicate field "[0].value.env[0].name"',
            'duplicate field "spec.containers[0].env[0].name"',
        ],
    ),
    "a path with escapes": (
        b'[{"op":"add","path":"/metadata/annotations/a~1b","value":{"k":1,"k":2}}]',
        ['json patch duplicate field "[0].value.k"', 'duplicate field "metadata.annotations.a/b.k"'],
    ),
    "a test puts nothing anywhere": (
        b'[{"op":"test","path":"/data","value":{"k":"1","k":"2"}}]',
        ['json patch duplicate field "[0].value.k"'],
    ),
    "a path that is none": (
        b'[{"op":"add","path":"data","value":{"k":"1","k":"2"}}]',
        ['json patch duplicate field "[0].value.k"'],
    ),
    "no problems": (b'[{"op":"remove","path":"/data"},{"op":"copy","from":"/a","path":"/b"}]', []),
    "no operations": (b"[]", []),
    "null": (b"null", []),
}


@pytest.mark.parametrize(("body", "problems"), JSON_PATCHES.values(), ids=JSON_PATCHES)
def test_json_patches(body: bytes, problems: list[str]) -> None:
    found = field_validation.json_patch_problems(body, orjson.loads(body))
    assert found.in_patch + found.in_object == problems


MERGE_PATCHES: Final = {
    "a member twice": (b'{"data":{"k":"1"},"data":{"k":"2"}}', ['duplicate field "data"']),
    "deeper": (b'{"data":{"k":"1","k":"2"}}', ['duplicate field "data.k"']),
    "unknown fields are the schema's to find": (b'{"bogus":1}', []),
}


@pytest.mark.parametrize(("body", "problems"), MERGE_PATCHES.values(), ids=MERGE_PATCHES)
def test_merge_patches(body: bytes, problems: list[str]) -> None:
    assert field_validation.merge_patch_problems(body, orjson.loads(body)) == problems


def test_the_number_of_problems_is_bounded() -> None:
    patch = [{"op": "remove", "path": "/a", f"m{number}": 1} for number in range(10_000)]
    found = field_validation.json_patch_problems(orjson.dumps(patch), patch).in_patch
    assert len(found) == field_validation.PROBLEMS_MAX
