"""Client-side and server-side apply come to the same objects."""

from __future__ import annotations

import copy
import json
import re
from typing import Any, Final

import pytest
import yaml

from tests.server.kubectl_apply.applier import (
    CLIENT_SIDE,
    HTTP,
    HTTPS,
    JOB,
    JOB_SPEC,
    LABELS,
    LAST_APPLIED,
    SERVICE,
    Applier,
    Document,
    config_map,
    deployment,
    newest,
    sed,
)

pytestmark = pytest.mark.kubectl

A, B = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
ACCOUNT: Final = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}}
TOLERATES: Final = {"key": "k", "operator": "Exists"}

# Each object before and after somebody has changed its file, and what is then to be found at which path.
CHANGES: Final[dict[str, tuple[Document, Document, dict[str, Any]]]] = {
    "cm/a": (
        config_map(labels={"tier": "x"}, stays="1", changes="1", goes="1"),
        config_map(stays="1", changes="2", comes="1"),
        {"data": {"stays": "1", "changes": "2", "comes": "1"}, "metadata.labels": None},
    ),
    "deploy/web": (
        deployment(
            {"name": "web", "image": "nginx:1", "env": [A, B], "args": ["-v"]},
            {"name": "side", "image": "busybox:1"},
            replicas=3,
            pod={"nodeSelector": {"disk": "ssd"}, "tolerations": [TOLERATES, TOLERATES | {"key": "l"}]},
        ),
        deployment({"name": "web", "image": "nginx:2", "env": [B]}, pod={"tolerations": [TOLERATES]}),
        {
            "spec.replicas": 1,  # row F15: what is given up gets its default back
            "spec.template.spec.containers.0.image": "nginx:2",
            "spec.template.spec.containers.0.env": [B],
            "spec.template.spec.containers.0.args": None,
            "spec.template.spec.containers.0.imagePullPolicy": "IfNotPresent",
            "spec.template.spec.nodeSelector": None,
            "spec.template.spec.tolerations": [TOLERATES],
            "metadata.generation": 2,
        },
    ),
    "svc/web": (
        SERVICE | {"spec": {"selector": LABELS, "ports": [HTTP, HTTPS]}},
        SERVICE | {"spec": {"selector": LABELS, "ports": [HTTPS | {"targetPort": 8443}]}},
        {"spec.ports": [HTTPS | {"targetPort": 8443, "protocol": "TCP"}], "spec.type": "ClusterIP"},
    ),
    "sa/web": (
        ACCOUNT | {"imagePullSecrets": [{"name": "x"}, {"name": "y"}], "automountServiceAccountToken": False},
        ACCOUNT | {"imagePullSecrets": [{"name": "y"}]},
        {"imagePullSecrets": [{"name": "y"}], "automountServiceAccountToken": None},
    ),
    "job/once": (
        JOB | {"spec": {**JOB_SPEC, "activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 9}},
        JOB | {"spec": {**JOB_SPEC, "activeDeadlineSeconds": 6, "suspend": True}},
        {
            "spec.activeDeadlineSeconds": 6,
            "spec.ttlSecondsAfterFinished": None,
            "spec.suspend": True,
            "spec.completions": 1,
        },
    ),
}


def at(document: Any, path: str) -> Any:
    """The value at `spec.ports.0.name`; None if there is none."""
    for step in path.split("."):
        document = document[int(step)] if isinstance(document, list) else (document or {}).get(step)
    return document


def everything(kubectl: Applier) -> dict[str, Any]:
    return {what: kubectl.live(what) for what in CHANGES}


@pytest.mark.parametrize("server_side", [False, True], ids=["client-side", "server-side"])
def test_objects_become_what_the_file_says(kubectl: Applier, server_side: bool) -> None:
    """Both forms come to the same: fields and items that are no longer in the file go, nothing else does."""

    def ends(said: str) -> set[str]:
        lines = said.splitlines()
        assert len(lines) == len(CHANGES), said
        return {line.split(" ")[1] for line in lines}

    def apply(documents: list[Document]) -> set[str]:
        return ends(kubectl.apply(*documents, server_side=server_side))

    before = [each[0] for each in CHANGES.values()]
    after = [each[1] for each in CHANGES.values()]
    created, unchanged, configured = (
        ["serverside-applied"] * 3 if server_side else ["created", "unchanged", "configured"]
    )
    assert apply(before) == {created}
    first = everything(kubectl)
    assert apply(before) == {unchanged}
    assert everything(kubectl) == first
    assert apply(after) == {configured}
    second = everything(kubectl)
    for name, (_, document, expected) in CHANGES.items():
        assert {path: at(second[name], path) for path in expected} == expected, name
        remembered = at(second[name], "metadata.annotations") or {}
        assert (LAST_APPLIED in remembered) is not server_side
        if not server_side:
            assert json.loads(remembered[LAST_APPLIED])["kind"] == document["kind"]
        for kept in ("metadata.uid", "metadata.creationTimestamp", "spec.clusterIP"):
            assert at(second[name], kept) == at(first[name], kept)
    assert apply(after) == {unchanged}
    assert everything(kubectl) == second


def test_client_side_apply_remembers_what_it_has_applied(kubectl: Applier) -> None:
    kubectl.apply(config_map(x="1"))
    live = kubectl.live()
    remembered = json.loads(live["metadata"]["annotations"][LAST_APPLIED])
    expected = config_map(x="1")
    expected["metadata"] |= {"annotations": {}, "namespace": kubectl.namespace}
    assert remembered == expected
    of_annotation: Document = {".": {}, f"f:{LAST_APPLIED}": {}}
    assert kubectl.owners() == {
        CLIENT_SIDE: {"f:data": {".": {}, "f:x": {}}, "f:metadata": {"f:annotations": of_annotation}}
    }
    assert "managedFields" not in kubectl("get", "cm", "a", "-o", "yaml")
    shown = yaml.safe_load(kubectl("get", "cm", "a", "-o", "yaml", "--show-managed-fields"))
    assert shown["metadata"]["managedFields"] == live["metadata"]["managedFields"]

    assert yaml.safe_load(kubectl("apply", "view-last-applied", "cm/a")) == remembered
    more = json.dumps(config_map(x="2"))
    assert kubectl("apply", "set-last-applied", "-f", "-", stdin=more) == "configmap/a configured\n"
    assert "no changes required" in kubectl("apply", "set-last-applied", "-f", "-", stdin=more)
    assert json.loads(kubectl("apply", "view-last-applied", "cm/a", "-o", "json"))["data"] == {"x": "2"}
    assert kubectl.live()["data"] == {"x": "1"}
    kubectl.edits_with(sed('s/x: "2"/x: "3"/'))
    assert kubectl("apply", "edit-last-applied", "cm/a") == "configmap/a edited\n"
    assert 'x: "3"' in kubectl("apply", "view-last-applied", "cm/a")


def test_client_side_apply_of_what_others_have_made(kubectl: Applier) -> None:
    """What it has not applied, it does not take away."""
    kubectl("create", "configmap", "a", "--from-literal=other=1")
    assert kubectl.run("apply", "set-last-applied", "-f", "-", stdin=json.dumps(config_map())).returncode == 1
    code, complaint = kubectl.tries(config_map(x="1"))
    assert code == 0
    assert "missing the kubectl.kubernetes.io/last-applied-configuration annotation" in complaint
    assert kubectl.live()["data"] == {"other": "1", "x": "1"}
    assert kubectl.apply(config_map()) == "configmap/a configured\n"
    assert kubectl.live()["data"] == {"other": "1"}
    # With --save-config there is nothing to complain of.
    saved = config_map("b", x="1", y="1")
    kubectl("create", "--save-config", "-f", "-", stdin=json.dumps(saved))
    assert kubectl.apply(saved) == "configmap/b unchanged\n"
    assert kubectl.apply(config_map("b", x="1")) == "configmap/b configured\n"
    assert kubectl.live("cm/b")["data"] == {"x": "1"}


@newest
def test_a_job_is_not_applied_with_another_template(kubectl: Applier) -> None:
    kubectl.apply(JOB | {"spec": JOB_SPEC})
    other = copy.deepcopy(JOB_SPEC)
    other["template"]["spec"]["containers"][0]["image"] = "busybox:2"  # type: ignore[index]
    for server_side in (False, True):
        code, complaint = kubectl.tries(JOB | {"spec": other}, server_side=server_side)
        assert code == 1
        assert "spec.template: Invalid value" in complaint
        assert complaint.rstrip().endswith("field is immutable")


@newest
def test_ports_of_two_protocols_stay_apart(kubectl: Applier) -> None:
    """Row F29: the key is port and protocol, which has a default. Client-side apply takes the port alone."""
    dns, tcp = {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}
    kubectl.apply(SERVICE | {"spec": {"ports": [dns, tcp]}}, server_side=True)
    kubectl.apply(SERVICE | {"spec": {"ports": [dns | {"targetPort": 5353}]}}, server_side=True)
    assert kubectl.live("svc/web")["spec"]["ports"] == [dns | {"targetPort": 5353}]


def test_dry_runs_and_diffs_change_nothing(kubectl: Applier) -> None:
    """A diff ends with 0 if there is no difference, with 1 if there is one, with more if something fails."""
    one, two = deployment(replicas=2), deployment(replicas=3)
    absent = [
        kubectl.run("diff", *flag, "-f", "-", stdin=json.dumps(one)) for flag in ([], ["--server-side"])
    ]
    assert [end.returncode for end in absent] == [1, 1]
    assert all("+  replicas: 2" in end.stdout for end in absent)
    assert kubectl.apply(one, flags="--dry-run=server") == "deployment.apps/web created (server dry run)\n"
    assert kubectl("get", "deploy", "-o", "name") == ""
    for server_side in (True, False):
        kubectl("delete", "deploy", "web", "--ignore-not-found")
        kubectl.apply(one, server_side=server_side)
        before = kubectl.live("deploy/web")
        flag = ["--server-side"] if server_side else []
        assert kubectl("diff", *flag, "-f", "-", stdin=json.dumps(one)) == ""
        end = kubectl.run("diff", *flag, "-f", "-", stdin=json.dumps(two))
        assert end.returncode == 1
        assert re.findall(r"^[-+] .*", end.stdout, re.MULTILINE) == [
            *("-  generation: 1", "+  generation: 2"),
            *("-  replicas: 2", "+  replicas: 3"),
        ]
        said = kubectl.apply(two, flags="--dry-run=server", server_side=server_side)
        assert said.endswith("(server dry run)\n")
        end = kubectl.run("diff", *flag, "-f", "-", stdin=json.dumps(deployment(replicas=-1)))
        assert end.returncode > 1
        assert kubectl.live("deploy/web") == before
    other = kubectl.run("diff", "--server-side", "--field-manager=o", "-f", "-", stdin=json.dumps(two))
    assert other.returncode > 1
    assert 'conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas' in other.stderr
