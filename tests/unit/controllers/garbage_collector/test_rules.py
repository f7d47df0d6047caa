"""What is to become of objects by what has become of their owners.

Source: kubernetes, pkg/controller/garbagecollector/garbagecollector.go, attemptToDeleteItem.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.controllers.garbage_collector import rules
from apiserver.controllers.garbage_collector.object_owners import Malformed, Ownership, of_metadata
from apiserver.controllers.garbage_collector.rules import Collect, OwnerState, Release, judge
from apiserver.meta.object_meta import FINALIZER_FOREGROUND, FINALIZER_ORPHAN

SOLID, WAITING, ABSENT, UNKNOWN = OwnerState.SOLID, OwnerState.WAITING, OwnerState.ABSENT, OwnerState.UNKNOWN


def owner(uid: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{uid}", "uid": uid, **more}


def owned_by(count: int, *finalizers: str) -> Ownership:
    return of_metadata(
        {
            "uid": "x",
            "ownerReferences": [owner(str(number)) for number in range(count)],
            "finalizers": [*finalizers],
        }
    )


VERDICTS: Final = {
    "it has no owner": ([], False, "keep"),
    "its owner is there": ([SOLID], False, "keep"),
    "all owners are there": ([SOLID, SOLID], True, "keep"),
    "its owner is gone": ([ABSENT], False, "Background"),
    "its owner is gone, and it has dependents": ([ABSENT], True, "Background"),
    "all owners are gone": ([ABSENT, ABSENT], False, "Background"),
    "one owner is there": ([ABSENT, SOLID], False, "release 0"),
    "one owner is there, others are gone or wait": ([ABSENT, SOLID, WAITING], True, "release 0 2"),
    "its owner waits": ([WAITING], False, "Background"),
    "its owner waits, and it has dependents": ([WAITING], True, "Foreground"),
    "one owner waits, one is gone": ([ABSENT, WAITING], True, "Foreground"),
    "nobody can tell": ([UNKNOWN], False, "keep"),
    "nobody can tell of one owner": ([ABSENT, UNKNOWN], False, "keep"),
    "nobody can tell of one owner, another is there": ([SOLID, ABSENT, UNKNOWN], False, "keep"),
}


@pytest.mark.parametrize(("states", "has_dependents", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_what_becomes_of_an_object_whose(
    states: list[OwnerState], has_dependents: bool, verdict: str
) -> None:
    found = judge(owned_by(len(states)), states, has_dependents=has_dependents)
    match found:
        case Collect(propagation):
            assert propagation == verdict
        case Release(references):
            assert "release " + " ".join(sorted(each.uid for each in references)) == verdict
        case _:
            assert (found, verdict) == (None, "keep")


POLICIES: Final = {FINALIZER_ORPHAN: "Orphan", FINALIZER_FOREGROUND: "Foreground", "a.b/c": "Background"}


@pytest.mark.parametrize(("finalizer", "policy"), POLICIES.items())
def test_a_finalizer_that_somebody_set_says_what_becomes_of_its_dependents(
    finalizer: str, policy: str
) -> None:
    assert judge(owned_by(1, finalizer), [ABSENT], has_dependents=False) == Collect(policy)


def test_only_the_references_that_are_meant_go() -> None:
    """Another one may have the same uid and another name, which is one to nothing."""
    meta = {"ownerReferences": [owner("1"), owner("2"), owner("1", name="other")]}
    leaving = of_metadata({"uid": "x", "ownerReferences": [owner("1", name="other")]}).owners
    rules.without_references(meta, frozenset(leaving))
    assert meta["ownerReferences"] == [owner("1"), owner("2")]


def test_an_owner_that_orphans_is_named_no_more() -> None:
    meta = {"ownerReferences": [owner("1"), owner("2"), owner("1", name="other")]}
    rules.without_owner(meta, uid="1")
    assert meta["ownerReferences"] == [owner("2")]
    rules.without_owner(meta, uid="2")
    assert meta == {}


def test_an_object_that_blocks_no_more_keeps_its_owners() -> None:
    meta = {"ownerReferences": [owner("1", blockOwnerDeletion=True), owner("2")]}
    rules.without_blocking(meta)
    assert meta["ownerReferences"] == [owner("1", blockOwnerDeletion=False), owner("2")]


MALFORMED: Final = {
    "owners that are no list": 5,
    "an owner that is no object": ["x"],
    "an owner without uid": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}],
    "an owner that is null": [None],
}


@pytest.mark.parametrize("references", MALFORMED.values(), ids=MALFORMED)
def test_of_malformed_metadata_nobody_can_tell(references: Any) -> None:
    """No server stores such; whoever did, the object must not be taken for one that has no owners."""
    with pytest.raises(Malformed):
        of_metadata({"uid": "x", "ownerReferences": references})
