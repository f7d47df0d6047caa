"""JSON patches, merge patches and strategic merge patches, each applied to an object of a built-in type."""

from __future__ import annotations

from typing import Any, Final

import orjson

from apiserver.endpoints.handlers.patch_bodies import apply_patch, parse_patch
from apiserver.meta.errors import ApiError
from apiserver.meta.vocabulary import Document
from apiserver.registry.patch import merge_patch as merge_format
from apiserver.schema.compile import TypeMismatch
from apiserver.wire.media_types import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.fuzz.target import fuzzer, require_client_error
from tests.support.in_process import resource

_DEPLOYMENTS: Final = resource("deployments", "apps")
_DEPLOYMENT: Final[Document] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "labels": {"a": "b"}, "finalizers": ["x/y", "x/z"]},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [
                    {"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 81}]},
                    {"name": "d", "image": "j", "env": [{"name": "E", "value": "F"}]},
                ],
                "tolerations": [{"key": "k", "operator": "Exists"}],
            },
        },
    },
}


def _input(patch: Any, document: Document = _DEPLOYMENT, validation: str = "Strict") -> bytes:
    return orjson.dumps({"document": document, "patch": patch, "validation": validation})


def _patched(data: bytes, content_type: str) -> Document | None:
    """Returns the patched object; None if it is refused, or if this is no input."""
    try:
        given = orjson.loads(data)
        document, patch, validation = given["document"], orjson.dumps(given["patch"]), given["validation"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    try:
        # What is stored has passed the schema.
        if not isinstance(document, dict) or _DEPLOYMENTS.check(document):
            return None
    except TypeMismatch:
        return None
    try:
        parsed = parse_patch(patch, content_type, _DEPLOYMENTS, validation)
        patched = apply_patch(parsed, document, _DEPLOYMENTS, validation, lambda _: None).document
    except ApiError as error:
        require_client_error(error, data)
        return None
    return _same(patched)


def _same(document: Document) -> Document:
    """Returns a document as it is stored: it can be, and fits the schema still."""
    stored: Document = orjson.loads(orjson.dumps(document))
    assert not _DEPLOYMENTS.check(stored)
    return stored


_FIELDS: Final = (
    b"metadata labels finalizers spec template containers name image ports containerPort env replicas "
)


@fuzzer(
    _input(
        [
            {"op": "add", "path": "/spec/replicas", "value": 3},
            {"op": "test", "path": "/kind", "value": "Deployment"},
        ]
    ),
    _input([{"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}]),
    _input([{"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/-"}]),
    _input(
        [
            {"op": "remove", "path": "/spec/template/spec/containers/1"},
            {"op": "replace", "path": "", "value": _DEPLOYMENT},
        ]
    ),
    words=_FIELDS + b"op path from value add remove replace move copy test /- /0 ~0 ~1 /metadata/labels",
    is_json=True,
)
def json_patch(data: bytes) -> None:
    _patched(data, JSON_PATCH)


@fuzzer(
    _input({"metadata": {"labels": {"a": None, "c": "d"}}, "spec": {"replicas": 2}}),
    _input({"metadata": {"finalizers": None}, "unknown": {"a": None}}),
    words=_FIELDS,
    is_json=True,
)
def merge_patch(data: bytes) -> None:
    """Applied again, a merge patch changes nothing (RFC 7396)."""
    _patched(data, MERGE_PATCH)
    try:
        given = orjson.loads(data)
        document, patch = given["document"], given["patch"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return
    once = orjson.dumps(merge_format.apply(document, patch))
    assert orjson.dumps(merge_format.apply(orjson.loads(once), orjson.loads(data)["patch"])) == once


_CONTAINERS: Final = {
    "containers": [
        {"$patch": "delete", "name": "d"},
        {"name": "c", "image": "k", "$retainKeys": ["name", "image"]},
    ],
    "$setElementOrder/containers": [{"name": "c"}, {"name": "e"}],
    "tolerations": None,
}


@fuzzer(
    _input({"spec": {"template": {"spec": _CONTAINERS}}}),
    _input(
        {
            "metadata": {
                "$deleteFromPrimitiveList/finalizers": ["x/y"],
                "labels": {"$patch": "replace", "z": "y"},
            }
        }
    ),
    _input({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    _input(
        {
            "spec": {
                "template": {
                    "spec": {
                        "containers": [{"name": "c", "ports": [{"$patch": "merge", "containerPort": 80}]}]
                    }
                }
            }
        }
    ),
    _input({"metadata": {"$setElementOrder/finalizers": ["x/z", "x/y"], "finalizers": ["x/w"]}}),
    words=_FIELDS + b"$patch delete replace merge $retainKeys $setElementOrder/containers "
    b"$deleteFromPrimitiveList/finalizers",
    is_json=True,
)
def strategic_merge_patch(data: bytes) -> None:
    _patched(data, STRATEGIC_MERGE_PATCH)
