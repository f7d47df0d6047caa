"""Decodes bodies, and checks the kind, the schema, the namespace and the name (rows A16, E01-E13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from apiserver.endpoints.bodies import Body, BodyParser, MalformedBody, ParsedDocument
from apiserver.golang.formatting import json_type
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.meta import field_errors
from apiserver.meta.brand import Brand
from apiserver.meta.errors import BadRequest, Invalid, RequestEntityTooLarge
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document, GroupKind
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import TooDeep
from apiserver.schema.compile import TypeMismatch
from apiserver.schema.duplicates import strict_problems
from apiserver.storage.interface import VALUE_BYTES_MAX

# How much of a malformed body its error quotes.
QUOTED_BYTES: Final = 30
# The largest document, with its defaults, that is handled. Not all of it need be stored.
DOCUMENT_BYTES_MAX: Final = 2 * VALUE_BYTES_MAX


_AllProblems: TypeAlias = Callable[[Sequence[str]], Sequence[str]]


class DecodedDocument(NamedTuple):
    """A document that has passed the schema, and the warnings of field validation.

    emptied: see `schema.compile.CheckedDocument`.
    """

    document: Document
    warnings: Sequence[str]
    emptied: Sequence[tuple[Document, str]] = ()


class Decoder:
    """Decodes bodies to documents, for one brand of the API."""

    def __init__(
        self, brand: Brand, *, has_cbor: bool = False, before_schema: Callable[[Document], None]
    ) -> None:
        """before_schema: see `rewriting_before_schema`."""
        self._parser = BodyParser(brand, has_cbor=has_cbor)
        self._before_schema = before_schema

    async def decode_offloaded(
        self, offload: Offload, body: Body, resource: ServedResource, namespace: str, field_validation: str
    ) -> DecodedDocument:
        """Decode a body as `decode` does, a large one off the event loop."""
        if body.size is SizeClass.SMALL:
            return self.decode(body, resource, namespace, field_validation)
        resource.compile()
        return await offload.run(body.size, self.decode, body, resource, namespace, field_validation)

    def decode(
        self, body: Body, resource: ServedResource, namespace: str, field_validation: str
    ) -> DecodedDocument:
        """Returns the object in a body: checked against the schema, pruned, and in `namespace`.

        Raises UnsupportedMediaType, BadRequest, RequestEntityTooLarge, Invalid.
        """
        try:
            parsed = self._parser.parse(body.data, body.content_type, lambda raw: resource.from_protobuf(raw))
        except MalformedBody as error:
            raise _unrecognized(resource, str(error), body.data) from None
        duplicates = parsed.duplicates(field_validation) if field_validation != "Ignore" else []
        document = _require_kind(parsed.document, resource)
        self._before_schema(document)
        all_problems = None
        if duplicates or not parsed.is_json:
            all_problems = _problems_in_order(body, parsed, resource, duplicates)
        try:
            decoded = check_schema(document, resource, field_validation, all_problems)
        except TypeMismatch as mismatch:
            raise BadRequest(_cannot_be_handled(resource, str(mismatch))) from None
        require_storable(document, resource)
        meta = document.setdefault("metadata", {})
        if resource.is_namespaced and meta.get("namespace", namespace) not in (namespace, ""):
            raise BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        return decoded


def rewriting_before_schema(deviations: Deviations) -> Callable[[Document], None]:
    """Returns the function that rewrites in place what the schema would drop from a document."""
    return _unchanged if deviations.empty_list_keeps_owners else _represent_empty_owners


def _unchanged(_: Document) -> None:
    pass


def _represent_empty_owners(document: Document) -> None:
    """Represent an empty `managedFields`, which the schema would drop, by an entry without content.

    An empty list strips all ownership in kube-apiserver (row F22). See `managed_fields.is_reset`.
    """
    meta = document.get("metadata")
    if isinstance(meta, dict) and meta.get("managedFields") == []:
        meta["managedFields"] = [{}]


def _problems_in_order(
    body: Body, parsed: ParsedDocument, resource: ServedResource, duplicates: Sequence[str]
) -> _AllProblems:
    """Returns a function that merges unknown fields into the duplicate ones in Kubernetes' order."""
    if parsed.is_json and resource.definition:
        # It decodes a built-in type strictly, and finds both as it goes.
        return lambda unknown: strict_problems(body.data, resource.schema())
    if parsed.is_json:
        return lambda unknown: [*duplicates, *unknown]
    # It makes sorted JSON of YAML before it decodes that.
    return lambda unknown: [*duplicates, *sorted(unknown)]


def _unrecognized(resource: ServedResource, why: str, body: bytes) -> BadRequest:
    return BadRequest(
        f"the object provided is unrecognized (must be of type {resource.kind}): {why} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    """Returns the beginning of a body: as text if it looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    shown = body[:QUOTED_BYTES]
    text = shown.decode("utf-8", "replace") if body.startswith(b"{") else shown.hex()
    return text if len(body) <= QUOTED_BYTES else f"{text} ..."


def _require_kind(document: Any, resource: ServedResource) -> Document:
    """Require that a document is of the resource's kind; one of a built-in type may omit it (row E13).

    Row E13.

    Raises BadRequest, Invalid.
    """
    if document is None:
        document = {}  # Go's decoder leaves a value as it is where JSON has null.
    if not isinstance(document, dict):
        raise BadRequest(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{json_type(document)} into Go value of type struct {{ APIVersion string; Kind string }}"
        )
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if resource.is_custom:
        # No Go type stands for them, so that nothing is known but what the body says.
        if kind in (None, ""):
            raise BadRequest("Object 'Kind' is missing in 'object has no kind field '")
        if api_version in (None, ""):
            raise _wrong_version("", resource)
    elif isinstance(kind, str) and kind and kind != resource.kind:
        version = api_version if isinstance(api_version, str) and api_version else resource.api_version
        version = version.rpartition("/")[2]
        raise BadRequest(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f"converting ({version}.{kind}) to ({_package(resource)}.{resource.kind}): unknown conversion"
        )
    if isinstance(api_version, str) and api_version not in ("", resource.api_version, *resource.also_accepts):
        raise _wrong_version(api_version, resource)
    if resource.is_custom:
        require_custom_kind(document, resource)
    return document


def _wrong_version(api_version: str, resource: ServedResource) -> BadRequest:
    return BadRequest(
        f"the API version in the data ({api_version}) does not match the expected API version "
        f"({resource.api_version})"
    )


def require_custom_kind(document: Document, resource: ServedResource) -> None:
    """Validate the kind and apiVersion of a custom resource, if they are strings. Raises Invalid."""
    kind, api_version = document.get("kind"), document.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(api_version, str):
        return  # The schema reports it.
    errors = [
        field_errors.invalid(field, found, f"must be {expected}")
        for field, found, expected in (
            ("kind", kind, resource.kind),
            ("apiVersion", api_version, resource.api_version),
        )
        if found != expected
    ]
    if errors:
        meta = document.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else ""
        raise Invalid(
            GroupKind(api_version.rpartition("/")[0], kind), name if isinstance(name, str) else "", errors
        )


def _package(resource: ServedResource) -> str:
    """Returns the Go package of the kind's internal type."""
    return resource.group_version.group.partition(".")[0] or "core"


def check_schema(
    document: Document,
    resource: ServedResource,
    field_validation: str,
    all_problems: _AllProblems | None = None,
    *,
    is_merged: bool = False,
) -> DecodedDocument:
    """Check a document against the schema and prune it. is_merged: see `SchemaCheck`.

    all_problems: returns the findings of field validation in the body, in Kubernetes' order, given the
        unknown fields. None if these are all.
    Raises TypeMismatch; BadRequest for unknown and duplicate fields, if they are not allowed.
    """
    unknown, emptied = resource.check.checked(document, is_merged=is_merged)
    problems: Sequence[str] = [f'unknown field "{path}"' for path in unknown] if unknown else ()
    if all_problems is not None:
        problems = all_problems(problems)
    if problems and field_validation == "Strict":
        raise BadRequest(_cannot_be_handled(resource, f"strict decoding error: {', '.join(problems)}"))
    document["apiVersion"], document["kind"] = resource.api_version, resource.kind
    return DecodedDocument(document, problems if field_validation == "Warn" else (), emptied)


def require_name(document: Document, name: str) -> None:
    """Require that the name in a body is the one in the path. Raises BadRequest."""
    found = document["metadata"].get("name")
    if not found:
        raise nameless(name)
    if found != name:
        raise BadRequest(f"the name of the object ({found}) does not match the name on the URL ({name})")


def nameless(name: str) -> BadRequest:
    """Returns the error about a body without a name. name: the one in the path."""
    return BadRequest(
        f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
    )


def require_namespace(document: Document, resource: ServedResource, namespace: str) -> None:
    """Require that the namespace of a patched object is the one in the path. Raises BadRequest.

    A cluster-scoped object loses its namespace, as in POST and PUT.
    """
    meta = document["metadata"]
    if not resource.is_namespaced:
        meta.pop("namespace", None)
    elif meta.get("namespace") not in (None, "", namespace):
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def require_storable(document: Document, resource: ServedResource) -> None:
    """Refuse a document that is too large, or nested too deeply, to be stored.

    Defaults make documents larger: a container may be sent as `{}`, and become a hundred times as long.
    Deeply nested documents would exceed the recursion limit of functions that compare, check and copy them.
    Raises RequestEntityTooLarge, Invalid (the kind has a rule for its size), BadRequest.
    """
    try:
        size = len(orjson.dumps(document))
    except orjson.JSONEncodeError:
        raise TooDeep from None
    if size > DOCUMENT_BYTES_MAX:
        if errors := resource.strategy.validate_size(document):
            raise Invalid(resource.group_kind, str(document.get("metadata", {}).get("name", "")), errors)
        raise RequestEntityTooLarge(VALUE_BYTES_MAX)


def _cannot_be_handled(resource: ServedResource, why: str) -> str:
    version = resource.group_version.version
    return f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: {why}'
