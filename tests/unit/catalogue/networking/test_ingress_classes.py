"""IngressClasses. Source: pkg/apis/networking/validation (release 1.34); row T20."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind

INGRESS_CLASS: Final = ServedKind(
    "ingressclasses.networking.k8s.io", {"spec": {"controller": "example.com/controller"}}
)
PARAMETERS: Final = {"kind": "K", "name": "n"}
INVALID_CLASSES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a controller is a domain and a path": (
        {"spec.controller": "x"},
        ['spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")'],
    ),
    "a controller is not too long": (
        {"spec.controller": "a.b/" + "x" * 250},
        ["spec.controller: Too long: may not be more than 250 bytes"],
    ),
    "there is a controller": ({"spec.controller": None}, ["spec.controller: Required value"]),
    "parameters of a cluster have no namespace": (
        {"spec.parameters": {**PARAMETERS, "namespace": "x"}},
        ["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
    ),
    "parameters of a namespace name it": (
        {"spec.parameters": {**PARAMETERS, "scope": "Namespace"}},
        ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID_CLASSES.values(), ids=INVALID_CLASSES)
def test_classes_that_are_wrong(changes: Changes, texts: list[str]) -> None:
    assert INGRESS_CLASS.create(changes).texts == texts


def test_parameters_are_the_clusters_unless_they_say_more() -> None:
    document, errors = INGRESS_CLASS.create({"spec.parameters": PARAMETERS})
    assert (errors, document["spec"]["parameters"]["scope"]) == ([], "Cluster")


def test_the_controller_of_a_class_stays() -> None:
    assert INGRESS_CLASS.update({"spec.controller": "b.c/d"}).texts == [
        'spec.controller: Invalid value: "b.c/d": field is immutable'
    ]
