"""Chooses the encoder of a call's answer."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from aiohttp import hdrs

from apiserver.brand import Brand
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.negotiation import Form, Negotiator, object_targets
from apiserver.endpoints.representation import Encoder, FormCaches, MetaV1Encoders, encoder_for
from apiserver.meta.options import first
from apiserver.registry.served_resource import ServedResource
from apiserver.wire.media_types import JSON, YAML, supported_media_types


class Encoders:
    """Chooses encoders by the Accept header. They are kept with their resource: they have no state."""

    def __init__(
        self, brand: Brand, clock: Callable[[], float], meta: MetaV1Encoders, *, has_cbor: bool = False
    ) -> None:
        """meta: the messages that kinds share in protobuf."""
        self._brand = brand
        self._clock = clock
        self._meta = meta
        self._caches = FormCaches(lock=Lock())  # Large objects are encoded in a thread.
        self._negotiators = {
            (has_protobuf, streams): _negotiator(
                brand, has_protobuf=has_protobuf, has_cbor=has_cbor, streams=streams
            )
            for has_protobuf in (False, True)
            for streams in (False, True)
        }

    def for_call(self, call: ApiCall, kind: ServedResource | None = None) -> Encoder:
        """Returns the encoder of a call's answer. kind: of the answer, if not the resource's own.

        Raises NotAcceptable, BadRequest.
        """
        resource = kind or call.resource
        assert resource is not None
        accept = call.request.headers.get(hdrs.ACCEPT, "")
        streams = call.info.verb == "watch"
        # Whether a kind has messages takes a while to find out, the first time.
        has_protobuf = accept not in ("", "*/*", JSON) and resource.has_protobuf
        form = self._negotiators[has_protobuf, streams].form_for(accept)
        include_object = first(call.query, "includeObject") if form.kind == "Table" else ""
        # Kept on the resource, encoders go when a custom resource goes.
        key = (self, form, include_object)
        encoder: Encoder | None = resource.derived.get(key)
        if encoder is None:
            encoder = resource.derived[key] = self._encoder(resource, form, include_object)
        return encoder

    def _encoder(self, resource: ServedResource, form: Form, include_object: str) -> Encoder:
        return encoder_for(
            resource,
            form,
            self._brand,
            include_object=include_object,
            now=self._clock,
            caches=self._caches,
            meta=self._meta,
        )


def _negotiator(brand: Brand, *, has_protobuf: bool, has_cbor: bool, streams: bool) -> Negotiator:
    types = supported_media_types(brand, has_protobuf=has_protobuf, has_cbor=has_cbor)
    if streams:
        types = tuple(each for each in types if each != YAML)  # Its documents cannot follow each other.
    return Negotiator(
        object_targets(brand), types, without_tables=(brand.protobuf_media_type,), streams=streams
    )
