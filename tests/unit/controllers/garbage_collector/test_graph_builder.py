"""Where owners are looked for that are absent, and how often."""

from __future__ import annotations

from typing import Final

from apiserver.controllers.garbage_collector.graph_builder import LOOKS_AT_ONCE, LOOKS_PER_S, Looks
from apiserver.registry.write_request import Draft, WriteRequest
from storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.support.in_process import resource
from tests.unit.controllers.fake_clock import FakeClock
from tests.unit.controllers.garbage_collector.collecting import Cluster, Name, cluster, reference

NAMESPACE: Final = resource("namespaces", "")
EVENTS: Final = resource("events", "")


def test_looks_beyond_those_at_once_wait_for_their_second() -> None:
    clock = FakeClock()
    looks = Looks(clock.time)
    looks.note(LOOKS_AT_ONCE + LOOKS_PER_S)
    assert not looks.are_allowed()
    clock.advance(0.9)
    assert not looks.are_allowed()
    clock.advance(0.2)
    assert looks.are_allowed()


def test_a_pause_allows_no_more_looks_than_those_at_once() -> None:
    clock = FakeClock()
    looks = Looks(clock.time)
    clock.advance(1_000_000)
    assert looks.are_allowed()
    looks.note(LOOKS_AT_ONCE)
    assert not looks.are_allowed()


async def create_namespace(found: Cluster, name: str) -> None:
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await found.registry.create(WriteRequest(resource=NAMESPACE, namespace="", name=name), Draft(document))


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
