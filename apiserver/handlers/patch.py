"""PATCH of one object, or of a subresource of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson
from aiohttp import hdrs

from apiserver import field_errors
from apiserver.admission.chain import AdmissionChain, Operation
from apiserver.brand import Brand
from apiserver.deviations import Deviations
from apiserver.endpoints import bodies
from apiserver.endpoints.api_call import Call, Handler
from apiserver.endpoints.bodies import is_large, read_body
from apiserver.endpoints.negotiation import base_type
from apiserver.errors import (
    BadRequest,
    Conflict,
    Invalid,
    RequestEntityTooLarge,
    UnmergeablePatch,
    UnprocessablePatch,
    UnsupportedMediaType,
)
from apiserver.golang.formatting import go_text
from apiserver.handlers.apply import Applier
from apiserver.handlers.apply_bodies import APPLY
from apiserver.handlers.create import warn_of_duplicate_owners, write_of
from apiserver.handlers.decoding import check, require_size
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.get import send_object
from apiserver.handlers.ownership import Ownership
from apiserver.handlers.update import require_name, update_rules
from apiserver.meta.options import WriteOptions
from apiserver.patch import field_validation as remarks
from apiserver.patch import json_patch, merge_patch, strategic_merge
from apiserver.registry import offload
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.schema.compile import TypeMismatch, json_type
from apiserver.vocabulary import Document, GroupKind

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
# Custom resources do not take the last one: nobody has said how their lists merge.
ACCEPTED: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)


def _as_json(patched: Any) -> str:
    """Raises TypeError for what is nested too deeply."""
    return orjson.dumps(patched).decode()


# Of these kube-apiserver says, where a resource does not take one, which it does take.
PATCHES: Final = frozenset({*ACCEPTED, APPLY})


class Patch(NamedTuple):
    """apply: a document, which may be changed -> the new one.

    remarks: what is to be said of its text.
    shown: what is shown of a new document that the schema does not allow.
    """

    apply: Callable[[Document], Any]
    remarks: Sequence[str] = ()
    shown: Callable[[Any], str] = _as_json


def patch_handler(
    registry: Registry,
    encoders: Encoders,
    brand: Brand,
    admission: AdmissionChain,
    deviations: Deviations,
    ownership: Ownership,
    applier: Applier,
) -> Handler:
    """Rows I08, L03-L05, L07."""

    async def patch(call: Call) -> None:
        resource, info = call.resource, call.info
        assert resource is not None
        encoder = encoders.of(call)
        if applier.is_apply(call):
            applied, code = await applier.apply(call)
            await send_object(call, encoder, applied, code)
            return
        content_type = patch_type(call)
        options = WriteOptions.from_query(
            call.query, "PatchOptions", brand.meta_group, allows_empty_dry_run=deviations.empty_dry_run
        )
        call.warnings += options.warnings
        body = await read_body(call)
        large = is_large(body, content_type)
        resource.compile()
        patch = await offload.run(large, parse_patch, body, content_type, resource, options)
        condition = version_condition(call, content_type, deviations)

        def transform(current: StoredObject) -> Document:
            if condition is not None and current.resource_version != condition:
                raise Conflict(resource.group_resource, info.name)
            warnings: list[str] = []
            document = apply_patch(
                patch, current.document(), resource, options, warnings, before_schema=ownership.before_schema
            )
            require_name(document, info.name)
            require_namespace(document, info.namespace)
            warn_of_duplicate_owners(call, document)
            call.warnings += [text for text in warnings if text not in call.warnings]
            return document

        asked = admission.of(write_of(call, Operation.UPDATE, info.name, is_dry_run=options.dry_run))
        updated = await registry.update(
            resource,
            info.namespace,
            info.name,
            transform,
            options,
            strategy=update_rules(resource, info.subresource),
            user=call.user,
            warnings=call.warnings,
            mutate=asked.mutate if asked else None,
            admit=asked.validate if asked else None,
            track=ownership.tracker(call, options),
            is_large=large,
        )
        await send_object(call, encoder, updated)

    return patch


def patch_type(call: Call) -> str:
    """What the body is said to be. Raises UnsupportedMediaType for what the resource does not take."""
    assert call.resource is not None
    accepted = ACCEPTED if call.resource.definition else (JSON_PATCH, MERGE_PATCH)
    content_type = base_type(call.request.headers.get(hdrs.CONTENT_TYPE, ""))
    if content_type not in PATCHES:
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    if content_type not in accepted:
        raise UnsupportedMediaType.none_of((*accepted, APPLY))
    return content_type


def parse_patch(body: bytes, content_type: str, resource: ServedResource, options: WriteOptions) -> Patch:
    """resource: what is patched, as clients see it.

    Raises BadRequest, RequestEntityTooLarge. What is returned raises BadRequest, UnprocessablePatch,
    UnmergeablePatch.
    """
    # kube-apiserver says this of all formats but one.
    prefix = "" if content_type == STRATEGIC_MERGE_PATCH else "error decoding patch: "
    try:
        patch = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"{prefix}{bodies.describe(error, body)}") from None
    is_checked = options.field_validation != "Ignore"
    if content_type == JSON_PATCH:
        return _json_patch(body, patch, is_checked=is_checked)
    is_empty = content_type == STRATEGIC_MERGE_PATCH and patch is None
    if not (isinstance(patch, dict) or is_empty):
        raise BadRequest(
            f"{prefix}json: cannot unmarshal {json_type(patch)} into Go value of type "
            "map[string]interface {}"
        )
    said = remarks.merge_patch_problems(body, patch) if is_checked else ()
    if content_type == STRATEGIC_MERGE_PATCH:
        return _strategic_merge_patch(body, resource, said)
    # Merged values become part of the document; a second try must find the patch as it was.
    return Patch(lambda document: merge_patch.apply(document, orjson.loads(body)), said)


def _json_patch(body: bytes, patch: Any, *, is_checked: bool) -> Patch:
    try:
        json_patch.check(patch)
    except json_patch.TooManyOperations as error:
        too_large = RequestEntityTooLarge(0)
        too_large.message = str(error)
        raise too_large from None
    except json_patch.MalformedJsonPatch as error:
        raise BadRequest(f"error decoding patch: {error}") from None

    def apply(document: Document) -> Any:
        try:
            return json_patch.apply(document, orjson.loads(body))
        except json_patch.CannotApply:
            raise UnprocessablePatch from None

    return Patch(apply, remarks.json_patch_problems(body, patch) if is_checked else ())


def _strategic_merge_patch(body: bytes, resource: ServedResource, said: Sequence[str]) -> Patch:
    def apply(document: Document) -> Document:
        try:
            patched = strategic_merge.apply(document, orjson.loads(body) or {}, resource.schema())
        except strategic_merge.MalformedStrategicPatch as error:
            raise BadRequest(str(error)) from None
        except strategic_merge.ListOfLists:
            raise UnprocessablePatch from None
        except strategic_merge.CannotMerge as error:
            raise UnmergeablePatch(str(error)) from None
        # What such a patch says of these is not looked at.
        patched["apiVersion"], patched["kind"] = resource.api_version, resource.kind
        return patched

    return Patch(apply, said, shown=lambda patched: go_text(orjson.loads(body)))


def apply_patch(
    patch: Patch,
    document: Document,
    resource: ServedResource,
    options: WriteOptions,
    warnings: list[str],
    *,
    before_schema: Callable[[Document], None] = lambda document: None,
) -> Document:
    """The document, which may be changed, with the patch applied, and checked against the schema.

    spell_out: puts into words what the schema would lose, as the difference of empty and absent.

    Raises Invalid, BadRequest, and what the patch raises.
    """
    patched = patch.apply(document)
    try:
        if not isinstance(patched, dict):
            raise TypeMismatch(
                f"json: cannot unmarshal {json_type(patched)} into Go value of type {resource.kind}"
            )
        for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
            if patched.get(field) != expected:
                raise TypeMismatch(
                    f'no kind "{patched.get("kind")}" is registered for version "{patched.get("apiVersion")}"'
                )
        before_schema(patched)
        check(
            patched,
            resource,
            field_validation=options.field_validation,
            warnings=warnings,
            repeated=patch.remarks,
        )
    except TypeMismatch as mismatch:
        try:
            shown = patch.shown(patched)
        except TypeError:
            raise BadRequest(f"the patched object is nested too deeply: {mismatch}") from None
        error = field_errors.invalid("patch", shown, str(mismatch))
        raise Invalid(GroupKind("", ""), "", [error]) from None
    require_size(patched)
    if not isinstance(patched.get("metadata"), dict):
        patched["metadata"] = {}
    return patched


def require_namespace(document: Document, namespace: str) -> None:
    if document["metadata"].get("namespace") not in (None, "", namespace):
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def version_condition(call: Call, content_type: str, deviations: Deviations) -> str | None:
    """Row L04: the resourceVersion that If-Match on a JSON patch asks for."""
    if content_type != JSON_PATCH or not deviations.if_match:
        return None
    header = call.request.headers.get(hdrs.IF_MATCH)
    return header.strip().strip('"') if header and header.strip() != "*" else None
