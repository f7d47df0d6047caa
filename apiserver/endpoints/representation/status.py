"""Encodes a Status: the response of a failure, or of a deletion that left no object. Row P04."""

from __future__ import annotations

from apiserver.endpoints.negotiation import Negotiator
from apiserver.endpoints.representation.factory import document_encoder
from apiserver.endpoints.representation.protobuf import MetaV1Encoders
from apiserver.meta.brand import Brand
from apiserver.meta.errors import NotAcceptable
from apiserver.meta.vocabulary import Document
from apiserver.wire.media_types import JSON, supported_media_types


class StatusEncoder:
    """Encodes a Status in the form that the client accepts."""

    def __init__(self, brand: Brand, meta: MetaV1Encoders, *, has_cbor: bool = False) -> None:
        self._meta = meta
        self._negotiator = Negotiator((), supported_media_types(brand, has_cbor=has_cbor))

    def media_type(self, accept: str) -> str:
        """Returns the media type for an Accept header: JSON if nothing acceptable can be served.

        That a request failed must reach the client in any case.
        """
        try:
            return self._negotiator.form_for(accept).media_type
        except NotAcceptable:
            return JSON

    def encode(self, document: Document, media_type: str) -> bytes:
        """Encodes a Status in another form than JSON."""
        return document_encoder("Status", media_type, self._meta)(document)
