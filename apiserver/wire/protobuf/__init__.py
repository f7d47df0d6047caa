"""Kubernetes' protobuf: an envelope with a message of the object's kind in it. Rows D03-D05.

Messages are decoded to the documents that the client would have sent as JSON, and encoded from those that it
would have received. Unknown fields, of later releases, are skipped, as in all of protobuf; `fieldValidation`
does not apply to them. Known fields with another wire type are refused. Unset zero values are omitted; the Go
types determine which can be set (`schema.go_fields`). Decoders and encoders are compiled from the schema
once. Source: k8s.io/apimachinery, pkg/runtime/serializer/protobuf; the encoding itself:
https://protobuf.dev/programming-guides/encoding/.
"""

from apiserver.wire.protobuf.decoder import DEPTH_MAX, FIELDS_MAX, MessageDecoder
from apiserver.wire.protobuf.encoder import MessageEncoder, NotEncodable
from apiserver.wire.protobuf.envelope import MAGIC, Envelope, event_frame, open_envelope, seal
from apiserver.wire.protobuf.wire_format import GROUP_DEPTH_MAX, InvalidProtobuf

__all__ = [
    "DEPTH_MAX",
    "FIELDS_MAX",
    "GROUP_DEPTH_MAX",
    "MAGIC",
    "Envelope",
    "InvalidProtobuf",
    "MessageDecoder",
    "MessageEncoder",
    "NotEncodable",
    "event_frame",
    "open_envelope",
    "seal",
]
