"""kubectl commands that change an object in place."""

from __future__ import annotations

import copy
import json
from typing import Final

import pytest

from tests.server.kubectl_apply.applier import (
    JOB,
    JOB_SPEC,
    LABELS,
    MODIFIED,
    PATHS,
    Applier,
    container,
    deployment,
    newest,
)
from tests.support.eventually import WITHIN_S

pytestmark = pytest.mark.kubectl

OVERWRITE: Final = "--overwrite is false"

# Commands on the Deployment web of nginx:1, with the exit code and a part of what is said.
COMMANDS: Final[dict[str, list[tuple[str, int, str]]]] = {
    "label": [
        ("label deploy/web app=other", 1, OVERWRITE),
        ("label deploy/web app=other --overwrite", 0, "web labeled"),
        ("label deploy/web app=other --overwrite", 0, "web not labeled"),
        ("label deploy/web app=late --overwrite --resource-version=1", 1, MODIFIED),
        ("label deploy/web x/y/z=1", 1, 'metadata.labels: Invalid value: "x/y/z"'),
        ("label deploy/web tier=x app-", 0, "web unlabeled"),
        ("get deploy -l tier=x,!app -o name", 0, "deployment.apps/web"),
    ],
    "set": [
        ("set image deploy/web *=nginx:7", 0, "image updated"),
        ("set image deploy/web nope=nginx:8", 1, 'unable to find container named "nope"'),
        ("set env deploy/web A=1 B=2", 0, "env updated"),
        ("set env deploy/web A-", 0, "env updated"),
        ("set env deploy/web --list", 0, "B=2"),
        ("set resources deploy/web --limits=cpu=0.5", 0, "resource requirements updated"),
        ("set serviceaccount deploy/web robot", 0, "serviceaccount updated"),
        ("get deploy/web -o jsonpath={..containers[0].image},{..cpu}", 0, "nginx:7,500m"),
        ("get deploy/web -o jsonpath={..serviceAccount}", 0, "robot"),
    ],
    "scale": [
        ("scale deploy/web --replicas=3", 0, "web scaled"),
        ("scale deploy/web --current-replicas=1 --replicas=9", 1, "Expected replicas to be 1, was 3"),
        ("scale deploy/web --current-replicas=3 --replicas=4", 0, "web scaled"),
        ("scale deploy/web --resource-version=1 --replicas=9", 1, "Expected resource version to be 1"),
        ("get deploy/web -o jsonpath={.spec.replicas},{.metadata.generation}", 0, "4,3"),
    ],
}
MORE_COMMANDS: Final[dict[str, list[tuple[str, int, str]]]] = {
    "annotate": [
        ("annotate deploy/web note=1", 0, "web annotated"),
        ("annotate deploy --all note=2", 1, OVERWRITE),
        ("annotate deploy --all note=2 --overwrite", 0, "web annotated"),
        ("get deploy/web -o jsonpath={.metadata.annotations}", 0, '{"note":"2"}'),
        ("annotate deploy/web note-", 0, "web annotated"),
        ("get deploy/web -o jsonpath=[{.metadata.annotations}]", 0, "[]"),
    ],
    "patch": [
        ('patch deploy web -p {"spec":{"replicas":3}}', 0, "web patched"),
        ('patch deploy web -p {"spec":{"replicas":3}}', 0, "web patched (no change)"),
        ('patch deploy web --type=merge -p {"spec":{"paused":true,"replicas":null}}', 0, "web patched"),
        ("get deploy/web -o jsonpath={.spec.replicas},{.spec.paused}", 0, "1,true"),
        ('patch deploy web --type=json -p [{"op":"remove","path":"/spec/paused"}]', 0, "web patched"),
        (
            'patch deploy web --type=json -p [{"op":"test","path":"/spec/replicas","value":2}]',
            1,
            "The request is invalid",
        ),
        ('patch deploy web --subresource=scale --type=merge -p {"spec":{"replicas":6}}', 0, "web patched"),
        (
            'patch deploy web --subresource=status -p {"status":{"replicas":5},"spec":{"replicas":9}}',
            0,
            "web patched",
        ),
        ('patch deploy web --dry-run=server -p {"spec":{"replicas":7}}', 0, "web patched"),
        ("get deploy/web -o jsonpath={.spec.replicas},{.status.replicas},{.spec.paused}", 0, "6,5,"),
        ('patch deploy web -p {"spec":{"replicas":-1}}', 1, "must be greater than or equal to 0"),
        ('patch deploy nope -p {"spec":{"replicas":1}}', 1, "(NotFound)"),
    ],
    "rollout": [
        ("rollout restart deploy/web", 0, "web restarted"),
        ("rollout pause deploy/web", 0, "web paused"),
        ("rollout restart deploy/web", 1, "can't restart paused deployment"),
        ("rollout resume deploy/web", 0, "web resumed"),
        ("rollout history deploy/web", 0, "No rollout history found"),
        ("rollout undo deploy/web", 1, 'no rollout history found for deployment "web"'),
        ("rollout status deploy/web --watch=false", 0, "Waiting for deployment spec update to be observed"),
    ],
}


def does(kubectl: Applier, commands: list[tuple[str, int, str]]) -> None:
    kubectl.api.post(PATHS["deploy"].format(kubectl.namespace), deployment()).ok()
    for command, code, part in commands:
        end = kubectl.run(*command.split(" "))
        assert (end.returncode, part in end.stdout + end.stderr) == (code, True), (command, end)


@pytest.mark.parametrize("commands", COMMANDS.values(), ids=COMMANDS.keys())
def test_commands(kubectl: Applier, commands: list[tuple[str, int, str]]) -> None:
    does(kubectl, commands)


@newest
@pytest.mark.parametrize("commands", MORE_COMMANDS.values(), ids=MORE_COMMANDS.keys())
def test_more_commands(kubectl: Applier, commands: list[tuple[str, int, str]]) -> None:
    does(kubectl, commands)


def test_each_command_owns_what_it_changes(kubectl: Applier) -> None:
    """Row F05: kubectl says its name and which command it is."""
    kubectl("create", "-f", "-", stdin=json.dumps(deployment(replicas=2)))
    kubectl("label", "deploy/web", "tier=x")
    kubectl("annotate", "deploy/web", "note=x")
    kubectl("set", "image", "deploy/web", "web=nginx:2")
    kubectl("patch", "deploy/web", "-p", '{"spec":{"replicas":3}}', "--field-manager=me")
    owners = kubectl.owners("deploy/web")
    of_image = owners["kubectl-set Update"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert owners["kubectl-label Update"] == {"f:metadata": {"f:labels": {"f:tier": {}}}}
    assert owners["kubectl-annotate Update"] == {"f:metadata": {"f:annotations": {".": {}, "f:note": {}}}}
    assert of_image == {'k:{"name":"web"}': {"f:image": {}}}
    assert owners["me Update"] == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in owners["kubectl-create Update"]["f:spec"]


@newest
def test_replacing_by_force(kubectl: Applier) -> None:
    """Deletes, waits until it is gone, creates: what no update may change, too."""
    kubectl.apply(JOB | {"spec": JOB_SPEC})
    uid = kubectl.live("job/once")["metadata"]["uid"]
    other = json.dumps(JOB | {"spec": {**JOB_SPEC, "completionMode": "Indexed", "completions": 3}})
    assert "field is immutable" in kubectl.run("replace", "-f", "-", stdin=other).stderr
    file = kubectl.home / "job.json"
    file.write_text(other)
    assert "job.batch/once replaced" in kubectl.run("replace", "--force", "-f", str(file)).stdout
    live = kubectl.live("job/once")
    assert (live["spec"]["completionMode"], live["metadata"]["uid"] == uid) == ("Indexed", False)


@newest
def test_rollouts_that_somebody_carries_out(kubectl: Applier) -> None:
    """History, undo and status, with ReplicaSets and a status as a controller would write them."""
    kubectl("create", "-f", "-", stdin=json.dumps(deployment()))
    made = kubectl.live("deploy/web")
    path = f"/apis/apps/v1/namespaces/{kubectl.namespace}"
    for revision in ("1", "2"):
        template = copy.deepcopy(made["spec"]["template"])
        template["metadata"]["labels"] = LABELS | {"pod-template-hash": revision}
        template["spec"]["containers"][0]["image"] = f"nginx:{revision}"
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
        metadata = {
            "name": f"web-{revision}",
            "labels": template["metadata"]["labels"],
            "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [owner | {"uid": made["metadata"]["uid"]}],
        }
        spec = {"selector": {"matchLabels": metadata["labels"]}, "template": template}
        kubectl.api.post(f"{path}/replicasets", {"metadata": metadata, "spec": spec}).ok()
    kubectl("annotate", "deploy/web", "deployment.kubernetes.io/revision=2")
    kubectl("set", "image", "deploy/web", "web=nginx:2")
    history = kubectl("rollout", "history", "deploy/web")
    assert [line.split()[0] for line in history.split("\n")[2:] if line] == ["1", "2"]
    assert "nginx:1" in kubectl("rollout", "history", "deploy/web", "--revision=1")
    assert kubectl("rollout", "undo", "deploy/web") == "deployment.apps/web rolled back\n"
    assert container(kubectl)["image"] == "nginx:1"
    generation = kubectl.live("deploy/web")["metadata"]["generation"]
    following = kubectl.start("rollout", "status", "deploy/web", f"--timeout={WITHIN_S}s")
    waiting = kubectl.start("wait", "deploy/web", "--for=condition=Available", f"--timeout={WITHIN_S}s")
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    conditions = [{"type": "Available", "status": "True"}]
    status = {"status": {"observedGeneration": generation, "conditions": conditions, **counts}}
    kubectl.api.patch(f"{path}/deployments/web/status", status).ok()
    assert following.communicate(timeout=WITHIN_S)[0].endswith('deployment "web" successfully rolled out\n')
    assert waiting.communicate(timeout=WITHIN_S)[0] == "deployment.apps/web condition met\n"
    assert kubectl("wait", "deploy/web", "--for=jsonpath={.status.readyReplicas}=1") != ""
    end = kubectl.run("wait", "deploy/web", "--for=jsonpath={.spec.replicas}=7", "--timeout=0.1s")
    assert (end.returncode, "timed out" in end.stderr) == (1, True)
