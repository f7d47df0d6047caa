"""Runs the pods of all simulated nodes, as kubelets would, but without processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from apiserver.controller_runtime.controller import DriftCorrected, Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.meta import timestamps
from apiserver.meta.conditions import set_condition
from apiserver.meta.errors import Conflict, NotFound
from apiserver.meta.vocabulary import AUTHENTICATED, Document, UserInfo
from apiserver.testkit.simulation.component import (
    ClusterAccess,
    Component,
    WriteTarget,
    run_controller,
    warn_about,
)
from apiserver.testkit.simulation.field_values import InvalidStage
from apiserver.testkit.simulation.nodes import host_ip, is_simulated, number_of, place_of, pod_network
from apiserver.testkit.simulation.object_index import ObjectIndex
from apiserver.testkit.simulation.pod_status import PodAddresses, StatusTime, next_step
from apiserver.testkit.simulation.resources import NODES, PODS, Key
from apiserver.testkit.simulation.stages import Stage, stages_for

NAME: Final = "simulated-kubelet"
BACKOFF: Final = Backoff(base_s=0.1, max_s=10.0)
WORKERS: Final = 8
# A timer of the event loop takes no time that is further away; it is looked at again then.
WAIT_S_MAX: Final = 86_400.0
# Below these are the addresses of the network and of its gateway.
_FIRST_HOST: Final = 2
_GARBAGE_COLLECTOR: Final = UserInfo(
    "system:serviceaccount:kube-system:pod-garbage-collector", (AUTHENTICATED,)
)
# What the garbage collector of pods says of one, and failure policies of Jobs ask for.
_NODE_IS_GONE: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}


class SimulatedKubelet:
    """Runs pods on simulated nodes; the keys of its queue are these pods.

    stages: those of pods without annotations.
    """

    def __init__(self, cluster: ClusterAccess, events: EventRecorder, stages: Sequence[Stage]) -> None:
        self._cluster = cluster
        self._events = events
        self._stages = stages
        self._nodes = ObjectIndex(self._on_node)
        self._pods = ObjectIndex(self._on_pod)
        self._kubelets: dict[str, Component] = {}
        self._collector = Component(cluster, _GARBAGE_COLLECTOR, "kube-controller-manager")
        # Simulated nodes, including deleted ones, whose pods no other kubelet will end.
        self._simulated: set[str] = set()
        self._pod_keys: dict[str, set[Key]] = {}  # by node
        self._addresses: dict[str, str] = {}  # by uid of the pod
        self._taken: set[str] = set()
        # By how much the times in a status are too early, for pods that wait for a time.
        self._dropped_s: dict[str, float] = {}
        self.queue: WorkQueue[Key] = WorkQueue(NAME, BACKOFF)

    async def run(self) -> None:
        """Run pods until cancelled."""
        informers = [
            self._cluster.informer(NODES, self._nodes, self.queue),
            self._cluster.informer(PODS, self._pods, self.queue),
        ]
        await run_controller(self.queue, self._reconcile, informers, events=self._events, workers=WORKERS)

    # ---- what changes

    def _on_node(self, old: Document | None, new: Document | None) -> None:
        found = new if new is not None else old
        assert found is not None
        name = found["metadata"]["name"]
        was_known = name in self._simulated
        if new is not None and is_simulated(new):
            self._simulated.add(name)
        if new is None or not was_known:
            for key in self._pod_keys.get(name, ()):
                self.queue.add(key)
        if new is None:
            self._kubelets.pop(name, None)
            self._forget_node(name)

    def _on_pod(self, old: Document | None, new: Document | None) -> None:
        found = new if new is not None else old
        assert found is not None
        meta, node = found["metadata"], found["spec"].get("nodeName")
        key = (meta["namespace"], meta["name"])
        if new is None:
            self._forget(meta["uid"])
            self.queue.cancel(key)
        if not node:
            return
        keys = self._pod_keys.setdefault(node, set())
        if new is None:
            keys.discard(key)
            if not keys:
                del self._pod_keys[node]
                self._forget_node(node)
            return
        keys.add(key)
        pod_ip = (new.get("status") or {}).get("podIP")
        if pod_ip and meta["uid"] not in self._addresses:
            self._take(meta["uid"], pod_ip)
        self.queue.add(key)

    def _forget_node(self, name: str) -> None:
        """Forget a simulated node that is deleted, and whose pods are, too."""
        if self._nodes.get("", name) is None and name not in self._pod_keys:
            self._simulated.discard(name)

    def _forget(self, uid: str) -> None:
        self._dropped_s.pop(uid, None)
        address = self._addresses.pop(uid, "")
        self._taken.discard(address)

    # ---- running

    async def _reconcile(self, key: Key) -> Outcome:
        pod = self._pods.get(*key)
        node_name = pod["spec"].get("nodeName", "") if pod is not None else ""
        if pod is None or not node_name:
            return None
        node = self._nodes.get("", node_name)
        try:
            if node is None:
                if node_name in self._simulated or number_of(node_name) is not None:
                    await self._collect(pod)
                return None
            return await self._step(pod, node) if is_simulated(node) else None
        except (NotFound, Conflict):  # Another pod has its name by now, which the informer will deliver.
            return None

    async def _step(self, pod: Document, node: Document) -> Outcome:
        pods, meta = self._cluster.resource(PODS), pod["metadata"]
        uid, now = meta["uid"], self._cluster.clock()
        moment = StatusTime(now, self._dropped_s.get(uid, 0.0))
        addresses = self._addresses_of(pod, node)
        stages = self._stages_of(pod)
        step = next_step(pod, stages, addresses, moment)
        kubelet = self._kubelet(node["metadata"]["name"])
        is_written = step.status != (pod.get("status") or {})
        if is_written:

            def write(found: Document) -> bool:
                # It may be another version of the pod than the one that was looked at.
                wanted = next_step(found, stages, addresses, moment).status
                is_changed: bool = wanted != (found.get("status") or {})
                found["status"] = wanted
                return is_changed

            written = await kubelet.update(WriteTarget.of(pods, pod, "status"), write)
            if written is None:
                return None
            self._dropped_s[uid] = now % 1.0
            self._pods.put(written)
        if step.is_over:
            deleted = await kubelet.delete(WriteTarget.of(pods, pod), grace_period_s=0)
            if deleted.is_removed:
                self._pods.remove(deleted.found.document())
            return None
        if step.again_s is None:
            self._dropped_s.pop(uid, None)
            # The status must not be written back and forth forever with another client that writes it, too.
            return DriftCorrected(orjson.dumps(step.status)) if is_written else None
        return Requeue(after_s=min(step.again_s, WAIT_S_MAX))

    async def _collect(self, pod: Document) -> None:
        """Make a pod fail whose node is deleted, and delete it, as the garbage collector of pods does."""
        pods, now = self._cluster.resource(PODS), timestamps.to_text(self._cluster.clock())

        def fail(found: Document) -> bool:
            status = found.setdefault("status", {})
            if status.get("phase") in ("Succeeded", "Failed"):
                return False
            status["phase"] = "Failed"
            set_condition(found, dict(_NODE_IS_GONE), now)
            return True

        await self._collector.update(WriteTarget.of(pods, pod, "status"), fail)
        await self._collector.delete(WriteTarget.of(pods, pod), grace_period_s=0)

    def _stages_of(self, pod: Document) -> Sequence[Stage]:
        try:
            return stages_for(pod, self._stages)
        except InvalidStage as error:
            pods = self._cluster.resource(PODS)
            warn_about(self._events, pods, pod, reason="InvalidSimulation", message=str(error))
            return [stage for stage in self._stages if stage.match.selects_pod(pod)]

    def _kubelet(self, node: str) -> Component:
        found = self._kubelets.get(node)
        if found is None:
            user = UserInfo(f"system:node:{node}", ("system:nodes", AUTHENTICATED))
            found = self._kubelets[node] = Component(self._cluster, user, "kubelet")
        return found

    # ---- addresses

    def _addresses_of(self, pod: Document, node: Document) -> PodAddresses:
        name = node["metadata"]["name"]
        internal = [
            each["address"]
            for each in (node.get("status") or {}).get("addresses") or ()
            if each.get("type") == "InternalIP"
        ]
        host = internal[0] if internal else host_ip(place_of(name))
        if pod["spec"].get("hostNetwork"):
            return PodAddresses(host, host)
        uid = pod["metadata"]["uid"]
        if uid not in self._addresses:
            self._take(uid, self._free_address(node))
        return PodAddresses(host, self._addresses[uid])

    def _take(self, uid: str, address: str) -> None:
        self._addresses[uid] = address
        self._taken.add(address)

    def _free_address(self, node: Document) -> str:
        """Returns a free address of a node's pod network, or any address if all are taken."""
        network = pod_network(place_of(node["metadata"]["name"]))
        last = network.num_addresses - 2
        hosts = (str(network[place]) for place in range(_FIRST_HOST, last))
        return next((each for each in hosts if each not in self._taken), str(network[last]))
