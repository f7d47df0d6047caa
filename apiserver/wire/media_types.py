"""The media types of documents, and how each is read."""

from __future__ import annotations

from typing import Final

from apiserver.brand import Brand

JSON: Final = "application/json"
YAML: Final = "application/yaml"
CBOR: Final = "application/cbor"
# Of watches in CBOR.
CBOR_SEQUENCE: Final = "application/cbor-seq"


def media_types(brand: Brand, *, has_protobuf: bool = True, has_cbor: bool = False) -> tuple[str, ...]:
    """What documents can be written in and read from, the preferred type first.

    has_protobuf: not all kinds have a form in it. has_cbor: while its feature gate is on.
    """
    types = [JSON, YAML]
    if has_protobuf:
        types.append(brand.protobuf_media_type)
    if has_cbor:
        types.append(CBOR)
    return tuple(types)
