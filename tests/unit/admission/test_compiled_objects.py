"""Objects that configure admission are compiled once for each of their versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from apiserver.admission.compiled_objects import CompiledObjects
from apiserver.admission.listers import Lister
from apiserver.load.offload import Offload
from apiserver.meta.errors import InternalError
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import DamagedObject, StoredObject, encode
from apiserver.storage.interface import Stored
from tests.unit.endpoints.handlers.calls import CONFIG_MAPS


class Listed(Lister):
    """Objects that are there without being stored."""

    is_complete = True

    def __init__(self, *names: str) -> None:
        self.objects: list[StoredObject] = []
        self.changed: list[Callable[[], None]] = []
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        value = encode({"metadata": {"name": name}}, CONFIG_MAPS.head)
        self.objects.append(StoredObject.written(name, CONFIG_MAPS.head, value, len(self.objects) + 1))
        for changed in self.changed:
            changed()

    def on_change(self, changed: Callable[[], None]) -> None:
        self.changed.append(changed)

    def damage(self, name: str) -> None:
        place = next(place for place, each in enumerate(self.objects) if each.key == name)
        self.objects[place] = DamagedObject.undecodable(Stored(name, b"{", 1, 2), "it ends")
        for changed in self.changed:
            changed()

    async def list_with_damaged(self) -> Sequence[StoredObject]:
        return list(self.objects)


async def test_many_writes_after_a_change_compile_it_once(offload: Offload) -> None:
    """An object may have hundreds of expressions, and hundreds of writes may wait for them."""
    listed, compiled = Listed("a", "b"), []

    def compile_(document: Document) -> Sequence[str]:
        compiled.append(document["metadata"]["name"])
        return [document["metadata"]["name"].upper()]

    objects = CompiledObjects(listed, compile_, offload)
    for expected in (["A", "B"], ["A", "B", "C"]):
        assert objects.known is None
        changes = objects.changes
        found = await asyncio.gather(*(objects.current() for _ in range(10)))
        assert found == [expected] * 10
        assert objects.known == expected
        assert objects.changes != changes
        changes = objects.changes
        listed.add("c")
        assert objects.changes != changes
    assert compiled == ["a", "b", "c"]


async def test_what_changes_while_it_is_compiled_is_not_known(offload: Offload) -> None:
    listed = Listed("a")

    def compile_(document: Document) -> Sequence[str]:
        listed.changed[0]()
        return [document["metadata"]["name"]]

    objects = CompiledObjects(listed, compile_, offload)
    assert await objects.current() == ["a"]
    assert objects.known is None


async def test_what_an_incomplete_cache_has_is_not_known(offload: Offload) -> None:
    listed = Listed("a")
    listed.is_complete = False
    objects = CompiledObjects(listed, lambda document: [document["metadata"]["name"]], offload)
    assert await objects.current() == ["a"]
    assert objects.known is None


async def test_who_waits_for_one_that_is_cancelled_compiles(offload: Offload) -> None:
    objects = CompiledObjects(Listed("a"), lambda document: [document["metadata"]["name"]], offload)
    first, second = (asyncio.ensure_future(objects.current()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == ["a"]


async def test_one_that_cannot_be_read_is_not_as_if_it_were_not_there(offload: Offload) -> None:
    """Else whatever it refuses would be admitted. What it said when it could be read holds."""

    def compile_(document: Document) -> Sequence[str]:
        return [document["metadata"]["name"]]

    listed = Listed("a", "b")
    objects = CompiledObjects(listed, compile_, offload)
    assert await objects.current() == ["a", "b"]
    listed.damage("a")
    assert await objects.current() == ["a", "b"]
    assert await objects.current() == ["a", "b"]
    after_restart = CompiledObjects(listed, compile_, offload)
    with pytest.raises(InternalError, match="cannot read the admission configuration: a"):
        await after_restart.current()
    assert after_restart.known is None
    del listed.objects[0]
    assert await after_restart.current() == ["b"]
