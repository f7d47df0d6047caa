"""Chooses the encoder for the negotiated form, and encodes a Status (row P04)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.endpoints.negotiation import Negotiator, ResponseForm
from apiserver.endpoints.representation.encoder import Encoder
from apiserver.endpoints.representation.form_cache import FormCaches
from apiserver.endpoints.representation.json_forms import (
    ItemizedEncoder,
    JsonEncoder,
    PartialEncoder,
    TableEncoder,
    projection,
)
from apiserver.endpoints.representation.protobuf import MetaV1Encoders, ProtobufEncoder
from apiserver.endpoints.representation.transcoding import (
    CborFormat,
    IndentedJsonFormat,
    SerializationFormat,
    TranscodingEncoder,
    YamlFormat,
)
from apiserver.meta.brand import Brand
from apiserver.meta.errors import BadRequest, NotAcceptable
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource
from apiserver.wire.media_types import CBOR, JSON, YAML, supported_media_types

_FORMATS: Final[dict[str, SerializationFormat]] = {YAML: YamlFormat(), CBOR: CborFormat()}
_INDENTED: Final = IndentedJsonFormat()


def document_encoder(kind: str, media_type: str, meta: MetaV1Encoders) -> Callable[[Document], bytes]:
    """Returns a function that encodes documents which are not resources, in another form than JSON.

    kind: Status, or a kind of discovery.
    """
    format_ = _FORMATS.get(media_type)
    return meta.document_encoder(kind) if format_ is None else format_.document


def encoder_for(
    resource: ServedResource,
    form: ResponseForm,
    brand: Brand,
    *,
    now: Callable[[], float],
    caches: FormCaches,
    meta: MetaV1Encoders,
) -> Encoder:
    """Returns the encoder of a resource for a form.

    meta: encodes the protobuf messages that kinds share.
    Raises BadRequest.
    """
    if form.media_type == brand.protobuf_media_type:
        return ProtobufEncoder(resource, brand, form, meta=meta, cache=caches.objects)
    encoder: ItemizedEncoder
    match form.kind:
        case "Table":
            if form.include_object not in ("", "None", "Metadata", "Object"):
                raise BadRequest(
                    "Unable to convert to Table as requested: includeObject: Invalid value: "
                    f"\"{form.include_object}\": must be 'Metadata', 'Object', 'None', or empty"
                )
            encoder = TableEncoder(resource, brand, form, now=now, caches=caches)
        case "PartialObjectMetadata" | "PartialObjectMetadataList":
            encoder = PartialEncoder(resource, brand, form, caches=caches)
        case _:
            encoder = JsonEncoder(resource, brand, projection(form))
    format_ = _INDENTED if form.is_indented else _FORMATS.get(form.media_type)
    if format_ is None:
        return encoder
    return TranscodingEncoder(
        encoder, format_, cache=caches.objects, key=(resource.cache_key, brand.meta_group)
    )


class StatusEncoder:
    """Encodes a Status in the form that the client accepts."""

    def __init__(self, brand: Brand, meta: MetaV1Encoders, *, has_cbor: bool = False) -> None:
        self._meta = meta
        self._negotiator = Negotiator((), supported_media_types(brand, has_cbor=has_cbor))

    def media_type(self, accept: str) -> str:
        """Returns the media type for an Accept header, which is JSON if no acceptable one is supported.

        A failure must reach the client in any case.
        """
        try:
            return self._negotiator.form_for(accept).media_type
        except NotAcceptable:
            return JSON

    def encode(self, document: Document, media_type: str) -> bytes:
        """Encodes a Status in another form than JSON."""
        return document_encoder("Status", media_type, self._meta)(document)
