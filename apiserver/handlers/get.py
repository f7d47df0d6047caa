"""GET of one object."""

from __future__ import annotations

import orjson

from apiserver.endpoints.api_call import Call, Handler
from apiserver.endpoints.representation import Encoder
from apiserver.endpoints.responses import is_pretty, send_body
from apiserver.handlers.encoders import Encoders
from apiserver.meta.options import read_at_for_get
from apiserver.registry import offload
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.wire.media_types import JSON


def get_handler(registry: Registry, encoders: Encoders) -> Handler:
    """Rows K01-K03: from the cache, at once if any version will do."""

    async def get(call: Call) -> None:
        assert call.resource is not None
        encoder = encoders.of(call)
        info = call.info
        found = await registry.get(call.resource, info.namespace, info.name, read_at_for_get(call.query))
        await send_object(call, encoder, found)

    return get


async def send_object(call: Call, encoder: Encoder, found: StoredObject, status: int = 200) -> None:
    """An object as the whole answer."""
    if encoder.media_type == JSON:  # It is there already.
        body = encoder.object(found)
        if is_pretty(call):
            body = orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)
    else:
        # Others need not wait until a large one is written in another form.
        body = await offload.run(len(found.tail) > offload.LARGE_BYTES, encoder.object, found)
    await send_body(call, status, body, encoder.media_type)
