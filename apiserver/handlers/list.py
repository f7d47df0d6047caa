"""GET of a collection."""

from __future__ import annotations

from dataclasses import replace

import orjson

from apiserver.brand import Brand
from apiserver.endpoints.call import Call, Handler
from apiserver.endpoints.representation import Encoder
from apiserver.endpoints.responses import is_pretty, send, send_slices
from apiserver.handlers.encoders import Encoders
from apiserver.handlers.shared_lists import SharedLists
from apiserver.meta.options import ListOptions
from apiserver.registry.results import ObjectList
from apiserver.registry.store import Registry
from storage.interface import Consistency, ReadAt


def list_handler(registry: Registry, encoders: Encoders, brand: Brand) -> Handler:
    """Rows C01-C10, K04-K25."""
    cache, shared = registry.cache, SharedLists()

    async def list_(call: Call) -> None:
        resource, namespace = call.resource, call.info.namespace
        assert resource is not None
        encoder = encoders.of(call)
        options = ListOptions.for_list(call.query, resource.known_fields, brand.meta_group)
        is_exact = options.at.consistency is Consistency.EXACT or bool(options.continue_token)
        if is_exact or is_pretty(call) or not cache.serves_snapshots:
            await send_list(call, encoder, await registry.list(resource, namespace, options))
            return
        # All that is asked for at one revision is the same, whoever asks.
        at = ReadAt.exactly(await cache.revision_at(options.at))
        body = await shared.body(
            (encoder, namespace, options.labels, options.fields, options.limit, at.revision),
            lambda: registry.list(resource, namespace, replace(options, at=at)),
            encoder.list,
        )
        await send_slices(call, body, encoder.media_type)

    return list_


async def send_list(call: Call, encoder: Encoder, found: ObjectList) -> None:
    """A collection as the whole answer, in slices if it is large."""
    slices = encoder.list(found)
    if is_pretty(call):
        document = orjson.loads(b"".join(slices))
        await send(call, 200, orjson.dumps(document, option=orjson.OPT_INDENT_2), encoder.media_type)
    else:
        await send_slices(call, slices, encoder.media_type)
