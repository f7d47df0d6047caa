"""FlowSchemas and priority levels in v1alpha1, v1beta1, v1beta2 and v1beta3. Rows T01, T02, T04.

Source: pkg/apis/flowcontrol/{v1beta1,v1beta2,v1beta3} (release 1.29).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current

GROUP: Final = "flowcontrol.apiserver.k8s.io"
LEVELS: Final = f"prioritylevelconfigurations.{GROUP}"
REJECT: Final = {"limitResponse": {"type": "Reject"}}
LEVEL: Final = {"spec": {"type": "Limited", "limited": REJECT}}
V1ALPHA1: Final = OldKind(LEVELS, "v1alpha1", 20, LEVEL)
V1BETA1: Final = OldKind(LEVELS, "v1beta1", 25, LEVEL)
V1BETA2: Final = OldKind(LEVELS, "v1beta2", 28, LEVEL)
V1BETA3: Final = OldKind(LEVELS, "v1beta3", 31, LEVEL)
OLD: Final = (V1ALPHA1, V1BETA1, V1BETA2, V1BETA3)
ASSURED: Final = "assuredConcurrencyShares"
NOMINAL: Final = "nominalConcurrencyShares"
KEY: Final = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


# Version, what a client writes, and the shares that v1 has.
SHARES: Final[dict[str, tuple[OldKind, dict[str, Any], int]]] = {
    "unset in v1alpha1": (V1ALPHA1, {}, 30),
    "T04 unset in v1beta1": (V1BETA1, {}, 30),
    "T04 set in v1beta1": (V1BETA1, {f"spec.limited.{ASSURED}": 7}, 7),
    "T04 zero in v1beta1 is unset": (V1BETA1, {f"spec.limited.{ASSURED}": 0}, 30),
    "T02 unset in v1beta2": (V1BETA2, {}, 30),
    "T02 set in v1beta2": (V1BETA2, {f"spec.limited.{ASSURED}": 7}, 7),
    "T02 zero in v1beta2 is unset": (V1BETA2, {f"spec.limited.{ASSURED}": 0}, 30),
    "T01 unset in v1beta3": (V1BETA3, {}, 30),
    "T01 set in v1beta3": (V1BETA3, {f"spec.limited.{NOMINAL}": 7}, 7),
    "T01 zero in v1beta3 is unset": (V1BETA3, {f"spec.limited.{NOMINAL}": 0}, 30),
    "T01 zero in v1beta3 with the annotation": (
        V1BETA3,
        {f"spec.limited.{NOMINAL}": 0, "metadata.annotations": {KEY: ""}},
        0,
    ),
    "T01 zero in v1": (OldKind(LEVELS, "v1", 31, LEVEL), {f"spec.limited.{NOMINAL}": 0}, 0),
    "T01 unset in v1": (OldKind(LEVELS, "v1", 31, LEVEL), {}, 30),
}


@pytest.mark.parametrize(("kind", "changes", "shares"), SHARES.values(), ids=SHARES)
def test_shares_are_30_unless_something_else_is_said(
    kind: OldKind, changes: dict[str, Any], shares: int
) -> None:
    document, errors = kind.create(changes)
    assert errors == []
    assert document["spec"]["limited"] == {**REJECT, NOMINAL: shares, "lendablePercent": 0}
    assert "annotations" not in document["metadata"]


@pytest.mark.parametrize("kind", OLD, ids=[each.resource.group_version.version for each in OLD])
def test_stored_levels_are_read_in_v1(kind: OldKind) -> None:
    document = kind.completed()
    current = kind.to_hub(document)
    assert read_by_current(document) == current
    assert current["apiVersion"] == f"{GROUP}/v1"
    assert kind.from_hub(current) == document


def test_t01_zero_is_marked_in_v1beta3() -> None:
    for others in ({}, {"other": "a"}):
        meta = {"name": "a", **({"annotations": others} if others else {})}
        document = V1BETA3.from_hub(
            {"metadata": meta, "spec": {"type": "Limited", "limited": {**REJECT, NOMINAL: 0}}}
        )
        assert document["metadata"]["annotations"] == {**others, KEY: ""}
        assert V1BETA3.to_hub(document)["metadata"] == meta


SPEC: Final = st.one_of(
    st.just({"type": "Exempt", "exempt": {NOMINAL: 0, "lendablePercent": 0}}),
    st.fixed_dictionaries(
        {
            NOMINAL: st.integers(0, 3),
            "limitResponse": st.just({"type": "Reject"}),
            "lendablePercent": st.integers(0, 3),
        },
        optional={"borrowingLimitPercent": st.integers(0, 3)},
    ).map(lambda limited: {"type": "Limited", "limited": limited}),
)
META: Final = st.sampled_from(({"name": "a"}, {"name": "a", "annotations": {"b": "c"}}))


@pytest.mark.parametrize("kind", OLD, ids=[each.resource.group_version.version for each in OLD])
@given(spec=SPEC, meta=META)
def test_nothing_of_v1_is_lost(kind: OldKind, spec: dict[str, Any], meta: dict[str, Any]) -> None:
    document = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": meta,
        "spec": spec,
    }
    assert kind.to_hub(kind.from_hub(document)) == document


def test_t02_columns_have_the_names_of_the_version() -> None:
    shown = V1BETA2.resource.columns
    cells = dict(
        zip([each["name"] for each in shown.definitions], shown.cells(V1BETA2.completed(), 0), strict=True)
    )
    assert (cells["AssuredConcurrencyShares"], cells["Type"]) == (30, "Limited")
    assert "NominalConcurrencyShares" not in cells


@pytest.mark.parametrize(
    ("version", "minor"), [("v1alpha1", 20), ("v1beta1", 25), ("v1beta2", 28), ("v1beta3", 31)]
)
def test_flow_schemas_are_the_same(version: str, minor: int) -> None:
    spec = {"priorityLevelConfiguration": {"name": "exempt"}, "rules": []}
    kind = OldKind(f"flowschemas.{GROUP}", version, minor, {"spec": spec})
    document = kind.completed()
    assert document["spec"]["matchingPrecedence"] == 1000
    assert kind.to_hub(document) == {**document, "apiVersion": f"{GROUP}/v1"}
    assert kind.from_hub(kind.to_hub(document)) == document
