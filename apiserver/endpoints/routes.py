"""From a path to what answers it: a few fixed ones, and the table of served resources for all others.

The table is looked up anew for each request; what is served changes by replacing it. Rows I01-I12, I21.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final

from apiserver import EMULATED_VERSION, __version__
from apiserver.endpoints import health
from apiserver.endpoints.api_call import Call, Handler
from apiserver.endpoints.discovery import Discovery
from apiserver.endpoints.health import Health
from apiserver.endpoints.openapi import OpenApi
from apiserver.endpoints.responses import TEXT, send, send_document
from apiserver.errors import MethodNotAllowed, NoSuchEndpoint, NotFound
from apiserver.metrics.exposition import CONTENT_TYPE
from apiserver.registry import offload
from apiserver.registry.served_resource import ResourceTable, ServedResource, Subresource
from apiserver.vocabulary import Document, GroupVersion

# The verbs that a path can be asked for, by the method that asks.
_COLLECTION: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_ITEM: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCE: Final = {**_ITEM, "POST": "create"}
_ALL_NAMESPACES: Final = {"GET": "list"}
_WATCH: Final = {"GET": "watch"}


@dataclass(frozen=True, slots=True)
class VerbHandlers:
    """What answers each verb on a resource."""

    get: Handler
    list: Handler
    watch: Handler
    create: Handler
    update: Handler
    patch: Handler
    delete: Handler
    deletecollection: Handler


class Routes:
    """Finds what answers a call, and lets it."""

    def __init__(
        self,
        table: Callable[[], ResourceTable],
        verbs: VerbHandlers,
        *,
        discovery: Discovery,
        openapi: OpenApi,
        health: Health,
        metrics: Callable[[], Awaitable[bytes]],
        delegated: Callable[[str, str], bool],
        spoken: Mapping[str, Mapping[str, Handler]] = MappingProxyType({}),
        connect: Handler | None = None,
    ) -> None:
        """metrics: makes the text of /metrics. delegated: whether another server
            has a group and version.

        spoken: what answers each verb on subresources and virtual types that speak a kind of their own, by
            the kind's definition. connect: what answers requests that want to be connected to a node.
        """
        self._table = table
        self._handlers: Mapping[str, Handler] = {
            verb.name: getattr(verbs, verb.name) for verb in fields(VerbHandlers)
        }
        self._virtual = spoken
        self._connect = connect
        self._discovery = discovery
        self._openapi = openapi
        self._health = health
        self._metrics = metrics
        self._is_delegated = delegated
        self._fixed: Mapping[str, Callable[[Call], Awaitable[None]]] = {
            "": self._index,
            "api": discovery.core,
            "apis": discovery.groups,
            "version": self._version,
            "metrics": self._metrics_text,
            "openapi/v2": openapi.everything,
            "openapi/v3": openapi.index,
        }

    async def __call__(self, call: Call) -> None:
        if call.info.is_resource:
            await self._resource(call)
        else:
            await self._path(call)

    # ---- resources

    async def _resource(self, call: Call) -> None:
        """Raises NoSuchEndpoint, MethodNotAllowed."""
        info = call.info
        if info.group and info.group not in self._table().groups:
            await self._no_such_path(call)
            return
        resource = self._table().find(info.group, info.version, info.resource)
        if resource is None or not _matches_scope(call, resource):
            if self._table().is_custom(info.group):
                await self._no_such_path(call)
                return
            raise NoSuchEndpoint
        if info.rest and not _has_paths_below(resource, info.subresource):
            raise NoSuchEndpoint
        for each in resource.preparations:
            if each.is_due:
                await offload.run(True, each.prepare)
        call.resource = resource
        if resource.deprecation_warning:
            call.warnings.append(resource.deprecation_warning)
        await self._verb(call, resource)(call)

    def _verb(self, call: Call, resource: ServedResource) -> Handler:
        info = call.info
        if info.verb == "watch":
            if info.subresource:
                raise NoSuchEndpoint
            verbs = _WATCH
        elif info.name:
            verbs = _ITEM
        elif resource.is_namespaced and not info.namespace:
            verbs = _ALL_NAMESPACES
        else:
            verbs = _COLLECTION
        if info.subresource:
            subresource = resource.subresources.get(info.subresource)
            if subresource is None and resource.keeping is not None:
                raise NotFound(resource.group_resource, info.name)
            return self._subresource_handler(info.method, subresource)
        verb = _supported(verbs, info.method, resource.verbs)
        if verb == "create" and resource.definition in self._virtual:
            return self._virtual[resource.definition][verb]
        return self._handlers[verb]

    def _subresource_handler(self, method: str, subresource: Subresource | None) -> Handler:
        if subresource is None:
            raise NoSuchEndpoint
        verb = _supported(_SUBRESOURCE, method, subresource.verbs)
        if subresource.update is not None:
            return self._handlers[verb]
        if subresource.definition:
            return self._virtual[subresource.definition][verb]
        if self._connect is None:
            raise NoSuchEndpoint
        return self._connect

    # ---- fixed paths

    async def _path(self, call: Call) -> None:
        path = call.info.path
        key = path.strip("/")
        fixed = self._fixed.get(key)
        if fixed is not None and "//" not in path:
            self._require_get(call)
            await fixed(call)
            return
        match path.removeprefix("/").split("/"):
            case ["api" | "apis", *steps] if "" in steps[:-1]:
                raise NoSuchEndpoint
            case ["api", version] | ["api", version, ""]:
                await self._group_version(call, GroupVersion("", version))
            case ["apis", group] | ["apis", group, ""] if group in self._table().groups:
                self._require_get(call)
                await self._discovery.group(call, group)
            case ["apis", group, version] | ["apis", group, version, ""] if group in self._table().groups:
                await self._group_version(call, GroupVersion(group, version))
            case [("livez" | "readyz" | "healthz") as endpoint]:
                self._require_get(call)
                await health.answer(call, endpoint, self._health.checks(endpoint))
            case [("livez" | "readyz" | "healthz") as endpoint, *names]:
                check = self._health.checks(endpoint).get("/".join(names))
                if check is None:
                    await self._no_such_path(call)
                    return
                self._require_get(call)
                await health.respond_one(call, check)
            case ["openapi", "v3", *rest]:
                self._require_get(call)
                if not await self._openapi.group_version(call, "/".join(rest)):
                    await self._no_such_path(call)
            case _:
                await self._no_such_path(call)

    async def _group_version(self, call: Call, group_version: GroupVersion) -> None:
        if group_version not in self._table().group_versions:
            if self._table().is_custom(group_version.group):
                await self._no_such_path(call)
                return
            raise NoSuchEndpoint
        self._require_get(call)
        await self._discovery.version(call, group_version)

    async def _index(self, call: Call) -> None:
        await send_document(call, {"paths": self._paths()})

    def _paths(self) -> list[str]:
        paths = {"/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version"}
        for group, version in self._table().group_versions:
            paths |= {f"/apis/{group}", f"/apis/{group}/{version}"} if group else {"/api", f"/api/{version}"}
        for endpoint in ("livez", "readyz", "healthz"):
            paths |= {f"/{endpoint}", *(f"/{endpoint}/{name}" for name in self._health.checks(endpoint))}
        return sorted(paths)

    async def _version(self, call: Call) -> None:
        await send_document(call, version_document())

    async def _metrics_text(self, call: Call) -> None:
        await send(call, 200, await self._metrics(), CONTENT_TYPE)

    def _require_get(self, call: Call) -> None:
        if call.info.method not in ("GET", "HEAD"):
            raise MethodNotAllowed

    async def _no_such_path(self, call: Call) -> None:
        match call.info.path.split("/"):
            case ["", "apis", group, version, *_] if self._is_delegated(group, version):
                await send(call, 503, b"service unavailable\n", TEXT, {"X-Content-Type-Options": "nosniff"})
                return
        await send(call, 404, b"404 page not found\n", TEXT, {"X-Content-Type-Options": "nosniff"})


def _matches_scope(call: Call, resource: ServedResource) -> bool:
    """Namespaced objects are found in their namespaces only, others outside of any."""
    info = call.info
    if resource.is_namespaced:
        return bool(info.namespace) or not info.name
    # The path of a Namespace looks like one inside a namespace.
    return not info.namespace or info.is_namespace_itself


def _has_paths_below(resource: ServedResource, name: str) -> bool:
    """Whether paths may go on below the subresource."""
    subresource = resource.subresources.get(name)
    return subresource is not None and subresource.has_paths


def _supported(verbs: Mapping[str, str], method: str, supported: Collection[str]) -> str:
    """The verb that the method asks for. Raises MethodNotAllowed, or NoSuchEndpoint if nothing is there."""
    verb = verbs.get(method)
    if verb is None or verb not in supported:
        raise MethodNotAllowed if any(verb in supported for verb in verbs.values()) else NoSuchEndpoint
    return verb


def version_document() -> Document:
    """/version: the release that is spoken, and who speaks it."""
    major, minor = map(str, EMULATED_VERSION)
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "gitVersion": f"v{major}.{minor}.0+python.{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        # Clients expect the field; what runs here is no Go.
        "goVersion": f"python{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{_machine()}",
    }


def _machine() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
