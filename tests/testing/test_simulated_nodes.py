"""Pods on simulated nodes: bound, running, ready, ended, restarted and deleted.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.meta.conditions import find_condition
from apiserver.testing import ApiServer, ServerDidNotStart
from tests.support.eventually import until
from tests.support.objects import pod
from tests.testing.simulated import (
    NODES,
    PODS,
    add_pod,
    await_phase,
    is_ready,
    patch,
    restarts,
    run_pod,
    simulating,
)

# What a pod may cost until it runs, in what its creation costs: it is written twice more. 2.5 are measured.
COST_MAX: Final = 6.0


original = simulating()


def test_nodes_are_what_a_cluster_has(server: ApiServer) -> None:
    node = server.wait_for("Node", "simulated-1")
    status = node["status"]
    assert status["nodeInfo"]["kubeletVersion"].startswith("v1.")
    assert {each["type"] for each in status["addresses"]} == {"InternalIP", "Hostname"}
    assert status["allocatable"]["pods"] == "110"
    lease = server.wait_for("Lease", "simulated-1", "kube-node-lease")
    assert lease["spec"]["holderIdentity"] == "simulated-1"
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


def test_a_pod_runs(server: ApiServer) -> None:
    pod = run_pod(server)
    assert pod["status"]["phase"] == "Running"
    assert pod["spec"]["nodeName"] in ("simulated-0", "simulated-1")
    writers = {(each["manager"], each.get("subresource")) for each in pod["metadata"]["managedFields"]}
    assert ("kubelet", "status") in writers


def test_what_has_settled_is_not_written_again(server: ApiServer) -> None:
    for name in ("a", "b"):
        run_pod(server, name=name)
    server.assert_quiet("pods", "nodes", "events", seconds=0.5)


def test_each_pod_has_an_address_of_its_own(server: ApiServer) -> None:
    pods = [run_pod(server, name=name) for name in ("a", "b", "c")]
    assert len({pod["status"]["podIP"] for pod in pods}) == 3
    assert {pod["spec"]["nodeName"] for pod in pods} == {"simulated-0", "simulated-1"}


def test_a_pod_ends_as_its_annotations_say(server: ApiServer) -> None:
    add_pod(server, "ends", {"exit-code": "3", "message": "no input"}, restartPolicy="Never")
    pod = await_phase(server, "ends", "Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (3, "no input")


def test_a_pod_that_crashes_is_restarted(server: ApiServer) -> None:
    add_pod(server, "crashes", {"phase": "Failed", "times": "2", "restart-delay": "50ms"})
    pod = server.wait_for("Pod", "crashes", "default", until=lambda it: is_ready(it) and restarts(it) == 2)
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_annotations_that_cannot_be_read_are_told(server: ApiServer) -> None:
    run_pod(server, {"exit-kode": "3"})
    (told,) = until(
        lambda: [each["message"] for each in events(server) if each["reason"] == "InvalidSimulation"]
    )
    assert "exit-kode" in told


def events(server: ApiServer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.request("GET", "/api/v1/namespaces/default/events")[1]["items"]
    return found


def test_a_pod_goes_gracefully(server: ApiServer) -> None:
    run_pod(server, {"termination-delay": "300ms"})
    assert server.request("DELETE", f"{PODS}/p")[1]["metadata"]["deletionGracePeriodSeconds"] == 30
    server.wait_until_gone("Pod", "p", "default")


def test_a_pod_that_fits_nowhere_waits(server: ApiServer) -> None:
    add_pod(server, "picky", nodeSelector={"disk": "ssd"})
    pod = server.wait_for(
        "Pod", "picky", "default", until=lambda it: find_condition(it, "PodScheduled") is not None
    )
    condition = find_condition(pod, "PodScheduled")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"].startswith("0/2 nodes are available: 2 node(s) didn't match")
    patch(server, f"{NODES}/simulated-1", {"metadata": {"labels": {"disk": "ssd"}}})
    pod = server.wait_for("Pod", "picky", "default", until=is_ready)
    assert pod["spec"]["nodeName"] == "simulated-1"


def looked_at(server: ApiServer) -> int:
    """How often the scheduler was to look at something."""
    _, text = server.request("GET", "/metrics")
    (count,) = re.findall(r'^workqueue_adds_total{name="simulated-scheduler"} (\d+)', text, re.MULTILINE)
    return int(count)


def await_told(server: ApiServer, name: str, what: str) -> None:
    def is_told(found: dict[str, Any]) -> bool:
        return what in (find_condition(found, "PodScheduled") or {}).get("message", "")

    server.wait_for("Pod", name, "default", until=is_told)


def test_of_alike_pods_that_fit_nowhere_one_is_tried_when_a_node_changes(server: ApiServer) -> None:
    for number in range(100):
        add_pod(server, f"p-{number}", nodeSelector={"disk": "ssd"})
    await_told(server, "p-99", "0/2 nodes are available: 2 node(s) didn't match")
    before = looked_at(server)
    patch(server, f"{NODES}/simulated-0", {"metadata": {"labels": {"disk": "hdd"}}})
    # It comes after what the change has had tried.
    add_pod(server, "later", nodeSelector={"disk": "none"})
    await_told(server, "later", "0/2 nodes are available")
    assert looked_at(server) - before < 50


def test_each_pod_is_bound_for_which_there_is_room_then(server: ApiServer) -> None:
    requests = {"requests": {"example.com/gpu": "1"}}
    for number in range(5):
        container = {"name": "c", "image": "i", "resources": {**requests, "limits": requests["requests"]}}
        add_pod(server, f"p-{number}", containers=[container])
    await_told(server, "p-4", "2 Insufficient example.com/gpu")
    for room in (2, 4):
        gpus = {"example.com/gpu": str(room)}
        patch(server, f"{NODES}/simulated-1/status", {"status": {"capacity": gpus, "allocatable": gpus}})
        until(lambda: len(bound(server)), room.__eq__)
    assert server.request("DELETE", f"{PODS}/p-0", query={"gracePeriodSeconds": "0"})[0] == 200
    until(lambda: bound(server) == {"p-1", "p-2", "p-3", "p-4"})


def bound(server: ApiServer) -> set[str]:
    pods = server.request("GET", PODS)[1]["items"]
    return {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}


def test_a_pod_is_told_anew_why_it_waits_when_nodes_change(server: ApiServer) -> None:
    add_pod(server, "picky", nodeSelector={"disk": "ssd"})
    await_told(server, "picky", "0/2 nodes are available: 2 node(s) didn't match")
    patch(server, f"{NODES}/simulated-0", {"spec": {"unschedulable": True}})
    await_told(server, "picky", "1 node(s) were unschedulable")
    assert server.request("DELETE", f"{NODES}/simulated-0")[0] == 200
    await_told(server, "picky", "0/1 nodes are available")


def test_gates_and_other_schedulers_are_respected(server: ApiServer) -> None:
    add_pod(server, "gated", schedulingGates=[{"name": "example.com/quota"}])
    add_pod(server, "others", schedulerName="volcano")
    run_pod(server, name="ours")
    assert "nodeName" not in server.wait_for("Pod", "others", "default")["spec"]
    patch(server, f"{PODS}/gated", {"spec": {"schedulingGates": None}})
    server.wait_for("Pod", "gated", "default", until=is_ready)
    assert "nodeName" not in server.wait_for("Pod", "others", "default")["spec"]


def test_pods_of_a_deleted_node_go_and_the_node_stays_away(server: ApiServer) -> None:
    for name in ("a", "b"):
        run_pod(server, name=name)
    gone = server.wait_for("Pod", "a", "default")["spec"]["nodeName"]
    assert server.request("DELETE", f"{NODES}/{gone}")[0] == 200
    server.wait_until_gone("Pod", "a", "default")
    server.wait_for("Pod", "b", "default", until=is_ready)
    server.assert_quiet("nodes", "pods", seconds=0.3)


def test_nodes_of_others_can_be_simulated(server: ApiServer) -> None:
    node = {"metadata": {"name": "gpu", "annotations": {"simulate.apiserver/node": "true"}}}
    node |= {"status": {"capacity": {"cpu": "1", "pods": "5", "example.com/gpu": "2"}}}
    assert server.request("POST", NODES, node)[0] == 201
    limits = {"limits": {"example.com/gpu": "1"}}
    pod = run_pod(server, containers=[{"name": "c", "image": "i", "resources": limits}])
    assert pod["spec"]["nodeName"] == "gpu"


def test_nodes_of_others_are_left_alone(server: ApiServer) -> None:
    assert server.request("POST", NODES, {"metadata": {"name": "real"}})[0] == 201
    add_pod(server, "theirs", nodeName="real")
    run_pod(server, name="ours")
    assert server.wait_for("Pod", "theirs", "default")["status"]["phase"] == "Pending"


STAGES: Final = """
stages:
- match: {labels: {app: broken}}
  phase: Pending
  reason: ImagePullBackOff
- match: {labels: {app: worker}}
  phase: Failed
  exitCode: 42
"""


def test_stages_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(STAGES)
    with ApiServer(flags=["--simulate-nodes=1", f"--simulate-stages={path}"]) as server:
        server.wait_for("ServiceAccount", "default", "default")
        add_pod(server, "broken")
        add_pod(server, "worker", restartPolicy="Never")
        add_pod(server, "other")
        pod = await_phase(server, "worker", "Failed")
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 42
        server.wait_for("Pod", "other", "default", until=is_ready)
        pod = server.wait_for(
            "Pod", "broken", "default", until=lambda it: "containerStatuses" in it["status"]
        )
        assert pod["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "ImagePullBackOff"}}


BAD_FLAGS: Final = {
    "a bad file": (["--simulate-nodes=1"], "stages: {}", r"stages\.yaml:1:1: stages: must be a list"),
    "a contradiction": (
        ["--simulate-nodes=1"],
        "stages:\n- phase: Succeeded\n  exitCode: 3\n",
        r"stages\.yaml:3:3: stages\[0\]\.exitCode: must be 0 when the phase is Succeeded, not 3",
    ),
    "no nodes": ([], "stages: [{}]", "--simulate-stages requires --simulate-nodes"),
    "too many nodes": (["--simulate-nodes=1001"], "stages: []", "1001 is not between 0 and 1000"),
}


@pytest.mark.parametrize(("flags", "stages", "why"), BAD_FLAGS.values(), ids=BAD_FLAGS)
def test_a_server_that_cannot_start_says_why(flags: list[str], stages: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(stages)
    with pytest.raises(ServerDidNotStart, match=why):
        ApiServer(flags=[*flags, f"--simulate-stages={path}"]).start()


def test_a_server_that_starts_again_goes_on(tmp_path: Path) -> None:
    with ApiServer(flags=["--simulate-nodes=1"], data_dir=tmp_path / "data") as server:
        server.wait_for("ServiceAccount", "default", "default")
        add_pod(server, "runs")
        add_pod(server, "ends", {"duration": "1s"}, restartPolicy="Never")
        before = server.wait_for("Pod", "runs", "default", until=is_ready)
        await_phase(server, "ends", "Running")
    with ApiServer(flags=["--simulate-nodes=1"], data_dir=tmp_path / "data") as server:
        await_phase(server, "ends", "Succeeded")
        assert server.wait_for("Pod", "runs", "default")["status"] == before["status"]


def processor_s(server: ApiServer, *, awaits: bool) -> float:
    """The processor time that a hundred pods take, their requests on one connection included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    began = used.ru_utime + used.ru_stime
    with contextlib.closing(server.connect()) as connection:
        for number in range(100):
            headers = {**server.admin_headers, "Content-Type": "application/json"}
            connection.request("POST", PODS, json.dumps(pod(f"p{number}")), headers)
            response = connection.getresponse()
            response.read()
            assert response.status == 201
    if awaits:
        await_ready(server, 100)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime - began


def await_ready(server: ApiServer, count: int) -> None:
    """Wait until so many pods are ready. To poll would cost the more, the busier the machine is."""
    ready: set[str] = set()
    with contextlib.closing(server.connect()) as connection:
        connection.request("GET", f"{PODS}?watch=true", headers=server.admin_headers)
        for line in connection.getresponse():
            changed = json.loads(line)["object"]
            if is_ready(changed):
                ready.add(changed["metadata"]["name"])
            if len(ready) == count:
                return
    raise AssertionError(f"the watch has ended with {len(ready)} pods that are ready")


def test_a_hundred_pods_cost_little(server: ApiServer) -> None:
    with ApiServer() as without:
        without.wait_for("ServiceAccount", "default", "default")
        bare_s = processor_s(without, awaits=False)
    simulated_s = processor_s(server, awaits=True)
    print(f"100 pods: {bare_s:.2f} s of processor time, {simulated_s:.2f} s until they run")
    assert simulated_s < COST_MAX * bare_s
