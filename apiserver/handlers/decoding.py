"""A body as a document of one resource: its kind, its schema, its place. Rows A16, E01-E13."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from apiserver.brand import Brand
from apiserver.endpoints import bodies
from apiserver.endpoints.negotiation import JSON, base_type
from apiserver.errors import BadRequest, UnsupportedMediaType
from apiserver.registry.served_resource import ServedResource
from apiserver.schema.compile import TypeMismatch, json_type
from apiserver.schema.duplicates import duplicate_fields
from apiserver.vocabulary import Document
from apiserver.wire.protobuf import NotProtobuf, open_envelope

# So much of a body that cannot be understood is shown.
SHOWN_BYTES: Final = 64


class Decoder:
    """Bodies to documents, for one brand of the API."""

    def __init__(self, brand: Brand) -> None:
        self._protobuf = brand.protobuf_media_type
        self.accepted = (JSON, self._protobuf)

    def object(
        self,
        body: bytes,
        content_type: str,
        resource: ServedResource,
        *,
        namespace: str,
        field_validation: str,
        warnings: list[str],
    ) -> Document:
        """The object in a body: checked against the schema, pruned, and at home in `namespace`.

        warnings: takes what field validation has to say.
        Raises UnsupportedMediaType, BadRequest.
        """
        media_type = base_type(content_type) or JSON
        document = _require_kind(self._parse(body, media_type, resource), resource)
        repeated: list[str] = []
        if media_type == JSON and field_validation != "Ignore":
            repeated = duplicate_fields(body, document)
        try:
            check(
                document,
                resource,
                field_validation=field_validation,
                warnings=warnings,
                repeated=repeated,
            )
        except TypeMismatch as mismatch:
            raise BadRequest(_cannot_be_handled(resource, str(mismatch))) from None
        meta = document.setdefault("metadata", {})
        if resource.is_namespaced and meta.get("namespace", namespace) not in (namespace, ""):
            raise BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        return document

    def _parse(self, body: bytes, media_type: str, resource: ServedResource) -> Any:
        try:
            if media_type == JSON:
                return orjson.loads(body)
            if media_type == self._protobuf:
                envelope = open_envelope(body)
                document = resource.from_protobuf(envelope.raw)
                return {"apiVersion": envelope.api_version, "kind": envelope.kind, **document}
        except orjson.JSONDecodeError as error:
            raise _unrecognized(
                resource, f"couldn't get version/kind; json parse error: {bodies.describe(error, body)}", body
            ) from None
        except NotProtobuf as error:
            raise _unrecognized(resource, str(error), body) from None
        except LookupError:
            pass  # This kind has no form in protobuf.
        raise UnsupportedMediaType.none_of(self.accepted)


def _unrecognized(resource: ServedResource, why: str, body: bytes) -> BadRequest:
    shown = body[:SHOWN_BYTES].hex() or "<empty>"
    return BadRequest(
        f"the object provided is unrecognized (must be of type {resource.kind}): {why} ({shown})"
    )


def _require_kind(document: Any, resource: ServedResource) -> Document:
    """A body that does not say what it is takes that from the path (row E13 if it says otherwise)."""
    if not isinstance(document, dict):
        raise BadRequest(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{json_type(document)} into Go value of type struct {{ APIVersion string; Kind string }}"
        )
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if isinstance(api_version, str) and api_version and api_version != resource.api_version:
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if isinstance(kind, str) and kind and kind != resource.kind:
        version = resource.group_version.version
        raise BadRequest(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f"converting ({version}.{kind}) to ({version}.{resource.kind}): unknown conversion"
        )
    return document


def check(
    document: Document,
    resource: ServedResource,
    *,
    field_validation: str,
    warnings: list[str],
    repeated: Sequence[str] = (),
) -> None:
    """Check a document against the schema and prune it.

    repeated: the paths of fields that its text has more than once.
    Raises TypeMismatch; BadRequest for unknown and repeated fields, if they are not allowed.
    """
    problems = [f'duplicate field "{path}"' for path in repeated]
    problems += [f'unknown field "{path}"' for path in resource.check(document)]
    if problems and field_validation == "Strict":
        raise BadRequest(_cannot_be_handled(resource, f"strict decoding error: {', '.join(problems)}"))
    if problems and field_validation == "Warn":
        warnings += problems
    document["apiVersion"], document["kind"] = resource.api_version, resource.kind


def _cannot_be_handled(resource: ServedResource, why: str) -> str:
    version = resource.group_version.version
    return f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: {why}'
