"""Nodes. Source: pkg/apis/core/validation (ValidateNode), plugin/pkg/admission/nodetaint."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.meta.vocabulary import Document
from tests.unit.catalogue.served_kinds import Changes, ServedKind, assert_texts_begin, changed, least

NODE: Final = ServedKind("nodes")
NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
LEAST: Final = least("Node", spec={"podCIDRs": ["10.0.0.0/24", "fd00::/64"], "providerID": "p"})


def test_a_new_node_is_not_ready() -> None:
    taint = {"key": "k", "effect": "NoExecute"}
    assert NODE.created(least("Node")).document["spec"] == {"taints": [NOT_READY]}
    assert NODE.created(least("Node", spec={"taints": [taint]})).document["spec"]["taints"] == [
        taint,
        NOT_READY,
    ]
    valued = {**NOT_READY, "value": "v"}
    assert NODE.created(least("Node", spec={"taints": [valued]})).document["spec"]["taints"] == [valued]


DEFAULTS: Final[dict[str, tuple[Changes, Changes]]] = {
    "all there is can be had": ({"status": {"capacity": {"cpu": "4"}}}, {"status.allocatable": {"cpu": "4"}}),
    "unless it is said": (
        {"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}},
        {"status.allocatable": {"cpu": "3"}},
    ),
    "one range is a list of one": ({"spec": {"podCIDR": "10.0.0.0/24"}}, {"spec.podCIDRs": ["10.0.0.0/24"]}),
    "the first of a list is the one": (
        {"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}},
        {"spec.podCIDR": "10.0.0.0/24"},
    ),
    "where they disagree it is the one": (
        {"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.0.0/24"]}},
        {"spec.podCIDRs": ["10.0.1.0/24"]},
    ),
}


@pytest.mark.parametrize(("fields", "expected"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults(fields: Changes, expected: Changes) -> None:
    document = NODE.created(least("Node", **fields)).document
    assert {path: at(document, path) for path in expected} == expected


def at(document: Document, path: str) -> Any:
    for step in path.split("."):
        document = document[step]
    return document


_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"

TAINTS: Final = "scheduler.alpha.kubernetes.io/taints"


def annotated(taints: str) -> Changes:
    return {"metadata.annotations": {TAINTS: taints}}


NO_TAINTS: Final = (
    'metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/taints": must be the JSON of a list'
)

INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "a good one": ({}, []),
    "an effect is one of three": (
        {"spec.taints": [{"key": "k", "effect": "X"}]},
        [
            (
                'metadata.taints[0].effect: Unsupported value: "X": supported values: "NoSchedule", '
                '"PreferNoSchedule", "NoExecute"'
            )
        ],
    ),
    "a taint's value is a label's": (
        {"spec.taints": [{"key": "k", "value": "-", "effect": "NoExecute"}]},
        ['metadata.taints[0].value: Invalid value: "-": a valid label must be'],
    ),
    "a key has an effect once": (
        {
            "spec.taints": [
                {"key": "k", "effect": "NoExecute"},
                {"key": "k", "value": "v", "effect": "NoExecute"},
            ]
        },
        [
            (
                "metadata.taints[1]: Duplicate value: "
                '{"Key":"k","Value":"v","Effect":"NoExecute","TimeAdded":null}: '
                "taints must be unique by key and effect pair"
            )
        ],
    ),
    "a taint in an annotation is checked": (
        annotated('[{"key": "k", "effect": "X"}]'),
        [f'metadata.annotations.{TAINTS}[0].effect: Unsupported value: "X": supported values: '],
    ),
    "a taint in an annotation has text for its key": (annotated('[{"key": 5}]'), [NO_TAINTS]),
    "a taint in an annotation has text for its effect": (
        annotated('[{"key": "k", "effect": []}]'),
        [NO_TAINTS],
    ),
    "a taint in an annotation is an object": (annotated("[null]"), [NO_TAINTS]),
    "taints in an annotation are a list": (annotated("5"), [NO_TAINTS]),
    "a taint in an annotation may have more fields": (
        annotated('[{"key": "k", "value": null, "effect": "NoExecute", "more": 5}]'),
        [],
    ),
    "amounts are not negative": (
        {"status.capacity": {"cpu": "-1"}, "status.allocatable": {"cpu": "1"}},
        ['status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    "pods are counted": (
        {"status.capacity": {"pods": "1500m"}, "status.allocatable": {"pods": "1"}},
        ['status.capacity.pods: Invalid value: "1500m": must be an integer'],
    ),
    "a range is a network": (
        {"spec.podCIDRs": ["10.0.0.0"]},
        [f'spec.podCIDRs[0]: Invalid value: "10.0.0.0": {_CIDR}'],
    ),
    "two ranges are networks": (
        {"spec.podCIDRs": ["10.0.0.0/24", "x"]},
        [
            f'spec.podCIDRs[1]: Invalid value: "x": {_CIDR}',
            (
                "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:"
                "invalid CIDR[1]: <nil> (invalid CIDR address: x)"
            ),
            'spec.podCIDRs: Invalid value: ["10.0.0.0/24","x"]: may specify no more than one CIDR for each',
        ],
    ),
    "one of each family": (
        {"spec.podCIDRs": ["10.0.0.0/24", "10.0.0.0/24"]},
        [
            (
                'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.0.0/24"]: may specify no more '
                "than one CIDR for "
                "each IP family"
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "texts"), INVALID.values(), ids=INVALID)
def test_errors_in_nodes(changes: Changes, texts: list[str]) -> None:
    assert_texts_begin(NODE.created(LEAST, changes).texts, texts)


CHANGES: Final[dict[str, tuple[Changes, list[str]]]] = {
    "who may be scheduled": ({"spec.unschedulable": True, "spec.taints": None}, []),
    "the ranges": (
        {"spec.podCIDRs": ["10.0.0.0/24"]},
        ['spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'],
    ),
    "the provider": (
        {"spec.providerID": "q"},
        ['spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'],
    ),
    "the old id": ({"spec.externalID": "x"}, ["spec.externalID: Forbidden: may not be updated"]),
}


@pytest.mark.parametrize(("changes", "texts"), CHANGES.values(), ids=CHANGES)
def test_changes(changes: Changes, texts: list[str]) -> None:
    old = NODE.created(LEAST, {"status.phase": "x"}).document
    document, errors = NODE.updated(old, {**changes, "status": None})
    assert list(map(str, errors)) == texts
    assert document["status"] == old["status"]


def test_a_configuration_that_no_longer_does_anything_is_checked_where_it_is_kept() -> None:
    source = {"configMap": {"namespace": "ns", "name": "c", "kubeletConfigKey": "k"}}
    stored = changed(NODE.created(LEAST).document, {"spec.configSource": source})
    errors = NODE.updated(stored, {"spec.configSource.configMap.uid": "u"}).texts
    assert errors == ["spec.configSource.configMap.uid: Forbidden: uid must not be set in spec"]


def test_what_is_not_known_yet_can_be_set() -> None:
    assert NODE.updated(NODE.created(least("Node")).document, {"spec": LEAST["spec"]}).errors == []


def test_an_address_is_told_once() -> None:
    address = {"type": "InternalIP", "address": "10.0.0.1"}
    changes = {"status.addresses": [address, {**address, "type": "ExternalIP"}, address]}
    assert NODE.updated(NODE.created(LEAST).document, changes, "status").texts == [
        'status.addresses[2]: Duplicate value: {"Type":"InternalIP","Address":"10.0.0.1"}'
    ]


def test_warnings() -> None:
    node = least("Node", spec={"externalID": "x", "configSource": {}})
    assert NODE.strategy.warn(node, None) == [
        "spec.configSource: the feature is removed",
        "spec.externalID: this field is deprecated, and is unused by Kubernetes",
    ]
    assert NODE.strategy.warn(least("Node"), None) == []
