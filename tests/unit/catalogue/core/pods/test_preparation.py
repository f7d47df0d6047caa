"""What is filled in in new pods. Source: pkg/registry/core/pod, strategy.go."""

from __future__ import annotations

from typing import Any, Final

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.valid_pods import pod, prepare_pod_create, validate_pod_create

SELECTOR: Final = {"matchLabels": {"a": "b"}}


def spread(**more: Any) -> Document:
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
        **more,
    }


def test_a_new_pod_waits_for_a_node() -> None:
    document = pod(status={"phase": "Running"})
    prepare_pod_create(document)
    assert document["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_gated_pod_says_so() -> None:
    document = pod(schedulingGates=[{"name": "g"}])
    prepare_pod_create(document)
    [condition] = document["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


def test_label_keys_become_part_of_selectors() -> None:
    constraint = spread(matchLabelKeys=["hash", "absent"])
    document = pod({"labels": {"hash": "1"}}, topologySpreadConstraints=[constraint])
    prepare_pod_create(document)
    [found] = document["spec"]["topologySpreadConstraints"]
    assert found["labelSelector"]["matchExpressions"] == [{"key": "hash", "operator": "In", "values": ["1"]}]
    assert validate_pod_create(document) == []


def test_old_annotations_become_fields() -> None:
    document = pod({"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "localhost/x"}})
    prepare_pod_create(document)
    assert document["spec"]["containers"][0]["securityContext"]["appArmorProfile"] == {
        "type": "Localhost",
        "localhostProfile": "x",
    }
