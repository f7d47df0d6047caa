"""Accept and Content-Type: which form an answer has (rows D01-D03, D06, D07, D14, D17, D18).

Source: k8s.io/apiserver, pkg/endpoints/handlers/negotiation/negotiate.go.
"""

from __future__ import annotations

import contextlib
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.endpoints.negotiation import (
    ACCEPTED_TYPES_MAX,
    FULL,
    INDENTED,
    Negotiator,
    ResponseForm,
    base_type,
    object_targets,
    stream_types,
)
from apiserver.meta.brand import Brand
from apiserver.meta.errors import NotAcceptable
from apiserver.wire.media_types import CBOR, JSON

BRAND: Final = Brand("example.com", "acme")
YAML: Final = "application/yaml"
PROTOBUF: Final = BRAND.protobuf_media_type
AS_TABLE: Final = "as=Table;g=meta.example.com;v=v1"
AS_PARTIAL: Final = "as=PartialObjectMetadata;g=meta.example.com;v=v1"
TABLE: Final = ResponseForm(JSON, "Table")

ACCEPTED: Final = {
    "D01 nothing": ("", FULL),
    "D01 spaces": ("  ", FULL),
    "D01 anything": ("*/*", FULL),
    "anything, in one sign": ("*", FULL),
    "JSON": ("application/json", FULL),
    "types have no case": ("Application/JSON", FULL),
    "a parameter that says nothing here": ("application/json; charset=utf-8", FULL),
    "D02 another type": ("application/yaml", ResponseForm(YAML)),
    "D07 a table": (f"application/json;{AS_TABLE}", TABLE),
    "parameters in any order, with spaces": ("application/json; v=v1 ; g=meta.example.com; as=Table", TABLE),
    "parameters in quotes": ('application/json;as="Table";g="meta.example.com";v="v1"', TABLE),
    "names of parameters have no case": ("application/json;AS=Table;G=meta.example.com;V=v1", TABLE),
    "D12 only metadata": (f"application/json;{AS_PARTIAL}", ResponseForm(JSON, "PartialObjectMetadata")),
    "D12 a list's only metadata": (
        "application/json;as=PartialObjectMetadataList;g=meta.example.com;v=v1",
        ResponseForm(JSON, "PartialObjectMetadataList"),
    ),
    "D14 a table of another type": (f"application/yaml;{AS_TABLE}", ResponseForm(YAML, "Table")),
    "a table of any type": (f"*/*;{AS_TABLE}", TABLE),
    "D06 a type that is not served falls back": (f"{PROTOBUF}, application/json", FULL),
    "D18 as does a form": ("application/json;as=Table;g=meta.example.com;v=v9, application/json", FULL),
    "a form of the version before": (
        "application/json;as=Table;g=meta.example.com;v=v1beta1, application/json",
        ResponseForm(JSON, "Table", "v1beta1"),
    ),
    "without what few look at": (
        "application/json;drop=metadata.managedFields",
        ResponseForm(JSON, drops_managed_fields=True),
    ),
    "what else might be left out is not": ("application/json;drop=spec", FULL),
    "a stream where nothing is streamed": ("application/json;stream=watch", FULL),
    "a stream of anything": ("*/*;stream=watch", FULL),
    "a stream as a table": (f"application/json;stream=watch;{AS_TABLE}", TABLE),
    "YAML has no streams": ("application/yaml;stream=watch, application/json;stream=watch", FULL),
    "parameters without values": ("application/json;stream=;as=;g=;v=;sv=;pretty=", FULL),
    "the version of the kinds that all share": ("application/json;sv=v1", FULL),
    "indented": ("application/json;pretty=1", INDENTED),
    "not indented": ("application/json;pretty=0", FULL),
    "no other type is indented": ("application/yaml;pretty=1", ResponseForm(YAML)),
    "what kubectl sends": (
        (
            f"application/json;{AS_TABLE},"
            "application/json;as=Table;v=v1beta1;g=meta.example.com,application/json"
        ),
        TABLE,
    ),
    "D18 the better one, though it comes later": (
        f"application/json;q=0.5, application/json;{AS_TABLE};q=0.9",
        TABLE,
    ),
    "D18 a fall-back of less quality": (f"application/json;{AS_TABLE};q=1, application/json;q=0.9", TABLE),
    "equally good ones in order": ("application/yaml, application/json", ResponseForm(YAML)),
    "no quality is the best": ("application/yaml;q=0.9, application/json", FULL),
    "of anything, the server's first": ("text/html, */*;q=0.1", FULL),
    "what browsers send": ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", FULL),
    "empty types between commas": (", application/json,", FULL),
}


@pytest.mark.parametrize(("accept", "form"), ACCEPTED.values(), ids=ACCEPTED)
def test_the_negotiated_form(accept: str, form: ResponseForm) -> None:
    assert Negotiator(object_targets(BRAND), (JSON, YAML)).form_for(accept) == form


REFUSED: Final = {
    "any application's, as kube-apiserver has it": "application/*",
    "D17 another type": "text/plain",
    "D06 a type that is not served": PROTOBUF,
    "any text": "text/*",
    "a quality of nothing": "application/json;q=0",
    "a quality that is no number": "application/json;q=high",
    "an unknown form": "application/json;as=Chart;g=meta.example.com;v=v1",
    "a form of another version": "application/json;as=Table;g=meta.example.com;v=v2",
    "a form of another brand": "application/json;as=Table;g=meta.k8s.io;v=v1",
    "a form without group and version": "application/json;as=Table",
    "a group and a version without a form": "application/json;g=meta.example.com;v=v1",
    "a version without a form": "application/json;v=v1",
    "forms have case": "application/json;as=table;g=meta.example.com;v=v1",
    "another stream": "application/json;stream=list",
    "a stream of YAML": "application/yaml;stream=watch",
    "another version of the kinds that all share": "application/json;sv=v2",
    "a word": "json",
    "half a type": "application/",
    "what comes after too many": "text/plain," * ACCEPTED_TYPES_MAX + "application/json",
}


@pytest.mark.parametrize("accept", REFUSED.values(), ids=REFUSED)
def test_what_is_not_acceptable(accept: str) -> None:
    """Row D17: 406, and the message lists what is."""
    with pytest.raises(NotAcceptable) as raised:
        Negotiator(object_targets(BRAND), (JSON, YAML)).form_for(accept)
    assert (raised.value.code, raised.value.reason) == (406, "NotAcceptable")
    assert "application/json, application/yaml" in raised.value.message


TELLINGS: Final = {
    "text/plain": "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml",
    "application/*": "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml",
    "application/json;as=Table": (
        "only the following media types are accepted: application/json, application/yaml"
    ),
    "*/*;as=Table": "only the following media types are accepted: application/json, application/yaml",
}


@pytest.mark.parametrize(("accept", "message"), TELLINGS.items(), ids=TELLINGS)
def test_unknown_types_and_unknown_kinds_have_different_errors(accept: str, message: str) -> None:
    """As recorded: negotiation/cbor-off, negotiation/table-bad-params."""
    with pytest.raises(NotAcceptable) as raised:
        Negotiator(object_targets(BRAND), (JSON, YAML)).form_for(accept)
    assert raised.value.message == message


def test_a_type_without_tables() -> None:
    """Row D14: protobuf has metadata alone, but no tables."""
    negotiator = Negotiator(object_targets(BRAND), (JSON, PROTOBUF), unavailable=((PROTOBUF, "Table"),))
    assert negotiator.form_for(f"{PROTOBUF};{AS_PARTIAL}") == ResponseForm(PROTOBUF, "PartialObjectMetadata")
    assert negotiator.form_for(f"{PROTOBUF};{AS_TABLE}, application/json") == FULL
    with pytest.raises(NotAcceptable, match="only the following"):
        negotiator.form_for(f"{PROTOBUF};{AS_TABLE}")


def test_a_type_for_metadata_alone() -> None:
    """Rows D06, D14: custom resources have no messages in protobuf, but their metadata has."""
    negotiator = Negotiator(object_targets(BRAND), (JSON, PROTOBUF), unavailable=((PROTOBUF, ""),))
    assert negotiator.form_for(f"{PROTOBUF};{AS_PARTIAL}") == ResponseForm(PROTOBUF, "PartialObjectMetadata")
    assert negotiator.form_for(f"{PROTOBUF}, application/json;q=0.5") == FULL
    with pytest.raises(NotAcceptable, match="only the following"):
        negotiator.form_for(PROTOBUF)


ROUTES: Final = {"application/*": FULL, "*/*": FULL, "text/*": None, "text/plain": None}


@pytest.mark.parametrize(("accept", "form"), ROUTES.items(), ids=ROUTES)
def test_without_a_router_ranges_of_types_are_understood(accept: str, form: ResponseForm | None) -> None:
    """Custom resources are served beside Kubernetes' router, and have no error of it."""
    negotiator = Negotiator(object_targets(BRAND), (JSON, YAML), is_routed=False)
    if form is not None:
        assert negotiator.form_for(accept) == form
        return
    with pytest.raises(NotAcceptable, match="only the following media types are accepted: "):
        negotiator.form_for(accept)


TYPES: Final = (JSON, YAML, PROTOBUF, CBOR)
_ROUTED: Final = "406: Not Acceptable\n\nAvailable representations: "
_ALL: Final = ", ".join(TYPES)
_STREAMS: Final = f"application/json;stream=watch, {PROTOBUF};stream=watch, application/cbor-seq"
_ONLY: Final = "only the following media types are accepted: "

# What a watch answers: a form, or the message of its 406; and what a list does.
STREAMED: Final = {
    "a stream": (f"{PROTOBUF};stream=watch", ResponseForm(PROTOBUF), ResponseForm(PROTOBUF)),
    "a type that has one": (PROTOBUF, ResponseForm(PROTOBUF), ResponseForm(PROTOBUF)),
    "CBOR": (CBOR, ResponseForm(CBOR), ResponseForm(CBOR)),
    "a stream is not indented": ("application/json;pretty=1", FULL, INDENTED),
    "a type that has none": (YAML, _ONLY + _STREAMS, ResponseForm(YAML)),
    "a type that has none, before one": (f"{YAML}, {JSON}", _ONLY + _STREAMS, ResponseForm(YAML)),
    "a stream of a type that has none": (f"{YAML};stream=watch", _ONLY + _ALL, _ONLY + _ALL),
    "another stream": (f"{JSON};stream=list", _ONLY + _ALL, _ONLY + _ALL),
    "another type": ("text/html", f"{_ROUTED}{_ALL}, {_STREAMS}", f"{_ROUTED}{_ALL}, {_STREAMS}"),
}


@pytest.mark.parametrize(("accept", "watched", "listed"), STREAMED.values(), ids=STREAMED)
def test_watch_streams(accept: str, watched: ResponseForm | str, listed: ResponseForm | str) -> None:
    """Rows D17, D23: the router names all forms that lists and watches have; a watch those of streams."""
    for is_stream, expected in ((True, watched), (False, listed)):
        negotiator = Negotiator(
            object_targets(BRAND), TYPES, stream_types=stream_types(TYPES), is_stream=is_stream
        )
        if isinstance(expected, ResponseForm):
            assert negotiator.form_for(accept) == expected
            continue
        with pytest.raises(NotAcceptable) as raised:
            negotiator.form_for(accept)
        assert raised.value.message == expected


def test_the_last_media_type_within_the_maximum_is_read() -> None:
    accept = "text/plain," * (ACCEPTED_TYPES_MAX - 1) + "application/json"
    assert Negotiator(()).form_for(accept) == FULL


def test_only_offered_forms_are_chosen() -> None:
    """Discovery and OpenAPI have no tables."""
    with pytest.raises(NotAcceptable):
        Negotiator(()).form_for(f"application/json;{AS_TABLE}")


_clause: Final = st.builds(
    lambda *parts: "".join(parts),
    st.sampled_from(["application/json", "*/*", "*", "text/plain", "", "/", "a/b/c"]),
    st.sampled_from(["", f";{AS_TABLE}", ";as=", ";", ";=", ";g=x"]),
    st.sampled_from(["", ";q=0", ";q=1", ";q=0.5", ";q=nan", ";q=inf", ";q=-1", ";q=1e999"]),
)


@given(st.lists(_clause, max_size=5).map(",".join) | st.text())
def test_any_header_is_accepted_or_not_acceptable(accept: str) -> None:
    negotiator = Negotiator(object_targets(BRAND))
    with contextlib.suppress(NotAcceptable):
        assert negotiator.form_for(accept) in (FULL, TABLE)


CONTENT_TYPES: Final = {
    "application/json": "application/json",
    "application/json; charset=utf-8": "application/json",
    " Application/JSON ;x=y;z": "application/json",
    "": "",
    ";": "",
}


@pytest.mark.parametrize(("header", "media_type"), CONTENT_TYPES.items(), ids=map(repr, CONTENT_TYPES))
def test_the_media_type_of_a_body(header: str, media_type: str) -> None:
    """Row D19: parameters and case do not count."""
    assert base_type(header) == media_type
