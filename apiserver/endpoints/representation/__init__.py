"""Objects, lists and watch events in the form that was asked for, as bytes. Rows C01-C09, D01-D16, D22-D25.

An `Encoder` does it for one resource and one form: full objects, rows of a table or metadata alone, in JSON,
YAML, protobuf or CBOR. In plain JSON nothing is parsed: see `registry.stored_object`. What is made with
effort of an object is kept beside it, within one budget (`kept`), and what is made of many for a list beside
the first of them, within another (`runs`). Lists are slices, made one after another while they are sent; an
empty slice is a moment at which others may have their turn. Everything here is pure; who needs the time
passes it in.
"""

from apiserver.endpoints.representation.encoder import Encoder
from apiserver.endpoints.representation.factory import encoder_for, writer
from apiserver.endpoints.representation.form_cache import FormCaches
from apiserver.endpoints.representation.lists import BATCH_OBJECTS, SLICE_BYTES
from apiserver.endpoints.representation.protobuf import MetaV1Encoders
from apiserver.endpoints.representation.status import StatusEncoder

__all__ = [
    "BATCH_OBJECTS",
    "SLICE_BYTES",
    "Encoder",
    "FormCaches",
    "MetaV1Encoders",
    "StatusEncoder",
    "encoder_for",
    "writer",
]
