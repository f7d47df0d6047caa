"""The fields that kinds other than Pods have got from 1.33 to 1.36, and what is refused in each of them.

Those of resource.k8s.io until 1.34, when its v1 came, have their tests in `resource`. Those of Pods:
`pod_specs/test_newer_fields`, `core/pods/test_status`. Source: the definitions of the releases, and
pkg/apis/*/validation (release 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from apiserver.schema.builtin import BuiltinSchemas
from tests.unit.catalogue.served_kinds import Changes, ServedKind

HERE: Final = Path(__file__).parent
OLDEST, NEWEST = 33, 36
# Definitions of versions that others have replaced: their rules are those of the newest.
REPLACED: Final = ("v1alpha1.", "v1alpha2.", "v1alpha3.", "resource.v1beta")
# What pods and their templates are made of.
OF_PODS: Final = (
    *("Container", "ContainerStatus", "EphemeralContainer", "EnvVarSource", "Lifecycle", "ResourceHealth"),
    *("PodCertificateProjection", "PodCondition", "PodSpec", "PodStatus", "VolumeMountStatus"),
    *("NodeAllocatableResourceClaimStatus", "VolumeProjection"),
)
# Definitions of no kind.
OF_MACHINERY: Final = "io.k8s.apimachinery."

_POD: Final = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
_WORKLOAD: Final = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _POD}}
_TARGET: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
DEPLOYMENT: Final = ServedKind("deployments.apps", _WORKLOAD)
REPLICA_SET: Final = ServedKind("replicasets.apps", _WORKLOAD)
AUTOSCALER: Final = ServedKind(
    "horizontalpodautoscalers.autoscaling", {"spec": {"maxReplicas": 5, "scaleTargetRef": _TARGET}}, "v2"
)
DRIVER: Final = ServedKind("csidrivers.storage.k8s.io", {"spec": {}})
LIMITING_DRIVER: Final = ServedKind("csidrivers.storage.k8s.io", {"spec": {}}, gates=("VolumeLimitScaling",))
ATTACHMENT: Final = ServedKind(
    "volumeattachments.storage.k8s.io",
    {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}},
)
NODE: Final = ServedKind("nodes")
SLICE: Final = ServedKind(
    "endpointslices.discovery.k8s.io",
    {"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": []},
)
DEFINITION: Final = ServedKind(
    "customresourcedefinitions.apiextensions.k8s.io",
    {
        "metadata": {"name": "as.b.c"},
        "spec": {
            "group": "b.c",
            "scope": "Cluster",
            "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    },
)


class Newer(NamedTuple):
    """A field, and a value that is refused; if none is, the value is one that is taken.

    release: 1.`release` was the first to have it.
    """

    release: int
    kind: ServedKind
    changes: Changes
    refused: str = ""
    subresource: str = ""


_NEGATIVE: Final = "must be greater than or equal to 0"
_HINT: Final = "endpoints[0].hints.forNodes[0].name"
CHECKED: Final[dict[str, Newer]] = {
    "DeploymentStatus.terminatingReplicas": Newer(
        33,
        DEPLOYMENT,
        {"status.terminatingReplicas": -1},
        f"status.terminatingReplicas: Invalid value: -1: {_NEGATIVE}",
        "status",
    ),
    "ReplicaSetStatus.terminatingReplicas": Newer(
        33,
        REPLICA_SET,
        {"status.terminatingReplicas": -1},
        f"status.terminatingReplicas: Invalid value: -1: {_NEGATIVE}",
        "status",
    ),
    "HPAScalingRules.tolerance": Newer(
        33,
        AUTOSCALER,
        {"spec.behavior": {"scaleUp": {"tolerance": "-1m"}}},
        f'spec.behavior.scaleUp.tolerance: Invalid value: "-1m": {_NEGATIVE}',
    ),
    "NodeSystemInfo.swap": Newer(
        33, NODE, {"status.nodeInfo": {"swap": {"capacity": -5}}}, subresource="status"
    ),
    "EndpointHints.forNodes": Newer(
        33,
        SLICE,
        {"endpoints.0.hints": {"forNodes": [{"name": "A_"}]}},
        f'{_HINT}: Invalid value: "A_": a lowercase RFC 1123 subdomain',
    ),
    "CSIDriverSpec.nodeAllocatableUpdatePeriodSeconds": Newer(
        33,
        DRIVER,
        {"spec.nodeAllocatableUpdatePeriodSeconds": 9},
        "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10",
    ),
    "VolumeError.errorCode": Newer(
        33,
        ATTACHMENT,
        {"status.attachError": {"errorCode": -1}},
        "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        "status",
    ),
    "NodeStatus.declaredFeatures": Newer(
        35, NODE, {"status.declaredFeatures": ["a"]}, "status.declaredFeatures[0]: Invalid value", "status"
    ),
    "CSIDriverSpec.serviceAccountTokenInSecrets": Newer(
        35,
        DRIVER,
        {"spec.serviceAccountTokenInSecrets": True},
        "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no",
    ),
    "CustomResourceDefinitionStatus.observedGeneration": Newer(
        35, DEFINITION, {"status.observedGeneration": 3}, subresource="status"
    ),
    "CustomResourceDefinitionCondition.observedGeneration": Newer(
        35,
        DEFINITION,
        {"status.conditions": [{"type": "Established", "status": "True", "observedGeneration": 3}]},
        subresource="status",
    ),
    "CSIDriverSpec.preventPodSchedulingIfMissing": Newer(
        36, LIMITING_DRIVER, {"spec.preventPodSchedulingIfMissing": True}
    ),
}
_DEVICES: Final = "resource/test_devices.py"
# Fields whose rules have a test of their own: the release, and where that is.
ELSEWHERE: Final[dict[str, tuple[int, str]]] = {
    "PodCertificateRequestSpec.stubPKCS10Request": (36, "certificates/test_pod_certificate_requests.py"),
    "Device.nodeAllocatableResourceMappings": (36, _DEVICES),
    **{f"DeviceAttribute.{kind}": (36, _DEVICES) for kind in ("bools", "ints", "strings", "versions")},
}


def new_fields(minor: int) -> Iterator[str]:
    """Yields the fields that a release has added to definitions of which the release before knew."""
    before = BuiltinSchemas((1, minor - 1)).definitions()
    for name, definition in BuiltinSchemas((1, minor)).definitions().items():
        kind = name.rpartition(".")[2]
        is_newest = not any(each in name for each in REPLACED) and kind not in OF_PODS
        if name in before and is_newest and not name.startswith(OF_MACHINERY):
            fields = definition.get("properties", {}).keys() - before[name].get("properties", {}).keys()
            yield from (f"{kind}.{field}" for field in fields)


def test_all_new_fields_are_here() -> None:
    found = {field: minor for minor in range(OLDEST, NEWEST + 1) for field in new_fields(minor)}
    assert found == {
        **{field: newer.release for field, newer in CHECKED.items()},
        **{field: release for field, (release, _) in ELSEWHERE.items()},
    }


@pytest.mark.parametrize(("field", "place"), ELSEWHERE.items(), ids=ELSEWHERE)
def test_rules_of_other_new_fields_have_a_test(field: str, place: tuple[int, str]) -> None:
    assert field.rpartition(".")[2] in (HERE / place[1]).read_text()


@pytest.mark.parametrize("newer", CHECKED.values(), ids=CHECKED)
def test_new_fields_are_checked(newer: Newer) -> None:
    texts = newer.kind.update(newer.changes, newer.subresource).texts
    if newer.refused:
        assert [text.startswith(newer.refused) for text in texts] == [True], texts
    else:
        assert texts == []
