"""Refuses writes that would exceed a quota of their namespace, even with concurrent writers.

Before an object is written, its usage is added to `status.used` of each quota by compare-and-swap, so that
two servers cannot both take the last unit. If the write fails after that, the quota shows too much usage
until the controller recalculates it; it never shows too little.

Resources that are limited by default (`configuration.resource_quota`) may be used only if a quota covers
them. Source: k8s.io/apiserver, pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.configuration.resource_quota import LimitedResource
from apiserver.admission.listers import refused
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.plugins.pod_specs import work_with
from apiserver.catalogue.core.resource_quotas.usage import (
    CLAIMS,
    PODS,
    SERVICES,
    QuotaEvaluator,
    QuotaViolation,
    may_change_usage,
    resources_without_quota,
    scopes_of,
    usage_after_write,
)
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import STATUS
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.event_loop_turns import in_turns


class _Charge(NamedTuple):
    """A write that is charged to quotas.

    usage: quota -> `status.used` with the write in it, None if that is no other; raises QuotaViolation.
    size: how much work that is. offload: runs it for the user.
    """

    usage: Callable[[Document], dict[str, str] | None]
    size: SizeClass
    offload: Offload


class ObjectChange(NamedTuple):
    """The change that a write makes. now: seconds since 1970."""

    new: Document
    old: Document | None
    now: float


# Source: resource_access.go, liveLookupCache.
ASSUMED_S: Final = 30.0
ASSUMED_MAX: Final = 10_000
# The updates that can change usage, or the quotas that an object concerns; creates always can.
_CHANGES: Final = frozenset({(SERVICES, ""), (CLAIMS, ""), (CLAIMS, "status"), (PODS, ""), (PODS, "resize")})


def handles(resource: GroupResource, subresource: str, operation: Operation) -> bool:
    """Returns whether such a write can change usage."""
    if operation is Operation.CREATE:
        return not subresource
    return operation is Operation.UPDATE and (resource, subresource) in _CHANGES


class ResourceQuota(Plugin):
    name = "ResourceQuota"

    def __init__(
        self,
        context: PluginContext,
        limited: Sequence[LimitedResource] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """limited: the resources that are limited by default. clock: seconds since 1970."""
        self._registry = context.registry
        self._offload = context.offload
        self._quotas = context.lister("", "resourcequotas")
        self._brand = context.brand
        self._limited = limited
        self._clock = clock
        self._not_counted = {
            *resources_without_quota(context.brand),
            *(each.group_resource for each in context.served.current.resources if each.is_virtual),
        }
        # One write of each namespace at a time: concurrent ones would only conflict and retry.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Namespaces that had no quota when the store was asked, and until when that is assumed.
        self._without_quota: dict[str, float] = {}

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource not in self._not_counted and handles(resource, subresource, operation)

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if not attributes.namespace:
            return
        resource, subresource = attributes.resource.stored_group_resource, attributes.subresource
        if old is not None and not may_change_usage(resource, subresource, new, old):
            return
        found = await self._quotas.list(attributes.namespace) or await self._list_live(attributes.namespace)
        if not found and not self._limited:
            return
        evaluator, now = QuotaEvaluator(attributes.resource.group_resource, self._brand), self._clock()

        def usage(quota: Document) -> dict[str, str] | None:
            # A status reports what a volume has: it is charged, but cannot be refused.
            is_limited = subresource != "status"
            return usage_after_write(quota, evaluator, new, old, now, is_limited=is_limited)

        size = work_with(new["spec"]) if resource == PODS else SizeClass.SMALL
        charge = _Charge(usage, size, attributes.offload)
        try:
            if self._limited:
                await self._require_covered(
                    attributes.namespace, found, evaluator, ObjectChange(new, old, now)
                )
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

    async def _require_covered(
        self, namespace: str, found: Sequence[StoredObject], evaluator: QuotaEvaluator, change: ObjectChange
    ) -> None:
        """Require that quotas cover the limited resources of a write."""
        try:
            require_covered(self._limited, await self._decoded(found), evaluator, change)
        except QuotaViolation:
            # The quota that covers it may be new.
            stored = await self._quotas.list_live(namespace)
            require_covered(self._limited, await self._decoded(stored), evaluator, change)

    async def _decoded(self, quotas: Sequence[StoredObject]) -> list[Document]:
        return [await self._offload.document(each) async for each in in_turns(quotas)]

    async def _list_live(self, namespace: str) -> Sequence[StoredObject]:
        """Returns the stored quotas of a namespace without cached ones, since one may be new.

        An empty result is cached for a while, as in Kubernetes.
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
        """Returns the name of the quota if it has to be charged, otherwise "". Raises QuotaViolation."""
        offload = charge.offload
        quota: Document | None = await offload.document(cached)
        assert quota is not None
        name: str = quota["metadata"]["name"]
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

        def raised(found: StoredObject) -> ProposedObject:
            quota = found.document()
            if (used := charge.usage(quota)) is not None:
                quota["status"]["used"] = used
            return ProposedObject(quota)

        resource = self._quotas.served
        assert resource is not None
        try:
            request = WriteRequest(
                resource=resource, namespace=namespace, name=name, update=STATUS, size=charge.size
            )
            await self._registry.update(request, raised)
        except NotFound:
            return  # It was deleted: nothing is limited.


def require_covered(
    limited: Sequence[LimitedResource],
    quotas: Sequence[Document],
    evaluator: QuotaEvaluator,
    change: ObjectChange,
) -> None:
    """Require that quotas cover the increased usage of a write, where it is limited. Raises QuotaViolation.

    Source: k8s.io/apiserver, pkg/admission/plugin/resourcequota/controller.go, CheckRequest.
    """
    new, old, now = change
    used = {name: amount for name, amount in evaluator.usage(new, now).items() if amount.value > 0}
    parts = [part for each in limited if each.resource == evaluator.resource for part in each.names]
    names = {name for name in used if any(part in name for part in parts)}
    scopes = [scope for each in limited for scope in evaluator.matching_scopes(each.scopes, new)]
    covered_scopes, covering = set(), []
    for quota in quotas:
        found = evaluator.matching_scopes(scopes_of(quota), new)
        covered_scopes |= {each.get("scopeName") for each in found}
        hard = (quota.get("status") or {}).get("hard") or ()
        measured = {name for name in hard if evaluator.measures(name)}
        if measured and evaluator.is_in_scope(quota, new):
            covering.append(quota)
            names -= measured
    # An object that comes into the scope of a quota is charged to it as a whole.
    if old is not None and all(evaluator.is_in_scope(quota, old) for quota in covering):
        before = evaluator.usage(old, now)
        if not any(name not in before or amount > before[name] for name, amount in used.items()):
            return
    if names:
        raise QuotaViolation(f"insufficient quota to consume: {','.join(sorted(names))}")
    uncovered = [each for each in scopes if each["scopeName"] not in covered_scopes]
    if uncovered:
        texts = " ".join(map(_scope_text, uncovered))
        raise QuotaViolation(f"insufficient quota to match these scopes: [{texts}]")


def _scope_text(scope: Document) -> str:
    """Returns a scope selector as Go prints it."""
    values = " ".join(scope.get("values") or ())
    return f"{{{scope['scopeName']} {scope['operator']} [{values}]}}"
