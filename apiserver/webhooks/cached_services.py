"""Services and EndpointSlices from the watch cache."""

from __future__ import annotations

from collections.abc import Iterable

from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import DamagedObject
from apiserver.storage.event_loop_turns import in_turns
from apiserver.storage.interface import ANY
from apiserver.storage.keys import prefix_range


class CachedServices:
    """The Services and EndpointSlices in the watch cache; resources that are not served do not exist."""

    def __init__(self, registry: Registry, served: ServedTable, brand: Brand) -> None:
        self._registry = registry
        self._served = served
        self._slices_group = brand.group("discovery")
        self._service_label = f"{brand.vendor}.io/service-name"

    async def service(self, namespace: str, name: str) -> Document | None:
        resource = self._served.find("", "v1", "services")
        if resource is None:
            return None
        current = await self._registry.cache.get(self._registry.key(resource, namespace, name), ANY)
        if current is None or current.value is None or isinstance(current.value, DamagedObject):
            return None
        return await self._registry.offload.document(current.value)

    async def slices(self, namespace: str, service: str) -> Iterable[Document]:
        resource = self._served.hub(self._slices_group, "endpointslices")
        if resource is None:
            return ()
        keys = prefix_range(f"{self._registry.prefix_of(resource)}{namespace}/")
        listing = await self._registry.cache.list(keys, ANY)
        return [
            await self._registry.offload.document(found)
            async for each in in_turns(listing.versions)
            if (found := each.value) is not None
            and not isinstance(found, DamagedObject)
            and found.labels().get(self._service_label) == service
        ]
