"""The types and constants that all packages share."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

# The values of a query string's parameters, in their order.
Query: TypeAlias = Mapping[str, list[str]]
# A decoded object: dicts, lists, str, int, float, bool, None.
Document: TypeAlias = dict[str, Any]
IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

ANONYMOUS: Final = "system:anonymous"
UNAUTHENTICATED: Final = "system:unauthenticated"
AUTHENTICATED: Final = "system:authenticated"
SYSTEM_MASTERS: Final = "system:masters"

# The subresources whose requests are passed on to another server, for as long as client and server like.
CONNECTING_SUBRESOURCES: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})


class GroupVersion(NamedTuple):
    """An API group and version; the core group is the empty string."""

    group: str
    version: str

    def __str__(self) -> str:
        """Returns the apiVersion of objects: `apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Deprecation(NamedTuple):
    """The deprecation of an API. Rows S05-S07.

    since, removed_in: releases, as `1.33`; removed_in is empty if the API will not be removed.
    replacement: as `discovery.k8s.io/v1 EndpointSlice`, or empty.
    text: the warning of a custom resource's definition, in place of the standard one.
    is_announced: whether warnings, audit annotations and a metric report it; older releases have none.
    """

    since: str
    removed_in: str = ""
    replacement: str = ""
    text: str = ""
    is_announced: bool = True

    def warning(self, api: str) -> str:
        """Returns the warning for clients. api: the deprecated API, as `v1 Endpoints`."""
        if self.text:
            return self.text
        text = f"{api} is deprecated in v{self.since}+"
        if self.removed_in:
            text += f", unavailable in v{self.removed_in}+"
        return f"{text}; use {self.replacement}" if self.replacement else text


class Removal(NamedTuple):
    """The removal of an API. release: the first without it, as `1.38`; empty if it is unknown.

    replacement: as `discovery.k8s.io/v1 EndpointSlice`, or empty.
    """

    release: str = ""
    replacement: str = ""

    def is_in(self, minor: int) -> bool:
        """Returns whether release 1.`minor` no longer has the API."""
        return bool(self.release) and int(self.release.partition(".")[2]) <= minor


class GroupResource(NamedTuple):
    """A resource without its version, as messages name it: `deployments.apps`."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupKind(NamedTuple):
    """A kind without its version, as messages name it: `Deployment.apps`."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class UserInfo(NamedTuple):
    """The user that makes a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The attributes of a request.

    For paths that are not of a resource, only `method`, `path` and `verb` (the method in lower case) are set.
    """

    method: str
    path: str  # decoded, without the query
    verb: str  # get, list, watch, create, update, patch, delete or deletecollection
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()  # what follows the subresource
    # A watch, or passed on to another server. It follows from the others.
    is_long_running: bool = field(default=False, compare=False)
    has_watch_prefix: bool = False  # /api/v1/watch/..., an old way to say ?watch=true
    is_namespace_itself: bool = False  # the path ends with the namespace, or a subresource of it
    moment: str = ""  # /at/MOMENT/api/v1/...: the moment to read, a revision or a time; the path lacks it
