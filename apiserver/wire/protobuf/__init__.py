"""Kubernetes' protobuf: an envelope, and in it a message of the object's kind. Rows D03-D05.

Messages are read to the documents that the same client would have sent as JSON, and written from those that
it would have got: what is empty because nobody set it is left out, which the Go types tell apart from what
was set to nothing (`schema.go_fields`). Both ways are compiled from the schema once. Source:
k8s.io/apimachinery, pkg/runtime/serializer/protobuf; the encoding itself:
https://protobuf.dev/programming-guides/encoding/.
"""

from apiserver.wire.protobuf.decoder import DEPTH_MAX, FIELDS_MAX, Decoder
from apiserver.wire.protobuf.encoder import Encoder, NotEncodable
from apiserver.wire.protobuf.envelope import MAGIC, Envelope, event_frame, open_envelope, seal
from apiserver.wire.protobuf.wire_format import InvalidProtobuf

__all__ = [
    "DEPTH_MAX",
    "FIELDS_MAX",
    "MAGIC",
    "Decoder",
    "Encoder",
    "Envelope",
    "InvalidProtobuf",
    "NotEncodable",
    "event_frame",
    "open_envelope",
    "seal",
]
