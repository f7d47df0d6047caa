"""How values of documents are read by rules. Rows R26 to R30."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from apiserver.cel.references import References
from apiserver.cel.values import Duration, MapList, SetList, Timestamp
from apiserver.custom_resources.rules.value_adapters import adapter
from apiserver.schema.extensions import Extensions

Schema = dict[str, Any]
WHOLE: Final = References(is_whole=True)
SECOND: Final = 1_000_000_000


def adapted(schema: Schema, value: Any, part: References = WHOLE) -> Any:
    adapt = adapter(schema, part, Extensions("kubernetes"))
    return value if adapt is None else adapt(value)


def text(format_: str) -> Schema:
    return {"type": "string", "format": format_}


VALUES: Mapping[str, tuple[Schema, Any, Any]] = {
    "a whole number is a double": ({"type": "number"}, 2, 2.0),
    "true is no number": ({"type": "number"}, True, True),
    "an integer stays one": ({"type": "integer"}, 2, 2),
    "an int or string is what it is": ({"type": "number", "x-kubernetes-int-or-string": True}, 2, 2),
    "base64": (text("byte"), "aGk=", b"hi"),
    "no base64": (text("byte"), "a", "a"),
    "a date": (text("date"), "1970-01-02", Timestamp(86_400 * SECOND)),
    "a date in the year 0": (text("date"), "0000-01-01", Timestamp(-62_167_219_200 * SECOND)),
    "no date": (text("date"), "1970-13-02", "1970-13-02"),
    "a time": (text("date-time"), "1970-01-01T00:00:01Z", Timestamp(SECOND)),
    "a time before 1970": (text("date-time"), "1969-12-31T23:59:59.5Z", Timestamp(-SECOND // 2)),
    "a time in small letters": (text("date-time"), "1970-01-01t00:00:01z", Timestamp(SECOND)),
    "a time with nanoseconds": (text("date-time"), "1970-01-01T00:00:00.000000001Z", Timestamp(1)),
    "a time somewhere else": (text("date-time"), "1970-01-01T01:00:00+01:00", Timestamp(0)),
    "a time in the year 0": (text("date-time"), "0000-01-01T00:00:00Z", Timestamp(-62_167_219_200 * SECOND)),
    "no time": (text("date-time"), "1970-01-01T25:00:00Z", "1970-01-01T25:00:00Z"),
    "a duration": (text("duration"), "1h30m", Duration(5_400 * SECOND)),
    "a negative duration": (text("duration"), "-1.5s", Duration(-SECOND * 3 // 2)),
    "a duration in small units": (text("duration"), "1ms2us3ns", Duration(1_002_003)),
    "a duration of nothing": (text("duration"), "0", Duration(0)),
    "a duration in words": (text("duration"), "2 days 3 hours", Duration(51 * 3_600 * SECOND)),
    "no duration": (text("duration"), "soon", "soon"),
    "null": (text("duration"), None, None),
    "another format": (text("email"), "a@b", "a@b"),
}


@pytest.mark.parametrize(("schema", "value", "expected"), VALUES.values(), ids=VALUES)
def test_a_value(schema: Schema, value: Any, expected: Any) -> None:
    found = adapted(schema, value)
    assert (type(found), found) == (type(expected), expected)


STRING: Final = {"type": "string"}
NUMBER: Final = {"type": "number"}


def test_lists_that_are_sets_or_maps() -> None:
    found = adapted({"type": "array", "x-kubernetes-list-type": "set", "items": NUMBER}, [1, 2])
    assert isinstance(found, SetList)
    assert list(map(type, found)) == [float, float]
    by_key = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": STRING}},
    }
    found = adapted(by_key, [{"k": "a"}])
    assert isinstance(found, MapList)
    assert found.keys == ("k",)


def test_what_is_in_objects_and_maps() -> None:
    schema = {
        "type": "object",
        "properties": {"m": {"type": "object", "additionalProperties": NUMBER}, "s": STRING},
    }
    document: dict[str, Any] = {"m": {"a": 1}, "s": "x", "unknown": 1}
    found = adapted(schema, document)
    assert type(found["m"]["a"]) is float
    assert found["unknown"] == 1
    assert document == {"m": {"a": 1}, "s": "x", "unknown": 1}
    assert type(document["m"]["a"]) is int


def test_documents_that_need_nothing_are_not_copied() -> None:
    plain = {"type": "object", "properties": {"s": STRING, "l": {"type": "array", "items": STRING}}}
    assert adapter(plain, WHOLE, Extensions("kubernetes")) is None
    document = {"n": 1.5}
    assert adapted({"type": "object", "properties": {"n": NUMBER}}, document) is document


def test_what_is_not_read_is_not_converted() -> None:
    schema = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}}
    part = References(fields={"a": References(is_whole=True)})
    found = adapted(schema, {"a": 1, "b": 1}, part)
    assert (type(found["a"]), type(found["b"])) == (float, int)
