"""Workloads with `--simulate-workloads`: their pods, their status, and kubectl that waits for these.

https://kubernetes.io/docs/concepts/workloads/controllers/
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.meta.conditions import find_condition, is_condition_true
from apiserver.testing import ApiServer
from tests.support.eventually import until
from tests.support.kubectl import Kubectl, oldest_and_newest, program
from tests.testing.simulated import PODS, is_ready, patch, simulating

FLAGS: Final = ("--simulate-nodes=2", "--simulate-workloads")
KINDS: Final = (
    "pods",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "jobs",
    "controllerrevisions",
    "endpointslices",
    "events",
)


original = simulating("--simulate-workloads")


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
    }
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, "template": template, **spec},
    }


def job(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    ours = {f"simulate.apiserver/{key}": text for key, text in (annotations or {}).items()}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"metadata": {"annotations": ours}, "spec": pod}, **spec},
    }


def is_rolled_out(found: dict[str, Any]) -> bool:
    status, wanted = found.get("status", {}), found["spec"]["replicas"]
    counters = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    is_observed = status.get("observedGeneration") == found["metadata"]["generation"]
    return is_observed and all(status.get(each, 0) == wanted for each in counters)


def items(server: ApiServer, path: str) -> list[dict[str, Any]]:
    code, answer = server.request("GET", path)
    assert code == 200, answer
    found: list[dict[str, Any]] = answer["items"]
    return found


def roll_out(server: ApiServer, replicas: int) -> None:
    """Creates the Deployment `web`, and waits until all its pods are available."""
    server.load(workload("Deployment", "web", replicas=replicas))
    server.wait_for("Deployment", "web", "default", until=is_rolled_out)


def run_long_job(server: ApiServer, **spec: Any) -> dict[str, Any]:
    """Creates the Job `long`, and returns its pod, which is ready."""
    server.load(job("long", {"duration": "1h"}, **spec))
    server.wait_for("Job", "long", "default", until=lambda it: it.get("status", {}).get("ready") == 1)
    (pod,) = items(server, PODS)
    return pod


def limit_pods(server: ApiServer, count: int) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}}
    server.load({**quota, "spec": {"hard": {"pods": str(count)}}})
    server.wait_for("ResourceQuota", "q", "default", until=lambda it: "used" in it.get("status", {}))


APPS: Final = "/apis/apps/v1/namespaces/default"
JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"


def test_everything_settles(server: ApiServer) -> None:
    server.load(
        workload("Deployment", "web", replicas=2),
        workload("StatefulSet", "db", replicas=2, serviceName="db"),
        workload("DaemonSet", "agent"),
        job("done", completions=2),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
    )
    for kind, name in (("Deployment", "web"), ("StatefulSet", "db")):
        server.wait_for(kind, name, "default", until=is_rolled_out)
    server.wait_for(
        "DaemonSet", "agent", "default", until=lambda it: it.get("status", {}).get("numberAvailable") == 2
    )
    server.wait_for("Job", "done", "default", until=lambda it: is_condition_true(it, "Complete"))
    slices = items(server, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")
    (found,) = [each for each in slices if each["metadata"]["labels"]["kubernetes.io/service-name"] == "web"]
    server.wait_for(
        "EndpointSlice",
        found["metadata"]["name"],
        "default",
        until=lambda it: sum(each["conditions"]["ready"] for each in it["endpoints"] or ()) == 2,
    )
    server.assert_quiet(*KINDS, seconds=0.5)


def test_pods_are_admitted_as_those_of_other_clients_are(server: ApiServer) -> None:
    roll_out(server, 1)
    (pod,) = items(server, PODS)
    assert pod["spec"]["serviceAccountName"] == "default"
    assert pod["metadata"]["managedFields"][0]["manager"] == "kube-controller-manager"


def test_what_a_quota_refuses_is_told(server: ApiServer) -> None:
    limit_pods(server, 1)
    server.load(workload("Deployment", "web", replicas=2))
    found = server.wait_for(
        "Deployment", "web", "default", until=lambda it: is_condition_true(it, "ReplicaFailure")
    )
    condition = find_condition(found, "ReplicaFailure")
    assert condition is not None
    assert "exceeded quota" in condition["message"]
    patch(server, "/api/v1/namespaces/default/resourcequotas/q", {"spec": {"hard": {"pods": "9"}}})
    found = server.wait_for("Deployment", "web", "default", until=is_rolled_out)
    assert find_condition(found, "ReplicaFailure") is None


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment"])
def test_what_a_quota_refuses_is_not_tried_without_a_pause(server: ApiServer, kind: str) -> None:
    """Each pod that is refused has another name, which is in the message."""
    limit_pods(server, 0)
    server.load(workload(kind, "web", replicas=5))
    server.wait_for(kind, "web", "default", until=lambda it: is_condition_true(it, "ReplicaFailure"))
    server.assert_quiet("replicasets", "deployments", seconds=0.5)


def test_a_job_that_fails(server: ApiServer) -> None:
    server.load(job("bad", {"exit-code": "3"}, backoffLimit=0))
    found = server.wait_for("Job", "bad", "default", until=lambda it: is_condition_true(it, "Failed"))
    assert found["status"]["failed"] == 1
    assert server.request("DELETE", f"{JOBS}/bad", query={"propagationPolicy": "Background"})[0] == 200
    for pod in items(server, PODS):
        server.wait_until_gone("Pod", pod["metadata"]["name"], "default")


def test_pods_of_a_job_go_with_it_while_they_run(server: ApiServer) -> None:
    pod = run_long_job(server)
    assert server.request("DELETE", f"{JOBS}/long", query={"propagationPolicy": "Background"})[0] == 200
    server.wait_until_gone("Pod", pod["metadata"]["name"], "default")


def test_pods_that_a_job_has_left_behind_can_be_deleted(server: ApiServer) -> None:
    pod = run_long_job(server)
    assert server.request("DELETE", f"{JOBS}/long", query={"propagationPolicy": "Orphan"})[0] == 200
    server.wait_until_gone("Job", "long", "default")
    name = pod["metadata"]["name"]
    server.wait_for("Pod", name, "default", until=lambda it: "finalizers" not in it["metadata"])
    assert server.request("DELETE", f"{PODS}/{name}")[0] == 200
    server.wait_until_gone("Pod", name, "default")


def test_a_failure_policy_knows_pods_whose_node_is_gone(server: ApiServer) -> None:
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    pod = run_long_job(server, podFailurePolicy=policy, backoffLimit=0)
    assert server.request("DELETE", f"/api/v1/nodes/{pod['spec']['nodeName']}")[0] == 200
    server.wait_until_gone("Pod", pod["metadata"]["name"], "default")
    found = server.wait_for("Job", "long", "default", until=lambda it: it["status"].get("ready") == 1)
    assert "failed" not in found["status"]


def test_a_node_that_goes_takes_its_pods_to_others(server: ApiServer) -> None:
    roll_out(server, 4)
    assert {pod["spec"]["nodeName"] for pod in items(server, PODS)} == {"simulated-0", "simulated-1"}
    assert server.request("DELETE", "/api/v1/nodes/simulated-0")[0] == 200
    # All may be over before anybody looks: that the Deployment lacked pods meanwhile is not waited for.
    until(lambda: [pod["spec"].get("nodeName") for pod in items(server, PODS)] == ["simulated-1"] * 4)
    server.wait_for("Deployment", "web", "default", until=is_rolled_out)


def test_an_orphaned_replica_set_is_adopted(server: ApiServer) -> None:
    roll_out(server, 2)
    pods = {pod["metadata"]["uid"] for pod in items(server, PODS)}
    assert (
        server.request("DELETE", f"{APPS}/deployments/web", query={"propagationPolicy": "Orphan"})[0] == 200
    )
    server.wait_until_gone("Deployment", "web", "default")
    roll_out(server, 2)
    assert {pod["metadata"]["uid"] for pod in items(server, PODS)} == pods


def test_adopted_pods_are_enough_at_once(server: ApiServer) -> None:
    template = workload("ReplicaSet", "web")["spec"]["template"]
    names = {"web-a", "web-b"}
    for name in names:
        meta = {**template["metadata"], "name": name, "namespace": "default"}
        server.load({**template, "apiVersion": "v1", "kind": "Pod", "metadata": meta})
    server.load(workload("ReplicaSet", "web", replicas=2))
    server.wait_for("ReplicaSet", "web", "default", until=lambda it: it["status"].get("readyReplicas") == 2)
    prefix = "/registry/core/pods/default/"
    written = {key for each in server.writes() for key in each.keys if key.startswith(prefix)}
    assert written == {f"{prefix}{name}" for name in names}


def test_without_the_flag_the_status_is_somebody_elses() -> None:
    with ApiServer(flags=["--simulate-nodes=1"]) as server:
        server.load(workload("Deployment", "web", replicas=1))
        server.wait_for("Node", "simulated-0", until=is_ready)
        server.assert_quiet("pods", "deployments", "replicasets", seconds=0.3)


def test_a_server_that_starts_again_goes_on(tmp_path: Path) -> None:
    with ApiServer(flags=FLAGS, data_dir=tmp_path / "data") as server:
        server.wait_for("ServiceAccount", "default", "default")
        server.load(workload("Deployment", "web", replicas=3), job("long", {"duration": "1s"}, completions=4))
        server.wait_for("Deployment", "web", "default", until=is_rolled_out)
        server.wait_for("Job", "long", "default", until=lambda it: it.get("status", {}).get("active") == 1)
        pods = {pod["metadata"]["name"] for pod in items(server, PODS)}
    with ApiServer(flags=FLAGS, data_dir=tmp_path / "data") as server:
        server.wait_for("Job", "long", "default", until=lambda it: is_condition_true(it, "Complete"))
        assert pods <= {pod["metadata"]["name"] for pod in items(server, PODS)}
        assert len(items(server, PODS)) == 7


@pytest.mark.parametrize("release", ["1.20", "1.27", "1.37"])
def test_releases(release: str) -> None:
    with ApiServer(flags=[*FLAGS, f"--emulated-version={release}"]) as server:
        server.wait_for("ServiceAccount", "default", "default")
        server.load(workload("Deployment", "web", replicas=2), job("done"))
        server.wait_for("Deployment", "web", "default", until=is_rolled_out)
        server.wait_for("Job", "done", "default", until=lambda it: is_condition_true(it, "Complete"))
        server.assert_quiet("pods", "deployments", "replicasets", "jobs", "nodes", seconds=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("version", oldest_and_newest())
def test_long_flows_of_kubectl(server: ApiServer, version: str, tmp_path: Path) -> None:
    kubectl = Kubectl(program(version), server.kubeconfig, "default", tmp_path)

    def await_rollout(what: str) -> None:
        told = "partitioned roll out complete" if what == "statefulset/db" else "successfully rolled out"
        assert told in kubectl("rollout", "status", what, "--timeout=60s")

    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=3")
    await_rollout("deployment/web")
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    await_rollout("deployment/web")
    history = kubectl("rollout", "history", "deployment/web").split()
    assert history[-4:] == ["1", "<none>", "2", "<none>"]
    kubectl("rollout", "undo", "deployment/web")
    await_rollout("deployment/web")
    assert (
        kubectl.json("get", "deployment/web")["spec"]["template"]["spec"]["containers"][0]["image"]
        == "nginx:1"
    )
    kubectl("rollout", "restart", "deployment/web")
    await_rollout("deployment/web")
    kubectl("rollout", "pause", "deployment/web")
    kubectl("rollout", "resume", "deployment/web")
    kubectl("scale", "deployment/web", "--replicas=5")
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=5", "deployment/web", "--timeout=60s")
    assert kubectl.run("drain", "simulated-0").returncode == 0
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=5", "deployment/web", "--timeout=60s")
    nodes = {pod["spec"]["nodeName"] for pod in kubectl.json("get", "pods")["items"]}
    assert nodes == {"simulated-1"}
    kubectl("uncordon", "simulated-0")
    kubectl("delete", "deployment/web")
    kubectl("wait", "--for=delete", "pod", "-l", "app=web", "--timeout=60s")

    kubectl("run", "one", "--image=nginx")
    kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s")
    kubectl("delete", "pod/one")
    kubectl("create", "job", "hello", "--image=busybox")
    kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=60s")

    kubectl("apply", "-f", "-", stdin=SETS)
    await_rollout("daemonset/agent")
    await_rollout("statefulset/db")
    for what in ("daemonset/agent", "statefulset/db"):
        kubectl("set", "image", what, "c=i:2")
        await_rollout(what)
        kubectl("rollout", "undo", what)
        await_rollout(what)
        assert kubectl.json("get", what)["spec"]["template"]["spec"]["containers"][0]["image"] == "i:1"
    kubectl("delete", "statefulset/db", "daemonset/agent", "job/hello")
    kubectl("wait", "--for=delete", "pod", "-l", "app", "--timeout=60s")
    server.assert_quiet(*KINDS, seconds=0.5)


SETS: Final = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: "i:1"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: "i:1"}]}
"""
