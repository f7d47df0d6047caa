"""The garbage collector on a store: what it deletes, what it leaves, and what it waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from apiserver.storage.embedded import EmbeddedStore
from apiserver.storage.interface import Delete, Put
from tests.support.eventually import eventually
from tests.unit.controllers.garbage_collector.collecting import (
    CONFIG_MAP,
    Cluster,
    Name,
    cluster,
    owners,
    reference,
)

NAMESPACE: Final = "n"
COUNT: Final = 40
# About as many owners as fit into an object, and the time of a processor in which all are looked at.
OWNERS_MAX: Final = 15_000
OWNERS_S_MAX: Final = 6.0


def name(text: str) -> Name:
    return Name(NAMESPACE, text)


@pytest.fixture
async def alone(store: EmbeddedStore) -> AsyncIterator[Cluster]:
    async with cluster(store) as found:
        yield found


async def names_left(found: Cluster) -> list[str]:
    return sorted(each.name for each in await found.left([NAMESPACE]))


async def chain(found: Cluster, *names: str, blocks: bool = True) -> dict[str, str]:
    """Create objects each of which owns the next. Returns their uids."""
    uids: dict[str, str] = {}
    before: str | None = None
    for each in names:
        owner = () if before is None else (reference(name(before), uids[before], blocks=blocks),)
        uids[each] = await found.create(name(each), *owner)
        before = each
    return uids


async def own(found: Cluster, owner: str, dependent: str, uids: dict[str, str]) -> None:
    """Make one object the only owner of another one."""
    await found.change(name(dependent), ownerReferences=[reference(name(owner), uids[owner], blocks=True)])


POLICIES: Final = {"Background": [], "Foreground": [], "Orphan": ["b", "c"]}


@pytest.mark.parametrize(("policy", "left"), POLICIES.items())
async def test_g08_policies(alone: Cluster, policy: str, left: list[str]) -> None:
    await chain(alone, "a", "b", "c")
    await alone.delete(name("a"), policy)
    await alone.rest()
    assert await names_left(alone) == left


async def test_an_orphan_has_its_other_owners_still(alone: Cluster) -> None:
    uids = {each: await alone.create(name(each)) for each in "ab"}
    await alone.create(name("c"), *(reference(name(each), uids[each]) for each in "ab"))
    await alone.delete(name("a"), "Orphan")
    await alone.rest()
    assert owners((await alone.left([NAMESPACE]))[name("c")]) == ["b"]


async def test_an_object_stays_with_its_last_owner(alone: Cluster) -> None:
    uids = {each: await alone.create(name(each)) for each in "ab"}
    await alone.create(name("c"), *(reference(name(each), uids[each], blocks=True) for each in "ab"))
    await alone.delete(name("a"), "Foreground")
    await alone.rest()
    left = await alone.left([NAMESPACE])
    assert {each.name: owners(meta) for each, meta in left.items()} == {"b": [], "c": ["b"]}
    await alone.delete(name("b"))
    await alone.rest()
    assert await names_left(alone) == []


async def test_an_owner_in_foreground_waits_for_those_that_block_it(alone: Cluster) -> None:
    uid = await alone.create(name("a"))
    finalizers = ["example.com/f"]
    await alone.create(name("blocks"), reference(name("a"), uid, blocks=True), finalizers=finalizers)
    await alone.create(name("not"), reference(name("a"), uid), finalizers=finalizers)
    await alone.delete(name("a"), "Foreground")

    async def are_deleted() -> bool:
        left = await alone.left([NAMESPACE])
        return all("deletionTimestamp" in meta for meta in left.values())

    is_so: bool = await eventually(are_deleted)
    assert is_so
    assert await names_left(alone) == ["a", "blocks", "not"]
    await alone.change(name("blocks"), finalizers=[])
    await alone.rest()
    assert await names_left(alone) == ["not"]


async def test_a_dependent_that_blocks_no_more_lets_its_owner_go(alone: Cluster) -> None:
    uid = await alone.create(name("a"))
    await alone.create(name("b"), reference(name("a"), uid, blocks=True), finalizers=["example.com/f"])
    await alone.delete(name("a"), "Foreground")
    await alone.change(name("b"), ownerReferences=[reference(name("a"), uid)])
    await alone.rest()
    assert await names_left(alone) == ["b"]


# Which object owns which, and which are deleted in the foreground.
CYCLES: Final = {
    "of two": (["ab", "ba"], "a"),
    "of one": (["aa"], "a"),
    "of four": (["ab", "bc", "cd", "da"], "a"),
    "of two, both deleted": (["ab", "ba"], "ab"),
    "of three, all deleted": (["ab", "bc", "ca"], "abc"),
    "behind an owner": (["xa", "ab", "bc", "cb"], "x"),
}


@pytest.mark.parametrize(("edges", "deleted"), CYCLES.values(), ids=CYCLES)
async def test_a_cycle_does_not_wait_for_itself(alone: Cluster, edges: list[str], deleted: str) -> None:
    uids = {each: await alone.create(name(each)) for each in sorted(set("".join(edges)))}
    by_dependent: dict[str, list[str]] = {}
    for edge in edges:
        by_dependent.setdefault(edge[1], []).append(edge[0])
    for dependent, its_owners in by_dependent.items():
        references = [reference(name(each), uids[each], blocks=True) for each in its_owners]
        await alone.change(name(dependent), ownerReferences=references)
    await asyncio.gather(*(alone.delete(name(each), "Foreground") for each in deleted))
    expected = ["b", "c"] if "x" in deleted else []  # b has an owner that nobody deletes
    await alone.rest()
    assert await names_left(alone) == expected


ABSENT: Final = {"that was never there": ("nobody", "1"), "with another uid": ("there", "1")}


@pytest.mark.parametrize(("owner", "uid"), ABSENT.values(), ids=ABSENT)
async def test_an_owner_is_absent(alone: Cluster, owner: str, uid: str) -> None:
    await alone.create(name("there"))
    await alone.create(name("x"), reference(name(owner), uid))
    await alone.rest()
    assert await names_left(alone) == ["there"]


async def test_an_owner_in_another_namespace_is_absent_and_told_of(alone: Cluster) -> None:
    other = Name("other", "o")
    uid = await alone.create(other)
    await alone.create(name("x"), reference(other, uid))
    await alone.rest()
    assert sorted(await alone.left([NAMESPACE, "other"])) == [other]


async def test_an_owner_without_namespace_may_own_anything(alone: Cluster) -> None:
    owner = Name("", "o")
    uid = await alone.create(owner)
    await alone.create(name("x"), reference(owner, uid))
    await alone.create(Name("", "y"), reference(owner, uid))
    await alone.rest()
    assert len(await alone.left([NAMESPACE])) == 3
    await alone.delete(owner)
    await alone.rest()
    assert await alone.left([NAMESPACE]) == {}


UNKNOWN: Final = {
    "of a kind that is not served": {"apiVersion": "example.com/v1", "kind": "Nothing"},
    "of a version that is not served": {"apiVersion": "v9"},
}


@pytest.mark.parametrize("fields", UNKNOWN.values(), ids=UNKNOWN)
async def test_nobody_can_tell_of_an_owner(alone: Cluster, fields: dict[str, Any]) -> None:
    await alone.create(name("x"), reference(name("o"), "1", **fields))
    await alone.rest()
    assert await names_left(alone) == ["x"]


async def test_thousands_of_owners_of_which_nobody_can_tell_are_looked_at_once_each(alone: Cluster) -> None:
    """If each were looked for among all of them, these would take a processor half a minute."""
    nowhere = [
        reference(name("o"), str(number), apiVersion="example.com/v1", kind="Nothing")
        for number in range(OWNERS_MAX)
    ]
    began = time.thread_time()
    await alone.create(name("x"), *nowhere, reference(name("absent"), "1"))
    await alone.rest()
    assert time.thread_time() - began < OWNERS_S_MAX
    assert await names_left(alone) == ["x"]


async def test_an_object_without_namespace_and_an_owner_with_one(alone: Cluster) -> None:
    """Such an owner cannot be found, so that the object stays, and an Event tells of it."""
    dependent = Name("", "x")
    await alone.create(dependent, reference(name("o"), "1"))
    await alone.rest()
    assert list(await alone.left([])) == [dependent]


async def test_what_was_there_before_it_ran(store: EmbeddedStore) -> None:
    """It begins anew after each start: deletions may have begun, and owners be gone."""
    async with cluster(store, starts=False) as found:
        await chain(found, "a", "b")
        await chain(found, "c", "d")
        await chain(found, "e", "f")
        await found.delete(name("a"))
        await found.delete(name("c"), "Foreground")
        await found.delete(name("e"), "Orphan")
        assert await names_left(found) == ["b", "c", "d", "e", "f"]
        found.start()
        await found.rest()
        assert await names_left(found) == ["f"]


async def test_what_changed_while_a_watch_was_lost_is_found(alone: Cluster) -> None:
    await chain(alone, "a", "b")
    await alone.rest()
    watched = alone.registry.cache.resources[alone.registry.prefix_of(CONFIG_MAP)]
    for watcher in list(watched.fanout):
        watcher.end()
    await alone.delete(name("a"))
    await alone.rest()
    assert await names_left(alone) == []
    assert alone.metrics.sync_errors == 1


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_servers_die_while_they_collect(store: EmbeddedStore, policy: str) -> None:
    async with cluster(store) as first, cluster(store) as second, cluster(store, starts=False) as third:
        uid = await first.create(name("a"))
        for number in range(COUNT):
            await first.create(name(f"d-{number}"), reference(name("a"), uid, blocks=True))
        await first.delete(name("a"), policy)

        async def has_begun() -> bool:
            left = await third.left([NAMESPACE])
            return (
                any(not owners(meta) for each, meta in left.items() if each.name != "a") or len(left) < COUNT
            )

        is_so: bool = await eventually(has_begun)
        assert is_so
        await first.kill()
        await second.kill()
        third.start()
        await third.rest()
        left = await third.left([NAMESPACE])
        assert len(left) == (COUNT if policy == "Orphan" else 0)
        assert not any(map(owners, left.values()))


async def test_an_owner_waits_for_dependents_whose_type_is_not_served_for_now(alone: Cluster) -> None:
    """They cannot be released, and it is tried again now and then; when they can, their owner goes."""
    owner = Name("", "a")
    uid = await alone.create(owner)
    await alone.create(name("b"), reference(owner, uid))
    await alone.rest()
    table = alone.served.current
    alone.served.replace(table.changed([CONFIG_MAP], []))
    await alone.delete(owner, "Orphan")
    queue = alone.builder.attempt_to_orphan
    key = alone.registry.key(owner.resource, "", "a")
    await eventually(lambda: queue.failures(key) > 2)
    alone.served.replace(table)
    await eventually(lambda: alone.registry.cache.get_cached(key) is None)
    assert owners((await alone.left([NAMESPACE]))[name("b")]) == []


async def test_an_owner_whose_dependents_stay_waits_for_what_cannot_be_read(store: EmbeddedStore) -> None:
    """It may be a dependent. Were its owner gone when it can be read again, it would be collected."""
    async with cluster(store, starts=False) as found:
        await chain(found, "a", "b")
        await found.create(Name("other", "c"))
        key = found.registry.key(CONFIG_MAP, NAMESPACE, "b")
        before = (await store.get(key)).stored
        assert before is not None
        other = found.registry.key(CONFIG_MAP, "other", "c")
        for damaged in (key, other):
            await store.transact((), (Put(damaged, b"garbage"),))
        found.start()
        await found.delete(name("a"), "Orphan")
        owner = found.registry.key(CONFIG_MAP, NAMESPACE, "a")
        queue = found.builder.attempt_to_orphan
        await eventually(lambda: queue.failures(owner) > 2)
        assert found.registry.cache.get_cached(owner) is not None
        await store.transact((), (Put(key, before.value),))
        # What is in another namespace is none of it.
        await eventually(lambda: found.registry.cache.get_cached(owner) is None)
        await store.transact((), (Delete(other),))
        await found.rest()
        left = await found.left([NAMESPACE])
        assert {each.name: owners(meta) for each, meta in left.items()} == {"b": []}
