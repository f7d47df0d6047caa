"""What may be added to a server that this tree does not have: the one seam for tools that test its clients.

`apiserver.testkit` adds faults, histories and simulated nodes here. Nothing below knows of it: each hook says
when it is called, not what it is for. A server without hooks has none of them in the way of its requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from apiserver.auth.authn.chain import Authenticate
from apiserver.endpoints.api_call import ApiCall, Middleware
from apiserver.endpoints.health import HealthCheck
from apiserver.endpoints.reverse_proxy.in_process import InProcessKubelets
from apiserver.endpoints.watch_stream import WatchStreams
from apiserver.registry.clock import Clock
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.interface import Storage
from apiserver.storage.watch_cache import WatchCache

if TYPE_CHECKING:
    from apiserver.admission.chain import AdmissionChain
    from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
    from apiserver.controllers.controller_manager import ControllerSpec

# An `app.core.Core`, which has the hooks itself.
Core: TypeAlias = Any
T = TypeVar("T")
# What serves a path below /debug, by its first segment, given the rest of the path.
DebugPaths: TypeAlias = Mapping[str, Callable[[ApiCall, str], Awaitable[None]]]


class InitialState(Protocol):
    """The objects that a server begins with, in memory, where another server has seen to them before."""

    def open_store(self, clock: Clock) -> Storage:
        """Returns a store that has the objects."""
        ...

    def fill(self, cache: WatchCache[StoredObject]) -> None:
        """Fill the cache with them, if that can be done without reading the store."""
        ...


def _unchanged(value: T) -> T:
    return value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Hooks:
    """What is called at some points of a server's work. By default nothing is.

    store: returns a store in front of the configured one.
    authentication: returns what authenticates requests, given what would.
    request: a middleware around whole requests, outside of all others.
    authorized_request: a middleware around requests that are authorized, before they wait for their seats.
    watch_streams: makes what writes watches, from the arguments of `WatchStreams`.
    refuses_handshake: asked of each TLS handshake whether it is refused.
    readiness: further checks of /readyz. readiness_notes: further lines of its answer.
    debug_paths: what serves /debug/NAME and all below it, by NAME; it is given the rest of the path.
    controllers: further controllers. kubelets: those that answer in this process.
    """

    store: Callable[[Storage], Storage] = _unchanged
    authentication: Callable[[Authenticate], Authenticate] = _unchanged
    request: Middleware | None = None
    authorized_request: Middleware | None = None
    watch_streams: Callable[..., WatchStreams] = WatchStreams
    refuses_handshake: Callable[[], bool] | None = None
    readiness: Mapping[str, HealthCheck] = field(default_factory=dict)
    readiness_notes: Callable[[], Sequence[str]] = tuple
    debug_paths: Callable[[Core], DebugPaths] = lambda _: {}
    controllers: Callable[[Core, NamespaceLifecycle, AdmissionChain], Iterable[ControllerSpec]] = (
        lambda _, lifecycle, admission: ()
    )
    kubelets: Callable[[Core], InProcessKubelets | None] = lambda _: None
