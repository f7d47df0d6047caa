"""Containers of all kinds: ports, environment, mounts, probes, resources, security.

Source: pkg/apis/core/validation, validateContainers and its kin.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.pod_specs.resource_requirements import total_of_containers
from tests.unit.catalogue.valid_pods import (
    Document,
    Expected,
    assert_agree,
    container,
    pod,
    validate_pod_create,
)

C: Final = "spec.containers[0]"
CLAIM: Final = {"persistentVolumeClaim": {"claimName": "c"}}
EMPTY: Final[Document] = {"emptyDir": {}}


def env(**variable: Any) -> Document:
    return {"env": [{"name": "A", **variable}]}


# Changes of the only container; the pod has the volumes `dir` and `claim`.
CONTAINERS: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "a valid one": ({}, []),
    "no name, no image": (
        {"name": "", "image": ""},
        [(f"{C}.name", "Required", ""), (f"{C}.image", "Required", "")],
    ),
    "a name that is no label": ({"name": "Bad_"}, [(f"{C}.name", "Invalid", "RFC 1123 label")]),
    "space around an image": ({"image": " i"}, [(f"{C}.image", "Invalid", "leading or trailing whitespace")]),
    "unknown policies": (
        {"imagePullPolicy": "Sometimes", "terminationMessagePolicy": "Mail", "restartPolicy": "Sometimes"},
        [
            (f"{C}.terminationMessagePolicy", "NotSupported", '"File", "FallbackToLogsOnError"'),
            (f"{C}.imagePullPolicy", "NotSupported", '"Always", "IfNotPresent", "Never"'),
            (f"{C}.restartPolicy", "NotSupported", '"Always", "Never", "OnFailure"'),
        ],
    ),
    "ports": (
        {
            "ports": [
                {"containerPort": 99999, "protocol": "XXX"},
                {"name": "a", "containerPort": 80},
                {"name": "a", "containerPort": 0},
                {"name": "A", "containerPort": 80},
            ]
        },
        [
            (f"{C}.ports[0].containerPort", "Invalid", "must be between 1 and 65535, inclusive"),
            (f"{C}.ports[0].protocol", "NotSupported", '"SCTP", "TCP", "UDP"'),
            (f"{C}.ports[2].name", "Duplicate", '"a"'),
            (f"{C}.ports[2].containerPort", "Required", ""),
            (f"{C}.ports[3].name", "Invalid", "alpha-numeric"),
            (f"{C}.ports[3].name", "Invalid", "at least one letter"),
        ],
    ),
    "one port of the host, twice": (
        {"ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 8080}]},
        [(f"{C}.ports[1].hostPort", "Duplicate", '"TCP//8080"')],
    ),
    "variables may be called almost anything": ({"env": [{"name": "a.b c-1"}]}, []),
    "variables": (
        {"env": [{"name": ""}, {"name": "a=b"}, {"name": "A", "valueFrom": {}}]},
        [
            (f"{C}.env[0].name", "Required", ""),
            (f"{C}.env[1].name", "Invalid", "printable ASCII characters other than '='"),
            (f"{C}.env[2].valueFrom", "Invalid", "must specify one of: `fieldRef`"),
        ],
    ),
    "a value twice": (
        env(value="x", valueFrom={"secretKeyRef": {"name": "s", "key": "../k"}}),
        [
            (f"{C}.env[0].valueFrom.secretKeyRef.key", "Invalid", "valid config key"),
            (f"{C}.env[0].valueFrom.secretKeyRef.key", "Invalid", "must not start with '..'"),
            (f"{C}.env[0].valueFrom", "Invalid", "may not be specified when `value` is not empty"),
        ],
    ),
    "a label": (env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['app']"}}), []),
    "all labels": (
        env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels"}}),
        [
            (
                f"{C}.env[0].valueFrom.fieldRef.fieldPath",
                "NotSupported",
                '"metadata.name", "metadata.namespace"',
            )
        ],
    ),
    "a field that pods do not have": (
        env(valueFrom={"fieldRef": {"fieldPath": "spec.bogus"}}),
        [(f"{C}.env[0].valueFrom.fieldRef.fieldPath", "Invalid", "field label not supported: spec.bogus")],
    ),
    "a part of a thousandth": (
        env(valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2m"}}),
        [(f"{C}.env[0].valueFrom.resourceFieldRef.divisor", "Invalid", "1m and 1 are supported")],
    ),
    "many variables of nobody": (
        {"envFrom": [{}, {"configMapRef": {"name": "m"}, "secretRef": {}, "prefix": "="}]},
        [
            (f"{C}.envFrom", "Invalid", "must specify one of: `configMapRef` or `secretRef`"),
            (f"{C}.envFrom[1].prefix", "Invalid", "printable"),
            (f"{C}.envFrom[1].secretRef.name", "Required", ""),
            (f"{C}.envFrom", "Invalid", "may not have more than one field specified"),
        ],
    ),
    "mounts": (
        {
            "volumeMounts": [
                {"name": "none", "mountPath": ""},
                {"name": "dir", "mountPath": "/a", "subPath": "../b"},
                {"name": "dir", "mountPath": "/a", "mountPropagation": "Bidirectional"},
                {"name": "dir", "mountPath": "/c", "recursiveReadOnly": "Enabled"},
            ]
        },
        [
            (f"{C}.volumeMounts[0].name", "NotFound", '"none"'),
            (f"{C}.volumeMounts[0].mountPath", "Required", ""),
            (f"{C}.volumeMounts.subPath", "Invalid", "must not contain '..'"),
            (f"{C}.volumeMounts[2].mountPath", "Invalid", "must be unique"),
            (f"{C}.volumeMounts.mountPropagation", "Forbidden", "only to privileged containers"),
            (f"{C}.volumeMounts.recursiveReadOnly", "Forbidden", "when readOnly is true"),
        ],
    ),
    "devices": (
        {
            "volumeMounts": [{"name": "claim", "mountPath": "/dev/x"}],
            "volumeDevices": [
                {"name": "claim", "devicePath": "/dev/x"},
                {"name": "dir", "devicePath": "../y"},
            ],
        },
        [
            (f"{C}.volumeMounts[0].name", "Invalid", "must not already exist in volumeDevices"),
            (
                f"{C}.volumeMounts[0].mountPath",
                "Invalid",
                "must not already exist as a path in volumeDevices",
            ),
            (f"{C}.volumeDevices[0].name", "Invalid", "must not already exist in volumeMounts"),
            (
                f"{C}.volumeDevices[0].devicePath",
                "Invalid",
                "must not already exist as a path in volumeMounts",
            ),
            (f"{C}.volumeDevices[1].name", "Invalid", "PersistentVolumeClaim or Ephemeral"),
            (f"{C}.volumeDevices[1].devicePath", "Invalid", "can not contain backsteps"),
        ],
    ),
    "probes": (
        {
            "livenessProbe": {"httpGet": {"port": "a--b", "scheme": "FTP"}, "successThreshold": 2},
            "readinessProbe": {"tcpSocket": {"port": 0}, "exec": {}, "terminationGracePeriodSeconds": 1},
            "startupProbe": {"periodSeconds": -1},
        },
        [
            (f"{C}.livenessProbe.httpGet.port", "Invalid", "must not contain consecutive hyphens"),
            (f"{C}.livenessProbe.httpGet.scheme", "NotSupported", '"HTTP", "HTTPS"'),
            (f"{C}.livenessProbe.successThreshold", "Invalid", "must be 1"),
            (f"{C}.readinessProbe.exec.command", "Required", ""),
            (f"{C}.readinessProbe.tcpSocket", "Forbidden", "may not specify more than 1 handler type"),
            (
                f"{C}.readinessProbe.terminationGracePeriodSeconds",
                "Invalid",
                "must not be set for readinessProbes",
            ),
            (f"{C}.startupProbe", "Required", "must specify a handler type"),
            (f"{C}.startupProbe.periodSeconds", "Invalid", "must be greater than or equal to 0"),
        ],
    ),
    "a farewell that takes too long": (
        {"lifecycle": {"preStop": {"sleep": {"seconds": 31}}, "postStart": {}}},
        [
            (f"{C}.lifecycle.postStart", "Required", "must specify a handler type"),
            (f"{C}.lifecycle.preStop.sleep", "Invalid", "less than terminationGracePeriodSeconds (30)"),
        ],
    ),
    "more than the limit": (
        {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        [(f"{C}.resources.requests", "Invalid", '"2": must be less than or equal to cpu limit of 1')],
    ),
    "resources": (
        {
            "resources": {
                "requests": {"bogus": "1", "example.com/gpu": "1500m"},
                "limits": {"memory": "-1", "example.com/gpu": "2"},
                "claims": [{"name": "x"}],
            }
        },
        [
            (f"{C}.resources.limits[memory]", "Invalid", "must be greater than or equal to 0"),
            (
                f"{C}.resources.requests[bogus]",
                "Invalid",
                "must be a standard resource type or fully qualified",
            ),
            (f"{C}.resources.requests[bogus]", "Invalid", "must be a standard resource for containers"),
            (f"{C}.resources.requests[example.com/gpu]", "Invalid", "must be an integer"),
            (f"{C}.resources.requests", "Invalid", "must be equal to example.com/gpu limit of 2"),
            (f"{C}.resources.requests[memory]", "Invalid", "must be greater than or equal to 0"),
            (f"{C}.resources.claims[0]", "NotFound", "pod.spec.resourceClaims which is empty"),
        ],
    ),
    "huge pages": (
        {"resources": {"limits": {"hugepages-2Mi": "3Mi"}}},
        [
            (
                f"{C}.resources.limits[hugepages-2Mi]",
                "Invalid",
                "not positive integer multiple of hugepages-2Mi",
            ),
            (f"{C}.resources.requests[hugepages-2Mi]", "Invalid", "not positive integer multiple"),
            (f"{C}.resources", "Forbidden", "HugePages require cpu or memory"),
        ],
    ),
    "resizing": (
        {"resizePolicy": [{"resourceName": "disk", "restartPolicy": ""}]},
        [(f"{C}.resizePolicy", "NotSupported", '"cpu", "memory"'), (f"{C}.resizePolicy", "Required", "")],
    ),
    "privileged, as if --allow-privileged=true were given": ({"securityContext": {"privileged": True}}, []),
    "security": (
        {
            "securityContext": {
                "privileged": True,
                "allowPrivilegeEscalation": False,
                "procMount": "Unmasked",
                "seccompProfile": {"type": "Own"},
            }
        },
        [
            (f"{C}.securityContext.procMount", "Invalid", "`hostUsers` must be false"),
            (f"{C}.securityContext.seccompProfile.type", "NotSupported", '"Localhost", "RuntimeDefault"'),
            (f"{C}.securityContext", "Invalid", "to false and `privileged` to true"),
        ],
    ),
    "a profile of the node that is none": (
        {"securityContext": {"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}}},
        [
            (
                f"{C}.securityContext.seccompProfile.localhostProfile",
                "Invalid",
                '{"Type":"RuntimeDefault","LocalhostProfile":"a"}: can only be set when seccomp type is',
            )
        ],
    ),
}


@pytest.mark.parametrize(("change", "expected"), CONTAINERS.values(), ids=CONTAINERS)
def test_a_container(change: Document, expected: list[Expected]) -> None:
    volumes = [{"name": "dir", **EMPTY}, {"name": "claim", **CLAIM}]
    assert_agree(validate_pod_create(pod(containers=[container(**change)], volumes=volumes)), expected)


PROBE: Final = {"tcpSocket": {"port": 80}}
HOST_PORT: Final = {"ports": [{"containerPort": 80, "hostPort": 80}]}

# Changes of the spec.
LISTS: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "one name twice": (
        {"containers": [container(), container()]},
        [("spec.containers[1].name", "Duplicate", '"c"')],
    ),
    "one name for two kinds": (
        {"initContainers": [container()]},
        [("spec.initContainers[0].name", "Duplicate", '"c"')],
    ),
    "init containers without names": (
        {"initContainers": [container(name=""), container(name="")]},
        [("spec.initContainers[0].name", "Required", ""), ("spec.initContainers[1].name", "Required", "")],
    ),
    "init containers are not asked": (
        {"initContainers": [container(name="i", readinessProbe=PROBE, lifecycle={})]},
        [
            ("spec.initContainers[0].lifecycle", "Forbidden", "without restartPolicy=Always"),
            ("spec.initContainers[0].readinessProbe", "Forbidden", "without restartPolicy=Always"),
        ],
    ),
    "sidecars are": (
        {"initContainers": [container(name="i", readinessProbe=PROBE, restartPolicy="Always")]},
        [],
    ),
    "containers share the host's ports": (
        {"containers": [container(**HOST_PORT), container(name="d", **HOST_PORT)]},
        [("spec.containers[1].ports[0].hostPort", "Duplicate", '"TCP//80"')],
    ),
    "init containers follow one another": (
        {"initContainers": [container(name="i", **HOST_PORT), container(name="j", **HOST_PORT)]},
        [],
    ),
}


@pytest.mark.parametrize(("spec", "expected"), LISTS.values(), ids=LISTS)
def test_lists(spec: Document, expected: list[Expected]) -> None:
    assert_agree(validate_pod_create(pod(**spec)), expected)


def asking(cpu: str, **more: Any) -> Document:
    return container(resources={"requests": {"cpu": cpu}}, **more)


NEEDS: Final = {
    "containers run side by side": ({"containers": [asking("1"), asking("500m")]}, "1500m"),
    "the greediest of the first counts": (
        {"containers": [asking("1")], "initContainers": [asking("2"), asking("3")]},
        "3",
    ),
    "sidecars run beside everything": (
        {"containers": [asking("1")], "initContainers": [asking("1", restartPolicy="Always"), asking("3")]},
        "4",
    ),
    "the sum has all digits": (
        {"containers": [asking("123456789012345678901234567890"), asking("1m")]},
        "123456789012345678901234567890001m",
    ),
    "sidecars that come later do not": (
        {"containers": [asking("1")], "initContainers": [asking("3"), asking("1", restartPolicy="Always")]},
        "3",
    ),
}


@pytest.mark.parametrize(("spec", "cpu"), NEEDS.values(), ids=NEEDS)
def test_the_total_requests_of_containers(spec: Document, cpu: str) -> None:
    assert str(total_of_containers(spec, "requests")["cpu"]) == cpu
