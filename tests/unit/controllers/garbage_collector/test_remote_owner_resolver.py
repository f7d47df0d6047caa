"""Owners that other servers have: these are asked what has become of them, and asked again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest

from apiserver.controllers.garbage_collector.remote_owner_resolver import NamedOwner
from apiserver.controllers.garbage_collector.rules import OwnerState
from apiserver.meta.vocabulary import Document
from apiserver.storage.embedded import EmbeddedStore
from tests.support.eventually import eventually
from tests.unit.controllers.garbage_collector.collecting import Cluster, Name, cluster, owners, reference

NAMESPACE: Final = "n"
KIND: Final = ("ext.example.com/v1", "Widget")


class Others:
    """The other servers. states: of owners, by uid; those that are not there cannot be asked for."""

    def __init__(self, **states: OwnerState) -> None:
        self.states = states
        self.has_it = True
        self.asked: list[NamedOwner] = []
        self._callbacks: list[Callable[[], None]] = []

    def has_kind(self, api_version: str, kind: str) -> bool:
        return self.has_it and (api_version, kind) == KIND

    def call_on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def change(self) -> None:
        for callback in self._callbacks:
            callback()

    async def owner_state(self, owner: NamedOwner) -> OwnerState:
        self.asked.append(owner)
        return self.states.get(owner.uid, OwnerState.UNKNOWN)


def name(text: str) -> Name:
    return Name(NAMESPACE, text)


def widget(uid: str, **other: Any) -> Document:
    return {"apiVersion": KIND[0], "kind": KIND[1], "name": "w", "uid": uid, **other}


@pytest.fixture
def others() -> Others:
    return Others(absent=OwnerState.ABSENT, solid=OwnerState.SOLID, waiting=OwnerState.WAITING)


@pytest.fixture
async def found(store: EmbeddedStore, others: Others) -> AsyncIterator[Cluster]:
    async with cluster(store, others=others, ask_again_s=0.01) as found:
        yield found


async def names_left(found: Cluster) -> list[str]:
    return sorted(each.name for each in await found.left([NAMESPACE]))


async def until_left(found: Cluster, *names: str) -> None:
    async def check() -> bool:
        return await names_left(found) == sorted(names)

    are_left: bool = await eventually(check)
    assert are_left


async def test_dependents_go_with_owners_that_are_gone_or_wait_for_them(
    found: Cluster, others: Others
) -> None:
    for uid in ("absent", "solid", "waiting", "unreachable"):
        await found.create(name(uid), widget(uid))
    await until_left(found, "solid", "unreachable")
    assert NamedOwner(*KIND, NAMESPACE, "w", "solid") in others.asked


async def test_they_are_asked_again(found: Cluster, others: Others) -> None:
    await found.create(name("a"), widget("unreachable"))
    await found.create(name("b"), widget("solid"))
    await eventually(lambda: len(others.asked) > 10)
    assert await names_left(found) == ["a", "b"]
    others.states |= {"unreachable": OwnerState.ABSENT, "solid": OwnerState.ABSENT}
    await until_left(found)


async def test_an_owner_elsewhere_keeps_what_other_owners_leave(found: Cluster) -> None:
    gone = reference(name("gone"), "gone")
    await found.create(name("a"), widget("solid"), gone)
    await found.create(name("b"), widget("unreachable"), gone)

    async def is_released() -> bool:
        return owners((await found.left([NAMESPACE]))[name("a")]) == ["w"]

    released: bool = await eventually(is_released)
    assert released
    assert owners((await found.left([NAMESPACE]))[name("b")]) == ["w", "gone"], "nobody knows"


async def test_kinds_that_are_served_later(found: Cluster, others: Others) -> None:
    others.has_it = False
    await found.create(name("a"), widget("absent"))
    await found.rest()
    assert others.asked == []
    assert await names_left(found) == ["a"]
    others.has_it = True
    others.change()
    await until_left(found)


async def test_those_that_were_there_before_the_collector_started(
    store: EmbeddedStore, others: Others
) -> None:
    async with cluster(store, starts=False) as before:
        await before.create(name("a"), widget("absent"))
        await before.create(name("b"), widget("solid"))
    async with cluster(store, others=others) as found:
        await until_left(found, "b")


async def test_who_has_no_dependents_any_more_is_not_asked_for(found: Cluster, others: Others) -> None:
    await found.create(name("a"), widget("solid"))
    await eventually(lambda: others.asked)
    await found.delete(name("a"))
    await eventually(lambda: not len(found.builder.remote_owners.queue))
