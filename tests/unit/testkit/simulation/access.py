"""What simulated components need of a server, without one."""

from __future__ import annotations

from typing import TypeVar

from apiserver.admission.chain import AdmissionChain
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_managers import FieldManagers
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.testkit.simulation.component import ClusterAccess
from tests.support.in_process import TABLE

T = TypeVar("T", bound=ClusterAccess)


async def anywhere(*_: object) -> None:
    """All namespaces take new objects."""


def access(registry: Registry, kind: type[T]) -> T:
    served = ServedTable(TABLE)
    return kind(
        registry=registry,
        served=served,
        brand=Brand(),
        admission=AdmissionChain(()),
        field_managers=FieldManagers(served, Deviations(), lambda: 0.0),
        may_create=anywhere,
        clock=lambda: 0.0,
        offload=Offload(),
    )


def events(registry: Registry) -> EventRecorder:
    return EventRecorder(registry, ServedTable(TABLE), anywhere, lambda: 0.0, component="test")


async def create(registry: Registry, served: ServedResource, document: Document) -> Document:
    """Create an object, in the namespace default, and return it."""
    namespace = "default" if served.is_namespaced else ""
    meta = {"namespace": namespace, **document["metadata"]} if namespace else document["metadata"]
    document = {"apiVersion": served.api_version, "kind": served.kind, **document, "metadata": meta}
    served.check(document)
    request = WriteRequest(resource=served, namespace=namespace, name=meta["name"])
    return (await registry.create(request, ProposedObject(document))).found.document()


def cached(registry: Registry, served: ServedResource, name: str) -> Document:
    """Returns the object as the cache has it; empty if it has not come there yet."""
    version = registry.cache.get_cached(registry.key(served, "default", name))
    return {"metadata": {}} if version is None or version.value is None else version.value.document()
