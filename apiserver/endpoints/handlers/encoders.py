"""Chooses the encoder of a call's response."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.negotiation import (
    FULL,
    INDENTED,
    Negotiator,
    ResponseForm,
    object_targets,
    stream_types,
)
from apiserver.endpoints.representation import Encoder, FormCaches, MetaV1Encoders, encoder_for
from apiserver.meta.brand import Brand
from apiserver.meta.options import first
from apiserver.registry.served_resource import ServedResource
from apiserver.wire.media_types import JSON, supported_media_types


class Encoders:
    """Chooses encoders by what clients accept, and keeps them with their resource, as they have no state."""

    def __init__(
        self, brand: Brand, clock: Callable[[], float], meta: MetaV1Encoders, *, has_cbor: bool = False
    ) -> None:
        """meta: the messages that kinds share in protobuf."""
        self._brand = brand
        self._clock = clock
        self._meta = meta
        self._caches = FormCaches(lock=Lock())  # Large objects are encoded in a thread.
        self._has_cbor = has_cbor
        self._negotiators: dict[tuple[bool, ...], Negotiator] = {}

    def for_call(self, call: ApiCall, kind: ServedResource | None = None) -> Encoder:
        """Returns the encoder of a call's response. kind: of the response, if not the resource's own.

        Raises NotAcceptable, BadRequest.
        """
        resource = kind or call.resource
        accept = call.accept
        streams = call.info.verb == "watch"
        # What most clients ask for is negotiated at once.
        is_usual = accept in ("", "*/*", JSON)
        form = FULL if is_usual else self._negotiator(call, resource).form_for(accept)
        if form.media_type == JSON and not streams and call.is_pretty:
            form = INDENTED if form is FULL else form._replace(is_indented=True)
        if form.kind == "Table" and (include_object := first(call.query, "includeObject")):
            form = form._replace(include_object=include_object)
        encoder: Encoder | None = resource.derived.get((self, form))
        if encoder is None:
            encoder = self._new_encoder(resource, form)
        if call.audit is not None and call.audit.wants_response and not streams:
            omits = form.drops_managed_fields or call.audit.omits_managed_fields
            call.audit_encoder = self._recorder(resource, form, omits)
        return encoder

    def _recorder(self, resource: ServedResource, form: ResponseForm, omits: bool) -> Encoder:
        """Returns the encoder of the recorded response, which is compact JSON in the same form.

        omits: whether managedFields are left out.
        """
        form = form._replace(media_type=JSON, is_indented=False, drops_managed_fields=omits)
        form = FULL if form == FULL else form
        encoder: Encoder | None = resource.derived.get((self, form))
        return self._new_encoder(resource, form) if encoder is None else encoder

    def _new_encoder(self, resource: ServedResource, form: ResponseForm) -> Encoder:
        # Kept on the resource, encoders go when a custom resource goes.
        encoder = resource.derived[self, form] = encoder_for(
            resource, form, self._brand, now=self._clock, caches=self._caches, meta=self._meta
        )
        return encoder

    def _negotiator(self, call: ApiCall, resource: ServedResource) -> Negotiator:
        """Returns the negotiator for the forms that resources like this one have. resource: that of the
        response.
        """
        is_stream, lists = call.info.verb == "watch", call.info.verb in ("list", "watch")
        is_routed = not call.resource.is_custom
        likeness = (resource.has_protobuf, resource.has_table, is_routed, lists, is_stream)
        negotiator = self._negotiators.get(likeness)
        if negotiator is None:
            targets = object_targets(self._brand)
            types = supported_media_types(self._brand, has_cbor=self._has_cbor)
            protobuf = self._brand.protobuf_media_type
            kinds = ("Table",) if resource.has_protobuf else ("Table", "")
            negotiator = self._negotiators[likeness] = Negotiator(
                [each for each in targets if resource.has_table or each.kind != "Table"],
                types,
                unavailable=[(protobuf, kind) for kind in kinds],
                is_routed=is_routed,
                stream_types=stream_types(types) if lists else (),
                is_stream=is_stream,
            )
        return negotiator
