"""Random graphs of owners: what is left after some deletions is what a model says, and nothing else.

The model knows nothing of queues, orders or finalizers: an object goes if all of its owners are gone.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import WITHIN_S
from tests.unit.controllers.garbage_collector.collecting import Cluster, Name, cluster, owners, reference

# Places of objects: two namespaces, and none.
PLACES: Final = ("one", "two", "")
OBJECTS_MAX: Final = 9
# Whatever no object has.
NO_UID: Final = "no such uid"


class Ownership(NamedTuple):
    """Object `dependent` names object `owner`, by numbers. has_uid: by its uid, and not by another."""

    dependent: int
    owner: int
    blocks: bool
    has_uid: bool


@dataclass(frozen=True)
class Plan:
    """A graph, and which of its objects are deleted, with their policies, one after the other or at once.

    places: of the objects, by number. held: those with a finalizer that somebody else removes at the end.
    """

    places: tuple[str, ...]
    ownerships: tuple[Ownership, ...]
    held: frozenset[int]
    deletions: tuple[tuple[int, str], ...]


def is_misplaced(places: Sequence[str], each: Ownership) -> bool:
    """Such an owner cannot be looked up: nobody can tell whether it is there."""
    return not places[each.dependent] and bool(places[each.owner])


def without_endless_waits(places: Sequence[str], ownerships: Sequence[Ownership]) -> Iterator[Ownership]:
    """Whoever has an owner that cannot be looked up is never deleted, and must not hold up another owner."""
    lasting = {each.dependent for each in ownerships if is_misplaced(places, each)}
    for each in ownerships:
        yield each._replace(blocks=each.blocks and each.dependent not in lasting)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    places = draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=OBJECTS_MAX))
    numbers = st.integers(0, len(places) - 1)
    mostly = st.sampled_from([True, True, True, True, False])
    ownership = st.builds(Ownership, numbers, numbers, st.booleans(), mostly)
    ownerships = draw(st.lists(ownership, max_size=2 * OBJECTS_MAX, unique_by=lambda each: each[:2]))
    policies = st.sampled_from(["Background", "Foreground", "Orphan"])
    return Plan(
        tuple(places),
        tuple(without_endless_waits(places, ownerships)),
        draw(st.frozensets(numbers, max_size=2)),
        tuple(draw(st.lists(st.tuples(numbers, policies), max_size=4))),
    )


@dataclass
class Model:
    """What must be left. owners: by number of each object that is left, the objects that it names."""

    plan: Plan
    owners: dict[int, list[Ownership]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.owners = {number: [] for number in range(len(self.plan.places))}
        for each in self.plan.ownerships:
            self.owners[each.dependent].append(each)

    def is_misplaced(self, each: Ownership) -> bool:
        return is_misplaced(self.plan.places, each)

    def is_there(self, each: Ownership) -> bool:
        owner, dependent = self.plan.places[each.owner], self.plan.places[each.dependent]
        return each.has_uid and each.owner in self.owners and owner in ("", dependent)

    def settle(self) -> None:
        """Take away what all owners of are gone, then the references to those."""
        while gone := [
            number
            for number, named in self.owners.items()
            if named and not any(self.is_misplaced(each) or self.is_there(each) for each in named)
        ]:
            for number in gone:
                del self.owners[number]
        for number, named in self.owners.items():
            if not any(map(self.is_misplaced, named)):
                self.owners[number] = [each for each in named if self.is_there(each)]

    def delete(self, number: int, policy: str) -> None:
        if number not in self.owners:
            return
        if policy == "Orphan":
            for dependent, named in self.owners.items():
                self.owners[dependent] = [
                    each for each in named if each.owner != number or not self.is_there(each)
                ]
        del self.owners[number]
        self.settle()


_examples: Final = itertools.count(1)


class Trial:
    """One plan on a server. Its names are its own, so that trials can share a server."""

    def __init__(self, found: Cluster, plan: Plan) -> None:
        self.found, self.plan = found, plan
        self.prefix = f"x{next(_examples)}-"
        self.names = [
            Name(place and f"{self.prefix}{place}", f"{self.prefix}{number}")
            for number, place in enumerate(plan.places)
        ]

    async def make(self) -> None:
        """Create all objects, then say who owns whom: cycles cannot be made otherwise."""
        finalizers = [
            ["example.com/f"] if number in self.plan.held else [] for number in range(len(self.names))
        ]
        uids = [
            await self.found.create(name, finalizers=held)
            for name, held in zip(self.names, finalizers, strict=True)
        ]
        for number, name in enumerate(self.names):
            references = [
                reference(
                    self.names[each.owner], uids[each.owner] if each.has_uid else NO_UID, blocks=each.blocks
                )
                for each in self.plan.ownerships
                if each.dependent == number
            ]
            if references:
                await self.found.change(name, ownerReferences=references)

    async def delete(self, number: int, policy: str) -> None:
        await self.found.delete(self.names[number], policy)

    async def release_held(self) -> None:
        for number in self.plan.held:
            await self.found.change(self.names[number], finalizers=[])

    async def left(self) -> dict[int, Sequence[str]]:
        """Returns the numbers of the objects that are left, each with those of the objects it names."""
        left = await self.found.left([f"{self.prefix}{place}" for place in PLACES if place], self.prefix)
        assert not any("deletionTimestamp" in meta for meta in left.values())
        return {
            self.names.index(name): sorted(each.removeprefix(self.prefix) for each in owners(meta))
            for name, meta in left.items()
        }


def expected(model: Model) -> dict[int, Sequence[str]]:
    return {number: sorted(str(each.owner) for each in named) for number, named in model.owners.items()}


async def one_after_the_other(found: Cluster, plan: Plan) -> None:
    """After each deletion exactly what the model says is left."""
    trial, model = Trial(found, plan), Model(plan)
    await trial.make()
    await trial.release_held()
    await found.rest()
    model.settle()
    assert await trial.left() == expected(model)
    for number, policy in plan.deletions:
        await trial.delete(number, policy)
        await found.rest()
        model.delete(number, policy)
        assert await trial.left() == expected(model)


async def all_at_once(found: Cluster, plan: Plan) -> None:
    """Nothing is left whose owners are all gone, and nothing is gone that had to stay, in whatever order."""
    trial, model = Trial(found, plan), Model(plan)
    await trial.make()
    deletions = [each for each in plan.deletions if each[1] != "Orphan"]
    await asyncio.gather(*(trial.delete(*each) for each in deletions))
    await trial.release_held()
    await found.rest()
    model.settle()
    for number, policy in deletions:
        model.delete(number, policy)
    assert await trial.left() == expected(model)


@contextmanager
def running(path: Path) -> Iterator[tuple[asyncio.Runner, Cluster]]:
    """A server that lives on between the examples of one test."""
    with asyncio.Runner() as runner:
        store = runner.run(EmbeddedStore.open(path, durable=False))
        context = cluster(store)
        found = runner.run(context.__aenter__())
        try:
            yield runner, found
        finally:
            runner.run(context.__aexit__(None, None, None))
            runner.run(store.close())


TRIALS: Final = {"one after the other": one_after_the_other, "all at once": all_at_once}
EXAMPLES: Final = [
    pytest.param(15, id="few"),
    pytest.param(500, id="many", marks=(pytest.mark.slow, pytest.mark.longest)),
]


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS)
def test_what_is_left_of_random_graphs(tmp_path: Path, trial: object, examples: int) -> None:
    assert callable(trial)
    with running(tmp_path / "store") as (runner, found):

        @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
        @given(plans())
        def try_plan(plan: Plan) -> None:
            runner.run(asyncio.wait_for(partial(trial, found, plan)(), WITHIN_S))

        try_plan()
