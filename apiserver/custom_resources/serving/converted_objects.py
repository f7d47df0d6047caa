"""Checks what conversion webhooks, and the functions of extensions, have made of objects.

They may change everything of an object but its identity: of its metadata only labels and annotations are
taken over. The errors are those of Kubernetes.
Source: k8s.io/apiextensions-apiserver, pkg/apiserver/conversion/webhook_converter.go.
"""

from __future__ import annotations

from typing import Any, Final

from apiserver.golang.formatting import json_type
from apiserver.meta import object_meta
from apiserver.meta.vocabulary import Document

_CONVERTED_META: Final = ("labels", "annotations")
_IDENTITY: Final = ("name", "namespace", "uid")


class InvalidObject(Exception):
    """A converted object is not a version of the original one."""


def with_original_identity(
    original: Document, given: Any, desired: str, sent: Document | None = None
) -> Document:
    """Returns a converted object with the original's metadata, except for labels and annotations.

    given: the converted object, which is changed. desired: the apiVersion that it was converted to. sent: the
    original's metadata as far as it was sent to be converted, if the caller has it. Raises InvalidObject.
    """
    if given is None:
        # Go's decoder leaves out null, and nothing is left to parse.
        raise InvalidObject("unexpected end of JSON input")
    if not isinstance(given, dict):
        raise InvalidObject(
            f"json: cannot unmarshal {json_type(given)} into Go value of type unstructured.detector"
        )
    if given.get("apiVersion") != desired:
        received = given.get("apiVersion", "")
        raise InvalidObject(f"invalid groupVersion (expected {desired}, received {received})")
    if given.get("kind") != original["kind"]:
        raise InvalidObject(f"invalid kind (expected {original['kind']}, received {given.get('kind', '')})")
    meta = given.get("metadata")
    if meta is None:
        raise InvalidObject("missing metadata in converted object")
    if not isinstance(meta, dict):
        raise InvalidObject(f"invalid metadata of type {json_type(meta)} in converted object")
    original_meta = original["metadata"]
    if sent is not None and meta == sent:  # Most conversions change nothing here.
        given["metadata"] = original_meta.copy()
        return given
    for field in _IDENTITY:
        expected, received = original_meta.get(field), meta.get(field)
        if expected != received and (expected or received):
            shown = field.upper() if field == "uid" else field
            raise InvalidObject(f"must have the same {shown}: {expected or ''} != {received or ''}")
    result_meta: Document = original_meta.copy()
    for field in _CONVERTED_META:
        before, texts = original_meta.get(field), meta.get(field)
        if texts == before:  # It has been validated.
            continue
        result_meta.pop(field, None)
        if (texts := _validated_texts(field, texts, before or {})) is not None:
            result_meta[field] = texts
    given["metadata"] = result_meta
    converted: Document = given
    return converted


def _validated_texts(field: str, given: Any, original: dict[str, str]) -> dict[str, str] | None:
    """Returns the labels or annotations that a webhook gave an object. Raises InvalidObject."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InvalidObject(f"invalid metadata.{field} of type {json_type(given)} in converted object")
    for key, value in given.items():
        if not isinstance(value, str):
            raise InvalidObject(
                f"metadata.{field}[{key}] must be a string, but is {json_type(value)} in converted object"
            )
    if given != original:
        errors = (
            object_meta.validate_labels(given, "metadata.labels")
            if field == "labels"
            else object_meta.validate_annotations(given)
        )
        if errors:
            raise InvalidObject(", ".join(dict.fromkeys(map(str, errors))))
    return given or None
