"""ClusterCIDRs of networking/v1alpha1. Source: pkg/apis/networking/validation (release 1.27); row S03."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.removed_versions.old_kinds import OldKind
from tests.unit.catalogue.served_kinds import Changes, assert_texts_begin

TERM: Final = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
SPEC: Final = {
    "nodeSelector": {"nodeSelectorTerms": [TERM]},
    "perNodeHostBits": 8,
    "ipv4": "10.0.0.0/16",
    "ipv6": "fd00::/64",
}
CIDR: Final = OldKind("clustercidrs.networking.k8s.io", "v1alpha1", 28, {"spec": SPEC})
BITS: Final = "spec.perNodeHostBits: Invalid value: "


def test_they_are_kept_and_shown() -> None:
    created = CIDR.create()
    assert created.texts == []
    assert created.document["spec"] == SPEC
    cells = CIDR.cells()
    assert cells.pop("Age")
    assert cells == {
        "Name": "a",
        "PerNodeHostBits": "8",
        "IPv4": "10.0.0.0/16",
        "IPv6": "fd00::/64",
        "NodeSelector": "MatchExpressions: [{zone In [a b]}]",
    }
    cells = CIDR.cells({"spec.nodeSelector": None, "spec.ipv6": ""})
    assert (cells["IPv6"], cells["NodeSelector"]) == ("<none>", "<none>")
    assert CIDR.resource.has_protobuf


INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "no network": (
        {"spec.ipv4": "", "spec.ipv6": ""},
        ["spec: Required value: one or both of `ipv4` and `ipv6` must be specified"],
    ),
    "no such network": ({"spec.ipv4": "a"}, ['spec.IPv4: Invalid value: "a": must be a valid CIDR: a']),
    "an address": (
        {"spec.ipv4": "10.0.0.0"},
        ['spec.IPv4: Invalid value: "10.0.0.0": must be a valid CIDR: 10.0.0.0'],
    ),
    "another family": (
        {"spec.ipv6": "10.0.0.0/16"},
        ['spec.IPv6: Invalid value: "10.0.0.0/16": must be a valid IPv6 CIDR'],
    ),
    "too few bits": (
        {"spec.perNodeHostBits": 3, "spec.ipv6": ""},
        [f"{BITS}3: must be greater than or equal to 4"],
    ),
    "too many bits": ({"spec.perNodeHostBits": 17}, [f"{BITS}17: must be less than or equal to 16"]),
    "no terms": (
        {"spec.nodeSelector.nodeSelectorTerms": []},
        ["spec.nodeSelector.nodeSelectorTerms: Required"],
    ),
}


@pytest.mark.parametrize(("changes", "beginnings"), INVALID.values(), ids=INVALID)
def test_invalid(changes: Changes, beginnings: list[str]) -> None:
    assert_texts_begin(CIDR.create(changes).texts, beginnings)


def test_nothing_changes() -> None:
    assert CIDR.update({"metadata.labels": {"a": "b"}}).texts == []
    changes: Changes = {
        "spec.perNodeHostBits": 9,
        "spec.ipv4": "",
        "spec.ipv6": "",
        "spec.nodeSelector": None,
    }
    texts = CIDR.update(changes).texts
    assert len(texts) == len(changes)
    assert all(text.endswith("field is immutable") for text in texts)
