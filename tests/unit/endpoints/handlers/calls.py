"""Calls of a test, without a connection."""

from __future__ import annotations

from typing import Final, cast

from aiohttp import hdrs, web
from aiohttp.test_utils import make_mocked_request

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.connection import SENT, SENT_LAST, Connection
from apiserver.endpoints.request_info import accepted_types, is_pretty, parse_query, parse_target
from apiserver.load.offload import Offload
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document, Query, RequestInfo, UserInfo
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.stored_object import StoredObject, encode
from apiserver.tracing.request_trace import RequestTrace
from apiserver.wire.media_types import APPLY_YAML
from tests.support.in_process import TABLE, resource

CONFIG_MAPS: Final = resource("configmaps", "")
DEPLOYMENTS: Final = resource("deployments", "apps")
NAMESPACES: Final = resource("namespaces", "")
ALICE: Final = UserInfo("alice")
FIELD_MANAGERS: Final = FieldManagers(ServedTable(TABLE), Deviations(), lambda: 0.0)


def call(method: str, target: str, *, offload: Offload | None = None, **headers: str) -> ApiCall:
    """Returns a call of Alice, as handlers get it. headers: `user_agent` for User-Agent."""
    path, _, query = target.partition("?")
    info = parse_target(method, path, False)
    served = TABLE.find(info.group, info.version, info.resource)
    assert served is not None
    request = make_mocked_request(
        method, target, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    found = made(request, info, parse_query(query), offload=offload)
    found.resource = found.found_resource = served
    found.set_user(ALICE)
    return found


def made(
    request: web.BaseRequest,
    info: RequestInfo,
    query: Query | None = None,
    *,
    received_at: float = 0.0,
    offload: Offload | None = None,
) -> ApiCall:
    """Returns a call whose user is not known yet. offload: a new one if not given."""
    query, user_agent = query or {}, request.headers.get(hdrs.USER_AGENT, "")
    return ApiCall(
        request,
        cast(Connection, request.protocol),
        info,
        query,
        "audit",
        received_at,
        offload or Offload(),
        RequestTrace("audit"),
        user_agent,
        accept=accepted_types(query, request.headers.get(hdrs.ACCEPT, "")),
        is_pretty=is_pretty(query, user_agent),
        is_apply=request.headers.get(hdrs.CONTENT_TYPE) == APPLY_YAML,
    )


def sent(call: ApiCall) -> web.StreamResponse:
    """Returns what tells aiohttp that a call has been answered."""
    return SENT_LAST if call.closes_connection else SENT


def stored(of: ServedResource, document: Document, revision: int = 7) -> StoredObject:
    """Returns an object that has been written at a revision."""
    head = of.codec.stored_head
    return StoredObject.written(f"/{document['metadata']['name']}", head, encode(document, head), revision)
