"""kubectl apply in both forms, from one to the other and back, and what else people do to objects.

Rows F05-F17, F25, L03-L08. The oldest and the newest kubectl apply by default, and the newest does the rest;
the others' turn comes with the long tests.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.server.test_kubectl import Kubectl, kubectls, usable_versions
from tests.support.api import Api
from tests.support.required import missing
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.kubectl

Document = dict[str, Any]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
CLIENT_SIDE: Final = "kubectl-client-side-apply Update"
SERVER_SIDE: Final = "kubectl Apply"
LABELS: Final = {"app": "web"}


PATHS: Final = {
    "cm": "/api/v1/namespaces/{}/configmaps",
    "svc": "/api/v1/namespaces/{}/services",
    "sa": "/api/v1/namespaces/{}/serviceaccounts",
    "deploy": "/apis/apps/v1/namespaces/{}/deployments",
    "job": "/apis/batch/v1/namespaces/{}/jobs",
}


def config_map(name: str = "a", *, labels: dict[str, str] | None = None, **data: str) -> Document:
    metadata = {"name": name, "labels": labels} if labels else {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(*containers: Document, name: str = "web", **spec: Any) -> Document:
    pod = {"containers": list(containers) or [{"name": "web", "image": "nginx:1"}]}
    template = {"metadata": {"labels": LABELS}, "spec": pod | spec.pop("pod", {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


@dataclass
class Applier(Kubectl):
    """variables: of the environment, besides those that every kubectl has."""

    api: Api
    variables: dict[str, str] = field(default_factory=dict)

    def apply(self, *documents: Document, flags: str = "", server_side: bool = False) -> str:
        """It must succeed and warn of nothing."""
        return self(*_apply(flags, server_side), stdin=_as_one(documents))

    def tries(self, *documents: Document, flags: str = "", server_side: bool = False) -> tuple[int, str]:
        """Exit code, and what it complained of."""
        end = self.run(*_apply(flags, server_side), stdin=_as_one(documents))
        return end.returncode, end.stderr

    def live(self, what: str = "cm/a") -> Any:
        """As the server has it; kubectl takes twenty times as long to ask."""
        resource, name = what.split("/")
        return self.api.get(f"{PATHS[resource].format(self.namespace)}/{name}").ok()

    def owners(self, what: str = "cm/a") -> dict[str, Any]:
        """What each owns, by manager, operation and subresource."""
        return {
            " ".join(filter(None, (e["manager"], e["operation"], e.get("subresource")))): e["fieldsV1"]
            for e in self.live(what)["metadata"]["managedFields"]
        }

    def edits_with(self, script: str) -> None:
        """From now on `edit` has this editor; `$1` is the file."""
        editor = self.home / "editor"
        editor.write_text(f"#!/bin/sh -e\n{script}\n")
        editor.chmod(0o755)
        self.variables["KUBE_EDITOR"] = str(editor)

    def _environment(self) -> dict[str, str]:
        # Those before 1.30 spend half their time on collecting what ends with them anyway.
        return super()._environment() | {"GOGC": "off"} | self.variables


def _apply(flags: str, server_side: bool) -> list[str]:
    return ["apply", *(["--server-side"] if server_side else []), *flags.split(), "-f", "-"]


def _as_one(documents: tuple[Document, ...]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


def each_version(*always: int) -> list[object]:
    """All of them, the oldest first. always: the places of those that are not left to the long tests."""
    usable = usable_versions() or ["missing"]
    in_short = {usable[place] for place in always}
    return [v if v in in_short else pytest.param(v, marks=pytest.mark.slow) for v in usable]


newest = pytest.mark.parametrize("kubectl", each_version(-1), indirect=True)


@pytest.fixture(params=each_version(0, -1))
def kubectl(
    request: pytest.FixtureRequest, server: ServerProcess, api: Api, namespace: str, tmp_path: Path
) -> Applier:
    if request.param == "missing":
        missing("kubectl")
    return Applier(kubectls()[request.param], server.kubeconfig, namespace, tmp_path, api)


def sed(expression: str) -> str:
    """What an editor does to its file."""
    return f"""sed '{expression}' "$1" > "$1.new" && mv "$1.new" "$1" """


def at(document: Any, path: str) -> Any:
    """The value at `spec.ports.0.name`; None if there is none."""
    for step in path.split("."):
        document = document[int(step)] if isinstance(document, list) else (document or {}).get(step)
    return document


# ---- apply, in either form

A, B = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
HTTP, HTTPS = {"name": "http", "port": 80}, {"name": "https", "port": 443}
TOLERATES: Final = {"key": "k", "operator": "Exists"}
SERVICE: Final = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
ACCOUNT: Final = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}}
JOB: Final = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}}
JOB_SPEC: Final = {
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}
}

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


# ---- who owns what


def test_conflicts_name_manager_and_field(kubectl: Applier) -> None:
    """Rows F10-F13."""
    kubectl.apply(config_map(x="1", w="1"), server_side=True)
    kubectl.apply(config_map(v="1"), flags="--field-manager=third", server_side=True)
    before = kubectl.live()
    two = config_map(x="2", v="2", new="2")
    code, complaint = kubectl.tries(two, flags="--field-manager=second", server_side=True)
    assert code == 1
    assert complaint.startswith(
        'error: Apply failed with 2 conflicts: conflicts with "kubectl":\n'
        '- .data.x\nconflicts with "third":\n- .data.v\n'
    )
    assert "--force-conflicts" in complaint
    assert kubectl.live() == before

    same = config_map(x="1")
    kubectl.apply(same, flags="--field-manager=second", server_side=True)
    assert kubectl.owners()["second Apply"] == {"f:data": {"f:x": {}}}
    kubectl.apply(two, flags="--field-manager=second --force-conflicts", server_side=True)
    assert kubectl.live()["data"] == {"w": "1", "x": "2", "v": "2", "new": "2"}
    assert kubectl.owners() == {
        SERVER_SIDE: {"f:data": {"f:w": {}}},
        "second Apply": {"f:data": {"f:new": {}, "f:v": {}, "f:x": {}}},
    }
    # Row F14: who still has it in the file keeps it.
    kubectl.apply(two, server_side=True)
    kubectl.apply(config_map(), flags="--field-manager=second", server_side=True)
    assert kubectl.live()["data"] == two["data"]


def test_the_scale_is_left_to_who_scales(kubectl: Applier) -> None:
    kubectl.apply(deployment(replicas=2), server_side=True)
    kubectl("scale", "deploy/web", "--replicas=5")
    scaler = Path(kubectl.binary).name  # of its User-Agent: row F05
    assert kubectl.owners("deploy/web")[f"{scaler} Update scale"] == {"f:spec": {"f:replicas": {}}}
    code, complaint = kubectl.tries(deployment(replicas=2), server_side=True)
    assert code == 1
    assert f'"{scaler}" with subresource "scale" using apps/v1: .spec.replicas' in complaint
    assert kubectl.apply(deployment(), server_side=True) == "deployment.apps/web serverside-applied\n"
    assert kubectl.live("deploy/web")["spec"]["replicas"] == 5
    kubectl.apply(deployment(replicas=2), flags="--force-conflicts", server_side=True)
    assert kubectl.live("deploy/web")["spec"]["replicas"] == 2


def test_from_client_side_to_server_side(kubectl: Applier) -> None:
    """kubectl takes over what client-side apply has set, without a conflict, and moves the ownership.

    Kubernetes' documentation, "Migrating between client-side and server-side apply".
    """
    kubectl.apply(config_map(labels={"tier": "x"}, x="1", w="1"))
    kubectl.apply(config_map(labels={"tier": "x"}, x="2", w="1"), server_side=True)
    of_annotation: Document = {"f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}}}
    assert kubectl.owners() == {
        SERVER_SIDE: {"f:data": {"f:w": {}, "f:x": {}}, "f:metadata": {"f:labels": {"f:tier": {}}}},
        "kubectl-last-applied Apply": of_annotation,
    }
    kubectl.apply(config_map(x="2"), server_side=True)
    live = kubectl.live()
    assert (live["data"], live["metadata"].get("labels")) == ({"x": "2"}, None)
    assert kubectl.owners() == {
        SERVER_SIDE: {"f:data": {"f:x": {}}},
        "kubectl-last-applied Apply": of_annotation,
    }
    # Who has migrated writes no more.
    kubectl.apply(config_map(x="2"), server_side=True)
    assert kubectl.live() == live


def test_what_others_have_changed_since_is_a_conflict(kubectl: Applier) -> None:
    """Only that: what is as client-side apply has left it is kubectl's."""
    kubectl.apply(config_map(x="1", w="1"))
    kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data":{"x":"theirs"}}')
    code, complaint = kubectl.tries(config_map(x="2", w="2"), server_side=True)
    assert code == 1
    assert complaint.startswith(
        'error: Apply failed with 1 conflict: conflict with "kubectl-patch" using v1: .data.x\n'
    )
    assert kubectl.live()["data"] == {"x": "theirs", "w": "1"}
    kubectl.apply(config_map(x="2", w="2"), flags="--force-conflicts", server_side=True)
    assert kubectl.live()["data"] == {"x": "2", "w": "2"}


def test_migration_under_another_name(kubectl: Applier) -> None:
    """Somebody else than kubectl has conflicts, and drops what client-side apply has remembered."""
    kubectl.apply(config_map(x="1", w="1"))
    code, complaint = kubectl.tries(config_map(x="2"), flags="--field-manager=ci", server_side=True)
    assert code == 1
    assert 'conflict with "kubectl-client-side-apply" using v1: .data.x' in complaint
    kubectl.apply(config_map(x="2"), flags="--field-manager=ci --force-conflicts", server_side=True)
    assert kubectl.owners() == {"ci Apply": {"f:data": {"f:x": {}}}}
    live = kubectl.live()
    assert (live["data"], live["metadata"].get("annotations")) == ({"x": "2"}, None)
    kubectl.apply(config_map(y="2"), flags="--field-manager=ci", server_side=True)
    assert kubectl.live()["data"] == {"y": "2"}


def test_from_server_side_to_client_side(kubectl: Applier) -> None:
    """Server-side apply keeps up what client-side apply goes by, if it is there: so the way back is open."""
    kubectl.apply(config_map(x="1"))
    kubectl.apply(config_map(x="1", added="1"), server_side=True)
    assert yaml.safe_load(kubectl("apply", "view-last-applied", "cm/a"))["data"] == {"x": "1", "added": "1"}
    kubectl.apply(config_map(x="2"))
    assert kubectl.live()["data"] == {"x": "2"}
    assert kubectl.owners()[CLIENT_SIDE]["f:data"] == {"f:x": {}}
    # Of what was never applied client-side it knows nothing, and takes nothing away.
    kubectl.apply(config_map("b", x="1", added="1"), server_side=True)
    code, complaint = kubectl.tries(config_map("b", x="2"))
    assert (code, "missing the kubectl.kubernetes.io" in complaint) == (0, True)
    assert kubectl.live("cm/b")["data"] == {"x": "2", "added": "1"}
    assert kubectl.owners("cm/b")[SERVER_SIDE] == {"f:data": {"f:added": {}}}


@newest
def test_what_is_too_long_to_be_remembered_is_not(kubectl: Applier) -> None:
    """Annotations have 256 KiB: server-side apply goes on without, where client-side apply cannot."""
    kubectl.apply(config_map(x="1"))
    long = config_map(x="x" * 300_000)
    code, complaint = kubectl.tries(long)
    assert (code, "metadata.annotations: Too long" in complaint) == (1, True)
    kubectl.apply(long, server_side=True)
    live = kubectl.live()
    assert (live["data"], live["metadata"].get("annotations")) == (long["data"], None)


# ---- many files


@newest
def test_directories_and_kustomizations(kubectl: Applier, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "d.yaml").write_text(yaml.safe_dump(deployment()))
    (files / "c.json").write_text(json.dumps(config_map(x="1")))
    assert kubectl("apply", "-f", str(files)) == "configmap/a created\ndeployment.apps/web created\n"
    assert kubectl("apply", "-f", str(files), "--server-side").count("serverside-applied") == 2
    kustomization = {
        "resources": ["d.yaml"],
        "images": [{"name": "nginx", "newTag": "9"}],
        "configMapGenerator": [{"name": "settings", "literals": ["a=b"]}],
    }
    (files / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    said = kubectl("apply", "-k", str(files)).splitlines()
    assert re.fullmatch(r"configmap/settings-\w+ created", said[0])
    assert said[1:] == ["deployment.apps/web configured"]
    assert kubectl("apply", "-k", str(files)).count(" unchanged\n") == 2
    assert container(kubectl)["image"] == "nginx:9"
    assert kubectl.run("diff", "-k", str(files)).returncode == 0
    assert kubectl("delete", "-k", str(files)).count(" deleted\n") == 2


def prunes(kubectl: Applier, flags: str) -> None:
    """Of three applied objects two are no longer in the files."""
    labels = {"part": kubectl.namespace}
    service = SERVICE | {"metadata": {"name": "web", "labels": labels}, "spec": {"ports": [HTTP]}}
    files = [config_map("a", labels=labels), config_map("b", labels=labels), service]
    kubectl.api.post(PATHS["cm"].format(kubectl.namespace), config_map("not-applied")).ok()
    kubectl.apply(*files, flags=f"--prune {flags}")
    said = kubectl.apply(files[0], flags=f"--prune {flags} --dry-run=server")
    assert said.count(" pruned (server dry run)\n") == 2
    said = kubectl.apply(files[0], flags=f"--prune {flags}")
    assert sorted(re.findall(r"\S+(?= pruned\n)", said)) == ["configmap/b", "service/web"]
    left = kubectl("get", "cm,svc", "-o", "name").split()
    assert {"configmap/a", "configmap/not-applied"} <= set(left)
    assert not {"configmap/b", "service/web"} & set(left)


def test_what_is_in_no_file_any_more_is_pruned(kubectl: Applier) -> None:
    """It takes what has the label, and was applied client-side."""
    allowed = "--prune-allowlist=core/v1/ConfigMap --prune-allowlist=core/v1/Service"
    prunes(kubectl, f"-l part={kubectl.namespace} {allowed}")


SETS: Final = {
    "in a Secret": "--applyset=mine",
    "in a ConfigMap": "--applyset=configmaps/mine",
    "server-side": "--server-side --applyset=mine",
}


@newest
@pytest.mark.parametrize("flags", SETS.values(), ids=SETS.keys())
def test_sets_of_what_is_applied_together(kubectl: Applier, flags: str) -> None:
    """An ApplySet is kept in an object of its own, and its objects carry its label."""
    kubectl.variables["KUBECTL_APPLYSET"] = "true"
    prunes(kubectl, flags)
    assert "applyset.kubernetes.io/part-of" in kubectl.live()["metadata"]["labels"]


# ---- single changes


def container(kubectl: Applier) -> Any:
    return kubectl.live("deploy/web")["spec"]["template"]["spec"]["containers"][0]


OVERWRITE: Final = "--overwrite is false"
MODIFIED: Final = "the object has been modified"

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
    following = kubectl.start("rollout", "status", "deploy/web", "--timeout=20s")
    waiting = kubectl.start("wait", "deploy/web", "--for=condition=Available", "--timeout=20s")
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    conditions = [{"type": "Available", "status": "True"}]
    status = {"status": {"observedGeneration": generation, "conditions": conditions, **counts}}
    kubectl.api.patch(f"{path}/deployments/web/status", status).ok()
    assert following.communicate(timeout=30)[0].endswith('deployment "web" successfully rolled out\n')
    assert waiting.communicate(timeout=30)[0] == "deployment.apps/web condition met\n"
    assert kubectl("wait", "deploy/web", "--for=jsonpath={.status.readyReplicas}=1") != ""
    end = kubectl.run("wait", "deploy/web", "--for=jsonpath={.spec.replicas}=7", "--timeout=0.1s")
    assert (end.returncode, "timed out" in end.stderr) == (1, True)


# ---- edit


def test_edit_asks_again_if_something_is_wrong(kubectl: Applier) -> None:
    kubectl("create", "-f", "-", stdin=json.dumps(deployment(replicas=2)))
    kubectl.edits_with(
        f"if grep -q 'replicas: 2' \"$1\"; then {sed('s/replicas: 2/replicas: -1/')}\n"
        f'else cp "$1" "$HOME/again"; {sed("s/replicas: -1/replicas: 4/")}; fi'
    )
    end = kubectl.run("edit", "deploy/web")
    assert (end.returncode, end.stdout) == (0, "deployment.apps/web edited\n")
    again = (kubectl.home / "again").read_text()
    assert '# deployments.apps "web" was not valid:\n' in again
    assert "# * spec.replicas: Invalid value: -1: must be greater than or equal to 0\n" in again
    assert kubectl.live("deploy/web")["spec"]["replicas"] == 4
    assert "kubectl-edit Update" in kubectl.owners("deploy/web")
    kubectl.edits_with("true")
    assert "Edit cancelled, no changes made." in kubectl.run("edit", "deploy/web").stderr


CONCURRENT: Final[dict[str, tuple[str, int, dict[str, str]]]] = {
    # What is edited is sent as a patch.
    "another field: both changes stand": ("w", 0, {"x": "mine", "w": "theirs"}),
    "the same field: the last one wins": ("x", 0, {"x": "mine", "w": "1"}),
    "of one version: theirs stands": ("resourceVersion", 1, {"x": "1", "w": "theirs"}),
}


@newest
@pytest.mark.parametrize(("key", "code", "left"), CONCURRENT.values(), ids=CONCURRENT.keys())
def test_edit_while_others_write(kubectl: Applier, key: str, code: int, left: dict[str, str]) -> None:
    """Row L05: who leaves the resourceVersion of before in the patch wants no other."""
    kubectl("create", "-f", "-", stdin=json.dumps(config_map(x="1", w="1")))
    is_of_version = key == "resourceVersion"
    theirs = json.dumps({"data": {"w" if is_of_version else key: "theirs"}})
    mine = sed('s/x: "1"/x: mine/')
    if is_of_version:
        mine = sed('s/x: "1"/x: mine/; s/resourceVersion: .*/resourceVersion: "1"/')
    others = f"'{kubectl.binary}' -n {kubectl.namespace} patch cm a --type=merge -p '{theirs}' >&2"
    kubectl.edits_with(f"{others}\n{mine}")
    end = kubectl.run("edit", "cm/a")
    assert end.returncode == code, end
    assert kubectl.live()["data"] == left
    if is_of_version:
        assert MODIFIED in end.stderr
        kept = re.search(r"replace -f (\S+)`", end.stderr)
        assert kept is not None
        assert MODIFIED in kubectl.run("replace", "-f", kept[1]).stderr
        Path(kept[1]).unlink()
