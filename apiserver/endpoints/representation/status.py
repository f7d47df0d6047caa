"""Answers that are no objects of the resource: failures, and deletions that left nothing. Row P04."""

from __future__ import annotations

from apiserver.brand import Brand
from apiserver.endpoints.negotiation import Negotiator
from apiserver.endpoints.representation.factory import writer
from apiserver.endpoints.representation.protobuf import MetaV1Encoders
from apiserver.errors import NotAcceptable
from apiserver.vocabulary import Document
from apiserver.wire.media_types import JSON, supported_media_types


class StatusEncoder:
    """Writes a Status in the form that the client understands."""

    def __init__(self, brand: Brand, meta: MetaV1Encoders, *, has_cbor: bool = False) -> None:
        self._meta = meta
        self._negotiator = Negotiator((), supported_media_types(brand, has_cbor=has_cbor))

    def media_type(self, accept: str) -> str:
        """JSON also where nothing acceptable can be had: what failed counts more than how it is told."""
        try:
            return self._negotiator.form_for(accept).media_type
        except NotAcceptable:
            return JSON

    def encode(self, document: Document, media_type: str) -> bytes:
        """In another form than JSON."""
        return writer("Status", media_type, self._meta)(document)
