"""Parses the bodies of applies, which are YAML, JSON or CBOR, and checks kind and name (row F07)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver import wire
from apiserver.endpoints.bodies import load_json, looks_like_json
from apiserver.endpoints.handlers.decoding import DecodedDocument, require_name, require_namespace
from apiserver.golang.formatting import json_type
from apiserver.meta.errors import BadRequest
from apiserver.meta.vocabulary import Document, RequestInfo
from apiserver.registry.served_resource import ServedResource
from apiserver.schema.duplicates import duplicate_fields
from apiserver.wire.json_text import InvalidJson
from apiserver.wire.media_types import APPLY_CBOR


def parse(body: bytes, content_type: str, *, is_checked: bool) -> DecodedDocument:
    """Returns the document in a body, not checked against a schema, and a warning about each duplicate field.

    is_checked: whether to look for duplicate fields. Raises BadRequest, RequestEntityTooLarge.
    """
    duplicates: list[str] = []
    try:
        if content_type == APPLY_CBOR:
            document = wire.cbor.load(body)
        else:
            document, duplicates = _from_yaml(body, is_checked=is_checked)
    except (wire.yaml.InvalidYaml, wire.cbor.InvalidCbor) as error:
        raise BadRequest(f"error decoding YAML: {error}") from None
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise BadRequest(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{json_type(document)} into Go value of type map[string]interface {{}}"
        )
    return DecodedDocument(document, duplicates if is_checked else ())


def strict_error(duplicates: Sequence[str]) -> str:
    """Returns the error about duplicate fields in strict validation."""
    return f"error strict decoding YAML: error converting YAML to JSON: {wire.yaml.strict_error(duplicates)}"


def _from_yaml(body: bytes, *, is_checked: bool) -> tuple[Any, list[str]]:
    """Returns a document and warnings about its duplicate fields.

    JSON, the usual case, is parsed faster as such, unless it has duplicate fields, which are reported by
    line.
    """
    if looks_like_json(body):
        try:
            document = load_json(body)
        except InvalidJson:
            pass
        else:
            if not (is_checked and duplicate_fields(body, document)):
                return document, []
    return wire.yaml.load(body)


def require_place(
    document: Document, kind: ServedResource, resource: ServedResource, info: RequestInfo
) -> bool:
    """Require that a body is about the object in the path.

    kind: of the body. resource: of the object.
    Returns whether the body names the object; if not, the name is added. Raises BadRequest.
    """
    if (document.get("apiVersion"), document.get("kind")) != (kind.api_version, kind.kind):
        raise BadRequest(f"invalid object type: {kind_text(document)}")
    if document.get("metadata") is None:
        document["metadata"] = {}
    meta = document["metadata"]
    if type(meta) is not dict:
        return True  # The schema reports it, like other values of wrong types.
    if type(meta.get("managedFields")) is list:
        raise BadRequest("metadata.managedFields must be nil")
    has_name = meta.get("name") not in (None, "")
    if not has_name:
        meta["name"] = info.name
    if type(meta["name"]) is str:
        require_name(document, info.name)
    if type(meta.get("namespace")) is str:
        require_namespace(document, resource, info.namespace)
    return has_name


def kind_text(document: Document) -> str:
    """Returns the kind of a document as Go prints it: `apps/v1, Kind=Deployment`, `/v1, Kind=ConfigMap`."""
    api_version, kind = _text_at(document, "apiVersion"), _text_at(document, "kind")
    shown = api_version if "/" in api_version else f"/{api_version}"
    return f"{shown}, Kind={kind}"


def place_text(document: Document) -> str:
    """Returns `namespace/name` of a document, for errors."""
    meta = document["metadata"]
    return f"{_text_at(meta, 'namespace')}/{_text_at(meta, 'name')}"


def _text_at(value: Any, field: str) -> str:
    text = value.get(field) if type(value) is dict else None
    return text if type(text) is str else ""
