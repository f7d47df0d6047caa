"""What is set in pods if nobody says. Source: pkg/apis/core/v1/defaults.go."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.pod_specs.defaults import pull_policy
from tests.unit.catalogue.valid_pods import Document, container, decoded, pod

IMAGES: Final = {
    "no tag is latest": ("nginx", "Always"),
    "latest by name": ("docker.io/library/nginx:latest", "Always"),
    "a port is no tag": ("registry:5000/team/app", "Always"),
    "a tag": ("registry:5000/team/app:v1", "IfNotPresent"),
    "a digest": (f"app@sha256:{'0' * 64}", "IfNotPresent"),
    "latest, and pinned": (f"app:latest@sha256:{'0' * 64}", "Always"),
    "what cannot be read has no tag": ("Bad Image", "IfNotPresent"),
    "nothing": ("", "IfNotPresent"),
    "an identifier": ("0" * 64, "IfNotPresent"),
    "a name of digits": (f"x/{'0' * 64}", "Always"),
    "the longest path, of Docker's library": ("a" * 247, "Always"),
    "too long a path, of Docker's library": ("a" * 248, "IfNotPresent"),
    "the longest path": ("x/" + "a" * 253, "Always"),
    "too long a path": ("x/" + "a" * 254, "IfNotPresent"),
    "the longest path of a registry": ("r.io/" + "a" * 255, "Always"),
    "too long a path of a registry": ("r.io/" + "a" * 256, "IfNotPresent"),
    "Docker's registry is the registry of a bare name": ("docker.io/" + "a" * 248, "IfNotPresent"),
}


@pytest.mark.parametrize(("image", "policy"), IMAGES.values(), ids=IMAGES)
def test_how_images_are_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_a_minimal_pod() -> None:
    assert pod()["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "img:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }


def test_a_template_is_left_what_only_pods_get() -> None:
    resources = {"limits": {"cpu": "1"}}
    spec = {
        "hostNetwork": True,
        "containers": [container(resources=resources, ports=[{"containerPort": 80}])],
    }
    found = decoded({"spec": spec}, "PodTemplateSpec")["spec"]
    assert "enableServiceLinks" not in found
    assert found["containers"][0]["resources"] == resources
    assert found["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


@pytest.mark.parametrize(("kind", "period"), {"Pod": 1, "PodTemplateSpec": -5}.items())
def test_no_pod_has_a_negative_grace_period(kind: str, period: int) -> None:
    spec = {"terminationGracePeriodSeconds": -5, "containers": [container()]}
    assert decoded({"spec": spec}, kind)["spec"]["terminationGracePeriodSeconds"] == period


@pytest.mark.parametrize("kind", ["Pod", "PodTemplateSpec"])
@pytest.mark.parametrize("kept", [{}, {"pod.beta.kubernetes.io/init": "x"}], ids=["none", "one"])
def test_annotations_of_init_containers_are_dropped(kind: str, kept: Document) -> None:
    stages, ends = ("alpha", "beta"), ("containers", "container-statuses")
    dropped = {f"pod.{stage}.kubernetes.io/init-{end}": "[]" for stage in stages for end in ends}
    found = decoded({"metadata": {"annotations": {**dropped, **kept}}, "spec": {}}, kind)
    assert found["metadata"].get("annotations", {}) == kept


FILE_KEY: Final = {"volumeName": "v", "path": "p", "key": "K"}

# Of the first container.
CONTAINERS: Final[dict[str, tuple[Document, str, Any]]] = {
    "requests follow limits, each on its own": (
        {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}},
        "resources",
        {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
    ),
    "nothing is finer than a thousandth": (
        {"resources": {"requests": {"cpu": "1500u"}}},
        "resources",
        {"requests": {"cpu": "2m"}},
    ),
    "whatever its text is like": (
        {"resources": {"requests": {"cpu": "1.500001", "memory": "1E-6", "x.y/z": "1.500"}}},
        "resources",
        {"requests": {"cpu": "1501m", "memory": "1e-3", "x.y/z": "1.500"}},
    ),
    "nor is a large amount": (
        {"resources": {"requests": {"cpu": "123456789012345678901234567890.0001"}}},
        "resources",
        {"requests": {"cpu": "123456789012345678901234567890001m"}},
    ),
    "probes": (
        {"livenessProbe": {"httpGet": {"port": 80}}},
        "livenessProbe",
        {
            "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
    ),
    "the service of a gRPC probe": (
        {"readinessProbe": {"grpc": {"port": 80}, "timeoutSeconds": 2}},
        "readinessProbe",
        {
            "grpc": {"port": 80, "service": ""},
            "timeoutSeconds": 2,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
    ),
    "the version of fields": (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        "env",
        [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
    ),
    "keys of files": (
        {"env": [{"name": "A", "valueFrom": {"fileKeyRef": FILE_KEY}}]},
        "env",
        [{"name": "A", "valueFrom": {"fileKeyRef": {**FILE_KEY, "optional": False}}}],
    ),
}


@pytest.mark.parametrize(("change", "field", "expected"), CONTAINERS.values(), ids=CONTAINERS)
def test_containers(change: Document, field: str, expected: Any) -> None:
    assert pod(containers=[container(**change)])["spec"]["containers"][0][field] == expected


VOLUMES: Final[dict[str, tuple[Document, Document]]] = {
    "no source is an empty directory": ({}, {"emptyDir": {}}),
    "modes of secrets": (
        {"secret": {"secretName": "s"}},
        {"secret": {"secretName": "s", "defaultMode": 0o644}},
    ),
    "zero is a mode": ({"configMap": {"name": "m", "defaultMode": 0}},) * 2,
    "any kind of path": ({"hostPath": {"path": "/a"}}, {"hostPath": {"path": "/a", "type": ""}}),
    "tokens last an hour": (
        {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {
            "projected": {
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                "defaultMode": 0o644,
            }
        },
    ),
    "RBD": (
        {"rbd": {"monitors": ["m"], "image": "i", "pool": "p"}},
        {
            "rbd": {
                "monitors": ["m"],
                "image": "i",
                "pool": "p",
                "user": "admin",
                "keyring": "/etc/ceph/keyring",
            }
        },
    ),
}


@pytest.mark.parametrize(("source", "expected"), VOLUMES.values(), ids=VOLUMES)
def test_volumes(source: Document, expected: Document) -> None:
    assert pod(volumes=[{"name": "v", **source}])["spec"]["volumes"] == [{"name": "v", **expected}]


def test_host_ports_follow_on_the_hosts_network() -> None:
    found = pod(hostNetwork=True, containers=[container(ports=[{"containerPort": 80}])])
    assert found["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


@pytest.mark.parametrize("field", ["serviceAccount", "serviceAccountName"])
def test_both_names_of_the_account_agree(field: str) -> None:
    spec = decoded({"spec": {field: "a"}})["spec"]
    assert (spec["serviceAccount"], spec["serviceAccountName"]) == ("a", "a")


def test_pods_ask_for_what_their_containers_ask_for() -> None:
    first = container(name="i", resources={"requests": {"cpu": "3"}})
    asks = container(resources={"requests": {"cpu": "2", "memory": "1Gi"}})
    spec = pod(
        initContainers=[first], containers=[asks], resources={"limits": {"cpu": "4", "hugepages-2Mi": "2Mi"}}
    )["spec"]
    assert spec["resources"]["requests"] == {"cpu": "3", "memory": "1Gi", "hugepages-2Mi": "2Mi"}


ADDRESSES: Final[dict[str, tuple[Document, Document]]] = {
    "one address is the only one": (
        {"podIP": "1.2.3.4"},
        {"podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}]},
    ),
    "the first is the one": ({"podIPs": [{"ip": "a"}, {"ip": "b"}]}, {"podIP": "a"}),
    "the one wins": ({"podIP": "a", "podIPs": [{"ip": "b"}]}, {"podIPs": [{"ip": "a"}]}),
}


@pytest.mark.parametrize(("status", "expected"), ADDRESSES.values(), ids=ADDRESSES)
def test_addresses(status: Document, expected: Document) -> None:
    assert pod(status=status)["status"].items() >= expected.items()


def test_amounts_in_statuses_and_overheads_are_rounded_up_to_thousandths() -> None:
    fine, rounded = {"cpu": "1500u"}, {"cpu": "2m"}
    reported = {"name": "c", "allocatedResources": fine, "resources": {"limits": fine}}
    status = {"allocatedResources": fine, "resources": {"requests": fine}, "containerStatuses": [reported]}
    found = pod(overhead=fine, status=status)
    assert found["spec"]["overhead"] == rounded
    assert found["status"]["allocatedResources"] == found["status"]["resources"]["requests"] == rounded
    [reported] = found["status"]["containerStatuses"]
    assert reported["allocatedResources"] == reported["resources"]["limits"] == rounded
