"""Objects that configure admission, compiled when the first write after their change asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from apiserver.admission.listers import Lister
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import InternalError
from apiserver.meta.vocabulary import Document
from apiserver.registry.stored_object import DamagedObject, StoredObject

T = TypeVar("T")


class CompiledObjects(Generic[T]):
    """What all objects of a resource are compiled to, ordered by their names.

    An object is compiled once for each of its versions, off the event loop: it may have hundreds of
    expressions. Of one that is damaged what it said before holds. What one says that could never be read
    nobody knows: until it is removed, or can be read, nothing is admitted that might have to ask it.
    """

    def __init__(self, lister: Lister, compile_: Callable[[Document], Sequence[T]], offload: Offload) -> None:
        """compile_: returns what is made of one object. It runs in a thread."""
        self._lister = lister
        self._compile = compile_
        self._offload = offload
        self._known: Sequence[T] = ()
        self._is_current = False
        # How often `known` has changed. It is counted, since each write asks whether it has.
        self._changes = 0
        self._by_object: WeakKeyDictionary[StoredObject, Sequence[T]] = WeakKeyDictionary()
        # By the keys of the objects that there were last.
        self._by_key: Mapping[str, Sequence[T]] = {}
        # Whoever finds it taken waits, instead of compiling the same again.
        self._compiling = asyncio.Lock()
        lister.on_change(self._forget)

    def stamp(self) -> object:
        """Returns a value that changes whenever `known` does."""
        return self._changes

    @property
    def known(self) -> Sequence[T] | None:
        """What there is now; None if that has to be found out by `current`."""
        return self._known if self._is_current else None

    async def current(self) -> Sequence[T]:
        """Returns what the objects are compiled to now, and compiles those that have changed.

        Raises InternalError (one cannot be read, and never could), and the storage's errors.
        """
        known = self.known
        if known is not None:
            return known
        async with self._compiling:
            known = self.known
            return known if known is not None else await self._compile_all()

    async def _compile_all(self) -> Sequence[T]:
        changes = self._changes
        is_complete = self._lister.is_complete
        found: list[T] = []
        by_key: dict[str, Sequence[T]] = {}
        for each in await self._lister.list_with_damaged():
            is_damaged = isinstance(each, DamagedObject)
            compiled = self._by_key.get(each.key) if is_damaged else self._by_object.get(each)
            if compiled is None:
                if is_damaged:  # Why is in the log, and no business of who writes something else.
                    raise InternalError.of(f"admission is configured by what cannot be read: {each.key}")
                compiled = await self._offload.run_begun(SizeClass.HUGE, self._compiled, each)
                self._by_object[each] = compiled
            by_key[each.key] = compiled
            found += compiled
        self._by_key = by_key
        if is_complete and changes == self._changes:  # They have not changed meanwhile.
            self._known, self._is_current = found, True
            self._changes += 1
        return found

    def _forget(self) -> None:
        self._is_current = False
        self._changes += 1

    def _compiled(self, stored: StoredObject) -> Sequence[T]:
        return self._compile(stored.document())
