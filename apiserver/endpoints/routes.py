"""Routes requests to handlers: by a few fixed paths, and by the table of served resources.

The table is read for each request; what is served changes by replacing it. Rows I01-I12, I21.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from apiserver.audit.request_audit import RequestAudit
from apiserver.endpoints import health
from apiserver.endpoints.aggregation.remote_versions import RemoteVersion, RemoteVersions
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.deprecated_requests import DEPRECATIONS_PATH, DeprecatedRequests
from apiserver.endpoints.discovery import Discovery
from apiserver.endpoints.health import Health
from apiserver.endpoints.load_shedding import LoadShedding
from apiserver.endpoints.openapi import OpenApi
from apiserver.endpoints.openid import CONFIGURATION_PATH, JWKS_PATH, OpenId
from apiserver.endpoints.request_info import HISTORY
from apiserver.endpoints.responses import TEXT, send, send_document, send_text
from apiserver.endpoints.zpages import ZPages
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import ApiError, MethodNotAllowed, NoSuchEndpoint, NotFound, ServiceUnavailable
from apiserver.meta.vocabulary import Deprecation, Document, GroupVersion, RequestInfo
from apiserver.metrics.exposition import CONTENT_TYPE
from apiserver.metrics.health_checks import HealthCheckMetrics
from apiserver.registry.served_resource import ServedResource, ServedTable, Subresource

# The verbs of each form of path, by method.
_COLLECTION: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_ITEM: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCE: Final = {**_ITEM, "POST": "create"}
# Paths that are forwarded to extension servers, beside those in discovery.
_FORWARDED_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", *_SUBRESOURCE})
_ALL_NAMESPACES: Final = {"GET": "list"}
_WATCH: Final = {"GET": "watch"}
# They may keep many objects in memory, and so keep their seats while these are converted.
_OF_MANY: Final = ("list", "watch", "deletecollection")
# What clients look up before they read resources; below /at/ it is that of today.
_OF_THE_PAST: Final = ("api", "apis", "openapi", "version")
# Source: k8s.io/apiserver, pkg/util/notfoundhandler.
_SLIS: Final = "metrics/slis"
_NOT_YET: Final = (
    "the request has been made before all known HTTP paths have been installed, please re-try the request"
)


class VerbHandlers(NamedTuple):
    """The handlers of resources, by verb."""

    get: Handler
    list: Handler
    watch: Handler
    create: Handler
    update: Handler
    patch: Handler
    delete: Handler
    deletecollection: Handler


class HistoryHandlers(NamedTuple):
    """The handlers of the history.

    state: of states of the past. versions: of the versions of an object, and purge: to remove them.
    paths: of paths that are not resources, by path and method.
    """

    state: Handler
    versions: Handler
    purge: Handler
    paths: Mapping[str, Mapping[str, Handler]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ResourceHandlers:
    """The handlers of resources and their subresources.

    virtual: of the virtual kinds of subresources and reviews, by the kind's definition, then by verb.
    connect: of subresources that connect to a node.
    history: None without a history.
    paths: of paths that are not resources, by path and method.
    """

    verbs: VerbHandlers
    virtual: Mapping[str, Mapping[str, Handler]]
    connect: Handler
    history: HistoryHandlers | None = None
    paths: Mapping[str, Mapping[str, Handler]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class NonResourceEndpoints:
    """The endpoints of paths that are not resources.

    openid: None if the issuer of tokens cannot be discovered.
    version: the document of /version.
    metrics: returns the text of /metrics in slices.
    deprecated_requests: lists the clients of deprecated APIs, on a path that no index names.
    debugging: the handlers of other paths that no index names. zpages: /statusz and /flagz.
    slis: the results of health checks for /metrics/slis; None if that is not served.
    debug_paths: the handlers of /debug/NAME and all below it, by NAME; each gets the rest of the path.
    """

    discovery: Discovery
    openid: OpenId | None
    openapi: OpenApi
    health: Health
    version: Document
    metrics: Callable[[], Awaitable[Iterator[bytes]]]
    deprecated_requests: DeprecatedRequests
    debugging: Mapping[str, Handler]
    zpages: ZPages
    slis: HealthCheckMetrics | None
    debug_paths: Mapping[str, Callable[[ApiCall, str], Awaitable[None]]]


class AggregatedVersions(NamedTuple):
    """The versions that extension servers have. forward: forwards a request to one of these servers."""

    remote: RemoteVersions
    forward: Callable[[ApiCall, RemoteVersion], Awaitable[None]]

    def version_of(self, info: RequestInfo) -> RemoteVersion | None:
        """Returns the version that a request is for: for a resource, its list of resources, or its OpenAPI.

        Paths with empty segments or dot segments are for none: other servers might interpret them differently
        from how they were authorized.
        """
        steps = info.path.removesuffix("/").split("/")[1:]
        if any(step in ("", ".", "..") for step in steps):
            return None
        match steps:
            case ["apis", group, version] | ["openapi", "v3", "apis", group, version]:
                return self.remote.find(group, version)
            case ["apis", group, version, *_] if info.is_resource:
                return self.remote.find(group, version)
        return None


class Routes:
    """Finds the handler of a call, and calls it."""

    def __init__(
        self,
        served: ServedTable,
        resources: ResourceHandlers,
        non_resources: NonResourceEndpoints,
        aggregated: AggregatedVersions,
        knows_everything: Callable[[], bool],
        shedding: LoadShedding,
    ) -> None:
        """knows_everything: whether all stored definitions are served, and all APIServices known."""
        self._served = served
        self._handlers: Mapping[str, Handler] = resources.verbs._asdict()
        self._virtual = resources.virtual
        self._connect = resources.connect
        self._history = history = resources.history
        self._discovery = discovery = non_resources.discovery
        self._openapi = openapi = non_resources.openapi
        self._health = non_resources.health
        self._version_document = non_resources.version
        self._metrics = non_resources.metrics
        self._debug_paths = non_resources.debug_paths
        self._deprecated_requests = non_resources.deprecated_requests
        self._aggregated = aggregated
        self._knows_everything = knows_everything
        self._shedding, self._budget = shedding, shedding.budget
        self._fixed: Mapping[str, Callable[[ApiCall], Awaitable[None]]] = {
            "": self._index,
            "api": discovery.core,
            "apis": discovery.groups,
            "version": self._version,
            "metrics": self._metrics_text,
            "openapi/v2": openapi.v2,
            "openapi/v3": openapi.index,
            DEPRECATIONS_PATH: self._deprecated_requests.respond,
            **non_resources.debugging,
        }
        if (slis := non_resources.slis) is not None:
            self._fixed = {**self._fixed, _SLIS: partial(_send_slis, slis)}
        # The others are only read.
        self._by_method = {**resources.paths, **({} if history is None else history.paths)}
        self._zpages = non_resources.zpages.handlers(self._paths)
        # Unlike the others, they answer no HEAD.
        openid = non_resources.openid
        self._openid: Mapping[str, Handler] = (
            {} if openid is None else {CONFIGURATION_PATH: openid.configuration, JWKS_PATH: openid.jwks}
        )

    # ---- resources

    async def __call__(self, call: ApiCall) -> None:
        info, table = call.info, self._served.current
        if not info.is_resource:
            await self._serve_path(call)
            return
        if info.group and info.group not in table.groups:
            await self._no_such_path(call)
            return
        resource = table.find(info.group, info.version, info.resource)
        if resource is None or not _matches_scope(call, resource):
            if resource is None and not info.moment and await self._forward_to_extension_server(call):
                return
            if table.is_custom(info.group):
                await self._no_such_path(call)
                return
            raise NoSuchEndpoint
        if info.rest and not _has_paths_below(resource, info.subresource):
            raise NoSuchEndpoint
        for each in resource.preparations:
            if each.is_due:
                await call.offload.run(SizeClass.HUGE, each.prepare)
        call.resource = call.found_resource = resource
        if self._budget.pressure:
            self._shedding.check(call, resource)
        if resource.goes_away:
            self._note_deprecated(call, resource)
        handle = self._handler_of(call, resource)
        if not resource.codec.has_converter or call.info.verb in _OF_MANY:
            await handle(call)
            return
        # Each step may wait for a conversion, and little else is done for one object.
        with call.without_slot():
            await handle(call)

    def _note_deprecated(self, call: ApiCall, resource: ServedResource) -> None:
        """Report the use of a deprecated API to the client, the audit log and /debug/deprecations (rows S05,
        S06).
        """
        self._deprecated_requests.count(call, resource)
        deprecation = resource.deprecation_of(call.info.subresource)
        if deprecation is not None:
            call.warnings.append(resource.deprecation_warning_of(call.info.subresource))
            if call.audit is not None:
                _record_deprecation(call.audit, deprecation)

    def _handler_of(self, call: ApiCall, resource: ServedResource) -> Handler:
        info = call.info
        history = self._history
        if info.moment and history is not None:
            if not resource.has_past:
                raise MethodNotAllowed
            return history.state
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
            if subresource is None and info.subresource == HISTORY and history is not None:
                return history.purge if info.method == "DELETE" else history.versions
            if subresource is None and resource.is_custom:
                raise NotFound(resource.group_resource, info.name)
            return self._subresource_handler(info.method, subresource)
        verb = verbs.get(info.method, "")
        if verb not in resource.verbs:
            if verb == "watch" and "list" in resource.verbs:
                raise MethodNotAllowed.of_verb(resource.group_resource, verb)
            raise _unsupported(verbs, resource.verbs)
        if verb == "create" and resource.definition in self._virtual:
            return self._virtual[resource.definition][verb]
        return self._handlers[verb]

    def _subresource_handler(self, method: str, subresource: Subresource | None) -> Handler:
        if subresource is None:
            raise NoSuchEndpoint
        if subresource.has_paths and method in _FORWARDED_METHODS:
            return self._connect
        verb = _SUBRESOURCE.get(method, "")
        if verb not in subresource.verbs:
            raise _unsupported(_SUBRESOURCE, subresource.verbs)
        if subresource.update is not None:
            return self._handlers[verb]
        if subresource.definition:
            return self._virtual[subresource.definition][verb]
        return self._connect

    # ---- fixed paths

    async def _serve_path(self, call: ApiCall) -> None:
        path = call.info.path
        key = path.strip("/")
        if call.info.moment and key.partition("/")[0] not in _OF_THE_PAST:
            raise NoSuchEndpoint
        fixed = self._fixed.get(key)
        if (by_method := self._by_method.get(key)) is not None and "//" not in path:
            if call.info.method not in by_method:
                raise MethodNotAllowed
            await by_method[call.info.method](call)
            return
        if fixed is not None and "//" not in path:
            self._require_get(call)
            await fixed(call)
            return
        if key in self._openid and "//" not in path:
            await self._openid[key](call)
            return
        if (page := self._zpages.get(path.removeprefix("/"))) is not None:
            await page(call)
            return
        match path.removeprefix("/").split("/"):
            case ["api" | "apis", *steps] if "" in steps[:-1]:
                raise NoSuchEndpoint
            case ["api", version] | ["api", version, ""]:
                await self._group_version(call, GroupVersion("", version))
            case ["apis", group] | ["apis", group, ""] if group in self._discovery.groups_now():
                self._require_get(call)
                await self._discovery.group(call, group)
            case ["apis", group, version] | ["apis", group, version, ""] if (
                group in self._served.current.groups
            ):
                await self._group_version(call, GroupVersion(group, version))
            # Probes may use any method that they are authorized to use: no check changes anything.
            case [("livez" | "readyz" | "healthz") as endpoint]:
                await health.respond_all(call, endpoint, self._health)
            case [("livez" | "readyz" | "healthz") as endpoint, *names]:
                check = self._health.checks(endpoint).get("/".join(names))
                if check is None:
                    await self._no_such_path(call)
                    return
                await health.respond_one(call, check)
            case ["openapi", "v3", *rest]:
                self._require_get(call)
                if not await self._openapi.v3(call, "/".join(rest)):
                    await self._no_such_path(call)
            case ["debug", name, *rest] if name in self._debug_paths:
                await self._debug_paths[name](call, "/".join(rest))
            case _:
                await self._no_such_path(call)

    async def _group_version(self, call: ApiCall, group_version: GroupVersion) -> None:
        if group_version not in self._served.current.group_versions:
            if await self._forward_to_extension_server(call):
                return
            if self._served.current.is_custom(group_version.group):
                await self._no_such_path(call)
                return
            raise NoSuchEndpoint
        self._require_get(call)
        await self._discovery.version(call, group_version)

    async def _index(self, call: ApiCall) -> None:
        await send_document(call, {"paths": self._paths()})

    def _paths(self) -> list[str]:
        paths = {"/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version"}
        paths |= {f"/{path}" for path in (*self._openid, *self._zpages)}
        if _SLIS in self._fixed:
            paths.add(f"/{_SLIS}")
        versions = (gv for group in self._discovery.groups_now().values() for gv in group)
        for group, version in versions:
            paths |= {f"/apis/{group}", f"/apis/{group}/{version}"} if group else {"/api", f"/api/{version}"}
        for endpoint in ("livez", "readyz", "healthz"):
            paths |= {f"/{endpoint}", *(f"/{endpoint}/{name}" for name in self._health.checks(endpoint))}
        return sorted(paths)

    async def _version(self, call: ApiCall) -> None:
        await send_document(call, self._version_document)

    async def _metrics_text(self, call: ApiCall) -> None:
        await send_text(call, await self._metrics(), CONTENT_TYPE)

    def _require_get(self, call: ApiCall) -> None:
        if call.info.method not in ("GET", "HEAD"):
            raise MethodNotAllowed

    async def _forward_to_extension_server(self, call: ApiCall) -> bool:
        """Forwards a request for a version that an extension server has; returns False if none has it.

        Raises ServiceUnavailable while the resources served here are not known yet: these take precedence.
        """
        version = self._aggregated.version_of(call.info)
        if version is None or version.group_version in self._served.current.group_versions:
            return False
        if not self._knows_everything():
            raise ServiceUnavailable(_NOT_YET)
        await self._aggregated.forward(call, version)
        return True

    async def _no_such_path(self, call: ApiCall) -> None:
        """Refuse a request for an unknown path."""
        if not self._knows_everything() and call.info.path.startswith("/apis/"):
            raise ServiceUnavailable(_NOT_YET)
        if await self._forward_to_extension_server(call):
            return
        await send(call, 404, b"404 page not found\n", TEXT, {"X-Content-Type-Options": "nosniff"})


async def _send_slis(slis: HealthCheckMetrics, call: ApiCall) -> None:
    await send_text(call, [line.encode() for line in slis.lines()], CONTENT_TYPE)


def _matches_scope(call: ApiCall, resource: ServedResource) -> bool:
    """Whether a path names a namespace exactly if its objects are namespaced."""
    info = call.info
    if resource.is_namespaced:
        return bool(info.namespace) or not info.name
    # The path of a Namespace looks like one inside a namespace.
    return not info.namespace or info.is_namespace_itself


def _has_paths_below(resource: ServedResource, name: str) -> bool:
    """Whether the subresource has paths below it, as `proxy` has."""
    subresource = resource.subresources.get(name)
    return subresource is not None and subresource.has_paths


def _unsupported(verbs: Mapping[str, str], supported: Collection[str]) -> ApiError:
    """Returns the error for a method without a supported verb. verbs: those of the path, by method."""
    return MethodNotAllowed() if any(verb in supported for verb in verbs.values()) else NoSuchEndpoint()


def _record_deprecation(audit: RequestAudit, deprecation: Deprecation) -> None:
    audit.annotate(audit.keys.deprecated, "true")
    if deprecation.removed_in:
        audit.annotate(audit.keys.removed_release, deprecation.removed_in)
