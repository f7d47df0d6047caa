"""GET of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import orjson

from apiserver.brand import Brand
from apiserver.endpoints.api_call import Call, Handler
from apiserver.endpoints.representation import Encoder
from apiserver.endpoints.responses import (
    ResponseBody,
    accepts_gzip,
    gzipped,
    is_pretty,
    send_body,
    send_slices,
)
from apiserver.errors import Expired
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.shared_lists import SharedLists
from apiserver.meta.options import ListOptions
from apiserver.registry import offload
from apiserver.registry.results import ObjectList
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.store import Registry
from apiserver.wire.media_types import JSON
from storage.interface import Consistency, ReadAt

ATTEMPTS_MAX: Final = 5


def list_handler(registry: Registry, encoders: Encoders, brand: Brand) -> Handler:
    """Rows C01-C10, K04-K25."""
    cache, shared = registry.cache, SharedLists()

    async def list_(call: Call) -> None:
        resource, namespace = call.resource, call.info.namespace
        assert resource is not None
        encoder = encoders.of(call)
        options = ListOptions.for_list(call.query, resource.known_fields, brand.meta_group)
        # Row J10. None, and what kube-apiserver takes for none, is no bound.
        async with asyncio.timeout(options.timeout_s or None):
            is_exact = options.at.consistency is Consistency.EXACT or bool(options.continue_token)
            if is_exact or _is_indented(call, encoder) or not cache.serves_snapshots:
                await send_list(call, encoder, await registry.list(resource, namespace, options))
            else:
                body = await shared_body(resource, namespace, options, encoder, accepts_gzip(call))
                await send_slices(call, body, encoder.media_type)

    async def shared_body(
        resource: ServedResource, namespace: str, options: ListOptions, encoder: Encoder, gzip: bool
    ) -> ResponseBody:
        """All that is asked for at one revision is the same, whoever asks."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            at = ReadAt.exactly(await cache.revision_at(options.at))
            try:
                return await shared.body(
                    (encoder, gzip, namespace, options.labels, options.fields, options.limit, at.revision),
                    partial(registry.list, resource, namespace, replace(options, at=at)),
                    partial(_ListSlices, encoder, gzip),
                )
            except Expired:
                # The store forgets faster than we list; whoever asked for no version need not know of any.
                if attempt == ATTEMPTS_MAX:
                    raise
        raise AssertionError("the last attempt returns or raises")

    return list_


async def send_list(call: Call, encoder: Encoder, found: ObjectList) -> None:
    """A collection as the whole answer, in slices if it is large."""
    if _is_indented(call, encoder):
        document = orjson.loads(b"".join(encoder.list(found)))
        await send_body(call, 200, orjson.dumps(document, option=orjson.OPT_INDENT_2), encoder.media_type)
    else:
        await send_slices(call, _ListSlices(encoder, accepts_gzip(call), found), encoder.media_type)


class _ListSlices:
    """A list in a form. In JSON its objects are there already; in others one object may take long."""

    def __init__(self, encoder: Encoder, gzip: bool, found: ObjectList) -> None:
        self._encoder, self._gzip, self._found = encoder, gzip, found
        self.takes_long = encoder.media_type != JSON and any(
            len(each.tail) > offload.LARGE_BYTES for each in found.objects
        )

    def __iter__(self) -> Iterator[bytes]:
        slices = self._encoder.list(self._found)
        return gzipped(slices) if self._gzip else slices


def _is_indented(call: Call, encoder: Encoder) -> bool:
    return encoder.media_type == JSON and is_pretty(call)
