"""A cluster in memory, in which plans are carried out one after the other."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from apiserver.meta import timestamps
from apiserver.meta.owners import controller_of
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.testkit.simulation.resources import (
    CLAIMS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REVISIONS,
    STATEFUL_SETS,
)
from apiserver.testkit.simulation.workloads.daemon_sets import plan_daemon_set
from apiserver.testkit.simulation.workloads.deployments import plan_deployment
from apiserver.testkit.simulation.workloads.failed_pods import FailedPods
from apiserver.testkit.simulation.workloads.jobs import plan_job
from apiserver.testkit.simulation.workloads.plans import WorkloadPlan
from apiserver.testkit.simulation.workloads.replica_sets import plan_replica_set
from apiserver.testkit.simulation.workloads.stateful_sets import plan_stateful_set

NOW_S: Final = 1_700_000_000.0
_KINDS: Final = {
    DEPLOYMENTS: ("apps/v1", "Deployment"),
    REPLICA_SETS: ("apps/v1", "ReplicaSet"),
    STATEFUL_SETS: ("apps/v1", "StatefulSet"),
    DAEMON_SETS: ("apps/v1", "DaemonSet"),
    JOBS: ("batch/v1", "Job"),
    PODS: ("v1", "Pod"),
    REVISIONS: ("apps/v1", "ControllerRevision"),
    CLAIMS: ("v1", "PersistentVolumeClaim"),
}
STEPS_MAX: Final = 200


def template(image: str = "i", **spec: Any) -> Document:
    containers = [{"name": "c", "image": image, "resources": {}}]
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers, **spec}}


def node(name: str, **spec: Any) -> Document:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": {}}, "spec": spec, "status": ready}


def running(_: Document) -> tuple[str, bool]:
    return "Running", True


class Cluster:
    """nodes: for DaemonSets. run: what becomes of a new pod: its phase, and whether it is ready."""

    def __init__(
        self, *, nodes: Sequence[Document] = (), run: Callable[[Document], tuple[str, bool]] = running
    ) -> None:
        self.now = NOW_S
        self.nodes = list(nodes)
        self.failed_pods = FailedPods()
        self.run = run
        self.objects: dict[GroupResource, dict[str, Document]] = {each: {} for each in _KINDS}
        self.log: list[str] = []
        self.writes = 0
        self._numbers = itertools.count(1)

    def add(self, resource: GroupResource, name: str, **spec: Any) -> Document:
        """Create a workload with a template, a selector and defaults, unless the spec has others."""
        full = {"selector": {"matchLabels": {"app": "a"}}, "template": template(), **spec}
        if resource == DEPLOYMENTS:
            full.setdefault("progressDeadlineSeconds", 600)
        return self._create(resource, {"metadata": {"name": name, "namespace": "default"}, "spec": full})

    def change(self, found: Document, **spec: Any) -> None:
        found["spec"].update(spec)
        found["metadata"]["generation"] += 1

    def update(self, found: Document, **spec: Any) -> None:
        """Change a workload, and settle."""
        self.change(found, **spec)
        self.settle()

    def delete(self, resource: GroupResource, name: str) -> None:
        del self.objects[resource][name]

    def pods(self) -> list[Document]:
        return [each for _, each in sorted(self.objects[PODS].items())]

    def names(self, resource: GroupResource = PODS) -> list[str]:
        return sorted(self.objects[resource])

    def _create(self, resource: GroupResource, document: Document) -> Document:
        number = next(self._numbers)
        meta = document["metadata"] = {**document["metadata"]}
        meta.setdefault("name", f"{meta.get('generateName', '')}{number:05}")
        version, kind = _KINDS[resource]
        meta |= {
            "uid": f"u{number}",
            "generation": 1,
            "creationTimestamp": timestamps.to_text(NOW_S + number),
        }
        created = {"apiVersion": version, "kind": kind, **copy.deepcopy(document)}
        if resource == PODS:
            created.setdefault("status", {"phase": "Pending"})
        self.objects[resource][meta["name"]] = created
        self.log.append(f"create {kind} {meta['name']}")
        return created

    # ---- steps

    def settle(self, on_step: Callable[[], None] = lambda: None) -> None:
        """Carry out plans until nothing changes any more. on_step: called after each of them, and of pods."""
        for _ in range(STEPS_MAX):
            before = self.writes
            for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS):
                for found in list(self.objects[resource].values()):
                    self._carry_out(found, self.plan(resource, found))
                    on_step()
            self._run_pods()
            on_step()
            if self.writes == before:
                return
        raise AssertionError("\n".join(self.log[-20:]))

    def plan(self, resource: GroupResource, found: Document) -> WorkloadPlan:
        pods, uid = self.pods(), found["metadata"]["uid"]
        revisions = [
            each
            for each in self.objects[REVISIONS].values()
            if (controller_of(each) or {"uid": uid})["uid"] == uid
        ]
        if resource == REPLICA_SETS:
            return plan_replica_set(found, pods, self.now)
        if resource == DEPLOYMENTS:
            sets = list(self.objects[REPLICA_SETS].values())
            by_set = {
                each["metadata"]["uid"]: [
                    pod for pod in pods if (controller_of(pod) or {}).get("uid") == each["metadata"]["uid"]
                ]
                for each in sets
            }
            return plan_deployment(found, sets, self.objects[REPLICA_SETS], by_set, self.now)
        if resource == STATEFUL_SETS:
            return plan_stateful_set(found, pods, revisions, self.objects[CLAIMS], self.now)
        if resource == DAEMON_SETS:
            return plan_daemon_set(found, pods, self.nodes, revisions, self.failed_pods, self.now)
        return plan_job(found, pods, self.now)

    def _carry_out(self, owner: Document, plan: WorkloadPlan) -> None:
        for resource, found, change in (*plan.adoptions, *plan.updates):
            live = self.objects[resource].get(found["metadata"]["name"])
            if live is None:
                continue
            spec = copy.deepcopy(live.get("spec"))
            if change(live):
                self.writes += 1
                if live.get("spec") != spec:
                    live["metadata"]["generation"] += 1
            self._remove_if_over(resource, live)
        for resource, found in plan.deletes:
            self.writes += 1
            live = self.objects[resource].get(found["metadata"]["name"])
            if live is not None:
                self.log.append(f"delete {live['kind']} {live['metadata']['name']}")
                live["metadata"]["deletionTimestamp"] = timestamps.to_text(self.now)
                if resource != PODS:
                    self._remove_if_over(resource, live)
        for place in plan.failed_at:
            self.failed_pods.count(place, self.now)
        for create in plan.creates:
            self.writes += 1
            if create.document["metadata"].get("name") not in self.objects[create.resource]:
                self._create(create.resource, create.document)
        if plan.status is not None and plan.status != owner.get("status", {}):
            self.writes += 1
            owner["status"] = copy.deepcopy(plan.status)

    def _remove_if_over(self, resource: GroupResource, found: Document) -> None:
        meta = found["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            self.objects[resource].pop(meta["name"], None)

    def _run_pods(self) -> None:
        """The pods that there were before this step start, and those that are deleted go."""
        for pod in self.pods():
            if "deletionTimestamp" in pod["metadata"]:
                self.writes += 1
                if pod["status"]["phase"] == "Running":
                    pod["status"] = {"phase": "Failed"}
                self._remove_if_over(PODS, pod)
            elif pod["status"]["phase"] == "Pending":
                phase, ready = self.run(pod)
                if phase == "Pending":
                    continue
                self.writes += 1
                condition = {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "lastTransitionTime": timestamps.to_text(self.now),
                }
                ended = {
                    "exitCode": 1 if phase == "Failed" else 0,
                    "finishedAt": timestamps.to_text(self.now),
                }
                container = {"name": "c", "state": {"terminated": ended} if phase != "Running" else {}}
                pod["status"] = {"phase": phase, "conditions": [condition], "containerStatuses": [container]}


def settled(
    resource: GroupResource,
    name: str,
    *,
    nodes: Sequence[Document] = (),
    run: Callable[[Document], tuple[str, bool]] = running,
    **spec: Any,
) -> tuple[Cluster, Document]:
    """Returns a cluster that has settled with one workload, and the workload."""
    cluster = Cluster(nodes=nodes, run=run)
    found = cluster.add(resource, name, **spec)
    cluster.settle()
    return cluster, found
