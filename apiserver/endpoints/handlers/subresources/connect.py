"""Handles subresources that connect to another server: a proxy, a shell, forwarded ports, logs.

Admission runs first, on the options in the query as an object; not for logs, which are only read. Source:
k8s.io/apiserver, pkg/endpoints/handlers/rest.go, ConnectResource.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from apiserver.admission.chain import Operation, SubresourceView
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.subresources.connect_options import options_kinds, read_options
from apiserver.endpoints.handlers.write_requests import WriteRequests
from apiserver.meta.vocabulary import Document
from apiserver.metrics.requests import RequestMetrics

# (call, options): connects, and passes on what comes until one side ends it.
Connector: TypeAlias = Callable[[ApiCall, Document], Awaitable[None]]


def connect_handler(
    requests: WriteRequests, connectors: Mapping[str, Connector], metrics: RequestMetrics
) -> Handler:
    """Returns a handler of any verb. connectors: by resource and subresource, as `pods/exec`."""
    kinds = options_kinds()

    async def connect(call: ApiCall) -> None:
        info = call.info
        options: Document = {}
        kind = kinds.get(call.resource.subresources[info.subresource].kind)
        if kind is not None:
            view = SubresourceView(kind)
            admission = requests.admission(call, Operation.CONNECT, info.name, None, view)
            options = read_options(call, kind)
            call.warnings += await admission.mutate(options, None)
            call.warnings += await admission.validate(options, None)
        with metrics.long_running(call):
            await connectors[f"{info.resource}/{info.subresource}"](call, options)

    return connect
