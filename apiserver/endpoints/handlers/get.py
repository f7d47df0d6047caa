"""Handles GET of one object."""

from __future__ import annotations

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.responses import send_object
from apiserver.meta.options import read_at_for_get
from apiserver.registry.object_access import ObjectAccess


def get_handler(registry: ObjectAccess, encoders: Encoders) -> Handler:
    """Returns a handler that sends a cached object, at once if any version will do (rows K01-K03)."""

    async def get(call: ApiCall) -> None:
        encoder = encoders.for_call(call)
        info = call.info
        found = await registry.get(call.resource, info.namespace, info.name, read_at_for_get(call.query))
        await send_object(call, encoder, found)

    return get
