"""From what was negotiated to the encoder that makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.brand import Brand
from apiserver.endpoints.negotiation import Form
from apiserver.endpoints.representation.encoder import Encoder
from apiserver.endpoints.representation.form_cache import FormCaches
from apiserver.endpoints.representation.json_forms import (
    JsonEncoder,
    PartialEncoder,
    TableEncoder,
    TypeDef,
    whole,
    without_managed_fields,
)
from apiserver.endpoints.representation.protobuf import MetaV1Encoders, ProtobufEncoder
from apiserver.endpoints.representation.transcoding import (
    CborFormat,
    SerializationFormat,
    TranscodingEncoder,
    YamlFormat,
)
from apiserver.errors import BadRequest
from apiserver.registry.served_resource import ServedResource
from apiserver.vocabulary import Document
from apiserver.wire.media_types import CBOR, YAML

_WRITINGS: Final[dict[str, SerializationFormat]] = {YAML: YamlFormat(), CBOR: CborFormat()}


def writer(kind: str, media_type: str, meta: MetaV1Encoders) -> Callable[[Document], bytes]:
    """What writes documents of a kind that is no resource in another form than JSON.

    kind: a Status, or what discovery answers.
    """
    writing = _WRITINGS.get(media_type)
    return meta.sealing(kind) if writing is None else writing.document


def encoder_for(
    resource: ServedResource,
    form: Form,
    brand: Brand,
    *,
    include_object: str,
    now: Callable[[], float],
    kept: FormCaches,
    meta: MetaV1Encoders,
) -> Encoder:
    """include_object: what rows of a table carry of their objects: None, Metadata, Object or "".

    kept: where what is made of objects is kept. meta: the messages that kinds share.
    Raises BadRequest.
    """
    shown = without_managed_fields if form.drops_managed_fields else whole
    if form.media_type == brand.protobuf_media_type:
        return ProtobufEncoder(resource, brand, form.kind, form.version, meta=meta, kept=kept, shown=shown)
    shape: TypeDef
    match form.kind:
        case "Table":
            if include_object not in ("", "None", "Metadata", "Object"):
                raise BadRequest(
                    "Unable to convert to Table as requested: includeObject: Invalid value: "
                    f"\"{include_object}\": must be 'Metadata', 'Object', 'None', or empty"
                )
            shape = TableEncoder(
                resource, brand, form.version, include_object or "Metadata", now=now, kept=kept, shown=shown
            )
        case "PartialObjectMetadata" | "PartialObjectMetadataList":
            shape = PartialEncoder(resource, brand, form.kind, form.version, kept=kept, shown=shown)
        case _:
            shape = JsonEncoder(resource, brand, shown)
    writing = _WRITINGS.get(form.media_type)
    if writing is None:
        return shape
    return TranscodingEncoder(shape, writing, kept=kept, key=(resource.token, brand.meta_group))
