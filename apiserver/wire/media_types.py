"""The media types of documents in requests and responses."""

from __future__ import annotations

from typing import Final

from apiserver.meta.brand import Brand

JSON: Final = "application/json"
YAML: Final = "application/yaml"
CBOR: Final = "application/cbor"
# The media type of watch streams in CBOR.
CBOR_SEQUENCE: Final = "application/cbor-seq"

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
# Server-side apply, in either of the two forms of its body.
APPLY_YAML: Final = "application/apply-patch+yaml"
APPLY_CBOR: Final = "application/apply-patch+cbor"


def supported_media_types(
    brand: Brand, *, has_protobuf: bool = True, has_cbor: bool = False
) -> tuple[str, ...]:
    """Returns the media types of documents, the preferred one first.

    has_protobuf: False for kinds without a protobuf encoding. has_cbor: whether its feature gate is on.
    """
    types = [JSON, YAML]
    if has_protobuf:
        types.append(brand.protobuf_media_type)
    if has_cbor:
        types.append(CBOR)
    return tuple(types)
