"""Where owners are looked for that are absent, and how often."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from apiserver.controllers.garbage_collector.graph_builder import LOOKS_AT_ONCE, LOOKS_PER_S, LookupLimit
from apiserver.registry.write_request import ProposedObject, WriteRequest
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import resource
from tests.unit.controllers.fake_clock import FakeClock
from tests.unit.controllers.garbage_collector.collecting import Cluster, Name, cluster, reference

NAMESPACE: Final = resource("namespaces", "")
EVENTS: Final = resource("events", "")


def test_looks_beyond_those_at_once_wait_for_their_second() -> None:
    clock = FakeClock()
    looks = LookupLimit(clock.time)
    looks.note(LOOKS_AT_ONCE + LOOKS_PER_S)
    assert not looks.are_allowed()
    clock.advance(0.9)
    assert not looks.are_allowed()
    clock.advance(0.2)
    assert looks.are_allowed()


def test_a_pause_allows_no_more_looks_than_those_at_once() -> None:
    clock = FakeClock()
    looks = LookupLimit(clock.time)
    clock.advance(1_000_000)
    assert looks.are_allowed()
    looks.note(LOOKS_AT_ONCE)
    assert not looks.are_allowed()


# As many as fit into an object.
OWNERS_MAX: Final = 15_000


async def seen_meanwhile(found: Cluster, key: str, change: Awaitable[object]) -> set[int]:
    """Returns how many owners an object had in rounds of the event loop until a change of it was known."""
    counts: set[int] = set()

    async def note() -> None:
        while True:
            counts.add(found.builder.graph.count_links(key))
            await asyncio.sleep(0)

    noting = asyncio.create_task(note())
    await change
    await found.rest()
    noting.cancel()
    with suppress(asyncio.CancelledError):
        await noting
    return counts


async def test_thousands_of_owners_are_noted_in_turns(store: EmbeddedStore) -> None:
    """At once they would hold up all requests for a tenth of a second, at each write of the object."""
    name = Name("n", "x")
    one, other = (
        [
            reference(Name("n", f"{each}{number}"), "1", apiVersion="example.com/v1", kind="Nothing")
            for number in range(OWNERS_MAX)
        ]
        for each in "ab"
    )
    async with cluster(store) as found:
        graph, key = found.builder.graph, found.registry.key(name.resource, "n", "x")
        steps = (
            (found.create(name, *one), OWNERS_MAX),
            (found.change(name, ownerReferences=other), OWNERS_MAX),
            (found.change(name, ownerReferences=other[:1]), 1),
            (found.change(name, ownerReferences=one), OWNERS_MAX),
            (found.delete(name), 0),
        )
        for change, count in steps:
            assert len(await seen_meanwhile(found, key, change)) > 4
            assert (graph.count_links(key), len(graph.owners())) == (count, count)


async def links_when_stopped(store: EmbeddedStore) -> list[int]:
    """Returns how many owners two objects have when the collector stops, while it links the first."""
    owners = [
        reference(Name("n", str(number)), "1", apiVersion="example.com/v1", kind="Nothing")
        for number in range(OWNERS_MAX)
    ]
    names = Name("n", "x"), Name("", "x")
    async with cluster(store, starts=False) as found:
        keys = [found.registry.key(name.resource, name.namespace, name.name) for name in names]
        for name in names:
            await found.create(name, *owners)
        found.start()
        await eventually(lambda: any(map(found.builder.graph.count_links, keys)))
        # The informer of the other delivers it soon after.
        for _ in range(10):
            await asyncio.sleep(0)
        return sorted(map(found.builder.graph.count_links, keys))


async def test_the_collector_stops_while_an_object_waits_to_be_linked(store: EmbeddedStore) -> None:
    """Its work has not begun, so no coroutine is left that was never awaited: pytest would report that."""
    waiting, begun = await links_when_stopped(store)
    assert waiting == 0 < begun < OWNERS_MAX
    gc.collect()


# Owners of an object whose kinds nobody knows, and the time of a processor in which they are looked up again.
UNKNOWN: Final = 3_000
UNKNOWN_S_MAX: Final = 2.0


async def test_an_object_is_looked_up_once_when_other_types_are_served(store: EmbeddedStore) -> None:
    """If it were looked up for each of its owners, these would take a processor twenty seconds."""
    name = Name("n", "x")
    nowhere = [
        reference(Name("n", f"o{number}"), "1", apiVersion="example.com/v1", kind="Nothing")
        for number in range(UNKNOWN)
    ]
    async with cluster(store) as found:
        await found.create(name, *nowhere)
        await found.rest()
        builder, prefix, table = found.builder, found.registry.prefix_of(NAMESPACE), found.served.current
        began = time.thread_time()
        found.served.replace(table.changed([NAMESPACE], []))
        await eventually(lambda: prefix not in builder.resources.by_prefix)
        # The next table is looked at when all that follows from this one is done.
        found.served.replace(table)
        await eventually(lambda: prefix in builder.resources.by_prefix)
        assert time.thread_time() - began < UNKNOWN_S_MAX
        assert len(builder.graph.owners()) == UNKNOWN


def informing() -> int:
    return sum(each.get_name() == "garbage-collector" for each in asyncio.all_tasks())


async def test_resources_are_followed_from_their_first_object_on(store: EmbeddedStore) -> None:
    """Most resources of most servers have none: each that is followed is a task, and a watch."""
    dependent = Name("n", "dependent")
    async with cluster(store) as found:
        await found.rest()
        assert informing() == 0
        owner = Name("", "owner")
        await found.create(dependent, reference(owner, await found.create(owner)))
        await found.rest()
        assert informing() == 2
        assert len(found.builder.graph.owners()) == 1
        # A resource that is served no more, and then again.
        table = found.served.current
        found.served.replace(table.changed([dependent.resource], []))
        await eventually(lambda: informing() == 1)
        found.served.replace(table)
        await eventually(lambda: informing() == 2)
        await found.delete(owner)
        await found.rest()
        assert await found.left(["n"], "owner") == {}
        await found.kill()
        await create_namespace(found, "n")
        await found.create(dependent)
        await found.registry.cache.revision_at()
        assert informing() == 0


async def create_namespace(found: Cluster, name: str) -> None:
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await found.registry.create(
        WriteRequest(resource=NAMESPACE, namespace="", name=name), ProposedObject(document)
    )


async def test_nobody_is_told_where_an_owner_is_while_too_many_were_looked_for(store: EmbeddedStore) -> None:
    """Dependents go all the same. What needs no look, as who owns cluster-scoped objects, is told."""
    owner = Name("other", "o")
    async with cluster(store) as found:
        for namespace in ("n", "other"):
            await create_namespace(found, namespace)
        uid = await found.create(owner)
        await found.create(Name("n", "told"), reference(owner, uid))
        await found.rest()
        await eventually(lambda: found.registry.count(EVENTS) == 1)
        found.builder.looks.note(1000 * LOOKS_AT_ONCE)
        await found.create(Name("n", "untold"), reference(owner, uid))
        await found.rest()
        await found.create(Name("", "unplaced"), reference(owner, uid))
        # Events are written in their order: of the second there would be one before this.
        await eventually(lambda: found.registry.count(EVENTS) == 2)
        assert set(await found.left(["n", "other"])) == {owner, Name("", "unplaced")}
