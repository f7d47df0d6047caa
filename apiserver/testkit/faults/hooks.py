"""Has a server have the faults of an injector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from apiserver.app.core import Core
from apiserver.app.hooks import Hooks
from apiserver.endpoints.health import Unhealthy
from apiserver.testkit.faults.debug_endpoint import FaultRequests
from apiserver.testkit.faults.injector import FaultInjector
from apiserver.testkit.faults.middleware import ExpiringTokens, inject_faults
from apiserver.testkit.faults.watches import FaultyWatchStreams


def with_faults(hooks: Hooks, injector: FaultInjector, *, over_http: bool) -> Hooks:
    """Returns the hooks, with those that make faults happen. over_http: whether clients may inject some."""

    async def check_readiness() -> None:
        if not injector.is_ready():
            raise Unhealthy("an injected fault: not ready")

    def notes() -> Sequence[str]:
        return (f"warn: fault injection is enabled, active faults: {injector.active_count}",)

    def debug_paths(core: Core) -> dict[str, FaultRequests]:
        return {"faults": FaultRequests(injector, core.registry.cache.compact)} if over_http else {}

    return replace(
        hooks,
        authentication=partial(ExpiringTokens, injector),
        authorized_request=inject_faults(injector),
        watch_streams=partial(FaultyWatchStreams, injector),
        refuses_handshake=injector.refuses_handshake,
        readiness={"fault-injection": check_readiness},
        readiness_notes=notes,
        debug_paths=debug_paths,
    )
