"""Handles subresources that connect to a node (logs, exec, port-forward, proxy): there is none.

Admission is asked before it turns out so, as in Kubernetes: about the options in the query, as an object.
Source: k8s.io/apiserver, pkg/endpoints/handlers/rest.go, ConnectResource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from apiserver.admission.chain import Operation, SubresourceView
from apiserver.catalogue.subresources import CORE_V1
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.errors import ApiError, BadRequest
from apiserver.handlers.write_requests import WriteRequests
from apiserver.meta.options import is_true
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.schema.structural import Kind, Schema
from apiserver.vocabulary import Document
from storage.interface import MOST_RECENT

_STRING: Final = Schema(Kind.STRING, "string")
_BOOLEAN: Final = Schema(Kind.BOOLEAN, "bool")
_STRINGS: Final = Schema(Kind.LIST, "[]string", element=_STRING)
_PORTS: Final = Schema(Kind.LIST, "[]int32", element=Schema(Kind.INTEGER, "int32", bits=32))
_STREAMS: Final = {**dict.fromkeys(("stdin", "stdout", "stderr", "tty"), _BOOLEAN), "container": _STRING}
# The options of each kind. The path of a proxy is that of the request.
_OPTIONS: Final[Mapping[str, Mapping[str, Schema]]] = {
    "PodExecOptions": {**_STREAMS, "command": _STRINGS},
    "PodAttachOptions": _STREAMS,
    "PodPortForwardOptions": {"ports": _PORTS},
    "PodProxyOptions": {"path": _STRING},
    "ServiceProxyOptions": {"path": _STRING},
    "NodeProxyOptions": {"path": _STRING},
}
_INT32_MAX: Final = (1 << 31) - 1


class NoNode(ApiError):
    """Only a node could answer the request, and this server has no nodes."""

    code, reason = 501, "NotImplemented"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is not implemented by this server: it keeps objects, and there is no node behind it to "
            "connect to"
        )


def connect_handler(registry: Registry, requests: WriteRequests) -> Handler:
    """Returns a handler of any verb, which refuses to connect once it has found the object."""
    kinds = {kind: _options_kind(kind, fields) for kind, fields in _OPTIONS.items()}

    async def connect(call: ApiCall) -> None:
        info = call.info
        assert call.resource is not None
        kind = kinds.get(call.resource.subresources[info.subresource].kind)
        if kind is not None:
            view = SubresourceView(kind)
            admission = requests.admission(call, Operation.CONNECT, info.name, None, view)
            options = _options(call, kind)
            call.warnings += await admission.mutate(options, None)
            call.warnings += await admission.validate(options, None)
        await registry.get(call.resource, info.namespace, info.name, MOST_RECENT)
        raise NoNode(f"{info.resource}/{info.subresource}")

    return connect


def _options_kind(kind: str, fields: Mapping[str, Schema]) -> ServedResource:
    own = {"apiVersion": _STRING, "kind": _STRING}
    schema = Schema(Kind.STRUCT, f"v1.{kind}", fields={**own, **fields})
    return ServedResource(
        group_version=CORE_V1,
        resource=f"{kind.lower()}s",
        kind=kind,
        is_namespaced=True,
        schema=lambda: schema,
        verbs=("create",),
    )


def _options(call: ApiCall, kind: ServedResource) -> Document:
    """Returns the options in the query of a call. Raises BadRequest."""
    document: Document = {"kind": kind.kind, "apiVersion": kind.api_version}
    for field, schema in _OPTIONS[kind.kind].items():
        value: Any = None
        if field == "path":
            value = "/" + "/".join(call.info.rest) if call.info.rest else ""
        elif field in call.query:
            value = _READERS[schema.kind](call, field)
        if value:
            document[field] = value
    return document


def _ports(call: ApiCall, field: str) -> list[int]:
    ports = []
    for text in call.query[field]:
        for each in text.split(","):
            if not each.isdecimal() or not each.isascii() or len(each) > 10 or int(each) > _INT32_MAX:
                raise BadRequest(f'strconv.ParseInt: parsing "{each}": invalid syntax')
            ports.append(int(each))
    return ports


def _values(call: ApiCall, field: str) -> list[Any]:
    return _ports(call, field) if field == "ports" else list(call.query[field])


_READERS: Final[Mapping[Kind, Callable[[ApiCall, str], Any]]] = {
    Kind.BOOLEAN: lambda call, field: is_true(call.query, field),
    Kind.STRING: lambda call, field: call.query[field][0],
    Kind.LIST: _values,
}
