"""Computes the status of a simulated pod from its stages, its status before and the time. Pure.

All state is in the status itself: a new leader, or a restarted server, continues where another has stopped. A
step starts a container at most once, so that watchers see that it ran.
Source of the rules: kubernetes, pkg/kubelet (kubelet_pods.go, status/generate.go, container/helpers.go).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from apiserver.meta import timestamps
from apiserver.meta.conditions import set_condition
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.stages import Stage, stage_of

KILLED: Final = 137
# By SIGTERM.
TERMINATED: Final = 143
_ENDED: Final = ("Succeeded", "Failed")
_CREATING: Final = {"reason": "ContainerCreating"}
_INITIALIZING: Final = {"reason": "PodInitializing"}


class StatusTime(NamedTuple):
    """The time for which a status is computed.

    now: seconds since 1970. dropped_s: the fraction of a second that times in the status omit.
    """

    now: float
    dropped_s: float = 0.0

    @property
    def text(self) -> str:
        return timestamps.to_text(self.now)

    def since(self, text: str | None) -> float:
        """Returns a time in the status, in seconds since 1970; now, if there is none."""
        found = timestamps.from_text(text or "")
        return self.now if found is None else min(found + self.dropped_s, self.now)


class PodAddresses(NamedTuple):
    host_ip: str
    pod_ip: str


class NextStatus(NamedTuple):
    """The next status of a pod.

    status: the required one; equal to the current one if there is nothing to do. again_s: in how many seconds
    it changes by itself; None for never. is_over: whether the pod was deleted, and none of its containers
    run.
    """

    status: Document
    again_s: float | None = None
    is_over: bool = False


@dataclass(slots=True)
class _Pod:
    """A pod whose next step is computed. again_s: as in `NextStatus`."""

    document: Document
    stages: Sequence[Stage]
    moment: StatusTime
    again_s: float | None = None

    @property
    def spec(self) -> Document:
        spec: Document = self.document["spec"]
        return spec

    def look_again(self, seconds: float) -> None:
        seconds = max(seconds, 0.0)
        self.again_s = seconds if self.again_s is None else min(self.again_s, seconds)

    @property
    def restarts_always(self) -> bool:
        return bool(self.spec.get("restartPolicy", "Always") == "Always")

    def stage(self, name: str, restarts: int, *, is_init: bool, is_sidecar: bool) -> Stage:
        return stage_of(
            self.document, name, stages=self.stages, restarts=restarts, is_init=is_init, is_sidecar=is_sidecar
        )


def next_step(
    pod: Document, stages: Sequence[Stage], addresses: PodAddresses, moment: StatusTime
) -> NextStatus:
    """Returns the next step of a pod that is bound to a simulated node. stages: those that select it."""
    old: Document = pod.get("status") or {}
    found = _Pod(pod, stages, moment)
    status = copy.deepcopy(old)
    if old.get("phase") in _ENDED:
        return NextStatus(old, is_over="deletionTimestamp" in pod["metadata"])
    status["startTime"] = status.get("startTime") or moment.text
    status["hostIP"], status["hostIPs"] = addresses.host_ip, [{"ip": addresses.host_ip}]
    status["podIP"], status["podIPs"] = addresses.pod_ip, [{"ip": addresses.pod_ip}]
    killed = _termination(found, status)
    inits, is_initialized, has_failed = _init_containers(found, old, status["startTime"])
    begins = _initialized_at(inits, status["startTime"])
    main = []
    for container in found.spec["containers"]:
        before = _status_of(found, old, "containerStatuses", container)
        main.append(
            _container(found, container, before, begins)
            if is_initialized
            else _waiting(container, before, _INITIALIZING)
        )
    ephemeral = [
        _ephemeral(found, container, _status_of(found, old, "ephemeralContainerStatuses", container))
        for container in found.spec.get("ephemeralContainers") or ()
    ]
    phase = "Failed" if has_failed else _phase(found, main, is_initialized)
    if killed is not None or phase in _ENDED:
        code, reason, message = killed or (0, "", "")
        for each in (*inits, *main, *ephemeral):
            _kill(each, found, code)
        if killed is not None:
            phase = "Succeeded" if code == 0 else "Failed"
        if reason:
            status["reason"], status["message"] = reason, message
    for name, listed in (
        ("initContainerStatuses", inits),
        ("containerStatuses", main),
        ("ephemeralContainerStatuses", ephemeral),
    ):
        if listed:
            status[name] = listed
    status["phase"] = phase
    _set_conditions(found, status, inits, main, is_initialized)
    is_deleted = "deletionTimestamp" in pod["metadata"]
    if phase in _ENDED:
        return NextStatus(status, is_over=is_deleted)
    return NextStatus(status, found.again_s)


def _termination(found: _Pod, status: Document) -> tuple[int, str, str] | None:
    """Returns the exit code, the reason and the message if the pod has to end now."""
    meta, spec, moment = found.document["metadata"], found.spec, found.moment
    if "deletionTimestamp" in meta:
        ends_at = timestamps.from_text(meta["deletionTimestamp"]) or moment.now
        began_at = ends_at - (meta.get("deletionGracePeriodSeconds") or 0)
        delay_s = max((each.termination_delay_s for each in found.stages), default=0.0)
        left_s = min(began_at + delay_s, ends_at) - moment.now if delay_s else 0.0
        if left_s <= 0:
            # A service that is stopped has done its work; a container that was to end by itself has not.
            return (0 if found.restarts_always else TERMINATED), "", ""
        found.look_again(left_s)
    deadline_s = spec.get("activeDeadlineSeconds")
    if deadline_s is not None:
        left_s = moment.since(status["startTime"]) + deadline_s - moment.now
        if left_s <= 0:
            message = "Pod was active on the node longer than the specified deadline"
            return KILLED, "DeadlineExceeded", message
        found.look_again(left_s)
    return None


# ---- containers


def _status_of(found: _Pod, status: Document, field_name: str, container: Document) -> Document | None:
    """Returns the status of a container; None if it has none.

    As any client may have written a partial one, missing fields are those of a new one, which begins or ends
    now.
    """
    listed = status.get(field_name) or ()
    before = next((each for each in listed if each.get("name") == container["name"]), None)
    if before is None:
        return None
    status = {**_new_status(container), **copy.deepcopy(_known(before))}
    now, state = found.moment.text, status["state"]
    if "running" in state:
        state["running"] = {"startedAt": now, **_known(state["running"])}
    for each in (state, status["lastState"]):
        if "terminated" in each:
            each["terminated"] = {"exitCode": 0, "finishedAt": now, **_known(each["terminated"])}
    if "terminated" not in status["lastState"]:
        status["lastState"] = {}
    return status


def _known(fields: Document | None) -> Document:
    return {name: value for name, value in (fields or {}).items() if value is not None}


def _init_containers(found: _Pod, old: Document, began: str) -> tuple[list[Document], bool, bool]:
    """Returns the statuses of init containers, whether all necessary ones are done, and whether one has
    failed.
    """
    statuses: list[Document] = []
    is_open, has_failed = True, False
    for container in found.spec.get("initContainers") or ():
        before = _status_of(found, old, "initContainerStatuses", container)
        is_sidecar = container.get("restartPolicy") == "Always"
        if not is_open:
            statuses.append(_waiting(container, before, _INITIALIZING))
            continue
        since = _initialized_at(statuses, began)
        status = _container(found, container, before, since, is_init=True, is_sidecar=is_sidecar)
        if not is_sidecar and before is None and "running" in status["state"]:
            # It may be over at once: watchers need not see that it ran.
            status = _container(found, container, status, since, is_init=True)
        statuses.append(status)
        if is_sidecar:
            is_open = bool(status.get("started"))
            continue
        ended = status["state"].get("terminated")
        is_open = status["ready"] = ended is not None and ended["exitCode"] == 0
        has_failed |= ended is not None and ended["exitCode"] != 0
    return statuses, is_open, has_failed


def _initialized_at(inits: Sequence[Document], began: str) -> str:
    """Returns when the last init container has ended. began: when the pod did."""
    ends: list[str] = [
        each["state"]["terminated"]["finishedAt"] for each in inits if "terminated" in each["state"]
    ]
    return max([began, *ends])  # Times in UTC compare as texts.


def _container(
    found: _Pod,
    container: Document,
    before: Document | None,
    since: str,
    *,
    is_init: bool = False,
    is_sidecar: bool = False,
) -> Document:
    """Returns the next status of a container that may run. since: when it may begin."""
    moment, name = found.moment, container["name"]
    status = copy.deepcopy(before) if before is not None else _new_status(container)
    stage = found.stage(name, status["restartCount"], is_init=is_init, is_sidecar=is_sidecar)
    state = status["state"]
    if "running" in state:
        if status["image"] != container["image"]:
            _end(status, found, 0, "Completed", "Container image changed")
            _restart(status, found)
            return _running(found, container, status, stage)
        ends_s = moment.since(state["running"]["startedAt"]) + stage.duration_s - moment.now
        if not stage.ends or ends_s > 0:
            if stage.ends:
                found.look_again(ends_s)
            return _running(found, container, status, stage)
        reason = stage.reason or ("Error" if stage.code else "Completed")
        _end(status, found, stage.code, reason, stage.message)
    elif "terminated" not in state and not status.get("lastState"):
        if stage.phase == "Pending":
            return _waiting(container, status, _reason(stage))
        starts_s = moment.since(since) + stage.start_delay_s - moment.now
        if starts_s > 0:
            found.look_again(starts_s)
            return _waiting(container, status, _CREATING)
        status["state"] = {"running": {"startedAt": moment.text}}
        return _running(found, container, status, stage)
    return _after_end(found, container, status, is_init=is_init, is_sidecar=is_sidecar)


def _after_end(
    found: _Pod, container: Document, status: Document, *, is_init: bool, is_sidecar: bool
) -> Document:
    """Returns the status of an ended container: it stays ended, waits for its restart, or runs again."""
    moment, restarts, name = found.moment, status["restartCount"], container["name"]
    ended = status["state"].get("terminated") or status["lastState"]["terminated"]
    policy = found.spec.get("restartPolicy", "Always")
    is_restarted = (
        is_sidecar or (policy == "Always" and not is_init) or (policy != "Never" and ended["exitCode"] != 0)
    )
    if not is_restarted:
        return status
    stage = found.stage(name, restarts, is_init=is_init, is_sidecar=is_sidecar)
    backoff_s = stage.restart_backoff_s(restarts)
    left_s = moment.since(ended["finishedAt"]) + backoff_s - moment.now
    if left_s > 0:
        found.look_again(left_s)
        meta = found.document["metadata"]
        message = (
            f"back-off {backoff_s:g}s restarting failed container={name} "
            f"pod={meta['name']}_{meta.get('namespace', '')}({meta['uid']})"
        )
        status["lastState"] = {"terminated": ended}
        status["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        status["ready"] = status["started"] = False
        return status
    _restart(status, found)
    stage = found.stage(name, status["restartCount"], is_init=is_init, is_sidecar=is_sidecar)
    return _running(found, container, status, stage)


def _new_status(container: Document) -> Document:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "restartCount": 0,
        "ready": False,
        "started": False,
        "state": {},
        "lastState": {},
    }


def _reason(stage: Stage) -> Document:
    if not stage.reason:
        return _CREATING
    return {"reason": stage.reason, "message": stage.message} if stage.message else {"reason": stage.reason}


def _waiting(container: Document, before: Document | None, why: Document) -> Document:
    status = before if before is not None else _new_status(container)
    return {**status, "state": {"waiting": dict(why)}, "ready": False, "started": False}


def _running(found: _Pod, container: Document, status: Document, stage: Stage) -> Document:
    """Returns the status of a running container, and whether it is ready."""
    moment = found.moment
    since = moment.since(status["state"]["running"]["startedAt"])
    ready_s = since + stage.ready_delay_s - moment.now
    if stage.ready and ready_s > 0:
        found.look_again(ready_s)
    if stage.ends:
        found.look_again(since + stage.duration_s - moment.now)
    status["ready"], status["started"] = stage.ready and ready_s <= 0, True
    status["image"] = container["image"]
    digest = hashlib.sha256(container["image"].encode()).hexdigest()
    status["imageID"] = f"simulated@sha256:{digest}"
    status["containerID"] = _container_id(found, container["name"], status["restartCount"])
    resources = container.get("resources")
    if resources:
        status["resources"] = copy.deepcopy(resources)
        if resources.get("requests"):
            status["allocatedResources"] = dict(resources["requests"])
    return status


def _container_id(found: _Pod, name: str, restarts: int) -> str:
    text = f"{found.document['metadata']['uid']}/{name}/{restarts}"
    return f"simulated://{hashlib.sha256(text.encode()).hexdigest()}"


def _end(status: Document, found: _Pod, code: int, reason: str, message: str = "") -> None:
    """End a run, with its begin in the status if that is known."""
    ended: Document = {
        "exitCode": code,
        "reason": reason,
        "startedAt": status["state"]["running"]["startedAt"],
        "finishedAt": found.moment.text,
    }
    if message:
        ended["message"] = message
    if status.get("containerID"):
        ended["containerID"] = status["containerID"]
    status["state"] = {"terminated": ended}
    status["ready"] = status["started"] = False


def _restart(status: Document, found: _Pod) -> None:
    ended = status["state"].get("terminated")
    if ended is not None:
        status["lastState"] = {"terminated": ended}
    status["restartCount"] += 1
    status["state"] = {"running": {"startedAt": found.moment.text}}


def _kill(status: Document, found: _Pod, code: int) -> None:
    """End everything of the pod that runs, or waits for a restart."""
    if "running" in status["state"]:
        _end(status, found, code, "Error" if code else "Completed")
    elif "waiting" in status["state"] and (ended := (status.get("lastState") or {}).get("terminated")):
        status["state"] = {"terminated": ended}


def _ephemeral(found: _Pod, container: Document, before: Document | None) -> Document:
    """Returns the status of an ephemeral container, which runs as long as the pod does."""
    status = copy.deepcopy(before) if before is not None else _new_status(container)
    if "terminated" in status["state"]:
        return status
    if "running" not in status["state"]:
        status["state"] = {"running": {"startedAt": found.moment.text}}
    status = _running(found, container, status, Stage())
    status["ready"] = False
    return status


# ---- the pod


def _phase(found: _Pod, main: Sequence[Document], is_initialized: bool) -> str:
    if not is_initialized:
        return "Pending"
    if any("waiting" in each["state"] and not each.get("lastState") for each in main):
        return "Pending"
    if found.restarts_always or any("terminated" not in each["state"] for each in main):
        return "Running"
    return "Failed" if any(each["state"]["terminated"]["exitCode"] for each in main) else "Succeeded"


def _set_conditions(
    found: _Pod, status: Document, inits: Sequence[Document], main: Sequence[Document], is_initialized: bool
) -> None:
    spec, meta = found.spec, found.document["metadata"]
    has_ended, moment = status["phase"] in _ENDED, found.moment
    over = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(status["phase"], "")
    sidecars = [each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy")]
    unready = [each["name"] for each in (*inits, *main) if not each["ready"]]
    unready = [name for name in unready if name in sidecars or any(name == each["name"] for each in main)]
    incomplete = [
        each["name"]
        for each in inits
        if (each["state"].get("terminated") or {}).get("exitCode") != 0 and not each.get("started")
    ]
    wanted: list[tuple[str, str, str, str]] = [("PodReadyToStartContainers", _truth(not has_ended), "", "")]
    if is_initialized:
        wanted.append(("Initialized", "True", over if status["phase"] == "Succeeded" else "", ""))
    else:
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        wanted.append(("Initialized", "False", "ContainersNotInitialized", message))
    if has_ended:
        wanted += [("Ready", "False", over, ""), ("ContainersReady", "False", over, "")]
    else:
        reason, message = "", ""
        if unready:
            reason, message = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
        gates = "" if unready else _closed_gates(spec, status)
        ready = ("ReadinessGatesNotReady", gates) if gates else (reason, message)
        wanted.append(("Ready", _truth(not unready and not gates), *ready))
        wanted.append(("ContainersReady", _truth(not unready), reason, message))
    if not any(each.get("type") == "PodScheduled" for each in status.get("conditions") or ()):
        wanted.append(("PodScheduled", "True", "", ""))
    generation = meta.get("generation")
    if generation:
        status["observedGeneration"] = generation
    holder: Document = {"status": status}
    for kind, value, reason, message in wanted:
        _set_condition(holder, kind, value, (reason, message), generation, moment.text)


def _set_condition(
    holder: Document, kind: str, value: str, why: tuple[str, str], generation: Any, now: str
) -> None:
    condition: Document = {"type": kind, "status": value}
    if generation:
        condition["observedGeneration"] = generation
    set_condition(holder, condition, now)
    (found,) = [each for each in holder["status"]["conditions"] if each.get("type") == kind]
    for name, text in zip(("reason", "message"), why, strict=True):
        found.pop(name, None)
        if text:
            found[name] = text
    found.setdefault("lastProbeTime", None)


def _closed_gates(spec: Document, status: Document) -> str:
    """Returns the readiness gates that keep the pod from being ready; empty if there are none."""
    held = {each.get("type"): each.get("status") for each in status.get("conditions") or ()}
    texts = []
    for gate in spec.get("readinessGates") or ():
        kind = gate["conditionType"]
        if kind not in held:
            texts.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif held[kind] != "True":
            texts.append(f'the status of pod readiness gate "{kind}" is not "True", but {held[kind]}')
    return ", ".join(texts)


def _truth(value: bool) -> str:
    return "True" if value else "False"
