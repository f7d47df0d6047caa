"""What may change of a pod, and of its ephemeral containers.

Source: pkg/apis/core/validation, ValidatePodUpdate and ValidatePodEphemeralContainersUpdate;
pkg/registry/core/pod, strategy.go.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from apiserver.catalogue.core.pods.updates import difference, prepare_ephemeral_containers
from tests.unit.catalogue.valid_pods import (
    Document,
    Expected,
    assert_agree,
    container,
    pod,
    validate_ephemeral_containers_update,
    validate_pod_update,
)

ONLY: Final = "pod updates may not change fields other than `spec.containers[*].image`,"
GATED: Final = {"schedulingGates": [{"name": "g"}, {"name": "h"}]}
IN_ZONE: Final = {"key": "zone", "operator": "In", "values": ["a"]}
TERMS: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def on_nodes(*expressions: Document) -> Document:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


# The spec as it was, as it would be, and what is wrong with that.
UPDATES: Final[dict[str, tuple[Document, Document, list[Expected]]]] = {
    "nothing": ({}, {}, []),
    "another image": ({}, {"containers": [container(image="img:2")]}, []),
    "no image": (
        {},
        {"containers": [container(image="")]},
        [("spec.containers[0].image", "Required", "")] * 2,
    ),
    "a node": ({}, {"nodeName": "n"}, [("spec", "Forbidden", f"{ONLY}`spec.initContainers")]),
    "the differences are told": ({}, {"nodeName": "n"}, [("spec", "Forbidden", '\n+ nodeName: "n"')]),
    "another container": (
        {},
        {"containers": [container(), container(name="d")]},
        [("spec.containers", "Forbidden", "pod updates may not add or remove containers")],
    ),
    "a variable": ({}, {"containers": [container(env=[{"name": "A"}])]}, [("spec", "Forbidden", ONLY)]),
    "visitors come by another door": (
        {},
        {"ephemeralContainers": [container(name="d")]},
        [("spec", "Forbidden", ONLY)],
    ),
    "a deadline": ({}, {"activeDeadlineSeconds": 5}, []),
    "an earlier deadline": ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 4}, []),
    "a later deadline": (
        {"activeDeadlineSeconds": 5},
        {"activeDeadlineSeconds": 6},
        [("spec.activeDeadlineSeconds", "Invalid", "must be less than or equal to previous value")],
    ),
    "no deadline any more": (
        {"activeDeadlineSeconds": 5},
        {},
        [("spec.activeDeadlineSeconds", "Invalid", "must not update from a positive integer to nil value")],
    ),
    "another toleration": ({}, {"tolerations": [{"operator": "Exists"}]}, []),
    "tolerated for longer": (
        {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
        {"tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]},
        [],
    ),
    "not tolerated any more": (
        {"tolerations": [{"operator": "Exists"}]},
        {},
        [("spec.tolerations", "Forbidden", "existing toleration can not be modified")],
    ),
    "another wait": ({}, {"terminationGracePeriodSeconds": 1}, [("spec", "Forbidden", ONLY)]),
    "a gate opens": (GATED, {"schedulingGates": [{"name": "h"}]}, []),
    "another gate": (
        GATED,
        {"schedulingGates": [{"name": "g"}, {"name": "x"}]},
        [("spec.schedulingGates[1].name", "Forbidden", "found new scheduling gate 'x'")],
    ),
    "fewer nodes, behind a gate": (GATED, {**GATED, "nodeSelector": {"a": "b"}, **on_nodes(IN_ZONE)}, []),
    "fewer nodes, too late": ({}, {"nodeSelector": {"a": "b"}}, [("spec", "Forbidden", ONLY)]),
    "other nodes": (
        {**GATED, "nodeSelector": {"a": "b"}},
        {**GATED, "nodeSelector": {"a": "c"}},
        [("spec.nodeSelector", "Invalid", "only additions to spec.nodeSelector are allowed")],
    ),
    "still fewer nodes": (
        {**GATED, **on_nodes(IN_ZONE)},
        {**GATED, **on_nodes(IN_ZONE, {"key": "ssd", "operator": "Exists"})},
        [],
    ),
    "any node, in other words": ({**GATED}, {**GATED, "affinity": {"nodeAffinity": {}}}, []),
    "an affinity to nothing": ({**GATED}, {**GATED, "affinity": {}}, [("spec", "Forbidden", ONLY)]),
    "an affinity to pods": (
        {**GATED},
        {**GATED, "affinity": {"nodeAffinity": {}, "podAffinity": {}}},
        [("spec", "Forbidden", ONLY)],
    ),
    "no node selector": (
        {**GATED, "nodeSelector": {"a": "b"}},
        GATED,
        [("spec.nodeSelector", "Invalid", "Invalid value: null: only additions")],
    ),
    "gates are told of once": (
        GATED,
        {"schedulingGates": [{"name": "g"}, {"name": "x"}, {"name": "x"}]},
        [
            ("spec.schedulingGates[2]", "Duplicate", ""),
            ("spec.schedulingGates[2].name", "Forbidden", "found new scheduling gate 'x'"),
        ],
    ),
    "nodes of another zone": (
        {**GATED, **on_nodes(IN_ZONE)},
        {**GATED, **on_nodes({**IN_ZONE, "values": ["b"]})},
        [(f"{TERMS}[0]", "Invalid", "only additions are allowed (no mutations or deletions)")],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), UPDATES.values(), ids=UPDATES)
def test_updates(old: Document, new: Document, expected: list[Expected]) -> None:
    before, after = pod(**old), pod(**new)
    as_it_was = copy.deepcopy(before)
    assert_agree(validate_pod_update(after, before), expected)
    assert before == as_it_was


def test_a_wait_that_is_stored_as_negative_becomes_one_second() -> None:
    before = pod()
    before["spec"]["terminationGracePeriodSeconds"] = -5
    assert validate_pod_update(pod(terminationGracePeriodSeconds=-5), before) == []


def test_annotations_that_kubelets_rely_on() -> None:
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    [error] = validate_pod_update(pod(nodeName="n"), pod(mirror, nodeName="n"))
    assert error.field == "metadata.annotations[kubernetes.io/config.mirror]"
    assert error.message == "Forbidden: may not remove or update mirror pod annotation"


def test_a_difference_is_short() -> None:
    text = difference({"a": 1, "b": "x" * 10_000, "c": 0}, {"b": "y", "c": 0, "d": [1]})
    assert text.startswith('- a: 1\n- b: "xxx')
    assert text.endswith('+ b: "y"\n+ d: [1]')
    assert len(text) < 1_000


@pytest.mark.parametrize("none", [None, []], ids=["null", "empty"])
def test_pods_without_containers(none: Any) -> None:
    """Nobody can create one; should one be there, it can be updated, for what that is worth."""
    before, after = pod(containers=none), pod(containers=none)
    after["spec"]["nodeName"] = "n"
    assert ("spec", "FieldValueForbidden") in [
        (error.field, error.reason) for error in validate_pod_update(after, before)
    ]


# ---- ephemeralcontainers


def visited(*visitors: Document, **more: Any) -> Document:
    return pod(ephemeralContainers=list(visitors), **more)


VISITS: Final[dict[str, tuple[Document, Document, list[str]]]] = {
    "one comes": (visited(), visited(container(name="d")), []),
    "one more comes": (visited(container(name="d")), visited(container(name="e"), container(name="d")), []),
    "one goes": (visited(container(name="d")), visited(), ['"d" may not be removed']),
    "one changes": (
        visited(container(name="d")),
        visited(container(name="d", image="x")),
        ['"d" may not be changed\n- image: "img:1"'],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), VISITS.values(), ids=VISITS)
def test_ephemeral_containers_stay_as_they_are(old: Document, new: Document, expected: list[str]) -> None:
    errors = validate_ephemeral_containers_update(new, old)
    assert [error.field for error in errors] == ["spec.ephemeralContainers"] * len(expected)
    assert all(part in error.message for error, part in zip(errors, expected, strict=True))


# Visitors, and what is wrong with them as containers.
VISITORS: Final[dict[str, tuple[Document, list[Expected]]]] = {
    "the name of another": (container(), [("spec.ephemeralContainers[0].name", "Duplicate", '"c"')]),
    "nobody to look at": (
        container(name="d", targetContainerName="x"),
        [("spec.ephemeralContainers[0].targetContainerName", "NotFound", '"x"')],
    ),
    "work of its own": (
        container(name="d", ports=[{"containerPort": 80}], lifecycle={}, livenessProbe={"exec": {}}),
        [
            ("spec.ephemeralContainers[0].ports", "Forbidden", "cannot be set for an Ephemeral Container"),
            ("spec.ephemeralContainers[0].livenessProbe", "Forbidden", "for an Ephemeral Container"),
            ("spec.ephemeralContainers[0].lifecycle", "Forbidden", "for an Ephemeral Container"),
        ],
    ),
    "work of its own that is empty": (
        container(name="d", ports=[], resizePolicy=[], resources={"limits": {}}),
        [
            ("spec.ephemeralContainers[0].ports", "Forbidden", "cannot be set for an Ephemeral Container"),
            ("spec.ephemeralContainers[0].resources", "Forbidden", "for an Ephemeral Container"),
            ("spec.ephemeralContainers[0].resizePolicy", "Forbidden", "for an Ephemeral Container"),
        ],
    ),
}


@pytest.mark.parametrize(("visitor", "expected"), VISITORS.values(), ids=VISITORS)
def test_ephemeral_containers_are_checked(visitor: Document, expected: list[Expected]) -> None:
    assert_agree(validate_ephemeral_containers_update(visited(visitor), pod()), expected)


def test_this_door_is_for_visitors_only() -> None:
    before = pod({"labels": {"a": "b"}}, status={"phase": "Running"})
    changed: Document = {"labels": {"a": "c"}, "deletionTimestamp": "2020-01-01T00:00:00Z"}
    after = pod(changed, ephemeralContainers=[container(name="d")], nodeName="n")
    prepare_ephemeral_containers(after, before)
    assert [each["name"] for each in after["spec"].pop("ephemeralContainers")] == ["d"]
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert after["metadata"] == before["metadata"]
