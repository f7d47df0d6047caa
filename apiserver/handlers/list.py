"""GET of a collection."""

from __future__ import annotations

import orjson

from apiserver.brand import Brand
from apiserver.endpoints.call import Call, Handler
from apiserver.endpoints.representation import Encoder
from apiserver.endpoints.responses import is_pretty, send, send_slices
from apiserver.handlers.encoders import Encoders
from apiserver.meta.options import ListOptions
from apiserver.registry.results import ObjectList
from apiserver.registry.store import Registry


def list_handler(registry: Registry, encoders: Encoders, brand: Brand) -> Handler:
    """Rows C01-C10, K04-K25."""

    async def list_(call: Call) -> None:
        assert call.resource is not None
        encoder = encoders.of(call)
        options = ListOptions.for_list(call.query, call.resource.known_fields, brand.meta_group)
        found = await registry.list(call.resource, call.info.namespace, options)
        await send_list(call, encoder, found)

    return list_


async def send_list(call: Call, encoder: Encoder, found: ObjectList) -> None:
    """A collection as the whole answer, in slices if it is large."""
    slices = encoder.list(found)
    if is_pretty(call):
        document = orjson.loads(b"".join(slices))
        await send(call, 200, orjson.dumps(document, option=orjson.OPT_INDENT_2), encoder.media_type)
    else:
        await send_slices(call, slices, encoder.media_type)
