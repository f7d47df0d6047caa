"""Adds the faults of an injector to a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from apiserver.app.core import Core
from apiserver.app.hooks import DebugPaths, Hooks
from apiserver.endpoints.health import Unhealthy
from apiserver.testkit.faults.debug_endpoint import FaultRequests
from apiserver.testkit.faults.injector import FaultInjector
from apiserver.testkit.faults.middleware import ExpiringTokens, inject_faults
from apiserver.testkit.faults.watches import FaultyWatchStream


def with_faults(hooks: Hooks, injector: FaultInjector, *, over_http: bool) -> Hooks:
    """Returns hooks that also make faults happen. over_http: whether clients may inject faults.

    The factory of watch streams is replaced.
    """

    async def check_readiness() -> None:
        if not injector.is_ready():
            raise Unhealthy("an injected fault: not ready")

    def notes() -> Sequence[str]:
        own = f"warn: fault injection is enabled, active faults: {injector.active_count}"
        return (*hooks.readiness_notes(), own)

    def debug_paths(core: Core) -> DebugPaths:
        paths = hooks.debug_paths(core)
        return (
            {**paths, "faults": FaultRequests(injector, core.registry.cache.compact)} if over_http else paths
        )

    def refuses_handshake() -> bool:
        refuses = hooks.refuses_handshake
        return injector.refuses_handshake() or (refuses is not None and refuses())

    around = hooks.authorized_request
    inject = inject_faults(injector)
    return replace(
        hooks,
        authentication=lambda chain: ExpiringTokens(injector, hooks.authentication(chain)),
        authorized_request=inject if around is None else lambda handle: around(inject(handle)),
        watch_stream=partial(FaultyWatchStream, injector),
        refuses_handshake=refuses_handshake,
        readiness={**hooks.readiness, "fault-injection": check_readiness},
        readiness_notes=notes,
        debug_paths=debug_paths,
    )
