"""Plans for workloads when their objects change, and carries the plans out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from apiserver.controller_runtime.controller import DriftCorrected, Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import AlreadyExists, ApiError, Conflict, NotFound
from apiserver.meta.owners import controller_of
from apiserver.meta.vocabulary import AUTHENTICATED, Document, GroupResource, UserInfo
from apiserver.schema.validation.label_selectors import selects
from apiserver.testkit.simulation.component import (
    ClusterAccess,
    Component,
    WriteTarget,
    run_controller,
    warn_about,
)
from apiserver.testkit.simulation.object_index import ObjectIndex
from apiserver.testkit.simulation.resources import (
    CLAIMS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    REVISIONS,
    SERVICES,
    STATEFUL_SETS,
)
from apiserver.testkit.simulation.workloads import jobs
from apiserver.testkit.simulation.workloads.daemon_sets import plan_daemon_set
from apiserver.testkit.simulation.workloads.deployments import plan_deployment
from apiserver.testkit.simulation.workloads.endpoint_slices import is_selected, plan_slices, selects_pods
from apiserver.testkit.simulation.workloads.failed_pods import FailedPods
from apiserver.testkit.simulation.workloads.jobs import plan_job
from apiserver.testkit.simulation.workloads.plans import WorkloadPlan
from apiserver.testkit.simulation.workloads.pods import is_terminating
from apiserver.testkit.simulation.workloads.replica_sets import plan_replica_set
from apiserver.testkit.simulation.workloads.stateful_sets import plan_stateful_set

log = logging.getLogger(__name__)

NAME: Final = "simulated-workloads"
BACKOFF: Final = Backoff(base_s=0.05, max_s=10.0)
WORKERS: Final = 8
# Pods and nodes of a workload. A plan takes some 10 µs for each: with a thousand nodes, requests would wait.
PLANNED_ON_LOOP_MAX: Final = 300
# A timer of the event loop takes no time that is further away; it is looked at again then.
WAIT_S_MAX: Final = 86_400.0
NEEDS: Final = (
    PODS,
    NODES,
    SERVICES,
    CLAIMS,
    REVISIONS,
    REPLICA_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
)
_MANAGER: Final = "kube-controller-manager"
# The users who write for workloads of a kind: the service accounts of kube-controller-manager's controllers.
_ACCOUNTS: Final[Mapping[GroupResource, str]] = {
    REPLICA_SETS: "replicaset-controller",
    DEPLOYMENTS: "deployment-controller",
    STATEFUL_SETS: "statefulset-controller",
    DAEMON_SETS: "daemon-set-controller",
    JOBS: "job-controller",
    SERVICES: "endpointslice-controller",
    PODS: "job-controller",
}
_OWNERS: Final[Mapping[str, GroupResource]] = {
    "ReplicaSet": REPLICA_SETS,
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
    "Job": JOBS,
    "Service": SERVICES,
}
_WITH_PODS: Final = (REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS)


class WorkloadKey(NamedTuple):
    """Identifies a workload, a Service, or a pod that may have lost its Job."""

    resource: GroupResource
    namespace: str
    name: str


class WorkloadController:
    """Runs the controllers of workloads and EndpointSlices, whose keys are workloads."""

    def __init__(self, cluster: ClusterAccess, events: EventRecorder) -> None:
        self._cluster = cluster
        self._events = events
        served = (*NEEDS, ENDPOINT_SLICES) if cluster.serves(ENDPOINT_SLICES) else NEEDS
        self._indexes = {each: ObjectIndex(self._on_change(each)) for each in served}
        self._components = {
            each: Component(
                cluster,
                UserInfo(
                    f"system:serviceaccount:kube-system:{account}",
                    ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED),
                ),
                _MANAGER,
            )
            for each, account in _ACCOUNTS.items()
        }
        self._failed_pods = FailedPods()
        self.queue: WorkQueue[WorkloadKey] = WorkQueue(NAME, BACKOFF)

    async def run(self) -> None:
        """Reconcile workloads until cancelled."""
        informers = [self._cluster.informer(each, index, self.queue) for each, index in self._indexes.items()]
        await run_controller(self.queue, self._reconcile, informers, events=self._events, workers=WORKERS)

    # ---- when to look

    def _on_change(self, resource: GroupResource) -> Callable[[Document | None, Document | None], None]:
        handlers = {PODS: self._on_pod, NODES: self._on_node, CLAIMS: self._on_other}
        special = handlers.get(resource)
        if special is not None:
            return special

        def on_change(old: Document | None, new: Document | None) -> None:
            if resource in _ACCOUNTS:
                self._on_owner(resource, old, new)
            for found in (old, new):
                self._look_at_owner(found)

        return on_change

    def _on_other(self, old: Document | None, new: Document | None) -> None:
        """Record a claim, which only matters when a pod is created."""

    def _on_owner(self, resource: GroupResource, old: Document | None, new: Document | None) -> None:
        found = new if new is not None else old
        assert found is not None
        key = _key(resource, found)
        if new is not None:
            self.queue.add(key)
            if resource == REPLICA_SETS and controller_of(new) is None:
                self._look_at_selecting((DEPLOYMENTS,), new)
            return
        self.queue.cancel(key)
        if resource == JOBS:
            for pod in self._indexes[PODS].owned_by(found["metadata"]["uid"]):
                self.queue.add(_key(PODS, pod))

    def _on_node(self, old: Document | None, new: Document | None) -> None:
        if old is not None and new is not None and _without_times(old) == _without_times(new):
            return
        for daemon_set in self._indexes[DAEMON_SETS]:
            self.queue.add(_key(DAEMON_SETS, daemon_set))

    def _on_pod(self, old: Document | None, new: Document | None) -> None:
        for found in (old, new):
            self._look_at_owner(found)
        found = new if new is not None else old
        assert found is not None
        owner = controller_of(found)
        if new is None:
            self.queue.cancel(_key(PODS, found))
            if owner is not None and owner["kind"] == "ReplicaSet":  # Its Deployment may wait for that.
                namespace = found["metadata"]["namespace"]
                self._look_at_owner(self._indexes[REPLICA_SETS].get(namespace, owner["name"]))
        elif owner is None:
            self._look_at_selecting(_WITH_PODS, new)
            if jobs.is_tracked(new):
                self.queue.add(_key(PODS, new))
        elif owner["kind"] == "Job" and jobs.is_tracked(new):
            job = self._indexes[JOBS].get(new["metadata"]["namespace"], owner["name"])
            if job is None or job["metadata"]["uid"] != owner["uid"]:
                self.queue.add(_key(PODS, new))
        for service in self._indexes[SERVICES].in_namespace(found["metadata"]["namespace"]):
            if any(pod is not None and is_selected(service, pod) for pod in (old, new)):
                self.queue.add(_key(SERVICES, service))

    def _look_at_owner(self, found: Document | None) -> None:
        owner = controller_of(found) if found is not None else None
        if owner is None or found is None:
            return
        resource = _OWNERS.get(owner["kind"])
        namespace = found["metadata"].get("namespace", "")
        if resource is not None and self._indexes[resource].get(namespace, owner["name"]) is not None:
            self.queue.add(WorkloadKey(resource, namespace, owner["name"]))

    def _look_at_selecting(self, resources: Sequence[GroupResource], orphan: Document) -> None:
        labels = orphan["metadata"].get("labels") or {}
        for resource in resources:
            for each in self._indexes[resource].in_namespace(orphan["metadata"]["namespace"]):
                if selects(each["spec"].get("selector") or {}, labels):
                    self.queue.add(_key(resource, each))

    # ---- planning

    async def _reconcile(self, key: WorkloadKey) -> Outcome:
        owner = self._indexes[key.resource].get(key.namespace, key.name)
        if owner is None:
            return None
        plan = await self._plan(key.resource, owner)
        if plan is None:
            return None
        if not await self._adopt(key.resource, owner, plan):
            return Requeue()
        failure = await self._carry_out(key.resource, owner, plan)
        status = plan.status
        if failure is not None and plan.failed_status is not None:
            status = plan.failed_status(str(failure))
        is_written = status is not None and status != (owner.get("status") or {})
        if is_written:
            assert status is not None
            await self._write_status(key.resource, owner, status)
        if failure is not None:
            return Requeue()  # With back-off; an Event reports it, and often the status.
        if plan.again_s is not None:
            return Requeue(after_s=min(plan.again_s, WAIT_S_MAX))
        # Another controller of workloads must not have it written back and forth for ever.
        return DriftCorrected(orjson.dumps(status)) if is_written else None

    async def _plan(self, resource: GroupResource, owner: Document) -> WorkloadPlan | None:
        """Returns the plan for a workload; None for nothing to do.

        A long plan is made in a thread, from documents that do not change.
        """
        namespace, now = owner["metadata"]["namespace"], self._cluster.clock()
        run = self._cluster.offload.run_begun
        if resource == PODS:
            return self._plan_orphan(owner)
        if resource == SERVICES:
            return await self._plan_slices(owner)
        if resource == DEPLOYMENTS:
            sets = self._candidates(REPLICA_SETS, owner)
            uids = [each["metadata"]["uid"] for each in sets]
            of_sets = {uid: self._indexes[PODS].owned_by(uid) for uid in uids}
            names = self._indexes[REPLICA_SETS].names_in(namespace)
            count = sum(map(len, of_sets.values()))
            return await run(_size(count), plan_deployment, owner, sets, names, of_sets, now)
        pods = self._candidates(PODS, owner)
        if resource == REPLICA_SETS:
            size = _size(max(len(pods), owner["spec"].get("replicas", 1)))
            return await run(size, plan_replica_set, owner, pods, now)
        if resource == JOBS:
            size = _size(len(pods) + owner["spec"].get("parallelism", 1))
            return await run(size, plan_job, owner, pods, now)
        revisions = self._candidates(REVISIONS, owner)
        if resource == STATEFUL_SETS:
            size = _size(max(len(pods), owner["spec"].get("replicas", 1)))
            claims = self._indexes[CLAIMS].names_in(namespace)
            return await run(size, plan_stateful_set, owner, pods, revisions, claims, now)
        nodes, failed_pods = list(self._indexes[NODES]), self._failed_pods
        size = _size(len(pods) + len(nodes))
        return await run(size, plan_daemon_set, owner, pods, nodes, revisions, failed_pods, now)

    async def _plan_slices(self, service: Document) -> WorkloadPlan | None:
        if ENDPOINT_SLICES not in self._indexes:
            return None
        meta = service["metadata"]
        slices = self._indexes[ENDPOINT_SLICES].owned_by(meta["uid"])
        if not (slices or selects_pods(service)):
            return None
        pods = self._indexes[PODS].in_namespace(meta["namespace"])
        return await self._cluster.offload.run_begun(_size(len(pods)), plan_slices, service, pods, slices)

    def _candidates(self, resource: GroupResource, owner: Document) -> list[Document]:
        """Returns the objects that a workload manages, and those that it might adopt."""
        index, meta = self._indexes[resource], owner["metadata"]
        return [*index.owned_by(meta["uid"]), *index.orphans_in(meta["namespace"])]

    def _plan_orphan(self, pod: Document) -> WorkloadPlan | None:
        """Returns the plan for a pod whose Job was deleted, though another may have its name, or released
        it.
        """
        reference = controller_of(pod)
        if reference is None:
            return jobs.orphan_plan(pod)
        if reference["kind"] != "Job":
            return None
        job = self._indexes[JOBS].get(pod["metadata"]["namespace"], reference["name"])
        has_job = job is not None and job["metadata"]["uid"] == reference["uid"]
        return None if has_job else jobs.orphan_plan(pod)

    # ---- carrying out

    async def _adopt(self, resource: GroupResource, owner: Document, plan: WorkloadPlan) -> bool:
        """Adopt the objects that the plan needs; returns False if one is gone, or has another controller by
        now.

        Raises the errors of refused writes, and the storage's errors.
        """
        if plan.adoptions and not await self._may_adopt(resource, owner):
            return False
        component, uid = self._components[resource], owner["metadata"]["uid"]
        for kind, found, adopt in plan.adoptions:
            target = WriteTarget.of(self._cluster.resource(kind), found)
            try:
                written = await component.update(target, adopt)
            except NotFound:
                self._indexes[kind].remove(found)
                return False
            if written is None:
                return False
            self._note(kind, written)
            if is_terminating(written) or (controller_of(written) or {}).get("uid") != uid:
                return False
        return True

    async def _may_adopt(self, resource: GroupResource, owner: Document) -> bool:
        """Returns whether a workload exists in the store, and is not being deleted.

        The informer may not have delivered its deletion yet: objects that a workload orphans just before it
        is deleted would be collected with it, if they were adopted again.
        Source: kubernetes, pkg/controller/controller_ref_manager.go, RecheckDeletionTimestamp.
        """
        meta, served = owner["metadata"], self._cluster.resource(resource)
        try:
            stored = await self._cluster.registry.get(served, meta["namespace"], meta["name"])
        except NotFound:
            return False
        live = stored.document()
        return bool(live["metadata"]["uid"] == meta["uid"]) and not is_terminating(live)

    async def _carry_out(
        self, resource: GroupResource, owner: Document, plan: WorkloadPlan
    ) -> ApiError | None:
        """Carry out a plan; returns why an object could not be created, if so.

        Raises the errors of other refused writes, and the storage's errors, after which a new plan is made.
        """
        component, cluster = self._components[resource], self._cluster
        for kind, found, change in plan.updates:
            try:
                served = cluster.resource(kind)
                written = await component.update(WriteTarget.of(served, found), change)
                if written is not None:
                    self._note(kind, written)
            except NotFound:
                self._indexes[kind].remove(found)
        for kind, found in plan.deletes:
            served = cluster.resource(kind)
            try:
                deleted = await component.delete(WriteTarget.of(served, found), propagation="Background")
            except (NotFound, Conflict):  # It is gone, and may be another one by now.
                self._indexes[kind].remove(found)
                continue
            if deleted.is_removed:
                self._indexes[kind].remove(deleted.found.document())
            else:
                self._indexes[kind].put(deleted.found.document())
        for place in plan.failed_at:
            self._failed_pods.count(place, cluster.clock())
        for kind, document in plan.creates:
            served = cluster.resource(kind)
            try:
                self._indexes[kind].put(await component.create(served, document))
            except AlreadyExists:
                continue  # The informer will deliver its owner.
            except ApiError as refused:
                kind_of_owner, message = cluster.resource(resource), f"Error creating: {refused}"
                warn_about(self._events, kind_of_owner, owner, reason="FailedCreate", message=message)
                return refused
        return None

    def _note(self, kind: GroupResource, written: Document) -> None:
        """Record an updated object; one that has lost its last finalizer is deleted."""
        meta = written["metadata"]
        is_gone = (
            "deletionTimestamp" in meta
            and not meta.get("finalizers")
            and not meta.get("deletionGracePeriodSeconds")
        )
        if is_gone:
            self._indexes[kind].remove(written)
        else:
            self._indexes[kind].put(written)

    async def _write_status(self, resource: GroupResource, owner: Document, status: Document) -> None:
        served = self._cluster.resource(resource)

        def write(found: Document) -> bool:
            # Counting must not use outdated objects: the informer will deliver the new ones.
            if (found.get("status") or {}) != (owner.get("status") or {}):
                return False
            found["status"] = status
            return True

        try:
            written = await self._components[resource].update(WriteTarget.of(served, owner, "status"), write)
        except NotFound:
            return
        if written is not None:
            self._indexes[resource].put(written)


def _size(count: int) -> SizeClass:
    """Returns how much work a plan is. count: the number of pods, including desired ones, and of nodes."""
    return SizeClass.SMALL if count <= PLANNED_ON_LOOP_MAX else SizeClass.LARGE


def _key(resource: GroupResource, found: Document) -> WorkloadKey:
    return WorkloadKey(resource, found["metadata"]["namespace"], found["metadata"]["name"])


def _without_times(node: Document) -> object:
    """Returns the properties of a node that matter for DaemonSets."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = [each.get("status") for each in conditions if each.get("type") == "Ready"]
    return node["metadata"].get("labels"), node.get("spec"), ready
