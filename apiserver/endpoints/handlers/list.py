"""Handles GET of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

from aiohttp import hdrs

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.compression import BodySlices, accepts_gzip
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.long_selectors import wait_for_turn
from apiserver.endpoints.handlers.shared_lists import SharedLists
from apiserver.endpoints.representation import Encoder
from apiserver.endpoints.response_bodies import PagedBody, ResponseBody, UnsharedBody
from apiserver.endpoints.responses import record_list, send_slices
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Expired
from apiserver.meta.options import ListOptions
from apiserver.meta.releases.deviations import Deviations
from apiserver.registry.results import ObjectList, PagedList
from apiserver.registry.store import Registry
from apiserver.storage.interface import Consistency, ReadAt
from apiserver.storage.watch_cache import WatchCache

R = TypeVar("R")

# How often a list is read whose revision the store compacts before it has been.
ATTEMPTS_MAX: Final = 5


def list_handler(registry: Registry, encoders: Encoders, brand: Brand, deviations: Deviations) -> Handler:
    """Returns a handler that sends the objects of a collection (rows C01-C10, K04-K25)."""
    cache, shared = registry.cache, SharedLists()

    async def list_(call: ApiCall) -> None:
        encoder = encoders.for_call(call)
        await wait_for_turn(call.query)
        options = ListOptions.for_list(
            call.query,
            call.resource.known_fields,
            brand.meta_group,
            limits_cached_lists=deviations.limits_cached_lists,
        )
        if not options.timeout_s:
            await respond(call, encoder, options)
            return
        async with asyncio.timeout(options.timeout_s):  # row J10
            await respond(call, encoder, options)

    async def respond(call: ApiCall, encoder: Encoder, options: ListOptions) -> None:
        resource, namespace = call.resource, call.info.namespace
        gzip = _accepts_gzip(call)
        is_exact = options.at.consistency is Consistency.EXACT or bool(options.continue_token)
        # A list that is recorded is encoded for the record, too.
        if is_exact or not cache.serves_snapshots or call.audit_encoder is not None:
            await send_list(call, encoder, await registry.list(resource, namespace, options))
            return
        prefix = registry.prefix_of(resource)

        def body_at(revision: int) -> Awaitable[ResponseBody]:
            # Selectors themselves are hashed by a call each time.
            selected = options.labels.requirements, options.fields.requirements
            exact = options._replace(at=ReadAt(Consistency.EXACT, revision))
            return shared.body(
                (encoder, gzip, namespace, selected, options.limit, revision),
                partial(registry.list, resource, namespace, exact),
                partial(_list_body, encoder, gzip),
            )

        # Shared by calls for the same list, at one revision.
        body = await read_newest(cache, options.at, prefix, body_at)
        await send_slices(call, body, encoder.media_type)

    return list_


async def read_newest(
    cache: WatchCache[Any], at: ReadAt, prefix: str, read: Callable[[int], Awaitable[R]]
) -> R:
    """Reads a list at the newest revision with `read`, again if the store has compacted it meanwhile.

    The client has named no revision, so a newer one will do. The list is counted once, however often it is
    read. prefix: of the keys. Raises as `read`, and as `WatchCache.get`.
    """
    revision, is_late = await cache.revision_for_list(at, prefix)

    async def read_until_there() -> R:
        there = revision
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return await read(there)
            except Expired:
                there = await cache.revision_at(at)
        return await read(there)

    return await (cache.count_late_list(prefix, read_until_there()) if is_late else read_until_there())


async def send_list(call: ApiCall, encoder: Encoder, found: ObjectList) -> None:
    """Send a collection as the whole response, in slices if it is large."""
    if call.audit_encoder is not None:
        await record_list(call, UnsharedBody(_list_body(call.audit_encoder, False, found)))
    await send_slices(call, UnsharedBody(_list_body(encoder, _accepts_gzip(call), found)), encoder.media_type)


async def send_paged_list(call: ApiCall, encoder: Encoder, listed: PagedList) -> None:
    """Send a collection as the whole response, uncompressed, with one page of it in memory at a time."""
    if call.audit_encoder is not None:
        await record_list(call, PagedBody(call.audit_encoder, listed))
    await send_slices(call, PagedBody(encoder, listed), encoder.media_type)


def _list_body(encoder: Encoder, gzip: bool, found: ObjectList) -> BodySlices:
    return BodySlices(encoder.list(found), gzip=gzip)


def _accepts_gzip(call: ApiCall) -> bool:
    return accepts_gzip(call.request.headers.get(hdrs.ACCEPT_ENCODING))
