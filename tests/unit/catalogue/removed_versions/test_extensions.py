"""Types of extensions/v1beta1 that have moved as they were. Row T25."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current

POLICY: Final[dict[str, Any]] = {
    "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}], "from": [{"podSelector": {}}]}]}
}
POLICIES: Final = OldKind("networkpolicies.extensions", "v1beta1", 15, POLICY)


def test_t25_network_policies_are_the_same() -> None:
    document = POLICIES.completed()
    assert document["spec"]["policyTypes"] == ["Ingress"]
    assert document["spec"]["ingress"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert POLICIES.create().errors == []
    assert POLICIES.to_hub(document) == {**document, "apiVersion": "networking.k8s.io/v1"}
    assert read_by_current(document) == POLICIES.to_hub(document)


def test_t25_network_policies_have_the_rules_of_v1() -> None:
    assert POLICIES.create({"spec.ingress.0.ports.0.port": 0}).texts == [
        "spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"
    ]


@pytest.mark.parametrize("kind", [POLICIES], ids=["networkpolicies"])
@given(spec=st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=3), max_size=3))
def test_what_has_moved_is_kept_as_it_is(kind: OldKind, spec: dict[str, Any]) -> None:
    document = {**kind.valid, "spec": spec}
    assert kind.from_hub(kind.to_hub(document)) == document
