"""Defines the hooks through which `apiserver.testkit` adds faults, histories and simulated nodes to a server.

They are the only seam for tools that test clients. Nothing below knows of these tools: each hook says when it
is called, not what it is for. A server without hooks has none of them in the way of its requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from apiserver.auth.authn.chain import Authenticate
from apiserver.endpoints.api_call import ApiCall, Middleware
from apiserver.endpoints.health import HealthCheck
from apiserver.endpoints.reverse_proxy.in_process import InProcessKubelets
from apiserver.endpoints.watch_stream import WatchStream
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
    """The objects that a server begins with, in memory, after another server has processed them."""

    def open_store(self, clock: Clock) -> Storage:
        """Returns a store that has the objects."""
        ...

    def fill(self, cache: WatchCache[StoredObject]) -> None:
        """Fill the cache with the objects, if that is possible without reading the store."""
        ...


def _unchanged(value: T) -> T:
    return value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Hooks:
    """The functions that a server calls at some points of its work; by default there are none.

    store: returns a store in front of the configured one.
    authentication: wraps the authenticator of requests.
    request: a middleware around whole requests, outside of all others.
    authorized_request: a middleware around requests that are authorized, before they wait for their seats.
    watch_stream: makes the stream of a watch, from the arguments of `WatchStream`.
    refuses_handshake: asked of each TLS handshake whether it is refused.
    readiness: further checks of /readyz. readiness_notes: further lines of its answer.
    debug_paths: the handlers of /debug/NAME and all below it, by NAME; each gets the rest of the path.
    controllers: further controllers. kubelets: the simulated ones in this process.
    """

    store: Callable[[Storage], Storage] = _unchanged
    authentication: Callable[[Authenticate], Authenticate] = _unchanged
    request: Middleware | None = None
    authorized_request: Middleware | None = None
    watch_stream: Callable[..., WatchStream] = WatchStream
    refuses_handshake: Callable[[], bool] | None = None
    readiness: Mapping[str, HealthCheck] = field(default_factory=dict)
    readiness_notes: Callable[[], Sequence[str]] = tuple
    debug_paths: Callable[[Core], DebugPaths] = lambda _: {}
    controllers: Callable[[Core, NamespaceLifecycle, AdmissionChain], Iterable[ControllerSpec]] = (
        lambda _, lifecycle, admission: ()
    )
    kubelets: Callable[[Core], InProcessKubelets | None] = lambda _: None
