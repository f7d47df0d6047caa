"""Handles PATCH of one object, or of a subresource of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from aiohttp import hdrs

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.bodies import read_body
from apiserver.endpoints.handlers.apply import Applier
from apiserver.endpoints.handlers.audit_bodies import record_patch
from apiserver.endpoints.handlers.decoding import (
    DecodedDocument,
    require_name,
    require_namespace,
    rewriting_before_schema,
)
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.patch_bodies import Patch, apply_patch, parse_patch
from apiserver.endpoints.handlers.write_requests import WriteRequests, proposed_object_of
from apiserver.endpoints.negotiation import base_type
from apiserver.endpoints.responses import send_object
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import Conflict, UnsupportedMediaType
from apiserver.meta.options import WriteOptions
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document
from apiserver.registry.object_access import ObjectAccess
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject
from apiserver.wire.media_types import APPLY_YAML, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

# Custom resources do not accept the last one: their schemas do not say how lists merge.
ACCEPTED: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
# For one of these that a resource does not accept, the error lists those that it does.
PATCHES: Final = frozenset({*ACCEPTED, APPLY_YAML})


def patch_handler(
    registry: ObjectAccess,
    encoders: Encoders,
    requests: WriteRequests,
    applier: Applier | None,
    deviations: Deviations,
) -> Handler:
    """Returns a handler that patches an object, or applies a configuration (rows I08, L03-L05, L07).

    applier: None for objects whose owners of fields are not recorded.
    """
    rewrite = rewriting_before_schema(deviations)

    async def patch(call: ApiCall) -> None:
        resource = call.resource
        encoder = encoders.for_call(call)
        if applier is not None and applier.is_apply(call):
            applied, code = await applier.apply(call)
            await send_object(call, encoder, applied, code)
            return
        request = await read_patch(call, resource, requests, deviations)

        def transform(current: StoredObject) -> ProposedObject:
            patched = request.patched(current, StoredObject.document, rewrite)
            return proposed_object_of(*patched)

        updated = await registry.update(requests.update(call, request.options, request.size), transform)
        call.warnings += updated.warnings
        await send_object(call, encoder, updated.found)

    return patch


class PatchRequest(NamedTuple):
    """A patch that has been read from a request.

    kind: of the documents that it changes. size: how much work these may be.
    condition: the resourceVersions that allow it; None for any.
    """

    call: ApiCall
    kind: ServedResource
    patch: Patch
    options: WriteOptions
    size: SizeClass
    condition: Collection[str] | None

    def patched(
        self,
        current: StoredObject,
        view: Callable[[StoredObject], Document],
        before_schema: Callable[[Document], None],
    ) -> DecodedDocument:
        """Returns the patched document.

        view: returns the document to patch, made from the current object. before_schema: see `apply_patch`.
        Raises Conflict, BadRequest, and what `view` and `apply_patch` raise.
        """
        resource, info = self.call.resource, self.call.info
        if self.condition is not None and current.resource_version not in self.condition:
            raise Conflict(resource.group_resource, info.name)
        decoded = apply_patch(
            self.patch, view(current), self.kind, self.options.field_validation, before_schema
        )
        require_name(decoded.document, info.name)
        require_namespace(decoded.document, resource, info.namespace)
        return decoded


async def read_patch(
    call: ApiCall, kind: ServedResource, requests: WriteRequests, deviations: Deviations
) -> PatchRequest:
    """Read the options and the body of a patch. kind: of the documents that it changes.

    Raises UnsupportedMediaType, Invalid, and what `read_body` and `parse_patch` raise.
    """
    content_type = patch_type(call)
    options = requests.options(call, "PatchOptions")
    body = await read_body(call)
    kind.compile()
    patch = await call.offload.run(
        body.size, parse_patch, body.data, content_type, kind, options.field_validation
    )
    if call.audit is not None:
        await record_patch(call, call.audit, body)
    call.has_copied = patch.copies
    condition = version_condition(call, content_type, deviations)
    return PatchRequest(call, kind, patch, options, max(body.size, patch.size), condition)


def patch_type(call: ApiCall) -> str:
    """Returns the media type of the patch. Raises UnsupportedMediaType if the resource does not accept it."""
    accepted = ACCEPTED if call.resource.definition else (JSON_PATCH, MERGE_PATCH)
    content_type = base_type(call.request.headers.get(hdrs.CONTENT_TYPE, ""))
    if content_type not in PATCHES:
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    if content_type not in accepted:
        has_apply = not call.resource.is_virtual
        raise UnsupportedMediaType.none_of((*accepted, APPLY_YAML) if has_apply else accepted)
    return content_type


def version_condition(call: ApiCall, content_type: str, deviations: Deviations) -> Collection[str] | None:
    """Returns the resourceVersions that If-Match on a JSON patch allows, if there are any (row L04).

    Weak tags match nothing (RFC 9110, 13.1.1).
    """
    if content_type != JSON_PATCH or not deviations.if_match:
        return None
    header = ",".join(call.request.headers.getall(hdrs.IF_MATCH, ()))
    tags = [tag for each in header.split(",") if (tag := each.strip())]
    return None if not tags or "*" in tags else {tag.strip('"') for tag in tags}
