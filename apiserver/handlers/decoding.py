"""A body as a document of one resource: its kind, its schema, its place. Rows A16, E01-E13."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from apiserver.brand import Brand
from apiserver.endpoints import bodies
from apiserver.endpoints.bodies import BodyParser, MalformedBody
from apiserver.errors import BadRequest, RequestEntityTooLarge
from apiserver.registry import offload
from apiserver.registry.served_resource import ServedResource
from apiserver.schema.compile import TypeMismatch, json_type
from apiserver.vocabulary import Document
from storage.interface import VALUE_BYTES_MAX

# So much of a body that cannot be understood is shown.
QUOTED_BYTES: Final = 30
# Of a document with its defaults. Not all of what is sent need be stored.
DOCUMENT_BYTES_MAX: Final = 2 * VALUE_BYTES_MAX


class Decoder:
    """Bodies to documents, for one brand of the API."""

    def __init__(
        self,
        brand: Brand,
        *,
        has_cbor: bool = False,
        before_schema: Callable[[Document], None] = lambda document: None,
    ) -> None:
        """spell_out: puts into words what the schema would lose, as the difference of empty and absent."""
        self._parser = BodyParser(brand, has_cbor=has_cbor)
        self._before_schema = before_schema

    async def read(
        self,
        body: bytes,
        content_type: str,
        resource: ServedResource,
        *,
        namespace: str,
        field_validation: str,
        warnings: list[str],
    ) -> Document:
        """As `object`; others need not wait for a large body."""
        is_large = bodies.is_large(body, content_type)
        if is_large:
            resource.compile()
        return await offload.run(
            is_large,
            self.object,
            body,
            content_type,
            resource,
            namespace=namespace,
            field_validation=field_validation,
            warnings=warnings,
        )

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
        Raises UnsupportedMediaType, BadRequest, RequestEntityTooLarge.
        """
        try:
            parsed = self._parser.parse(body, content_type, lambda raw: resource.from_protobuf(raw))
        except MalformedBody as error:
            raise _unrecognized(resource, str(error), body) from None
        document = _require_kind(parsed.document, resource)
        self._before_schema(document)
        repeated = parsed.repeated() if field_validation != "Ignore" else []
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
        if len(body) > offload.LARGE_BYTES:
            require_size(document)
        meta = document.setdefault("metadata", {})
        if resource.is_namespaced and meta.get("namespace", namespace) not in (namespace, ""):
            raise BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        return document


def _unrecognized(resource: ServedResource, why: str, body: bytes) -> BadRequest:
    return BadRequest(
        f"the object provided is unrecognized (must be of type {resource.kind}): {why} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    """The beginning of a body, as text if it looks like JSON."""
    if not body:
        return "<empty>"
    shown = body[:QUOTED_BYTES]
    text = shown.decode("utf-8", "replace") if body.startswith(b"{") else shown.hex()
    return text if len(body) <= QUOTED_BYTES else f"{text} ..."


def _require_kind(document: Any, resource: ServedResource) -> Document:
    """A body that does not say what it is takes that from the path (row E13 if it says otherwise)."""
    if not isinstance(document, dict):
        raise BadRequest(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{json_type(document)} into Go value of type struct {{ APIVersion string; Kind string }}"
        )
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if isinstance(kind, str) and kind and kind != resource.kind:
        version = api_version if isinstance(api_version, str) and api_version else resource.api_version
        version = version.rpartition("/")[2]
        raise BadRequest(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f"converting ({version}.{kind}) to ({_package(resource)}.{resource.kind}): unknown conversion"
        )
    if isinstance(api_version, str) and api_version and api_version != resource.api_version:
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    return document


def _package(resource: ServedResource) -> str:
    """Where Kubernetes has the kind's internal type."""
    return resource.group_version.group.partition(".")[0] or "core"


def check(
    document: Document,
    resource: ServedResource,
    *,
    field_validation: str,
    warnings: list[str],
    repeated: Sequence[str] = (),
) -> None:
    """Check a document against the schema and prune it.

    repeated: what is to be said of fields that its text has more than once.
    Raises TypeMismatch; BadRequest for unknown and repeated fields, if they are not allowed.
    """
    problems = [*repeated]
    problems += [f'unknown field "{path}"' for path in resource.check(document)]
    if problems and field_validation == "Strict":
        raise BadRequest(_cannot_be_handled(resource, f"strict decoding error: {', '.join(problems)}"))
    if problems and field_validation == "Warn":
        warnings += problems
    document["apiVersion"], document["kind"] = resource.api_version, resource.kind


def require_size(document: Document) -> None:
    """Refuse what can never be stored, before anything else is done with it.

    `{}` may be a container, which is a hundred times as long once it has its defaults.
    Raises RequestEntityTooLarge.
    """
    try:
        size = len(orjson.dumps(document))
    except TypeError:
        return  # Nested too deeply, which whoever encodes it will tell.
    if size > DOCUMENT_BYTES_MAX:
        raise RequestEntityTooLarge(VALUE_BYTES_MAX)


def _cannot_be_handled(resource: ServedResource, why: str) -> str:
    version = resource.group_version.version
    return f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: {why}'
