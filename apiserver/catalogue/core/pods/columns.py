"""The columns of pods. Source: pkg/printers/internalversion, printPod."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from apiserver.meta import table
from apiserver.meta.table import AGE, Column, Columns, columns, field_cell
from apiserver.meta.vocabulary import Document

# The phases of pods that no longer run.
ENDED: Final = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Summary:
    """The state of a pod's containers, summed up."""

    reason: str
    ready: int = 0
    total: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: Document) -> None:
        self.restarts += status.get("restartCount", 0)
        finished = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def _summary(document: Document) -> _Summary:
    spec, status = document.get("spec", {}), document.get("status", {})
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    sidecars = {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    summary = _Summary(status.get("reason") or status.get("phase") or "Unknown")
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        summary.reason = "SchedulingGated"
    summary.total = len(spec.get("containers") or ()) + len(sidecars)
    of_sidecars = _Summary("")
    is_initializing = _add_init_containers(summary, of_sidecars, document, sidecars)
    if not is_initializing or conditions.get("Initialized", {}).get("status") == "True":
        summary.restarts, summary.last_restart = of_sidecars.restarts, of_sidecars.last_restart
        has_running = _add_containers(summary, status.get("containerStatuses") or [])
        if summary.reason == "Completed" and has_running:
            is_ready = conditions.get("Ready", {}).get("status") == "True"
            summary.reason = "Running" if is_ready else "NotReady"
    if document["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif status.get("phase") not in ENDED:
            summary.reason = "Terminating"
    return summary


def _add_init_containers(
    summary: _Summary, of_sidecars: _Summary, document: Document, sidecars: set[str | None]
) -> bool:
    """Adds the init containers to the summary. Returns whether the pod waits for one of them."""
    total = len(document.get("spec", {}).get("initContainers") or ())
    for index, each in enumerate(document.get("status", {}).get("initContainerStatuses") or ()):
        is_sidecar = each.get("name") in sidecars
        summary.count_restarts(each)
        if is_sidecar:
            of_sidecars.count_restarts(each)
        state = each.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and each.get("started"):
            summary.ready += bool(each.get("ready"))
            continue
        if terminated is not None:
            summary.reason = f"Init:{_end(terminated)}"
        elif waiting.get("reason") not in (None, "", "PodInitializing"):
            summary.reason = f"Init:{waiting['reason']}"
        else:
            summary.reason = f"Init:{index}/{total}"
        return True
    return False


def _add_containers(summary: _Summary, statuses: Iterable[Document]) -> bool:
    """Adds the containers to the summary. Returns whether one of them runs and is ready."""
    has_running = False
    for each in reversed([*statuses]):
        summary.count_restarts(each)
        state = each.get("state") or {}
        terminated = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            summary.reason = state["waiting"]["reason"]
        elif terminated is not None:
            summary.reason = _end(terminated)
        elif each.get("ready") and state.get("running") is not None:
            has_running = True
            summary.ready += 1
    return has_running


def _end(terminated: Document) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _ready(document: Document, now: float) -> str:
    summary = _summary(document)
    return f"{summary.ready}/{summary.total}"


def _status(document: Document, now: float) -> str:
    return _summary(document).reason


def _restarts(document: Document, now: float) -> str:
    summary = _summary(document)
    if not summary.restarts or not summary.last_restart:
        return str(summary.restarts)
    return f"{summary.restarts} ({table.age_of(summary.last_restart, now)} ago)"


def _readiness_gates(document: Document, now: float) -> str:
    gates = document.get("spec", {}).get("readinessGates") or ()
    if not gates:
        return "<none>"
    conditions = document.get("status", {}).get("conditions") or ()
    states = {each.get("type"): each.get("status") for each in conditions}
    passed = sum(1 for gate in gates if states.get(gate.get("conditionType")) == "True")
    return f"{passed}/{len(gates)}"


COLUMNS: Final[Columns] = columns(
    Column("Ready", _ready, "The numbers of ready containers and of all containers in the pod."),
    Column("Status", _status, "The state of the pod, or the reason for it."),
    Column(
        "Restarts",
        _restarts,
        ("The number of container restarts in the pod, and the time since the last one."),
    ),
    AGE,
    Column(
        "IP",
        field_cell("status", "podIP", default="<none>"),
        "The IP address of the pod.",
        priority=1,
    ),
    Column(
        "Node",
        field_cell("spec", "nodeName", default="<none>"),
        "The node of the pod; empty if the pod is not scheduled.",
        priority=1,
    ),
    Column(
        "Nominated Node",
        field_cell("status", "nominatedNodeName", default="<none>"),
        "The node that lower-priority pods leave so that this pod fits.",
        priority=1,
    ),
    Column(
        "Readiness Gates",
        _readiness_gates,
        "The number of readiness gates of the pod that are met, and of all.",
        priority=1,
    ),
)
