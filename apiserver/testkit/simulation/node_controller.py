"""Creates the simulated Nodes, and keeps them ready and alive."""

from __future__ import annotations

from typing import Final

from apiserver.controller_runtime.controller import Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.meta import timestamps
from apiserver.meta.errors import AlreadyExists, NotFound
from apiserver.meta.vocabulary import AUTHENTICATED, Document, UserInfo
from apiserver.testkit.simulation.component import ClusterAccess, Component, WriteTarget, run_controller
from apiserver.testkit.simulation.nodes import (
    HEARTBEAT_S,
    LEASE_NAMESPACE,
    is_simulated,
    new_lease,
    new_node,
    node_names,
    ready_status,
)
from apiserver.testkit.simulation.object_index import ObjectIndex
from apiserver.testkit.simulation.resources import LEASES, NODES

NAME: Final = "simulated-nodes"
NEEDS: Final = (NODES, LEASES)
BACKOFF: Final = Backoff(base_s=0.1, max_s=10.0)
# The taints that the node lifecycle controller takes from nodes that are ready.
_NOT_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_LIFECYCLE: Final = UserInfo("system:serviceaccount:kube-system:node-controller", (AUTHENTICATED,))


class SimulatedNodes:
    """Keeps simulated nodes alive: their status, and their Leases. The keys of its queue are names of nodes.

    A deleted node is created again only when the server restarts, as kubelets register their nodes then.
    count: the number of simulated nodes. version: that of the kubelets, as `v1.36.0`.
    """

    def __init__(self, cluster: ClusterAccess, count: int, version: str) -> None:
        self._cluster = cluster
        self._own = node_names(count)
        self._version = version
        self._nodes = ObjectIndex(self._on_node)
        self._lifecycle = Component(cluster, _LIFECYCLE, "kube-controller-manager")
        self._unregistered = set(self._own)
        self._renewed_at: dict[str, float] = {}  # when each Lease was, by the queue's clock
        self.queue: WorkQueue[str] = WorkQueue(NAME, BACKOFF)

    async def run(self) -> None:
        """Keep nodes until cancelled."""
        informers = [self._cluster.informer(NODES, self._nodes, self.queue)]
        for name in self._own:
            self.queue.add(name)
        await run_controller(self.queue, self._reconcile, informers)

    def _on_node(self, old: Document | None, new: Document | None) -> None:
        found = new if new is not None else old
        assert found is not None
        name = found["metadata"]["name"]
        if new is None:
            self.queue.cancel(name)
            self._renewed_at.pop(name, None)
        elif is_simulated(new):
            self.queue.add(name)

    async def _reconcile(self, name: str) -> Outcome:
        node = self._nodes.get("", name)
        if node is None:
            if name not in self._unregistered:
                return None
            node = await self._register(name)
        self._unregistered.discard(name)
        if node is None or not is_simulated(node):
            return None
        try:
            await self._make_ready(node)
            return Requeue(after_s=await self._renew(node))
        except NotFound:
            return None

    async def _register(self, name: str) -> Document | None:
        resource = self._cluster.resource(NODES)
        try:
            node = await self._kubelet(name).create(resource, new_node(name))
        except AlreadyExists:  # The informer will deliver it.
            return None
        self._nodes.put(node)
        return node

    async def _make_ready(self, node: Document) -> None:
        resource, name = self._cluster.resource(NODES), node["metadata"]["name"]
        now = self._cluster.clock()

        def make_ready(found: Document) -> bool:
            wanted = ready_status(found, self._version, now)
            if wanted == (found.get("status") or {}):
                return False
            found["status"] = wanted
            return True

        if ready_status(node, self._version, now) != (node.get("status") or {}):
            written = await self._kubelet(name).update(WriteTarget.of(resource, node, "status"), make_ready)
            if written is not None:
                self._nodes.put(written)
        if any(taint["key"] in _NOT_READY for taint in _taints(node)):
            written = await self._lifecycle.update(WriteTarget.of(resource, node), _without_taints)
            if written is not None:
                self._nodes.put(written)

    async def _renew(self, node: Document) -> float:
        """Renew the Lease of a node, if that is due; returns in how many seconds to check again."""
        name, now = node["metadata"]["name"], self.queue.now()
        renewed_at = self._renewed_at.get(name)
        if renewed_at is not None and (left_s := renewed_at + HEARTBEAT_S - now) > 0:
            return left_s
        leases = self._cluster.resource(LEASES)
        lease = new_lease(node, timestamps.to_micro_text(self._cluster.clock()))

        def renew(found: Document) -> bool:
            found["spec"] = {**(found.get("spec") or {}), **lease["spec"]}
            found["metadata"]["ownerReferences"] = lease["metadata"]["ownerReferences"]
            return True

        kubelet = self._kubelet(name)
        try:
            await kubelet.update(WriteTarget(leases, LEASE_NAMESPACE, name), renew)
        except NotFound:
            await kubelet.create(leases, lease)
        self._renewed_at[name] = now
        return HEARTBEAT_S

    def _kubelet(self, name: str) -> Component:
        user = UserInfo(f"system:node:{name}", ("system:nodes", AUTHENTICATED))
        return Component(self._cluster, user, "kubelet")


def _taints(node: Document) -> list[Document]:
    return (node.get("spec") or {}).get("taints") or []


def _without_taints(node: Document) -> bool:
    taints = _taints(node)
    kept = [taint for taint in taints if taint["key"] not in _NOT_READY]
    node.setdefault("spec", {})["taints"] = kept
    return len(kept) < len(taints)
