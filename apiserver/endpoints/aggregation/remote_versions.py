"""The group versions that APIServices assign to other servers, as this server knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from apiserver.catalogue.apiregistration.local_api_services import Priority
from apiserver.meta.conditions import is_condition_true
from apiserver.meta.vocabulary import Document, GroupVersion

AVAILABLE: Final = "Available"
# The port of a service, where none is named.
HTTPS_PORT: Final = 443
NO_PRIORITY: Final = Priority(0, 0)


class ServiceReference(NamedTuple):
    """The service of extension servers."""

    namespace: str
    name: str
    port: int

    @property
    def host(self) -> str:
        """The name in the certificates of the servers."""
        return f"{self.name}.{self.namespace}.svc"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class RemoteVersion:
    """A version that another server has, from its APIService.

    ca_bundle: PEM in base64; empty: the system's CAs are trusted.
    verifies: whether the server's certificate is verified.
    was_available: the status of the condition Available.
    """

    name: str
    group_version: GroupVersion
    service: ServiceReference
    ca_bundle: str = ""
    verifies: bool = True
    priority: Priority = NO_PRIORITY
    was_available: bool = field(default=False, compare=False)

    @property
    def rank(self) -> tuple[int, int, str]:
        """The sort key of versions, the most important first."""
        return -self.priority.group, -self.priority.version, self.name

    @classmethod
    def of(cls, document: Document) -> Self | None:
        """Returns the version of an APIService; None if it is local."""
        spec = document.get("spec") or {}
        service = spec.get("service")
        if not service:
            return None
        return cls(
            document["metadata"]["name"],
            GroupVersion(spec.get("group", ""), spec.get("version", "")),
            ServiceReference(
                service.get("namespace", ""), service.get("name", ""), service.get("port") or HTTPS_PORT
            ),
            spec.get("caBundle") or "",
            not spec.get("insecureSkipTLSVerify"),
            Priority(spec.get("groupPriorityMinimum", 0), spec.get("versionPriority", 0)),
            is_condition_true(document, AVAILABLE),
        )


class DiscoveredVersion(NamedTuple):
    """The discovered state of a version.

    resources: as in aggregated discovery. is_current: whether the last attempt succeeded.
    openapi_url: the path and query of its OpenAPI v3 document; empty if it has none.
    """

    resources: tuple[Document, ...] = ()
    is_current: bool = False
    openapi_url: str = ""


@dataclass(frozen=True, slots=True)
class OpenApiPart:
    """The part of an extension server's OpenAPI v2 document about a version.

    digest, size: those of its JSON, an object with `paths` and `definitions`. compressed: the JSON, by zlib.
    """

    digest: str
    size: int
    compressed: bytes = field(compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class RemoteTable:
    """All versions of other servers at one moment, in an immutable table like `ResourceTable`.

    discovered: results of discovery. openapi_v2: downloaded parts.
    """

    versions: Mapping[GroupVersion, RemoteVersion] = field(default_factory=dict)
    discovered: Mapping[GroupVersion, DiscoveredVersion] = field(default_factory=dict)
    openapi_v2: Mapping[GroupVersion, OpenApiPart] = field(default_factory=dict)


# Called with a version before and after it has changed; twice the same if only its availability has.
Listener = Callable[[RemoteVersion | None, RemoteVersion | None], None]


class RemoteVersions:
    """Holds the current table of the versions of other servers.

    Parts that serve requests read `current` for each request.
    """

    def __init__(self) -> None:
        self.current = RemoteTable()
        self._available: dict[str, bool] = {}  # as this server has found it, by APIService
        self._listeners: list[Listener] = []
        self._callbacks: list[Callable[[], None]] = []

    def on_change(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def call_on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` after each change, including discovery; returns a function that unsubscribes."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def find(self, group: str, version: str) -> RemoteVersion | None:
        return self.current.versions.get(GroupVersion(group, version))

    def is_available(self, version: RemoteVersion) -> bool:
        """Returns whether requests may be forwarded, by this server's own check or else by that of others."""
        return self._available.get(version.name, version.was_available)

    def replace(self, old: RemoteVersion | None, new: RemoteVersion | None) -> None:
        """Note an APIService that was added, changed or deleted."""
        if old == new:
            if new is not None:  # Only its condition may be another.
                self._set({**self.current.versions, new.group_version: new}, self.current.discovered)
            return
        versions, discovered = dict(self.current.versions), dict(self.current.discovered)
        parts = dict(self.current.openapi_v2)
        if old is not None:
            versions.pop(old.group_version, None)
            if new is None or new.service != old.service:
                self._available.pop(old.name, None)
                discovered.pop(old.group_version, None)
                parts.pop(old.group_version, None)
        if new is not None:
            versions[new.group_version] = new
        self._set(versions, discovered, parts)
        for listener in self._listeners:
            listener(old, new)

    def set_available(self, version: RemoteVersion, is_available: bool) -> None:
        before, self._available[version.name] = self.is_available(version), is_available
        if before is not is_available:
            for listener in self._listeners:
                listener(version, version)
            self._call_back()

    def set_discovered(self, found: Iterable[tuple[RemoteVersion, DiscoveredVersion]]) -> None:
        """Note the discovered state of versions that still belong to their servers."""
        discovered = dict(self.current.discovered)
        for version, each in found:
            if self.current.versions.get(version.group_version) == version:
                discovered[version.group_version] = each
        if discovered != self.current.discovered:
            self._set(self.current.versions, discovered)

    def set_openapi_v2(self, found: Iterable[tuple[RemoteVersion, OpenApiPart | None]]) -> None:
        """Note the OpenAPI v2 parts of versions that still belong to their servers."""
        table = self.current
        parts = dict(table.openapi_v2)
        for version, each in found:
            if table.versions.get(version.group_version) != version:
                continue
            parts.pop(version.group_version, None)
            if each is not None:
                parts[version.group_version] = each
        if parts != table.openapi_v2:
            self._set(table.versions, table.discovered, parts)

    def _set(
        self,
        versions: Mapping[GroupVersion, RemoteVersion],
        discovered: Mapping[GroupVersion, DiscoveredVersion],
        openapi_v2: Mapping[GroupVersion, OpenApiPart] | None = None,
    ) -> None:
        parts = self.current.openapi_v2 if openapi_v2 is None else openapi_v2
        self.current = RemoteTable(
            MappingProxyType(dict(versions)),
            MappingProxyType(dict(discovered)),
            MappingProxyType({each: part for each, part in parts.items() if each in versions}),
        )
        self._call_back()

    def _call_back(self) -> None:
        for callback in tuple(self._callbacks):
            callback()
