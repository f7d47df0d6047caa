"""Binds pods to nodes, one at a time, so that each sees the resources that earlier pods take."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from apiserver.catalogue.core.pods.preparation import assign_node
from apiserver.controller_runtime.controller import Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.event_recorder import EventRecorder
from apiserver.meta import timestamps
from apiserver.meta.conditions import find_condition, set_condition
from apiserver.meta.errors import NotFound
from apiserver.meta.vocabulary import AUTHENTICATED, Document, UserInfo
from apiserver.registry.strategy import UpdateStrategy
from apiserver.storage.event_loop_turns import in_turns
from apiserver.testkit.simulation.component import (
    ClusterAccess,
    Component,
    WriteTarget,
    run_controller,
    warn_about,
)
from apiserver.testkit.simulation.nodes import is_simulated
from apiserver.testkit.simulation.object_index import ObjectIndex
from apiserver.testkit.simulation.resources import NODES, PODS, Key
from apiserver.testkit.simulation.scheduling import (
    NodeUse,
    PodRequirements,
    in_order,
    is_waiting,
    refusal,
    unschedulable_message,
)
from apiserver.testkit.simulation.waiting_pods import WaitingPods

NAME: Final = "simulated-scheduler"
BACKOFF: Final = Backoff(base_s=0.1, max_s=10.0)
USER: Final = UserInfo("system:kube-scheduler", (AUTHENTICATED,))
# The rules of a binding: see `handlers.subresources.binding`.
_BINDING: Final = UpdateStrategy(change_checks=0, object_checks=1, raises_generation=False)
_ENDED: Final = ("Succeeded", "Failed")
# How many pods get a new reason at a time when nodes have changed. Trying one takes some milliseconds for a
# thousand nodes, which thousands of pods would repeat endlessly.
TELL_AGAIN_S: Final = 1.0
TOLD_AGAIN_MAX: Final = 20
_TELL_AGAIN: Final = ("", "")


class SimulatedScheduler:
    """Binds pods to nodes.

    The keys of its queue are pods that wait for a node, nodes that have changed, and `_TELL_AGAIN`.
    """

    def __init__(
        self, cluster: ClusterAccess, events: EventRecorder, *, clears_nomination: bool = True
    ) -> None:
        """clears_nomination: see `catalogue.core.pods.preparation`."""
        self._cluster, self._clears_nomination = cluster, clears_nomination
        self._events = events
        self._component = Component(cluster, USER, "kube-scheduler")
        self._nodes = ObjectIndex(self._on_node)
        self._pods = ObjectIndex(self._on_pod)
        self._uses: dict[str, NodeUse] = {}
        # Those for which there was no node, and the one for which one is looked for.
        self._waiting = WaitingPods()
        # The pods that need a new reason, and whether a node has changed since they were noted.
        self._to_tell: deque[Key] = deque()
        self._is_changed = False
        self.queue: WorkQueue[Key] = WorkQueue(NAME, BACKOFF)

    async def run(self) -> None:
        """Bind pods until cancelled."""
        informers = [
            self._cluster.informer(NODES, self._nodes, self.queue),
            self._cluster.informer(PODS, self._pods, self.queue),
        ]
        await run_controller(self.queue, self._reconcile, informers, events=self._events)

    # ---- what changes

    def _on_node(self, old: Document | None, new: Document | None) -> None:
        found = new if new is not None else old
        assert found is not None
        if old is None or new is None or _as_seen(old) != _as_seen(new):
            self._look_at(found["metadata"]["name"])

    def _on_pod(self, old: Document | None, new: Document | None) -> None:
        found = new if new is not None else old
        assert found is not None
        meta = found["metadata"]
        key = (meta["namespace"], meta["name"])
        before, after = _taken_node(old), _taken_node(new)
        if before and (before != after or old is None or new is None):
            self._release(before, (old or found)["metadata"]["uid"])
        if after and new is not None and (before != after or old is None or old["spec"] != new["spec"]):
            self._uses.setdefault(after, NodeUse()).add(meta["uid"], PodRequirements.of(new))
        if new is not None and is_waiting(new):
            if key not in self._waiting or old is None or old["spec"] != new["spec"]:
                self.queue.add(key)
        else:
            self._leave(key)
            self.queue.cancel(key)

    def _release(self, node: str, uid: str) -> None:
        use = self._uses.get(node)
        if use is None:
            return
        use.remove(uid)
        if not use.pods:
            del self._uses[node]
        self._look_at(node)

    def _look_at(self, node: str) -> None:
        """Schedule pods again for which there may be a node now."""
        if len(self._waiting):
            self.queue.add(("", node))

    def _leave(self, key: Key) -> None:
        """Remove a pod from the waiting ones, whose group may have a node for the next one."""
        group = self._waiting.leave(key)
        if group is not None and group.may_fit and group.first is not None:
            self.queue.add(group.first)

    # ---- binding

    async def _reconcile(self, key: Key) -> Outcome:
        if key == _TELL_AGAIN:
            return self._tell_again()
        namespace, name = key
        if not namespace:
            await self._try_on(name)
            return None
        pod = self._pods.get(*key)
        if pod is None or not is_waiting(pod):
            self._leave(key)
            return None
        # Before it: nodes that have refused it may change while others are asked.
        group = self._waiting.join(key, pod)
        try:
            if not group.why_not:
                node, refusals = await self._choose(pod, group.needs)
                if node:
                    await self._bind(pod, node)
                    self._leave(key)
                    return None
                group.refuse(unschedulable_message(refusals))
            await self._tell(pod, group.why_not)
        except NotFound:
            self._leave(key)
        except Exception:
            # Whatever it is: the pod comes back later, and must not hold up the others of its group.
            self._leave(key)
            raise
        return None

    async def _try_on(self, name: str) -> None:
        """Try the first pod of each group that fits on a changed node again."""
        async for group in in_turns(self._waiting.groups()):
            group.why_not = ""
            node = self._nodes.get("", name)
            if node is None or not is_simulated(node):
                continue
            fits = not refusal(group.example, group.needs, node, self._uses.get(name))
            if fits and group.first is not None:
                group.may_fit = True
                self.queue.add(group.first)
        if len(self._waiting):
            self._is_changed = True
            self.queue.add_after(_TELL_AGAIN, TELL_AGAIN_S)

    def _tell_again(self) -> Outcome:
        """Update the conditions of some waiting pods; returns when other pods have their turn."""
        if not self._to_tell:
            self._to_tell.extend(self._waiting)
            self._is_changed = False
        for _ in range(min(TOLD_AGAIN_MAX, len(self._to_tell))):
            key = self._to_tell.popleft()
            if key in self._waiting:
                self.queue.add(key)
        return Requeue(after_s=TELL_AGAIN_S) if self._to_tell or self._is_changed else None

    async def _choose(self, pod: Document, needs: PodRequirements) -> tuple[str, Sequence[str]]:
        """Returns the name of the node for a pod; or an empty one, with the reason for each node.

        It takes some milliseconds for a thousand nodes, for which requests must not wait.
        """
        refusals: list[str] = []
        async for name in in_turns(in_order(filter(is_simulated, self._nodes), self._uses)):
            node = self._nodes.get("", name)
            if node is None:
                continue
            why = refusal(pod, needs, node, self._uses.get(name))
            if not why:
                return name, ()
            refusals.append(why)
        return "", refusals

    async def _bind(self, pod: Document, node: str) -> None:
        now = timestamps.to_text(self._cluster.clock())

        def bind(found: Document) -> bool:
            if not is_waiting(found):
                return False
            assign_node(found, node, now, clears_nomination=self._clears_nomination)
            return True

        target = replace(WriteTarget.of(self._cluster.resource(PODS), pod), rules=_BINDING)
        written = await self._component.update(target, bind)
        if written is not None:
            self._pods.put(written)

    async def _tell(self, pod: Document, message: str) -> None:
        now = timestamps.to_text(self._cluster.clock())
        wanted = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "reason": "Unschedulable",
            "message": message,
        }

        def tell(found: Document) -> bool:
            if not is_waiting(found) or _says(found, wanted):
                return False
            set_condition(found, wanted, now)
            return True

        if _says(pod, wanted):
            return
        pods = self._cluster.resource(PODS)
        written = await self._component.update(WriteTarget.of(pods, pod, "status"), tell)
        if written is not None:
            self._pods.put(written)
        warn_about(self._events, pods, pod, reason="FailedScheduling", message=message)


def _taken_node(pod: Document | None) -> str:
    """Returns the node whose resources a pod takes; empty if it takes none."""
    if pod is None or (pod.get("status") or {}).get("phase") in _ENDED:
        return ""
    name: str = pod["spec"].get("nodeName") or ""
    return name


def _as_seen(node: Document) -> object:
    """Returns the properties of a node that matter for scheduling."""
    status = node.get("status") or {}
    ready = find_condition(node, "Ready") or {}
    spec = node.get("spec") or {}
    return (
        node["metadata"].get("labels"),
        is_simulated(node),
        spec.get("unschedulable"),
        spec.get("taints"),
        status.get("allocatable"),
        ready.get("status"),
    )


def _says(pod: Document, wanted: Document) -> bool:
    """Returns whether a pod has a condition already."""
    condition = find_condition(pod, wanted["type"])
    return condition is not None and all(condition.get(name) == text for name, text in wanted.items())
