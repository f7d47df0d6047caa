"""Handles DELETE of a collection (rows A06, G16).

It deletes the collection as of one revision, which is read page by page: objects created meanwhile are kept.
They are deleted in the order of the list. An error ends the deletion: objects before the failed one are
deleted, those after it are not, as in Kubernetes.

The response is the list of all deleted objects. A small list is kept until then. A large one is read page by
page again, at that revision, while it is sent: the watch cache, and then the store, keep that revision for
some minutes. So no more than a page is in memory, however large the collection is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final

from apiserver.admission.chain import Operation
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.delete import DeleteOptionsReader
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.list import send_list, send_paged_list
from apiserver.endpoints.handlers.long_selectors import wait_for_turn
from apiserver.endpoints.handlers.write_requests import WriteRequests
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Invalid, NotFound
from apiserver.meta.field_errors import invalid
from apiserver.meta.options import IGNORE_READ_ERROR, DeleteOptions, ListOptions
from apiserver.meta.releases.deviations import Deviations
from apiserver.meta.vocabulary import GroupKind
from apiserver.registry.delete_path import DeleteRequest
from apiserver.registry.results import ObjectList, PagedList
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject

# How many deletions of a collection are committed at the same time.
CONCURRENT_DELETES: Final = 16
# The objects of an answer are kept up to this size. Few collections are larger.
KEPT_BYTES_MAX: Final = 4 * 1024 * 1024


class _DeletedObjects:
    """The objects that have been deleted, for the response."""

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
    """Returns a handler that deletes each object of a list, and responds with that list."""

    async def delete_collection(call: ApiCall) -> None:
        resource, namespace = call.resource, call.info.namespace
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
        answer = _DeletedObjects(KEPT_BYTES_MAX)
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
        user = call.user.name

        async def delete_one(name: str, on_decided: Callable[[], None]) -> None:
            admission = requests.admission(call, Operation.DELETE, name, options)
            try:
                deleted = await registry.delete(
                    DeleteRequest(resource, namespace, name, options, admission, user, on_decided)
                )
            except NotFound:
                return  # Another client has deleted it.
            call.warnings += deleted.warnings

        await in_order(delete_one, [each.key.rpartition("/")[2] for each in objects])

    return delete_collection


async def in_order(
    delete: Callable[[str, Callable[[], None]], Awaitable[None]], names: Iterable[str]
) -> None:
    """Delete objects one after the other, up to the first that may not be deleted, and raise its error.

    delete: (name, on_decided): deletes an object; see `DeleteRequest`. Decisions are awaited one by one, but
    not the store, which commits them together, in their order.
    """
    left, turn = enumerate(names), asyncio.Lock()
    errors: list[tuple[int, Exception]] = []

    async def delete_left() -> None:
        while True:
            await turn.acquire()
            index, name = next(left, (0, ""))
            if errors or not name:
                turn.release()
                return
            is_decided = False

            def on_decided() -> None:
                nonlocal is_decided
                if not is_decided:
                    is_decided = True
                    turn.release()

            try:
                await delete(name, on_decided)
            except Exception as error:
                errors.append((index, error))
            finally:
                on_decided()

    workers = [asyncio.ensure_future(delete_left()) for _ in range(CONCURRENT_DELETES)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
    if errors:
        raise min(errors, key=itemgetter(0))[1]
