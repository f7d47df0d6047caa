"""Which encoder makes a call's answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from aiohttp import hdrs

from apiserver.brand import Brand
from apiserver.endpoints.call import Call
from apiserver.endpoints.negotiation import Form, Negotiator, object_targets
from apiserver.endpoints.representation import Encoder, encoder_for
from apiserver.meta.options import first
from apiserver.registry.served_resource import ServedResource


class Encoders:
    """Chooses by the Accept header; keeps encoders, which have no state of their own."""

    def __init__(self, brand: Brand, clock: Callable[[], float]) -> None:
        self._brand = brand
        self._clock = clock
        self._negotiator = Negotiator(object_targets(brand))
        self._encoder = lru_cache(maxsize=1024)(self._make)

    def of(self, call: Call) -> Encoder:
        """Raises NotAcceptable, BadRequest."""
        assert call.resource is not None
        form = self._negotiator.form_for(call.request.headers.get(hdrs.ACCEPT, ""))
        include_object = first(call.query, "includeObject") if form.kind == "Table" else ""
        return self._encoder(call.resource, form, include_object)

    def _make(self, resource: ServedResource, form: Form, include_object: str) -> Encoder:
        return encoder_for(resource, form, self._brand, include_object=include_object, now=self._clock)
