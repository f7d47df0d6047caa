"""What may change of the resources of a pod.

Source: pkg/apis/core/validation, ValidatePodResize; pkg/registry/core/pod, strategy.go.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.catalogue.core.pods import resize
from tests.unit.catalogue.valid_pods import (
    Document,
    Expected,
    assert_agree,
    container,
    pod,
    prepare_resize,
    rules,
    validate_resize,
)

CLAIM: Final = {"resourceClaims": [{"name": "rc", "resourceClaimName": "claim"}]}
DEVICES: Final = {"requests": {"cpu": "1"}, "claims": [{"name": "rc"}]}


def whole(**requests: str) -> Document:
    """The resources of the pod as a whole."""
    return {"resources": {"requests": requests}}


def before(restartPolicy: str | None = None, **requests: str) -> Document:  # noqa: N803
    """A container that comes first."""
    policy = {"restartPolicy": restartPolicy} if restartPolicy is not None else {}
    return {"initContainers": [container(name="i", resources={"requests": requests}, **policy)]}


def sized(cpu: str = "1", memory: str = "1Gi", **more: Any) -> Document:
    return {"containers": [container(resources={"requests": {"cpu": cpu, "memory": memory}, **more})]}


SIZES: Final[dict[str, tuple[Document, Document, list[Expected]]]] = {
    "more": (sized(), sized(cpu="2", memory="512Mi"), []),
    "another class": (
        {"containers": [container()]},
        sized(),
        [("spec", "Invalid", "Pod QOS Class may not change as a result of resizing")],
    ),
    "less to ask for": (
        sized(),
        {"containers": [container(resources={"requests": {"cpu": "1"}})]},
        [("spec.containers[0].resources.requests", "Forbidden", "resource requests cannot be removed")],
    ),
    "another resource": (
        sized(),
        sized(limits={"ephemeral-storage": "1Gi"}),
        [("spec", "Forbidden", "only cpu and memory resources are mutable")],
    ),
    "another container": (
        sized(),
        {"containers": [*sized()["containers"], container(name="d")]},
        [("spec.containers", "Forbidden", "containers may not be added or removed on resize")],
    ),
    "another name": (
        {**sized(), "initContainers": [container(name="i")]},
        {"containers": [container(name="d")], "initContainers": [container(name="j")]},
        [
            ("spec", "Invalid", "Pod QOS Class may not change"),
            ("spec.containers[0].name", "Forbidden", "containers may not be renamed or reordered on resize"),
            ("spec.initContainers[0].name", "Forbidden", "initContainers may not be renamed or reordered"),
        ],
    ),
    "the resources of the pod": (whole(cpu="1"), whole(cpu="2", memory="2Gi"), []),
    "no amounts of resources of the pod that had none": (
        {},
        {"resources": {}},
        [("spec", "Forbidden", "only cpu and memory resources are mutable")],
    ),
    "resources of the pod that had none": (sized(), {**sized(), **whole(cpu="2", memory="2Gi")}, []),
    "less to ask for, of the pod": (
        whole(cpu="1", memory="1Gi"),
        whole(cpu="1"),
        [("spec.resources.requests", "Forbidden", "pod-level resource requests cannot be removed")],
    ),
    "no resources of the pod": (
        {**sized(), **whole(cpu="1", memory="1Gi")},
        sized(),
        [("spec.resources", "Forbidden", "pod-level resources cannot be removed")],
    ),
    "huge pages of the pod": (
        {"resources": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}}},
        {"resources": {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}},
        [("spec", "Forbidden", "only cpu and memory resources are mutable at pod-level")],
    ),
    "another class, by the pod": (
        {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0.5"}}},
        [("spec", "Invalid", "Pod QOS Class may not change as a result of resizing")],
    ),
    "what comes first": ({**sized(), **before(cpu="1")}, {**sized(), **before(cpu="2")}, []),
    "a sidecar": (
        {**sized(), **before(cpu="1", restartPolicy="Always")},
        {**sized(), **before(cpu="2", restartPolicy="Always")},
        [],
    ),
    "less to ask for, before": (
        {**sized(), **before(cpu="1")},
        {**sized(), **before(memory="1Gi")},
        [("spec.initContainers[0].resources.requests", "Forbidden", "resource requests cannot be removed")],
    ),
    "another resource, before": (
        {**sized(), **before(cpu="1")},
        {**sized(), **before(**{"cpu": "1", "ephemeral-storage": "1Gi"})},
        [("spec.initContainers[0]", "Forbidden", "resources for init or sidecar containers are mutable")],
    ),
    "devices": (
        {"containers": [container(resources=DEVICES)], **CLAIM},
        {"containers": [container(resources=DEVICES)], **CLAIM},
        [("spec", "Forbidden", "only cpu and memory resources are mutable")],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), SIZES.values(), ids=SIZES)
def test_sizes(old: Document, new: Document, expected: list[Expected]) -> None:
    stored, after = pod(**old), pod(**new)
    prepare_resize(after, stored)
    assert_agree(validate_resize(after, stored), expected)


def test_resize_changes_nothing_but_resources() -> None:
    stored = pod(status={"phase": "Running"}, **sized())
    after = pod(nodeName="n", **sized(cpu="2"))
    after["spec"]["containers"][0]["image"] = "other"
    prepare_resize(after, stored)
    [found] = after["spec"]["containers"]
    assert (found["image"], found["resources"]["requests"]["cpu"]) == ("img:1", "2")
    assert "nodeName" not in after["spec"]
    assert after["status"] == stored["status"]


# Gates that are off, the spec as it was, as it would be, and what is wrong with that.
GATES: Final[dict[str, tuple[str, Document, Document, list[Expected]]]] = {
    "the resources of the pod": (
        "InPlacePodLevelResourcesVerticalScaling",
        whole(cpu="1"),
        whole(cpu="2"),
        [("[]", "Forbidden", "resize of pods with pod-level resources is forbidden when InPlacePodLevel")],
    ),
    "what comes first": (
        "InPlacePodVerticalScalingInitContainers",
        {**sized(), **before(cpu="1")},
        {**sized(), **before(cpu="2")},
        [("spec", "Forbidden", "resources for non-sidecar init containers are immutable")],
    ),
    "a sidecar": (
        "InPlacePodVerticalScalingInitContainers",
        {**sized(), **before(cpu="1", restartPolicy="Always")},
        {**sized(), **before(cpu="2", restartPolicy="Always")},
        [],
    ),
}


@pytest.mark.parametrize(("gate", "old", "new", "expected"), GATES.values(), ids=GATES)
def test_sizes_while_a_gate_is_off(gate: str, old: Document, new: Document, expected: list[Expected]) -> None:
    off, stored, after = rules(**{gate: False}), pod(**old), pod(**new)
    resize.prepare_resize(off, after, stored)
    assert_agree(resize.validate_resize(off, after, stored), expected)


# A pod, and why it cannot be resized.
FIXED: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "a static one": (
        pod({"annotations": {"kubernetes.io/config.mirror": "x"}}, nodeName="n"),
        [("[]", "Forbidden", "static pods cannot be resized")],
    ),
    "one of Windows": (pod(os={"name": "windows"}), [("[]", "Forbidden", "windows pods cannot be resized")]),
    "one whose node tells nothing": (
        pod(status={"containerStatuses": [{"name": "c", "state": {"running": {}}}]}),
        [("spec", "Forbidden", "Pod running on node without support for resize")],
    ),
    "one with resources of its node by a claim": (
        pod(status={"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c"}]}),
        [("spec", "Forbidden", "pods with node allocatable resource claims cannot be resized")],
    ),
}


@pytest.mark.parametrize(("stored", "expected"), FIXED.values(), ids=FIXED)
def test_pods_that_cannot_be_resized(stored: Document, expected: list[Expected]) -> None:
    assert_agree(validate_resize(stored, stored), expected)
