"""Unmodified kubectl: the newest of this machine, and with the slow tests the oldest."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.api import Api
from tests.support.eventually import WITHIN_S
from tests.support.kubectl import DEPLOYMENT, Kubectl, oldest_and_newest, program, rows
from tests.support.objects import CONTAINERS, template
from tests.support.served import BUILT_IN
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.kubectl


@pytest.fixture(params=oldest_and_newest())
def kubectl(request: pytest.FixtureRequest, server: ServerProcess, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(program(request.param), server.kubeconfig, namespace, tmp_path)


def test_create_look_change_delete(kubectl: Kubectl) -> None:
    """kubectl creates, reads, changes and deletes an object."""
    assert kubectl("create", "configmap", "a", "--from-literal=k=v") == "configmap/a created\n"
    assert rows(kubectl("get", "configmaps"))[0] == ["NAME", "DATA", "AGE"]
    assert rows(kubectl("get", "cm", "a", "--no-headers"))[0][:2] == ["a", "1"]
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}") == "v"
    assert kubectl("get", "cm", "a", "-o", "name") == "configmap/a\n"
    assert kubectl("get", "cm", "-o", "custom-columns=N:.metadata.name,V:.data.k") == "N     V\na     v\n"
    assert kubectl("get", "cm", "a", "-o", "go-template={{.data.k}}") == "v"
    assert "kind: ConfigMap\n" in kubectl("get", "cm", "a", "-o", "yaml")

    assert kubectl("label", "cm", "a", "tier=web") == "configmap/a labeled\n"
    assert kubectl("annotate", "cm", "a", "note=text") == "configmap/a annotated\n"
    assert kubectl("get", "cm", "-l", "tier=web", "-o", "name") == "configmap/a\n"
    assert kubectl("get", "cm", "-l", "tier!=web", "-o", "name") == ""
    assert kubectl("label", "cm", "a", "tier-") == "configmap/a unlabeled\n"

    merge = '{"data":{"k":"merged","l":"new"}}'
    assert kubectl("patch", "cm", "a", "--type=merge", "-p", merge) == "configmap/a patched\n"
    json_patch = '[{"op":"test","path":"/data/k","value":"merged"},{"op":"remove","path":"/data/l"}]'
    assert kubectl("patch", "cm", "a", "--type=json", "-p", json_patch) == "configmap/a patched\n"
    assert kubectl.json("get", "cm", "a")["data"] == {"k": "merged"}
    assert "no change" in kubectl("patch", "cm", "a", "--type=json", "-p", "[]")

    document = kubectl("get", "cm", "a", "-o", "yaml").replace("merged", "replaced")
    assert kubectl("replace", "-f", "-", stdin=document) == "configmap/a replaced\n"
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.data.k}") == "replaced"
    assert kubectl("delete", "cm", "a") == 'configmap "a" deleted\n'
    end = kubectl.run("get", "cm", "a")
    assert (end.returncode, end.stderr) == (1, 'Error from server (NotFound): configmaps "a" not found\n')


def test_objects_from_files(kubectl: Kubectl) -> None:
    """`create -f` checks against our OpenAPI first: what it does not know is told before it is sent."""
    assert kubectl("create", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    assert rows(kubectl("get", "deployments"))[0] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    wide = rows(kubectl("get", "deploy", "web", "-o", "wide"))
    assert wide[0][-3:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert wide[1][-3:] == ["web", "nginx:1", "app=web"]
    described = kubectl("describe", "deployment", "web")
    assert re.search(r"^Name: +web$", described, re.MULTILINE)
    end = kubectl.run("create", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replica: 2"))
    assert end.returncode == 1
    assert 'unknown field "spec.replica"' in end.stderr
    again = kubectl.run("create", "-f", "-", stdin=DEPLOYMENT)
    assert "(AlreadyExists)" in again.stderr
    assert kubectl("delete", "deployments", "--all") == 'deployment.apps "web" deleted\n'


def test_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    said = kubectl("create", "configmap", "a", "--dry-run=server")
    assert said == "configmap/a created (server dry run)\n"
    assert kubectl("get", "cm", "-o", "name") == ""


def test_lists_in_pages(kubectl: Kubectl, server: ServerProcess, api: Api, namespace: str) -> None:
    """Row K45: pages of one item each make the same list."""
    for number in range(5):
        api.post(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": f"c{number}"}}).ok()
    names = [f"configmap/c{number}" for number in range(5)]
    paged = kubectl("get", "cm", "--chunk-size=1", "-o", "name")
    assert paged.split() == names
    assert len(kubectl.json("get", "cm", "--chunk-size=2")["items"]) == 5
    assert len(rows(kubectl("get", "cm", "--chunk-size=1"))) == 6


def test_everywhere(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "configmap", "a")
    table = rows(kubectl("get", "configmaps", "-A"))
    assert table[0][:2] == ["NAMESPACE", "NAME"]
    assert [namespace, "a"] in [row[:2] for row in table]
    listed = kubectl("get", "configmap,namespaces,deployments.apps", "-A", "-o", "name").split()
    assert f"namespace/{namespace}" in listed
    assert "configmap/a" in listed
    by_name = kubectl("get", "cm", "-A", "--field-selector=metadata.name=a", "-o", "name")
    assert set(by_name.split()) == {"configmap/a"}


def test_watching(kubectl: Kubectl, api: Api, namespace: str) -> None:
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    api.post(configmaps, {"metadata": {"name": "a"}}).ok()
    watching = kubectl.start("get", "cm", "-w", "--output-watch-events")
    alarm = threading.Timer(WITHIN_S, watching.kill)
    alarm.start()
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split() == ["EVENT", "NAME", "DATA", "AGE"]
        seen = [watching.stdout.readline()]
        api.patch(f"{configmaps}/a", {"data": {"k": "v"}}).ok()
        api.post(configmaps, {"metadata": {"name": "b"}}).ok()
        api.delete(f"{configmaps}/a").ok()
        seen += [watching.stdout.readline() for _ in range(3)]
    finally:
        alarm.cancel()
        watching.kill()
        watching.communicate()
    assert [line.split()[:2] for line in seen] == [
        ["ADDED", "a"],
        ["MODIFIED", "a"],
        ["ADDED", "b"],
        ["DELETED", "a"],
    ]


def test_waiting(kubectl: Kubectl, api: Api, namespace: str) -> None:
    """`wait` lists, then watches one item from there."""
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    api.post(configmaps, {"metadata": {"name": "a"}, "data": {"k": "before"}}).ok()
    waiting = kubectl.start("wait", "cm/a", "--for=jsonpath={.data.k}=after", f"--timeout={WITHIN_S}s")
    api.patch(f"{configmaps}/a", {"data": {"k": "after"}}).ok()
    said, errors = waiting.communicate(timeout=WITHIN_S)
    assert (said, errors) == ("configmap/a condition met\n", "")
    waiting = kubectl.start("delete", "cm", "a", "--wait")
    assert waiting.communicate(timeout=WITHIN_S)[0] == 'configmap "a" deleted\n'


def test_what_the_server_is_and_has(kubectl: Kubectl, api: Api) -> None:
    version = kubectl.run("version")
    assert re.search(r"^Server Version: .*v1\.\d+", version.stdout, re.MULTILINE), version.stdout
    resources = {row[0]: row for row in rows(kubectl("api-resources"))}
    assert resources["configmaps"] == ["configmaps", "cm", "v1", "true", "ConfigMap"]
    assert resources["namespaces"] == ["namespaces", "ns", "v1", "false", "Namespace"]
    assert resources["deployments"] == ["deployments", "deploy", "apps/v1", "true", "Deployment"]
    assert {"v1", "apps/v1", "batch/v1"} <= set(kubectl("api-versions").split())
    assert "replicas" in kubectl("explain", "deployment.spec")
    assert kubectl("get", "--raw", "/readyz") == "ok"
    without_colours = re.sub(r"\x1b\[[\d;]*m", "", kubectl("cluster-info"))
    assert without_colours.startswith(f"Kubernetes control plane is running at {api.server.url}\n")


def every_type(api: Api) -> list[tuple[str, str]]:
    """Version and resource of every built-in type."""
    documents = [api.get(root).ok() for root in BUILT_IN]
    return [
        (document["groupVersion"], each["name"])
        for document in documents
        for each in document["resources"]
        if "/" not in each["name"]
    ]


def assert_explains_everything(kubectl: Kubectl, types: list[tuple[str, str]]) -> None:
    """Row I20: what `explain` has learnt."""

    def explain(each: tuple[str, str]) -> str:
        version, name = each
        return kubectl("explain", "--recursive", f"--api-version={version}", name)

    kubectl("api-versions")  # Its cache is filled by one, not by four at the same time.
    with ThreadPoolExecutor(4) as pool:
        texts = dict(zip(types, pool.map(explain, types), strict=True))
    for each, text in texts.items():
        assert re.search(r"^KIND: +\w+$", text, re.MULTILINE), each
        assert re.search(r"^FIELDS:$", text, re.MULTILINE), each
        assert re.search(r"^  apiVersion\t+<string>$", text, re.MULTILINE), each
    assert re.search(r"^ +livenessProbe\t+<Probe>$", texts["v1", "pods"], re.MULTILINE)
    assert re.search(
        r"^ +selector\t+<LabelSelector> -required-$", texts["apps/v1", "deployments"], re.MULTILINE
    )


@pytest.mark.parametrize("version", oldest_and_newest(pytest.mark.slow))
def test_every_type_is_explained(
    version: str, server: ServerProcess, api: Api, namespace: str, tmp_path: Path
) -> None:
    kubectl = Kubectl(program(version), server.kubeconfig, namespace, tmp_path)
    assert_explains_everything(kubectl, every_type(api))
    # What is read in protobuf, from OpenAPI v2.
    old = kubectl("explain", "--output=plaintext-openapiv2", "deployment.spec.template.spec.containers.ports")
    assert re.search(r"^ +containerPort\t<integer> -required-", old, re.MULTILINE)


def test_a_server_that_only_checks(kubectl: Kubectl) -> None:
    """Row I20: old versions learn from OpenAPI that they may ask for this, and how lists merge."""
    assert kubectl("create", "--dry-run=server", "-f", "-", stdin=DEPLOYMENT) == (
        "deployment.apps/web created (server dry run)\n"
    )
    assert kubectl("create", "--dry-run=client", "--validate=strict", "-f", "-", stdin=DEPLOYMENT) == (
        "deployment.apps/web created (dry run)\n"
    )
    wrong = DEPLOYMENT.replace("replicas: 2", "replica: 2")
    end = kubectl.run("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=wrong)
    assert 'unknown field "spec.replica"' in end.stderr
    assert kubectl("apply", "--dry-run=server", "-f", "-", stdin=DEPLOYMENT) == (
        "deployment.apps/web created (server dry run)\n"
    )
    assert kubectl("get", "deployments", "-o", "name") == ""


def test_a_namespace_comes_and_goes(kubectl: Kubectl, namespace: str) -> None:
    """Deleting waits until what was in it is gone."""
    name = f"{namespace}-own"
    assert kubectl("create", "namespace", name) == f"namespace/{name} created\n"
    assert rows(kubectl("get", "ns", name))[1][:2] == [name, "Active"]
    kubectl("-n", name, "create", "configmap", "a")
    # kubectl warns that a namespace is not in the namespace it was told to work in.
    assert kubectl.run("delete", "namespace", name).stdout == f'namespace "{name}" deleted\n'
    assert "NotFound" in kubectl.run("get", "ns", name).stderr


def test_a_user_without_rights(kubectl: Kubectl, server: ServerProcess) -> None:
    end = kubectl.run(
        "--token=alice-token",
        "--client-certificate=",
        "get",
        "cm",
        "--kubeconfig=/dev/null",
        f"--server={server.url}",
        f"--certificate-authority={server.ca_path}",
    )
    assert end.returncode == 1
    assert "Forbidden" in end.stderr
    assert 'User "alice" cannot list resource "configmaps"' in end.stderr


def test_drain_and_debug(kubectl: Kubectl, api: Api, namespace: str) -> None:
    """A node is drained of its pods, as their budgets allow, but for those of DaemonSets."""
    node = f"node-{namespace}"
    api.post("/api/v1/nodes", {"metadata": {"name": node}}).ok()
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def create(name: str, **owner: str) -> None:
        owners = [{**owner, "name": "o", "uid": "u", "controller": True}] if owner else []
        spec = {"nodeName": node, "containers": CONTAINERS, "automountServiceAccountToken": False}
        meta = {"name": name, "labels": {"app": name}, "ownerReferences": owners}
        api.post(pods, {"metadata": meta, "spec": spec}).ok()
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        api.patch(f"{pods}/{name}/status", {"status": status}).ok()

    sets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
    daemons = {"selector": {"matchLabels": {"app": "daemon"}}, "template": template("daemon")}
    api.post(sets, {"metadata": {"name": "o"}, "spec": daemons}).ok()
    create("daemon", apiVersion="apps/v1", kind="DaemonSet")
    create("replica", apiVersion="apps/v1", kind="ReplicaSet")
    create("kept")
    kubectl("create", "poddisruptionbudget", "b", "--selector=app=kept", "--min-available=1")
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    seen = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
    api.patch(f"{budgets}/b/status", {"status": {**seen, "expectedPods": 2}}).ok()

    debug = ("debug", "kept", "--image=busybox", "--container=d", "--attach=false")
    assert kubectl.run(*debug).returncode == 0  # with a warning about the profile
    (debugger,) = api.get(f"{pods}/kept").ok()["spec"]["ephemeralContainers"]
    assert (debugger["name"], debugger["image"]) == ("d", "busybox")

    drain = ("drain", node, "--ignore-daemonsets", "--force", "--grace-period=0", "--delete-emptydir-data")
    drained = kubectl.run(*drain)
    assert drained.returncode == 0, drained.stderr
    assert f"node/{node} drained\n" in drained.stdout
    assert [each["metadata"]["name"] for each in api.get(pods).ok()["items"]] == ["daemon"]
    status = api.get(f"{budgets}/b").ok()["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["kept"])
    assert api.get(f"/api/v1/nodes/{node}").ok()["spec"]["unschedulable"] is True
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
