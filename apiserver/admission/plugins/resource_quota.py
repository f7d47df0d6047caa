"""A namespace holds no more than its quotas allow, whoever else writes at the same time.

Before an object is written, its usage is added to `status.used` of each quota by compare-and-swap, so that
two servers cannot both take the last of something. If the write fails after that, the quota shows too much
until its usage is measured anew; it never shows too little.
Source: k8s.io/apiserver, pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakValueDictionary

from apiserver.admission.chain import Operation, Plugin, Write
from apiserver.admission.plugins.listers import Lister, refused
from apiserver.brand import Brand
from apiserver.catalogue.core.resource_quotas.usage import (
    CLAIMS,
    PODS,
    SERVICES,
    QuotaEvaluator,
    QuotaViolation,
    charged,
    uncounted,
)
from apiserver.errors import NotFound
from apiserver.meta.options import WriteOptions
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import STATUS
from apiserver.vocabulary import Document, GroupResource

# quota -> `status.used` with the write in it, None if that is no other; raises QuotaRefuses
Charge = Callable[[Document], dict[str, str] | None]

# Source: resource_access.go, liveLookupCache.
ASSUMED_S: Final = 30.0
ASSUMED_MAX: Final = 10_000
# Other writes that change what is used: that of anything new always does.
_CHANGES: Final = frozenset({(SERVICES, ""), (CLAIMS, ""), (PODS, "resize")})


def concerns(resource: GroupResource, subresource: str, operation: Operation) -> bool:
    """Whether such a write can change what is used."""
    if operation is Operation.CREATE:
        return not subresource
    return operation is Operation.UPDATE and (resource, subresource) in _CHANGES


class ResourceQuota(Plugin):
    name = "ResourceQuota"

    def __init__(
        self, registry: Registry, quotas: Lister, brand: Brand, clock: Callable[[], float] = time.time
    ) -> None:
        """clock: seconds since 1970."""
        self._registry = registry
        self._quotas = quotas
        self._brand = brand
        self._clock = clock
        self._not_counted = uncounted(brand)
        # One at a time of each namespace: the others would only make each other try again.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Namespaces that had no quota when the store was asked, and until when that is believed.
        self._without_quota: dict[str, float] = {}

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource not in self._not_counted and concerns(resource, subresource, operation)

    async def validate(self, write: Write, new: Document | None, old: Document | None) -> None:
        if new is None or not write.namespace:
            return
        found = await self._quotas.all(write.namespace) or await self._stored(write.namespace)
        if not found:
            return
        evaluator, now = QuotaEvaluator(write.resource.group_resource, self._brand), self._clock()

        def charge(quota: Document) -> dict[str, str] | None:
            return charged(quota, evaluator, new, old, now)

        try:
            names = [
                each for quota in found if (each := await self._concerned(quota, write.namespace, charge))
            ]
            if names and not write.is_dry_run:
                async with self._turns.setdefault(write.namespace, asyncio.Lock()):
                    for name in names:
                        await self._charge(name, write.namespace, charge)
        except QuotaViolation as refusal:
            raise refused(write, new, str(refusal)) from None

    async def _stored(self, namespace: str) -> Sequence[StoredObject]:
        """The quotas of a namespace of which the cache knows none: one may be on its way.

        That there are none is believed for a while, as in Kubernetes.
        """
        now = self._clock()
        if now < self._without_quota.get(namespace, 0.0):
            return ()
        found = await self._quotas.list_live(namespace)
        if not found:
            if len(self._without_quota) >= ASSUMED_MAX:
                self._without_quota.clear()
            self._without_quota[namespace] = now + ASSUMED_S
        return found

    async def _concerned(self, cached: StoredObject, namespace: str, charge: Charge) -> str:
        """The name of the quota if it is to be charged. Raises QuotaRefuses."""
        quota: Document | None = cached.document()
        assert quota is not None
        name: str = quota["metadata"]["name"]
        try:
            return name if charge(quota) is not None else ""
        except QuotaViolation:
            # Something may have become free since.
            quota = await self._quotas.get_live_document(name, namespace)
            return name if quota is not None and charge(quota) is not None else ""

    async def _charge(self, name: str, namespace: str, charge: Charge) -> None:
        """Raises QuotaRefuses, and the storage's errors."""

        def raised(found: StoredObject) -> Document:
            quota = found.document()
            if (used := charge(quota)) is not None:
                quota["status"]["used"] = used
            return quota

        resource = self._quotas.served
        assert resource is not None
        try:
            await self._registry.update(resource, namespace, name, raised, WriteOptions(), strategy=STATUS)
        except NotFound:
            return  # Whoever deleted it wants nothing limited.
