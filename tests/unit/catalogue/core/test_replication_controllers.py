"""ReplicationControllers. Source: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind, least

CONTROLLER: Final = ServedKind("replicationcontrollers")
PODS: Final[dict[str, Any]] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
RC: Final = least("ReplicationController", spec={"template": PODS})


def test_a_controller_is_labelled_as_its_pods_are_and_selects_them() -> None:
    document, errors = CONTROLLER.created(RC)
    assert errors == []
    assert document["spec"]["replicas"] == 1
    assert document["spec"]["selector"] == document["metadata"]["labels"] == {"app": "a"}
    assert document["status"] == {"replicas": 0}
    none = CONTROLLER.created(RC, {"spec.replicas": 0, "metadata.labels": {"x": "y"}}).document
    assert (none["spec"]["replicas"], none["metadata"]["labels"]) == (0, {"x": "y"})


INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "pods are made from something": (
        {"spec.template": None},
        ["spec.selector: Required value", "spec.template: Required value"],
    ),
    "not fewer than none": (
        {"spec.replicas": -1},
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "they are the ones selected": (
        {"spec.selector": {"app": "b"}},
        [
            (
                'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not '
                "match template "
                "`labels`"
            )
        ],
    ),
    "they start again": (
        {"spec.template.spec.restartPolicy": "Never"},
        ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
    ),
    "they have containers": (
        {"spec.template.spec.containers": []},
        ["spec.template.spec.containers: Required value"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_errors_in_controllers(changes: Changes, texts: list[str]) -> None:
    assert CONTROLLER.created(RC, changes).texts == texts


STATUS: Final[dict[str, tuple[Changes, list[str]]]] = {
    "some are ready": ({"status": {"replicas": 3, "readyReplicas": 2, "availableReplicas": 1}}, []),
    "more than there are": (
        {"status": {"replicas": 1, "readyReplicas": 2}},
        ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
    ),
    "more than are ready": (
        {"status": {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}},
        ["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), STATUS.values(), ids=STATUS)
def test_the_status(changes: Changes, texts: list[str]) -> None:
    assert CONTROLLER.updated(CONTROLLER.created(RC).document, changes, "status").texts == texts


def test_a_name_that_makes_no_host_names_is_warned_of_once() -> None:
    document = CONTROLLER.created(RC, {"metadata.name": "a.b"}).document
    (text,) = CONTROLLER.strategy.warn(document, None)
    assert text.startswith("metadata.name: this is used in Pod names and hostnames")
    assert CONTROLLER.strategy.warn(document, document) == []


def test_an_update_warns_about_the_template_that_it_replaces() -> None:
    warn = CONTROLLER.strategy.warn
    grace = {"spec.template.spec.terminationGracePeriodSeconds": -1}
    bad = {**CONTROLLER.created(RC, grace).document, "metadata": {"name": "a", "generation": 1}}
    good = {**CONTROLLER.created(RC).document, "metadata": {"name": "a", "generation": 2}}
    assert [len(warn(new, old)) for new, old in ((bad, None), (good, bad), (bad, good))] == [1, 1, 0]
