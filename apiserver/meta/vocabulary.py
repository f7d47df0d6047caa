"""The types and constants that all packages share."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

# The values of a query string's parameters, in their order.
Query: TypeAlias = Mapping[str, list[str]]
# A decoded object: dicts, lists, str, int, float, bool, None.
Document: TypeAlias = dict[str, Any]
IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

ANONYMOUS: Final = "system:anonymous"
UNAUTHENTICATED: Final = "system:unauthenticated"
AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"

# The subresources whose requests are passed on to another server, for as long as client and server like.
CONNECTING_SUBRESOURCES: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})


class GroupVersion(NamedTuple):
    """An API group and version; the core group is the empty string."""

    group: str
    version: str

    def __str__(self) -> str:
        """The apiVersion of objects: `apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Deprecation(NamedTuple):
    """The deprecation of an API. Rows S05-S07.

    since, removed_in: releases, as `1.33`; removed_in is empty if the API will not be removed.
    replacement: as `discovery.k8s.io/v1 EndpointSlice`, or empty.
    text: the warning of a custom resource's definition, in place of the standard one.
    is_announced: whether warnings, audit annotations and a metric tell of it; older releases have none.
    """

    since: str
    removed_in: str = ""
    replacement: str = ""
    text: str = ""
    is_announced: bool = True

    def warning(self, api: str) -> str:
        """The warning for clients. api: the deprecated API, as `v1 Endpoints`."""
        if self.text:
            return self.text
        text = f"{api} is deprecated in v{self.since}+"
        if self.removed_in:
            text += f", unavailable in v{self.removed_in}+"
        return f"{text}; use {self.replacement}" if self.replacement else text


class Removal(NamedTuple):
    """The end of an API. release: the first without it, as `1.38`; empty if it is not known.

    replacement: as `discovery.k8s.io/v1 EndpointSlice`, or empty.
    """

    release: str = ""
    replacement: str = ""

    def is_in(self, minor: int) -> bool:
        """Whether it has gone in release 1.`minor`."""
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


class RequestTarget(Protocol):
    """What a request is about. For a path of no resource only `verb` and `path` count."""

    @property
    def verb(self) -> str: ...
    @property
    def is_resource(self) -> bool: ...
    @property
    def path(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def subresource(self) -> str: ...
    @property
    def namespace(self) -> str: ...
