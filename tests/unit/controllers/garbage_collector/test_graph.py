"""The graph of owners and dependents: who is in it, and what changes tell of it."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Final
from uuid import UUID

import pytest

from apiserver.controllers.garbage_collector.graph import Graph, OwnerIdentity

A: Final = OwnerIdentity("/o/a", "1", blocks=True)
A_NOT_BLOCKING: Final = OwnerIdentity("/o/a", "1", blocks=False)
OTHER_A: Final = OwnerIdentity("/o/a", "2", blocks=False)
B: Final = OwnerIdentity("/o/b", "3", blocks=False)

CHANGES: Final = {
    "one that nobody named before": ([], [A], ["/o/a"], []),
    "the same": ([A], [A], None, None),
    "the same in another order": ([A, B], [B, A], None, None),
    "one more": ([A], [A, B], ["/o/b"], []),
    "one less": ([A, B], [B], [], ["/o/a"]),
    "none any more": ([A, B], [], [], ["/o/a", "/o/b"]),
    "none before and none now": ([], [], None, None),
    "another uid": ([A], [OTHER_A], ["/o/a"], ["/o/a"]),
    "it does not block any more": ([A], [A_NOT_BLOCKING], [], ["/o/a"]),
    "the same owner twice": ([], [A, A_NOT_BLOCKING], ["/o/a"], []),
}


@pytest.mark.parametrize(("before", "now", "new", "unblocked"), CHANGES.values(), ids=CHANGES)
def test_what_changes_with_the_owners_of_an_object(
    before: list[OwnerIdentity], now: list[OwnerIdentity], new: list[str] | None, unblocked: list[str] | None
) -> None:
    graph = Graph()
    graph.replace("/d/x", before)
    changes = graph.replace("/d/x", now)
    if changes is None:
        assert new is None
        return
    assert new == [each.key for each in changes.new]
    assert unblocked is not None
    assert sorted(each.key for each in changes.unblocked) == unblocked
    assert {(each.owner.key, each.owner.uid, each.blocks) for each in graph.links("/d/x")} == {*now}


@pytest.mark.parametrize(("before", "now", "new", "unblocked"), CHANGES.values(), ids=CHANGES)
def test_owners_that_are_noted_one_by_one_are_as_those_noted_at_once(
    before: list[OwnerIdentity], now: list[OwnerIdentity], new: list[str] | None, unblocked: list[str] | None
) -> None:
    graph, other = Graph(), Graph()
    for each in (graph, other):
        each.replace("/d/x", before)
    other.replace("/d/x", now)
    added = [graph.add("/d/x", name) for name in now]
    discarded = [graph.discard("/d/x", name) for name in before if name not in now]
    changes = [each for each in added + discarded if each is not None]
    assert [owner.key for each in changes for owner in each.new] == (new or [])
    assert sorted(owner.key for each in changes for owner in each.unblocked) == (unblocked or [])
    assert {str(owner) for owner in graph.owners()} == {str(owner) for owner in other.owners()}
    assert graph.is_dependent("/d/x") is other.is_dependent("/d/x") is bool(now)
    assert graph.count_links("/d/x") == other.count_links("/d/x") == len(now)
    assert graph.discard("/d/x", OwnerIdentity("/o/nobody", "1", blocks=False)) is None
    # What comes at once afterwards finds all of it.
    graph.replace("/d/x", ())
    assert (graph.owners(), graph.dependents()) == ([], [])


def test_an_absent_owner_that_is_added_is_told() -> None:
    graph = Graph()
    graph.replace("/d/x", [A])
    owner = graph.owner("/o/a", "1")
    assert owner is not None
    owner.is_absent = True
    changes = graph.add("/d/y", A)
    assert changes is not None
    assert changes.names_absent
    assert graph.add("/d/y", A) is None


def test_an_owner_is_there_as_long_as_somebody_names_it() -> None:
    graph = Graph()
    graph.replace("/d/x", [A])
    graph.replace("/d/y", [A_NOT_BLOCKING])
    owner = graph.owner("/o/a", "1")
    assert owner is not None
    assert (list(owner.blocking), sorted(owner.dependents)) == (["/d/x"], ["/d/x", "/d/y"])
    assert graph.owner("/o/a", "2") is None
    graph.replace("/d/x", ())
    assert (list(owner.blocking), owner.dependents) == ([], ["/d/y"])
    graph.replace("/d/y", ())
    assert not graph.is_owner("/o/a")
    assert graph.owners() == []
    assert graph.dependents() == []


def test_uids_under_one_key_are_owners_of_their_own() -> None:
    """Objects may name an owner that was deleted and created again."""
    graph = Graph()
    for number in range(3):
        graph.replace(f"/d/{number}", [OwnerIdentity("/o/a", str(number), blocks=False)])
    assert [owner.uid for owner in graph.owners()] == ["0", "1", "2"]
    for number in range(3):
        graph.replace(f"/d/{number}", ())
    assert not graph.is_owner("/o/a")


def test_who_comes_to_name_an_absent_owner_is_told() -> None:
    graph = Graph()
    graph.replace("/d/x", [A])
    owner = graph.owner("/o/a", "1")
    assert owner is not None
    owner.is_absent = True
    changes = graph.replace("/d/y", [A, B])
    assert changes is not None
    assert changes.names_absent
    again = graph.replace("/d/y", [A])
    assert again is not None
    assert not again.names_absent


def test_a_dependent_takes_little_memory() -> None:
    """What one more dependent of an owner takes, beside its key, which the cache has, too."""
    graph, count = Graph(), 20_000
    keys = [f"/d/{number}" for number in range(count)]
    before = sys.getallocatedblocks()
    for key in keys:
        graph.replace(key, [A])
    assert sys.getallocatedblocks() - before < count / 10, "nothing is allocated for each"
    owner = graph.owner("/o/a", "1")
    assert owner is not None
    link = graph.links(keys[0])[0]
    tables = sys.getsizeof(graph._links) + sys.getsizeof(link._all)
    assert tables / count <= 200


# The owners of an object, by its number. All else that is known of it the cache has.
SHAPES: Final[dict[str, Callable[[int], list[int]]]] = {
    "many dependents of one owner": lambda number: [0] if number else [],
    "an owner for each dependent": lambda number: [number - 1] if number % 2 else [],
    "Deployments, each with a ReplicaSet of three Pods": lambda number: (
        [] if number % 5 == 0 else [number - 1] if number % 5 == 1 else [number - number % 5 + 1]
    ),
}


@pytest.mark.parametrize("owners_of", SHAPES.values(), ids=SHAPES)
def test_an_object_takes_200_bytes(owners_of: Callable[[int], list[int]]) -> None:
    """Whether it is an owner, a dependent, or both; with the uids, of which the cache has no text."""
    count = 20_000
    keys = [f"/registry/apps/things/default/thing-{number:06}" for number in range(count)]
    graph = Graph()
    tracemalloc.start()
    try:
        for number, key in enumerate(keys):
            if names := [
                OwnerIdentity(keys[owner], str(UUID(int=owner)), True) for owner in owners_of(number)
            ]:
                graph.replace(key, names)
        assert tracemalloc.get_traced_memory()[0] / count <= 200
    finally:
        tracemalloc.stop()
