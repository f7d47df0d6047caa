"""Namespaces: who may write which part. Source: pkg/registry/core/namespace, strategy.go."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.served_kinds import Changes, ServedKind, least

NAMESPACE: Final = ServedKind("namespaces")
ACTIVE: Final = NAMESPACE.created(least("Namespace")).document


def test_a_namespace_begins_active_with_its_finalizer_and_its_label() -> None:
    assert ACTIVE["status"] == {"phase": "Active"}
    assert ACTIVE["spec"] == {"finalizers": ["kubernetes"]}
    assert ACTIVE["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}
    spec = {"finalizers": ["kubernetes", "a.example/x"]}
    given = NAMESPACE.created(least("Namespace", spec=spec, status={"phase": "Terminating"})).document
    assert (given["spec"], given["status"]) == (spec, {"phase": "Active"})


def test_the_finalizers_of_the_spec_are_changed_through_finalize_only() -> None:
    changes: Changes = {"spec.finalizers": ["a.example/x"], "status.phase": "Terminating"}
    assert NAMESPACE.updated(ACTIVE, changes).document["spec"] == ACTIVE["spec"]
    finalized = NAMESPACE.updated(ACTIVE, changes, "finalize").document
    assert (finalized["spec"], finalized["status"]) == ({"finalizers": ["a.example/x"]}, ACTIVE["status"])


def test_a_namespace_waits_for_both_kinds_of_finalizers() -> None:
    document = {"metadata": {"finalizers": ["a.example/x"]}, "spec": {"finalizers": ["kubernetes"]}}
    assert list(NAMESPACE.strategy.blockers(document)) == ["a.example/x", "kubernetes"]


def test_a_finalizer_is_a_standard_one_or_has_a_domain() -> None:
    """Only where they alone are written, an error says which one it is."""
    spec = {"finalizers": ["example.com/y", "x"]}
    text = 'Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified'
    assert NAMESPACE.created(least("Namespace", spec=spec)).texts == [f"spec.finalizers: {text}"]
    finalized = NAMESPACE.updated(ACTIVE, {"spec": spec}, "finalize")
    assert finalized.texts == [f"spec.finalizers[1]: {text}"]


def test_the_label_of_the_name_cannot_be_changed() -> None:
    updated = NAMESPACE.updated(ACTIVE, {"metadata.labels": {"kubernetes.io/metadata.name": "b", "c": "d"}})
    assert updated.document["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a", "c": "d"}


PHASES: Final[dict[str, tuple[str, Changes, list[str]]]] = {
    "active": ("", {"status.phase": "Active"}, []),
    "only a deletion ends it": (
        "",
        {"status.phase": "Terminating"},
        [
            (
                "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if "
                "`deletionTimestamp` is empty"
            )
        ],
    ),
    "and that is not taken back": (
        "2025-01-01T00:00:00Z",
        {"status.phase": "Active"},
        [
            (
                "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if "
                "`deletionTimestamp` is not empty"
            )
        ],
    ),
}


@pytest.mark.parametrize(("deleted", "changes", "texts"), PHASES.values(), ids=PHASES)
def test_the_phase_follows_the_deletion(deleted: str, changes: Changes, texts: list[str]) -> None:
    when = {"metadata.deletionTimestamp": deleted} if deleted else {}
    assert NAMESPACE.updated(ACTIVE, {**when, **changes}, "status").texts == texts


@pytest.mark.parametrize("status", [{}, {"phase": ""}, {"phase": None}], ids=["empty", "no text", "null"])
def test_a_status_without_a_phase_is_active(status: Changes) -> None:
    """The default of the typed status: any write to it has one."""
    updated = NAMESPACE.updated(ACTIVE, {"status": dict(status)}, "status")
    assert (updated.document["status"], updated.texts) == ({"phase": "Active"}, [])
