"""Records the objects and patches that clients send, if their requests are audited."""

from __future__ import annotations

import orjson

from apiserver.audit.request_audit import RequestAudit, without_managed_fields
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import Body
from apiserver.endpoints.handlers import apply_bodies
from apiserver.meta.vocabulary import Document
from apiserver.wire.media_types import (
    APPLY_CBOR,
    APPLY_YAML,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
)

# What a body of these types has in it is JSON, once it has been parsed.
_IS_JSON = frozenset({"", JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH})
_APPLIED = frozenset({APPLY_YAML, APPLY_CBOR})


async def record_object(call: ApiCall, audit: RequestAudit, body: Body, document: Document) -> None:
    """Record an object that has been decoded and not been changed yet.

    Its metadata identify the object of the request.
    """
    audit.refer_to(document.get("metadata"))
    if audit.wants_request:
        await _record(call, audit, body, document)


async def record_patch(call: ApiCall, audit: RequestAudit, body: Body) -> None:
    """Record a patch that has been parsed, or the body of an apply. Raises what parsing that raises."""
    if audit.wants_request:
        await _record(call, audit, body, None)


async def _record(call: ApiCall, audit: RequestAudit, body: Body, document: Document | None) -> None:
    is_json, omits = body.media_type in _IS_JSON, audit.omits_managed_fields
    if is_json and not omits:
        audit.record_request(body.data)
        return
    audit.record_request(await call.offload.run_begun(body.size, _as_json, body, document, omits, is_json))


def _as_json(body: Body, document: Document | None, omits_managed_fields: bool, is_json: bool) -> bytes:
    data = body.data
    if not is_json:
        if document is None:
            parsed = apply_bodies.parse(data, body.media_type, is_checked=False)
            document = parsed.document
        data = orjson.dumps(document)
    return without_managed_fields(data) if omits_managed_fields else data
