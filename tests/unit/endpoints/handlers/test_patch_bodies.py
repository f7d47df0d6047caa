"""Patches of each format, parsed and applied to a document. Rows E07, E08, L03, L05, L06."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from apiserver.endpoints.handlers.decoding import DecodedDocument, rewriting_before_schema
from apiserver.endpoints.handlers.patch_bodies import apply_patch, parse_patch
from apiserver.meta.errors import ApiError, BadRequest, Invalid, UnprocessablePatch
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document
from apiserver.wire.media_types import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.unit.endpoints.handlers.calls import DEPLOYMENTS


def deployment() -> Document:
    """Has two containers, which a strategic merge patch knows by their names."""
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}},
        },
    }


def patched(content_type: str, patch: Any, field_validation: str = "Warn") -> DecodedDocument:
    body = patch if isinstance(patch, bytes) else orjson.dumps(patch)
    DEPLOYMENTS.compile()
    parsed = parse_patch(body, content_type, DEPLOYMENTS, field_validation)
    return apply_patch(
        parsed, deployment(), DEPLOYMENTS, field_validation, rewriting_before_schema(Deviations())
    )


def images(document: Document) -> dict[str, str]:
    return {each["name"]: each["image"] for each in document["spec"]["template"]["spec"]["containers"]}


def containers(*changed: Document) -> Document:
    return {"spec": {"template": {"spec": {"containers": list(changed)}}}}


IMAGE: Final = "/spec/template/spec/containers/1/image"
FORMATS = {
    "JSON patch changes what a path leads to": (
        JSON_PATCH,
        [{"op": "replace", "path": IMAGE, "value": "b:2"}],
        {"a": "a:1", "b": "b:2"},
    ),
    "merge patch replaces a list": (MERGE_PATCH, containers({"name": "b", "image": "b:2"}), {"b": "b:2"}),
    "strategic merge patch merges a list by its key": (
        STRATEGIC_MERGE_PATCH,
        containers({"name": "b", "image": "b:2"}),
        {"a": "a:1", "b": "b:2"},
    ),
}


@pytest.mark.parametrize(("content_type", "patch", "expected"), FORMATS.values(), ids=FORMATS)
def test_a_patch_of_each_format(content_type: str, patch: Any, expected: dict[str, str]) -> None:
    document, warnings, _ = patched(content_type, patch)
    assert images(document) == expected
    assert not warnings


@pytest.mark.parametrize(("content_type", "patch"), [each[:2] for each in FORMATS.values()], ids=FORMATS)
def test_another_attempt_applies_the_patch_as_it_was_sent(content_type: str, patch: Any) -> None:
    parsed = parse_patch(orjson.dumps(patch), content_type, DEPLOYMENTS, "Warn")
    before_schema = rewriting_before_schema(Deviations())
    first = apply_patch(parsed, deployment(), DEPLOYMENTS, "Warn", before_schema).document
    expected = images(first)
    first["spec"]["template"]["spec"]["containers"][-1]["image"] = "changed by another stage"
    second = apply_patch(parsed, deployment(), DEPLOYMENTS, "Warn", before_schema).document
    assert images(second) == expected


UNKNOWN: Final = {"spec": {"nonsense": 1}}
REPEATED: Final = b'{"metadata": {"labels": {"a": "1"}, "labels": {"a": "2"}}}'
VALIDATION = {
    "Warn tells of an unknown field": (UNKNOWN, "Warn", ['unknown field "spec.nonsense"']),
    "Ignore tells of no unknown field": (UNKNOWN, "Ignore", []),
    "Warn tells of a repeated field": (REPEATED, "Warn", ['duplicate field "metadata.labels"']),
    "Ignore tells of no repeated field": (REPEATED, "Ignore", []),
}


@pytest.mark.parametrize(("patch", "validation", "warnings"), VALIDATION.values(), ids=VALIDATION)
def test_what_field_validation_warns_of(patch: Any, validation: str, warnings: list[str]) -> None:
    document, found, _ = patched(MERGE_PATCH, patch, validation)
    assert [*found] == warnings
    assert "nonsense" not in document["spec"]


TWO_KINDS: Final = b'{"spec":{"zz":1,"aa":1},"metadata":{"labels":{"a":"1"},"labels":{"a":"2"}}}'
DUPLICATES_FIRST: Final = [
    'duplicate field "metadata.labels"',
    'unknown field "spec.aa"',
    'unknown field "spec.zz"',
]
# What is wrong with the patch comes before what is wrong with the patched object, whose members are sorted.
# Recorded: fieldvalidation/patch-json-strict, fieldvalidation/patch-strategic-strict.
IN_ORDER: Final[dict[str, tuple[str, bytes, list[str]]]] = {
    "of a merge patch": (MERGE_PATCH, TWO_KINDS, DUPLICATES_FIRST),
    "of a strategic merge patch": (STRATEGIC_MERGE_PATCH, TWO_KINDS, DUPLICATES_FIRST),
    "of a JSON patch, with duplicates in its values": (
        JSON_PATCH,
        b'[{"op":"add","path":"/aa","value":1},{"op":"add","path":"/metadata","value":{"name":"a","name":"d"}}]',
        [
            'json patch duplicate field "[1].value.name"',
            'unknown field "aa"',
            'duplicate field "metadata.name"',
        ],
    ),
}


@pytest.mark.parametrize(("content_type", "patch", "warnings"), IN_ORDER.values(), ids=IN_ORDER)
def test_e08_the_order_of_problems(content_type: str, patch: bytes, warnings: list[str]) -> None:
    assert [*patched(content_type, patch).warnings] == warnings


REFUSALS = {
    "an unknown field, in strict validation": (MERGE_PATCH, UNKNOWN, BadRequest, "spec.nonsense"),
    "a body that is not JSON": (MERGE_PATCH, b"{", BadRequest, "error decoding patch: "),
    "a merge patch that is a list": (MERGE_PATCH, [], BadRequest, "cannot unmarshal array"),
    "a JSON patch that is an object": (JSON_PATCH, {}, BadRequest, "error decoding patch: "),
    "a path that leads nowhere": (JSON_PATCH, [{"op": "remove", "path": "/none"}], UnprocessablePatch, ""),
    "a patch that makes no object": (
        JSON_PATCH,
        [{"op": "replace", "path": "", "value": "text"}],
        Invalid,
        "cannot unmarshal string",
    ),
    "a patch of the kind": (MERGE_PATCH, {"kind": "Pod"}, Invalid, 'no kind "Pod" is registered'),
    "a patch to a wrong type": (MERGE_PATCH, {"spec": {"replicas": "two"}}, Invalid, "two"),
}


@pytest.mark.parametrize(("content_type", "patch", "refusal", "text"), REFUSALS.values(), ids=REFUSALS)
def test_what_is_refused(content_type: str, patch: Any, refusal: type[ApiError], text: str) -> None:
    with pytest.raises(ApiError) as refused:
        patched(content_type, patch, "Strict")
    assert isinstance(refused.value, refusal)
    assert text in refused.value.message


def test_a_strategic_merge_patch_does_not_change_the_kind() -> None:
    assert patched(STRATEGIC_MERGE_PATCH, {"kind": "Pod"}).document["kind"] == "Deployment"
