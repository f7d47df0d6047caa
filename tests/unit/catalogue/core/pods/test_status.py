"""What may change of the status of a pod.

Source: pkg/apis/core/validation, ValidatePodStatusUpdate; pkg/registry/core/pod, strategy.go.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.core.pods.status import prepare_pod_status
from apiserver.catalogue.core.pods.status import validate_pod_status as validate_status
from tests.unit.catalogue.valid_pods import (
    Document,
    Expected,
    assert_agree,
    container,
    pod,
    rules,
    validate_pod_status,
)


def ended(code: int) -> Document:
    return {"name": "c", "state": {"terminated": {"exitCode": code}}}


RUNNING: Final = {"name": "c", "state": {"running": {}}}

# How the pod restarts, its status as it was, as it would be, and what is wrong with that.
STATUSES: Final[dict[str, tuple[str, Document, Document, list[Expected]]]] = {
    "a condition of somebody's": (
        "Always",
        {},
        {"conditions": [{"type": "example.com/Fed", "status": "True"}]},
        [],
    ),
    "a condition without a name": (
        "Always",
        {},
        {"conditions": [{"type": "-", "status": "True"}]},
        [("status.conditions[0].Type", "Invalid", "alphanumeric")],
    ),
    "another class": (
        "Always",
        {"qosClass": "BestEffort"},
        {"qosClass": "Burstable"},
        [("status.qosClass", "Invalid", "field is immutable")],
    ),
    "life after the end": (
        "Never",
        {"containerStatuses": [ended(0)]},
        {"containerStatuses": [RUNNING]},
        [
            (
                "status.containerStatuses[0].state",
                "Forbidden",
                "may not be transitioned to non-terminated state",
            )
        ],
    ),
    "life after a failure": (
        "OnFailure",
        {"containerStatuses": [ended(1)]},
        {"containerStatuses": [RUNNING]},
        [],
    ),
    "life goes on": ("Always", {"containerStatuses": [ended(0)]}, {"containerStatuses": [RUNNING]}, []),
    "visitors leave once": (
        "Always",
        {"ephemeralContainerStatuses": [ended(1)]},
        {"ephemeralContainerStatuses": [RUNNING]},
        [("status.ephemeralContainerStatuses[0].state", "Forbidden", "non-terminated")],
    ),
    "two families": ("Always", {}, {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}, []),
    "two of a family": (
        "Always",
        {},
        {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]},
        [
            (
                "status.podIPs",
                "Invalid",
                '[{"IP":"1.2.3.4"},{"IP":"1.2.3.4"}]: may specify no more than one IP',
            )
        ],
    ),
    "another host": (
        "Always",
        {},
        {"hostIP": "1.2.3.4", "hostIPs": [{"ip": "x"}]},
        [
            ("status.hostIPs[0].ip", "Invalid", "must be equal to `hostIP`"),
            ("status.hostIPs[0]", "Invalid", "must be a valid IP address"),
        ],
    ),
}


@pytest.mark.parametrize(("policy", "old", "new", "expected"), STATUSES.values(), ids=STATUSES)
def test_status(policy: str, old: Document, new: Document, expected: list[Expected]) -> None:
    before, after = pod(status=old, restartPolicy=policy), pod(status=new, restartPolicy=policy)
    assert_agree(validate_pod_status(after, before), expected)


def test_a_status_keeps_what_old_kubelets_forget() -> None:
    seen = {"type": "Ready", "status": "True", "observedGeneration": 3}
    before = pod(status={"qosClass": "BestEffort", "observedGeneration": 4, "conditions": [seen]})
    after = pod(status={"conditions": [{"type": "Ready", "status": "False"}]}, nodeName="n")
    prepare_pod_status(after, before)
    assert after["spec"] == before["spec"]
    assert (after["status"]["qosClass"], after["status"]["observedGeneration"]) == ("BestEffort", 4)
    [condition] = after["status"]["conditions"]
    assert (condition["status"], condition["observedGeneration"]) == ("False", 3)


RUNS: Final = {"containerStatuses": [RUNNING]}
RULE: Final = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
ALL: Final = {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}
AGAIN: Final = [("status.containerStatuses[0].state", "Forbidden", "non-terminated state")]

# The restart policy of the pod, what its container says itself, how that ended, and whether it may run again.
# Source: component-helpers, ContainerShouldRestart.
RESTARTS: Final[dict[str, tuple[str, Document, int, bool]]] = {
    "a pod's policy": ("Never", {}, 1, False),
    "a pod's policy for failures": ("OnFailure", {}, 1, True),
    "a pod's policy for successes": ("OnFailure", {}, 0, False),
    "a container's own policy": ("Never", {"restartPolicy": "Always"}, 0, True),
    "a container's own policy is less than the pod's": ("Always", {"restartPolicy": "Never"}, 1, False),
    "a container's own policy for failures": ("Never", {"restartPolicy": "OnFailure"}, 1, True),
    "a rule": ("Never", {"restartPolicy": "Never", "restartPolicyRules": [RULE]}, 42, True),
    "a rule for another exit code": (
        "Never",
        {"restartPolicy": "Never", "restartPolicyRules": [RULE]},
        1,
        False,
    ),
    "a rule for all": ("Never", {"restartPolicy": "Never", "restartPolicyRules": [ALL]}, 0, True),
}


@pytest.mark.parametrize(("policy", "own", "code", "restarts"), RESTARTS.values(), ids=RESTARTS)
def test_a_container_that_has_ended_runs_again_if_it_is_restarted(
    policy: str, own: Document, code: int, restarts: bool
) -> None:
    spec: Document = {"restartPolicy": policy, "containers": [container(**own)]}
    before, after = pod(status={"containerStatuses": [ended(code)]}, **spec), pod(status=RUNS, **spec)
    assert_agree(validate_pod_status(after, before), [] if restarts else AGAIN)


def test_no_container_restarts_by_rules_while_their_gate_is_off() -> None:
    """A pod that has rules from the time before keeps them."""
    without = rules(RestartAllContainersOnContainerExits=False, ContainerRestartRules=False)
    before, after = pod(status={"containerStatuses": [ended(1)]}), pod(status=RUNS)
    assert validate_status(without, after, before) == []  # The pod restarts always.
    spec: Document = {"restartPolicy": "Never", "containers": [container(restartPolicy="OnFailure")]}
    before, after = pod(status={"containerStatuses": [ended(1)]}, **spec), pod(status=RUNS, **spec)
    assert validate_status(without, after, before) == []


def test_a_container_that_is_not_in_the_spec_is_not_restarted() -> None:
    other = {"containerStatuses": [ended(1) | {"name": "x"}]}
    before, after = pod(status=other), pod(status={"containerStatuses": [RUNNING | {"name": "x"}]})
    assert_agree(validate_pod_status(after, before), AGAIN)


CLAIM: Final = {"resourceClaims": [{"name": "rc", "resourceClaimName": "claim"}]}
MAPPING: Final = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
ASKS: Final[Document] = {
    "containers": [container(resources={"limits": {"example.com/gpu": "1"}, "claims": [{"name": "rc"}]})],
    **CLAIM,
}


def extended(*mappings: Document, claim: str = "claim") -> Document:
    return {"extendedResourceClaimStatus": {"requestMappings": list(mappings), "resourceClaimName": claim}}


def allocated(name: str, *resources: Document) -> Document:
    status = {"name": "c", "allocatedResourcesStatus": [{"name": name, "resources": list(resources)}]}
    return {"containerStatuses": [status]}


def of_node(**fields: Any) -> Document:
    status = {"resourceClaimName": "claim", "containers": ["c"], "resources": {"cpu": "1"}, **fields}
    return {"nodeAllocatableResourceClaimStatuses": [status]}


EXTENDED: Final = "status.extendedResourceClaimStatus"
OF_NODE: Final = "status.nodeAllocatableResourceClaimStatuses[0]"
ALLOCATED: Final = "status.containerStatuses[0].allocatedResourcesStatus[0]"

# A status that a pod on a node gets, and what is wrong with it: fields of 1.33 to 1.36.
NEW_FIELDS: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "generations": (
        {"observedGeneration": -1, "conditions": [{"type": "Ready", "observedGeneration": -2}]},
        [
            ("status.conditions[0].observedGeneration", "Invalid", "-2: must be a non-negative integer"),
            ("status.observedGeneration", "Invalid", "-1: must be a non-negative integer"),
        ],
    ),
    "a nomination beside a node": (
        {"nominatedNodeName": "Other"},
        [
            ("status.nominatedNodeName", "Invalid", "a lowercase RFC 1123 subdomain"),
            ("status.nominatedNodeName", "Forbidden", "may not be set on pods that are already bound"),
        ],
    ),
    "a claim's name": (
        {"resourceClaimStatuses": [{"name": "rc", "resourceClaimName": "A"}]},
        [("status.resourceClaimStatuses[0].resourceClaimName", "Invalid", "a lowercase RFC 1123 subdomain")],
    ),
    "an extended resource by a claim": (extended(MAPPING), []),
    "no requests of the claim": (
        extended(claim=""),
        [
            (f"{EXTENDED}.requestMappings", "Required", "at least one request mapping is required"),
            (f"{EXTENDED}.resourceClaimName", "Required", ""),
        ],
    ),
    "requests of nobody": (
        extended(
            MAPPING | {"containerName": "x"},
            MAPPING | {"resourceName": "example.com/x"},
            MAPPING | {"requestName": "A"},
        ),
        [
            (f"{EXTENDED}.requestMappings[0].containerName", "Invalid", "must match the name of an entry in"),
            (f"{EXTENDED}.requestMappings[1].resourceName", "Invalid", "must match the extended resource"),
            (f"{EXTENDED}.requestName", "Invalid", "a lowercase RFC 1123 label"),
        ],
    ),
    "a request twice": (
        extended(MAPPING, MAPPING),
        [
            (f"{EXTENDED}.requestMappings[1].{field}", "Duplicate", "")
            for field in ("containerName", "resourceName", "requestName")
        ],
    ),
    "resources of the node by a claim": (of_node(), []),
    "nothing by nobody's claim": (
        of_node(resourceClaimName="x", containers=[], resources={}),
        [
            (f"{OF_NODE}.resourceClaimName", "Invalid", "no mapping found in pod reference"),
            (f"{OF_NODE}.containers", "Required", "must not be empty"),
            (f"{OF_NODE}.resources", "Required", "must not be empty"),
        ],
    ),
    "what no node has of itself": (
        of_node(resources={"example.com/gpu": "1", "cpu": "-1"}),
        [
            (f"{OF_NODE}.resources[cpu]", "Invalid", "must be non-negative"),
            (f"{OF_NODE}.resources[example.com/gpu]", "Invalid", "must be a node allocatable resource name"),
        ],
    ),
    "allocated devices": (
        allocated("claim:rc", {"resourceID": "d", "health": "Healthy", "message": "ok"}),
        [],
    ),
    "the health of what was not asked for": (
        allocated("claim:x", {"resourceID": "d", "health": "Sick"}, {"resourceID": "d", "health": "Unknown"}),
        [
            (f"{ALLOCATED}.name", "Invalid", "must match one of the container's resource claims"),
            (f"{ALLOCATED}.resources[0].health", "NotSupported", '"Healthy", "Unhealthy", "Unknown"'),
            (f"{ALLOCATED}.resources[1].resourceID", "Duplicate", '"d"'),
        ],
    ),
    "messages": (
        allocated(
            "example.com/gpu",
            {"resourceID": "d", "health": "Unknown", "message": ""},
            {"resourceID": "e", "health": "Unknown", "message": "x" * 1025},
        ),
        [
            (f"{ALLOCATED}.resources[0].message", "Required", "must be non-empty if specified"),
            (f"{ALLOCATED}.resources[1].message", "TooLong", "1024"),
        ],
    ),
    "resources of a visitor": (
        {"ephemeralContainerStatuses": [{"name": "d", "allocatedResourcesStatus": [{"name": "cpu"}]}]},
        [
            (
                "status.ephemeralContainerStatuses[0].allocatedResourcesStatus",
                "Forbidden",
                "must not be specif",
            )
        ],
    ),
    "a user": (
        {"containerStatuses": [{"name": "c", "user": {"linux": {"uid": -1, "gid": 0}}}]},
        [("status.containerStatuses[0].user.linux.uid", "Invalid", "between 0 and 2147483647")],
    ),
}


@pytest.mark.parametrize(("status", "expected"), NEW_FIELDS.values(), ids=NEW_FIELDS)
def test_new_fields(status: Document, expected: list[Expected]) -> None:
    spec: Document = {"nodeName": "n", **ASKS}
    assert_agree(validate_pod_status(pod(status=status, **spec), pod(**spec)), expected)


def test_a_status_does_not_delete() -> None:
    new, old = pod({"deletionTimestamp": "2020-01-01T00:00:00Z"}), pod()
    prepare_pod_status(new, old)
    assert new == old


def test_annotations_are_checked_with_a_status() -> None:
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "x"}
    errors = validate_pod_status(pod({"annotations": annotations}), pod())
    where = "metadata.annotations.seccomp.security.alpha.kubernetes.io/pod"
    assert_agree(errors, [(where, "Invalid", "must be a valid seccomp profile")])


def test_a_nomination_may_stay_and_may_be_removed() -> None:
    bound = pod(nodeName="n", status={"nominatedNodeName": "other"})
    assert validate_pod_status(bound, bound) == []
    assert validate_pod_status(pod(nodeName="n"), bound) == []
    free = rules(ClearingNominatedNodeNameAfterBinding=False)
    assert validate_status(free, bound, pod(nodeName="n")) == []


IMAGE_REFERENCES: Final = {
    "none": ("", ("Required", "imageRef must not be empty")),
    "too many bytes": ("é" * 129, ("TooLong", "may not be more than 256 bytes")),
}


@pytest.mark.parametrize(("reference", "error"), IMAGE_REFERENCES.values(), ids=IMAGE_REFERENCES)
def test_digests_of_images_are_checked_where_they_are_kept(reference: str, error: tuple[str, str]) -> None:
    image = {"volumeStatus": {"image": {"imageRef": reference}}, "name": "v", "mountPath": "/v"}
    status = {"initContainerStatuses": [{"name": "c", "volumeMounts": [image]}]}
    where = "status.initContainerStatuses[0].volumeMounts[0].volumeStatus.imageVolumeStatus.imageRef"
    errors = validate_status(rules(ImageVolumeWithDigest=True), pod(status=status), pod())
    assert_agree(errors, [(where, *error)])
    assert validate_pod_status(pod(status=status), pod()) == []
