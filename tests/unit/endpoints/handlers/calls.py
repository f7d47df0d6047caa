"""Calls of a test, without a connection."""

from __future__ import annotations

from typing import Final

from aiohttp.test_utils import make_mocked_request

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.request_info import parse_query, parse_target
from apiserver.load.offload import Offload
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.stored_object import StoredObject, encode
from apiserver.releases.deviations import Deviations
from tests.support.in_process import TABLE, resource

CONFIG_MAPS: Final = resource("configmaps", "")
DEPLOYMENTS: Final = resource("deployments", "apps")
NAMESPACES: Final = resource("namespaces", "")
ALICE: Final = UserInfo("alice")
FIELD_MANAGERS: Final = FieldManagers(ServedTable(TABLE), Deviations(), lambda: 0.0)


def call(method: str, target: str, **headers: str) -> ApiCall:
    """Returns a call as handlers get it. headers: `user_agent` for User-Agent."""
    path, _, query = target.partition("?")
    info = parse_target(method, path, False)
    served = TABLE.find(info.group, info.version, info.resource)
    assert served is not None
    request = make_mocked_request(
        method, target, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    made = ApiCall(request, info, parse_query(query), "audit", 0.0, Offload())
    made.user, made.resource = ALICE, served
    return made


def stored(of: ServedResource, document: Document, revision: int = 7) -> StoredObject:
    """Returns an object that has been written at a revision."""
    head = of.codec.stored_head
    return StoredObject.written(f"/{document['metadata']['name']}", head, encode(document, head), revision)
