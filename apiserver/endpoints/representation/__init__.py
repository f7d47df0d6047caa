"""Encodes objects, lists and watch events in the form that the client requested.

An `Encoder` serves one resource in one form: full objects, table rows or metadata alone, in JSON, YAML,
protobuf or CBOR. Plain JSON is copied without parsing: see `registry.stored_object`. Rows C01-C09, D01-D16,
D22-D25.

    factory           chooses the encoder for the negotiated form; encodes a Status
    json_forms        JSON: full objects, tables, PartialObjectMetadata
    transcoding       the same forms, rewritten in YAML, CBOR or indented JSON
    protobuf          protobuf: full objects and PartialObjectMetadata
    table_cells       the cells of a table row, and how long they stay valid
    lists             the parts of a list and its slices
    list_segments     parts of lists that are encoded once and reused
    form_cache        bounds the cached forms of objects and segments
    discovery_schema  the schema of aggregated discovery

A list is an iterator of slices, made while it is sent. An empty slice sends nothing: it is a point at which
the event loop may serve other requests. A `WorkAhead` precedes the slice of a large object, which should be
made in a thread (`load.offload`). Everything here is pure; the clock is an argument.
"""

from apiserver.endpoints.representation.encoder import Encoder
from apiserver.endpoints.representation.factory import StatusEncoder, document_encoder, encoder_for
from apiserver.endpoints.representation.form_cache import FormCaches
from apiserver.endpoints.representation.lists import (
    BATCH_OBJECTS,
    SLICE_BYTES,
    ListTotals,
    Slice,
    Slicer,
    WorkAhead,
    data_and_work_ahead,
)
from apiserver.endpoints.representation.protobuf import MetaV1Encoders

__all__ = [
    "BATCH_OBJECTS",
    "SLICE_BYTES",
    "Encoder",
    "FormCaches",
    "ListTotals",
    "MetaV1Encoders",
    "Slice",
    "Slicer",
    "StatusEncoder",
    "WorkAhead",
    "data_and_work_ahead",
    "document_encoder",
    "encoder_for",
]
