"""Objects that configure admission, compiled on the first write after they change."""

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
    """The compiled objects of a resource, ordered by name.

    An object is compiled once for each of its versions, off the event loop: it may have hundreds of
    expressions. A damaged object keeps its last readable content. While an object that was never readable
    exists, writes that it might concern are refused.

    changes: how often `known` has changed.
    """

    def __init__(self, lister: Lister, compile_: Callable[[Document], Sequence[T]], offload: Offload) -> None:
        """compile_: returns the compiled form of one object, and runs in a thread."""
        self._lister = lister
        self._compile = compile_
        self._offload = offload
        self._known: Sequence[T] = ()
        self._is_current = False
        self.changes = 0
        self._by_object: WeakKeyDictionary[StoredObject, Sequence[T]] = WeakKeyDictionary()
        # By the keys of the objects that there were last.
        self._by_key: Mapping[str, Sequence[T]] = {}
        # A task that finds it locked waits, instead of compiling the same objects again.
        self._compiling = asyncio.Lock()
        lister.on_change(self._forget)

    @property
    def known(self) -> Sequence[T] | None:
        """The current compiled objects; None if `current` has to compile them first."""
        return self._known if self._is_current else None

    async def current(self) -> Sequence[T]:
        """Returns the compiled form of the current objects, compiling those that have changed.

        Raises InternalError (an object was never readable), and the storage's errors.
        """
        known = self.known
        if known is not None:
            return known
        async with self._compiling:
            known = self.known
            return known if known is not None else await self._compile_all()

    async def _compile_all(self) -> Sequence[T]:
        changes = self.changes
        is_complete = self._lister.is_complete
        found: list[T] = []
        by_key: dict[str, Sequence[T]] = {}
        for each in await self._lister.list_with_damaged():
            is_damaged = isinstance(each, DamagedObject)
            compiled = self._by_key.get(each.key) if is_damaged else self._by_object.get(each)
            if compiled is None:
                if is_damaged:  # The reason is in the log; clients that write other objects need not see it.
                    raise InternalError.of(f"cannot read the admission configuration: {each.key}")
                compiled = await self._offload.run_begun(SizeClass.HUGE, self._compiled, each)
                self._by_object[each] = compiled
            by_key[each.key] = compiled
            found += compiled
        self._by_key = by_key
        if is_complete and changes == self.changes:  # They have not changed meanwhile.
            self._known, self._is_current = found, True
            self.changes += 1
        return found

    def _forget(self) -> None:
        self._is_current = False
        self.changes += 1

    def _compiled(self, stored: StoredObject) -> Sequence[T]:
        return self._compile(stored.document())
