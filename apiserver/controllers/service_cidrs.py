"""ServiceCIDRs: the networks that Services get their addresses from, beside those of the command line.

`DefaultServiceCidr` keeps the one with the networks of the command line. `ServiceNetworks` runs on every
server and passes the ready ServiceCIDRs to the allocator. The controller makes them ready, and keeps one that
is being deleted until no address needs it: an address that another ServiceCIDR has, too, does not. A server
may notice a deletion a moment later than others, and assign an address of that network; so the last check is
GRACE_S after the deletion began.

Source: kubernetes, pkg/controller/servicecidrs; pkg/registry/core/service/ipallocator/cidrallocator.go.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from apiserver.catalogue.core.services.allocation import AdditionalNetworks
from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.informer import (
    Informer,
    InformerCallbacks,
    ListWatch,
    Notification,
    resource_informer,
)
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.kept_objects import KeptObject, cached, keep, keep_forever
from apiserver.meta import timestamps
from apiserver.meta.brand import Brand
from apiserver.meta.conditions import applied_condition, find_condition, is_condition_true, set_condition
from apiserver.meta.errors import ApiError, NotFound
from apiserver.meta.vocabulary import Document, IPAddress, IPNetwork
from apiserver.registry.allocations import AddressRange
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import (
    KUBE_CONTROLLER_MANAGER,
    InternalWriter,
    ProposedObject,
    WriteRequest,
)
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.interface import ANY
from apiserver.storage.keys import prefix_range

log = logging.getLogger(__name__)

READY: Final = "Ready"
BACKOFF: Final = Backoff(base_s=0.1, max_s=60.0)
GRACE_S: Final = 10.0
# The one of the command line, and how often it is looked at, as by kube-apiserver.
NAME: Final = "kubernetes"
INTERVAL_S: Final = 10.0
_DEFAULT_WRITER: Final = InternalWriter(
    "kubernetes-service-cidr-controller", "status", lambda new: applied_condition(new, READY)
)
_STATUS_WRITER: Final = _DEFAULT_WRITER._replace(manager="service-cidr-controller")
_DEFAULT_IS_READY: Final = "Kubernetes default Service CIDR is ready"
_IS_READY: Final = "Kubernetes Service CIDR is ready"
_IS_USED: Final = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
)


def networks_of(service_cidr: Document) -> list[IPNetwork]:
    """Returns the valid networks of a ServiceCIDR."""
    found = []
    for text in (service_cidr.get("spec") or {}).get("cidrs") or ():
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError:
            continue
    return found


class DefaultServiceCidr:
    """Keeps the ServiceCIDR `kubernetes`, which has the networks of the command line.

    As in kube-apiserver every server does so, whatever controllers run. An existing one with other networks
    is not changed, unless a network of the second IP family is added.
    """

    def __init__(
        self,
        registry: Registry,
        service_cidrs: ServedResource,
        networks: Sequence[IPNetwork],
        clock: Callable[[], float],
    ) -> None:
        """clock: seconds since 1970."""
        self._registry = registry
        self._resource = service_cidrs
        self._cidrs = [str(each) for each in networks]
        self._clock = clock

    async def run(self, on_first: Callable[[], None]) -> None:
        """Keep the ServiceCIDR until cancelled. on_first: called once it exists."""
        await keep_forever(self._registry, self.reconcile, INTERVAL_S, on_first)

    async def reconcile(self) -> None:
        """Write the ServiceCIDR if it differs from the required one. Raises StorageError."""
        await keep(self._registry, KeptObject(self._resource, "", NAME, self._wanted))
        rules = self._resource.subresources["status"].update
        request = WriteRequest(
            resource=self._resource, namespace="", name=NAME, update=rules, writer=_DEFAULT_WRITER
        )
        try:
            found = cached(self._registry, self._resource, "", NAME)
            # It is not there yet when it has just been created.
            if found is None or self._is_to_be_ready(found):
                await self._registry.update(request, self._ready)
        except NotFound:
            pass  # It is there again next time.
        except ApiError as error:
            log.warning("cannot write the ServiceCIDR %s: %s", NAME, error)

    def _wanted(self, current: Document | None) -> Document:
        if current is None:
            return {"metadata": {"name": NAME}, "spec": {"cidrs": self._cidrs}}
        cidrs = current["spec"].get("cidrs") or []
        is_extended = len(cidrs) == 1 and len(self._cidrs) == 2 and cidrs == self._cidrs[:1]
        if not is_extended or "deletionTimestamp" in current["metadata"]:
            return current
        return {**current, "spec": {**current["spec"], "cidrs": self._cidrs}}

    def _is_to_be_ready(self, found: Document) -> bool:
        is_own = (found.get("spec") or {}).get("cidrs") == self._cidrs
        is_leaving = "deletionTimestamp" in found["metadata"]
        return is_own and not is_leaving and not is_condition_true(found, READY)

    def _ready(self, found: StoredObject) -> ProposedObject:
        document = found.document()
        if self._is_to_be_ready(document):
            condition = {"type": READY, "status": "True", "reason": "", "message": _DEFAULT_IS_READY}
            set_condition(document, condition, timestamps.to_text(self._clock()))
        return ProposedObject(document)


class ServiceNetworks:
    """Passes all ready ServiceCIDRs that are not being deleted to the allocator."""

    def __init__(
        self, registry: Registry, service_cidrs: ServedResource, further: AdditionalNetworks
    ) -> None:
        self._further = further
        self._ready: dict[str, list[IPNetwork]] = {}  # by the names of ServiceCIDRs
        self._informer = resource_informer(
            registry,
            service_cidrs,
            self._on_service_cidr,
            callbacks=InformerCallbacks(on_batch=self._tell),
            reports_missed_deletions=True,
        )

    async def run(self) -> None:
        """Pass ServiceCIDRs to the allocator until cancelled."""
        await self._informer.run()

    def _on_service_cidr(self, notification: Notification) -> None:
        self._ready.pop(notification.name, None)
        if notification.new is not None:
            document = notification.new.document()
            if is_condition_true(document, READY) and "deletionTimestamp" not in document["metadata"]:
                self._ready[notification.name] = networks_of(document)

    def _tell(self) -> None:
        by_family: dict[str, list[IPNetwork]] = {}
        for _, networks in sorted(self._ready.items()):
            for network in networks:
                by_family.setdefault(f"IPv{network.version}", []).append(network)
        self._further.networks = by_family


class ServiceCidrController:
    """Makes ServiceCIDRs ready, and releases deleted ones that no address needs. clock: seconds since
    1970.
    """

    def __init__(
        self, registry: Registry, served: ServedTable, brand: Brand, clock: Callable[[], float]
    ) -> None:
        self._registry = registry
        self._served = served
        self._brand = brand
        self._clock = clock
        self._finalizer = f"{brand.group('networking')}/service-cidr-finalizer"
        self._leaving: set[str] = set()  # the names of those that are being deleted
        self.queue: WorkQueue[str] = WorkQueue("servicecidrs", BACKOFF)

    async def run(self) -> None:
        """Reconcile ServiceCIDRs until cancelled."""
        cache = self._registry.cache
        informers = [
            Informer(
                ListWatch(cache, self._registry.prefix_of(self._find("servicecidrs"))),
                self._on_service_cidr,
                reports_missed_deletions=True,
                wait_for_room=self.queue.wait_for_room,
            ),
            Informer(
                ListWatch(cache, self._registry.prefix_of(self._find("ipaddresses")), lists=False),
                self._on_address,
            ),
        ]
        await Controller(self.queue, self._reconcile, informers=informers).run()

    def _on_service_cidr(self, notification: Notification) -> None:
        found, name = notification.new, notification.name
        if found is not None and "deletionTimestamp" in found.document()["metadata"]:
            self._leaving.add(name)
        else:
            self._leaving.discard(name)
        if found is not None:
            self.queue.add(name)
        self._add_leaving()  # Another may have their addresses now, or have them no longer.

    def _on_address(self, notification: Notification) -> None:
        if notification.new is None:
            self._add_leaving()

    def _add_leaving(self) -> None:
        for name in self._leaving:
            self.queue.add(name)

    async def _reconcile(self, name: str) -> Outcome:
        try:
            found = (await self._registry.get(self._find("servicecidrs"), "", name, ANY)).document()
            deleted_at = timestamps.from_text(found["metadata"].get("deletionTimestamp") or "")
            if deleted_at is None:
                await self._make_ready(found)
                return None
            if await self._is_used(found):
                await self._set_ready(name, "False", "Terminating", _IS_USED)
                return None
            left_s = deleted_at + GRACE_S - self._clock()
            if left_s > 0:
                return Requeue(after_s=left_s)
            await self._update(name, self._without_finalizer)
        except NotFound:
            pass
        return None

    async def _make_ready(self, found: Document) -> None:
        name = found["metadata"]["name"]
        if self._finalizer not in (found["metadata"].get("finalizers") or ()):
            await self._update(name, self._with_finalizer)
        if not is_condition_true(found, READY):
            await self._set_ready(name, "True", "", _IS_READY)

    async def _is_used(self, leaving: Document) -> bool:
        """Returns whether some Service has an address that no other ServiceCIDR has."""
        others = [network async for network in self._other_networks(leaving["metadata"]["name"])]
        own = [each for each in networks_of(leaving) if not _has_network(others, each)]
        if not own:
            return False
        managed_by = f"ipaddress.{self._brand.vendor}.io/managed-by"
        allocator = f"ipallocator.{self._brand.group_domain}"
        keys = prefix_range(self._registry.prefix_of(self._find("ipaddresses")))
        async for version in in_turns((await self._registry.cache.list(keys)).versions):
            found = version.value
            if found is None or found.labels().get(managed_by) != allocator:
                continue
            try:
                address = ipaddress.ip_address(version.key[len(keys.start) :])
            except ValueError:
                continue
            if _may_give(own, address) and not _may_give(others, address):
                return True
        return False

    async def _other_networks(self, name: str) -> AsyncIterator[IPNetwork]:
        """Yields the networks of all other ServiceCIDRs that are not being deleted."""
        keys = prefix_range(self._registry.prefix_of(self._find("servicecidrs")))
        for version in (await self._registry.cache.list(keys)).versions:
            found = version.value
            if found is None or not found.head:
                continue
            document = found.document()
            meta = document["metadata"]
            if meta["name"] != name and "deletionTimestamp" not in meta:
                for network in networks_of(document):
                    yield network

    # ---- writing

    def _with_finalizer(self, document: Document) -> None:
        meta = document["metadata"]
        finalizers = meta.get("finalizers") or []
        if "deletionTimestamp" not in meta and self._finalizer not in finalizers:
            meta["finalizers"] = [*finalizers, self._finalizer]

    def _without_finalizer(self, document: Document) -> None:
        finalizers = document["metadata"].get("finalizers") or ()
        document["metadata"]["finalizers"] = [each for each in finalizers if each != self._finalizer]

    async def _update(self, name: str, change: Callable[[Document], None]) -> None:
        """Update a ServiceCIDR."""

        def changed(found: StoredObject) -> ProposedObject:
            document = found.document()
            change(document)
            return ProposedObject(document)

        request = WriteRequest(
            resource=self._find("servicecidrs"), namespace="", name=name, writer=KUBE_CONTROLLER_MANAGER
        )
        await self._registry.update(request, changed)

    async def _set_ready(self, name: str, status: str, reason: str, message: str) -> None:
        """Set the condition Ready of a ServiceCIDR."""
        resource, now = self._find("servicecidrs"), timestamps.to_text(self._clock())
        condition = {"type": READY, "status": status, "reason": reason, "message": message}

        def with_condition(found: StoredObject) -> ProposedObject:
            document = found.document()
            before = find_condition(document, READY) or {}
            if any(before.get(field) != value for field, value in condition.items()):
                set_condition(document, condition, now)
            return ProposedObject(document)

        rules = resource.subresources["status"].update
        request = WriteRequest(
            resource=resource, namespace="", name=name, update=rules, writer=_STATUS_WRITER
        )
        await self._registry.update(request, with_condition)

    def _find(self, resource: str) -> ServedResource:
        return self._served.require(self._brand.group("networking"), resource)


def _may_give(networks: Iterable[IPNetwork], address: IPAddress) -> bool:
    """Returns whether an address is in one of the networks."""
    return any(each.version == address.version and AddressRange.of(each).has(address) for each in networks)


def _has_network(networks: Iterable[IPNetwork], wanted: IPNetwork) -> bool:
    """Returns whether one of the networks includes another network."""
    return any(
        each.version == wanted.version and int(each[0]) <= int(wanted[0]) and int(wanted[-1]) <= int(each[-1])
        for each in networks
    )
