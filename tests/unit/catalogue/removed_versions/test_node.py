"""RuntimeClasses of node/v1alpha1. Row T12."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.catalogue.removed_versions.old_kinds import OldKind, read_by_current

SCHEDULING: Final = {"nodeSelector": {"a": "b"}}
SPEC: Final = {"runtimeHandler": "runc", "overhead": {"podFixed": {"cpu": "1"}}, "scheduling": SCHEDULING}
CLASS: Final = OldKind("runtimeclasses.node.k8s.io", "v1alpha1", 23, {"spec": SPEC})


def test_the_spec_is_at_the_top_in_v1() -> None:
    created = CLASS.create()
    assert created.texts == []
    document = CLASS.completed()
    current = CLASS.to_hub(document)
    assert "spec" not in current
    assert (current["handler"], current["scheduling"]) == ("runc", SCHEDULING)
    assert read_by_current(document) == current
    assert CLASS.from_hub(current) == document


@given(
    st.fixed_dictionaries(
        {"handler": st.sampled_from("ab")},
        optional={"overhead": st.just({"podFixed": {"cpu": "1"}}), "scheduling": st.just(SCHEDULING)},
    )
)
def test_nothing_of_v1_is_lost(fields: dict[str, Any]) -> None:
    document = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {}, **fields}
    assert CLASS.to_hub(CLASS.from_hub(document)) == document


def test_the_handler_is_required() -> None:
    (text,) = CLASS.create({"spec.runtimeHandler": None}).texts
    assert text == "handler: Required value"
