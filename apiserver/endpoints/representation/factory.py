"""Chooses the encoder for the form that was negotiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.endpoints.negotiation import ResponseForm
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
from apiserver.meta.errors import BadRequest
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource
from apiserver.wire.media_types import CBOR, YAML

_FORMATS: Final[dict[str, SerializationFormat]] = {YAML: YamlFormat(), CBOR: CborFormat()}
_INDENTED: Final = IndentedJsonFormat()


def document_encoder(kind: str, media_type: str, meta: MetaV1Encoders) -> Callable[[Document], bytes]:
    """Returns a function that encodes documents which are not resources, in another form than JSON.

    kind: Status, or one of discovery's.
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
