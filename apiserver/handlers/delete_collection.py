"""Handles DELETE of a collection. Rows A06, G16.

What is deleted is the collection at one revision, which is read page by page: objects that are created
meanwhile stay. An error ends the deletion, and what was deleted before it remains deleted, as in Kubernetes.

The answer is the list of all of them, as they were. A small one is kept until then. A large one is read page
by page once more, at that revision, while it is sent: the watch cache, and then the store, remember it for
some minutes after all is gone. So no more than a page is in memory for it, however large the collection is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Final

from apiserver.admission.chain import Operation
from apiserver.brand import Brand
from apiserver.deviations import Deviations
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.errors import Invalid, NotFound
from apiserver.field_errors import invalid
from apiserver.handlers.delete import DeleteOptionsReader
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.list import send_list, send_paged_list
from apiserver.handlers.long_selectors import wait_for_turn
from apiserver.handlers.write_requests import WriteRequests
from apiserver.meta.options import IGNORE_READ_ERROR, DeleteOptions, ListOptions
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.results import ObjectList, PagedList
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import GroupKind

# How many objects of a collection are deleted at the same time.
CONCURRENT_DELETES: Final = 16
# The objects of an answer are kept up to this size. Few collections are larger.
KEPT_BYTES_MAX: Final = 4 * 1024 * 1024


class _Answer:
    """What has been deleted, for the answer."""

    def __init__(self, kept_bytes_max: int) -> None:
        self._room = kept_bytes_max
        # None once they are too large.
        self.kept: list[StoredObject] | None = []
        self.count = 0
        self.head = ObjectList([], 0)

    def add(self, page: ObjectList) -> None:
        self.head = page._replace(objects=[])
        self.count += len(page.objects)
        self._room -= sum(len(each.tail) for each in page.objects)
        if self._room < 0:
            self.kept = None
        elif self.kept is not None:
            self.kept += page.objects


def delete_collection_handler(
    registry: Registry,
    encoders: Encoders,
    options_reader: DeleteOptionsReader,
    brand: Brand,
    requests: WriteRequests,
    deviations: Deviations,
) -> Handler:
    """Returns a handler that deletes each object of a list, and answers with that list."""

    async def delete_collection(call: ApiCall) -> None:
        resource, namespace = call.resource, call.info.namespace
        assert resource is not None
        encoder = encoders.for_call(call)
        await wait_for_turn(call.query)
        listed = ListOptions.for_list(
            call.query,
            resource.known_fields,
            brand.meta_group,
            limits_cached_lists=deviations.limits_cached_lists,
        )
        options = await options_reader.read(call)
        if options.ignores_read_error:
            why = "is not allowed with DELETECOLLECTION, try again after removing the option"
            kind = GroupKind(brand.meta_group, "DeleteOptions")
            raise Invalid(kind, "", [invalid(IGNORE_READ_ERROR, True, why)])
        answer = _Answer(KEPT_BYTES_MAX)
        async for page in registry.pages(resource, namespace, listed):
            await delete_page(call, options, page.objects)
            answer.add(page)
        if answer.kept is not None:
            await send_list(call, encoder, answer.head._replace(objects=answer.kept))
            return
        again = registry.at_revision(listed, answer.head.revision)

        async def pages() -> AsyncIterator[Sequence[StoredObject]]:
            async for page in registry.pages(resource, namespace, again):
                yield page.objects

        await send_paged_list(call, encoder, PagedList(answer.head, answer.count, pages))

    async def delete_page(call: ApiCall, options: DeleteOptions, objects: Sequence[StoredObject]) -> None:
        resource, namespace = call.resource, call.info.namespace
        assert resource is not None
        assert call.user is not None
        user = call.user.name
        names = iter([each.key.rpartition("/")[2] for each in objects])

        async def delete_remaining() -> None:
            for name in names:
                admission = requests.admission(call, Operation.DELETE, name, options)
                try:
                    deleted = await registry.delete(
                        DeleteRequest(resource, namespace, name, options, admission, user)
                    )
                except NotFound:
                    continue  # Another client has deleted it.
                call.warnings += deleted.warnings

        await _run_all(delete_remaining() for _ in range(min(CONCURRENT_DELETES, len(objects))))

    return delete_collection


async def _run_all(workers: Iterable[Coroutine[None, None, None]]) -> None:
    """Run until all workers are done, or the first fails; then cancel the others and raise its error."""
    tasks = [asyncio.ensure_future(worker) for worker in workers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
