"""Converts the values of a document to those of CEL, where these differ from JSON.

Numbers are doubles, even whole ones; base64 is bytes; times and durations are not strings; lists that are
sets or maps compare without order. Documents without any of these in the parts that are read are used
unchanged.

Source: k8s.io/apiserver, pkg/cel/common/values.go; kube-openapi, pkg/validation/strfmt.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from apiserver.cel.library.timestamps import SECOND, parse_duration_ns
from apiserver.cel.references import References
from apiserver.cel.values import Duration, MapList, SetList, Timestamp
from apiserver.custom_resources.rules.schema_types import resource_properties
from apiserver.custom_resources.schemas.json_schema import JSONSchema
from apiserver.golang.times import InvalidTime, days_since_epoch, parse_time
from apiserver.schema.extensions import Extensions

# Returns the very value that it got where nothing is to be converted.
Adapter: TypeAlias = Callable[[Any], Any]


def adapter(
    schema: JSONSchema, part: References, extensions: Extensions, *, is_root: bool = False
) -> Adapter | None:
    """Returns the converter of a schema's values, where they are read; None if none is needed."""
    if schema.get(extensions.int_or_string):
        return None
    match schema.get("type"):
        case "object":
            is_resource = is_root or schema.get(extensions.embedded_resource)
            properties = resource_properties(schema) if is_resource else (schema.get("properties") or {})
            return _of_object(schema, properties, part, extensions)
        case "array":
            return _of_list(schema, extensions)
        case "number":
            return _number
        case "string":
            return _FORMATS.get(schema.get("format", ""))
    return None


def _of_object(
    schema: JSONSchema, properties: Mapping[str, JSONSchema], part: References, extensions: Extensions
) -> Adapter | None:
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        return _map_adapter(adapter(values, _WHOLE, extensions))
    fields = []
    for name, child in properties.items():
        below = part.of_field(name)
        adapt = None if below is None else adapter(child, below, extensions)
        if adapt is not None or (below is not None and child.get("nullable")):
            fields.append((name, adapt or _same))
    return _struct_adapter(fields) if fields else None


_WHOLE: Final = References(is_whole=True)


def _same(value: Any) -> Any:
    return value


def _struct_adapter(fields: Sequence[tuple[str, Adapter]]) -> Adapter:
    """Converts an object with known fields, in which a null field counts as absent."""

    def adapt(value: Any) -> Any:
        if type(value) is not dict:
            return value
        changed = None
        for name, field in fields:
            if name in value:
                old = value[name]
                new = field(old)
                if new is not old or old is None:
                    if changed is None:
                        changed = dict(value)
                    changed[name] = new
                    if old is None:
                        del changed[name]
        return value if changed is None else changed

    return adapt


def _map_adapter(of_value: Adapter | None) -> Adapter | None:
    if of_value is None:
        return None

    def adapt(value: Any) -> Any:
        return {key: of_value(item) for key, item in value.items()} if type(value) is dict else value

    return adapt


def _of_list(schema: JSONSchema, extensions: Extensions) -> Adapter | None:
    items = schema.get("items")
    of_item = None if not isinstance(items, dict) else adapter(items, _WHOLE, extensions)
    list_type = schema.get(extensions.list_type)
    keys = tuple(schema.get(extensions.list_map_keys, ()))
    if list_type not in {"set", "map"} and of_item is None:
        return None

    def adapt(value: Any) -> Any:
        if type(value) is not list:
            return value
        adapted = value if of_item is None else [of_item(item) for item in value]
        if list_type == "set":
            return SetList(adapted)
        return MapList(adapted, keys) if list_type == "map" else adapted

    return adapt


# ---- scalars. Text that is not in its format stays text: the schema's own validation has refused it.


def _number(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        return value


def _time(value: Any) -> Any:
    try:
        seconds, nanoseconds, offset = parse_time(value.upper())
    except (AttributeError, InvalidTime):
        return value
    return Timestamp(seconds * SECOND + nanoseconds, offset)


def _date(value: Any) -> Any:
    try:
        year, month, day = map(int, value.split("-"))
        return Timestamp(days_since_epoch(year, month, day) * 86_400 * SECOND)
    except (AttributeError, ValueError):
        return value


# The longer names are prefixes: `hours`, `minutes`.
_LONG_UNITS: Final[tuple[tuple[tuple[str, ...], str, int], ...]] = (
    (("ns",), "nano", 1),
    (("us", "\u00b5s"), "micro", 1_000),
    (("ms",), "milli", 1_000_000),
    (("s",), "sec", SECOND),
    (("m",), "min", 60 * SECOND),
    (("h", "hr"), "hour", 3_600 * SECOND),
    (("d",), "day", 86_400 * SECOND),
    (("w",), "week", 7 * 86_400 * SECOND),
)
_WORDS: Final = re.compile(r"(\d+)\s*([A-Za-z\u00b5]+)")


def _duration(value: Any) -> Any:
    if type(value) is not str:
        return value
    if (nanos := parse_duration_ns(value)) is not None:
        return Duration(nanos)
    found = [int(number) * factor for number, unit in _WORDS.findall(value) if (factor := _factor(unit))]
    return Duration(sum(found)) if found else value


def _factor(unit: str) -> int:
    low = unit.lower()
    for short, long, factor in _LONG_UNITS:
        if low in short or low.startswith(long):
            return factor
    return 0


_FORMATS: Final[Mapping[str, Adapter]] = {
    "byte": _bytes,
    "date": _date,
    "date-time": _time,
    "duration": _duration,
}
