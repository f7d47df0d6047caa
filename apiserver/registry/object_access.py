"""The interface of registries, as handlers of single objects use it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.results import DeletionResult, WriteResult
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import ProposedObject, Transform, WriteRequest
from apiserver.storage.interface import MOST_RECENT, ReadAt


class ObjectAccess(Protocol):
    """Reads and writes single objects: those of the store, or those that functions make.

    See `store.Registry` for what each method does and raises.
    """

    async def get(
        self, resource: ServedResource, namespace: str, name: str, at: ReadAt = MOST_RECENT
    ) -> StoredObject: ...

    def create(self, request: WriteRequest, proposed: ProposedObject) -> Coroutine[Any, Any, WriteResult]: ...

    def update(self, request: WriteRequest, transform: Transform) -> Coroutine[Any, Any, WriteResult]: ...

    def delete(self, request: DeleteRequest) -> Coroutine[Any, Any, DeletionResult]: ...

    def delete_unreadable(self, request: DeleteRequest) -> Coroutine[Any, Any, Sequence[str]]: ...
