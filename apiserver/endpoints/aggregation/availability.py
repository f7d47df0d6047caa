"""Checks whether the servers of APIServices can be reached, and writes the condition Available.

Each server checks for itself, and forwards by its own result. All write the condition, but only its status
and reason: the text of an error may differ between servers, and would be written again and again.

A version is checked when its APIService changes, when the Service or its EndpointSlices do, and otherwise
every 30 s, after a failure sooner at first. Services are watched only in namespaces that APIServices name.
Source: k8s.io/kube-aggregator, pkg/controllers/status/{local,remote}.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.informer import Informer, ListWatch, Notification, resource_informer
from apiserver.controller_runtime.undone_writes import UndoneWrites
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.kept_objects import cached
from apiserver.endpoints.aggregation.extension_client import (
    ExtensionClient,
    ExtensionFailed,
    ExtensionRequest,
)
from apiserver.endpoints.aggregation.remote_versions import AVAILABLE, RemoteVersion, RemoteVersions
from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition, is_condition_true, set_condition
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document
from apiserver.metrics.controllers import ApiServiceMetrics
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.write_request import KUBE_APISERVER, ProposedObject, WriteRequest
from apiserver.storage.watch_cache import WatchScope
from apiserver.webhooks.service_resolver import ready_endpoints

BACKOFF: Final = Backoff(base_s=0.2, max_s=30.0)
RESYNC_S: Final = 30.0
# Checks under way.
WORKERS: Final = 5
# As in Kubernetes; each of a few attempts may go to another endpoint.
CHECK_WITHIN_S: Final = 5.0
ATTEMPTS: Final = 5
_BY_SERVER: Final = UpdateStrategy()


class CheckResult(NamedTuple):
    """The result of a check: the fields of the condition."""

    status: str
    reason: str
    message: str

    @property
    def is_available(self) -> bool:
        return self.status == "True"


LOCAL: Final = CheckResult("True", "Local", "Local APIServices are always available")
FAILED: Final = "FailedDiscoveryCheck"
PASSED: Final = CheckResult("True", "Passed", "all checks passed")


class WatchedResources(NamedTuple):
    """The resource of APIServices, and those that locate services.

    writes_conditions: whether this server writes the condition of APIServices. If a kube-apiserver shares the
        store, only that one has all Services, and writes it.
    """

    api_services: ServedResource
    locations: Sequence[ServedResource]
    writes_conditions: bool = True


class AvailabilityController:
    """Keeps the remote versions, and the availability of their servers, up to date.

    client: calls extension servers.
    clock: seconds since 1970.
    """

    def __init__(
        self,
        registry: Registry,
        watched: WatchedResources,
        remote: RemoteVersions,
        client: ExtensionClient,
        metrics: ApiServiceMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        resource, self._watched, self._writes_conditions = watched
        self._resource = resource
        self._remote = remote
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._known: dict[str, RemoteVersion] = {}  # by APIService
        self._namespaces: dict[str, list[asyncio.Task[None]]] = {}  # that are watched
        self._tasks: asyncio.TaskGroup | None = None
        # Conditions that another server writes all the time, and until when they are left to it.
        self._resting: dict[str, float] = {}
        self.queue: WorkQueue[str] = WorkQueue("RemoteAvailabilityController", BACKOFF)
        self._undone: UndoneWrites[str] = UndoneWrites(self.queue)
        self._informer = resource_informer(
            registry, resource, self._on_api_service, reports_missed_deletions=True, queue=self.queue
        )

    @property
    def has_synced(self) -> bool:
        """Whether all stored APIServices are known, though perhaps not checked yet."""
        return self._informer.has_synced.is_set()

    async def run(self) -> None:
        """Check until cancelled."""
        controller = Controller(self.queue, self._reconcile, workers=WORKERS, informers=[self._informer])
        async with asyncio.TaskGroup() as self._tasks:
            try:
                await controller.run()
            finally:
                for task in itertools.chain(*self._namespaces.values()):
                    task.cancel()

    # ---- what there is

    def _on_api_service(self, notification: Notification) -> None:
        name, found = notification.name, notification.new
        old = self._known.pop(name, None)
        new = None if found is None else RemoteVersion.of(found.document())
        if new is not None:
            self._known[name] = new
        self._remote.replace(old, new)
        self._watch_namespaces()
        self.queue.add(name)

    def _watch_namespaces(self) -> None:
        """Watch the Services in the namespaces that APIServices name, and in no others."""
        wanted = {each.service.namespace for each in self._known.values()}
        for gone in self._namespaces.keys() - wanted:
            for task in self._namespaces.pop(gone):
                task.cancel()
        if self._tasks is None:
            return
        for namespace in wanted - self._namespaces.keys():
            self._namespaces[namespace] = [
                self._tasks.create_task(
                    self._informer_of(resource, namespace).run(), name=f"{resource.resource}"
                )
                for resource in self._watched
            ]

    def _informer_of(self, resource: ServedResource, namespace: str) -> Informer:
        prefix = self._registry.prefix_of(resource)
        scope = WatchScope(key_prefix=f"{prefix}{namespace}/")

        def on_service(notification: Notification) -> None:
            for name, version in self._known.items():
                if version.service.namespace == namespace and self._concerns(resource, notification, version):
                    self.queue.add(name)

        return Informer(
            ListWatch(self._registry.cache, prefix, scope), on_service, reports_missed_deletions=True
        )

    def _concerns(self, resource: ServedResource, notification: Notification, version: RemoteVersion) -> bool:
        """Returns whether a Service, or an EndpointSlice, belongs to the service of a version."""
        if resource.resource == "services":
            return notification.name == version.service.name
        # Which service a slice is of says a label of it; by convention its name begins with the service's.
        for found in (notification.old, notification.new):
            if found is not None and version.service.name in found.labels().values():
                return True
        return notification.name.startswith(version.service.name)

    # ---- checks

    async def _reconcile(self, name: str) -> Outcome:
        current = cached(self._registry, self._resource, "", name)
        if current is None:
            self._metrics.forget(name)
            return None
        version = RemoteVersion.of(current)
        verdict = LOCAL if version is None else await self._check(version)
        if self._known.get(name) != version:
            return None  # It has changed meanwhile, and will be checked again.
        self._metrics.observe(
            name,
            verdict.reason,
            is_available=verdict.is_available,
            was_available=is_condition_true(current, AVAILABLE),
        )
        if version is not None:
            self._remote.set_available(version, verdict.is_available)
        if not _says(current, verdict) and self._may_write(name, (current["metadata"]["uid"], verdict[:2])):
            with suppress(NotFound):
                await self._write(name, verdict)
        if version is None:
            return None
        # A failed check is repeated with growing delays, since no event announces when it would pass.
        return Requeue() if verdict.reason == FAILED else Requeue(after_s=RESYNC_S)

    def _may_write(self, name: str, content: Hashable) -> bool:
        """Returns whether to write a condition now.

        This server stops if other servers with other results undo it.
        """
        if not self._writes_conditions:
            return False
        now = self.queue.now()
        self._resting = {each: until for each, until in self._resting.items() if until > now}
        if name in self._resting:
            return False
        if cooldown_s := self._undone.cooldown_s(name, content):
            self._resting[name] = now + cooldown_s
        return True

    async def _write(self, name: str, verdict: CheckResult) -> None:
        """Write a condition."""
        now = timestamps.to_text(self._clock())

        def with_condition(found: StoredObject) -> ProposedObject:
            document = found.document()
            status, reason, message = verdict
            condition = {"type": AVAILABLE, "status": status, "reason": reason, "message": message}
            set_condition(document, condition, now)
            return ProposedObject(document)

        request = WriteRequest(
            resource=self._resource,
            namespace="",
            name=name,
            update=_BY_SERVER,
            writer=KUBE_APISERVER.at("status"),
        )
        await self._registry.update(request, with_condition)

    async def _check(self, version: RemoteVersion) -> CheckResult:
        service = version.service
        named = f'service/{service.name} in "{service.namespace}"'
        found = await self._client.services.service(service.namespace, service.name)
        if found is None:
            return CheckResult("False", "ServiceNotFound", f"{named} is not present")
        spec = found.get("spec") or {}
        if (spec.get("type") or "ClusterIP") == "ClusterIP":
            port = next((each for each in spec.get("ports") or () if each.get("port") == service.port), None)
            if port is None:
                return CheckResult(
                    "False", "ServicePortError", f"{named} is not listening on port {service.port}"
                )
            slices = list(await self._client.services.slices(service.namespace, service.name))
            if not slices:
                return CheckResult("False", "EndpointsNotFound", f"cannot find endpointslices for {named}")
            port_name = port.get("name") or ""
            if not any(ready_endpoints(each, port_name) for each in slices):
                message = f'endpointslices for {named} have no addresses with port name "{port_name}"'
                return CheckResult("False", "MissingEndpoints", message)
        return await self._ask(version)

    async def _ask(self, version: RemoteVersion) -> CheckResult:
        """Requests the version's resources once, and after a failure a few more times concurrently."""
        try:
            await self._ask_once(version)
        except ExtensionFailed:
            more = [asyncio.ensure_future(self._ask_once(version)) for _ in range(ATTEMPTS - 1)]
            return _first_success(await asyncio.gather(*more, return_exceptions=True))
        return PASSED

    async def _ask_once(self, version: RemoteVersion) -> None:
        """Requests the version's resources.

        As in Kubernetes, certificates are not verified: only reachability matters.
        """
        question = ExtensionRequest(
            path=f"/apis/{version.group_version}", bytes_max=0, timeout_s=CHECK_WITHIN_S, verifies=False
        )
        answer = await self._client.ask(version, question)
        if not 200 <= answer.status < 300:
            text = f"bad status from {answer.url}: {answer.status}"
            raise ExtensionFailed(f"failing or missing response from {answer.url}: {text}")


def _first_success(results: Iterable[BaseException | None]) -> CheckResult:
    failure: BaseException | None = None
    for each in results:
        if each is None:
            return PASSED
        if not isinstance(each, ExtensionFailed):
            raise each
        failure = each
    return CheckResult("False", FAILED, str(failure))


def _says(document: Document, verdict: CheckResult) -> bool:
    """Returns whether the condition of an APIService equals the result of a check, except for the message."""
    condition = find_condition(document, AVAILABLE) or {}
    return (condition.get("status"), condition.get("reason")) == (verdict.status, verdict.reason)
