"""Serves /livez, /readyz and /healthz, which run named checks, all of them or a single one.

Rows N01-N08. Source: k8s.io/apiserver, pkg/server/healthz.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.responses import TEXT, send
from apiserver.metrics.health_checks import HealthCheckMetrics
from apiserver.registry.stored_object import StoredObject
from apiserver.storage.errors import StorageFull
from apiserver.storage.watch_cache import WatchCache

log = logging.getLogger(__name__)

# A probe gives up after some seconds; a response that names the check that hangs is better than none.
CHECK_TIMEOUT_S: Final = 4.0

# The order of kube-apiserver 1.36; checks that it does not have come before the last one.
_ORDER: Final = (
    *("ping", "log", "etcd", "kms-providers", "storage", "etcd-readiness", "informer-sync", "watch-cache"),
    *(
        f"poststarthook/{name}"
        for name in (
            *("start-apiserver-admission-initializer", "generic-apiserver-start-informers"),
            *("priority-and-fairness-config-consumer", "priority-and-fairness-filter"),
            *("storage-object-count-tracker-hook", "start-apiextensions-informers"),
            *("start-apiextensions-controllers", "crd-informer-synced", "start-system-namespaces-controller"),
            *("start-cluster-authentication-info-controller", "storage-readiness"),
            *("start-legacy-token-tracking-controller", "start-service-ip-repair-controllers"),
            *("rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes"),
            *("priority-and-fairness-config-producer", "bootstrap-controller"),
            *("start-kubernetes-service-cidr-controller", "start-kube-aggregator-informers"),
            *(
                "apiservice-status-local-available-controller",
                "apiservice-status-remote-available-controller",
            ),
            *("apiservice-registration-controller", "apiservice-wait-for-first-sync"),
            *("apiservice-discovery-controller", "kube-apiserver-autoregistration"),
        )
    ),
    "autoregister-completion",
    *(f"poststarthook/apiservice-{name}-controller" for name in ("openapi", "openapiv3")),
    "shutdown",
)
_RANKS: Final = {name: rank for rank, name in enumerate(_ORDER)}
_BEFORE_SHUTDOWN: Final = len(_ORDER) - 1.5
# Kubernetes' hooks whose work is done by one of ours.
_DONE_BY: Final[Mapping[str, Sequence[str]]] = {
    "apiservice-registration-controller": (
        *("start-kube-aggregator-informers", "apiservice-status-local-available-controller"),
        *("apiservice-status-remote-available-controller", "apiservice-wait-for-first-sync"),
        *("apiservice-discovery-controller", "kube-apiserver-autoregistration"),
        *("apiservice-openapi-controller", "apiservice-openapiv3-controller"),
    ),
    "crd-informer-synced": ("start-apiextensions-informers", "start-apiextensions-controllers"),
    "generic-apiserver-start-informers": (
        *("start-apiserver-admission-initializer", "storage-object-count-tracker-hook"),
        *("storage-readiness", "start-legacy-token-tracking-controller"),
    ),
    "priority-and-fairness-config-consumer": ("priority-and-fairness-filter",),
}


class Unhealthy(Exception):
    """A health check failed; the message is for the log, and clients see only that it failed."""


HealthCheck = Callable[[], Awaitable[None]]


class SharedCheck:
    """A check that runs once for all concurrent probes, so that probes cannot overload what it checks."""

    def __init__(self, check: HealthCheck) -> None:
        self._check = check
        self._running: asyncio.Task[str] | None = None

    async def __call__(self) -> None:
        """Run the check."""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(_reason(self._check))
        if reason := await asyncio.shield(self._running):
            raise Unhealthy(reason)


@dataclass(slots=True)
class PostStartHook:
    """Work that has to be done once after the start; a failing check until then."""

    name: str
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def done(self) -> None:
        self._done.set()

    async def wait(self) -> None:
        """Return once the hook is done."""
        await self._done.wait()

    async def check(self) -> None:
        if not self.is_done:
            raise Unhealthy("not finished")


class StoreCheck:
    """The check that the store can be read. A full store passes, with a note.

    Reads and deletions free a full store. A server that is not ready gets neither, and with one store all
    replicas would be unready at once. The note does not contain the store's message, which names members and
    files: anyone may read health checks. The log contains it.
    """

    def __init__(self, check: HealthCheck) -> None:
        self._check = check
        # What the last check found, and what the log says.
        self._is_full = self._is_logged_full = False

    async def __call__(self) -> None:
        """Run the check."""
        is_full, why = False, ""
        try:
            await self._check()
        except StorageFull as error:
            is_full, why = True, str(error)
        finally:
            self._is_full = is_full  # A store that fails in another way may no longer be full.
        if is_full != self._is_logged_full:
            if is_full:
                log.warning("the store is full and refuses writes: %s", why)
            else:
                log.info("the store has space again and accepts writes")
        self._is_logged_full = is_full

    @property
    def notes(self) -> Sequence[str]:
        """What the last check found, as lines for clients."""
        return ("warn: the store is full and refuses writes",) if self._is_full else ()


@dataclass
class Health:
    """The checks of each endpoint, in the order of the response.

    storage: whether the store can be read; raises StorageFull if it can, but refuses writes.
    live_without_store: whether /livez passes while the store cannot be reached.
    live_grace_s: post-start hooks that are not done do not fail /livez until this many seconds after the
        start (row N08). clock: the event loop's. metrics: count the results of checks.
    kms: checks the KMS plugins; None if there are none.
    readiness: further checks of /readyz. readiness_notes: further lines of its answer.
    """

    storage: HealthCheck
    cache: HealthCheck
    live_without_store: bool
    live_grace_s: float
    clock: Callable[[], float]
    metrics: HealthCheckMetrics
    kms: HealthCheck | None = None
    readiness: Mapping[str, HealthCheck] = field(default_factory=dict)
    readiness_notes: Callable[[], Sequence[str]] = tuple
    hooks: list[PostStartHook] = field(default_factory=list)
    is_shutting_down: bool = False

    def __post_init__(self) -> None:
        self._started_at = self.clock()
        self._store_check = StoreCheck(self.storage)
        self.storage = SharedCheck(self._store_check)
        if self.kms is not None:
            self.kms = SharedCheck(self.kms)

    def add_post_start_hook(self, name: str) -> PostStartHook:
        """Register work that has to be done before the server is ready.

        Kubernetes' other names for the same work become checks, too.
        """
        hook = PostStartHook(f"poststarthook/{name}")
        self.hooks.append(hook)
        self.hooks += (replace(hook, name=f"poststarthook/{other}") for other in _DONE_BY.get(name, ()))
        return hook

    def checks(self, endpoint: str) -> Mapping[str, HealthCheck]:
        """Returns the checks of an endpoint (livez, readyz or healthz) by name, in Kubernetes' order."""
        checks = self._checks(endpoint)
        return {name: checks[name] for name in sorted(checks, key=self._rank)}

    def _checks(self, endpoint: str) -> dict[str, HealthCheck]:
        checks: dict[str, HealthCheck] = {"ping": _fine, "log": _fine}
        if endpoint == "livez":
            # An unreachable store is no reason to restart the server, as that would not repair it. The check
            # remains available by name, so excluding it, as with kube-apiserver, works.
            checks["etcd"] = _fine if self.live_without_store else self.storage
            if self.kms is not None:
                checks["kms-providers"] = _fine if self.live_without_store else self.kms
            checks |= {hook.name: self._within_grace(hook) for hook in self.hooks}
            checks["autoregister-completion"] = _fine
            return checks
        # Kubernetes' names beside our own.
        checks |= {"etcd": self.storage, "storage": self.storage}
        if self.kms is not None:
            checks["kms-providers"] = self.kms
        if endpoint == "readyz":
            checks["etcd-readiness"] = self.storage
            checks |= {"informer-sync": self.cache, "watch-cache": self.cache}
        checks |= {hook.name: hook.check for hook in self.hooks}
        checks["autoregister-completion"] = _fine
        if endpoint == "readyz":
            checks |= {**self.readiness, "shutdown": self._not_shutting_down}
        return checks

    def notes(self, endpoint: str) -> Sequence[str]:
        """Returns the lines that are shown beside the results of the last checks."""
        if endpoint == "livez":
            return ()
        own = self._store_check.notes
        return (*own, *self.readiness_notes()) if endpoint == "readyz" else own

    @staticmethod
    def _rank(name: str) -> float:
        return _RANKS.get(name, _BEFORE_SHUTDOWN)

    async def wait_for_hooks(self) -> None:
        """Return once all post-start hooks are done, before which the server is not ready."""
        for hook in self.hooks:
            await hook.wait()

    async def is_ready(self) -> bool:
        results = await _run(self.checks("readyz"))
        return not any(results.values())

    def _within_grace(self, hook: PostStartHook) -> HealthCheck:
        async def check() -> None:
            if self.clock() - self._started_at > self.live_grace_s:
                await hook.check()

        return check

    async def _not_shutting_down(self) -> None:
        if self.is_shutting_down:
            raise Unhealthy("the server is shutting down")


def cache_check(cache: WatchCache[StoredObject]) -> HealthCheck:
    """Returns a check that the watch cache is filled and follows the store."""

    async def check() -> None:
        if not cache.is_filled:
            raise Unhealthy("the watch cache is not filled yet")
        if cache.failure is not None:
            raise Unhealthy(f"the watch cache cannot follow the store: {cache.failure}")

    return check


async def _fine() -> None:
    """Passes always, as a response of the server is all there is to check."""


async def respond_all(call: ApiCall, endpoint: str, health: Health) -> None:
    """Respond to /livez, /readyz or /healthz with the results of all checks."""
    checks = health.checks(endpoint)
    excluded = [name for name in call.query.get("exclude", ()) if name]
    results = await _run({name: check for name, check in checks.items() if name not in excluded})
    health.metrics.observe(endpoint, results)
    lines = []
    for name in checks:
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif results[name]:
            lines.append(f"[-]{name} failed: reason withheld")
        else:
            lines.append(f"[+]{name} ok")
    if unmatched := [name for name in excluded if name not in checks]:
        listed = ", ".join(f'"{name}"' for name in unmatched)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
    lines += health.notes(endpoint)
    failed = {name: reason for name, reason in results.items() if reason}
    if failed:
        log.warning("%s check failed: %s", endpoint, "; ".join(f"{n}: {r}" for n, r in failed.items()))
        body = "\n".join([*lines, f"{endpoint} check failed", ""])
        await send(call, 500, body.encode(), TEXT, _HEADERS)
    elif "verbose" in call.query:  # whatever it says
        await send(call, 200, "\n".join([*lines, f"{endpoint} check passed", ""]).encode(), TEXT, _HEADERS)
    else:
        await send(call, 200, b"ok", TEXT, _HEADERS)


async def respond_one(call: ApiCall, check: HealthCheck) -> None:
    """Respond to a path like /livez/ping with the result of one check."""
    reason = (await _run({"": check}))[""]
    if reason:
        await send(call, 500, f"internal server error: {reason}\n".encode(), TEXT, _HEADERS)
    else:
        await send(call, 200, b"ok", TEXT, _HEADERS)


_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}


async def _run(checks: Mapping[str, HealthCheck]) -> dict[str, str]:
    """Returns why each check failed; an empty text if it passed."""
    reasons = await asyncio.gather(*(_reason(check) for check in checks.values()))
    return dict(zip(checks, reasons, strict=True))


async def _reason(check: HealthCheck) -> str:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check()
    except TimeoutError:
        return f"no response in {CHECK_TIMEOUT_S:.0f} s"
    except Exception as error:  # A check that fails in an unforeseen way has failed, too.
        return str(error) or type(error).__name__
    return ""
