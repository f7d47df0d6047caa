"""Refuses writes that would exceed a quota of their namespace, whoever else writes at the same time.

Before an object is written, its usage is added to `status.used` of each quota by compare-and-swap, so that
two servers cannot both take the last of something. If the write fails after that, the quota shows too much
until the controller measures its usage; it never shows too little.
Source: k8s.io/apiserver, pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.pod_specs import work_with
from apiserver.brand import Brand
from apiserver.catalogue.core.resource_quotas.usage import (
    CLAIMS,
    PODS,
    SERVICES,
    QuotaEvaluator,
    QuotaViolation,
    resources_without_quota,
    usage_after_write,
)
from apiserver.errors import NotFound
from apiserver.registry.offload import Offload
from apiserver.registry.size_class import SizeClass
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import STATUS
from apiserver.registry.write_request import Draft, WriteRequest
from apiserver.vocabulary import Document, GroupResource, UserInfo
from storage.turns import in_turns


class _Charge(NamedTuple):
    """A write that is charged to quotas.

    usage: quota -> `status.used` with the write in it, None if that is no other; raises QuotaViolation.
    size: how much work that is. user: who writes.
    """

    usage: Callable[[Document], dict[str, str] | None]
    size: SizeClass
    user: UserInfo


# Source: resource_access.go, liveLookupCache.
ASSUMED_S: Final = 30.0
ASSUMED_MAX: Final = 10_000
# The updates that can change usage; creates always can.
_CHANGES: Final = frozenset({(SERVICES, ""), (CLAIMS, ""), (PODS, "resize")})


def handles(resource: GroupResource, subresource: str, operation: Operation) -> bool:
    """Whether such a write can change usage."""
    if operation is Operation.CREATE:
        return not subresource
    return operation is Operation.UPDATE and (resource, subresource) in _CHANGES


class ResourceQuota(Plugin):
    name = "ResourceQuota"

    def __init__(
        self,
        registry: Registry,
        quotas: Lister,
        brand: Brand,
        offload: Offload,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """clock: seconds since 1970."""
        self._registry = registry
        self._offload = offload
        self._quotas = quotas
        self._brand = brand
        self._clock = clock
        self._not_counted = resources_without_quota(brand)
        # One write of each namespace at a time: concurrent ones would only conflict and retry.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Namespaces that had no quota when the store was asked, and until when that is assumed.
        self._without_quota: dict[str, float] = {}

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource not in self._not_counted and handles(resource, subresource, operation)

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> None:
        if new is None or not attributes.namespace:
            return
        found = await self._quotas.list(attributes.namespace) or await self._list_live(attributes.namespace)
        if not found:
            return
        evaluator, now = QuotaEvaluator(attributes.resource.group_resource, self._brand), self._clock()

        def usage(quota: Document) -> dict[str, str] | None:
            return usage_after_write(quota, evaluator, new, old, now)

        is_pod = attributes.resource.stored_group_resource == PODS
        charge = _Charge(usage, work_with(new["spec"]) if is_pod else SizeClass.SMALL, attributes.user)
        try:
            names = [
                each
                async for quota in in_turns(found)
                if (each := await self._concerned(quota, attributes.namespace, charge))
            ]
            if names and not attributes.is_dry_run:
                async with self._turns.setdefault(attributes.namespace, asyncio.Lock()):
                    for name in names:
                        await self._charge(name, attributes.namespace, charge)
        except QuotaViolation as refusal:
            raise refused(attributes, new, str(refusal)) from None

    async def _list_live(self, namespace: str) -> Sequence[StoredObject]:
        """Returns the stored quotas of a namespace of which none is cached: one may be new.

        That there are none is assumed for a while, as in Kubernetes.
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

    async def _concerned(self, cached: StoredObject, namespace: str, charge: _Charge) -> str:
        """Returns the name of the quota if it has to be charged, else "". Raises QuotaViolation."""
        quota: Document | None = cached.document()
        assert quota is not None
        name: str = quota["metadata"]["name"]
        offload = self._offload.for_user(charge.user.name)
        try:
            return name if await offload.run_begun(charge.size, charge.usage, quota) is not None else ""
        except QuotaViolation:
            # Usage may have decreased since.
            quota = await self._quotas.get_live_document(name, namespace)
        if quota is None or await offload.run_begun(charge.size, charge.usage, quota) is None:
            return ""
        return name

    async def _charge(self, name: str, namespace: str, charge: _Charge) -> None:
        """Add the write to a quota's usage. Raises QuotaViolation, and the storage's errors."""

        def raised(found: StoredObject) -> Draft:
            quota = found.document()
            if (used := charge.usage(quota)) is not None:
                quota["status"]["used"] = used
            return Draft(quota)

        resource = self._quotas.served
        assert resource is not None
        try:
            request = WriteRequest(
                resource=resource, namespace=namespace, name=name, update=STATUS, size=charge.size
            )
            await self._registry.update(request, raised)
        except NotFound:
            return  # It was deleted: nothing is limited.
