"""Handles evictions: a pod is deleted, unless its disruption budget forbids that.

Source: k8s.io/kubernetes, pkg/registry/core/pod/storage/eviction.go. Row I15.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.virtual_kinds import VirtualKinds, send_success
from apiserver.load.offload import Offload
from apiserver.meta import timestamps
from apiserver.meta.conditions import is_condition_true, replace_condition, set_condition
from apiserver.meta.errors import ApiError, BadRequest, Conflict, Forbidden
from apiserver.meta.options import DeleteOptions, ListOptions, WriteOptions
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.deletion import check_preconditions
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.strategy import UpdateStrategy
from apiserver.registry.subresources import EVICTION
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.schema.validation.label_selectors import selects
from apiserver.storage.event_loop_turns import in_turns

# Attempts to delete a pod that changes meanwhile.
ATTEMPTS_MAX: Final = 5
# Evicted pods of one budget that the disruption controller has not confirmed yet.
DISRUPTED_PODS_MAX: Final = 2_000
BUSY_RETRY_S: Final = 10
_BUDGETS: Final = GroupResource("policy", "poddisruptionbudgets")
# The server changes pod and budget: the rules for changes by clients do not apply.
_BY_SERVER: Final = UpdateStrategy(change_checks=0, object_checks=1)


class DisruptionBudgetViolated(ApiError):
    """The disruption budget does not allow the eviction now."""

    code, reason = 429, "TooManyRequests"

    def __init__(self, why: str, retry_after_s: int | None = None) -> None:
        super().__init__(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"causes": [{"reason": "DisruptionBudget", "message": why}]},
            retry_after_s=retry_after_s,
        )

    @classmethod
    def not_processed(cls, name: str) -> DisruptionBudgetViolated:
        """Returns the refusal for a budget whose status is older than its spec."""
        why = f"The disruption budget {name} is still being processed by the server."
        return cls(why, BUSY_RETRY_S)


class MultipleDisruptionBudgets(ApiError):
    """More than one disruption budget selects the pod, for which kube-apiserver responds with 500."""

    code, reason = 422, "Invalid"

    def __init__(self, budgets: list[str]) -> None:
        causes = [
            {"reason": "DisruptionBudget", "message": f"The disruption budget {name} selects the pod"}
            for name in budgets
        ]
        super().__init__(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
            "support.",
            details={"causes": causes},
        )


def eviction_handlers(
    registry: Registry,
    served: ServedTable,
    virtual: VirtualKinds,
    lifecycle: NamespaceLifecycle,
    clock: Callable[[], float],
) -> Mapping[str, Handler]:
    """Returns the handlers of pods/{name}/eviction, by verb. clock: seconds since 1970."""
    kind = virtual.kinds[EVICTION]

    async def create(call: ApiCall) -> None:
        info, pods = call.info, call.resource
        eviction, options, _ = await virtual.read_posted(call, kind)
        if eviction["metadata"].get("name") != info.name:
            raise BadRequest("name in URL does not match name in Eviction object")
        deletion = virtual.requests.delete_options(eviction.get("deleteOptions") or {})
        deletion = deletion._replace(dry_run=deletion.dry_run or options.dry_run)
        await lifecycle.check_create(pods, info.namespace, info.name, may_provision=not deletion.dry_run)
        await virtual.admit(call, kind, info.name, eviction, options)
        budgets = served.hub(*_BUDGETS)
        evictions = Evictions(registry, clock, call.offload)
        await evictions.evict(pods, budgets, info.namespace, info.name, deletion)
        await send_success(call)

    return {"create": create}


class Evictions(NamedTuple):
    """Deletes pods where their budgets allow it. offload: decodes large pods and budgets."""

    registry: Registry
    clock: Callable[[], float]
    offload: Offload

    async def evict(
        self,
        pods: ServedResource,
        budgets: ServedResource | None,
        namespace: str,
        name: str,
        deletion: DeleteOptions,
    ) -> None:
        """Delete a pod, if its budget allows it. budgets: the resource, if it is served.

        Raises NotFound, Conflict (preconditions), DisruptionBudgetViolated, MultipleDisruptionBudgets.
        """
        for attempt in range(1, ATTEMPTS_MAX + 1):
            pod = await self.offload.document(await self.registry.get(pods, namespace, name))
            if not _can_ignore_budget(pod):
                break
            # A pending pod must not have started to run meanwhile.
            wanted = _with_resource_version(deletion, pod) if _is_pending(pod) else deletion
            try:
                await self._delete(pods, namespace, name, wanted)
            except Conflict:
                if deletion.resource_version is not None or attempt == ATTEMPTS_MAX:
                    raise
            else:
                return
        budget = await self._budget(budgets, pod)
        if budget is None:
            await self._delete(pods, namespace, name, deletion)
        elif _may_evict_unready(pod, budget):
            try:
                await self._delete(pods, namespace, name, _with_resource_version(deletion, pod))
            except Conflict:
                if deletion.resource_version is not None:
                    raise
                # It may have become ready, and then counts for the budget.
                raise DisruptionBudgetViolated.not_processed(budget["metadata"]["name"]) from None
        else:
            assert budgets is not None
            await self._decrement(budgets, budget, name, dry_run=deletion.dry_run)
            await self._delete(pods, namespace, name, deletion)

    async def _budget(self, budgets: ServedResource | None, pod: Document) -> Document | None:
        """Returns the budget that selects the pod, if there is one. Raises MultipleDisruptionBudgets."""
        if budgets is None:
            return None
        everything = ListOptions.for_list({}, budgets.known_fields, "")
        found = await self.registry.list(budgets, pod["metadata"]["namespace"], everything)
        labels = pod["metadata"].get("labels") or {}
        selecting = []
        async for each in in_turns(found.objects):
            budget = await self.offload.document(each)
            selector = budget.get("spec", {}).get("selector")
            if selector is not None and selects(selector, labels):
                selecting.append(budget)
        if len(selecting) > 1:
            raise MultipleDisruptionBudgets([each["metadata"]["name"] for each in selecting])
        return selecting[0] if selecting else None

    async def _decrement(self, budgets: ServedResource, budget: Document, pod: str, *, dry_run: bool) -> None:
        """Count the eviction against its budget. Raises DisruptionBudgetViolated, Forbidden."""
        now = timestamps.to_text(self.clock())
        meta = budget["metadata"]

        def decrement(current: StoredObject) -> ProposedObject:
            document = current.document()
            check_and_decrement(document, pod, now)
            return ProposedObject(document)

        status = budgets.subresources.get("status")
        request = WriteRequest(
            resource=budgets,
            namespace=meta["namespace"],
            name=meta["name"],
            options=WriteOptions(dry_run=dry_run),
            update=status.update if status is not None else _BY_SERVER,
        )
        await self.registry.update(request, decrement)

    async def _delete(self, pods: ServedResource, namespace: str, name: str, deletion: DeleteOptions) -> None:
        """Set the condition DisruptionTarget of the pod, and delete it."""
        if not deletion.dry_run:

            def mark(current: StoredObject) -> ProposedObject:
                pod = current.document()
                check_preconditions(pods, pod, deletion)
                target = {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                    "lastProbeTime": None,
                }
                replace_condition(pod, target, timestamps.to_text(self.clock()))
                return ProposedObject(pod)

            request = WriteRequest(resource=pods, namespace=namespace, name=name, update=_BY_SERVER)
            marked = await self.registry.update(request, mark)
            if deletion.resource_version is not None:
                deletion = deletion._replace(resource_version=marked.found.resource_version)
        await self.registry.delete(DeleteRequest(pods, namespace, name, deletion))


def check_and_decrement(budget: Document, pod: str, now: str) -> None:
    """Count a disruption in the status of the pod's budget. Raises DisruptionBudgetViolated, Forbidden."""
    meta, status = budget["metadata"], budget.setdefault("status", {})
    name, allowed = meta["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise DisruptionBudgetViolated.not_processed(name)
    if allowed < 0:
        raise Forbidden.to_resource(_BUDGETS, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > DISRUPTED_PODS_MAX:
        raise Forbidden.to_resource(
            _BUDGETS, name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if allowed == 0:
        raise DisruptionBudgetViolated(
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently"
        )
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        none_left = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration", 0),
        }
        set_condition(budget, none_left, now)
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now}


def _can_ignore_budget(pod: Document) -> bool:
    """Returns whether the pod does not count for budgets: it has ended, is pending, or is being deleted."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _is_pending(pod: Document) -> bool:
    return pod.get("status", {}).get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]


def _may_evict_unready(pod: Document, budget: Document) -> bool:
    """Returns whether the pod is not ready, and its budget allows its eviction for that."""
    if is_condition_true(pod, "Ready"):
        return False
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired: int = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _with_resource_version(deletion: DeleteOptions, pod: Document) -> DeleteOptions:
    """Returns options that delete only this version of the pod, unless they name another."""
    if deletion.resource_version is not None:
        return deletion
    return deletion._replace(resource_version=pod["metadata"]["resourceVersion"])
