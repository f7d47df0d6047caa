"""CustomResourceDefinitions: their validation, their schemas with objects, and the answers of webhooks."""

from __future__ import annotations

import copy
from typing import Any, Final

import orjson

from apiserver.custom_resources.rules.validator import RuleValidator, blocking_error
from apiserver.custom_resources.schemas.custom_schema import CustomSchema
from apiserver.custom_resources.serving.conversion_reviews import ConversionReview, WebhookError
from apiserver.golang.quoting import aggregate
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.registry.strategy import WriteContext
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import TypeMismatch
from tests.fuzz.target import fuzzer
from tests.support.in_process import resource

_DEFINITIONS: Final = resource("customresourcedefinitions", "apiextensions.k8s.io")
_SCHEMA: Final[Document] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": {
                    "type": "string",
                    "pattern": "^[a-z]+$",
                    "default": "x",
                    "maxLength": 5,
                    "enum": ["x", "y"],
                },
                "n": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 9,
                    "multipleOf": 2,
                    "format": "int32",
                    "nullable": True,
                },
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "maxItems": 3,
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
                },
                "s": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string", "format": "date"},
                },
                "m": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
                "e": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "o": {"type": "number", "oneOf": [{"minimum": 5}, {"not": {"minimum": 3}}]},
            },
            "x-kubernetes-validations": [
                {
                    "rule": "self.n > 1 || self.a == 'x'",
                    "message": "m",
                    "reason": "FieldValueInvalid",
                    "fieldPath": ".n",
                },
                {
                    "rule": "!has(oldSelf.n) || self.n >= oldSelf.n",
                    "messageExpression": "'n ' + string(self.n)",
                },
            ],
        }
    },
}
_DEFINITION: Final[Document] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.n",
                        "statusReplicasPath": ".status.n",
                        "labelSelectorPath": ".status.s",
                    },
                },
                "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
                "selectableFields": [{"jsonPath": ".spec.a"}],
            }
        ],
        "conversion": {"strategy": "None"},
    },
}
_KEYWORDS: Final = (
    b"type object array string integer number boolean properties items additionalProperties "
    b"required enum default nullable "
    b"format pattern minimum maximum exclusiveMinimum multipleOf minLength maxLength minItems "
    b"maxItems uniqueItems minProperties "
    b"allOf anyOf oneOf not $ref description title x-kubernetes-validations rule message "
    b"messageExpression reason fieldPath "
    b"optionalOldSelf x-kubernetes-list-type x-kubernetes-list-map-keys x-kubernetes-map-type "
    b"x-kubernetes-int-or-string "
    b"x-kubernetes-embedded-resource x-kubernetes-preserve-unknown-fields atomic set map "
    b"granular date-time int32 "
)
_STAMP: Final = WriteContext(UserInfo("a"), "2024-05-06T07:08:09Z")


@fuzzer(
    orjson.dumps(_DEFINITION),
    words=_KEYWORDS
    + b"spec group names plural kind scope Namespaced Cluster versions name served storage schema "
    b"openAPIV3Schema subresources status scale conversion strategy Webhook webhook clientConfig url service "
    b"caBundle conversionReviewVersions",
    is_json=True,
)
def definitions(data: bytes) -> None:
    """A definition that fits the schema has errors about fields, or none."""
    try:
        document = orjson.loads(data)
        if not isinstance(document, dict):
            return
        _DEFINITIONS.check(document)
    except (orjson.JSONDecodeError, TypeMismatch):
        return
    document.setdefault("metadata", {})
    strategy = _DEFINITIONS.strategy
    strategy.prepare_create(document)
    if strategy.stamp_create is not None:
        strategy.stamp_create(_STAMP, document)
    errors = strategy.validate_create(document) + strategy.validate(document)
    aggregate(errors)
    assert all(isinstance(text, str) for text in strategy.warn(document, None))
    old = copy.deepcopy(document)
    update = strategy.update
    update.prepare(document, old)
    aggregate(update.validate(document, old))
    if not errors:
        for version in document["spec"]["versions"]:
            _custom_schema(version["schema"]["openAPIV3Schema"]).compile()


_META: Final = BuiltinSchemas((1, 34)).get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")


def _custom_schema(schema: Document) -> CustomSchema:
    return CustomSchema(schema, vendor="kubernetes", meta=_META)


def _accepted(schema: Any) -> Any:
    """Returns the schema as a definition that is stored has it; None if no definition may have it."""
    document = copy.deepcopy(_DEFINITION)
    version = document["spec"]["versions"][0]
    del version["selectableFields"], version["additionalPrinterColumns"], version["subresources"]
    version["schema"]["openAPIV3Schema"] = copy.deepcopy(schema)
    try:
        _DEFINITIONS.check(document)
    except TypeMismatch:
        return None
    strategy = _DEFINITIONS.strategy
    strategy.prepare_create(document)
    if strategy.validate_create(document) + strategy.validate(document):
        return None
    return document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


_SPEC: Final = {"a": "y", "n": 4, "l": [{"k": "a"}], "s": ["2024-05-06"], "m": {"x": 1, "y": "1"}, "o": 6}


@fuzzer(
    orjson.dumps({"schema": _SCHEMA, "new": {"spec": _SPEC}, "old": {"spec": {"n": 2}}}),
    orjson.dumps(
        {
            "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "new": {"a": [1]},
            "old": None,
        }
    ),
    orjson.dumps({"schema": {"type": "object", "anyOf": [None]}, "new": {}, "old": None}),
    words=_KEYWORDS,
    is_json=True,
)
def custom_resources(data: bytes) -> None:
    """Under a schema that a definition may have: pruned and checked, an object stays the same."""
    try:
        given = orjson.loads(data)
        schema, new, old = given["schema"], given["new"], given["old"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return
    if not isinstance(new, dict) or not isinstance(old, dict | None):
        return
    schema = _accepted(schema)
    if schema is None:
        return
    custom = _custom_schema(schema)
    head = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    try:
        for document in (new, old or {}):
            document |= copy.deepcopy(head)
            custom.pruner(document)
    except TypeMismatch:
        return
    once = orjson.dumps(new)
    assert not custom.pruner(new)
    assert orjson.dumps(new) == once
    errors = custom.validate(new, old)
    aggregate(errors)
    if blocking_error(errors) is None:
        findings = RuleValidator(schema, vendor="kubernetes").validate(new, old, is_bounded=False)
        aggregate(findings.errors)
    assert custom.schema.kind
    assert orjson.dumps(new) == once


_OBJECTS: Final[tuple[Document, ...]] = (
    {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "labels": {"a": "b"}},
        "spec": {},
    },
    {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "b", "uid": "u"}},
)


def _answer(*objects: Document, **result: Any) -> bytes:
    response = {"uid": "u", "result": {"status": "Success", **result}, "convertedObjects": objects}
    return orjson.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}
    )


@fuzzer(
    _answer(*({**each, "apiVersion": "example.com/v2"} for each in _OBJECTS)),
    _answer(status="Failure", message="no"),
    words=b"apiVersion kind response uid result status Success Failure message convertedObjects "
    b"metadata labels annotations name",
    is_json=True,
)
def conversion_answers(data: bytes) -> None:
    """What webhooks answer. Converted objects keep who they are."""
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    for version in ("v1", "v1beta1"):
        review = ConversionReview(
            "apiextensions.k8s.io", version, "u", copy.deepcopy(_OBJECTS), "example.com/v2"
        )
        try:
            converted = review.converted(copy.deepcopy(answer))
        except WebhookError as error:
            str(error).encode()
            continue
        for before, after in zip(_OBJECTS, converted, strict=True):
            assert after["apiVersion"] == "example.com/v2"
            assert after["metadata"]["name"] == before["metadata"]["name"]
            orjson.dumps(after)
