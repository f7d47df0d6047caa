"""Registers the group versions that this server serves, by keeping an APIService for each.

Those of built-in types have the label `automanaged` with the value `onstart`. `bootstrap` creates them, and
this controller checks each that existed before once, after the start: it gets the required spec, or is
deleted if the version is no longer served. Later changes by users are kept. Those of custom resources have
the value `true`, and are created, repaired and deleted with the definitions.

An APIService without the label, or with another value, is not changed. Whatever APIServices say, versions
that this server has are served here: see `endpoints.routes`.

Kubernetes has two controllers for this, with a queue each, in kube-apiserver: they are no part of
`--controllers`. Source: k8s.io/kube-aggregator, pkg/controllers/autoregister; kubernetes,
pkg/controlplane/controller/crdregistration.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from apiserver.catalogue.apiregistration import local_api_services
from apiserver.catalogue.apiregistration.local_api_services import CONTINUOUSLY, ON_START
from apiserver.controller_runtime.controller import Controller, Outcome
from apiserver.controller_runtime.informer import Notification, resource_informer
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.kept_objects import cached
from apiserver.custom_resources import definitions
from apiserver.meta.brand import Brand
from apiserver.meta.errors import AlreadyExists, NotFound
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import KUBE_APISERVER, ProposedObject, WriteRequest

BACKOFF: Final = Backoff(base_s=0.1, max_s=15.0)
# As in Kubernetes.
WORKERS: Final = 5


class ApiServiceRegistration:
    """The controller that keeps an APIService for each group version served here.

    services, defined: the resources of APIServices and of CustomResourceDefinitions.
    table: the built-in resources.
    """

    def __init__(
        self,
        registry: Registry,
        services: ServedResource,
        defined: ServedResource,
        table: ResourceTable,
        brand: Brand,
    ) -> None:
        self._registry = registry
        self._resource = services
        self._label = local_api_services.automanaged_label(brand)
        self._builtin = {
            local_api_services.name_of(each): local_api_services.local_spec(
                each, local_api_services.builtin_priority(brand, each)
            )
            for each in table.group_versions
            if each.group != services.group_version.group
        }
        self._versions: dict[str, frozenset[GroupVersion]] = {}  # that are served, by the definition's key
        self._definitions: dict[str, dict[str, GroupVersion]] = {}  # by APIService, then by definition
        # Of those with the value ON_START: that existed at the start, and have not been looked at yet.
        self._unsettled: set[str] = set()
        self.queue: WorkQueue[str] = WorkQueue("autoregister", BACKOFF)
        self._definition_informer = resource_informer(
            registry, defined, self._on_definition, reports_missed_deletions=True, queue=self.queue
        )
        self._informer = resource_informer(
            registry, services, self._on_api_service, reports_missed_deletions=True, queue=self.queue
        )

    async def run(self) -> None:
        """Register group versions until cancelled."""
        informers = (self._definition_informer, self._informer)
        await Controller(self.queue, self._reconcile, workers=WORKERS, informers=informers).run()

    def _on_api_service(self, notification: Notification) -> None:
        name, found = notification.name, notification.new
        is_known = self._informer.has_synced.is_set()
        if found is not None and not is_known and found.labels().get(self._label) == ON_START:
            self._unsettled.add(name)
        self.queue.add(name)

    async def _on_definition(self, notification: Notification) -> None:
        key, found = notification.key, notification.new
        after: frozenset[GroupVersion] = frozenset()
        if found is not None:
            after = await self._registry.offload.read(found, _served_versions)
            after -= {self._resource.group_version}
        before = self._versions.pop(key, frozenset())
        for each in before - after:
            name = local_api_services.name_of(each)
            self._definitions[name].pop(key)
            if not self._definitions[name]:
                del self._definitions[name]
            self.queue.add(name)
        for each in after - before:
            name = local_api_services.name_of(each)
            self._definitions.setdefault(name, {})[key] = each
            self.queue.add(name)
        if after:
            self._versions[key] = after

    async def _reconcile(self, name: str) -> Outcome:
        # Before all definitions are known an APIService of one would seem to have none.
        await self._definition_informer.has_synced.wait()
        await self._informer.has_synced.wait()
        wanted = self._wanted(name)
        current = cached(self._registry, self._resource, "", name)
        if current is None:
            # Those that are built in are created once, by `bootstrap`.
            if wanted is not None and name not in self._builtin:
                await self._create(name, wanted)
            return None
        managed = (current["metadata"].get("labels") or {}).get(self._label)
        if managed not in (ON_START, CONTINUOUSLY):
            return None
        is_looked_at_once = managed == ON_START or name in self._builtin
        if is_looked_at_once and name not in self._unsettled:
            return None
        if wanted is None:
            with suppress(NotFound):
                await self._registry.delete(DeleteRequest(self._resource, "", name))
        elif _without_zeros(current.get("spec") or {}) != _without_zeros(wanted):
            await self._replace_spec(name, wanted)
        # Only now: what fails is tried again.
        self._unsettled.discard(name)
        return None

    def _wanted(self, name: str) -> Document | None:
        """Returns the required spec of an APIService; None if its version is not served here."""
        if (spec := self._builtin.get(name)) is not None:
            return spec
        defined = self._definitions.get(name)
        if not defined:
            return None
        return local_api_services.local_spec(next(iter(defined.values())), local_api_services.CUSTOM)

    async def _create(self, name: str, spec: Document) -> None:
        resource = self._resource
        document: Document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "labels": {self._label: CONTINUOUSLY}},
            "spec": dict(spec),
        }
        with suppress(AlreadyExists):  # Another server was faster.
            await self._registry.create(self._request(name), ProposedObject(document))

    async def _replace_spec(self, name: str, spec: Document) -> None:
        def with_spec(found: StoredObject) -> ProposedObject:
            return ProposedObject({**found.document(), "spec": dict(spec)})

        with suppress(NotFound):
            await self._registry.update(self._request(name), with_spec)

    def _request(self, name: str) -> WriteRequest:
        return WriteRequest(resource=self._resource, namespace="", name=name, writer=KUBE_APISERVER)


def _served_versions(definition: Document) -> frozenset[GroupVersion]:
    group = (definition.get("spec") or {}).get("group", "")
    served = (each for each in definitions.versions_of(definition) if each.get("served"))
    return frozenset(GroupVersion(group, each.get("name", "")) for each in served)


def _without_zeros(spec: Document) -> Document:
    return {field: value for field, value in spec.items() if value}
