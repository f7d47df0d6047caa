"""Finds the resource of a kind, as kubectl does: by discovery."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from apiserver.testing.errors import RequestFailed, UnknownKind
from apiserver.testkit.write_history import StoreWrite

# Of objects that do not say theirs.
DEFAULT_NAMESPACE: Final = "default"
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class RunningServer(Protocol):
    """The methods of an `ApiServer` that are used here; that class describes them."""

    @property
    def admin_headers(self) -> dict[str, str]: ...

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]: ...

    def connect(self, timeout_s: float = ...) -> http.client.HTTPConnection: ...

    def writes(self) -> Sequence[StoreWrite]: ...


class Resource(NamedTuple):
    """A served resource.

    group: empty for the core group. plural: its name in URLs. is_watched: whether it can be watched.
    """

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool
    is_watched: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "") -> str:
        """Returns the path of an object or a collection; without a namespace that of all namespaces."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.is_namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, *([name] if name else [])]
        return "/" + "/".join(quote(part, safe="") for part in parts)


def find_resource(server: RunningServer, kind: str) -> Resource:
    """Returns the resource of a kind or a plural name, in the version that the server prefers.

    kind: as `ConfigMap`, `configmaps`, `deployments.apps`, or `apps/v1/Deployment`.
    Raises UnknownKind.
    """
    served = list(_served(server))
    for resource in served:
        if kind in _names(resource):
            return resource
    # If the requested version does not exist, the error lists the existing ones of this kind only.
    name = kind.rpartition("/")[2]
    versions = {f"{each.api_version}/{each.kind}" for each in served if each.kind == name}
    raise UnknownKind(kind, sorted(versions or {each.kind for each in served}))


def watched_resources(server: RunningServer) -> list[Resource]:
    """Returns all resources that can be watched, each in the version that the server prefers.

    Events are those of `events.k8s.io`, which include all of the core group.
    """
    found = {
        (resource.group, resource.plural): resource
        for resource in reversed(list(_served(server)))
        if resource.is_watched
    }
    found.pop(("", "events"), None)
    return list(reversed(found.values()))


def _names(resource: Resource) -> tuple[str, ...]:
    group, lower = resource.group, resource.kind.lower()
    return (
        resource.kind,
        resource.plural,
        lower,
        f"{resource.plural}.{group}",
        f"{lower}.{group}",
        f"{resource.api_version}/{resource.kind}",
    )


def _served(server: RunningServer) -> Iterator[Resource]:
    """Yields all resources, the preferred versions of each group first."""
    for path in ("/api", "/apis"):
        code, answer = server.request("GET", path, headers={"Accept": _DISCOVERY})
        if code != 200:
            raise RequestFailed("discovery", code, answer)
        for group in answer["items"]:
            yield from _resources(group)


def _resources(group: dict[str, Any]) -> Iterator[Resource]:
    for version in group.get("versions", ()):
        for each in version.get("resources", ()):
            yield Resource(
                group["metadata"].get("name", ""),
                version["version"],
                each["resource"],
                each["responseKind"]["kind"],
                each["scope"] == "Namespaced",
                {"list", "watch"} <= {*each["verbs"]},
            )
