"""What becomes of pods on simulated nodes.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.meta import timestamps
from apiserver.meta.vocabulary import Document
from apiserver.testkit.simulation.pod_status import StatusTime, next_step
from apiserver.testkit.simulation.stages import RUNS_ON, Stage, StageSelector, stages_for
from tests.unit.testkit.simulation.pods import ADDRESSES, NOW_S, Life, of_job, phases, pod, state_of

FAILS: Final = Stage(phase="Failed")
FAILS_TWICE: Final = Stage(phase="Failed", times=2, exit_code=3, message="no input")

# The pod, its stages, and after some seconds: the phases until then and the state of its container.
LIVES: Final[dict[str, tuple[Document, tuple[Stage, ...], float, list[str], str]]] = {
    "a service runs on": (pod(), (), 1e6, ["Running"], "running x0"),
    "a pod of a job succeeds": (of_job(pod()), (), 0, ["Running", "Succeeded"], "terminated 0 x0"),
    "one that fails": (of_job(pod()), (FAILS,), 0, ["Running", "Failed"], "terminated 1 x0"),
    "with its own exit code": (
        pod(restartPolicy="Never"),
        (Stage(phase="Failed", exit_code=42),),
        0,
        ["Running", "Failed"],
        "terminated 42 x0",
    ),
    "it waits before it starts": (
        pod(),
        (Stage(start_delay_s=5),),
        4.9,
        ["Pending"],
        "waiting ContainerCreating x0",
    ),
    "and starts": (pod(), (Stage(start_delay_s=5),), 5, ["Pending", "Running"], "running x0"),
    "it never starts": (
        pod(),
        (Stage(phase="Pending", reason="ImagePullBackOff", message="no such image"),),
        1e6,
        ["Pending"],
        "waiting ImagePullBackOff x0",
    ),
    "it runs for a while": (
        of_job(pod()),
        (Stage(phase="Succeeded", duration_s=5),),
        4.9,
        ["Running"],
        "running x0",
    ),
    "and succeeds": (
        of_job(pod()),
        (Stage(phase="Succeeded", duration_s=5),),
        5,
        ["Running", "Succeeded"],
        "terminated 0 x0",
    ),
    "the first restart comes at once, the second does not": (
        pod(),
        (FAILS,),
        0,
        ["Running"],
        "waiting CrashLoopBackOff x1",
    ),
    "the back-off grows": (pod(), (FAILS,), 6.9, ["Running"], "waiting CrashLoopBackOff x3"),
    "and grows": (pod(), (FAILS,), 7, ["Running"], "waiting CrashLoopBackOff x4"),
    "some failures": (pod(), (FAILS_TWICE,), 60, ["Running"], "running x2"),
    "restarts on failure, until it succeeds": (
        of_job(pod()) | {"spec": pod()["spec"] | {"restartPolicy": "OnFailure"}},
        (FAILS_TWICE,),
        60,
        ["Running", "Succeeded"],
        "terminated 0 x2",
    ),
    "what ends with success is restarted, too": (
        pod(),
        (Stage(phase="Succeeded", times=1),),
        0,
        ["Running"],
        "running x1",
    ),
    "a deadline": (
        of_job(pod()) | {"spec": pod(restartPolicy="Never", activeDeadlineSeconds=9)["spec"]},
        (RUNS_ON,),
        9,
        ["Running", "Failed"],
        "terminated 137 x0",
    ),
}


@pytest.mark.parametrize(("found", "stages", "after_s", "seen", "state"), LIVES.values(), ids=LIVES)
def test_lives(
    found: Document, stages: tuple[Stage, ...], after_s: float, seen: list[str], state: str
) -> None:
    life = Life(found, *stages)
    status = life.wait(after_s)
    assert (phases(life), state_of(status)) == (seen, state)


def test_a_running_pod_is_all_that_clients_ask_for() -> None:
    life = Life(pod(hostNetwork=False))
    status = life.settle()
    now = timestamps.to_text(NOW_S)
    assert len(life.steps) == 1  # one write
    assert (status["podIP"], status["podIPs"]) == ("10.128.0.2", [{"ip": "10.128.0.2"}])
    assert (status["hostIP"], status["hostIPs"]) == ("172.18.0.1", [{"ip": "172.18.0.1"}])
    assert (status["startTime"], status["qosClass"], status["observedGeneration"]) == (now, "BestEffort", 1)
    assert set(life.conditions().values()) == {"True"}
    (container,) = status["containerStatuses"]
    assert (container["ready"], container["started"]) == (True, True)
    assert container["state"] == {"running": {"startedAt": now}}


def test_what_has_settled_stays_so() -> None:
    life = Life(pod("a", "b", initContainers=[{"name": "i", "image": "i"}]))
    first = life.settle()
    life.now += 100_000
    assert life.settle() is not first
    assert len(life.steps) == 1


def test_readiness_comes_later() -> None:
    life = Life(pod(), Stage(ready_delay_s=3))
    assert life.wait(2.9)["phase"] == "Running"
    assert (life.conditions()["Ready"], life.conditions()["ContainersReady"]) == ("False", "False")
    life.wait(0.1)
    assert (life.conditions()["Ready"], life.conditions()["ContainersReady"]) == ("True", "True")


def test_readiness_gates_are_of_others() -> None:
    life = Life(pod(readinessGates=[{"conditionType": "example.com/lb"}]))
    life.settle()
    assert (life.conditions()["Ready"], life.conditions()["ContainersReady"]) == ("False", "True")
    life.pod["status"]["conditions"].append({"type": "example.com/lb", "status": "True"})
    life.settle()
    assert life.conditions()["Ready"] == "True"
    assert life.conditions()["example.com/lb"] == "True"


def test_init_containers_run_in_their_order() -> None:
    inits = [
        {"name": "first", "image": "i"},
        {"name": "sidecar", "image": "i", "restartPolicy": "Always"},
        {"name": "last", "image": "i"},
    ]
    slow = Stage(
        phase="Succeeded", duration_s=5, match=StageSelector(containers=frozenset({"first", "last"}))
    )
    life = Life(pod(initContainers=inits), slow)
    listed = "initContainerStatuses"
    status = life.wait(4)
    assert [state_of(status, each, listed) for each in ("first", "sidecar", "last")] == [
        "running x0",
        "waiting PodInitializing x0",
        "waiting PodInitializing x0",
    ]
    assert (status["phase"], life.conditions()["Initialized"]) == ("Pending", "False")
    status = life.wait(2)
    assert [state_of(status, each, listed) for each in ("first", "sidecar", "last")] == [
        "terminated 0 x0",
        "running x0",
        "running x0",
    ]
    assert state_of(status) == "waiting PodInitializing x0"
    status = life.wait(4)
    assert (status["phase"], state_of(status), life.conditions()["Ready"]) == (
        "Running",
        "running x0",
        "True",
    )


def test_a_sidecar_ends_with_the_pod() -> None:
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always"}
    found = of_job(pod(initContainers=[sidecar]))
    status = Life(found).settle()
    assert (status["phase"], state_of(status, "s", "initContainerStatuses")) == (
        "Succeeded",
        "terminated 0 x0",
    )


def test_an_init_container_that_fails_fails_a_pod_that_is_not_restarted() -> None:
    stage = Stage(phase="Failed", match=StageSelector(containers=frozenset({"i"})))
    found = pod(restartPolicy="Never", initContainers=[{"name": "i", "image": "i"}])
    status = Life(found, stage).settle()
    assert (status["phase"], state_of(status)) == ("Failed", "waiting PodInitializing x0")


def deleted(found: Document, grace_s: int = 30) -> Document:
    found["metadata"]["deletionTimestamp"] = timestamps.to_text(NOW_S + grace_s)
    found["metadata"]["deletionGracePeriodSeconds"] = grace_s
    return found


# The pod that is deleted when it has run for a while, the delay, and after how long nothing runs any more.
DELETIONS: Final = {
    "at once": (pod(), 0.0, 0.0, "Succeeded"),
    "later": (pod(), 10.0, 10.0, "Succeeded"),
    "at the end of the grace period": (pod(), 100.0, 30.0, "Succeeded"),
    "before its work was done": (pod(restartPolicy="Never"), 0.0, 0.0, "Failed"),
}


@pytest.mark.parametrize(("found", "delay_s", "after_s", "phase"), DELETIONS.values(), ids=DELETIONS)
def test_deletions(found: Document, delay_s: float, after_s: float, phase: str) -> None:
    life = Life(found, Stage(termination_delay_s=delay_s))
    life.settle()
    deleted(found)
    if after_s:
        assert life.wait(after_s - 0.1)["phase"] == "Running"
        assert not life.is_over
        life.wait(0.1)
    life.settle()
    assert (life.is_over, life.pod["status"]["phase"]) == (True, phase)


def test_a_pod_that_has_ended_only_has_to_go() -> None:
    life = Life(of_job(pod()))
    before = life.settle()
    deleted(life.pod)
    assert (life.settle(), life.is_over) == (before, True)


def test_ephemeral_containers_run() -> None:
    life = Life(pod())
    life.settle()
    life.pod["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "busybox"}]
    assert state_of(life.settle(), "debug", "ephemeralContainerStatuses") == "running x0"
    assert life.conditions()["Ready"] == "True"


def test_a_resize_is_carried_out() -> None:
    life = Life(pod())
    life.settle()
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}
    life.pod["spec"]["containers"][0]["resources"] = resources
    life.pod["metadata"]["generation"] = 2
    status = life.settle()
    (container,) = status["containerStatuses"]
    assert (container["resources"], container["allocatedResources"]) == (resources, {"cpu": "2"})
    assert (status["observedGeneration"], container["restartCount"]) == (2, 0)


def test_another_image_restarts_the_container() -> None:
    life = Life(pod())
    life.settle()
    life.pod["spec"]["containers"][0]["image"] = "i:2"
    status = life.settle()
    assert (state_of(status), status["containerStatuses"][0]["image"]) == ("running x1", "i:2")


def test_annotations_say_what_becomes_of_a_pod() -> None:
    found = pod(
        annotations={"exit-code": "3", "duration": "2s", "reason": "OOMKilled"}, restartPolicy="Never"
    )
    life = Life(found, *stages_for(found, [Stage(phase="Pending")]))
    assert life.wait(1.9)["phase"] == "Running"
    ended = life.wait(0.1)["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "OOMKilled")


def test_a_delay_is_not_cut_short_by_times_in_whole_seconds() -> None:
    found, stage = of_job(pod()), Stage(phase="Succeeded", duration_s=0.5)
    began = NOW_S + 0.9
    found["status"] = next_step(found, [stage], ADDRESSES, StatusTime(began)).status
    step = next_step(found, [stage], ADDRESSES, StatusTime(began + 0.2, dropped_s=0.9))
    assert step.again_s == pytest.approx(0.3, abs=1e-5)


# What clients may make of the status of a container: the field that they write, and what is in it.
PARTS: Final[dict[str, Document]] = {
    "its name alone": {},
    "no state": {"restartCount": 2, "state": None},
    "it runs, nobody knows since when": {"restartCount": None, "state": {"running": None}},
    "it has ended, nobody knows how": {"state": {"terminated": {}}, "lastState": None},
    "it has ended before": {"state": {}, "lastState": {"terminated": {"exitCode": 1}}},
    "it waits after nothing": {"state": {"waiting": {}}, "lastState": {"running": {}}},
    "it never began": {"state": {"running": {"startedAt": None}}, "image": None},
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("restart_policy", ["Always", "OnFailure", "Never"])
def test_a_status_of_which_a_part_was_written_is_completed(part: Document, restart_policy: str) -> None:
    found = pod(restartPolicy=restart_policy, initContainers=[{"name": "i", "image": "i"}])
    found["status"] |= {
        "startTime": None,
        "initContainerStatuses": [{"name": "i", **part}],
        "containerStatuses": [{"name": "c", **part}],
    }
    status = Life(found, FAILS).wait(1_000)
    assert status["phase"] in {"Pending", "Running", "Failed", "Succeeded"}
    assert status["startTime"]
    for each in (*status["initContainerStatuses"], *status["containerStatuses"]):
        assert {"state", "lastState", "restartCount", "ready", "image"} <= each.keys()
